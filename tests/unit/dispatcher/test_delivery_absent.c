/* The delivery by Kafka, in an installation that has no Kafka. */

#include "support/suite.h"

#include "deliver/delivery.h"

#define SECOND INT64_C(1000000)

static int64_t now_us;

STUB(static int64_t, mono_us, (const dt_clock *clock), now_us)

static const dt_clock hand_clock = {.mono_us = mono_us};
static char nothing[] = "";
static struct dt_config config = {.kafka_brokers = nothing};
static const struct dt_process_env process = {.config = &config, .clock = &hand_clock};
static dt_delivery *delivery;
static const struct dt_inflight empty_list;

static void make(void)
{
    const struct dt_delivery_env env = {.env = &process, .shard = 3};
    now_us = 1000 * SECOND;
    assert_int_equal(dt_delivery_new(&env, &delivery), DT_OK);
}

static void clear(void)
{
    dt_delivery_free(delivery);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

FRESH_TEST(a_shard_with_nothing_in_flight_is_taken_over)
{
    const struct dt_fence fence = {.shard = 3, .epoch = 7, .ledger_offset = 42};
    struct dt_delivery_findings found;
    dt_delivery_forget(delivery);
    assert_int_equal(dt_delivery_fence(delivery, &fence, NULL), DT_OK);
    assert_int_equal(dt_delivery_read(delivery, &fence, &empty_list, &found, NULL), DT_OK);
    assert_members(found, (halt, ""), (sent, false));
    assert_int_equal(found.refused.n, 0);
    assert_int_equal(found.next_offset, 42); /* the ledger goes on there when Kafka comes back */
}

/* Nobody can read the ledger: a batch that a leader with Kafka had claimed was sent, or was not. */
FRESH_TEST(a_shard_with_something_in_flight_waits_and_says_why)
{
    const struct dt_fence fence = {.shard = 3, .epoch = 7, .inflight = 2, .send_n = 2};
    struct dt_error err = {0};
    assert_int_equal(dt_delivery_fence(delivery, &fence, &err), DT_UNAVAILABLE);
    assert_non_null(strstr(err.text, "shard 3 has 2 attempts in flight"));
    assert_true(err.alarm);
}

FRESH_TEST(no_topic_can_be_written_and_the_trouble_names_it)
{
    assert_string_equal(dt_delivery_trouble(delivery), "");
    assert_int_equal(dt_delivery_writable(delivery, DT_STR_LIT("orders.close"), 1, 10), DT_WRITABLE_NO);
    assert_non_null(strstr(dt_delivery_trouble(delivery), "orders.close"));
}

FRESH_TEST(the_trouble_ends_when_no_due_job_asks_any_more)
{
    (void)dt_delivery_writable(delivery, DT_STR_LIT("orders.close"), 1, 0);
    now_us += 14 * SECOND;
    assert_string_not_equal(dt_delivery_trouble(delivery), "");
    now_us += 2 * SECOND;
    assert_string_equal(dt_delivery_trouble(delivery), "");
}

FRESH_TEST(an_idle_delivery_without_kafka_has_nothing_to_close)
{
    struct dt_fence fence = {.shard = 3, .trim_offset = -1};
    char text[80] = "old";
    assert_int_equal(dt_delivery_fence(delivery, &fence, NULL), DT_OK);
    assert_int_equal(dt_delivery_start(delivery, NULL, &fence, NULL), DT_OK);
    assert_int_equal(dt_delivery_tend(delivery, NULL, &fence, NULL), DT_OK);
    dt_delivery_notice(delivery, text, sizeof(text));
    assert_string_equal(text, "");
    dt_delivery_clear(delivery);
    assert_false(dt_delivery_begun(delivery));
    assert_false(dt_delivery_worth_closing(delivery));
    assert_false(dt_delivery_finding_out(delivery));
    assert_false(dt_delivery_resolve(delivery));
}
