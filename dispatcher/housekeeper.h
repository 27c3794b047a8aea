/* Four chores: the reconciler, with the statistics of the shards that this process leads; promotion of jobs that
 * are due within days, and the archive of finished jobs with its partitions; the walk over offers; the audit of
 * counters. */
#pragma once

#include "base/chores.h"
#include "base/config.h"
#include "job/shard.h"
#include "shard/shard_loop.h"

typedef struct dt_housekeeper dt_housekeeper;

/* What the process provides to the housekeeper; it must outlive the housekeeper. Callbacks run in ticks. */
struct dt_housekeeper_env {
    dt_chores *chores;
    const struct dt_config *config;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_loop_table *loops; /* loops that get the results of compares and rebuilds */
    void *arg;
    unsigned (*shards)(void *arg); /* returns n: this process may lead only shards 0 to n - 1 */
    void (*map)(void *arg, struct dt_shard_map *out);
    /* Returns true if no job of any shard is due; false: a job is due, or it is not known. */
    bool (*none_due)(void *arg);
};

dt_status dt_housekeeper_start(const struct dt_housekeeper_env *env, dt_housekeeper **out, struct dt_error *err);
/* Called when the shard's set in Redis was lost: the reconciler rebuilds it, the nearest due times first. Any thread;
 * accepts NULL. */
void dt_housekeeper_rebuild(dt_housekeeper *housekeeper, unsigned shard);
/* Called when the index was unreachable: the reconciler soon compares all of it with MySQL. Any thread; accepts
 * NULL. */
void dt_housekeeper_doubt(dt_housekeeper *housekeeper);
void dt_housekeeper_stop(dt_housekeeper *housekeeper); /* accepts NULL */
