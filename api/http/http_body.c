/*
 * Owns what becomes of a request's body as it arrives: it goes into a buffer within the budget, to a stream, or is
 * dropped. Refuses to know what a body says.
 */
#include <stdatomic.h>

#include "http_exchange.h"
#include "http_mhd.h"
#include "request/request.h"

#define DROP_MAX (32u << 20) /* chunked bodies are dropped up to this, then the connection is closed */

static void drop_remainder(struct dt_exchange *e)
{
    e->dropping = true;
    e->streaming = false;
}

/* A body of unannounced length went beyond its limit: a stream is told, others are refused. */
static void overflow(struct dt_exchange *e)
{
    bool streaming = e->streaming;
    drop_remainder(e);
    e->req.truncated = e->drop_handle = streaming;
    if (!streaming)
        dt_request_refuse(&e->req, DT_PROBLEM_TOO_LARGE, "the body has more than %zu bytes", e->limit);
}

/* Gives the stream what it may have; *n becomes what it did not take. True: the stream waits. */
static bool feed_stream(struct dt_exchange *e, const char *p, size_t *n)
{
    size_t room = e->limit - e->received;
    size_t offered = *n < room ? *n : room;
    size_t taken = offered;
    enum dt_feed next = e->req.route->stream->feed(&e->req, p, offered, &taken);
    if (next != DT_FEED_WAIT)
        taken = offered;
    e->received += taken;
    *n -= taken;
    if (next == DT_FEED_DROP) {
        drop_remainder(e);
        e->drop_handle = true;
    }
    return next == DT_FEED_WAIT;
}

/* False: it is too much to wait for its end. */
static bool drop_piece(struct dt_exchange *e, size_t *n)
{
    e->received += *n;
    *n = 0;
    return e->received <= e->limit + DROP_MAX;
}

/* Charges what the buffer grows by for n more bytes of the body. False: the budget is used up. */
static bool charge_growth(struct dt_exchange *e, size_t n)
{
    size_t cap = e->body.cap + dt_strbuf_growth(&e->body, n);
    return dt_hold_bulk(&e->req.hold, dt_exchange_beyond_free(cap) - dt_exchange_beyond_free(e->body.cap));
}

/* Says whether the body is over: it was cut off (http_connections.h), or the server ends. */
static bool is_cut(struct dt_exchange *e)
{
    if (atomic_load_explicit(&e->http->connections.cutting, memory_order_relaxed))
        atomic_store_explicit(&e->connection.cut, DT_CUT_SHUTDOWN, memory_order_relaxed);
    return atomic_load_explicit(&e->connection.cut, memory_order_relaxed) != DT_CUT_NOT;
}

bool dt_exchange_body(struct dt_exchange *e, const char *p, size_t *n)
{
    if (dt_mhd_suspended(e->mhd))
        return true; /* a further chunk of the same read: later */
    atomic_store_explicit(&e->connection.heard_us, dt_http_now_us(e->http), memory_order_relaxed);
    if (is_cut(e))
        return false;
    (void)dt_exchange_is_late(e); /* a stream judges its own time */
    if (e->streaming && e->received < e->limit && feed_stream(e, p, n))
        return true;
    if (*n == 0)
        return true;
    if (!e->dropping && e->received + *n > e->limit)
        overflow(e);
    if (!e->dropping && !charge_growth(e, *n)) {
        drop_remainder(e);
        dt_strbuf_clear(&e->body);
        dt_hold_less(&e->req.hold, DT_HOLD_ALL);
        dt_request_no_room(&e->req);
    }
    if (e->dropping)
        return drop_piece(e, n);
    dt_strbuf_add(&e->body, p, *n);
    e->received += *n;
    *n = 0;
    return true;
}
