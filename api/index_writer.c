/*
 * Owns the queue between those who changed jobs and Redis, and the thread that empties it. Refuses to know why an entry
 * is posted, and never makes anybody wait: entries are hints.
 *
 * Invariants: the ring holds at most RING_ENTRIES; what does not fit is dropped and counted; entries go out in the
 * order in which they were posted, so the last word on a job is the last one. What is due soon goes at once; the rest
 * waits a moment for company. The thread sleeps without a timeout while nothing is queued.
 */
#include "index_writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail_point.h"
#include "base/log.h"
#include "base/metrics.h"

#define RING_ENTRIES 262144u /* power of two; 6 MiB */
#define PUT_ENTRIES  4096u
#define URGENT_MS    2000           /* entries due sooner go at once … */
#define LINGER_US    INT64_C(20000) /* … others wait this long for company: a pipeline costs as much as fifty entries */
#define LINGER_MAX   1024u

struct dt_index_writer {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    dt_topic_cache *topics;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Below: under the lock. */
    struct dt_entry *ring;
    size_t head, n;                             /* first entry, how many */
    uint64_t outbox[(DT_SHARDS_MAX + 63) / 64]; /* shards whose outbox has news: a bit each */
    bool outbox_news, topic_news, stopping, sleeping;
    bool urgent;       /* something in the ring must not wait */
    int64_t oldest_us; /* when the ring stopped being empty */
    /* The thread's own. */
    dt_index *index;
    struct dt_entry *batch;
    _Atomic bool up;
    dt_metric *written, *dropped_full, *dropped_redis, *seconds, *sizes;
};

/* What one round takes from under the lock. */
struct round {
    size_t n;
    uint64_t outbox[(DT_SHARDS_MAX + 63) / 64];
    bool outbox_news, topic_news, stopping;
};

/* ---- posting ---- */

static void wake_locked(dt_index_writer *w)
{
    if (w->sleeping)
        pthread_cond_signal(&w->wake);
}

/* Removals are never urgent: a stale entry is refused when it is claimed. */
static bool any_urgent(const dt_index_writer *w, const struct dt_entry *entries, size_t n)
{
    int64_t soon_ms = dt_refclock_latest_ms(w->ref) + URGENT_MS;
    for (size_t i = 0; i < n; i++)
        if (entries[i].due_ms != 0 && entries[i].due_ms <= soon_ms)
            return true;
    return false;
}

void dt_index_writer_post(dt_index_writer *w, const struct dt_entry *entries, size_t n)
{
    if (n == 0)
        return;
    bool urgent = any_urgent(w, entries, n);
    pthread_mutex_lock(&w->lock);
    bool first = w->n == 0;
    size_t room = RING_ENTRIES - w->n;
    size_t taken = n < room ? n : room;
    for (size_t i = 0; i < taken; i++)
        w->ring[(w->head + w->n + i) & (RING_ENTRIES - 1)] = entries[i];
    w->n += taken;
    w->urgent = w->urgent || urgent;
    if (first)
        w->oldest_us = dt_clock_mono_us(w->clock);
    if (first || urgent || w->n >= LINGER_MAX)
        wake_locked(w);
    pthread_mutex_unlock(&w->lock);
    if (taken < n)
        dt_metric_add(w->dropped_full, (int64_t)(n - taken));
}

void dt_index_writer_outbox(dt_index_writer *w, int64_t job_id)
{
    struct dt_view *view = dt_topic_cache_view(w->topics);
    if (!view)
        return;
    unsigned shard = dt_shard_of(&view->map, job_id);
    dt_view_release(view);
    pthread_mutex_lock(&w->lock);
    w->outbox[shard / 64] |= UINT64_C(1) << (shard % 64);
    w->outbox_news = true;
    wake_locked(w);
    pthread_mutex_unlock(&w->lock);
}

void dt_index_writer_topics(dt_index_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->topic_news = true;
    wake_locked(w);
    pthread_mutex_unlock(&w->lock);
}

bool dt_index_writer_up(const dt_index_writer *w)
{
    return atomic_load(&w->up);
}

/* ---- the thread ---- */

static bool something_to_do_locked(const dt_index_writer *w)
{
    return w->stopping || w->outbox_news || w->topic_news || w->urgent || w->n >= LINGER_MAX ||
           (w->n && dt_clock_mono_us(w->clock) >= w->oldest_us + LINGER_US);
}

static void sleep_locked(dt_index_writer *w)
{
    int64_t until_us = w->oldest_us + LINGER_US;
    struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
    w->sleeping = true;
    if (w->n)
        pthread_cond_timedwait(&w->wake, &w->lock, &until);
    else
        pthread_cond_wait(&w->wake, &w->lock);
    w->sleeping = false;
}

/* Sleeps until there is something to do, and takes it. */
static void take(dt_index_writer *w, struct round *round)
{
    pthread_mutex_lock(&w->lock);
    while (!something_to_do_locked(w))
        sleep_locked(w);
    round->n = w->n < PUT_ENTRIES ? w->n : PUT_ENTRIES;
    for (size_t i = 0; i < round->n; i++)
        w->batch[i] = w->ring[(w->head + i) & (RING_ENTRIES - 1)];
    w->head = (w->head + round->n) & (RING_ENTRIES - 1);
    w->n -= round->n;
    w->urgent = w->urgent && w->n; /* the rest was urgent, too, for all we know */
    memcpy(round->outbox, w->outbox, sizeof(w->outbox));
    memset(w->outbox, 0, sizeof(w->outbox));
    round->outbox_news = w->outbox_news;
    round->topic_news = w->topic_news;
    round->stopping = w->stopping && w->n == 0;
    w->outbox_news = w->topic_news = false;
    pthread_mutex_unlock(&w->lock);
}

/* The name of the installation is known only once MySQL was reached, so the connections are made late. */
static dt_status connect_index(dt_index_writer *w, const struct dt_view *view, struct dt_error *err)
{
    if (w->index)
        return DT_OK;
    return dt_index_new(w->config, view->installation.name, w->clock, &w->index, err);
}

static dt_status announce(dt_index_writer *w, const struct round *round, unsigned shards, struct dt_error *err)
{
    dt_status status = DT_OK;
    for (unsigned shard = 0; round->outbox_news && shard < shards && status == DT_OK; shard++)
        if (round->outbox[shard / 64] >> (shard % 64) & 1)
            status = dt_index_wake(w->index, shard, true, err);
    if (round->topic_news && status == DT_OK)
        status = dt_index_wake_all(w->index, err);
    return status;
}

static dt_status send(dt_index_writer *w, const struct round *round, struct dt_error *err)
{
    struct dt_view *view = dt_topic_cache_view(w->topics);
    if (!view)
        return dt_fail(err, DT_UNAVAILABLE, "MySQL was never reached");
    dt_status status = connect_index(w, view, err);
    DT_FAIL_POINT_STATUS("index.write", status, err);
    if (status == DT_OK && round->n) {
        int64_t horizon_end_ms = dt_refclock_latest_ms(w->ref) + w->config->index_horizon;
        int64_t begun_us = dt_clock_mono_us(w->clock);
        status = dt_index_put(w->index, &view->map, w->batch, round->n, horizon_end_ms, true, err);
        dt_metric_observe(w->seconds, (double)(dt_clock_mono_us(w->clock) - begun_us) / 1e6);
        dt_metric_observe(w->sizes, (double)round->n);
    }
    if (status == DT_OK)
        status = announce(w, round, view->map.shards, err);
    dt_view_release(view);
    return status;
}

static void note(dt_index_writer *w, const struct round *round, dt_status status, const struct dt_error *err)
{
    bool was_up = atomic_exchange(&w->up, status == DT_OK);
    dt_metric_add(status == DT_OK ? w->written : w->dropped_redis, (int64_t)round->n);
    if (was_up && status != DT_OK)
        DT_LOG(WARN, "index", "Redis does not take entries; the reconciler will mend the index",
               DT_S("error", err->text));
    else if (!was_up && status == DT_OK)
        DT_LOG(INFO, "index", "Redis takes entries again");
}

/* Stopping while Redis is away: what is left is the reconciler's. */
static void give_up_when_stopping(dt_index_writer *w)
{
    pthread_mutex_lock(&w->lock);
    size_t left = w->stopping ? w->n : 0;
    w->n -= left;
    pthread_mutex_unlock(&w->lock);
    dt_metric_add(w->dropped_redis, (int64_t)left);
}

static void *run(void *arg)
{
    dt_index_writer *w = arg;
    for (;;) {
        struct round round;
        struct dt_error err = {0};
        take(w, &round);
        if (round.n || round.outbox_news || round.topic_news)
            note(w, &round, send(w, &round, &err), &err);
        if (!atomic_load(&w->up))
            give_up_when_stopping(w);
        if (round.stopping)
            return NULL;
    }
}

/* ---- beginning and end ---- */

static void register_metrics(dt_index_writer *w)
{
    const char *dropped = "Index entries that were dropped: the reconciler adds them.";
    w->written = dt_counter("duetime_api_index_entries_total", "Index entries written to Redis.", "");
    w->dropped_full = dt_counter("duetime_api_index_dropped_total", dropped, "reason=\"queue_full\"");
    w->dropped_redis = dt_counter("duetime_api_index_dropped_total", dropped, "reason=\"redis\"");
    w->seconds = dt_histogram("duetime_api_redis_call_seconds", "Time of one pipeline of index entries.", "");
    w->sizes = dt_histogram_count("duetime_api_index_batch_entries", "Entries in one pipeline.", "");
}

static void init_lock(dt_index_writer *w)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
}

dt_status dt_index_writer_start(const struct dt_config *config, const dt_clock *clock, dt_refclock *ref,
                                dt_topic_cache *topics, dt_index_writer **out, struct dt_error *err)
{
    *out = NULL;
    dt_index_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return dt_fail(err, DT_NOMEM, "no memory for the index writer");
    w->config = config;
    w->clock = clock;
    w->ref = ref;
    w->topics = topics;
    atomic_store(&w->up, true);
    init_lock(w);
    register_metrics(w);
    w->ring = malloc(RING_ENTRIES * sizeof(*w->ring));
    w->batch = malloc(PUT_ENTRIES * sizeof(*w->batch));
    if (!w->ring || !w->batch || pthread_create(&w->thread, NULL, run, w) != 0) {
        dt_index_writer_free(w);
        return dt_fail(err, DT_SYSTEM, "the index writer cannot start");
    }
    *out = w;
    return DT_OK;
}

void dt_index_writer_stop(dt_index_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
}

void dt_index_writer_free(dt_index_writer *w)
{
    if (!w)
        return;
    dt_index_free(w->index);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    free(w->ring);
    free(w->batch);
    free(w);
}
