/* The promises of base/text/json.h about texts that are no JSON: they are refused, at their own byte. */

#include "support/rigs/json_rig.h"

JSON_TEST(malformed_texts_are_refused)
{
    static const char *const cases[] = {
        "",
        " ",
        "\n",
        "{",
        "}",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{'a':1}",
        "{1:2}",
        "{\"a\":1]",
        "[1}",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u\"",
        "tru",
        "truee",
        "True",
        "nul",
        "nulll",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1.e5",
        "1e",
        "1e+",
        "0x10",
        "1_0",
        "--1",
        "1 2",
        "{} {}",
        "[] x",
        "1,",
        "null null",
        "[]\"",
        "1 \"a",
        "\"a\" \"",
        "{} \"\\",
        "{}}",
        "\"a\nb\"",
        "\"a\tb\"",
        "\"a\x01\"",
        "/* c */ 1",
        "1 // c",
        "# c",
        "\xef\xbb\xbf{}",
        "[1,\v2]",
        "\f[]",
        "[\"a\",\"b\"",
        "\\u0041",
        "{\"a\":{\"b\":[{\"c\":1}]}",
        "\"\\",
        "\"\\u",
        "\"\\ud83d",
        "[1,2,3",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dt_error err = {0};
        dt_status status = dt_json_parse(json, hold(cases[i], strlen(cases[i])), NULL, &err);
        if (status != DT_MALFORMED)
            fail_msg("\"%s\" gives %s", cases[i], dt_status_name(status));
        assert_non_null(strstr(err.text, " at byte "));
        assert_null(strchr(err.text, '\n'));
        assert_null(dt_json_root(json));
    }
}

/* The first fault of each, at the '^' that is taken out; at the end without one. */
JSON_TEST(a_fault_is_reported_at_its_own_byte)
{
    static const char *const cases[] = {
        "{\"a\":1,\"b\":^tru,\"c\":[1,2,3,4,5,6,7,8,9,10],\"d\":\"a long text behind it\"}",
        "nul^",
        "[1, ^falsy, 2]",
        "[^True]",
        "[1,^]",
        "[1 ^2]",
        "{\"a\" ^1}",
        "{\"a\":^}",
        "{^a:1}",
        "{\"a\":1,^}",
        "{\"a\":1^]",
        "[1,2^}",
        "[^-]x",
        "[^01]",
        "[^1.]",
        "[^1e+ ]",
        "[1E5, -1.5E-2, 2e3, ^tru]", /* numbers before it are no fault, however they are written */
        "[^1E]",
        "[^.5]",
        "[^+1]",
        "\"abc^\\q\" ",
        "[\"abc^\\u12x4\"]",
        "[\"a^\\ud800\", \"b\"]",
        "[\"a^\\udc00\", nul]",
        "[\"a^\tb\"]",
        "[1,^\v2]",
        "[\"a^\x80\", nul]",
        "[^nul, \"\x80\"]",
        "{\"a\":1,^\"a\":2,\"b\":\"\x80\"}",
        "{\"a\":{\"b\":1,^\"b\":2},\"c\":nul}",
        "{\"a\":1} ^x",
        "1 ^\"",
        "[1]^]",
        "{\"a\":1,\"b\":tr^",
        "[\"abc^",
        "[\"abc\\^",
        "[1,2^",
        "{\"a\"^",
        "{^",
        "[[[[[[[[[[[[[[[[^[1]]]]]]]]]]]]]]]]]",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dt_error err = {0};
        char text[200], expected[40];
        const char *mark = strchr(cases[i], '^');
        size_t at = (size_t)(mark - cases[i]);
        memcpy(text, cases[i], at);
        strcpy(text + at, mark + 1);
        snprintf(expected, sizeof expected, " at byte %zu", at);
        assert_int_equal(dt_json_parse(json, hold(text, strlen(text)), NULL, &err), DT_MALFORMED);
        if (!strstr(err.text, expected) || strcmp(strstr(err.text, expected), expected) != 0)
            fail_msg("%s: \"%s\", not%s", cases[i], err.text, expected);
    }
}

/* Whatever byte of a text is changed, its fault, if any, is not told before the token that the byte is part of. */
JSON_TEST(a_fault_is_not_reported_before_its_byte_was_read)
{
    static const char whole[] = "{\"a\":[1,-2.5e3,true,null],\"b\\n\":{\"c\":\"\\ud83d\\ude00 \xc3\xa4\"},\"d\":false}";
    static const unsigned char others[] = {0,   '"', '\\', '{', '}', '[',  ']',  ',',
                                           ':', 'x', '0',  '-', ' ', '\v', 0x80, 0xff};
    const size_t n = sizeof whole - 1, longest = 12;
    for (size_t k = 0; k <= n; k++)
        for (size_t i = 0; i < sizeof others; i++) {
            struct dt_error err = {0};
            char text[sizeof whole];
            size_t at;
            memcpy(text, whole, sizeof whole);
            text[k < n ? k : 0] = k < n ? (char)others[i] : text[0];
            if (dt_json_parse(json, hold(text, k < n ? n : n - 1 - i), NULL, &err) == DT_OK)
                continue;
            assert_int_equal(sscanf(strrchr(err.text, ' '), "%zu", &at), 1);
            assert_true(at <= n);
            if (at + longest < k && (k < n || at + 3 < n - 1 - i))
                fail_msg("%.*s: %s; changed at %zu", (int)n, text, err.text, k);
        }
}

JSON_TEST(a_nul_in_the_text_is_refused)
{
    assert_int_equal(dt_json_parse(json, hold("1\0", 2), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(json, hold("\"a\0b\"", 5), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(json, hold("\0", 1), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(json, DT_STR_NONE, NULL, NULL), DT_MALFORMED);
}

JSON_TEST(text_that_is_not_utf8_is_refused)
{
    static const char *const cases[] = {
        "\"\x80\"",
        "\"\xbf\"",
        "\"\xc3\"",
        "\"\xc3(\"",
        "\"\xc0\x80\"",
        "\"\xc1\xbf\"",
        "\"\xe0\x80\x80\"",
        "\"\xe0\x9f\xbf\"",
        "\"\xed\xa0\x80\"",
        "\"\xed\xbf\xbf\"",
        "\"\xe2\x82\"",
        "\"\xf0\x80\x80\x80\"",
        "\"\xf0\x8f\xbf\xbf\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xf5\x80\x80\x80\"",
        "\"\xe1(\x80\"",
        "\"\xe1\x80(\"",
        "\"\xf1(\x80\x80\"",
        "\"\xf1\x80(\x80\"",
        "\"\xf1\x80\x80(\"",
        "\"\xff\"",
        "\"\xfe\"",
        "\"\xf0\x9f\x98\"",
        "{\"\xff\":1}",
        "[\"good\", \"12345678\xe9\"]",
        "\xff",
        "1 \xc3",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(parse(json, cases[i], NULL), DT_MALFORMED);
}

JSON_TEST(escaped_surrogates_without_their_partner_are_refused)
{
    static const char *const cases[] = {
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\udfff\"",
        "\"\\udbffx\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\\ud83d\\\\ude00\"",
        "\"\\ud83d\\n\"",
        "{\"\\ud800\":1}",
        "{\"payload\":\"\\uDEAD\"}",
        "\"\\\\\\ud800\"",
        "\"\\ud83d\\ude00\\ud83d\"",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dt_error err = {0};
        assert_int_equal(dt_json_parse(json, hold(cases[i], strlen(cases[i])), NULL, &err), DT_MALFORMED);
        assert_non_null(strstr(err.text, "surrogate"));
    }
}

JSON_TEST(duplicate_members_are_refused)
{
    static const char *const cases[] = {
        "{\"a\":1,\"a\":1}",
        "{\"\":1,\"\":2}",
        "{\"a\":1,\"b\":2,\"c\":3,\"a\":4}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\\u0061\":1,\"a\":2}",
        "{\"o\":{\"x\":1,\"x\":2}}",
        "[{\"a\":{}},{\"a\":1,\"b\":{\"a\":1},\"a\":2}]",
        "{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1}],\"a\":1}",
        "{\"a\\u0000\":1,\"a\\u0000\":2}",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dt_error err = {0};
        assert_int_equal(dt_json_parse(json, hold(cases[i], strlen(cases[i])), NULL, &err), DT_MALFORMED);
        assert_non_null(strstr(err.text, "a duplicate member"));
    }
}

JSON_TEST(the_same_name_in_different_objects_is_fine)
{
    parsed(json, "{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}],\"c\":{\"a\":1},\"A\":1,\"a\\u0000\":1}");
}

JSON_TEST(a_repeated_member_is_found_among_very_many)
{
    STRBUF(sb);
    for (int twice = 0; twice <= 1; twice++) {
        dt_strbuf_reset(&sb);
        dt_strbuf_addc(&sb, '{');
        for (int i = 0; i < 60000; i++)
            dt_strbuf_addf(&sb, "%s\"m%d\":{\"m%d\":%d}", i ? "," : "", i, i, i);
        dt_strbuf_adds(&sb, twice ? ",\"m31415\":0}" : "}");
        assert_int_equal(dt_json_parse(json, dt_strbuf_str(&sb), NULL, NULL), twice ? DT_MALFORMED : DT_OK);
        if (!twice) {
            assert_int_equal(dt_json_root(json)->n, 60000);
            assert_int_equal(dt_json_member(json, dt_json_member(json, dt_json_root(json), "m59999"), "m59999")->i,
                             59999);
        }
    }
}

SUITE(NULL, free_held)
