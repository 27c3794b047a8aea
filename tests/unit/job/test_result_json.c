/* Bodies of results, as they come over REST and from Kafka. */

#include "support/suite.h"

#include "job/results/results.h"

static char reasons[2000];
static dt_json *json;
static struct dt_arena arena;

static dt_status decode(const char *text, int64_t job_id, struct dt_result *out)
{
    struct dt_json_limits limits = {.depth = 16};
    struct dt_error err = {0};
    reasons[0] = '\0';
    if (!json)
        assert_int_equal(dt_json_new(&json), DT_OK);
    if (dt_json_parse(json, dt_str(text), &limits, &err) != DT_OK)
        fail_msg("%s: %s", text, err.text);
    struct dt_faults faults = {.arena = &arena};
    *out = (struct dt_result){.job_id = job_id};
    dt_status status = dt_result_decode(json, dt_json_root(json), NULL, &faults, out);
    for (size_t i = 0, n = 0; i < faults.n; i++, n = strlen(reasons))
        snprintf(reasons + n, sizeof reasons - n, "%s %s; ", faults.v[i].pointer.p, faults.v[i].reason.p);
    return status;
}

TEST(null_members_count_as_absent)
{
    struct dt_result r;
    assert_int_equal(
        decode("{\"attempt\":1,\"status\":\"succeeded\",\"error\":null,\"retry_after\":null,\"finished_at\":null}", 5,
               &r),
        DT_OK);
    assert_members(r, (retry_after_ms, -1), (error_code.p, NULL));
}

TEST(ids_are_plain_decimal_numbers)
{
    static const char *const bad[] = {"", "0", "01", "-1", "+1", " 1", "1 ", "1.0", "abc", "1234567890123456789"};
    int64_t id;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(dt_job_id_parse(dt_str(bad[i]), &id));
    assert_true(dt_job_id_parse(dt_str("758663023165448"), &id));
    assert_int_equal(id, INT64_C(758663023165448));
}

static void end(void)
{
    dt_json_free(json);
    dt_arena_clear(&arena);
}

SUITE(NULL, end)
