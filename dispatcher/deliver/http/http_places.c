/* Shares the places of the process, and those of each host (struct shared), in two steps: among the owners by
 * dt_shares, then the share of each owner among its topics by count_places_left. */
#include "http_places.h"

#include "base/assert.h"
#include "base/fair.h"
#include "base/hash.h"

#define OWNERS_PART 2 /* an owner gets at most 1/OWNERS_PART of the places that other owners leave free */
#define WAITS_US    INT64_C(1000000)
#define EARNED      2 /* number of places that a topic earns by one answer (dt_place_topic.earned) */
#define EARNED_MIN  8
/* A topic can have earned at most 1/EARNED_PART of its owner's limit, or EARNED_MIN if that is more. */
#define EARNED_PART 4

struct dt_place_topic {
    struct dt_place_owner *owner;
    unsigned held;
    /* Number of places that the topic may take in addition to its part of the free places (count_places_left). */
    unsigned earned;
    size_t bytes;
    UT_hash_handle hh;
    char name[];
};

struct dt_place_owner {
    int64_t id;
    /* limit: how many places the owner may hold, as computed at its last request. */
    unsigned limit, used;
    const struct dt_place_topic *waiter; /* topic that last found all places of its owner taken, or NULL */
    int64_t waiter_us;
    unsigned most;     /* maximum of `limit`; below per_host if the host has refused requests of the owner */
    int64_t slowed_us; /* when the host last refused a request, so that `most` was halved */
    /* Bytes of requests in flight: the owner's maximum, and the current number. Not used in the owners of a host,
     * because hosts have no limit of bytes. */
    size_t bytes_limit, bytes;
    struct dt_place_topic *topics;
    UT_hash_handle hh;
};

/* Places that owners share: those of the process, or those of a host. */
struct shared {
    struct dt_shares shares;
    struct dt_place_owner *owners;
};

struct dt_place_host {
    struct shared shared;
    int64_t used_us;
    uint32_t number; /* dt_callback_host_of(key); 0: memory ran out, and the host is not in `numbers` */
    UT_hash_handle hh, by_number;
    char key[];
};

struct dt_places {
    struct dt_places_limits limits;
    struct shared shared;
    struct dt_shares bytes;
    /* All known hosts; each time that a host is added, the first one is dropped if it is idle. */
    struct dt_place_host *hosts;
    struct dt_place_host *numbers; /* the hosts of `hosts` in a second hash table, by number */
};

/* ---- the topics of an owner ---- */

static bool another_topic_waits(const struct dt_place_topic *topic, int64_t now_us)
{
    const struct dt_place_owner *owner = topic->owner;
    return owner->waiter && owner->waiter != topic && now_us - owner->waiter_us < WAITS_US;
}

static bool may_take_place(const struct dt_place_topic *topic, int64_t now_us)
{
    const struct dt_place_owner *owner = topic->owner;
    if (owner->used >= owner->limit)
        return false;
    return topic->held < owner->limit - owner->used || (topic->earned > 0 && !another_topic_waits(topic, now_us));
}

/* Returns how many places the topic may take one after another. With each place that it takes, its owner has one free
 * place fewer, and the topic holds one place more. */
static unsigned count_places_left(const struct dt_place_topic *topic, int64_t now_us)
{
    const struct dt_place_owner *owner = topic->owner;
    unsigned left = owner->limit > owner->used ? owner->limit - owner->used : 0;
    unsigned free_part = topic->held < left ? (left - topic->held + 1) / 2 : 0;
    unsigned earned = another_topic_waits(topic, now_us) ? 0 : topic->earned;
    return free_part + earned < left ? free_part + earned : left;
}

static void record_waiting_topic(const struct dt_place_topic *topic, int64_t now_us)
{
    struct dt_place_owner *owner = topic->owner;
    if (owner->used < owner->limit || (another_topic_waits(topic, now_us) && owner->waiter->held <= topic->held))
        return;
    owner->waiter = topic;
    owner->waiter_us = now_us;
}

/* Takes a place for the topic. The caller has just checked that the owner may take a place. */
static void take_shared_place(struct shared *shared, struct dt_place_topic *topic, int64_t now_us)
{
    struct dt_place_owner *owner = topic->owner;
    dt_assert_cmp(owner->used, <, owner->limit);
    if (topic->held >= owner->limit - owner->used) {
        dt_assert_cmp(topic->earned, >, 0);
        topic->earned--;
    }
    if (owner->waiter == topic)
        owner->waiter = NULL;
    owner->used++;
    topic->held++;
    const bool taken = dt_shares_take(&shared->shares, owner->id, 1, now_us);
    dt_assert(taken);
    dt_assert_cmp(shared->shares.used, <=, shared->shares.total);
}

static void return_shared_place(struct shared *shared, struct dt_place_topic *topic, enum dt_place_end end)
{
    struct dt_place_owner *owner = topic->owner;
    const unsigned part = owner->limit / EARNED_PART;
    const unsigned most = part > EARNED_MIN ? part : EARNED_MIN;
    dt_assert_cmp(topic->held, >, 0); /* the topic gives back at most the places that it holds */
    dt_assert_cmp(owner->used, >=, topic->held);
    owner->used--;
    topic->held--;
    if (end == DT_PLACE_ANSWERED)
        topic->earned = topic->earned + EARNED > most ? most : topic->earned + EARNED;
    else if (end != DT_PLACE_UNUSED)
        topic->earned = 0;
    dt_shares_give_back(&shared->shares, owner->id, 1);
}

/* ---- the owners of places of one kind ---- */

static void free_owner(struct shared *shared, struct dt_place_owner *owner)
{
    struct dt_place_topic *topic;
    struct dt_place_topic *next;
    HASH_ITER(hh, owner->topics, topic, next)
    {
        HASH_DEL(owner->topics, topic);
        free(topic);
    }
    HASH_DEL(shared->owners, owner);
    free(owner);
}

static void clear_shared_places(struct shared *shared)
{
    struct dt_place_owner *owner;
    struct dt_place_owner *next;
    HASH_ITER(hh, shared->owners, owner, next)
    free_owner(shared, owner);
    dt_shares_clear(&shared->shares);
}

static bool is_owner_reduced(const struct shared *shared, const struct dt_place_owner *owner)
{
    return owner->most < shared->shares.total;
}

static struct dt_place_owner *find_or_add_owner(struct shared *shared, int64_t id)
{
    struct dt_place_owner *owner;
    HASH_FIND(hh, shared->owners, &id, sizeof(id), owner);
    if (owner)
        return owner;
    owner = calloc(1, sizeof(*owner));
    if (!owner)
        return NULL;
    owner->id = id;
    owner->most = (unsigned)shared->shares.total;
    owner->slowed_us = INT64_MIN;
    HASH_ADD(hh, shared->owners, id, sizeof(owner->id), owner);
    if (owner->hh.tbl)
        return owner;
    free(owner);
    return NULL;
}

/* Returns the topic's entry; creates it if it is missing. Also computes the owner's current limit. */
static struct dt_place_topic *find_or_add_topic(struct shared *shared, const struct dt_place_for *who, int64_t now_us)
{
    struct dt_place_topic *topic;
    struct dt_place_owner *owner = find_or_add_owner(shared, who->owner);
    if (!owner)
        return NULL;
    size_t share = 0;
    const bool found = dt_shares_most(&shared->shares, who->owner, now_us, &share);
    owner->limit = share < owner->most ? (unsigned)share : owner->most;
    HASH_FIND(hh, owner->topics, who->topic.p, who->topic.n, topic);
    if (topic)
        return found ? topic : NULL;
    if (found)
        topic = calloc(1, sizeof(*topic) + who->topic.n + 1);
    if (topic) {
        memcpy(topic->name, who->topic.p, who->topic.n);
        topic->owner = owner;
        HASH_ADD_KEYPTR(hh, owner->topics, topic->name, who->topic.n, topic);
        if (topic->hh.tbl)
            return topic;
    }
    free(topic);
    if (!owner->topics && !is_owner_reduced(shared, owner))
        free_owner(shared, owner);
    return NULL;
}

/* Drops the entry of a topic that holds no places. If the topic waits for a place, its entry is kept for WAITS_US, so
 * that the topic is still next. */
static void drop_idle_topic(struct shared *shared, struct dt_place_topic *topic, int64_t now_us)
{
    struct dt_place_owner *owner = topic->owner;
    if (topic->held > 0 || (owner->waiter == topic && now_us - owner->waiter_us < WAITS_US))
        return;
    if (owner->waiter == topic)
        owner->waiter = NULL;
    HASH_DEL(owner->topics, topic);
    free(topic);
    if (!owner->topics && !is_owner_reduced(shared, owner))
        free_owner(shared, owner);
}

/* ---- hosts ---- */

static void free_host(dt_places *places, struct dt_place_host *host)
{
    clear_shared_places(&host->shared);
    HASH_DEL(places->hosts, host);
    if (host->by_number.tbl)
        HASH_DELETE(by_number, places->numbers, host);
    free(host);
}

static struct dt_place_host *find_or_add_host(dt_places *places, struct dt_str key, int64_t now_us)
{
    struct dt_place_host *first = places->hosts;
    struct dt_place_host *host;
    HASH_FIND(hh, places->hosts, key.p, key.n, host);
    if (host)
        return host;
    /* Drops the first host of the list if it is idle, and either unused for long or one of too many; otherwise moves it
     * to the end of the list. */
    bool many = HASH_COUNT(places->hosts) >= DT_PLACES_HOSTS_MAX;
    if (first && first->shared.shares.used == 0 && (many || now_us - first->used_us > DT_PLACES_REMEMBERED_US)) {
        free_host(places, first);
    } else if (first && first->hh.next) { /* moving the host needs no memory, because the hash table is kept */
        HASH_DEL(places->hosts, first);
        HASH_ADD_KEYPTR(hh, places->hosts, first->key, strlen(first->key), first);
    }
    host = calloc(1, sizeof(*host) + key.n + 1);
    if (!host)
        return NULL;
    memcpy(host->key, key.p, key.n);
    host->shared.shares =
        (struct dt_shares){.total = places->limits.per_host, .part = OWNERS_PART, .spares_none = true};
    HASH_ADD_KEYPTR(hh, places->hosts, host->key, key.n, host);
    if (!host->hh.tbl) {
        free(host);
        return NULL;
    }
    host->number = dt_callback_host_of(dt_str(host->key));
    if (host->number) /* if memory ran out, the number is 0, and the host is found only by its key */
        HASH_ADD(by_number, places->numbers, number, sizeof(host->number), host);
    return host;
}

/* ---- taking ---- */

static void drop_idle_entries(dt_places *places, const struct dt_place *place, int64_t now_us)
{
    if (place->in_process)
        drop_idle_topic(&places->shared, place->in_process, now_us);
    if (place->at_host)
        drop_idle_topic(&place->host->shared, place->at_host, now_us);
    if (place->host && !place->host->shared.owners)
        free_host(places, place->host);
}

/* Returns the topic's entry among those of the process; creates it if it is missing. Also computes the owner's current
 * limit of bytes. */
static struct dt_place_topic *find_process_topic(dt_places *places, const struct dt_place_for *who, int64_t now_us)
{
    struct dt_place_topic *topic = find_or_add_topic(&places->shared, who, now_us);
    if (!topic || dt_shares_most(&places->bytes, who->owner, now_us, &topic->owner->bytes_limit))
        return topic;
    drop_idle_topic(&places->shared, topic, now_us);
    return NULL;
}

/* Fills *place with the entries of the host and the topic. False: memory ran out, and *place needs no cleanup. */
static bool find_place_entries(dt_places *places, struct dt_str host, const struct dt_place_for *who, int64_t now_us,
                               struct dt_place *place)
{
    *place = (struct dt_place){.host = find_or_add_host(places, host, now_us), .taken_us = now_us};
    if (place->host)
        place->at_host = find_or_add_topic(&place->host->shared, who, now_us);
    if (place->at_host)
        place->in_process = find_process_topic(places, who, now_us);
    if (place->in_process)
        return true;
    drop_idle_entries(places, place, now_us);
    return false;
}

/* Returns whether the topic may hold this many more bytes. An owner's bytes are shared among its topics by the same
 * rule as its places. */
static bool topic_may_hold_bytes(const struct dt_place_topic *topic, size_t bytes)
{
    const struct dt_place_owner *owner = topic->owner;
    const size_t left = owner->bytes_limit > owner->bytes ? owner->bytes_limit - owner->bytes : 0;
    if (left == 0)
        return false;
    return topic->held == 0 || topic->earned > 0 || topic->bytes + bytes <= left;
}

static unsigned min_unsigned(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

dt_status dt_places_take(dt_places *places, struct dt_str host, const struct dt_place_for *who, size_t bytes,
                         int64_t now_us, struct dt_place *out)
{
    if (!find_place_entries(places, host, who, now_us, out))
        return DT_NOMEM;
    bool may = may_take_place(out->at_host, now_us) && may_take_place(out->in_process, now_us) &&
               topic_may_hold_bytes(out->in_process, bytes) &&
               dt_shares_take(&places->bytes, out->in_process->owner->id, bytes, now_us);
    if (!may) {
        record_waiting_topic(out->at_host, now_us);
        record_waiting_topic(out->in_process, now_us);
        drop_idle_entries(places, out, now_us);
        return DT_FULL;
    }
    take_shared_place(&out->host->shared, out->at_host, now_us);
    take_shared_place(&places->shared, out->in_process, now_us);
    out->bytes = bytes;
    out->in_process->bytes += bytes;
    out->in_process->owner->bytes += bytes;
    out->host->used_us = now_us;
    return DT_OK;
}

unsigned dt_places_room(dt_places *places, struct dt_str host, const struct dt_place_for *who, int64_t now_us)
{
    struct dt_place place;
    if (!find_place_entries(places, host, who, now_us, &place))
        return 0;
    unsigned room =
        topic_may_hold_bytes(place.in_process, 0)
            ? min_unsigned(count_places_left(place.at_host, now_us), count_places_left(place.in_process, now_us))
            : 0;
    if (room == 0) {
        record_waiting_topic(place.at_host, now_us);
        record_waiting_topic(place.in_process, now_us);
    }
    drop_idle_entries(places, &place, now_us);
    return room;
}

/* An unknown host has no callbacks in flight, so all of its places are free. */
unsigned dt_places_room_at(dt_places *places, uint32_t host, const struct dt_place_for *who, int64_t now_us)
{
    struct dt_place_host *found;
    HASH_FIND(by_number, places->numbers, &host, sizeof(host), found);
    if (found)
        return dt_places_room(places, dt_str(found->key), who, now_us);
    unsigned room = dt_places_room_anywhere(places, who, now_us);
    return min_unsigned(room, (places->limits.per_host + 1) / 2);
}

unsigned dt_places_room_anywhere(dt_places *places, const struct dt_place_for *who, int64_t now_us)
{
    struct dt_place_topic *topic = find_process_topic(places, who, now_us);
    if (!topic)
        return 0;
    unsigned room = topic_may_hold_bytes(topic, 0) ? count_places_left(topic, now_us) : 0;
    if (room == 0)
        record_waiting_topic(topic, now_us);
    drop_idle_topic(&places->shared, topic, now_us);
    return room;
}

/* ---- giving back ---- */

const char *dt_place_topic(const struct dt_place *place)
{
    return place->in_process->name;
}

int64_t dt_place_owner(const struct dt_place *place)
{
    return place->in_process->owner->id;
}

void dt_places_give_back(dt_places *places, const struct dt_place *place, enum dt_place_end end, int64_t now_us)
{
    const struct dt_place gone = *place;
    struct dt_place_owner *owner = gone.at_host->owner;
    dt_assert_cmp(gone.in_process->bytes, >=, gone.bytes);
    return_shared_place(&gone.host->shared, gone.at_host, end);
    return_shared_place(&places->shared, gone.in_process, end);
    gone.in_process->bytes -= gone.bytes;
    gone.in_process->owner->bytes -= gone.bytes;
    dt_shares_give_back(&places->bytes, gone.in_process->owner->id, gone.bytes);
    /* If a host refuses a request with 429 or 503, only the owner of that request gets fewer places: the host may
     * answer requests of other owners. */
    if (end == DT_PLACE_ANSWERED && owner->most < places->limits.per_host)
        owner->most++;
    if (end == DT_PLACE_PUSHED_BACK && gone.taken_us > owner->slowed_us) {
        const unsigned half = owner->limit > owner->most / 2 ? owner->most / 2 : owner->limit / 2;
        owner->most = half ? half : 1;
        owner->slowed_us = now_us;
    }
    drop_idle_entries(places, &gone, now_us);
}

/* ---- lifetime ---- */

dt_status dt_places_new(const struct dt_places_limits *limits, dt_places **out)
{
    dt_places *places = calloc(1, sizeof(*places));
    if (!places)
        return DT_NOMEM;
    places->limits = *limits;
    places->shared.shares = (struct dt_shares){.total = limits->max_in_flight, .part = OWNERS_PART};
    places->bytes = (struct dt_shares){.total = limits->max_bytes, .part = OWNERS_PART};
    *out = places;
    return DT_OK;
}

void dt_places_free(dt_places *places)
{
    struct dt_place_host *host;
    struct dt_place_host *next;
    if (!places)
        return;
    HASH_ITER(hh, places->hosts, host, next)
    free_host(places, host);
    clear_shared_places(&places->shared);
    dt_shares_clear(&places->bytes);
    free(places);
}

unsigned dt_place_beside(const struct dt_place *place)
{
    return (unsigned)place->host->shared.shares.used - 1;
}

unsigned dt_places_taken(const dt_places *places)
{
    return (unsigned)places->shared.shares.used;
}

unsigned dt_places_of_host(const dt_places *places, struct dt_str host, int64_t owner)
{
    struct dt_place_host *found;
    struct dt_place_owner *own = NULL;
    HASH_FIND(hh, places->hosts, host.p, host.n, found);
    if (found)
        HASH_FIND(hh, found->shared.owners, &owner, sizeof(owner), own);
    return own ? own->most : places->limits.per_host;
}

/* ---- hosts of URLs ---- */

const char *dt_last_url_read(struct dt_last_url *last, struct dt_str text)
{
    if (last->known && text.n == last->n && memcmp(text.p, last->text, text.n) == 0)
        return last->refusal;
    last->refusal = dt_callback_url_check(text, &last->url);
    /* A refusal is not cached, because it may be due to a lack of memory. */
    last->known = !last->refusal && text.n <= sizeof(last->text);
    last->n = text.n;
    if (last->known)
        memcpy(last->text, text.p, text.n);
    return last->refusal;
}
