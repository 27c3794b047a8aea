/* Schedules: PUT, GET, list, DELETE, pause, resume, run-now; next and preview. If the token may not see the topic of a
 * schedule, the answer is 404; for a change, the store checks this in its transaction. If a token is bound to prefixes,
 * the names of its schedules begin with one of them. After a change, the fires that were created, withdrawn or restored
 * are posted to the index. */
#include "schedules_rest.h"
#include "answer.h"
#include "base/text/timetext.h"
#include "handlers.h"
#include "intake/index_writer.h"
#include "jobs_rest.h"
#include "request/quotas.h"
#include "request/topic_cache.h"
#include "topic/topics.h"

#define NEXT_MAX        100
#define NEXT_DEFAULT    10
#define EVERY_MIN_MS    INT64_C(100)
#define CATCH_UP_MAX_MS (366 * DT_DAY_MS)
#define JITTER_MAX_MS   DT_DAY_MS

/* ---- JSON ---- */

struct schedule_body {
    struct dt_schedule schedule;
    bool set_paused; /* the body has `paused` */
};

static void read_name(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const struct dt_str name = ((const struct schedule_body *)r->out)->schedule.name;
    if (node->type != DT_JSON_STRING || (name.p && !dt_str_eq(node->str, name)))
        dt_json_fault(r, field, "differs from the name in the path");
}

static void read_cron(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_error err = {0};
    struct dt_cron cron;
    if (node->type != DT_JSON_STRING)
        dt_json_fault(r, field, "must be a string such as \"0 9 * * MON-FRI\"");
    else if (dt_cron_parse(node->str, &cron, &err) != DT_OK)
        dt_json_fault(r, field, err.text);
    *(struct dt_str *)dt_json_place(r, field) =
        node->type == DT_JSON_STRING ? dt_json_keep(r->faults, node->str) : DT_STR_LIT("");
}

static void read_every(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    int64_t *every_ms = dt_json_place(r, field);
    dt_json_read_value(r, field, node);
    if (*every_ms < EVERY_MIN_MS)
        dt_json_fault(r, field, "must be at least PT0.1S");
    if (*every_ms == 0)
        *every_ms = EVERY_MIN_MS; /* because 0 would mean that `every` is absent */
}

/* Reads the duration without a maximum and then checks the maximum, so that the maximum is also checked if the duration
 * has another fault. */
static void read_bounded_duration(struct dt_json_reader *r, const struct dt_json_field *field,
                                  const struct dt_json_node *node)
{
    const struct dt_json_field unbounded = {.name = field->name, .kind = DT_FIELD_DURATION, .at = field->at};
    dt_json_read_value(r, &unbounded, node);
    if (*(int64_t *)dt_json_place(r, field) > field->max)
        dt_json_fault(r, field, field->reason);
}

#define BODY     struct schedule_body
#define NULLABLE .flags = DT_FIELD_NULLABLE

static const struct dt_json_field fields[] = {
    DT_FIELD("name", TEXT, BODY, schedule.name, NULLABLE, .read = read_name),
    DT_FIELD("cron", TEXT, BODY, schedule.cron, NULLABLE, .read = read_cron),
    DT_FIELD("every", DURATION, BODY, schedule.every_ms, NULLABLE, .read = read_every),
    DT_FIELD("time_zone", TEXT, BODY, schedule.time_zone, NULLABLE, .min = 1, .max = DT_ZONE_NAME_MAX,
             .reason = "must be the name of a time zone such as \"Europe/Berlin\""),
    DT_FIELD("starts_at", TIME, BODY, schedule.starts_at_ms, NULLABLE, .has = offsetof(BODY, schedule.has_start)),
    DT_FIELD("ends_at", TIME, BODY, schedule.ends_at_ms, NULLABLE, .has = offsetof(BODY, schedule.has_end)),
    DT_FIELD("overlap", WORD, BODY, schedule.overlap, NULLABLE, .words = dt_overlap_names,
             .reason = "must be \"allow\", \"skip\" or \"cancel\""),
    DT_FIELD("catch_up", DURATION, BODY, schedule.catch_up_ms, NULLABLE, .read = read_bounded_duration,
             .max = CATCH_UP_MAX_MS, .reason = "must be at most 366 days"),
    DT_FIELD("catch_up_max", COUNT, BODY, schedule.catch_up_max, NULLABLE, .min = 1, .max = DT_CATCH_UP_MAX),
    DT_FIELD("jitter", DURATION, BODY, schedule.jitter_ms, NULLABLE, .read = read_bounded_duration,
             .max = JITTER_MAX_MS, .reason = "must be at most 1 day"),
    DT_FIELD("paused", FLAG, BODY, schedule.paused, NULLABLE, .has = offsetof(BODY, set_paused)),
    DT_FIELD_FOR_SHOW("next_at", TIME),
    DT_FIELD_FOR_SHOW("last_fire_at", TIME),
    DT_FIELD_FOR_SHOW("last_job_id", TEXT),
    DT_FIELD_FOR_SHOW("last_error", OBJECT),
    DT_FIELD_FOR_SHOW("created_at", TIME),
    DT_FIELD_FOR_SHOW("updated_at", TIME),
    DT_FIELD_FOR_SHOW("version", COUNT),
};
/* The table lacks the members that describe the schedule's jobs; job_json.c reads these members. */
static const struct dt_json_table table = DT_TABLE(fields, .unknown = NULL);

static bool is_schedule_member(struct dt_str name)
{
    return dt_json_field_of(&table, name) != NULL;
}

/* Adds everything that the body sets to the digest. `paused` is left out, because it is compared separately. */
static void add_to_digest(struct dt_schedule *s, struct dt_faults *faults)
{
    struct dt_strbuf text = {0};
    dt_strbuf_addf(&text, "%lld %d %lld %d %lld %d %lld %lld %lld ", (long long)s->every_ms, s->has_start,
                   (long long)s->starts_at_ms, s->has_end, (long long)s->ends_at_ms, (int)s->overlap,
                   (long long)s->catch_up_ms, (long long)s->catch_up_max, (long long)s->jitter_ms);
    dt_strbuf_add(&text, s->time_zone.p, s->time_zone.n);
    dt_strbuf_addc(&text, ' ');
    if (s->cron.p)
        dt_strbuf_add(&text, s->cron.p, s->cron.n);
    faults->failed |= text.failed;
    dt_job_digest_add(s->job.digest, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
}

/* Decodes a body of PUT /v1/schedules/{name} or POST /v1/schedules:preview. In a preview, name is absent, and the topic
 * may be. A body may have the members that only answers show, so that a client can put an answer back. Does not check
 * that the time zone exists. Returns the statuses of dt_job_decode. */
static dt_status decode_schedule(const dt_json *json, const struct dt_job_rules *rules, struct dt_str name,
                                 struct dt_faults *faults, struct schedule_body *out)
{
    const struct dt_schedule *s = &out->schedule;
    const struct dt_json_node *body = dt_json_root(json);
    const bool object = body->type == DT_JSON_OBJECT;
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out};
    *out = (struct schedule_body){.schedule = {.name = name, .time_zone = DT_STR_LIT("UTC")}};
    if (object) /* if the job is not an object, dt_job_template_decode adds the fault */
        dt_json_read(&r, &table, body);
    if (object && s->cron.p && s->every_ms) {
        dt_faults_add(faults, "/cron", "contradicts every: give one of the two");
        dt_faults_add(faults, "/every", "contradicts cron: give one of the two");
    }
    if (object && !s->cron.p && !s->every_ms)
        dt_faults_add(faults, "/cron", "is required: give exactly one of cron and every");
    if (object && name.p && !dt_json_member(json, body, "topic"))
        dt_faults_add(faults, "/topic", "is required");
    if (s->has_start && s->has_end && s->ends_at_ms <= s->starts_at_ms)
        dt_faults_add(faults, "/ends_at", "must be after starts_at");
    dt_status status = dt_job_template_decode(json, rules, is_schedule_member, faults, &out->schedule.job);
    if (status == DT_OK)
        add_to_digest(&out->schedule, faults);
    return status == DT_OK && faults->failed ? DT_NOMEM : status;
}

const char *dt_schedule_name_check(struct dt_str name)
{
    static const char *const reason = "must have 1 to 200 of A-Z, a-z, 0-9, '.', '_' and '-'";
    if (name.n < 1 || name.n > DT_SCHEDULE_NAME_MAX)
        return reason;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-'))
            return reason;
    }
    return NULL;
}

/* Adds the time of starts_at or ends_at, or null if it was not given. 0 is a valid time here, the beginning of 1970. */
static void put_time_bound(struct dt_strbuf *out, const char *name, bool given, int64_t ms)
{
    char text[25];
    dt_time_format(ms, text);
    dt_json_put_word(out, name, given ? text : NULL);
}

/* Adds a schedule as JSON. next_ms: time of its next fire; 0: none. payload: include the payload. */
static void add_schedule(struct dt_strbuf *out, const struct dt_schedule *s, int64_t next_ms, bool payload)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_given(out, "name", s->name);
    dt_json_put_given(out, "topic", s->job.topic);
    dt_json_put_given(out, "cron", s->cron);
    if (!s->cron.p)
        dt_json_put_duration(out, "every", s->every_ms);
    dt_json_put_given(out, "time_zone", s->time_zone);
    put_time_bound(out, "starts_at", s->has_start, s->starts_at_ms);
    put_time_bound(out, "ends_at", s->has_end, s->ends_at_ms);
    dt_json_put_word(out, "overlap", dt_overlap_name(s->overlap));
    dt_json_put_duration(out, "catch_up", s->catch_up_ms);
    dt_json_put_int_or_null(out, "catch_up_max", s->catch_up_max, s->catch_up_max);
    dt_json_put_duration(out, "jitter", s->jitter_ms);
    dt_json_put_bool(out, "paused", s->paused);
    if (s->job.retry.p)
        dt_retry_put(out, "retry", s->job.retry);
    if (s->job.ack_timeout_ms)
        dt_json_put_duration(out, "ack_timeout", s->job.ack_timeout_ms);
    dt_json_put_given(out, "partition_key", s->job.partition_key);
    if (s->job.headers.p)
        dt_json_put_raw(out, "headers", s->job.headers);
    dt_json_put_given(out, "callback_url", s->job.callback_url);
    dt_json_put_given(out, "content_type", s->job.content_type);
    if (payload && s->job.payload_binary)
        dt_json_put_base64(out, "payload_base64", s->job.payload);
    else if (payload)
        dt_json_put_raw(out, "payload", s->job.payload);
    dt_json_put_time(out, "next_at", next_ms);
    if (s->last_job_id)
        dt_json_put_id(out, "last_job_id", s->last_job_id);
    if (s->error.p) {
        dt_json_begin_object(out, "last_error");
        dt_json_put_string(out, "message", s->error);
        dt_json_put_time(out, "at", s->error_at_ms);
        dt_json_end_object(out);
    }
    dt_json_put_time(out, "created_at", s->created_at_ms);
    dt_json_put_time(out, "updated_at", s->updated_at_ms);
    dt_json_put_int(out, "version", s->version);
    dt_json_end_object(out);
}

struct ask {
    struct schedule_body body;
    bool cancel;
    bool has_from; /* true: list fires from from_ms on; false: from now on */
    int64_t from_ms;
    unsigned count;
};

/* ---- on a worker ---- */

static struct dt_fire_maker make_fire_maker(struct dt_request *req, dt_store *store)
{
    return (struct dt_fire_maker){
        .store = store, .zones = req->api->zones, .bound = dt_wall_bound(req), .arena = &req->arena};
}

static void post_job_moves(struct dt_request *req, const struct dt_fire_maker *maker)
{
    for (size_t i = 0; i < maker->n_moves; i++) {
        const struct dt_job_move *move = &maker->moves[i];
        dt_index_writer_post(req->api->index, &(struct dt_entry){move->id, move->due_ms, move->was_ms}, 1);
    }
}

static enum dt_next answer_failed_change(struct dt_request *req, dt_status status, const struct dt_error *err)
{
    return dt_answer_failed(req, status == DT_DENIED ? DT_NOT_FOUND : status, "schedule", err);
}

/* Reads the schedule that the path names. False: the answer is filled in. */
static bool read_schedule(struct dt_request *req, dt_store *store, struct dt_schedule *out)
{
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return false;
    dt_status status = dt_store_schedule_get(store, req->params[0], &req->arena, out, &err);
    DT_THEN(status, dt_wall_found(req, out->job.topic));
    if (status != DT_OK)
        (void)dt_answer_failed(req, status, "schedule", &err);
    return status == DT_OK;
}

/* Returns the first fire from now on; 0: none. */
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
    add_schedule(&req->out, s, next_fire_ms(req, s), true);
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
    struct dt_fire_maker maker = make_fire_maker(req, store);
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
    DT_THEN(status, wish.status);
    if (status == DT_NOT_FOUND || status == DT_INVALID)
        return dt_answer_fault(req, "/topic",
                               wish.reason ? wish.reason : "the topic does not exist, and jobs do not create topics");
    if (status == DT_OK && !dt_job_fits(req, store, topic, &asked))
        return DT_REPLY;
    DT_THEN(status, dt_store_schedule_put(&maker, &put, &out, &err));
    if (status == DT_INVALID && put.too_many) {
        snprintf(reason, sizeof(reason),
                 "limits.prefix_schedules (%lld) is reached for schedules of topics with the token's prefix",
                 (long long)req->api->config->limits_prefix_schedules);
        return dt_answer_fault(req, "/topic", reason);
    }
    if (status == DT_INVALID || status == DT_NOT_FOUND)
        return dt_answer_fault(req, status == DT_INVALID ? "/time_zone" : "/topic", err.text);
    if (status != DT_OK)
        return answer_failed_change(req, status, &err);
    post_job_moves(req, &maker);
    return answer_schedule(req, put.created ? 201 : 200, &out);
}

enum dt_next dt_handle_schedule_pause(struct dt_request *req, dt_store *store)
{
    struct dt_fire_maker maker = make_fire_maker(req, store);
    struct dt_schedule s;
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_store_schedule_pause(&maker, req->params[0], req->route->arg, &s, &err);
    if (status != DT_OK)
        return answer_failed_change(req, status, &err);
    post_job_moves(req, &maker);
    return answer_schedule(req, 200, &s);
}

static enum dt_next delete_schedule(struct dt_request *req, dt_store *store)
{
    const struct ask *ask = req->state;
    struct dt_fire_maker maker = make_fire_maker(req, store);
    struct dt_schedule s;
    struct dt_error err = {0};
    if (!read_schedule(req, store, &s))
        return DT_REPLY;
    dt_status status = dt_store_schedule_delete(&maker, req->params[0], ask->cancel, &err);
    if (status != DT_OK)
        return answer_failed_change(req, status, &err);
    post_job_moves(req, &maker);
    return answer_schedule(req, 200, &s);
}

enum dt_next dt_handle_schedule_run_now(struct dt_request *req, dt_store *store)
{
    struct dt_fire_maker maker = make_fire_maker(req, store);
    struct dt_tenant *tenant = req->caller.tenant;
    struct dt_schedule s;
    struct dt_job job;
    struct dt_error err = {0};
    struct dt_over over;
    struct dt_problem problem;
    if (!read_schedule(req, store, &s))
        return DT_REPLY;
    struct dt_jobs_done done = {.passed = 1, .passed_bytes = (int64_t)s.job.payload.n};
    if (tenant && !dt_tenant_job(tenant, done.passed_bytes, dt_clock_mono_us(req->api->clock), &over)) {
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
        return answer_failed_change(req, status, &err);
    post_job_moves(req, &maker);
    struct dt_str location = dt_arena_printf(&req->arena, "/v1/jobs/%lld", (long long)job.id);
    enum dt_next next = dt_answer_stored(req, store, &job, NULL);
    req->status = 201;
    dt_request_header(req, "Location", location);
    return next;
}

/* ---- fire times ---- */

static enum dt_next answer_fires(struct dt_request *req, const struct dt_schedule *s)
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

static enum dt_next list_fires(struct dt_request *req, dt_store *store)
{
    struct dt_schedule s;
    return read_schedule(req, store, &s) ? answer_fires(req, &s) : DT_REPLY;
}

static enum dt_next preview_schedule(struct dt_request *req, dt_store *)
{
    struct ask *ask = req->state;
    struct dt_schedule *s = &ask->body.schedule;
    s->anchor_ms = s->has_start ? s->starts_at_ms : dt_refclock_earliest_ms(req->api->ref);
    return answer_fires(req, s);
}

/* ---- lists ---- */

/* Writes a page. Schedules whose topic the token may not see are skipped, so a page may be short. */
static dt_status write_schedules(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct dt_page *page = req->state;
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    const struct dt_str after = page->after.p ? page->after : DT_STR_LIT("");
    struct dt_schedule_list list;
    dt_status status = dt_store_schedule_list(store, after, page->end, rows, &list, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "schedules");
    for (size_t i = 0; i < list.n; i++) {
        if (!dt_topic_within(bound, list.v[i].job.topic))
            continue;
        if (req->out.n >= DT_PAGE_BYTES) { /* the remaining schedules are on the next page */
            list.n = i;
            list.more = true;
            break;
        }
        add_schedule(&req->out, &list.v[i], next_fire_ms(req, &list.v[i]), false);
    }
    dt_answer_next_cursor(req, &page->cursor, list.more, list.n ? list.v[list.n - 1].name : DT_STR_LIT(""));
    return DT_OK;
}

/* row_bytes: those of a schedule without its payload, which a list does not show. */
const struct dt_list dt_list_of_schedules = {
    .letter = 's', .row = "schedule", .row_bytes = (size_t)16 << 10, .by_name = true, .write = write_schedules};

/* ---- on an HTTP thread ---- */

/* Checks the schedule's name in the path. False: the answer is filled in. */
static bool check_schedule_name(struct dt_request *req)
{
    const bool fine = !dt_schedule_name_check(req->params[0]);
    if (!fine)
        dt_answer_not_found(req, "schedule");
    return fine;
}

enum dt_next dt_handle_schedule_by_name(struct dt_request *req)
{
    return check_schedule_name(req) ? dt_workers_submit(req->api->workers, req, req->route->work) : DT_REPLY;
}

enum dt_next dt_handle_schedule_delete(struct dt_request *req)
{
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    if (!ask || !dt_answer_flag(req, "cancel", &ask->cancel) || !check_schedule_name(req))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, delete_schedule);
}

/* Reads the parameters count and from. */
static void read_fire_range(struct dt_request *req, struct dt_faults *faults, struct ask *ask)
{
    ask->count = NEXT_DEFAULT;
    if (!dt_answer_count(req, "count", NEXT_MAX, &ask->count))
        dt_faults_add_query(faults, DT_STR_LIT("count"), "must be a whole number from 1 to 100");
    ask->has_from =
        dt_answer_time(req, "from", INT64_MIN, "must be an RFC 3339 time with an offset", &ask->from_ms, faults);
}

enum dt_next dt_handle_schedule_next(struct dt_request *req)
{
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    struct dt_faults faults = {.arena = &req->arena};
    if (!ask)
        return DT_REPLY;
    read_fire_range(req, &faults, ask);
    if (faults.n)
        return dt_answer_faults(req, DT_INVALID, &faults);
    return check_schedule_name(req) ? dt_workers_submit(req->api->workers, req, list_fires) : DT_REPLY;
}

/* Decodes a schedule; for a preview, also the range of fires. */
static dt_status decode_put(struct dt_request *req, const dt_json *json, const struct dt_job_rules *rules,
                            struct dt_faults *faults)
{
    struct ask *ask = req->state;
    const struct dt_str name = req->params[0]; /* name in the path; absent for a preview */
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    const char *reason = name.p ? dt_schedule_name_check(name) : NULL;
    if (name.p && !reason && !dt_topic_within(bound, name))
        reason = "must begin with one of the token's topic prefixes";
    if (reason)
        dt_faults_add(faults, "/name", reason);
    if (!name.p)
        read_fire_range(req, faults, ask);
    return decode_schedule(json, rules, name, faults, &ask->body);
}

enum dt_next dt_handle_schedule_put(struct dt_request *req)
{
    struct ask *ask = dt_answer_state(req, sizeof(*ask));
    if (!ask || !dt_answer_clock(req) || !dt_answer_decode(req, decode_put))
        return DT_REPLY;
    struct dt_str topic = ask->body.schedule.job.topic;
    if (topic.p && dt_wall_found(req, topic) != DT_OK)
        return dt_answer_not_found(req, "topic");
    return dt_workers_submit(req->api->workers, req, req->params[0].p ? put_schedule : preview_schedule);
}
