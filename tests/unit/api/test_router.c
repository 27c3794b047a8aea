/* Which route a path takes, and the small decodings around it. */

#include "support/suite.h"

#include "request/router.h"

static const struct dt_route table[] = {
    {"POST", "/v1/jobs", DT_SCOPE_WRITE, DT_WALL_IN_BODY, .body = DT_BODY_JSON},
    {"GET", "/v1/jobs", DT_SCOPE_READ, DT_WALL_FILTER, .body = DT_BODY_NONE},
    {"POST", "/v1/jobs:batch", DT_SCOPE_WRITE, DT_WALL_IN_BODY, .body = DT_BODY_STREAM},
    {"GET", "/v1/jobs/{id}", DT_SCOPE_READ, DT_WALL_FILTER, .body = DT_BODY_NONE},
    {"POST", "/v1/jobs/{id}/cancel", DT_SCOPE_WRITE, DT_WALL_IN_BODY, .body = DT_BODY_NONE},
    {"PUT", "/v1/topics/{topic}/jobs/{key}", DT_SCOPE_WRITE, DT_WALL_TOPIC_IN_PATH, .body = DT_BODY_JSON},
};
#define ROUTES (sizeof(table) / sizeof(table[0]))

static dt_router *small;

static void make(void)
{
    assert_int_equal(dt_router_new(table, ROUTES, &small), DT_OK);
}

static void drop(void)
{
    dt_router_free(small);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

static struct dt_match match(const char *method, const char *path)
{
    struct dt_match m = {.params = {DT_STR_NONE}};
    dt_router_match(small, dt_str(method), dt_str(path), &m);
    return m;
}

static void assert_route(const char *method, const char *path, size_t index)
{
    struct dt_match m = match(method, path);
    assert_members(m, (route, &table[index]), (index, index));
}

static void assert_nothing(const char *path)
{
    struct dt_match m = match("GET", path);
    assert_members(m, (route, NULL), (allow, ""));
}

FRESH_TEST(a_path_and_a_method_find_their_route)
{
    assert_route("POST", "/v1/jobs", 0);
    assert_route("GET", "/v1/jobs", 1);
    assert_route("POST", "/v1/jobs:batch", 2);
    assert_route("GET", "/v1/jobs/17", 3);
    assert_route("POST", "/v1/jobs/17/cancel", 4);
    assert_route("PUT", "/v1/topics/a.b/jobs/k", 5);
}

FRESH_TEST(parameters_are_the_raw_segments)
{
    struct dt_match m = match("PUT", "/v1/topics/a.b/jobs/x%2Fy%20z");
    assert_true(dt_str_is(m.params[0], "a.b"));
    assert_true(dt_str_is(m.params[1], "x%2Fy%20z"));
    m = match("GET", "/v1/jobs/:batch");
    assert_true(dt_str_is(m.params[0], ":batch"));
}

FRESH_TEST(an_unknown_path_finds_no_route)
{
    const char *paths[] = {"",
                           "/",
                           "v1/jobs",
                           "//v1/jobs",
                           "/v1/jobs/",
                           "/v1/job",
                           "/V1/jobs",
                           "/v1/jobs:batch/",
                           "/v1/jobs/17/",
                           "/v1/jobs//cancel",
                           "/v1/jobs/17/cancel/x",
                           "/v1/topics//jobs/k",
                           "/v1/topics/t/jobs/a/b",
                           "/a/b/c/d/e/f/g/h/i/j/k",
                           "*",
                           "http://host/v1/jobs"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_nothing(paths[i]);
}

FRESH_TEST(a_segment_may_be_written_with_escapes)
{
    assert_route("GET", "/v1/%6Aobs", 1);
    assert_route("GET", "/v1/%6aobs", 1);
    assert_route("POST", "/v1/jobs%3Abatch", 2);
    assert_route("POST", "/%76%31/%6A%6F%62%73/7/%63ancel", 4);
    assert_nothing("/v1%2Fjobs"); /* an escaped slash ends no segment */
    assert_nothing("/v1/job%");
    assert_nothing("/v1/job%7");
    assert_nothing("/v1/job%zz");
    assert_nothing("/v1/%6Aob");
    assert_nothing("/v1/%6Aobs%00");
}

TEST(a_charset_that_is_not_utf8_is_another_media_type)
{
    static const char *const fine[] = {
        "application/json;charset=utf-8",      "application/json; charset=\"UTF-8\"",
        "application/json; Charset = utf8",    "application/json; profile=x; charset=us-ascii",
        "application/json; boundary=charset;", "application/json;;"};
    static const char *const other[] = {"application/json; charset=utf-16",
                                        "application/json;charset=ISO-8859-1",
                                        "application/json; charset=utf-8; charset=utf-16",
                                        "application/json; CHARSET=\"latin1\"",
                                        "application/json; charset=",
                                        "application/json; charset",
                                        "application/x-ndjson; charset=utf-32"};
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        if (dt_media_parse(dt_str(fine[i])) != DT_MEDIA_JSON)
            fail_msg("%s", fine[i]);
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (dt_media_parse(dt_str(other[i])) != DT_MEDIA_OTHER)
            fail_msg("%s", other[i]);
}

static void assert_refused(const struct dt_route *row)
{
    dt_router *router;
    assert_int_equal(dt_router_new(row, 1, &router), DT_INTERNAL);
    assert_null(router);
}

TEST(a_route_with_too_many_parameters_is_refused)
{
    static const struct dt_route bad = {"GET", "/{a}/{b}/{c}", DT_SCOPE_READ, DT_WALL_FILTER, .body = DT_BODY_NONE};
    assert_refused(&bad);
}

TEST(a_route_without_a_tenant_wall_or_with_a_contradicting_one_is_refused)
{
    static const struct dt_route bad[] = {
        {.method = "GET", .path = "/a", .scope = DT_SCOPE_READ},
        {.method = "GET", .path = "/{topic}", .scope = DT_SCOPE_READ, .wall = DT_WALL_NOTHING},
        {.method = "GET", .path = "/{topic}/{key}", .scope = DT_SCOPE_READ, .wall = DT_WALL_ROW_IN_PATH},
        {.method = "GET", .path = "/a", .scope = DT_SCOPE_READ, .wall = DT_WALL_TOPIC_IN_PATH},
        {.method = "GET", .path = "/{id}", .scope = DT_SCOPE_READ, .wall = DT_WALL_TOPIC_IN_PATH},
        {.method = "GET", .path = "/a", .scope = DT_SCOPE_NONE, .wall = DT_WALL_FILTER},
        {.method = "GET", .path = "/a", .scope = DT_SCOPE_NONE, .wall = DT_WALL_ALL_TOPICS}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&bad[i]);
}

static void assert_decodes(const char *text, const char *expected, size_t n)
{
    char out[64];
    size_t length = 99;
    assert_int_equal(dt_percent_decode(dt_str(text), out, &length), DT_OK);
    assert_int_equal(length, n);
    assert_memory_equal(out, expected, n + 1);
}

TEST(escapes_are_decoded_to_bytes)
{
    assert_decodes("", "", 0);
    assert_decodes("plain", "plain", 5);
    assert_decodes("a%2Fb%2fc", "a/b/c", 5);
    assert_decodes("%00", "\0", 1);
    assert_decodes("%C3%A4%ff", "\xC3\xA4\xFF", 3);
    assert_decodes("%2541", "%41", 3);
    assert_decodes("a+b", "a+b", 3);
}

TEST(bad_escapes_are_malformed)
{
    const char *bad[] = {"%", "%4", "a%", "a%4", "%zz", "%4g", "%g4", "%%41", "% 1"};
    char out[64];
    size_t n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(dt_percent_decode(dt_str(bad[i]), out, &n), DT_MALFORMED);
}

TEST(media_types_are_read_without_case_and_parameters)
{
    assert_int_equal(dt_media_parse(DT_STR_NONE), DT_MEDIA_JSON);
    assert_int_equal(dt_media_parse(dt_str("application/json")), DT_MEDIA_JSON);
    assert_int_equal(dt_media_parse(dt_str("Application/JSON ; charset=utf-8")), DT_MEDIA_JSON);
    assert_int_equal(dt_media_parse(dt_str(" application/x-ndjson")), DT_MEDIA_NDJSON);
    assert_int_equal(dt_media_parse(dt_str("")), DT_MEDIA_OTHER);
    assert_int_equal(dt_media_parse(dt_str("application/jsonx")), DT_MEDIA_OTHER);
    assert_int_equal(dt_media_parse(dt_str("application/json, text/plain")), DT_MEDIA_OTHER);
    assert_int_equal(dt_media_parse(dt_str("application/x-www-form-urlencoded")), DT_MEDIA_OTHER);
}

TEST(every_route_of_the_api_is_found_by_its_own_path)
{
    size_t n;
    const struct dt_route *routes = dt_routes(&n);
    dt_router *router;
    assert_int_equal(dt_router_new(routes, n, &router), DT_OK);
    assert_int_equal(dt_router_count(router), n);
    for (size_t i = 0; i < n; i++) {
        struct dt_match m;
        dt_router_match(router, dt_str(routes[i].method), dt_str(routes[i].path), &m);
        assert_members(m, (route, &routes[i]), (index, i));
        assert_non_null(routes[i].handle);
        assert_int_equal(routes[i].body == DT_BODY_STREAM, routes[i].stream != NULL);
    }
    dt_router_free(router);
}
