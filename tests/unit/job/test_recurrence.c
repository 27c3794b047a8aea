/* Fires of schedules: steps of elapsed time, bounds, the newest of many, jitter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/schedule/recurrence.h"

static struct dt_recurrence every(int64_t every_ms, int64_t anchor_ms)
{
    return (struct dt_recurrence){
        .every_ms = every_ms, .anchor_ms = anchor_ms, .starts_at_ms = INT64_MIN, .ends_at_ms = INT64_MAX};
}

static void steps_begin_at_their_anchor_and_go_on_evenly(void **state)
{
    struct dt_recurrence r = every(900000, 1000);
    (void)state;
    assert_int_equal(dt_recurrence_next_ms(&r, 0), 1000);
    assert_int_equal(dt_recurrence_next_ms(&r, 999), 1000);
    assert_int_equal(dt_recurrence_next_ms(&r, 1000), 901000);
    assert_int_equal(dt_recurrence_next_ms(&r, 900999), 901000);
    assert_int_equal(dt_recurrence_next_ms(&r, 901000), 1801000);
}

static void bounds_hold_the_first_instant_and_not_the_last(void **state)
{
    struct dt_recurrence r = every(1000, 0);
    (void)state;
    r.starts_at_ms = 5000;
    r.ends_at_ms = 7000;
    assert_int_equal(dt_recurrence_next_ms(&r, 0), 5000);
    assert_int_equal(dt_recurrence_next_ms(&r, 5000), 6000);
    assert_true(dt_recurrence_next_ms(&r, 6000) == DT_NEVER);
}

static void a_schedule_by_cron_keeps_its_bounds(void **state)
{
    struct dt_recurrence r = {.starts_at_ms = 3600000, .ends_at_ms = 7200001};
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(dt_cron_parse(dt_str("@hourly"), &r.cron, &err), DT_OK);
    assert_int_equal(dt_recurrence_next_ms(&r, 0), 3600000);
    assert_int_equal(dt_recurrence_next_ms(&r, 3600000), 7200000);
    assert_true(dt_recurrence_next_ms(&r, 7200000) == DT_NEVER);
}

static void the_newest_of_many_come_in_order(void **state)
{
    struct dt_recurrence r = every(1000, 0);
    int64_t fires[7];
    (void)state;
    for (size_t max = 1; max <= 7; max++) {
        assert_int_equal(dt_recurrence_newest(&r, 0, 9999999, fires, max), max);
        for (size_t i = 0; i < max; i++)
            assert_int_equal(fires[i], 9999000 - (int64_t)(max - 1 - i) * 1000);
    }
}

static void rare_fires_are_found_far_back(void **state)
{
    struct dt_recurrence r = every(INT64_C(86400000), 0);
    int64_t fires[3];
    (void)state;
    assert_int_equal(dt_recurrence_newest(&r, 86400000, INT64_C(86400000) * 300 + 5, fires, 3), 3);
    assert_int_equal(fires[0], INT64_C(86400000) * 298);
    assert_int_equal(fires[2], INT64_C(86400000) * 300);
    assert_int_equal(dt_recurrence_newest(&r, 0, INT64_C(86400000) * 2, fires, 3), 2);
    assert_int_equal(fires[0], 86400000);
    assert_int_equal(dt_recurrence_newest(&r, 0, 86400000, fires, 0), 0);
}

static void jitter_is_within_its_bound_and_always_the_same(void **state)
{
    int64_t low = INT64_MAX, high = 0;
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_begin_at_their_anchor_and_go_on_evenly),
        cmocka_unit_test(bounds_hold_the_first_instant_and_not_the_last),
        cmocka_unit_test(a_schedule_by_cron_keeps_its_bounds),
        cmocka_unit_test(the_newest_of_many_come_in_order),
        cmocka_unit_test(rare_fires_are_found_far_back),
        cmocka_unit_test(jitter_is_within_its_bound_and_always_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
