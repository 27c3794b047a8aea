/* Problem documents: see problem.h. Owns the table of types and the JSON of a problem; refuses to know how it is sent.
 */
#include "problem.h"

#include "base/json.h"
#include "base/text/timetext.h"

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

/* ---- faults ---- */

void dt_faults_add_misfit(struct dt_faults *faults, const struct dt_callback_misfit *misfit)
{
    if (misfit->member.p)
        dt_faults_add_member(faults, misfit->pointer, misfit->member, misfit->reason);
    else
        dt_faults_add(faults, misfit->pointer, misfit->reason);
}

/* ---- the document ---- */

const char *dt_problem_slug(enum dt_problem_type type)
{
    return kinds[type].slug;
}

int dt_problem_http_status(enum dt_problem_type type)
{
    return kinds[type].status;
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
    case DT_FORBIDDEN: /* to us, by a server: not the caller's doing */
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

static void add_string(struct dt_strbuf *out, const char *name, struct dt_str text)
{
    dt_strbuf_adds(out, name);
    dt_json_add_string(out, text);
}

static void add_faults(struct dt_strbuf *out, const struct dt_faults *faults)
{
    dt_strbuf_adds(out, ",\"errors\":[");
    for (size_t i = 0; i < faults->n && i < DT_FAULTS_MAX; i++) {
        if (i > 0)
            dt_strbuf_addc(out, ',');
        add_string(out, "{\"pointer\":", faults->v[i].pointer);
        add_string(out, ",\"reason\":", faults->v[i].reason);
        dt_strbuf_addc(out, '}');
    }
    dt_strbuf_addc(out, ']');
    if (faults->n > DT_FAULTS_MAX) {
        dt_strbuf_adds(out, ",\"errors_in_all\":");
        dt_strbuf_add_i64(out, (int64_t)faults->n);
    }
}

void dt_problem_add(struct dt_strbuf *out, const struct dt_problem *problem, struct dt_str request_id)
{
    const struct kind *kind = &kinds[problem->type];
    dt_strbuf_adds(out, "{\"type\":\"/problems/");
    dt_strbuf_adds(out, kind->slug);
    add_string(out, "\",\"title\":", dt_str(kind->title));
    dt_strbuf_adds(out, ",\"status\":");
    dt_strbuf_add_i64(out, kind->status);
    if (problem->detail.p)
        add_string(out, ",\"detail\":", problem->detail);
    if (request_id.p)
        add_string(out, ",\"request_id\":", request_id);
    if (problem->faults && problem->faults->n > 0)
        add_faults(out, problem->faults);
    if (problem->id > 0) {
        dt_strbuf_adds(out, ",\"id\":\"");
        dt_strbuf_add_i64(out, problem->id);
        dt_strbuf_addc(out, '"');
    }
    if (problem->job && problem->type == DT_PROBLEM_VERSION_MISMATCH) {
        dt_strbuf_adds(out, ",\"version\":");
        dt_strbuf_add_i64(out, problem->job->version);
    } else if (problem->job) {
        add_string(out, ",\"state\":", dt_str(dt_job_state_name(problem->job->state)));
        dt_strbuf_adds(out, ",\"attempt\":");
        dt_strbuf_add_i64(out, problem->job->attempt);
    }
    if (problem->quota) {
        add_string(out, ",\"quota\":", dt_str(problem->quota));
        dt_strbuf_adds(out, ",\"limit\":");
        dt_strbuf_add_i64(out, problem->limit);
        dt_strbuf_adds(out, ",\"retry_after\":\"");
        dt_duration_add_iso(out, problem->retry_after_ms);
        dt_strbuf_addc(out, '"');
    }
    dt_strbuf_addc(out, '}');
}

/* ---- the line ---- */

#define LINE_MAX 1000 /* characters, from which on no more members are named */

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
