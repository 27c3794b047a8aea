/*
 * Carries out the rows of job_inbox. One thread a process; one process looks at a time, and when it ends the next one does
 * at once.
 */
#ifndef DT_DISPATCHER_INBOX_MOVER_H
#define DT_DISPATCHER_INBOX_MOVER_H

#include "intake.h"
#include "operation_runner.h"

typedef struct dt_inbox_chore dt_inbox_chore;

/* operations: borrowed, woken when an operation is due. */
DT_MUST_CHECK dt_status dt_inbox_chore_start(const struct dt_intake_env *env, dt_operation_runner *operations,
                                             dt_inbox_chore **out, struct dt_error *err);
/* It begins nothing new, and its wait may last as long as its server's does. Accepts NULL. */
void dt_inbox_chore_leave(dt_inbox_chore *chore);
/* Joins, frees. Accepts NULL. */
void dt_inbox_chore_stop(dt_inbox_chore *chore);

#endif
