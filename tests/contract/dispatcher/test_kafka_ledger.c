/* The ledger of a shard on a real broker: how it is read, and how it is trimmed. */

#include "support/rigs/kafka_producer_rig.h"

static struct dt_error err;

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
                             struct dt_error *why)
{
    l->first = -1;
    struct dt_ledger_reading reading = {.from = from,
                                        .clock = dt_clock_system(),
                                        .deadline_us = kafka_fixture_now_us() + timeout_ms * INT64_C(1000),
                                        .stop = stop,
                                        .fn = look,
                                        .arg = l};
    dt_status status = dt_ledger_read(&fx.env, 0, &reading, why);
    *next = reading.next;
    return status;
}

RIG_TEST(reading_the_ledger_sees_the_batch_and_stops_at_the_barrier)
{
    struct look l = {.barrier = "barrier"};
    int64_t offset, next = -1;
    PRODUCER(p) = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &offset, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    KAFKA_FIXTURE_OK(send_one(p, "18", "x", &(int64_t){0}, &err), &err); /* after the barrier: not looked at */
    KAFKA_FIXTURE_OK(read_ledger(0, WAIT_MS, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "batch=17 barrier=t");
    assert_int_equal(next, offset + 1);
}

RIG_TEST(reading_starts_at_the_given_offset)
{
    struct look l = {.barrier = "barrier"};
    int64_t first, offset, next;
    PRODUCER(p) = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &first, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    KAFKA_FIXTURE_OK(read_ledger(first + 1, WAIT_MS, NULL, &l, &next, &err), &err);
    assert_members(l, (seen, "barrier=t"), (first, offset));
}

RIG_TEST(records_of_an_uncommitted_transaction_are_not_in_the_ledger)
{
    const char *small[] = {"max.message.bytes", "1000", NULL};
    char payload[2000];
    struct dt_kafka_message m = message("17", "");
    struct look l = {.barrier = "barrier"};
    int64_t offset, next;
    PRODUCER(p) = producer(0);
    memset(payload, 'p', sizeof(payload));
    m.value = (struct dt_str){payload, sizeof(payload)};
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    assert_int_equal(dt_producer_send(p, &m, 1, DT_STR_LIT("batch"), DT_STR_LIT("17"), &offset, &err), DT_REFUSED);
    dt_producer_free(p);
    p = producer(0);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    KAFKA_FIXTURE_OK(read_ledger(0, WAIT_MS, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "barrier=t");
}

RIG_TEST(an_offset_beyond_the_end_of_the_ledger_is_invalid)
{
    struct look l = {.barrier = "barrier"};
    int64_t next;
    assert_int_equal(read_ledger(100, WAIT_MS, NULL, &l, &next, &err), DT_INVALID);
    assert_string_equal(l.seen, "");
}

RIG_TEST(a_trimmed_offset_is_invalid)
{
    struct look l = {.barrier = "barrier"};
    int64_t offset, next;
    PRODUCER(p) = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &offset, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &offset, &err), &err);
    kafka_fixture_trim(&fx, ledger(), 0, offset);
    assert_int_equal(read_ledger(0, WAIT_MS, NULL, &l, &next, &err), DT_INVALID);
    l = (struct look){.barrier = "barrier"};
    KAFKA_FIXTURE_OK(read_ledger(offset, WAIT_MS, NULL, &l, &next, &err), &err);
    assert_string_equal(l.seen, "barrier=t");
}

static dt_status ask_whether_there(int64_t offset, int timeout_ms)
{
    struct dt_ledger_reading reading = {
        .from = offset, .clock = dt_clock_system(), .deadline_us = kafka_fixture_now_us() + timeout_ms * INT64_C(1000)};
    return dt_ledger_read(&fx.env, 0, &reading, &err);
}

RIG_TEST(without_a_function_only_the_existence_of_the_offset_is_checked)
{
    int64_t offset;
    PRODUCER(p) = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "17", "x", &offset, &err), &err);
    assert_int_equal(ask_whether_there(offset, WAIT_MS), DT_OK);
    assert_int_equal(ask_whether_there(offset + 1, WAIT_MS), DT_OK); /* at an offset that has no record yet */
    assert_int_equal(ask_whether_there(offset + 100, WAIT_MS), DT_INVALID);
}

/* ---- trimming ---- */

/* One that is done holds up the next one for a moment. */
static dt_ledger_trim *begin_trim(unsigned shard, int64_t before)
{
    dt_ledger_trim *trim = NULL;
    dt_status status;
    AWAIT((status = dt_ledger_trim_start(&fx.env, shard, before, &trim, &err)) != DT_FULL);
    KAFKA_FIXTURE_OK(status, &err);
    return trim;
}

static dt_status trimmed(unsigned shard, int64_t before)
{
    dt_ledger_trim *trim = begin_trim(shard, before);
    dt_status status = DT_INTERNAL;
    AWAIT(dt_ledger_trim_done(trim, &status, &err));
    dt_ledger_trim_free(trim);
    return status;
}

RIG_TEST(trimming_deletes_only_records_below_the_offset)
{
    struct look l = {.barrier = "barrier"};
    int64_t first, second, barrier, next;
    PRODUCER(p) = producer(0);
    PRODUCER(neighbour) = producer(1);
    KAFKA_FIXTURE_OK(send_one(p, "one", "x", &first, &err), &err);
    KAFKA_FIXTURE_OK(send_one(p, "two", "x", &second, &err), &err);
    KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("barrier"), DT_STR_LIT("t"), &barrier, &err), &err);
    KAFKA_FIXTURE_OK(send_one(neighbour, "other", "x", &next, &err), &err);
    assert_int_equal(trimmed(0, second), DT_OK);
    assert_int_equal(read_ledger(first, WAIT_MS, NULL, &l, &next, &err), DT_INVALID);
    l = (struct look){.barrier = "barrier"};
    KAFKA_FIXTURE_OK(read_ledger(second, WAIT_MS, NULL, &l, &next, &err), &err);
    assert_members(l, (seen, "batch=two barrier=t"), (first, second));
    assert_int_equal(trimmed(0, second), DT_OK); /* once more: as after a crash in between */
    assert_int_equal(committed(ledger()), 3);    /* the other shard's is there */
}

RIG_TEST(trimming_beyond_the_end_of_the_ledger_is_an_error_and_deletes_nothing)
{
    int64_t offset;
    PRODUCER(p) = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "one", "x", &offset, &err), &err);
    assert_int_not_equal(trimmed(0, 1000), DT_OK);
    assert_int_equal(committed(ledger()), 1);
}

RIG_TEST(a_ledger_with_an_invalid_topic_name_is_not_trimmed)
{
    char name[DT_KAFKA_TOPIC_MAX + 1];
    struct dt_kafka_env env = fx.env;
    dt_ledger_trim *trim = NULL;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    env.installation = name;
    dt_status status;
    AWAIT((status = dt_ledger_trim_start(&env, 0, 5, &trim, &err)) != DT_FULL); /* an earlier test's may be under way */
    assert_int_equal(status, DT_INVALID);
    assert_null(trim);
}

RIG_TEST(trimming_is_requested_without_waiting_and_may_be_abandoned)
{
    dt_ledger_trim *second = NULL;
    dt_status status;
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    dt_ledger_trim *trim = begin_trim(0, 5);
    assert_false(dt_ledger_trim_done(trim, &status, &err));
    assert_int_equal(dt_ledger_trim_start(&fx.env, 1, 5, &second, &err), DT_FULL); /* one at a time */
    assert_null(second);
    dt_ledger_trim_free(trim);
    dt_ledger_trim_free(NULL);
    snprintf(fx.brokers, sizeof(fx.brokers), "%s", getenv("DUETIME_KAFKA"));
}

RIG_TEST(the_end_of_the_ledger_is_not_the_end_of_reading)
{
    struct look l = {.barrier = "barrier"};
    int64_t begin_us = kafka_fixture_now_us(), next;
    assert_int_equal(read_ledger(0, 400, NULL, &l, &next, &err), DT_UNAVAILABLE);
    assert_true(kafka_fixture_now_us() - begin_us >= 390000);
    assert_int_equal(next, 0);
}

RIG_TEST(reading_ends_when_stopped)
{
    _Atomic bool stop = true;
    struct look l = {.barrier = "barrier"};
    int64_t next;
    assert_int_equal(read_ledger(0, WAIT_MS, &stop, &l, &next, &err), DT_SHUTDOWN);
}

RIG_TEST(reading_without_a_broker_is_unavailable_at_its_deadline)
{
    struct look l = {.barrier = "barrier"};
    int64_t next;
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    assert_int_equal(read_ledger(0, 500, NULL, &l, &next, &err), DT_UNAVAILABLE);
    dt_kafka_drain(5000);
    snprintf(fx.brokers, sizeof(fx.brokers), "%s", getenv("DUETIME_KAFKA"));
}

RIG_TEST(after_a_failure_a_producer_sends_no_more_messages)
{
    const char *const small[] = {"max.message.bytes", "1000", NULL};
    char value[2000];
    int64_t offset = -7;
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    PRODUCER(p) = producer(0);
    assert_int_equal(send_one(p, "1", value, &offset, &err), DT_REFUSED);
    assert_int_equal(send_one(p, "2", "small", &offset, &err), DT_DOUBT);
    assert_int_equal(offset, -7);
    dt_producer_free(p);
    p = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "3", "small", &offset, &err), &err);
    assert_int_equal(committed(fx.topic), 1);
    assert_int_equal(committed(ledger()), 1);
}
