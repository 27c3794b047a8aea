/*
 * Operations: POST /v1/jobs:cancel, :reschedule, :redrive, :run-now; DELETE of a topic with its jobs; GET, list and
 * stop of operations.
 *
 * The API carries out a small operation while its caller waits. A worker does one piece each time it takes the request,
 * so that it serves other requests between the pieces. After OWN_PIECES the API hands the operation over to the
 * dispatchers; from then on it only reads the operation, until the caller's wait ends. If the API dies, the dispatchers
 * take the operation when its lease expires.
 *
 * Invariant: once an operation is created, the answer is 200 or 202, and shows the operation as a transaction last read
 * it. If a piece fails after that, the dispatchers repeat the piece.
 */
#include "operations_rest.h"

#include "answer.h"
#include "base/assert.h"
#include "handlers.h"
#include "intake/index_writer.h"
#include "job/job.h"
#include "job/results/results.h"
#include "topic/limits.h"
#include "topic/owners.h"

#define OWN_PIECES     12 /* pieces that the API does itself; each piece takes some tens of ms at most */
#define LEASE_MS       3000
#define LOOK_US        INT64_C(100000)
#define RETRY_MS       5000              /* Retry-After, if too many operations are running */
#define ROOM           ((size_t)2 << 20) /* bytes reserved for a piece: rows that it reads, and its parameters */
#define ERROR_CODE_MAX 100
#define FILTER_MAX     65535 /* maximal bytes of the filter's JSON in MySQL, without white space */
#define RATE           "must be a number of jobs a second or a minute, such as \"1000/s\" or \"600/m\""

/* ---- JSON ---- */

/* Context of the functions that read members of a body (`read` in the field tables). */
struct context {
    const struct dt_job_rules *rules;
    int64_t now_ms;
};

static bool is_topic_prefix(struct dt_str topic)
{
    return topic.n > 0 && topic.p[topic.n - 1] == '*';
}

static void read_topic_filter(struct dt_json_reader *r, const struct dt_json_field *field,
                              const struct dt_json_node *node)
{
    bool text = node->type == DT_JSON_STRING;
    struct dt_str name = node->str;
    if (text && is_topic_prefix(name))
        name.n--;
    const char *reason = !text ? "must be a string" : NULL;
    if (text && (name.n == node->str.n || name.n > 0))
        reason = dt_topic_check(name, DT_STR_LIT(""));
    if (reason)
        dt_json_fault(r, field, reason);
    *(struct dt_str *)dt_json_place(r, field) = text ? dt_json_keep(r->faults, node->str) : DT_STR_LIT("?");
}

static void read_state_filter(struct dt_json_reader *r, const struct dt_json_field *field,
                              const struct dt_json_node *node)
{
    const bool dead = ((const struct dt_operation_body *)r->out)->ask.kind == DT_OPERATION_REDRIVE;
    if (node->type != DT_JSON_STRING || !dt_str_is(node->str, dead ? "dead" : "scheduled"))
        dt_json_fault(r, field,
                      dead ? "must be \"dead\": other jobs cannot be redriven"
                           : "must be \"scheduled\": jobs in other states are not changed");
}

static void read_id_filter(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_operation_filter *f = &((struct dt_operation_body *)r->out)->ask.filter;
    size_t n = 0;
    if (node->type != DT_JSON_ARRAY || node->n < 1 || node->n > DT_OPERATION_IDS_MAX) {
        dt_json_faultf(r, field, "must be a list of 1 to %d ids", DT_OPERATION_IDS_MAX);
        return;
    }
    f->ids = dt_arena_alloc(r->faults->arena, node->n * sizeof(*f->ids));
    r->faults->failed |= !f->ids;
    for (const struct dt_json_node *i = dt_json_first(r->json, node); i && f->ids;
         i = dt_json_sibling(r->json, node, i)) {
        dt_assert_cmp(n, <, node->n);
        if (i->type == DT_JSON_STRING && dt_job_id_parse(i->str, &f->ids[n]))
            n++;
        else
            dt_json_fault(r, field, "must hold ids of jobs, as strings");
    }
    if (!f->ids)
        return;
    qsort(f->ids, n, sizeof(*f->ids), dt_by_job_id);
    f->n_ids = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || f->ids[f->n_ids - 1] != f->ids[i])
            f->ids[f->n_ids++] = f->ids[i];
}

#define BODY struct dt_operation_body
#define BOUND(name, times, bound)                                                                                      \
    DT_FIELD(name, TIME, BODY, ask.filter.times.bound, .has = offsetof(BODY, ask.filter.times.given))

static const struct dt_json_field filter_fields[] = {
    DT_FIELD("topic", TEXT, BODY, ask.filter.topic, .read = read_topic_filter),
    DT_FIELD_BY("state", read_state_filter),
    DT_FIELD("key_prefix", TEXT, BODY, ask.filter.key_prefix, .min = 1, .max = DT_KEY_MAX),
    BOUND("run_from", run, from_ms),
    BOUND("run_to", run, to_ms),
    BOUND("created_from", created, from_ms),
    BOUND("created_to", created, to_ms),
    BOUND("failed_from", failed, from_ms),
    BOUND("failed_to", failed, to_ms),
    DT_FIELD("error_code", TEXT, BODY, ask.filter.error_code, .min = 1, .max = ERROR_CODE_MAX),
    DT_FIELD_BY("ids", read_id_filter),
};
static const struct dt_json_table filter_table =
    DT_TABLE(filter_fields, .object = "must be an object that is not empty", .unknown = "is not a member of a filter");

static void read_filter(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_json_reader filter = *r;
    struct dt_str *request = dt_json_place(r, field);
    struct dt_strbuf compact = {0};
    dt_json_add_compact(&compact, node->raw);
    r->faults->failed |= compact.failed;
    *request = dt_json_keep(r->faults, dt_strbuf_str(&compact));
    dt_strbuf_clear(&compact);
    if (request->n > FILTER_MAX)
        dt_json_faultf(r, field, "has %zu bytes, %d are allowed", request->n, FILTER_MAX);
    filter.parent = "/filter";
    if (node->type == DT_JSON_OBJECT && node->n == 0)
        dt_json_fault(r, field, filter_table.object);
    else
        dt_json_read(&filter, &filter_table, node);
}

static const char *check_rate(struct dt_str text)
{
    int64_t interval_ns;
    return dt_rate_parse(text, &interval_ns) ? NULL : RATE;
}

static void read_run_at(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const struct context *context = r->context;
    dt_json_read_value(r, field, node);
    if (*(int64_t *)dt_json_place(r, field) > context->now_ms + context->rules->max_delay_ms)
        dt_json_fault(r, field, "is further ahead than limits.max_delay allows");
}

/* Reads a duration of at most limits.max_delay. */
static void read_bounded_duration(struct dt_json_reader *r, const struct dt_json_field *field,
                                  const struct dt_json_node *node)
{
    const int64_t max_ms = ((const struct context *)r->context)->rules->max_delay_ms;
    int64_t *ms = dt_json_place(r, field);
    const char *reason = dt_duration_decode(node, ms);
    if (reason)
        dt_json_fault(r, field, reason);
    else if (*ms > max_ms)
        dt_json_faultf(r, field, "must be at most %lld seconds", (long long)(max_ms / 1000));
}

/* Reads a duration with an optional minus sign. */
static void read_shift(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    int64_t *ms = dt_json_place(r, field);
    struct dt_json_node plain = *node;
    bool text = node->type == DT_JSON_STRING || node->type == DT_JSON_NUMBER;
    bool back = text && node->str.n > 0 && node->str.p[0] == '-';
    bool fewer = node->type == DT_JSON_INT && node->i < 0;
    if (back) {
        plain.str.p++;
        plain.str.n--;
    }
    if (fewer)
        plain.i = node->i > INT64_MIN ? -node->i : INT64_MAX;
    read_bounded_duration(r, field, &plain);
    if (back || fewer)
        *ms = -*ms;
}

enum { RUN_AT, DELAY, SHIFT, SPREAD, FILTER }; /* indexes of rows of the table `fields` */

static const struct dt_json_field fields[] = {
    [RUN_AT] = DT_FIELD("run_at", TIME, BODY, ask.at_ms, .read = read_run_at),
    [DELAY] =
        DT_FIELD("delay", DURATION, BODY, ask.at_ms, .read = read_bounded_duration, .has = offsetof(BODY, ask.delays)),
    [SHIFT] = DT_FIELD("shift", DURATION, BODY, ask.shift_ms, .read = read_shift, .has = offsetof(BODY, ask.shifts)),
    [SPREAD] = DT_FIELD("spread", DURATION, BODY, ask.spread_ms, .read = read_bounded_duration),
    [FILTER] = DT_FIELD("filter", TEXT, BODY, ask.request, .read = read_filter),
    DT_FIELD("dry_run", FLAG, BODY, dry_run),
    DT_FIELD("rate", TEXT, BODY, ask.rate, .check = check_rate, .reason = RATE),
    DT_FIELD("wait", DURATION, BODY, wait_ms, .max = DT_OPERATION_WAIT_MAX_MS, .reason = "must be at most 60 seconds"),
};

/* Only the body of a reschedule may have the members before FILTER. */
static bool member_is_allowed(struct dt_json_reader *r, const struct dt_json_field *field,
                              const struct dt_json_node *node)
{
    const bool reschedules = ((const struct dt_operation_body *)r->out)->ask.kind == DT_OPERATION_RESCHEDULE;
    if (field && (reschedules || field >= &fields[FILTER]))
        return true;
    dt_faults_add_member(r->faults, "", node->name, filter_table.unknown);
    return false;
}

static const struct dt_json_table table = DT_TABLE(fields, .admits = member_is_allowed);

static void check_one_time_given(const struct dt_json_reader *r)
{
    const struct dt_operation_ask *ask = &((const struct dt_operation_body *)r->out)->ask;
    const struct context *context = r->context;
    const bool has_run_at = dt_json_given(r, RUN_AT);
    if (ask->kind != DT_OPERATION_RESCHEDULE)
        return;
    if (has_run_at + ask->delays + ask->shifts != 1)
        dt_faults_add(r->faults,
                      has_run_at    ? "/run_at"
                      : ask->delays ? "/delay"
                                    : "/shift",
                      "give exactly one of run_at, delay and shift");
    /* A spread must not make the last job due later than limits.max_delay, which also limits a reschedule of that job
     * alone. */
    int64_t begins_ms = ask->delays ? ask->at_ms : dt_later(ask->at_ms, context->now_ms) - context->now_ms;
    if (ask->shifts && ask->spread_ms)
        dt_faults_add(r->faults, "/spread", "cannot be combined with shift");
    else if (r->faults->n == 0 && !ask->shifts && ask->spread_ms > context->rules->max_delay_ms - begins_ms)
        dt_faults_add(r->faults, "/spread", "ends further ahead than limits.max_delay allows");
}

dt_status dt_operation_decode(const dt_json *json, const struct dt_job_rules *rules, enum dt_operation_kind kind,
                              int64_t now_ms, struct dt_faults *faults, struct dt_operation_body *out)
{
    static const struct dt_list_times any = {.from_ms = INT64_MIN, .to_ms = INT64_MAX};
    const struct context context = {rules, now_ms};
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out, .context = &context};
    *out = (struct dt_operation_body){.ask = {.kind = kind, .filter = {.run = any, .created = any, .failed = any}},
                                      .wait_ms = DT_OPERATION_WAIT_MS};
    if (dt_json_read(&r, &table, dt_json_root(json))) {
        const struct dt_operation_filter *f = &((const struct dt_operation_body *)r.out)->ask.filter;
        if (!dt_json_given(&r, FILTER))
            dt_faults_add(r.faults, "/filter", "is required");
        else if (r.faults->n == 0 && !f->topic.p && !f->n_ids)
            dt_faults_add(r.faults, "/filter/topic", "is required, unless there are ids");
        if (f->key_prefix.p && (!f->topic.p || is_topic_prefix(f->topic)))
            dt_faults_add(r.faults, "/filter/key_prefix", "requires one topic");
        if (f->run.from_ms > f->run.to_ms)
            dt_faults_add(r.faults, "/filter/run_from", "is after run_to");
        if (f->created.from_ms > f->created.to_ms)
            dt_faults_add(r.faults, "/filter/created_from", "is after created_to");
        if (f->failed.from_ms > f->failed.to_ms)
            dt_faults_add(r.faults, "/filter/failed_from", "is after failed_to");
        check_one_time_given(&r);
    }
    return dt_faults_status(faults);
}

void dt_operation_add(struct dt_strbuf *out, const struct dt_operation *op)
{
    static const char *const kinds[] = {"cancel", "reschedule", "redrive", "run-now", "delete-topic"};
    static const char *const states[] = {"running", "done", "stopped", "failed"};
    dt_json_begin_object(out, NULL);
    if (op->id)
        dt_json_put_id(out, "id", op->id);
    dt_json_put_word(out, "kind", kinds[op->kind]);
    dt_json_put_word(out, "state", states[op->state]);
    dt_json_put_bool(out, "dry_run", !op->id);
    dt_json_put_raw(out, "filter", op->request);
    dt_json_put_int(out, "matched", op->matched);
    dt_json_put_int(out, "changed", op->changed);
    dt_json_put_int(out, "refused", op->refused);
    dt_json_put_raw(out, "sample", op->sample);
    dt_json_put_given(out, "rate", op->rate);
    dt_json_put_given(out, "error", op->error);
    dt_json_put_time(out, "started_at", op->started_at_ms);
    dt_json_put_time(out, "finished_at", op->finished_at_ms);
    dt_json_end_object(out);
}

struct operate {
    struct dt_operation_body body;
    struct dt_operation op; /* the operation as last read; its id is 0 until it is created */
    int64_t until_us;       /* monotonic: when the answer is sent at the latest */
    int64_t next_us;        /* monotonic: when the next piece or the next read may begin */
    unsigned pieces;        /* number of pieces that the API has done */
    bool handed_over;       /* the operation was handed over to the dispatchers */
    struct dt_operation_preview preview;
    struct dt_arena rows; /* memory of the texts of the preview, or of the operation */
};

static enum dt_next answer_operation(struct dt_request *req, int status, const struct dt_operation *op)
{
    struct dt_str location = dt_arena_printf(&req->arena, "/v1/operations/%lld", (long long)op->id);
    req->status = status;
    dt_strbuf_reset(&req->out);
    dt_operation_add(&req->out, op);
    if (location.p && op->id && status == 202)
        dt_request_header(req, "Location", location);
    return DT_REPLY;
}

/* ---- a dry run ---- */

static enum dt_next run_preview(struct dt_request *req, dt_store *store)
{
    struct operate *o = req->state;
    struct dt_error err = {0};
    struct dt_arena found = {0};
    struct dt_strbuf sample = {0};
    dt_assert(!req->changed); /* a dry run changes nothing */
    dt_status status = dt_store_operation_preview(store, &o->preview, &found, &err);
    o->preview.after_key = dt_arena_copy(&o->rows, o->preview.after_key);
    dt_arena_clear(&found);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    if (!o->preview.over)
        return dt_workers_later(req->api->workers, req, run_preview) ? DT_PENDING
                                                                     : dt_answer_status(req, DT_FULL, NULL, NULL);
    struct dt_operation op = {.kind = o->body.ask.kind,
                              .state = DT_OPERATION_DONE,
                              .request = o->body.ask.request,
                              .rate = o->body.ask.rate,
                              .matched = o->preview.matched,
                              .started_at_ms = o->preview.started_ms,
                              .finished_at_ms = o->preview.started_ms};
    dt_json_begin_array(&sample, NULL);
    for (int64_t i = 0; i < op.matched && i < DT_OPERATION_SAMPLE; i++)
        dt_json_put_id(&sample, NULL, o->preview.ids[i]);
    dt_json_end_array(&sample);
    op.sample = dt_strbuf_str(&sample);
    answer_operation(req, 200, &op);
    dt_strbuf_clear(&sample);
    return DT_REPLY;
}

/* ---- an operation ---- */

static bool has_operation_ended(const struct operate *o)
{
    return o->op.state != DT_OPERATION_RUNNING;
}

/* Stores the operation that was just read, and takes over the arena of its texts. */
static void store_operation(struct operate *o, const struct dt_operation *op, const struct dt_arena *rows)
{
    dt_arena_clear(&o->rows);
    o->rows = *rows;
    o->op = *op;
}

/* Does one piece. If it fails, the API does no further pieces: the dispatchers repeat the piece, or end the
 * operation. */
static void run_operation_piece(struct dt_request *req, dt_store *store, struct operate *o)
{
    struct dt_operation_piece piece = {.id = o->op.id, .lease_ms = LEASE_MS};
    struct dt_arena rows = {0};
    dt_assert_cmp(o->pieces, <, OWN_PIECES);
    dt_status status = dt_store_operation_step(store, &piece, &rows, NULL);
    const bool done = status == DT_OK && piece.id;
    for (size_t i = 0; status == DT_OK && i < piece.n_moves; i++) {
        const struct dt_job_move *move = &piece.moves[i];
        dt_index_writer_post(req->api->index, &(struct dt_entry){move->id, move->due_ms, move->was_ms}, 1);
    }
    if (done)
        store_operation(o, &piece.shown, &rows);
    else
        dt_arena_clear(&rows);
    o->pieces = done ? o->pieces + 1 : OWN_PIECES;
    o->next_us = dt_clock_mono_us(req->api->clock) + piece.wait_ms * 1000;
}

/* Hands the operation over to the dispatchers and reads it again. If the handover fails, the dispatchers take the
 * operation when its lease expires. If the read fails, the answer shows the operation as it was read before. */
static void reread_operation(struct dt_request *req, dt_store *store, struct operate *o)
{
    int64_t now_us = dt_clock_mono_us(req->api->clock);
    struct dt_operation op;
    struct dt_arena row = {0};
    if (!o->handed_over)
        o->handed_over = dt_store_operation_hand_over(store, o->op.id, (o->next_us - now_us) / 1000, NULL) == DT_OK;
    o->next_us = dt_clock_mono_us(req->api->clock) + LOOK_US;
    if (dt_store_operation_get(store, o->op.id, &row, &op, NULL) == DT_OK)
        store_operation(o, &op, &row);
    else
        dt_arena_clear(&row);
}

static enum dt_next continue_operation(struct dt_request *req, dt_store *store)
{
    struct operate *o = req->state;
    int64_t now_us = dt_clock_mono_us(req->api->clock);
    dt_assert(req->changed); /* the operation exists: the answer is 200 or 202 */
    if (now_us >= o->next_us && now_us < o->until_us && o->pieces < OWN_PIECES)
        run_operation_piece(req, store, o);
    else if (now_us >= o->next_us && now_us < o->until_us)
        reread_operation(req, store, o);
    if (!has_operation_ended(o) && now_us < o->until_us && dt_workers_later(req->api->workers, req, continue_operation))
        return DT_PENDING;
    if (!has_operation_ended(o))
        reread_operation(req, store, o);
    if (o->body.ask.kind == DT_OPERATION_DELETE_TOPIC)
        dt_topics_announce(req);
    return answer_operation(req, has_operation_ended(o) ? 200 : 202, &o->op);
}

/* Answers that the operation could not be created. */
static enum dt_next refuse_operation(struct dt_request *req, dt_status status, const struct dt_error *err)
{
    if (status != DT_FULL)
        return dt_answer_status(req, status, NULL, err);
    dt_request_problem(req, &(struct dt_problem){.type = DT_PROBLEM_QUOTA_EXCEEDED,
                                                 .detail = DT_STR_LIT("the limit of running operations is reached "
                                                                      "on these topics: wait for one, or stop one"),
                                                 .quota = "running_operations",
                                                 .limit = DT_OPERATIONS_RUNNING,
                                                 .retry_after_ms = RETRY_MS});
    return DT_REPLY;
}

static enum dt_next begin_operation(struct dt_request *req, dt_store *store)
{
    struct operate *o = req->state;
    const bool deletes = o->body.ask.kind == DT_OPERATION_DELETE_TOPIC;
    struct dt_topic_deletion deletion = {0};
    struct dt_error err = {0};
    dt_assert(!req->changed && o->op.id == 0); /* the operation is not created yet */
    if (!dt_hold_more(&req->hold, ROOM))
        return dt_request_no_room(req);
    if (o->body.dry_run)
        return run_preview(req, store);
    dt_status status = deletes
                           ? dt_store_topic_delete_with_jobs(store, &o->body.ask, LEASE_MS, &o->rows, &deletion, &err)
                           : dt_store_operation_make(store, &o->body.ask, LEASE_MS, &o->rows, &o->op, &err);
    if (deletes && status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "topic");
    if (status != DT_OK)
        return refuse_operation(req, status, &err);
    if (deletion.keeper)
        return dt_answer_topic_in_use(req, &deletion);
    req->changed = true;
    if (deletes) {
        o->op = deletion.operation;
        dt_topics_announce(req);
    }
    return continue_operation(req, store);
}

static void free_operation_rows(struct dt_request *req)
{
    struct operate *o = req->state;
    dt_arena_clear(&o->rows);
}

/* Sets *tenant, the owner of the operation. All tokens with the same prefixes share one owner; 0: the caller is not
 * bound to prefixes. False: the answer is filled in. */
static bool find_operation_owner(struct dt_request *req, int64_t *tenant)
{
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    struct dt_owners owners = {0};
    struct dt_strbuf topics = {0};
    for (size_t i = 0; bound && i < bound->n; i++)
        dt_strbuf_addf(&topics, "%.*s,", (int)bound->prefixes[i].n, bound->prefixes[i].p);
    dt_status status = topics.failed ? DT_NOMEM : dt_owners_add(&owners, dt_strbuf_str(&topics), &req->arena);
    dt_strbuf_clear(&topics);
    *tenant = owners.n ? owners.v[0].owner : 0;
    if (status != DT_OK)
        dt_answer_status(req, status, NULL, NULL);
    return status == DT_OK;
}

/* Limits the filter to the token's topics. If the filter names no topic and the token has one prefix, adds the prefix
 * to the filter, so that the token can read the operation later. False: the answer is filled in. */
static bool limit_filter_to_token(struct dt_request *req, struct dt_operation_ask *ask)
{
    struct dt_operation_filter *f = &ask->filter;
    struct dt_str name = f->topic;
    bool prefix = is_topic_prefix(f->topic);
    name.n -= prefix;
    ask->bound = dt_wall_bound(req);
    if (prefix && !dt_caller_may(&req->caller, DT_SCOPE_ADMIN)) {
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "a topic prefix requires the scope admin");
        return false;
    }
    if (f->topic.p && dt_wall_found(req, name) != DT_OK) {
        dt_answer_not_found(req, "topic");
        return false;
    }
    if (!f->topic.p && ask->bound && ask->bound->n == 1)
        f->topic = dt_arena_printf(&req->arena, "%.*s*", (int)ask->bound->prefixes[0].n, ask->bound->prefixes[0].p);
    return true;
}

/* Submits the request to a worker. The caller's wait ends a second before the request's deadline, even if the operation
 * has not ended. */
static enum dt_next submit_operation(struct dt_request *req, struct operate *o)
{
    int64_t wanted_us = dt_clock_mono_us(req->api->clock) + o->body.wait_ms * 1000;
    o->until_us = dt_earlier(wanted_us, req->deadline_us - 1000000);
    o->preview.ask = &o->body.ask;
    req->cleanup = free_operation_rows;
    return dt_workers_submit(req->api->workers, req, begin_operation);
}

static dt_status decode_operation(struct dt_request *req, const dt_json *json, const struct dt_job_rules *rules,
                                  struct dt_faults *faults)
{
    struct operate *o = req->state;
    return dt_operation_decode(json, rules, (enum dt_operation_kind)req->route->arg,
                               dt_refclock_latest_ms(req->api->ref), faults, &o->body);
}

enum dt_next dt_handle_jobs_operate(struct dt_request *req)
{
    struct operate *o = dt_answer_state(req, sizeof(*o));
    if (!o || !dt_answer_clock(req) || !dt_answer_decode(req, decode_operation) ||
        !limit_filter_to_token(req, &o->body.ask) || !find_operation_owner(req, &o->body.ask.tenant))
        return DT_REPLY;
    return submit_operation(req, o);
}

enum dt_next dt_handle_topic_delete_with_jobs(struct dt_request *req)
{
    struct operate *o = dt_answer_state(req, sizeof(*o));
    if (!o)
        return DT_REPLY;
    *o = (struct operate){.body = {.ask = {.kind = DT_OPERATION_DELETE_TOPIC, .filter.topic = req->params[0]},
                                   .wait_ms = DT_OPERATION_WAIT_MS}};
    if (!dt_answer_duration(req, "wait", DT_OPERATION_WAIT_MAX_MS, &o->body.wait_ms) ||
        !find_operation_owner(req, &o->body.ask.tenant))
        return DT_REPLY;
    return submit_operation(req, o);
}

/* ---- operations that exist ---- */

/* Reads the operation that the path names. False: the answer is filled in. */
static bool read_operation(struct dt_request *req, dt_store *store, struct dt_operation *op)
{
    struct dt_error err = {0};
    int64_t id;
    dt_status status =
        dt_job_id_parse(req->params[0], &id) ? dt_store_operation_get(store, id, &req->arena, op, &err) : DT_NOT_FOUND;
    DT_THEN(status, dt_wall_found(req, op->topic_from));
    if (status != DT_OK)
        (void)dt_answer_failed(req, status, "operation", &err);
    return status == DT_OK;
}

enum dt_next dt_handle_operation_get(struct dt_request *req, dt_store *store)
{
    struct dt_operation op;
    return read_operation(req, store, &op) ? answer_operation(req, 200, &op) : DT_REPLY;
}

enum dt_next dt_handle_operation_stop(struct dt_request *req, dt_store *store)
{
    struct dt_operation op;
    struct dt_error err = {0};
    if (!read_operation(req, store, &op))
        return DT_REPLY;
    dt_status status = dt_store_operation_stop(store, op.id, &req->arena, &op, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "operation", &err);
    if (op.kind == DT_OPERATION_DELETE_TOPIC)
        dt_topics_announce(req);
    return answer_operation(req, 200, &op);
}

static dt_status write_operations(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct dt_page *page = req->state;
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    struct dt_operation_list list;
    dt_status status = dt_store_operation_list(store, page->id, page->end, rows, &list, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "operations");
    for (size_t i = 0; i < list.n; i++) {
        if (!dt_topic_within(bound, list.v[i].topic_from))
            continue;
        if (req->out.n >= DT_PAGE_BYTES) { /* the remaining operations are on the next page */
            list.n = i;
            list.more = true;
            break;
        }
        dt_operation_add(&req->out, &list.v[i]);
    }
    dt_answer_next_id(req, &page->cursor, list.more, list.n ? list.v[list.n - 1].id : 0);
    return DT_OK;
}

const struct dt_list dt_list_of_operations = {
    .letter = 'o', .row = "operation", .row_bytes = (size_t)24 << 10, .first = INT64_MAX, .write = write_operations};
