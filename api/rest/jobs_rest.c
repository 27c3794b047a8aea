/* Requests about one job: GET, PATCH, cancel, run-now, redrive, attempts. The HTTP thread decodes the request; a worker
 * calls one function of the store, posts the new due time to the index, and answers with the row after the change. If a
 * token is bound to topics, the worker first reads the job to check its topic, which never changes. */
#include "jobs_rest.h"
#include "answer.h"
#include "explain_rest.h"
#include "features/operations/operations.h"
#include "handlers.h"
#include "intake/index_writer.h"
#include "job/results/results.h"
#include "request/topic_cache.h"

#define BY_ATTEMPT   'a'
#define ATTEMPTS_MAX 1000 /* maximal number of attempts in a page */
#define IF_MATCH_MAX 16   /* maximal number of versions read from If-Match; further versions never match */
#define WAIT_US      INT64_C(200000)

/* The state of a PATCH, a cancel, a run-now or a redrive. */
struct change {
    struct dt_change change;
    struct dt_patch patch;
    bool retries; /* cancels the further attempts of a dispatched job, too */
    /* Versions that If-Match names. n_versions < 0: every version matches (the header is absent or "*"). */
    int n_versions;
    int64_t versions[IF_MATCH_MAX];
};

/* The request for a page of a job's attempts. */
struct attempts {
    int64_t id, after;
    struct dt_cursor_list cursor;
};

/* ---- on a worker ---- */

/* If the token is bound to topics, reads the job to check its topic. NOT_FOUND: the token does not see the job. */
static dt_status check_job_visible(struct dt_request *req, dt_store *store, int64_t id, struct dt_error *err)
{
    struct dt_job job;
    struct dt_arena row = {0}; /* memory of the job with its payload; freed before the job is read again */
    if (!dt_wall_bound(req))
        return DT_OK;
    dt_status status = dt_store_get(store, id, &row, &job, err);
    DT_THEN(status, dt_wall_found(req, job.topic));
    dt_arena_clear(&row);
    return status;
}

static enum dt_next answer_job_now(struct dt_request *req, dt_store *store, const struct dt_job *job)
{
    /* If the refresh fails, the last snapshots are used. */
    (void)(dt_topic_cache_refresh(req->api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, store, NULL) == DT_OK);
    return dt_answer_stored(req, store, job, NULL);
}

enum dt_next dt_handle_job_get(struct dt_request *req, dt_store *store)
{
    const int64_t *id = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_store_get(store, *id, &req->arena, &job, &err);
    DT_THEN(status, dt_wall_found(req, job.topic));
    if (status != DT_OK)
        return dt_answer_failed(req, status, "job", &err);
    return answer_job_now(req, store, &job);
}

static enum dt_next get_by_key(struct dt_request *req, dt_store *store)
{
    struct dt_error err = {0};
    dt_status status = dt_store_find_key(store, req->params[0], req->params[1], req->state, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "job", &err);
    return dt_handle_job_get(req, store);
}

/* ---- changes, on a worker ---- */

static bool has_time_left(const struct dt_request *req, const struct dt_change *change)
{
    return dt_clock_mono_us(req->api->clock) < change->settle.by_us;
}

/* If the request was put off before, and the leader has not settled the batch yet, puts it off again and returns
 * true. */
static bool put_off_again(struct dt_request *req, dt_store *store, const struct dt_change *change)
{
    bool in_flight = false;
    return has_time_left(req, change) &&
           dt_store_in_flight(store, change->settle.id, change->settle.shard, &in_flight, NULL) == DT_OK && in_flight &&
           dt_workers_later(req->api->workers, req, dt_change_job);
}

/* Called after TOO_LATE. If only a batch that the leader has not settled yet prevents the change and there is time to
 * wait, puts the request off and returns true. */
static bool put_off_until_settled(struct dt_request *req, struct dt_change *change, const struct dt_job *job)
{
    if (!job->unsettled)
        return false;
    if (!change->settle.by_us)
        change->settle.by_us = dt_clock_mono_us(req->api->clock) + WAIT_US;
    change->settle.id = job->id;
    change->settle.shard = job->claim_shard;
    dt_request_trim(req); /* because many requests may wait at the same time */
    return has_time_left(req, change) && dt_workers_later(req->api->workers, req, dt_change_job);
}

enum dt_next dt_change_job(struct dt_request *req, dt_store *store)
{
    struct dt_change *change = req->state;
    struct dt_job job = {0};
    struct dt_error err = {0};
    if (put_off_again(req, store, change))
        return DT_PENDING;
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = change->id ? check_job_visible(req, store, change->id, &err) : DT_OK;
    DT_THEN(status, change->apply(req, store, &job, &err));
    if (req->status != 0) /* `apply` has filled in the answer */
        return DT_REPLY;
    if (status == DT_TOO_LATE && put_off_until_settled(req, change, &job))
        return DT_PENDING;
    if (status == DT_NOT_FOUND)
        return change->missing ? change->missing(req) : dt_answer_not_found(req, "job");
    if (status != DT_OK)
        return dt_answer_status(req, status, job.id > 0 ? &job : NULL, &err);
    struct dt_entry entry = {
        .id = job.id, .due_ms = dt_job_state_terminal(job.state) ? 0 : job.next_at_ms, .was_ms = job.was_next_at_ms};
    dt_index_writer_post(req->api->index, &entry, 1);
    return answer_job_now(req, store, &job);
}

/* Sets the version that the job must have; 0: any version; -1: no version matches. */
static dt_status choose_required_version(const struct change *change, dt_store *store, struct dt_arena *arena,
                                         int64_t *version, struct dt_error *err)
{
    struct dt_job job;
    *version = change->n_versions < 0 ? 0 : change->n_versions == 1 ? change->versions[0] : -1;
    if (change->n_versions <= 1)
        return DT_OK;
    dt_status status = dt_store_get(store, change->change.id, arena, &job, err);
    for (int i = 0; status == DT_OK && i < change->n_versions; i++)
        if (change->versions[i] == job.version)
            *version = job.version;
    return status;
}

/* Reads the job to find its topic, and checks that the patch fits the topic. False: the answer is filled in. */
static bool patch_fits_topic(struct dt_request *req, dt_store *store, const struct change *change)
{
    const struct dt_patch *patch = &change->patch;
    const struct dt_callback_asked asked = {.asks_url = patch->has_callback_url,
                                            .url = patch->callback_url,
                                            .ack_timeout_ms = patch->has_ack_timeout ? patch->ack_timeout_ms : 0,
                                            .header_fault = patch->header_fault};
    struct dt_job job;
    struct dt_arena row = {0}; /* memory of the job with its payload; freed before the job is read again */
    if (!asked.asks_url && !asked.ack_timeout_ms && !asked.header_fault.reason)
        return true;
    bool waits = dt_store_get(store, change->change.id, &row, &job, NULL) == DT_OK && job.state == DT_SCHEDULED;
    bool fits = !waits || dt_job_fits(req, store, job.topic, &asked); /* in other states the store refuses the patch */
    dt_arena_clear(&row);
    return fits;
}

static dt_status patch_job(struct dt_request *req, dt_store *store, struct dt_job *job, struct dt_error *err)
{
    const struct change *change = req->state;
    struct dt_patch patch = change->patch;
    if (!patch_fits_topic(req, store, change))
        return DT_INVALID;
    dt_status status = choose_required_version(change, store, &req->arena, &patch.if_version, err);
    return DT_THEN(status, dt_store_patch(store, change->change.id, &patch, &req->arena, job, err));
}

static dt_status cancel_job(struct dt_request *req, dt_store *store, struct dt_job *job, struct dt_error *err)
{
    const struct change *change = req->state;
    return dt_store_cancel(store, change->change.id, change->retries, &req->arena, job, err);
}

static dt_status operate_job(struct dt_request *req, dt_store *store, struct dt_job *job, struct dt_error *err)
{
    const struct dt_change *change = req->state;
    return req->route->arg == DT_OPERATION_RUN_NOW ? dt_store_run_now(store, change->id, &req->arena, job, err)
                                                   : dt_store_redrive(store, change->id, &req->arena, job, err);
}

static enum dt_next list_attempts(struct dt_request *req, dt_store *store)
{
    const struct attempts *list = req->state;
    const struct dt_attempt_filter filter = {.job_id = list->id, .after = list->after, .limit = ATTEMPTS_MAX};
    struct dt_attempt_list page;
    struct dt_error err = {0};
    struct dt_arena rows = {0};
    if (!dt_hold_more(&req->hold, dt_page_room(DT_PAGE_BYTES)))
        return dt_request_no_room(req);
    dt_status status = check_job_visible(req, store, list->id, &err);
    DT_THEN(status, dt_store_attempts(store, &filter, &rows, &page, &err));
    if (status == DT_OK) {
        /* Unlike other lists, this list has next_cursor only if there are more attempts. */
        size_t i = 0;
        dt_answer_begin_list(req, "attempts");
        for (; i < page.n && (i == 0 || req->out.n < DT_PAGE_BYTES); i++)
            dt_attempt_add(&req->out, &page.v[i]);
        if (page.more || i < page.n) {
            dt_answer_next_id(req, &list->cursor, true, page.v[i - 1].attempt);
        } else {
            dt_json_end_array(&req->out);
            dt_json_end_object(&req->out);
        }
    }
    dt_arena_clear(&rows);
    return status == DT_OK ? DT_REPLY : dt_answer_failed(req, status, "job", &err);
}

/* ---- on an HTTP thread ---- */

/* Reads If-Match. A strong entity tag of digits is a version. Weak and other tags never match. */
static void read_if_match(struct change *change, struct dt_str header)
{
    if (!header.p || dt_str_is(dt_str_trimmed(header), "*"))
        return;
    change->n_versions = 0;
    while (header.n > 0) {
        const struct dt_str tag = dt_str_next_element(&header);
        bool fine = tag.n >= 3 && tag.n <= 20 && tag.p[0] == '"' && tag.p[tag.n - 1] == '"' && tag.p[1] != '0';
        int64_t version = 0;
        for (size_t i = 1; fine && i < tag.n - 1; i++) {
            fine = tag.p[i] >= '0' && tag.p[i] <= '9';
            version = fine ? version * 10 + (tag.p[i] - '0') : 0;
        }
        if (fine && change->n_versions < IF_MATCH_MAX)
            change->versions[change->n_versions++] = version;
    }
}

enum dt_next dt_handle_job_by_id(struct dt_request *req)
{
    int64_t *id = dt_answer_state(req, sizeof(*id));
    if (!id || !dt_answer_id(req, id))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, req->route->work);
}

/* Makes the state of a change of the job that the path names. NULL: the answer is filled in. */
static struct change *begin_change(struct dt_request *req, dt_change_fn *apply)
{
    int64_t id;
    struct change *change = dt_answer_id(req, &id) ? dt_answer_state(req, sizeof(*change)) : NULL;
    if (change)
        *change = (struct change){.change = {.apply = apply, .id = id}, .n_versions = -1};
    return change;
}

enum dt_next dt_handle_job_operate(struct dt_request *req)
{
    return begin_change(req, operate_job) ? dt_workers_submit(req->api->workers, req, dt_change_job) : DT_REPLY;
}

enum dt_next dt_handle_job_attempts(struct dt_request *req)
{
    struct dt_faults faults = {.arena = &req->arena};
    int64_t id;
    struct attempts *list = dt_answer_id(req, &id) ? dt_answer_state(req, sizeof(*list)) : NULL;
    if (!list)
        return DT_REPLY;
    list->id = id;
    if (!dt_answer_list(req, BY_ATTEMPT, &req->params[0], 1, &list->cursor))
        return DT_REPLY;
    dt_answer_cursor_id(req, &list->cursor, &faults, &list->after);
    return dt_answer_submit(req, &faults, list_attempts);
}

enum dt_next dt_handle_key_get(struct dt_request *req)
{
    const char *reason = dt_key_check(req->params[1]);
    if (reason)
        return dt_answer_fault(req, "/key", reason);
    return dt_answer_state(req, sizeof(int64_t)) ? dt_workers_submit(req->api->workers, req, get_by_key) : DT_REPLY;
}

enum dt_next dt_handle_job_cancel(struct dt_request *req)
{
    struct change *change = begin_change(req, cancel_job);
    if (!change || !dt_answer_flag(req, "retries", &change->retries))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, dt_change_job);
}

static dt_status decode_patch(struct dt_request *req, const dt_json *json, const struct dt_job_rules *rules,
                              struct dt_faults *faults)
{
    struct change *change = req->state;
    return dt_patch_decode(json, rules, dt_refclock_latest_ms(req->api->ref), faults, &change->patch);
}

enum dt_next dt_handle_job_patch(struct dt_request *req)
{
    struct change *change = begin_change(req, patch_job);
    if (!change || !dt_answer_clock(req))
        return DT_REPLY;
    read_if_match(change, req->if_match);
    return dt_answer_decode(req, decode_patch) ? dt_workers_submit(req->api->workers, req, dt_change_job) : DT_REPLY;
}

/* ---- answers ---- */

enum dt_next dt_answer_stored(struct dt_request *req, dt_store *store, const struct dt_job *job, const char *outcome)
{
    struct dt_waiting waiting;
    dt_waiting_init(&waiting, req->api->topics, req->api->ref, store);
    struct dt_job_view view = {
        .payload = true, .waiting_for = dt_waiting_for(&waiting, job), .outcome = outcome, .check = dt_scratch_json()};
    dt_waiting_clear(&waiting);
    return dt_answer_job(req, 200, job, &view);
}

bool dt_job_fits(struct dt_request *req, dt_store *store, struct dt_str topic, const struct dt_callback_asked *asked)
{
    struct dt_callback_misfit misfit;
    struct dt_faults faults = {.arena = &req->arena};
    (void)(dt_topic_cache_refresh(req->api->topics, DT_SNAPSHOT_TOPICS, store, NULL) ==
           DT_OK); /* if the refresh fails, the last snapshot is used */
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    const struct dt_topic_settings *settings = view ? dt_view_topic(view, topic) : NULL;
    bool deleting = settings && settings->deleting;
    bool fits = !settings || deleting || dt_callback_fits(&settings->callback, asked, &misfit);
    dt_view_release(view);
    if (deleting) {
        const struct dt_problem problem = dt_topic_deleting();
        dt_request_problem(req, &problem);
    }
    if (fits)
        return !deleting;
    dt_faults_add_misfit(&faults, &misfit);
    dt_answer_faults(req, DT_INVALID, &faults);
    return false;
}

/* The JSON of an attempt. That of a job is in scheduler/job/job_json.c. */

void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt)
{
    const bool late = attempt->dispatched_at_ms > 0 && attempt->due_at_ms > 0;
    dt_json_begin_object(out, NULL);
    dt_json_put_int(out, "attempt", attempt->attempt);
    dt_json_put_time(out, "due_at", attempt->due_at_ms);
    dt_json_put_time(out, "dispatched_at", attempt->dispatched_at_ms);
    dt_json_put_int_or_null(out, "lateness_ms", late, attempt->dispatched_at_ms - attempt->due_at_ms);
    dt_json_put_time(out, "finished_at", attempt->finished_at_ms);
    dt_json_put_word(out, "status", dt_attempt_status_name(attempt->status));
    dt_json_put_int_or_null(out, "http_status", attempt->http_status > 0, attempt->http_status);
    dt_json_put_int_or_null(out, "duration_ms", attempt->duration_ms >= 0, attempt->duration_ms);
    if (attempt->error_code.p || attempt->error_message.p) {
        dt_json_begin_object(out, "error");
        dt_json_put_string(out, "code", attempt->error_code);
        dt_json_put_string(out, "message", attempt->error_message);
        dt_json_end_object(out);
    } else {
        dt_json_put_null(out, "error");
    }
    dt_json_end_object(out);
}
