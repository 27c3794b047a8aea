/* The promises of base/text/json.h about texts that are JSON: values, limits, opaque members, a parser that is used
 * again. */

#include "support/rigs/json_rig.h"

/* ---- good input ---- */

JSON_TEST(scalars_have_their_types_and_values)
{
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

JSON_TEST(integers_that_fit_are_integers_and_all_others_are_numbers)
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
        const struct dt_json_node *root = parsed(json, cases[i].text);
        assert_int_equal(root->type, cases[i].fits ? DT_JSON_INT : DT_JSON_NUMBER);
        assert_true(dt_str_is(root->str, cases[i].text));
        assert_true(dt_str_is(root->raw, cases[i].text));
        if (cases[i].fits)
            assert_int_equal(root->i, cases[i].i);
    }
}

JSON_TEST(members_are_found_by_name_and_walked_in_order)
{
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

JSON_TEST(empty_containers_have_no_children)
{
    const struct dt_json_node *root = parsed(json, "[[],{},[ ]]");
    const struct dt_json_node *child = dt_json_first(json, root);
    for (int i = 0; i < 3; i++) {
        assert_null(dt_json_first(json, child));
        child = dt_json_sibling(json, root, child);
    }
    assert_null(child);
}

JSON_TEST(raw_text_is_the_callers_bytes)
{
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

JSON_TEST(raw_text_of_every_element_is_exact_at_every_spacing)
{
    static const char *const spaces[] = {"", " ", "\n\t "};
    static const char *const values[] = {"1",    "\"a,b:c\"", "\"\\\"\"", "[1,2]", "{\"k\":[]}",
                                         "null", "true",      "1.5",      "-7"};
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

JSON_TEST(strings_are_decoded_and_terminated)
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
        const struct dt_json_node *root = parsed(json, cases[i].text);
        assert_int_equal(root->str.n, cases[i].n);
        assert_memory_equal(root->str.p, cases[i].want, cases[i].n + 1);
    }
}

JSON_TEST(names_are_decoded_and_keep_a_nul)
{
    const struct dt_json_node *root = parsed(json, "{\"a\\u0000b\":1,\"\\u0061\":2}");
    assert_true(dt_str_eq(dt_json_first(json, root)->name, (struct dt_str){"a\0b", 3}));
    assert_int_equal(dt_json_member(json, root, "a")->i, 2);
}

/* ---- limits ---- */

JSON_TEST(nesting_to_the_limit_is_fine_and_one_more_is_refused)
{
    struct dt_json_limits limits = {.depth = 3};
    assert_int_equal(parse(json, "[[[1]]]", &limits), DT_OK);
    assert_int_equal(parse(json, "[[[[]]]]", &limits), DT_MALFORMED);
    assert_int_equal(parse(json, "{\"a\":{\"a\":{\"a\":{}}}}", &limits), DT_MALFORMED);
    assert_int_equal(parse(json, "[[[1]],[[2]],{\"a\":[]}]", &limits), DT_OK);
    assert_int_equal(parse(json, "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", NULL), DT_OK); /* 16 */
    assert_int_equal(parse(json, "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", NULL), DT_MALFORMED);
}

JSON_TEST(depth_counts_inside_opaque_members_too)
{
    struct dt_json_limits limits = {.depth = 3, .opaque = "payload"};
    assert_int_equal(parse(json, "{\"payload\":[[1]]}", &limits), DT_OK);
    assert_int_equal(parse(json, "{\"payload\":[[[1]]]}", &limits), DT_MALFORMED);
}

JSON_TEST(a_very_deep_text_is_refused_early)
{
    struct dt_json_limits limits = {.depth = 100000};
    char *deep = malloc(1000001);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    deep[1000000] = '\0';
    assert_int_equal(dt_json_parse(json, dt_str(deep), NULL, NULL), DT_MALFORMED);
    assert_int_equal(dt_json_parse(json, dt_str(deep), &limits, NULL), DT_MALFORMED);
    free(deep);
}

JSON_TEST(more_values_than_allowed_are_too_large)
{
    struct dt_json_limits limits = {.nodes = 4};
    assert_int_equal(parse(json, "[1,2,3]", &limits), DT_OK);
    assert_int_equal(parse(json, "[1,2,3,4]", &limits), DT_TOO_LARGE);
    assert_null(dt_json_root(json));
    assert_int_equal(parse(json, "[[],[],[],[]]", &limits), DT_TOO_LARGE);
}

JSON_TEST(names_inside_opaque_members_are_bounded_too)
{
    struct dt_json_limits limits = {.nodes = 4, .opaque = "p"};
    assert_int_equal(parse(json, "{\"p\":{\"a\":1,\"b\":1,\"c\":1}}", &limits), DT_OK);
    assert_int_equal(parse(json, "{\"p\":{\"a\":1,\"b\":1,\"c\":1,\"d\":1}}", &limits), DT_TOO_LARGE);
    assert_int_equal(parse(json, "{\"p\":[{\"a\":1,\"b\":1,\"c\":1},{\"a\":1,\"b\":1,\"c\":1}]}", &limits), DT_OK);
}

JSON_TEST(test_a_text_that_is_only_checked_has_its_root_and_no_other_nodes)
{
    struct dt_json_limits limits = {.check_only = true, .nodes = 1, .names = 3};
    assert_int_equal(parse(json, "[{\"a\":[1,2,\"x\"]},{\"a\":{\"b\":null}}]", &limits), DT_OK);
    assert_int_equal(dt_json_root(json)->type, DT_JSON_ARRAY);
    assert_int_equal(dt_json_root(json)->n, 0);
    assert_int_equal(parse(json, "\"text\"", &limits), DT_OK);
    assert_int_equal(parse(json, "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}", &limits), DT_TOO_LARGE);
    assert_int_equal(parse(json, "[1,{\"a\":1,\"a\":2}]", &limits), DT_MALFORMED);
    assert_int_equal(parse(json, "[1,[2,]]", &limits), DT_MALFORMED);
}

JSON_TEST(values_inside_opaque_members_are_no_nodes)
{
    struct dt_json_limits limits = {.nodes = 9, .opaque = "p"}; /* names count, wherever they stand */
    assert_int_equal(parse(json, "{\"p\":[null,true,false,1,2.5,\"x\",[],{},null,true,1,[[]],{}]}", &limits), DT_OK);
    assert_int_equal(dt_json_member(json, dt_json_root(json), "p")->n, 0);
    assert_int_equal(parse(json, "{\"q\":[null,true,false,1,2.5,\"x\",[],{},null,true,1,[[]],{}]}", &limits),
                     DT_TOO_LARGE);
}

/* ---- opaque members ---- */

JSON_TEST(an_opaque_member_is_one_node_with_its_raw_text)
{
    static const char *const payloads[] = {
        "{ \"order\" : [1, 2.50, {\"x\":null}] }", "[ 1 ]", "\"a\\u00e9\"", "12", "null", "true", "{}", "[]"};
    struct dt_json_limits limits = {.opaque = "payload"};
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

JSON_TEST(opaque_members_of_the_elements_of_an_array_are_opaque)
{
    struct dt_json_limits limits = {.opaque = "payload"};
    assert_int_equal(parse(json, "[{\"payload\":{\"a\":[1]}},{\"x\":{\"payload\":[1]},\"payload\":[[2]]}]", &limits),
                     DT_OK);
    const struct dt_json_node *element = dt_json_first(json, dt_json_root(json));
    assert_int_equal(dt_json_member(json, element, "payload")->n, 0);
    element = dt_json_sibling(json, dt_json_root(json), element);
    assert_true(dt_str_is(dt_json_member(json, element, "payload")->raw, "[[2]]"));
    assert_int_equal(dt_json_member(json, element, "payload")->n, 0);
    assert_int_equal(dt_json_member(json, dt_json_member(json, element, "x"), "payload")->n, 1);
}

JSON_TEST(an_opaque_member_is_checked_all_the_same)
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
        assert_int_equal(parse(json, cases[i], &limits), DT_MALFORMED);
}

JSON_TEST(a_big_array_can_be_split_into_its_elements)
{
    struct dt_json_limits limits = {.elements = true, .depth = 17};
    int n = 0;
    STRBUF(sb);
    dt_strbuf_addc(&sb, '[');
    for (int i = 0; i < 100000; i++)
        dt_strbuf_addf(&sb, "%s{\"topic\":\"t\",\"delay\":%d,\"payload\":[1,2,{\"x\":%d}]}", i ? "," : "", i, i);
    dt_strbuf_addc(&sb, ']');
    assert_int_equal(dt_json_parse(json, dt_strbuf_str(&sb), &limits, NULL), DT_OK);
    const struct dt_json_node *child = dt_json_first(json, dt_json_root(json));
    assert_ptr_equal(dt_json_root(json) + 1, child);
    for (; child; child = dt_json_sibling(json, dt_json_root(json), child), n++) {
        assert_int_equal(child->n, 0);
        assert_int_equal(child->raw.p[0], '{');
        assert_int_equal(child->raw.p[child->raw.n - 1], '}');
    }
    assert_int_equal(n, 100000);
    assert_int_equal(dt_json_root(json)[100000].next, 100001);
}

JSON_TEST(an_object_is_not_split)
{
    struct dt_json_limits limits = {.elements = true};
    assert_int_equal(parse(json, "{\"a\":[1,2]}", &limits), DT_OK);
    assert_int_equal(dt_json_member(json, dt_json_root(json), "a")->n, 2);
}

/* ---- reuse ---- */

JSON_TEST(a_parser_can_be_used_again_after_any_end)
{
    for (int i = 0; i < 50; i++) {
        struct dt_json_limits limits = {.nodes = 3};
        assert_int_equal(parse(json, "{\"a\":{\"b\":{\"c\":1,\"c\":2}}}", NULL), DT_MALFORMED);
        assert_int_equal(parse(json, "[[[[[[", NULL), DT_MALFORMED);
        assert_int_equal(parse(json, "{\"p\":[1,2", &(struct dt_json_limits){.opaque = "p"}), DT_MALFORMED);
        assert_int_equal(parse(json, "[1,2,3,4]", &limits), DT_TOO_LARGE);
        assert_int_equal(dt_json_member(json, parsed(json, "{\"a\":1,\"b\":2,\"c\":3}"), "c")->i, 3);
    }
}

/* Every prefix, and every text with one byte replaced, ends in a status and in a parser that works. */
JSON_TEST(no_cut_and_no_flipped_byte_breaks_the_parser)
{
    static const char text[] =
        "{\"a\\ud83d\\ude00\":[1,-2.5e3,true,null,\"x\\u0000\xc3\xa9\"],\"payload\":{\"b\":{}}} ";
    static const unsigned char bytes[] = {0, '"', '\\', '{', ']', ',', ':', '0', 'u', 0x80, 0xff, ' '};
    struct dt_json_limits limits = {.opaque = "payload"};
    char copy[sizeof text];
    assert_int_equal(parse(json, text, &limits), DT_OK);
    for (size_t n = 0; n < sizeof text - 2; n++)
        assert_int_equal(dt_json_parse(json, hold(text, n), &limits, NULL), DT_MALFORMED);
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (size_t b = 0; b < sizeof bytes; b++) {
            dt_status status;
            memcpy(copy, text, sizeof text);
            copy[at] = (char)bytes[b];
            status = dt_json_parse(json, hold(copy, sizeof text - 1), &limits, NULL);
            assert_true(status == DT_OK || status == DT_MALFORMED);
            assert_int_equal(dt_json_root(json) != NULL, status == DT_OK);
        }
}

TEST(free_accepts_null)
{
    dt_json_free(NULL);
}

SUITE(NULL, free_held)
