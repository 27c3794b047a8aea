/*
 * The test clock. If the installation was made with installation.test_clock, jobs fall due by this clock. The clock is
 * one row in MySQL (table test_clock). Each session sets its NOW() from the row before each statement (mysql/db.h), and
 * each process sets its reference clock from the row. So MySQL and all processes agree which jobs are due.
 *
 *             freeze                            advance: the clock is frozen at one instant after the other
 *   runs ─────────▶ frozen ──▶ …
 *        ◀─────────
 *         release: runs from the time at which it was frozen
 *
 * The clock never goes back. Leases, heartbeats, attempts in hands and timeouts use the server's own clock: their
 * statements call SYSDATE(), because SET timestamp does not change it.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"
#include "dispatch/watch.h"
#include "store/store.h"

#define DT_TEST_CLOCK_END_MS                                                                                           \
    INT64_C(2147383647000) /* a day before the last value that servers accept for SET timestamp, in 2038 */

struct dt_test_clock {
    struct dt_test_time time;
    int64_t version;            /* changes with every change of the clock; 0: the installation has no test clock */
    int64_t real_ms;            /* the server's clock when the row was read */
    int64_t asked_us, heard_us; /* monotonic times before and after the row was read */
};
static inline int64_t dt_test_clock_now_ms(const struct dt_test_clock *clock)
{
    return clock->time.frozen_ms ? clock->time.frozen_ms : clock->real_ms + clock->time.ahead_ms;
}

dt_status dt_store_test_clock(dt_store *store, struct dt_test_clock *out, struct dt_error *err);
/* Checks that the configuration and the installation both have a test clock, or both have none. INVALID: they
 * differ. */
dt_status dt_store_check_test_clock(dt_store *store, struct dt_error *err);

/* Freezes the clock. UNSUPPORTED: there is no test clock. BUSY (also of the functions below): another request is
 * changing the clock. */
dt_status dt_store_test_clock_freeze(dt_store *store, struct dt_test_clock *out, struct dt_error *err);
/* Lets the clock run from the time at which it was frozen. UNSUPPORTED: there is no test clock. */
dt_status dt_store_test_clock_release(dt_store *store, struct dt_test_clock *out, struct dt_error *err);

struct dt_clock_walk {
    int64_t by_ms;   /* in: how far the clock must advance */
    int64_t wait_ms; /* in: longest real time to wait at each instant for the results of attempts that were dispatched
                      * there */
    unsigned steps;  /* out: number of instants at which the clock stopped */
    bool whole;      /* out: at each instant, every job that fell due was dispatched */
    int64_t left_ms; /* out: part of by_ms that was not advanced */
};
/* Advances the clock from each instant at which something falls due to the next such instant. At each instant it waits
 * until the leaders have dispatched the due jobs, and until their results have arrived or wait_ms has passed. So
 * retries, deadlines and fires that follow from these jobs also fall due in order. A call ends after some fifteen
 * seconds; the caller can then advance the remaining left_ms by another call. If the clock was running before, it runs
 * again afterwards. If the process is killed, the clock stays frozen. UNKNOWN: the advance failed after it had moved
 * the clock. INVALID: the end is after DT_TEST_CLOCK_END_MS. UNSUPPORTED: there is no test clock. */
dt_status dt_store_test_clock_advance(dt_store *store, struct dt_clock_walk *ask, struct dt_test_clock *out,
                                      struct dt_error *err);

/* A follower sets the reference clock of a process by the test clock. It is a listener of the watcher
 * (dispatch/watch.h): when the clock changes, it reads the row, updates the reference clock and calls `changed`. */

typedef struct dt_clock_follower dt_clock_follower;
struct dt_clock_follower_env {
    const struct dt_config *config;
    dt_refclock *ref;
    dt_watcher *watcher;
    void *arg;
    void (*changed)(void *arg); /* called on the watcher's thread, after the reference clock was updated; may be NULL */
};
/* Adds a follower to the watcher. Members of env are borrowed. The watcher must be stopped before
 * dt_clock_follower_free. *out is NULL if the configuration has no test clock, and after a failure. */
dt_status dt_clock_follower_new(const struct dt_clock_follower_env *env, dt_clock_follower **out, struct dt_error *err);
/* Accepts NULL. */
void dt_clock_follower_free(dt_clock_follower *follower);
