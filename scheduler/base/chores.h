/*
 * Chores: periodic pieces of work, run by a few threads.
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
 * due for longest is next.
 */
#ifndef DT_BASE_CHORES_H
#define DT_BASE_CHORES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"

typedef struct dt_chores dt_chores;

/* Its owner's memory; stays where it is from dt_chores_add until dt_chore_remove. The first three members are the
 * owner's, the others belong to chores.c; zero at first. */
struct dt_chore {
    const char *name; /* a label of metrics, [a-z-]+; borrowed */
    /* Returns the time of the next tick: of the monotonic clock, past = at once, INT64_MAX = when woken. */
    int64_t (*tick)(void *arg, void *context);
    void *arg;

    dt_chores *chores;
    struct dt_chore *next;
    int64_t due_us;     /* while it does not run */
    int64_t started_us; /* of the tick that runs; 0 = none */
    bool woken;         /* while it ran */
    bool removed;       /* it is not ticked again; under the lock of chores */
    dt_metric *ticks, *busy_us;
};

#define DT_CHORES_THREADS_MAX 8

struct dt_chores_env {
    const char *name; /* of the threads, at most 15 bytes; borrowed */
    unsigned threads; /* 1 to DT_CHORES_THREADS_MAX */
    const dt_clock *clock;
    /* Makes and frees the context of a thread. NULL: ticks get NULL. */
    dt_status (*open)(void *arg, void **context, struct dt_error *err);
    void (*close)(void *context);
    /* Called after each tick, on its thread: asserts that the tick left nothing in the context. May be NULL. */
    void (*check)(const void *context);
    void *arg;
};

/* Starts the threads. What env borrows outlives them. Returns what `open` returns if it fails; NOMEM, SYSTEM. */
DT_MUST_CHECK dt_status dt_chores_start(const struct dt_chores_env *env, dt_chores **out, struct dt_error *err);
/* Ends the threads; every chore was removed before. Accepts NULL. */
void dt_chores_stop(dt_chores *chores);

/* The first tick is due at once. Any thread. */
void dt_chores_add(dt_chores *chores, struct dt_chore *chore);
/* Makes the chore due now. If its tick is running, another tick follows. Does nothing before dt_chores_add and after
 * dt_chore_stop. Any thread that knows the chore to exist. */
void dt_chore_wake(struct dt_chore *chore);
/* Asks the chore to end, without waiting: dt_chore_stopping is true from here on, and no further tick begins. */
void dt_chore_stop(struct dt_chore *chore);
/* For ticks that take long: whether the chore was asked to end. */
bool dt_chore_stopping(const struct dt_chore *chore);
/* As dt_chore_stop, and waits until no tick runs. Accepts a chore that was never added, and one that was removed. Not
 * from a tick. */
void dt_chore_remove(struct dt_chore *chore);

/* The tick that has been running for longest: returns for how long, in microseconds (0: none runs), and the chore's
 * name. */
int64_t dt_chores_longest_us(dt_chores *chores, const char **name);

#endif
