/* What producers and readers make of requests that fail, hang or lose their connection: on librdkafka's mock cluster,
 * which can be told to fail the n-th request. It knows nothing of isolation or fencing; that is tested on a real broker
 * (contract/dispatcher/test_kafka_producer.c). */
#include <arpa/inet.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "deliver/kafka/kafka.h"
#include "support/wait.h"

static struct dt_error err;

enum { LONGEST = 249 }; /* Kafka's own limit of a topic's name */
enum { PRODUCE = 0, OFFSET_FETCH = 9, INIT_PRODUCER_ID = 22, ADD_PARTITIONS = 24, END_TXN = 26 };
/* The mock cluster may take a second to come back, after which librdkafka waits up to two before it connects again. */
enum { TIMEOUT_MS = 3000, LONG_TIMEOUT_MS = WAIT_MS };

static struct {
    rd_kafka_t *rk;
    rd_kafka_mock_cluster_t *cluster;
    struct dt_config config;
    struct dt_kafka_env env;
    dt_producer *producer;
    dt_notice_producer *notices;
    char longest[LONGEST + 1]; /* the name of a topic */
} fx;

static int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

static dt_status start(const _Atomic bool *stop, struct dt_error *why)
{
    return dt_producer_new(&fx.env, 0, stop, &fx.producer, why);
}

/* A cluster of one broker; no producer yet. */
static void make_cluster(void)
{
    char reason[256];
    memset(&fx, 0, sizeof(fx));
    fx.rk = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), reason, sizeof(reason));
    assert_non_null(fx.rk);
    fx.cluster = rd_kafka_mock_cluster_new(fx.rk, 1);
    assert_non_null(fx.cluster);
    assert_int_equal(rd_kafka_mock_topic_create(fx.cluster, "mock.ledger", 1, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_mock_topic_create(fx.cluster, "orders", 1, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    memset(fx.longest, 'x', LONGEST);
    assert_int_equal(rd_kafka_mock_topic_create(fx.cluster, fx.longest, 1, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    fx.config.kafka_brokers = (char *)(uintptr_t)rd_kafka_mock_cluster_bootstraps(fx.cluster);
    fx.config.kafka_transaction_timeout = TIMEOUT_MS;
    fx.env = (struct dt_kafka_env){.config = &fx.config, .installation = "mock", .uuid = "1", .shards = 1};
}

static void make_with(int timeout_ms)
{
    make_cluster();
    fx.config.kafka_transaction_timeout = timeout_ms;
    if (start(NULL, &err) != DT_OK)
        fail_msg("%s", err.text);
}

static void make_producer(void)
{
    make_with(TIMEOUT_MS);
}

static void make_patient_producer(void)
{
    make_with(LONG_TIMEOUT_MS);
}

static void make_notices(void)
{
    make_cluster();
    if (dt_notice_producer_new(&fx.env, &fx.notices, &err) != DT_OK)
        fail_msg("%s", err.text);
}

static void clear(void)
{
    dt_producer_free(fx.producer);
    dt_notice_producer_free(fx.notices);
    dt_kafka_drain(10000);
    rd_kafka_mock_cluster_destroy(fx.cluster);
    rd_kafka_destroy(fx.rk);
}

#define NOTICES_TEST(name) TEST_WITH(name, make_notices, clear)
#define START_TEST(name)   TEST_WITH(name, make_cluster, clear)
#define FRESH_TEST(name)   TEST_WITH(name, make_producer, clear)
#define PATIENT_TEST(name) TEST_WITH(name, make_patient_producer, clear)

/* The next `count` requests of the kind fail with the error; _TRANSPORT: the broker hangs up instead of answering. */
static void fail_next(int api, size_t count, rd_kafka_resp_err_t error)
{
    rd_kafka_resp_err_t errors[8];
    for (size_t i = 0; i < count; i++)
        errors[i] = error;
    rd_kafka_mock_push_request_errors_array(fx.cluster, (int16_t)api, count, errors);
}

static dt_status send_two(struct dt_error *why)
{
    const struct dt_kafka_message messages[2] = {
        {.topic = DT_STR_LIT("orders"), .key = DT_STR_LIT("1"), .value = DT_STR_LIT("a")},
        {.topic = DT_STR_LIT("orders"), .key = DT_STR_LIT("2"), .value = DT_STR_LIT("b")},
    };
    int64_t offset = -1;
    dt_status status = dt_producer_send(fx.producer, messages, 2, DT_STR_LIT("k"), DT_STR_LIT("v"), &offset, why);
    if (status == DT_OK)
        assert_true(offset >= 0);
    else
        assert_int_equal(why->status, status);
    return status;
}

#define ASSERT_SEND(expected)                                                                                          \
    do {                                                                                                               \
        struct dt_error err_ = {0};                                                                                    \
        dt_status got_ = send_two(&err_);                                                                              \
        if (got_ != (expected))                                                                                        \
            fail_msg("%s instead of %s: %s", dt_status_name(got_), dt_status_name(expected), err_.text);               \
    } while (0)

/* A transaction under each id: what comes now is not the first one of its own. */
static void warm(void)
{
    for (int i = 0; i < 2; i++)
        ASSERT_SEND(DT_OK);
}

/* No socket of this process is connected to the broker. */
static bool is_disconnected(void *)
{
    const int port = atoi(strrchr(fx.config.kafka_brokers, ':') + 1);
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t size = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && ntohs(peer.sin_port) == port)
            return false;
    }
    return true;
}

/* ---- fine ---- */

PATIENT_TEST(a_transaction_without_faults_succeeds)
{
    for (int i = 0; i < 5; i++)
        ASSERT_SEND(DT_OK);
}

PATIENT_TEST(a_leader_that_moved_is_found_again_inside_the_transaction)
{
    warm();
    fail_next(PRODUCE, 1, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
    ASSERT_SEND(DT_OK);
}

PATIENT_TEST(a_connection_that_breaks_between_two_transactions_has_no_effect)
{
    warm();
    assert_int_equal(rd_kafka_mock_broker_set_down(fx.cluster, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    AWAIT(is_disconnected(NULL));
    assert_int_equal(rd_kafka_mock_broker_set_up(fx.cluster, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    warm();
}

/* How many records a topic has. */
static int64_t records_in(const char *topic)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char reason[256];
    int64_t low = -1;
    int64_t high = -1;
    assert_int_equal(rd_kafka_conf_set(conf, "bootstrap.servers", fx.config.kafka_brokers, reason, sizeof(reason)),
                     RD_KAFKA_CONF_OK);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, reason, sizeof(reason));
    assert_non_null(rk);
    assert_int_equal(rd_kafka_query_watermark_offsets(rk, topic, 0, &low, &high, 20000), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_destroy(rk);
    return high;
}

static dt_status send_to_longest(struct dt_error *why)
{
    const struct dt_kafka_message message = {
        .topic = dt_str(fx.longest), .key = DT_STR_LIT("1"), .value = DT_STR_LIT("a")};
    int64_t offset = -1;
    return dt_producer_send(fx.producer, &message, 1, DT_STR_LIT("k"), DT_STR_LIT("v"), &offset, why);
}

PATIENT_TEST(a_topic_with_the_longest_name_gets_its_messages)
{
    if (send_to_longest(&err) != DT_OK)
        fail_msg("%s", err.text);
    assert_true(records_in(fx.longest) >= 1);
}

/* ---- one request fails ---- */

/* The next `count` requests of the kind fail with the error: what sending makes of it. */
#define FAULT_TEST(kind, name, api, count, error, expected)                                                            \
    kind##_TEST(name)                                                                                                  \
    {                                                                                                                  \
        fail_next(api, count, RD_KAFKA_RESP_ERR_##error);                                                              \
        ASSERT_SEND(expected);                                                                                         \
    }

FAULT_TEST(PATIENT, a_coordinator_that_still_completes_the_last_transaction_is_waited_for, ADD_PARTITIONS, 2,
           CONCURRENT_TRANSACTIONS, DT_OK)
FAULT_TEST(FRESH, a_connection_that_breaks_after_endtxn_is_a_doubt_even_when_the_commit_succeeds, END_TXN, 1,
           _TRANSPORT, DT_DOUBT)
FAULT_TEST(FRESH, an_endtxn_that_was_sent_twice_is_a_doubt_even_when_the_commit_succeeds, END_TXN, 1,
           COORDINATOR_LOAD_IN_PROGRESS, DT_DOUBT)
FAULT_TEST(FRESH, a_connection_that_breaks_while_partitions_are_added_is_a_doubt, ADD_PARTITIONS, 1, _TRANSPORT,
           DT_DOUBT)
FAULT_TEST(FRESH, a_fenced_producer_is_in_doubt, END_TXN, 1, INVALID_PRODUCER_EPOCH, DT_DOUBT)
FAULT_TEST(FRESH, a_producer_without_a_right_to_its_transactional_id_is_in_doubt_and_refuses_no_message, ADD_PARTITIONS,
           1, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, DT_DOUBT)

/* ---- doubt ---- */

FRESH_TEST(a_connection_that_breaks_under_the_messages_is_a_doubt)
{
    warm();
    fail_next(PRODUCE, 1, RD_KAFKA_RESP_ERR__TRANSPORT);
    ASSERT_SEND(DT_DOUBT);
}

FRESH_TEST(after_an_unknown_outcome_no_more_messages_are_sent)
{
    fail_next(PRODUCE, 1, RD_KAFKA_RESP_ERR__TRANSPORT);
    ASSERT_SEND(DT_DOUBT);
    ASSERT_SEND(DT_DOUBT);
}

FRESH_TEST(a_broker_that_hangs_is_a_doubt_at_the_transaction_timeout)
{
    warm();
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 60000);
    int64_t begin_us = now_us();
    ASSERT_SEND(DT_DOUBT);
    assert_true(now_us() - begin_us >= 500000);
    begin_us = now_us();
    dt_producer_free(fx.producer);
    fx.producer = NULL;
    assert_true(now_us() - begin_us < 30000000); /* not as long as the broker hangs */
}

FRESH_TEST(a_broker_that_is_gone_is_a_doubt_at_the_transaction_timeout)
{
    warm();
    assert_int_equal(rd_kafka_mock_broker_set_down(fx.cluster, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    ASSERT_SEND(DT_DOUBT);
}

/* ---- refused ---- */

PATIENT_TEST(a_topic_that_may_not_be_written_is_refused)
{
    fail_next(PRODUCE, 2, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    ASSERT_SEND(DT_REFUSED);
    assert_string_equal(dt_producer_refusal(fx.producer).topic, "orders");
    assert_true(dt_producer_refusal(fx.producer).whole_topic);
}

PATIENT_TEST(a_refused_topic_with_the_longest_name_is_named)
{
    fail_next(PRODUCE, 2, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(send_to_longest(&err), DT_REFUSED);
    assert_string_equal(dt_producer_refusal(fx.producer).topic, fx.longest);
}

/* ---- starting ---- */

START_TEST(starting_waits_for_a_coordinator_that_is_not_ready)
{
    fx.config.kafka_transaction_timeout = LONG_TIMEOUT_MS;
    fail_next(INIT_PRODUCER_ID, 3, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    assert_int_equal(start(NULL, &err), DT_OK);
    ASSERT_SEND(DT_OK);
}

START_TEST(starting_on_a_broker_that_hangs_is_unavailable_in_time)
{
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, WAIT_MS);
    assert_int_equal(start(NULL, &err), DT_UNAVAILABLE);
}

/* Each answer takes longer than the timeout of the first requests. */
START_TEST(a_start_on_a_slow_broker_takes_longer_and_succeeds)
{
    fx.config.kafka_transaction_timeout = 60000;
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 400);
    if (start(NULL, &err) != DT_OK)
        fail_msg("%s", err.text);
}

static void *set_soon(void *arg)
{
    usleep(200000); /* usually in the middle of it, which no event reports; before it is as good */
    *(_Atomic bool *)arg = true;
    return NULL;
}

START_TEST(starting_on_a_broker_that_hangs_ends_soon_when_told_to_stop)
{
    _Atomic bool stop = false;
    fx.config.kafka_transaction_timeout = LONG_TIMEOUT_MS;
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, WAIT_MS);
    pthread_t thread = start_thread(set_soon, (void *)(uintptr_t)&stop);
    assert_int_equal(start(&stop, &err), DT_SHUTDOWN);
    pthread_join(thread, NULL);
}

/* ---- notices ---- */

#define NOTICES 3

/* Sends so many notices to a topic; sent: of each, whether it arrived. */
static dt_status notify(const char *topic, size_t n, bool sent[NOTICES], int timeout_ms)
{
    const struct dt_kafka_header header = {DT_STR_LIT("reason"), DT_STR_LIT("why")};
    struct dt_kafka_message messages[NOTICES] = {0};
    for (size_t i = 0; i < n; i++) {
        messages[i] = (struct dt_kafka_message){.topic = dt_str(topic),
                                                .key = DT_STR_LIT("1"),
                                                .value = DT_STR_LIT("a"),
                                                .headers = &header,
                                                .n_headers = 1};
        sent[i] = true;
    }
    return dt_notice_producer_send(fx.notices, messages, n, sent, timeout_ms, &err);
}

NOTICES_TEST(notices_arrive_and_each_is_confirmed)
{
    bool sent[NOTICES];
    assert_int_equal(notify("orders", NOTICES, sent, LONG_TIMEOUT_MS), DT_OK);
    for (int i = 0; i < NOTICES; i++)
        assert_true(sent[i]);
    assert_int_equal(records_in("orders"), NOTICES);
    assert_int_equal(notify(fx.longest, 1, sent, LONG_TIMEOUT_MS), DT_OK);
    assert_int_equal(records_in(fx.longest), 1);
}

NOTICES_TEST(no_notices_need_no_broker)
{
    assert_int_equal(rd_kafka_mock_broker_set_down(fx.cluster, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(notify("orders", 0, NULL, 1), DT_OK);
}

NOTICES_TEST(notices_refused_together_are_sent_one_by_one)
{
    bool sent[NOTICES];
    fail_next(PRODUCE, 1, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    assert_int_equal(notify("orders", NOTICES, sent, LONG_TIMEOUT_MS), DT_OK);
    for (int i = 0; i < NOTICES; i++)
        assert_true(sent[i]);
    assert_int_equal(records_in("orders"), NOTICES);
}

NOTICES_TEST(a_hanging_broker_is_unavailable_in_time_and_tried_again)
{
    bool sent[NOTICES];
    assert_int_equal(notify("orders", 1, sent, LONG_TIMEOUT_MS), DT_OK);
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 60000);
    int64_t begin_us = now_us();
    assert_int_equal(notify("orders", NOTICES, sent, TIMEOUT_MS), DT_UNAVAILABLE);
    assert_true(now_us() - begin_us >= (TIMEOUT_MS - 100) * 1000);
    for (int i = 0; i < NOTICES; i++)
        assert_false(sent[i]);
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 0);
    assert_int_equal(notify("orders", 1, sent, LONG_TIMEOUT_MS), DT_OK);
    assert_true(sent[0]);
}

static void *notify_for_long(void *)
{
    bool sent[NOTICES];
    (void)!notify("orders", 1, sent, 5000);
    return NULL;
}

NOTICES_TEST(waiting_for_another_caller_is_part_of_the_timeout)
{
    bool sent[NOTICES];
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 8000); /* longer than the other caller waits */
    pthread_t other = start_thread(notify_for_long, NULL);
    usleep(200000);
    const int64_t begin_us = now_us();
    assert_int_equal(notify("orders", 1, sent, 500), DT_UNAVAILABLE);
    assert_true(now_us() - begin_us < 3000000);
    assert_false(sent[0]);
    pthread_join(other, NULL);
}

/* ---- readers ---- */

static dt_status share_and_poll(dt_kafka_reader *reader, size_t *n)
{
    const struct dt_kafka_record *records;
    *n = 0;
    dt_status status = dt_kafka_reader_share(reader, 0, 1, &err);
    return status == DT_OK ? dt_kafka_reader_poll(reader, 10, 100, 5, NULL, &records, n, &err) : status;
}

static size_t read_within(dt_kafka_reader *reader, int64_t us)
{
    const int64_t until_us = now_us() + us;
    size_t n = 0;
    while (n == 0 && now_us() < until_us)
        (void)!share_and_poll(reader, &n);
    return n;
}

/* Makes a reader of a topic with one record. */
static dt_kafka_reader *new_reader_of_one_record(int partitions)
{
    static const struct dt_kafka_reading results = DT_KAFKA_READS_RESULTS;
    dt_kafka_reader *reader = NULL;
    bool sent[NOTICES];
    assert_int_equal(rd_kafka_mock_topic_create(fx.cluster, "mock.results", partitions, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(notify("mock.results", 1, sent, LONG_TIMEOUT_MS), DT_OK);
    assert_int_equal(dt_kafka_reader_new(&fx.env, &results, &reader, &err), DT_OK);
    return reader;
}

NOTICES_TEST(a_reader_recovers_when_the_group_refuses_its_offset_once)
{
    dt_kafka_reader *reader = new_reader_of_one_record(1);
    fail_next(OFFSET_FETCH, 1, RD_KAFKA_RESP_ERR_NOT_COORDINATOR);
    assert_int_equal(read_within(reader, WAIT_MS * INT64_C(1000)), 1);
    dt_kafka_reader_free(reader);
}

NOTICES_TEST(a_reader_reads_from_a_broker_that_needs_seconds_for_each_answer)
{
    dt_kafka_reader *reader = new_reader_of_one_record(1);
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 4000);
    assert_int_equal(read_within(reader, 2 * WAIT_MS * INT64_C(1000)), 1);
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 0);
    dt_kafka_reader_free(reader);
}

NOTICES_TEST(a_reader_reads_although_another_partition_has_no_leader)
{
    dt_kafka_reader *reader = new_reader_of_one_record(2);
    rd_kafka_mock_partition_set_leader(fx.cluster, "mock.results", 0, -1); /* by its key the record is in the other */
    assert_int_equal(read_within(reader, WAIT_MS * INT64_C(1000)), 1);
    dt_kafka_reader_free(reader);
}

/* Reads until it fails. Returns after how many microseconds it did. */
static int64_t fails_after_us(dt_kafka_reader *reader, dt_status *status)
{
    const int64_t begun_us = now_us();
    size_t n;
    do {
        *status = share_and_poll(reader, &n);
    } while (*status == DT_OK && now_us() < begun_us + WAIT_MS * INT64_C(1000));
    return now_us() - begun_us;
}

/* It asks every 5 s, and waits 0.5 s for the answer. */
NOTICES_TEST(a_reader_reports_kafka_down_after_two_unanswered_requests)
{
    dt_kafka_reader *reader = new_reader_of_one_record(1);
    dt_status status;
    assert_int_equal(read_within(reader, WAIT_MS * INT64_C(1000)), 1);
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, WAIT_MS);
    assert_in_range(fails_after_us(reader, &status), 9000000, WAIT_MS * UINT64_C(1000) - 1);
    assert_int_equal(status, DT_UNAVAILABLE);
    rd_kafka_mock_broker_set_rtt(fx.cluster, 1, 0);
    dt_kafka_reader_free(reader);
}

START_TEST(a_group_whose_coordinator_has_moved_is_asked_again)
{
    dt_result_lag *lag = NULL;
    bool passed = false;
    assert_int_equal(rd_kafka_mock_topic_create(fx.cluster, "mock.results", 1, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(dt_result_lag_new(&fx.env, &lag, &err), DT_OK);
    fail_next(OFFSET_FETCH, 1, RD_KAFKA_RESP_ERR_NOT_COORDINATOR);
    AWAIT_OR(dt_result_lag_mark(lag, &err) == DT_OK && dt_result_lag_passed(lag, &passed, &err) == DT_OK && passed,
             print_error("%s\n", err.text));
    dt_result_lag_free(lag);
}
