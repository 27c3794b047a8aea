/* Jobs between JSON and the domain: what bodies are taken, which faults are found in the others, what equal means, how
 * jobs read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/suite.h"

#include "base/text/base64.h"
#include "job/retry.h"
#include "jobs/job_json.h"

#define NOW INT64_C(1795257000000) /* 2026-11-21T10:30:00Z */

struct fixture {
    struct dt_arena arena;
    struct dt_faults faults;
    struct dt_strbuf out;
    dt_json *json, *other;
    struct dt_job_rules rules;
    struct dt_new_job job;
    struct dt_patch patch;
};

static int make(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    dt_arena_init(&f.arena);
    dt_strbuf_init(&f.out);
    assert_int_equal(dt_json_new(&f.json), DT_OK);
    assert_int_equal(dt_json_new(&f.other), DT_OK);
    f.rules = (struct dt_job_rules){.max_delay_ms = 10 * DT_DAY_MS,
                                    .payload_max = 1000,
                                    .headers_max = 64,
                                    .json_depth = 8,
                                    .installation = DT_STR_LIT("duetime")};
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    struct fixture *f = *state;
    dt_json_free(f->json);
    dt_json_free(f->other);
    dt_strbuf_clear(&f->out);
    dt_arena_clear(&f->arena);
    return 0;
}

#define RIG_TEST(name) TEST_OF(struct fixture *f, name, make, drop)

static void parse(struct fixture *f, const char *text)
{
    struct dt_json_limits limits = dt_job_json_limits(&f->rules, 0);
    struct dt_error err = {0};
    dt_status status = dt_json_parse(f->json, dt_str(text), &limits, &err);
    if (status != DT_OK)
        fail_msg("%s: %s", text, err.text);
    dt_faults_init(&f->faults, &f->arena);
}

static dt_status decode_in(struct fixture *f, const char *text, const char *topic, const char *key)
{
    const struct dt_job_path path = {.topic = dt_str(topic), .key = dt_str(key)};
    parse(f, text);
    return dt_job_decode(f->json, &f->rules, &path, NOW, &f->faults, &f->job);
}

static dt_status decode(struct fixture *f, const char *text)
{
    return decode_in(f, text, NULL, NULL);
}

static dt_status patch(struct fixture *f, const char *text)
{
    parse(f, text);
    return dt_patch_decode(f->json, &f->rules, NOW, &f->faults, &f->patch);
}

static void assert_ok(struct fixture *f, dt_status status, const char *text)
{
    if (status != DT_OK)
        fail_msg("%s: %s at %s: %s", text, dt_status_name(status), f->faults.n ? f->faults.v[0].pointer.p : "-",
                 f->faults.n ? f->faults.v[0].reason.p : "-");
}

/* The pointers of all faults, joined by spaces. */
static const char *pointers(struct fixture *f)
{
    dt_strbuf_reset(&f->out);
    for (size_t i = 0; i < f->faults.n && i < DT_FAULTS_MAX; i++) {
        if (i > 0)
            dt_strbuf_addc(&f->out, ' ');
        dt_strbuf_add(&f->out, f->faults.v[i].pointer.p, f->faults.v[i].pointer.n);
    }
    return f->out.p ? f->out.p : "";
}

static void assert_faults(struct fixture *f, const char *text, dt_status status, const char *expected)
{
    dt_status got = decode(f, text);
    if (got != status || strcmp(pointers(f), expected) != 0)
        fail_msg("%s: %s with \"%s\", expected %s with \"%s\"", text, dt_status_name(got), pointers(f),
                 dt_status_name(status), expected);
}

static void assert_str(struct dt_str s, const char *text)
{
    assert_non_null(s.p);
    assert_int_equal(s.n, strlen(text));
    assert_memory_equal(s.p, text, s.n);
}

/* ---- what is taken ---- */

RIG_TEST(a_full_body_is_decoded)
{
    static const char text[] =
        "{\"topic\":\"orders.close\",\"key\":\"order-42\",\"delay\":\"PT30M\",\"payload\": {\"order\" : 42, "
        "\"x\":\"\\u00e9\"} ,\"partition_key\":\"customer-7\",\"retry\":[\"15s\",\"PT3M\",600000,0.2,\"1.5s\"],"
        "\"ack_timeout\":\"PT1M\",\"headers\":{\"traceparent\":\"00-1\"}}";
    decode(f, text);
    /* "1.5s" is no duration of ours */
    assert_string_equal(pointers(f), "/retry/4");
    static const char fine[] =
        "{\"topic\":\"orders.close\",\"key\":\"order-42\",\"delay\":\"PT30M\",\"payload\": {\"order\" : 42, "
        "\"x\":\"\\u00e9\"} ,\"partition_key\":\"customer-7\",\"retry\":[\"15s\",\"PT3M\",600000,0.2],"
        "\"ack_timeout\":\"PT1M\",\"headers\":{\"traceparent\":\"00-1\"}}";
    assert_ok(f, decode(f, fine), fine);
    assert_str(f->job.topic, "orders.close");
    assert_str(f->job.key, "order-42");
    assert_int_equal(f->job.run_at_ms, NOW + 1800000);
    assert_str(f->job.payload, "{\"order\" : 42, \"x\":\"\\u00e9\"}");
    assert_false(f->job.payload_binary);
    assert_str(f->job.partition_key, "customer-7");
    assert_str(f->job.retry, "15s 3m 10m 1ms");
    assert_int_equal(f->job.ack_timeout_ms, 60000);
    assert_str(f->job.headers, "{\"traceparent\":\"00-1\"}");
    assert_null(f->job.content_type.p);
}

RIG_TEST(what_is_absent_stays_absent_and_the_payload_is_null)
{
    assert_ok(f, decode(f, "{\"topic\":\"t\",\"delay\":0}"), "least");
    assert_null(f->job.key.p);
    assert_null(f->job.retry.p);
    assert_null(f->job.partition_key.p);
    assert_null(f->job.headers.p);
    assert_int_equal(f->job.ack_timeout_ms, 0);
    assert_int_equal(f->job.run_at_ms, NOW);
    assert_str(f->job.payload, "null");
}

RIG_TEST(an_empty_retry_list_is_not_an_absent_one)
{
    assert_ok(f, decode(f, "{\"topic\":\"t\",\"delay\":0,\"retry\":[]}"), "empty retry");
    assert_non_null(f->job.retry.p);
    assert_int_equal(f->job.retry.n, 0);
}

RIG_TEST(times_are_instants_and_past_ones_are_now)
{
    assert_ok(f, decode(f, "{\"topic\":\"t\",\"run_at\":\"2026-11-21T12:30:01+02:00\"}"), "offset");
    assert_int_equal(f->job.run_at_ms, NOW + 1000);
    assert_ok(f, decode(f, "{\"topic\":\"t\",\"run_at\":\"2026-11-21T10:30:00.0001Z\"}"), "finer than a millisecond");
    assert_int_equal(f->job.run_at_ms, NOW + 1);
    assert_ok(f, decode(f, "{\"topic\":\"t\",\"run_at\":\"1999-01-01T00:00:00Z\"}"), "past");
    assert_int_equal(f->job.run_at_ms, NOW);
}

RIG_TEST(delays_are_read_in_every_form)
{
    static const struct {
        const char *json;
        int64_t ms;
    } cases[] = {{"1500", 1500},        {"1500.0", 1500},       {"0.1", 1},         {"1e3", 1000}, {"\"PT0.5S\"", 500},
                 {"\"P1D\"", 86400000}, {"\"P1W\"", 604800000}, {"\"15s\"", 15000}, {"0", 0},      {"\"PT0S\"", 0},
                 {"\"2d\"", 172800000}, {"\"1h\"", 3600000},    {"\"3m\"", 180000}, {"-0", 0},     {"1.0001e3", 1001},
                 {"\"PT0.0001S\"", 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[100];
        snprintf(text, sizeof(text), "{\"topic\":\"t\",\"delay\":%s}", cases[i].json);
        assert_ok(f, decode(f, text), text);
        if (f->job.run_at_ms != NOW + cases[i].ms)
            fail_msg("%s: %lld", text, (long long)(f->job.run_at_ms - NOW));
    }
}

RIG_TEST(a_binary_payload_is_decoded_with_its_content_type)
{
    assert_ok(f,
              decode(f, "{\"topic\":\"t\",\"delay\":0,\"payload_base64\":\"AAEC/w==\",\"content_type\":\"image/png\"}"),
              "binary");
    assert_true(f->job.payload_binary);
    assert_int_equal(f->job.payload.n, 4);
    assert_memory_equal(f->job.payload.p, "\0\1\2\377", 4);
    assert_str(f->job.content_type, "image/png");
}

RIG_TEST(path_and_body_may_both_name_topic_and_key_when_they_agree)
{
    assert_ok(f, decode_in(f, "{\"delay\":0}", "t", "k/1"), "path only");
    assert_str(f->job.topic, "t");
    assert_str(f->job.key, "k/1");
    assert_ok(f, decode_in(f, "{\"delay\":0,\"topic\":\"t\",\"key\":\"k/1\"}", "t", "k/1"), "both");
    assert_int_equal(decode_in(f, "{\"delay\":0,\"topic\":\"u\",\"key\":\"k/2\"}", "t", "k/1"), DT_INVALID);
    assert_string_equal(pointers(f), "/topic /key");
}

/* ---- what is refused ---- */

RIG_TEST(every_fault_is_reported_with_its_pointer)
{
    static const struct {
        const char *text, *pointers;
    } cases[] = {
        {"[]", ""},
        {"5", ""},
        {"{}", "/topic /run_at"},
        {"{\"topic\":\"t\"}", "/run_at"},
        {"{\"topic\":\"t\",\"delay\":0,\"colour\":1,\"a/b\":2}", "/colour /a~1b"},
        {"{\"topic\":\"t\",\"delay\":0,\"callback_url\":\"x\"}", "/callback_url"},
        {"{\"topic\":\"\",\"delay\":0}", "/topic"},
        {"{\"topic\":\"a b\",\"delay\":0}", "/topic"},
        {"{\"topic\":\"..\",\"delay\":0}", "/topic"},
        {"{\"topic\":\"__x\",\"delay\":0}", "/topic"},
        {"{\"topic\":\"duetime.results\",\"delay\":0}", "/topic"},
        {"{\"topic\":null,\"delay\":0}", "/topic"},
        {"{\"topic\":7,\"delay\":0}", "/topic"},
        {"{\"topic\":\"t\",\"delay\":-1}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":-0.5}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":1e400}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":99999999999999999999}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":true}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":null}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":\"P1M\"}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":\"P1Y\"}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":\"soon\"}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":\"\"}", "/delay"},
        {"{\"topic\":\"t\",\"delay\":\"P11D\"}", "/delay"},
        {"{\"topic\":\"t\",\"run_at\":\"2027-11-21T10:30:00Z\"}", "/run_at"},
        {"{\"topic\":\"t\",\"run_at\":\"2026-11-21T10:30:00\"}", "/run_at"},
        {"{\"topic\":\"t\",\"run_at\":\"2026-02-30T10:30:00Z\"}", "/run_at"},
        {"{\"topic\":\"t\",\"run_at\":1795257000000}", "/run_at"},
        {"{\"topic\":\"t\",\"run_at\":\"2026-11-21T10:30:00Z\",\"delay\":0}", "/run_at /delay"},
        {"{\"topic\":\"t\",\"delay\":0,\"key\":\"\"}", "/key"},
        {"{\"topic\":\"t\",\"delay\":0,\"key\":42}", "/key"},
        {"{\"topic\":\"t\",\"delay\":0,\"key\":null}", "/key"},
        {"{\"topic\":\"t\",\"delay\":0,\"partition_key\":\"\"}", "/partition_key"},
        {"{\"topic\":\"t\",\"delay\":0,\"partition_key\":[]}", "/partition_key"},
        {"{\"topic\":\"t\",\"delay\":0,\"retry\":\"15s\"}", "/retry"},
        {"{\"topic\":\"t\",\"delay\":0,\"retry\":null}", "/retry"},
        {"{\"topic\":\"t\",\"delay\":0,\"retry\":[\"15s\",\"x\",-1,null,{}]}", "/retry/1 /retry/2 /retry/3 /retry/4"},
        {"{\"topic\":\"t\",\"delay\":0,\"ack_timeout\":0}", "/ack_timeout"},
        {"{\"topic\":\"t\",\"delay\":0,\"ack_timeout\":\"PT0S\"}", "/ack_timeout"},
        {"{\"topic\":\"t\",\"delay\":0,\"ack_timeout\":-5}", "/ack_timeout"},
        {"{\"topic\":\"t\",\"delay\":0,\"ack_timeout\":null}", "/ack_timeout"},
        {"{\"topic\":\"t\",\"delay\":0,\"headers\":[]}", "/headers"},
        {"{\"topic\":\"t\",\"delay\":0,\"headers\":null}", "/headers"},
        {"{\"topic\":\"t\",\"delay\":0,\"headers\":{\"a\":1,\"CE_id\":\"x\",\"Content-Type\":\"x\",\"\":\"x\"}}",
         "/headers/a /headers/CE_id /headers/Content-Type /headers/"},
        {"{\"topic\":\"t\",\"delay\":0,\"payload\":1,\"payload_base64\":\"AA==\",\"content_type\":\"a/b\"}",
         "/payload /payload_base64"},
        {"{\"topic\":\"t\",\"delay\":0,\"payload_base64\":\"AA==\"}", "/content_type"},
        {"{\"topic\":\"t\",\"delay\":0,\"payload\":1,\"content_type\":\"a/b\"}", "/content_type"},
        {"{\"topic\":\"t\",\"delay\":0,\"payload_base64\":\"AA=\",\"content_type\":\"a/b\"}", "/payload_base64"},
        {"{\"topic\":\"t\",\"delay\":0,\"payload_base64\":\"AB==\",\"content_type\":\"a/b\"}", "/payload_base64"},
        {"{\"topic\":\"t\",\"delay\":0,\"payload_base64\":\"A-==\",\"content_type\":\"a/b\"}", "/payload_base64"},
        {"{\"topic\":\"t\",\"delay\":0,\"payload_base64\":7,\"content_type\":\"nonsense\"}",
         "/payload_base64 /content_type"},
        {"{\"topic\":\"a b\",\"delay\":-1,\"key\":5,\"x\":1,\"ack_timeout\":0,\"retry\":[\"?\"],\"headers\":3}",
         "/topic /delay /key /x /ack_timeout /retry/0 /headers"},
        {"{\"topic\":\"t\",\"delay\":\"P11D\",\"x\":1}", "/x /delay"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_faults(f, cases[i].text, DT_INVALID, cases[i].pointers);
}

/* {"topic":"t","delay":0,"<name>":<open><n times c><close>} */
static char *with_long(const char *name, const char *open, size_t n, const char *close)
{
    char *text = malloc(n + 200);
    assert_non_null(text);
    int at = snprintf(text, 100, "{\"topic\":\"t\",\"delay\":0,\"%s\":%s", name, open);
    memset(text + at, 'a', n);
    snprintf(text + (size_t)at + n, 50, "%s}", close);
    return text;
}

static void assert_long(struct fixture *f, const char *name, const char *open, size_t n, const char *close,
                        dt_status status)
{
    char *text = with_long(name, open, n, close);
    dt_status got = decode(f, text);
    if (got != status)
        fail_msg("%s with %zu: %s, expected %s", name, n, dt_status_name(got), dt_status_name(status));
    free(text);
}

RIG_TEST(sizes_are_bounded)
{
    assert_long(f, "key", "\"", 255, "\"", DT_OK);
    assert_long(f, "key", "\"", 256, "\"", DT_INVALID);
    assert_long(f, "partition_key", "\"", 255, "\"", DT_OK);
    assert_long(f, "partition_key", "\"", 256, "\"", DT_INVALID);
    assert_long(f, "payload", "\"", 998, "\"", DT_OK);
    assert_long(f, "payload", "\"", 999, "\"", DT_TOO_LARGE);
    assert_string_equal(pointers(f), "/payload");
    assert_long(f, "headers", "{\"h\":\"", 63, "\"}", DT_OK);
    assert_long(f, "headers", "{\"h\":\"", 64, "\"}", DT_TOO_LARGE);
    assert_long(f, "payload_base64", "\"", 1332, "\",\"content_type\":\"a/b\"", DT_OK);
    assert_long(f, "payload_base64", "\"", 1340, "\",\"content_type\":\"a/b\"", DT_TOO_LARGE);
}

RIG_TEST(a_schedule_has_at_most_a_hundred_delays)
{
    for (int n = 100; n <= 101; n++) {
        struct dt_strbuf text;
        dt_strbuf_init(&text);
        dt_strbuf_adds(&text, "{\"topic\":\"t\",\"delay\":0,\"retry\":[3155760000000");
        for (int i = 1; i < n; i++)
            dt_strbuf_adds(&text, ",3155759999999");
        dt_strbuf_adds(&text, "]}");
        assert_int_equal(decode(f, text.p), n == 100 ? DT_OK : DT_INVALID);
        assert_true(n > 100 || f->job.retry.n <= DT_RETRY_TEXT_MAX);
        dt_strbuf_clear(&text);
    }
}

/* ---- equal ---- */

static void digest_of(struct fixture *f, const char *text, unsigned char digest[16])
{
    assert_ok(f, decode(f, text), text);
    memcpy(digest, f->job.digest, 16);
}

static bool same(struct fixture *f, const char *a, const char *b)
{
    unsigned char x[16], y[16];
    digest_of(f, a, x);
    digest_of(f, b, y);
    return memcmp(x, y, 16) == 0;
}

#define BODY(rest) "{\"topic\":\"t\",\"key\":\"k\"," rest "}"

RIG_TEST(equal_requests_have_equal_digests)
{
    assert_true(same(f, BODY("\"delay\":60000"), "{ \"delay\" : \"PT1M\", \"key\":\"k\", \"topic\":\"t\" }"));
    assert_true(same(f, BODY("\"delay\":\"1m\""), BODY("\"delay\":\"PT60S\"")));
    assert_true(same(f, BODY("\"run_at\":\"2026-11-21T12:30:00+02:00\""), BODY("\"run_at\":\"2026-11-21T10:30:00Z\"")));
    assert_true(
        same(f, BODY("\"delay\":0,\"retry\":[\"15s\",\"3m\"]"), BODY("\"delay\":0,\"retry\":[15000,\"PT3M\"]")));
    assert_true(same(f, BODY("\"delay\":0,\"ack_timeout\":\"PT1M\""), BODY("\"delay\":0,\"ack_timeout\":60000")));
    assert_true(same(f, BODY("\"delay\":0,\"headers\":{\"a\":\"1\",\"b\":\"2\"}"),
                     BODY("\"delay\":0,\"headers\":{\"b\":\"2\",\"\\u0061\":\"1\"}")));
    assert_true(same(f, BODY("\"delay\":0"), BODY("\"delay\":0,\"payload\":null")));
    assert_true(same(f, BODY("\"delay\":0,\"payload\": [1]"), BODY("\"payload\":[1] ,\"delay\":0")));
}

RIG_TEST(unequal_requests_have_unequal_digests)
{
    static const char *const bodies[] = {
        BODY("\"delay\":0"),
        BODY("\"delay\":1"),
        BODY("\"run_at\":\"2026-11-21T10:30:00Z\""),
        BODY("\"run_at\":\"2026-11-21T10:30:01Z\""),
        BODY("\"delay\":0,\"payload\":[1]"),
        BODY("\"delay\":0,\"payload\":[ 1]"),
        BODY("\"delay\":0,\"payload\":\"null\""),
        BODY("\"delay\":0,\"payload_base64\":\"WzFd\",\"content_type\":\"application/json\""),
        BODY("\"delay\":0,\"payload_base64\":\"WzFd\",\"content_type\":\"text/plain\""),
        BODY("\"delay\":0,\"retry\":[]"),
        BODY("\"delay\":0,\"retry\":[\"15s\"]"),
        BODY("\"delay\":0,\"retry\":[\"15s\",\"3m\",\"10m\",\"30m\",\"30m\",\"1h\",\"2h\",\"6h\",\"15h\"]"),
        BODY("\"delay\":0,\"ack_timeout\":\"PT5M\""),
        BODY("\"delay\":0,\"partition_key\":\"k\""),
        BODY("\"delay\":0,\"callback_url\":\"http://a/\""),
        BODY("\"delay\":0,\"callback_url\":\"http://a/b\""),
        BODY("\"delay\":0,\"headers\":{}"),
        BODY("\"delay\":0,\"headers\":{\"a\":\"bc\"}"),
        BODY("\"delay\":0,\"headers\":{\"ab\":\"c\"}"),
        BODY("\"delay\":0,\"headers\":{\"a\":\"1\",\"b\":\"2\"}"),
        BODY("\"delay\":0,\"headers\":{\"a\":\"2\",\"b\":\"1\"}"),
        "{\"topic\":\"t\",\"delay\":0}",
        "{\"topic\":\"t\",\"key\":\"K\",\"delay\":0}",
        "{\"topic\":\"T\",\"key\":\"k\",\"delay\":0}",
    };
    const size_t n = sizeof(bodies) / sizeof(*bodies);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (same(f, bodies[i], bodies[j]))
                fail_msg("%s and %s have one digest", bodies[i], bodies[j]);
}

RIG_TEST(a_digest_never_changes_between_versions)
{
    unsigned char digest[16];
    char hex[33];
    digest_of(f,
              BODY("\"delay\":1000,\"payload\":{\"a\":1},\"retry\":[\"15s\"],\"ack_timeout\":5,\"partition_key\":\"p\","
                   "\"headers\":{\"b\":\"2\",\"a\":\"1\"}"),
              digest);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, "423389344f0ebd038edea769806e1f6d");
}

/* ---- PATCH ---- */

RIG_TEST(a_patch_tells_missing_null_and_values_apart)
{
    assert_ok(f, patch(f, "{}"), "{}");
    assert_false(f->patch.has_run_at || f->patch.has_payload || f->patch.has_retry || f->patch.has_ack_timeout ||
                 f->patch.has_partition_key || f->patch.has_headers || f->patch.has_callback_url);
    assert_ok(f, patch(f, "{\"callback_url\":\"https://a/\"}"), "a URL");
    assert_true(f->patch.has_callback_url);
    assert_str(f->patch.callback_url, "https://a/");
    assert_ok(
        f,
        patch(f, "{\"retry\":null,\"ack_timeout\":null,\"partition_key\":null,\"headers\":null,\"callback_url\":null}"),
        "nulls");
    assert_true(f->patch.has_retry && f->patch.has_ack_timeout && f->patch.has_partition_key && f->patch.has_headers &&
                f->patch.has_callback_url);
    assert_null(f->patch.callback_url.p);
    assert_null(f->patch.retry.p);
    assert_int_equal(f->patch.ack_timeout_ms, 0);
    assert_null(f->patch.partition_key.p);
    assert_null(f->patch.headers.p);
    assert_false(f->patch.has_payload);
    assert_ok(f, patch(f, "{\"payload\":null,\"delay\":\"PT1S\",\"retry\":[\"1s\"]}"), "values");
    assert_true(f->patch.has_payload && f->patch.has_run_at && f->patch.run_at_is_delay);
    assert_str(f->patch.payload, "null");
    assert_int_equal(f->patch.run_at_ms, 1000);
    assert_str(f->patch.retry, "1s");
    assert_ok(f, patch(f, "{\"run_at\":\"2026-11-21T10:30:05Z\"}"), "run_at");
    assert_true(f->patch.has_run_at && !f->patch.run_at_is_delay);
    assert_int_equal(f->patch.run_at_ms, NOW + 5000);
}

RIG_TEST(a_patch_refuses_what_cannot_change)
{
    assert_int_equal(patch(f, "{\"topic\":\"u\",\"key\":\"v\",\"state\":\"dead\",\"run_at\":null,\"x\":1}"),
                     DT_INVALID);
    assert_string_equal(pointers(f), "/topic /key /state /run_at /x");
    assert_int_equal(patch(f, "{\"delay\":\"P11D\"}"), DT_INVALID);
    assert_string_equal(pointers(f), "/delay");
    assert_int_equal(patch(f, "{\"delay\":1,\"run_at\":\"2026-11-21T10:30:05Z\"}"), DT_INVALID);
    assert_int_equal(patch(f, "[]"), DT_INVALID);
}

/* ---- topics ---- */

static dt_status topic(struct fixture *f, const char *text, struct dt_topic_setting *out)
{
    parse(f, text);
    return dt_topic_decode(f->json, DT_STR_LIT("orders"), &f->rules, &f->faults, out);
}

RIG_TEST(topic_settings_are_decoded_and_omitted_ones_are_defaults)
{
    struct dt_topic_setting t;
    assert_ok(f, topic(f, "{}", &t), "{}");
    assert_str(t.topic.name, "orders");
    assert_null(t.topic.kafka_topic.p);
    assert_null(t.topic.retry.p);
    assert_int_equal(t.topic.ack_timeout_ms, 0);
    assert_int_equal(t.topic.retention_ms, -1);
    assert_false(t.set_paused);
    assert_ok(f,
              topic(f,
                    "{\"kafka_topic\":\"o\",\"retry\":[],\"ack_timeout\":\"PT1M\",\"retention\":0,\"paused\":true,"
                    "\"delivery\":\"kafka\",\"max_in_flight\":7,\"rate_limit\":\"600/m\"}",
                    &t),
              "all");
    assert_str(t.topic.kafka_topic, "o");
    assert_str(t.topic.retry, "");
    assert_int_equal(t.topic.ack_timeout_ms, 60000);
    assert_int_equal(t.topic.retention_ms, 0);
    assert_int_equal(t.topic.max_in_flight, 7);
    assert_str(t.topic.rate_limit, "600/m");
    assert_true(t.set_paused && t.topic.paused);
}

RIG_TEST(settings_that_are_wrong_or_not_offered_are_refused)
{
    struct dt_topic_setting t;
    assert_int_equal(topic(f,
                           "{\"delivery\":\"http\",\"callback_url\":\"ftp://x\",\"rate_limit\":5,\"max_in_flight\":0,"
                           "\"kafka_topic\":\"duetime.ledger\",\"name\":\"other\",\"paused\":1,\"retention\":-1,"
                           "\"ack_timeout\":0,\"retry\":[\"?\"],\"colour\":2,\"counts\":1}",
                           &t),
                     DT_INVALID);
    assert_string_equal(pointers(f), "/callback_url /rate_limit /max_in_flight /kafka_topic /name /paused /retention "
                                     "/ack_timeout /retry/0 /colour /counts /delivery");
}

RIG_TEST(what_a_topic_shows_can_be_put_back)
{
    struct dt_topic t = {.name = DT_STR_LIT("orders"),
                         .delivery = DT_DELIVERY_KAFKA,
                         .kafka_topic = DT_STR_LIT("o"),
                         .retry = DT_STR_LIT("15s 1500ms"),
                         .ack_timeout_ms = 500,
                         .retention_ms = -1,
                         .max_in_flight = 3,
                         .rate_limit = DT_STR_LIT("100/s"),
                         .paused = true,
                         .created_at_ms = NOW,
                         .updated_at_ms = NOW,
                         .version = 3};
    struct dt_topic_counts counts = {.by_state = {1, 2, 3, 4, 5}, .oldest_overdue_ms = 77};
    struct dt_topic_setting back;
    STRBUF(text);
    dt_topic_add(&text, &t, &counts);
    assert_ok(f, topic(f, text.p, &back), text.p);
    assert_str(back.topic.kafka_topic, "o");
    assert_str(back.topic.retry, "15s 1500ms");
    assert_int_equal(back.topic.ack_timeout_ms, 500);
    assert_int_equal(back.topic.retention_ms, -1);
    assert_int_equal(back.topic.max_in_flight, 3);
    assert_str(back.topic.rate_limit, "100/s");
    assert_true(back.set_paused && back.topic.paused);
    assert_non_null(strstr(text.p, "\"oldest_overdue_ms\":null,\"oldest_held_ms\":77")); /* held, as it is paused */
}

/* ---- answers ---- */

static const char *shown(struct fixture *f, const struct dt_job *job, const struct dt_job_view *view)
{
    dt_strbuf_reset(&f->out);
    dt_job_add(&f->out, job, view);
    assert_int_equal(dt_json_parse(f->json, dt_strbuf_str(&f->out), &(struct dt_json_limits){0}, NULL), DT_OK);
    return f->out.p;
}

RIG_TEST(a_new_job_reads_as_the_contract_shows)
{
    struct dt_job job;
    struct dt_job_view view = {.payload = true, .waiting_for = "time"};
    decode(f,
           "{\"topic\":\"orders.close\",\"key\":\"order-42\",\"delay\":0,\"payload\":{\"order\":42},\"retry\":[\"15s\","
           "\"3m\",\"10m\"],\"ack_timeout\":\"PT1M\"}");
    f->job.id = 7316522;
    dt_job_from_new(&job, &f->job, NOW);
    assert_string_equal(
        shown(f, &job, &view),
        "{\"id\":\"7316522\",\"topic\":\"orders.close\",\"key\":\"order-42\",\"state\":\"scheduled\","
        "\"run_at\":\"2026-11-21T10:30:00.000Z\",\"next_at\":\"2026-11-21T10:30:00.000Z\",\"attempt\":0,"
        "\"max_attempts\":4,\"retry\":[\"15s\",\"3m\",\"10m\"],\"ack_timeout\":\"PT1M\",\"payload\":{\"order\":42},"
        "\"waiting_for\":\"time\",\"created_at\":\"2026-11-21T10:30:00.000Z\",\"updated_at\":\"2026-11-21T10:30:00."
        "000Z\","
        "\"version\":1}");
}

RIG_TEST(a_dead_job_tells_what_failed)
{
    struct dt_job job = {.id = 1,
                         .topic = DT_STR_LIT("t"),
                         .state = DT_DEAD,
                         .run_at_ms = NOW,
                         .attempt = 1,
                         .failures = 1,
                         .retry = DT_STR_LIT(""),
                         .ack_timeout_ms = 1500,
                         .payload = DT_STR_LIT("null"),
                         .error_code = DT_STR_LIT("boom"),
                         .error_at_ms = NOW + 1,
                         .finished_at_ms = NOW + 1,
                         .created_at_ms = NOW,
                         .updated_at_ms = NOW + 1,
                         .version = 3};
    assert_string_equal(
        shown(f, &job, &(struct dt_job_view){.outcome = "applied"}),
        "{\"id\":\"1\",\"topic\":\"t\",\"state\":\"dead\",\"run_at\":\"2026-11-21T10:30:00.000Z\",\"next_at\":null,"
        "\"attempt\":1,\"failures\":1,\"last_error\":{\"code\":\"boom\",\"message\":null,"
        "\"at\":\"2026-11-21T10:30:00.001Z\"},\"max_attempts\":1,\"retry\":[],\"ack_timeout\":\"PT1.5S\","
        "\"waiting_for\":null,\"created_at\":\"2026-11-21T10:30:00.000Z\",\"updated_at\":\"2026-11-21T10:30:00.001Z\","
        "\"finished_at\":\"2026-11-21T10:30:00.001Z\",\"version\":3,\"outcome\":\"applied\"}");
}

RIG_TEST(a_payload_broken_by_hand_is_shown_as_base64)
{
    struct dt_job job = {.id = 1,
                         .topic = DT_STR_LIT("t"),
                         .retry = DT_STR_LIT("15s,PT3M nonsense"),
                         .headers = DT_STR_LIT("{\"a\""),
                         .payload = DT_STR_LIT("{\"a\":"),
                         .version = 1};
    struct dt_job_view view = {.payload = true, .check = f->other};
    const char *text = shown(f, &job, &view);
    assert_non_null(strstr(text, "\"payload_base64\":\"eyJhIjo=\",\"content_type\":\"application/json\""));
    assert_non_null(strstr(text, "\"retry\":[\"15s\",\"3m\",\"nonsense\"]"));
    assert_null(strstr(text, "\"headers\""));
    job.payload = DT_STR_LIT(" [1, 2]");
    assert_non_null(strstr(shown(f, &job, &view), "\"payload\": [1, 2],"));
}

/* ---- base64 ---- */

RIG_TEST(base64_goes_there_and_back)
{
    char bytes[64], back[64];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 37 + 200);
    for (size_t n = 0; n < sizeof(bytes); n++) {
        size_t got;
        dt_strbuf_reset(&f->out);
        dt_base64_add(&f->out, (struct dt_str){bytes, n});
        assert_int_equal(f->out.n, (n + 2) / 3 * 4);
        assert_true(dt_base64_decode(dt_strbuf_str(&f->out), back, &got));
        assert_int_equal(got, n);
        assert_memory_equal(back, bytes, n);
    }
}

RIG_TEST(base64_that_is_not_exact_is_refused)
{
    static const char *const bad[] = {
        "A", "AA", "AAA", "=AAA", "A=AA", "A===", "====", "AAAA=", "AA==AAAA", "AB==", "AAB=", "AA A", "AA\nA", "A_-A"};
    char out[16];
    size_t n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (dt_base64_decode(dt_str(bad[i]), out, &n))
            fail_msg("%s was taken", bad[i]);
}

SUITE(NULL, NULL)
