/*
 * POST /v1/jobs and PUT /v1/topics/{t}/jobs/{key}: decode on the HTTP thread, one row to the committer, the answer
 * after the durable commit. A job that was made is answered from memory; only an existing one (an equal request came
 * before) is read, by a worker. Never talks to the store itself.
 */
#include "answer.h"
#include "api.h"
#include "auth/auth.h"
#include "committer.h"
#include "create.h"
#include "handlers.h"
#include "jobs/job_answer.h"
#include "jobs/waiting.h"
#include "topics/topic_cache.h"
#include "work/workers.h"

struct create {
    struct dt_unit unit;
    struct dt_create row;
    struct dt_faults faults;
};

/* ---- the answer ---- */

/* Most jobs are due later: those need no look at topics and leaders. */
static enum dt_next answer_made(struct dt_request *req, const struct dt_job *job)
{
    struct dt_job_view view = {.payload = true, .waiting_for = "time"};
    if (job->next_at_ms > dt_refclock_earliest_ms(req->api->ref))
        return dt_answer_job(req, 201, job, &view);
    struct dt_waiting waiting;
    dt_waiting_init(&waiting, req->api->topics, req->api->ref, NULL);
    view.waiting_for = dt_waiting_for(&waiting, job);
    dt_waiting_clear(&waiting);
    return dt_answer_job(req, 201, job, &view);
}

static enum dt_next answer_create(struct dt_request *req)
{
    struct create *c = req->state;
    struct dt_problem problem;
    if (dt_create_verdict(&c->unit, &c->row, &c->faults, &problem) == 0) {
        dt_request_problem(req, &problem);
        return DT_REPLY;
    }
    struct dt_job job;
    dt_job_from_new(&job, &c->row.row.job, c->unit.created_ms);
    return answer_made(req, &job);
}

/* An equal request made this job before. */
static enum dt_next answer_existing(struct dt_request *req, dt_store *store)
{
    const struct create *c = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    if (!dt_request_hold(req, dt_answer_job_room(req->api)))
        return dt_request_no_room(req);
    dt_status status = dt_store_get(store, c->row.row.existing_id, &req->arena, &job, &err);
    if (status == DT_NOT_FOUND) /* deleted this very moment: asking again makes a new one */
        status = DT_UNAVAILABLE;
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    return dt_answer_stored(req, store, &job, NULL);
}

/* ---- the request ---- */

/* On a committer's thread, or inside the submit. */
static void created(struct dt_unit *unit)
{
    struct dt_request *req = unit->arg;
    if (unit->status == DT_OK && unit->rows[0].row.outcome == DT_INSERT_SAME) {
        req->then = NULL;
        dt_workers_submit(req->api->workers, req, answer_existing);
        return;
    }
    dt_request_resume(req);
}

static void drop_create(struct dt_request *req)
{
    struct create *c = req->state;
    dt_unit_clear(&c->unit);
}

static enum dt_next submit(struct dt_request *req, struct create *c)
{
    c->unit = (struct dt_unit){
        .rows = &c->row, .n = 1, .deadline_us = req->deadline_us, .caller = &req->caller, .done = created, .arg = req};
    req->state = c;
    req->then = answer_create;
    req->cleanup = drop_create;
    dt_request_suspend(req);
    dt_committer_submit(req->api->committer, &c->unit);
    return DT_PENDING;
}

static enum dt_next decode_and_submit(struct dt_request *req, const struct dt_job_rules *rules,
                                      const struct dt_job_path *path, struct create *c)
{
    dt_json *json = dt_answer_parse(req, rules, &c->faults);
    if (!json)
        return DT_REPLY;
    dt_status status =
        dt_job_decode(json, rules, path, dt_refclock_latest_ms(req->api->ref), &c->faults, &c->row.row.job);
    if (status != DT_OK)
        return dt_answer_faults(req, status, &c->faults);
    if (!dt_caller_sees(&req->caller, c->row.row.job.topic))
        return dt_answer_not_found(req, "topic");
    return submit(req, c);
}

static void check_path(struct dt_faults *faults, const struct dt_job_rules *rules, const struct dt_job_path *path)
{
    const char *reason = dt_topic_check(path->topic, rules->installation);
    if (reason)
        dt_faults_add(faults, "/topic", reason);
    reason = dt_key_check(path->key);
    if (reason)
        dt_faults_add(faults, "/key", reason);
}

static enum dt_next create(struct dt_request *req, const struct dt_job_path *path)
{
    if (!dt_answer_clock(req))
        return DT_REPLY;
    struct create *c = dt_arena_alloc(&req->arena, sizeof(*c));
    if (!c)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    memset(c, 0, sizeof(*c));
    dt_faults_init(&c->faults, &req->arena);
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    struct dt_job_rules rules = dt_answer_rules(req->api, view);
    if (path->topic.p)
        check_path(&c->faults, &rules, path);
    enum dt_next next =
        c->faults.n > 0 ? dt_answer_faults(req, DT_INVALID, &c->faults) : decode_and_submit(req, &rules, path, c);
    dt_view_release(view);
    return next;
}

enum dt_next dt_handle_job_create(struct dt_request *req)
{
    return create(req, &(struct dt_job_path){.topic = DT_STR_NONE});
}

enum dt_next dt_handle_key_put(struct dt_request *req)
{
    return create(req, &(struct dt_job_path){.topic = req->params[0], .key = req->params[1]});
}
