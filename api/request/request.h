/*
 * How many bytes all requests of the process may hold together (limits.memory): bodies that arrive, what is made of
 * them, and answers that are not yet sent. Whoever wants more asks first; when it is refused nothing was charged, and
 * the caller is told to come again (503 with Retry-After).
 *
 * A hold is what one owner (a request, a batch) has of the budget. It belongs to one thread at a time; the budget is
 * shared without a lock. Charge in large steps (a buffer's growth, a chunk), not for each job: every charge touches a
 * cache line that all threads share.
 *
 * Bulk is what a caller may want any amount of: large bodies, batches, pages. It leaves an eighth of the budget to
 * requests about a single job, which are answered whoever sends the rest.
 *
 * Outside of the budget: what each connection has anyway, bounded by their number (see DT_REQUEST_FREE in request.h).
 */
#ifndef DT_API_REQUEST_H
#define DT_API_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth.h"
#include "base/metrics.h"
#include "base/text/strbuf.h"
#include "job/problem.h"
#include "router.h"

struct dt_budget {
    size_t max;
    _Atomic size_t held;
    dt_metric *gauge;   /* duetime_api_held_bytes, set when metrics are written */
    dt_metric *refused; /* duetime_api_memory_refused_total */
};

/* Zero = holds nothing and may hold nothing. */
struct dt_hold {
    struct dt_budget *budget;
    size_t n;
};

void dt_budget_init(struct dt_budget *budget, size_t max);
size_t dt_budget_held(const struct dt_budget *budget);

void dt_hold_init(struct dt_hold *hold, struct dt_budget *budget);
/* n bytes more. False: the budget is used up, and nothing was charged. */
DT_MUST_CHECK bool dt_hold_more(struct dt_hold *hold, size_t n);
/* Like dt_hold_more, but leaves to others what bulk leaves. */
DT_MUST_CHECK bool dt_hold_bulk(struct dt_hold *hold, size_t n);
/* n bytes fewer, or all that it has, whichever is less. */
#define DT_HOLD_ALL SIZE_MAX
void dt_hold_less(struct dt_hold *hold, size_t n);
/* Exactly n from now on, more or fewer. False: the budget is used up, and the hold is as it was. */
bool dt_hold_exactly(struct dt_hold *hold, size_t n);
/* n bytes of the one are the other's from now on, or all that it has, whichever is less. Both are of one budget. */
void dt_hold_move(struct dt_hold *from, struct dt_hold *to, size_t n);

/*
 * A request: what came in, what goes out, and what a handler may do with it. Knows no HTTP library; the server (http/)
 * fills a request in and sends its answer.
 *
 * A request belongs to exactly one thread at a time, so nothing in it is locked:
 *
 *   HTTP thread   checks the head (framing, route, token, scope, topic prefix, limits, content type, names in the
 *                 query), reads the body, and calls route->handle(req), which returns
 *     DT_REPLY    The answer is filled in, and is sent.
 *     DT_AWAY     The handler has detached the answer (dt_request_detach): the request ends, and its answer comes
 *                 later.
 *     DT_PENDING  The handler has called dt_request_suspend and has handed the request to another thread. The request
 *                 is that thread's until it calls dt_request_resume. The HTTP thread then calls req->then(req) if it is
 *                 set, which may return DT_PENDING again; without it the answer is sent.
 *
 * Handlers, feeds of streams and `then` run on an HTTP thread that serves more than a hundred connections. They never
 * block, and never talk to MySQL or Redis: work with the store goes to dt_workers_submit, new jobs to
 * dt_committer_submit, results to dt_results_batcher_submit. Each of these resumes every request that it is given. The
 * wait of a suspended request ends with its deadline at the latest, or a few seconds later when
 * MySQL is already at work on it.
 *
 * Everything that belongs to the request (arena, body, query, out) lives until its answer was sent, and is then used
 * again for the next request of the same connection.
 *
 * The server refuses before a handler runs: 400 (framing, bad escapes), 401, 403, 404, 405 with Allow, 408, 413, 414,
 * 415, 431, 505, 422 (an unknown query parameter, a body where none is taken), 503 (the tokens are unknown because
 * MySQL was never reached, or the process is shutting down). It never answers 411: chunked bodies are taken.
 */

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
    bool truncated;                  /* a stream went beyond limits.batch_body: what lies past it was dropped */
    struct dt_str body;              /* whole; absent for streams */
    struct dt_str content_type;      /* as sent; absent when missing */
    enum dt_media media;             /* what content_type says; DT_MEDIA_JSON when missing */
    struct dt_str if_match;          /* absent when missing */
    struct dt_str if_none_match;     /* absent when missing */
    struct dt_str accept_encoding;   /* absent when missing */
    struct dt_str request_id;        /* the caller's, or ours; never absent */
    struct dt_caller caller;         /* scopes and topics of the token; cleared by the server */
    int64_t started_us, deadline_us; /* monotonic */

    /* Out. */
    int status;                                    /* 0 = not answered yet */
    const char *reply_type;                        /* Content-Type, static text; default application/json */
    struct dt_strbuf out;                          /* the answer's body */
    struct dt_pair headers[DT_REQUEST_HEADER_MAX]; /* added with dt_request_header */
    unsigned n_headers;
    bool close;   /* the connection is closed after the answer */
    bool walled;  /* the handler asked the wall (request.h) */
    bool foreign; /* … and what it found is outside of the caller's topics */
    bool changed; /* something was done for it already: a refusal from here on says that its outcome is unknown */

    /* The handler's own. */
    /* Called on the HTTP thread after a resume. NULL: the answer is sent. */
    enum dt_next (*then)(struct dt_request *req);
    /* Called after the answer was sent or the client left, and never while the request is suspended. NULL: none. */
    void (*cleanup)(struct dt_request *req);
    void *state;
    bool reads_much;       /* set before it goes to a worker, which may make MySQL read very many rows: see workers.h */
    struct dt_arena arena; /* reset when the answer was sent */
    struct dt_hold hold;   /* of the budget; ended with the request */

    /* Of the workers (request/workers.c), while the request waits for one. */
    struct {
        struct dt_request *prev, *next;
        enum dt_next (*run)(struct dt_request *req, struct dt_store *store);
        int64_t at_us; /* mono: when it came; of one that is put off: until when */
        bool is_long;
    } work;
};

/* The value of a query parameter; absent (.p NULL) when it was not given. */
struct dt_str dt_request_query(const struct dt_request *req, const char *name);
/*
 * Adds a response header. name is static text, the value is copied into the arena. X-Request-Id and Content-Type need
 * not be added. Beyond DT_REQUEST_HEADER_MAX, and when memory is out, the header is left out.
 */
void dt_request_header(struct dt_request *req, const char *name, struct dt_str value);

/*
 * The hold: a handler charges bytes to the budget of all requests before they are allocated (dt_hold_more,
 * dt_hold_bulk), on the thread that owns the request. If the budget is used up, it answers 503 unavailable, unless
 * something was changed already. The server gives back all that a request holds when the request ends. When the answer
 * is sent, it also weighs body, out and arena itself, and charges only what they have beyond the hold.
 */
/* Called when the answer is filled in: gives back all that the hold has beyond what the request's buffers have. */
void dt_request_trim(struct dt_request *req);
/* Fills in the 503 of a request that was refused by the budget. Always DT_REPLY. */
enum dt_next dt_request_no_room(struct dt_request *req);

/*
 * Fills in a problem: status, type, body with the request's id, Retry-After where one is due. Replaces what out held.
 */
void dt_request_problem(struct dt_request *req, const struct dt_problem *problem);
/* Does as dt_request_problem, with a detail and nothing else. */
void dt_request_refuse(struct dt_request *req, enum dt_problem_type type, const char *fmt, ...) DT_PRINTF(3, 4);

/*
 * Suspends the request, on the HTTP thread, inside handle, feed or then, before it is handed to another thread. The
 * caller then returns DT_PENDING (feed: DT_FEED_WAIT) and touches the request no more.
 */
void dt_request_suspend(struct dt_request *req);
/* Gives the request back to its HTTP thread. Any thread, exactly once a suspend; may come before the suspending
 * handler has returned. */
void dt_request_resume(struct dt_request *req);
/* Says whether it is suspended. Only for the thread that owns the request. */
bool dt_request_suspended(const struct dt_request *req);

/* ---- streams: routes whose body is taken as it arrives (router.h, DT_BODY_STREAM) ---- */

enum dt_feed { DT_FEED_MORE, DT_FEED_WAIT, DT_FEED_DROP };
enum dt_cut { DT_CUT_CLIENT, DT_CUT_LATE, DT_CUT_SHUTDOWN, DT_CUT_MALFORMED, DT_CUT_SLOW };

/*
 * All functions run on the HTTP thread, in this order: begin, feed for each piece of the body, then the route's handle
 * when the body is complete, or cut when it breaks off; at last the request's cleanup, if one is set. If units are
 * still at a committer when cleanup is called, it must not free what they use: such state is counted memory of its own.
 */
struct dt_stream {
    /*
     * Called when the head was found fine, whether or not a body follows. DT_PENDING: go on. DT_REPLY: the request is
     * refused, the answer is filled in, and the body is dropped. *buffer is false before; a stream that does not want
     * this request streamed (a JSON array) sets it: the body is then collected in req->body (at most
     * limits.batch_body), and only handle is called.
     */
    enum dt_next (*begin)(struct dt_request *req, bool *buffer);
    /*
     * MORE: all n bytes were taken, *taken need not be set. WAIT: *taken bytes were taken and the request was
     * suspended; feed is called again with the remainder after the resume (`then` is not called for it). DROP: the
     * answer is decided, or nothing more is wanted; the remainder of the body is read and dropped, then handle is
     * called.
     */
    enum dt_feed (*feed)(struct dt_request *req, const char *p, size_t n, size_t *taken);
    /*
     * Called when the body breaks off: its client left, its time is up, it is slow and others wait for a connection,
     * the server ends, or its chunks are malformed. handle is not called after it. It may detach the answer
     * (dt_request_detach); otherwise the server sends a problem where one is due.
     */
    void (*cut)(struct dt_request *req, enum dt_cut why);
};

/*
 * The answer to a request whose body broke off, or which waits for long: the HTTP library closes such a connection
 * unanswered, so its socket is kept, and the answer is written to it past the library. Called inside a stream's cut, or
 * inside handle or then, which return DT_AWAY afterwards. NULL: not possible.
 */
typedef struct dt_detached dt_detached;
dt_detached *dt_request_detach(struct dt_request *req);
/* Its socket, to look at (MSG_PEEK, poll), and no more. */
int dt_detached_fd(const dt_detached *detached);
/*
 * Sends the answer and frees the detached answer. Any thread, exactly once. Takes over body and the hold that pays for
 * it. status 0: there is no answer, and the client is told that the outcome is unknown.
 */
void dt_detached_answer(dt_detached *detached, int status, const char *type, struct dt_strbuf *body,
                        struct dt_hold *hold);

/*
 * The wall between tenants. A caller whose token is bound to topic prefixes sees nothing of other topics: what is there
 * is answered as if it did not exist (404). Each row of routes.c names its wall, which is kept in three places:
 *
 *   before the handler   dt_wall_enter refuses TOPIC_IN_PATH and ALL_TOPICS.
 *   before the store     dt_wall_pass refuses the topic that a query names (FILTER, TOPIC_IN_QUERY). It comes after the
 *                        checks of the request, so a fault in the query is a 422 for every caller.
 *   after the handler    dt_wall_check asserts that the handler of a ROW_IN_PATH, IN_BODY or FILTER asked the wall, and
 *                        that it does not answer with a row that the wall refused.
 *
 * Handlers learn the caller's prefixes here, except for lists, which pass them on to the store. A handler of a route
 * whose wall is NOTHING must not ask. The thread that owns the request calls these functions.
 */

/* Called when scope and token are fine. False: the answer is filled in. */
DT_MUST_CHECK bool dt_wall_enter(struct dt_request *req);
/* Called before the request goes to a worker, and by a handler that wants it earlier. False: it is answered. */
DT_MUST_CHECK bool dt_wall_pass(struct dt_request *req);
/* Called when the request has its answer, or leaves its connection to another part. */
void dt_wall_check(const struct dt_request *req);

/* The topics to which the answer is limited: borrowed from the caller; NULL: it sees all topics. */
const struct dt_topic_bound *dt_wall_bound(struct dt_request *req);
/* Called with the topic of what the request names, once that is known. NOT_FOUND: the caller does not see it. */
DT_MUST_CHECK dt_status dt_wall_found(struct dt_request *req, struct dt_str topic);
/* Returns true if an OWN_TOKEN may show what belongs to the token of this name. */
bool dt_wall_shows_token(const struct dt_request *req, struct dt_str token);

/*
 * Which web pages may use an installation that asks for no token. A browser on the machine reaches the loopback for any
 * page: across sites, and by a name of the page's own that DNS points at the loopback. So Host must be a name that only
 * this machine answers to, and what the browser says about the page must be the same origin. Pure.
 */

/* Whether a Host, with any port, is a loopback name or address, or in names (http.names). */
bool dt_host_is_local(struct dt_str host, struct dt_str names);
/* Whether an Origin is a page of this Host. */
bool dt_origin_is_host(struct dt_str origin, struct dt_str host);

#endif
