/* See report_json.h. */
#include "report_json.h"

#include "job/result_json.h"

static void bad_member(void *faults, const char *pointer, const char *reason)
{
    dt_faults_add(faults, pointer, reason);
}

dt_status dt_report_decode(const dt_json *json, int64_t job_id, struct dt_faults *faults, struct dt_result *out)
{
    dt_status status = dt_result_decode(json, dt_json_root(json), job_id, out, bad_member, faults);
    if (status != DT_OK || faults->failed)
        return faults->failed ? DT_NOMEM : status;
    /* The parser is its thread's: what the result keeps is copied. */
    const struct dt_str code = dt_arena_copy(faults->arena, out->error_code);
    const struct dt_str message = dt_arena_copy(faults->arena, out->error_message);
    const bool fine = (code.p || !out->error_code.p) && (message.p || !out->error_message.p);
    out->error_code = code;
    out->error_message = message;
    return fine ? DT_OK : DT_NOMEM;
}

const char *dt_report_outcome(enum dt_outcome outcome)
{
    return outcome == DT_OUTCOME_APPLIED ? "applied" : outcome == DT_OUTCOME_DUPLICATE ? "duplicate" : "stale";
}
