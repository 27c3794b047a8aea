/* Digests of bodies, payloads that a manual edit has spoiled, and base64. Which bodies are refused: api/jobs/. */

#include "support/suite.h"

#include "base/text/encoding.h"
#include "job/job.h"
#include "job/job_json.h"

#define NOW INT64_C(1795257000000) /* 2026-11-21T10:30:00Z */

struct fixture {
    struct dt_arena arena;
    struct dt_faults faults;
    struct dt_strbuf out;
    dt_json *json, *other;
    struct dt_job_rules rules;
    struct dt_new_job job;
};

static void make(struct fixture *f)
{
    assert_int_equal(dt_json_new(&f->json), DT_OK);
    assert_int_equal(dt_json_new(&f->other), DT_OK);
    f->rules = (struct dt_job_rules){.max_delay_ms = 10 * DT_DAY_MS,
                                     .payload_max = 1000,
                                     .headers_max = 64,
                                     .json_depth = 8,
                                     .installation = DT_STR_LIT("duetime")};
}

static void drop(struct fixture *f)
{
    dt_json_free(f->json);
    dt_json_free(f->other);
    dt_strbuf_clear(&f->out);
    dt_arena_clear(&f->arena);
}

#define RIG_TEST(name) TEST_ON(struct fixture, f, name, make, drop)

static dt_status decode(struct fixture *f, const char *text)
{
    const struct dt_job_path path = {0};
    struct dt_json_limits limits = dt_job_json_limits(f->rules.json_depth);
    struct dt_error err = {0};
    dt_status status = dt_json_parse(f->json, dt_str(text), &limits, &err);
    if (status != DT_OK)
        fail_msg("%s: %s", text, err.text);
    f->faults = (struct dt_faults){.arena = &f->arena};
    return dt_job_decode(f->json, &f->rules, &path, NOW, &f->faults, &f->job);
}

/* ---- equal ---- */

static void digest_of(struct fixture *f, const char *text, unsigned char digest[16])
{
    const dt_status status = decode(f, text);
    if (status != DT_OK)
        fail_msg("%s: %s at %s: %s", text, dt_status_name(status), f->faults.n ? f->faults.v[0].pointer.p : "-",
                 f->faults.n ? f->faults.v[0].reason.p : "-");
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

/* ---- answers ---- */

static const char *shown(struct fixture *f, const struct dt_job *job, const struct dt_job_view *view)
{
    dt_strbuf_reset(&f->out);
    dt_job_add(&f->out, job, view);
    assert_int_equal(dt_json_parse(f->json, dt_strbuf_str(&f->out), &(struct dt_json_limits){0}, NULL), DT_OK);
    return f->out.p;
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

RIG_TEST(base64_is_decoded_to_what_was_encoded)
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

RIG_TEST(base64_that_is_not_canonical_is_refused)
{
    static const char *const bad[] = {
        "A", "AA", "AAA", "=AAA", "A=AA", "A===", "====", "AAAA=", "AA==AAAA", "AB==", "AAB=", "AA A", "AA\nA", "A_-A"};
    char out[16];
    size_t n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (dt_base64_decode(dt_str(bad[i]), out, &n))
            fail_msg("%s was taken", bad[i]);
}
