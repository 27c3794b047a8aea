/*
 * POST /v1/jobs, PUT /v1/topics/{t}/jobs/{key}, and POST /v1/jobs:batch. The HTTP thread decodes the job, the committer
 * inserts it, and the answer is sent after the durable commit. A created job is answered from memory. If an earlier
 * equal request has created the job, a worker reads it for the answer.
 *
 * With ?replace=true, a worker first looks for an unfinished job with the key, and replaces its contents by the body.
 * If there is none, the row is submitted to the committer, marked so that a finished job releases the key. If meanwhile
 * a job with the key is created or finishes, worker and committer alternate.
 */
#include "create_rest.h"
#include "answer.h"
#include "base/assert.h"
#include "batch.h"
#include "handlers.h"
#include "rest/explain_rest.h"
#include "rest/jobs_rest.h"

struct create {
    struct dt_change change; /* for ?replace=true */
    struct dt_unit unit;
    struct dt_create row;
    unsigned turns; /* number of commits so far that found another job with the key, for ?replace=true */
};

#define TURNS_MAX 8

/* ---- the answer ---- */

static enum dt_next answer_create(struct dt_request *req)
{
    const struct create *c = req->state;
    struct dt_faults faults = {.arena = &req->arena};
    struct dt_problem problem;
    if (dt_create_verdict(&c->unit, &c->row, &faults, &problem) == 0) {
        dt_request_problem(req, &problem);
        return DT_REPLY;
    }
    struct dt_job job;
    struct dt_job_view view = {.payload = true, .waiting_for = "time"};
    dt_job_from_new(&job, &c->row.row.job, c->unit.created_ms);
    /* A job that is not due waits for its time, whatever its topic and leader. */
    if (job.next_at_ms <= dt_refclock_earliest_ms(req->api->ref)) {
        struct dt_waiting waiting;
        dt_waiting_init(&waiting, req->api->topics, req->api->ref, NULL);
        view.waiting_for = dt_waiting_for(&waiting, &job);
        dt_waiting_clear(&waiting);
    }
    return dt_answer_job(req, 201, &job, &view);
}

/* Answers with the job that an earlier equal request has created. */
static enum dt_next answer_existing(struct dt_request *req, dt_store *store)
{
    const struct create *c = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_store_get(store, c->row.row.existing_id, &req->arena, &job, &err);
    if (status == DT_NOT_FOUND) /* the job was just deleted, so a retry creates a new one */
        status = DT_UNAVAILABLE;
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    return dt_answer_stored(req, store, &job, NULL);
}

/* ---- the request ---- */

/* Called on a committer's thread, or inside dt_committer_submit. */
static void on_create_committed(struct dt_unit *unit)
{
    struct dt_request *req = unit->arg;
    struct create *c = req->state;
    const enum dt_insert_outcome outcome = c->row.row.outcome;
    dt_assert(unit == &c->unit);
    if (c->row.row.replace && unit->status == DT_OK && (outcome == DT_INSERT_SAME || outcome == DT_INSERT_CONFLICT)) {
        /* A job with the key was created after the worker had looked for one, so the worker now replaces that job. */
        if (++c->turns < TURNS_MAX) {
            dt_unit_clear(unit);
            req->then = NULL; /* if the workers refuse the request, their refusal is the answer */
            dt_workers_submit(req->api->workers, req, dt_change_job);
            return;
        }
        unit->status = DT_BUSY;
    }
    if (unit->status == DT_OK && outcome == DT_INSERT_SAME) {
        req->then = NULL; /* if the workers refuse the request, their refusal is the answer */
        dt_workers_submit(req->api->workers, req, answer_existing);
        return;
    }
    dt_request_resume(req);
}

static void release_create(struct dt_request *req)
{
    struct create *c = req->state;
    dt_unit_clear(&c->unit);
}

/* Submits the row of the suspended request to the committer. */
static enum dt_next submit_row(struct dt_request *req)
{
    struct create *c = req->state;
    c->unit = (struct dt_unit){.rows = &c->row,
                               .n = 1,
                               .deadline_us = req->deadline_us,
                               .caller = &req->caller,
                               .done = on_create_committed,
                               .arg = req};
    req->then = answer_create;
    dt_committer_submit(req->api->committer, &c->unit);
    return DT_PENDING;
}

static dt_status replace_job(struct dt_request *req, dt_store *store, struct dt_job *job, struct dt_error *err)
{
    const struct create *c = req->state;
    const struct dt_callback_asked asked = dt_callback_asked_of(&c->row.row.job);
    if (!dt_job_fits(req, store, c->row.row.job.topic, &asked))
        return DT_INVALID;
    return dt_store_replace(store, &c->row.row.job, &req->arena, job, err);
}

static dt_status decode_job(struct dt_request *req, const dt_json *json, const struct dt_job_rules *rules,
                            struct dt_faults *faults)
{
    const struct dt_job_path path = {.topic = req->params[0], .key = req->params[1]}; /* absent if the body has them */
    struct create *c = req->state;
    return dt_job_decode(json, rules, &path, dt_refclock_latest_ms(req->api->ref), faults, &c->row.row.job);
}

/* Decodes the job into the request's state. NULL: the answer is filled in. */
static struct create *decode_create(struct dt_request *req)
{
    struct create *c = dt_answer_state(req, sizeof(*c));
    if (!c || !dt_answer_decode(req, decode_job))
        return NULL;
    if (dt_wall_found(req, c->row.row.job.topic) != DT_OK) {
        dt_answer_not_found(req, "topic");
        return NULL;
    }
    req->cleanup = release_create;
    return c;
}

enum dt_next dt_handle_job_create(struct dt_request *req)
{
    if (!dt_answer_clock(req) || !decode_create(req))
        return DT_REPLY;
    dt_request_suspend(req);
    return submit_row(req);
}

/* Checks topic and key in the path, before the body is read. False: the answer is filled in. */
static bool check_path(struct dt_request *req)
{
    struct dt_faults faults = {.arena = &req->arena};
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    const char *bad_topic = dt_topic_check(req->params[0], dt_answer_rules(req->api, view).installation);
    const char *bad_key = dt_key_check(req->params[1]);
    dt_view_release(view);
    if (bad_topic)
        dt_faults_add(&faults, "/topic", bad_topic);
    if (bad_key)
        dt_faults_add(&faults, "/key", bad_key);
    if (faults.n > 0)
        dt_answer_faults(req, DT_INVALID, &faults);
    return faults.n == 0;
}

enum dt_next dt_handle_job_put(struct dt_request *req)
{
    bool replace;
    if (!dt_answer_flag(req, "replace", &replace) || !dt_answer_clock(req) || !check_path(req))
        return DT_REPLY;
    struct create *c = decode_create(req);
    if (!c)
        return DT_REPLY;
    c->row.row.replace = replace;
    c->change = (struct dt_change){.apply = replace_job, .missing = submit_row};
    if (replace)
        return dt_workers_submit(req->api->workers, req, dt_change_job);
    dt_request_suspend(req);
    return submit_row(req);
}

int dt_create_verdict(const struct dt_unit *unit, const struct dt_create *row, struct dt_faults *faults,
                      struct dt_problem *problem)
{
    if (unit->status != DT_OK) {
        *problem = (struct dt_problem){.type = dt_problem_of_status(unit->status),
                                       .detail = dt_str(dt_status_text(unit->status))};
        if (unit->status == DT_UNKNOWN)
            problem->id = row->row.job.id;
        return 0;
    }
    if (dt_unit_is_over(unit, row)) {
        dt_over_problem(&unit->over, problem);
        return 0;
    }
    if (row->row.outcome == DT_INSERT_REFUSED && row->misfit.reason) {
        dt_job_misfits(&row->misfit, faults, problem);
        return 0;
    }
    if (!dt_insert_is_job(&row->row, row->reason, faults, problem))
        return 0;
    return row->row.outcome == DT_INSERT_CREATED ? 201 : 200;
}

/* ---- new jobs as elements of a batch ---- */

static struct dt_gate *job_admission_gate(const struct dt_api *api)
{
    return api->job_gate;
}

static dt_status decode_element(const struct dt_batch_terms *terms, const dt_json *json, bool keep,
                                struct dt_chunk *chunk, struct dt_faults *faults, struct dt_error *err)
{
    struct dt_create *row = dt_chunk_row(chunk, chunk->n_rows);
    struct dt_new_job *job = &row->row.job;
    dt_status status = dt_job_decode(json, &terms->rules, &(struct dt_job_path){.topic = DT_STR_NONE},
                                     dt_refclock_latest_ms(terms->api->ref), faults, job);
    if (status != DT_OK)
        return status;
    if (keep && !job->payload_binary) { /* a binary payload was decoded into the arena */
        job->payload = dt_arena_copy(&chunk->arena, job->payload);
        if (!job->payload.p)
            return DT_NOMEM;
    }
    if (!dt_topic_within(terms->bound, job->topic))
        return dt_fail(err, DT_NOT_FOUND, "no such topic");
    /* If the previous element has the same topic, shares its text, so that comparing the two topics is faster later. */
    const struct dt_create *before = chunk->n_rows > 0 ? dt_chunk_row(chunk, chunk->n_rows - 1) : NULL;
    if (before && dt_str_eq(before->row.job.topic, job->topic))
        job->topic = before->row.job.topic;
    return DT_OK;
}

static uint64_t hash_job_key(const void *row)
{
    const struct dt_create *create = row;
    const struct dt_new_job *job = &create->row.job;
    return job->key.p ? dt_key_hash(job->topic, job->key) : 0;
}

static void on_chunk_committed(struct dt_unit *unit)
{
    dt_batch_came_back(unit->arg);
}

static void submit_chunk(const struct dt_batch_terms *terms, struct dt_chunk *chunk, int64_t deadline_us)
{
    chunk->unit.jobs = (struct dt_unit){.rows = dt_chunk_row(chunk, 0),
                                        .n = chunk->n_rows,
                                        .of_batch = true,
                                        .deadline_us = deadline_us,
                                        .caller = &terms->caller,
                                        .done = on_chunk_committed,
                                        .arg = chunk};
    dt_committer_submit(terms->api->committer, &chunk->unit.jobs);
}

static int add_element_answer(struct dt_chunk *chunk, size_t i, struct dt_strbuf *out)
{
    const struct dt_create *row = dt_chunk_row(chunk, i);
    struct dt_faults faults = {.arena = &chunk->arena};
    struct dt_problem problem;
    int status = dt_create_verdict(&chunk->unit.jobs, row, &faults, &problem);
    if (status == 0) {
        dt_problem_add(out, &problem, DT_STR_NONE);
        return dt_problem_http_status(problem.type);
    }
    dt_strbuf_addc(out, '{'); /* dt_json_begin_object would add a comma after the previous line */
    dt_json_put_int(out, "status", status);
    dt_json_put_id(out, "id", status == 201 ? row->row.job.id : row->row.existing_id);
    dt_json_end_object(out);
    return status;
}

static void clear_chunk(struct dt_chunk *chunk)
{
    dt_unit_clear(&chunk->unit.jobs);
}

const struct dt_batch_kind dt_batch_of_jobs = {.stream = {dt_batch_feed_begin, dt_batch_feed, dt_batch_feed_cut},
                                               .nothing = "no job was created",
                                               .elements = "jobs",
                                               .row_bytes = sizeof(struct dt_create),
                                               .gate = job_admission_gate,
                                               .decode = decode_element,
                                               .key_of = hash_job_key,
                                               .submit = submit_chunk,
                                               .answer = add_element_answer,
                                               .clear = clear_chunk};
