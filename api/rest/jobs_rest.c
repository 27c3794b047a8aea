/* Requests about one job: GET, PATCH, cancel, run-now, redrive, attempts. The HTTP thread decodes the request; a worker
 * calls one function of the store, posts the new due time to the index, and answers with the row after the change. If a
 * token is bound to topics, the worker first reads the job to check its topic, which never changes. */
#include "jobs_rest.h"
#include "answer.h"
#include "base/text/json_write.h"
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

struct change {
    int64_t id;
    struct dt_patch patch;
    struct dt_str key; /* the job's key, for a GET by topic and key */
    bool retries;      /* cancels the further attempts of a dispatched job, too */
    struct dt_settle settle;
    /* Versions that If-Match names. n_versions < 0: every version matches (the header is absent or "*"). */
    int n_versions;
    int64_t versions[IF_MATCH_MAX];
};

/* The request for a page of a job's attempts. */
struct attempts {
    int64_t id, after;
    struct dt_cursor_list cursor;
};

static struct change *make_change_state(struct dt_request *req)
{
    struct change *change = dt_answer_state(req, sizeof(*change));
    if (change)
        change->n_versions = -1;
    return change;
}

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

enum dt_next dt_handle_job_get(struct dt_request *req, dt_store *store)
{
    const struct change *change = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_store_get(store, change->id, &req->arena, &job, &err);
    DT_THEN(status, dt_wall_found(req, job.topic));
    if (status != DT_OK)
        return dt_answer_failed(req, status, "job", &err);
    return dt_answer_read(req, store, &job);
}

static enum dt_next get_by_key(struct dt_request *req, dt_store *store)
{
    struct change *change = req->state;
    struct dt_error err = {0};
    dt_status status = dt_store_find_key(store, req->params[0], change->key, &change->id, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "job", &err);
    return dt_handle_job_get(req, store);
}

/* Sets the version that the job must have; 0: any version; -1: no version matches. */
static dt_status choose_required_version(const struct change *change, dt_store *store, struct dt_arena *arena,
                                         int64_t *version, struct dt_error *err)
{
    struct dt_job job;
    *version = change->n_versions < 0 ? 0 : change->n_versions == 1 ? change->versions[0] : -1;
    if (change->n_versions <= 1)
        return DT_OK;
    dt_status status = dt_store_get(store, change->id, arena, &job, err);
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
    bool waits = dt_store_get(store, change->id, &row, &job, NULL) == DT_OK && job.state == DT_SCHEDULED;
    bool fits = !waits || dt_job_fits(req, store, job.topic, &asked); /* in other states the store refuses the patch */
    dt_arena_clear(&row);
    return fits;
}

static enum dt_next patch_job(struct dt_request *req, dt_store *store)
{
    struct change *change = req->state;
    struct dt_job job = {0};
    struct dt_error err = {0};
    struct dt_patch patch = change->patch;
    if (dt_settle_goes_on(req, store, &change->settle, patch_job))
        return DT_PENDING;
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = check_job_visible(req, store, change->id, &err);
    if (status == DT_OK && !patch_fits_topic(req, store, change))
        return DT_REPLY;
    DT_THEN(status, choose_required_version(change, store, &req->arena, &patch.if_version, &err));
    DT_THEN(status, dt_store_patch(store, change->id, &patch, &req->arena, &job, &err));
    if (status == DT_TOO_LATE && dt_settle_wait(req, &change->settle, &job, patch_job))
        return DT_PENDING;
    return dt_answer_changed(req, store, status, &job, &err);
}

static enum dt_next cancel_job(struct dt_request *req, dt_store *store)
{
    struct change *change = req->state;
    struct dt_job job = {0};
    struct dt_error err = {0};
    if (dt_settle_goes_on(req, store, &change->settle, cancel_job))
        return DT_PENDING;
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = check_job_visible(req, store, change->id, &err);
    DT_THEN(status, dt_store_cancel(store, change->id, change->retries, &req->arena, &job, &err));
    if (status == DT_TOO_LATE && dt_settle_wait(req, &change->settle, &job, cancel_job))
        return DT_PENDING;
    return dt_answer_changed(req, store, status, &job, &err);
}

enum dt_next dt_handle_job_operate(struct dt_request *req, dt_store *store)
{
    const struct change *change = req->state;
    struct dt_job job = {0};
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = check_job_visible(req, store, change->id, &err);
    DT_THEN(status, req->route->arg == DT_OPERATION_RUN_NOW
                        ? dt_store_run_now(store, change->id, &req->arena, &job, &err)
                        : dt_store_redrive(store, change->id, &req->arena, &job, &err));
    return dt_answer_changed(req, store, status, &job, &err);
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
    int64_t id;
    if (!dt_answer_id(req, &id))
        return DT_REPLY;
    struct change *change = make_change_state(req);
    if (!change)
        return DT_REPLY;
    change->id = id;
    return dt_workers_submit(req->api->workers, req, req->route->work);
}

enum dt_next dt_handle_job_attempts(struct dt_request *req)
{
    struct attempts *list;
    struct dt_faults faults = {.arena = &req->arena};
    struct dt_str position;
    int64_t id;
    if (!dt_answer_id(req, &id))
        return DT_REPLY;
    list = dt_arena_alloc(&req->arena, sizeof(*list));
    if (!list)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    *list = (struct attempts){.id = id};
    if (!dt_answer_list(req, BY_ATTEMPT, &req->params[0], 1, &list->cursor))
        return DT_REPLY;
    if (dt_answer_cursor(req, &list->cursor, &faults, &position) && position.p &&
        !dt_job_id_parse(position, &list->after))
        dt_faults_add_query(&faults, DT_STR_LIT("cursor"), "is not a next_cursor of this list");
    req->state = list;
    return dt_answer_submit(req, &faults, list_attempts);
}

enum dt_next dt_handle_key_get(struct dt_request *req)
{
    const char *reason = dt_key_check(req->params[1]);
    if (reason)
        return dt_answer_fault(req, "/key", reason);
    struct change *change = make_change_state(req);
    if (!change)
        return DT_REPLY;
    change->key = req->params[1];
    return dt_workers_submit(req->api->workers, req, get_by_key);
}

enum dt_next dt_handle_job_cancel(struct dt_request *req)
{
    bool retries;
    int64_t id;
    if (!dt_answer_id(req, &id) || !dt_answer_flag(req, "retries", &retries))
        return DT_REPLY;
    struct change *change = make_change_state(req);
    if (!change)
        return DT_REPLY;
    change->id = id;
    change->retries = retries;
    return dt_workers_submit(req->api->workers, req, cancel_job);
}

enum dt_next dt_handle_job_patch(struct dt_request *req)
{
    int64_t id;
    if (!dt_answer_id(req, &id) || !dt_answer_clock(req))
        return DT_REPLY;
    struct change *change = make_change_state(req);
    if (!change)
        return DT_REPLY;
    change->id = id;
    read_if_match(change, req->if_match);
    const struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_faults faults;
    dt_json *json = dt_answer_parse(req, &faults);
    if (!json)
        return DT_REPLY;
    dt_status status = dt_patch_decode(json, &rules, dt_refclock_latest_ms(req->api->ref), &faults, &change->patch);
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    return dt_workers_submit(req->api->workers, req, patch_job);
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

enum dt_next dt_answer_read(struct dt_request *req, dt_store *store, const struct dt_job *job)
{
    /* If the refresh fails, the last snapshots are used. */
    (void)(dt_topic_cache_refresh(req->api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, store, NULL) == DT_OK);
    return dt_answer_stored(req, store, job, NULL);
}

enum dt_next dt_answer_changed(struct dt_request *req, dt_store *store, dt_status status, const struct dt_job *job,
                               const struct dt_error *err)
{
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "job");
    if (status != DT_OK)
        return dt_answer_status(req, status, job->id > 0 ? job : NULL, err);
    struct dt_entry entry = {.id = job->id,
                             .due_ms = dt_job_state_terminal(job->state) ? 0 : job->next_at_ms,
                             .was_ms = job->was_next_at_ms};
    dt_index_writer_post(req->api->index, &entry, 1);
    return dt_answer_read(req, store, job);
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

/* ---- waiting for an unsettled batch ---- */

static bool has_time_left(const struct dt_request *req, const struct dt_settle *settle)
{
    return dt_clock_mono_us(req->api->clock) < settle->by_us;
}

bool dt_settle_goes_on(struct dt_request *req, dt_store *store, const struct dt_settle *settle, dt_worker_fn run)
{
    bool in_flight = false;
    return has_time_left(req, settle) &&
           dt_store_in_flight(store, settle->id, settle->shard, &in_flight, NULL) == DT_OK && in_flight &&
           dt_workers_later(req->api->workers, req, run);
}

bool dt_settle_wait(struct dt_request *req, struct dt_settle *settle, const struct dt_job *job, dt_worker_fn run)
{
    if (!job->unsettled)
        return false;
    if (!settle->by_us)
        settle->by_us = dt_clock_mono_us(req->api->clock) + WAIT_US;
    settle->id = job->id;
    settle->shard = job->claim_shard;
    dt_request_trim(req); /* because many requests may wait at the same time */
    return has_time_left(req, settle) && dt_workers_later(req->api->workers, req, run);
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
