/* When a leader has Kafka delete old records of its ledger, which ones, and what its row says afterwards. MySQL and
 * Kafka are fakes that note what they are asked; each can refuse. */

#include "support/suite.h"

#include "deliver/kafka/delivery_kafka.h"

#define DAY    INT64_C(86400000)
#define SECOND INT64_C(1000000)
#define BEGAN  INT64_C(1800000000000)

struct dt_ledger_trim {
    int unused;
};

/* ---- MySQL, Kafka, and the clocks ---- */

static struct {
    int64_t mono_us;
    unsigned checks, moved; /* the row was compared; it was told to hold the present offset */
    dt_status check, move, start;
    unsigned started, freed;
    unsigned shard;
    int64_t before;
    bool done;
    dt_status done_status;
} fake;

static struct dt_ledger_trim request;
static dt_refclock ref;

STUB(static int64_t, mono_us, (const dt_clock *clock), fake.mono_us)

static int64_t real_ms(const dt_clock *)
{
    return 1; /* the host's own clock is no matter */
}

static const dt_clock hand_clock = {.mono_us = mono_us, .real_ms = real_ms};

dt_status dt_store_trimmed(dt_store *, struct dt_fence *fence, struct dt_error *err)
{
    if (fake.move != DT_OK)
        return dt_fail(err, fake.move, "the row is another's");
    fake.moved++;
    fence->trim_offset = fence->ledger_offset;
    fence->trim_at_ms = BEGAN + fake.mono_us / 1000;
    return DT_OK;
}

dt_status dt_store_fence_check(dt_store *, const struct dt_fence *, struct dt_installation *, struct dt_error *err)
{
    fake.checks++;
    return fake.check == DT_OK ? DT_OK : dt_fail(err, fake.check, "the row is another's");
}

dt_status dt_ledger_read(const struct dt_kafka_env *, unsigned, struct dt_ledger_reading *, struct dt_error *err)
{
    return dt_fail(err, DT_INTERNAL, "no test reads the ledger");
}

dt_status dt_ledger_trim_start(const struct dt_kafka_env *, unsigned shard, int64_t before, dt_ledger_trim **out,
                               struct dt_error *err)
{
    *out = NULL;
    if (fake.start != DT_OK)
        return dt_fail(err, fake.start, "not now");
    fake.started++;
    fake.shard = shard;
    fake.before = before;
    *out = &request;
    return DT_OK;
}

bool dt_ledger_trim_done(dt_ledger_trim *trim, dt_status *status, struct dt_error *err)
{
    assert_ptr_equal(trim, &request);
    if (!fake.done)
        return false;
    *status = fake.done_status == DT_OK ? DT_OK : dt_fail(err, fake.done_status, "no broker answers");
    return true;
}

void dt_ledger_trim_free(dt_ledger_trim *trim)
{
    fake.freed += trim != NULL;
}

/* ---- a leader ---- */

/* By MySQL's clock, which is known exactly. */
static void pass(int64_t ms)
{
    fake.mono_us += ms * 1000;
    dt_refclock_init(&ref, &hand_clock);
    dt_refclock_sample(&ref, BEGAN + fake.mono_us / 1000, fake.mono_us, fake.mono_us);
}

struct rig {
    struct dt_config config;
    struct dt_kafka_env kafka;
    struct dt_process_env process;
    dt_delivery delivery;
    struct dt_fence fence;
};

/* An old ledger; what the row holds was written down just now. */
static void make(struct rig *rig)
{
    memset(&fake, 0, sizeof fake);
    fake.mono_us = 1000 * SECOND;
    pass(0);
    rig->config.ledger_trim_after = DAY;
    rig->process = (struct dt_process_env){.config = &rig->config, .clock = &hand_clock, .ref = &ref};
    rig->delivery = (dt_delivery){.env = {.env = &rig->process, .shard = 3}, .kafka = &rig->kafka};
    rig->fence = (struct dt_fence){
        .shard = 3, .ledger_offset = 7000, .trim_offset = 5000, .trim_at_ms = BEGAN + fake.mono_us / 1000};
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, make, NO_TEARDOWN)

static dt_status trim(struct rig *rig)
{
    struct dt_error err = {0};
    return dt_delivery_tend(&rig->delivery, NULL, &rig->fence, &err);
}

/* What the row holds has been there long enough, and Kafka is asked. */
static void begin(struct rig *rig)
{
    pass(DAY + 1);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
}

static void end(dt_status status)
{
    fake.done = true;
    fake.done_status = status;
}

/* ---- when ---- */

RIG_TEST(records_are_deleted_only_after_the_row_held_the_offset_for_a_day)
{
    static const int64_t early[] = {0, 1, DAY / 1000, DAY / 24, DAY / 2, DAY - 2};
    for (size_t i = 0; i < sizeof early / sizeof *early; i++) {
        pass(early[i] - (i ? early[i - 1] : 0));
        assert_int_equal(trim(rig), DT_OK);
        assert_int_equal(fake.started + fake.checks + fake.moved, 0);
    }
    pass(3);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
}

RIG_TEST(the_delay_before_trimming_is_configurable)
{
    rig->config.ledger_trim_after = 3000;
    pass(2990);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 0);
    pass(20);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
}

RIG_TEST(a_row_without_a_trim_offset_gets_one)
{
    rig->fence.trim_offset = -1;
    rig->fence.trim_at_ms = 0;
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.moved, 1);
    assert_int_equal(rig->fence.trim_offset, 7000);
    assert_int_equal(fake.started, 0);
    pass(DAY / 2);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.moved + fake.started, 1);
    pass(DAY / 2 + 1);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
}

/* ---- what ---- */

RIG_TEST(records_below_the_offset_are_deleted_except_the_last)
{
    begin(rig);
    assert_int_equal(fake.before, 4999); /* of what the row held for a day; not of where it is now */
    assert_members(fake, (shard, 3), (checks, 1));
    assert_int_equal(fake.moved, 0); /* not before it is done */
}

RIG_TEST(a_young_ledger_keeps_its_records_and_its_row_advances)
{
    rig->fence.trim_offset = DT_LEDGER_YOUNG - 1;
    pass(DAY + 1);
    assert_int_equal(trim(rig), DT_OK);
    assert_members(fake, (started, 0), (moved, 1));
    assert_int_equal(rig->fence.trim_offset, 7000);
}

RIG_TEST(a_ledger_of_a_thousand_offsets_is_old)
{
    rig->fence.trim_offset = DT_LEDGER_YOUNG;
    begin(rig);
    assert_int_equal(fake.before, DT_LEDGER_YOUNG - 1);
}

RIG_TEST(a_deposed_leader_deletes_nothing)
{
    fake.check = DT_DEPOSED;
    pass(DAY + 1);
    assert_int_equal(trim(rig), DT_DEPOSED);
    assert_members(fake, (checks, 1), (started, 0));
}

/* ---- afterwards ---- */

RIG_TEST(the_row_advances_after_the_deletion_and_holds_that_offset_for_a_day)
{
    begin(rig);
    for (int i = 0; i < 3; i++) { /* under way: nothing is asked for twice */
        pass(1000);
        assert_int_equal(trim(rig), DT_OK);
    }
    assert_members(fake, (started, 1), (moved, 0));
    rig->fence.ledger_offset = 9000;
    end(DT_OK);
    assert_int_equal(trim(rig), DT_OK);
    assert_members(fake, (freed, 1), (moved, 1));
    assert_int_equal(rig->fence.trim_offset, 9000);
    pass(DAY / 2);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
    pass(DAY / 2 + 1);
    assert_int_equal(trim(rig), DT_OK);
    assert_members(fake, (started, 2), (before, 8999));
}

RIG_TEST(a_shard_that_sent_nothing_since_writes_nothing_and_asks_once)
{
    rig->fence.ledger_offset = 5000;
    begin(rig);
    end(DT_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trim(rig), DT_OK);
        pass(DAY);
    }
    assert_members(fake, (started, 1), (moved, 0));
    rig->fence.ledger_offset = 5002; /* now it has: that is to be held from now on */
    assert_int_equal(trim(rig), DT_OK);
    assert_members(fake, (moved, 1), (started, 1));
}

RIG_TEST(if_the_row_has_another_owner_the_leadership_ends)
{
    begin(rig);
    end(DT_OK);
    fake.move = DT_DEPOSED;
    assert_int_equal(trim(rig), DT_DEPOSED);
}

RIG_TEST(a_deletion_that_kafka_did_not_do_is_requested_again_after_a_minute)
{
    begin(rig);
    end(DT_UNAVAILABLE);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.freed, 1);
    assert_int_equal(fake.moved, 0); /* the row still holds it: nothing was deleted */
    assert_int_equal(rig->fence.trim_offset, 5000);
    fake.done = false;
    pass(59000);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
    pass(1000);
    assert_int_equal(trim(rig), DT_OK);
    assert_members(fake, (started, 2), (before, 4999));
}

RIG_TEST(a_trim_request_that_cannot_be_made_ends_no_leadership_and_is_retried_after_a_minute)
{
    fake.start = DT_SYSTEM;
    pass(DAY + 1);
    assert_int_equal(trim(rig), DT_OK);
    fake.start = DT_OK;
    pass(59000);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 0);
    pass(1000);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
}

RIG_TEST(while_another_shards_ledger_is_trimmed_it_is_tried_again_after_a_second)
{
    fake.start = DT_FULL;
    pass(DAY + 1);
    assert_int_equal(trim(rig), DT_OK);
    fake.start = DT_OK;
    pass(900);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 0);
    assert_int_equal(fake.checks, 1); /* MySQL is not asked at every step */
    pass(100);
    assert_int_equal(trim(rig), DT_OK);
    assert_int_equal(fake.started, 1);
}

RIG_TEST(the_next_leadership_has_no_running_trim_request)
{
    begin(rig);
    dt_ledger_upkeep_forget(&rig->delivery.upkeep);
    assert_int_equal(fake.freed, 1);
    assert_null(rig->delivery.upkeep.trim);
    assert_int_equal(trim(rig), DT_OK); /* the same again, which changes nothing */
    assert_members(fake, (started, 2), (before, 4999));
    end(DT_OK);
    rig->fence.ledger_offset = 5000;
    assert_int_equal(trim(rig), DT_OK);
    dt_ledger_upkeep_forget(&rig->delivery.upkeep);
    fake.done = false;
    assert_int_equal(trim(rig), DT_OK); /* nor what was done before */
    assert_int_equal(fake.started, 3);
}
