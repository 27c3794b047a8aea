/*
 * Does the pieces of operations (store/operations/operations.h). One thread a process; those of several processes share the
 * work, a piece at a time, and who of them lives does all of it.
 */
#ifndef DT_DISPATCHER_OPERATION_RUNNER_H
#define DT_DISPATCHER_OPERATION_RUNNER_H

#include "base/clock.h"
#include "base/config.h"
#include "index/index.h"

typedef struct dt_operation_runner dt_operation_runner;

/* Shared parts; must outlive the runner. Callbacks run on its thread. */
struct dt_operation_runner_env {
    const struct dt_config *config;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    void (*index_untold)(void *arg, const dt_index *index); /* entries were lost: leaders must not believe the index */
};

DT_MUST_CHECK dt_status dt_operation_runner_start(const struct dt_operation_runner_env *env, dt_operation_runner **out,
                                                  struct dt_error *err);
void dt_operation_runner_stop(dt_operation_runner *runner); /* joins, frees; NULL is accepted */

#endif
