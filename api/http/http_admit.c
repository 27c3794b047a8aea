/* Owns the checks of a request's head: which route the request takes, who the caller is, the size and type of its body,
 * its query. Does not know how an answer is sent. The framing of the head was checked before (base/http/parse.h). */
#include <stdatomic.h>

#include "http_exchange.h"
#include "request/auth.h"
#include "request/quotas.h"
#include "request/request.h"
#include "request/workers.h"

/* ---- headers ---- */

/* Uses the client's id for the request if it has only letters, digits and ".", "_", "-". */
static void store_request_id(struct dt_exchange *e, struct dt_str value)
{
    static const char fine[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-";
    if (value.n == 0 || value.n > DT_REQUEST_ID_MAX || strspn(value.p, fine) != value.n)
        return;
    memcpy(e->id, value.p, value.n + 1);
    e->req.request_id = (struct dt_str){e->id, value.n};
}

/* The headers that the API uses. If a line of STORED is repeated, the last one counts. */
static const struct {
    struct dt_str name;
    enum { STORED, HOST, ORIGIN, SITE, ID, FORWARDED } how;
    size_t at; /* STORED: offset of the slice; FORWARDED: the dt_http.forwarded for which the header counts */
} known_headers[] = {
    {DT_STR_LIT("host"), HOST, 0},
    {DT_STR_LIT("content-type"), STORED, offsetof(struct dt_exchange, req.content_type)},
    {DT_STR_LIT("authorization"), STORED, offsetof(struct dt_exchange, authorization)},
    {DT_STR_LIT("accept-encoding"), STORED, offsetof(struct dt_exchange, req.accept_encoding)},
    {DT_STR_LIT("content-encoding"), STORED, offsetof(struct dt_exchange, encoding)},
    {DT_STR_LIT("if-match"), STORED, offsetof(struct dt_exchange, req.if_match)},
    {DT_STR_LIT("if-none-match"), STORED, offsetof(struct dt_exchange, req.if_none_match)},
    {DT_STR_LIT("origin"), ORIGIN, 0},
    {DT_STR_LIT("sec-fetch-site"), SITE, 0},
    {DT_STR_LIT("x-request-id"), ID, 0},
    {DT_STR_LIT("forwarded"), FORWARDED, true},
    {DT_STR_LIT("x-forwarded-for"), FORWARDED, false},
};

/* Stores a header that the API uses. Its framing was checked before; the byte after the value is a zero. */
static void store_header(struct dt_exchange *e, struct dt_str name, struct dt_str v)
{
    size_t i = 0;
    while (name.n != known_headers[i].name.n || !dt_str_is_caseless(name, known_headers[i].name.p))
        if (++i == sizeof(known_headers) / sizeof(known_headers[0]))
            return;
    switch (known_headers[i].how) {
    case STORED:
        *(struct dt_str *)((char *)e + known_headers[i].at) = v;
        break;
    case HOST:
        e->host = e->host.p ? e->host : v;
        break;
    case ORIGIN:
        e->cross_site |= e->origin.p && !dt_str_eq(e->origin, v);
        e->origin = v;
        break;
    case SITE:
        e->cross_site |= !dt_str_is_caseless(v, "same-origin");
        break;
    case ID:
        store_request_id(e, v);
        break;
    case FORWARDED:
        if (e->thread->http->forwarded == known_headers[i].at)
            e->forwarded = v;
        break;
    }
}

/* Copies the head into the arena and splits it into slices. Each slice is followed by a zero byte, which replaces a
 * byte that was already read. False: memory ran out. */
static bool read_head(struct dt_exchange *e, const struct dt_head *head)
{
    struct dt_request *req = &e->req;
    const char *begin = head->method.p;
    char *copy =
        (char *)dt_arena_copy(&req->arena, (struct dt_str){begin, (size_t)(head->fields.p + head->fields.n - begin)}).p;
    if (!copy)
        return false;
    req->method = (struct dt_str){copy, head->method.n};
    copy[head->method.n] = '\0';
    char *target = copy + (head->target.p - begin);
    target[head->target.n] = '\0';
    char *query = memchr(target, '?', head->target.n);
    if (query) {
        e->query = (struct dt_str){query + 1, (size_t)(target + head->target.n - query - 1)};
        *query = '\0';
    }
    struct dt_str whole = {target, strlen(target)};
    req->path = dt_target_path(whole);
    const char *scheme = target[0] == '/' ? NULL : strstr(target, "://");
    if (scheme) /* the host of an absolute target overrides the header Host (RFC 9112, 3.2.2) */
        e->host = (struct dt_str){scheme + 3, strcspn(scheme + 3, "/")};
    struct dt_str fields = {copy + (head->fields.p - begin), head->fields.n};
    struct dt_str name;
    struct dt_str value;
    while (dt_head_next(&fields, &name, &value)) {
        *(char *)(value.p + value.n) = '\0'; /* the byte after the value is white space or part of the line end */
        store_header(e, name, value);
    }
    e->has_body = head->chunked || head->length > 0;
    return true;
}

/* ---- the checks: each of them fills in a problem, or says true ---- */

static dt_status decode_text(struct dt_arena *arena, struct dt_str text, struct dt_str *out)
{
    char *copy = dt_arena_alloc(arena, text.n + 1);
    size_t length = 0;
    dt_status status = copy ? dt_percent_decode(text, copy, &length) : DT_NOMEM;
    if (status == DT_OK)
        *out = (struct dt_str){copy, length};
    return status;
}

/* Returns whether a text was decoded. If not, the request is malformed, or memory ran out. */
static bool check_decoded(struct dt_exchange *e, dt_status status, const char *what)
{
    if (status == DT_MALFORMED)
        dt_request_refuse(&e->req, DT_PROBLEM_MALFORMED, "the %s has a bad %%-escape", what);
    else if (status != DT_OK)
        dt_request_refuse(&e->req, DT_PROBLEM_UNAVAILABLE, "out of memory");
    return status == DT_OK;
}

static bool find_route(struct dt_exchange *e)
{
    struct dt_match match = {.params = {DT_STR_NONE}};
    dt_status status = DT_OK;
    dt_router_match(e->thread->http->router, e->req.method, e->req.path, &match);
    if (match.route) {
        e->req.route = match.route;
        e->route_index = match.index;
        for (int i = 0; status == DT_OK && i < DT_ROUTE_PARAMS && match.params[i].p; i++)
            status = decode_text(&e->req.arena, match.params[i], &e->req.params[i]);
        return check_decoded(e, status, "path");
    }
    if (!match.allow[0]) {
        dt_request_refuse(&e->req, DT_PROBLEM_NOT_FOUND, "there is nothing at this path");
        return false;
    }
    dt_request_refuse(&e->req, DT_PROBLEM_METHOD_NOT_ALLOWED, "this path supports %s", match.allow);
    dt_request_header(&e->req, "Allow", dt_str(match.allow));
    return false;
}

static bool check_caller(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    const int64_t now_us = req->started_us;
    struct dt_over over;
    if (req->route->scope == DT_SCOPE_NONE)
        return true;
    dt_status status = dt_auth_check(e->thread->http->api->auth, e->authorization, &req->caller);
    if (status == DT_DENIED) {
        dt_request_refuse(req, DT_PROBLEM_UNAUTHORIZED, e->authorization.p ? "the token is unknown" : "no token");
        dt_request_header(req, "WWW-Authenticate", DT_STR_LIT("Bearer realm=\"duetime\""));
        return false;
    }
    if (status != DT_OK) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "the token cannot be checked: MySQL was not reached");
        return false;
    }
    dt_conn_known(e->conn);
    if (req->caller.tenant && !dt_tenant_request(req->caller.tenant, now_us, &over)) {
        struct dt_problem problem;
        dt_over_problem(&over, &problem);
        dt_request_problem(req, &problem);
        return false;
    }
    dt_activity_note(e->thread->http->api->activity, req->caller.fair_queue, now_us);
    if (dt_caller_may(&req->caller, req->route->scope))
        return dt_wall_enter(req);
    dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "the token lacks the scope that this request needs");
    return false;
}

/* While no token is required, any web page could use the API through a browser on this machine (request.h). Health
 * probes are always admitted, because they use any address that reaches the API, and their answers are not secret. A
 * request without Host (HTTP/1.0) does not come from a browser. */
static bool check_host_and_origin(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    const bool tokenless = req->route->scope == DT_SCOPE_NONE;
    bool probe = tokenless && (dt_str_is(req->path, "/healthz") || dt_str_is(req->path, "/readyz"));
    bool reads = dt_str_is(req->method, "GET") || dt_str_is(req->method, "HEAD");
    const bool open = tokenless ? dt_auth_open(e->thread->http->api->auth) : !req->caller.set;
    if (probe || !open)
        return true;
    if (e->host.p && !dt_host_is_local(e->host, dt_str(e->thread->http->api->config->http_names))) {
        dt_request_refuse(
            req, DT_PROBLEM_FORBIDDEN,
            "tokens are not required here, so Host must be localhost, a loopback address or one of http.names");
        return false;
    }
    if (reads || !(e->cross_site || (e->origin.p && !dt_origin_is_host(e->origin, e->host))))
        return true;
    dt_request_refuse(req, DT_PROBLEM_FORBIDDEN,
                      "tokens are not required here, so a web page of another origin may not change anything");
    return false;
}

static bool check_body_size(struct dt_exchange *e, uint64_t length)
{
    const struct dt_config *config = e->thread->http->api->config;
    e->limit = (size_t)(e->req.route->body == DT_BODY_STREAM ? config->limits_batch_body : config->limits_body);
    if (length <= e->limit)
        return true;
    dt_request_refuse(&e->req, DT_PROBLEM_TOO_LARGE, "the body has %llu bytes, at most %zu are allowed",
                      (unsigned long long)length, e->limit);
    return false;
}

static bool check_media_type(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    req->media = dt_media_parse(req->content_type);
    bool fine = req->media == DT_MEDIA_JSON || (req->media == DT_MEDIA_NDJSON && req->route->body == DT_BODY_STREAM);
    bool plain = !e->encoding.p || dt_str_is_caseless(e->encoding, "identity");
    if (!e->has_body || req->route->body == DT_BODY_NONE || (fine && plain))
        return true;
    dt_request_refuse(req, DT_PROBLEM_UNSUPPORTED_MEDIA_TYPE, "%s",
                      !plain                               ? "encoded bodies are not supported"
                      : req->route->body == DT_BODY_STREAM ? "a batch must be application/json or application/x-ndjson"
                                                           : "the body must be application/json");
    return false;
}

/* ---- the query ---- */

static bool is_name_in_list(const char *names, struct dt_str name)
{
    for (const char *p = names; p && *p;) {
        size_t n = strcspn(p, " ");
        if (n == name.n && memcmp(p, name.p, n) == 0)
            return true;
        p += n;
        p += *p == ' ';
    }
    return false;
}

/* Decodes the name or value of a parameter; a + is a space. */
static dt_status decode_parameter(struct dt_arena *arena, char *p, size_t n, struct dt_str *out)
{
    for (char *plus = p; (plus = memchr(plus, '+', n - (size_t)(plus - p))) != NULL;)
        *plus = ' ';
    return decode_text(arena, (struct dt_str){p, n}, out);
}

/* Splits the query into parameters. Stops at the first parameter that cannot be decoded. */
static bool check_query(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    struct dt_faults faults = {.arena = &req->arena};
    dt_status status = DT_OK;
    char *end = (char *)e->query.p + e->query.n;
    for (char *p = (char *)e->query.p, *next; p && p < end && status == DT_OK; p = next) {
        struct dt_pair pair;
        char *stop = memchr(p, '&', (size_t)(end - p));
        stop = stop ? stop : end;
        next = stop + 1;
        char *equals = memchr(p, '=', (size_t)(stop - p));
        char *value = equals ? equals + 1 : stop;
        if (stop == p)
            continue;
        status = decode_parameter(&req->arena, p, (size_t)((equals ? equals : stop) - p), &pair.name);
        DT_THEN(status, decode_parameter(&req->arena, value, (size_t)(stop - value), &pair.value));
        if (status != DT_OK)
            break;
        if (!is_name_in_list(req->route->query, pair.name))
            dt_faults_add_query(&faults, pair.name, "this request has no such parameter");
        else if (dt_request_query(req, pair.name.p).p)
            dt_faults_add_query(&faults, pair.name, "given more than once");
        else if (req->n_query < DT_REQUEST_QUERY_MAX)
            req->query[req->n_query++] = pair;
    }
    if (status != DT_OK || faults.n == 0)
        return check_decoded(e, status, "query");
    dt_request_problem(req, &(struct dt_problem){.type = DT_PROBLEM_INVALID,
                                                 .detail = DT_STR_LIT("the query is invalid"),
                                                 .faults = &faults});
    return false;
}

/* Refuses If-Match for methods that would ignore it: only PATCH compares versions. */
static bool check_if_match(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    if (!req->if_match.p || req->route->scope == DT_SCOPE_NONE || strcmp(req->route->method, "PATCH") == 0)
        return true;
    dt_request_refuse(req, DT_PROBLEM_INVALID, "If-Match is only supported with PATCH");
    return false;
}

/* ---- all together ---- */

bool dt_exchange_admit(struct dt_exchange *e, const struct dt_head *head)
{
    if (!read_head(e, head)) {
        dt_request_refuse(&e->req, DT_PROBLEM_UNAVAILABLE, "no memory for the request");
        return false;
    }
    if (!find_route(e) || !check_caller(e) || !check_host_and_origin(e) || !check_body_size(e, head->length) ||
        !check_media_type(e) || !check_query(e) || !check_if_match(e))
        return false;
    const struct dt_stream *stream = e->req.route->stream;
    if (!stream)
        return true;
    bool buffer = false;
    if (stream->begin(&e->req, &buffer) == DT_REPLY)
        return false;
    e->streams = !buffer;
    return true;
}
