/*
 * The way of one request on one connection, from its head to its answer. There is one exchange a connection, used
 * again for each request on it.
 *
 *   http_exchange.c  the calls of the HTTP library, and the phases of the exchange
 *   http_admit.c     the head: who is let through
 *   http_body.c      the body: into a buffer, to a stream, or dropped
 *   http_answer.c    the answer: through the library, or past it when the body broke off
 *
 * Everything of an exchange but its atomics belongs to the HTTP thread of its connection or, while the request is
 * suspended, to whoever it was handed to.
 */
#ifndef DT_API_HTTP_EXCHANGE_H
#define DT_API_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "http_connections.h"
#include "http_shared.h"
#include "http_wakeup.h"
#include "request/request.h"

struct MHD_Connection;

struct dt_exchange {
    struct dt_request req; /* first: a dt_request is its exchange */
    struct dt_http_shared *http;
    struct MHD_Connection *mhd;
    struct dt_wakeup_entry wakeup;
    struct dt_connection connection;
    uint64_t begun; /* requests on this connection */
    /* Below: of the request under way. */
    size_t route_index;
    bool handled;     /* the route's handle was called */
    bool streaming;   /* the body goes to the stream */
    bool dropping;    /* the body is read and dropped */
    bool drop_handle; /* … and handle is called nevertheless (DT_FEED_DROP) */
    bool detached;    /* the answer is written to the socket directly, not by the HTTP library */
    bool chunked, expects;
    bool cross_site; /* a browser says that another site's page asks */
    bool lingers;    /* it was refused before its body was read */
    size_t length, received, limit;
    struct dt_str authorization, encoding;
    struct dt_str host;             /* of an absolute target, or the header */
    struct dt_str origin;           /* of the page that asks */
    struct dt_str forwarded;        /* the last line of http.forwarded_header */
    enum dt_problem_type malformed; /* what is wrong with the body, when that is why it was cut off */
    const char *malformed_why;
    char id[DT_REQUEST_ID_MAX + 1];
    struct dt_strbuf body;
};

static inline struct dt_exchange *dt_exchange_of(struct dt_request *req)
{
    return (struct dt_exchange *)req;
}

static inline bool dt_exchange_has_body(const struct dt_exchange *e)
{
    return e->chunked || e->length > 0;
}

/* The stream's handler is still to be called. */
static inline bool dt_exchange_stream_open(const struct dt_exchange *e)
{
    return !e->handled && (e->streaming || e->drop_handle);
}

/* How many bytes of a buffer are beyond what every connection has anyway. */
static inline size_t dt_exchange_beyond_free(size_t cap)
{
    return cap > DT_REQUEST_FREE ? cap - DT_REQUEST_FREE : 0;
}

/* ---- the library's calls (http_exchange.c); all on the HTTP thread ---- */

/* Makes the exchange of a connection on this socket, which stays the library's. NULL: memory is out. */
struct dt_exchange *dt_exchange_new(struct dt_http_shared *http, struct MHD_Connection *mhd, int fd);
/* The socket is still open. Accepts NULL. */
void dt_exchange_free(struct dt_exchange *e);
/* As dt_mhd_events (http_mhd.h) says. */
bool dt_exchange_begun(struct dt_exchange *e, const char *path, const char *method);
bool dt_exchange_ready(struct dt_exchange *e);
void dt_exchange_ended(struct dt_exchange *e, bool sent);

/* Says whether the time of a request is up that was read until now; it moves by what the process missed. */
bool dt_exchange_is_late(struct dt_exchange *e);

/* ---- the head (http_admit.c) ---- */

/* Reads the headers into the request, and gives it an id. */
void dt_exchange_read_headers(struct dt_exchange *e);
/*
 * Checks the head, in the order in which a caller learns of what is wrong, and begins the stream of a route that has
 * one. False: the answer is filled in.
 */
bool dt_exchange_admit(struct dt_exchange *e);

/* ---- the body (http_body.c) ---- */

/* As dt_mhd_events (http_mhd.h) says. */
bool dt_exchange_body(struct dt_exchange *e, const char *p, size_t *n);

/* ---- the answer (http_answer.c) ---- */

/* Sends what is filled in. False: the connection is to be closed. */
bool dt_exchange_answer(struct dt_exchange *e);
/* Answers a request that was refused for its head, now or when its body was dropped. False: as above. */
bool dt_exchange_answer_early(struct dt_exchange *e);
/* The request ends without an answer, its body incomplete: answers past the library where an answer is due. */
void dt_exchange_break_off(struct dt_exchange *e);

#endif
