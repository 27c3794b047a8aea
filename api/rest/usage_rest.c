/*
 * GET /v1/usage: what tokens were used for since the beginning of a day, how many jobs of their topics are pending, and
 * their quotas. Whoever has admin over all topics sees all tokens that are there or were used, others their own.
 */
#include "answer.h"
#include "api.h"
#include "base/text/json.h"
#include "features/tokens/tokens.h"
#include "handlers.h"
#include "request/quotas.h"
#include "request/request.h"
#include "request/workers.h"

#define USAGE_ROOM ((size_t)4 << 20)

struct view {
    int64_t from_ms;
    struct dt_token *tokens;
    struct dt_usage *usage;
    struct dt_topic_pending *pending;
    size_t n_tokens, n_usage, n_pending;
};

/* Begins an object: the caller may add more to it, and ends it. */
static void begin_uses(struct dt_strbuf *out, const struct dt_usage *u)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_string(out, "token", u->token);
    dt_json_put_int(out, "requests", u->requests);
    dt_json_put_int(out, "requests_refused", u->requests_refused);
    dt_json_put_int(out, "jobs", u->jobs);
    dt_json_put_int(out, "jobs_refused", u->jobs_refused);
    dt_json_put_int(out, "payload_bytes", u->payload_bytes);
}

static void put_token(struct dt_request *req, const struct view *v, const struct dt_token *token)
{
    struct dt_strbuf *out = &req->out;
    struct dt_usage used = {.token = token->name};
    struct dt_quota_limits limits = token->quotas;
    for (size_t i = 0; i < v->n_usage; i++)
        if (dt_str_eq(v->usage[i].token, token->name))
            used = v->usage[i];
    begin_uses(out, &used);
    dt_json_put_int(out, "pending_jobs", dt_pending_within(token->topics, v->pending, v->n_pending));
    dt_quotas_limits(req->api->quotas, token->name, &limits); /* with the configuration's */
    dt_json_begin_object(out, "limits");
    for (int i = 0; i < DT_QUOTAS; i++)
        dt_json_put_int_or_null(out, dt_quota_name((enum dt_quota)i), limits.v[i] > 0, limits.v[i]);
    dt_json_end_object(out);
    dt_json_end_object(out);
}

static enum dt_next answer(struct dt_request *req, const struct view *v)
{
    req->status = 200;
    dt_json_begin_object(&req->out, NULL);
    dt_json_put_time(&req->out, "from", v->from_ms);
    dt_json_begin_array(&req->out, "usage");
    for (size_t i = 0; i < v->n_tokens; i++)
        if (dt_wall_shows_token(req, v->tokens[i].name))
            put_token(req, v, &v->tokens[i]);
    for (size_t i = 0; i < v->n_usage; i++) { /* of tokens that are gone */
        bool there = false;
        for (size_t k = 0; k < v->n_tokens && !there; k++)
            there = dt_str_eq(v->tokens[k].name, v->usage[i].token);
        if (there || !dt_wall_shows_token(req, v->usage[i].token))
            continue;
        begin_uses(&req->out, &v->usage[i]);
        dt_json_end_object(&req->out);
    }
    dt_json_end_array(&req->out);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

static enum dt_next show_usage(struct dt_request *req, dt_store *store)
{
    struct view *v = req->state;
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, USAGE_ROOM))
        return dt_request_no_room(req);
    dt_status status = dt_quotas_write_usage(req->api->quotas, store, &err);
    if (status == DT_OK)
        status = dt_store_token_list(store, &req->arena, &v->tokens, &v->n_tokens, NULL, &err);
    if (status == DT_OK)
        status = dt_store_usage(store, v->from_ms, &req->arena, &v->usage, &v->n_usage, &err);
    if (status == DT_OK)
        status = dt_store_pending(store, &req->arena, &v->pending, &v->n_pending, &err);
    return status == DT_OK ? answer(req, v) : dt_answer_status(req, status, NULL, &err);
}

enum dt_next dt_handle_usage(struct dt_request *req)
{
    unsigned days = 1;
    struct view *v = dt_answer_state(req, sizeof(*v));
    if (!v)
        return DT_REPLY;
    if (dt_request_query(req, "days").n > 3 || !dt_answer_count(req, "days", DT_USAGE_KEPT_DAYS, &days))
        return dt_answer_fault(req, "?days", "must be a number from 1 to 400");
    if (!dt_answer_clock(req))
        return DT_REPLY;
    const int64_t now_ms = dt_refclock_earliest_ms(req->api->ref);
    *v = (struct view){.from_ms = now_ms - now_ms % DT_DAY_MS - (int64_t)(days - 1) * DT_DAY_MS};
    return dt_workers_submit(req->api->workers, req, show_usage);
}
