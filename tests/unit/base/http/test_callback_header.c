/* Headers that callers may add, and the secrets that sign. */
#include "support/suite.h"

#include "base/http/callback_rules.h"
#include "base/http/webhook.h"

TEST(header_names_that_duetime_or_the_connection_uses_are_refused)
{
    static const char *const names[] = {"ce-id",
                                        "CE-Foo",
                                        "ce-",
                                        "webhook-id",
                                        "Webhook-Signature",
                                        "idempotency-key",
                                        "Idempotency-Key",
                                        "content-type",
                                        "Content-Length",
                                        "content-anything",
                                        "host",
                                        "User-Agent",
                                        "connection",
                                        "Keep-Alive",
                                        "proxy-authorization",
                                        "Proxy-Connection",
                                        "te",
                                        "trailer",
                                        "Transfer-Encoding",
                                        "upgrade",
                                        "http2-settings",
                                        "expect",
                                        "",
                                        "a b",
                                        "a:b",
                                        ":path",
                                        "a\r",
                                        "\xc3\xa4",
                                        "a\tb",
                                        "(a)"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!dt_callback_header_name_check(dt_str(names[i])))
            fail_msg("\"%s\" is taken", names[i]);
    assert_non_null(dt_callback_header_name_check((struct dt_str){"a\0b", 3}));
}

TEST(other_header_names_are_accepted)
{
    static const char *const names[] = {"authorization", "X-Api-Key", "traceparent", "accept",
                                        "cookie",        "ce",        "webhook",     "hosts",
                                        "tee",           "x_y",       "contents",    "idempotency-keys"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (dt_callback_header_name_check(dt_str(names[i])))
            fail_msg("\"%s\" is refused", names[i]);
}

TEST(header_values_with_control_characters_are_refused)
{
    assert_null(dt_callback_header_value_check(dt_str("Bearer a b, c; \"d\"")));
    assert_null(dt_callback_header_value_check(dt_str("")));
    assert_null(dt_callback_header_value_check(dt_str("\xc3\xa4")));
    assert_non_null(dt_callback_header_value_check(dt_str("a\r\nb: c")));
    assert_non_null(dt_callback_header_value_check(dt_str("a\tb")));
    assert_non_null(dt_callback_header_value_check(dt_str("\x7f")));
    assert_non_null(dt_callback_header_value_check((struct dt_str){"a\0", 2}));
}

TEST(one_secret_or_two_are_read)
{
    struct dt_callback_secret secret;
    assert_null(dt_callback_secret_read(dt_str("whsec_QUJD"), &secret));
    assert_int_equal(secret.n, 1);
    assert_int_equal(secret.keys[0].n, 3);
    assert_memory_equal(secret.keys[0].bytes, "ABC", 3);
    assert_null(dt_callback_secret_read(dt_str("whsec_QUJD whsec_REU="), &secret));
    assert_int_equal(secret.n, 2);
    assert_int_equal(secret.keys[1].n, 2);
    assert_memory_equal(secret.keys[1].bytes, "DE", 2);
    assert_null(dt_callback_secret_read(dt_str("whsec_QQ=="), &secret)); /* the shortest */
    assert_int_equal(secret.keys[0].n, 1);
    dt_callback_secret_wipe(&secret);
    assert_int_equal(secret.n, 0);
    assert_int_equal(secret.keys[1].bytes[0], 0);
}

TEST(an_invalid_secret_is_refused)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "whsec_",
                                        "QUJD",
                                        "whsec_QUJ",
                                        "whsec_REU",
                                        "whsec_Q!JD",
                                        "WHSEC_QUJD",
                                        "whsec_QUJD ",
                                        " whsec_QUJD",
                                        "whsec_QUJD  whsec_QUJD",
                                        "whsec_QUJD whsec_QUJD whsec_QUJD",
                                        "whsec_QUJD,whsec_QUJD",
                                        "***"};
    struct dt_callback_secret secret;
    char longest[6 + 256 + 4 + 1] = "whsec_";
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (!dt_callback_secret_read(dt_str(texts[i]), &secret))
            fail_msg("\"%s\" is taken", texts[i]);
    memset(longest + 6, 'A', 256 + 4);
    assert_null(dt_callback_secret_read((struct dt_str){longest, 6 + 256}, &secret));
    assert_non_null(dt_callback_secret_read((struct dt_str){longest, 6 + 256 + 4}, &secret));
}

SUITE(NULL, NULL)
