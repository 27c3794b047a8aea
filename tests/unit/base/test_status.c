/* The status table and the way errors are filled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

static void every_status_has_a_name_a_text_and_a_class(void **state)
{
    (void)state;
#define X(name, cls, text)                                                                                             \
    assert_string_equal(dt_status_name(DT_##name), #name);                                                             \
    assert_string_equal(dt_status_text(DT_##name), text);                                                              \
    assert_int_equal(dt_status_class(DT_##name), DT_CLASS_##cls);
    DT_STATUS_MAP(X)
#undef X
}

static void only_ok_is_zero_and_only_ok_has_no_class(void **state)
{
    (void)state;
    assert_int_equal(DT_OK, 0);
#define X(name, cls, text) assert_int_equal(dt_status_class(DT_##name) == DT_CLASS_NONE, DT_##name == DT_OK);
    DT_STATUS_MAP(X)
#undef X
}

static void a_number_that_is_no_status_reads_as_internal(void **state)
{
    (void)state;
    assert_string_equal(dt_status_name((dt_status)9999), "INTERNAL");
    assert_string_equal(dt_status_text((dt_status)-1), "internal error");
    assert_int_equal(dt_status_class((dt_status)9999), DT_CLASS_FATAL);
}

static void fail_fills_the_error_and_returns_the_status(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(dt_fail(&err, DT_BUSY, "row %d of %s", 7, "jobs"), DT_BUSY);
    assert_int_equal(err.status, DT_BUSY);
    assert_string_equal(err.text, "row 7 of jobs");
}

static void fail_without_an_error_only_returns_the_status(void **state)
{
    (void)state;
    assert_int_equal(dt_fail(NULL, DT_FULL, "%s", "unread"), DT_FULL);
}

static void a_text_that_is_too_long_is_cut_and_terminated(void **state)
{
    struct dt_error err;
    char text[1000];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(dt_fail(&err, DT_INVALID, "%s", text), DT_INVALID);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_a_text_and_a_class),
        cmocka_unit_test(only_ok_is_zero_and_only_ok_has_no_class),
        cmocka_unit_test(a_number_that_is_no_status_reads_as_internal),
        cmocka_unit_test(fail_fills_the_error_and_returns_the_status),
        cmocka_unit_test(fail_without_an_error_only_returns_the_status),
        cmocka_unit_test(a_text_that_is_too_long_is_cut_and_terminated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
