/*
 * Three pools of one kind: the process's places shared by hosts, the process's places shared by topics, a host's places
 * shared by its topics. One rule decides for all: `may_take`.
 */
#include "http_places.h"

#include <stdlib.h>

#include "hash.h"
#include "job/callback/callback_url.h"

#define WAITS_US    INT64_C(1000000)
#define EARNED      2 /* places beyond the free part that an answer earns */
#define EARNED_MIN  8
#define EARNED_PART 4 /* a user has earned at most this part of a pool, or EARNED_MIN */

/* One that takes places of a pool. */
struct user {
    unsigned held;
    unsigned earned; /* places that it may take beyond the free part */
};

struct pool {
    unsigned limit, used;
    const struct user *waiter; /* who last found all places taken, or NULL */
    int64_t waiter_us;
};

struct dt_place_topic {
    struct user user;
    size_t bytes;
    UT_hash_handle hh;
    char name[];
};

struct dt_place_share {
    struct user user;
    UT_hash_handle hh;
    char name[];
};

struct dt_place_host {
    struct user user;
    struct pool pool;
    struct dt_place_share *shares;
    int64_t slowed_us; /* when its places were last halved */
    int64_t used_us;
    uint32_t number; /* dt_callback_host_number of its key */
    UT_hash_handle hh, by_number;
    char key[];
};

struct dt_places {
    struct dt_places_limits limits;
    struct pool by_host, by_topic;
    size_t bytes;
    struct dt_place_host *hosts;   /* the first is looked at next when a host is added */
    struct dt_place_host *numbers; /* of them those that have one */
    struct dt_place_topic *topics;
};

/* ---- pools ---- */

static bool somebody_else_waits(const struct pool *pool, const struct user *user, int64_t now_us)
{
    return pool->waiter && pool->waiter != user && now_us - pool->waiter_us < WAITS_US;
}

static bool may_take(const struct pool *pool, const struct user *user, int64_t now_us)
{
    if (pool->used >= pool->limit)
        return false;
    if (user->held < pool->limit - pool->used)
        return true;
    return user->earned > 0 && !somebody_else_waits(pool, user, now_us);
}

static void note_waiter(struct pool *pool, const struct user *user, int64_t now_us)
{
    if (pool->used < pool->limit)
        return;
    if (somebody_else_waits(pool, user, now_us) && pool->waiter->held <= user->held)
        return;
    pool->waiter = user;
    pool->waiter_us = now_us;
}

static void take(struct pool *pool, struct user *user)
{
    if (user->held >= pool->limit - pool->used)
        user->earned--;
    if (pool->waiter == user)
        pool->waiter = NULL;
    pool->used++;
    user->held++;
}

static unsigned earned_max(const struct pool *pool)
{
    unsigned part = pool->limit / EARNED_PART;
    return part > EARNED_MIN ? part : EARNED_MIN;
}

static void give_back(struct pool *pool, struct user *user, enum dt_place_end end)
{
    unsigned most = earned_max(pool);
    pool->used--;
    user->held--;
    if (end == DT_PLACE_ANSWERED)
        user->earned = user->earned + EARNED > most ? most : user->earned + EARNED;
    else if (end != DT_PLACE_UNUSED)
        user->earned = 0;
}

static void forget(struct pool *pool, const struct user *user)
{
    if (pool->waiter == user)
        pool->waiter = NULL;
}

/* ---- hosts, topics, shares ---- */

static bool slowed(const dt_places *places, const struct dt_place_host *host)
{
    return host->pool.limit < places->limits.per_host;
}

static void drop_host(dt_places *places, struct dt_place_host *host)
{
    struct dt_place_share *share;
    struct dt_place_share *next;
    HASH_ITER(hh, host->shares, share, next)
    {
        HASH_DEL(host->shares, share);
        free(share);
    }
    forget(&places->by_host, &host->user);
    HASH_DEL(places->hosts, host);
    if (host->by_number.tbl)
        HASH_DELETE(by_number, places->numbers, host);
    free(host);
}

static void drop_topic(dt_places *places, struct dt_place_topic *topic)
{
    forget(&places->by_topic, &topic->user);
    HASH_DEL(places->topics, topic);
    free(topic);
}

static void drop_share(struct dt_place_host *host, struct dt_place_share *share)
{
    forget(&host->pool, &share->user);
    HASH_DEL(host->shares, share);
    free(share);
}

/* The table stays, so this needs no memory. */
static void move_to_end(dt_places *places, struct dt_place_host *host)
{
    if (!host->hh.next)
        return;
    HASH_DEL(places->hosts, host);
    HASH_ADD_KEYPTR(hh, places->hosts, host->key, strlen(host->key), host);
}

/* The first host of the list goes when it is idle and either forgotten or one too many; else it goes to the end. */
static void drop_one(dt_places *places, int64_t now_us)
{
    struct dt_place_host *first = places->hosts;
    if (!first)
        return;
    bool many = HASH_COUNT(places->hosts) >= DT_PLACES_HOSTS_MAX;
    if (first->user.held == 0 && (many || now_us - first->used_us > DT_PLACES_REMEMBERED_US))
        drop_host(places, first);
    else
        move_to_end(places, first);
}

static struct dt_place_host *host_of(dt_places *places, struct dt_str key, int64_t now_us)
{
    struct dt_place_host *host;
    HASH_FIND(hh, places->hosts, key.p, key.n, host);
    if (host)
        return host;
    drop_one(places, now_us);
    host = calloc(1, sizeof(*host) + key.n + 1);
    if (!host)
        return NULL;
    memcpy(host->key, key.p, key.n);
    host->pool.limit = places->limits.per_host;
    host->slowed_us = INT64_MIN;
    HASH_ADD_KEYPTR(hh, places->hosts, host->key, key.n, host);
    if (!host->hh.tbl) {
        free(host);
        return NULL;
    }
    host->number = dt_callback_host_of(dt_str(host->key));
    if (host->number) /* without memory it has none */
        HASH_ADD(by_number, places->numbers, number, sizeof(host->number), host);
    return host;
}

static struct dt_place_topic *topic_of(dt_places *places, struct dt_str name)
{
    struct dt_place_topic *topic;
    HASH_FIND(hh, places->topics, name.p, name.n, topic);
    if (topic)
        return topic;
    topic = calloc(1, sizeof(*topic) + name.n + 1);
    if (!topic)
        return NULL;
    memcpy(topic->name, name.p, name.n);
    HASH_ADD_KEYPTR(hh, places->topics, topic->name, name.n, topic);
    if (topic->hh.tbl)
        return topic;
    free(topic);
    return NULL;
}

static struct dt_place_share *share_of(struct dt_place_host *host, struct dt_str name)
{
    struct dt_place_share *share;
    HASH_FIND(hh, host->shares, name.p, name.n, share);
    if (share)
        return share;
    share = calloc(1, sizeof(*share) + name.n + 1);
    if (!share)
        return NULL;
    memcpy(share->name, name.p, name.n);
    HASH_ADD_KEYPTR(hh, host->shares, share->name, name.n, share);
    if (share->hh.tbl)
        return share;
    free(share);
    return NULL;
}

/* A waiter is kept until its second is over, so that its turn is not lost. */
static bool idle(const struct pool *pool, const struct user *user, int64_t now_us)
{
    return user->held == 0 && (pool->waiter != user || now_us - pool->waiter_us >= WAITS_US);
}

static void drop_idle_topic(dt_places *places, struct dt_place_topic *topic, int64_t now_us)
{
    if (idle(&places->by_topic, &topic->user, now_us))
        drop_topic(places, topic);
}

static void drop_idle(dt_places *places, struct dt_place *place, int64_t now_us)
{
    if (idle(&place->host->pool, &place->share->user, now_us))
        drop_share(place->host, place->share);
    drop_idle_topic(places, place->topic, now_us);
    if (idle(&places->by_host, &place->host->user, now_us) && !place->host->shares && !slowed(places, place->host))
        drop_host(places, place->host);
}

/* ---- taking ---- */

static bool bytes_fit(const dt_places *places, const struct dt_place_topic *topic, size_t bytes)
{
    if (places->bytes == 0)
        return true;
    if (places->bytes >= places->limits.max_bytes || bytes > places->limits.max_bytes - places->bytes)
        return false;
    size_t left = places->limits.max_bytes - places->bytes;
    return topic->user.held == 0 || topic->user.earned > 0 || topic->bytes + bytes <= left;
}

/* Each place that is taken leaves one free place less, and the user holds one more. */
static unsigned room_of(const struct pool *pool, const struct user *user, int64_t now_us)
{
    unsigned left = pool->limit > pool->used ? pool->limit - pool->used : 0;
    unsigned free_part = user->held < left ? (left - user->held + 1) / 2 : 0;
    unsigned earned = somebody_else_waits(pool, user, now_us) ? 0 : user->earned;
    return free_part + earned < left ? free_part + earned : left;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static bool all_may(const dt_places *places, const struct dt_place *place, int64_t now_us)
{
    return may_take(&place->host->pool, &place->share->user, now_us) &&
           may_take(&places->by_host, &place->host->user, now_us) &&
           may_take(&places->by_topic, &place->topic->user, now_us) && bytes_fit(places, place->topic, place->bytes);
}

static void note_waiters(dt_places *places, const struct dt_place *place, int64_t now_us)
{
    note_waiter(&place->host->pool, &place->share->user, now_us);
    note_waiter(&places->by_host, &place->host->user, now_us);
    note_waiter(&places->by_topic, &place->topic->user, now_us);
}

static void take_all(dt_places *places, struct dt_place *place, int64_t now_us)
{
    take(&place->host->pool, &place->share->user);
    take(&places->by_host, &place->host->user);
    take(&places->by_topic, &place->topic->user);
    place->topic->bytes += place->bytes;
    places->bytes += place->bytes;
    place->host->used_us = now_us;
}

dt_status dt_places_take(dt_places *places, struct dt_str host, struct dt_str topic, size_t bytes, int64_t now_us,
                         struct dt_place *out)
{
    *out = (struct dt_place){
        .host = host_of(places, host, now_us), .topic = topic_of(places, topic), .bytes = bytes, .taken_us = now_us};
    out->share = out->host ? share_of(out->host, topic) : NULL;
    if (!out->host || !out->topic || !out->share)
        return DT_NOMEM;
    if (all_may(places, out, now_us)) {
        take_all(places, out, now_us);
        return DT_OK;
    }
    note_waiters(places, out, now_us);
    drop_idle(places, out, now_us);
    return DT_FULL;
}

unsigned dt_places_room(dt_places *places, struct dt_str host, struct dt_str topic, int64_t now_us)
{
    struct dt_place place = {.host = host_of(places, host, now_us), .topic = topic_of(places, topic)};
    place.share = place.host ? share_of(place.host, topic) : NULL;
    if (!place.host || !place.topic || !place.share)
        return 0;
    unsigned room = least(room_of(&place.host->pool, &place.share->user, now_us),
                          least(room_of(&places->by_host, &place.host->user, now_us),
                                room_of(&places->by_topic, &place.topic->user, now_us)));
    room = bytes_fit(places, place.topic, 0) ? room : 0;
    if (room == 0)
        note_waiters(places, &place, now_us);
    drop_idle(places, &place, now_us);
    return room;
}

/* A host that nothing is known of has all its places. */
unsigned dt_places_room_at(dt_places *places, uint32_t host, struct dt_str topic, int64_t now_us)
{
    struct dt_place_host *found;
    HASH_FIND(by_number, places->numbers, &host, sizeof(host), found);
    if (found)
        return dt_places_room(places, dt_str(found->key), topic, now_us);
    unsigned room = dt_places_room_anywhere(places, topic, now_us);
    return least(room, (places->limits.per_host + 1) / 2);
}

unsigned dt_places_room_anywhere(dt_places *places, struct dt_str name, int64_t now_us)
{
    struct dt_place_topic *topic = topic_of(places, name);
    if (!topic)
        return 0;
    unsigned room = bytes_fit(places, topic, 0) ? room_of(&places->by_topic, &topic->user, now_us) : 0;
    if (room == 0)
        note_waiter(&places->by_topic, &topic->user, now_us);
    drop_idle_topic(places, topic, now_us);
    return room;
}

/* ---- giving back ---- */

static void adapt(const dt_places *places, const struct dt_place *place, enum dt_place_end end, int64_t now_us)
{
    struct pool *pool = &place->host->pool;
    if (end == DT_PLACE_ANSWERED && pool->limit < places->limits.per_host)
        pool->limit++;
    if (end != DT_PLACE_PUSHED_BACK || place->taken_us <= place->host->slowed_us)
        return;
    pool->limit = pool->limit > 1 ? pool->limit / 2 : 1;
    place->host->slowed_us = now_us;
}

const char *dt_place_topic(const struct dt_place *place)
{
    return place->topic->name;
}

void dt_places_give_back(dt_places *places, const struct dt_place *place, enum dt_place_end end, int64_t now_us)
{
    struct dt_place gone = *place;
    give_back(&place->host->pool, &place->share->user, end);
    give_back(&places->by_host, &place->host->user, end);
    give_back(&places->by_topic, &place->topic->user, end);
    place->topic->bytes -= place->bytes;
    places->bytes -= place->bytes;
    adapt(places, place, end, now_us);
    drop_idle(places, &gone, now_us);
}

/* ---- lifetime ---- */

dt_status dt_places_new(const struct dt_places_limits *limits, dt_places **out)
{
    dt_places *places = calloc(1, sizeof(*places));
    if (!places)
        return DT_NOMEM;
    places->limits = *limits;
    places->by_host.limit = limits->max_in_flight;
    places->by_topic.limit = limits->max_in_flight;
    *out = places;
    return DT_OK;
}

void dt_places_free(dt_places *places)
{
    struct dt_place_host *host;
    struct dt_place_host *next_host;
    struct dt_place_topic *topic;
    struct dt_place_topic *next_topic;
    if (!places)
        return;
    HASH_ITER(hh, places->hosts, host, next_host)
    drop_host(places, host);
    HASH_ITER(hh, places->topics, topic, next_topic)
    drop_topic(places, topic);
    free(places);
}

unsigned dt_place_beside(const struct dt_place *place)
{
    return place->host->user.held - 1;
}

unsigned dt_places_taken(const dt_places *places)
{
    return places->by_host.used;
}

unsigned dt_places_of_host(const dt_places *places, struct dt_str host)
{
    struct dt_place_host *found;
    HASH_FIND(hh, places->hosts, host.p, host.n, found);
    return found ? found->pool.limit : places->limits.per_host;
}
