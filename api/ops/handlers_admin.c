/*
 * Changes of the installation as a whole: the number of shards. The change itself is one row in MySQL
 * (scheduler/store/store_shards.c); the dispatchers follow it by themselves, and are told so that they do it at once.
 */
#include "answer.h"
#include "api.h"
#include "base/json.h"
#include "handlers.h"
#include "topics/topic_deleted.h"
#include "work/workers.h"

/* ---- on a worker ---- */

static enum dt_next set_shards(struct dt_request *req, dt_store *store)
{
    const unsigned *count = req->state;
    struct dt_installation inst;
    struct dt_error err = {0};
    dt_status status = dt_store_set_shards(store, *count, &inst, &err);
    if (status == DT_HALTED) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "%s: its slots cannot move before dt_clear_halt", err.text);
        return DT_REPLY;
    }
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    dt_topics_announce(req);
    req->status = 202;
    dt_strbuf_addf(&req->out, "{\"count\":%u,\"generation\":%lld}", inst.shards, (long long)inst.generation);
    return DT_REPLY;
}

/* ---- on an HTTP thread ---- */

enum dt_next dt_handle_shards(struct dt_request *req)
{
    const struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_faults faults;
    bool given = false;
    unsigned *count = dt_arena_alloc(&req->arena, sizeof(*count));
    if (!count)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    if (!json)
        return DT_REPLY;
    const struct dt_json_node *body = dt_json_root(json);
    const bool object = body->type == DT_JSON_OBJECT;
    if (!object)
        dt_faults_add(&faults, "", "must be an object");
    for (const struct dt_json_node *m = object ? dt_json_first(json, body) : NULL; m;
         m = dt_json_sibling(json, body, m)) {
        bool is_count = dt_str_is(m->name, "count");
        given |= is_count;
        if (!is_count)
            dt_faults_add_member(&faults, "", m->name, "is not known");
        else if (m->type != DT_JSON_INT || m->i < 1 || m->i > DT_SHARDS_MAX)
            dt_faults_addf(&faults, "/count", "must be a whole number from 1 to %d", DT_SHARDS_MAX);
        else
            *count = (unsigned)m->i;
    }
    if (object && !given)
        dt_faults_add(&faults, "/count", "is required");
    if (faults.n > 0)
        return dt_answer_faults(req, faults.failed ? DT_NOMEM : DT_INVALID, &faults);
    req->state = count;
    return dt_workers_submit(req->api->workers, req, set_shards);
}
