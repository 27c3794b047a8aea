/* Bodies of results, as they come over REST and from Kafka. */
#include <stdio.h>
#include <stdlib.h>

#include "support/suite.h"

#include "job/result_json.h"

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
    struct dt_faults faults;
    dt_faults_init(&faults, &arena);
    *out = (struct dt_result){.job_id = job_id};
    dt_status status = dt_result_decode(json, dt_json_root(json), NULL, &faults, out);
    for (size_t i = 0, n = 0; i < faults.n; i++, n = strlen(reasons))
        snprintf(reasons + n, sizeof reasons - n, "%s %s; ", faults.v[i].pointer.p, faults.v[i].reason.p);
    return status;
}

TEST(every_member_is_understood)
{
    struct dt_result r;
    assert_int_equal(
        decode("{\"job_id\":\"7316522\",\"attempt\":3,\"status\":\"failed\",\"error\":{\"code\":\"E\",\"message\":"
               "\"m\"},\"retry_after\":\"PT5M\",\"finished_at\":\"2026-11-21T10:00:00Z\"}",
               -1, &r),
        DT_OK);
    assert_int_equal(r.job_id, 7316522);
    assert_int_equal(r.attempt, 3);
    assert_int_equal(r.status, DT_RESULT_FAILED);
    assert_int_equal(r.retry_after_ms, 300000);
    assert_true(dt_str_is(r.error_code, "E"));
    assert_true(dt_str_is(r.error_message, "m"));
}

TEST(every_status_has_its_word)
{
    static const struct {
        const char *text;
        enum dt_result_status status;
    } words[] = {{"{\"attempt\":1,\"status\":\"succeeded\"}", DT_RESULT_SUCCEEDED},
                 {"{\"attempt\":1,\"status\":\"failed\"}", DT_RESULT_FAILED},
                 {"{\"attempt\":1,\"status\":\"gave_up\"}", DT_RESULT_GAVE_UP},
                 {"{\"attempt\":1,\"status\":\"extended\",\"retry_after\":1000}", DT_RESULT_EXTENDED},
                 {"{\"attempt\":1,\"status\":\"snoozed\",\"retry_after\":\"3m\"}", DT_RESULT_SNOOZED}};
    struct dt_result r;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(decode(words[i].text, 5, &r), DT_OK);
        assert_int_equal(r.status, words[i].status);
        assert_int_equal(r.job_id, 5);
    }
}

TEST(timeouts_and_undeliverable_cannot_be_claimed_from_outside)
{
    struct dt_result r;
    assert_int_equal(decode("{\"attempt\":1,\"status\":\"timed_out\"}", 5, &r), DT_INVALID);
    assert_int_equal(decode("{\"attempt\":1,\"status\":\"undeliverable\"}", 5, &r), DT_INVALID);
}

TEST(what_is_wrong_is_named_with_its_pointer)
{
    static const struct {
        const char *text, *pointer;
    } bad[] = {{"[]", " must be an object"},
               {"{}", "/attempt"},
               {"{\"attempt\":1}", "/status"},
               {"{\"attempt\":0,\"status\":\"failed\"}", "/attempt"},
               {"{\"attempt\":1.5,\"status\":\"failed\"}", "/attempt"},
               {"{\"attempt\":\"1\",\"status\":\"failed\"}", "/attempt"},
               {"{\"attempt\":4294967296,\"status\":\"failed\"}", "/attempt"},
               {"{\"attempt\":1,\"status\":\"done\"}", "/status"},
               {"{\"attempt\":1,\"status\":1}", "/status"},
               {"{\"attempt\":1,\"status\":\"snoozed\"}", "/retry_after"},
               {"{\"attempt\":1,\"status\":\"succeeded\",\"retry_after\":\"1m\"}", "/retry_after"},
               {"{\"attempt\":1,\"status\":\"failed\",\"retry_after\":\"P1M\"}", "/retry_after"},
               {"{\"attempt\":1,\"status\":\"failed\",\"retry_after\":-1}", "/retry_after"},
               {"{\"attempt\":1,\"status\":\"failed\",\"error\":\"E\"}", "/error"},
               {"{\"attempt\":1,\"status\":\"failed\",\"error\":{\"code\":1}}", "/error/code"},
               {"{\"attempt\":1,\"status\":\"failed\",\"error\":{\"text\":\"\"}}", "/error"},
               {"{\"attempt\":1,\"status\":\"failed\",\"finished_at\":\"yesterday\"}", "/finished_at"},
               {"{\"attempt\":1,\"status\":\"failed\",\"job_id\":5}", "/job_id"},
               {"{\"attempt\":1,\"status\":\"failed\",\"job_id\":\"6\"}", "/job_id"},
               {"{\"attempt\":1,\"status\":\"failed\",\"job_id\":\"05\"}", "/job_id"},
               {"{\"attempt\":1,\"status\":\"failed\",\"a/b~c\":1}", "/a~1b~0c"}};
    struct dt_result r;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (decode(bad[i].text, 5, &r) != DT_INVALID)
            fail_msg("%s was accepted", bad[i].text);
        if (!strstr(reasons, bad[i].pointer))
            fail_msg("%s: '%s' does not name %s", bad[i].text, reasons, bad[i].pointer);
    }
}

TEST(all_faults_are_told_at_once)
{
    struct dt_result r;
    assert_int_equal(decode("{\"attempt\":0,\"status\":\"x\",\"more\":1}", -1, &r), DT_INVALID);
    assert_non_null(strstr(reasons, "/attempt"));
    assert_non_null(strstr(reasons, "/status"));
    assert_non_null(strstr(reasons, "/more"));
    assert_non_null(strstr(reasons, "/job_id"));
}

TEST(null_members_count_as_absent)
{
    struct dt_result r;
    assert_int_equal(
        decode("{\"attempt\":1,\"status\":\"succeeded\",\"error\":null,\"retry_after\":null,\"finished_at\":null}", 5,
               &r),
        DT_OK);
    assert_int_equal(r.retry_after_ms, -1);
    assert_null(r.error_code.p);
}

TEST(long_error_texts_are_cut_at_a_character)
{
    struct dt_result r;
    char text[400] = "{\"attempt\":1,\"status\":\"failed\",\"error\":{\"code\":\"x";
    for (int i = 0; i < 70; i++)
        strcat(text, "\xc3\xa4");
    strcat(text, "\"}}");
    assert_int_equal(decode(text, 5, &r), DT_OK);
    assert_int_equal(r.error_code.n, 99); /* 1 + 49 * 2: the fiftieth would end past 100 */
    assert_true(dt_utf8_valid(r.error_code));
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
