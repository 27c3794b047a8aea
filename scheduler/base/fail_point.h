/*
 * Named places where a test makes the program die, stop, wait or fail, between two effects that a crash can separate.
 *
 *   DT_FAIL_POINT("claim.committed");                      at the n-th pass: crash, stop, delay:MS
 *   DT_FAIL_POINT_STATUS("index.write", status, err);      also error[:STATUS]; evaluated only if status is DT_OK
 *   if (… || DT_FAIL_FORCED("lead.forced"))                force: true at the chosen passes
 *
 * Compiled in with the CMake option DT_FAIL_POINTS (presets sanitize, faults, tsan, coverage). In all other builds the
 * macros are empty. The environment chooses what happens:
 *
 *   DUETIME_FAIL="claim.committed=crash@3,settle.commit=delay:500@1-"
 *
 *   rule    POINT=ACTION[@PASSES], separated by commas; a point may have several rules, tried in order
 *   ACTION  crash (SIGKILL to itself) | stop (SIGSTOP to itself) | delay:MS | error[:STATUS] | force
 *           STATUS is a name of base/status.h; without it, UNAVAILABLE
 *   PASSES  N the N-th alone | N- from the N-th on | N-M; without it, all. Counted in this process, from 1
 *
 * A name is area.place, of lower-case letters, digits and `_`. Places with the same name share its count. If a rule
 * cannot be read, names an unknown point, or has an action that its place cannot carry out, the program ends at its
 * start. Every hit is logged before it acts. Thread-safe after dt_fail_points_set.
 */
#pragma once

#include "status.h"

#ifdef DT_FAIL_POINTS

enum dt_fail_kind { DT_FAIL_KIND_PASS, DT_FAIL_KIND_STATUS, DT_FAIL_KIND_FORCED };

struct dt_fail_point {
    const char *name;
    enum dt_fail_kind kind;
};

/* Declares an entry for each place, in a section of its own. So the linker collects the points of the program. */
#define DT_FAIL_POINT_DECLARE(name_, kind_)                                                                            \
    static const struct dt_fail_point dt_fail_here = {name_, kind_};                                                   \
    static const struct dt_fail_point *const dt_fail_listed __attribute__((used, section("dt_fail_points"))) =         \
        &dt_fail_here

#define DT_FAIL_POINT(name)                                                                                            \
    do {                                                                                                               \
        DT_FAIL_POINT_DECLARE(name, DT_FAIL_KIND_PASS);                                                                \
        dt_fail_point_pass(&dt_fail_here);                                                                             \
    } while (0)

#define DT_FAIL_POINT_STATUS(name, status, err)                                                                        \
    do {                                                                                                               \
        DT_FAIL_POINT_DECLARE(name, DT_FAIL_KIND_STATUS);                                                              \
        if ((status) == DT_OK)                                                                                         \
            (status) = dt_fail_point_status(&dt_fail_here, err);                                                       \
    } while (0)

#define DT_FAIL_FORCED(name)                                                                                           \
    (__extension__({                                                                                                   \
        DT_FAIL_POINT_DECLARE(name, DT_FAIL_KIND_FORCED);                                                              \
        dt_fail_point_forced(&dt_fail_here);                                                                           \
    }))

/* Handles `--fail-points` (prints the list), and reads DUETIME_FAIL. Returns -1 if main continues, or an exit code. */
#define DT_FAIL_POINTS_MAIN(argc, argv) dt_fail_points_main(argc, argv)

int dt_fail_points_main(int argc, char **argv);
/* Replaces the rules, and resets the counts. NULL or "": no rules. If the text is wrong, returns INVALID, err names the
 * rule and the fault, and no rules are set. No other thread may be in a fail point. */
dt_status dt_fail_points_set(const char *text, struct dt_error *err);
/* Prints the points of this program, one name per line, sorted, with their actions other than crash, stop and delay. */
void dt_fail_points_print(FILE *out);

void dt_fail_point_pass(const struct dt_fail_point *point);
dt_status dt_fail_point_status(const struct dt_fail_point *point, struct dt_error *err);
bool dt_fail_point_forced(const struct dt_fail_point *point);

#else

#define DT_FAIL_POINT(name)                     ((void)0)
#define DT_FAIL_POINT_STATUS(name, status, err) ((void)0)
#define DT_FAIL_FORCED(name)                    (false)
#define DT_FAIL_POINTS_MAIN(argc, argv)         ((void)(argc), (void)(argv), -1)

#endif
