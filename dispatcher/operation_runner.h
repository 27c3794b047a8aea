/*
 * The chore of a dispatcher that carries out operations, piece by piece (features/operations/operations.h). The chores
 * of all dispatchers take pieces in turn, so each operation goes on as long as one of them lives.
 */
#ifndef DT_DISPATCHER_OPERATION_RUNNER_H
#define DT_DISPATCHER_OPERATION_RUNNER_H

#include "intake.h"

typedef struct dt_operation_runner dt_operation_runner;

DT_MUST_CHECK dt_status dt_operation_runner_start(const struct dt_intake_env *env, dt_operation_runner **out,
                                                  struct dt_error *err);
/* Says whether no tick is due because no operation was: it wants to be woken when one is. Any thread. */
bool dt_operation_runner_rests(dt_operation_runner *runner);
/* An operation is due. Any thread. */
void dt_operation_runner_wake(dt_operation_runner *runner);
void dt_operation_runner_leave(dt_operation_runner *runner); /* no tick begins any more; does not wait */
void dt_operation_runner_stop(dt_operation_runner *runner);  /* accepts NULL */

#endif
