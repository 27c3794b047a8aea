/*
 * Owns what this process asks the watcher about due jobs, and which loops were woken for the answers. Does not know
 * what a woken loop does.
 *
 *   at rest   a statement waits for DT_WATCH_MS; a job that becomes due ends it
 *   busy      for BUSY_US after a new job was due: waits BUSY_WAIT_MS, then reads the jobs of the last WINDOW_MS again,
 *             because commits arrive out of order
 *   once in reconcile.period, all due jobs are read, up to DT_WATCH_DUE of them
 *
 * Invariant: a job in the window wakes its loop once. If the job is still due later (its topic is paused), it wakes no
 *            loop again.
 * If an answer has the maximal number of jobs, more may be due, and all loops are woken.
 */
#include "shard_loop.h"

#include <pthread.h>

#include "base/assert.h"
#include "job/shard.h"

#define BUSY_WAIT_MS INT64_C(100)
#define BUSY_US      INT64_C(3000000)
#define WINDOW_MS    INT64_C(2000)
#define HEARS_US     INT64_C(5000000)

/* Jobs for which loops were woken, ordered by time. */
struct told {
    struct dt_due v[DT_WATCH_DUE];
    size_t n;
};

struct dt_due_watch {
    const struct dt_process_env *env;
    struct dt_watch_listener listener;
    _Atomic int64_t heard_us; /* mono: time of the last answer; 0: there was none, or the last wait failed */
    _Atomic bool none_due;    /* neither the last full read nor any answer after it had a due job */
    int64_t busy_us, all_us;
    bool asks_all; /* the running statement returns all due jobs */
    /* Parameters of the next wait (watch.h). */
    int64_t due_from_ms, look_from_ms, generation, topics_version, leads;
    /* recent: jobs that became due within WINDOW_MS; old: jobs that were due before, when all due jobs were last
     * read. */
    struct told recent, old;
    pthread_mutex_t lock; /* protects `rows` and `known` */
    struct dt_watched_row rows[DT_SHARDS_MAX];
    bool known[DT_SHARDS_MAX];
};

static void notify_all_shards(dt_due_watch *w, enum dt_loop_news news)
{
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        w->env->tell(w->env->arg, shard, news);
}

/* ---- what became due ---- */

static int compare_due(const void *a, const void *b)
{
    const struct dt_due *x = a;
    const struct dt_due *y = b;
    if (x->next_ms != y->next_ms)
        return x->next_ms < y->next_ms ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void remember_due(struct told *told, const struct dt_due *due, size_t n)
{
    dt_assert_cmp(n, <=, DT_WATCH_DUE);
    memcpy(told->v, due, n * sizeof(*due));
    told->n = n;
}

/* Wakes the loops of due jobs, except loops that were already woken for these jobs. Returns whether a loop was
 * woken. */
static bool wake_due_shards(dt_due_watch *w, const struct told *told, const struct dt_due *due, size_t n,
                            enum dt_loop_news how)
{
    struct dt_shard_map map;
    struct dt_shard_set news = {0};
    w->env->map(w->env->arg, &map);
    for (size_t i = 0; i < n; i++)
        if (!bsearch(&due[i], told->v, told->n, sizeof(*told->v), compare_due))
            dt_shard_set_add(&news, dt_shard_of(&map, due[i].id));
    for (unsigned shard = 0; shard < map.shards; shard++)
        if (dt_shard_set_has(&news, shard))
            w->env->tell(w->env->arg, shard, how);
    return !dt_shard_set_empty(&news);
}

static void handle_due_rows(dt_due_watch *w, const struct dt_watched *seen)
{
    size_t n_old = 0; /* number of rows in seen->due that are due before the window */
    while (n_old < seen->n_due && seen->due[n_old].next_ms < seen->now_ms - WINDOW_MS)
        n_old++;
    const struct dt_due *recent = seen->due + n_old;
    size_t n = seen->n_due - n_old;
    w->none_due = seen->n_due == 0 && (w->asks_all || w->none_due);
    if (seen->n_due == DT_WATCH_DUE) /* more jobs may be due: each loop reads its long backlog by itself */
        notify_all_shards(w, DT_LOOP_DUE);
    else if (w->asks_all) {
        (void)wake_due_shards(w, &w->old, seen->due, n_old, DT_LOOP_AGAIN);
        remember_due(&w->old, seen->due, n_old);
    }
    if (wake_due_shards(w, &w->recent, recent, n, DT_LOOP_DUE))
        w->busy_us = dt_clock_mono_us(w->env->clock) + BUSY_US;
    remember_due(&w->recent, recent, n);
    w->look_from_ms = seen->now_ms - WINDOW_MS;
    w->due_from_ms = n ? recent[n - 1].next_ms + 1 : w->look_from_ms;
}

/* ---- what else changed ---- */

/* Compares the shards' rows with the rows of the last answer. If this process lost a leadership and won it again in
 * between, the loop compares the row itself. */
static void compare_shard_rows(dt_due_watch *w, const struct dt_watched *seen)
{
    bool there[DT_SHARDS_MAX] = {false};
    struct dt_shard_set changed = {0};
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < seen->n_rows; i++) {
        const struct dt_watched_row *row = &seen->rows[i];
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
            w->env->tell(w->env->arg, shard, DT_LOOP_DUE);
}

/* ---- the watcher's thread ---- */

static void fill_watch_request(void *arg, struct dt_watch *watch)
{
    dt_due_watch *w = arg;
    const int64_t now_us = dt_clock_mono_us(w->env->clock);
    if (now_us < w->busy_us)
        watch->wait_ms = dt_earlier(watch->wait_ms, BUSY_WAIT_MS);
    w->asks_all =
        /* Reads all due jobs with this statement, if the next statement would begin too late for that. */
        now_us + watch->wait_ms * 1000 >= w->all_us;
    watch->owner = w->env->owner;
    watch->due_from_ms = w->due_from_ms;
    watch->look_from_ms = w->asks_all ? 0 : w->look_from_ms;
    watch->generation = w->generation;
    watch->topics_version = w->topics_version;
    watch->leads = w->leads;
}

static void on_watch_answered(void *arg, dt_status status, const struct dt_watched *seen, dt_store *)
{
    dt_due_watch *w = arg;
    if (status != DT_OK) { /* the watch has failed: loops that slept long because of it must poll again */
        w->heard_us = 0;
        w->none_due = false;
        w->due_from_ms = w->look_from_ms = 0;
        if (status != DT_SHUTDOWN)
            notify_all_shards(w, DT_LOOP_DUE);
        return;
    }
    w->heard_us = dt_clock_mono_us(w->env->clock);
    if (w->asks_all)
        w->all_us = w->heard_us + w->env->config->reconcile_period * 1000;
    if (w->generation && seen->generation != w->generation)
        w->env->stale_map(w->env->arg);
    if (w->topics_version && seen->topics_version != w->topics_version)
        notify_all_shards(w, DT_LOOP_AGAIN);
    if (seen->leads != w->leads) /* leaders changed, or a shard was halted */
        notify_all_shards(w, DT_LOOP_DUE);
    w->generation = seen->generation;
    w->topics_version = seen->topics_version;
    w->leads = seen->leads;
    compare_shard_rows(w, seen);
    handle_due_rows(w, seen);
}

/* ---- any thread ---- */

bool dt_due_watch_hears(dt_due_watch *w)
{
    if (!w)
        return false;
    int64_t heard_us = w->heard_us;
    return heard_us && dt_clock_mono_us(w->env->clock) - heard_us < HEARS_US;
}

bool dt_due_watch_none_due(dt_due_watch *w)
{
    return dt_due_watch_hears(w) && w->none_due;
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

dt_status dt_due_watch_new(const struct dt_process_env *env, dt_due_watch **out, struct dt_error *err)
{
    *out = NULL;
    if (dt_index_configured(env->config))
        return DT_OK;
    dt_due_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return dt_fail(err, DT_NOMEM, "watch of due jobs: out of memory");
    w->env = env;
    pthread_mutex_init(&w->lock, NULL);
    w->listener = (struct dt_watch_listener){.ask = fill_watch_request, .told = on_watch_answered, .arg = w};
    dt_watcher_add(env->watcher, &w->listener);
    *out = w;
    return DT_OK;
}

void dt_due_watch_free(dt_due_watch *w)
{
    if (!w)
        return;
    pthread_mutex_destroy(&w->lock);
    free(w);
}
