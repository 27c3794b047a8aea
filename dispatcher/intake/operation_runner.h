/*
 * Does the pieces of operations (store/operations/operations.h). One thread a process; those of several processes share the
 * work, a piece at a time, and who of them lives does all of it.
 */
#ifndef DT_DISPATCHER_OPERATION_RUNNER_H
#define DT_DISPATCHER_OPERATION_RUNNER_H

#include "intake.h"

typedef struct dt_operation_runner dt_operation_runner;

DT_MUST_CHECK dt_status dt_operation_runner_start(const struct dt_intake_env *env, dt_operation_runner **out,
                                                  struct dt_error *err);
void dt_operation_runner_stop(dt_operation_runner *runner); /* joins, frees; NULL is accepted */

#endif
