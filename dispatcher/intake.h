/* The parts of a dispatcher that make and change jobs: the schedule maker, the mover of the inbox and the runner of
 * operations. (command_reader.h reads commands from Kafka, with the other parts of Kafka.) */
#pragma once

#include "job/job.h"
#include "process.h"

/* A chore that the watcher wakes: the first member of the structs of the three parts below. */
struct dt_resting {
    struct dt_chore chore;
    _Atomic bool rests; /* the chore sleeps because nothing was due, so the watcher should wake it for a change */
};
/* Makes the chore due now, for example because a row became due. Any thread. */
static inline void dt_resting_wake(struct dt_resting *resting)
{
    resting->rests = false; /* the watcher need not wake the chore again before the chore has read the table */
    dt_chore_wake(&resting->chore);
}
/* Starts no new work from now on. Accepts NULL. */
static inline void dt_resting_leave(struct dt_resting *resting)
{
    if (resting)
        dt_chore_stop(&resting->chore);
}

/* ---- schedule_maker.c: makes jobs of schedules ahead of their times (features/schedules/schedules.h) ---- */

/* Makes the jobs of schedules. The chores of all dispatchers share the work. */
dt_status dt_schedule_maker_start(const struct dt_process_env *env, struct dt_resting **out, struct dt_error *err);
void dt_schedule_maker_stop(struct dt_resting *resting); /* NULL is accepted */

/* ---- operation_runner.c: a chore that carries out operations by pieces (features/operations/operations.h) ---- */

/* Does operations, piece by piece. The chores of all dispatchers share the work. */
dt_status dt_operation_runner_start(const struct dt_process_env *env, struct dt_resting **out, struct dt_error *err);
void dt_operation_runner_stop(struct dt_resting *resting); /* NULL is accepted */

/* ---- inbox_mover.c: a chore that carries out the rows of `job_inbox` (features/intents/inbox.h) ---- */

/* Moves rows of job_inbox. Every dispatcher has a mover, which moves the rows that its watcher found. The watchers of
 * the dispatchers take turns reading the table (procedure dt_wait in sql/). If two watchers find the same row, only one
 * mover moves it. The mover's listener also wakes `operations` if an operation is due, and `schedules` if a schedule
 * has changed; both outlive the mover. env->watcher must be stopped before the mover. */
dt_status dt_inbox_chore_start(const struct dt_process_env *env, struct dt_resting *operations,
                               struct dt_resting *schedules, struct dt_resting **out, struct dt_error *err);
void dt_inbox_chore_stop(struct dt_resting *resting); /* NULL is accepted */

/* Notifies other processes through Redis (on the wake channel), and writes index entries of jobs that the intake made
 * or moved. Without an index it does nothing. Every process also polls, so no process depends on a notification. Any
 * thread; a call may wait for Redis, and for another call. */

typedef struct dt_announcer dt_announcer;

/* Creates an announcer. All arguments except the installation's name must outlive it. Unless OK, *out is NULL. */
dt_status dt_announcer_new(const struct dt_process_env *env, dt_announcer **out, struct dt_error *err);
void dt_announcer_free(dt_announcer *announcer);
/* Announces that messages were added to the shard's outbox; shard -1: that every process should do its periodic checks
 * now. */
void dt_announcer_tell(dt_announcer *announcer, int shard);

/* Writes the index entries of jobs that the intake has made or moved and committed. If that fails, leaders doubt the
 * index (env->index_entries_lost). index may be NULL. */
void dt_intake_tell_index(const struct dt_process_env *env, dt_index *index, struct dt_arena *arena,
                          const struct dt_job_move *moves, size_t n);
