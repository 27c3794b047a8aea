/* When a commit begins: what waits for company, and for exactly how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "work/commit_window.h"

static void a_row_that_finds_nothing_under_way_waits_for_nobody(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 0);
}

static void nothing_queued_is_no_reason_to_wake_up(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    assert_true(dt_commit_window_begin_at(&g, 0) == DT_COMMIT_WINDOW_NEVER);
    dt_commit_window_begun(&g, 1000);
    assert_true(dt_commit_window_begin_at(&g, 0) == DT_COMMIT_WINDOW_NEVER);
}

static void a_small_commit_waits_for_one_under_way_until_that_is_slow(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    dt_commit_window_begun(&g, 1000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 1000 + DT_COMMIT_WINDOW_SLOW_US);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_ROWS - 1), 1000 + DT_COMMIT_WINDOW_SLOW_US);
    dt_commit_window_begun(&g, 3000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 3000 + DT_COMMIT_WINDOW_HUNG_US);
}

static void a_large_one_overlaps(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    dt_commit_window_begun(&g, 1000);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_ROWS), 0);
}

static void beside_two_only_what_is_large_or_has_waited_begins(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_begun(&g, 1500);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_MANY - 1), 1500 + DT_COMMIT_WINDOW_HUNG_US);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_MANY), 0);
    dt_commit_window_ended(&g, 40, 1000, 3, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_ROWS), 0);
}

static void after_a_commit_the_clients_that_were_seen_are_waited_for(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_ended(&g, 8, 1000, 4, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, 4), 2500);
    assert_int_equal(dt_commit_window_begin_at(&g, 11), 2500);
    assert_int_equal(dt_commit_window_begin_at(&g, 12), 0);
}

static void one_client_alone_is_never_held_up(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_ended(&g, 1, 1000, 0, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 0);
}

static void the_wait_after_a_slow_commit_is_bounded(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_ended(&g, 8, 1000, 1, 10001000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 10001000 + DT_COMMIT_WINDOW_SLOW_US);
}

static void the_end_of_one_of_two_leaves_the_other_under_way(void **state)
{
    struct dt_commit_window g = {0};
    (void)state;
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_begun(&g, 1500);
    dt_commit_window_ended(&g, 40, 1000, 3, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, 3), 1500 + DT_COMMIT_WINDOW_SLOW_US);
    dt_commit_window_ended(&g, 40, 1500, 3, 2500);
    assert_int_equal(dt_commit_window_begin_at(&g, 3), 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_finds_nothing_under_way_waits_for_nobody),
        cmocka_unit_test(nothing_queued_is_no_reason_to_wake_up),
        cmocka_unit_test(a_small_commit_waits_for_one_under_way_until_that_is_slow),
        cmocka_unit_test(a_large_one_overlaps),
        cmocka_unit_test(beside_two_only_what_is_large_or_has_waited_begins),
        cmocka_unit_test(after_a_commit_the_clients_that_were_seen_are_waited_for),
        cmocka_unit_test(one_client_alone_is_never_held_up),
        cmocka_unit_test(the_wait_after_a_slow_commit_is_bounded),
        cmocka_unit_test(the_end_of_one_of_two_leaves_the_other_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
