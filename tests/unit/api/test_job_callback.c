/* What bodies of jobs say of callbacks: a URL of their own, and headers that a callback cannot carry. */

#include "support/suite.h"

#include "job/job_json.h"

#define NOW        INT64_C(1795257000000)
#define BODY(rest) "{\"topic\":\"t\"," rest "}"

static struct dt_job_rules rules = {
    .max_delay_ms = DT_DAY_MS, .payload_max = 1000, .headers_max = 64, .json_depth = 8, .installation = {"duetime", 7}};
static struct dt_arena arena;
static struct dt_faults faults;
static dt_json *json;
static struct dt_new_job job;
static struct dt_patch patched;

static void begin(void)
{
    assert_int_equal(dt_json_new(&json), DT_OK);
}

static void end(void)
{
    dt_json_free(json);
    dt_arena_clear(&arena);
}

#define FRESH_TEST(name) TEST_WITH(name, begin, end)

static void parse(const char *text)
{
    const struct dt_json_limits limits = dt_job_json_limits(rules.json_depth);
    assert_int_equal(dt_json_parse(json, dt_str(text), &limits, NULL), DT_OK);
    faults = (struct dt_faults){.arena = &arena};
}

static dt_status decode(const char *text)
{
    const struct dt_job_path path = {0};
    parse(text);
    return dt_job_decode(json, &rules, &path, NOW, &faults, &job);
}

static dt_status patch(const char *text)
{
    parse(text);
    return dt_patch_decode(json, &rules, NOW, &faults, &patched);
}

#define assert_str(slice, text) assert_true(dt_str_is(slice, text))

FRESH_TEST(a_job_may_have_a_url_of_its_own)
{
    assert_int_equal(decode(BODY("\"delay\":0,\"callback_url\":\"https://hooks.example.com/a?b=c\"")), DT_OK);
    assert_str(job.callback_url, "https://hooks.example.com/a?b=c");
    assert_int_equal(decode(BODY("\"delay\":0")), DT_OK);
    assert_null(job.callback_url.p);
    static const char *const wrong[] = {
        "\"\"", "\"ftp://a/\"", "\"http://u:p@a/\"", "\"http://a/#b\"", "\"/a\"", "null", "7"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char body[100];
        snprintf(body, sizeof(body), "{\"topic\":\"t\",\"delay\":0,\"callback_url\":%s}", wrong[i]);
        assert_int_equal(decode(body), DT_INVALID);
        assert_true(faults.n == 1 && dt_str_is(faults.v[0].pointer, "/callback_url"));
    }
    char long_body[2100];
    snprintf(long_body, sizeof(long_body), BODY("\"delay\":0,\"callback_url\":\"http://a/%0*d\""), 1991, 0);
    assert_int_equal(decode(long_body), DT_OK);
    snprintf(long_body, sizeof(long_body), BODY("\"delay\":0,\"callback_url\":\"http://a/%0*d\""), 1992, 0);
    assert_int_equal(decode(long_body), DT_INVALID);
}

FRESH_TEST(a_host_that_may_never_be_called_is_refused)
{
    rules.allow_hosts = DT_STR_LIT("*.example.com");
    assert_int_equal(decode(BODY("\"delay\":0,\"callback_url\":\"https://hooks.example.com/\"")), DT_OK);
    assert_int_equal(decode(BODY("\"delay\":0,\"callback_url\":\"https://example.org/\"")), DT_INVALID);
    assert_true(faults.n == 1 && dt_str_is(faults.v[0].pointer, "/callback_url"));
    assert_int_equal(patch("{\"callback_url\":\"https://example.org/\"}"), DT_INVALID);
    rules.allow_hosts = DT_STR_NONE;
}

/* Where it matters is told by the topic: a Kafka message has other headers of ours. */
FRESH_TEST(headers_that_a_callback_cannot_carry_are_noted)
{
    assert_int_equal(decode(BODY("\"delay\":0,\"headers\":{\"x\":\"1\",\"webhook-id\":\"2\",\"host\":\"3\"}")), DT_OK);
    assert_str(job.header_fault.name, "webhook-id");
    assert_non_null(job.header_fault.reason);
    assert_int_equal(decode(BODY("\"delay\":0,\"headers\":{\"x\":\"a\\nb\"}")), DT_OK);
    assert_str(job.header_fault.name, "x");
    assert_int_equal(decode(BODY("\"delay\":0,\"headers\":{\"x\":\"1\"}")), DT_OK);
    assert_null(job.header_fault.reason);
    assert_int_equal(patch("{\"headers\":{\"host\":\"3\"}}"), DT_OK);
    assert_str(patched.header_fault.name, "host");
}
