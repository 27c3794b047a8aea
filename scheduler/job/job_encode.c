/* A job as JSON: see job_encode.h. */
#include "job_encode.h"

#include "base/text/encoding.h"
#include "base/text/json_write.h"
#include "job.h"

#define STORED_DEPTH_MAX 128 /* what limits.json_depth allowed once may be less deep today */

/* ---- retry ---- */

/* Digits and one of s, m, h, d, what schedules are usually made of, are shown as they stand. Other delays get the short
 * form when they are whole seconds, else that of ISO 8601; text that is none (a manual edit) stays as it is. */
static void put_delay(struct dt_strbuf *out, struct dt_str word)
{
    int64_t ms[DT_RETRY_MAX];
    unsigned n;
    bool is_short = word.n >= 2 && memchr("smhd", word.p[word.n - 1], 4);
    for (size_t i = 0; is_short && i < word.n - 1; i++)
        is_short = word.p[i] >= '0' && word.p[i] <= '9';
    if (is_short || dt_retry_parse(word, ms, &n) != DT_OK || n != 1) {
        dt_json_put_string(out, NULL, word);
    } else if (ms[0] % 1000) {
        dt_json_put_duration(out, NULL, ms[0]);
    } else {
        dt_json_comma(out);
        dt_strbuf_addc(out, '"');
        dt_duration_add_short(out, ms[0]);
        dt_strbuf_addc(out, '"');
    }
}

static bool is_separator(char c)
{
    return c == ' ' || c == ',';
}

void dt_retry_put(struct dt_strbuf *out, const char *name, struct dt_str retry)
{
    dt_json_begin_array(out, name);
    for (size_t i = 0; i < retry.n;) {
        const size_t start = i;
        while (i < retry.n && !is_separator(retry.p[i]))
            i++;
        if (i > start)
            put_delay(out, (struct dt_str){retry.p + start, i - start});
        else
            i++;
    }
    dt_json_end_array(out);
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

static void put_payload(struct dt_strbuf *out, const struct dt_job *job, dt_json *check)
{
    if (!job->payload_binary && is_json(out, check, job->payload)) {
        dt_json_put_raw(out, "payload", job->payload);
        return;
    }
    dt_json_put_base64(out, "payload_base64", job->payload);
    dt_json_put_string(out, "content_type", job->content_type.p ? job->content_type : DT_STR_LIT("application/json"));
}

static void put_last_error(struct dt_strbuf *out, const struct dt_job *job)
{
    if (job->failures > 0 || job->error_at_ms > 0)
        dt_json_put_int(out, "failures", job->failures);
    if (job->error_at_ms == 0)
        return;
    dt_json_begin_object(out, "last_error");
    dt_json_put_string(out, "code", job->error_code);
    dt_json_put_string(out, "message", job->error_message);
    dt_json_put_time(out, "at", job->error_at_ms);
    dt_json_end_object(out);
}

static void put_policy(struct dt_strbuf *out, const struct dt_job *job)
{
    const struct dt_str retry = job->retry;
    int64_t attempts = 1;
    for (size_t i = 0; i < retry.n; i++)
        attempts += !is_separator(retry.p[i]) && (i == 0 || is_separator(retry.p[i - 1]));
    dt_json_put_int(out, "max_attempts", attempts);
    dt_retry_put(out, "retry", retry);
    dt_json_put_duration(out, "ack_timeout", job->ack_timeout_ms);
    if (job->no_retries)
        dt_json_put_bool(out, "retries_cancelled", true);
}

void dt_job_add(struct dt_strbuf *out, const struct dt_job *job, const struct dt_job_view *view)
{
    const bool terminal = dt_job_state_terminal(job->state);
    dt_strbuf_reserve(out, 640 + (view->payload ? job->payload.n : 0));
    dt_json_begin_object(out, NULL);
    dt_json_put_id(out, "id", job->id);
    dt_json_put_given(out, "topic", job->topic);
    dt_json_put_given(out, "key", job->key);
    dt_json_put_word(out, "state", dt_job_state_name(job->state));
    dt_json_put_time(out, "run_at", job->run_at_ms);
    dt_json_put_time(out, "next_at", terminal ? 0 : job->next_at_ms);
    dt_json_put_int(out, "attempt", job->attempt);
    put_last_error(out, job);
    put_policy(out, job);
    dt_json_put_given(out, "partition_key", job->partition_key);
    if (job->headers.p && is_json(out, view->check, job->headers))
        dt_json_put_raw(out, "headers", job->headers);
    dt_json_put_given(out, "callback_url", job->callback_url);
    if (view->payload)
        put_payload(out, job, view->check);
    dt_json_put_word(out, "waiting_for", view->waiting_for);
    dt_json_put_time(out, "created_at", job->created_at_ms);
    dt_json_put_time(out, "updated_at", job->updated_at_ms);
    if (terminal && job->finished_at_ms > 0)
        dt_json_put_time(out, "finished_at", job->finished_at_ms);
    dt_json_put_int(out, "version", job->version);
    if (view->deadline_ms)
        dt_json_put_time(out, "deadline", view->deadline_ms);
    dt_json_put_given(out, "outcome", dt_str(view->outcome));
    dt_json_end_object(out);
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
