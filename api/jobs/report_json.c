/* See report_json.h. */
#include "report_json.h"

#include "job/result_json.h"

static void bad_member(void *faults, const char *pointer, const char *reason)
{
    dt_faults_add(faults, pointer, reason);
}

/* The parser is its thread's: what the result keeps is copied. */
static bool keep_texts(struct dt_arena *arena, struct dt_result *result)
{
    struct dt_str code = dt_arena_copy(arena, result->error_code);
    struct dt_str message = dt_arena_copy(arena, result->error_message);
    bool fine = (code.p || !result->error_code.p) && (message.p || !result->error_message.p);
    result->error_code = code;
    result->error_message = message;
    return fine;
}

dt_status dt_report_decode(const dt_json *json, int64_t job_id, struct dt_faults *faults, struct dt_result *out)
{
    dt_status status = dt_result_decode(json, dt_json_root(json), job_id, out, bad_member, faults);
    if (faults->failed || (status == DT_OK && !keep_texts(faults->arena, out)))
        return DT_NOMEM;
    return status;
}

const char *dt_report_outcome(enum dt_outcome outcome)
{
    return outcome == DT_OUTCOME_APPLIED ? "applied" : outcome == DT_OUTCOME_DUPLICATE ? "duplicate" : "stale";
}
