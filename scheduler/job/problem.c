/* Implements problem.h: the table of problem types, and the text of a problem document. */
#include "problem.h"

#include "base/assert.h"
#include "base/text/json_write.h"

struct kind {
    int status;
    const char *slug;
    const char *title;
};

static const struct kind kinds[DT_PROBLEM_TYPES] = {
#define X(name, status, slug, title) [DT_PROBLEM_##name] = {status, slug, title},
    DT_PROBLEM_MAP(X)
#undef X
};

void dt_faults_add_misfit(struct dt_faults *faults, const struct dt_callback_misfit *misfit)
{
    if (misfit->member.p)
        dt_faults_add_member(faults, misfit->pointer, misfit->member, misfit->reason);
    else
        dt_faults_add(faults, misfit->pointer, misfit->reason);
}

const char *dt_problem_slug(enum dt_problem_type type)
{
    return kinds[type].slug;
}

int dt_problem_http_status(enum dt_problem_type type)
{
    return kinds[type].status;
}

enum dt_problem_type dt_problem_for_http(int http_status)
{
    unsigned type = 0;
    while (type < DT_PROBLEM_TYPES && kinds[type].status != http_status)
        type++;
    dt_assert_cmp(type, <, DT_PROBLEM_TYPES);
    return (enum dt_problem_type)type;
}

int64_t dt_problem_retry_after_s(const struct dt_problem *problem)
{
    if (problem->retry_after_ms > 0)
        return (problem->retry_after_ms + 999) / 1000;
    return problem->type == DT_PROBLEM_UNAVAILABLE || problem->type == DT_PROBLEM_OUTCOME_UNKNOWN ? 1 : 0;
}

enum dt_problem_type dt_problem_of_status(dt_status status)
{
    switch (status) {
    case DT_UNAVAILABLE:
    case DT_BUSY:
    case DT_FULL:
    case DT_SHUTDOWN:
    case DT_NOMEM:
    case DT_FORBIDDEN: /* a server refused access to this program, not to the caller */
    case DT_SCHEMA:
        return DT_PROBLEM_UNAVAILABLE;
    case DT_UNKNOWN:
        return DT_PROBLEM_OUTCOME_UNKNOWN;
    case DT_NOT_FOUND:
        return DT_PROBLEM_NOT_FOUND;
    case DT_EXISTS:
        return DT_PROBLEM_KEY_CONFLICT;
    case DT_TOO_LATE:
        return DT_PROBLEM_TOO_LATE;
    case DT_NOT_DEAD:
        return DT_PROBLEM_NOT_DEAD;
    case DT_VERSION:
        return DT_PROBLEM_VERSION_MISMATCH;
    case DT_INVALID:
    case DT_UNSUPPORTED:
        return DT_PROBLEM_INVALID;
    case DT_MALFORMED:
        return DT_PROBLEM_MALFORMED;
    case DT_TOO_LARGE:
        return DT_PROBLEM_TOO_LARGE;
    case DT_DENIED:
        return DT_PROBLEM_FORBIDDEN;
    case DT_OK:
    case DT_DEPOSED:
    case DT_HALTED:
    case DT_REFUSED:
    case DT_DOUBT:
    case DT_CORRUPT:
    case DT_SYSTEM:
    case DT_INTERNAL:
        break;
    }
    return DT_PROBLEM_INTERNAL;
}

void dt_problem_add(struct dt_strbuf *out, const struct dt_problem *problem, struct dt_str request_id)
{
    const struct kind *kind = &kinds[problem->type];
    dt_strbuf_addc(out, '{'); /* the caller adds the comma, because the document may be a separate line */
    dt_json_name(out, "type");
    dt_strbuf_adds(out, "\"/problems/");
    dt_strbuf_adds(out, kind->slug);
    dt_strbuf_addc(out, '"');
    dt_json_put_word(out, "title", kind->title);
    dt_json_put_int(out, "status", kind->status);
    dt_json_put_given(out, "detail", problem->detail);
    dt_json_put_given(out, "request_id", request_id);
    const struct dt_faults *faults = problem->faults;
    if (faults && faults->n > 0) {
        dt_json_begin_array(out, "errors");
        for (size_t i = 0; i < faults->n && i < DT_FAULTS_MAX; i++) {
            dt_json_begin_object(out, NULL);
            dt_json_put_string(out, "pointer", faults->v[i].pointer);
            dt_json_put_string(out, "reason", faults->v[i].reason);
            dt_json_end_object(out);
        }
        dt_json_end_array(out);
        if (faults->n > DT_FAULTS_MAX)
            dt_json_put_int(out, "errors_in_all", (int64_t)faults->n);
    }
    if (problem->id > 0)
        dt_json_put_id(out, "id", problem->id);
    if (problem->job && problem->type == DT_PROBLEM_VERSION_MISMATCH) {
        dt_json_put_int(out, "version", problem->job->version);
    } else if (problem->job) {
        dt_json_put_word(out, "state", dt_job_state_name(problem->job->state));
        dt_json_put_int(out, "attempt", problem->job->attempt);
    }
    if (problem->quota) {
        dt_json_put_word(out, "quota", problem->quota);
        dt_json_put_int(out, "limit", problem->limit);
        dt_json_put_duration(out, "retry_after", problem->retry_after_ms);
    }
    dt_json_end_object(out);
}

#define LINE_MAX 1000 /* after this many characters, the text names no more members */

void dt_problem_add_text(struct dt_strbuf *out, const struct dt_problem *problem)
{
    const struct dt_faults *faults = problem->faults;
    dt_strbuf_adds(out, kinds[problem->type].slug);
    dt_strbuf_adds(out, ": ");
    if (problem->detail.p)
        dt_strbuf_add(out, problem->detail.p, problem->detail.n);
    if (problem->job && problem->type == DT_PROBLEM_TOO_LATE)
        dt_strbuf_addf(out, ", attempt %lld", (long long)problem->job->attempt);
    if (!faults || (faults->n == 1 && dt_str_eq(problem->detail, faults->v[0].reason)))
        return;
    for (size_t i = 0; i < faults->n && i < DT_FAULTS_MAX && out->n < LINE_MAX; i++) {
        dt_strbuf_adds(out, i ? "; " : problem->detail.p ? ": " : "");
        dt_strbuf_add(out, faults->v[i].pointer.p, faults->v[i].pointer.n);
        dt_strbuf_addc(out, ' ');
        dt_strbuf_add(out, faults->v[i].reason.p, faults->v[i].reason.n);
    }
}
