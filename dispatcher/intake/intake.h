/*
 * Everything by which jobs come into being, or are changed, in a dispatcher: schedules, rows of job_inbox, operations.
 */
#ifndef DT_DISPATCHER_INTAKE_H
#define DT_DISPATCHER_INTAKE_H

#include "base/clock.h"
#include "base/config.h"
#include "index/index.h"

typedef struct dt_intake dt_intake;

/* Shared parts; must outlive the intake. Callbacks run on threads of its own. */
struct dt_intake_env {
    const struct dt_config *config;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    void (*index_untold)(void *arg, const dt_index *index); /* entries were lost: leaders must not believe the index */
};

DT_MUST_CHECK dt_status dt_intake_start(const struct dt_intake_env *env, dt_intake **out, struct dt_error *err);
/* It begins nothing new, and what waits in MySQL ends. Accepts NULL. */
void dt_intake_leave(dt_intake *intake);
/* Joins, frees. Accepts NULL. */
void dt_intake_stop(dt_intake *intake);

#endif
