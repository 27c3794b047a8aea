/*
 * Owns the phases of an exchange: it is idle, reads, is busy with its handler, sends, and is idle again
 * (http_connections.h draws them). Also its memory, and how its request is suspended and resumed. Refuses to know what
 * is checked, how a body is read and how an answer is sent.
 *
 * Invariant: a request is suspended inside a call of the library only.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api.h"
#include "base/http/client_address.h"
#include "base/http/head.h"
#include "base/log.h"
#include "http_exchange.h"
#include "http_mhd.h"
#include "http_receiver.h"
#include "request/auth.h"
#include "request/request.h"

static void enter(struct dt_exchange *e, enum dt_phase phase)
{
    dt_connection_enter(&e->http->connections, &e->connection, phase);
}

/* ---- suspending ---- */

void dt_request_suspend(struct dt_request *req)
{
    struct dt_exchange *e = dt_exchange_of(req);
    atomic_store_explicit(&e->connection.suspended, true, memory_order_relaxed);
    dt_mhd_suspend(e->mhd);
}

void dt_request_resume(struct dt_request *req)
{
    struct dt_exchange *e = dt_exchange_of(req);
    atomic_store_explicit(&e->connection.suspended, false, memory_order_relaxed);
    dt_wakeup_resume(&e->wakeup, e->handled);
}

bool dt_request_suspended(const struct dt_request *req)
{
    return atomic_load_explicit(&((const struct dt_exchange *)req)->connection.suspended, memory_order_relaxed);
}

/* ---- its begin ---- */

static void reset_request(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    req->route = NULL;
    memset(req->params, 0, sizeof(req->params));
    req->n_query = req->n_headers = 0;
    req->truncated = req->close = req->changed = req->reads_much = req->walled = req->foreign = false;
    req->body = req->content_type = req->if_match = DT_STR_NONE;
    req->if_none_match = req->accept_encoding = DT_STR_NONE;
    req->request_id = DT_STR_NONE;
    req->media = DT_MEDIA_JSON;
    req->caller = (struct dt_caller){0};
    req->status = 0;
    req->reply_type = "application/json";
    req->then = NULL;
    req->cleanup = NULL;
    req->state = NULL;
    e->handled = e->streaming = e->dropping = e->drop_handle = e->detached = false;
    atomic_store_explicit(&e->connection.cut, DT_CUT_NOT, memory_order_relaxed);
    e->chunked = e->expects = e->cross_site = false;
    e->length = e->received = e->limit = 0;
    e->authorization = e->encoding = e->forwarded = e->host = e->origin = DT_STR_NONE;
}

bool dt_exchange_begun(struct dt_exchange *e, const char *path, const char *method)
{
    struct dt_http_shared *http = e->http;
    struct dt_request *req = &e->req;
    reset_request(e);
    dt_http_begin(http);
    req->method = dt_str(method);
    req->path = dt_target_path(dt_str(path));
    const char *scheme = path[0] == '/' ? NULL : strstr(path, "://");
    if (scheme) /* the target's own host comes before the header (RFC 9112, 3.2.2) */
        e->host = (struct dt_str){scheme + 3, strcspn(scheme + 3, "/")};
    req->started_us = dt_http_now_us(http);
    req->deadline_us = req->started_us + http->api->config->http_request_timeout * 1000;
    e->route_index = dt_router_count(http->router);
    enter(e, DT_PHASE_READING);
    dt_exchange_read_headers(e);
    if (!dt_exchange_admit(e))
        return dt_exchange_answer_early(e);
    if (!e->streaming && e->length)
        dt_strbuf_reserve(&e->body, e->length < DT_REQUEST_FREE ? e->length : DT_REQUEST_FREE - 1);
    return true;
}

bool dt_exchange_is_late(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    if (dt_http_now_us(e->http) < req->deadline_us)
        return false;
    dt_connections_forgive(&e->http->connections);
    req->deadline_us = atomic_load(&e->connection.since_us) + e->http->api->config->http_request_timeout * 1000;
    return dt_http_now_us(e->http) >= req->deadline_us;
}

/* ---- the body is complete ---- */

static bool is_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n';
}

/* Says whether the body is nothing, or an empty object, which clients send that cannot send a POST without a body. */
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
 * The room that decoding a large body and answering with it takes at most: a decoded payload, and its text in a buffer
 * that grows by half. Charged before anything is done, so that what was done can be told.
 */
static size_t made_of(struct dt_str body)
{
    return body.n > DT_REQUEST_FREE / 4 ? 3 * body.n : 0;
}

/* The body is complete: the request goes to its handler. */
static enum dt_next handle(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    e->handled = true;
    if (e->dropping && !e->drop_handle)
        return DT_REPLY;
    if (e->body.failed) {
        dt_request_refuse(req, DT_PROBLEM_UNAVAILABLE, "no memory for the body");
        return DT_REPLY;
    }
    if (dt_exchange_is_late(e) && !e->streaming && !e->drop_handle) {
        dt_request_refuse(req, DT_PROBLEM_TIMEOUT, "the body did not come in the request's time; nothing was done");
        return DT_REPLY;
    }
    req->body = e->body.n ? dt_str_without_bom(dt_strbuf_str(&e->body)) : (struct dt_str){"", 0};
    if (req->route->body == DT_BODY_JSON && !dt_hold_bulk(&req->hold, made_of(req->body)))
        return dt_request_no_room(req);
    if (req->route->body == DT_BODY_NONE && !nothing_said(req->body)) {
        dt_request_refuse(req, DT_PROBLEM_INVALID, "this request takes no body");
        return DT_REPLY;
    }
    return req->route->handle(req);
}

/* The request is back from another thread. */
static enum dt_next carry_on(struct dt_exchange *e)
{
    enum dt_next (*then)(struct dt_request *) = e->req.then;
    e->req.then = NULL;
    return then ? then(&e->req) : DT_REPLY;
}

bool dt_exchange_ready(struct dt_exchange *e)
{
    enum dt_next next = DT_REPLY;
    if (!e->handled) {
        atomic_store_explicit(&e->connection.phase, DT_PHASE_BUSY, memory_order_release);
        next = handle(e);
    } else {
        dt_wakeup_noticed(e->wakeup.wakeup);
        next = carry_on(e);
    }
    if (next == DT_AWAY) {
        e->req.status = 200; /* as far as can be told here */
        dt_wall_check(&e->req);
        return false;
    }
    if (next != DT_REPLY)
        return true;
    dt_wall_check(&e->req);
    return dt_exchange_answer(e);
}

/* ---- its end ---- */

/* The buffers for the next request on this connection; what grew is freed. */
static void keep_small(struct dt_exchange *e)
{
    dt_arena_reset(&e->req.arena);
    if (e->req.arena.size > DT_REQUEST_FREE)
        dt_arena_clear(&e->req.arena);
    if (e->body.cap > DT_REQUEST_FREE)
        dt_strbuf_clear(&e->body);
    if (e->req.out.cap > DT_REQUEST_FREE)
        dt_strbuf_clear(&e->req.out);
    dt_strbuf_reset(&e->body);
    dt_strbuf_reset(&e->req.out);
}

/* Who has asked what, for whoever looks for a caller. */
static void log_request(const struct dt_exchange *e)
{
    char client[DT_ADDRESS_TEXT];
    const struct dt_forwarded said = {e->forwarded, e->http->forwarded};
    if (!dt_log_enabled(DT_LOG_DEBUG))
        return;
    dt_client_address(&e->http->proxies, dt_mhd_peer(e->mhd), said, client);
    DT_LOG(DEBUG, "http", "request", DT_S("client", client), DT_S("id", e->id), DT_I("status", e->req.status),
           DT_I("ms", (dt_http_now_us(e->http) - e->req.started_us) / 1000));
}

void dt_exchange_ended(struct dt_exchange *e, bool sent)
{
    struct dt_http_shared *http = e->http;
    dt_wakeup_noticed(
        e->wakeup.wakeup); /* a resumed request may end here, its client gone, without being ready again */
    if (atomic_load(&e->connection.phase) == DT_PHASE_READING && !sent)
        dt_exchange_break_off(e);
    if (e->req.cleanup)
        e->req.cleanup(&e->req);
    e->req.cleanup = NULL;
    log_request(e);
    dt_caller_clear(&e->req.caller);
    dt_http_count(http, e->route_index, e->req.status, (double)(dt_http_now_us(http) - e->req.started_us) / 1e6);
    keep_small(e);
    dt_hold_less(&e->req.hold, DT_HOLD_ALL);
    enter(e, DT_PHASE_IDLE);
    dt_http_end(http);
}

/* ---- connections ---- */

/*
 * The receiver found something malformed, or a head late. A malformed body is cut off here and answered when its
 * request ends. Where no request is under way the refusal is sent at once.
 */
static void refuse_received(void *arg, enum dt_problem_type type, const char *detail)
{
    struct dt_exchange *e = arg;
    if (atomic_load(&e->connection.phase) == DT_PHASE_READING) {
        e->malformed = type;
        e->malformed_why = detail;
        atomic_store(&e->connection.cut, DT_CUT_MALFORMED);
        return;
    }
    int fd = atomic_load(&e->connection.phase) == DT_PHASE_IDLE ? dup(e->connection.fd) : -1;
    if (fd >= 0)
        dt_http_refuse(e->http, fd, type, detail);
}

struct dt_exchange *dt_exchange_new(struct dt_http_shared *http, struct MHD_Connection *mhd, int fd)
{
    struct dt_wakeup *wakeup = dt_wakeup_of_thread(&http->wakeups);
    struct dt_exchange *e = wakeup ? calloc(1, sizeof(*e)) : NULL;
    dt_receiver *receiver = e ? dt_receiver_new(fd, http->api->clock, refuse_received, e) : NULL;
    if (!receiver) {
        free(e);
        return NULL;
    }
    e->http = http;
    e->mhd = mhd;
    e->wakeup = (struct dt_wakeup_entry){.mhd = mhd, .wakeup = wakeup};
    e->connection.fd = fd;
    e->connection.receiver = receiver;
    e->req.api = http->api;
    dt_hold_init(&e->req.hold, http->api->memory);
    dt_arena_init(&e->req.arena);
    dt_strbuf_init(&e->req.out);
    dt_strbuf_init(&e->body);
    enter(e, DT_PHASE_IDLE);
    if (dt_connections_add(&http->connections, &e->connection))
        dt_linger_wake(http->linger); /* the janitor sleeps while there are no connections */
    return e;
}

void dt_exchange_free(struct dt_exchange *e)
{
    if (!e)
        return;
    dt_connections_remove(&e->http->connections, &e->connection);
    dt_receiver_free(e->connection.receiver);
    /* The linger's duplicate keeps the socket open, but the client shall see the end of the answer. */
    if (e->lingers)
        shutdown(e->connection.fd, SHUT_WR);
    dt_arena_clear(&e->req.arena);
    dt_strbuf_clear(&e->req.out);
    dt_strbuf_clear(&e->body);
    free(e);
}
