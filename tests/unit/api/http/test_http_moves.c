/* Whether a thread of the HTTP server hangs: the test counts its calls. */
#include "support/suite.h"

#include "http/http_mhd.h"

TEST(a_thread_at_rest_moves)
{
    struct dt_mhd_thread thread = {.entered = 7, .left = 7};
    for (int i = 0; i < 3; i++)
        assert_true(dt_mhd_moves(&thread));
}

TEST(a_thread_that_enters_a_new_call_between_checks_is_not_stuck)
{
    struct dt_mhd_thread thread = {0};
    for (int i = 0; i < 3; i++) {
        thread.entered++;
        assert_true(dt_mhd_moves(&thread));
        thread.left++;
    }
}

TEST(a_thread_in_one_call_from_look_to_look_hangs_until_it_leaves)
{
    struct dt_mhd_thread thread = {.entered = 3, .left = 2};
    assert_true(dt_mhd_moves(&thread));
    assert_false(dt_mhd_moves(&thread));
    assert_false(dt_mhd_moves(&thread));
    thread.left++;
    assert_true(dt_mhd_moves(&thread));
    thread.entered++;
    assert_true(dt_mhd_moves(&thread));
}

SUITE(NULL, NULL)
