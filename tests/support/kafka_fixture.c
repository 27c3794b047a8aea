#include "support/kafka_fixture.h"

#include <librdkafka/rdkafka.h>
#include <unistd.h>

enum { ANSWER_MS = WAIT_MS };

void kafka_fixture_ok(dt_status status, const struct dt_error *err, const char *file, int line)
{
    if (status != DT_OK) {
        print_error("%s: %s\n", dt_status_name(status), err->text);
        _fail(file, line);
    }
}

void kafka_fixture_init(struct kafka_fixture *fx, const char *prefix)
{
    static unsigned count;
    const char *brokers = getenv("DUETIME_KAFKA");
    memset(fx, 0, sizeof(*fx));
    if (!brokers || !*brokers)
        fail_msg("DUETIME_KAFKA is not set");
    snprintf(fx->brokers, sizeof(fx->brokers), "%s", brokers);
    snprintf(fx->installation, sizeof(fx->installation), "%s%dn%u", prefix, (int)getpid(), ++count);
    snprintf(fx->topic, sizeof(fx->topic), "%s-topic", fx->installation);
    fx->config.kafka_brokers = fx->brokers;
    fx->config.kafka_auto_create_partitions = 2;
    fx->config.kafka_replication_factor = 1;
    fx->config.kafka_transaction_timeout = 60000; /* a test meets this timeout only if it asks for it */
    fx->env =
        (struct dt_kafka_env){.config = &fx->config, .installation = fx->installation, .uuid = "0f9c2d4e", .shards = 3};
}

void kafka_fixture_make(struct kafka_fixture *fx, const char *prefix)
{
    struct dt_error err = {0};
    dt_kafka_admin *admin = NULL;
    kafka_fixture_init(fx, prefix);
    KAFKA_FIXTURE_OK(dt_kafka_admin_new(&fx->env, &admin, &err), &err);
    dt_status
        status; /* as a dispatcher does: a broker that has just begun may take seconds to know a topic that it made */
    AWAIT_OR((status = dt_kafka_admin_prepare(admin, &err)) != DT_UNAVAILABLE, print_error("%s\n", err.text));
    KAFKA_FIXTURE_OK(status, &err);
    fx->env.admin = admin;
}

const char *kafka_fixture_own(const struct kafka_fixture *fx, const char *suffix)
{
    static char names[4][128];
    static unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, sizeof(names[0]), "%s.%s", fx->installation, suffix);
    return name;
}

int64_t kafka_fixture_now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

/* ---- a client of the test's own ---- */

static rd_kafka_t *client(struct kafka_fixture *fx, rd_kafka_type_t type, bool committed)
{
    char reason[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", fx->brokers, reason, sizeof(reason));
    if (type == RD_KAFKA_CONSUMER) {
        rd_kafka_conf_set(conf, "isolation.level", committed ? "read_committed" : "read_uncommitted", reason,
                          sizeof(reason));
        rd_kafka_conf_set(conf, "fetch.wait.max.ms", "5", reason, sizeof(reason));
        rd_kafka_conf_set(conf, "enable.partition.eof", "true", reason, sizeof(reason));
        rd_kafka_conf_set(conf, "group.id", fx->installation, reason, sizeof(reason));
        rd_kafka_conf_set(conf, "enable.auto.commit", "false", reason, sizeof(reason));
        rd_kafka_conf_set(conf, "auto.offset.reset", "earliest", reason, sizeof(reason));
    }
    rd_kafka_t *rk = rd_kafka_new(type, conf, reason, sizeof(reason));
    if (!rk)
        fail_msg("librdkafka: %s", reason);
    return rk;
}

static rd_kafka_event_t *answer(rd_kafka_queue_t *queue)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, ANSWER_MS);
    if (!event)
        fail_msg("Kafka does not answer");
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail_msg("Kafka: %s", rd_kafka_event_error_string(event));
    return event;
}

void kafka_fixture_topic(struct kafka_fixture *fx, const char *topic, int partitions, const char *const *settings)
{
    char reason[256];
    rd_kafka_t *rk = client(fx, RD_KAFKA_PRODUCER, false);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic, partitions, 1, reason, sizeof(reason));
    for (size_t i = 0; settings && settings[i]; i += 2)
        (void)!rd_kafka_NewTopic_set_config(wanted, settings[i], settings[i + 1]);
    rd_kafka_CreateTopics(rk, &wanted, 1, NULL, queue);
    rd_kafka_event_t *event = answer(queue);
    rd_kafka_event_destroy(event);
    rd_kafka_NewTopic_destroy(wanted);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
    kafka_fixture_await_partitions(fx, topic, partitions);
}

void kafka_fixture_await_partitions(struct kafka_fixture *fx, const char *topic, int partitions)
{
    int n;
    AWAIT_OR((n = kafka_fixture_partitions(fx, topic)) == partitions, print_error("%s has %d partitions\n", topic, n));
}

void kafka_fixture_configure(struct kafka_fixture *fx, const char *topic, const char *name, const char *value)
{
    rd_kafka_t *rk = client(fx, RD_KAFKA_PRODUCER, false);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_ConfigResource_t *wanted = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    (void)!rd_kafka_ConfigResource_set_config(wanted, name, value);
    rd_kafka_AlterConfigs(rk, &wanted, 1, NULL, queue);
    rd_kafka_event_destroy(answer(queue));
    rd_kafka_ConfigResource_destroy(wanted);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
}

int kafka_fixture_partitions(struct kafka_fixture *fx, const char *topic)
{
    const struct rd_kafka_metadata *md;
    rd_kafka_t *rk = client(fx, RD_KAFKA_CONSUMER, false);
    int n = 0;
    if (rd_kafka_metadata(rk, 1, NULL, &md, ANSWER_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail_msg("Kafka does not answer");
    for (int i = 0; i < md->topic_cnt; i++) {
        if (strcmp(md->topics[i].topic, topic) == 0)
            n = md->topics[i].partition_cnt;
    }
    rd_kafka_metadata_destroy(md);
    rd_kafka_destroy(rk);
    return n;
}

void kafka_fixture_delete(struct kafka_fixture *fx, const char *topic)
{
    rd_kafka_t *rk = client(fx, RD_KAFKA_PRODUCER, false);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_DeleteTopic_t *request = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_DeleteTopics(rk, &request, 1, NULL, queue);
    rd_kafka_event_destroy(answer(queue));
    rd_kafka_DeleteTopic_destroy(request);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
    kafka_fixture_await_partitions(fx, topic, 0);
}

static void add_acl(rd_kafka_t *rk, rd_kafka_queue_t *queue, const char *topic, rd_kafka_AclOperation_t operation,
                    rd_kafka_AclPermissionType_t permission)
{
    char reason[256];
    size_t n = 0;
    rd_kafka_AclBinding_t *acl =
        rd_kafka_AclBinding_new(RD_KAFKA_RESOURCE_TOPIC, topic, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:*", "*",
                                operation, permission, reason, sizeof(reason));
    rd_kafka_CreateAcls(rk, &acl, 1, NULL, queue);
    rd_kafka_event_t *event = answer(queue);
    const rd_kafka_acl_result_t **results =
        rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(event), &n);
    const rd_kafka_error_t *error = n == 1 ? rd_kafka_acl_result_error(results[0]) : NULL;
    if (error)
        fail_msg("the broker takes no ACLs (it needs an authorizer): %s", rd_kafka_error_string(error));
    rd_kafka_event_destroy(event);
    rd_kafka_AclBinding_destroy(acl);
}

static size_t acls(rd_kafka_t *rk, rd_kafka_queue_t *queue, const char *topic)
{
    char reason[256];
    size_t n = 0;
    rd_kafka_AclBindingFilter_t *all = rd_kafka_AclBindingFilter_new(
        RD_KAFKA_RESOURCE_TOPIC, topic, RD_KAFKA_RESOURCE_PATTERN_LITERAL, NULL, NULL, RD_KAFKA_ACL_OPERATION_ANY,
        RD_KAFKA_ACL_PERMISSION_TYPE_ANY, reason, sizeof(reason));
    rd_kafka_DescribeAcls(rk, all, NULL, queue);
    rd_kafka_event_t *event = answer(queue);
    (void)!rd_kafka_DescribeAcls_result_acls(rd_kafka_event_DescribeAcls_result(event), &n);
    rd_kafka_event_destroy(event);
    rd_kafka_AclBinding_destroy(all);
    return n;
}

/* A topic with an ACL allows only what it says: so it must say that the rest is allowed. */
void kafka_fixture_deny_write(struct kafka_fixture *fx, const char *topic)
{
    rd_kafka_t *rk = client(fx, RD_KAFKA_PRODUCER, false);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    add_acl(rk, queue, topic, RD_KAFKA_ACL_OPERATION_ALL, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW);
    add_acl(rk, queue, topic, RD_KAFKA_ACL_OPERATION_WRITE, RD_KAFKA_ACL_PERMISSION_TYPE_DENY);
    AWAIT(acls(rk, queue, topic) == 2); /* the broker learns of ACLs after the controller */
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
}

void kafka_fixture_trim(struct kafka_fixture *fx, const char *topic, int partition, int64_t before)
{
    rd_kafka_t *rk = client(fx, RD_KAFKA_PRODUCER, false);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset = before;
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(list);
    rd_kafka_DeleteRecords(rk, &request, 1, NULL, queue);
    rd_kafka_event_destroy(answer(queue));
    rd_kafka_DeleteRecords_destroy(request);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
}

void kafka_fixture_write(struct kafka_fixture *fx, const char *topic, int partition, const char *key, const char *value)
{
    rd_kafka_t *rk = client(fx, RD_KAFKA_PRODUCER, false);
    assert_int_equal(rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(partition),
                                       RD_KAFKA_V_KEY(key, strlen(key)),
                                       RD_KAFKA_V_VALUE((void *)(uintptr_t)value, strlen(value)),
                                       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_flush(rk, ANSWER_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_destroy(rk);
}

/* ---- reading ---- */

static void copy_text(char *to, size_t cap, const void *p, size_t n)
{
    n = n < cap - 1 ? n : cap - 1;
    if (p)
        memcpy(to, p, n);
    to[p ? n : 0] = '\0';
}

static void keep(struct kafka_seen *s, const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers;
    const void *value;
    size_t n;
    memset(s, 0, sizeof(*s));
    s->partition = m->partition;
    s->offset = m->offset;
    s->value_n = m->len;
    s->null_key = m->key == NULL;
    s->null_value = m->payload == NULL;
    copy_text(s->key, sizeof(s->key), m->key, m->key_len);
    copy_text(s->value, sizeof(s->value), m->payload, m->len);
    if (rd_kafka_message_headers(m, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR &&
        rd_kafka_header_get_last(headers, "ce_id", &value, &n) == RD_KAFKA_RESP_ERR_NO_ERROR)
        copy_text(s->header, sizeof(s->header), value, n);
}

/* Where a partition ends for this client: of one that reads what is committed, before the first open transaction. */
static int64_t end_for(rd_kafka_t *rk, const char *topic, int partition)
{
    int64_t low, high;
    if (rd_kafka_query_watermark_offsets(rk, topic, partition, &low, &high, ANSWER_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        fail_msg("Kafka does not say where partition %d of %s ends", partition, topic);
    return high;
}

/* The broker answers a commit before it has written all of its markers. */
static void await_markers(struct kafka_fixture *fx, rd_kafka_t *committed, const char *topic, int partitions)
{
    rd_kafka_t *all = client(fx, RD_KAFKA_CONSUMER, false);
    for (int i = 0; i < partitions; i++)
        AWAIT_OR(end_for(committed, topic, i) == end_for(all, topic, i), print_error("a transaction is open\n"));
    rd_kafka_destroy(all);
}

size_t kafka_fixture_read(struct kafka_fixture *fx, const char *topic, enum kafka_view view, struct kafka_seen **seen)
{
    const int partitions = kafka_fixture_partitions(fx, topic);
    rd_kafka_t *rk = client(fx, RD_KAFKA_CONSUMER, view != KAFKA_ALL);
    if (view == KAFKA_COMMITTED)
        await_markers(fx, rk, topic, partitions);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    const int64_t until_us = wait_deadline_us();
    size_t n = 0, cap = 0;
    int ends = 0;
    *seen = NULL;
    for (int i = 0; i < partitions; i++)
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = 0;
    assert_int_equal(rd_kafka_assign(rk, list), RD_KAFKA_RESP_ERR_NO_ERROR);
    while (ends < partitions) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 100);
        if (wait_is_over(until_us))
            fail_msg("%s cannot be read to its end", topic);
        if (!m)
            continue;
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            ends++;
        } else if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            if (n == cap)
                *seen = realloc(*seen, (cap = cap ? cap * 2 : 64) * sizeof(**seen));
            assert_non_null(*seen);
            keep(&(*seen)[n++], m);
        }
        rd_kafka_message_destroy(m);
    }
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(rk);
    return n;
}

/* Topics of the test's installation go, so that the broker does not fill up. */
static void delete_topics(struct kafka_fixture *fx)
{
    const struct rd_kafka_metadata *md;
    rd_kafka_t *rk = client(fx, RD_KAFKA_PRODUCER, false);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_DeleteTopic_t *gone[32];
    size_t n = 0;
    if (rd_kafka_metadata(rk, 1, NULL, &md, ANSWER_MS) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (int i = 0; i < md->topic_cnt && n < 32; i++) {
            if (strncmp(md->topics[i].topic, fx->installation, strlen(fx->installation)) == 0)
                gone[n++] = rd_kafka_DeleteTopic_new(md->topics[i].topic);
        }
        rd_kafka_metadata_destroy(md);
    }
    if (n > 0) {
        rd_kafka_DeleteTopics(rk, gone, n, NULL, queue);
        rd_kafka_event_destroy(answer(queue));
        rd_kafka_DeleteTopic_destroy_array(gone, n);
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(rk);
}

void kafka_fixture_clear(struct kafka_fixture *fx)
{
    dt_kafka_admin_free(fx->env.admin);
    fx->env.admin = NULL;
    dt_kafka_drain(5000);
    delete_topics(fx);
}
