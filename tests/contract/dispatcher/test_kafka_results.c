/* Results in, notices out, on a real broker. */

#include "base/secrets.h"
#include "support/kafka_fixture.h"

static struct dt_error err;
static struct kafka_fixture fx;
static const struct dt_kafka_reading results = DT_KAFKA_READS_RESULTS;

static void make(void)
{
    kafka_fixture_make(&fx, "results");
}

static void clear(void)
{
    kafka_fixture_clear(&fx);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

static const char *own(const char *suffix)
{
    return kafka_fixture_own(&fx, suffix);
}

FREED_AT(dt_kafka_reader *, dt_kafka_reader_free)
#define READER(name) OWNED(dt_kafka_reader *, name, dt_kafka_reader_free_at)

static dt_kafka_reader *consumer(void)
{
    dt_kafka_reader *c = NULL;
    KAFKA_FIXTURE_OK(dt_kafka_reader_new(&fx.env, &results, &c, &err), &err);
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_share(c, 0, 1, &err), &err);
    return c;
}

/* Results r0…r(n-1) on the partitions in turn. */
static void report(int from, int n)
{
    struct dt_kafka_message *messages = calloc((size_t)n, sizeof(*messages));
    char(*values)[16] = calloc((size_t)n, sizeof(*values));
    const char *topic = own("results");
    bool *sent = calloc((size_t)n, sizeof(*sent));
    dt_notice_producer *notices = NULL;
    for (int i = 0; i < n; i++) {
        snprintf(values[i], sizeof(values[i]), "r%d", from + i);
        messages[i] =
            (struct dt_kafka_message){.topic = dt_str(topic), .key = dt_str(values[i]), .value = dt_str(values[i])};
    }
    KAFKA_FIXTURE_OK(dt_notice_producer_new(&fx.env, &notices, &err), &err);
    KAFKA_FIXTURE_OK(dt_notice_producer_send(notices, messages, (size_t)n, sent, WAIT_MS, &err), &err);
    dt_notice_producer_free(notices);
    free(messages);
    free(values);
    free(sent);
}

/* Polls until n records have come in all; seen[i]: how often result i came. Commits each poll, or not. */
static void collect(dt_kafka_reader *c, int n, bool commit, int *seen)
{
    const int64_t until_us = wait_deadline_us();
    const struct dt_kafka_record *records;
    _Atomic bool stop = false;
    size_t got = 0, k;
    while (got < (size_t)n) {
        KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(c, 1000, 1000, 5, &stop, &records, &k, &err), &err);
        for (size_t i = 0; i < k; i++) {
            assert_true(records[i].value.n > 1 && records[i].value.p[0] == 'r');
            assert_true(dt_str_eq(records[i].key, records[i].value));
            seen[strtol(records[i].value.p + 1, NULL, 10)]++;
        }
        got += k;
        if (commit)
            KAFKA_FIXTURE_OK(dt_kafka_reader_commit(c, &err), &err);
        if (wait_is_over(until_us))
            fail_msg("%zu of %d results came", got, n);
    }
}

FRESH_TEST(each_committed_result_is_read_once)
{
    int seen[300] = {0};
    report(0, 200);
    READER(c) = consumer();
    collect(c, 200, true, seen);
    report(200, 100);
    collect(c, 100, true, seen);
    for (int i = 0; i < 300; i++)
        assert_int_equal(seen[i], 1);
    dt_kafka_reader_free(c);
    dt_kafka_drain(10000);
    c = consumer(); /* goes on where the first one stopped */
    memset(seen, 0, sizeof(seen));
    report(0, 1);
    collect(c, 1, true, seen);
    assert_int_equal(seen[0], 1);
}

FRESH_TEST(a_reader_with_renewed_settings_continues_at_its_position)
{
    struct dt_config running = {.kafka_client = dt_properties_new()};
    struct dt_config fresh = {.kafka_client = dt_properties_new()};
    int seen[100] = {0};
    report(0, 60);
    dt_kafka_reader *c = consumer();
    collect(c, 60, true, seen);
    KAFKA_FIXTURE_OK(dt_kafka_renew(&running, &fresh, &err), &err);
    report(60, 40);
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_share(c, 0, 1, &err), &err);
    collect(c, 40, true, seen);
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
    dt_kafka_reader_free(c);
    dt_properties_free(running.kafka_client);
    dt_properties_free(fresh.kafka_client);
}

FRESH_TEST(results_whose_offset_was_not_committed_are_read_again_by_the_next_consumer)
{
    int seen[100] = {0};
    report(0, 100);
    READER(c) = consumer();
    collect(c, 100, false, seen);
    dt_kafka_reader_free(c);
    dt_kafka_drain(10000);
    c = consumer();
    collect(c, 100, true, seen);
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 2);
}

FRESH_TEST(results_that_could_not_be_applied_are_read_again_after_a_rewind)
{
    const struct dt_kafka_record *records;
    _Atomic bool stop = false;
    int seen[100] = {0};
    size_t n = 0;
    report(0, 100);
    READER(c) = consumer();
    while (n == 0)
        KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(c, 30, 1000, 5, &stop, &records, &n, &err), &err);
    assert_true(n <= 30);
    dt_kafka_reader_rewind(c);
    collect(c, 100, true, seen);
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
}

FRESH_TEST(a_poll_returns_available_records_up_to_its_limit)
{
    const struct dt_kafka_record *records;
    _Atomic bool stop = false;
    size_t n = 0, got = 0, polls = 0;
    report(0, 500);
    READER(c) = consumer();
    while (got < 500) {
        KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(c, 100, 1000, 20, &stop, &records, &n, &err), &err);
        assert_true(n <= 100);
        got += n;
        polls += n > 0;
        KAFKA_FIXTURE_OK(dt_kafka_reader_commit(c, &err), &err);
    }
    print_message("500 results in %zu polls of at most 100\n", polls);
    assert_true(polls <= 15);
}

FRESH_TEST(an_empty_poll_ends_when_stopped)
{
    const struct dt_kafka_record *records;
    _Atomic bool stop = true;
    size_t n = 7;
    READER(c) = consumer();
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(c, 100, 1000, 5, &stop, &records, &n, &err), &err);
    assert_int_equal(n, 0);
}

FRESH_TEST(results_of_aborted_and_open_transactions_are_not_read)
{
    struct dt_kafka_message m[1];
    const char *topic = own("results");
    int64_t offset;
    int seen[2] = {0};
    dt_producer *old = NULL, *new = NULL;
    m[0] = (struct dt_kafka_message){.topic = dt_str(topic), .key = DT_STR_LIT("r0"), .value = DT_STR_LIT("r0")};
    KAFKA_FIXTURE_OK(dt_producer_new(&fx.env, 0, NULL, &old, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_new(&fx.env, 0, NULL, &new, &err), &err);
    assert_int_equal(dt_producer_send(old, m, 1, DT_STR_LIT("b"), DT_STR_LIT("x"), &offset, &err), DT_DOUBT);
    m[0].key = m[0].value = DT_STR_LIT("r1");
    KAFKA_FIXTURE_OK(dt_producer_send(new, m, 1, DT_STR_LIT("b"), DT_STR_LIT("x"), &offset, &err), &err);
    READER(c) = consumer();
    collect(c, 1, true, seen);
    assert_int_equal(seen[0], 0);
    assert_int_equal(seen[1], 1);
    dt_producer_free(old);
    dt_producer_free(new);
}

/* Two consumers share the partitions; when one is gone the other reads them all, from where they stood. */
FRESH_TEST(members_together_read_every_partition_once)
{
    int seen[400] = {0}, a_seen[400] = {0}, b_seen[400] = {0}, a_n = 0, b_n = 0;
    struct kafka_seen *records;
    READER(a) = consumer();
    dt_kafka_reader *b = consumer();
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_share(a, 0, 2, &err), &err);
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_share(b, 1, 2, &err), &err);
    report(0, 200);
    assert_int_equal(kafka_fixture_read(&fx, own("results"), KAFKA_COMMITTED, &records), 200);
    for (int i = 0; i < 200; i++) {
        a_n += records[i].partition % 2 == 0;
        b_n += records[i].partition % 2 == 1;
    }
    free(records);
    assert_true(a_n > 0 && b_n > 0);
    collect(a, a_n, true, a_seen);
    collect(b, b_n, true, b_seen);
    for (int i = 0; i < 200; i++)
        assert_int_equal(a_seen[i] + b_seen[i], 1);
    dt_kafka_reader_free(b);
    dt_kafka_drain(10000); /* its offsets are committed */
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_share(a, 0, 1, &err), &err);
    report(200, 200);
    collect(a, 200, true, seen);
    for (int i = 0; i < 400; i++)
        assert_int_equal(seen[i], i >= 200);
}

FRESH_TEST(a_change_of_shares_loses_nothing_that_was_not_applied)
{
    const struct dt_kafka_record *records;
    _Atomic bool stop = false;
    int seen[100] = {0};
    READER(c) = consumer();
    size_t n = 0;
    report(0, 100);
    while (n == 0)
        KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(c, 30, 1000, 5, &stop, &records, &n, &err), &err);
    dt_kafka_reader_rewind(c); /* could not be applied, and then the shares change and change back */
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_share(c, 1, 2, &err), &err);
    KAFKA_FIXTURE_INSIST(dt_kafka_reader_share(c, 0, 1, &err), &err);
    collect(c, 100, true, seen);
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[i], 1);
}

/* ---- how far they are read ---- */

static dt_result_lag *lag_of(void)
{
    dt_result_lag *lag = NULL;
    KAFKA_FIXTURE_OK(dt_result_lag_new(&fx.env, &lag, &err), &err);
    return lag;
}

static void mark(dt_result_lag *lag)
{
    KAFKA_FIXTURE_INSIST(dt_result_lag_mark(lag, &err), &err);
}

static bool is_passed(dt_result_lag *lag)
{
    bool passed = false;
    KAFKA_FIXTURE_INSIST(dt_result_lag_passed(lag, &passed, &err), &err);
    return passed;
}

/* Polls, committing or not, until all that was there at the mark is read. */
static bool passes(dt_result_lag *lag, dt_kafka_reader *c, bool commit, int ms)
{
    const int64_t until_us = kafka_fixture_now_us() + ms * INT64_C(1000);
    const struct dt_kafka_record *records;
    size_t n;
    while (!is_passed(lag)) {
        if (kafka_fixture_now_us() > until_us)
            return false;
        KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(c, 1000, 50, 5, NULL, &records, &n, &err), &err);
        if (commit)
            KAFKA_FIXTURE_OK(dt_kafka_reader_commit(c, &err), &err);
    }
    return true;
}

FRESH_TEST(a_mark_is_passed_when_all_earlier_results_were_applied_and_committed)
{
    dt_result_lag *lag = lag_of();
    mark(lag); /* nobody has ever read, and there is nothing */
    assert_true(is_passed(lag));
    report(0, 20);
    assert_true(is_passed(lag)); /* they came after the mark */
    mark(lag);
    assert_false(is_passed(lag));
    READER(c) = consumer();
    assert_false(passes(lag, c, false, 1500)); /* read, and not applied */
    dt_kafka_reader_free(c);
    dt_kafka_drain(10000);
    c = consumer();
    assert_true(passes(lag, c, true, WAIT_MS));
    report(20, 1);
    mark(lag);
    assert_true(passes(lag, c, true, WAIT_MS));
    mark(lag);
    assert_true(is_passed(lag));
    dt_result_lag_free(lag);
}

/* Behind the last record there is the marker of its transaction, which nobody reads. */
FRESH_TEST(markers_of_transactions_do_not_count_as_unread)
{
    dt_result_lag *lag = lag_of();
    dt_producer *p = NULL;
    const char *topic = own("results");
    int64_t offset;
    struct dt_kafka_message m =
        (struct dt_kafka_message){.topic = dt_str(topic), .key = DT_STR_LIT("r0"), .value = DT_STR_LIT("r0")};
    KAFKA_FIXTURE_OK(dt_producer_new(&fx.env, 0, NULL, &p, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, &m, 1, DT_STR_LIT("b"), DT_STR_LIT("x"), &offset, &err), &err);
    dt_producer_free(p);
    mark(lag);
    READER(c) = consumer();
    assert_true(passes(lag, c, true, WAIT_MS));
    dt_result_lag_free(lag);
}

FRESH_TEST(results_that_are_read_again_count_as_unread_until_they_are_applied)
{
    const struct dt_kafka_record *records;
    dt_result_lag *lag = lag_of();
    READER(c) = consumer();
    size_t n = 0;
    report(0, 10);
    mark(lag);
    for (int i = 0; i < 20; i++) {
        KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(c, 100, 100, 5, NULL, &records, &n, &err), &err);
        dt_kafka_reader_rewind(c);
        assert_false(is_passed(lag));
    }
    assert_true(passes(lag, c, true, WAIT_MS));
    dt_result_lag_free(lag);
}

/* A reader that was stopped for long commits what it knows; the present one says again what is true. */
FRESH_TEST(an_older_committed_offset_is_corrected)
{
    dt_result_lag *lag = lag_of();
    dt_kafka_reader *old = consumer(), *c;
    const struct dt_kafka_record *records;
    size_t n = 0;
    report(0, 10);
    while (n == 0)
        KAFKA_FIXTURE_INSIST(dt_kafka_reader_poll(old, 1, 1000, 5, NULL, &records, &n, &err), &err);
    c = consumer();
    mark(lag);
    assert_true(passes(lag, c, true, WAIT_MS));
    KAFKA_FIXTURE_OK(dt_kafka_reader_commit(old, &err), &err);
    dt_kafka_reader_free(old);
    dt_kafka_drain(10000);
    assert_false(is_passed(lag));
    for (int64_t until_us = wait_deadline_us(); !is_passed(lag) && !wait_is_over(until_us);) {
        dt_status status = dt_kafka_reader_share(c, 0, 1, &err);
        if (status == DT_OK)
            status = dt_kafka_reader_poll(c, 100, 50, 5, NULL, &records, &n, &err);
        assert_true(status == DT_OK || status == DT_UNAVAILABLE); /* the next share asks a busy broker again */
    }
    assert_true(is_passed(lag));
    dt_kafka_reader_free(c);
    dt_result_lag_free(lag);
}

FRESH_TEST(without_a_broker_all_results_count_as_unread)
{
    bool passed = true;
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    dt_result_lag *lag = lag_of();
    assert_int_equal(dt_result_lag_passed(lag, &passed, &err), DT_UNAVAILABLE);
    assert_false(passed);
    assert_int_equal(dt_result_lag_mark(lag, &err), DT_UNAVAILABLE);
    snprintf(fx.brokers, sizeof(fx.brokers), "%s", getenv("DUETIME_KAFKA")); /* the broker is there again */
    mark(lag);
    assert_true(is_passed(lag));
    dt_result_lag_free(lag);
}

/* ---- notices ---- */

FRESH_TEST(notices_arrive_and_are_confirmed)
{
    struct dt_kafka_header header = {DT_STR_LIT("ce_id"), DT_STR_LIT("17/3/dead")};
    struct dt_kafka_message m[2];
    struct kafka_seen *seen;
    bool sent[2] = {false, false};
    const char *topic = own("dead");
    dt_notice_producer *notices = NULL;
    for (int i = 0; i < 2; i++)
        m[i] = (struct dt_kafka_message){.topic = dt_str(topic),
                                         .key = DT_STR_LIT("17"),
                                         .value = DT_STR_LIT("{}"),
                                         .headers = &header,
                                         .n_headers = 1};
    KAFKA_FIXTURE_OK(dt_notice_producer_new(&fx.env, &notices, &err), &err);
    KAFKA_FIXTURE_OK(dt_notice_producer_send(notices, m, 2, sent, 10000, &err), &err);
    assert_true(sent[0] && sent[1]);
    KAFKA_FIXTURE_OK(dt_notice_producer_send(notices, NULL, 0, NULL, 10000, &err), &err);
    dt_notice_producer_free(notices);
    size_t n = kafka_fixture_read(&fx, topic, KAFKA_COMMITTED, &seen);
    assert_int_equal(n, 2);
    assert_string_equal(seen[0].header, "17/3/dead");
    free(seen);
}

FRESH_TEST(a_refused_notice_is_distinguished_from_the_others)
{
    const char *small[] = {"max.message.bytes", "1000", NULL};
    struct dt_kafka_message m[3];
    char payload[2000];
    const char *topic = own("dead");
    bool sent[3];
    dt_notice_producer *notices = NULL;
    memset(payload, 'p', sizeof(payload));
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    for (int i = 0; i < 3; i++)
        m[i] = (struct dt_kafka_message){.topic = dt_str(topic), .key = DT_STR_LIT("1"), .value = DT_STR_LIT("{}")};
    m[1].topic = dt_str(fx.topic);
    m[1].value = (struct dt_str){payload, sizeof(payload)};
    KAFKA_FIXTURE_OK(dt_notice_producer_new(&fx.env, &notices, &err), &err);
    assert_int_equal(dt_notice_producer_send(notices, m, 3, sent, 10000, &err), DT_REFUSED);
    assert_true(sent[0] && !sent[1] && sent[2]);
    KAFKA_FIXTURE_OK(dt_notice_producer_send(notices, m, 1, sent, 10000, &err), &err);
    dt_notice_producer_free(notices);
}
