/*
 * Changes of the installation as a whole: the number of shards. The change itself is one row in MySQL
 * (scheduler/dispatch/shards_store.c); the dispatchers follow it by themselves, and are told so that they
 * do it at once.
 */
#include "answer.h"
#include "api.h"
#include "base/text/json.h"
#include "base/text/json_table.h"
#include "dispatch/shards.h"
#include "handlers.h"
#include "request/workers.h"
#include "topics_rest.h"

struct ask {
    int64_t count;
};

/* ---- on a worker ---- */

static enum dt_next set_shards(struct dt_request *req, dt_store *store)
{
    const struct ask *ask = req->state;
    struct dt_installation inst;
    struct dt_error err = {0};
    dt_status status = dt_store_set_shards(store, (unsigned)ask->count, &inst, &err);
    if (status == DT_HALTED) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "%s: its slots cannot move before dt_clear_halt", err.text);
        return DT_REPLY;
    }
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    dt_topics_announce(req);
    req->status = 202;
    dt_json_begin_object(&req->out, NULL);
    dt_json_put_int(&req->out, "count", inst.shards);
    dt_json_put_int(&req->out, "generation", inst.generation);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

/* ---- on an HTTP thread ---- */

static const struct dt_json_field fields[] = {
    DT_FIELD("count", COUNT, struct ask, count, .min = 1, .max = DT_SHARDS_MAX),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

enum dt_next dt_handle_shards(struct dt_request *req)
{
    const struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_faults faults;
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    if (!ask)
        return DT_REPLY;
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    if (!json)
        return DT_REPLY;
    struct dt_json_reader r = {.json = json, .faults = &faults, .out = ask};
    if (dt_json_read(&r, &table, dt_json_root(json)) && !dt_json_given(&r, 0))
        dt_faults_add(&faults, "/count", "is required");
    if (dt_faults_status(&faults) != DT_OK)
        return dt_answer_faults(req, dt_faults_status(&faults), &faults);
    return dt_workers_submit(req->api->workers, req, set_shards);
}
