/*
 * A request: its input, its answer, and the functions for handlers. The server (http/) fills in the input and sends the
 * answer.
 *
 * A request belongs to exactly one thread at a time, so nothing in it is locked:
 *
 *   HTTP thread   checks the head (framing, route, token, scope, topic prefix, limits, content type, names in the
 *                 query), reads the body, and calls route->handle(req), which returns
 *     DT_REPLY    The answer is filled in; the server sends it.
 *     DT_AWAY     The handler has detached the answer (dt_request_detach). The request ends; the answer follows later.
 *     DT_PENDING  The handler has called dt_request_suspend and has passed the request to another thread, which owns it
 *                 until it calls dt_request_resume. After that, if req->then is set, the HTTP thread calls
 *                 req->then(req), which returns one of these three again; otherwise it sends the answer.
 *
 * Handlers, feeds of streams and `then` run on an HTTP thread that serves thousands of connections. They never block,
 * and never use MySQL or Redis: work with the store goes to dt_workers_submit, new jobs to dt_committer_submit, results
 * to dt_results_batcher_submit. Each of these parts resumes every request that it gets. A suspended request waits until
 * its deadline at most, or a few seconds longer if MySQL is already working on it.
 *
 * Everything of a request (arena, body, query, out) lives until its answer was sent; the next request of the connection
 * reuses the memory.
 *
 * The server refuses before a handler runs: 400 (framing, bad escapes), 401, 403, 404, 405 with Allow, 408, 413, 414,
 * 415, 431, 505, 422 (an unknown query parameter, an unexpected body), 503 (the tokens are unknown because MySQL was
 * never reached, or the process is shutting down). It never answers 411: chunked bodies are allowed.
 */
#pragma once

#include <stdatomic.h>

#include "auth.h"
#include "base/metrics.h"
#include "base/text/strbuf.h"
#include "job/problem.h"
#include "router.h"

/*
 * ---- the budget of memory ----
 *
 * limits.memory is the number of bytes that all requests of the process may hold together: received bodies, data made
 * from bodies, and answers that were not sent yet. A request charges bytes before it allocates them. If the budget
 * refuses, nothing was charged, and the answer is 503 with Retry-After.
 *
 * A hold is the part of one owner (a request, a batch), and belongs to one thread at a time; the budget is shared
 * without a lock. Charge in large steps (a buffer's growth, a chunk), not for each job: every charge touches a cache
 * line that all threads share.
 *
 * Bulk is memory for large bodies, batches and pages. Bulk charges leave an eighth of the budget to requests about a
 * single job.
 *
 * The first DT_REQUEST_FREE bytes of each request are not in the budget; the number of requests under way limits them.
 */
struct dt_budget {
    size_t max;
    _Atomic size_t held;
    dt_metric *gauge;   /* metric duetime_api_held_bytes, set when metrics are written */
    dt_metric *refused; /* metric duetime_api_memory_refused_total */
};

/* The part of the budget that one owner holds. All zeros: holds nothing, and every charge is refused. */
struct dt_hold {
    struct dt_budget *budget;
    size_t n;
};

void dt_budget_init(struct dt_budget *budget, size_t max);
size_t dt_budget_held(const struct dt_budget *budget);

void dt_hold_init(struct dt_hold *hold, struct dt_budget *budget);
/* Charges n bytes. False: the budget is used up, and nothing was charged. */
DT_MUST_CHECK bool dt_hold_more(struct dt_hold *hold, size_t n);
/* Charges n bytes as bulk (large bodies, batches, pages): fails if less than an eighth of the budget would be left. */
DT_MUST_CHECK bool dt_hold_bulk(struct dt_hold *hold, size_t n);
/* Gives n charged bytes back to the budget, or all bytes if fewer are charged. */
#define DT_HOLD_ALL SIZE_MAX
void dt_hold_less(struct dt_hold *hold, size_t n);
/* Changes the charged bytes (the hold) to exactly n. False: the budget is used up, and the charge is unchanged. */
bool dt_hold_exactly(struct dt_hold *hold, size_t n);
/* Moves a charge of n bytes from one owner to another of the same budget; if `from` holds fewer, moves all of them. */
void dt_hold_move(struct dt_hold *from, struct dt_hold *to, size_t n);

/* ---- the request ---- */

struct dt_api;

#define DT_REQUEST_QUERY_MAX 32
#define DT_REQUEST_ID_MAX    128
/* Bytes of body, answer and arena that each request may have without a charge. */
#define DT_REQUEST_FREE ((size_t)16 * 1024)

struct dt_pair {
    struct dt_str name, value;
};

struct dt_request {
    struct dt_api *api;

    /* Inputs. Each slice is followed by a zero byte. */
    const struct dt_route *route;
    struct dt_str method, path;                 /* path as it was sent, without the query */
    struct dt_str params[DT_ROUTE_PARAMS];      /* path parameters in order, percent-decoded; may hold NUL for %00 */
    struct dt_pair query[DT_REQUEST_QUERY_MAX]; /* decoded; each name is in route->query, and occurs at most once */
    unsigned n_query;
    bool truncated;                  /* the stream exceeded limits.batch_body, and the excess was dropped */
    struct dt_str body;              /* whole body; absent for streams */
    struct dt_str content_type;      /* as it was sent; absent if the header is missing */
    enum dt_media media;             /* media type in content_type; DT_MEDIA_JSON if the header is missing */
    struct dt_str if_match;          /* absent if the header is missing */
    struct dt_str if_none_match;     /* absent if the header is missing */
    struct dt_str accept_encoding;   /* absent if the header is missing */
    struct dt_str request_id;        /* the client's X-Request-Id, or a new id; never absent */
    struct dt_caller caller;         /* scopes and topics of the token; released by the server */
    int64_t started_us, deadline_us; /* monotonic */

    /* Outputs. */
    int status;             /* HTTP status; 0: not answered yet */
    const char *reply_type; /* Content-Type, static text; at first application/json */
    bool caches;            /* one of the headers is Cache-Control */
    bool close;             /* close the connection after the answer */
    bool walled;            /* the handler has asked which topics the caller may see */
    bool foreign;           /* the handler found a row of a topic that the caller may not see */
    bool changed;           /* the request has changed something: a later refusal says that the outcome is unknown */

    /* Set by the handler. Called once on the HTTP thread, after the next resume. NULL: the server sends the answer
     * after the resume. */
    enum dt_next (*then)(struct dt_request *req);
    /* Called when the answer was sent or the client has disconnected; never while the request is suspended. */
    void (*cleanup)(struct dt_request *req);
    void *state;
    bool reads_much;     /* set before submitting to a worker, if MySQL may read very many rows (workers.h) */
    struct dt_hold hold; /* memory that is charged to the budget until the request ends */

    /* Used by workers.c while the request is queued. */
    struct {
        struct dt_request *prev, *next;
        enum dt_next (*run)(struct dt_request *req, struct dt_store *store);
        int64_t at_us; /* mono: when the request was queued; if it is put off: when it runs again */
        bool is_long;
    } work;

    /* Memory that is emptied after the answer was sent, and that a later request reuses. */
    struct dt_arena arena;
    struct dt_strbuf out;     /* the answer's body */
    struct dt_strbuf headers; /* header lines of the answer, each with CRLF (dt_request_header) */
};

/* Returns the value of a query parameter; absent (.p NULL) if the query does not have it. */
struct dt_str dt_request_query(const struct dt_request *req, const char *name);
/* Adds a response header, except X-Request-Id and Content-Type, which the server adds. An absent value is left out. If
 * memory runs out, the answer has no headers. */
void dt_request_header(struct dt_request *req, const char *name, struct dt_str value);

/* Charges bytes to the budget; a handler calls it before it allocates, on the thread that owns the request. False: the
 * budget is used up; the answer, 503, is filled in, unless the request has already changed something. When the server
 * sends the answer, it also charges what body, out and arena have beyond the hold. It gives back the hold when the
 * request ends. */
/* Gives bytes back to the budget that are charged beyond the size of the request's buffers. Called when the answer is
 * filled in. */
void dt_request_trim(struct dt_request *req);
/* Fills in the 503 of a request that the budget refused. Always returns DT_REPLY. */
enum dt_next dt_request_no_room(struct dt_request *req);

/* Fills in a problem: status, type, and a body with the request's id; perhaps Retry-After. Replaces the contents of
 * out. */
void dt_request_problem(struct dt_request *req, const struct dt_problem *problem);
/* Fills in a problem that has only a detail. */
void dt_request_refuse(struct dt_request *req, enum dt_problem_type type, const char *fmt, ...) DT_PRINTF(3, 4);

/* Suspends the request before it is passed to another thread. Called on the HTTP thread inside handle, feed or then.
 * The caller then returns DT_PENDING (feed: DT_FEED_WAIT) and does not touch the request again. */
void dt_request_suspend(struct dt_request *req);
/* Gives the request back to its HTTP thread. Called on any thread, exactly once for each suspend; may be called before
 * the handler that suspended the request has returned. */
void dt_request_resume(struct dt_request *req);
/* Returns true if the request is suspended. Called by the thread that owns the request. */
bool dt_request_suspended(const struct dt_request *req);

/* ---- streams: routes that take a body as it arrives (router.h, DT_BODY_STREAM) ---- */

enum dt_feed { DT_FEED_MORE, DT_FEED_WAIT, DT_FEED_DROP };
/* Why a body broke off: it is malformed, or its client disconnected; it was too late or too slow; or the server
 * ends. */
enum dt_cut { DT_CUT_CLIENT, DT_CUT_LATE, DT_CUT_SHUTDOWN };

/* The functions of a stream, for routes that take the body in pieces. All of them run on the HTTP thread, in this
 * order: begin; feed for each piece of the body; the route's handle if the body is complete, or cut if it breaks off;
 * the request's cleanup, if set. When cleanup is called, a committer may still have queued units of the request. So
 * cleanup must not free what these units use; such data has a reference count of its own. */
struct dt_stream {
    /* Called when the head was accepted, whether or not a body follows. DT_PENDING: continue. DT_REPLY: the request is
     * refused, the answer is filled in, and the body is dropped. *buffer is false at first. If the stream sets it (for
     * a JSON array), the body is collected in req->body (at most limits.batch_body), and only handle is called. */
    enum dt_next (*begin)(struct dt_request *req, bool *buffer);
    /* Takes a piece of the body. MORE: all n bytes were taken; *taken need not be set. WAIT: *taken bytes were taken
     * and the request was suspended; after the resume, feed is called with the remaining bytes, and `then` is not.
     * DROP: the answer is decided; the remaining body is read and dropped, then handle is called. */
    enum dt_feed (*feed)(struct dt_request *req, const char *p, size_t n, size_t *taken);
    /* Called if the body breaks off: the client has disconnected, the deadline has passed, the client is slow while
     * others wait for a connection, the server ends, or the chunks are malformed. handle is not called after that. cut
     * may detach the answer (dt_request_detach); otherwise the server may send a problem. */
    void (*cut)(struct dt_request *req, enum dt_cut why);
};

/* Detaches the answer of a request that must wait for long, or whose body broke off: the request ends and frees its
 * memory; its connection waits for the answer. Called inside a stream's cut, or inside handle or then, which then
 * return DT_AWAY. NULL: the client has disconnected, or memory ran out. */
typedef struct dt_detached dt_detached;
dt_detached *dt_request_detach(struct dt_request *req);
/* Returns the socket, which the caller may only poll for the client's disconnect (POLLRDHUP): the HTTP thread reads the
 * client's bytes. */
int dt_detached_fd(const dt_detached *detached);
/* Sends the answer and frees the detached answer. Any thread, exactly once. Takes over the body, and the bytes that are
 * charged for it (hold). status 0: the outcome is unknown; the client gets a problem that says so. */
void dt_detached_answer(dt_detached *detached, int status, const char *type, struct dt_strbuf *body,
                        struct dt_hold *hold);
/* Sends a problem instead of an answer. detail is static text. */
void dt_detached_problem(dt_detached *detached, enum dt_problem_type type, const char *detail);

/*
 * ---- the wall between tenants ----
 *
 * If a caller's token is bound to topic prefixes, everything of other topics is answered as if it did not exist (404).
 * Each row of routes.c names its wall, which is checked in three places:
 *
 *   before the handler   dt_wall_enter refuses TOPIC_IN_PATH and ALL_TOPICS.
 *   before the store     dt_wall_pass refuses the topic that a query names (FILTER, TOPIC_IN_QUERY). The checks of the
 *                        request come first, so a fault in the query is a 422 for every caller.
 *   after the handler    dt_wall_check asserts that the handler of a route with wall ROW_IN_PATH, IN_BODY or FILTER has
 *                        asked the wall, and that it does not answer with a row that the wall refused.
 *
 * Handlers get the caller's prefixes from dt_wall_bound, and pass them to the store for lists. If the wall of a route
 * is NOTHING, its handler must not call dt_wall_bound. The thread that owns the request calls these functions.
 */

/* Checks the route's wall (what the caller may see) before the handler is called, after token and scope were checked.
 * False: the answer is filled in. */
DT_MUST_CHECK bool dt_wall_enter(struct dt_request *req);
/* Checks the route's wall (what the caller may see) before the request is queued for a worker; a handler may call it
 * earlier. False: the answer is filled in. */
DT_MUST_CHECK bool dt_wall_pass(struct dt_request *req);
/* Called when the request has its answer or has detached it. Asserts that the handler has checked the wall (what the
 * caller may see), if the route requires that. */
void dt_wall_check(const struct dt_request *req);

/* Returns the topics that the answer may show, borrowed from the caller; NULL: all topics. */
const struct dt_topic_bound *dt_wall_bound(struct dt_request *req);
/* Checks the topic of the row that the request names. NOT_FOUND: the caller does not see this topic. */
dt_status dt_wall_found(struct dt_request *req, struct dt_str topic);
/* For a route on which callers see only rows of their own token (OWN_TOKEN): returns true if the answer may show rows
 * of the token with this name. */
bool dt_wall_shows_token(const struct dt_request *req, struct dt_str token);

/*
 * ---- hosts and origins ----
 *
 * Decides which web pages may use an installation that requires no token. A web page of any site can make a browser on
 * this machine send requests to the loopback, even under a host name that the page's owner has pointed at the loopback
 * in DNS. So Host must be a name of the loopback, and Origin must be of the same host. Pure.
 */

/* Returns true if a Host, with any port, is a loopback name or address, or is listed in names (http.names). */
bool dt_host_is_local(struct dt_str host, struct dt_str names);
/* Returns true if an Origin belongs to a page of this Host. */
bool dt_origin_is_host(struct dt_str origin, struct dt_str host);
