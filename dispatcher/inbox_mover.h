/*
 * The thread of a dispatcher that carries out the rows of `job_inbox` (features/intents/inbox.h). Every dispatcher has
 * one. The watchers of dispatchers look at the table in turns (procedure dt_wait in sql/), and a mover moves what its
 * watcher found. If two find the same row, one of them moves it.
 */
#ifndef DT_DISPATCHER_INBOX_MOVER_H
#define DT_DISPATCHER_INBOX_MOVER_H

#include "dispatch/watcher.h"
#include "intake.h"
#include "operation_runner.h"
#include "schedule_maker.h"

typedef struct dt_inbox_chore dt_inbox_chore;

/* operations, schedules: the threads that are woken when an operation is due, or a schedule is to be looked at; they
 * outlive it. The watcher ends before it. */
DT_MUST_CHECK dt_status dt_inbox_chore_start(const struct dt_intake_env *env, dt_operation_runner *operations,
                                             dt_schedule_maker *schedules, dt_watcher *watcher, dt_inbox_chore **out,
                                             struct dt_error *err);
/* Begins nothing new from now on. Accepts NULL. */
void dt_inbox_chore_leave(dt_inbox_chore *chore);
/* Joins, frees. Accepts NULL. */
void dt_inbox_chore_stop(dt_inbox_chore *chore);

#endif
