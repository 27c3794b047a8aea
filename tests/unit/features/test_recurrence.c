/* Fires of schedules: steps of elapsed time, bounds, the newest of many, jitter. */
#include "support/suite.h"

#include "features/schedules/cron.h"

static struct dt_recurrence every(int64_t every_ms, int64_t anchor_ms)
{
    return (struct dt_recurrence){
        .every_ms = every_ms, .anchor_ms = anchor_ms, .starts_at_ms = INT64_MIN, .ends_at_ms = INT64_MAX};
}

TEST(steps_begin_at_their_anchor_and_repeat_evenly)
{
    struct dt_recurrence r = every(900000, 1000);
    assert_int_equal(dt_recurrence_next_ms(&r, 0), 1000);
    assert_int_equal(dt_recurrence_next_ms(&r, 999), 1000);
    assert_int_equal(dt_recurrence_next_ms(&r, 1000), 901000);
    assert_int_equal(dt_recurrence_next_ms(&r, 900999), 901000);
    assert_int_equal(dt_recurrence_next_ms(&r, 901000), 1801000);
}

TEST(a_range_includes_its_first_instant_and_not_its_last)
{
    struct dt_recurrence r = every(1000, 0);
    r.starts_at_ms = 5000;
    r.ends_at_ms = 7000;
    assert_int_equal(dt_recurrence_next_ms(&r, 0), 5000);
    assert_int_equal(dt_recurrence_next_ms(&r, 5000), 6000);
    assert_true(dt_recurrence_next_ms(&r, 6000) == DT_NEVER);
}

TEST(a_cron_schedule_respects_its_bounds)
{
    struct dt_recurrence r = {.starts_at_ms = 3600000, .ends_at_ms = 7200001};
    struct dt_error err = {0};
    assert_int_equal(dt_cron_parse(dt_str("@hourly"), &r.cron, &err), DT_OK);
    assert_int_equal(dt_recurrence_next_ms(&r, 0), 3600000);
    assert_int_equal(dt_recurrence_next_ms(&r, 3600000), 7200000);
    assert_true(dt_recurrence_next_ms(&r, 7200000) == DT_NEVER);
}

TEST(the_newest_of_many_fires_are_returned_in_order)
{
    struct dt_recurrence r = every(1000, 0);
    int64_t fires[7];
    for (size_t max = 1; max <= 7; max++) {
        assert_int_equal(dt_recurrence_newest(&r, 0, 9999999, fires, max), max);
        for (size_t i = 0; i < max; i++)
            assert_int_equal(fires[i], 9999000 - (int64_t)(max - 1 - i) * 1000);
    }
}

TEST(rare_fires_are_found_far_back)
{
    struct dt_recurrence r = every(INT64_C(86400000), 0);
    int64_t fires[3];
    assert_int_equal(dt_recurrence_newest(&r, 86400000, INT64_C(86400000) * 300 + 5, fires, 3), 3);
    assert_int_equal(fires[0], INT64_C(86400000) * 298);
    assert_int_equal(fires[2], INT64_C(86400000) * 300);
    assert_int_equal(dt_recurrence_newest(&r, 0, INT64_C(86400000) * 2, fires, 3), 2);
    assert_int_equal(fires[0], 86400000);
    assert_int_equal(dt_recurrence_newest(&r, 0, 86400000, fires, 0), 0);
}

TEST(jitter_is_within_its_bound_and_always_the_same)
{
    int64_t low = INT64_MAX, high = 0;
    for (int64_t fire = 0; fire < 2000; fire++) {
        int64_t ms = dt_recurrence_jitter_ms(dt_str("nightly"), fire * 1000, 100);
        assert_int_equal(ms, dt_recurrence_jitter_ms(dt_str("nightly"), fire * 1000, 100));
        assert_in_range(ms, 0, 100);
        low = ms < low ? ms : low;
        high = ms > high ? ms : high;
    }
    assert_int_equal(low, 0);
    assert_int_equal(high, 100);
    assert_int_equal(dt_recurrence_jitter_ms(dt_str("nightly"), 5, 0), 0);
}
