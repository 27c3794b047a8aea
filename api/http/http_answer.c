/*
 * Owns the way out: answers through the HTTP library, and detached answers to requests whose bodies broke off, whose
 * connections the library closes unanswered. Refuses to know what was asked.
 *
 * The library takes an answer for the head, and then closes the connection, or for the complete body. So a refused
 * request with a small body has its body dropped first and keeps its connection; one with a large body is answered at
 * once and closed, and what its client still sends is dropped (http_linger.h).
 *
 * A body that is late, slow or malformed is cut off by a shutdown of its socket for reading. The library takes that for
 * the end of its client and closes the connection; its last call for the request, still with the socket, comes to
 * dt_exchange_break_off, which answers.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "api.h"
#include "http_detached.h"
#include "http_exchange.h"
#include "http_mhd.h"
#include "request/request.h"

#define DROP_SMALL  (64u * 1024)      /* refused requests with bodies up to this keep their connection */
#define DETACHED_US INT64_C(10000000) /* for the client to take a detached answer */

/* The bytes of all buffers of the request. */
static size_t weight_of(const struct dt_request *req, const struct dt_strbuf *body)
{
    return dt_exchange_beyond_free(body->cap) + dt_exchange_beyond_free(req->arena.size) +
           dt_exchange_beyond_free(req->out.cap);
}

void dt_request_trim(struct dt_request *req)
{
    size_t weight = weight_of(req, &dt_exchange_of(req)->body);
    if (weight < req->hold.n)
        dt_hold_less(&req->hold, req->hold.n - weight);
}

/* There is no memory for the answer: a request that may have changed something is not told that nothing happened. */
static void give_answer_up(struct dt_request *req, bool may_have_changed)
{
    bool reads = dt_str_is(req->method, "GET") || dt_str_is(req->method, "HEAD");
    dt_strbuf_clear(&req->out);
    if (may_have_changed && !reads)
        dt_request_refuse(req, DT_PROBLEM_OUTCOME_UNKNOWN, "there is no memory left to tell what became of it");
    else
        dt_request_no_room(req);
}

/*
 * The request holds exactly what its buffers have, from here until the client has read its answer. A 503 that there is
 * no room for goes out all the same: nothing smaller says more.
 */
static void weigh_answer(struct dt_request *req, const struct dt_strbuf *body)
{
    if (!dt_hold_exactly(&req->hold, weight_of(req, body)) && req->status != 503)
        give_answer_up(req, req->status < 400);
}

bool dt_exchange_answer(struct dt_exchange *e)
{
    struct dt_request *req = &e->req;
    if (req->status == 0)
        dt_request_refuse(req, DT_PROBLEM_INTERNAL, "no answer was made");
    else if (req->out.failed)
        give_answer_up(req, req->status < 400 || req->status >= 500);
    weigh_answer(req, &e->body);
    dt_connection_enter(&e->http->connections, &e->connection, DT_PHASE_SENDING);
    return dt_mhd_answer(e->mhd, req,
                         req->close || atomic_load_explicit(&e->http->connections.draining, memory_order_relaxed));
}

/*
 * Refused for its headers. A small body is read first, so that the connection can be kept; not of somebody who was
 * never let through on it: he could leave it unfinished, and keep his place with a request that is refused.
 */
bool dt_exchange_answer_early(struct dt_exchange *e)
{
    bool small = !e->chunked && (e->length == 0 || (e->length <= DROP_SMALL && atomic_load(&e->connection.known)));
    if (small && !e->req.close && !e->expects) {
        e->dropping = true;
        return true;
    }
    e->req.close = true;
    e->lingers = dt_exchange_has_body(e);
    if (e->lingers)
        dt_linger_add(e->http->linger, e->connection.fd, dt_http_now_us(e->http) + DT_LINGER_US);
    return dt_exchange_answer(e);
}

static void detached_ended(void *arg)
{
    dt_http_end(arg);
}

dt_detached *dt_request_detach(struct dt_request *req)
{
    struct dt_exchange *e = dt_exchange_of(req);
    struct dt_http_shared *http = e->http;
    int fd = e->detached ? -1 : dup(e->connection.fd); /* the library closes its own */
    dt_detached *detached = fd < 0 ? NULL : dt_detached_new(http->linger, http->api->clock, fd, e->id, DETACHED_US);
    if (!detached)
        return NULL;
    dt_detached_when_ended(detached, detached_ended, http);
    dt_http_begin(http);
    e->detached = true;
    return detached;
}

static void refuse_body(struct dt_exchange *e, int why)
{
    if (why == DT_CUT_SLOW)
        dt_request_refuse(&e->req, DT_PROBLEM_TIMEOUT,
                          "the body came too slowly while others waited; nothing was done");
    else if (why == DT_CUT_LATE)
        dt_request_refuse(&e->req, DT_PROBLEM_TIMEOUT, "the body did not come in the request's time; nothing was done");
    else if (why == DT_CUT_MALFORMED)
        dt_request_refuse(&e->req, e->malformed, "%s", e->malformed_why);
    else
        dt_request_refuse(&e->req, DT_PROBLEM_UNAVAILABLE, "the server is shutting down");
}

/* Answers with what was decided before the body broke off, or with why it did. */
static void detach_with_answer(struct dt_exchange *e, int why)
{
    struct dt_request *req = &e->req;
    if (req->status == 0)
        refuse_body(e, why);
    dt_detached *detached = dt_request_detach(req);
    if (detached)
        dt_detached_answer(detached, req->status, req->reply_type, &req->out, &req->hold);
}

void dt_exchange_break_off(struct dt_exchange *e)
{
    int why = atomic_load_explicit(&e->connection.cut, memory_order_relaxed);
    if (dt_exchange_stream_open(e) && e->req.route->stream->cut)
        e->req.route->stream->cut(&e->req, why == DT_CUT_NOT ? DT_CUT_CLIENT : (enum dt_cut)why);
    if (!e->detached && why != DT_CUT_NOT)
        detach_with_answer(e, why);
    else if (e->detached && e->req.status == 0)
        e->req.status = 200;
}
