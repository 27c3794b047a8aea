/* The promises of base/text/json_write.h: commas come by themselves, and any bytes become JSON that reads back. */

#include "base/text/json_write.h"
#include "support/rigs/json_rig.h"

static void assert_written(const char *p, size_t n, const char *want)
{
    STRBUF(sb);
    dt_json_add_string(&sb, (struct dt_str){p, n});
    assert_string_equal(sb.p, want);
}

TEST(strings_are_written_quoted_and_escaped)
{
    assert_written(NULL, 0, "\"\"");
    assert_written("plain \xc3\xa9\xf0\x9f\x98\x80/", 13, "\"plain \xc3\xa9\xf0\x9f\x98\x80/\"");
    assert_written("\"\\", 2, "\"\\\"\\\\\"");
    assert_written("\b\f\n\r\t\x01\x1f\0\x7f", 9, "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u0000\x7f\"");
}

TEST(bytes_that_are_not_utf8_become_replacement_characters)
{
    assert_written("a\xff"
                   "b",
                   3,
                   "\"a\xef\xbf\xbd"
                   "b\"");
    assert_written("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    assert_written("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
}

JSON_TEST(every_string_of_bytes_is_written_as_json_that_reads_back)
{
    STRBUF(sb);
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char bytes[2] = {(char)a, (char)b};
            struct dt_str s = {bytes, 2};
            dt_strbuf_reset(&sb);
            dt_json_add_string(&sb, s);
            assert_int_equal(dt_json_parse(json, dt_strbuf_str(&sb), NULL, NULL), DT_OK);
            if (dt_utf8_valid(s))
                assert_true(dt_str_eq(dt_json_root(json)->str, s));
        }
}

TEST(utf8_is_checked_at_every_length)
{
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

JSON_TEST(commas_are_written_only_between_values)
{
    const int64_t ints[] = {1, INT64_MIN};
    STRBUF(sb);
    dt_json_begin_object(&sb, NULL);
    dt_json_begin_object(&sb, "empty");
    dt_json_end_object(&sb);
    dt_json_begin_array(&sb, "list");
    dt_json_begin_array(&sb, NULL);
    dt_json_end_array(&sb);
    dt_json_put_null(&sb, NULL);
    dt_json_put_string(&sb, NULL, dt_str("{"));
    dt_json_put_bool(&sb, NULL, true);
    dt_json_put_ints(&sb, NULL, ints, 2);
    DT_JSON_PUT_ROW(&sb, 2, 3, 4);
    dt_json_begin_object(&sb, NULL);
    dt_json_put_key(&sb, dt_str("\"n\""));
    dt_json_put_int(&sb, NULL, -5);
    dt_json_put_raw(&sb, "raw", dt_str("[ 1 ]"));
    dt_json_end_object(&sb);
    dt_json_put_double(&sb, NULL, 4, 0.123456);
    dt_json_end_array(&sb);
    dt_json_put_word(&sb, "last", ":");
    dt_json_end_object(&sb);
    assert_string_equal(sb.p, "{\"empty\":{},\"list\":[[],null,\"{\",true,[1,-9223372036854775808],[2,3,4],"
                              "{\"\\\"n\\\"\":-5,\"raw\":[ 1 ]},0.1235],\"last\":\":\"}");
    assert_int_equal(dt_json_parse(json, dt_strbuf_str(&sb), NULL, NULL), DT_OK);
}

TEST(absent_values_are_written_as_null_or_left_out)
{
    STRBUF(sb);
    dt_json_put_given(&sb, "left_out", DT_STR_NONE);
    assert_int_equal(sb.n, 0);
    dt_json_put_given(&sb, NULL, dt_str(""));
    dt_json_put_string(&sb, NULL, DT_STR_NONE);
    dt_json_put_filled(&sb, NULL, dt_str(""));
    dt_json_put_word(&sb, NULL, NULL);
    dt_json_put_time(&sb, NULL, 0);
    dt_json_put_time(&sb, NULL, 1);
    dt_json_put_duration(&sb, NULL, 0);
    dt_json_put_duration_or_null(&sb, NULL, false, 1);
    dt_json_put_int_or_null(&sb, NULL, false, 1);
    dt_json_put_id(&sb, NULL, 7);
    dt_json_put_base64(&sb, NULL, dt_str("abcd"));
    dt_json_put_hex(&sb, NULL, dt_str("a\xff"));
    assert_string_equal(sb.p, "\"\",null,null,null,null,\"1970-01-01T00:00:00.001Z\",\"PT0S\",null,null,\"7\","
                              "\"YWJjZA==\",\"61FF\"");
}

TEST(texts_are_cut_between_characters)
{
    const struct dt_str text = DT_STR_LIT("a\xe2\x82\xac");
    STRBUF(sb);
    for (size_t most = 0; most <= 5; most++)
        dt_json_put_cut(&sb, NULL, text, most);
    dt_json_put_cut(&sb, NULL, DT_STR_NONE, 0);
    assert_string_equal(sb.p, "\"\",\"a\",\"a\",\"a\",\"a\xe2\x82\xac\",\"a\xe2\x82\xac\",null");
}

TEST(a_failed_buffer_stays_unchanged)
{
    STRBUF(sb);
    dt_json_begin_object(&sb, NULL);
    sb.failed = true;
    dt_json_put_int(&sb, "n", 1);
    dt_json_put_time(&sb, "at", 1);
    dt_json_end_object(&sb);
    assert_string_equal(sb.p, "{");
}

SUITE(NULL, free_held)
