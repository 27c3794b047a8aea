/* The upkeep of a shard's ledger (delivery_kafka.c) on a real MySQL and Kafka: what is deleted, when, and what the row says then. */

#include "deliver/kafka/delivery_kafka.h"
#include "dispatch/fence.h"
#include "support/job_rows.h"
#include "support/kafka_fixture.h"

#define DAY     INT64_C(86400000)
#define OLD     (DT_LEDGER_YOUNG / 2 + 20) /* records after which a ledger is old: each commit takes an offset as well */
#define YOUNG   20
#define WAIT_US INT64_C(20000000)

static struct mysql_fixture fx;
static struct kafka_fixture kafka;
static struct dt_config config;
static dt_store *store;
static struct dt_fence fence;
static struct dt_inflight flight;
static dt_refclock ref;
static dt_delivery delivery;
static int64_t offsets[OLD]; /* of the ledger's records */
static struct dt_error err;

static void take_over(int64_t epoch)
{
    dt_inflight_clear(&flight);
    const struct dt_leadership leadership = {0, epoch, "host:1", "redis:1"};
    MYSQL_FIXTURE_OK(dt_store_takeover(store, &leadership, &fence, &flight, &err), &err);
}

/* A ledger of n records, and a row that holds the last but one of them, since so long ago. */
static void lead(size_t n, int64_t held_ms)
{
    dt_producer *p = NULL;
    KAFKA_FIXTURE_OK(dt_producer_new(&kafka.env, 0, NULL, &p, &err), &err);
    for (size_t i = 0; i < n; i++)
        KAFKA_FIXTURE_OK(dt_producer_send(p, NULL, 0, DT_STR_LIT("batch"), DT_STR_LIT("1"), &offsets[i], &err), &err);
    dt_producer_free(p);
    mysql_fixture_run(&fx, "INSERT IGNORE INTO shards (shard) VALUES (0)");
    mysql_fixture_run(&fx, "UPDATE shards SET ledger_offset = %lld, trim_offset = %lld, trim_at = %lld WHERE shard = 0",
                      (long long)offsets[n - 1] + 1, (long long)offsets[n - 2] + 1,
                      (long long)(mysql_now_ms(&fx) - held_ms));
    take_over(7);
    int64_t before_us = dt_clock_mono_us(dt_clock_system());
    dt_refclock_sample(&ref, mysql_now_ms(&fx), before_us, dt_clock_mono_us(dt_clock_system()));
}

static void make(void)
{
    mysql_fixture_make(&fx, "trim");
    fx.config.shards_count = 1;
    mysql_fixture_migrate(&fx);
    store = mysql_fixture_store(&fx);
    kafka_fixture_make(&kafka, "trim");
    config.ledger_trim_after = DAY;
    dt_refclock_init(&ref, dt_clock_system());
    delivery = (dt_delivery){.env = {.config = &config, .clock = dt_clock_system(), .ref = &ref, .shard = 0},
                             .kafka = &kafka.env};
}

static void clear(void)
{
    dt_ledger_upkeep_forget(&delivery.upkeep);
    dt_kafka_drain(20000);
    kafka_fixture_clear(&kafka);
    dt_inflight_clear(&flight);
    dt_store_free(store);
    mysql_fixture_drop(&fx);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

/* A step, and those after it for as long as Kafka is at work. */
static dt_status tend(void)
{
    dt_status status;
    AWAIT((status = dt_delivery_tend(&delivery, store, &fence, &err)) != DT_OK || !delivery.upkeep.trim);
    assert_null(delivery.upkeep.trim);
    return status;
}

static void assert_begins_at(int64_t offset)
{
    struct kafka_seen *seen;
    size_t n = kafka_fixture_read(&kafka, kafka_fixture_own(&kafka, "ledger"), true, &seen);
    int64_t first = n ? seen[0].offset : -1;
    free(seen);
    assert_int_equal(first, offset);
}

static void assert_row_holds(int64_t offset)
{
    assert_int_equal(mysql_fixture_number(&fx, "SELECT trim_offset FROM shards WHERE shard = 0"), offset);
    assert_int_equal(fence.trim_offset, offset);
}

FRESH_TEST(records_below_an_offset_that_the_row_has_held_for_a_day_are_deleted_except_the_last)
{
    lead(OLD, DAY + 60000);
    assert_int_equal(tend(), DT_OK);
    assert_begins_at(offsets[OLD - 2]);
    assert_row_holds(offsets[OLD - 1] + 1);
    assert_int_equal(
        mysql_fixture_number(&fx, "SELECT trim_at > %lld FROM shards", (long long)(mysql_now_ms(&fx) - 60000)), 1);
    assert_int_equal(tend(), DT_OK); /* which it has now held for a moment */
    assert_begins_at(offsets[OLD - 2]);
}

FRESH_TEST(records_above_an_offset_that_the_row_has_held_for_a_day_stay)
{
    lead(OLD, DAY - 60000);
    assert_int_equal(tend(), DT_OK);
    assert_begins_at(offsets[0]);
    assert_row_holds(offsets[OLD - 2] + 1);
}

FRESH_TEST(a_young_ledger_keeps_its_beginning_and_its_row_moves_on)
{
    lead(YOUNG, DAY + 60000);
    assert_int_equal(tend(), DT_OK);
    assert_begins_at(offsets[0]);
    assert_row_holds(offsets[YOUNG - 1] + 1);
}

FRESH_TEST(a_leader_that_lost_its_row_meanwhile_deletes_nothing)
{
    lead(OLD, DAY + 60000);
    const struct dt_fence zombie = fence;
    take_over(8);
    fence = zombie;
    assert_int_equal(tend(), DT_DEPOSED);
    assert_begins_at(offsets[0]);
}

/* Nobody is deposed for it, and the row goes on to hold what was not deleted. */
FRESH_TEST(a_ledger_shorter_than_the_row_says_is_not_trimmed)
{
    lead(YOUNG, 0);
    mysql_fixture_run(&fx, "UPDATE shards SET ledger_offset = 9000, trim_offset = 5000, trim_at = 1");
    take_over(8);
    assert_int_equal(tend(), DT_OK);
    assert_begins_at(offsets[0]);
    assert_row_holds(5000);
    assert_true(delivery.upkeep.again_us > dt_clock_mono_us(dt_clock_system()));
}

SUITE(NULL, NULL)
