/* The URL of a callback: what is taken, what is refused, and which URLs belong to one host. */

#include "support/suite.h"

#include "base/http/callback_rules.h"

static void assert_taken(const char *text, const char *host, const char *key)
{
    struct dt_callback_url url;
    const char *wrong = dt_callback_url_check(dt_str(text), &url);
    if (wrong)
        fail_msg("%s %s", text, wrong);
    assert_string_equal(url.host, host);
    assert_string_equal(url.key, key);
}

TEST(urls_of_one_host_have_one_key)
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
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_taken(rows[i][0], rows[i][1], rows[i][2]);
}

TEST(a_url_that_two_programs_could_read_differently_is_refused)
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
        "http:////example.com",
        "http:///[::1]",
        "http:\\\\example.com",
        "http://example.com\t",
        "http://example.com%2f@evil.example",
        "http://evil.example%00.example.com",
        "http://127.0.0.1%2f.example.com",
        "http://127.0.0.1%2eexample.com",
        "http://127%2e0.0.1",
        "http://0177.0.0.01",
        "http://0x7f.0.0.0x1",
        "http://127.0x1",
        "http://1.2.3.0x4",
        "http://08.1.1.1",
        "http://0",
        "http://4294967296",
        "http://1.2.3.",
        "http://example.1",
        "http://[fe80::1%eth0]",
        "http://[fe80::1%251]:80/",
        "http://[v1.x]",
        "http://[::ffff:010.0.0.1]",
        "http://[::1]@evil.example",
        "http://[::1]evil.example",
        "http://[example.com]",
        "http://a[::1]",
        "http://example.com:00000080",
        "http://example.com:8_0",
        "http://example.com:80%30",
        "http://example.com:80@evil.example",
        "http://a;b.example",
        "http://a,b.example",
        "http://a*b.example",
        "http://a'b.example",
        "http://a=b&c.example",
        "http://xn--.example",
        "http://\xe2\x91\xa0\xe2\x91\xa1.example",
        "http://example\xe3\x80\x82"
        "com",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (!dt_callback_url_check(dt_str(texts[i]), NULL))
            fail_msg("\"%s\" is taken", texts[i]);
    assert_non_null(dt_callback_url_check((struct dt_str){"http://a\0b/", 11}, NULL));
}

TEST(the_reason_of_a_refusal_names_the_faulty_part_of_the_url)
{
    static const char *const rows[][2] = {
        {"example.com", "must begin with http:// or https://"},
        {"http:///x", "has no host"},
        {"http://:80", "has no host"},
        {"http://a b", "has a character that must be percent-encoded"},
        {"http://a/#", "has a fragment, which is never sent"},
        {"http://a/%4", "has a % without two hexadecimal digits"},
        {"http://u@a", "must not have user information"},
        {"http://a:0", "must have a port from 1 to 65535"},
        {"http://a:65536", "must have a port from 1 to 65535"},
        {"http://a..b", "has no host name that can be resolved"},
        {"http://ex%61mple.com", "has no host name that can be resolved"},
        {"http://127.1", "has a numeric host that is not an IPv4 address of four decimal parts"},
        {"http://[::1%25eth0]", "has brackets without an IPv6 address"},
        {"http://a/[b]", "has a bracket that must be percent-encoded"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *wrong = dt_callback_url_check(dt_str(rows[i][0]), NULL);
        assert_non_null(wrong);
        assert_string_equal(wrong, rows[i][1]);
    }
}

TEST(a_url_has_2000_bytes_at_most_and_a_label_63)
{
    char text[2100];
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

SUITE(NULL, NULL)
