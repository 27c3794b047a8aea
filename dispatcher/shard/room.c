/*
 * Owns the table of topics whose jobs wait for room within a limit, and decides when to read the limits. Does not know
 * how room is computed (topic/limits.h), nor what a shard does with a grant.
 *
 * Invariants: a shard that was granted room counts as waiting only if it requests room again; the shard that was
 * granted room last is the last to be granted room the next time. The table is copied before MySQL is read, so that no
 * thread waits for MySQL.
 */
#include "shard_loop.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "base/metrics.h"
#include "job/job.h"
#include "job/shard.h"
#include "topic/limits.h"

#define TOPICS    256              /* maximal number of topics whose jobs wait for room */
#define LOOK_US   INT64_C(50000)   /* time between two reads of the limits while a shard waits */
#define APART_US  INT64_C(10000)   /* shortest time between two reads of the limits, even if attempts have ended */
#define WANTED_US INT64_C(3000000) /* a request of a shard that is not repeated within this time expires */

struct wish {
    int64_t wanted_us; /* mono: when the shard last asked for room; 0: the shard does not wait */
    size_t granted;
};

struct wanted {
    char name[DT_TOPIC_MAX + 1];
    unsigned waiting; /* number of shards that wait for room of the topic */
    unsigned next;    /* the shard to which room is granted first */
    struct wish wishes[DT_SHARDS_MAX];
};

struct dt_room {
    const struct dt_process_env *env;
    struct dt_chore chore;
    dt_metric *at_limit;
    _Atomic bool anybody; /* at least one shard waits */
    pthread_mutex_t lock; /* protects topics and n */
    struct wanted *topics[TOPICS];
    size_t n;
    /* Copies of the topics' names, for one read of the limits; names[i] belongs to gates[i]. */
    char names[TOPICS][DT_TOPIC_MAX + 1];
    struct dt_gate gates[TOPICS];
};

/* ---- the table; under the lock ---- */

static struct wanted *find_wanted_topic(const struct dt_room *r, struct dt_str topic)
{
    for (size_t i = 0; i < r->n; i++)
        if (dt_str_is(topic, r->topics[i]->name))
            return r->topics[i];
    return NULL;
}

static void forget_room_request(struct wanted *w, unsigned shard)
{
    dt_assert_cmp(w->waiting, >=, w->wishes[shard].wanted_us != 0);
    w->waiting -= w->wishes[shard].wanted_us != 0;
    w->wishes[shard].wanted_us = 0;
}

/* ---- looking ---- */

/* Removes requests that were not repeated, and topics without requests; a grant that no shard took is dropped with its
 * request. Copies the names of the remaining topics. */
static size_t list_wanted_topics(struct dt_room *r)
{
    const int64_t now_us = dt_clock_mono_us(r->env->clock);
    size_t n = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = r->n; i-- > 0;) {
        struct wanted *w = r->topics[i];
        bool any = false;
        unsigned waiting = 0;
        for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
            if (w->wishes[shard].wanted_us && now_us - w->wishes[shard].wanted_us > WANTED_US)
                forget_room_request(w, shard);
            any |= w->wishes[shard].granted != 0;
            waiting += w->wishes[shard].wanted_us != 0;
        }
        dt_assert_cmp(w->waiting, ==, waiting);
        if (w->waiting || (any && r->n < TOPICS))
            continue;
        free(w);
        r->topics[i] = r->topics[--r->n];
    }
    for (size_t i = 0; i < r->n; i++) {
        if (!r->topics[i]->waiting)
            continue;
        memcpy(r->names[n], r->topics[i]->name, sizeof(r->names[n]));
        r->gates[n] = (struct dt_gate){.topic = dt_str(r->names[n])};
        n++;
    }
    r->anybody = n > 0;
    pthread_mutex_unlock(&r->lock);
    return n;
}

/* Divides the room of a topic equally among the waiting shards. If more shards wait than jobs may be claimed, shards
 * take turns. */
static void grant_topic_room(struct dt_room *r, size_t n)
{
    bool served[DT_SHARDS_MAX] = {false};
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < n; i++) {
        const size_t room = r->gates[i].room;
        struct wanted *w = room ? find_wanted_topic(r, r->gates[i].topic) : NULL;
        if (!w || !w->waiting)
            continue;
        size_t each = room == SIZE_MAX ? room : room / w->waiting;
        size_t more = room == SIZE_MAX ? 0 : room % w->waiting;
        for (unsigned k = 0, first = w->next; k < DT_SHARDS_MAX && w->waiting; k++) {
            unsigned shard = (first + k) % DT_SHARDS_MAX;
            size_t share = each + (more > 0);
            if (!w->wishes[shard].wanted_us || share == 0)
                continue;
            more -= more > 0;
            w->wishes[shard].granted = share;
            forget_room_request(w, shard);
            w->next = (shard + 1) % DT_SHARDS_MAX;
            served[shard] = true;
        }
    }
    pthread_mutex_unlock(&r->lock);
    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++)
        if (served[shard])
            r->env->tell(r->env->arg, shard, DT_LOOP_DUE);
}

static int64_t tick_topic_room(void *arg, void *store)
{
    struct dt_room *r = arg;
    struct dt_error err = {0};
    const size_t n = list_wanted_topics(r);
    dt_metric_set(r->at_limit, (double)n);
    const dt_status status = n ? dt_store_gates_look(store, r->gates, n, &err) : DT_OK;
    if (status != DT_OK)
        return dt_chore_failed(&r->chore, DT_OUTAGE_MYSQL, "topics at their limits are not checked", status, &err,
                               LOOK_US);
    grant_topic_room(r, n);
    const int64_t now_us = dt_clock_mono_us(r->env->clock);
    r->chore.not_before_us = now_us + APART_US;
    return r->anybody ? now_us + LOOK_US : INT64_MAX;
}

dt_status dt_room_start(const struct dt_process_env *env, dt_room **out)
{
    struct dt_room *r = *out = calloc(1, sizeof(*r));
    if (!r)
        return DT_NOMEM;
    r->env = env;
    r->chore = (struct dt_chore){.name = "room", .tick = tick_topic_room, .arg = r};
    pthread_mutex_init(&r->lock, NULL);
    r->at_limit =
        dt_gauge("duetime_topics_at_limit", "Topics at their limits whose jobs wait in shards of this process.", "");
    dt_chores_add(env->chores, &r->chore);
    return DT_OK;
}

void dt_room_stop(dt_room *r)
{
    if (!r)
        return;
    dt_chore_remove(&r->chore);
    for (size_t i = 0; i < r->n; i++)
        free(r->topics[i]);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- any thread ---- */

bool dt_room_want(dt_room *r, unsigned shard, struct dt_str topic)
{
    if (!r)
        return false;
    dt_assert_cmp(shard, <, DT_SHARDS_MAX);
    pthread_mutex_lock(&r->lock);
    struct wanted *w = find_wanted_topic(r, topic);
    if (!w && r->n < TOPICS && topic.n <= DT_TOPIC_MAX && (w = calloc(1, sizeof(*w)))) {
        memcpy(w->name, topic.p, topic.n);
        r->topics[r->n++] = w;
    }
    if (w) {
        w->waiting += w->wishes[shard].wanted_us == 0;
        w->wishes[shard].wanted_us = dt_clock_mono_us(r->env->clock);
    }
    pthread_mutex_unlock(&r->lock);
    if (w && !atomic_exchange(&r->anybody, true))
        dt_chore_wake(&r->chore);
    return w != NULL;
}

size_t dt_room_take(dt_room *r, unsigned shard, struct dt_str topic)
{
    size_t n = 0;
    if (!r)
        return 0;
    pthread_mutex_lock(&r->lock);
    struct wanted *w = find_wanted_topic(r, topic);
    if (w) {
        n = w->wishes[shard].granted;
        w->wishes[shard].granted = 0;
    }
    pthread_mutex_unlock(&r->lock);
    return n;
}

void dt_room_news(dt_room *r)
{
    if (r && r->anybody)
        dt_chore_wake(&r->chore);
}
