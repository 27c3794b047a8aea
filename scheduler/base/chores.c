/*
 * Owns the list of chores and the threads that tick them. Refuses to know what a chore does.
 *
 * An idle thread sleeps on its own mailbox. At most one of them, the timer, sleeps until the next chore is due; the
 * others sleep until they are signalled, so that a time that comes wakes one thread. A thread that takes a chore hands
 * the timer's part to an idle one.
 *
 * Invariants, under the lock: a chore whose started_us is not 0 is ticked by exactly one thread; `timer` is an idle
 * thread or NULL; if a thread is idle and a chore is not running and not removed, there is a timer, and it wakes no
 * later than that chore is due.
 */
#include "base/chores.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mailbox.h"
#include "base/thread.h"

#define LOOK (UINT32_C(1) << 0)

struct worker {
    dt_chores *chores;
    struct dt_thread thread;
    dt_mailbox *mailbox;
    void *context;
    bool idle;        /* under the lock of chores */
    int64_t until_us; /* of the timer: when it wakes */
};

struct dt_chores {
    struct dt_chores_env env;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a tick has ended; dt_chore_remove waits for it */
    struct dt_chore *first;
    struct worker *timer;
    struct worker workers[DT_CHORES_THREADS_MAX];
};

/* ---- under the lock ---- */

/* The chore that is due first; NULL: none will be. */
static struct dt_chore *find_next(const dt_chores *c)
{
    struct dt_chore *next = NULL;
    for (struct dt_chore *each = c->first; each; each = each->next)
        if (!each->started_us && !each->removed && each->due_us != INT64_MAX && (!next || each->due_us < next->due_us))
            next = each;
    return next;
}

/* Has an idle thread look if a chore is due before the timer wakes. */
static void look_for_work(dt_chores *c)
{
    const struct dt_chore *next = find_next(c);
    if (!next || (c->timer && c->timer->until_us <= next->due_us))
        return;
    struct worker *w = c->timer;
    for (unsigned i = 0; !w && i < c->env.threads; i++)
        if (c->workers[i].idle)
            w = &c->workers[i];
    if (!w)
        return; /* all are busy: each looks when its tick ends */
    c->timer = w;
    w->until_us = next->due_us;
    dt_mailbox_signal(w->mailbox, LOOK);
}

/* ---- threads ---- */

static void tick(struct worker *w, struct dt_chore *chore, int64_t now_us)
{
    dt_chores *c = w->chores;
    dt_assert(!chore->started_us && !chore->removed);
    chore->started_us = now_us;
    chore->woken = false;
    look_for_work(c);
    pthread_mutex_unlock(&c->lock);
    const int64_t due_us = chore->tick(chore->arg, w->context);
    if (c->env.check)
        c->env.check(w->context);
    pthread_mutex_lock(&c->lock);
    now_us = dt_clock_mono_us(c->env.clock);
    dt_metric_add(chore->ticks, 1);
    dt_metric_add(chore->busy_us, now_us - chore->started_us);
    chore->started_us = 0;
    chore->due_us = chore->woken ? now_us : dt_later(due_us, now_us); /* not the past: others are due for longer */
    if (chore->removed)
        pthread_cond_broadcast(&c->ended); /* the chore may be freed once the lock is released */
}

static void run(void *arg)
{
    struct worker *w = arg;
    dt_chores *c = w->chores;
    pthread_mutex_lock(&c->lock);
    while (!dt_thread_stopping(&w->thread)) {
        struct dt_chore *next = find_next(c);
        const int64_t now_us = dt_clock_mono_us(c->env.clock);
        if (next && next->due_us <= now_us) {
            tick(w, next, now_us);
            continue;
        }
        w->idle = true;
        w->until_us = INT64_MAX;
        if (next && (!c->timer || c->timer->until_us > next->due_us)) {
            c->timer = w;
            w->until_us = next->due_us;
        }
        const int64_t until_us = w->until_us;
        pthread_mutex_unlock(&c->lock);
        (void)dt_mailbox_wait(w->mailbox, until_us);
        pthread_mutex_lock(&c->lock);
        w->idle = false;
        if (c->timer == w)
            c->timer = NULL;
    }
    pthread_mutex_unlock(&c->lock);
}

dt_status dt_chores_start(const struct dt_chores_env *env, dt_chores **out, struct dt_error *err)
{
    dt_assert(env->threads >= 1 && env->threads <= DT_CHORES_THREADS_MAX);
    dt_chores *c = calloc(1, sizeof(*c));
    *out = NULL;
    if (!c)
        return dt_fail(err, DT_NOMEM, "out of memory");
    c->env = *env;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->ended, NULL);
    dt_status status = DT_OK;
    for (unsigned i = 0; i < env->threads && status == DT_OK; i++) {
        struct worker *w = &c->workers[i];
        w->chores = c;
        status = dt_mailbox_new(&w->mailbox);
        if (status == DT_OK && env->open)
            status = env->open(env->arg, &w->context, err);
        if (status == DT_OK)
            status = dt_thread_start(&w->thread, env->name, run, w, err);
    }
    if (status != DT_OK) {
        dt_chores_stop(c);
        return status;
    }
    *out = c;
    return DT_OK;
}

void dt_chores_stop(dt_chores *c)
{
    if (!c)
        return;
    dt_assert(!c->first);
    for (unsigned i = 0; i < c->env.threads; i++)
        dt_thread_ask_stop(&c->workers[i].thread, c->workers[i].mailbox);
    for (unsigned i = 0; i < c->env.threads; i++) {
        struct worker *w = &c->workers[i];
        dt_thread_join(&w->thread);
        if (w->context)
            c->env.close(w->context);
        dt_mailbox_free(w->mailbox);
    }
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- any thread ---- */

void dt_chores_add(dt_chores *c, struct dt_chore *chore)
{
    char label[64];
    snprintf(label, sizeof(label), "chore=\"%s\"", chore->name);
    chore->ticks = dt_counter("duetime_chore_ticks_total", "Ticks of periodic work, by chore.", label);
    chore->busy_us =
        dt_counter("duetime_chore_busy_microseconds_total", "Time that ticks of periodic work took, by chore.", label);
    pthread_mutex_lock(&c->lock);
    dt_assert(!chore->chores && !chore->started_us);
    chore->next = c->first;
    c->first = chore;
    chore->due_us = dt_clock_mono_us(c->env.clock);
    chore->chores = c;
    look_for_work(c);
    pthread_mutex_unlock(&c->lock);
}

void dt_chore_wake(struct dt_chore *chore)
{
    dt_chores *c = chore->chores;
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    if (chore->started_us) {
        chore->woken = true;
    } else {
        chore->due_us = dt_earlier(chore->due_us, dt_clock_mono_us(c->env.clock));
        look_for_work(c);
    }
    pthread_mutex_unlock(&c->lock);
}

void dt_chore_stop(struct dt_chore *chore)
{
    dt_chores *c = chore->chores;
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    chore->removed = true;
    pthread_mutex_unlock(&c->lock);
}

bool dt_chore_stopping(const struct dt_chore *chore)
{
    dt_chores *c = chore->chores;
    pthread_mutex_lock(&c->lock);
    const bool removed = chore->removed;
    pthread_mutex_unlock(&c->lock);
    return removed;
}

void dt_chore_remove(struct dt_chore *chore)
{
    dt_chores *c = chore->chores;
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    chore->removed = true;
    while (chore->started_us)
        (void)dt_clock_wait(&c->ended, &c->lock, INT64_MAX);
    struct dt_chore **at = &c->first;
    while (*at != chore)
        at = &(*at)->next;
    *at = chore->next;
    chore->chores = NULL;
    pthread_mutex_unlock(&c->lock);
}

int64_t dt_chores_longest_us(dt_chores *c, const char **name)
{
    int64_t started_us = INT64_MAX;
    *name = "";
    pthread_mutex_lock(&c->lock);
    for (const struct dt_chore *each = c->first; each; each = each->next)
        if (each->started_us && each->started_us < started_us) {
            started_us = each->started_us;
            *name = each->name;
        }
    pthread_mutex_unlock(&c->lock);
    return started_us == INT64_MAX ? 0 : dt_clock_mono_us(c->env.clock) - started_us;
}
