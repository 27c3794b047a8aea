/*
 * Owns the wait in MySQL, and what was told of what it found. Refuses to know what a loop makes of it.
 *
 *   at rest   one statement waits WAIT_MS; what becomes due ends it
 *   busy      for BUSY_US after something new: it waits BUSY_WAIT_MS, then all of the last WINDOW_MS is looked at
 *             again, since commits come out of order
 *   once in reconcile.period everything that is due is looked at, up to DT_WATCH_DUE rows
 *
 * Invariant: a row in the window is told once; one that stands there still (its topic is paused) wakes nobody again.
 * Where an answer is full nobody knows what else is due, and all loops look.
 */
#include "due_watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "job/shard_set.h"

#define WAIT_MS      INT64_C(2500)
#define BUSY_WAIT_MS INT64_C(100)
#define BUSY_US      INT64_C(3000000)
#define WINDOW_MS    INT64_C(2000)
#define APART_US     INT64_C(30000) /* answers, however much becomes due */
#define HEARS_US     INT64_C(5000000)
#define RETRY_US     INT64_C(1000000)
#define CLOCK_US     INT64_C(10000000) /* MySQL's clock is sampled */

/* What was told, in order of time. */
struct told {
    struct dt_due v[DT_WATCH_DUE];
    size_t n;
};

struct dt_due_watch {
    struct dt_due_watch_env env;
    dt_store *store;
    dt_mailbox *mailbox;
    struct dt_thread thread;
    _Atomic int64_t heard_us; /* mono: the last answer; 0: none, or it was a failure */
    bool failed;              /* and it was told */
    int64_t busy_us, all_us, clock_us;
    struct dt_watch watch;   /* the next one */
    struct dt_watched seen;  /* the last answer */
    struct told recent, old; /* due in the window; before it, as of the last look at everything */
    pthread_mutex_t lock;    /* of rows */
    struct dt_watched_row rows[DT_SHARDS_MAX];
    bool known[DT_SHARDS_MAX];
};

static void wake_all(dt_due_watch *w, void (*tell)(void *arg, unsigned shard))
{
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        tell(w->env.arg, shard);
}

/* ---- what became due ---- */

static int by_due(const void *a, const void *b)
{
    const struct dt_due *x = a;
    const struct dt_due *y = b;
    if (x->next_ms != y->next_ms)
        return x->next_ms < y->next_ms ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void remember(struct told *told, const struct dt_due *due, size_t n)
{
    dt_assert_cmp(n, <=, DT_WATCH_DUE);
    memcpy(told->v, due, n * sizeof(*due));
    told->n = n;
}

/* Tells the shards of those that were not told. True: there was one. */
static bool tell(dt_due_watch *w, const struct told *told, const struct dt_due *due, size_t n,
                 void (*wake)(void *arg, unsigned shard))
{
    struct dt_shard_map map;
    struct dt_shard_set news = {0};
    w->env.map(w->env.arg, &map);
    for (size_t i = 0; i < n; i++)
        if (!bsearch(&due[i], told->v, told->n, sizeof(*told->v), by_due))
            dt_shard_set_add(&news, dt_shard_of(&map, due[i].id));
    for (unsigned shard = 0; shard < map.shards; shard++)
        if (dt_shard_set_has(&news, shard))
            wake(w->env.arg, shard);
    return !dt_shard_set_empty(&news);
}

static void take_due(dt_due_watch *w, bool all)
{
    const struct dt_watched *seen = &w->seen;
    size_t n_old = 0; /* rows that were due before the window */
    while (n_old < seen->n_due && seen->due[n_old].next_ms < seen->now_ms - WINDOW_MS)
        n_old++;
    const struct dt_due *recent = seen->due + n_old;
    size_t n = seen->n_due - n_old;
    if (seen->n_due == DT_WATCH_DUE) /* loops walk over a long backlog by themselves */
        wake_all(w, w->env.wake);
    else if (all) {
        (void)tell(w, &w->old, seen->due, n_old, w->env.again);
        remember(&w->old, seen->due, n_old);
    }
    if (tell(w, &w->recent, recent, n, w->env.wake))
        w->busy_us = dt_clock_mono_us(w->env.clock) + BUSY_US;
    remember(&w->recent, recent, n);
    w->watch.look_from_ms = seen->now_ms - WINDOW_MS;
    w->watch.due_from_ms = n ? recent[n - 1].next_ms + 1 : w->watch.look_from_ms;
}

/* ---- what else changed ---- */

/* Who lost a leadership, be it to this very process, compares its row itself. */
static void take_rows(dt_due_watch *w)
{
    bool there[DT_SHARDS_MAX] = {false};
    struct dt_shard_set changed = {0};
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->seen.n_rows; i++) {
        const struct dt_watched_row *row = &w->seen.rows[i];
        unsigned shard = row->shard % DT_SHARDS_MAX;
        if (w->known[shard] && (w->rows[shard].epoch != row->epoch || w->rows[shard].token != row->token))
            dt_shard_set_add(&changed, shard);
        w->rows[shard] = *row;
        there[shard] = true;
    }
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        if (w->known[shard] && !there[shard])
            dt_shard_set_add(&changed, shard);
        w->known[shard] = there[shard];
    }
    pthread_mutex_unlock(&w->lock);
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        if (dt_shard_set_has(&changed, shard))
            w->env.wake(w->env.arg, shard);
}

/* ---- the wait ---- */

static dt_status look(dt_due_watch *w, struct dt_error *err)
{
    struct dt_watch watch = w->watch;
    const struct dt_watched *seen = &w->seen;
    int64_t most_ms = dt_clock_mono_us(w->env.clock) < w->busy_us
                          ? BUSY_WAIT_MS
                          : dt_earlier(WAIT_MS, w->env.config->mysql_io_timeout / 2);
    bool all = dt_clock_mono_us(w->env.clock) + most_ms * 1000 >= w->all_us; /* the next one would come too late */
    dt_status status = DT_OK;
    if (dt_clock_mono_us(w->env.clock) >= w->clock_us) {
        status = dt_store_ping(w->store, err);
        w->clock_us = dt_clock_mono_us(w->env.clock) + CLOCK_US;
    }
    watch.wait_ms = most_ms;
    watch.look_from_ms = all ? 0 : watch.look_from_ms;
    if (status == DT_OK)
        status = dt_store_watch(w->store, &watch, &w->seen, err);
    if (status != DT_OK)
        return status;
    w->heard_us = dt_clock_mono_us(w->env.clock);
    if (all)
        w->all_us = w->heard_us + w->env.config->reconcile_period * 1000;
    if (w->watch.generation && seen->generation != w->watch.generation)
        w->env.stale_map(w->env.arg);
    if (w->watch.topics_version && seen->topics_version != w->watch.topics_version)
        wake_all(w, w->env.again);
    if (seen->leads != w->watch.leads) /* one may have been halted */
        wake_all(w, w->env.wake);
    w->watch.generation = seen->generation;
    w->watch.topics_version = seen->topics_version;
    w->watch.leads = seen->leads;
    take_rows(w);
    take_due(w, all);
    return DT_OK;
}

static void run(void *arg)
{
    dt_due_watch *w = arg;
    while (!dt_thread_stopping(&w->thread)) {
        struct dt_error err = {0};
        dt_status status = look(w, &err);
        if (status != DT_OK) { /* loops that sleep long because they would be told look by themselves from now on */
            w->heard_us = 0;
            w->watch.due_from_ms = w->watch.look_from_ms = 0;
            w->clock_us = 0;
            wake_all(w, w->env.wake);
            if (!w->failed)
                DT_LOG(WARN, "watch", "leaders look by themselves for what is due",
                       DT_S("status", dt_status_name(status)), DT_S("reason", err.text));
        }
        w->failed = status != DT_OK;
        if (!dt_thread_stopping(&w->thread))
            dt_mailbox_pause(w->mailbox, dt_clock_mono_us(w->env.clock) + (status == DT_OK ? APART_US : RETRY_US),
                             DT_THREAD_STOP);
    }
    w->heard_us = 0;
}

/* ---- any thread ---- */

bool dt_due_watch_hears(dt_due_watch *w)
{
    if (!w)
        return false;
    int64_t heard_us = w->heard_us;
    return heard_us && dt_clock_mono_us(w->env.clock) - heard_us < HEARS_US;
}

bool dt_due_watch_row(dt_due_watch *w, unsigned shard, struct dt_watched_row *out)
{
    if (!dt_due_watch_hears(w))
        return false;
    pthread_mutex_lock(&w->lock);
    bool known = w->known[shard % DT_SHARDS_MAX];
    *out = w->rows[shard % DT_SHARDS_MAX];
    pthread_mutex_unlock(&w->lock);
    return known;
}

/* ---- life ---- */

dt_status dt_due_watch_start(const struct dt_due_watch_env *env, dt_due_watch **out, struct dt_error *err)
{
    *out = NULL;
    if (dt_index_configured(env->config))
        return DT_OK;
    dt_due_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return dt_fail(err, DT_NOMEM, "the watch");
    w->env = *env;
    w->watch.owner = env->owner;
    pthread_mutex_init(&w->lock, NULL);
    dt_status status = dt_mailbox_new(&w->mailbox);
    if (status == DT_OK)
        status = dt_store_new(env->config, env->ref, &w->store);
    if (status == DT_OK)
        status = dt_thread_start(&w->thread, "watch", run, w, err);
    if (status != DT_OK) {
        dt_due_watch_stop(w);
        return dt_fail(err, status, "the watch");
    }
    *out = w;
    return DT_OK;
}

void dt_due_watch_leave(dt_due_watch *w)
{
    if (w)
        dt_thread_ask_stop(&w->thread, w->mailbox);
}

void dt_due_watch_stop(dt_due_watch *w)
{
    if (!w)
        return;
    dt_thread_stop(&w->thread, w->mailbox);
    dt_store_free(w->store);
    dt_mailbox_free(w->mailbox);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
