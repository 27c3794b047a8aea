/* When a commit begins: what waits for company, and for exactly how long. */

#include "support/suite.h"

#include "intake/committer.h"

TEST(a_row_is_committed_at_once_if_no_commit_runs)
{
    struct dt_commit_window g = {0};
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 0);
}

TEST(with_an_empty_queue_no_commit_is_due)
{
    struct dt_commit_window g = {0};
    assert_true(dt_commit_window_begin_at(&g, 0) == DT_COMMIT_WINDOW_NEVER);
    dt_commit_window_begun(&g, 1000);
    assert_true(dt_commit_window_begin_at(&g, 0) == DT_COMMIT_WINDOW_NEVER);
}

TEST(a_small_commit_waits_for_a_running_one_unless_that_is_slow)
{
    struct dt_commit_window g = {0};
    dt_commit_window_begun(&g, 1000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 1000 + DT_COMMIT_WINDOW_SLOW_US);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_ROWS - 1), 1000 + DT_COMMIT_WINDOW_SLOW_US);
    dt_commit_window_begun(&g, 3000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 3000 + DT_COMMIT_WINDOW_HUNG_US);
}

TEST(a_large_commit_overlaps_a_running_one)
{
    struct dt_commit_window g = {0};
    dt_commit_window_begun(&g, 1000);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_ROWS), 0);
}

TEST(while_two_commits_run_a_third_begins_only_if_it_is_large_or_late)
{
    struct dt_commit_window g = {0};
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_begun(&g, 1500);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_MANY - 1), 1500 + DT_COMMIT_WINDOW_HUNG_US);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_MANY), 0);
    dt_commit_window_ended(&g, 40, 1000, 3, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, DT_COMMIT_WINDOW_ROWS), 0);
}

TEST(after_a_commit_the_window_waits_for_known_clients)
{
    struct dt_commit_window g = {0};
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_ended(&g, 8, 1000, 4, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, 4), 2500);
    assert_int_equal(dt_commit_window_begin_at(&g, 11), 2500);
    assert_int_equal(dt_commit_window_begin_at(&g, 12), 0);
}

TEST(a_single_client_is_never_delayed)
{
    struct dt_commit_window g = {0};
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_ended(&g, 1, 1000, 0, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 0);
}

TEST(the_wait_after_a_slow_commit_is_bounded)
{
    struct dt_commit_window g = {0};
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_ended(&g, 8, 1000, 1, 10001000);
    assert_int_equal(dt_commit_window_begin_at(&g, 1), 10001000 + DT_COMMIT_WINDOW_SLOW_US);
}

TEST(the_end_of_one_commit_does_not_end_the_other)
{
    struct dt_commit_window g = {0};
    dt_commit_window_begun(&g, 1000);
    dt_commit_window_begun(&g, 1500);
    dt_commit_window_ended(&g, 40, 1000, 3, 2000);
    assert_int_equal(dt_commit_window_begin_at(&g, 3), 1500 + DT_COMMIT_WINDOW_SLOW_US);
    dt_commit_window_ended(&g, 40, 1500, 3, 2500);
    assert_int_equal(dt_commit_window_begin_at(&g, 3), 3000);
}
