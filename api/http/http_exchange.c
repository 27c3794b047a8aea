/*
 * Owns exchanges, from the head of a request to the end of its answer (http_exchange.h). Does not know what is
 * checked in a head, or how bytes are received and sent.
 *
 *   begun ── admitted ──▶ body ──▶ whole ──▶ handler ──▶ answer ──▶ ended
 *     │                    │                  │  ▲ │
 *     └─ refused ─▶ answer └─ cut ─▶ answer   │  │ └─ detached: the exchange ends, the answer follows later
 *                                             ▼  │
 *                                   suspended: another thread has it
 *
 * Invariants: a connection has an exchange from `begun` until `ended`, or until the answer is detached; the exchange of
 * a suspended request never ends.
 */
#include "http_exchange.h"

#include <sys/random.h>

#include "base/assert.h"
#include "base/http/client_address.h"
#include "base/log.h"

#define EXCHANGES 1024u /* maximal number of requests under way, for each thread */
#define SPARE     64u   /* maximal number of spare exchanges, for each thread */
#define ID_DIGITS 10
#define CLASSES   6

struct dt_route_stats {
    dt_metric *seconds;
    dt_metric *codes[CLASSES];
};

struct dt_detached {
    struct dt_evtask sent;
    dt_conn *conn;
    int status;
    const char *type;
    struct dt_strbuf body;
    struct dt_hold hold;
    char id[DT_REQUEST_ID_MAX + 1];
};

/* What this file stores with each connection. */
struct own {
    struct dt_exchange *exchange;
    struct dt_detached *detached;
};

/* ---- ids and metrics ---- */

static void register_route(struct dt_route_stats *stats, const char *method, const char *path)
{
    static const char *const classes[CLASSES] = {"none", NULL, "2xx", NULL, "4xx", "5xx"};
    char labels[160];
    snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\"", method, path);
    stats->seconds =
        dt_histogram("duetime_http_request_seconds", "Time from a request's headers to the end of its answer.", labels);
    for (int i = 0; i < CLASSES; i++) {
        if (!classes[i])
            continue;
        snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\",code=\"%s\"", method, path, classes[i]);
        stats->codes[i] = dt_counter("duetime_http_requests_total", "Requests by route and answer.", labels);
    }
}

dt_status dt_exchanges_init(struct dt_http *http, struct dt_error *err)
{
    const size_t n = dt_router_count(http->router);
    uint32_t random;
    http->stats = calloc(n + 1, sizeof(*http->stats));
    if (!http->stats || getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return dt_fail(err, http->stats ? DT_SYSTEM : DT_NOMEM, "the HTTP server cannot start");
    snprintf(http->id_prefix, sizeof(http->id_prefix), "%08x-", random);
    for (size_t i = 0; i < n; i++) {
        const struct dt_route *route = dt_router_route(http->router, i);
        register_route(&http->stats[i], route->method, route->path);
    }
    register_route(&http->stats[n], "", "none");
    return DT_OK;
}

/* Returns a request id that this process has not used before. */
static struct dt_str make_request_id(struct dt_http *http, char id[DT_REQUEST_ID_MAX + 1])
{
    static const char digits[] = "0123456789abcdef";
    const uint64_t n = atomic_fetch_add_explicit(&http->ids, 1, memory_order_relaxed);
    const size_t prefix = strlen(http->id_prefix);
    memcpy(id, http->id_prefix, prefix);
    for (unsigned i = 0; i < ID_DIGITS; i++)
        id[prefix + i] = digits[n >> 4 * (ID_DIGITS - 1 - i) & 15];
    id[prefix + ID_DIGITS] = '\0';
    return (struct dt_str){id, prefix + ID_DIGITS};
}

static void count_request(const struct dt_http *http, size_t route_index, int status)
{
    const int class = status / 100;
    dt_metric_add(http->stats[route_index].codes[class > 0 && class < CLASSES ? class : 0], 1);
}

/* ---- memory ---- */

static size_t bytes_beyond_free(size_t cap)
{
    return cap > DT_REQUEST_FREE ? cap - DT_REQUEST_FREE : 0;
}

/* Returns how many bytes the buffers of the request have beyond DT_REQUEST_FREE each. */
static size_t count_charged_bytes(const struct dt_exchange *e)
{
    return bytes_beyond_free(e->body.cap) + bytes_beyond_free(e->req.arena.size) + bytes_beyond_free(e->req.out.cap);
}

void dt_request_trim(struct dt_request *req)
{
    const size_t weight = count_charged_bytes((struct dt_exchange *)req);
    if (weight < req->hold.n)
        dt_hold_less(&req->hold, req->hold.n - weight);
}

static void free_exchange(struct dt_exchange *e)
{
    e->thread->n_exchanges--;
    dt_arena_clear(&e->req.arena);
    dt_strbuf_clear(&e->req.out);
    dt_strbuf_clear(&e->body);
    dt_strbuf_clear(&e->req.headers);
    free(e);
}

void dt_exchanges_clear(struct dt_http *http)
{
    for (size_t i = 0; i < http->n_threads; i++)
        while (http->threads[i].spare) {
            struct dt_exchange *e = http->threads[i].spare;
            http->threads[i].spare = e->next;
            free_exchange(e);
        }
    free(http->stats);
}

static void continue_request(struct dt_evtask *task);

/* Returns a new or a spare exchange. NULL: memory ran out, or the thread has EXCHANGES requests under way. */
static struct dt_exchange *acquire_exchange(struct dt_http_thread *thread, dt_conn *conn)
{
    struct dt_exchange *e = thread->spare;
    struct dt_api *api = thread->http->api;
    if (!e && (thread->n_exchanges >= EXCHANGES || !(e = calloc(1, sizeof(*e)))))
        return NULL;
    thread->n_exchanges += !thread->spare;
    thread->spare = e->next;
    memset(&e->req, 0, offsetof(struct dt_request, arena));
    memset(&e->thread, 0, offsetof(struct dt_exchange, id) - offsetof(struct dt_exchange, thread));
    dt_hold_init(&e->req.hold, api->memory);
    e->thread = thread;
    e->conn = conn;
    e->lost_us = dt_conns_loop(thread->conns)->lost_us;
    e->resumed.run = continue_request;
    e->req.api = api;
    e->req.reply_type = "application/json";
    e->req.started_us = dt_clock_mono_us(api->clock);
    e->req.deadline_us = e->req.started_us + api->config->http_request_timeout * 1000;
    e->route_index = dt_router_count(thread->http->router);
    return e;
}

/* Logs the request at DEBUG, with the client's address, so that an operator can find out which client sent it. */
static void log_request(const struct dt_exchange *e, int64_t us)
{
    char client[DT_ADDRESS_TEXT];
    const struct dt_forwarded said = {e->forwarded, e->thread->http->forwarded};
    if (!dt_log_enabled(DT_LOG_DEBUG))
        return;
    dt_client_address(&e->thread->http->proxies, dt_conn_address(e->conn), said, client);
    DT_LOG(DEBUG, "http", "request", DT_S("client", client), DT_S("id", e->id), DT_I("status", e->req.status),
           DT_I("ms", us / 1000));
}

/* Called when the request has ended or its answer is detached. The next request reuses the buffers, unless they are
 * large. */
static void release_exchange(struct dt_exchange *e)
{
    struct dt_http *http = e->thread->http;
    const int64_t us = dt_clock_mono_us(http->api->clock) - e->req.started_us;
    dt_assert(!atomic_load_explicit(&e->suspended, memory_order_relaxed));
    if (e->req.cleanup)
        e->req.cleanup(&e->req);
    log_request(e, us);
    dt_caller_clear(&e->req.caller);
    count_request(http, e->route_index, e->req.status);
    dt_metric_observe(http->stats[e->route_index].seconds, (double)us / 1e6);
    dt_hold_less(&e->req.hold, DT_HOLD_ALL);
    ((struct own *)dt_conn_own(e->conn))->exchange = NULL;
    dt_arena_reset(&e->req.arena);
    dt_strbuf_reset(&e->body);
    dt_strbuf_reset(&e->req.out);
    dt_strbuf_reset(&e->req.headers);
    if (e->thread->n_exchanges > SPARE || count_charged_bytes(e)) {
        free_exchange(e);
        return;
    }
    e->next = e->thread->spare;
    e->thread->spare = e;
}

/* ---- the answer ---- */

/* Answers with the headers and those that all answers have. caches: the headers say how caches treat the answer. */
static void answer(dt_conn *conn, struct dt_reply *reply, struct dt_strbuf *headers, const char *id, bool caches)
{
    dt_reply_add_header(headers, DT_STR_LIT("X-Request-Id"), dt_str(id));
    dt_reply_add_header(headers, DT_STR_LIT("X-Content-Type-Options"), DT_STR_LIT("nosniff"));
    if (!caches)
        dt_reply_add_header(headers, DT_STR_LIT("Cache-Control"), DT_STR_LIT("no-store"));
    reply->headers = headers->failed ? DT_STR_NONE : dt_strbuf_str(headers);
    dt_conn_answer(conn, reply);
}

/* Sends an answer that belongs to no exchange. Takes over the memory of the answer's body. */
static void answer_without_exchange(dt_conn *conn, int status, const char *type, const char *id, struct dt_strbuf *body,
                                    bool close)
{
    struct dt_strbuf headers = {0};
    struct dt_reply reply = {.status = status, .type = type, .body = body->failed ? NULL : body, .close = close};
    if (status == 503)
        dt_reply_add_header(&headers, DT_STR_LIT("Retry-After"), DT_STR_LIT("1"));
    answer(conn, &reply, &headers, id, false);
    dt_strbuf_clear(&headers);
    dt_strbuf_clear(body);
}

static void refuse_without_exchange(dt_conn *conn, enum dt_problem_type type, const char *detail)
{
    const struct dt_http_thread *thread = dt_conn_arg(conn);
    const int status = dt_problem_http_status(type);
    char id[DT_REQUEST_ID_MAX + 1];
    struct dt_strbuf body = {0};
    dt_problem_add(&body, &(struct dt_problem){.type = type, .detail = dt_str(detail)},
                   make_request_id(thread->http, id));
    count_request(thread->http, dt_router_count(thread->http->router), status);
    answer_without_exchange(conn, status, "application/problem+json", id, &body, true);
}

/* Replaces an answer for which there is no memory. If the request may have changed something, the new answer says that
 * the outcome is unknown. */
static void replace_answer_without_memory(struct dt_request *req, bool may_have_changed)
{
    const bool reads = dt_str_is(req->method, "GET") || dt_str_is(req->method, "HEAD");
    dt_strbuf_clear(&req->out);
    if (may_have_changed && !reads)
        dt_request_refuse(req, DT_PROBLEM_OUTCOME_UNKNOWN, "out of memory for the response");
    else
        dt_request_no_room(req);
}

/* Sends the answer that is filled in. From now until the client has received it, the request holds exactly the bytes of
 * its buffers. If the budget refuses even the bytes of a 503, the 503 is sent nevertheless, because no answer is
 * smaller. The exchange may end in this call. */
static void send_answer(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    if (req->status == 0)
        dt_request_refuse(req, DT_PROBLEM_INTERNAL, "the request got no response");
    else if (req->out.failed)
        replace_answer_without_memory(req, req->status < 400 || req->status >= 500);
    if (!dt_hold_exactly(&req->hold, count_charged_bytes(e)) && req->status != 503)
        replace_answer_without_memory(req, req->status < 400);
    struct dt_reply reply = {
        .status = req->status, .type = req->out.n ? req->reply_type : NULL, .body = &req->out, .close = req->close};
    answer(e->conn, &reply, &req->headers, e->id, req->caches);
}

/* ---- detached answers ---- */

dt_detached *dt_request_detach(struct dt_request *req)
{
    struct dt_exchange *e = (struct dt_exchange *)req;
    struct own *own = dt_conn_own(e->conn);
    struct dt_detached *detached = own->detached || e->gone ? NULL : calloc(1, sizeof(*detached));
    if (!detached)
        return NULL;
    detached->conn = e->conn;
    memcpy(detached->id, e->id, sizeof(detached->id));
    own->detached = detached;
    e->detached = true;
    return detached;
}

int dt_detached_fd(const dt_detached *detached)
{
    return dt_conn_fd(detached->conn);
}

static void send_detached_answer(struct dt_evtask *task)
{
    struct dt_detached *detached = (struct dt_detached *)((char *)task - offsetof(struct dt_detached, sent));
    struct dt_strbuf body = detached->body; /* copied, because answer_without_exchange may free `detached` */
    answer_without_exchange(detached->conn, detached->status, detached->type, detached->id, &body, false);
}

void dt_detached_problem(dt_detached *detached, enum dt_problem_type type, const char *detail)
{
    struct dt_strbuf body = {0};
    struct dt_hold none = {0};
    dt_problem_add(&body, &(struct dt_problem){.type = type, .detail = dt_str(detail)}, dt_str(detached->id));
    dt_detached_answer(detached, dt_problem_http_status(type), "application/problem+json", &body, &none);
}

void dt_detached_answer(dt_detached *detached, int status, const char *type, struct dt_strbuf *body,
                        struct dt_hold *hold)
{
    if ((status == 0 || body->failed) && status < 400) {
        dt_strbuf_clear(body);
        dt_hold_less(hold, DT_HOLD_ALL);
        dt_detached_problem(detached, DT_PROBLEM_OUTCOME_UNKNOWN, "out of memory during the request");
        return;
    }
    detached->status = status;
    detached->type = type;
    detached->body = *body;
    detached->hold = *hold;
    *body = (struct dt_strbuf){0};
    hold->n = 0;
    detached->sent.run = send_detached_answer;
    const struct dt_http_thread *thread = dt_conn_arg(detached->conn);
    dt_evloop_post(dt_conns_loop(thread->conns), &detached->sent);
}

/* ---- the handler ---- */

/* Returns whether the body is blank or an empty object. Some clients send such a body because they cannot send a POST
 * without one. */
static bool is_empty(struct dt_str body)
{
    static const char blanks[] = " \t\r\n";
    const char *p = body.p + strspn(body.p, blanks);
    if (*p == '{') {
        p += 1 + strspn(p + 1, blanks);
        if (*p++ != '}')
            return false;
        p += strspn(p, blanks);
    }
    return p == body.p + body.n;
}

/* Returns the maximal memory for decoding a large body and for answering with it: a decoded payload, and its text in a
 * buffer that grows by half. This memory is charged before the handler runs, so that the answer can report what the
 * handler did. */
static size_t max_decoded_bytes(struct dt_str body)
{
    return body.n > DT_REQUEST_FREE / 4 ? 3 * body.n : 0;
}

/* Extends the deadline by the time for which the process was stopped. */
static void extend_deadline_after_stop(struct dt_exchange *e)
{
    const int64_t lost_us = dt_conns_loop(e->thread->conns)->lost_us;
    e->req.deadline_us += lost_us - e->lost_us;
    e->lost_us = lost_us;
}

/* Passes the request to its handler, when the body is complete. */
static enum dt_next call_handler(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    e->handled = true;
    if (e->drops && !e->streams)
        return DT_REPLY;
    if (e->body.failed) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "no memory for the body");
        return DT_REPLY;
    }
    extend_deadline_after_stop(e);
    req->body = e->body.n ? dt_str_without_bom(dt_strbuf_str(&e->body)) : (struct dt_str){"", 0};
    if (req->route->body == DT_BODY_JSON && !dt_hold_bulk(&req->hold, max_decoded_bytes(req->body)))
        return dt_request_no_room(req);
    if (req->route->body == DT_BODY_NONE && !is_empty(req->body)) {
        dt_request_refuse(req, DT_PROBLEM_INVALID, "this request must not have a body");
        return DT_REPLY;
    }
    return req->route->handle(req);
}

/* Acts on the result of a handler or of `then`. The exchange may end in this call. */
static void apply_handler_result(struct dt_exchange *e, enum dt_next next)
{
    dt_conn *conn = e->conn;
    if (next == DT_PENDING)
        return;
    if (next == DT_AWAY)
        e->req.status = 200; /* the status of a detached answer is not known yet */
    dt_wall_check(&e->req);
    if (next == DT_REPLY) {
        send_answer(e);
        return;
    }
    release_exchange(e);
    dt_conn_listen(conn);
}

void dt_request_suspend(struct dt_request *req)
{
    atomic_store_explicit(&((struct dt_exchange *)req)->suspended, true, memory_order_relaxed);
}

void dt_request_resume(struct dt_request *req)
{
    struct dt_exchange *e = (struct dt_exchange *)req;
    atomic_store_explicit(&e->suspended, false, memory_order_relaxed);
    dt_evloop_post(dt_conns_loop(e->thread->conns), &e->resumed);
}

bool dt_request_suspended(const struct dt_request *req)
{
    return atomic_load_explicit(&((const struct dt_exchange *)req)->suspended, memory_order_relaxed);
}

/* Continues a request that another thread has resumed. */
static void continue_request(struct dt_evtask *task)
{
    struct dt_exchange *e = (struct dt_exchange *)((char *)task - offsetof(struct dt_exchange, resumed));
    enum dt_next (*then)(struct dt_request *) = e->req.then;
    if (!e->handled) {
        dt_conn_go_on(e->conn); /* the stream has room for more of the body */
        return;
    }
    e->req.then = NULL;
    apply_handler_result(e, then ? then(&e->req) : DT_REPLY);
}

/* ---- what a connection reports ---- */

static void on_head(dt_conn *conn, const struct dt_head *head)
{
    struct own *own = dt_conn_own(conn);
    struct dt_http_thread *thread = dt_conn_arg(conn);
    struct dt_exchange *e = acquire_exchange(thread, conn);
    if (!e) {
        dt_conns_press(thread->conns);
        refuse_without_exchange(conn, DT_PROBLEM_UNAVAILABLE, "too many requests at a time");
        return;
    }
    own->exchange = e;
    e->req.request_id = make_request_id(e->thread->http, e->id);
    if (!dt_exchange_admit(e, head)) {
        send_answer(e);
        return;
    }
    if (!e->streams && head->length)
        dt_strbuf_reserve(&e->body, head->length < DT_REQUEST_FREE ? head->length : DT_REQUEST_FREE - 1);
}

/* Charges what the body's buffer grows by for n more bytes. False: the budget is used up. */
static bool charge_growth(struct dt_exchange *e, size_t n)
{
    const size_t cap = e->body.cap + dt_strbuf_growth(&e->body, n);
    return dt_hold_bulk(&e->req.hold, bytes_beyond_free(cap) - bytes_beyond_free(e->body.cap));
}

static size_t on_body(dt_conn *conn, const char *p, size_t n)
{
    struct dt_exchange *e = ((struct own *)dt_conn_own(conn))->exchange;
    size_t fed = 0; /* bytes that the stream took; it may get as many as its limit allows */
    extend_deadline_after_stop(e);
    if (e->streams && !e->drops && e->received < e->limit) {
        const size_t offered = n < e->limit - e->received ? n : e->limit - e->received;
        const enum dt_feed next = e->req.route->stream->feed(&e->req, p, offered, &fed);
        if (next == DT_FEED_WAIT)
            dt_conn_wait(conn);
        else
            fed = offered;
        e->received += fed;
        e->drops = next == DT_FEED_DROP;
        if (next == DT_FEED_WAIT || fed == n)
            return fed;
    }
    if (!e->drops && e->received + n - fed > e->limit) { /* a body without a declared length */
        e->drops = true;
        e->req.truncated = e->streams;
        if (!e->streams)
            dt_request_refuse(&e->req, DT_PROBLEM_TOO_LARGE, "the body has more than %zu bytes", e->limit);
    }
    if (!e->drops && !charge_growth(e, n)) {
        e->drops = true;
        dt_strbuf_clear(&e->body);
        dt_hold_less(&e->req.hold, DT_HOLD_ALL);
        dt_request_no_room(&e->req);
    }
    e->received += n - fed;
    if (!e->drops)
        dt_strbuf_add(&e->body, p, n);
    return n;
}

static void on_request_complete(dt_conn *conn)
{
    struct dt_exchange *e = ((struct own *)dt_conn_own(conn))->exchange;
    apply_handler_result(e, call_handler(e));
}

/* Reports to the request's stream that the body broke off. */
static void report_cut_to_stream(struct dt_exchange *e, enum dt_cut why)
{
    if (e->streams && !e->handled && e->req.route->stream->cut)
        e->req.route->stream->cut(&e->req, why);
    e->handled = true;
}

static void on_refused(dt_conn *conn, int status, const char *detail)
{
    struct dt_exchange *e = ((struct own *)dt_conn_own(conn))->exchange;
    if (!e) {
        refuse_without_exchange(conn, dt_problem_for_http(status), detail);
        return;
    }
    report_cut_to_stream(e, status == 408 ? DT_CUT_LATE : status == 503 ? DT_CUT_SHUTDOWN : DT_CUT_CLIENT);
    if (e->detached) {
        e->req.status = 200;
        release_exchange(e);
        return;
    }
    if (e->req.status == 0)
        dt_request_refuse(&e->req, dt_problem_for_http(status), "%s", detail);
    e->req.close = true;
    send_answer(e);
}

static void on_request_ended(dt_conn *conn, bool sent)
{
    struct own *own = dt_conn_own(conn);
    struct dt_detached *detached = own->detached;
    if (own->exchange) {
        if (!sent) {
            own->exchange->gone = true;
            report_cut_to_stream(own->exchange, DT_CUT_CLIENT);
        }
        release_exchange(own->exchange);
    }
    if (!detached)
        return;
    own->detached = NULL;
    dt_hold_less(&detached->hold, DT_HOLD_ALL);
    free(detached);
}

static void on_tick(void *arg)
{
    const struct dt_http *http = ((struct dt_http_thread *)arg)->http;
    http->expire(http->api, dt_clock_mono_us(http->api->clock));
}

const struct dt_conn_events dt_exchange_events = {
    .own = sizeof(struct own),
    .begun = on_head,
    .body = on_body,
    .whole = on_request_complete,
    .refused = on_refused,
    .tick = on_tick,
    .ended = on_request_ended,
};
