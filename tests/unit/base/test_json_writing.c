/* The promises of base/json.h about writing: any bytes become JSON that reads back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/json.h"
#include "support/rigs/json_rig.h"

static void assert_written(const char *p, size_t n, const char *want)
{
    struct dt_strbuf sb;
    dt_strbuf_init(&sb);
    dt_json_add_string(&sb, (struct dt_str){p, n});
    assert_string_equal(sb.p, want);
    dt_strbuf_clear(&sb);
}

static void strings_are_written_quoted_and_escaped(void **state)
{
    (void)state;
    assert_written(NULL, 0, "\"\"");
    assert_written("plain \xc3\xa9\xf0\x9f\x98\x80/", 13, "\"plain \xc3\xa9\xf0\x9f\x98\x80/\"");
    assert_written("\"\\", 2, "\"\\\"\\\\\"");
    assert_written("\b\f\n\r\t\x01\x1f\0\x7f", 9, "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u0000\x7f\"");
}

static void bytes_that_are_not_utf8_become_replacement_characters(void **state)
{
    (void)state;
    assert_written("a\xff"
                   "b",
                   3,
                   "\"a\xef\xbf\xbd"
                   "b\"");
    assert_written("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_written("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void every_string_of_bytes_is_written_as_json_that_reads_back(void **state)
{
    struct dt_strbuf sb;
    dt_strbuf_init(&sb);
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char bytes[2] = {(char)a, (char)b};
            struct dt_str s = {bytes, 2};
            dt_strbuf_reset(&sb);
            dt_json_add_string(&sb, s);
            assert_int_equal(dt_json_parse(*state, dt_strbuf_str(&sb), NULL, NULL), DT_OK);
            if (dt_utf8_valid(s))
                assert_true(dt_str_eq(dt_json_root(*state)->str, s));
        }
    dt_strbuf_clear(&sb);
}

static void utf8_is_judged_at_every_length(void **state)
{
    (void)state;
    assert_true(dt_utf8_valid(DT_STR_NONE));
    assert_true(dt_utf8_valid(dt_str("0123456789abcdef\xc3\xa9")));
    assert_false(dt_utf8_valid(dt_str("0123456789abcdef\xc3")));
    assert_true(dt_utf8_valid(hold("\xc3\xa9", 2)));
    assert_true(dt_utf8_valid(hold("\xe2\x82\xac", 3)));
    assert_true(dt_utf8_valid(hold("\xf0\x9f\x98\x80", 4)));
    for (size_t n = 1; n < 4; n++)
        assert_false(dt_utf8_valid(hold("\xf0\x9f\x98\x80", n)));
    assert_false(dt_utf8_valid(hold("\xe2\x82\xac", 2)));
    assert_false(dt_utf8_valid(dt_str("0123456\xff"
                                      "89abcdef")));
    assert_true(dt_utf8_valid(dt_str("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\xf0\x90\x80\x80\xe0\xa0\x80\xc2\x80")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_written_quoted_and_escaped),
        cmocka_unit_test(bytes_that_are_not_utf8_become_replacement_characters),
        WITH_JSON(every_string_of_bytes_is_written_as_json_that_reads_back),
        cmocka_unit_test(utf8_is_judged_at_every_length),
    };

    return cmocka_run_group_tests(tests, NULL, free_held);
}
