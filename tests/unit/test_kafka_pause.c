/* How long a producer rests after a commit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "kafka_pause.h"

static int64_t after(int64_t pause_us, int times, bool too_soon)
{
    for (int i = 0; i < times; i++)
        pause_us = dt_kafka_pause(pause_us, too_soon);
    return pause_us;
}

static void it_stays_between_its_bounds(void **state)
{
    (void)state;
    assert_int_equal(after(DT_KAFKA_PAUSE_MIN_US, 1, false), DT_KAFKA_PAUSE_MIN_US);
    assert_int_equal(after(DT_KAFKA_PAUSE_MIN_US, 100, true), DT_KAFKA_PAUSE_MAX_US);
    assert_int_equal(after(DT_KAFKA_PAUSE_MAX_US, 10000, false), DT_KAFKA_PAUSE_MIN_US);
}

static void one_that_was_too_short_is_longer_the_next_time_and_for_about_a_hundred_more(void **state)
{
    int64_t longer_us = after(2000, 1, true);
    (void)state;
    assert_int_equal(longer_us, 2000 + DT_KAFKA_PAUSE_MORE_US);
    assert_true(after(longer_us, 99, false) > 2000);
    assert_int_equal(after(longer_us, 100, false), 2000);
}

/* Markers that take three milliseconds are learnt within a few transactions, and met seldom from then on. */
static void it_finds_out_how_long_kafka_takes(void **state)
{
    int64_t pause_us = DT_KAFKA_PAUSE_MIN_US;
    int early = 0, late = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        bool too_soon = pause_us < 3000;
        *(i < 10 ? &early : &late) += too_soon;
        pause_us = dt_kafka_pause(pause_us, too_soon);
    }
    assert_in_range(early, 1, 3);
    assert_in_range(late, 10, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_stays_between_its_bounds),
        cmocka_unit_test(one_that_was_too_short_is_longer_the_next_time_and_for_about_a_hundred_more),
        cmocka_unit_test(it_finds_out_how_long_kafka_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
