/*
 * The chores of a dispatcher that make or change jobs, started and stopped together: the schedule maker, the mover of
 * the inbox, the runner of operations. (Commands from Kafka are read by command_reader.h, with the other parts of
 * Kafka.)
 */
#ifndef DT_DISPATCHER_INTAKE_H
#define DT_DISPATCHER_INTAKE_H

#include "base/chores.h"
#include "base/config.h"
#include "dispatch/watcher.h"
#include "index/index.h"

typedef struct dt_intake dt_intake;

/* Shared parts; must outlive the intake. Callbacks run in ticks, and on threads of its own. */
struct dt_intake_env {
    dt_chores *chores;
    const struct dt_config *config;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    void (*index_untold)(void *arg, const dt_index *index); /* entries were lost: leaders must not believe the index */
    dt_watcher *watcher;                                    /* not started yet; ends before the intake does */
};

DT_MUST_CHECK dt_status dt_intake_start(const struct dt_intake_env *env, dt_intake **out, struct dt_error *err);
/* The clock by which fires and operations are due was changed: both are looked at. Any thread; NULL is accepted. */
void dt_intake_clock_changed(dt_intake *intake);
/* Nothing new is begun. Accepts NULL. */
void dt_intake_leave(dt_intake *intake);
/* Joins, frees. Accepts NULL. */
void dt_intake_stop(dt_intake *intake);

#endif
