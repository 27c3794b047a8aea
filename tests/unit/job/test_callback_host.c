/* Hosts that callbacks may go to, and URLs with others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "job/callback/callback_host.h"

static void names_restrict_hosts(void **state)
{
    struct dt_str names = DT_STR_LIT("hooks.example.com, *.Example.org ,127.0.0.1,::1");
    (void)state;
    assert_int_equal(dt_host_names_check(names, NULL), DT_OK);
    assert_true(dt_host_allowed(DT_STR_LIT(""), "anything"));
    assert_true(dt_host_allowed(DT_STR_LIT("  "), "anything"));
    assert_true(dt_host_allowed(names, "hooks.example.com"));
    assert_false(dt_host_allowed(names, "example.com"));
    assert_false(dt_host_allowed(names, "a.hooks.example.com"));
    assert_true(dt_host_allowed(names, "a.example.org"));
    assert_true(dt_host_allowed(names, "a.b.example.org"));
    assert_false(dt_host_allowed(names, "example.org"));
    assert_false(dt_host_allowed(names, "badexample.org"));
    assert_false(dt_host_allowed(names, "example.org.evil.com"));
    assert_true(dt_host_allowed(names, "127.0.0.1"));
    assert_true(dt_host_allowed(names, "::1"));
}

static void a_list_of_names_has_names_only(void **state)
{
    struct dt_error err = {0};
    (void)state;
    assert_int_equal(dt_host_names_check(DT_STR_LIT(""), &err), DT_OK);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("a,,b"), &err), DT_INVALID);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("*"), &err), DT_INVALID);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("a*.b"), &err), DT_INVALID);
    assert_int_equal(dt_host_names_check(DT_STR_LIT("http://a"), &err), DT_INVALID);
    assert_non_null(strstr(err.text, "\"http://a\""));
}

static void a_url_is_refused_for_what_it_is_or_for_its_host(void **state)
{
    struct dt_str names = DT_STR_LIT("*.example.org");
    (void)state;
    assert_null(dt_callback_url_refusal(DT_STR_LIT("https://A.Example.org./x"), names));
    assert_null(dt_callback_url_refusal(DT_STR_LIT("https://example.com/"), DT_STR_NONE));
    assert_non_null(
        strstr(dt_callback_url_refusal(DT_STR_LIT("https://example.com/"), names), "callbacks.allow_hosts"));
    assert_null(strstr(dt_callback_url_refusal(DT_STR_LIT("ftp://a.example.org/"), names), "callbacks.allow_hosts"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_restrict_hosts),
        cmocka_unit_test(a_list_of_names_has_names_only),
        cmocka_unit_test(a_url_is_refused_for_what_it_is_or_for_its_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
