/* An index of a suite's own, on the shared Redis servers or on a private one that may be killed, stopped, filled up
 * and flushed. */
#pragma once

#include "job/job.h"
#include "redis/redis_subscriber.h"
#include "support/redis_fixture.h"
#include "support/wait.h"

#define FAR    INT64_C(9000000000000)
#define MARKER ((struct dt_marker){7, 12345, 3, 1, 0, false, 0})

struct fixture {
    bool gone; /* a marker */
    struct dt_config config;
    char endpoints[256], installation[64];
    struct redis_server server; /* port 0 = the shared servers are used */
    struct dt_shard_map map;
    dt_index *index;
    struct dt_error err;
    struct dt_due_scan due; /* the last one */
};

FREED_AT(dt_index *, dt_index_free)
FREED_AT(dt_wake *, dt_wake_stop)
#define INDEX(name) OWNED(dt_index *, name, dt_index_free_at)
#define WAKE(name)  OWNED(dt_wake *, name, dt_wake_stop_at)

/* Asks what is due; fx->due has what was told. */
static inline dt_status due(struct fixture *fx, unsigned shard, struct dt_marker marker, int64_t now_ms, size_t limit,
                            struct dt_entry *entries)
{
    fx->due = (struct dt_due_scan){.marker = marker,
                                   .now_ms = now_ms,
                                   .limit = limit,
                                   .entries = entries,
                                   .n = 99, /* told, whatever it was */
                                   .next_ms = 99,
                                   .marked = true};
    return dt_index_due(fx->index, shard, &fx->due, &fx->err);
}

static inline void open_index(struct fixture *fx, int64_t timeout_ms)
{
    fx->config = redis_fixture_config(fx->endpoints, fx->server.password, timeout_ms);
    redis_fixture_name(fx->installation, sizeof(fx->installation), "ix");
    dt_shard_map_init(&fx->map, 1, 8);
    assert_int_equal(dt_index_new(&fx->config, fx->installation, dt_clock_system(), &fx->index, &fx->err), DT_OK);
}

static inline void shared(struct fixture *fx)
{
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s", redis_fixture_endpoints());
    open_index(fx, WAIT_MS);
}

static inline void private_with(struct fixture *fx, const char *password)
{
    redis_server_start(&fx->server, password);
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s", fx->server.endpoint);
    open_index(fx, WAIT_MS);
}

static inline void private(struct fixture *fx)
{
    private_with(fx, "");
}

static inline void done(struct fixture *fx)
{
    dt_index_free(fx->index);
    if (fx->server.port)
        redis_server_kill(&fx->server);
    else
        redis_fixture_forget(fx->endpoints, fx->installation);
}

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        fx->err.text[0] = '\0';                                                                                        \
        dt_status status_ = (call);                                                                                    \
        if (status_ != DT_OK)                                                                                          \
            fail_msg("%s: %s", #call, fx->err.text);                                                                   \
    } while (0)
#define UNAVAILABLE(call) assert_int_equal((call), DT_UNAVAILABLE)

/* The smallest id above `above` that belongs to the shard. */
static inline int64_t id_of(const struct fixture *fx, unsigned shard, int64_t above)
{
    do
        above++;
    while (dt_shard_of(&fx->map, above) != shard);
    return above;
}

static inline int64_t score(struct fixture *fx, int64_t id)
{
    return redis_fixture_score(fx->index, &fx->map, id);
}

static inline void move_one(struct fixture *fx, int64_t id, int64_t was_ms, int64_t due_ms)
{
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, due_ms, was_ms}, 1, FAR, false, &fx->err));
}

/* As those do who know where the entry is. */
static inline void put_one(struct fixture *fx, int64_t id, int64_t due_ms)
{
    move_one(fx, id, score(fx, id), due_ms);
}

/* So many shards that no choice of ports gives all to one endpoint: of eight it does one time in 128. */
static inline void spread_over_endpoints(struct fixture *fx)
{
    dt_shard_map_init(&fx->map, 1, 64);
}

static inline int64_t count_all(struct fixture *fx)
{
    int64_t sum = 0, n;
    for (unsigned shard = 0; shard < fx->map.shards; shard++) {
        OK(dt_index_count(fx->index, shard, 0, FAR, &n, &fx->err));
        sum += n;
    }
    return sum;
}

static inline struct dt_filling taken_for(struct fixture *fx, dt_index *index, int64_t generation)
{
    struct dt_filling f = {.shard = 1, .generation = generation};
    OK(dt_index_fillings(index, DT_FILLING_TAKE, &f, 1, &fx->err));
    return f;
}

static inline struct dt_filling taken(struct fixture *fx, dt_index *index)
{
    return taken_for(fx, index, 3);
}

struct heard {
    pthread_mutex_t lock;
    int by_shard[DT_SHARDS_MAX], outbox[DT_SHARDS_MAX], all;
};

static inline void on_wake(void *arg, int shard, bool outbox)
{
    struct heard *heard = arg;
    pthread_mutex_lock(&heard->lock);
    if (shard < 0)
        heard->all++;
    else if (outbox)
        heard->outbox[shard]++;
    else
        heard->by_shard[shard]++;
    pthread_mutex_unlock(&heard->lock);
}

static inline bool was_heard(struct heard *heard, const int *counter, int at_least)
{
    pthread_mutex_lock(&heard->lock);
    bool yes = *counter >= at_least;
    pthread_mutex_unlock(&heard->lock);
    return yes;
}

static inline void expect_heard(struct heard *heard, const int *counter, int at_least)
{
    AWAIT(was_heard(heard, counter, at_least));
}

static inline dt_wake *listen_to(struct fixture *fx, struct heard *heard, int endpoints)
{
    dt_wake *wake;
    memset(heard, 0, sizeof(*heard));
    pthread_mutex_init(&heard->lock, NULL);
    OK(dt_wake_start(&fx->config, fx->installation, on_wake, heard, &wake, &fx->err));
    expect_heard(heard, &heard->all, endpoints); /* once for each channel that came up */
    return wake;
}

static inline int n_endpoints(const struct fixture *fx)
{
    return strchr(fx->endpoints, ',') ? 2 : 1;
}

/* What a set says of itself: "" when all is as index.h describes it. */
static const char SOUND[] =
    "local pages, before = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES'), -1\n"
    "for i = 1, #pages, 2 do\n"
    "  local key, start, top = KEYS[1] .. ':' .. pages[i], tonumber(pages[i + 1]), tonumber(pages[i + 3] or 'inf')\n"
    "  local e = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')\n"
    "  local n = #e / 2\n"
    "  if n == 0 then return 'nothing in ' .. key end\n"
    "  if start + e[2] < start or start + e[#e] >= top then return 'beyond its bounds: ' .. key end\n"
    "  if n > 64 and (e[2] ~= e[#e] or tonumber(e[2]) ~= 0) then return n .. ' entries in ' .. key end\n"
    "end\n"
    "return ''";
