/* The instant up to which results were read (results.h). The test controls the answers of a fake Kafka and
 * the clock. */

#include "deliver/kafka/kafka_parts.h"
#include "support/rigs/hand_clock.h"

#define SECOND_US INT64_C(1000000)

static dt_refclock ref;
static dt_results_watermark *watch;
static dt_chores *chores;
static _Atomic int woken[8];
static bool delivered_by_kafka; /* the attempt that the leader waits for */

/* ---- Kafka's answers ---- */

static _Atomic bool silent, unread;
static _Atomic int marks, looks;

struct dt_result_lag {
    int unused;
};

__typeof__(dt_result_lag_new) __wrap_dt_result_lag_new;
__typeof__(dt_result_lag_free) __wrap_dt_result_lag_free;
__typeof__(dt_result_lag_mark) __wrap_dt_result_lag_mark;
__typeof__(dt_result_lag_passed) __wrap_dt_result_lag_passed;

dt_status __wrap_dt_result_lag_new(const struct dt_kafka_env *, dt_result_lag **out, struct dt_error *)
{
    *out = calloc(1, sizeof **out);
    return *out ? DT_OK : DT_NOMEM;
}

void __wrap_dt_result_lag_free(dt_result_lag *lag)
{
    free(lag);
}

dt_status __wrap_dt_result_lag_mark(dt_result_lag *, struct dt_error *err)
{
    marks++;
    return silent ? dt_fail(err, DT_UNAVAILABLE, "no answer") : DT_OK;
}

dt_status __wrap_dt_result_lag_passed(dt_result_lag *, bool *passed, struct dt_error *err)
{
    looks++;
    *passed = !unread;
    return silent ? dt_fail(err, DT_UNAVAILABLE, "no answer") : DT_OK;
}

/* ---- surroundings ---- */

static int64_t now_ms(void)
{
    return dt_refclock_earliest_ms(&ref);
}

static void tell(void *, unsigned shard, enum dt_loop_news)
{
    woken[shard % 8]++;
}

static void begin_test(void)
{
    const struct dt_chores_env runtime = {.name = "chores", .threads = 1, .clock = &hand_clock};
    assert_int_equal(dt_chores_start(&runtime, &chores, NULL), DT_OK);
    static struct dt_process_env env;
    env = (struct dt_process_env){.chores = chores, .clock = &hand_clock, .ref = &ref, .tell = tell};
    struct dt_error err = {0};
    dt_refclock_init(&ref, &hand_clock);
    dt_refclock_sample(&ref, 1800000000000, hand_us, hand_us);
    silent = unread = false;
    delivered_by_kafka = true;
    marks = looks = 0;
    for (unsigned i = 0; i < 8; i++)
        woken[i] = 0;
    assert_int_equal(dt_results_watermark_start(&env, &watch, &err), DT_OK);
}

static void end_test(void)
{
    dt_results_watermark_stop(watch);
    dt_chores_stop(chores);
}

#define FRESH_TEST(name) TEST_WITH(name, begin_test, end_test)

static int64_t deadline_ms;

static int64_t up_to_ms(void)
{
    struct dt_read_up_to up_to = dt_results_watermark_up_to(watch);
    return delivered_by_kafka ? up_to.kafka_ms : up_to.other_ms;
}

/* Announces that the leader waits, as a leader does repeatedly; returns when the watermark has seen it. */
static bool is_read(unsigned shard)
{
    if (up_to_ms() < deadline_ms) {
        dt_results_watermark_want(watch, shard, deadline_ms);
        AWAIT(up_to_ms() >= deadline_ms || (hand_due_in() > 0 && hand_due_in() < SECOND_US));
    }
    return up_to_ms() >= deadline_ms;
}

static bool waits_at_most(unsigned shard, int ms)
{
    for (int waited = 0; waited < ms && !is_read(shard); waited += 50)
        pass(50000);
    return is_read(shard);
}

/* ---- the tests ---- */

FRESH_TEST(a_leader_is_woken_when_the_watermark_reaches_its_deadline)
{
    deadline_ms = now_ms();
    assert_true(is_read(3)); /* the clock has not moved */
    AWAIT(woken[3] > 0);
    assert_int_equal(woken[2], 0);
    assert_true(up_to_ms() <= now_ms());
}

FRESH_TEST(kafka_is_asked_only_while_a_leader_waits)
{
    AWAIT(hand_waits);
    assert_int_equal(marks, 0);
    deadline_ms = now_ms();
    assert_true(is_read(0));
    AWAIT(hand_waits);
    int before = marks;
    pass(60 * SECOND_US);
    for (int i = 0; i < 20; i++) /* threads that slept until a time are awake: there is no condition to wait for */
        wait_a_moment();
    assert_true(hand_waits);
    assert_int_equal(marks, before);
}

FRESH_TEST(the_watermark_does_not_reach_a_future_deadline)
{
    deadline_ms = now_ms() + 400;
    assert_false(waits_at_most(0, 350));
    assert_true(waits_at_most(0, 1000));
    assert_true(now_ms() >= deadline_ms);
}

FRESH_TEST(the_watermark_waits_for_a_late_reader)
{
    unread = true;
    deadline_ms = now_ms();
    assert_false(waits_at_most(1, 1500));
    assert_int_equal(marks, 1); /* what was there then, and not what came since */
    unread = false;
    assert_true(waits_at_most(1, 1000));
}

FRESH_TEST(without_an_answer_of_kafka_the_watermark_does_not_rise)
{
    silent = true;
    deadline_ms = now_ms();
    assert_false(waits_at_most(1, 1500));
    silent = false;
    assert_true(waits_at_most(1, 2000));
}

/* Two deadlines, ten seconds apart, while nobody reads: each is waited for as long. */
FRESH_TEST(the_watermark_waits_for_a_reader_at_most_thirty_seconds)
{
    unread = true;
    int64_t first_ms = now_ms(), us = hand_us;
    deadline_ms = first_ms + 2000;
    assert_false(waits_at_most(2, 29500));
    assert_true(up_to_ms() < first_ms);
    assert_true(waits_at_most(2, 5000));
    assert_in_range(hand_us - us, 31900000, 33500000);
}

static void pass_a_minute_without_an_answer(void)
{
    silent = true;
    deadline_ms = now_ms();
    assert_false(waits_at_most(1, 60000));
}

FRESH_TEST(while_kafka_does_not_answer_only_attempts_of_other_deliveries_time_out_after_thirty_seconds)
{
    unread = true;
    pass_a_minute_without_an_answer();
    delivered_by_kafka = false;
    assert_true(is_read(1));
}

FRESH_TEST(when_kafka_answers_again_the_reader_has_thirty_seconds)
{
    unread = true;
    pass_a_minute_without_an_answer();
    silent = false;
    assert_false(waits_at_most(1, 29000));
    assert_true(waits_at_most(1, 5000));
}

FRESH_TEST(when_kafka_answers_again_and_all_is_read_the_watermark_rises)
{
    pass_a_minute_without_an_answer();
    silent = false;
    assert_true(waits_at_most(1, 1000));
}

/* A leader that did not ask for a while, say because its MySQL was away, waits for the whole time again. */
FRESH_TEST(a_leader_that_did_not_renew_its_wait_waits_the_whole_time_again)
{
    unread = true;
    deadline_ms = now_ms() - 60000;
    assert_false(waits_at_most(4, 2000));
    pass(29 * SECOND_US);
    AWAIT(hand_waits); /* the silence was noticed */
    assert_false(waits_at_most(4, 3000));
    unread = false;
    assert_true(waits_at_most(4, 1000));
}

/* The process is stopped, and a leader asks before anything was looked at again. */
FRESH_TEST(a_reader_is_not_late_when_the_process_was_stopped)
{
    unread = true;
    deadline_ms = now_ms() - 60000;
    assert_false(waits_at_most(4, 2000));
    hand_us += 31 * SECOND_US;
    assert_false(waits_at_most(4, 3000));
    assert_true(waits_at_most(4, 30000));
}
