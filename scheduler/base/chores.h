/*
 * Chores: periodic pieces of work, run by a few threads. Two are there at rest; more are started while ticks are due
 * and all are busy, and end after 20 s without a tick.
 *
 *   struct dt_chore chore = {.name = "room", .tick = tick, .arg = r};
 *   dt_chores_add(chores, &chore)     tick(r, context) is called at once, and again at the time that it returns
 *   dt_chore_wake(&chore)             any thread: … or now
 *   dt_chore_remove(&chore)           the owner: returns after the last tick has ended
 *
 * A tick does a bounded amount of work and returns; it does not sleep. While it runs it occupies one thread, and has
 * that thread's context, which is a connection to MySQL in both programs. Nothing of a session (locks, a transaction,
 * variables) may remain after a tick, because the next tick of the same chore may get another thread.
 *
 * A chore is never ticked by two threads at once. If more chores are due than threads are free, the one that has been
 * due for longest is next. Chores that wait for servers other than the context's (`waits`) leave two of the
 * threads to the others, so that a Kafka that does not answer delays no chore that needs MySQL alone.
 *
 * A tick that failed calls dt_chore_failed, which logs an outage (base/outage.h); a tick that did not ends it.
 */
#ifndef DT_BASE_CHORES_H
#define DT_BASE_CHORES_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "metrics.h"
#include "outage.h"
#include "status.h"

typedef struct dt_chores dt_chores;

/* Its owner's memory; stays where it is from dt_chores_add until dt_chore_remove. The first six members and `idle`
 * are the owner's, the others belong to chores.c; zero at first. */
struct dt_chore {
    const char *name; /* a label of metrics, and the component of log lines: [a-z-]+; borrowed */
    /* Returns the time of the next tick: of the monotonic clock, past = at once, INT64_MAX = when woken. */
    int64_t (*tick)(void *arg, void *context);
    void *arg;
    bool waits; /* a tick may wait for another server than the context's */
    bool last;  /* dt_chore_remove has it ticked once more; dt_chore_stopping is true then */
    /* Monotonic: a wake does not make the chore due before it. Set before dt_chores_add, and in a tick. */
    int64_t not_before_us;

    dt_chores *chores;
    struct dt_chore *next;
    int64_t due_us;     /* while it does not run */
    int64_t started_us; /* of the tick that runs; 0 = none */
    bool woken;         /* while it ran */
    bool removed;       /* it is not ticked again; under the lock of chores, as the next */
    bool ending;        /* but once, because dt_chore_remove was called */
    bool idle;          /* set by a tick that has asked no server: it does not end an outage */
    bool failed;        /* the tick that runs; its thread's, as the next */
    struct dt_outage_part outage;
    dt_metric *ticks, *busy_us, *failures;
};

#define DT_CHORES_THREADS_MAX 8

struct dt_chores_env {
    const char *name; /* of the threads, at most 15 bytes; borrowed */
    unsigned threads; /* at most; 1 to DT_CHORES_THREADS_MAX */
    const dt_clock *clock;
    /* Make and free the context of a thread, when it starts and ends. `open` does not wait. NULL: ticks get NULL. */
    dt_status (*open)(void *arg, void **context, struct dt_error *err);
    void (*close)(void *context);
    /* Any thread: ends what a tick waits for in the context, and has ticks fail from then on. May be NULL. */
    void (*cut)(void *context);
    /* Called after each tick, on its thread: asserts that the tick left nothing in the context. May be NULL. */
    void (*check)(const void *context);
    void *arg; /* of `open` */
};

/* Starts the runtime, and its first thread. What env borrows outlives it. Returns what `open` returns if it fails;
 * NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_chores_start(const struct dt_chores_env *env, dt_chores **out, struct dt_error *err);
/* Cuts the contexts: at the end of a process, before chores whose work is over are removed. Accepts NULL. */
void dt_chores_cut(dt_chores *chores);
/* Ends the threads; every chore was removed before. Accepts NULL. */
void dt_chores_stop(dt_chores *chores);

/* The first tick is due at once. Any thread. */
void dt_chores_add(dt_chores *chores, struct dt_chore *chore);
/* Makes the chore due now. If its tick is running, another tick follows. Does nothing before dt_chores_add and after
 * dt_chore_stop. Any thread that knows the chore to exist. */
void dt_chore_wake(struct dt_chore *chore);
/* Asks the chore to end, without waiting: dt_chore_stopping is true from here on, and no further tick begins. */
void dt_chore_stop(struct dt_chore *chore);
/* The tick's thread: what the tick tried has failed. `what` is the effect, for people. Returns when to try again, so
 * long a pause after now; a wake does not shorten the pause. Once the chore was asked to end nothing is logged. */
int64_t dt_chore_failed(struct dt_chore *chore, enum dt_outage_of of, const char *what, dt_status status,
                        const struct dt_error *err, int64_t pause_us);
/* For ticks that take long: whether the chore was asked to end. */
bool dt_chore_stopping(const struct dt_chore *chore);
/* As dt_chore_stop, and waits until no tick runs and the last one, if there is one, has ended. Accepts a chore that was
 * never added, and one that was removed. Not from a tick. */
void dt_chore_remove(struct dt_chore *chore);

/* The tick that has been running for longest: returns for how long, in microseconds (0: none runs), and the chore's
 * name. */
int64_t dt_chores_longest_us(dt_chores *chores, const char **name);

#endif
