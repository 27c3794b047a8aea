/*
 * Chores: periodic work, run by a few shared threads. Two threads exist at rest. More are started if ticks are due and
 * all threads are busy; a thread ends after 20 s without a tick.
 *
 *   struct dt_chore chore = {.name = "room", .tick = tick, .arg = r};
 *   dt_chores_add(chores, &chore)     calls tick(r, context) at once, and again at the time that it returns
 *   dt_chore_wake(&chore)             any thread: calls tick now
 *   dt_chore_remove(&chore)           the caller of dt_chores_add: returns after the last tick has ended
 *
 * A tick does a bounded amount of work and returns; it does not sleep. It occupies one thread and uses that thread's
 * context, which is a connection to MySQL in both programs. It must leave nothing in the session (locks, a transaction,
 * variables), because the next tick of the same chore may run on another thread.
 *
 * Two threads never tick the same chore at once. If more chores are due than threads are free, the chore that has been
 * due for longest is next. If a chore waits for a server other than MySQL, it sets `waits`. Chores with `waits` leave
 * two threads to the other chores, so that a Kafka that does not answer delays no chore that needs only MySQL.
 *
 * A tick that fails calls dt_chore_failed, which logs an outage (outage.h); a tick that succeeds ends the outage.
 */
#pragma once

#include "clock.h"
#include "metrics.h"
#include "outage.h"
#include "status.h"

typedef struct dt_chores dt_chores;

/* A chore. The memory belongs to the caller, and must not move between dt_chores_add and dt_chore_remove. The caller
 * sets the first six members, and a tick may set `idle`; the others are internal. Initialize with zeros. */
struct dt_chore {
    const char *name; /* label of metrics and component of log lines, of the form [a-z-]+; borrowed */
    /* Does the work. Returns the monotonic time of the next tick. A time in the past: at once; INT64_MAX: when
     * woken. */
    int64_t (*tick)(void *arg, void *context);
    void *arg;
    bool waits; /* ticks may wait for a server other than the context's */
    bool last;  /* dt_chore_remove runs one more tick, during which dt_chore_stopping is true */
    /* Monotonic time before which a wake does not make the chore due. Set before dt_chores_add, and in ticks. */
    int64_t not_before_us;

    dt_chores *chores;
    struct dt_chore *next;
    int64_t due_us;     /* time of the next tick, if no tick is running */
    int64_t started_us; /* time when the running tick started; 0: no tick is running */
    bool woken;         /* the chore was woken during the running tick */
    bool removed;       /* no further tick starts; protected by the lock of chores, as is the next member */
    bool ending;        /* dt_chore_remove has requested one last tick */
    bool idle;          /* set by a tick that asked no server, so that it does not end an outage */
    bool failed;        /* the running tick failed; used only by its thread, as is the next member */
    struct dt_outage_part outage;
    dt_metric *ticks, *busy_us, *failures;
};

#define DT_CHORES_THREADS_MAX 8

struct dt_chores_env {
    const char *name; /* name of the threads, at most 15 bytes; borrowed */
    unsigned threads; /* most threads, 1 to DT_CHORES_THREADS_MAX */
    const dt_clock *clock;
    /* Make and free the context of a thread that starts or ends. `open` must not block. If open is NULL, ticks get
     * NULL. */
    dt_status (*open)(void *arg, void **context, struct dt_error *err);
    void (*close)(void *context);
    /* Interrupts a tick that waits in a call on the context, and makes its later calls fail. Called from any thread.
     * May be NULL. */
    void (*cut)(void *context);
    /* Asserts that a tick left nothing in the context. Called after each tick, on its thread. May be NULL. */
    void (*check)(const void *context);
    void *arg; /* first argument of `open` */
};

/* Starts the first thread. What env points to must outlive the runtime. If `open` fails, returns its status; else NOMEM
 * or SYSTEM if the thread cannot be started. */
dt_status dt_chores_start(const struct dt_chores_env *env, dt_chores **out, struct dt_error *err);
/* Cuts the contexts of all threads. Called when a process ends, before its chores are removed. Accepts NULL. */
void dt_chores_cut(dt_chores *chores);
/* Ends the threads. All chores must have been removed. Accepts NULL. */
void dt_chores_stop(dt_chores *chores);

/* Adds a chore, whose first tick is due at once. May be called from any thread. */
void dt_chores_add(dt_chores *chores, struct dt_chore *chore);
/* Makes the chore due now. If its tick is running, another tick follows. Does nothing before dt_chores_add and after
 * dt_chore_stop. May be called from any thread. */
void dt_chore_wake(struct dt_chore *chore);
/* Asks the chore to end, without waiting: dt_chore_stopping becomes true, and no further tick begins. */
void dt_chore_stop(struct dt_chore *chore);
/* Reports that a tick failed, on its thread. `what` is the effect, for operators. Returns the time of the next try:
 * pause_us from now; a wake does not shorten this pause. If the chore was asked to end, logs nothing. */
int64_t dt_chore_failed(struct dt_chore *chore, enum dt_outage_of of, const char *what, dt_status status,
                        const struct dt_error *err, int64_t pause_us);
/* Returns whether the chore was asked to end. For long ticks. */
bool dt_chore_stopping(const struct dt_chore *chore);
/* Asks the chore to end, and waits until its running tick, and the last tick if `last` is set, have ended. Accepts a
 * chore that was never added, or was removed. Must not be called by a tick. */
void dt_chore_remove(struct dt_chore *chore);

/* Returns how long the tick that started first has been running, and *name of its chore; 0: no tick is running. */
int64_t dt_chores_longest_us(dt_chores *chores, const char **name);
