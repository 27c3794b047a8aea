/* Answers about jobs and attempts: see job_json.h. The JSON of a job itself is scheduler/job/job_encode.c. */
#include "job_json.h"

/* ---- attempt ---- */

static void add_text(struct dt_strbuf *out, const char *name, struct dt_str text)
{
    dt_strbuf_adds(out, name);
    dt_json_add_string_or_null(out, text);
}

static void add_time(struct dt_strbuf *out, const char *name, int64_t ms)
{
    dt_strbuf_adds(out, name);
    dt_json_add_time(out, ms);
}

static void add_number(struct dt_strbuf *out, const char *name, bool given, int64_t value)
{
    dt_strbuf_adds(out, name);
    if (given)
        dt_strbuf_add_i64(out, value);
    else
        dt_strbuf_adds(out, "null");
}

void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt)
{
    dt_strbuf_adds(out, "{\"attempt\":");
    dt_strbuf_add_i64(out, attempt->attempt);
    add_time(out, ",\"due_at\":", attempt->due_at_ms);
    add_time(out, ",\"dispatched_at\":", attempt->dispatched_at_ms);
    dt_strbuf_adds(out, ",\"lateness_ms\":");
    if (attempt->dispatched_at_ms > 0 && attempt->due_at_ms > 0)
        dt_strbuf_add_i64(out, attempt->dispatched_at_ms - attempt->due_at_ms);
    else
        dt_strbuf_adds(out, "null");
    add_time(out, ",\"finished_at\":", attempt->finished_at_ms);
    add_text(out, ",\"status\":", dt_str(dt_attempt_status_name(attempt->status)));
    add_number(out, ",\"http_status\":", attempt->http_status > 0, attempt->http_status);
    add_number(out, ",\"duration_ms\":", attempt->duration_ms >= 0, attempt->duration_ms);
    if (attempt->error_code.p || attempt->error_message.p) {
        add_text(out, ",\"error\":{\"code\":", attempt->error_code);
        add_text(out, ",\"message\":", attempt->error_message);
        dt_strbuf_adds(out, "}}");
    } else {
        dt_strbuf_adds(out, ",\"error\":null}");
    }
}
