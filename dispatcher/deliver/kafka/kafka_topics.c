/*
 * Owns:            the cache of Kafka's topics, and lookups. Callers that may wait send requests on their own threads.
 *                  For callers that must not wait, a thread of this file looks up several topics per request.
 * Refuses to know: the requests to Kafka (kafka_admin.c), and who writes to the topics.
 *
 * Invariants:
 *   - One lock guards the cache. It is never held during a request to Kafka.
 *   - The thread sleeps unless a topic must be looked up or created. Between two of its requests, callers that wait
 *     send their requests.
 *   - Creating a topic costs the brokers as much as some thousand messages, and delays other messages. While no other
 *     owner sends messages or waits for topics, an owner's topics are created in full requests, one after the other,
 *     and the owner is charged nothing. Otherwise, up to MAKE_TOGETHER missing topics are created together, so that a
 *     slow controller is waited for once; if more are missing, a few are created at a time, with pauses. Each owner is
 *     charged for the time: its first topics are created at once, further topics at a pace that follows from their
 *     cost.
 *   - A lookup of an existing topic never waits for missing topics, which have a queue of their own.
 */
#include <utlist.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/thread.h"
#include "kafka_admin_parts.h"
#include "topic/owners.h"
#include "topic_queue.h"

enum {
    GOOD_FOR_US = 30000000,
    ASKED_FOR_US = 600000000, /* the examiner checks a topic for this time after a caller asked for it */
    /* After a failed lookup, the examiner checks the topic only for this time: waiting jobs ask for it again and
     * again. */
    WAITS_FOR_US = 60000000,
    STALE_FOR_US = 600000000, /* how long an expired good answer is still used while the topic is looked up again */
    BAD_FOR_US = 5000000,
    DOWN_FOR_US = 1000000, /* after a broker did not answer, no request is sent for this time */
    LINGER_US = 2000,      /* topics that callers ask for within this time share a request */
    PACING_US = 2000,      /* shortest pause between two requests of the thread */
    PACING_SHARE = 4,      /* a pause lasts at least 1/PACING_SHARE of the request before it */
    MAKE_TOGETHER = 8,     /* up to this many missing topics are created by one request */
    MAKE_FEW = 2,          /* if more topics are missing, one request creates this many */
    MADE_REST = 3,         /* after a request that created topics, none is created for this many times its duration */
    ALONE_US = 1000000,    /* an owner counts as alone if no other owner has sent messages for this time */
};

struct known {
    UT_hash_handle hh;
    int64_t until_us;
    int64_t asked_us; /* when a caller last asked for the topic */
    bool good;        /* `info` was read from Kafka at least once */
    dt_status status;
    struct dt_kafka_topic_info info;
    struct dt_error error;
    int64_t owner; /* the owner that is charged if the topic is created */
    size_t name_n;
    char name[];
};

struct dt_kafka_asker {
    struct dt_kafka_asker *prev, *next;
    struct dt_kafka_admin *admin;
    void (*told)(void *arg);
    void *arg;
    bool waits; /* the last answer to this asker was BUSY */
};

struct dt_kafka_lookups {
    struct dt_kafka_admin *admin;
    struct dt_thread thread;
    pthread_mutex_t
        find_lock;        /* held during requests of callers that wait, so that the next caller uses their results */
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t changed;
    int64_t down_until_us;
    struct known *known;
    dt_topic_queue *wanted;  /* names that must be looked up */
    dt_topic_queue *missing; /* names of topics that must be created */
    struct {
        int64_t owner, at_us;
    } sent[2];                                        /* the last two different owners that sent messages, and when */
    struct dt_kafka_finding asked[DT_KAFKA_FIND_MAX]; /* topics of the running request; written only by the thread */
    size_t asked_n;                                   /* number of topics of the running request */
    struct dt_kafka_asker *askers;
};

/* ---- the cache; with the lock ---- */

static struct known *find_cached_topic(const struct dt_kafka_lookups *l, struct dt_str name)
{
    struct known *k = NULL;
    HASH_FIND(hh, l->known, name.p, name.n, k);
    return k;
}

static struct known *find_or_cache_topic(struct dt_kafka_lookups *l, struct dt_str name)
{
    struct known *k = find_cached_topic(l, name);
    if (k || (k = calloc(1, sizeof(*k) + name.n + 1)) == NULL)
        return k;
    memcpy(k->name, name.p, name.n);
    k->name_n = name.n;
    k->asked_us = dt_kafka_now_us();
    HASH_ADD_KEYPTR(hh, l->known, k->name, k->name_n, k);
    if (k->hh.tbl)
        return k;
    free(k);
    return NULL;
}

static bool is_topic_in_findings(const struct dt_kafka_finding *v, size_t n, struct dt_str topic)
{
    for (size_t i = 0; i < n; i++) {
        if (dt_str_is(topic, v[i].name))
            return true;
    }
    return false;
}

static void request_topic_lookup(struct dt_kafka_lookups *l, struct dt_str name, int64_t owner)
{
    if (is_topic_in_findings(l->asked, l->asked_n, name))
        return;
    if (!dt_topic_queue_has(l->missing, name) && dt_topic_queue_add(l->wanted, name, owner) == DT_OK)
        pthread_cond_broadcast(&l->changed);
}

/* Returns whether the cache has an answer. If the answer is old, it is used once more, while the topic is looked up
 * again in the background. */
static bool find_cached_answer(struct dt_kafka_lookups *l, struct dt_str name, struct dt_kafka_topic_info *out,
                               dt_status *status, struct dt_error *err)
{
    const int64_t now_us = dt_kafka_now_us();
    struct known *k = find_cached_topic(l, name);
    if (k)
        k->asked_us = now_us;
    if (k && now_us < k->until_us + (k->status == DT_OK ? STALE_FOR_US : 0)) {
        *status = k->status;
        *out = k->info;
        if (k->status != DT_OK && err)
            *err = k->error;
        if (now_us >= k->until_us)
            request_topic_lookup(l, name, k->owner);
        return true;
    }
    if (now_us >= l->down_until_us)
        return false;
    *status = dt_fail(err, DT_UNAVAILABLE, "topic %.*s: Kafka did not answer a moment ago", (int)name.n, name.p);
    return true;
}

/* Stores answers in the cache. If Kafka does not answer, stores only how long no request is sent. */
static void store_findings(struct dt_kafka_lookups *l, const struct dt_kafka_finding *v, size_t n, dt_status status)
{
    struct dt_kafka_asker *asker;
    bool settled = status != DT_OK;
    pthread_mutex_lock(&l->lock);
    if (v == l->asked)
        l->asked_n = 0;
    if (status != DT_OK)
        l->down_until_us = dt_kafka_now_us() + DOWN_FOR_US;
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        const struct dt_kafka_finding *f = &v[i];
        if (f->status == DT_BUSY) {
            /* If the queue is full, the topic is not created now. Its askers are notified when another lookup ends, and
             * then ask again. */
            (void)!dt_topic_queue_add(l->missing, dt_str(f->name), f->owner);
            continue;
        }
        settled = true;
        struct known *k = find_or_cache_topic(l, dt_str(f->name));
        if (!k)
            continue;
        k->owner = f->owner;
        k->status = f->status;
        k->error = f->error;
        if (f->status == DT_OK) {
            k->info = f->info;
            k->good = true;
        }
        k->until_us = dt_kafka_now_us() + (f->status == DT_OK        ? GOOD_FOR_US
                                           : f->status == DT_REFUSED ? BAD_FOR_US
                                                                     : DOWN_FOR_US);
    }
    if (settled) {
        DL_FOREACH(l->askers, asker)
        {
            if (asker->waits)
                asker->told(asker->arg);
            asker->waits = false;
        }
    }
    pthread_mutex_unlock(&l->lock);
}

/* ---- on the thread of its own ---- */

struct pace {
    int64_t look_us;
    int64_t make_us;
    bool make;  /* the next request creates topics; after the request: it created topics */
    bool alone; /* the next request is for an owner that is alone (is_single_owner_waiting) */
};

/* Returns whether all topics to create are of one owner, and no other owner has sent messages for ALONE_US or waits for
 * a topic. The caller holds the lock. */
static bool is_single_owner_waiting(const struct dt_kafka_lookups *l, int64_t *owner)
{
    const int64_t now_us = dt_kafka_now_us();
    int64_t asks;
    if (!dt_topic_queue_alone(l->missing, owner))
        return false;
    if (dt_topic_queue_length(l->wanted) > 0 && !(dt_topic_queue_alone(l->wanted, &asks) && asks == *owner))
        return false;
    for (size_t i = 0; i < 2; i++) {
        if (l->sent[i].at_us && l->sent[i].owner != *owner && now_us - l->sent[i].at_us < ALONE_US)
            return false;
    }
    return true;
}

/* Sets the pauses after a request that was sent at began_us. The owners of created topics are charged for the request
 * in equal parts. */
static void set_pace(struct dt_kafka_lookups *l, struct pace *pace, int64_t began_us, const struct dt_kafka_finding *v,
                     size_t n)
{
    const int64_t now_us = dt_kafka_now_us();
    const int64_t took_us = now_us - began_us;
    int64_t made = 0;
    if (pace->alone) {
        pace->look_us = pace->make_us = now_us + PACING_US;
        return;
    }
    pace->look_us = now_us + dt_later(took_us / PACING_SHARE, PACING_US);
    for (size_t i = 0; i < n; i++)
        made += v[i].made;
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < n; i++) {
        if (v[i].made)
            dt_topic_queue_charge(l->missing, v[i].owner, took_us / made, now_us);
    }
    pthread_mutex_unlock(&l->lock);
    if (made > 0)
        pace->make_us = now_us + took_us * MADE_REST;
}

static void await_change_until(struct dt_kafka_lookups *l, int64_t until_us)
{
    while (!dt_thread_stopping(&l->thread) && dt_kafka_now_us() < until_us)
        dt_clock_wait(&l->changed, &l->lock, until_us);
}

/* Waits for work. Returns true if topics may be created, false if topics must be looked up. After a request that
 * created topics, waiting lookups are served first. */
static bool await_work(struct dt_kafka_lookups *l, struct pace *pace)
{
    for (;;) {
        const int64_t now_us = dt_kafka_now_us();
        const bool looks = dt_topic_queue_length(l->wanted) > 0;
        int64_t owner;
        pace->alone = is_single_owner_waiting(l, &owner);
        if (pace->alone)
            dt_topic_queue_forgive(l->missing, owner);
        const int64_t make_us = dt_later(pace->make_us, dt_topic_queue_ready_us(l->missing, now_us));
        if (make_us <= now_us && !(looks && pace->make))
            return true;
        if (dt_thread_stopping(&l->thread) || looks)
            return false;
        if (make_us == INT64_MAX)
            pthread_cond_wait(&l->changed, &l->lock);
        else
            dt_clock_wait(&l->changed, &l->lock, dt_earlier(make_us, now_us + ALONE_US));
    }
}

/* Takes the names for the next request, and sets pace->make if the request creates these topics. Returns 0 if the
 * thread must stop. */
static size_t take_wanted_topics(struct dt_kafka_lookups *l, struct pace *pace)
{
    struct dt_kafka_finding *v = l->asked;
    size_t n = 0;
    size_t most = DT_KAFKA_FIND_MAX;
    pthread_mutex_lock(&l->lock);
    dt_assert_cmp(l->asked_n, ==, 0);
    await_change_until(l, pace->look_us);
    pace->make = await_work(l, pace);
    await_change_until(l, dt_kafka_now_us() + LINGER_US);
    await_change_until(l, l->down_until_us);
    if (pace->make && !pace->alone)
        most = dt_topic_queue_length(l->missing) <= MAKE_TOGETHER ? MAKE_TOGETHER : MAKE_FEW;
    for (; !dt_thread_stopping(&l->thread) && n < most; n++) {
        v[n] = (struct dt_kafka_finding){.status = DT_UNAVAILABLE};
        if (!dt_topic_queue_take(pace->make ? l->missing : l->wanted, dt_kafka_now_us(), v[n].name, &v[n].owner))
            break;
    }
    l->asked_n = n;
    pthread_mutex_unlock(&l->lock);
    return n;
}

static void lookups_main(void *arg)
{
    struct dt_kafka_lookups *l = arg;
    struct dt_kafka_finding *v = l->asked;
    struct pace pace = {0};
    size_t n;
    while ((n = take_wanted_topics(l, &pace)) > 0) {
        const int64_t began_us = dt_kafka_now_us();
        store_findings(l, v, n, dt_kafka_admin_find(l->admin, v, n, pace.make, NULL));
        set_pace(l, &pace, began_us, v, n);
    }
}

/* ---- callers that must not wait ---- */

dt_status dt_kafka_asker_new(dt_kafka_admin *a, void (*told)(void *arg), void *arg, dt_kafka_asker **out)
{
    struct dt_kafka_asker *asker = calloc(1, sizeof(*asker));
    *out = asker;
    if (!asker)
        return DT_NOMEM;
    *asker = (struct dt_kafka_asker){.admin = a, .told = told, .arg = arg};
    pthread_mutex_lock(&a->lookups->lock);
    DL_APPEND(a->lookups->askers, asker);
    pthread_mutex_unlock(&a->lookups->lock);
    return DT_OK;
}

void dt_kafka_asker_free(dt_kafka_asker *asker)
{
    if (!asker)
        return;
    struct dt_kafka_lookups *l = asker->admin->lookups;
    pthread_mutex_lock(&l->lock);
    DL_DELETE(l->askers, asker);
    pthread_mutex_unlock(&l->lock);
    free(asker);
}

void dt_kafka_asker_sends(dt_kafka_asker *asker, int64_t owner)
{
    struct dt_kafka_lookups *l = asker->admin->lookups;
    pthread_mutex_lock(&l->lock);
    if (l->sent[0].owner != owner) {
        l->sent[1] = l->sent[0];
        l->sent[0].owner = owner;
    }
    l->sent[0].at_us = dt_kafka_now_us();
    pthread_mutex_unlock(&l->lock);
}

static dt_status check_topic_name(struct dt_str topic, struct dt_error *err)
{
    if (topic.n == 0 || topic.n > DT_KAFKA_TOPIC_MAX)
        return dt_fail(err, DT_REFUSED, "a topic's name has 1 to %d bytes", DT_KAFKA_TOPIC_MAX);
    return DT_OK;
}

dt_status dt_kafka_asker_ask(dt_kafka_asker *asker, struct dt_str topic, int64_t owner, struct dt_kafka_topic_info *out,
                             struct dt_error *err)
{
    struct dt_kafka_lookups *l = asker->admin->lookups;
    dt_status status = check_topic_name(topic, err);
    *out = (struct dt_kafka_topic_info){0};
    if (status != DT_OK)
        return status;
    pthread_mutex_lock(&l->lock);
    if (!find_cached_answer(l, topic, out, &status, err)) {
        request_topic_lookup(l, topic,
                             owner); /* if the queue is full, the topic is dropped; a notified asker asks again */
        asker->waits = true;
        status = dt_fail(err, DT_BUSY, "topic %.*s is being looked up", (int)topic.n, topic.p);
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* ---- callers that wait ---- */

static bool answer_from_cache(struct dt_kafka_lookups *l, struct dt_str topic, dt_status *status, struct dt_error *err)
{
    struct dt_kafka_topic_info info;
    pthread_mutex_lock(&l->lock);
    bool known = find_cached_answer(l, topic, &info, status, err);
    pthread_mutex_unlock(&l->lock);
    return known;
}

/* Looks up the next few unknown topics. *at: the index from which to search; advanced. */
static dt_status find_next_unknown(dt_kafka_admin *a, const struct dt_str *topics, size_t n, size_t *at,
                                   struct dt_error *err)
{
    struct dt_kafka_finding v[DT_KAFKA_FIND_MAX];
    size_t n_found = 0;
    dt_status status = DT_OK;
    for (; *at < n && n_found < DT_KAFKA_FIND_MAX; ++*at) {
        if (is_topic_in_findings(v, n_found, topics[*at]) || answer_from_cache(a->lookups, topics[*at], &status, NULL))
            continue;
        v[n_found] = (struct dt_kafka_finding){.status = DT_UNAVAILABLE, .owner = dt_owner_by_name(topics[*at])};
        memcpy(v[n_found++].name, topics[*at].p, topics[*at].n);
    }
    if (n_found == 0)
        return DT_OK;
    status = dt_kafka_admin_find(a, v, n_found, true, err);
    store_findings(a->lookups, v, n_found, status);
    return status;
}

dt_status dt_kafka_admin_topics(dt_kafka_admin *a, const struct dt_str *topics, size_t n, size_t *at_fault,
                                struct dt_error *err)
{
    dt_status status = DT_OK;
    size_t at = 0;
    for (*at_fault = 0; *at_fault < n; ++*at_fault) {
        status = check_topic_name(topics[*at_fault], err);
        if (status != DT_OK)
            return status;
    }
    *at_fault = 0;
    pthread_mutex_lock(&a->lookups->find_lock);
    while (status == DT_OK && at < n)
        status = find_next_unknown(a, topics, n, &at, err);
    pthread_mutex_unlock(&a->lookups->find_lock);
    for (*at_fault = 0; status == DT_OK && *at_fault < n; ++*at_fault) {
        if (!answer_from_cache(a->lookups, topics[*at_fault], &status, err))
            status = dt_fail(err, DT_UNAVAILABLE, "topic %.*s: the result of its lookup is no longer cached",
                             (int)topics[*at_fault].n, topics[*at_fault].p);
        if (status != DT_OK)
            return status;
    }
    return status;
}

dt_status dt_kafka_admin_topic(dt_kafka_admin *a, struct dt_str topic, struct dt_kafka_topic_info *out,
                               struct dt_error *err)
{
    size_t at_fault;
    dt_status status = dt_kafka_admin_topics(a, &topic, 1, &at_fault, err);
    *out = (struct dt_kafka_topic_info){0};
    if (status == DT_OK && !dt_kafka_admin_known(a, topic, out))
        status = dt_fail(err, DT_UNAVAILABLE, "topic %.*s: the result of its lookup is no longer cached", (int)topic.n,
                         topic.p);
    return status;
}

bool dt_kafka_admin_known(dt_kafka_admin *a, struct dt_str topic, struct dt_kafka_topic_info *out)
{
    struct dt_kafka_lookups *l = a->lookups;
    pthread_mutex_lock(&l->lock);
    const struct known *k = find_cached_topic(l, topic);
    bool good = k && k->good;
    if (good)
        *out = k->info;
    pthread_mutex_unlock(&l->lock);
    return good;
}

void dt_kafka_admin_tell_asked(dt_kafka_admin *a, dt_kafka_hear_topic_fn *heard, void *arg)
{
    struct dt_kafka_lookups *l = a->lookups;
    const int64_t now_us = dt_kafka_now_us();
    pthread_mutex_lock(&l->lock);
    for (const struct known *k = l->known; k; k = k->hh.next) {
        const struct dt_kafka_asked_topic topic = {k->name, k->status, k->error.text, k->info};
        if (now_us < k->asked_us + (k->status == DT_OK ? ASKED_FOR_US : WAITS_FOR_US) && heard(arg, &topic) &&
            now_us >= k->until_us)
            request_topic_lookup(l, (struct dt_str){k->name, k->name_n}, k->owner);
    }
    pthread_mutex_unlock(&l->lock);
}

void dt_kafka_admin_forget(dt_kafka_admin *a, struct dt_str topic)
{
    struct dt_kafka_lookups *l = a->lookups;
    pthread_mutex_lock(&l->lock);
    struct known *k = find_cached_topic(l, topic);
    if (k)
        k->until_us = INT64_MIN / 2;
    /* The running request may have read the topic before it changed, so the topic is looked up once more. */
    if (is_topic_in_findings(l->asked, l->asked_n, topic))
        (void)!dt_topic_queue_add(l->wanted, topic, k ? k->owner : dt_owner_by_name(topic));
    pthread_mutex_unlock(&l->lock);
}

dt_status dt_kafka_lookups_new(struct dt_kafka_admin *a, struct dt_error *err)
{
    struct dt_kafka_lookups *l = calloc(1, sizeof(*l));
    a->lookups = l;
    if (!l)
        return dt_fail(err, DT_NOMEM, "kafka topics: out of memory");
    l->admin = a;
    pthread_mutex_init(&l->find_lock, NULL);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (dt_topic_queue_new(&l->wanted) != DT_OK || dt_topic_queue_new(&l->missing) != DT_OK)
        return dt_fail(err, DT_NOMEM, "kafka topics: out of memory");
    return dt_thread_start(&l->thread, "kafka-topics", lookups_main, l, err);
}

void dt_kafka_lookups_free(struct dt_kafka_lookups *l)
{
    struct known *k;
    struct known *next;
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    dt_thread_ask_stop(&l->thread, NULL);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    dt_thread_join(&l->thread);
    HASH_ITER(hh, l->known, k, next)
    {
        HASH_DEL(l->known, k);
        free(k);
    }
    dt_topic_queue_free(l->wanted);
    dt_topic_queue_free(l->missing);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->find_lock);
    free(l);
}

/* ---- the admin: the handle of its requests (kafka_admin.c), and the lookups that use it ---- */

#define KEEP_HANDLE_MS 10000

static const struct dt_kafka_on_demand_ops on_demand_ops = {.handle = {.type = RD_KAFKA_PRODUCER}};

dt_status dt_kafka_admin_new(const struct dt_kafka_env *env, dt_kafka_admin **out, struct dt_error *err)
{
    struct dt_kafka_admin *a = calloc(1, sizeof(*a));
    dt_status status;
    *out = NULL;
    if (!a)
        return dt_fail(err, DT_NOMEM, "kafka admin: out of memory");
    a->env = env;
    pthread_mutex_init(&a->request_lock, NULL);
    status = dt_kafka_on_demand_new(env, &on_demand_ops, KEEP_HANDLE_MS, &a->handle, err);
    DT_THEN(status, dt_kafka_lookups_new(a, err));
    if (status == DT_OK)
        *out = a;
    else
        dt_kafka_admin_free(a);
    return status;
}

void dt_kafka_admin_free(dt_kafka_admin *a)
{
    if (!a)
        return;
    dt_kafka_lookups_free(a->lookups);
    dt_kafka_on_demand_free(a->handle);
    pthread_mutex_destroy(&a->request_lock);
    free(a);
}
