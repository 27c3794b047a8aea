/*
 * Makes the jobs of schedules ahead of their times. One thread a process; those of several processes share the work, and
 * who of them lives makes all of it.
 */
#ifndef DT_DISPATCHER_SCHEDULE_MAKER_H
#define DT_DISPATCHER_SCHEDULE_MAKER_H

#include "base/clock.h"
#include "base/config.h"
#include "index/index.h"

typedef struct dt_schedule_maker dt_schedule_maker;

/* Shared parts; must outlive the maker. Callbacks run on its thread. */
struct dt_schedule_maker_env {
    const struct dt_config *config;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    void (*index_untold)(void *arg, const dt_index *index); /* entries were lost: leaders must not believe the index */
};

DT_MUST_CHECK dt_status dt_schedule_maker_start(const struct dt_schedule_maker_env *env, dt_schedule_maker **out,
                                                struct dt_error *err);
void dt_schedule_maker_stop(dt_schedule_maker *maker); /* joins, frees; NULL is accepted */

#endif
