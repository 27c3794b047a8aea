/*
 * See chores.h. An idle thread sleeps on its own mailbox. At most one idle thread, the timer, sleeps until the next
 * chore is due; the others sleep until they are signalled, so that a due chore wakes one thread. A thread that takes a
 * chore makes an idle thread the timer, or starts a thread as the timer. So a runtime at rest has two threads.
 *
 *   not there ─▶ busy ◀─▶ idle ─▶ ending ─▶ not there      the first thread never ends
 *
 * Invariants, under the lock:
 * - Exactly one thread ticks a chore whose started_us is not 0.
 * - `timer` is an idle thread or NULL. If a chore is neither running nor removed, a timer exists and wakes no later
 *   than the chore is due. Exceptions: all possible threads are busy, or `waiting` is at its limit.
 * - `waiting` counts the running ticks of chores with `waits`. It is at most the number of threads minus two, but may
 *   always be one.
 * - A worker's context exists while its thread is busy or idle.
 */
#include "chores.h"

#include "assert.h"
#include "thread.h"

#define LOOK    (UINT32_C(1) << 0)
#define REST_US INT64_C(20000000) /* time without a tick after which a thread ends */

enum worker_state { NOT_THERE, BUSY, IDLE, ENDING };

struct worker {
    dt_chores *chores;
    struct dt_thread thread;
    dt_mailbox *mailbox;
    enum worker_state state; /* protected by the lock of chores, as are the next two members */
    void *context;
    int64_t until_us; /* time at which this thread wakes, if it is the timer */
};

struct dt_chores {
    struct dt_chores_env env;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* signalled when a tick has ended; dt_chore_remove waits for it */
    struct dt_chore *first;
    unsigned waiting;
    bool cut;
    struct worker *timer;
    struct worker workers[DT_CHORES_THREADS_MAX];
};

/* ---- functions that need the lock ---- */

/* Returns the chore that is due first, among the chores that may run, or NULL. */
static struct dt_chore *find_next_chore(const dt_chores *c)
{
    const bool full = c->waiting >= (c->env.threads > 3 ? c->env.threads - 2 : 1);
    struct dt_chore *next = NULL;
    for (struct dt_chore *each = c->first; each; each = each->next)
        if (!each->started_us && (!each->removed || each->ending) && each->due_us != INT64_MAX &&
            !(each->waits && full) && (!next || each->due_us < next->due_us))
            next = each;
    return next;
}

static int64_t earliest_due_us(const dt_chores *c, const struct dt_chore *chore)
{
    return dt_later(dt_clock_mono_us(c->env.clock), chore->not_before_us);
}

static void run_chores(void *arg);

/* Starts the worker's thread. If this fails, nothing has changed. */
static dt_status start_worker(dt_chores *c, struct worker *w, struct dt_error *err)
{
    dt_thread_join(&w->thread); /* joins a previous thread of this worker, which is ending */
    dt_status status = c->env.open ? c->env.open(c->env.arg, &w->context, err) : DT_OK;
    if (status == DT_OK && c->cut)
        c->env.cut(w->context);
    w->state = BUSY;
    DT_THEN(status, dt_thread_start(&w->thread, c->env.name, run_chores, w, err));
    if (status == DT_OK)
        return DT_OK;
    w->state = NOT_THERE;
    if (w->context)
        c->env.close(w->context);
    w->context = NULL;
    return status;
}

/* If a chore is due before the timer wakes, wakes an idle thread or starts a thread. */
static void wake_or_start_worker(dt_chores *c)
{
    const struct dt_chore *next = find_next_chore(c);
    if (!next || (c->timer && c->timer->until_us <= next->due_us))
        return;
    struct worker *w = c->timer;
    for (unsigned i = 0; !w && i < c->env.threads; i++)
        if (c->workers[i].state == IDLE)
            w = &c->workers[i];
    if (w) {
        c->timer = w;
        w->until_us = next->due_us;
        dt_mailbox_signal(w->mailbox, LOOK);
        return;
    }
    /* If all threads are busy, or if no thread can be started, each busy thread looks for work when its tick ends. */
    for (unsigned i = 0; i < c->env.threads; i++)
        if (c->workers[i].state == NOT_THERE) {
            (void)!start_worker(c, &c->workers[i], NULL);
            return;
        }
}

/* ---- threads ---- */

static void run_tick(struct worker *w, struct dt_chore *chore, int64_t now_us)
{
    dt_chores *c = w->chores;
    dt_assert(!chore->started_us && chore->removed == chore->ending);
    chore->started_us = now_us;
    chore->woken = chore->failed = chore->ending = chore->idle = false;
    c->waiting += chore->waits;
    wake_or_start_worker(c);
    pthread_mutex_unlock(&c->lock);
    const int64_t due_us = chore->tick(chore->arg, w->context);
    if (c->env.check)
        c->env.check(w->context);
    if (!chore->failed && !chore->idle)
        dt_outage_over(&chore->outage);
    pthread_mutex_lock(&c->lock);
    c->waiting -= chore->waits;
    now_us = dt_clock_mono_us(c->env.clock);
    dt_metric_add(chore->ticks, 1);
    dt_metric_add(chore->busy_us, now_us - chore->started_us);
    chore->started_us = 0;
    /* A due time in the past becomes now, because other chores have been due for longer. */
    chore->due_us = chore->ending
                        ? now_us
                        : dt_later(chore->woken ? dt_earlier(due_us, earliest_due_us(c, chore)) : due_us, now_us);
    if (chore->removed)
        pthread_cond_broadcast(&c->ended); /* after the lock is released, the chore may be freed */
}

static void run_chores(void *arg)
{
    struct worker *w = arg;
    dt_chores *c = w->chores;
    pthread_mutex_lock(&c->lock);
    do {
        int64_t worked_us = dt_clock_mono_us(c->env.clock);
        w->state = BUSY;
        while (!dt_thread_stopping(&w->thread)) {
            struct dt_chore *next = find_next_chore(c);
            const int64_t now_us = dt_clock_mono_us(c->env.clock);
            if (next && next->due_us <= now_us) {
                run_tick(w, next, now_us);
                worked_us = dt_clock_mono_us(c->env.clock);
                continue;
            }
            const bool times = next && (!c->timer || c->timer->until_us > next->due_us);
            const bool may_end = w != &c->workers[0] && !times;
            if (may_end && now_us - worked_us >= REST_US)
                break;
            w->state = IDLE;
            w->until_us = times ? next->due_us : INT64_MAX;
            if (times)
                c->timer = w;
            const int64_t until_us = may_end ? worked_us + REST_US : w->until_us;
            pthread_mutex_unlock(&c->lock);
            (void)dt_mailbox_wait(w->mailbox, until_us);
            pthread_mutex_lock(&c->lock);
            w->state = BUSY;
            if (c->timer == w)
                c->timer = NULL;
        }
        w->state = ENDING;
        void *context = w->context;
        w->context = NULL;
        pthread_mutex_unlock(&c->lock);
        if (context)
            c->env.close(context);
        pthread_mutex_lock(&c->lock);
        /* A chore may have become due since this thread decided to end: a wake-up no longer reached this thread. If no
         * other thread is the timer, this one continues as the timer. */
    } while (!dt_thread_stopping(&w->thread) && !c->timer && find_next_chore(c) &&
             (!c->env.open || c->env.open(c->env.arg, &w->context, NULL) == DT_OK));
    w->state = NOT_THERE;
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
        c->workers[i].chores = c;
        status = dt_mailbox_new(&c->workers[i].mailbox);
    }
    DT_THEN(status, start_worker(c, &c->workers[0], err));
    if (status == DT_OK)
        *out = c;
    else
        dt_chores_stop(c);
    return status;
}

void dt_chores_cut(dt_chores *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->cut = true;
    for (unsigned i = 0; i < c->env.threads; i++)
        if (c->workers[i].context)
            c->env.cut(c->workers[i].context);
    pthread_mutex_unlock(&c->lock);
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
        dt_mailbox_free(w->mailbox);
    }
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- functions for any thread ---- */

void dt_chores_add(dt_chores *c, struct dt_chore *chore)
{
    char label[64];
    snprintf(label, sizeof(label), "chore=\"%s\"", chore->name);
    chore->ticks = dt_counter("duetime_chore_ticks_total", "Ticks (runs) of periodic work, by chore.", label);
    chore->busy_us = dt_counter("duetime_chore_busy_microseconds_total", "Time spent in ticks, by chore.", label);
    chore->failures = dt_counter("duetime_chore_failures_total", "Failed ticks, by chore.", label);
    pthread_mutex_lock(&c->lock);
    dt_assert(!chore->chores && !chore->started_us);
    chore->next = c->first;
    c->first = chore;
    chore->due_us = earliest_due_us(c, chore);
    __atomic_store_n(&chore->chores, c, __ATOMIC_RELEASE);
    wake_or_start_worker(c);
    pthread_mutex_unlock(&c->lock);
}

void dt_chore_wake(struct dt_chore *chore)
{
    dt_chores *c = __atomic_load_n(&chore->chores, __ATOMIC_ACQUIRE);
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    if (chore->started_us) {
        chore->woken = true;
    } else {
        chore->due_us = dt_earlier(chore->due_us, earliest_due_us(c, chore));
        wake_or_start_worker(c);
    }
    pthread_mutex_unlock(&c->lock);
}

void dt_chore_stop(struct dt_chore *chore)
{
    dt_chores *c = __atomic_load_n(&chore->chores, __ATOMIC_ACQUIRE);
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    chore->removed = true;
    pthread_mutex_unlock(&c->lock);
}

int64_t dt_chore_failed(struct dt_chore *chore, enum dt_outage_of of, const char *what, dt_status status,
                        const struct dt_error *err, int64_t pause_us)
{
    chore->failed = true;
    dt_metric_add(chore->failures, 1);
    if (!dt_chore_stopping(chore))
        dt_outage_failed(&chore->outage, of, chore->name, what, status, err);
    return chore->not_before_us = dt_clock_mono_us(chore->chores->env.clock) + pause_us;
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
    dt_chores *c = __atomic_load_n(&chore->chores, __ATOMIC_ACQUIRE);
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    chore->removed = true;
    if (chore->last) {
        chore->ending = true;
        chore->due_us = dt_clock_mono_us(c->env.clock);
        wake_or_start_worker(c);
    }
    while (chore->started_us || chore->ending)
        (void)dt_clock_wait(&c->ended, &c->lock, INT64_MAX);
    struct dt_chore **at = &c->first;
    while (*at != chore)
        at = &(*at)->next;
    *at = chore->next;
    __atomic_store_n(&chore->chores, NULL, __ATOMIC_RELEASE);
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
