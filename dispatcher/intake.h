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

/*
 * The thread of a dispatcher that carries out the rows of `job_inbox` (features/intents/inbox.h). Every dispatcher has
 * one. The watchers of dispatchers look at the table in turns (procedure dt_wait in sql/), and a mover moves what its
 * watcher found. If two find the same row, one of them moves it.
 */

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

/*
 * The chore of a dispatcher that carries out operations, piece by piece (features/operations/operations.h). The chores
 * of all dispatchers take pieces in turn, so each operation goes on as long as one of them lives.
 */

typedef struct dt_operation_runner dt_operation_runner;

DT_MUST_CHECK dt_status dt_operation_runner_start(const struct dt_intake_env *env, dt_operation_runner **out,
                                                  struct dt_error *err);
/* Says whether no tick is due because no operation was: it wants to be woken when one is. Any thread. */
bool dt_operation_runner_rests(dt_operation_runner *runner);
/* An operation is due. Any thread. */
void dt_operation_runner_wake(dt_operation_runner *runner);
void dt_operation_runner_leave(dt_operation_runner *runner); /* no tick begins any more; does not wait */
void dt_operation_runner_stop(dt_operation_runner *runner);  /* accepts NULL */

/*
 * The chore of a dispatcher that makes the jobs of schedules ahead of their times (features/schedules/schedules.h). The
 * chores of all dispatchers share the work; as long as one of them lives, all of it is done.
 */

typedef struct dt_schedule_maker dt_schedule_maker;

DT_MUST_CHECK dt_status dt_schedule_maker_start(const struct dt_intake_env *env, dt_schedule_maker **out,
                                                struct dt_error *err);
/* Says whether all is done until the next look that it knows of. Any thread. */
bool dt_schedule_maker_rests(dt_schedule_maker *maker);
/* It looks at schedules at once. Any thread. */
void dt_schedule_maker_wake(dt_schedule_maker *maker);
void dt_schedule_maker_leave(dt_schedule_maker *maker); /* no tick begins any more; does not wait */
void dt_schedule_maker_stop(dt_schedule_maker *maker);  /* accepts NULL */

#endif
