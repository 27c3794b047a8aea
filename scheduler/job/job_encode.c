/* A job as JSON: see job_encode.h. */
#include "job/job_encode.h"

#include "base/text/base64.h"
#include "job/retry.h"

#define STORED_DEPTH_MAX 128 /* what limits.json_depth allowed once may be less deep today */

void dt_json_add_time(struct dt_strbuf *out, int64_t ms)
{
    if (ms == 0) {
        dt_strbuf_add(out, "null", 4);
        return;
    }
    char text[25];
    dt_time_format(ms, text);
    dt_strbuf_addc(out, '"');
    dt_strbuf_adds(out, text);
    dt_strbuf_addc(out, '"');
}

void dt_json_add_duration(struct dt_strbuf *out, int64_t ms)
{
    dt_strbuf_addc(out, '"');
    dt_duration_add_iso(out, ms);
    dt_strbuf_addc(out, '"');
}

static void add_name(struct dt_strbuf *out, struct dt_str name)
{
    dt_strbuf_add(out, name.p, name.n);
}

static void add_string(struct dt_strbuf *out, struct dt_str name, struct dt_str value)
{
    if (!value.p)
        return;
    add_name(out, name);
    dt_json_add_string(out, value);
}

static void add_int(struct dt_strbuf *out, struct dt_str name, int64_t value)
{
    add_name(out, name);
    dt_strbuf_add_i64(out, value);
}

static void add_time(struct dt_strbuf *out, struct dt_str name, int64_t ms)
{
    add_name(out, name);
    dt_json_add_time(out, ms);
}

void dt_json_add_string_or_null(struct dt_strbuf *out, struct dt_str text)
{
    if (text.p)
        dt_json_add_string(out, text);
    else
        dt_strbuf_add(out, "null", 4);
}

static void add_string_or_null(struct dt_strbuf *out, struct dt_str name, struct dt_str value)
{
    add_name(out, name);
    dt_json_add_string_or_null(out, value);
}

/* ---- retry ---- */

/* Digits and one of s, m, h, d, what schedules are usually made of, are shown as they stand. Other delays get the short
 * form when they are whole seconds, else that of ISO 8601; text that is none (a manual edit) stays as it is. */
static void add_delay(struct dt_strbuf *out, struct dt_str word)
{
    int64_t ms[DT_RETRY_MAX];
    unsigned n;
    bool is_short = word.n >= 2 && memchr("smhd", word.p[word.n - 1], 4);
    for (size_t i = 0; is_short && i < word.n - 1; i++)
        is_short = word.p[i] >= '0' && word.p[i] <= '9';
    if (is_short || dt_retry_parse(word, ms, &n) != DT_OK || n != 1) {
        dt_json_add_string(out, word);
        return;
    }
    dt_strbuf_addc(out, '"');
    if (ms[0] % 1000 == 0)
        dt_duration_add_short(out, ms[0]);
    else
        dt_duration_add_iso(out, ms[0]);
    dt_strbuf_addc(out, '"');
}

static bool is_separator(char c)
{
    return c == ' ' || c == ',';
}

void dt_retry_add_json(struct dt_strbuf *out, struct dt_str retry)
{
    unsigned n = 0;
    dt_strbuf_addc(out, '[');
    for (size_t i = 0; i < retry.n;) {
        size_t start = i;
        while (i < retry.n && !is_separator(retry.p[i]))
            i++;
        if (i > start) {
            if (n++ > 0)
                dt_strbuf_addc(out, ',');
            add_delay(out, (struct dt_str){retry.p + start, i - start});
        } else {
            i++;
        }
    }
    dt_strbuf_addc(out, ']');
}

/* ---- job ---- */

/* Without memory nobody knows: the job as a whole is then not there. */
static bool is_json(struct dt_strbuf *out, dt_json *check, struct dt_str text)
{
    const struct dt_json_limits limits = {.depth = STORED_DEPTH_MAX, .check_only = true};
    dt_status status = check ? dt_json_parse(check, text, &limits, NULL) : DT_OK;
    out->failed = out->failed || status == DT_NOMEM;
    return status == DT_OK;
}

static void add_payload(struct dt_strbuf *out, const struct dt_job *job, dt_json *check)
{
    if (!job->payload_binary && is_json(out, check, job->payload)) {
        add_name(out, DT_STR_LIT(",\"payload\":"));
        dt_strbuf_add(out, job->payload.p, job->payload.n);
        return;
    }
    add_name(out, DT_STR_LIT(",\"payload_base64\":\""));
    dt_base64_add(out, job->payload);
    dt_strbuf_addc(out, '"');
    add_string(out, DT_STR_LIT(",\"content_type\":"),
               job->content_type.p ? job->content_type : DT_STR_LIT("application/json"));
}

static void add_last_error(struct dt_strbuf *out, const struct dt_job *job)
{
    if (job->failures > 0 || job->error_at_ms > 0)
        add_int(out, DT_STR_LIT(",\"failures\":"), job->failures);
    if (job->error_at_ms == 0)
        return;
    add_string_or_null(out, DT_STR_LIT(",\"last_error\":{\"code\":"), job->error_code);
    add_string_or_null(out, DT_STR_LIT(",\"message\":"), job->error_message);
    add_time(out, DT_STR_LIT(",\"at\":"), job->error_at_ms);
    dt_strbuf_addc(out, '}');
}

static void add_policy(struct dt_strbuf *out, const struct dt_job *job)
{
    const struct dt_str retry = job->retry;
    int64_t attempts = 1;
    for (size_t i = 0; i < retry.n; i++)
        attempts += !is_separator(retry.p[i]) && (i == 0 || is_separator(retry.p[i - 1]));
    add_int(out, DT_STR_LIT(",\"max_attempts\":"), attempts);
    add_name(out, DT_STR_LIT(",\"retry\":"));
    dt_retry_add_json(out, retry);
    add_name(out, DT_STR_LIT(",\"ack_timeout\":"));
    dt_json_add_duration(out, job->ack_timeout_ms);
    if (job->no_retries)
        add_name(out, DT_STR_LIT(",\"retries_cancelled\":true"));
}

void dt_job_add(struct dt_strbuf *out, const struct dt_job *job, const struct dt_job_view *view)
{
    dt_strbuf_reserve(out, 640 + (view->payload ? job->payload.n : 0));
    add_int(out, DT_STR_LIT("{\"id\":\""), job->id);
    add_string(out, DT_STR_LIT("\",\"topic\":"), job->topic);
    add_string(out, DT_STR_LIT(",\"key\":"), job->key);
    add_name(out, DT_STR_LIT(",\"state\":\""));
    dt_strbuf_adds(out, dt_job_state_name(job->state));
    add_time(out, DT_STR_LIT("\",\"run_at\":"), job->run_at_ms);
    add_time(out, DT_STR_LIT(",\"next_at\":"), dt_job_state_terminal(job->state) ? 0 : job->next_at_ms);
    add_int(out, DT_STR_LIT(",\"attempt\":"), job->attempt);
    add_last_error(out, job);
    add_policy(out, job);
    add_string(out, DT_STR_LIT(",\"partition_key\":"), job->partition_key);
    if (job->headers.p && is_json(out, view->check, job->headers)) {
        add_name(out, DT_STR_LIT(",\"headers\":"));
        dt_strbuf_add(out, job->headers.p, job->headers.n);
    }
    add_string(out, DT_STR_LIT(",\"callback_url\":"), job->callback_url);
    if (view->payload)
        add_payload(out, job, view->check);
    add_string_or_null(out, DT_STR_LIT(",\"waiting_for\":"), dt_str(view->waiting_for));
    add_time(out, DT_STR_LIT(",\"created_at\":"), job->created_at_ms);
    add_time(out, DT_STR_LIT(",\"updated_at\":"), job->updated_at_ms);
    if (dt_job_state_terminal(job->state) && job->finished_at_ms > 0)
        add_time(out, DT_STR_LIT(",\"finished_at\":"), job->finished_at_ms);
    add_int(out, DT_STR_LIT(",\"version\":"), job->version);
    if (view->deadline_ms)
        add_time(out, DT_STR_LIT(",\"deadline\":"), view->deadline_ms);
    if (view->outcome)
        add_string(out, DT_STR_LIT(",\"outcome\":"), dt_str(view->outcome));
    dt_strbuf_addc(out, '}');
}

void dt_job_add_json(struct dt_strbuf *out, const struct dt_job *job, bool with_payload, const char *waiting_for)
{
    struct dt_job_view view = {.payload = with_payload, .waiting_for = waiting_for};
    if (dt_json_new(&view.check) != DT_OK) {
        out->failed = true;
        return;
    }
    dt_job_add(out, job, &view);
    dt_json_free(view.check);
}
