/*
 * Transactions of a shard and its ledger on a real broker, read back by a consumer of the test's own.
 */
#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "delivery/kafka/kafka_ledger.h"
#include "delivery/kafka/kafka_producer.h"
#include "support/kafka_fixture.h"
#include "support/redis_fixture.h"

static struct kafka_fixture fx;

static int make(void **state)
{
    (void)state;
    kafka_fixture_make(&fx, "producer");
    return 0;
}

static int clear(void **state)
{
    (void)state;
    kafka_fixture_clear(&fx);
    return 0;
}

static const char *ledger(void)
{
    return kafka_fixture_own(&fx, "ledger");
}

static dt_producer *producer(unsigned shard)
{
    struct dt_error err = {0};
    dt_producer *p = NULL;

    KAFKA_FIXTURE_OK(dt_producer_new(&fx.env, shard, NULL, &p, &err), &err);
    return p;
}

static struct dt_kafka_message message(const char *key, const char *value)
{
    return (struct dt_kafka_message){.topic = dt_str(fx.topic), .key = dt_str(key), .value = dt_str(value)};
}

static dt_status send_one(dt_producer *p, const char *key, const char *value, int64_t *offset, struct dt_error *err)
{
    const struct dt_kafka_message m = message(key, value);

    return dt_producer_send(p, &m, 1, DT_STR_LIT("batch"), dt_str(key), offset, err);
}

static size_t count(const char *topic, bool committed)
{
    struct kafka_seen *seen;
    size_t n = kafka_fixture_read(&fx, topic, committed, &seen);

    free(seen);
    return n;
}

/* Committed records once there are n of them: the broker answers a commit before it has written all of its markers. */
static size_t committed(const char *topic, size_t n)
{
    const int64_t until_us = kafka_fixture_now_us() + 10000000;
    size_t seen = count(topic, true);

    while (seen < n && kafka_fixture_now_us() < until_us)
        seen = count(topic, true);
    return seen;
}

/* ---- sending ---- */

static void a_committed_transaction_is_read_with_keys_headers_and_its_ledger_record(void **state)
{
    struct dt_kafka_header header = {DT_STR_LIT("ce_id"), DT_STR_LIT("17/1")};
    struct dt_kafka_message messages[3] = {message("17", "{\"order\":42}"), message("18", ""), message("19", NULL)};
    struct kafka_seen *seen;
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_producer *p;

    (void)state;
    fx.config.kafka_auto_create_partitions = 1; /* one partition: the order is visible */
    messages[0].headers = &header;
    messages[0].n_headers = 1;
    p = producer(1);
    KAFKA_FIXTURE_OK(
        dt_producer_send(p, messages, 3, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5],[18,1,5],[19,1,5]]"), &offset, &err),
        &err);
    assert_int_equal(committed(fx.topic, 3), 3);
    assert_int_equal(kafka_fixture_read(&fx, fx.topic, true, &seen), 3);
    assert_string_equal(seen[0].key, "17");
    assert_string_equal(seen[0].value, "{\"order\":42}");
    assert_string_equal(seen[0].header, "17/1");
    assert_string_equal(seen[1].key, "18");
    assert_int_equal(seen[1].value_n, 0);
    assert_string_equal(seen[2].key, "19");
    assert_true(seen[2].null_value);
    free(seen);
    assert_int_equal(kafka_fixture_read(&fx, ledger(), true, &seen), 1);
    assert_int_equal(seen[0].partition, 1);
    assert_int_equal(seen[0].offset, offset);
    assert_string_equal(seen[0].value, "[[17,1,5],[18,1,5],[19,1,5]]");
    free(seen);
    dt_producer_free(p);
}

/* Sends n messages without a key, and two by keys of their own; counts what each of four partitions got. */
static void send_loose(dt_producer *p, size_t n, size_t got[4])
{
    struct dt_kafka_message *messages = calloc(n + 2, sizeof *messages);
    char batch[24];
    size_t before = count(fx.topic, true), loose = 0;
    struct kafka_seen *seen;
    struct dt_error err = {0};
    int64_t offset;

    snprintf(batch, sizeof batch, "%zu", before);
    for (size_t i = 0; i < n; i++)
        messages[i] = message(NULL, batch);
    messages[n] = message("customer-7", "x");
    messages[n + 1] = message("", "x");
    KAFKA_FIXTURE_OK(dt_producer_send(p, messages, n + 2, DT_STR_LIT("1"), DT_STR_LIT("x"), &offset, &err), &err);
    assert_int_equal(committed(fx.topic, before + n + 2), before + n + 2);
    before = kafka_fixture_read(&fx, fx.topic, true, &seen);
    memset(got, 0, 4 * sizeof *got);
    for (size_t i = 0; i < before; i++) {
        if (strcmp(seen[i].value, "x") == 0) /* where Java's producers put them: murmur2 = 0xb37a4cf7, 0x106e08d9 */
            assert_int_equal(seen[i].partition, seen[i].key[0] ? 3 : 1);
        assert_true(seen[i].null_key == (strcmp(seen[i].value, "x") != 0));
        got[seen[i].partition] += strcmp(seen[i].value, batch) == 0;
    }
    for (size_t i = 0; i < 4; i++)
        loose += got[i];
    assert_int_equal(loose, n);
    free(seen);
    free(messages);
}

static void a_small_batch_without_keys_takes_one_partition_after_the_other(void **state)
{
    size_t got[4], sum[4] = {0};
    dt_producer *p = producer(0);

    (void)state;
    kafka_fixture_topic(&fx, fx.topic, 4, NULL);
    for (size_t batch = 0; batch < 4; batch++) {
        size_t filled = 0;

        send_loose(p, 10, got);
        for (size_t i = 0; i < 4; i++) {
            filled += got[i] > 0;
            sum[i] += got[i];
        }
        assert_int_equal(filled, 1);
    }
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(sum[i], 10);
    send_loose(p, 1000, got);
    for (size_t i = 0; i < 4; i++)
        assert_in_range(got[i], 150, 350);
    dt_producer_free(p);
}

/* What was begun is there, committed or not: one message, and its record. */
static bool sent_by_itself(void)
{
    const int64_t until_us = kafka_fixture_now_us() + 10000000;

    while (count(fx.topic, false) + count(ledger(), false) < 2) {
        if (kafka_fixture_now_us() >= until_us)
            return false;
    }
    return true;
}

static void what_was_begun_and_not_committed_is_seen_by_nobody(void **state)
{
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_producer *p = producer(0);
    const struct dt_kafka_message m = message("17", "x");

    (void)state;
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    assert_true(sent_by_itself());
    assert_int_equal(count(fx.topic, false), 1);
    assert_int_equal(count(ledger(), false), 1);
    assert_int_equal(count(fx.topic, true) + count(ledger(), true), 0);
    dt_producer_free(p);
    p = producer(0); /* fences the old one, whose transaction comes to nothing */
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_commit(p, &offset, &err), &err);
    assert_true(offset > 0);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic, 1), 1);
    assert_int_equal(committed(ledger(), 1), 1);
}

/* Consumers of the topic wait for nothing but the producer's end, not for a transaction's timeout. */
static void what_was_begun_and_is_given_up_holds_up_nobody(void **state)
{
    const int64_t until_us = kafka_fixture_now_us() + 5000000; /* half of the timeout */
    struct dt_error err = {0};
    const struct dt_kafka_message m = message("17", "x");
    dt_producer *p;

    (void)state;
    fx.config.kafka_auto_create_partitions = 1;
    p = producer(0);
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    assert_true(sent_by_itself());
    kafka_fixture_write(&fx, fx.topic, 0, "somebody", "else");
    assert_int_equal(count(fx.topic, true), 0); /* it is behind what is open */
    dt_producer_free(p);
    while (count(fx.topic, true) == 0 && kafka_fixture_now_us() < until_us)
        ;
    assert_int_equal(count(fx.topic, true), 1);
    assert_int_equal(count(ledger(), true), 0);
}

/* Its reports lie there unread, so that nothing has to be asked for. */
static void what_was_begun_long_ago_is_committed_without_a_look_at_its_topics(void **state)
{
    struct dt_error err = {0};
    const struct dt_kafka_message m = message("17", "x");
    int64_t offset = -1;
    dt_producer *p = producer(0);

    (void)state;
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    assert_true(sent_by_itself());
    kafka_fixture_deny_write(&fx, fx.topic); /* a look would refuse it */
    sleep(2);
    KAFKA_FIXTURE_OK(dt_producer_commit(p, &offset, &err), &err);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic, 1), 1);
}

struct niceness {
    unsigned mains, brokers, nicer_mains, nicer_brokers;
};

/* What librdkafka's threads of this process are called, and how nice they are. */
static struct niceness look_at_threads(void)
{
    const int usual = getpriority(PRIO_PROCESS, 0);
    struct niceness seen = {0};
    glob_t names;

    assert_int_equal(glob("/proc/self/task/*/comm", 0, NULL, &names), 0);
    for (size_t i = 0; i < names.gl_pathc; i++) {
        char name[32] = "";
        int id = atoi(names.gl_pathv[i] + sizeof "/proc/self/task");
        FILE *f = fopen(names.gl_pathv[i], "r");
        bool nicer = f != NULL && getpriority(PRIO_PROCESS, (id_t)id) > usual;
        bool main = f != NULL && fscanf(f, "%31s", name) == 1 && strcmp(name, "rdk:main") == 0;
        bool broker = strncmp(name, "rdk:broker", 10) == 0;

        if (f != NULL)
            fclose(f);
        seen.mains += main;
        seen.nicer_mains += main && nicer;
        seen.brokers += broker;
        seen.nicer_brokers += broker && nicer;
    }
    globfree(&names);
    return seen;
}

static void of_a_producers_threads_the_one_that_spins_gives_way_and_those_of_brokers_do_not(void **state)
{
    struct niceness before, with;
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p;

    (void)state;
    dt_kafka_drain(5000);
    before = look_at_threads();
    p = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err); /* to a coordinator, and to the topic's leader */
    with = look_at_threads();
    assert_int_equal(with.mains, before.mains + 2); /* one an id */
    assert_int_equal(with.nicer_mains, before.nicer_mains + 2);
    assert_true(with.brokers > before.brokers);
    assert_int_equal(with.nicer_brokers, before.nicer_brokers);
    dt_producer_free(p);
}

static void a_producer_has_one_transaction_at_a_time_and_commits_what_was_begun(void **state)
{
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_producer *p = producer(0);
    const struct dt_kafka_message m = message("17", "x");

    (void)state;
    assert_int_equal(dt_producer_commit(p, &offset, &err), DT_DOUBT);
    dt_producer_free(p);
    p = producer(0);
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[]"), &err), &err);
    assert_int_equal(dt_producer_begin(p, &m, 1, DT_STR_LIT("2"), DT_STR_LIT("[]"), &err), DT_DOUBT);
    assert_int_equal(dt_producer_commit(p, &offset, &err), DT_DOUBT);
    assert_false(dt_producer_ready(p, &m, 1));
    dt_producer_free(p);
}

/* A moment after a commit it is not. */
static bool becomes_ready(dt_producer *p, const struct dt_kafka_message *messages, size_t n)
{
    const int64_t until_us = kafka_fixture_now_us() + 10000000;

    while (!dt_producer_ready(p, messages, n)) {
        if (kafka_fixture_now_us() >= until_us)
            return false;
    }
    return true;
}

static void a_producer_is_ready_for_topics_that_it_has_written(void **state)
{
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_producer *p = producer(0);
    struct dt_kafka_message messages[2] = {message("17", "x"), message("18", "x")};

    (void)state;
    assert_false(dt_producer_ready(p, messages, 2));
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    assert_true(becomes_ready(p, messages, 2));
    messages[1].topic = DT_STR_LIT("not-yet-written");
    assert_false(dt_producer_ready(p, messages, 2));
    dt_producer_free(p);
}

/* A few at a time would be waited for: that is not for a moment in which rows are locked. */
static void a_producer_is_not_ready_for_a_topic_that_takes_less_since_it_was_written(void **state)
{
    struct dt_kafka_topic_info info;
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_producer *p = producer(0);
    const struct dt_kafka_message m = message("17", "x");

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    assert_true(becomes_ready(p, &m, 1));
    kafka_fixture_configure(&fx, fx.topic, "max.message.bytes", "1000");
    do {
        dt_kafka_admin_forget(fx.env.admin, m.topic);
        KAFKA_FIXTURE_OK(dt_kafka_admin_topic(fx.env.admin, m.topic, &info, &err), &err);
    } while (info.max_message_bytes != 1000);
    assert_false(dt_producer_ready(p, &m, 1));
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    dt_producer_free(p);
}

static void an_empty_batch_commits_its_record_alone(void **state)
{
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_producer *p = producer(0);

    (void)state;
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("x"), &offset, &err), &err);
    assert_int_equal(offset, 0);
    dt_producer_free(p);
    assert_int_equal(committed(ledger(), 1), 1);
}

static void ledger_offsets_rise_from_one_transaction_to_the_next(void **state)
{
    struct dt_error err = {0};
    int64_t last = -1, offset;
    dt_producer *p = producer(0);

    (void)state;
    for (int i = 0; i < 20; i++) {
        KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
        assert_true(offset > last);
        last = offset;
    }
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic, 20), 20);
}

static void a_large_batch_over_many_topics_arrives_whole(void **state)
{
    enum { N = 2000, TOPICS = 5 };
    struct dt_kafka_message *messages = calloc(N, sizeof(*messages));
    char(*keys)[16] = calloc(N, sizeof(*keys)), topics[TOPICS][120];
    struct dt_error err = {0};
    int64_t offset;
    size_t seen = 0;
    dt_producer *p = producer(2);

    (void)state;
    for (int t = 0; t < TOPICS; t++)
        snprintf(topics[t], sizeof(topics[t]), "%s%d", fx.topic, t);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%d", i);
        messages[i] = message(keys[i], "payload");
        messages[i].topic = dt_str(topics[i % TOPICS]);
    }
    KAFKA_FIXTURE_OK(dt_producer_send(p, messages, N, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), &err);
    dt_producer_free(p);
    for (int t = 0; t < TOPICS; t++)
        seen += count(topics[t], true);
    assert_int_equal(seen, N);
    free(messages);
    free(keys);
}

/* Kafka has markers to write in each partition: a moment after it has answered it is not through with that. */
static void who_begins_too_soon_is_told(void **state)
{
    enum { N = 300 };
    static char keys[N][16];
    static struct dt_kafka_message messages[N];
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_metric *met = dt_counter("duetime_kafka_too_soon_total", "", "");
    dt_producer *p = producer(0);
    double before = dt_metric_value(met);

    (void)state;
    kafka_fixture_topic(&fx, fx.topic, N, NULL);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%d", i);
        messages[i] = message(keys[i], "x");
    }
    for (int i = 0; i < 20 && dt_metric_value(met) == before; i++) {
        KAFKA_FIXTURE_OK(dt_producer_send(p, messages, N, DT_STR_LIT("1"), DT_STR_LIT("x"), &offset, &err), &err);
        KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    }
    assert_true(dt_metric_value(met) > before);
    dt_producer_free(p);
}

/* Each id has the time of a whole transaction of the other one. */
static void small_transactions_follow_each_other_at_once(void **state)
{
    enum { N = 100 };
    struct dt_error err = {0};
    int64_t offset = -1;
    dt_metric *met = dt_counter("duetime_kafka_too_soon_total", "", "");
    dt_producer *p = producer(0);
    double before = dt_metric_value(met);

    (void)state;
    for (int i = 0; i < N; i++)
        KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    assert_true(dt_metric_value(met) - before < N / 2); /* under one id all of them but the first */
    dt_producer_free(p);
}

static void the_largest_payload_with_the_largest_headers_goes_through(void **state)
{
    enum { PAYLOAD = 900000, HEADERS = 8192 };
    char *payload = malloc(PAYLOAD), *text = malloc(HEADERS);
    struct dt_kafka_header header = {DT_STR_LIT("h"), {text, HEADERS}};
    struct dt_kafka_message m = message("1", "");
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    memset(payload, 'p', PAYLOAD);
    memset(text, 'h', HEADERS);
    m.value = (struct dt_str){payload, PAYLOAD};
    m.headers = &header;
    m.n_headers = 1;
    KAFKA_FIXTURE_OK(dt_producer_send(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), &err);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic, 1), 1);
    free(payload);
    free(text);
}

/* ---- refused ---- */

static void a_message_over_the_topics_own_limit_is_refused_and_nothing_is_committed(void **state)
{
    const char *small[] = {"max.message.bytes", "1000", NULL};
    char payload[2000], other[120];
    struct dt_kafka_message messages[2] = {message("1", "x"), message("2", "y")};
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    memset(payload, 'p', sizeof(payload));
    snprintf(other, sizeof(other), "%s-other", fx.topic);
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    messages[0].topic = dt_str(other); /* fine by itself */
    messages[1].value = (struct dt_str){payload, sizeof(payload)};
    assert_int_equal(dt_producer_send(p, messages, 2, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), DT_REFUSED);
    assert_non_null(strstr(err.text, fx.topic));
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_false(dt_producer_refusal(p).whole_topic);                 /* others may well go */
    assert_int_equal(send_one(p, "3", "z", &offset, &err), DT_DOUBT); /* good for nothing any more */
    dt_producer_free(p);
    dt_producer_free(producer(0)); /* the next takeover ends what was open */
    assert_int_equal(count(other, true), 0);
    assert_int_equal(count(fx.topic, true), 0);
    assert_int_equal(count(ledger(), true), 0);
}

static void a_topic_that_takes_little_at_once_gets_little_at_once(void **state)
{
    enum { N = 50 };
    const char *small[] = {"max.message.bytes", "2000", NULL};
    struct dt_kafka_message messages[N];
    char payload[1000];
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    memset(payload, 'p', sizeof(payload));
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    for (int i = 0; i < N; i++) {
        messages[i] = message("k", "");
        messages[i].value = (struct dt_str){payload, sizeof(payload)};
    }
    KAFKA_FIXTURE_OK(dt_producer_send(p, messages, N, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), &err);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic, N), N);
}

static void a_topic_that_cannot_be_made_is_refused_before_anything_is_sent(void **state)
{
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    fx.config.kafka_auto_create_partitions = 0;
    assert_int_equal(send_one(p, "1", "x", &offset, &err), DT_REFUSED);
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
    dt_producer_free(p);
    assert_int_equal(count(ledger(), false), 0);
}

static void a_topic_that_was_deleted_is_refused_before_anything_is_sent(void **state)
{
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    fx.config.kafka_auto_create_partitions = 0;
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    KAFKA_FIXTURE_OK(send_one(p, "1", "x", &offset, &err), &err);
    dt_producer_free(p);
    kafka_fixture_delete(&fx, fx.topic);
    dt_kafka_admin_forget(fx.env.admin, dt_str(fx.topic));
    p = producer(0);
    assert_int_equal(send_one(p, "2", "y", &offset, &err), DT_REFUSED);
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
    dt_producer_free(p);
    assert_int_equal(kafka_fixture_partitions(&fx, fx.topic), 0); /* nobody made it again */
}

static void a_topic_that_is_deleted_under_a_producer_is_refused_within_seconds(void **state)
{
    struct dt_error err = {0};
    int64_t offset, begin_us;
    dt_producer *p = producer(0);

    (void)state;
    fx.config.kafka_auto_create_partitions = 0;
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    KAFKA_FIXTURE_OK(send_one(p, "1", "x", &offset, &err), &err);
    kafka_fixture_delete(&fx, fx.topic);
    begin_us = kafka_fixture_now_us();
    dt_status status = send_one(p, "2", "y", &offset, &err);
    if (status == DT_DOUBT) { /* the library did not say of which topic the coordinator spoke: the next one asks */
        dt_producer_free(p);
        p = producer(0);
        status = send_one(p, "2", "y", &offset, &err);
    }
    assert_int_equal(status, DT_REFUSED);
    assert_true(kafka_fixture_now_us() - begin_us < 5000000); /* not the ten seconds of a transaction */
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
    dt_producer_free(p);
}

static void a_topic_that_may_not_be_written_is_refused_and_named(void **state)
{
    char other[120];
    struct dt_kafka_message messages[2] = {message("1", "x"), message("2", "y")};
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    snprintf(other, sizeof(other), "%s-other", fx.topic);
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    kafka_fixture_deny_write(&fx, fx.topic);
    messages[0].topic = dt_str(other);
    assert_int_equal(dt_producer_send(p, messages, 2, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), DT_REFUSED);
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
    dt_producer_free(p);
    dt_producer_free(producer(0));
    assert_int_equal(count(other, true), 0);
}

/* Nothing of this is about a message: it must never end as undeliverable. */
static void a_ledger_that_may_not_be_written_is_a_doubt_and_no_refusal(void **state)
{
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "1", "x", &offset, &err), &err);
    kafka_fixture_deny_write(&fx, ledger());
    assert_int_equal(send_one(p, "2", "y", &offset, &err), DT_DOUBT);
    dt_producer_free(p);
}

static void a_record_that_its_ledger_does_not_take_is_a_doubt_and_no_refusal(void **state)
{
    static char record[20000];
    const char *small[] = {"max.message.bytes", "5000", "retention.ms", "-1", NULL};
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p;

    (void)state;
    memset(record, 'r', sizeof(record) - 1);
    kafka_fixture_delete(&fx, ledger());
    kafka_fixture_topic(&fx, ledger(), 3, small);
    p = producer(0);
    assert_int_equal(send_one(p, record, "y", &offset, &err), DT_DOUBT);
    dt_producer_free(p);
}

/* ---- fenced ---- */

/* A producer that has committed so many: its next transaction is under the first or the second of its two ids. */
static dt_producer *producer_after(int transactions)
{
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    for (int i = 0; i < transactions; i++)
        KAFKA_FIXTURE_OK(send_one(p, "before", "x", &offset, &err), &err);
    return p;
}

static void fence_after(int transactions)
{
    struct kafka_seen *seen;
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *old = producer_after(transactions), *new = producer(0);

    assert_int_equal(send_one(old, "zombie", "x", &offset, &err), DT_DOUBT);
    KAFKA_FIXTURE_OK(send_one(new, "after", "x", &offset, &err), &err);
    assert_int_equal(send_one(old, "zombie", "x", &offset, &err), DT_DOUBT);
    dt_producer_free(old);
    dt_producer_free(new);
    assert_int_equal(kafka_fixture_read(&fx, ledger(), true, &seen), transactions + 1);
    assert_string_equal(seen[0].value, "before");
    assert_string_equal(seen[transactions].value, "after");
    free(seen);
    assert_int_equal(committed(fx.topic, (size_t)transactions + 1), transactions + 1);
}

static void of_two_producers_of_a_shard_only_the_newer_one_is_seen(void **state)
{
    (void)state;
    fence_after(1);
}

static void a_producer_is_fenced_under_its_other_id_too(void **state)
{
    (void)state;
    fence_after(2);
}

/* What is open under either id is not committed by whoever comes back to it. */
static void open_after(int transactions)
{
    struct dt_error err = {0};
    int64_t offset;
    const struct dt_kafka_message m = message("17", "x");
    dt_producer *old = producer_after(transactions), *new;

    KAFKA_FIXTURE_OK(dt_producer_begin(old, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[]"), &err), &err);
    new = producer(0);
    assert_int_equal(dt_producer_commit(old, &offset, &err), DT_DOUBT);
    KAFKA_FIXTURE_OK(send_one(new, "after", "x", &offset, &err), &err);
    dt_producer_free(old);
    dt_producer_free(new);
    assert_int_equal(committed(fx.topic, (size_t)transactions + 1), transactions + 1);
}

static void what_is_open_under_the_first_id_is_ended_by_the_next_producer(void **state)
{
    (void)state;
    open_after(2);
}

static void what_is_open_under_the_second_id_is_ended_by_the_next_producer(void **state)
{
    (void)state;
    open_after(1);
}

static void producers_of_different_shards_do_not_fence_each_other(void **state)
{
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p[3];

    (void)state;
    for (unsigned s = 0; s < 3; s++)
        p[s] = producer(s);
    for (unsigned i = 0; i < 9; i++)
        KAFKA_FIXTURE_OK(send_one(p[i % 3], "k", "v", &offset, &err), &err);
    for (unsigned s = 0; s < 3; s++)
        dt_producer_free(p[s]);
    assert_int_equal(committed(fx.topic, 9), 9);
}

struct fighter {
    pthread_t thread;
    int committed;
};

static void *fight(void *arg)
{
    struct fighter *f = arg;

    for (int i = 0; i < 15; i++) {
        struct dt_error err = {0};
        dt_producer *p = NULL;
        int64_t offset;

        if (dt_producer_new(&fx.env, 0, NULL, &p, &err) == DT_OK) {
            for (int k = 0; k < 5 && send_one(p, "k", "v", &offset, &err) == DT_OK; k++)
                f->committed++;
        }
        dt_producer_free(p);
    }
    return NULL;
}

/* A doubt may turn out to be committed or not; what was answered OK is there, and message and record are there
 * together. */
static void two_that_fight_over_a_shard_never_commit_by_halves(void **state)
{
    struct fighter f[2] = {0};
    size_t messages, records;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&f[i].thread, NULL, fight, &f[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(f[i].thread, NULL);
    dt_producer_free(producer(0)); /* ends what is open */
    messages = count(fx.topic, true);
    records = count(ledger(), true);
    print_message("committed: %d + %d, seen: %zu\n", f[0].committed, f[1].committed, messages);
    assert_int_equal(messages, records);
    assert_true(messages >= (size_t)(f[0].committed + f[1].committed));
    assert_true(f[0].committed + f[1].committed > 0);
}

/* ---- life ---- */

static void starting_gives_up_at_once_when_told_to_stop(void **state)
{
    _Atomic bool stop = true;
    struct dt_error err = {0};
    dt_producer *p = NULL;
    int64_t begin_us = kafka_fixture_now_us();

    (void)state;
    assert_int_equal(dt_producer_new(&fx.env, 0, &stop, &p, &err), DT_SHUTDOWN);
    assert_null(p);
    assert_true(kafka_fixture_now_us() - begin_us < 500000);
}

static void starting_without_a_broker_is_unavailable_within_a_transaction_timeout(void **state)
{
    struct dt_error err = {0};
    dt_producer *p = NULL;
    int64_t begin_us = kafka_fixture_now_us();

    (void)state;
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    fx.config.kafka_transaction_timeout = 1000;
    assert_int_equal(dt_producer_new(&fx.env, 0, NULL, &p, &err), DT_UNAVAILABLE);
    assert_null(p);
    assert_true(kafka_fixture_now_us() - begin_us < 2500000);
    begin_us = kafka_fixture_now_us();
    dt_kafka_drain(5000);
    print_message("destroyed after %.0f ms\n", (double)(kafka_fixture_now_us() - begin_us) / 1e3);
    snprintf(fx.brokers, sizeof(fx.brokers), "%s", getenv("DUETIME_KAFKA"));
}

static void a_shard_without_a_ledger_partition_is_refused(void **state)
{
    struct dt_error err = {0};
    dt_producer *p = NULL;

    (void)state;
    assert_int_equal(dt_producer_new(&fx.env, 3, NULL, &p, &err), DT_REFUSED);
}

/* ---- the ledger ---- */

struct look {
    const char *barrier;
    char seen[256];
    int64_t first;
};

static bool look(void *arg, int64_t offset, struct dt_str key, struct dt_str value)
{
    struct look *l = arg;
    const size_t n = strlen(l->seen);

    if (l->first < 0)
        l->first = offset;
    snprintf(l->seen + n, sizeof(l->seen) - n, "%s%.*s=%.*s", n ? " " : "", (int)key.n, key.p, (int)value.n, value.p);
    return !dt_str_is(key, l->barrier);
}

static dt_status read_ledger(int64_t from, int timeout_ms, const _Atomic bool *stop, struct look *l, int64_t *next,
                             struct dt_error *err)
{
    l->first = -1;
    struct dt_ledger_reading reading = {.from = from,
                                        .clock = dt_clock_system(),
                                        .deadline_us = kafka_fixture_now_us() + timeout_ms * INT64_C(1000),
                                        .stop = stop,
                                        .fn = look,
                                        .arg = l};
    dt_status status = dt_ledger_read(&fx.env, 0, &reading, err);
    *next = reading.next;
    return status;
}

static void reading_the_ledger_sees_the_batch_and_stops_at_the_barrier(void **state)
{
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t offset, next = -1;
    dt_producer *p = producer(0);

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &offset, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    KAFKA_FIXTURE_OK(send_one(p, "18", "x", &(int64_t){0}, &err), &err); /* after the barrier: not looked at */
    KAFKA_FIXTURE_OK(read_ledger(0, 5000, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "batch=17 barrier=t");
    assert_int_equal(next, offset + 1);
    dt_producer_free(p);
}

static void reading_starts_where_it_is_told_to(void **state)
{
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t first, offset, next;
    dt_producer *p = producer(0);

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &first, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    KAFKA_FIXTURE_OK(read_ledger(first + 1, 5000, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "barrier=t");
    assert_int_equal(l.first, offset);
    dt_producer_free(p);
}

static void what_was_not_committed_is_not_in_the_ledger(void **state)
{
    const char *small[] = {"max.message.bytes", "1000", NULL};
    char payload[2000];
    struct dt_kafka_message m = message("17", "");
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t offset, next;
    dt_producer *p = producer(0);

    (void)state;
    memset(payload, 'p', sizeof(payload));
    m.value = (struct dt_str){payload, sizeof(payload)};
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    assert_int_equal(dt_producer_send(p, &m, 1, DT_STR_LIT("batch"), DT_STR_LIT("17"), &offset, &err), DT_REFUSED);
    dt_producer_free(p);
    p = producer(0);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    KAFKA_FIXTURE_OK(read_ledger(0, 5000, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "barrier=t");
    dt_producer_free(p);
}

static void an_offset_beyond_the_end_of_the_ledger_is_invalid(void **state)
{
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t next;

    (void)state;
    assert_int_equal(read_ledger(100, 5000, NULL, &l, &next, &err), DT_INVALID);
    assert_string_equal(l.seen, "");
}

static void an_offset_that_was_trimmed_away_is_invalid(void **state)
{
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t offset, next;
    dt_producer *p = producer(0);

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &offset, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    kafka_fixture_trim(&fx, ledger(), 0, offset);
    assert_int_equal(read_ledger(0, 5000, NULL, &l, &next, &err), DT_INVALID);
    l = (struct look){.barrier = "barrier"};
    KAFKA_FIXTURE_OK(read_ledger(offset, 5000, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "barrier=t");
    dt_producer_free(p);
}

static dt_status ask_whether_there(int64_t offset, int timeout_ms)
{
    struct dt_error err = {0};
    struct dt_ledger_reading reading = {
        .from = offset, .clock = dt_clock_system(), .deadline_us = kafka_fixture_now_us() + timeout_ms * INT64_C(1000)};
    return dt_ledger_read(&fx.env, 0, &reading, &err);
}

static void without_a_function_it_is_asked_only_whether_the_offset_is_there(void **state)
{
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &offset, &err), &err);
    assert_int_equal(ask_whether_there(offset, 5000), DT_OK);
    assert_int_equal(ask_whether_there(offset + 1, 5000), DT_OK); /* where no record is yet */
    assert_int_equal(ask_whether_there(offset + 100, 5000), DT_INVALID);
    dt_producer_free(p);
}

/* ---- trimming ---- */

static dt_status trimmed(unsigned shard, int64_t before)
{
    const int64_t until_us = kafka_fixture_now_us() + 20000000;
    struct dt_error err = {0};
    dt_ledger_trim *trim = NULL;
    dt_status status = DT_INTERNAL;

    KAFKA_FIXTURE_OK(dt_ledger_trim_start(&fx.env, shard, before, &trim, &err), &err);
    while (!dt_ledger_trim_done(trim, &status, &err))
        assert_true(kafka_fixture_now_us() < until_us);
    dt_ledger_trim_free(trim);
    return status;
}

static void trimming_deletes_what_is_below_and_nothing_else(void **state)
{
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t first, second, barrier, next;
    dt_producer *p = producer(0), *neighbour = producer(1);

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "one", "x", &first, &err), &err);
    KAFKA_FIXTURE_OK(send_one(p, "two", "x", &second, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &barrier, &err), &err);
    KAFKA_FIXTURE_OK(send_one(neighbour, "other", "x", &next, &err), &err);
    assert_int_equal(trimmed(0, second), DT_OK);
    assert_int_equal(read_ledger(first, 5000, NULL, &l, &next, &err), DT_INVALID);
    l = (struct look){.barrier = "barrier"};
    KAFKA_FIXTURE_OK(read_ledger(second, 5000, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "batch=two barrier=t");
    assert_int_equal(l.first, second);
    assert_int_equal(trimmed(0, second), DT_OK); /* once more: as after a crash in between */
    assert_int_equal(count(ledger(), true), 3);  /* the other shard's is there */
    dt_producer_free(p);
    dt_producer_free(neighbour);
}

static void trimming_beyond_the_end_of_the_ledger_is_an_error_and_deletes_nothing(void **state)
{
    struct dt_error err = {0};
    int64_t offset;
    dt_producer *p = producer(0);

    (void)state;
    KAFKA_FIXTURE_OK(send_one(p, "one", "x", &offset, &err), &err);
    assert_int_not_equal(trimmed(0, 1000), DT_OK);
    assert_int_equal(count(ledger(), true), 1);
    dt_producer_free(p);
}

static void trimming_is_asked_for_without_waiting_and_may_be_forgotten(void **state)
{
    const int64_t begin_us = kafka_fixture_now_us();
    struct dt_error err = {0};
    dt_ledger_trim *trim = NULL, *second = NULL;
    dt_status status;

    (void)state;
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    KAFKA_FIXTURE_OK(dt_ledger_trim_start(&fx.env, 0, 5, &trim, &err), &err);
    assert_false(dt_ledger_trim_done(trim, &status, &err));
    assert_int_equal(dt_ledger_trim_start(&fx.env, 1, 5, &second, &err), DT_FULL); /* one at a time */
    assert_null(second);
    dt_ledger_trim_free(trim);
    dt_ledger_trim_free(NULL);
    assert_true(kafka_fixture_now_us() - begin_us < 500000);
    snprintf(fx.brokers, sizeof(fx.brokers), "%s", getenv("DUETIME_KAFKA"));
}

static void the_end_of_the_ledger_is_not_the_end_of_reading(void **state)
{
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t begin_us = kafka_fixture_now_us(), next;

    (void)state;
    assert_int_equal(read_ledger(0, 400, NULL, &l, &next, &err), DT_UNAVAILABLE);
    assert_in_range(kafka_fixture_now_us() - begin_us, 390000, 1500000);
    assert_int_equal(next, 0);
}

static void reading_ends_when_told_to_stop(void **state)
{
    _Atomic bool stop = true;
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t next;

    (void)state;
    assert_int_equal(read_ledger(0, 5000, &stop, &l, &next, &err), DT_SHUTDOWN);
}

static void reading_without_a_broker_is_unavailable_at_its_deadline(void **state)
{
    struct look l = {.barrier = "barrier"};
    struct dt_error err = {0};
    int64_t begin_us = kafka_fixture_now_us(), next;

    (void)state;
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    assert_int_equal(read_ledger(0, 500, NULL, &l, &next, &err), DT_UNAVAILABLE);
    assert_true(kafka_fixture_now_us() - begin_us < 1500000);
    dt_kafka_drain(5000);
    snprintf(fx.brokers, sizeof(fx.brokers), "%s", getenv("DUETIME_KAFKA"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, clear)

static void after_a_failure_a_producer_sends_nothing_more(void **state)
{
    const char *const small[] = {"max.message.bytes", "1000", NULL};
    struct dt_error err = {0};
    char value[2000];
    int64_t offset = -7;
    dt_producer *p;

    (void)state;
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    p = producer(0);
    assert_int_equal(send_one(p, "1", value, &offset, &err), DT_REFUSED);
    assert_int_equal(send_one(p, "2", "small", &offset, &err), DT_DOUBT);
    assert_int_equal(offset, -7);
    dt_producer_free(p);
    p = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "3", "small", &offset, &err), &err);
    assert_int_equal(committed(fx.topic, 1), 1);
    assert_int_equal(committed(ledger(), 1), 1);
    dt_producer_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_committed_transaction_is_read_with_keys_headers_and_its_ledger_record),
        TEST(a_small_batch_without_keys_takes_one_partition_after_the_other),
        TEST(what_was_begun_and_not_committed_is_seen_by_nobody),
        TEST(what_was_begun_and_is_given_up_holds_up_nobody),
        TEST(what_was_begun_long_ago_is_committed_without_a_look_at_its_topics),
        TEST(of_a_producers_threads_the_one_that_spins_gives_way_and_those_of_brokers_do_not),
        TEST(a_producer_has_one_transaction_at_a_time_and_commits_what_was_begun),
        TEST(a_producer_is_ready_for_topics_that_it_has_written),
        TEST(a_producer_is_not_ready_for_a_topic_that_takes_less_since_it_was_written),
        TEST(an_empty_batch_commits_its_record_alone),
        TEST(ledger_offsets_rise_from_one_transaction_to_the_next),
        TEST(after_a_failure_a_producer_sends_nothing_more),
        TEST(a_large_batch_over_many_topics_arrives_whole),
        TEST(who_begins_too_soon_is_told),
        TEST(small_transactions_follow_each_other_at_once),
        TEST(the_largest_payload_with_the_largest_headers_goes_through),
        TEST(a_message_over_the_topics_own_limit_is_refused_and_nothing_is_committed),
        TEST(a_topic_that_takes_little_at_once_gets_little_at_once),
        TEST(a_topic_that_cannot_be_made_is_refused_before_anything_is_sent),
        TEST(a_topic_that_was_deleted_is_refused_before_anything_is_sent),
        TEST(a_topic_that_is_deleted_under_a_producer_is_refused_within_seconds),
        TEST(a_topic_that_may_not_be_written_is_refused_and_named),
        TEST(a_ledger_that_may_not_be_written_is_a_doubt_and_no_refusal),
        TEST(a_record_that_its_ledger_does_not_take_is_a_doubt_and_no_refusal),
        TEST(trimming_deletes_what_is_below_and_nothing_else),
        TEST(trimming_beyond_the_end_of_the_ledger_is_an_error_and_deletes_nothing),
        TEST(trimming_is_asked_for_without_waiting_and_may_be_forgotten),
        TEST(of_two_producers_of_a_shard_only_the_newer_one_is_seen),
        TEST(a_producer_is_fenced_under_its_other_id_too),
        TEST(what_is_open_under_the_first_id_is_ended_by_the_next_producer),
        TEST(what_is_open_under_the_second_id_is_ended_by_the_next_producer),
        TEST(producers_of_different_shards_do_not_fence_each_other),
        TEST(two_that_fight_over_a_shard_never_commit_by_halves),
        TEST(starting_gives_up_at_once_when_told_to_stop),
        TEST(starting_without_a_broker_is_unavailable_within_a_transaction_timeout),
        TEST(a_shard_without_a_ledger_partition_is_refused),
        TEST(reading_the_ledger_sees_the_batch_and_stops_at_the_barrier),
        TEST(reading_starts_where_it_is_told_to),
        TEST(what_was_not_committed_is_not_in_the_ledger),
        TEST(an_offset_beyond_the_end_of_the_ledger_is_invalid),
        TEST(an_offset_that_was_trimmed_away_is_invalid),
        TEST(without_a_function_it_is_asked_only_whether_the_offset_is_there),
        TEST(the_end_of_the_ledger_is_not_the_end_of_reading),
        TEST(reading_ends_when_told_to_stop),
        TEST(reading_without_a_broker_is_unavailable_at_its_deadline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
