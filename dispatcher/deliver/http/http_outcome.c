/* Judging answers. What a report says is judged by job/result_json; here is decided only whether there is a report. */
#include "http_outcome.h"

#include <curl/curl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/text/utf8.h"
#include "job/results/result_json.h"

#define DATE_BYTES  64                     /* the longest date of HTTP has 33 */
#define SECONDS_MAX INT64_C(1000000000000) /* a delay or a date beyond it counts as this */

static const char *const end_codes[DT_HTTP_ENDS] = {
    [DT_HTTP_TIMEOUT] = "http_timeout", [DT_HTTP_CONNECT] = "http_connect",     [DT_HTTP_DNS] = "http_dns",
    [DT_HTTP_TLS] = "http_tls",         [DT_HTTP_FORBIDDEN] = "http_forbidden", [DT_HTTP_BROKEN] = "http_broken",
    [DT_HTTP_NO_URL] = "http_url",      [DT_HTTP_NO_SECRET] = "http_secret"};

/* ---- messages ---- */

struct dt_str dt_http_message(struct dt_str body, struct dt_arena *arena)
{
    bool shortened = body.n > DT_HTTP_MESSAGE_BYTES;
    size_t n = shortened ? DT_HTTP_MESSAGE_BYTES : body.n;
    char *out = dt_arena_alloc(arena, n + 1);
    size_t length = 0;
    for (size_t i = 0; out && i < n;) {
        const unsigned char *at = (const unsigned char *)body.p + i;
        size_t bytes = dt_utf8_character(at, n - i);
        if (bytes == 0 && shortened && dt_utf8_cut_off(at, n - i))
            break;
        if (bytes > 0)
            memcpy(out + length, at, bytes);
        else
            out[length] = '?';
        i += bytes ? bytes : 1;
        length += bytes ? bytes : 1;
    }
    if (out)
        out[length] = '\0';
    return (struct dt_str){out, length};
}

/* ---- Retry-After ---- */

bool dt_retry_after_parse(struct dt_str text, int64_t now_ms, int64_t max_ms, int64_t *out_ms)
{
    char date[DATE_BYTES] = "";
    int64_t seconds = 0;
    size_t n = 0;
    text = dt_str_trimmed(text);
    for (; n < text.n && text.p[n] >= '0' && text.p[n] <= '9'; n++)
        seconds = dt_earlier(seconds * 10 + (text.p[n] - '0'), SECONDS_MAX);
    if (text.n > 0 && n == text.n) {
        *out_ms = dt_earlier(seconds * 1000, max_ms);
        return true;
    }
    if (n > 0 || text.n >= sizeof(date)) /* all dates of HTTP begin with a weekday; curl_getdate reads others, too */
        return false;
    memcpy(date, text.n > 0 ? text.p : "", text.n);
    const int64_t at_s = curl_getdate(date, NULL);
    if (at_s < 0)
        return false;
    *out_ms = dt_earlier(dt_later(dt_earlier(at_s, SECONDS_MAX) * 1000 - now_ms, 0), max_ms);
    return true;
}

/* ---- outcomes ---- */

static dt_status add_error(struct dt_callback_outcome *out, const char *code, struct dt_str message,
                           struct dt_arena *arena)
{
    out->result.error_code = dt_arena_copy(arena, dt_str(code));
    out->result.error_message = dt_http_message(message, arena);
    return out->result.error_code.p && out->result.error_message.p ? DT_OK : DT_NOMEM;
}

/* Whether the answer says that its body is a report: parameters of the media type do not matter. */
static bool is_report(const struct dt_http_answer *answer)
{
    if (!answer->content_type.p)
        return false;
    const char *semicolon = memchr(answer->content_type.p, ';', answer->content_type.n);
    size_t n = semicolon ? (size_t)(semicolon - answer->content_type.p) : answer->content_type.n;
    return dt_str_is_caseless(dt_str_trimmed((struct dt_str){answer->content_type.p, n}),
                              "application/vnd.duetime.result+json");
}

static void start_result(struct dt_callback_outcome *out, const struct dt_callback_attempt *attempt,
                         enum dt_result_status status)
{
    out->result = (struct dt_result){
        .job_id = attempt->job_id, .attempt = attempt->attempt, .status = status, .retry_after_ms = -1};
}

/* A failure may say when to come back, by its header or in its report, which wins. */
static void take_retry_after(const struct dt_http_answer *answer, const struct dt_callback_attempt *attempt,
                             struct dt_callback_outcome *out)
{
    bool wanted = out->result.status == DT_RESULT_FAILED && out->result.retry_after_ms < 0;
    if (wanted && answer->retry_after.p)
        (void)dt_retry_after_parse(answer->retry_after, attempt->now_ms, attempt->max_delay_ms,
                                   &out->result.retry_after_ms);
}

static dt_status judge_report(const struct dt_http_answer *answer, const struct dt_callback_attempt *attempt,
                              dt_json *json, struct dt_arena *arena, struct dt_callback_outcome *out)
{
    struct dt_json_limits limits = {.depth = 16};
    struct dt_faults faults;
    dt_faults_init(&faults, arena);
    dt_status status = answer->body_whole ? dt_json_parse(json, answer->body, &limits, NULL) : DT_INVALID;
    if (status == DT_OK)
        status = dt_result_decode(json, dt_json_root(json), NULL, &faults, &out->result);
    else if (answer->body_whole)
        out->fault = "is not JSON";
    else
        out->fault = answer->body.n >= DT_HTTP_BODY_MAX ? "is too large" : "is not whole";
    if (status == DT_NOMEM)
        return status;
    if (faults.n)
        out->fault = faults.v[0].reason.p;
    if (status != DT_OK)
        start_result(out, attempt, DT_RESULT_FAILED);
    take_retry_after(answer, attempt, out);
    return status == DT_OK ? status : add_error(out, "http_report", answer->body, arena);
}

dt_status dt_callback_outcome(const struct dt_http_answer *answer, const struct dt_callback_attempt *attempt,
                              dt_json *json, struct dt_arena *arena, struct dt_callback_outcome *out)
{
    char code[32];
    *out = (struct dt_callback_outcome){.kind = DT_CALLBACK_RESULT, .duration_ms = -1};
    start_result(out, attempt, DT_RESULT_SUCCEEDED);
    if (answer->end == DT_HTTP_UNKNOWN || answer->end == DT_HTTP_WITHHELD) {
        out->kind = DT_CALLBACK_UNKNOWN;
        return DT_OK;
    }
    if (answer->end != DT_HTTP_ANSWERED) {
        out->result.status = DT_RESULT_FAILED;
        return add_error(out, end_codes[answer->end], dt_str(answer->detail), arena);
    }
    out->http_status = answer->status;
    out->duration_ms = answer->duration_ms;
    if (answer->status < 200 || answer->status > 299) {
        snprintf(code, sizeof(code), "http_%d", answer->status);
        out->result.status = answer->status == 410 ? DT_RESULT_GAVE_UP : DT_RESULT_FAILED;
        take_retry_after(answer, attempt, out);
        return add_error(out, code, answer->body, arena);
    }
    if (is_report(answer))
        return judge_report(answer, attempt, json, arena, out);
    if (answer->status == 202)
        out->kind = DT_CALLBACK_TAKEN;
    return DT_OK;
}
