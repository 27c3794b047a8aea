/* JSON in and out: good input, bad input of every kind, raw text, limits, reuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"

static int open_json(void **state)
{
    dt_json *json;

    assert_int_equal(dt_json_new(&json), DT_OK);
    *state = json;
    return 0;
}

static int close_json(void **state)
{
    dt_json_free(*state);
    return 0;
}

/* The text lies at the end of an allocation, without a terminator, so that reading on is seen by the sanitizer. */
static char *held;

static struct dt_str hold(const void *p, size_t n)
{
    free(held);
    held = malloc(n ? n : 1);
    assert_non_null(held);
    memcpy(held, p, n);
    return (struct dt_str){held, n};
}

static dt_status parse(dt_json *json, const char *text, const struct dt_json_limits *limits)
{
    return dt_json_parse(json, hold(text, strlen(text)), limits, NULL);
}

static const struct dt_json_node *parsed(dt_json *json, const char *text)
{
    struct dt_error err = {0};

    if (dt_json_parse(json, hold(text, strlen(text)), NULL, &err))
        fail_msg("%s: %s", text, err.text);
    return dt_json_root(json);
}

/* ---- good input ---- */

static void scalars_have_their_types_and_values(void **state)
{
    dt_json *json = *state;

    assert_int_equal(parsed(json, "null")->type, DT_JSON_NULL);
    assert_int_equal(parsed(json, " true ")->type, DT_JSON_BOOL);
    assert_true(dt_json_root(json)->b);
    assert_false(parsed(json, "false")->b);
    assert_int_equal(parsed(json, "42")->type, DT_JSON_INT);
    assert_int_equal(dt_json_root(json)->i, 42);
    assert_int_equal(parsed(json, "\"x\"")->type, DT_JSON_STRING);
    assert_string_equal(dt_json_root(json)->str.p, "x");
    assert_int_equal(parsed(json, "[]")->type, DT_JSON_ARRAY);
    assert_int_equal(parsed(json, "{}")->type, DT_JSON_OBJECT);
}

static void integers_that_fit_are_integers_and_all_others_are_numbers(void **state)
{
    static const struct {
        const char *text;
        bool fits;
        int64_t i;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"-1", true, -1},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"123456789012345678901234567890", false, 0},
        {"1.0", false, 0},
        {"1e3", false, 0},
        {"1E400", false, 0},
        {"-0.5e-7", false, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct dt_json_node *root = parsed(*state, cases[i].text);

        assert_int_equal(root->type, cases[i].fits ? DT_JSON_INT : DT_JSON_NUMBER);
        assert_true(dt_str_is(root->str, cases[i].text));
        assert_true(dt_str_is(root->raw, cases[i].text));
        if (cases[i].fits)
            assert_int_equal(root->i, cases[i].i);
    }
}

static void members_are_found_by_name_and_walked_in_order(void **state)
{
    dt_json *json = *state;
    const struct dt_json_node *root = parsed(json, "{\"a\":1,\"b\":{\"a\":2,\"c\":[3,{}]},\"\":null}");
    const struct dt_json_node *child = dt_json_first(json, root);

    assert_int_equal(root->n, 3);
    assert_true(dt_str_is(child->name, "a"));
    child = dt_json_sibling(json, root, child);
    assert_true(dt_str_is(child->name, "b"));
    assert_int_equal(dt_json_member(json, child, "a")->i, 2);
    assert_int_equal(dt_json_member(json, child, "c")->n, 2);
    child = dt_json_sibling(json, root, child);
    assert_int_equal(child->name.n, 0);
    assert_int_equal(child->type, DT_JSON_NULL);
    assert_null(dt_json_sibling(json, root, child));
    assert_null(dt_json_member(json, root, "c"));
    assert_null(dt_json_member(json, child, "x"));
}

static void empty_containers_have_no_children(void **state)
{
    dt_json *json = *state;
    const struct dt_json_node *root = parsed(json, "[[],{},[ ]]");
    const struct dt_json_node *child = dt_json_first(json, root);

    for (int i = 0; i < 3; i++) {
        assert_null(dt_json_first(json, child));
        child = dt_json_sibling(json, root, child);
    }
    assert_null(child);
    assert_null(dt_json_at(json, root->next));
}

static void raw_text_is_the_callers_bytes(void **state)
{
    dt_json *json = *state;
    static const struct {
        const char *name, *raw;
    } cases[] = {
        {"s", "\"a\\u00e9\\n\\/\""},
        {"n", "-1.50e+02"},
        {"t", "true"},
        {"o", "{ \"x\" : [ 1 , 2 ] }"},
        {"a", "[ ]"},
        {"z", "null"},
        {"e\"", "\"\""},
        {"l", "0"},
    };
    const struct dt_json_node *root =
        parsed(json, " { \"s\"\t:\r\n\"a\\u00e9\\n\\/\" ,\"n\":-1.50e+02, \"t\" :true , \"o\": { \"x\" : [ 1 , 2 ] } "
                     ",\"a\":[ ],\"z\":null,\"e\\\"\":\"\",\"l\":0} ");

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct dt_json_node *node = dt_json_member(json, root, cases[i].name);

        assert_non_null(node);
        assert_true(dt_str_is(node->raw, cases[i].raw));
        assert_true(node->raw.p >= held);
    }
    assert_int_equal(root->raw.p - held, 1);
    assert_int_equal(root->raw.n, strlen(" { \"s\"\t:\r\n\"a\\u00e9\\n\\/\" ,\"n\":-1.50e+02, \"t\" :true , \"o\": { "
                                         "\"x\" : [ 1 , 2 ] } ,\"a\":[ ],\"z\":null,\"e\\\"\":\"\",\"l\":0} ") -
                                      2);
}

static void raw_text_of_every_element_is_exact_at_every_spacing(void **state)
{
    static const char *const spaces[] = {"", " ", "\n\t "};
    static const char *const values[] = {"1",    "\"a,b:c\"", "\"\\\"\"", "[1,2]", "{\"k\":[]}",
                                         "null", "true",      "1.5",      "-7"};
    dt_json *json = *state;
    char text[512];

    for (size_t s = 0; s < 3; s++) {
        size_t n = (size_t)snprintf(text, sizeof text, "[");
        const struct dt_json_node *child;

        for (size_t v = 0; v < 9; v++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%s%s", v ? "," : "", spaces[s], values[v], spaces[s]);
        snprintf(text + n, sizeof text - n, "]");
        child = dt_json_first(json, parsed(json, text));
        for (size_t v = 0; v < 9; v++, child = dt_json_sibling(json, dt_json_root(json), child))
            assert_true(dt_str_is(child->raw, values[v]));
    }
}

static void strings_are_decoded_and_terminated(void **state)
{
    static const struct {
        const char *text;
        const char *want;
        size_t n;
    } cases[] = {
        {"\"\"", "", 0},
        {"\"plain\"", "plain", 5},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac", 6},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4},
        {"\"\\uD800\\uDC00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8},
        {"\"a\\u0000b\"", "a\0b", 3},
        {"\"\xf0\x9f\x98\x80\x7f\"", "\xf0\x9f\x98\x80\x7f", 5},
        {"\"\\\\ud800\"", "\\ud800", 6},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct dt_json_node *root = parsed(*state, cases[i].text);

        assert_int_equal(root->str.n, cases[i].n);
        assert_memory_equal(root->str.p, cases[i].want, cases[i].n + 1);
    }
}

static void names_are_decoded_and_keep_a_nul(void **state)
{
    dt_json *json = *state;
    const struct dt_json_node *root = parsed(json, "{\"a\\u0000b\":1,\"\\u0061\":2}");

    assert_true(dt_str_eq(dt_json_first(json, root)->name, (struct dt_str){"a\0b", 3}));
    assert_int_equal(dt_json_member(json, root, "a")->i, 2);
}

/* ---- bad input ---- */

static void malformed_texts_are_refused(void **state)
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
        dt_status status = dt_json_parse(*state, hold(cases[i], strlen(cases[i])), NULL, &err);

        if (status != DT_MALFORMED)
            fail_msg("\"%s\" gives %s", cases[i], dt_status_name(status));
        assert_non_null(strstr(err.text, " at byte "));
        assert_null(strchr(err.text, '\n'));
        assert_null(dt_json_root(*state));
    }
}

/* The first fault of each, at the '^' that is taken out; at the end without one. */
static void a_fault_is_told_at_its_own_byte(void **state)
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
        assert_int_equal(dt_json_parse(*state, hold(text, strlen(text)), NULL, &err), DT_MALFORMED);
        if (!strstr(err.text, expected) || strcmp(strstr(err.text, expected), expected) != 0)
            fail_msg("%s: \"%s\", not%s", cases[i], err.text, expected);
    }
}

/* Whatever byte of a text is changed, its fault, if any, is not told before the token that the byte is part of. */
static void a_fault_is_never_told_before_it_can_be(void **state)
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
            if (dt_json_parse(*state, hold(text, k < n ? n : n - 1 - i), NULL, &err) == DT_OK)
                continue;
            assert_int_equal(sscanf(strrchr(err.text, ' '), "%zu", &at), 1);
            assert_true(at <= n);
            if (at + longest < k && (k < n || at + 3 < n - 1 - i))
                fail_msg("%.*s: %s; changed at %zu", (int)n, text, err.text, k);
        }
}

static void a_nul_in_the_text_is_refused(void **state)
{
    assert_int_equal(dt_json_parse(*state, hold("1\0", 2), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(*state, hold("\"a\0b\"", 5), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(*state, hold("\0", 1), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(*state, DT_STR_NONE, NULL, NULL), DT_MALFORMED);
}

static void text_that_is_not_utf8_is_refused(void **state)
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
        assert_int_equal(parse(*state, cases[i], NULL), DT_MALFORMED);
}

static void escaped_surrogates_without_their_partner_are_refused(void **state)
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

        assert_int_equal(dt_json_parse(*state, hold(cases[i], strlen(cases[i])), NULL, &err), DT_MALFORMED);
        assert_non_null(strstr(err.text, "surrogate"));
    }
}

static void members_that_are_there_twice_are_refused(void **state)
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

        assert_int_equal(dt_json_parse(*state, hold(cases[i], strlen(cases[i])), NULL, &err), DT_MALFORMED);
        assert_non_null(strstr(err.text, "twice"));
    }
}

static void the_same_name_in_different_objects_is_fine(void **state)
{
    parsed(*state, "{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}],\"c\":{\"a\":1},\"A\":1,\"a\\u0000\":1}");
}

static void a_repeated_member_is_found_among_very_many(void **state)
{
    dt_json *json = *state;
    struct dt_strbuf sb;

    dt_strbuf_init(&sb);
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
    dt_strbuf_clear(&sb);
}

/* ---- limits ---- */

static void nesting_to_the_limit_is_fine_and_one_more_is_refused(void **state)
{
    struct dt_json_limits limits = {.depth = 3};

    assert_int_equal(parse(*state, "[[[1]]]", &limits), DT_OK);
    assert_int_equal(parse(*state, "[[[[]]]]", &limits), DT_MALFORMED);
    assert_int_equal(parse(*state, "{\"a\":{\"a\":{\"a\":{}}}}", &limits), DT_MALFORMED);
    assert_int_equal(parse(*state, "[[[1]],[[2]],{\"a\":[]}]", &limits), DT_OK);
    assert_int_equal(parse(*state, "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", NULL), DT_OK); /* 16 */
    assert_int_equal(parse(*state, "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", NULL), DT_MALFORMED);
}

static void depth_counts_inside_opaque_members_too(void **state)
{
    struct dt_json_limits limits = {.depth = 3, .opaque = "payload"};

    assert_int_equal(parse(*state, "{\"payload\":[[1]]}", &limits), DT_OK);
    assert_int_equal(parse(*state, "{\"payload\":[[[1]]]}", &limits), DT_MALFORMED);
}

static void a_very_deep_text_is_refused_early(void **state)
{
    struct dt_json_limits limits = {.depth = 100000};
    char *deep = malloc(1000001);

    assert_non_null(deep);
    memset(deep, '[', 1000000);
    deep[1000000] = '\0';
    assert_int_equal(dt_json_parse(*state, dt_str(deep), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(*state, dt_str(deep), &limits, NULL), DT_MALFORMED);
    free(deep);
}

static void more_values_than_allowed_are_too_large(void **state)
{
    struct dt_json_limits limits = {.nodes = 4};

    assert_int_equal(parse(*state, "[1,2,3]", &limits), DT_OK);
    assert_int_equal(parse(*state, "[1,2,3,4]", &limits), DT_TOO_LARGE);
    assert_null(dt_json_root(*state));
    assert_int_equal(parse(*state, "[[],[],[],[]]", &limits), DT_TOO_LARGE);
}

static void names_inside_opaque_members_are_bounded_too(void **state)
{
    struct dt_json_limits limits = {.nodes = 4, .opaque = "p"};

    assert_int_equal(parse(*state, "{\"p\":{\"a\":1,\"b\":1,\"c\":1}}", &limits), DT_OK);
    assert_int_equal(parse(*state, "{\"p\":{\"a\":1,\"b\":1,\"c\":1,\"d\":1}}", &limits), DT_TOO_LARGE);
    assert_int_equal(parse(*state, "{\"p\":[{\"a\":1,\"b\":1,\"c\":1},{\"a\":1,\"b\":1,\"c\":1}]}", &limits), DT_OK);
}

/* ---- opaque members ---- */

static void an_opaque_member_is_one_node_with_its_raw_text(void **state)
{
    static const char *const payloads[] = {
        "{ \"order\" : [1, 2.50, {\"x\":null}] }", "[ 1 ]", "\"a\\u00e9\"", "12", "null", "true", "{}", "[]"};
    struct dt_json_limits limits = {.opaque = "payload"};
    dt_json *json = *state;
    char text[256];

    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        const struct dt_json_node *payload;

        snprintf(text, sizeof text, "{\"topic\":\"t\",\"payload\": %s , \"key\":{\"payload\":[7]}}", payloads[i]);
        assert_int_equal(parse(json, text, &limits), DT_OK);
        payload = dt_json_member(json, dt_json_root(json), "payload");
        assert_true(dt_str_is(payload->raw, payloads[i]));
        assert_int_equal(payload->n, 0);
        assert_ptr_equal(dt_json_sibling(json, dt_json_root(json), payload), payload + 1);
        /* only at the top: below it is a member like any other */
        assert_int_equal(dt_json_member(json, dt_json_member(json, dt_json_root(json), "key"), "payload")->n, 1);
    }
}

static void opaque_members_of_the_elements_of_an_array_are_opaque(void **state)
{
    struct dt_json_limits limits = {.opaque = "payload"};
    dt_json *json = *state;
    const struct dt_json_node *element;

    assert_int_equal(parse(json, "[{\"payload\":{\"a\":[1]}},{\"x\":{\"payload\":[1]},\"payload\":[[2]]}]", &limits),
                     DT_OK);
    element = dt_json_first(json, dt_json_root(json));
    assert_int_equal(dt_json_member(json, element, "payload")->n, 0);
    element = dt_json_sibling(json, dt_json_root(json), element);
    assert_true(dt_str_is(dt_json_member(json, element, "payload")->raw, "[[2]]"));
    assert_int_equal(dt_json_member(json, element, "payload")->n, 0);
    assert_int_equal(dt_json_member(json, dt_json_member(json, element, "x"), "payload")->n, 1);
}

static void an_opaque_member_is_checked_all_the_same(void **state)
{
    static const char *const cases[] = {
        "{\"payload\":{\"a\":1,\"a\":2}}",
        "{\"payload\":[1,]}",
        "{\"payload\":{\"x\":{\"\\u0061\":1,\"a\":2}}}",
        "{\"payload\":\"\\ud800\"}",
        "{\"payload\":1,\"payload\":2}",
        "{\"payload\":{\"b\":[tru]}}",
    };
    struct dt_json_limits limits = {.opaque = "payload"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(parse(*state, cases[i], &limits), DT_MALFORMED);
}

static void a_big_array_can_be_split_into_its_elements(void **state)
{
    struct dt_json_limits limits = {.elements = true, .depth = 17};
    dt_json *json = *state;
    struct dt_strbuf sb;
    const struct dt_json_node *child;
    int n = 0;

    dt_strbuf_init(&sb);
    dt_strbuf_addc(&sb, '[');
    for (int i = 0; i < 100000; i++)
        dt_strbuf_addf(&sb, "%s{\"topic\":\"t\",\"delay\":%d,\"payload\":[1,2,{\"x\":%d}]}", i ? "," : "", i, i);
    dt_strbuf_addc(&sb, ']');
    assert_int_equal(dt_json_parse(json, dt_strbuf_str(&sb), &limits, NULL), DT_OK);
    child = dt_json_first(json, dt_json_root(json));
    assert_ptr_equal(dt_json_at(json, 1), child);
    for (; child; child = dt_json_sibling(json, dt_json_root(json), child), n++) {
        assert_int_equal(child->n, 0);
        assert_int_equal(child->raw.p[0], '{');
        assert_int_equal(child->raw.p[child->raw.n - 1], '}');
    }
    assert_int_equal(n, 100000);
    assert_int_equal(dt_json_at(json, 100000)->next, 100001);
    dt_strbuf_clear(&sb);
}

static void an_object_is_not_split(void **state)
{
    struct dt_json_limits limits = {.elements = true};

    assert_int_equal(parse(*state, "{\"a\":[1,2]}", &limits), DT_OK);
    assert_int_equal(dt_json_member(*state, dt_json_root(*state), "a")->n, 2);
}

/* ---- reuse ---- */

static void a_parser_can_be_used_again_after_any_end(void **state)
{
    for (int i = 0; i < 50; i++) {
        struct dt_json_limits limits = {.nodes = 3};

        assert_int_equal(parse(*state, "{\"a\":{\"b\":{\"c\":1,\"c\":2}}}", NULL), DT_MALFORMED);
        assert_int_equal(parse(*state, "[[[[[[", NULL), DT_MALFORMED);
        assert_int_equal(parse(*state, "{\"p\":[1,2", &(struct dt_json_limits){.opaque = "p"}), DT_MALFORMED);
        assert_int_equal(parse(*state, "[1,2,3,4]", &limits), DT_TOO_LARGE);
        assert_int_equal(dt_json_member(*state, parsed(*state, "{\"a\":1,\"b\":2,\"c\":3}"), "c")->i, 3);
    }
}

/* Every prefix, and every text with one byte replaced, ends in a status and in a parser that works. */
static void no_cut_and_no_flipped_byte_breaks_the_parser(void **state)
{
    static const char text[] =
        "{\"a\\ud83d\\ude00\":[1,-2.5e3,true,null,\"x\\u0000\xc3\xa9\"],\"payload\":{\"b\":{}}} ";
    static const unsigned char bytes[] = {0, '"', '\\', '{', ']', ',', ':', '0', 'u', 0x80, 0xff, ' '};
    struct dt_json_limits limits = {.opaque = "payload"};
    char copy[sizeof text];

    assert_int_equal(parse(*state, text, &limits), DT_OK);
    for (size_t n = 0; n < sizeof text - 2; n++)
        assert_int_equal(dt_json_parse(*state, hold(text, n), &limits, NULL), DT_MALFORMED);
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (size_t b = 0; b < sizeof bytes; b++) {
            dt_status status;

            memcpy(copy, text, sizeof text);
            copy[at] = (char)bytes[b];
            status = dt_json_parse(*state, hold(copy, sizeof text - 1), &limits, NULL);
            assert_true(status == DT_OK || status == DT_MALFORMED);
            assert_int_equal(dt_json_root(*state) != NULL, status == DT_OK);
        }
}

static void free_accepts_null(void **state)
{
    (void)state;
    dt_json_free(NULL);
}

/* ---- writing ---- */

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

#define WITH_JSON(test) cmocka_unit_test_setup_teardown(test, open_json, close_json)

static int free_held(void **state)
{
    (void)state;
    free(held);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_JSON(scalars_have_their_types_and_values),
        WITH_JSON(integers_that_fit_are_integers_and_all_others_are_numbers),
        WITH_JSON(members_are_found_by_name_and_walked_in_order),
        WITH_JSON(empty_containers_have_no_children),
        WITH_JSON(raw_text_is_the_callers_bytes),
        WITH_JSON(raw_text_of_every_element_is_exact_at_every_spacing),
        WITH_JSON(strings_are_decoded_and_terminated),
        WITH_JSON(names_are_decoded_and_keep_a_nul),
        WITH_JSON(malformed_texts_are_refused),
        WITH_JSON(a_fault_is_told_at_its_own_byte),
        WITH_JSON(a_fault_is_never_told_before_it_can_be),
        WITH_JSON(a_nul_in_the_text_is_refused),
        WITH_JSON(text_that_is_not_utf8_is_refused),
        WITH_JSON(escaped_surrogates_without_their_partner_are_refused),
        WITH_JSON(members_that_are_there_twice_are_refused),
        WITH_JSON(the_same_name_in_different_objects_is_fine),
        WITH_JSON(a_repeated_member_is_found_among_very_many),
        WITH_JSON(nesting_to_the_limit_is_fine_and_one_more_is_refused),
        WITH_JSON(depth_counts_inside_opaque_members_too),
        WITH_JSON(a_very_deep_text_is_refused_early),
        WITH_JSON(more_values_than_allowed_are_too_large),
        WITH_JSON(names_inside_opaque_members_are_bounded_too),
        WITH_JSON(an_opaque_member_is_one_node_with_its_raw_text),
        WITH_JSON(opaque_members_of_the_elements_of_an_array_are_opaque),
        WITH_JSON(an_opaque_member_is_checked_all_the_same),
        WITH_JSON(a_big_array_can_be_split_into_its_elements),
        WITH_JSON(an_object_is_not_split),
        WITH_JSON(a_parser_can_be_used_again_after_any_end),
        WITH_JSON(no_cut_and_no_flipped_byte_breaks_the_parser),
        cmocka_unit_test(free_accepts_null),
        cmocka_unit_test(strings_are_written_quoted_and_escaped),
        cmocka_unit_test(bytes_that_are_not_utf8_become_replacement_characters),
        WITH_JSON(every_string_of_bytes_is_written_as_json_that_reads_back),
        cmocka_unit_test(utf8_is_judged_at_every_length),
    };

    return cmocka_run_group_tests(tests, NULL, free_held);
}
