/* Transactions of a shard on a real broker, read back by a consumer of the test's own. */
#include <sys/resource.h>
#include <unistd.h>

#include "support/rigs/kafka_producer_rig.h"

static struct dt_error err;

/* ---- sending ---- */

RIG_TEST(a_committed_transaction_is_read_with_keys_headers_and_its_ledger_record)
{
    struct dt_kafka_header header = {DT_STR_LIT("ce_id"), DT_STR_LIT("17/1")};
    struct dt_kafka_message messages[3] = {message("17", "{\"order\":42}"), message("18", ""), message("19", NULL)};
    struct kafka_seen *seen;
    int64_t offset = -1;
    fx.config.kafka_auto_create_partitions = 1; /* one partition: the order is visible */
    messages[0].headers = &header;
    messages[0].n_headers = 1;
    PRODUCER(p) = producer(1);
    KAFKA_FIXTURE_OK(
        dt_producer_send(p, messages, 3, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5],[18,1,5],[19,1,5]]"), &offset, &err),
        &err);
    assert_int_equal(kafka_fixture_read(&fx, fx.topic, KAFKA_COMMITTED, &seen), 3);
    assert_members(seen[0], (key, "17"), (value, "{\"order\":42}"), (header, "17/1"));
    assert_members(seen[1], (key, "18"), (value_n, 0));
    assert_members(seen[2], (key, "19"), (null_value, true));
    free(seen);
    assert_int_equal(kafka_fixture_read(&fx, ledger(), KAFKA_COMMITTED, &seen), 1);
    assert_members(seen[0], (partition, 1), (offset, offset), (value, "[[17,1,5],[18,1,5],[19,1,5]]"));
    free(seen);
}

/* Sends n messages without a key, and two by keys of their own; counts what each of four partitions got. */
static void send_loose(dt_producer *p, size_t n, size_t got[4])
{
    struct dt_kafka_message *messages = calloc(n + 2, sizeof *messages);
    char batch[24];
    size_t before = committed(fx.topic), loose = 0;
    struct kafka_seen *seen;
    int64_t offset;
    snprintf(batch, sizeof batch, "%zu", before);
    for (size_t i = 0; i < n; i++)
        messages[i] = message(NULL, batch);
    messages[n] = message("customer-7", "x");
    messages[n + 1] = message("", "x");
    KAFKA_FIXTURE_OK(dt_producer_send(p, messages, n + 2, DT_STR_LIT("1"), DT_STR_LIT("x"), &offset, &err), &err);
    before += n + 2;
    assert_int_equal(kafka_fixture_read(&fx, fx.topic, KAFKA_COMMITTED, &seen), before);
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

RIG_TEST(a_small_batch_without_keys_takes_one_partition_after_the_other)
{
    size_t got[4], sum[4] = {0};
    PRODUCER(p) = producer(0);
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
}

/* What was begun is there, committed or not: one message, and its record. */
static void await_sent_by_itself(void)
{
    AWAIT(count(fx.topic, KAFKA_ALL) + count(ledger(), KAFKA_ALL) >= 2);
}

RIG_TEST(consumers_do_not_see_an_uncommitted_transaction)
{
    int64_t offset = -1;
    dt_producer *p = producer(0);
    const struct dt_kafka_message m = message("17", "x");
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    await_sent_by_itself();
    assert_int_equal(count(fx.topic, KAFKA_ALL), 1);
    assert_int_equal(count(ledger(), KAFKA_ALL), 1);
    assert_int_equal(count(fx.topic, KAFKA_UP_TO_OPEN) + count(ledger(), KAFKA_UP_TO_OPEN), 0);
    dt_producer_free(p);
    p = producer(0); /* fences the old one, whose transaction comes to nothing */
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_commit(p, &offset, &err), &err);
    assert_true(offset > 0);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic), 1);
    assert_int_equal(committed(ledger()), 1);
}

/* Consumers of the topic wait for nothing but the producer's end, not for a transaction's timeout. */
RIG_TEST(an_aborted_transaction_does_not_block_consumers)
{
    const struct dt_kafka_message m = message("17", "x");
    fx.config.kafka_auto_create_partitions = 1;
    dt_producer *p = producer(0);
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    await_sent_by_itself();
    kafka_fixture_write(&fx, fx.topic, 0, "somebody", "else");
    assert_int_equal(count(fx.topic, KAFKA_UP_TO_OPEN), 0); /* it is behind what is open */
    const int64_t freed_us = kafka_fixture_now_us();
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic), 1);
    assert_true(kafka_fixture_now_us() - freed_us < fx.config.kafka_transaction_timeout * 1000);
    assert_int_equal(committed(ledger()), 0);
}

/* Its reports lie there unread, so that nothing has to be asked for. */
RIG_TEST(a_transaction_that_began_long_ago_is_committed_without_a_lookup_of_its_topics)
{
    const struct dt_kafka_message m = message("17", "x");
    int64_t offset = -1;
    dt_producer *p = producer(0);
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[[17,1,5]]"), &err), &err);
    await_sent_by_itself();
    kafka_fixture_deny_write(&fx, fx.topic); /* a look would refuse it */
    sleep(2);
    KAFKA_FIXTURE_OK(dt_producer_commit(p, &offset, &err), &err);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic), 1);
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

RIG_TEST(only_the_spinning_thread_of_a_producer_gets_a_lower_priority)
{
    struct niceness before, with;
    int64_t offset;
    dt_kafka_drain(5000);
    before = look_at_threads();
    PRODUCER(p) = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err); /* to a coordinator, and to the topic's leader */
    with = look_at_threads();
    assert_int_equal(with.mains, before.mains + 2); /* one an id */
    assert_int_equal(with.nicer_mains, before.nicer_mains + 2);
    assert_true(with.brokers > before.brokers);
    assert_int_equal(with.nicer_brokers, before.nicer_brokers);
}

RIG_TEST(a_producer_has_one_transaction_at_a_time)
{
    int64_t offset = -1;
    PRODUCER(p) = producer(0);
    const struct dt_kafka_message m = message("17", "x");
    assert_int_equal(dt_producer_commit(p, &offset, &err), DT_DOUBT);
    dt_producer_free(p);
    p = producer(0);
    KAFKA_FIXTURE_OK(dt_producer_begin(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[]"), &err), &err);
    assert_int_equal(dt_producer_begin(p, &m, 1, DT_STR_LIT("2"), DT_STR_LIT("[]"), &err), DT_DOUBT);
    assert_int_equal(dt_producer_commit(p, &offset, &err), DT_DOUBT);
    assert_false(dt_producer_ready(p, &m, 1));
}

RIG_TEST(a_producer_is_ready_for_topics_that_it_has_written)
{
    int64_t offset = -1;
    PRODUCER(p) = producer(0);
    struct dt_kafka_message messages[2] = {message("17", "x"), message("18", "x")};
    assert_false(dt_producer_ready(p, messages, 2));
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    AWAIT(dt_producer_ready(p, messages, 2)); /* just after a commit it is not ready yet */
    messages[1].topic = DT_STR_LIT("not-yet-written");
    assert_false(dt_producer_ready(p, messages, 2));
}

RIG_TEST(a_producer_that_looked_up_topics_is_ready_for_their_first_messages)
{
    char other[120];
    int64_t offset = -1;
    dt_producer *p = producer(0);
    struct dt_kafka_message messages[2] = {message("17", "x"), message("18", "x")};
    struct dt_str met[4] = {messages[0].topic, DT_STR_LIT("there-is-no-such-topic"), {0}, messages[0].topic};
    snprintf(other, sizeof(other), "%s-other", fx.topic);
    kafka_fixture_topic(&fx, fx.topic, 2, NULL);
    kafka_fixture_topic(&fx, other, 2, NULL);
    messages[1].topic = met[2] = dt_str(other);
    assert_false(dt_producer_ready(p, messages, 2));
    /* A topic that was just made may be heard of a moment later. */
    AWAIT((dt_producer_meet(p, met, 4), dt_producer_ready(p, messages, 2)));
    KAFKA_FIXTURE_OK(dt_producer_send(p, messages, 2, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), &err);
    AWAIT(dt_producer_ready(p, messages, 2));
    /* just after a commit it is not ready yet */ /* nor is the other one of the pair, which is next */
    messages[1].topic = met[1];
    assert_false(dt_producer_ready(p, messages, 2));
    dt_producer_meet(p, NULL, 0);
    dt_producer_free(p);
    assert_int_equal(committed(other), 1);
}

/* A few at a time would be waited for: that is not for a moment in which rows are locked. */
RIG_TEST(a_producer_is_not_ready_for_a_topic_whose_limit_was_lowered)
{
    struct dt_kafka_topic_info info;
    int64_t offset = -1;
    PRODUCER(p) = producer(0);
    const struct dt_kafka_message m = message("17", "x");
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    AWAIT(dt_producer_ready(p, &m, 1)); /* just after a commit it is not ready yet */
    kafka_fixture_configure(&fx, fx.topic, "max.message.bytes", "1000");
    do {
        dt_kafka_admin_forget(fx.env.admin, m.topic);
        KAFKA_FIXTURE_OK(dt_kafka_admin_topic(fx.env.admin, m.topic, &info, &err), &err);
    } while (info.max_message_bytes != 1000);
    assert_false(dt_producer_ready(p, &m, 1));
    KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
}

RIG_TEST(an_empty_batch_commits_its_record_alone)
{
    int64_t offset = -1;
    dt_producer *p = producer(0);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("x"), &offset, &err), &err);
    assert_int_equal(offset, 0);
    dt_producer_free(p);
    assert_int_equal(committed(ledger()), 1);
}

RIG_TEST(ledger_offsets_rise_from_one_transaction_to_the_next)
{
    int64_t last = -1, offset;
    dt_producer *p = producer(0);
    for (int i = 0; i < 20; i++) {
        KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
        assert_true(offset > last);
        last = offset;
    }
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic), 20);
}

RIG_TEST(a_large_batch_over_many_topics_arrives_whole)
{
    enum { N = 2000, TOPICS = 5 };
    struct dt_kafka_message *messages = calloc(N, sizeof(*messages));
    char(*keys)[16] = calloc(N, sizeof(*keys)), topics[TOPICS][120];
    int64_t offset;
    size_t seen = 0;
    dt_producer *p = producer(2);
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
        seen += committed(topics[t]);
    assert_int_equal(seen, N);
    free(messages);
    free(keys);
}

/* Kafka has markers to write in each partition: a moment after it has answered it is as a rule not through with that. */
RIG_TEST(a_transaction_that_begins_too_soon_is_counted)
{
    enum { N = 300 };
    static char keys[N][16];
    static struct dt_kafka_message messages[N];
    int64_t offset = -1;
    dt_metric *met = dt_counter("duetime_kafka_too_soon_total", "", "");
    PRODUCER(p) = producer(0);
    double before = dt_metric_value(met);
    kafka_fixture_topic(&fx, fx.topic, N, NULL);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%d", i);
        messages[i] = message(keys[i], "x");
    }
    for (int64_t until_us = wait_deadline_us(); dt_metric_value(met) == before;) {
        assert_false(wait_is_over(until_us));
        KAFKA_FIXTURE_OK(dt_producer_send(p, messages, N, DT_STR_LIT("1"), DT_STR_LIT("x"), &offset, &err), &err);
        KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    }
}

/* Each id has the time of a whole transaction of the other one. */
RIG_TEST(small_transactions_follow_each_other_at_once)
{
    enum { N = 100 };
    int64_t offset = -1;
    dt_metric *met = dt_counter("duetime_kafka_too_soon_total", "", "");
    PRODUCER(p) = producer(0);
    double before = dt_metric_value(met);
    for (int i = 0; i < N; i++)
        KAFKA_FIXTURE_OK(send_one(p, "k", "v", &offset, &err), &err);
    assert_true(dt_metric_value(met) - before < N / 2); /* under one id all of them but the first */
}

RIG_TEST(the_largest_payload_with_the_largest_headers_goes_through)
{
    enum { PAYLOAD = 900000, HEADERS = 8192 };
    char *payload = malloc(PAYLOAD), *text = malloc(HEADERS);
    struct dt_kafka_header header = {DT_STR_LIT("h"), {text, HEADERS}};
    struct dt_kafka_message m = message("1", "");
    int64_t offset;
    dt_producer *p = producer(0);
    memset(payload, 'p', PAYLOAD);
    memset(text, 'h', HEADERS);
    m.value = (struct dt_str){payload, PAYLOAD};
    m.headers = &header;
    m.n_headers = 1;
    KAFKA_FIXTURE_OK(dt_producer_send(p, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), &err);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic), 1);
    free(payload);
    free(text);
}

/* ---- life ---- */

RIG_TEST(starting_ends_at_once_when_stopped)
{
    _Atomic bool stop = true;
    dt_producer *p = NULL;
    assert_int_equal(dt_producer_new(&fx.env, 0, &stop, &p, &err), DT_SHUTDOWN);
    assert_null(p);
}

RIG_TEST(starting_without_a_broker_is_unavailable)
{
    dt_producer *p = NULL;
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    fx.config.kafka_transaction_timeout = 1000;
    assert_int_equal(dt_producer_new(&fx.env, 0, NULL, &p, &err), DT_UNAVAILABLE);
    assert_null(p);
    dt_kafka_drain(5000);
    snprintf(fx.brokers, sizeof(fx.brokers), "%s", getenv("DUETIME_KAFKA"));
}

RIG_TEST(a_shard_without_a_ledger_partition_is_refused)
{
    dt_producer *p = NULL;
    assert_int_equal(dt_producer_new(&fx.env, 3, NULL, &p, &err), DT_REFUSED);
}
