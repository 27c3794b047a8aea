/* Tokens: GET, POST, PATCH and DELETE of /v1/tokens, for the scope admin over all topics; and GET /v1/usage. Only the
 * answer that creates a token shows its text. Every API applies a change within seconds. Once an installation has had a
 * token, it requires one, even if all tokens are revoked (tokens_store.c). */
#include "answer.h"
#include "features/tokens/tokens.h"
#include "handlers.h"
#include "request/quotas.h"
#include "token_commands.h"
#include "topic/owners.h"

#define TOKENS_ROOM ((size_t)1 << 20)
#define USAGE_ROOM  ((size_t)4 << 20)

struct token_body {
    struct dt_token_ask token;
    char text[DT_TOKEN_TEXT_MAX];
};

/* ---- answers ---- */

static void put_string_array(struct dt_strbuf *out, const char *name, struct dt_str words)
{
    dt_json_begin_array(out, name);
    while (words.n > 0)
        dt_json_put_string(out, NULL, dt_str_next_element(&words));
    dt_json_end_array(out);
}

/* Begins the JSON object of a token; the caller ends the object. */
static void begin_token_object(struct dt_strbuf *out, const struct dt_token *token)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_string(out, "name", token->name);
    put_string_array(out, "scopes", token->scopes);
    if (dt_str_is(token->topics, DT_TOPICS_ALL))
        dt_json_put_null(out, "topics");
    else
        put_string_array(out, "topics", token->topics);
    for (int i = 0; i < DT_QUOTAS; i++)
        dt_json_put_int_or_null(out, dt_quota_name((enum dt_quota)i), token->quotas.v[i] != DT_QUOTA_UNSET,
                                token->quotas.v[i]);
}

enum dt_next dt_handle_token_list(struct dt_request *req, dt_store *store)
{
    struct dt_token *tokens;
    size_t n;
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, TOKENS_ROOM))
        return dt_request_no_room(req);
    dt_status status = dt_store_token_list(store, &req->arena, &tokens, &n, NULL, &err);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    req->status = 200;
    dt_answer_begin_list(req, "tokens");
    for (size_t i = 0; i < n; i++) {
        begin_token_object(&req->out, &tokens[i]);
        dt_json_put_time(&req->out, "created_at", tokens[i].created_at_ms);
        dt_json_end_object(&req->out);
    }
    dt_json_end_array(&req->out);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

static enum dt_next create_token(struct dt_request *req, dt_store *store)
{
    struct token_body *ask = req->state;
    struct dt_error err = {0};
    char scopes[DT_SCOPES_TEXT];
    dt_status status = dt_token_new(store, &ask->token, ask->text, &err);
    if (status == DT_EXISTS)
        return dt_answer_fault(req, "/name", "a token with this name exists");
    DT_THEN(status, dt_token_judge(&ask->token, scopes, &err));
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    const struct dt_str topics = ask->token.topics.p ? ask->token.topics : dt_str(DT_TOPICS_ALL);
    req->status = 201;
    begin_token_object(&req->out, &(struct dt_token){.name = ask->token.name,
                                                     .scopes = dt_str(scopes),
                                                     .topics = topics,
                                                     .quotas = ask->token.quotas});
    dt_json_put_word(&req->out, "token", ask->text);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

static enum dt_next change_token_quotas(struct dt_request *req, dt_store *store)
{
    const struct token_body *ask = req->state;
    struct dt_token token = {0};
    struct dt_error err = {0};
    dt_status status = dt_store_token_set(store, req->params[0], &ask->token.quotas, &req->arena, &token, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "token", &err);
    req->status = 200;
    begin_token_object(&req->out, &token);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

enum dt_next dt_handle_token_revoke(struct dt_request *req, dt_store *store)
{
    struct dt_error err = {0};
    dt_status status = dt_store_token_revoke(store, req->params[0], &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "token", &err);
    dt_topic_owners_follow(store);
    req->status = 200;
    dt_json_begin_object(&req->out, NULL);
    dt_json_put_string(&req->out, "name", req->params[0]);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

/* ---- bodies ---- */

/* Joins an array of strings to one text with commas. A string may not contain a comma. */
static void read_string_list(struct dt_json_reader *r, const struct dt_json_field *field,
                             const struct dt_json_node *node)
{
    struct dt_strbuf all = {0};
    bool fine = node->type == DT_JSON_ARRAY;
    for (const struct dt_json_node *m = fine ? dt_json_first(r->json, node) : NULL; m;
         m = dt_json_sibling(r->json, node, m)) {
        fine &= m->type == DT_JSON_STRING && m->str.n > 0 && !memchr(m->str.p, ',', m->str.n);
        dt_strbuf_adds(&all, all.n ? "," : "");
        if (m->type == DT_JSON_STRING)
            dt_strbuf_add(&all, m->str.p, m->str.n);
    }
    r->faults->failed |= all.failed;
    if (!fine || (all.n == 0 && !all.failed))
        dt_json_fault(r, field, "must be an array of strings, and not empty");
    *(struct dt_str *)dt_json_place(r, field) = dt_json_keep(r->faults, all.n ? dt_strbuf_str(&all) : DT_STR_LIT(""));
    dt_strbuf_clear(&all);
}

/* Reads a quota. null resets it to the default; in a PATCH, a quota that the body does not name is unchanged. */
static void read_quota(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_NULL)
        *(int64_t *)dt_json_place(r, field) = DT_QUOTA_UNSET;
    else
        dt_json_read_value(r, field, node);
}

#define BODY struct dt_token_ask
#define QUOTA(name, quota)                                                                                             \
    DT_FIELD(name, COUNT, BODY, quotas.v[quota], .read = read_quota, .max = DT_QUOTA_MAX, .absent = DT_QUOTA_UNSET,    \
             .reason = "must be a number from 0 (no quota) to 10^12, or null for the default")

static const struct dt_json_field fields[] = {
    DT_FIELD("name", TEXT, BODY, name), DT_FIELD("scopes", TEXT, BODY, scopes, .read = read_string_list),
    DT_FIELD("topics", TEXT, BODY, topics, .read = read_string_list, .flags = DT_FIELD_NULLABLE),
#define X(kind, name, words) QUOTA(#name, DT_QUOTA_##kind),
    DT_QUOTA_MAP(X)
#undef X
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

/* ---- on an HTTP thread ---- */

/* Reads the body. Quotas that the body does not name get the value `quota`. Returns whether there is no fault. */
static bool read_token(struct dt_request *req, const dt_json *json, int64_t quota, struct dt_faults *faults)
{
    struct token_body *ask = req->state;
    struct dt_json_reader r = {.json = json, .faults = faults, .out = &ask->token};
    ask->token.quotas = dt_quota_all(quota);
    return dt_json_read(&r, &table, dt_json_root(json)) && faults->n == 0;
}

static dt_status decode_new_token(struct dt_request *req, const dt_json *json, const struct dt_job_rules *,
                                  struct dt_faults *faults)
{
    const struct dt_token_ask *t = &((const struct token_body *)req->state)->token;
    struct dt_error err = {0};
    unsigned bits;
    if (!read_token(req, json, DT_QUOTA_UNSET, faults))
        return DT_OK;
    if (!t->name.p || dt_token_name_check(t->name, &err) != DT_OK)
        dt_faults_addf(faults, "/name", "%s", t->name.p ? err.text : "is required");
    if (!t->scopes.p || dt_scopes_parse(t->scopes, &bits, &err) != DT_OK)
        dt_faults_addf(faults, "/scopes", "%s", t->scopes.p ? err.text : "is required");
    if (t->topics.p && dt_token_topics_check(t->topics, &err) != DT_OK)
        dt_faults_addf(faults, "/topics", "%s; leave it out for all topics", err.text);
    return DT_OK;
}

enum dt_next dt_handle_token_new(struct dt_request *req)
{
    if (!dt_answer_state(req, sizeof(struct token_body)) || !dt_answer_decode(req, decode_new_token))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, create_token);
}

static dt_status decode_quotas(struct dt_request *req, const dt_json *json, const struct dt_job_rules *,
                               struct dt_faults *faults)
{
    const struct dt_token_ask *t = &((const struct token_body *)req->state)->token;
    (void)read_token(req, json, DT_QUOTA_KEPT, faults);
    if (t->name.p || t->scopes.p || t->topics.p)
        dt_faults_add(faults, "", "only the quotas of an existing token can be changed");
    return DT_OK;
}

enum dt_next dt_handle_token_set(struct dt_request *req)
{
    if (req->if_match.p) {
        dt_request_refuse(req, DT_PROBLEM_INVALID, "tokens have no version, so If-Match is not supported");
        return DT_REPLY;
    }
    if (!dt_answer_state(req, sizeof(struct token_body)) || !dt_answer_decode(req, decode_quotas))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, change_token_quotas);
}

/*
 * ---- usage ----
 *
 * GET /v1/usage: the requests and jobs of tokens since the beginning of a day, the pending jobs of their topics, and
 * their quotas. A caller with admin over all topics sees all tokens that exist or were used; any other caller sees its
 * own token.
 */

struct usage_view {
    int64_t from_ms;
    struct dt_token *tokens;
    struct dt_usage *usage;
    struct dt_topic_pending *pending;
    size_t n_tokens, n_usage, n_pending;
};

/* Begins the JSON object of a token's usage; the caller ends the object. */
static void begin_usage_object(struct dt_strbuf *out, const struct dt_usage *u)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_string(out, "token", u->token);
    dt_json_put_int(out, "requests", u->requests);
    dt_json_put_int(out, "requests_refused", u->requests_refused);
    dt_json_put_int(out, "jobs", u->jobs);
    dt_json_put_int(out, "jobs_refused", u->jobs_refused);
    dt_json_put_int(out, "payload_bytes", u->payload_bytes);
}

static void put_usage(struct dt_request *req, const struct usage_view *v, const struct dt_token *token)
{
    struct dt_strbuf *out = &req->out;
    struct dt_usage used = {.token = token->name};
    struct dt_quota_limits limits = token->quotas;
    for (size_t i = 0; i < v->n_usage; i++)
        if (dt_str_eq(v->usage[i].token, token->name))
            used = v->usage[i];
    begin_usage_object(out, &used);
    dt_json_put_int(out, "pending_jobs", dt_pending_within(token->topics, v->pending, v->n_pending));
    dt_quotas_limits(req->api->quotas, token->name, &limits); /* the token's quotas, or the configured defaults */
    dt_json_begin_object(out, "limits");
    for (int i = 0; i < DT_QUOTAS; i++)
        dt_json_put_int_or_null(out, dt_quota_name((enum dt_quota)i), limits.v[i] > 0, limits.v[i]);
    dt_json_end_object(out);
    dt_json_end_object(out);
}

static enum dt_next show_usage(struct dt_request *req, dt_store *store)
{
    struct usage_view *v = req->state;
    struct dt_error err = {0};
    if (!dt_hold_more(&req->hold, USAGE_ROOM))
        return dt_request_no_room(req);
    dt_status status = dt_quotas_write_usage(req->api->quotas, store, &err);
    DT_THEN(status, dt_store_token_list(store, &req->arena, &v->tokens, &v->n_tokens, NULL, &err));
    DT_THEN(status, dt_store_usage(store, v->from_ms, &req->arena, &v->usage, &v->n_usage, &err));
    DT_THEN(status, dt_store_pending(store, &req->arena, &v->pending, &v->n_pending, &err));
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    req->status = 200;
    dt_json_begin_object(&req->out, NULL);
    dt_json_put_time(&req->out, "from", v->from_ms);
    dt_json_begin_array(&req->out, "usage");
    for (size_t i = 0; i < v->n_tokens; i++)
        if (dt_wall_shows_token(req, v->tokens[i].name))
            put_usage(req, v, &v->tokens[i]);
    for (size_t i = 0; i < v->n_usage; i++) { /* usage of tokens that were revoked */
        bool there = false;
        for (size_t k = 0; k < v->n_tokens && !there; k++)
            there = dt_str_eq(v->tokens[k].name, v->usage[i].token);
        if (there || !dt_wall_shows_token(req, v->usage[i].token))
            continue;
        begin_usage_object(&req->out, &v->usage[i]);
        dt_json_end_object(&req->out);
    }
    dt_json_end_array(&req->out);
    dt_json_end_object(&req->out);
    return DT_REPLY;
}

enum dt_next dt_handle_usage(struct dt_request *req)
{
    unsigned days = 1;
    struct usage_view *v = dt_answer_state(req, sizeof(*v));
    if (!v)
        return DT_REPLY;
    if (dt_request_query(req, "days").n > 3 || !dt_answer_count(req, "days", DT_USAGE_KEPT_DAYS, &days))
        return dt_answer_fault(req, "?days", "must be a number from 1 to 400");
    if (!dt_answer_clock(req))
        return DT_REPLY;
    const int64_t now_ms = dt_refclock_earliest_ms(req->api->ref);
    *v = (struct usage_view){.from_ms = now_ms - now_ms % DT_DAY_MS - (int64_t)(days - 1) * DT_DAY_MS};
    return dt_workers_submit(req->api->workers, req, show_usage);
}
