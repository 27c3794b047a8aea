/*
 * Owns:            requests to Kafka about topics (describing, making, growing them), and checks of the ledger's
 *                  settings.
 * Refuses to know: who writes to the topics.
 *
 * Invariants:
 *   - One request runs at a time.
 *   - DescribeConfigs is the first request about a topic, because a metadata request could create a missing topic with
 *     the broker's defaults (a ledger with a week of retention).
 */
#include "kafka_admin_parts.h"

#include <time.h>

#include "base/assert.h"
#include "base/log.h"

/* Timeouts. A broker on a busy machine answers within seconds; after a shorter timeout the request would only be
 * repeated. A wait for a condition (_WITHIN_) ends as soon as the condition holds. */
enum {
    LOOK_TIMEOUT_MS = 5000, /* half of a transaction's timeout, because a transaction may contain this request */
    CHANGE_TIMEOUT_MS = 10000,
    MADE_WITHIN_US = 10000000,
    LEADERS_WITHIN_US = 3000000,   /* short: a partition may lack a leader for long, while other callers wait */
    DEFAULT_MAX_MESSAGE = 1048588, /* Kafka's default; used for topics whose settings Kafka does not let us read */
};

struct look {
    const char *topic;
    rd_kafka_resp_err_t code;
    char retention_ms[32], cleanup_policy[32];
    struct dt_kafka_topic_info info; /* the part that describing a topic shows */
    char reason[200];                /* why Kafka refused to create or grow the topic */
    bool made;
};

/* ---- requests ---- */

/* Takes the request lock, and borrows a handle with a queue for answers. If OK, end_requests must be called. */
static dt_status begin_requests(struct dt_kafka_admin *a, struct dt_error *err)
{
    pthread_mutex_lock(&a->request_lock);
    dt_status status = dt_kafka_on_demand_hold(a->handle, &a->rk, err);
    if (status == DT_OK)
        a->queue = rd_kafka_queue_new(a->rk);
    else
        pthread_mutex_unlock(&a->request_lock);
    return status;
}

static void end_requests(struct dt_kafka_admin *a)
{
    rd_kafka_queue_destroy(a->queue);
    dt_kafka_on_demand_let_go(a->handle);
    pthread_mutex_unlock(&a->request_lock);
}

static rd_kafka_AdminOptions_t *options_new(struct dt_kafka_admin *a, rd_kafka_admin_op_t op)
{
    char reason[128];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(a->rk, op);
    if (!options)
        return NULL;
    if (op == RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS) {
        (void)!rd_kafka_AdminOptions_set_request_timeout(options, LOOK_TIMEOUT_MS, reason, sizeof(reason));
    } else {
        (void)!rd_kafka_AdminOptions_set_request_timeout(options, CHANGE_TIMEOUT_MS, reason, sizeof(reason));
        (void)!rd_kafka_AdminOptions_set_operation_timeout(options, CHANGE_TIMEOUT_MS, reason, sizeof(reason));
    }
    return options;
}

/* Waits for the answer to the running request. NULL: no answer arrived in time. */
static rd_kafka_event_t *await_event(struct dt_kafka_admin *a, rd_kafka_event_type_t type)
{
    const int64_t deadline_us = dt_kafka_now_us() + (CHANGE_TIMEOUT_MS + 1000) * INT64_C(1000);
    while (dt_kafka_now_us() < deadline_us) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(a->queue, 500);
        if (!event)
            continue;
        if (rd_kafka_event_type(event) == type)
            return event;
        rd_kafka_event_destroy(event); /* drops a late answer to an earlier request */
    }
    return NULL;
}

static void copy_topic_setting(struct look *look, const rd_kafka_ConfigEntry_t *entry)
{
    const char *name = rd_kafka_ConfigEntry_name(entry);
    const char *value = rd_kafka_ConfigEntry_value(entry);
    if (!value)
        return;
    if (strcmp(name, "retention.ms") == 0)
        snprintf(look->retention_ms, sizeof(look->retention_ms), "%s", value);
    else if (strcmp(name, "cleanup.policy") == 0)
        snprintf(look->cleanup_policy, sizeof(look->cleanup_policy), "%s", value);
    else if (strcmp(name, "max.message.bytes") == 0)
        look->info.max_message_bytes = strtoll(value, NULL, 10);
    else if (strcmp(name, "min.insync.replicas") == 0)
        look->info.min_in_sync = strtoll(value, NULL, 10);
    else if (strcmp(name, "unclean.leader.election.enable") == 0)
        look->info.elects_unclean = strcmp(value, "true") == 0;
}

static struct look *find_lookup(struct look *v, size_t n, const char *topic)
{
    for (size_t i = 0; topic && i < n; i++) {
        if (strcmp(v[i].topic, topic) == 0)
            return &v[i];
    }
    return NULL;
}

static void set_all_codes(struct look *v, size_t n, rd_kafka_resp_err_t code)
{
    for (size_t i = 0; i < n; i++)
        v[i].code = code;
}

static void describe_topics(struct dt_kafka_admin *a, struct look *v, size_t n)
{
    rd_kafka_ConfigResource_t *resources[DT_KAFKA_FIND_MAX];
    rd_kafka_AdminOptions_t *options = options_new(a, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    const rd_kafka_ConfigResource_t **found = NULL;
    size_t n_found = 0;
    dt_assert_cmp(n, <=, DT_KAFKA_FIND_MAX);
    for (size_t i = 0; i < n; i++) {
        v[i].info.max_message_bytes = DEFAULT_MAX_MESSAGE;
        resources[i] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, v[i].topic);
    }
    rd_kafka_DescribeConfigs(a->rk, resources, n, options, a->queue);
    rd_kafka_event_t *event = await_event(a, RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT);
    rd_kafka_resp_err_t code = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        code = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART; /* for a topic that the answer does not contain */
        found = rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &n_found);
    }
    set_all_codes(v, n, code);
    for (size_t i = 0; i < n_found; i++) {
        struct look *look = find_lookup(v, n, rd_kafka_ConfigResource_name(found[i]));
        size_t n_entries = 0;
        const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(found[i], &n_entries);
        if (!look)
            continue;
        look->code = rd_kafka_ConfigResource_error(found[i]);
        for (size_t k = 0; k < n_entries; k++)
            copy_topic_setting(look, entries[k]);
    }
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy_array(resources, n);
}

/* Waits for the answer to a request that creates or grows topics. Stores Kafka's code and reason for each topic. */
static void await_change(struct dt_kafka_admin *a, rd_kafka_event_type_t type, struct look *v, size_t n)
{
    rd_kafka_event_t *event = await_event(a, type);
    rd_kafka_resp_err_t code = event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    const rd_kafka_topic_result_t **results = NULL;
    size_t n_results = 0;
    set_all_codes(v, n, code);
    for (size_t i = 0; i < n; i++)
        snprintf(v[i].reason, sizeof(v[i].reason), "%s", event ? rd_kafka_err2str(code) : "no answer");
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR && type == RD_KAFKA_EVENT_CREATETOPICS_RESULT)
        results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n_results);
    else if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        results = rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(event), &n_results);
    for (size_t i = 0; i < n_results; i++) {
        struct look *look = find_lookup(v, n, rd_kafka_topic_result_name(results[i]));
        const char *text = rd_kafka_topic_result_error_string(results[i]);
        if (!look)
            continue;
        look->code = rd_kafka_topic_result_error(results[i]);
        snprintf(look->reason, sizeof(look->reason), "%s", text ? text : rd_kafka_err2str(look->code));
    }
    if (event)
        rd_kafka_event_destroy(event);
}

static rd_kafka_NewTopic_t *new_topic(struct dt_kafka_admin *a, struct look *look, int partitions, bool ledger)
{
    char bytes[16];
    int replicas = (int)a->env->config->kafka_replication_factor;
    rd_kafka_NewTopic_t *made =
        rd_kafka_NewTopic_new(look->topic, partitions, replicas, look->reason, sizeof(look->reason));
    if (!made) {
        look->code = RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
    } else if (ledger) {
        (void)!rd_kafka_NewTopic_set_config(made, "retention.ms", "-1");
        (void)!rd_kafka_NewTopic_set_config(made, "retention.bytes", "-1");
        (void)!rd_kafka_NewTopic_set_config(made, "cleanup.policy", "delete");
    } else if (dt_str_ends(dt_str(look->topic), DT_STR_LIT(".rejected"))) {
        /* A message that is moved to a topic `.rejected` gets one more header, so it may be larger than its first topic
         * allows. */
        snprintf(bytes, sizeof(bytes), "%d", DT_KAFKA_MESSAGE_MAX);
        (void)!rd_kafka_NewTopic_set_config(made, "max.message.bytes", bytes);
    }
    return made;
}

/* Creates topics in one request. Stores Kafka's code and reason for each topic. If a topic exists already, its code is
 * NO_ERROR. */
static void create_topics(struct dt_kafka_admin *a, struct look *v, size_t n, int partitions, bool ledger)
{
    rd_kafka_NewTopic_t *topics[DT_KAFKA_FIND_MAX];
    struct look asked[DT_KAFKA_FIND_MAX];
    size_t n_asked = 0;
    dt_assert_cmp(n, <=, DT_KAFKA_FIND_MAX);
    for (size_t i = 0; i < n; i++) {
        topics[n_asked] = new_topic(a, &v[i], partitions, ledger);
        if (topics[n_asked])
            asked[n_asked++] = v[i];
    }
    if (n_asked == 0)
        return;
    rd_kafka_AdminOptions_t *options = options_new(a, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_CreateTopics(a->rk, topics, n_asked, options, a->queue);
    await_change(a, RD_KAFKA_EVENT_CREATETOPICS_RESULT, asked, n_asked);
    for (size_t i = 0; i < n_asked; i++) {
        if (asked[i].code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
            asked[i].code = RD_KAFKA_RESP_ERR_NO_ERROR;
        *find_lookup(v, n, asked[i].topic) = asked[i];
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy_array(topics, n_asked);
}

/* Asks Kafka to raise the topic's number of partitions to `partitions`. Stores Kafka's code and reason in `look`. */
static void add_partitions(struct dt_kafka_admin *a, struct look *look, unsigned partitions)
{
    rd_kafka_NewPartitions_t *more =
        rd_kafka_NewPartitions_new(look->topic, partitions, look->reason, sizeof(look->reason));
    if (!more) {
        look->code = RD_KAFKA_RESP_ERR_INVALID_PARTITIONS;
        return;
    }
    rd_kafka_AdminOptions_t *options = options_new(a, RD_KAFKA_ADMIN_OP_CREATEPARTITIONS);
    rd_kafka_CreatePartitions(a->rk, &more, 1, options, a->queue);
    await_change(a, RD_KAFKA_EVENT_CREATEPARTITIONS_RESULT, look, 1);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewPartitions_destroy(more);
}

/* Reads the number of partitions and replicas. The topic must exist, because a metadata request could create it. */
static dt_status read_topic_shape(struct dt_kafka_admin *a, const char *topic, int64_t deadline_us,
                                  struct dt_kafka_topic_info *info, struct dt_error *err)
{
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(a->rk, topic, NULL);
    if (!rkt)
        return dt_kafka_fail(err, rd_kafka_last_error(), topic);
    dt_status status = dt_kafka_await_topic(a->rk, rkt, deadline_us, NULL, info, err);
    rd_kafka_topic_destroy(rkt);
    return status;
}

/* ---- reading and creating topics ---- */

/* Moves the topics whose code is `code` to the front of v. Returns the number of these topics. */
static size_t move_code_to_front(struct look *v, size_t n, rd_kafka_resp_err_t code)
{
    size_t n_first = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].code == code) {
            struct look other = v[n_first];
            v[n_first++] = v[i];
            v[i] = other;
        }
    }
    return n_first;
}

/* Asks Kafka about topics, and creates missing topics if partitions > 0. Changes the order of `v`. */
static void find_or_create_topics(struct dt_kafka_admin *a, struct look *v, size_t n, int partitions, bool ledger)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    describe_topics(a, v, n);
    n = move_code_to_front(v, n, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    if (n == 0 || partitions <= 0)
        return;
    create_topics(a, v, n, partitions, ledger);
    n = move_code_to_front(v, n, RD_KAFKA_RESP_ERR_NO_ERROR);
    for (size_t i = 0; i < n; i++) {
        DT_LOG(INFO, "kafka", "topic created", DT_S("topic", v[i].topic), DT_I("partitions", partitions));
        v[i].reason[0] = '\0';
        v[i].made = true;
    }
    /* Waits until the brokers know the new topics. */
    const int64_t deadline_us = dt_kafka_now_us() + MADE_WITHIN_US;
    while (n > 0) {
        describe_topics(a, v, n);
        n = move_code_to_front(v, n, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
        if (n == 0 || dt_kafka_now_us() >= deadline_us)
            return;
        nanosleep(&pause, NULL);
    }
}

static dt_status status_of_lookup(const struct look *look, bool made, bool ledger, struct dt_error *err)
{
    switch ((int)look->code) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return DT_OK;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        if (look->reason[0] != '\0')
            break; /* creating the topic failed */
        /* Writing to a topic may be allowed although describing it is not. */
        return ledger ? dt_kafka_fail(err, look->code, look->topic) : DT_OK;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        if (made)
            return dt_fail(err, DT_UNAVAILABLE, "topic %s was created, but the brokers do not know it yet",
                           look->topic);
        return dt_fail(err, DT_REFUSED, "topic %s does not exist, and topics are not created on demand", look->topic);
    default:
        if (look->reason[0] == '\0')
            return dt_kafka_fail(err, look->code, look->topic);
    }
    return dt_fail(err, dt_kafka_error_status(look->code), "creating topic %s: %s", look->topic, look->reason);
}

/* Returns whether the requests about all topics failed because no broker answered. */
static bool no_broker_answered(const struct look *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].code != RD_KAFKA_RESP_ERR__TIMED_OUT && v[i].code != RD_KAFKA_RESP_ERR__TRANSPORT &&
            v[i].code != RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE)
            return false;
    }
    return n > 0;
}

static void finish_topic_finding(struct dt_kafka_admin *a, const struct look *look, bool make, int64_t deadline_us,
                                 struct dt_kafka_finding *f)
{
    const bool on_demand = a->env->config->kafka_auto_create_partitions > 0;
    f->made = look->made;
    if (look->code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && on_demand && !make)
        f->status = DT_BUSY;
    else
        f->status = status_of_lookup(look, on_demand, false, &f->error);
    if (f->status != DT_OK)
        return;
    f->info = look->info;
    f->info.max_message_bytes = dt_earlier(look->info.max_message_bytes, DT_KAFKA_MESSAGE_MAX); /* our own limit */
    f->status = read_topic_shape(a, f->name, deadline_us, &f->info, &f->error);
}

/* Waits until the partitions of new topics have leaders. A broker knows a new topic before it leads the topic's
 * partitions. A producer that writes before that must retry after a tenth of a second, in the middle of a transaction.
 * So this function waits until Kafka returns the end of each partition, which only the partition's leader can. If the
 * wait fails, the topics are used all the same. */
static void await_leaders(struct dt_kafka_admin *a, struct look *looks, const struct dt_kafka_finding *v, size_t n)
{
    const int64_t deadline_us = dt_kafka_now_us() + MADE_WITHIN_US;
    const struct timespec pause = {.tv_nsec = 5000000};
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].status != DT_OK || !find_lookup(looks, n, v[i].name)->made)
            continue;
        for (int k = 0; k < v[i].info.partitions; k++)
            rd_kafka_topic_partition_list_add(list, v[i].name, k)->offset = RD_KAFKA_OFFSET_END;
    }
    while (list->cnt > 0 && dt_kafka_now_us() < deadline_us) {
        (void)rd_kafka_offsets_for_times(a->rk, list, 1000);
        for (int i = list->cnt - 1; i >= 0; i--) { /* removes the partitions that have a leader from the list */
            if (list->elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR && list->elems[i].offset >= 0)
                rd_kafka_topic_partition_list_del_by_idx(list, i);
            else
                list->elems[i].offset = RD_KAFKA_OFFSET_END;
        }
        if (list->cnt > 0)
            nanosleep(&pause, NULL);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

dt_status dt_kafka_admin_find(struct dt_kafka_admin *a, struct dt_kafka_finding *v, size_t n, bool make,
                              struct dt_error *err)
{
    const int partitions = make ? (int)a->env->config->kafka_auto_create_partitions : 0;
    struct look looks[DT_KAFKA_FIND_MAX];
    dt_assert_cmp(n, <=, DT_KAFKA_FIND_MAX);
    dt_status status = begin_requests(a, err);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < n; i++)
        looks[i] = (struct look){.topic = v[i].name};
    find_or_create_topics(a, looks, n, partitions, false);
    const int64_t deadline_us =
        dt_kafka_now_us() + LEADERS_WITHIN_US; /* one limit for all topics together, because other callers wait */
    for (size_t i = 0; i < n; i++)
        finish_topic_finding(a, find_lookup(looks, n, v[i].name), make, deadline_us, &v[i]);
    await_leaders(a, looks, v, n);
    if (no_broker_answered(looks, n))
        status = dt_fail(err, DT_UNAVAILABLE, "%s", v[0].error.text);
    end_requests(a);
    return status;
}

/* ---- our own topics ---- */

/* Reads a topic of the installation, and creates the topic if needed. */
static dt_status read_installation_topic(struct dt_kafka_admin *a, struct look *look, int partitions, bool ledger,
                                         struct dt_error *err)
{
    find_or_create_topics(a, look, 1, partitions, ledger);
    return status_of_lookup(look, partitions > 0, ledger, err);
}

/* Checks the ledger. If `repair`, creates a missing ledger, and adds missing partitions. */
static dt_status check_ledger(struct dt_kafka_admin *a, unsigned shards, bool repair, struct dt_error *err)
{
    char topic[DT_KAFKA_TOPIC_MAX + 1];
    struct look look = {.topic = topic};
    struct dt_kafka_topic_info info = {0};
    dt_status status = dt_kafka_topic_name(a->env, "ledger", topic, err);
    DT_THEN(status, read_installation_topic(a, &look, repair ? (int)shards : 0, true, err));
    if (status == DT_OK && strcmp(look.retention_ms, "-1") != 0)
        status = dt_fail(err, DT_REFUSED, "topic %s has retention.ms=%s: it must be -1, or sent jobs are forgotten",
                         topic, look.retention_ms);
    if (status == DT_OK && strcmp(look.cleanup_policy, "delete") != 0)
        status =
            dt_fail(err, DT_REFUSED, "topic %s has cleanup.policy=%s: it must be delete", topic, look.cleanup_policy);
    DT_THEN(status, read_topic_shape(a, topic, dt_kafka_now_us() + LEADERS_WITHIN_US, &info, err));
    if (status != DT_OK || info.partitions >= (int)shards)
        return status;
    if (!repair)
        return dt_fail(err, DT_REFUSED, "topic %s has %d partitions, fewer than the %u shards", topic, info.partitions,
                       shards);
    add_partitions(a, &look, shards);
    /* If two processes add partitions at once, the later one gets an error because the topic already has this many.
     * That is no failure. */
    if (look.code != RD_KAFKA_RESP_ERR_NO_ERROR && look.code != RD_KAFKA_RESP_ERR_INVALID_PARTITIONS)
        return dt_fail(err, dt_kafka_error_status(look.code), "adding partitions to topic %s: %s", topic, look.reason);
    return DT_OK;
}

dt_status dt_kafka_admin_ledger(dt_kafka_admin *a, unsigned shard, enum dt_ledger_care care, struct dt_error *err)
{
    dt_status status = begin_requests(a, err);
    if (status != DT_OK)
        return status;
    status = check_ledger(a, shard + 1, care == DT_LEDGER_GROW, err);
    end_requests(a);
    return status;
}

dt_status dt_kafka_admin_prepare(dt_kafka_admin *a, struct dt_error *err)
{
    const int64_t partitions = a->env->config->kafka_auto_create_partitions;
    dt_status status = begin_requests(a, err);
    if (status != DT_OK)
        return status;
    status = check_ledger(a, a->env->shards, true, err);
    for (size_t i = 1; status == DT_OK && i < DT_KAFKA_OWN_TOPICS; i++) {
        char topic[DT_KAFKA_TOPIC_MAX + 1];
        struct look look = {.topic = topic};
        status = dt_kafka_topic_name(a->env, dt_kafka_own_topics[i], topic, err);
        DT_THEN(status, read_installation_topic(a, &look, partitions > 0 ? (int)partitions : 4, false, err));
    }
    end_requests(a);
    return status;
}

/* ---- findings for operators ---- */

/* Counts the replicas. The topic must exist, because a metadata request could create it. */
static dt_status count_replicas(struct dt_kafka_admin *a, const char *topic, struct dt_kafka_topic_info *out,
                                struct dt_error *err)
{
    const struct rd_kafka_metadata *seen = NULL;
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(a->rk, topic, NULL);
    rd_kafka_resp_err_t code = rkt ? rd_kafka_metadata(a->rk, 0, rkt, &seen, LOOK_TIMEOUT_MS) : rd_kafka_last_error();
    if (rkt)
        rd_kafka_topic_destroy(rkt);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return dt_kafka_fail(err, code, topic);
    out->brokers = seen->broker_cnt;
    for (int i = 0; seen->topic_cnt == 1 && i < seen->topics[0].partition_cnt; i++) {
        int replicas = seen->topics[0].partitions[i].replica_cnt;
        out->replicas = i == 0 || replicas < out->replicas ? replicas : out->replicas;
    }
    rd_kafka_metadata_destroy(seen);
    return DT_OK;
}

dt_status dt_kafka_admin_examine(dt_kafka_admin *a, struct dt_kafka_state *out, struct dt_error *err)
{
    struct look looks[DT_KAFKA_OWN_TOPICS] = {0};
    dt_status status = DT_OK;
    *out = (struct dt_kafka_state){0};
    for (size_t i = 0; status == DT_OK && i < DT_KAFKA_OWN_TOPICS; i++) {
        looks[i].topic = out->topics[i].name;
        status = dt_kafka_topic_name(a->env, dt_kafka_own_topics[i], out->topics[i].name, err);
    }
    DT_THEN(status, begin_requests(a, err));
    if (status != DT_OK)
        return status;
    describe_topics(a, looks, DT_KAFKA_OWN_TOPICS);
    if (no_broker_answered(looks, DT_KAFKA_OWN_TOPICS))
        status = dt_kafka_fail(err, looks[0].code, "topics of ours");
    for (size_t i = 0; status == DT_OK && i < DT_KAFKA_OWN_TOPICS; i++) {
        out->topics[i].there = looks[i].code != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        out->topics[i].info = looks[i].info;
        if (looks[i].code == RD_KAFKA_RESP_ERR_NO_ERROR)
            status = count_replicas(a, out->topics[i].name, &out->topics[i].info, err);
    }
    end_requests(a);
    return status;
}
