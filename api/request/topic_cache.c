/*
 * Owns the snapshots of topics, installation and shards.
 *
 * Invariants: a published snapshot never changes, and lives until its last reference is released. topics_version is
 * read before the topics, so a snapshot's topics are at least as new as its version. One thread loads at a time; other
 * threads use the current snapshot, or wait if the snapshot is too old. A request that arrives after an invalidation
 * gets a snapshot that was read after it. One load serves all threads that wait, even if further invalidations follow.
 */
#include "topic_cache.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "topic/owners.h"

#define MAX_AGE_US INT64_C(1000000)
#define PAGE       1000u

/* The topics of a snapshot, sorted by name. */
struct dt_topic_table {
    struct dt_arena arena;
    struct dt_topic_settings *v;
    size_t n, cap;
};

/* Times that decide whether a snapshot is loaded again. */
struct freshness {
    pthread_mutex_t loading;
    _Atomic int64_t checked_us; /* mono: when the snapshot was last found up to date; 0: never */
    _Atomic int64_t changed_us; /* mono: time of the last invalidation */
    int64_t failed_us;          /* mono: when loading last failed; protected by the lock */
    dt_status failure;
};

struct dt_topic_cache {
    const struct dt_config *config;
    const dt_clock *clock;
    struct freshness topics_at, shards_at;
    pthread_mutex_t publish; /* protects the next three members; held for a few instructions */
    bool asked;              /* a snapshot was used since the last call of dt_topic_cache_was_asked */
    struct dt_view *view;
    struct dt_shards_view *shards;
    char refusals[DT_TOPIC_REFUSALS][DT_TOPIC_REFUSAL_MAX]; /* texts of refusals, with the configured limits */
};

dt_status dt_topic_cache_new(const struct dt_config *config, const dt_clock *clock, dt_topic_cache **out)
{
    *out = NULL;
    dt_topic_cache *cache = calloc(1, sizeof(*cache));
    if (!cache)
        return DT_NOMEM;
    cache->config = config;
    cache->clock = clock;
    for (int refusal = 0; refusal < DT_TOPIC_REFUSALS; refusal++)
        dt_topic_refusal_text((enum dt_topic_refusal)refusal, config, cache->refusals[refusal]);
    pthread_mutex_init(&cache->topics_at.loading, NULL);
    pthread_mutex_init(&cache->shards_at.loading, NULL);
    pthread_mutex_init(&cache->publish, NULL);
    *out = cache;
    return DT_OK;
}

void dt_topic_cache_free(dt_topic_cache *cache)
{
    if (!cache)
        return;
    dt_view_release(cache->view);
    dt_shards_release(cache->shards);
    pthread_mutex_destroy(&cache->topics_at.loading);
    pthread_mutex_destroy(&cache->shards_at.loading);
    pthread_mutex_destroy(&cache->publish);
    free(cache);
}

/* ---- snapshots ---- */

struct dt_view *dt_topic_cache_view(dt_topic_cache *cache)
{
    pthread_mutex_lock(&cache->publish);
    struct dt_view *view = cache->view;
    cache->asked = true;
    const unsigned refs = view ? atomic_fetch_add(&view->refs, 1) : 1;
    dt_assert_cmp(refs, >, 0); /* a published snapshot has the cache's reference, too */
    pthread_mutex_unlock(&cache->publish);
    return view;
}

bool dt_topic_cache_was_asked(dt_topic_cache *cache)
{
    pthread_mutex_lock(&cache->publish);
    bool asked = cache->asked;
    cache->asked = false;
    pthread_mutex_unlock(&cache->publish);
    return asked;
}

void dt_view_release(struct dt_view *view)
{
    if (!view)
        return;
    const unsigned refs = atomic_fetch_sub(&view->refs, 1);
    dt_assert_cmp(refs, >, 0);
    if (refs != 1)
        return;
    if (view->topics) {
        dt_arena_clear(&view->topics->arena);
        free(view->topics->v);
        free(view->topics);
    }
    free(view);
}

/* Returns the first row of the table whose name is not less than this name. */
static size_t lower_bound(const struct dt_topic_table *table, struct dt_str name)
{
    size_t low = 0;
    size_t high = table->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dt_str_order(table->v[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct dt_topic_settings *dt_view_topic(const struct dt_view *view, struct dt_str name)
{
    size_t at = lower_bound(view->topics, name);
    return at < view->topics->n && dt_str_eq(view->topics->v[at].name, name) ? &view->topics->v[at] : NULL;
}

int64_t dt_view_owner(const struct dt_view *view, struct dt_str name)
{
    const struct dt_topic_settings *topic = view ? dt_view_topic(view, name) : NULL;
    return topic ? topic->owner : dt_owner_by_name(name);
}

struct dt_shards_view *dt_topic_cache_shards(dt_topic_cache *cache)
{
    pthread_mutex_lock(&cache->publish);
    struct dt_shards_view *shards = cache->shards;
    cache->asked = true;
    const unsigned refs = shards ? atomic_fetch_add(&shards->refs, 1) : 1;
    dt_assert_cmp(refs, >, 0);
    pthread_mutex_unlock(&cache->publish);
    return shards;
}

void dt_shards_release(struct dt_shards_view *shards)
{
    if (!shards)
        return;
    const unsigned refs = atomic_fetch_sub(&shards->refs, 1);
    dt_assert_cmp(refs, >, 0);
    if (refs != 1)
        return;
    dt_arena_clear(&shards->arena);
    free(shards);
}

const struct dt_shard_info *dt_shards_find(const struct dt_shards_view *shards, unsigned shard)
{
    for (size_t i = 0; shards && i < shards->n; i++)
        if (shards->shards[i].shard == shard)
            return &shards->shards[i];
    return NULL;
}

/* ---- freshness ---- */

/* Returns true if the snapshot is fresh enough for a request that arrived at asked_us: it was read at since_us or
 * later, and after every invalidation before asked_us. */
static bool is_fresh(struct freshness *at, int64_t since_us, int64_t asked_us)
{
    int64_t checked_us = atomic_load(&at->checked_us);
    return checked_us >= since_us && checked_us > dt_earlier(atomic_load(&at->changed_us), asked_us);
}

typedef dt_status (*load_fn)(dt_topic_cache *cache, dt_store *store, struct dt_error *err);

/* Loads the snapshot again if it is older than since_us. A thread does not wait for the load if the current snapshot is
 * fresh enough for it. */
static dt_status refresh_snapshot(dt_topic_cache *cache, struct freshness *at, int64_t since_us, load_fn load,
                                  dt_store *store, struct dt_error *err)
{
    int64_t asked_us = dt_clock_mono_us(cache->clock);
    if (is_fresh(at, since_us, asked_us))
        return DT_OK;
    pthread_mutex_lock(&at->loading);
    dt_status status = DT_OK;
    if (at->failed_us > asked_us) { /* another thread's load failed while this thread waited */
        status = dt_fail(err, at->failure, "topics and shards could not be read a moment ago");
    } else if (!is_fresh(at, since_us, asked_us)) {
        int64_t begun_us = dt_clock_mono_us(cache->clock);
        status = load(cache, store, err);
        if (status == DT_OK)
            atomic_store(&at->checked_us, begun_us);
        if (status != DT_OK) {
            at->failed_us = dt_clock_mono_us(cache->clock);
            at->failure = status;
        }
    }
    dt_assert(at != &cache->topics_at || status != DT_OK || cache->view); /* the load has published a snapshot */
    dt_assert(at != &cache->shards_at || status != DT_OK || cache->shards);
    pthread_mutex_unlock(&at->loading);
    return status;
}

/* ---- topics ---- */

static dt_status add_to_topic_table(struct dt_topic_table *table, const struct dt_topic *topic)
{
    if (table->n == table->cap) {
        size_t cap = table->cap ? 2 * table->cap : 64;
        struct dt_topic_settings *v = realloc(table->v, cap * sizeof(*v));
        if (!v)
            return DT_NOMEM;
        table->v = v;
        table->cap = cap;
    }
    dt_assert_cmp(table->n, <, table->cap);
    struct dt_topic_settings *s = &table->v[table->n];
    *s = (struct dt_topic_settings){
        .name = dt_arena_copy(&table->arena, topic->name),
        .retry = DT_STR_LIT(DT_RETRY_DEFAULT),
        .ack_timeout_ms = topic->ack_timeout_ms > 0 ? topic->ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS,
        .retention_ms = topic->retention_ms >= 0 ? topic->retention_ms : DT_RETENTION_DEFAULT_MS,
        .owner = topic->owner,
        .delivery = topic->delivery,
        .paused = topic->paused,
        .limited = topic->max_in_flight || topic->rate_limit.p,
        .deleting = topic->deletion != 0,
        .callback = {.delivery = topic->delivery,
                     .has_url = topic->callback.places.url.p,
                     .timeout_ms = dt_callback_timeout_ms(topic->callback.timeout_ms, topic->ack_timeout_ms)},
    };
    if (topic->retry.p)
        s->retry = dt_arena_copy(&table->arena, topic->retry);
    s->kafka_topic = topic->kafka_topic.p ? dt_arena_copy(&table->arena, topic->kafka_topic) : s->name;
    if (!s->name.p || !s->retry.p || !s->kafka_topic.p)
        return DT_NOMEM;
    table->n++;
    return DT_OK;
}

/* Reads all topics in byte order of their names, page by page. */
static dt_status read_topics(struct dt_topic_table *table, dt_store *store, struct dt_error *err)
{
    struct dt_arena page = {0};
    struct dt_str after = DT_STR_NONE;
    dt_status status = DT_OK;
    bool more = true;
    while (status == DT_OK && more) {
        struct dt_topic_list topics;
        dt_arena_reset(&page);
        const struct dt_topic_filter filter = {.after = after, .limit = PAGE};
        status = dt_store_topic_list(store, &filter, &page, &topics, err);
        for (size_t i = 0; status == DT_OK && i < topics.n; i++)
            status = add_to_topic_table(table, &topics.v[i]);
        more = topics.more;
        after = table->n ? table->v[table->n - 1].name : DT_STR_NONE;
    }
    dt_arena_clear(&page);
    return status;
}

static dt_status load_topics(dt_topic_cache *cache, dt_store *store, struct dt_error *err)
{
    struct dt_installation now;
    const struct dt_view *known = cache->view; /* needs no lock: only loading threads replace the pointer */
    dt_status status = dt_store_installation(store, &now, err);
    if (status != DT_OK)
        return status;
    if (known && known->installation.topics_version == now.topics_version &&
        known->installation.generation == now.generation && known->installation.shards == now.shards &&
        strcmp(known->installation.uuid, now.uuid) == 0)
        return DT_OK;
    struct dt_view *view = calloc(1, sizeof(*view));
    if (!view)
        return DT_NOMEM;
    atomic_store(&view->refs, 1);
    view->installation = now;
    dt_shard_map_init(&view->map, now.generation, now.shards);
    view->topics = calloc(1, sizeof(*view->topics));
    status = DT_NOMEM;
    if (view->topics) {
        status = read_topics(view->topics, store, err);
    }
    DT_THEN(status, dt_store_cursor_key(store, view->cursor_key, err));
    if (status == DT_OK) {
        pthread_mutex_lock(&cache->publish);
        struct dt_view *old = cache->view;
        dt_assert(old == known);
        cache->view = view;
        pthread_mutex_unlock(&cache->publish);
        view = old;
    }
    dt_view_release(view);
    return status;
}

void dt_topic_cache_invalidate(dt_topic_cache *cache)
{
    atomic_store(&cache->topics_at.changed_us, dt_clock_mono_us(cache->clock));
}

/* ---- creating topics ---- */

struct dt_topic_terms dt_topic_terms_of(const struct dt_config *config, const struct dt_caller *caller,
                                        struct dt_str kafka_topic)
{
    struct dt_topic_terms terms = {.topics_max = config->limits_topics};
    if (dt_caller_sees_all(caller))
        return terms;
    terms.prefix_topics_max = config->limits_prefix_topics;
    terms.prefixes = caller->topics.prefixes;
    terms.n_prefixes = caller->topics.n;
    terms.foreign = kafka_topic.p && !dt_topic_within(&caller->topics, kafka_topic) &&
                    !dt_topic_listed(config->kafka_allow_topics, kafka_topic);
    return terms;
}

const char *dt_topic_cache_refusal(const dt_topic_cache *cache, enum dt_topic_refusal refusal)
{
    dt_assert_cmp(refusal, <, DT_TOPIC_REFUSALS);
    return cache->refusals[refusal];
}

/* Refuses the topic if the snapshot shows that a limit is reached. If the snapshot does not refuse, MySQL decides. */
static enum dt_topic_refusal find_refusal(dt_topic_cache *cache, struct dt_str name, const struct dt_topic_terms *terms)
{
    char above[DT_TOPIC_MAX + 1];
    struct dt_view *view = dt_topic_cache_view(cache);
    enum dt_topic_refusal refusal = DT_TOPIC_FINE;
    if (view && view->topics->n >= (size_t)terms->topics_max)
        refusal = DT_TOPIC_LIMIT;
    for (size_t i = 0; view && refusal == DT_TOPIC_FINE && i < terms->n_prefixes; i++) {
        struct dt_str prefix = terms->prefixes[i];
        if (prefix.n > name.n || prefix.n >= sizeof(above) || memcmp(prefix.p, name.p, prefix.n) != 0)
            continue;
        memcpy(above, prefix.p, prefix.n);
        above[prefix.n] = 0x7F; /* greater than every character of a topic's name */
        size_t n = lower_bound(view->topics, (struct dt_str){above, prefix.n + 1}) - lower_bound(view->topics, prefix);
        if (n >= (size_t)terms->prefix_topics_max)
            refusal = DT_TOPIC_PREFIX_LIMIT;
    }
    dt_view_release(view);
    return refusal;
}

#define TOGETHER 16 /* most topics that one call of ensure_topics_in_one_call creates: the size of its arrays */

static dt_status ensure_topics_in_one_call(dt_topic_cache *cache, dt_store *store, struct dt_topic_wish *wishes,
                                           size_t n, struct dt_error *err)
{
    struct dt_topic_terms terms[TOGETHER];
    struct dt_topic_ensure missing[TOGETHER];
    size_t n_missing = 0;
    dt_status status = DT_OK;
    dt_assert_cmp(n, <=, TOGETHER);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        struct dt_topic_wish *wish = &wishes[i];
        terms[i] = dt_topic_terms_of(cache->config, wish->caller, DT_STR_NONE);
        terms[i].delivery = wish->delivery;
        terms[i].refusal = find_refusal(cache, wish->name, &terms[i]);
        if (terms[i].refusal == DT_TOPIC_FINE) {
            missing[n_missing++] = (struct dt_topic_ensure){.name = wish->name, .terms = &terms[i]};
            continue;
        }
        /* The topic may have been created after the snapshot was read. So a snapshot that is younger than since_us
         * decides, for all names of one commit. */
        status = refresh_snapshot(cache, &cache->topics_at, wish->since_us, load_topics, store, err);
        struct dt_view *view = status == DT_OK ? dt_topic_cache_view(cache) : NULL;
        if (view)
            wish->status = dt_view_topic(view, wish->name) ? DT_OK : DT_INVALID;
        dt_view_release(view);
    }
    DT_THEN(status, dt_store_topics_ensure(store, missing, n_missing, err));
    for (size_t i = 0, m = 0; status == DT_OK && i < n; i++) {
        if (m < n_missing && missing[m].terms == &terms[i])
            wishes[i].status = missing[m++].status;
        if (wishes[i].status == DT_INVALID)
            wishes[i].reason = dt_topic_cache_refusal(cache, terms[i].refusal);
    }
    return status;
}

dt_status dt_topic_cache_ensure(dt_topic_cache *cache, dt_store *store, struct dt_topic_wish *wishes, size_t n,
                                struct dt_error *err)
{
    dt_status status = DT_OK;
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        wishes[i].status = DT_NOT_FOUND;
        wishes[i].reason = NULL;
    }
    if (!cache->config->topics_auto_create)
        return DT_OK;
    for (size_t at = 0; status == DT_OK && at < n; at += TOGETHER)
        status = ensure_topics_in_one_call(cache, store, wishes + at, n - at < TOGETHER ? n - at : TOGETHER, err);
    for (size_t i = 0; i < n; i++)
        any |= wishes[i].status == DT_OK;
    if (status != DT_OK || any)
        dt_topic_cache_invalidate(cache);
    return status;
}

/* ---- shards ---- */

static dt_status load_shards(dt_topic_cache *cache, dt_store *store, struct dt_error *err)
{
    struct dt_shards_view *shards = calloc(1, sizeof(*shards));
    if (!shards)
        return DT_NOMEM;
    atomic_store(&shards->refs, 1);
    dt_status status = dt_store_shards(store, &shards->arena, &shards->shards, &shards->n, &shards->dispatchers, err);
    shards->read_us = dt_clock_mono_us(cache->clock);
    if (status != DT_OK) {
        dt_shards_release(shards);
        return status;
    }
    pthread_mutex_lock(&cache->publish);
    struct dt_shards_view *old = cache->shards;
    cache->shards = shards;
    pthread_mutex_unlock(&cache->publish);
    dt_shards_release(old);
    return DT_OK;
}

dt_status dt_topic_cache_refresh(dt_topic_cache *cache, enum dt_snapshots what, dt_store *store, struct dt_error *err)
{
    int64_t since_us = dt_clock_mono_us(cache->clock) - MAX_AGE_US;
    dt_status status = refresh_snapshot(cache, &cache->topics_at, since_us, load_topics, store, err);
    if (status != DT_OK || what == DT_SNAPSHOT_TOPICS)
        return status;
    since_us = dt_clock_mono_us(cache->clock) - MAX_AGE_US; /* computed again, because reading topics may take long */
    return refresh_snapshot(cache, &cache->shards_at, since_us, load_shards, store, err);
}
