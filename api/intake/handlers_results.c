/*
 * POST /v1/jobs/{id}/results: decode on the HTTP thread, apply through the results batcher, read the job on a worker
 * for the answer, which has the outcome alone where it cannot be read.
 */
#include "answer.h"
#include "api.h"
#include "handlers.h"
#include "job/change/jobs.h"
#include "job/results/result_json.h"
#include "job/results/results.h"
#include "request/request.h"
#include "request/workers.h"
#include "rest/job_answer.h"
#include "results_batcher.h"

struct reporting {
    struct dt_apply apply;
    struct dt_reports reports; /* that one */
    struct dt_request *req;
};

static enum dt_next answer_result(struct dt_request *req, dt_store *store)
{
    const struct reporting *r = req->state;
    struct dt_job job;
    int64_t id = r->apply.result.job_id;
    const char *outcome = dt_report_outcome(r->apply.outcome);
    if (dt_store_get(store, id, &req->arena, &job, NULL) == DT_OK)
        return dt_answer_stored(req, store, &job, outcome);
    /* The result was judged, and then the job could not be read: it was deleted (a retention of zero), or the read
     * failed, which takes nothing of that back. */
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_json_begin_object(&req->out, NULL);
    dt_json_put_id(&req->out, "id", id);
    dt_json_put_word(&req->out, "outcome", outcome);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

/* On the batcher's thread, or inside the submit. */
static void reported(struct dt_reports *reports)
{
    struct reporting *r = reports->arg;
    struct dt_request *req = r->req;
    const bool judged = reports->status == DT_OK;
    if (judged && r->apply.outcome < DT_OUTCOME_UNKNOWN_JOB) {
        req->changed = r->apply.outcome == DT_OUTCOME_APPLIED;
        dt_workers_submit(req->api->workers, req, answer_result);
        return;
    }
    if (judged && r->apply.outcome == DT_OUTCOME_UNKNOWN_JOB)
        dt_answer_not_found(req, "job");
    else
        dt_answer_status(req, judged ? DT_BUSY : reports->status, NULL, NULL);
    dt_request_resume(req);
}

enum dt_next dt_handle_job_results(struct dt_request *req)
{
    int64_t id;
    if (!dt_answer_id(req, &id))
        return DT_REPLY;
    struct reporting *r = dt_answer_state(req, sizeof(*r));
    if (!r)
        return DT_REPLY;
    *r = (struct reporting){.req = req,
                            .reports = {.v = &r->apply,
                                        .n = 1,
                                        .bound = dt_wall_bound(req),
                                        .deadline_us = req->deadline_us,
                                        .done = reported,
                                        .arg = r}};
    const struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_faults faults;
    const dt_json *json = dt_answer_parse(req, &rules, &faults);
    if (!json)
        return DT_REPLY;
    r->apply.result.job_id = id;
    dt_status status = dt_result_decode(json, dt_json_root(json), NULL, &faults, &r->apply.result);
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    dt_request_suspend(req);
    dt_results_batcher_submit(req->api->results, &r->reports);
    return DT_PENDING;
}
