/*
 * Owns the connections that were let in, and the way of a request through libmicrohttpd; the only file that knows that
 * library (http_receiver.c stands before it, http_detached.c asks it for phrases). Refuses to know what requests are
 * about: routes, tokens and limits decide who is let through.
 *
 * The way of a request (struct conn, one a connection, used again for the next request on it) is that of its place
 * (http_connections.h), and when a body breaks off, the request is answered by hand (408, 503, 400, or what a batch did),
 * and the connection closed.
 *
 * libmicrohttpd calls on_request for the headers, for each piece of the body, once when the body is complete and again
 * after each resume. An answer can be queued only for the headers (the connection is then closed) or when the body
 * is complete; so a refused request with a small body has its body dropped first and keeps its connection, and one with
 * a large body is answered at once, closed, and what it still sends is dropped (http_linger).
 *
 * A body that is late, or too slow while others wait, is cut off: whoever looks at places shuts the socket down for
 * reading, the library takes that for the end of its client and closes the connection, and the last call that it makes
 * for the request (on_completed, still with the socket) answers by hand through http_detached. A suspended request is
 * left alone: its wait ends by itself.
 *
 * libmicrohttpd gets heads that are whole and bodies whose framing is sound (http_receiver), so it makes no answers of
 * its own. What is neither is answered by hand, too, and so is a head that is late: its socket is shut down for
 * reading as well.
 *
 * Invariants: everything of a conn but its atomics belongs to the connection's HTTP thread, or, while it is
 * suspended, to whoever it was handed to. Suspending happens inside on_request only. The janitor thread may only shut
 * down a socket; it writes to none that is the library's. Some 112 connections a thread: with 128
 * ready ones in one epoll round the library (0.9.75 and later) forgets some. Connections come from the acceptor (acceptor.h)
 * when the head of their first request is there; `places` counts them and they are shared out evenly, so that the
 * library never refuses one.
 */
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "http/front/acceptor.h"
#include "http/front/http_listen.h"
#include "http/front/http_receiver.h"
#include "http_connections.h"
#include "http_detached.h"
#include "http_linger.h"
#include "http_server.h"
#include "request/request.h"
#include "work/deadlines.h"

#define SLOTS_PER_THREAD  112u
#define CONNECTIONS_NEVER 1000u        /* a thread that reaches its limit never gives a lock back (0.9.75) */
#define SLOTS_KEPT        8u           /* a thread, for health and for who shows a token */
#define CONNECTION_MEMORY (20u * 1024) /* wiped after each request: no larger than 8 KiB of headers need */
#define DROP_SMALL        (64u * 1024) /* bodies of refused requests up to this are read, the connection kept */
#define DROP_MAX          (32u << 20)  /* chunked bodies are dropped up to this, then the connection is cut */
#define LINGER_US         INT64_C(2000000)
#define BY_HAND_US        INT64_C(10000000) /* for the client to take an answer that was written by hand */
#define SWEEP_US          INT64_C(250000)
#define STATUS_CLASSES    6

/*
 * What the connections of one HTTP thread share. Waking a thread costs more than all else in a resume, and a commit
 * resumes many requests of the same few threads: the first one rings, by a resume through the library; those that come
 * until the thread has heard it are put on a list, and the thread resumes them itself.
 */
struct bell {
    struct bell *next; /* of all, for the end */
    pthread_mutex_t lock;
    bool rung;            /* a resume is on its way to the thread */
    bool closed;          /* the server ends: everybody resumes for himself */
    struct conn *waiting; /* resumed after it */
};

struct conn {
    struct dt_request req; /* first: a dt_request is its conn */
    struct dt_http *http;
    struct MHD_Connection *mhd;
    struct bell *bell;         /* of its thread */
    struct conn *next_waiting; /* under bell->lock */
    struct dt_connection connection;
    uint64_t begun; /* requests */
    /* Of the request under way. */
    size_t route_index;
    bool handled;     /* handle was called */
    bool streaming;   /* the body goes to the stream */
    bool dropping;    /* the body is read and dropped */
    bool drop_handle; /* … and handle is called nevertheless (DT_FEED_DROP) */
    bool detached;    /* answered past the library */
    bool chunked, expects;
    bool lingers; /* refused before its body was read */
    size_t length, received, limit;
    struct dt_str authorization, encoding;
    enum dt_problem_type malformed; /* what is wrong with the body, when that is why it was cut off */
    const char *malformed_why;
    char id[DT_REQUEST_ID_MAX + 1];
    struct dt_strbuf body;
};

struct route_stats {
    dt_metric *seconds;
    dt_metric *codes[STATUS_CLASSES];
};

/* One HTTP thread: a daemon of its own, so that nobody but us shares the connections out. */
struct server {
    struct dt_http *http;
    struct MHD_Daemon *daemon;
    _Atomic size_t slots; /* taken */
};

struct dt_http {
    struct dt_api *api;
    const struct dt_router *router;
    struct server *servers; /* as many as threads */
    size_t n_servers;       /* that run */
    int port;
    struct route_stats *stats; /* one a route, and one for what has none */
    bool *topic_first;         /* per route: its first parameter is {topic} */
    char id_prefix[17];
    _Atomic uint64_t ids;
    dt_linger *linger;
    dt_acceptor *acceptor;
    _Atomic size_t slots; /* taken: let in, and not closed */
    size_t slots_max;
    struct dt_connections connections; /* … and known to their threads */
    struct dt_thread janitor;
    pthread_mutex_t lock;
    pthread_cond_t quiet;     /* nothing under way */
    struct bell *bells;       /* under the lock */
    bool closing;             /* under the lock */
    _Atomic size_t under_way; /* requests between headers and the end of the answer */
};

static int64_t now_us(const struct dt_http *http)
{
    return dt_clock_mono_us(http->api->clock);
}

static struct conn *conn_of(struct dt_request *req)
{
    return (struct conn *)req;
}

static void enter(struct conn *c, enum dt_phase phase)
{
    dt_connection_enter(&c->http->connections, &c->connection, phase);
}

/* ---- suspending ---- */

void dt_request_suspend(struct dt_request *req)
{
    struct conn *c = conn_of(req);
    atomic_store_explicit(&c->connection.suspended, true, memory_order_relaxed);
    MHD_suspend_connection(c->mhd);
}

/* Whether somebody rang already, so that the thread will find this one by itself. */
static bool wait_for_bell(struct conn *c)
{
    struct bell *bell = c->bell;
    pthread_mutex_lock(&bell->lock);
    bool rung = bell->rung && !bell->closed;
    if (rung) {
        c->next_waiting = bell->waiting;
        bell->waiting = c;
    }
    bell->rung = true;
    pthread_mutex_unlock(&bell->lock);
    return rung;
}

/* On the HTTP thread, whenever a resumed request comes by or ends: the others that were resumed meanwhile. */
static void answer_bell(struct bell *bell)
{
    pthread_mutex_lock(&bell->lock);
    struct conn *c = bell->waiting;
    bell->waiting = NULL;
    bell->rung = false;
    pthread_mutex_unlock(&bell->lock);
    while (c) {
        struct conn *next = c->next_waiting;
        MHD_resume_connection(c->mhd);
        c = next;
    }
}

void dt_request_resume(struct dt_request *req)
{
    struct conn *c = conn_of(req);
    atomic_store_explicit(&c->connection.suspended, false, memory_order_relaxed);
    /* In the middle of a body the library need not call us after a resume, so such a one cannot ring for others. */
    if (c->handled && wait_for_bell(c))
        return;
    MHD_resume_connection(c->mhd); /* from here the request is the HTTP thread's */
}

bool dt_request_suspended(const struct dt_request *req)
{
    return atomic_load_explicit(&((const struct conn *)req)->connection.suspended, memory_order_relaxed);
}

static bool still_suspended(struct conn *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
    return info && info->suspended == MHD_YES;
}

/* ---- headers ---- */

static bool sane_id(struct dt_str id)
{
    if (id.n == 0 || id.n > DT_REQUEST_ID_MAX)
        return false;
    for (size_t i = 0; i < id.n; i++) {
        char ch = id.p[i];
        bool fine = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '.' ||
                    ch == '_' || ch == '-';
        if (!fine)
            return false;
    }
    return true;
}

static void take_id(struct conn *c, struct dt_str value)
{
    if (!sane_id(value))
        return;
    memcpy(c->id, value.p, value.n);
    c->id[value.n] = '\0';
    c->req.request_id = (struct dt_str){c->id, value.n};
}

/* One header, whose framing was judged before; the names that matter here differ in length or in their first letter. */
static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct conn *c = cls;
    size_t n = strlen(name);
    struct dt_str v = {value ? value : "", value ? strlen(value) : 0};
    switch (n) {
    case 6:
        if (dt_str_is_caseless((struct dt_str){name, n}, "expect"))
            c->expects = true;
        break;
    case 8:
        if (dt_str_is_caseless((struct dt_str){name, n}, "if-match"))
            c->req.if_match = v;
        break;
    case 12:
        if (dt_str_is_caseless((struct dt_str){name, n}, "content-type"))
            c->req.content_type = v;
        else if (dt_str_is_caseless((struct dt_str){name, n}, "x-request-id"))
            take_id(c, v);
        break;
    case 13:
        if (dt_str_is_caseless((struct dt_str){name, n}, "authorization"))
            c->authorization = v;
        break;
    case 14:
        if (dt_str_is_caseless((struct dt_str){name, n}, "content-length"))
            c->length = strtoull(v.p, NULL, 10);
        break;
    case 16:
        if (dt_str_is_caseless((struct dt_str){name, n}, "content-encoding"))
            c->encoding = v;
        break;
    case 17:
        if (dt_str_is_caseless((struct dt_str){name, n}, "transfer-encoding"))
            c->chunked = true;
        break;
    default:
        break;
    }
    return MHD_YES;
}

static struct dt_str make_id(struct dt_http *http, char id[DT_REQUEST_ID_MAX + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t n = atomic_fetch_add_explicit(&http->ids, 1, memory_order_relaxed);
    char *p = id + strlen(http->id_prefix);
    memcpy(id, http->id_prefix, strlen(http->id_prefix));
    *p++ = '-';
    for (int shift = 36; shift >= 0; shift -= 4)
        *p++ = digits[n >> shift & 15];
    *p = '\0';
    return (struct dt_str){id, (size_t)(p - id)};
}

/* ---- letting a request in, or not: each check answers with a problem and false ---- */

/* A connection that the receiver does not see would be open to all that it keeps out. */
static bool check_received(struct conn *c)
{
    if (++c->begun <= dt_receiver_heads(c->connection.receiver))
        return true;
    DT_LOG(ERROR, "http",
           "a request has come past the receiver: this program's recv is not the one that the HTTP library calls");
    dt_request_refuse(&c->req, DT_PROBLEM_INTERNAL, "the request was not looked at");
    c->req.close = true;
    return false;
}

static dt_status decode_text(struct dt_arena *arena, struct dt_str text, struct dt_str *out)
{
    char *copy = dt_arena_alloc(arena, text.n + 1);
    size_t length = 0;
    dt_status status = copy ? dt_percent_decode(text, copy, &length) : DT_NOMEM;
    if (status == DT_OK)
        *out = (struct dt_str){copy, length};
    return status;
}

/* A text that could not be decoded: the caller's mistake, or our want of memory. */
static void refuse_text(struct conn *c, dt_status status, const char *what)
{
    if (status == DT_MALFORMED)
        dt_request_refuse(&c->req, DT_PROBLEM_MALFORMED, "the %s has a bad %%-escape", what);
    else
        dt_request_refuse(&c->req, DT_PROBLEM_INTERNAL, "out of memory");
}

static bool decode_params(struct conn *c, const struct dt_match *match)
{
    dt_status status = DT_OK;
    for (int i = 0; status == DT_OK && i < DT_ROUTE_PARAMS && match->params[i].p; i++)
        status = decode_text(&c->req.arena, match->params[i], &c->req.params[i]);
    if (status != DT_OK)
        refuse_text(c, status, "path");
    return status == DT_OK;
}

static bool find_route(struct conn *c)
{
    struct dt_match match = {.params = {DT_STR_NONE}};
    dt_router_match(c->http->router, c->req.method, c->req.path, &match);
    c->req.route = match.route;
    c->route_index = match.route ? match.index : dt_router_count(c->http->router);
    if (match.route)
        return decode_params(c, &match);
    if (!match.allow[0]) {
        dt_request_refuse(&c->req, DT_PROBLEM_NOT_FOUND, "there is nothing at this path");
        return false;
    }
    dt_request_refuse(&c->req, DT_PROBLEM_METHOD_NOT_ALLOWED, "this path takes %s", match.allow);
    dt_request_header(&c->req, "Allow", dt_str(match.allow));
    return false;
}

static bool check_caller(struct conn *c)
{
    struct dt_request *req = &c->req;
    if (req->route->scope == DT_SCOPE_NONE)
        return true;
    dt_status status = dt_auth_check(c->http->api->auth, c->authorization, &req->caller);
    if (status == DT_DENIED) {
        dt_request_refuse(req, DT_PROBLEM_UNAUTHORIZED, c->authorization.p ? "the token is not known" : "no token");
        dt_request_header(req, "WWW-Authenticate", DT_STR_LIT("Bearer realm=\"duetime\""));
        return false;
    }
    if (status != DT_OK) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "the tokens are not known: MySQL could not be asked for them");
        return false;
    }
    atomic_store_explicit(&c->connection.known, true, memory_order_relaxed);
    enum dt_scope scope = req->route->scope;
    if (!dt_caller_may(&req->caller, dt_scope_named(scope))) {
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "the token lacks the scope that this request needs");
        return false;
    }
    if (!dt_caller_may(&req->caller, scope)) {
        dt_request_refuse(req, DT_PROBLEM_FORBIDDEN, "the token is for some topics, and this concerns all");
        return false;
    }
    if (c->http->topic_first[c->route_index] && !dt_caller_sees(&req->caller, req->params[0])) {
        dt_request_refuse(req, DT_PROBLEM_NOT_FOUND, "there is no such topic");
        return false;
    }
    return true;
}

static bool check_size(struct conn *c)
{
    const struct dt_config *config = c->http->api->config;
    c->limit = (size_t)(c->req.route->body == DT_BODY_STREAM ? config->limits_batch_body : config->limits_body);
    if (c->length <= c->limit)
        return true;
    dt_request_refuse(&c->req, DT_PROBLEM_TOO_LARGE, "the body has %zu bytes, at most %zu are taken here", c->length,
                      c->limit);
    return false;
}

static bool has_body(const struct conn *c)
{
    return c->chunked || c->length > 0;
}

static bool check_media(struct conn *c)
{
    struct dt_request *req = &c->req;
    req->media = dt_media_parse(req->content_type);
    bool fine = req->media == DT_MEDIA_JSON || (req->media == DT_MEDIA_NDJSON && req->route->body == DT_BODY_STREAM);
    bool plain = !c->encoding.p || dt_str_is_caseless(c->encoding, "identity");
    if (!has_body(c) || req->route->body == DT_BODY_NONE || (fine && plain))
        return true;
    dt_request_refuse(req, DT_PROBLEM_UNSUPPORTED_MEDIA_TYPE, "%s",
                      !plain                               ? "encoded bodies are not taken"
                      : req->route->body == DT_BODY_STREAM ? "a batch is application/json or application/x-ndjson"
                                                           : "the body must be application/json");
    return false;
}

/* ---- the query ---- */

struct query {
    struct conn *conn;
    struct dt_faults faults;
    dt_status status;
};

static bool listed(const char *names, struct dt_str name)
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

static enum MHD_Result take_query(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_size,
                                  const char *value, size_t value_size)
{
    (void)kind;
    struct query *q = cls;
    struct dt_request *req = &q->conn->req;
    struct dt_pair pair;
    q->status = decode_text(&req->arena, (struct dt_str){key ? key : "", key_size}, &pair.name);
    if (q->status == DT_OK)
        q->status = decode_text(&req->arena, (struct dt_str){value ? value : "", value_size}, &pair.value);
    if (q->status != DT_OK)
        return MHD_NO;
    if (!listed(req->route->query, pair.name))
        dt_faults_add_query(&q->faults, pair.name, "this request has no such parameter");
    else if (dt_request_query(req, pair.name.p).p)
        dt_faults_add_query(&q->faults, pair.name, "given more than once");
    else if (req->n_query < DT_REQUEST_QUERY_MAX)
        req->query[req->n_query++] = pair;
    return MHD_YES;
}

static bool check_query(struct conn *c)
{
    struct query q = {.conn = c};
    dt_faults_init(&q.faults, &c->req.arena);
    MHD_get_connection_values_n(c->mhd, MHD_GET_ARGUMENT_KIND, take_query, &q);
    if (q.status != DT_OK) {
        refuse_text(c, q.status, "query");
        return false;
    }
    if (q.faults.n == 0)
        return true;
    dt_request_problem(&c->req, &(struct dt_problem){.type = DT_PROBLEM_INVALID,
                                                     .detail = DT_STR_LIT("the query is not understood"),
                                                     .faults = &q.faults});
    return false;
}

/* ---- answering ---- */

static void count(struct conn *c)
{
    const struct route_stats *stats = &c->http->stats[c->route_index];
    int class = c->req.status / 100;
    dt_metric_add(stats->codes[class > 0 && class < STATUS_CLASSES ? class : 0], 1);
    dt_metric_observe(stats->seconds, (double)(now_us(c->http) - c->req.started_us) / 1e6);
}

/* What a buffer has beyond that which every connection has anyway. */
static size_t beyond_free(size_t cap)
{
    return cap > DT_REQUEST_FREE ? cap - DT_REQUEST_FREE : 0;
}

/* What the request has in its buffers, all together. */
static size_t weight_of(const struct dt_request *req, const struct dt_strbuf *body)
{
    return beyond_free(body->cap) + beyond_free(req->arena.size) + beyond_free(req->out.cap);
}

void dt_request_trim(struct dt_request *req)
{
    size_t weight = weight_of(req, &conn_of(req)->body);
    if (weight < req->hold.n)
        dt_hold_less(&req->hold, req->hold.n - weight);
}

/*
 * From here until the client has read its answer, the request holds what its buffers have, no more and no less. When
 * there is no room for that, its answer is given up.
 */
static void weigh(struct dt_request *req, const struct dt_strbuf *body)
{
    if (dt_hold_exactly(&req->hold, weight_of(req, body)))
        return;
    bool changed = req->status < 400 && !dt_str_is(req->method, "GET") && !dt_str_is(req->method, "HEAD");
    dt_strbuf_clear(&req->out);
    if (changed)
        dt_request_refuse(req, DT_PROBLEM_OUTCOME_UNKNOWN, "it was done, but there is no memory left to tell more");
    else
        dt_request_no_room(req);
}

static enum MHD_Result answer(struct conn *c)
{
    struct dt_request *req = &c->req;
    if (req->status == 0 || req->out.failed)
        dt_request_refuse(req, DT_PROBLEM_INTERNAL, "no answer was made");
    weigh(req, &c->body);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(req->out.n, req->out.n ? req->out.p : "", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    if (req->out.n)
        MHD_add_response_header(response, "Content-Type", req->reply_type);
    MHD_add_response_header(response, "X-Request-Id", c->id);
    for (unsigned i = 0; i < req->n_headers; i++)
        MHD_add_response_header(response, req->headers[i].name.p, req->headers[i].value.p);
    if (req->close || atomic_load_explicit(&c->http->connections.draining, memory_order_relaxed))
        MHD_add_response_header(response, "Connection", "close");
    enter(c, DT_PHASE_SENDING);
    enum MHD_Result result = MHD_queue_response(c->mhd, (unsigned)req->status, response);
    MHD_destroy_response(response);
    return result;
}

/*
 * Refused for its headers. A small body is read first, so that the connection can be kept; not of somebody who was
 * never let through on it: he could leave it unfinished, and keep his place with a request that is refused.
 */
static enum MHD_Result refuse_early(struct conn *c)
{
    bool small = !c->chunked && (c->length == 0 || (c->length <= DROP_SMALL && atomic_load(&c->connection.known)));
    if (small && !c->req.close && !c->expects) {
        c->dropping = true;
        return MHD_YES;
    }
    c->req.close = true;
    c->lingers = has_body(c);
    if (c->lingers)
        dt_linger_add(c->http->linger, c->connection.fd, now_us(c->http) + LINGER_US);
    return answer(c);
}

static void reset_request(struct conn *c)
{
    struct dt_request *req = &c->req;
    req->route = NULL;
    memset(req->params, 0, sizeof(req->params));
    req->n_query = req->n_headers = 0;
    req->truncated = req->close = req->changed = false;
    req->body = req->content_type = req->if_match = DT_STR_NONE;
    req->request_id = DT_STR_NONE;
    req->media = DT_MEDIA_JSON;
    req->caller = (struct dt_caller){0};
    req->status = 0;
    req->reply_type = "application/json";
    req->then = NULL;
    req->cleanup = NULL;
    req->state = NULL;
    c->handled = c->streaming = c->dropping = c->drop_handle = c->detached = false;
    atomic_store_explicit(&c->connection.cut, DT_CUT_NOT, memory_order_relaxed);
    c->chunked = c->expects = false;
    c->length = c->received = c->limit = 0;
    c->authorization = c->encoding = DT_STR_NONE;
}

/* The checks in the order in which a caller learns of them; a stream is begun here. */
static bool admit(struct conn *c)
{
    if (!check_received(c) || !find_route(c) || !check_caller(c) || !check_size(c) || !check_media(c) ||
        !check_query(c))
        return false;
    const struct dt_stream *stream = c->req.route->stream;
    if (!stream)
        return true;
    bool buffer = false;
    if (stream->begin(&c->req, &buffer) == DT_REPLY)
        return false;
    c->streaming = !buffer;
    return true;
}

static enum MHD_Result begin(struct conn *c, const char *path, const char *method)
{
    struct dt_http *http = c->http;
    struct dt_request *req = &c->req;
    reset_request(c);
    atomic_fetch_add(&http->under_way, 1);
    req->method = dt_str(method);
    req->path = dt_target_path(dt_str(path));
    req->started_us = now_us(http);
    req->deadline_us = req->started_us + http->api->config->http_request_timeout * 1000;
    c->route_index = dt_router_count(http->router);
    enter(c, DT_PHASE_READING);
    MHD_get_connection_values(c->mhd, MHD_HEADER_KIND, take_header, c);
    if (!req->request_id.p)
        req->request_id = make_id(http, c->id);
    if (!admit(c))
        return refuse_early(c);
    if (!c->streaming && c->length)
        dt_strbuf_reserve(&c->body, c->length < DT_REQUEST_FREE ? c->length : DT_REQUEST_FREE - 1);
    return MHD_YES;
}

/* ---- the body ---- */

static void drop_rest(struct conn *c)
{
    c->dropping = true;
    c->streaming = false;
}

/* A body of unannounced length went beyond its limit: a stream is told, others are refused. */
static void overflow(struct conn *c)
{
    bool streaming = c->streaming;
    drop_rest(c);
    c->req.truncated = c->drop_handle = streaming;
    if (!streaming)
        dt_request_refuse(&c->req, DT_PROBLEM_TOO_LARGE, "the body has more than %zu bytes", c->limit);
}

/* Gives the stream what it may have; *n becomes what is left. True: it waits. */
static bool feed(struct conn *c, const char *p, size_t *n)
{
    size_t room = c->limit - c->received;
    size_t offered = *n < room ? *n : room;
    size_t taken = offered;
    enum dt_feed next = c->req.route->stream->feed(&c->req, p, offered, &taken);
    if (next != DT_FEED_WAIT)
        taken = offered;
    c->received += taken;
    *n -= taken;
    if (next == DT_FEED_DROP) {
        drop_rest(c);
        c->drop_handle = true;
    }
    return next == DT_FEED_WAIT;
}

static enum MHD_Result drop(struct conn *c, size_t *n)
{
    c->received += *n;
    *n = 0;
    return c->received > c->limit + DROP_MAX ? MHD_NO : MHD_YES;
}

/* n more bytes of the body: what the buffer grows by is charged before it grows. */
static bool room_for(struct conn *c, size_t n)
{
    size_t cap = c->body.cap + dt_strbuf_growth(&c->body, n);
    return dt_request_hold(&c->req, beyond_free(cap) - beyond_free(c->body.cap));
}

/* The stream's handler is still to be called. */
static bool stream_open(const struct conn *c)
{
    return !c->handled && (c->streaming || c->drop_handle);
}

/* Whether nothing more of this body is taken: its time is up, or the server ends. */
static bool is_cut(struct conn *c, int64_t now)
{
    int64_t until_us = c->req.deadline_us + (stream_open(c) ? DT_STREAM_GRACE_US : 0);
    bool ends = atomic_load_explicit(&c->http->connections.cutting, memory_order_relaxed);
    if (now < until_us && !ends)
        return atomic_load_explicit(&c->connection.cut, memory_order_relaxed) != DT_CUT_NOT;
    atomic_store_explicit(&c->connection.cut, ends ? DT_CUT_SHUTDOWN : DT_CUT_LATE, memory_order_relaxed);
    return true;
}

static enum MHD_Result take_body(struct conn *c, const char *p, size_t *n)
{
    if (still_suspended(c))
        return MHD_YES; /* a further chunk of the same read: later */
    int64_t now = now_us(c->http);
    atomic_store_explicit(&c->connection.heard_us, now, memory_order_relaxed);
    if (is_cut(c, now))
        return MHD_NO;
    if (c->streaming && c->received < c->limit && feed(c, p, n))
        return MHD_YES;
    if (*n == 0)
        return MHD_YES;
    if (!c->dropping && c->received + *n > c->limit)
        overflow(c);
    if (!c->dropping && !room_for(c, *n)) {
        drop_rest(c);
        dt_strbuf_clear(&c->body);
        dt_hold_end(&c->req.hold);
        dt_request_no_room(&c->req);
    }
    if (c->dropping)
        return drop(c, n);
    dt_strbuf_add(&c->body, p, *n);
    c->received += *n;
    *n = 0;
    return MHD_YES;
}

static bool is_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n';
}

/* Nothing, or an empty object: clients that cannot send a POST without a body send that. */
static bool nothing_said(struct dt_str body)
{
    static const char empty[] = "{}";
    size_t k = 0;
    for (size_t i = 0; i < body.n; i++) {
        if (is_blank(body.p[i]))
            continue;
        if (k == 2 || body.p[i] != empty[k])
            return false;
        k++;
    }
    return k != 1;
}

/*
 * What decoding a large body and answering with it takes, at most: a decoded payload, and its text in a buffer that
 * grows by half. Charged before anything is done, so that what was done can be told.
 */
static size_t made_of(struct dt_str body)
{
    return body.n > DT_REQUEST_FREE / 4 ? 3 * body.n : 0;
}

/* The body is complete: the request goes to its handler. */
static enum dt_next handle(struct conn *c)
{
    struct dt_request *req = &c->req;
    c->handled = true;
    if (c->dropping && !c->drop_handle)
        return DT_REPLY;
    if (c->body.failed) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "no memory for the body");
        return DT_REPLY;
    }
    req->body = c->body.n ? dt_strbuf_str(&c->body) : (struct dt_str){"", 0};
    if (req->route->body == DT_BODY_JSON && !dt_request_hold(req, made_of(req->body)))
        return dt_request_no_room(req);
    if (req->route->body == DT_BODY_NONE && !nothing_said(req->body)) {
        dt_request_refuse(req, DT_PROBLEM_INVALID, "this request takes no body");
        return DT_REPLY;
    }
    return req->route->handle(req);
}

/* The request is back from another thread. */
static enum dt_next carry_on(struct conn *c)
{
    enum dt_next (*then)(struct dt_request *) = c->req.then;
    c->req.then = NULL;
    return then ? then(&c->req) : DT_REPLY;
}

/* The body is complete, or the request was resumed. */
static enum MHD_Result step(struct conn *c)
{
    enum dt_next next = DT_REPLY;
    if (!c->handled) {
        atomic_store_explicit(&c->connection.phase, DT_PHASE_BUSY, memory_order_release);
        next = handle(c);
    } else {
        answer_bell(c->bell);
        next = carry_on(c);
    }
    return next == DT_REPLY ? answer(c) : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **context)
{
    (void)cls;
    (void)version;
    struct conn *c = *context;
    if (c)
        return *upload_size ? take_body(c, upload, upload_size) : step(c);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    c = info ? info->socket_context : NULL;
    if (!c)
        return MHD_NO; /* memory was out when the connection came */
    *context = c;
    return begin(c, url, method);
}

/* The buffers for the next request on this connection; what grew is freed. */
static void keep_small(struct conn *c)
{
    dt_arena_reset(&c->req.arena);
    if (c->req.arena.size > DT_REQUEST_FREE)
        dt_arena_clear(&c->req.arena);
    if (c->body.cap > DT_REQUEST_FREE)
        dt_strbuf_clear(&c->body);
    if (c->req.out.cap > DT_REQUEST_FREE)
        dt_strbuf_clear(&c->req.out);
    dt_strbuf_reset(&c->body);
    dt_strbuf_reset(&c->req.out);
}

/* ---- answers past the library ---- */

static void under_way_less(struct dt_http *http)
{
    if (atomic_fetch_sub(&http->under_way, 1) != 1 || !atomic_load(&http->connections.draining))
        return;
    pthread_mutex_lock(&http->lock);
    pthread_cond_broadcast(&http->quiet);
    pthread_mutex_unlock(&http->lock);
}

static void detached_ended(void *arg)
{
    under_way_less(arg);
}

dt_detached *dt_request_detach(struct dt_request *req)
{
    struct conn *c = conn_of(req);
    struct dt_http *http = c->http;
    int fd = c->detached ? -1 : dup(c->connection.fd); /* the library closes its own */
    dt_detached *detached = fd < 0 ? NULL : dt_detached_new(http->linger, http->api->clock, fd, c->id, BY_HAND_US);
    if (!detached)
        return NULL;
    dt_detached_when_ended(detached, detached_ended, http);
    atomic_fetch_add(&http->under_way, 1);
    c->detached = true;
    return detached;
}

static void refuse_body(struct conn *c, int why)
{
    if (why == DT_CUT_SLOW)
        dt_request_refuse(&c->req, DT_PROBLEM_TIMEOUT,
                          "the body came too slowly while others waited; nothing was done");
    else if (why == DT_CUT_LATE)
        dt_request_refuse(&c->req, DT_PROBLEM_TIMEOUT, "the body did not come in the request's time; nothing was done");
    else if (why == DT_CUT_MALFORMED)
        dt_request_refuse(&c->req, c->malformed, "%s", c->malformed_why);
    else
        dt_request_refuse(&c->req, DT_PROBLEM_UNAVAILABLE, "the server is shutting down");
}

/* What was decided before the body broke off, or why it did. */
static void detach_with_answer(struct conn *c, int why)
{
    struct dt_request *req = &c->req;
    if (req->status == 0)
        refuse_body(c, why);
    dt_detached *detached = dt_request_detach(req);
    if (detached)
        dt_detached_answer(detached, req->status, req->reply_type, &req->out, &req->hold);
}

/* The request ends, and neither was its body complete nor was it answered. */
static void break_off(struct conn *c)
{
    int why = atomic_load_explicit(&c->connection.cut, memory_order_relaxed);
    if (stream_open(c) && c->req.route->stream->cut)
        c->req.route->stream->cut(&c->req, why == DT_CUT_NOT ? DT_CUT_CLIENT : (enum dt_cut)why);
    if (!c->detached && why != DT_CUT_NOT)
        detach_with_answer(c, why);
    else if (c->detached && c->req.status == 0)
        c->req.status = 200;
}

/* The answer was sent, or the connection broke. */
static void on_completed(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode termination)
{
    (void)mhd;
    struct dt_http *http = cls;
    struct conn *c = *context;
    if (!c)
        return;
    *context = NULL;
    answer_bell(c->bell); /* a request that was resumed may end here, its client gone, without coming by */
    if (atomic_load(&c->connection.phase) == DT_PHASE_READING && termination != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        break_off(c);
    if (c->req.cleanup)
        c->req.cleanup(&c->req);
    c->req.cleanup = NULL;
    dt_caller_clear(&c->req.caller);
    count(c);
    keep_small(c);
    dt_hold_end(&c->req.hold);
    enter(c, DT_PHASE_IDLE);
    under_way_less(http);
}

/* No request is under way: what came is none, or there is no place for it. The socket is taken over. */
static void refuse_connection(void *arg, int fd, enum dt_problem_type type, const char *detail)
{
    struct dt_http *http = arg;
    char id[DT_REQUEST_ID_MAX + 1];
    make_id(http, id);
    dt_metric_add(http->stats[dt_router_count(http->router)].codes[dt_problem_http_status(type) / 100], 1);
    dt_detached_problem(dt_detached_new(http->linger, http->api->clock, fd, id, LINGER_US), type, detail);
}

/* From the receiver, on the HTTP thread. A body that is malformed ends its request, which then parts with its answer.
 */
static void refuse_received(void *arg, enum dt_problem_type type, const char *detail)
{
    struct conn *c = arg;
    if (atomic_load(&c->connection.phase) == DT_PHASE_READING) {
        c->malformed = type;
        c->malformed_why = detail;
        atomic_store(&c->connection.cut, DT_CUT_MALFORMED);
        return;
    }
    int fd = atomic_load(&c->connection.phase) == DT_PHASE_IDLE ? dup(c->connection.fd) : -1;
    if (fd >= 0)
        refuse_connection(c->http, fd, type, detail);
}

/* ---- connections ---- */

/* The bell of the thread that calls; made at its first connection. */
static struct bell *bell_of_thread(struct dt_http *http)
{
    static _Thread_local struct bell *mine;
    static _Thread_local const struct dt_http *mine_of;
    if (mine_of == http)
        return mine;
    struct bell *bell = calloc(1, sizeof(*bell));
    if (!bell)
        return NULL;
    pthread_mutex_init(&bell->lock, NULL);
    pthread_mutex_lock(&http->lock);
    bell->closed = http->closing;
    bell->next = http->bells;
    http->bells = bell;
    pthread_mutex_unlock(&http->lock);
    mine = bell;
    mine_of = http;
    return bell;
}

static void conn_open(struct dt_http *http, struct MHD_Connection *mhd, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct bell *bell = bell_of_thread(http);
    struct conn *c = bell && info ? calloc(1, sizeof(*c)) : NULL;
    dt_receiver *receiver = c ? dt_receiver_new(info->connect_fd, http->api->clock, refuse_received, c) : NULL;
    if (!receiver) {
        free(c);
        return; /* the first request on it will be the last */
    }
    *context = c;
    c->connection.receiver = receiver;
    c->http = http;
    c->bell = bell;
    c->mhd = mhd;
    c->connection.fd = info->connect_fd;
    c->req.api = http->api;
    dt_hold_init(&c->req.hold, http->api->memory);
    dt_arena_init(&c->req.arena);
    dt_strbuf_init(&c->req.out);
    dt_strbuf_init(&c->body);
    enter(c, DT_PHASE_IDLE);
    if (dt_connections_add(&http->connections, &c->connection))
        dt_linger_wake(http->linger);
}

static void conn_close(struct dt_http *http, void **context)
{
    struct conn *c = *context;
    *context = NULL;
    if (!c)
        return;
    dt_connections_remove(&http->connections, &c->connection);
    dt_receiver_free(c->connection.receiver);
    if (c->lingers)
        shutdown(c->connection.fd,
                 SHUT_WR); /* the duplicate keeps the socket open, but the client shall see the end of the answer */
    dt_arena_clear(&c->req.arena);
    dt_strbuf_clear(&c->req.out);
    dt_strbuf_clear(&c->body);
    free(c);
}

static void release_slot(struct server *server)
{
    atomic_fetch_sub(&server->slots, 1);
    atomic_fetch_sub(&server->http->slots, 1);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct server *server = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        conn_open(server->http, mhd, context);
        return;
    }
    conn_close(server->http, context);
    release_slot(server);
    dt_acceptor_slot_freed(server->http->acceptor);
}

/* ---- the door: from the acceptor, on its thread ---- */

static bool has_slot(void *arg, bool first)
{
    struct dt_http *http = arg;
    size_t kept = first ? 0 : (size_t)http->api->config->http_threads * SLOTS_KEPT;
    return atomic_load(&http->slots) < http->slots_max - kept;
}

static struct server *emptiest_server(const struct dt_http *http)
{
    struct server *found = &http->servers[0];
    for (size_t i = 1; i < http->n_servers; i++)
        if (atomic_load(&http->servers[i].slots) < atomic_load(&found->slots))
            found = &http->servers[i];
    return found;
}

static void hand_over(void *arg, int fd, const struct sockaddr *address, socklen_t n)
{
    struct dt_http *http = arg;
    struct server *server = emptiest_server(http);
    atomic_fetch_add(&http->slots, 1);
    atomic_fetch_add(&server->slots, 1);
    if (MHD_add_connection(server->daemon, fd, address, n) != MHD_YES)
        release_slot(server); /* the library has closed it */
}

static void evict(void *arg, size_t n, bool pressing)
{
    struct dt_http *http = arg;
    dt_connections_evict(&http->connections, n, pressing);
}

/* ---- the janitor ---- */

static void clean(void *arg)
{
    struct dt_http *http = arg;
    int64_t swept_us = 0;
    bool any = false;
    while (!dt_thread_stopping(&http->janitor)) {
        dt_linger_wait(http->linger, now_us(http), any ? SWEEP_US / 1000 : -1);
        if (now_us(http) - swept_us < SWEEP_US) {
            any = true; /* perhaps it was woken for the first connection since the last sweep: look again soon */
            continue;
        }
        swept_us = now_us(http);
        any = dt_connections_sweep(&http->connections);
        dt_deadlines_expire(http->api, swept_us);
    }
}

/* ---- beginning and end ---- */

static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return strlen(text); /* paths are split before they are decoded */
}

static void log_line(void *cls, const char *fmt, va_list args) DT_PRINTF(2, 0);
static void log_line(void *cls, const char *fmt, va_list args)
{
    (void)cls;
    char text[300];
    vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\n")] = '\0';
    DT_LOG(DEBUG, "http", text);
}

static void register_route(struct route_stats *stats, const char *method, const char *path)
{
    static const char *const classes[STATUS_CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    char labels[160];
    snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\"", method, path);
    stats->seconds =
        dt_histogram("duetime_http_request_seconds", "From a request's headers to the end of its answer.", labels);
    for (int i = 0; i < STATUS_CLASSES; i++) {
        snprintf(labels, sizeof(labels), "method=\"%s\",route=\"%s\",code=\"%s\"", method, path, classes[i]);
        stats->codes[i] = i == 1 || i == 3
                              ? NULL
                              : dt_counter("duetime_http_requests_total", "Requests by route and answer.", labels);
    }
}

static dt_status prepare_routes(struct dt_http *http)
{
    size_t n = dt_router_count(http->router);
    http->stats = calloc(n + 1, sizeof(*http->stats));
    http->topic_first = calloc(n + 1, sizeof(*http->topic_first));
    if (!http->stats || !http->topic_first)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_route *route = dt_router_route(http->router, i);
        const char *brace = strchr(route->path, '{');
        http->topic_first[i] = brace && strncmp(brace, "{topic}", 7) == 0;
        register_route(&http->stats[i], route->method, route->path);
    }
    register_route(&http->stats[n], "", "none");
    return DT_OK;
}

static dt_status prepare_ids(struct dt_http *http)
{
    uint32_t random;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return DT_SYSTEM;
    snprintf(http->id_prefix, sizeof(http->id_prefix), "%08x", random);
    return DT_OK;
}

static bool start_server(struct dt_http *http, struct server *server)
{
    unsigned idle_s = (unsigned)((http->api->config->http_idle_timeout + 999) / 1000);
    server->http = http;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_ITC | MHD_USE_TURBO |
            MHD_USE_NO_LISTEN_SOCKET,
        0, NULL, NULL, on_request, http, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, NULL, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_NEVER, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, idle_s, MHD_OPTION_END);
    return server->daemon != NULL;
}

static dt_status start_servers(struct dt_http *http, struct dt_error *err)
{
    size_t threads = (size_t)http->api->config->http_threads;
    http->slots_max = threads * SLOTS_PER_THREAD;
    http->servers = calloc(threads, sizeof(*http->servers));
    while (http->servers && http->n_servers < threads && start_server(http, &http->servers[http->n_servers]))
        http->n_servers++;
    return http->n_servers == threads ? DT_OK : dt_fail(err, DT_SYSTEM, "the HTTP server cannot start");
}

/* Every connection needs one, and most shells give out fewer than may come. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        DT_LOG(WARN, "http", "the number of descriptors stays low");
}

static dt_status open_acceptor(struct dt_http *http, struct dt_error *err)
{
    const struct dt_acceptor_server behind = {http, has_slot, hand_over, evict, refuse_connection};
    int fd = -1;
    dt_status status = dt_http_listen(http->api->config, &fd, &http->port, err);
    raise_descriptors();
    return status == DT_OK ? dt_acceptor_start(http->api->config, http->api->clock, fd, &behind, &http->acceptor, err)
                           : status;
}

static void http_free(struct dt_http *http)
{
    while (http->bells) {
        struct bell *bell = http->bells;
        http->bells = bell->next;
        pthread_mutex_destroy(&bell->lock);
        free(bell);
    }
    dt_acceptor_free(http->acceptor);
    dt_linger_free(http->linger);
    dt_connections_clear(&http->connections);
    pthread_mutex_destroy(&http->lock);
    pthread_cond_destroy(&http->quiet);
    free(http->servers);
    free(http->stats);
    free(http->topic_first);
    free(http);
}

dt_status dt_http_start(struct dt_api *api, const struct dt_router *router, dt_http **out, struct dt_error *err)
{
    *out = NULL;
    struct dt_http *http = calloc(1, sizeof(*http));
    if (!http)
        return dt_fail(err, DT_NOMEM, "no memory for the HTTP server");
    http->api = api;
    http->router = router;
    dt_connections_init(&http->connections, api->config, api->clock);
    pthread_mutex_init(&http->lock, NULL);
    pthread_cond_init(&http->quiet, NULL);
    dt_status status = dt_linger_new(&http->linger);
    if (status == DT_OK)
        status = prepare_ids(http);
    if (status == DT_OK)
        status = prepare_routes(http);
    if (status == DT_OK)
        status = dt_thread_start(&http->janitor, "janitor", clean, http, NULL);
    if (status == DT_OK)
        status = start_servers(http, err);
    else
        (void)dt_fail(err, status, "the HTTP server cannot start");
    if (status == DT_OK)
        status = open_acceptor(http, err);
    if (status != DT_OK) {
        dt_http_stop(http);
        return status;
    }
    *out = http;
    return DT_OK;
}

int dt_http_port(const dt_http *http)
{
    return http->port;
}

static void wait_until_quiet(struct dt_http *http, int64_t until_us)
{
    pthread_mutex_lock(&http->lock);
    while (atomic_load(&http->under_way) > 0)
        if (!dt_clock_wait(&http->quiet, &http->lock, until_us))
            break;
    pthread_mutex_unlock(&http->lock);
}

void dt_http_drain(dt_http *http, int64_t until_us)
{
    atomic_store(&http->connections.draining, true);
    dt_acceptor_close(http->acceptor);
    wait_until_quiet(http, until_us);
}

void dt_http_cut(dt_http *http, int64_t until_us)
{
    atomic_store(&http->connections.cutting, true);
    wait_until_quiet(http, until_us);
}

/* libmicrohttpd ends the process when it is stopped while something is suspended: nobody may wait for a bell then. */
static void close_bells(struct dt_http *http)
{
    pthread_mutex_lock(&http->lock);
    http->closing = true;
    struct bell *bells = http->bells;
    pthread_mutex_unlock(&http->lock);
    for (struct bell *bell = bells; bell; bell = bell->next) {
        pthread_mutex_lock(&bell->lock);
        bell->closed = true;
        pthread_mutex_unlock(&bell->lock);
        answer_bell(bell);
    }
}

/* Answers that were written by hand, to those who read them. */
static void send_the_rest(struct dt_http *http)
{
    struct timespec pause = {0, 10 * 1000000};
    int64_t until_us = now_us(http) + LINGER_US;
    while (http->janitor.started && dt_linger_unsent(http->linger) > 0 && now_us(http) < until_us)
        nanosleep(&pause, NULL);
}

void dt_http_stop(dt_http *http)
{
    if (!http)
        return;
    dt_acceptor_close(http->acceptor);
    close_bells(http);
    for (size_t i = 0; i < http->n_servers; i++)
        MHD_stop_daemon(http->servers[i].daemon);
    send_the_rest(http);
    dt_thread_ask_stop(&http->janitor, NULL);
    if (http->janitor.started)
        dt_linger_wake(http->linger);
    dt_thread_join(&http->janitor);
    http_free(http);
}
