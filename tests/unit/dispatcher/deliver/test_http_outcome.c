/* What an answer to a callback means, row by row; Retry-After; messages of errors. */

#include "support/suite.h"

#include "deliver/http/callback.h"

#define NOW       INT64_C(784111777000) /* Sun, 06 Nov 1994 08:49:37 GMT */
#define MAX_DELAY INT64_C(86400000)
#define REPORT    "application/vnd.duetime.result+json"

static struct dt_arena arena;
static dt_json *json;
static struct dt_callback_outcome outcome;

static void setup(void)
{
    assert_int_equal(dt_json_new(&json), DT_OK);
}

static void teardown(void)
{
    dt_json_free(json);
    dt_arena_clear(&arena);
}

#define FRESH_TEST(name) TEST_WITH(name, setup, teardown)

static void judge(const struct dt_http_answer *answer)
{
    struct dt_callback_attempt attempt = {.job_id = 42, .attempt = 3, .now_ms = NOW, .max_delay_ms = MAX_DELAY};
    assert_int_equal(dt_callback_outcome(answer, &attempt, json, &arena, &outcome), DT_OK);
    if (outcome.kind == DT_CALLBACK_RESULT) {
        assert_members(outcome.result, (job_id, 42), (attempt, 3));
    }
}

static struct dt_http_answer answer_of(int status, const char *content_type, const char *body)
{
    return (struct dt_http_answer){.end = DT_HTTP_ANSWERED,
                                   .status = status,
                                   .content_type = dt_str(content_type),
                                   .body = dt_str(body),
                                   .body_whole = true,
                                   .duration_ms = 7,
                                   .detail = ""};
}

static void assert_error(enum dt_result_status status, const char *code, const char *message)
{
    assert_int_equal(outcome.kind, DT_CALLBACK_RESULT);
    assert_int_equal(outcome.result.status, status);
    if (!dt_str_is(outcome.result.error_code, code) || !dt_str_is(outcome.result.error_message, message))
        fail_msg("%.*s: %.*s", (int)outcome.result.error_code.n, outcome.result.error_code.p,
                 (int)outcome.result.error_message.n, outcome.result.error_message.p);
}

FRESH_TEST(a_2xx_is_a_success)
{
    static const int statuses[] = {200, 201, 203, 204, 299};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        struct dt_http_answer answer = answer_of(statuses[i], "text/plain", "fine");
        answer.body_whole = false;
        judge(&answer);
        assert_int_equal(outcome.kind, DT_CALLBACK_RESULT);
        assert_members(outcome.result, (status, DT_RESULT_SUCCEEDED), (error_code.p, NULL));
        assert_members(outcome, (http_status, statuses[i]), (duration_ms, 7));
    }
}

FRESH_TEST(a_202_is_an_attempt_that_is_reported_later)
{
    struct dt_http_answer answer = answer_of(202, NULL, "");
    judge(&answer);
    assert_members(outcome, (kind, DT_CALLBACK_TAKEN), (http_status, 202));
}

FRESH_TEST(a_410_gives_up)
{
    struct dt_http_answer answer = answer_of(410, NULL, "gone");
    answer.retry_after = dt_str("5");
    judge(&answer);
    assert_error(DT_RESULT_GAVE_UP, "http_410", "gone");
    assert_int_equal(outcome.result.retry_after_ms, -1);
}

FRESH_TEST(any_other_status_is_a_failure)
{
    static const int statuses[] = {100, 199, 300, 301, 302, 307, 308, 400, 401, 404, 408, 429, 500, 502, 503, 599, 999};
    char code[16];
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        struct dt_http_answer answer = answer_of(statuses[i], REPORT, "{\"status\":\"succeeded\"}");
        judge(&answer);
        assert_true(snprintf(code, sizeof(code), "http_%d", statuses[i]) > 0);
        assert_error(DT_RESULT_FAILED, code, "{\"status\":\"succeeded\"}");
        assert_int_equal(outcome.result.retry_after_ms, -1);
    }
}

FRESH_TEST(no_answer_is_a_failure_with_its_reason)
{
    static const char *const codes[DT_HTTP_ENDS] = {
        [DT_HTTP_TIMEOUT] = "http_timeout", [DT_HTTP_CONNECT] = "http_connect",     [DT_HTTP_DNS] = "http_dns",
        [DT_HTTP_TLS] = "http_tls",         [DT_HTTP_FORBIDDEN] = "http_forbidden", [DT_HTTP_BROKEN] = "http_broken",
        [DT_HTTP_NO_URL] = "http_url",      [DT_HTTP_NO_SECRET] = "http_secret"};
    for (int end = 0; end < DT_HTTP_ENDS; end++) {
        struct dt_http_answer answer = {.end = (enum dt_http_end)end, .detail = "why", .duration_ms = 7};
        if (!codes[end])
            continue;
        judge(&answer);
        assert_error(DT_RESULT_FAILED, codes[end], "why");
        assert_members(outcome, (http_status, 0), (duration_ms, -1));
    }
}

FRESH_TEST(after_the_client_was_stopped_the_outcome_is_unknown)
{
    struct dt_http_answer answer = {.end = DT_HTTP_UNKNOWN, .detail = "stopped"};
    judge(&answer);
    assert_int_equal(outcome.kind, DT_CALLBACK_UNKNOWN);
}

FRESH_TEST(a_report_decides_whatever_the_2xx)
{
    static const int statuses[] = {200, 202, 204};
    for (size_t i = 0; i < 3; i++) {
        struct dt_http_answer answer = answer_of(statuses[i], "Application/vnd.duetime.Result+JSON ; charset=utf-8",
                                                 "{\"status\":\"snoozed\",\"retry_after\":\"PT5M\"}");
        judge(&answer);
        assert_int_equal(outcome.kind, DT_CALLBACK_RESULT);
        assert_members(outcome.result, (status, DT_RESULT_SNOOZED), (retry_after_ms, 300000));
    }
}

FRESH_TEST(a_report_may_carry_its_attempt_and_an_error)
{
    struct dt_http_answer answer = answer_of(
        200, REPORT,
        "{\"job_id\":\"42\",\"attempt\":3,\"status\":\"failed\",\"error\":{\"code\":\"c\\n\",\"message\":\"m\"}}");
    judge(&answer);
    assert_error(DT_RESULT_FAILED, "c\n", "m");
    assert_null(outcome.fault);
}

FRESH_TEST(a_report_of_a_failure_without_a_delay_uses_the_retry_after_header)
{
    static const struct {
        const char *body;
        int64_t ms;
    } rows[] = {{"{\"status\":\"failed\"}", 7000},
                {"{\"status\":\"failed\",\"retry_after\":\"PT2S\"}", 2000},
                {"{\"status\":\"failed\",\"retry_after\":0}", 0},
                {"{\"status\":\"snoozed\",\"retry_after\":\"PT3S\"}", 3000},
                {"{\"status\":\"gave_up\"}", -1},
                {"{\"status\":\"succeeded\"}", -1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dt_http_answer answer = answer_of(200, REPORT, rows[i].body);
        answer.retry_after = dt_str("7");
        judge(&answer);
        if (outcome.result.retry_after_ms != rows[i].ms)
            fail_msg("%s: %lld", rows[i].body, (long long)outcome.result.retry_after_ms);
    }
}

FRESH_TEST(a_body_that_is_no_report_is_a_failure)
{
    static const char *const bodies[] = {"",
                                         "nonsense",
                                         "[]",
                                         "{}",
                                         "{\"status\":\"fine\"}",
                                         "{\"status\":\"snoozed\"}",
                                         "{\"status\":\"succeeded\",\"job_id\":\"43\"}",
                                         "{\"status\":\"succeeded\",\"attempt\":2}",
                                         "{\"status\":\"succeeded\",\"attempt\":0}",
                                         "{\"status\":\"succeeded\",\"x\":1}",
                                         "{\"status\":\"succeeded\"} {}",
                                         "{\"status\":\"succeeded\",\"status\":\"failed\"}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        struct dt_http_answer answer = answer_of(200, REPORT, bodies[i]);
        answer.retry_after = dt_str("7");
        judge(&answer);
        assert_error(DT_RESULT_FAILED, "http_report", bodies[i]);
        assert_int_equal(outcome.result.retry_after_ms, 7000);
        assert_non_null(outcome.fault);
        assert_int_equal(outcome.http_status, 200);
    }
}

FRESH_TEST(an_incomplete_report_is_a_failure)
{
    struct dt_http_answer answer = answer_of(202, REPORT, "{\"status\":\"succeeded\"}");
    answer.body_whole = false;
    judge(&answer);
    assert_error(DT_RESULT_FAILED, "http_report", "{\"status\":\"succeeded\"}");
    assert_string_equal(outcome.fault, "is not whole");
}

FRESH_TEST(a_media_type_that_is_similar_is_no_report)
{
    struct dt_http_answer answer = answer_of(200, REPORT "x", "{\"status\":\"failed\"}");
    judge(&answer);
    assert_int_equal(outcome.result.status, DT_RESULT_SUCCEEDED);
}

FRESH_TEST(retry_after_sets_the_delay_of_a_failure)
{
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {{"0", 0},
                {"120", 120000},
                {" 7 ", 7000},
                {"86400", MAX_DELAY},
                {"86401", MAX_DELAY},
                {"99999999999999999999999999", MAX_DELAY},
                {"Sun, 06 Nov 1994 08:50:37 GMT", 60000},
                {"sun, 06 nov 1994 08:50:37 gmt", 60000},
                {"Sunday, 06-Nov-94 08:50:37 GMT", 60000},
                {"Sun Nov  6 08:50:37 1994", 60000},
                {"Sun, 06 Nov 1994 08:50:60 GMT", 83000},
                {"Sun, 06 Nov 1994 08:50:61 GMT", -1},
                {"Sun, 06 Nov 1994 08:49:36 GMT", 0},
                {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
                {"Sun, 06 Nov 2094 08:49:37 GMT", MAX_DELAY},
                {"", -1},
                {"-5", -1},
                {"+5", -1},
                {"1.5", -1},
                {"5s", -1},
                {"soon", -1},
                {"5, 6", -1},
                {"Sun, 06 Nov 1994 08:50:37", 60000},
                {"Sun, 06 Nov 1994 09:50:37 CET", 60000},
                {"Sun, 32 Nov 1994 08:50:37 GMT", -1},
                {"Sun, 06 Nov 1994 25:50:37 GMT", -1},
                {"Xyz, 06 Nov 1994 08:50:37 GMT", -1},
                {"Sun, 06 Xyz 1994 08:50:37 GMT", -1},
                {"Sun, 6 Nov 1994 08:50:37 GMT", 60000},
                {"Sun Nov 6 08:50:37 1994", 60000},
                {"Sun, 06 Nov 1994 08:50:37 GMTx", -1},
                {"Sunday, 06-Nov-70 08:50:37 GMT", MAX_DELAY}, /* 2070 */
                {"Sunday, 06-Nov-71 08:50:37 GMT", 0},
                {"Fri, 31 Dec 99999999999999 23:59:59 GMT, and much more than any date has", -1},
                {"06 Nov 1994 08:50:37 GMT", -1}, /* no date of HTTP, and one that curl_getdate reads */
                {"1994-11-06T08:50:37Z", -1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dt_http_answer answer = answer_of(503, NULL, "");
        answer.retry_after = dt_str(rows[i].text);
        judge(&answer);
        if (outcome.result.retry_after_ms != rows[i].ms)
            fail_msg("%s: %lld", rows[i].text, (long long)outcome.result.retry_after_ms);
    }
}

/* Each beginning has memory of its own, so that a read beyond it is seen. */
FRESH_TEST(nothing_is_read_beyond_a_date_that_is_cut_off)
{
    static const char whole[] = "Sun, 06 Nov 1994 08:50:37 GMT";
    for (size_t n = strlen(whole) + 1; n-- > 0;) {
        int64_t ms = -1;
        char *text = malloc(n ? n : 1);
        assert_non_null(text);
        memcpy(text, whole, n);
        assert_true(dt_retry_after_parse((struct dt_str){text, n}, NOW, MAX_DELAY, &ms) || ms == -1);
        free(text);
    }
}

FRESH_TEST(a_message_has_500_bytes_of_valid_text)
{
    char body[600];
    memset(body, 'a', sizeof(body));
    struct dt_str message = dt_http_message((struct dt_str){body, sizeof(body)}, &arena);
    assert_int_equal(message.n, 500);
    memcpy(body + 499, "\xc3\xa4", 2);
    message = dt_http_message((struct dt_str){body, sizeof(body)}, &arena);
    assert_int_equal(message.n, 499);
    memcpy(body + 496, "\xf0\x9f\x98\x80", 4);
    message = dt_http_message((struct dt_str){body, sizeof(body)}, &arena);
    assert_int_equal(message.n, 500);
    message = dt_http_message(DT_STR_LIT("a\xff\xc3(\xed\xa0\x80z\xc3"), &arena);
    assert_true(dt_utf8_valid(message));
    assert_string_equal(message.p, "a?"
                                   "?(???z?");
    message = dt_http_message(DT_STR_LIT(""), &arena);
    assert_string_equal(message.p, "");
    message = dt_http_message(DT_STR_NONE, &arena);
    assert_string_equal(message.p, "");
}
