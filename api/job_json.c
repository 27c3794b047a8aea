/* Answers about jobs and attempts: see topics_rest.h. The JSON of a job itself is scheduler/job/job_encode.c. */
#include "rest/topics_rest.h"
#include "base/text/json_write.h"
#include "job/change/jobs.h"

void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt)
{
    const bool late = attempt->dispatched_at_ms > 0 && attempt->due_at_ms > 0;
    dt_json_begin_object(out, NULL);
    dt_json_put_int(out, "attempt", attempt->attempt);
    dt_json_put_time(out, "due_at", attempt->due_at_ms);
    dt_json_put_time(out, "dispatched_at", attempt->dispatched_at_ms);
    dt_json_put_int_or_null(out, "lateness_ms", late, attempt->dispatched_at_ms - attempt->due_at_ms);
    dt_json_put_time(out, "finished_at", attempt->finished_at_ms);
    dt_json_put_word(out, "status", dt_attempt_status_name(attempt->status));
    dt_json_put_int_or_null(out, "http_status", attempt->http_status > 0, attempt->http_status);
    dt_json_put_int_or_null(out, "duration_ms", attempt->duration_ms >= 0, attempt->duration_ms);
    if (attempt->error_code.p || attempt->error_message.p) {
        dt_json_begin_object(out, "error");
        dt_json_put_string(out, "code", attempt->error_code);
        dt_json_put_string(out, "message", attempt->error_message);
        dt_json_end_object(out);
    } else {
        dt_json_put_null(out, "error");
    }
    dt_json_end_object(out);
}
