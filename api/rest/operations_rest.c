/*
 * Operations: POST /v1/jobs:cancel, :reschedule, :redrive, :run-now; DELETE of a topic with its jobs; GET and list,
 * stop.
 *
 * A small operation is done while its caller waits: the first pieces are a worker's, one each time the request is taken
 * up, so that others are served in between. What is longer is left to the dispatchers, and only looked at until the
 * wait is over. An API that dies leaves it to them, too, when its lease ends.
 *
 * Invariant: once an operation is made its answer is 200 or 202, and shows what was read last: in the transaction that
 * made it, or that of a piece, or by a look. Whatever fails later fails for the dispatchers to mend.
 */
#include <stdio.h>

#include "answer.h"
#include "api.h"
#include "base/assert.h"
#include "handlers.h"
#include "intake/index_writer.h"
#include "job/list/list.h"
#include "job/results/result_json.h"
#include "operation_json.h"
#include "request/auth.h"
#include "request/topic_cache.h"
#include "request/request.h"
#include "request/workers.h"
#include "topic/owner.h"
#include "topics_rest.h"

#define BY_OPERATION    'o'
#define OWN_PIECES      12 /* done here; each is some tens of ms at most */
#define LEASE_MS        3000
#define LOOK_US         INT64_C(100000)
#define RETRY_MS        5000              /* of one operation too many */
#define ROOM            ((size_t)2 << 20) /* of a piece: what it finds, and its parameters */
#define OPERATION_BYTES ((size_t)24 << 10)

struct operate {
    struct dt_operation_body body;
    struct dt_operation op; /* as it was read last; its id 0 = not made yet */
    int64_t until_us;       /* the answer waits no longer */
    int64_t next_us;        /* nothing is done before */
    unsigned pieces;        /* done here */
    bool handed_over;       /* to the dispatchers */
    struct dt_operation_preview preview;
    struct dt_arena rows; /* of the preview, or of the operation's texts */
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

static enum dt_next preview(struct dt_request *req, dt_store *store)
{
    struct operate *o = req->state;
    struct dt_error err = {0};
    struct dt_arena found;
    struct dt_strbuf sample;
    dt_assert(!req->changed); /* a dry run changes nothing */
    dt_arena_init(&found);
    dt_status status = dt_store_operation_preview(store, &o->preview, &found, &err);
    o->preview.after_key = dt_arena_copy(&o->rows, o->preview.after_key);
    dt_arena_clear(&found);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    if (!o->preview.over)
        return dt_workers_later(req->api->workers, req, preview) ? DT_PENDING
                                                                 : dt_answer_status(req, DT_FULL, NULL, NULL);
    struct dt_operation op = {.kind = o->body.ask.kind,
                              .state = DT_OPERATION_DONE,
                              .request = o->body.ask.request,
                              .rate = o->body.ask.rate,
                              .matched = o->preview.matched,
                              .started_at_ms = o->preview.started_ms,
                              .finished_at_ms = o->preview.started_ms};
    dt_strbuf_init(&sample);
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

static bool is_over(const struct operate *o)
{
    return o->op.state != DT_OPERATION_RUNNING;
}

/* Takes the operation as it was just read, and the arena that has its texts. */
static void remember(struct operate *o, const struct dt_operation *op, const struct dt_arena *rows)
{
    dt_arena_clear(&o->rows);
    o->rows = *rows;
    o->op = *op;
}

/* What fails here is the dispatchers', who try again, or end it. */
static void do_piece(struct dt_request *req, dt_store *store, struct operate *o)
{
    struct dt_operation_piece piece = {.id = o->op.id, .lease_ms = LEASE_MS};
    struct dt_arena rows;
    dt_assert_cmp(o->pieces, <, OWN_PIECES);
    dt_arena_init(&rows);
    dt_status status = dt_store_operation_step(store, &piece, &rows, NULL);
    const bool done = status == DT_OK && piece.id;
    for (size_t i = 0; status == DT_OK && i < piece.n_moves; i++) {
        const struct dt_job_move *move = &piece.moves[i];
        dt_index_writer_post(req->api->index, &(struct dt_entry){move->id, move->due_ms, move->was_ms}, 1);
    }
    if (done)
        remember(o, &piece.shown, &rows);
    else
        dt_arena_clear(&rows);
    o->pieces = done ? o->pieces + 1 : OWN_PIECES;
    o->next_us = dt_clock_mono_us(req->api->clock) + piece.wait_ms * 1000;
}

/*
 * Hands the operation over to the dispatchers; where that fails, they take it when its lease is over. A look that fails
 * leaves what was read before.
 */
static void look(struct dt_request *req, dt_store *store, struct operate *o)
{
    int64_t now_us = dt_clock_mono_us(req->api->clock);
    struct dt_operation op;
    struct dt_arena row;
    if (!o->handed_over)
        o->handed_over = dt_store_operation_hand_over(store, o->op.id, (o->next_us - now_us) / 1000, NULL) == DT_OK;
    o->next_us = dt_clock_mono_us(req->api->clock) + LOOK_US;
    dt_arena_init(&row);
    if (dt_store_operation_get(store, o->op.id, &row, &op, NULL) == DT_OK)
        remember(o, &op, &row);
    else
        dt_arena_clear(&row);
}

static enum dt_next go_on(struct dt_request *req, dt_store *store)
{
    struct operate *o = req->state;
    int64_t now_us = dt_clock_mono_us(req->api->clock);
    dt_assert(req->changed); /* the operation is made: the answer is 200 or 202 */
    if (now_us >= o->next_us && now_us < o->until_us && o->pieces < OWN_PIECES)
        do_piece(req, store, o);
    else if (now_us >= o->next_us && now_us < o->until_us)
        look(req, store, o);
    if (!is_over(o) && now_us < o->until_us && dt_workers_later(req->api->workers, req, go_on))
        return DT_PENDING;
    if (!is_over(o))
        look(req, store, o);
    if (o->body.ask.kind == DT_OPERATION_DELETE_TOPIC)
        dt_topics_announce(req);
    return answer_operation(req, is_over(o) ? 200 : 202, &o->op);
}

/* An operation that could not be made. */
static enum dt_next refuse(struct dt_request *req, dt_status status, const struct dt_error *err)
{
    if (status != DT_FULL)
        return dt_answer_status(req, status, NULL, err);
    dt_request_problem(req,
                       &(struct dt_problem){.type = DT_PROBLEM_QUOTA_EXCEEDED,
                                            .detail = DT_STR_LIT("as many operations as may run at once are running "
                                                                 "on these topics: wait for one, or stop one"),
                                            .quota = "running_operations",
                                            .limit = DT_OPERATIONS_RUNNING,
                                            .retry_after_ms = RETRY_MS});
    return DT_REPLY;
}

static enum dt_next begin(struct dt_request *req, dt_store *store)
{
    struct operate *o = req->state;
    struct dt_error err = {0};
    dt_assert(!req->changed && o->op.id == 0); /* not made yet */
    if (!dt_hold_more(&req->hold, ROOM))
        return dt_request_no_room(req);
    if (o->body.dry_run)
        return preview(req, store);
    dt_status status = dt_store_operation_make(store, &o->body.ask, LEASE_MS, &o->rows, &o->op, &err);
    if (status != DT_OK)
        return refuse(req, status, &err);
    req->changed = true;
    return go_on(req, store);
}

static enum dt_next begin_deletion(struct dt_request *req, dt_store *store)
{
    struct operate *o = req->state;
    struct dt_topic_deletion deletion;
    struct dt_error err = {0};
    dt_assert(!req->changed && o->op.id == 0); /* not made yet */
    if (!dt_hold_more(&req->hold, ROOM))
        return dt_request_no_room(req);
    dt_status status = dt_store_topic_delete_with_jobs(store, &o->body.ask, LEASE_MS, &o->rows, &deletion, &err);
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "topic");
    if (status != DT_OK)
        return refuse(req, status, &err);
    if (deletion.keeper)
        return dt_topic_refuse_deletion(req, &deletion);
    o->op = deletion.operation;
    req->changed = true;
    dt_topics_announce(req);
    return go_on(req, store);
}

static void drop(struct dt_request *req)
{
    struct operate *o = req->state;
    dt_arena_clear(&o->rows);
}

/* The owner that all tokens with the caller's prefixes are; 0: none binds it. False: the answer is filled in. */
static bool find_tenant(struct dt_request *req, int64_t *tenant)
{
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    struct dt_owners owners = {0};
    struct dt_strbuf topics;
    dt_strbuf_init(&topics);
    for (size_t i = 0; bound && i < bound->n; i++)
        dt_strbuf_addf(&topics, "%.*s,", (int)bound->prefixes[i].n, bound->prefixes[i].p);
    dt_status status = topics.failed ? DT_NOMEM : dt_owners_add(&owners, dt_strbuf_str(&topics), &req->arena);
    dt_strbuf_clear(&topics);
    *tenant = owners.n ? owners.v[0].owner : 0;
    if (status != DT_OK)
        dt_answer_status(req, status, NULL, NULL);
    return status == DT_OK;
}

/*
 * Binds the filter to what the token reaches. A token that is bound to one prefix, and lists ids, asks for that prefix:
 * so the operation is shown to it afterwards. False: the answer is filled in.
 */
static bool bind_filter(struct dt_request *req, struct dt_operation_ask *ask)
{
    struct dt_operation_filter *f = &ask->filter;
    struct dt_str name = f->topic;
    bool prefix = dt_operation_topic_is_prefix(f->topic);
    name.n -= prefix;
    ask->bound = dt_wall_bound(req);
    if (prefix && !dt_caller_may(&req->caller, DT_SCOPE_ADMIN)) {
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "a prefix of topics is for tokens with the scope admin");
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

/* Has a worker do what was asked. The wait for the operation's end is over before the request's own deadline. */
static enum dt_next submit(struct dt_request *req, struct operate *o, dt_worker_fn run)
{
    int64_t wanted_us = dt_clock_mono_us(req->api->clock) + o->body.wait_ms * 1000;
    o->until_us = dt_earlier(wanted_us, req->deadline_us - 1000000);
    o->preview.ask = &o->body.ask;
    dt_arena_init(&o->rows);
    req->state = o;
    req->cleanup = drop;
    return dt_workers_submit(req->api->workers, req, run);
}

enum dt_next dt_handle_jobs_operate(struct dt_request *req)
{
    const enum dt_operation_kind kind = (enum dt_operation_kind)req->route->arg;
    struct dt_faults faults;
    struct operate *o = dt_answer_state(req, sizeof(*o));
    if (!o || !dt_answer_clock(req))
        return DT_REPLY;
    struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    if (!json)
        return DT_REPLY;
    int64_t now_ms = dt_refclock_latest_ms(req->api->ref);
    dt_status status = dt_operation_decode(json, &rules, kind, now_ms, &faults, &o->body);
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    if (!bind_filter(req, &o->body.ask) || !find_tenant(req, &o->body.ask.tenant))
        return DT_REPLY;
    return submit(req, o, begin);
}

enum dt_next dt_handle_topic_delete_with_jobs(struct dt_request *req)
{
    struct operate *o = dt_answer_state(req, sizeof(*o));
    if (!o)
        return DT_REPLY;
    *o = (struct operate){.body = {.ask = {.kind = DT_OPERATION_DELETE_TOPIC, .filter.topic = req->params[0]},
                                   .wait_ms = DT_OPERATION_WAIT_MS}};
    if (!dt_answer_duration(req, "wait", DT_OPERATION_WAIT_MAX_MS, &o->body.wait_ms) ||
        !find_tenant(req, &o->body.ask.tenant))
        return DT_REPLY;
    return submit(req, o, begin_deletion);
}

/* ---- operations that exist ---- */

/* Reads the operation of the path. False: the answer is filled in. */
static bool read_operation(struct dt_request *req, dt_store *store, struct dt_operation *op)
{
    struct dt_error err = {0};
    int64_t id;
    dt_status status =
        dt_job_id_parse(req->params[0], &id) ? dt_store_operation_get(store, id, &req->arena, op, &err) : DT_NOT_FOUND;
    if (status == DT_OK)
        status = dt_wall_found(req, op->topic_from);
    if (status == DT_OK)
        return true;
    if (status == DT_NOT_FOUND)
        dt_answer_not_found(req, "operation");
    else
        dt_answer_status(req, status, NULL, &err);
    return false;
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
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "operation");
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    if (op.kind == DT_OPERATION_DELETE_TOPIC)
        dt_topics_announce(req);
    return answer_operation(req, 200, &op);
}

static dt_status write_operations(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct dt_id_page *page = req->state;
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    struct dt_operation_list list;
    dt_status status =
        dt_store_operation_list(store, page->id, dt_page_end(page->limit, OPERATION_BYTES), rows, &list, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "operations");
    for (size_t i = 0; i < list.n; i++) {
        if (!dt_topic_within(bound, list.v[i].topic_from))
            continue;
        if (req->out.n >= DT_PAGE_BYTES) { /* the others stand on the next page */
            list.n = i;
            list.more = true;
            break;
        }
        dt_operation_add(&req->out, &list.v[i]);
    }
    dt_answer_next_id(req, &page->cursor, list.more, list.n ? list.v[list.n - 1].id : 0);
    return DT_OK;
}

static enum dt_next list_operations(struct dt_request *req, dt_store *store)
{
    const struct dt_id_page *page = req->state;
    const size_t bytes = dt_page_end(page->limit, OPERATION_BYTES).bytes;
    return dt_answer_page(req, store, dt_page_room(bytes), "operation", write_operations);
}

enum dt_next dt_handle_operation_list(struct dt_request *req)
{
    req->state = dt_answer_id_page(req, BY_OPERATION, INT64_MAX);
    return req->state ? dt_workers_submit(req->api->workers, req, list_operations) : DT_REPLY;
}
