/*
 * Findings that only one process can see (table `process_findings`). Each process writes its findings when they change,
 * and GET /v1/doctor reads them.
 *
 * A process that dies of an assertion (base/assert.h) writes the finding `assertion`, which GET /v1/doctor shows for an
 * hour. Its row has the negative number of the process, so that no other thread of the process replaces the row. The
 * heartbeat writes the finding `chore-stuck`, because the chore that writes all other findings may itself be stuck.
 */
#pragma once

#include "store/store.h"

#define DT_PROCESS_FINDINGS_MAX 100 /* most findings that are read, in all processes together */

struct dt_process_finding {
    struct dt_str finding, subject, detail;
    struct dt_str process; /* out: name of a process that has the finding */
    int64_t found_at_ms;
};

/* Replaces the findings of the process in one transaction, except chore-stuck. Also deletes the findings of processes
 * that have been gone for an hour. */
dt_status dt_store_put_findings(dt_store *store, int64_t process, const struct dt_process_finding *v, size_t n,
                                struct dt_error *err);
/* Writes the finding `chore-stuck`: one tick of this chore has run for `seconds`. If chore is NULL, deletes the
 * finding. */
dt_status dt_store_put_stuck(dt_store *store, int64_t process, const char *chore, int64_t seconds,
                             struct dt_error *err);
/* Reads the findings of live processes, and recent deaths. If several processes have the same finding with the same
 * subject, it is returned once. Outputs are in the arena. */
dt_status dt_store_findings(dt_store *store, struct dt_arena *arena, struct dt_process_finding **out, size_t *n,
                            struct dt_error *err);

/* Writes the finding `assertion` on a new connection with timeouts of two seconds. where, what, shard: the arguments of
 * the hook in base/assert.h. A failure is logged. */
void dt_store_put_death(const struct dt_config *config, int64_t process, const char *where, const char *what,
                        int shard);

struct dt_deaths {
    int64_t wait_ms; /* time for which no dispatcher may lead the shard; 0 = a dispatcher may lead it now */
    char where[100]; /* file and line of the assertion, if wait_ms is not 0 */
};
/* Reads whether dispatchers may lead a shard. If leaders of the shard died three times at one assertion within a
 * minute, no dispatcher may lead it for a minute. */
dt_status dt_store_deaths(dt_store *store, unsigned shard, struct dt_deaths *out, struct dt_error *err);
