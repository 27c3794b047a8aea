/*
 * POST /v1/jobs/{id}/results: decode on the HTTP thread, apply through the results batcher, read the job on a worker
 * for the answer. A token that reaches some topics only has its job looked at first.
 */
#include "answer.h"
#include "api.h"
#include "auth/auth.h"
#include "handlers.h"
#include "job/result_json.h"
#include "jobs/job_answer.h"
#include "results_batcher.h"
#include "work/workers.h"

struct reporting {
    struct dt_report report;
    struct dt_request *req;
};

static const char *outcome_word(enum dt_outcome outcome)
{
    return outcome == DT_OUTCOME_APPLIED ? "applied" : outcome == DT_OUTCOME_DUPLICATE ? "duplicate" : "stale";
}

/* The result counted, and then the job was deleted before it could be read (a retention of zero). */
static enum dt_next answer_without_job(struct dt_request *req, int64_t id, const char *outcome)
{
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_strbuf_addf(&req->out, "{\"id\":\"%lld\",\"outcome\":\"%s\"}", (long long)id, outcome);
    return DT_REPLY;
}

static enum dt_next answer_result(struct dt_request *req, dt_store *store)
{
    const struct reporting *r = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    int64_t id = r->report.apply.result.job_id;
    dt_status status = dt_store_get(store, id, &req->arena, &job, &err);
    if (status == DT_NOT_FOUND)
        return answer_without_job(req, id, outcome_word(r->report.apply.outcome));
    if (status != DT_OK) /* it was applied: asking again is answered "duplicate" */
        return dt_answer_status(req, status == DT_UNAVAILABLE ? DT_UNKNOWN : status, NULL, &err);
    return dt_answer_stored(req, store, &job, outcome_word(r->report.apply.outcome));
}

/* On the batcher's thread, or inside the submit. */
static void reported(struct dt_report *report)
{
    struct reporting *r = report->arg;
    struct dt_request *req = r->req;
    const bool judged = report->status == DT_OK;
    if (judged && report->apply.outcome < DT_OUTCOME_UNKNOWN_JOB) {
        req->changed = report->apply.outcome == DT_OUTCOME_APPLIED;
        dt_workers_submit(req->api->workers, req, answer_result);
        return;
    }
    if (judged && report->apply.outcome == DT_OUTCOME_UNKNOWN_JOB)
        dt_answer_not_found(req, "job");
    else
        dt_answer_status(req, judged ? DT_BUSY : report->status, NULL, NULL);
    dt_request_resume(req);
}

static enum dt_next check_then_report(struct dt_request *req, dt_store *store)
{
    struct reporting *r = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    dt_status status = dt_store_get(store, r->report.apply.result.job_id, &req->arena, &job, &err);
    if (status == DT_NOT_FOUND || (status == DT_OK && !dt_caller_sees(&req->caller, job.topic)))
        return dt_answer_not_found(req, "job");
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    dt_results_batcher_submit(req->api->results, &r->report);
    return DT_PENDING;
}

static void bad_member(void *faults, const char *pointer, const char *reason)
{
    dt_faults_add(faults, pointer, reason);
}

/* The parser is this thread's: what the result keeps is copied. */
static bool keep_texts(struct dt_request *req, struct dt_result *result)
{
    struct dt_str code = dt_arena_copy(&req->arena, result->error_code);
    struct dt_str message = dt_arena_copy(&req->arena, result->error_message);
    bool fine = (code.p || !result->error_code.p) && (message.p || !result->error_message.p);
    result->error_code = code;
    result->error_message = message;
    return fine;
}

static enum dt_next decode_result(struct dt_request *req, int64_t id, struct reporting *r)
{
    struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_result *result = &r->report.apply.result;
    struct dt_faults faults;
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    if (!json)
        return DT_REPLY;
    dt_status status = dt_result_decode(json, dt_json_root(json), id, result, bad_member, &faults);
    if (status != DT_OK)
        return dt_answer_faults(req, faults.failed ? DT_NOMEM : status, &faults);
    if (!keep_texts(req, result))
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    if (!dt_caller_sees_all(&req->caller))
        return dt_workers_submit(req->api->workers, req, check_then_report);
    dt_request_suspend(req);
    dt_results_batcher_submit(req->api->results, &r->report);
    return DT_PENDING;
}

enum dt_next dt_handle_job_results(struct dt_request *req)
{
    int64_t id;
    if (!dt_answer_id(req, &id))
        return DT_REPLY;
    struct reporting *r = dt_arena_alloc(&req->arena, sizeof(*r));
    if (!r)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    *r = (struct reporting){.report = {.done = reported, .arg = r, .deadline_us = req->deadline_us}, .req = req};
    req->state = r;
    return decode_result(req, id, r);
}
