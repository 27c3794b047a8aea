/*
 * Chores: periodic work, run by a few shared threads. Two threads exist at rest. More are started if ticks are due and
 * all threads are busy; a thread ends after 20 s without a tick.
 *
 *   struct dt_chore chore = {.name = "room", .tick = tick, .arg = r};
 *   dt_chores_add(chores, &chore)     calls tick(r, context) at once, and again at the time that it returns
 *   dt_chore_wake(&chore)             any thread: … or now
 *   dt_chore_remove(&chore)           the owner: returns after the last tick has ended
 *
 * A tick does a bounded amount of work and returns; it does not sleep. It occupies one thread and uses that thread's
 * context, which is a connection to MySQL in both programs. It must leave nothing in the session (locks, a transaction,
 * variables), because the next tick of the same chore may run on another thread.
 *
 * Two threads never tick the same chore at once. If more chores are due than threads are free, the one that has been
 * due for longest is next. Chores that wait for another server than the context's (`waits`) leave two threads to the
 * others, so that a Kafka that does not answer delays no chore that needs only MySQL.
 *
 * A tick that fails calls dt_chore_failed, which logs an outage (outage.h); a tick that succeeds ends it.
 */
#pragma once

#include "clock.h"
#include "metrics.h"
#include "outage.h"
#include "status.h"

typedef struct dt_chores dt_chores;

/* The owner's memory; must not move from dt_chores_add to dt_chore_remove. The owner sets the first six members and
 * `idle`; the others are internal. Zero at first. */
struct dt_chore {
    const char *name; /* label of metrics and component of log lines: [a-z-]+; borrowed */
    /* Returns the monotonic time of the next tick; a past time: at once; INT64_MAX: when woken. */
    int64_t (*tick)(void *arg, void *context);
    void *arg;
    bool waits; /* a tick may wait for another server than the context's */
    bool last;  /* dt_chore_remove runs one more tick, in which dt_chore_stopping is true */
    /* A wake does not make the chore due before this monotonic time. Set before dt_chores_add, and in a tick. */
    int64_t not_before_us;

    dt_chores *chores;
    struct dt_chore *next;
    int64_t due_us;     /* if no tick runs */
    int64_t started_us; /* when the running tick started; 0: none runs */
    bool woken;         /* during the running tick */
    bool removed;       /* no further tick starts; under the lock of chores, like the next member */
    bool ending;        /* no further tick starts, except the last one for dt_chore_remove */
    bool idle;          /* set by a tick that asked no server, and so ends no outage */
    bool failed;        /* the running tick failed; used only by its thread, like the next member */
    struct dt_outage_part outage;
    dt_metric *ticks, *busy_us, *failures;
};

#define DT_CHORES_THREADS_MAX 8

struct dt_chores_env {
    const char *name; /* name of the threads, at most 15 bytes; borrowed */
    unsigned threads; /* limit of threads; 1 to DT_CHORES_THREADS_MAX */
    const dt_clock *clock;
    /* Make and free a thread's context when it starts and ends. `open` must not block. NULL: ticks get NULL. */
    dt_status (*open)(void *arg, void **context, struct dt_error *err);
    void (*close)(void *context);
    /* Any thread: interrupts a tick that waits in the context, and makes its later calls fail. May be NULL. */
    void (*cut)(void *context);
    /* Called after each tick, on its thread, to assert that the tick left nothing in the context. May be NULL. */
    void (*check)(const void *context);
    void *arg; /* argument of these functions */
};

/* Starts the first thread. Whatever env points to must outlive the runtime. Returns the status of `open` if that
 * fails; NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_chores_start(const struct dt_chores_env *env, dt_chores **out, struct dt_error *err);
/* Cuts all contexts: at the end of a process, before chores are removed. Accepts NULL. */
void dt_chores_cut(dt_chores *chores);
/* Ends the threads. All chores must have been removed. Accepts NULL. */
void dt_chores_stop(dt_chores *chores);

/* The first tick is due at once. Any thread. */
void dt_chores_add(dt_chores *chores, struct dt_chore *chore);
/* Makes the chore due now. If its tick is running, another tick follows. Does nothing before dt_chores_add and after
 * dt_chore_stop. Any thread. */
void dt_chore_wake(struct dt_chore *chore);
/* Asks the chore to end, without waiting: dt_chore_stopping becomes true, and no further tick begins. */
void dt_chore_stop(struct dt_chore *chore);
/* Called by a tick that failed. `what` is the effect, for operators. Returns the time of the next try: pause_us from
 * now, and a wake does not shorten the pause. If the chore was asked to end, logs nothing. */
int64_t dt_chore_failed(struct dt_chore *chore, enum dt_outage_of of, const char *what, dt_status status,
                        const struct dt_error *err, int64_t pause_us);
/* For long ticks: whether the chore was asked to end. */
bool dt_chore_stopping(const struct dt_chore *chore);
/* Asks the chore to end, and waits until no tick runs and the last one, if there is one, has ended. Accepts a chore
 * that was never added, or was removed. Must not be called by a tick. */
void dt_chore_remove(struct dt_chore *chore);

/* Returns for how long the longest running tick has been running (0: none runs), and the name of its chore. */
int64_t dt_chores_longest_us(dt_chores *chores, const char **name);
