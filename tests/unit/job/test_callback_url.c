/* The URL of a callback: what is taken, what is refused, and which URLs belong to one host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "job/callback/callback_url.h"

static void assert_taken(const char *text, const char *host, const char *key)
{
    struct dt_callback_url url;
    const char *wrong = dt_callback_url_check(dt_str(text), &url);
    if (wrong)
        fail_msg("%s %s", text, wrong);
    assert_string_equal(url.host, host);
    assert_string_equal(url.key, key);
}

static void urls_of_one_host_have_one_key(void **state)
{
    static const char *const rows[][3] = {
        {"http://example.com", "example.com", "http://example.com:80"},
        {"http://example.com:80/", "example.com", "http://example.com:80"},
        {"HTTP://Example.COM./a?b=c", "example.com", "http://example.com:80"},
        {"http://example.com:", "example.com", "http://example.com:80"},
        {"http://example.com?x", "example.com", "http://example.com:80"},
        {"http://example.com:080", "example.com", "http://example.com:80"},
        {"https://example.com", "example.com", "https://example.com:443"},
        {"https://example.com:8443/x/../y", "example.com", "https://example.com:8443"},
        {"http://a_b-c.x1:65535/%41", "a_b-c.x1", "http://a_b-c.x1:65535"},
        {"http://localhost:1", "localhost", "http://localhost:1"},
        {"http://127.0.0.1", "127.0.0.1", "http://127.0.0.1:80"},
        {"http://[::1]:81/", "::1", "http://[::1]:81"},
        {"http://[0:0:0:0:0:0:0:1]:81/", "::1", "http://[::1]:81"},
        {"https://[FE80::A]", "fe80::a", "https://[fe80::a]:443"},
        {"http://xn--bcher-kva.example", "xn--bcher-kva.example", "http://xn--bcher-kva.example:80"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_taken(rows[i][0], rows[i][1], rows[i][2]);
}

static void what_two_programs_could_read_differently_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "example.com",
        "//example.com",
        "http:/example.com",
        "http:example.com",
        "http://",
        "http:///x",
        "http://.",
        "http://:80",
        "ftp://example.com",
        "file:///etc/passwd",
        "gopher://example.com",
        "javascript:x",
        " http://example.com",
        "http://example.com ",
        "http://exa mple.com",
        "http://example.com/\r\nx: y",
        "http://example.com\\@evil.example",
        "http://user@example.com",
        "http://user:pass@example.com",
        "http://@example.com",
        "http://example.com#@evil.example",
        "http://example.com/#",
        "http://example.com/%",
        "http://example.com/%4",
        "http://example.com/%zz",
        "http://ex%61mple.com",
        "http://ex\xc3\xa4mple.com",
        "http://example..com",
        "http://-example.com",
        "http://example-.com",
        "http://example.com:0",
        "http://example.com:65536",
        "http://example.com:+80",
        "http://example.com:8o",
        "http://example.com:80:80",
        "http://127.1",
        "http://2130706433",
        "http://0x7f000001",
        "http://0X7F.1",
        "http://0x",
        "http://010.0.0.1",
        "http://1.2.3.4.5",
        "http://256.1.1.1",
        "http://127.0.0.1./x",
        "http://[::1",
        "http://[::1]x",
        "http://[::1%25eth0]",
        "http://[127.0.0.1]",
        "http://[]",
        "http://::1/",
        "http://example.com/a[b]",
        "http://example.com/<x>",
        "http://example.com/\"x\"",
        "http://example.com/\x7f",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (!dt_callback_url_check(dt_str(texts[i]), NULL))
            fail_msg("\"%s\" is taken", texts[i]);
    assert_non_null(dt_callback_url_check((struct dt_str){"http://a\0b/", 11}, NULL));
}

static void a_url_has_2000_bytes_at_most_and_a_label_63(void **state)
{
    char text[2100];
    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text, "http://example.com/", strlen("http://example.com/"));
    assert_null(dt_callback_url_check((struct dt_str){text, 2000}, NULL));
    assert_non_null(dt_callback_url_check((struct dt_str){text, 2001}, NULL));
    memset(text, 'a', sizeof(text));
    memcpy(text, "http://", strlen("http://"));
    assert_null(dt_callback_url_check((struct dt_str){text, 7 + 63}, NULL));
    assert_non_null(dt_callback_url_check((struct dt_str){text, 7 + 64}, NULL));
    for (size_t i = 7 + 50; i < sizeof(text); i += 50)
        text[i] = '.';
    assert_null(dt_callback_url_check((struct dt_str){text, 7 + 253}, NULL));
    assert_non_null(dt_callback_url_check((struct dt_str){text, 7 + 254}, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_of_one_host_have_one_key),
        cmocka_unit_test(what_two_programs_could_read_differently_is_refused),
        cmocka_unit_test(a_url_has_2000_bytes_at_most_and_a_label_63),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
