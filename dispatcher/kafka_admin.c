/*
 * Owns: what the process knows of Kafka's topics: makes them, checks the ledger's settings, remembers limits for a
 * while. Refuses to know: who writes to the topics. Invariants: one lock guards all; one request is under way at a
 * time. A topic is looked at with DescribeConfigs before anything else, because a metadata request could make a missing
 * topic with the broker's defaults (a ledger with a week of retention).
 */
#include "kafka_warm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"

enum {
    LOOK_TIMEOUT_MS = 2000,
    CHANGE_TIMEOUT_MS = 5000,
    GOOD_FOR_US = 30000000,
    STALE_FOR_US = 600000000, /* after that: a good answer is still given while it is looked up anew */
    BAD_FOR_US = 5000000,
    DOWN_FOR_US = 1000000, /* a broker that did not answer is not asked again by everybody */
    CACHE_BUCKETS = 256,
    KEEP_HANDLE_MS = 10000,
    DEFAULT_MAX_MESSAGE = 1048588, /* Kafka's default, for topics whose settings we may not read */
};

struct known {
    struct known *next;
    int64_t until_us;
    bool good; /* info was filled at least once */
    dt_status status;
    struct dt_kafka_topic_info info;
    struct dt_error error;
    size_t name_n;
    char name[];
};

struct dt_kafka_admin {
    const struct dt_kafka_env *env;
    pthread_mutex_t request_lock; /* around requests, and for the three below; taken before cache_lock */
    dt_kafka_warm *warm;
    rd_kafka_t *rk; /* while a request is under way */
    rd_kafka_queue_t *queue;
    pthread_mutex_t cache_lock; /* for all below */
    pthread_cond_t refreshed;
    bool refreshing; /* a thread looks a topic up anew */
    int64_t down_until_us;
    struct known *cache[CACHE_BUCKETS];
};

/* Settings of a topic, as far as they were told. */
struct settings {
    char retention_ms[32], cleanup_policy[32];
    int64_t max_message_bytes;
};

/* ---- requests ---- */

/* Around requests: the lock, and a handle with a queue for their answers. */
static dt_status begin(struct dt_kafka_admin *a, struct dt_error *err)
{
    dt_status status;

    pthread_mutex_lock(&a->request_lock);
    status = dt_kafka_warm_hold(a->warm, &a->rk, err);
    if (status == DT_OK)
        a->queue = rd_kafka_queue_new(a->rk);
    else
        pthread_mutex_unlock(&a->request_lock);
    return status;
}

static void end(struct dt_kafka_admin *a)
{
    rd_kafka_queue_destroy(a->queue);
    dt_kafka_warm_let_go(a->warm);
    pthread_mutex_unlock(&a->request_lock);
}

static rd_kafka_AdminOptions_t *options_new(struct dt_kafka_admin *a, rd_kafka_admin_op_t op)
{
    char reason[128];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(a->rk, op);

    if (options == NULL)
        return NULL;
    if (op == RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS) {
        (void)!rd_kafka_AdminOptions_set_request_timeout(options, LOOK_TIMEOUT_MS, reason, sizeof reason);
    } else {
        (void)!rd_kafka_AdminOptions_set_request_timeout(options, CHANGE_TIMEOUT_MS, reason, sizeof reason);
        (void)!rd_kafka_AdminOptions_set_operation_timeout(options, CHANGE_TIMEOUT_MS, reason, sizeof reason);
    }
    return options;
}

/* The answer to the one request under way; NULL when there is none in time. */
static rd_kafka_event_t *await_event(struct dt_kafka_admin *a, rd_kafka_event_type_t type)
{
    const int64_t deadline_us = dt_kafka_now_us() + (CHANGE_TIMEOUT_MS + 1000) * INT64_C(1000);

    while (dt_kafka_now_us() < deadline_us) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(a->queue, 500);

        if (event == NULL)
            continue;
        if (rd_kafka_event_type(event) == type)
            return event;
        rd_kafka_event_destroy(event); /* the late answer to an earlier request */
    }
    return NULL;
}

static void take_setting(struct settings *s, const rd_kafka_ConfigEntry_t *entry)
{
    const char *name = rd_kafka_ConfigEntry_name(entry), *value = rd_kafka_ConfigEntry_value(entry);

    if (value == NULL)
        return;
    if (strcmp(name, "retention.ms") == 0)
        snprintf(s->retention_ms, sizeof s->retention_ms, "%s", value);
    else if (strcmp(name, "cleanup.policy") == 0)
        snprintf(s->cleanup_policy, sizeof s->cleanup_policy, "%s", value);
    else if (strcmp(name, "max.message.bytes") == 0)
        s->max_message_bytes = strtoll(value, NULL, 10);
}

static rd_kafka_resp_err_t read_settings(rd_kafka_event_t *event, struct settings *s)
{
    size_t n = 0;
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    const rd_kafka_ConfigResource_t **found;
    const rd_kafka_ConfigEntry_t **entries;

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return code;
    found = rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &n);
    if (n != 1)
        return RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    code = rd_kafka_ConfigResource_error(found[0]);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return code;
    entries = rd_kafka_ConfigResource_configs(found[0], &n);
    for (size_t i = 0; i < n; i++)
        take_setting(s, entries[i]);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t describe(struct dt_kafka_admin *a, const char *topic, struct settings *s)
{
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_AdminOptions_t *options = options_new(a, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_event_t *event;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;

    *s = (struct settings){.max_message_bytes = DEFAULT_MAX_MESSAGE};
    rd_kafka_DescribeConfigs(a->rk, &resource, 1, options, a->queue);
    event = await_event(a, RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT);
    if (event != NULL) {
        code = read_settings(event, s);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(resource);
    return code;
}

/* The first error of a list of topic results, with Kafka's own words. */
static rd_kafka_resp_err_t topic_result(const rd_kafka_topic_result_t **results, size_t n, char *reason, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        rd_kafka_resp_err_t code = rd_kafka_topic_result_error(results[i]);
        const char *text = rd_kafka_topic_result_error_string(results[i]);

        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        snprintf(reason, size, "%s", text != NULL ? text : rd_kafka_err2str(code));
        return code;
    }
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t create(struct dt_kafka_admin *a, const char *topic, int partitions, bool ledger,
                                  char *reason, size_t size)
{
    int replicas = (int)a->env->config->kafka_replication_factor;
    rd_kafka_NewTopic_t *new_topic = rd_kafka_NewTopic_new(topic, partitions, replicas, reason, size);
    rd_kafka_AdminOptions_t *options = NULL;
    rd_kafka_event_t *event = NULL;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    const rd_kafka_topic_result_t **results;
    size_t n;

    if (new_topic == NULL)
        return RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
    if (ledger) {
        (void)!rd_kafka_NewTopic_set_config(new_topic, "retention.ms", "-1");
        (void)!rd_kafka_NewTopic_set_config(new_topic, "retention.bytes", "-1");
        (void)!rd_kafka_NewTopic_set_config(new_topic, "cleanup.policy", "delete");
    }
    options = options_new(a, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_CreateTopics(a->rk, &new_topic, 1, options, a->queue);
    event = await_event(a, RD_KAFKA_EVENT_CREATETOPICS_RESULT);
    snprintf(reason, size, "no answer");
    if (event != NULL) {
        code = rd_kafka_event_error(event);
        snprintf(reason, size, "%s", rd_kafka_err2str(code));
    }
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
        code = topic_result(results, n, reason, size);
    }
    if (event != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(new_topic);
    return code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS ? RD_KAFKA_RESP_ERR_NO_ERROR : code;
}

static rd_kafka_resp_err_t grow(struct dt_kafka_admin *a, const char *topic, unsigned partitions, char *reason,
                                size_t size)
{
    rd_kafka_NewPartitions_t *more = rd_kafka_NewPartitions_new(topic, partitions, reason, size);
    rd_kafka_AdminOptions_t *options;
    rd_kafka_event_t *event;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    const rd_kafka_topic_result_t **results;
    size_t n;

    if (more == NULL)
        return RD_KAFKA_RESP_ERR_INVALID_PARTITIONS;
    options = options_new(a, RD_KAFKA_ADMIN_OP_CREATEPARTITIONS);
    rd_kafka_CreatePartitions(a->rk, &more, 1, options, a->queue);
    event = await_event(a, RD_KAFKA_EVENT_CREATEPARTITIONS_RESULT);
    snprintf(reason, size, "no answer");
    if (event != NULL) {
        code = rd_kafka_event_error(event);
        snprintf(reason, size, "%s", rd_kafka_err2str(code));
    }
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        results = rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(event), &n);
        code = topic_result(results, n, reason, size);
    }
    if (event != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewPartitions_destroy(more);
    return code;
}

/* Only for topics that exist: metadata would make others. */
static dt_status count_partitions(struct dt_kafka_admin *a, const char *topic, int *partitions, struct dt_error *err)
{
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(a->rk, topic, NULL);
    dt_status status;

    if (rkt == NULL)
        return dt_kafka_fail(err, rd_kafka_last_error(), topic);
    status = dt_kafka_await_topic(a->rk, rkt, dt_kafka_now_us() + 1000000, NULL, partitions, err);
    rd_kafka_topic_destroy(rkt);
    return status;
}

/* ---- topics of any name ---- */

/* Makes a topic and waits until the brokers know it. */
static dt_status make(struct dt_kafka_admin *a, const char *topic, int partitions, bool ledger, struct settings *s,
                      struct dt_error *err)
{
    char reason[256] = "";
    rd_kafka_resp_err_t code = create(a, topic, partitions, ledger, reason, sizeof reason);
    const int64_t deadline_us = dt_kafka_now_us() + 2000000;
    const struct timespec pause = {.tv_nsec = 5000000};

    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return dt_fail(err, dt_kafka_error_status(code), "making topic %s: %s", topic, reason);
    DT_LOG(INFO, "kafka", "topic made", DT_S("topic", topic), DT_I("partitions", partitions));
    while ((code = describe(a, topic, s)) == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && dt_kafka_now_us() < deadline_us)
        nanosleep(&pause, NULL);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? DT_OK
               : dt_fail(err, DT_UNAVAILABLE, "topic %s: %s", topic, rd_kafka_err2str(code));
}

/* What Kafka says of a topic, made when it is missing and partitions > 0. */
static dt_status look_or_make(struct dt_kafka_admin *a, const char *topic, int partitions, bool ledger,
                              struct settings *s, struct dt_error *err)
{
    rd_kafka_resp_err_t code = describe(a, topic, s);

    switch ((int)code) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return DT_OK;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        *s = (struct settings){.max_message_bytes = DEFAULT_MAX_MESSAGE};
        return ledger ? dt_kafka_fail(err, code, topic) : DT_OK; /* writing may be allowed all the same */
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        if (partitions == 0)
            return dt_fail(err, DT_REFUSED, "topic %s does not exist and topics are not made on demand", topic);
        return make(a, topic, partitions, ledger, s, err);
    default:
        return dt_kafka_fail(err, code, topic);
    }
}

static dt_status look_up(struct dt_kafka_admin *a, const char *topic, struct dt_kafka_topic_info *out,
                         struct dt_error *err)
{
    struct settings s;
    dt_status status = look_or_make(a, topic, (int)a->env->config->kafka_auto_create_partitions, false, &s, err);

    if (status != DT_OK)
        return status;
    /* the client has a limit of its own */
    out->max_message_bytes = s.max_message_bytes < DT_KAFKA_MESSAGE_MAX ? s.max_message_bytes : DT_KAFKA_MESSAGE_MAX;
    return count_partitions(a, topic, &out->partitions, err);
}

/* ---- the cache ---- */

static struct known **cache_slot(struct dt_kafka_admin *a, struct dt_str name)
{
    struct known **at;

    for (at = &a->cache[dt_str_hash(name) % CACHE_BUCKETS]; *at != NULL; at = &(*at)->next) {
        if ((*at)->name_n == name.n && memcmp((*at)->name, name.p, name.n) == 0)
            break;
    }
    return at;
}

static void refresh_soon(struct dt_kafka_admin *a, const struct known *k);

/* True when there is an answer already. An old one is good for now, and looked up anew behind the caller's back. */
static bool cache_get(struct dt_kafka_admin *a, struct dt_str name, struct dt_kafka_topic_info *out, dt_status *status,
                      struct dt_error *err)
{
    const int64_t now_us = dt_kafka_now_us();
    struct known *k;
    bool hit;

    pthread_mutex_lock(&a->cache_lock);
    k = *cache_slot(a, name);
    hit = k != NULL && now_us < k->until_us + (k->status == DT_OK ? STALE_FOR_US : 0);
    if (hit) {
        *status = k->status;
        *out = k->info;
        if (k->status != DT_OK && err != NULL)
            *err = k->error;
        if (now_us >= k->until_us)
            refresh_soon(a, k);
    } else if (now_us < a->down_until_us) {
        hit = true;
        *status = dt_fail(err, DT_UNAVAILABLE, "topic %.*s: Kafka did not answer a moment ago", (int)name.n, name.p);
    }
    pthread_mutex_unlock(&a->cache_lock);
    return hit;
}

static struct known *cache_entry(struct dt_kafka_admin *a, struct dt_str name)
{
    struct known **slot = cache_slot(a, name), *k = *slot;

    if (k == NULL && (k = calloc(1, sizeof *k + name.n + 1)) != NULL) {
        memcpy(k->name, name.p, name.n);
        k->name_n = name.n;
        *slot = k;
    }
    return k;
}

/* That Kafka does not answer is nothing to remember of a topic. */
static void cache_put(struct dt_kafka_admin *a, struct dt_str name, const struct dt_kafka_topic_info *info,
                      dt_status status, const struct dt_error *error)
{
    struct known *k = NULL;

    pthread_mutex_lock(&a->cache_lock);
    if (status == DT_OK || status == DT_REFUSED)
        k = cache_entry(a, name);
    else
        a->down_until_us = dt_kafka_now_us() + DOWN_FOR_US;
    if (k != NULL) {
        k->status = status;
        k->error = *error;
        if (status == DT_OK) {
            k->info = *info;
            k->good = true;
        }
        k->until_us = dt_kafka_now_us() + (status == DT_OK ? GOOD_FOR_US : BAD_FOR_US);
    }
    pthread_mutex_unlock(&a->cache_lock);
}

/* ---- looking up anew ---- */

struct refresh {
    struct dt_kafka_admin *admin;
    char name[DT_KAFKA_TOPIC_MAX + 1];
};

static void *refresh_main(void *arg)
{
    struct refresh *r = arg;
    struct dt_kafka_admin *a = r->admin;
    struct dt_kafka_topic_info info = {0};
    struct dt_error why = {0};

    if (begin(a, &why) == DT_OK) {
        dt_status status = look_up(a, r->name, &info, &why);

        cache_put(a, dt_str(r->name), &info, status, &why);
        end(a);
    }
    pthread_mutex_lock(&a->cache_lock);
    a->refreshing = false;
    pthread_cond_broadcast(&a->refreshed);
    pthread_mutex_unlock(&a->cache_lock);
    free(r);
    return NULL;
}

/* One at a time: a topic whose turn it is not is met again. Holds the cache's lock. */
static void refresh_soon(struct dt_kafka_admin *a, const struct known *k)
{
    struct refresh *r = a->refreshing ? NULL : calloc(1, sizeof *r);
    pthread_attr_t attr;
    pthread_t thread;

    if (r == NULL)
        return;
    r->admin = a;
    memcpy(r->name, k->name, k->name_n);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    a->refreshing = pthread_create(&thread, &attr, refresh_main, r) == 0;
    pthread_attr_destroy(&attr);
    if (!a->refreshing)
        free(r);
}

bool dt_kafka_admin_known(dt_kafka_admin *a, struct dt_str topic, struct dt_kafka_topic_info *out)
{
    struct known *k;
    bool good;

    pthread_mutex_lock(&a->cache_lock);
    k = *cache_slot(a, topic);
    good = k != NULL && k->good;
    if (good)
        *out = k->info;
    pthread_mutex_unlock(&a->cache_lock);
    return good;
}

void dt_kafka_admin_forget(dt_kafka_admin *a, struct dt_str topic)
{
    struct known *k;

    pthread_mutex_lock(&a->cache_lock);
    k = *cache_slot(a, topic);
    if (k != NULL)
        k->until_us = INT64_MIN / 2;
    pthread_mutex_unlock(&a->cache_lock);
}

dt_status dt_kafka_admin_topic(dt_kafka_admin *a, struct dt_str topic, struct dt_kafka_topic_info *out,
                               struct dt_error *err)
{
    char name[DT_KAFKA_TOPIC_MAX + 1];
    struct dt_error why = {0};
    dt_status status;

    *out = (struct dt_kafka_topic_info){0};
    if (topic.n == 0 || topic.n > DT_KAFKA_TOPIC_MAX)
        return dt_fail(err, DT_REFUSED, "a topic's name has 1 to %d bytes", DT_KAFKA_TOPIC_MAX);
    if (cache_get(a, topic, out, &status, err))
        return status;
    memcpy(name, topic.p, topic.n);
    name[topic.n] = '\0';
    status = begin(a, err);
    if (status != DT_OK)
        return status;
    if (!cache_get(a, topic, out, &status, err)) { /* nobody else asked meanwhile */
        status = look_up(a, name, out, &why);
        cache_put(a, topic, out, status, &why);
        if (status != DT_OK && err != NULL)
            *err = why;
    }
    end(a);
    return status;
}

/* ---- our own topics ---- */

static dt_status check_ledger_settings(const char *topic, const struct settings *s, struct dt_error *err)
{
    if (strcmp(s->retention_ms, "-1") != 0)
        return dt_fail(err, DT_REFUSED, "topic %s has retention.ms=%s: it must be -1, or sent jobs are forgotten",
                       topic, s->retention_ms);
    if (strcmp(s->cleanup_policy, "delete") != 0)
        return dt_fail(err, DT_REFUSED, "topic %s has cleanup.policy=%s: it must be delete", topic, s->cleanup_policy);
    return DT_OK;
}

/* With `repair` it is made when missing, and grows. */
static dt_status check_ledger(struct dt_kafka_admin *a, unsigned shards, bool repair, struct dt_error *err)
{
    char topic[DT_KAFKA_TOPIC_MAX + 1], reason[256] = "";
    struct settings s;
    int partitions = 0;
    rd_kafka_resp_err_t code;
    dt_status status = dt_kafka_topic_name(a->env, "ledger", topic, err);

    if (status == DT_OK)
        status = look_or_make(a, topic, repair ? (int)shards : 0, true, &s, err);
    if (status == DT_OK)
        status = check_ledger_settings(topic, &s, err);
    if (status == DT_OK)
        status = count_partitions(a, topic, &partitions, err);
    if (status != DT_OK || partitions >= (int)shards)
        return status;
    if (!repair)
        return dt_fail(err, DT_REFUSED, "topic %s has %d partitions for %u shards", topic, partitions, shards);
    code = grow(a, topic, shards, reason, sizeof reason);
    /* Two processes may grow it at once: the later one is told that it has that many. */
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_INVALID_PARTITIONS)
        return dt_fail(err, dt_kafka_error_status(code), "more partitions for %s: %s", topic, reason);
    return DT_OK;
}

static dt_status look_at_ledger(dt_kafka_admin *a, unsigned shards, bool repair, struct dt_error *err)
{
    dt_status status = begin(a, err);

    if (status != DT_OK)
        return status;
    status = check_ledger(a, shards, repair, err);
    end(a);
    return status;
}

dt_status dt_kafka_admin_check_ledger(dt_kafka_admin *a, unsigned shard, struct dt_error *err)
{
    return look_at_ledger(a, shard + 1, false, err);
}

dt_status dt_kafka_admin_grow_ledger(dt_kafka_admin *a, unsigned shard, struct dt_error *err)
{
    return look_at_ledger(a, shard + 1, true, err);
}

dt_status dt_kafka_admin_prepare(dt_kafka_admin *a, struct dt_error *err)
{
    static const char *const suffixes[] = {"results", "results.rejected", "dead"};
    const int64_t partitions = a->env->config->kafka_auto_create_partitions;
    dt_status status = begin(a, err);

    if (status != DT_OK)
        return status;
    status = check_ledger(a, a->env->shards, true, err);
    for (size_t i = 0; status == DT_OK && i < sizeof suffixes / sizeof *suffixes; i++) {
        char topic[DT_KAFKA_TOPIC_MAX + 1];
        struct settings s;

        status = dt_kafka_topic_name(a->env, suffixes[i], topic, err);
        if (status == DT_OK)
            status = look_or_make(a, topic, partitions > 0 ? (int)partitions : 4, false, &s, err);
    }
    end(a);
    return status;
}

/* ---- life ---- */

static dt_status admin_conf(const struct dt_kafka_env *env, rd_kafka_conf_t **out, struct dt_error *err)
{
    return dt_kafka_conf_new(env, NULL, out, err);
}

static const struct dt_kafka_warm_ops warm_ops = {.conf = admin_conf};

dt_status dt_kafka_admin_new(const struct dt_kafka_env *env, dt_kafka_admin **out, struct dt_error *err)
{
    struct dt_kafka_admin *a = calloc(1, sizeof *a);
    dt_status status;

    *out = NULL;
    if (a == NULL)
        return dt_fail(err, DT_NOMEM, "kafka admin");
    a->env = env;
    pthread_mutex_init(&a->request_lock, NULL);
    pthread_mutex_init(&a->cache_lock, NULL);
    pthread_cond_init(&a->refreshed, NULL);
    status = dt_kafka_warm_new(env, &warm_ops, KEEP_HANDLE_MS, &a->warm, err);
    if (status != DT_OK) {
        dt_kafka_admin_free(a);
        return status;
    }
    *out = a;
    return DT_OK;
}

void dt_kafka_admin_free(dt_kafka_admin *a)
{
    if (a == NULL)
        return;
    pthread_mutex_lock(&a->cache_lock);
    while (a->refreshing)
        pthread_cond_wait(&a->refreshed, &a->cache_lock);
    pthread_mutex_unlock(&a->cache_lock);
    dt_kafka_warm_free(a->warm);
    for (size_t i = 0; i < CACHE_BUCKETS; i++) {
        struct known *next;

        for (struct known *k = a->cache[i]; k != NULL; k = next) {
            next = k->next;
            free(k);
        }
    }
    pthread_mutex_destroy(&a->request_lock);
    pthread_cond_destroy(&a->refreshed);
    pthread_mutex_destroy(&a->cache_lock);
    free(a);
}
