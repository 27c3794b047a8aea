/* Four chores: the reconciler, with the statistics of the shards that this process leads; promotion of jobs that
 * are due within days, and the archive of finished jobs with its partitions; the walk over offers; the audit of
 * counters. */
#pragma once

#include "process.h"

typedef struct dt_housekeeper dt_housekeeper;

dt_status dt_housekeeper_start(const struct dt_process_env *env, dt_housekeeper **out, struct dt_error *err);
/* Called when the shard's set in Redis was lost: the reconciler rebuilds it, the nearest due times first. Any thread;
 * accepts NULL. */
void dt_housekeeper_rebuild(dt_housekeeper *housekeeper, unsigned shard);
/* Called when the index was unreachable: the reconciler soon compares all of it with MySQL. Any thread; accepts
 * NULL. */
void dt_housekeeper_doubt(dt_housekeeper *housekeeper);
void dt_housekeeper_stop(dt_housekeeper *housekeeper); /* accepts NULL */
