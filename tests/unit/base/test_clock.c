/* The host's clocks and the estimate of MySQL's clock, with a clock that the test moves. */
#include <pthread.h>

#include "support/suite.h"

#include "base/clock.h"

struct hand_clock {
    dt_clock clock; /* first, so that a pointer to it is a pointer to this */
    int64_t mono_us, real_ms;
};

static int64_t hand_mono_us(const dt_clock *clock)
{
    return ((const struct hand_clock *)clock)->mono_us;
}
static int64_t hand_real_ms(const dt_clock *clock)
{
    return ((const struct hand_clock *)clock)->real_ms;
}

#define SECOND_US INT64_C(1000000)
#define SERVER_MS INT64_C(1800000000000)

static void start(struct hand_clock *hand, dt_refclock *ref)
{
    *hand = (struct hand_clock){
        {.mono_us = hand_mono_us, .real_ms = hand_real_ms}, 1000 * SECOND_US, INT64_C(1700000000000)};
    dt_refclock_init(ref, &hand->clock);
}

struct clocks {
    struct hand_clock hand;
    dt_refclock ref;
};

static void make(struct clocks *c)
{
    start(&c->hand, &c->ref);
}

#define CLOCK_TEST(name) TEST_ON(struct clocks, c, name, make, NO_TEARDOWN)

TEST(the_monotonic_clock_never_steps_back)
{
    const dt_clock *clock = dt_clock_system();
    int64_t last = dt_clock_mono_us(clock);
    for (int i = 0; i < 1000; i++) {
        int64_t now = dt_clock_mono_us(clock);
        assert_true(now >= last);
        last = now;
    }
    assert_true(dt_clock_real_ms(clock) > INT64_C(1700000000000));
}

CLOCK_TEST(before_any_sample_the_hosts_clock_is_used)
{
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), c->hand.real_ms);
    assert_true(dt_refclock_latest_ms(&c->ref) > c->hand.real_ms); /* the reading was cut to a millisecond */
    assert_int_equal(dt_refclock_mono_us_at(&c->ref, c->hand.real_ms + 5), c->hand.mono_us + 5000);
}

/* For every moment at which the server may have been read, the truth lies between earliest and latest. */
TEST(the_servers_time_lies_between_earliest_and_latest)
{
    struct hand_clock hand;
    dt_refclock ref;
    for (int64_t read_after_us = 0; read_after_us <= 4000; read_after_us += 100)
        for (int64_t cut_us = 0; cut_us < 1000; cut_us += 111) {
            int64_t truth_us;
            start(&hand, &ref);
            dt_refclock_sample(&ref, SERVER_MS, hand.mono_us, hand.mono_us + 4000);
            truth_us = SERVER_MS * 1000 + cut_us + (4000 - read_after_us);
            hand.mono_us += 4000;
            assert_true(dt_refclock_earliest_ms(&ref) * 1000 <= truth_us);
            assert_true(dt_refclock_latest_ms(&ref) * 1000 >= truth_us);
        }
}

CLOCK_TEST(a_sample_is_never_wider_than_its_round_trip_and_a_millisecond)
{
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us - 300, c->hand.mono_us);
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), SERVER_MS);
    assert_int_equal(dt_refclock_latest_ms(&c->ref), SERVER_MS + 2); /* 1.299 ms, rounded up */
}

CLOCK_TEST(a_wrong_clock_of_the_host_changes_nothing_once_there_is_a_sample)
{
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us - 300, c->hand.mono_us);
    int64_t before = dt_refclock_earliest_ms(&c->ref);
    c->hand.real_ms += 3600000;
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), before);
}

CLOCK_TEST(without_a_boottime_clock_the_monotonic_clock_is_used)
{
    assert_int_equal(dt_clock_boot_us(c->ref.clock), c->hand.mono_us);
    assert_true(dt_clock_boot_us(dt_clock_system()) >= dt_clock_mono_us(dt_clock_system()) - 1);
}

CLOCK_TEST(a_sample_counts_also_when_the_monotonic_clock_has_just_begun)
{
    c->hand.mono_us = 0;
    dt_refclock_sample(&c->ref, SERVER_MS, 0, 0);
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), SERVER_MS);
    assert_int_equal(dt_refclock_latest_ms(&c->ref), SERVER_MS + 1);
}

CLOCK_TEST(the_tighter_of_two_samples_wins)
{
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us - 500, c->hand.mono_us);
    c->hand.mono_us += 10000;
    dt_refclock_sample(&c->ref, SERVER_MS + 10, c->hand.mono_us - 9000, c->hand.mono_us); /* wider: not taken */
    assert_true(dt_refclock_latest_ms(&c->ref) - dt_refclock_earliest_ms(&c->ref) <= 3);
    c->hand.mono_us += 10000;
    dt_refclock_sample(&c->ref, SERVER_MS + 20, c->hand.mono_us - 100, c->hand.mono_us);
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), SERVER_MS + 20);
    assert_int_equal(dt_refclock_latest_ms(&c->ref), SERVER_MS + 22);
}

CLOCK_TEST(an_old_sample_is_replaced_by_a_wider_new_one)
{
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us - 100, c->hand.mono_us);
    c->hand.mono_us += 60 * SECOND_US;
    dt_refclock_sample(&c->ref, SERVER_MS + 60000, c->hand.mono_us - 5000, c->hand.mono_us);
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), SERVER_MS + 60000);
    assert_int_equal(dt_refclock_latest_ms(&c->ref), SERVER_MS + 60000 + 6);
}

CLOCK_TEST(the_bounds_widen_as_a_sample_ages)
{
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us - 100, c->hand.mono_us);
    c->hand.mono_us += 100 * SECOND_US;
    assert_true(dt_refclock_earliest_ms(&c->ref) < SERVER_MS + 100000);
    assert_true(dt_refclock_latest_ms(&c->ref) > SERVER_MS + 100000 + 2);
    assert_in_range(dt_refclock_latest_ms(&c->ref) - dt_refclock_earliest_ms(&c->ref), 40, 45); /* 200 ppm each way */
}

TEST(a_step_of_the_servers_clock_is_adopted_at_once)
{
    struct hand_clock hand;
    dt_refclock ref;
    for (int64_t step_ms = -3600000; step_ms <= 3600000; step_ms += 7200000) {
        start(&hand, &ref);
        dt_refclock_sample(&ref, SERVER_MS, hand.mono_us - 100, hand.mono_us);
        hand.mono_us += SECOND_US;
        dt_refclock_sample(&ref, SERVER_MS + 1000 + step_ms, hand.mono_us - 5000, hand.mono_us);
        assert_int_equal(dt_refclock_earliest_ms(&ref), SERVER_MS + 1000 + step_ms);
    }
}

CLOCK_TEST(a_sample_whose_readings_are_in_the_wrong_order_is_ignored)
{
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us, c->hand.mono_us - 1);
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), c->hand.real_ms);
}

/* A loop that sleeps until mono_us_at(due) finds it due when it wakes up, and not a microsecond before. */
TEST(a_sleep_until_a_due_time_ends_exactly_then)
{
    struct hand_clock hand;
    dt_refclock ref;
    for (int64_t ahead_ms = 0; ahead_ms < 20000000; ahead_ms = ahead_ms * 3 + 1) {
        int64_t wake_us;
        start(&hand, &ref);
        dt_refclock_sample(&ref, SERVER_MS, hand.mono_us - 700, hand.mono_us);
        wake_us = dt_refclock_mono_us_at(&ref, SERVER_MS + ahead_ms);
        hand.mono_us = wake_us;
        assert_true(dt_refclock_earliest_ms(&ref) >= SERVER_MS + ahead_ms);
        hand.mono_us = wake_us - 10;
        assert_true(ahead_ms == 0 || dt_refclock_earliest_ms(&ref) < SERVER_MS + ahead_ms);
    }
}

CLOCK_TEST(a_due_time_in_the_past_is_a_monotonic_time_in_the_past)
{
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us - 700, c->hand.mono_us);
    assert_true(dt_refclock_mono_us_at(&c->ref, SERVER_MS - 5) < c->hand.mono_us);
}

/* Two servers an hour apart are sampled in turns: a reader must see one or the other, never a mixture. */
struct race {
    dt_refclock ref;
    _Atomic int stop;
};

static void *sample_in_turns(void *arg)
{
    struct race *race = arg;
    for (int i = 0; !race->stop; i++) {
        int64_t width = i % 2 ? 1 : 2000;
        int64_t server_ms = i % 2 ? SERVER_MS : SERVER_MS + 3600000;
        dt_refclock_sample(&race->ref, server_ms, 1000 * SECOND_US - width, 1000 * SECOND_US);
    }
    return NULL;
}

TEST(readers_never_see_half_of_a_sample)
{
    struct hand_clock hand;
    struct race race = {.stop = 0};
    pthread_t writers[2];
    int mixed = 0;
    start(&hand, &race.ref);
    dt_refclock_sample(&race.ref, SERVER_MS, hand.mono_us - 1, hand.mono_us);
    for (int i = 0; i < 2; i++)
        writers[i] = start_thread(sample_in_turns, &race);
    for (int i = 0; i < 100000; i++) {
        int64_t early = dt_refclock_earliest_ms(&race.ref), late = dt_refclock_latest_ms(&race.ref);
        mixed += early != SERVER_MS && early != SERVER_MS + 3600000;
        mixed += late != SERVER_MS + 1 && late != SERVER_MS + 3600003;
    }
    race.stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    assert_int_equal(mixed, 0);
}

TEST(a_test_clock_is_ahead_of_the_servers_clock_and_advances_at_its_rate)
{
    enum { AHEAD = 3 * 86400000 };
    struct hand_clock hand;
    dt_refclock ref;
    start(&hand, &ref);
    dt_refclock_follow(&ref, (struct dt_test_time){AHEAD, 0}, SERVER_MS, hand.mono_us - 300, hand.mono_us);
    assert_int_equal(dt_refclock_earliest_ms(&ref), SERVER_MS + AHEAD);
    assert_int_equal(dt_refclock_latest_ms(&ref), SERVER_MS + AHEAD + 2);
    assert_int_equal(dt_refclock_real_earliest_ms(&ref), SERVER_MS);
    assert_int_equal(dt_refclock_real_latest_ms(&ref), SERVER_MS + 2);
    int64_t wake_us = dt_refclock_mono_us_at(&ref, SERVER_MS + AHEAD + 1000);
    assert_in_range(wake_us - hand.mono_us, SECOND_US, SECOND_US + 1000);
    hand.mono_us = wake_us;
    assert_int_equal(dt_refclock_earliest_ms(&ref), SERVER_MS + AHEAD + 1000);
}

TEST(a_frozen_clock_does_not_advance_and_waits_poll_it)
{
    const struct dt_test_time frozen = {.ahead_ms = 5, .frozen_ms = SERVER_MS + 777};
    struct hand_clock hand;
    dt_refclock ref;
    start(&hand, &ref);
    dt_refclock_follow(&ref, frozen, SERVER_MS, hand.mono_us - 300, hand.mono_us);
    hand.mono_us += 100 * SECOND_US;
    assert_int_equal(dt_refclock_earliest_ms(&ref), SERVER_MS + 777);
    assert_int_equal(dt_refclock_latest_ms(&ref), SERVER_MS + 777);
    assert_int_equal(dt_refclock_mono_us_at(&ref, SERVER_MS + 777), hand.mono_us);
    assert_int_equal(dt_refclock_mono_us_at(&ref, SERVER_MS + 778), hand.mono_us + SECOND_US);
    assert_true(dt_refclock_real_earliest_ms(&ref) > SERVER_MS + 99000);
}

/* A session that asked before the clock was advanced says the old time after it. */
CLOCK_TEST(samples_of_sessions_do_not_move_a_test_clock)
{
    dt_refclock_follow(&c->ref, (struct dt_test_time){1000, 0}, SERVER_MS, c->hand.mono_us - 300, c->hand.mono_us);
    dt_refclock_sample(&c->ref, SERVER_MS, c->hand.mono_us - 100, c->hand.mono_us);
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), SERVER_MS + 1000);
    dt_refclock_follow(&c->ref, (struct dt_test_time){3000, 0}, SERVER_MS, c->hand.mono_us - 9000, c->hand.mono_us);
    assert_int_equal(dt_refclock_earliest_ms(&c->ref), SERVER_MS + 3000);
}

TEST(a_wait_on_a_condition_ends_at_its_time_and_not_before)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
    int64_t until_us = dt_clock_mono_us(dt_clock_system()) + 20000;
    pthread_mutex_lock(&lock);
    while (dt_clock_wait(&wake, &lock, until_us))
        ;
    assert_true(dt_clock_mono_us(dt_clock_system()) >= until_us);
    assert_false(dt_clock_wait(&wake, &lock, 0));
    pthread_mutex_unlock(&lock);
}
