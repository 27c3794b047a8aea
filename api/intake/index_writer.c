/*
 * Owns the queue of entries for Redis, and the thread that writes the entries. Entries are hints, so no caller waits.
 *
 *            written                        refused, or not answered: `on_loss`
 *   UP ◀───────────────┐          UP ───────────────────────────────────────────▶ DOWN
 *   entries that are due soon are written at once;   entries that cannot be written are dropped; endpoints that
 *   other entries wait a moment for more entries     work are served; every RETRY_US all endpoints are probed
 *
 * Invariants: the ring has at most RING_ENTRIES; entries that do not fit are dropped and counted; entries are written
 * in the order in which they were posted, so the latest entry of a job wins. Every loss is reported: `losses` rises,
 * and `down` names the failing endpoints until all endpoints take changes again. The process's row shows both to the
 * leaders, who read due jobs from MySQL until a compare with the index has succeeded.
 *
 * If there is nothing to write, the writer probes every PROBE_US.
 */
#include "index_writer.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "base/thread.h"

#define RING_ENTRIES 262144u /* a power of two; 6 MiB in all */
#define PUT_ENTRIES  4096u
#define URGENT_MS    2000 /* entries that are due within this time are written at once */
#define LINGER_US                                                                                                      \
    INT64_C(20000) /* less urgent entries wait for more entries, because a pipeline costs as much as fifty entries */
#define LINGER_MAX 1024u
#define RETRY_US   INT64_C(100000)
#define PROBE_US   INT64_C(2000000)
#define STALE_MS   2000

/* What the writer's thread takes from the queue at once. */
struct round {
    size_t n;
    uint64_t outbox[(DT_SHARDS_MAX + 63) / 64];
    bool outbox_news, topic_news, stopping;
};

struct dt_index_writer {
    const struct dt_session_env *env;
    dt_topic_cache *topics;
    struct dt_thread thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Members below: protected by the lock. */
    struct dt_entry *ring;
    size_t head, n;                             /* position of the first entry in the ring, and number of entries */
    uint64_t outbox[(DT_SHARDS_MAX + 63) / 64]; /* a bit for each shard whose outbox has a new row */
    bool outbox_news, topic_news, sleeping;
    bool urgent;       /* at least one entry in the ring must not wait */
    int64_t oldest_us; /* when the ring became non-empty */
    /* Members below: used by the writer's thread only. */
    dt_index *index;
    struct dt_entry *batch;
    struct round kept; /* wake-ups that could not be sent; sent when all endpoints work again */
    int64_t tried_us;  /* time of the last write or probe */
    void (*on_loss)(void *arg);
    void *loss_arg;
    struct dt_outage_part outage;
    _Atomic bool up;
    _Atomic int64_t losses;
    struct dt_index_verdict verdict; /* protected by the lock, like the members of the queue */
    dt_metric *written, *dropped_full, *dropped_redis, *seconds, *sizes;
};

/* ---- posting ---- */

static void wake_locked(dt_index_writer *w)
{
    if (w->sleeping)
        pthread_cond_signal(&w->wake);
}

/* Returns whether at least one entry is due by until_ms. Removals do not count, because a claim refuses a stale
 * entry. */
static bool has_entry_due_by(const struct dt_entry *entries, size_t n, int64_t until_ms)
{
    for (size_t i = 0; i < n; i++)
        if (entries[i].due_ms != 0 && entries[i].due_ms <= until_ms)
            return true;
    return false;
}

static void record_lost_entries(dt_index_writer *w)
{
    w->losses++;
    void (*tell)(void *) = __atomic_load_n(&w->on_loss, __ATOMIC_ACQUIRE);
    if (tell)
        tell(w->loss_arg);
}

void dt_index_writer_post(dt_index_writer *w, const struct dt_entry *entries, size_t n)
{
    if (!w || n == 0)
        return;
    const int64_t now_ms = dt_refclock_latest_ms(w->env->ref);
    const bool urgent = has_entry_due_by(entries, n, now_ms + URGENT_MS);
    pthread_mutex_lock(&w->lock);
    dt_assert_cmp(w->n, <=, RING_ENTRIES);
    dt_assert_cmp(w->head, <, RING_ENTRIES);
    bool first = w->n == 0;
    size_t room = RING_ENTRIES - w->n;
    size_t taken = n < room ? n : room;
    for (size_t i = 0; i < taken; i++)
        w->ring[(w->head + w->n + i) & (RING_ENTRIES - 1)] = entries[i];
    w->n += taken;
    w->urgent = w->urgent || urgent;
    if (first)
        w->oldest_us = dt_clock_mono_us(w->env->clock);
    if (first || urgent || w->n >= LINGER_MAX)
        wake_locked(w);
    pthread_mutex_unlock(&w->lock);
    if (taken == n)
        return;
    dt_metric_add(w->dropped_full, (int64_t)(n - taken));
    /* The reconciler adds dropped entries in time if they are due after the time given here. Only for entries that are
     * due earlier, a loss is recorded, so that leaders read MySQL. */
    if (has_entry_due_by(entries + taken, n - taken, now_ms + 2 * w->env->config->reconcile_period + STALE_MS))
        record_lost_entries(w);
}

void dt_index_writer_outbox(dt_index_writer *w, int64_t job_id)
{
    struct dt_view *view = w ? dt_topic_cache_view(w->topics) : NULL;
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
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->topic_news = true;
    wake_locked(w);
    pthread_mutex_unlock(&w->lock);
}

void dt_index_writer_on_loss(dt_index_writer *w, void (*on_loss)(void *arg), void *arg)
{
    if (!w)
        return;
    w->loss_arg = arg;
    __atomic_store_n(&w->on_loss, on_loss, __ATOMIC_RELEASE);
}

void dt_index_writer_verdict(dt_index_writer *w, struct dt_index_verdict *out)
{
    *out = (struct dt_index_verdict){.status = DT_OK, .down = "*"};
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    *out = w->verdict;
    pthread_mutex_unlock(&w->lock);
    out->losses = w->losses;
}

/* ---- the thread ---- */

/* Sleeps until there is something to write, and takes it. */
static void wait_for_round(dt_index_writer *w, struct round *round)
{
    pthread_mutex_lock(&w->lock);
    for (;;) {
        int64_t until_us = w->tried_us + (atomic_load(&w->up) ? PROBE_US : RETRY_US);
        if (w->n)
            until_us = dt_earlier(until_us, w->oldest_us + LINGER_US);
        if (dt_thread_stopping(&w->thread) || w->outbox_news || w->topic_news || w->urgent || w->n >= LINGER_MAX ||
            dt_clock_mono_us(w->env->clock) >= until_us)
            break;
        w->sleeping = true;
        dt_clock_wait(&w->wake, &w->lock, until_us);
        w->sleeping = false;
    }
    dt_assert_cmp(w->n, <=, RING_ENTRIES);
    round->n = w->n < PUT_ENTRIES ? w->n : PUT_ENTRIES;
    for (size_t i = 0; i < round->n; i++)
        w->batch[i] = w->ring[(w->head + i) & (RING_ENTRIES - 1)];
    w->head = (w->head + round->n) & (RING_ENTRIES - 1);
    w->n -= round->n;
    w->urgent = w->urgent && w->n; /* if urgent was set, the remaining entries may include an urgent one */
    memcpy(round->outbox, w->outbox, sizeof(w->outbox));
    memset(w->outbox, 0, sizeof(w->outbox));
    round->outbox_news = w->outbox_news;
    round->topic_news = w->topic_news;
    round->stopping = dt_thread_stopping(&w->thread) && w->n == 0;
    w->outbox_news = w->topic_news = false;
    pthread_mutex_unlock(&w->lock);
}

/* Connects to Redis. Keys need the installation's name, which is known only after MySQL was first reached. */
static dt_status connect_index(dt_index_writer *w, const struct dt_view *view, struct dt_error *err)
{
    if (w->index)
        return DT_OK;
    return dt_index_new(w->env->config, view->installation.name, w->env->clock, &w->index, err);
}

static dt_status write_entries(dt_index_writer *w, const struct round *round, struct dt_error *err)
{
    struct dt_view *view = dt_topic_cache_view(w->topics);
    if (!view)
        return dt_fail(err, DT_UNAVAILABLE, "MySQL has not been reached yet");
    dt_status status = connect_index(w, view, err);
    DT_FAIL_POINT_STATUS("index.write", status, err);
    if (status == DT_OK && round->n) {
        int64_t horizon_end_ms = dt_refclock_latest_ms(w->env->ref) + w->env->config->index_horizon;
        int64_t begun_us = dt_clock_mono_us(w->env->clock);
        status = dt_index_put(w->index, &view->map, w->batch, round->n, horizon_end_ms, true, err);
        dt_metric_observe(w->seconds, (double)(dt_clock_mono_us(w->env->clock) - begun_us) / 1e6);
        dt_metric_observe(w->sizes, (double)round->n);
    }
    for (unsigned shard = 0; round->outbox_news && shard < view->map.shards && status == DT_OK; shard++)
        if (round->outbox[shard / 64] >> (shard % 64) & 1)
            status = dt_index_wake(w->index, shard, true, err);
    if (round->topic_news && status == DT_OK)
        status = dt_index_wake_all(w->index, err);
    dt_view_release(view);
    return status;
}

static void record_result(dt_index_writer *w, const struct round *round, dt_status written, dt_status status,
                          const struct dt_error *err)
{
    dt_metric_add(written == DT_OK ? w->written : w->dropped_redis, (int64_t)round->n);
    char down[sizeof(w->verdict.down)] = "";
    if (status != DT_OK && w->index)
        dt_index_failing(w->index, down, sizeof(down));
    if (status != DT_OK && !down[0])
        snprintf(down, sizeof(down), "*");
    pthread_mutex_lock(&w->lock);
    const bool news = strcmp(down, w->verdict.down) != 0; /* the set of failing endpoints has changed */
    w->verdict.status = status;
    w->verdict.at_us = w->tried_us;
    snprintf(w->verdict.text, sizeof(w->verdict.text), "%s", status == DT_OK ? "" : err->text);
    memcpy(w->verdict.down, down, sizeof(down));
    pthread_mutex_unlock(&w->lock);
    bool was_up = atomic_exchange(&w->up, status == DT_OK);
    if (status != DT_OK)
        dt_outage_failed(&w->outage, DT_OUTAGE_REDIS, "index",
                         "Redis does not accept index entries; leaders read due jobs from MySQL meanwhile", status,
                         err);
    else
        dt_outage_over(&w->outage);
    if (news && status != DT_OK)
        record_lost_entries(w);
    if (was_up || status != DT_OK)
        return;
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < sizeof(w->outbox) / sizeof(w->outbox[0]); i++)
        w->outbox[i] |= w->kept.outbox[i];
    w->outbox_news |= w->kept.outbox_news;
    w->topic_news |= w->kept.topic_news;
    pthread_mutex_unlock(&w->lock);
    w->kept = (struct round){0};
}

/* Writes the entries that were taken from the queue (a round). idle: there are none, so Redis is only probed. */
static void write_round(dt_index_writer *w, const struct round *round, bool idle)
{
    struct dt_error err = {0};
    dt_status written = idle ? DT_OK : write_entries(w, round, &err);
    dt_status status = written;
    /* A write without error says nothing about endpoints that it did not use. */
    if (written == DT_OK && (idle || !atomic_load(&w->up))) {
        status = w->index ? DT_OK : dt_fail(&err, DT_UNAVAILABLE, "not connected to Redis yet");
        DT_FAIL_POINT_STATUS("index.probe", status, &err);
        DT_THEN(status, dt_index_probe(w->index, &err));
    }
    w->tried_us = dt_clock_mono_us(w->env->clock);
    for (size_t i = 0; written != DT_OK && i < sizeof(w->outbox) / sizeof(w->outbox[0]); i++)
        w->kept.outbox[i] |= round->outbox[i];
    w->kept.outbox_news |= written != DT_OK && round->outbox_news;
    w->kept.topic_news |= written != DT_OK && round->topic_news;
    record_result(w, round, written, status, &err);
}

static void run_writer(void *arg)
{
    dt_index_writer *w = arg;
    for (bool stop = false; !stop;) {
        struct round round;
        wait_for_round(w, &round);
        const bool idle = !round.n && !round.outbox_news && !round.topic_news;
        bool known = !idle;
        if (idle && !round.stopping) {
            /* Before this process first reached MySQL, it has no shard map, and Redis needs no entry from it. */
            struct dt_view *view = dt_topic_cache_view(w->topics);
            known = view && connect_index(w, view, NULL) == DT_OK;
            dt_view_release(view);
            if (!known)
                w->tried_us = dt_clock_mono_us(w->env->clock);
        }
        if (known)
            write_round(w, &round, idle);
        stop = round.stopping;
        if (stop || atomic_load(&w->up))
            continue;
        /* If Redis is down when the process stops, the reconciler adds the remaining entries later. */
        pthread_mutex_lock(&w->lock);
        stop = dt_thread_stopping(&w->thread);
        const size_t left = stop ? w->n : 0;
        w->n -= left;
        pthread_mutex_unlock(&w->lock);
        dt_metric_add(w->dropped_redis, (int64_t)left);
    }
}

/* ---- start and end ---- */

dt_status dt_index_writer_start(const struct dt_session_env *env, dt_topic_cache *topics, dt_index_writer **out,
                                struct dt_error *err)
{
    *out = NULL;
    if (!dt_index_configured(env->config))
        return DT_OK;
    dt_index_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return dt_fail(err, DT_NOMEM, "no memory for the index writer");
    w->env = env;
    w->topics = topics;
    atomic_store(&w->up, true);
    w->tried_us = dt_clock_mono_us(env->clock) - PROBE_US + RETRY_US;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    const char *dropped = "Index entries that were not written to Redis; the reconciler adds them later.";
    w->written = dt_counter("duetime_api_index_entries_total", "Index entries written to Redis.", "");
    w->dropped_full = dt_counter("duetime_api_index_dropped_total", dropped, "reason=\"queue_full\"");
    w->dropped_redis = dt_counter("duetime_api_index_dropped_total", dropped, "reason=\"redis\"");
    w->seconds =
        dt_histogram("duetime_api_redis_call_seconds", "Duration of one pipelined write of index entries.", "");
    w->sizes = dt_histogram_count("duetime_api_index_batch_entries", "Index entries in one pipelined write.", "");
    w->ring = malloc(RING_ENTRIES * sizeof(*w->ring));
    w->batch = malloc(PUT_ENTRIES * sizeof(*w->batch));
    if (!w->ring || !w->batch || dt_thread_start(&w->thread, "index-writer", run_writer, w, NULL) != DT_OK) {
        dt_index_writer_free(w);
        return dt_fail(err, DT_SYSTEM, "the index writer cannot start");
    }
    *out = w;
    return DT_OK;
}

void dt_index_writer_stop(dt_index_writer *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    dt_thread_ask_stop(&w->thread, NULL);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    dt_thread_join(&w->thread);
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
