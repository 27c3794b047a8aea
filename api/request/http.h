/*
 * The HTTP server, and what a request is. http_mhd.c is the only file that knows how libmicrohttpd works.
 *
 * A request belongs to exactly one thread at a time, so nothing in it is locked:
 *
 *   HTTP thread   The head is checked (framing, route, token, scope, topic prefix, limits, content type, names in the
 *                 query), then the body is read, then route->handle(req) is called. It answers
 *     DT_REPLY    when the answer is filled in: it is sent.
 *     DT_PENDING  when it has called dt_request_suspend and handed the request to a committer or a worker thread. The
 *                 request is that thread's until it calls dt_request_resume. The HTTP thread then calls req->then(req)
 *                 if it is set (which may answer DT_PENDING again), else it sends the answer.
 *
 * A handler, a stream's feed and `then` run on an HTTP thread that serves up to 120 connections: they never block, and
 * never talk to MySQL or Redis. What needs the store goes to dt_workers_submit, new jobs go to dt_committer_submit,
 * results to dt_results_batcher_submit. Every path resumes in the end: each wait behind a suspended request ends with the
 * request's deadline at the latest (deadlines.h), but for the few seconds that MySQL has to answer what was begun.
 *
 * Everything that belongs to the request (arena, body, query, out) lives until the answer was sent. It is then reused
 * for the next request of the same connection.
 *
 * Refused before a handler runs: 400 (framing, bad escapes), 401, 403, 404, 405 with Allow, 408, 413, 414, 415, 431,
 * 505, 422 (an unknown query parameter, a body where none is taken), 503 (tokens are unknown because MySQL was never
 * reached, or the process is shutting down). Never 411: chunked bodies are fine.
 */
#ifndef DT_API_HTTP_H
#define DT_API_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/auth.h"
#include "base/strbuf.h"
#include "problem.h"
#include "router.h"
#include "work/budget.h"

struct dt_api;

#define DT_REQUEST_QUERY_MAX  32
#define DT_REQUEST_HEADER_MAX 8
#define DT_REQUEST_ID_MAX     128
/* Bytes of each of body, answer and arena that a connection has outside of the budget, and keeps between requests. */
#define DT_REQUEST_FREE ((size_t)32 * 1024)

struct dt_pair {
    struct dt_str name, value;
};

struct dt_request {
    struct dt_api *api;

    /* In. Slices are terminated. */
    const struct dt_route *route;
    struct dt_str method, path;                 /* path as it was sent, without the query */
    struct dt_str params[DT_ROUTE_PARAMS];      /* path parameters in order, percent-decoded; may hold NUL for %00 */
    struct dt_pair query[DT_REQUEST_QUERY_MAX]; /* decoded; names are among route->query, each at most once */
    unsigned n_query;
    bool truncated;             /* a stream went beyond limits.batch_body: what lies past it was dropped */
    struct dt_str body;         /* whole; absent for streams */
    struct dt_str content_type; /* as sent; absent when missing */
    enum dt_media media;        /* what content_type says; DT_MEDIA_JSON when missing */
    struct dt_str if_match;     /* absent when missing */
    struct dt_str request_id;
    struct dt_caller caller;         /* scopes and topics of the token */
    int64_t started_us, deadline_us; /* monotonic */

    /* Out. */
    int status;                                    /* 0 = not answered yet */
    const char *reply_type;                        /* Content-Type, static text; default application/json */
    struct dt_strbuf out;                          /* the answer's body */
    struct dt_pair headers[DT_REQUEST_HEADER_MAX]; /* use dt_request_header */
    unsigned n_headers;
    bool close;   /* close the connection after the answer */
    bool changed; /* something was done for it already: a refusal from here on says that its outcome is unknown */

    /* The handler's own. */
    enum dt_next (*then)(struct dt_request *req); /* on the HTTP thread after a resume; NULL = send the answer */
    void (*cleanup)(
        struct dt_request *req); /* after the answer was sent or the client left; NULL = none. Not while suspended. */
    void *state;
    struct dt_arena arena; /* reset when the answer was sent */
    struct dt_hold hold;   /* of the budget; ended with the request */
};

/* The value of a query parameter; absent (.p NULL) when not given. */
struct dt_str dt_request_query(const struct dt_request *req, const char *name);
/* Adds a response header; the value is copied into the arena. X-Request-Id and Content-Type come by themselves. */
void dt_request_header(struct dt_request *req, const char *name, struct dt_str value);

/*
 * The budget of all requests (budget.h), for the thread that owns the request. hold: n bytes more, before they are
 * there; false: nothing was charged, answer 503 unavailable if nothing was changed yet. All that a request holds is
 * given back when it ends, however it ends; let_go gives n of it back earlier. What is in body, out and arena when the
 * answer is sent is weighed by the server itself, and only what goes beyond that which is held is charged then.
 */
DT_MUST_CHECK bool dt_request_hold(struct dt_request *req, size_t n);
void dt_request_let_go(struct dt_request *req, size_t n);
/* The answer is made: gives back what was held for making it, all but what the request's buffers have. */
void dt_request_trim(struct dt_request *req);
/* 503 for a request that was refused by the budget. Always DT_REPLY. */
enum dt_next dt_request_no_room(struct dt_request *req);

/*
 * Fills in a problem: status, type, body with the request's id, Retry-After where due. What was in out is replaced. The
 * second form makes one with a detail only.
 */
void dt_request_problem(struct dt_request *req, const struct dt_problem *problem);
void dt_request_refuse(struct dt_request *req, enum dt_problem_type type, const char *fmt, ...) DT_PRINTF(3, 4);

/*
 * On the HTTP thread, inside handle, feed or then, before the request is handed to another thread. Then return
 * DT_PENDING (or DT_FEED_WAIT) and touch the request no more.
 */
void dt_request_suspend(struct dt_request *req);
/* Any thread, exactly once a suspend; may come before the suspending handler has returned. */
void dt_request_resume(struct dt_request *req);
/* Whether it is suspended; only for the thread that owns the request. */
bool dt_request_suspended(const struct dt_request *req);

/*
 * A route whose body is taken as it arrives (NDJSON batches; see router.h DT_BODY_STREAM). All on the HTTP thread.
 * begin: after the headers were found fine, body or not. DT_REPLY = refused (the answer is filled in, the body is
 * dropped), DT_PENDING = go on. A stream that does not want this request streamed (a JSON array) sets *buffer: the body
 * is then collected in req->body (limit: batch_body) and only handle is called. feed:  takes all n bytes, or fewer:
 * then DT_FEED_WAIT after dt_request_suspend; it is called again with the rest after the resume
 *        (`then` is not called for it). DT_FEED_DROP: the answer is decided or nothing more is wanted: the rest of the
 * body is read and dropped, then handle is called. handle (the route's): when the body is complete. A client that
 * leaves in the middle: cleanup is called. If units are still at a committer then, cleanup must not free what they use:
 * keep such state in memory of its own with a count.
 */
enum dt_feed { DT_FEED_MORE, DT_FEED_WAIT, DT_FEED_DROP };
enum dt_cut { DT_CUT_CLIENT, DT_CUT_LATE, DT_CUT_SHUTDOWN, DT_CUT_MALFORMED, DT_CUT_SLOW };
struct dt_stream {
    enum dt_next (*begin)(struct dt_request *req, bool *buffer);
    enum dt_feed (*feed)(struct dt_request *req, const char *p, size_t n, size_t *taken);
    /*
     * The body breaks off (its client left, its time is up, others wait for its place, the server ends, its chunks are
     * none) and handle will not be called: the last call before cleanup. May part from the connection to answer
     * nevertheless (dt_request_detach); else the server sends a problem where one is due.
     */
    void (*cut)(struct dt_request *req, enum dt_cut why);
};

/*
 * The way to answer a request whose body broke off: libmicrohttpd closes such a connection unanswered, so its socket
 * is kept, and the answer is written to it by hand. For a stream's cut. NULL: not possible.
 */
typedef struct dt_detached dt_detached;
dt_detached *dt_request_detach(struct dt_request *req);
/* Any thread, once. Takes over body and what holds it. status 0: there is no answer, what was done is unknown. */
void dt_detached_answer(dt_detached *detached, int status, const char *type, struct dt_strbuf *body,
                        struct dt_hold *hold);

/* ---- the server ---- */
typedef struct dt_http dt_http;

/* Is this text an address of the loopback? ("localhost" is.) INVALID when it is no address. */
DT_MUST_CHECK dt_status dt_http_is_loopback(const char *listen, bool *loopback, struct dt_error *err);
/* Listens and serves on threads of its own. UNAVAILABLE/SYSTEM: the port is taken, not permitted, … */
DT_MUST_CHECK dt_status dt_http_start(struct dt_api *api, const struct dt_router *router, dt_http **out,
                                      struct dt_error *err);
int dt_http_port(const dt_http *http);
/* Accepts no more connections; answers close theirs. Returns when no request is under way, or when until_us has come.
 */
void dt_http_drain(dt_http *http, int64_t until_us);
/* After drain: bodies that are not complete are waited for no longer, and returns as drain does. */
void dt_http_cut(dt_http *http, int64_t until_us);
/* Ends connections and threads. Every suspended request must have been resumed (stop committers and workers before). */
void dt_http_stop(dt_http *http);

#endif
