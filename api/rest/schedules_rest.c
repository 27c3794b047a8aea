/*
 * Schedules: PUT, GET, list, DELETE, pause, resume, run-now; next and preview. A schedule of a topic that the token
 * does not reach is answered as if it did not exist: the store decides that in the transaction of a change. A bound
 * token names schedules within its prefixes. After a change the index is told of the fires that were made, withdrawn
 * and returned.
 */
#include "answer.h"
#include "api.h"
#include "base/text/timetext.h"
#include "handlers.h"
#include "intake/index_writer.h"
#include "job/list/list.h"
#include "jobs_rest.h"
#include "request/quotas.h"
#include "request/topic_cache.h"
#include "request/request.h"
#include "request/workers.h"
#include "schedule_json.h"
#include "topic/topics.h"

#define BY_SCHEDULE    's'
#define NEXT_MAX       100
#define NEXT_DEFAULT   10
#define SCHEDULE_BYTES ((size_t)16 << 10) /* in a list, without its payload */

struct ask {
    struct dt_schedule_body body;
    bool cancel;
    bool has_from; /* of next; else from now on */
    int64_t from_ms;
    unsigned count;
    unsigned limit;
    struct dt_str after;
    struct dt_cursor_list cursor;
};

/* ---- on a worker ---- */

static struct dt_fire_maker maker_of(struct dt_request *req, dt_store *store)
{
    return (struct dt_fire_maker){
        .store = store, .zones = req->api->zones, .bound = dt_wall_bound(req), .arena = &req->arena};
}

static void tell_index(struct dt_request *req, const struct dt_fire_maker *maker)
{
    for (size_t i = 0; i < maker->n_moves; i++) {
        const struct dt_job_move *move = &maker->moves[i];
        dt_index_writer_post(req->api->index, &(struct dt_entry){move->id, move->due_ms, move->was_ms}, 1);
    }
}

static enum dt_next answer_failed(struct dt_request *req, dt_status status, const struct dt_error *err)
{
    return status == DT_NOT_FOUND || status == DT_DENIED ? dt_answer_not_found(req, "schedule")
                                                         : dt_answer_status(req, status, NULL, err);
}

/* Reads the schedule of the path. False: the answer is filled in. */
static bool read_schedule(struct dt_request *req, dt_store *store, struct dt_schedule *out)
{
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return false;
    dt_status status = dt_store_schedule_get(store, req->params[0], &req->arena, out, &err);
    if (status == DT_OK)
        status = dt_wall_found(req, out->job.topic);
    if (status == DT_NOT_FOUND)
        dt_answer_not_found(req, "schedule");
    else if (status != DT_OK)
        dt_answer_status(req, status, NULL, &err);
    else
        return true;
    return false;
}

/* The first fire from now on; 0: there is none. */
static int64_t next_fire_ms(struct dt_request *req, const struct dt_schedule *s)
{
    struct dt_recurrence r;
    dt_zone *zone;
    if (s->paused || dt_schedule_recurrence(s, req->api->zones, &r, &zone, NULL) != DT_OK)
        return 0;
    int64_t at_ms = dt_recurrence_next_ms(&r, dt_refclock_earliest_ms(req->api->ref));
    dt_zone_free(zone);
    return at_ms == DT_NEVER ? 0 : at_ms;
}

static enum dt_next answer_schedule(struct dt_request *req, int status, const struct dt_schedule *s)
{
    struct dt_str etag = dt_arena_printf(&req->arena, "\"%lld\"", (long long)s->version);
    req->status = status;
    dt_strbuf_reset(&req->out);
    dt_schedule_add(&req->out, s, next_fire_ms(req, s), true);
    if (etag.p)
        dt_request_header(req, "ETag", etag);
    return DT_REPLY;
}

enum dt_next dt_handle_schedule_get(struct dt_request *req, dt_store *store)
{
    struct dt_schedule s;
    return read_schedule(req, store, &s) ? answer_schedule(req, 200, &s) : DT_REPLY;
}

static enum dt_next put_schedule(struct dt_request *req, dt_store *store)
{
    struct ask *ask = req->state;
    const struct dt_str topic = ask->body.schedule.job.topic;
    struct dt_fire_maker maker = maker_of(req, store);
    const struct dt_callback_asked asked = dt_callback_asked_of(&ask->body.schedule.job);
    struct dt_schedule_put put = {.schedule = &ask->body.schedule, .set_paused = ask->body.set_paused};
    struct dt_topic_wish wish = {.name = topic, .caller = &req->caller, .since_us = dt_clock_mono_us(req->api->clock)};
    struct dt_topic there;
    struct dt_schedule out;
    struct dt_error err = {0};
    char reason[160];
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_store_topic_get(store, topic, &req->arena, &there, &err);
    if (status == DT_NOT_FOUND)
        status = dt_topic_cache_ensure(req->api->topics, store, &wish, 1, &err);
    if (status == DT_OK)
        status = wish.status;
    if (status == DT_NOT_FOUND || status == DT_INVALID)
        return dt_answer_fault(req, "/topic",
                               wish.reason ? wish.reason
                                           : "there is no such topic, and topics are not made by their first job");
    if (status == DT_OK && !dt_job_fits(req, store, topic, &asked))
        return DT_REPLY;
    if (status == DT_OK)
        status = dt_store_schedule_put(&maker, &put, &out, &err);
    if (status == DT_INVALID && put.too_many) {
        snprintf(reason, sizeof(reason),
                 "as many schedules as limits.prefix_schedules allows (%lld) make jobs of topics with the token's "
                 "prefix",
                 (long long)req->api->config->limits_prefix_schedules);
        return dt_answer_fault(req, "/topic", reason);
    }
    if (status == DT_INVALID || status == DT_NOT_FOUND)
        return dt_answer_fault(req, status == DT_INVALID ? "/time_zone" : "/topic", err.text);
    if (status != DT_OK)
        return answer_failed(req, status, &err);
    tell_index(req, &maker);
    return answer_schedule(req, put.created ? 201 : 200, &out);
}

enum dt_next dt_handle_schedule_pause(struct dt_request *req, dt_store *store)
{
    struct dt_fire_maker maker = maker_of(req, store);
    struct dt_schedule s;
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_store_schedule_pause(&maker, req->params[0], req->route->arg, &s, &err);
    if (status != DT_OK)
        return answer_failed(req, status, &err);
    tell_index(req, &maker);
    return answer_schedule(req, 200, &s);
}

static enum dt_next delete_schedule(struct dt_request *req, dt_store *store)
{
    const struct ask *ask = req->state;
    struct dt_fire_maker maker = maker_of(req, store);
    struct dt_schedule s;
    struct dt_error err = {0};
    if (!read_schedule(req, store, &s))
        return DT_REPLY;
    dt_status status = dt_store_schedule_delete(&maker, req->params[0], ask->cancel, &err);
    if (status != DT_OK)
        return answer_failed(req, status, &err);
    tell_index(req, &maker);
    return answer_schedule(req, 200, &s);
}

enum dt_next dt_handle_schedule_run_now(struct dt_request *req, dt_store *store)
{
    struct dt_fire_maker maker = maker_of(req, store);
    struct dt_tenant *tenant = req->caller.tenant;
    struct dt_schedule s;
    struct dt_job job;
    struct dt_error err = {0};
    struct dt_over over;
    struct dt_problem problem;
    if (!read_schedule(req, store, &s))
        return DT_REPLY;
    struct dt_jobs_done done = {.passed = 1, .passed_bytes = (int64_t)s.job.payload.n};
    if (tenant && dt_tenant_limits_jobs(tenant) &&
        !dt_tenant_job(tenant, done.passed_bytes, dt_clock_mono_us(req->api->clock), &over)) {
        dt_over_problem(&over, &problem);
        dt_request_problem(req, &problem);
        return DT_REPLY;
    }
    dt_status status = dt_store_schedule_run_now(&maker, req->params[0], &job, &err);
    done.made = status == DT_OK || status == DT_UNKNOWN;
    done.made_bytes = done.made ? done.passed_bytes : 0;
    if (tenant)
        dt_tenant_jobs_done(tenant, &done);
    if (status != DT_OK)
        return answer_failed(req, status, &err);
    tell_index(req, &maker);
    struct dt_str location = dt_arena_printf(&req->arena, "/v1/jobs/%lld", (long long)job.id);
    enum dt_next next = dt_answer_stored(req, store, &job, NULL);
    req->status = 201;
    dt_request_header(req, "Location", location);
    return next;
}

/* ---- fire times ---- */

static enum dt_next answer_next(struct dt_request *req, const struct dt_schedule *s)
{
    const struct ask *ask = req->state;
    struct dt_recurrence r;
    dt_zone *zone;
    struct dt_error err = {0};
    char text[25];
    dt_status status = dt_schedule_recurrence(s, req->api->zones, &r, &zone, &err);
    if (status == DT_INVALID)
        return dt_answer_fault(req, "/time_zone", err.text);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    int64_t at_ms = (ask->has_from ? ask->from_ms : dt_refclock_earliest_ms(req->api->ref)) - 1;
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_json_begin_object(&req->out, NULL);
    dt_json_begin_array(&req->out, "next");
    for (unsigned i = 0; i < ask->count && (at_ms = dt_recurrence_next_ms(&r, at_ms)) != DT_NEVER; i++) {
        dt_time_format(at_ms, text);
        dt_json_put_word(&req->out, NULL, text);
    }
    dt_json_end_array(&req->out);
    dt_json_end_object(&req->out);
    dt_zone_free(zone);
    return DT_REPLY;
}

static enum dt_next next_fires(struct dt_request *req, dt_store *store)
{
    struct dt_schedule s;
    return read_schedule(req, store, &s) ? answer_next(req, &s) : DT_REPLY;
}

static enum dt_next preview(struct dt_request *req, dt_store *store)
{
    struct ask *ask = req->state;
    struct dt_schedule *s = &ask->body.schedule;
    (void)store;
    s->anchor_ms = s->has_start ? s->starts_at_ms : dt_refclock_earliest_ms(req->api->ref);
    return answer_next(req, s);
}

/* ---- lists ---- */

/* Schedules of topics that the token does not reach are passed by: a page may be short. */
static dt_status write_schedules(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct ask *ask = req->state;
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    const struct dt_page_end end = dt_page_end(ask->limit, SCHEDULE_BYTES);
    struct dt_schedule_list list;
    dt_status status = dt_store_schedule_list(store, ask->after.p ? ask->after : DT_STR_LIT(""), end, rows, &list, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "schedules");
    for (size_t i = 0; i < list.n; i++) {
        if (!dt_topic_within(bound, list.v[i].job.topic))
            continue;
        if (req->out.n >= DT_PAGE_BYTES) { /* the others stand on the next page */
            list.n = i;
            list.more = true;
            break;
        }
        dt_schedule_add(&req->out, &list.v[i], next_fire_ms(req, &list.v[i]), false);
    }
    dt_answer_next_cursor(req, &ask->cursor, list.more, list.n ? list.v[list.n - 1].name : DT_STR_LIT(""));
    return DT_OK;
}

static enum dt_next list_schedules(struct dt_request *req, dt_store *store)
{
    const struct ask *ask = req->state;
    const size_t bytes = dt_page_end(ask->limit, SCHEDULE_BYTES).bytes;
    return dt_answer_page(req, store, dt_page_room(bytes), "schedule", write_schedules);
}

/* ---- on an HTTP thread ---- */

/* Checks that there can be a schedule of the name in the path. False: the answer is filled in. */
static bool name_is_fine(struct dt_request *req)
{
    const bool fine = !dt_schedule_name_check(req->params[0]);
    if (!fine)
        dt_answer_not_found(req, "schedule");
    return fine;
}

enum dt_next dt_handle_schedule_by_name(struct dt_request *req)
{
    return name_is_fine(req) ? dt_workers_submit(req->api->workers, req, req->route->work) : DT_REPLY;
}

enum dt_next dt_handle_schedule_delete(struct dt_request *req)
{
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    if (!ask || !dt_answer_flag(req, "cancel", &ask->cancel) || !name_is_fine(req))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, delete_schedule);
}

/* count and from. */
static void read_span(struct dt_request *req, struct dt_faults *faults, struct ask *ask)
{
    struct dt_str from = dt_request_query(req, "from");
    ask->count = NEXT_DEFAULT;
    if (!dt_answer_count(req, "count", NEXT_MAX, &ask->count))
        dt_faults_add_query(faults, DT_STR_LIT("count"), "must be a whole number from 1 to 100");
    ask->has_from = from.p;
    if (from.p && dt_time_parse(from, &ask->from_ms) != DT_OK)
        dt_faults_add_query(faults, DT_STR_LIT("from"), "must be an RFC 3339 time with an offset");
}

enum dt_next dt_handle_schedule_next(struct dt_request *req)
{
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    struct dt_faults faults;
    if (!ask)
        return DT_REPLY;
    dt_faults_init(&faults, &req->arena);
    read_span(req, &faults, ask);
    if (faults.n)
        return dt_answer_faults(req, DT_INVALID, &faults);
    return name_is_fine(req) ? dt_workers_submit(req->api->workers, req, next_fires) : DT_REPLY;
}

enum dt_next dt_handle_schedule_put(struct dt_request *req)
{
    const struct dt_str name = req->params[0]; /* absent: a preview, of a span of time */
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    struct dt_faults faults;
    if (!ask || !dt_answer_clock(req))
        return DT_REPLY;
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    struct dt_job_rules rules = dt_answer_rules(req->api, view);
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    dt_status status = DT_INVALID;
    if (json) {
        const char *reason = name.p ? dt_schedule_name_check(name) : NULL;
        if (name.p && !reason && !dt_topic_within(bound, name))
            reason = "must begin with one of the token's prefixes, as names of topics do";
        if (reason)
            dt_faults_add(&faults, "/name", reason);
        if (!name.p)
            read_span(req, &faults, ask);
        status = dt_schedule_decode(json, &rules, name, &faults, &ask->body);
    }
    dt_view_release(view);
    if (!json)
        return DT_REPLY;
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    struct dt_str topic = ask->body.schedule.job.topic;
    if (topic.p && dt_wall_found(req, topic) != DT_OK)
        return dt_answer_not_found(req, "topic");
    return dt_workers_submit(req->api->workers, req, name.p ? put_schedule : preview);
}

enum dt_next dt_handle_schedule_list(struct dt_request *req)
{
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    struct dt_faults faults;
    if (!ask)
        return DT_REPLY;
    dt_faults_init(&faults, &req->arena);
    dt_answer_limit(req, &faults, &ask->limit);
    if (!dt_answer_list(req, BY_SCHEDULE, NULL, 0, &ask->cursor))
        return DT_REPLY;
    dt_answer_cursor(req, &ask->cursor, &faults, &ask->after);
    if (faults.n > 0)
        return dt_answer_faults(req, DT_INVALID, &faults);
    return dt_workers_submit(req->api->workers, req, list_schedules);
}
