/* Whether a thread of the HTTP server hangs: the test counts its calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/http_mhd.h"

static void a_thread_at_rest_moves(void **state)
{
    struct dt_mhd_thread thread = {.entered = 7, .left = 7};
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(dt_mhd_moves(&thread));
}

static void a_thread_that_is_in_another_call_each_time_moves(void **state)
{
    struct dt_mhd_thread thread = {0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        thread.entered++;
        assert_true(dt_mhd_moves(&thread));
        thread.left++;
    }
}

static void a_thread_in_one_call_from_look_to_look_hangs_until_it_leaves(void **state)
{
    struct dt_mhd_thread thread = {.entered = 3, .left = 2};
    (void)state;
    assert_true(dt_mhd_moves(&thread));
    assert_false(dt_mhd_moves(&thread));
    assert_false(dt_mhd_moves(&thread));
    thread.left++;
    assert_true(dt_mhd_moves(&thread));
    thread.entered++;
    assert_true(dt_mhd_moves(&thread));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_at_rest_moves),
        cmocka_unit_test(a_thread_that_is_in_another_call_each_time_moves),
        cmocka_unit_test(a_thread_in_one_call_from_look_to_look_hangs_until_it_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
