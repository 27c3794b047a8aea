/* The body of a result: the table of its members. */
#include "job/job.h"
#include "results.h"

bool dt_job_id_parse(struct dt_str text, int64_t *out)
{
    if (text.n == 0 || text.n > 18 || text.p[0] == '0')
        return false;
    int64_t id = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        id = id * 10 + (text.p[i] - '0');
    }
    *out = id;
    return true;
}

static struct dt_str cut_member(struct dt_str s, size_t max)
{
    if (s.n <= max)
        return s;
    s.n = max;
    while (s.n > 0 && ((unsigned char)s.p[s.n] & 0xC0) == 0x80)
        s.n--;
    return s;
}

static void read_job_id(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_result *result = r->out;
    int64_t id = 0;
    if (node->type != DT_JSON_STRING || !dt_job_id_parse(node->str, &id))
        dt_json_fault(r, field, "must be a job's id, a string of digits");
    else if (result->job_id >= 0 && result->job_id != id)
        dt_json_fault(r, field, "differs from the job in the path");
    else
        result->job_id = id;
}

static void read_attempt(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_result *result = r->out;
    if (node->type != DT_JSON_INT || node->i < 1 || node->i > INT32_MAX)
        dt_json_fault(r, field, "must be a whole number from 1");
    else if (result->attempt > 0 && node->i != result->attempt)
        dt_json_fault(r, field, "differs from the attempt of the callback");
    else
        result->attempt = node->i;
}

static void read_retry_after(struct dt_json_reader *r, const struct dt_json_field *field,
                             const struct dt_json_node *node)
{
    int64_t ms = -1;
    if (dt_duration_decode(node, &ms))
        dt_json_fault(r, field, "must be a duration such as \"PT5M\" or \"3m\", or milliseconds");
    else
        ((struct dt_result *)r->out)->retry_after_ms = ms;
}

static void read_error(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_result *result = r->out;
    if (node->type != DT_JSON_OBJECT) {
        dt_json_fault(r, field, "must be an object with code and message");
        return;
    }
    for (const struct dt_json_node *m = dt_json_first(r->json, node); m; m = dt_json_sibling(r->json, node, m)) {
        bool code = dt_str_is(m->name, "code");
        if (!code && !dt_str_is(m->name, "message"))
            dt_json_fault(r, field, "has a member other than code and message");
        else if (m->type == DT_JSON_NULL)
            continue;
        else if (m->type != DT_JSON_STRING)
            dt_faults_add(r->faults, code ? "/error/code" : "/error/message", "must be a string");
        else if (code)
            result->error_code = dt_json_keep(r->faults, cut_member(m->str, DT_ERROR_CODE_MAX));
        else
            result->error_message = dt_json_keep(r->faults, cut_member(m->str, DT_ERROR_MESSAGE_MAX));
    }
}

/* Only checks that the member is a time. The time of a result is when it is applied. */
static void read_finished_at(struct dt_json_reader *r, const struct dt_json_field *field,
                             const struct dt_json_node *node)
{
    int64_t ms;
    if (node->type != DT_JSON_STRING || dt_time_parse(node->str, &ms) != DT_OK)
        dt_json_fault(r, field, "must be an RFC 3339 time with an offset");
}

static const char *const words[] = {
    [DT_RESULT_SUCCEEDED] = "succeeded", [DT_RESULT_FAILED] = "failed",     [DT_RESULT_SNOOZED] = "snoozed",
    [DT_RESULT_GAVE_UP] = "gave_up",     [DT_RESULT_EXTENDED] = "extended", NULL};

enum { JOB_ID, ATTEMPT, STATUS }; /* rows of the table of members */

static const struct dt_json_field fields[] = {
    [JOB_ID] = DT_FIELD_BY("job_id", read_job_id),
    [ATTEMPT] = DT_FIELD_BY("attempt", read_attempt),
    [STATUS] = DT_FIELD("status", WORD, struct dt_result, status, .words = words,
                        .reason = "must be one of succeeded, failed, snoozed, gave_up, extended"),
    DT_FIELD_BY("error", read_error, .flags = DT_FIELD_NULLABLE),
    DT_FIELD_BY("retry_after", read_retry_after, .flags = DT_FIELD_NULLABLE),
    DT_FIELD_BY("finished_at", read_finished_at, .flags = DT_FIELD_NULLABLE),
};

/* Cuts an unknown name that is long: the fault's reason contains the name, and is also sent in headers of messages. */
static bool admits_result_member(struct dt_json_reader *r, const struct dt_json_field *field,
                                 const struct dt_json_node *node)
{
    const struct dt_result_beside *beside = r->context;
    if (beside && beside->is(node->name))
        return false;
    if (!field)
        dt_faults_add_member(
            r->faults, "",
            (struct dt_str){node->name.p, strnlen(node->name.p, node->name.n < 100 ? node->name.n : 100)},
            DT_REASON_UNKNOWN);
    return field != NULL;
}

static const struct dt_json_table table = DT_TABLE(fields, .admits = admits_result_member);

dt_status dt_result_decode(const dt_json *json, const struct dt_json_node *body, const struct dt_result_beside *beside,
                           struct dt_faults *faults, struct dt_result *out)
{
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out, .context = beside};
    const bool named = out->job_id >= 0;
    const bool numbered = out->attempt > 0;
    const size_t before = faults->n;
    *out = (struct dt_result){.job_id = out->job_id, .attempt = out->attempt, .retry_after_ms = -1};
    if (!dt_json_read(&r, &table, body))
        return DT_INVALID;
    if (!named && !dt_json_given(&r, JOB_ID))
        dt_faults_add(faults, "/job_id", "is required");
    if (!numbered && !dt_json_given(&r, ATTEMPT))
        dt_faults_add(faults, "/attempt", "is required");
    if (!dt_json_given(&r, STATUS))
        dt_faults_add(faults, "/status", "is required");
    if (faults->n == before && out->status == DT_RESULT_SNOOZED && out->retry_after_ms < 0)
        dt_faults_add(faults, "/retry_after", "is required with status snoozed");
    else if (faults->n == before && out->retry_after_ms >= 0 &&
             (out->status == DT_RESULT_SUCCEEDED || out->status == DT_RESULT_GAVE_UP))
        dt_faults_add(faults, "/retry_after", "is not allowed with this status");
    return faults->failed ? DT_NOMEM : faults->n > before ? DT_INVALID : DT_OK;
}

const char *dt_report_outcome(enum dt_outcome outcome)
{
    return outcome == DT_OUTCOME_APPLIED ? "applied" : outcome == DT_OUTCOME_DUPLICATE ? "duplicate" : "stale";
}
