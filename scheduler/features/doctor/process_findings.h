/*
 * Findings of one process that others cannot see (table `process_findings`): each process writes its own when they
 * change, GET /v1/doctor reads them.
 *
 * The finding `assertion` is the last word of a process that died at one (base/assert.h). Its row has the negative
 * number of the process, so that no other thread of the process replaces it, and counts for an hour. The finding
 * `chore-stuck` is the heartbeat's, because the chore that puts the other findings may be the one that is stuck.
 */
#ifndef DT_DOCTOR_PROCESS_FINDINGS_H
#define DT_DOCTOR_PROCESS_FINDINGS_H

#include "store/store.h"

#define DT_PROCESS_FINDINGS_MAX 100 /* are read, of all processes together */

struct dt_process_finding {
    struct dt_str finding, subject, detail;
    struct dt_str process; /* the name of one that sees it; this and the next are not written */
    int64_t found_at_ms;
};

/* Puts these in place of what the process saw before, except chore-stuck, in one transaction. Rows of processes
 * that are gone for an hour go, too. */
DT_MUST_CHECK dt_status dt_store_put_findings(dt_store *store, int64_t process, const struct dt_process_finding *v,
                                              size_t n, struct dt_error *err);
/* Puts the finding that a tick of this chore has not returned for so long; chore NULL: removes it. */
DT_MUST_CHECK dt_status dt_store_put_stuck(dt_store *store, int64_t process, const char *chore, int64_t seconds,
                                           struct dt_error *err);
/* Reads what processes that live see, and deaths, each finding and subject once; outputs lie in the arena. */
DT_MUST_CHECK dt_status dt_store_findings(dt_store *store, struct dt_arena *arena, struct dt_process_finding **out,
                                          size_t *n, struct dt_error *err);

/* Stores a death, on a connection of its own with timeouts of two seconds. where, what, shard: as the hook of
 * base/assert.h is given them. A failure is logged. */
void dt_store_put_death(const struct dt_config *config, int64_t process, const char *where, const char *what,
                        int shard);

struct dt_deaths {
    int64_t wait_ms; /* no dispatcher takes the shard over for so long; 0 = one may */
    char where[100]; /* the assertion, if wait_ms is not 0 */
};
/* A shard is left alone for a minute after the last of three deaths at one of its assertions within a minute. */
DT_MUST_CHECK dt_status dt_store_deaths(dt_store *store, unsigned shard, struct dt_deaths *out, struct dt_error *err);

#endif
