/*
 * What HTTP/1 connections and HTTP/2 streams have in common: the queue of what each waits for, a request from its head
 * to its end, and the head of a response. Does not know how bytes are sent and received.
 *
 * Invariants: an open connection or stream is in exactly one queue, ordered by when its wait began; `n` is the sum of
 * the queues' lengths. A closed one is in no queue.
 */
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"
#include "connection_parts.h"

#define QUICK_BYTES 4096             /* bytes per second at which a body counts as fast enough */
#define QUICK_MOST  INT64_C(1000000) /* received bytes move quick_us at most this far into the future */

/* ---- the queues ---- */

static void leave_queue(struct dt_conn *conn)
{
    struct dt_conn_queue *queue = &conn->conns->queues[conn->wait];
    dt_assert_cmp(queue->n, >, 0);
    DL_DELETE(queue->first, conn);
    queue->n--;
    conn->conns->n--;
    if (conn->wait == DT_WAIT_FIRST)
        dt_metric_add(conn->conns->rules.meters->waiting, -1);
}

void dt_conn_join(struct dt_conn *conn, enum dt_wait wait)
{
    struct dt_conn_queue *queue = &conn->conns->queues[wait];
    conn->wait = wait;
    conn->since_us = wait == DT_WAIT_BODY ? conn->begun_us : conn->conns->loop.now_us;
    struct dt_conn *before = queue->first ? queue->first->prev : NULL;
    while (before && before->since_us > conn->since_us)
        before = before == queue->first ? NULL : before->prev;
    if (before)
        DL_APPEND_ELEM(queue->first, before, conn);
    else
        DL_PREPEND(queue->first, conn);
    queue->n++;
    conn->conns->n++;
    if (wait == DT_WAIT_FIRST)
        dt_metric_add(conn->conns->rules.meters->waiting, 1);
}

void dt_conn_requeue(struct dt_conn *conn)
{
    enum dt_wait wait = dt_conn_is_owners(conn) ? DT_WAIT_OWNER : DT_WAIT_BODY;
    if (conn->parent ? conn->answered && !conn->parted : dt_conn_unsent(conn) && !conn->sock.broken)
        wait = DT_WAIT_SEND;
    else if (conn->streams)
        wait = DT_WAIT_STREAMS;
    else if (conn->parted && !conn->parent)
        wait = DT_WAIT_LINGER;
    else if (!conn->request)
        wait = !conn->served ? DT_WAIT_FIRST : conn->held.n || conn->heading ? DT_WAIT_HEAD : DT_WAIT_IDLE;
    if (wait == conn->wait && !conn->moved)
        return;
    conn->moved = false; /* the connection now waits for another request */
    if (conn->wait == DT_WAIT_OWNER && wait == DT_WAIT_BODY)
        conn->begun_us += conn->conns->loop.now_us - conn->since_us;
    leave_queue(conn);
    dt_conn_join(conn, wait);
}

void dt_conn_close(struct dt_conn *conn)
{
    dt_conns *conns = conn->conns;
    dt_assert(!conn->request);
    if (conn->sock.files) {
        dt_metric_add(conns->rules.meters->secure, -1);
        if (!conn->sock.greeted)
            dt_metric_add(conns->rules.meters->deserted, 1);
    }
    leave_queue(conn);
    dt_evloop_forget(&conns->loop, &conn->source);
    if (conn->parent) {
        conn->sock.fd = -1;
        if (conn->poll_fd >= 0)
            close(conn->poll_fd);
    } else {
        dt_sock_close(&conn->sock);
        dt_metric_add(conns->rules.meters->open, -1);
    }
    dt_strbuf_clear(&conn->held);
    dt_strbuf_clear(&conn->out);
    LL_PREPEND2(conns->dead, conn, next);
    dt_assert_cmp(atomic_fetch_sub(&conns->count, 1), >, 0);
}

/* ---- a request ---- */

/* Changes whether a request is under way, and their number. */
static void set_request(struct dt_conn *conn, bool request)
{
    _Atomic size_t *requests = &conn->conns->requests;
    const size_t before = atomic_load_explicit(requests, memory_order_relaxed);
    atomic_store_explicit(requests, before + request - conn->request, memory_order_relaxed);
    conn->request = request;
    conn->moved = true;
}

void dt_conn_begin_request(struct dt_conn *conn)
{
    const struct dt_head *head = &conn->frames.head;
    dt_assert(!conn->request && dt_conn_unsent(conn) == 0);
    set_request(conn, true);
    conn->begun_us = conn->quick_us = conn->conns->loop.now_us;
    conn->dropped = 0;
    conn->bare = dt_str_is(head->method, "HEAD");
    conn->expects = head->expects && !head->old && (head->chunked || head->length);
    conn->conns->events.begun(conn, head);
}

size_t dt_conn_offer(struct dt_conn *conn, struct dt_str text)
{
    const struct dt_conn_events *events = &conn->conns->events;
    const size_t n = text.n < conn->frames.left ? text.n : (size_t)conn->frames.left;
    const int64_t now_us = conn->conns->loop.now_us;
    conn->expects = false; /* the client sends the body without waiting for 100 Continue */
    conn->quick_us =
        dt_earlier(dt_later(conn->quick_us, now_us) + (int64_t)n * 1000000 / QUICK_BYTES, now_us + QUICK_MOST);
    if (conn->answered || !events->body)
        return n;
    const size_t taken = events->body(conn, text.p, n);
    dt_assert_cmp(taken, <=, n);
    conn->waiting |= taken < n && !conn->answered;
    return conn->answered ? n : taken;
}

void dt_conn_complete_request(struct dt_conn *conn)
{
    conn->whole = true;
    if (!conn->answered)
        conn->conns->events.whole(conn);
}

bool dt_conn_owes_continue(struct dt_conn *conn)
{
    const bool owes = conn->expects && !conn->whole && !conn->answered && !conn->waiting;
    conn->expects &= !owes;
    return owes;
}

void dt_conn_refuse(struct dt_conn *conn, int status, const char *detail)
{
    dt_assert(conn->conns->current == dt_conn_base(conn));
    conn->closing = conn->whole = true;
    conn->waiting = false;
    if (conn->answered) { /* the owner has answered the request already, so there is no refusal */
        conn->sock.broken |= conn->parent != NULL;
        return;
    }
    set_request(conn, true);
    conn->conns->events.refused(conn, status, detail);
}

void dt_conn_end_request(struct dt_conn *conn, bool sent)
{
    dt_assert(conn->request);
    set_request(conn, false);
    conn->whole = conn->answered = conn->waiting = conn->bare = conn->expects = conn->listens = false;
    conn->served = true;
    if (conn->conns->events.ended)
        conn->conns->events.ended(conn, sent);
}

/* ---- the head of a response ---- */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {207, "Multi-Status"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

void dt_reply_add_header(struct dt_strbuf *out, struct dt_str name, struct dt_str value)
{
    dt_strbuf_add(out, name.p, name.n);
    dt_strbuf_adds(out, ": ");
    dt_strbuf_add(out, value.p, value.n);
    dt_strbuf_adds(out, "\r\n");
}

/* Returns the date for the header Date, like "Sun, 06 Nov 1994 08:49:37 GMT". */
static const char *date_of_second(struct dt_conns *conns)
{
    const time_t now_s = (time_t)(dt_clock_real_ms(conns->loop.clock) / 1000);
    struct tm utc;
    if (now_s != conns->date_s) {
        conns->date_s = now_s;
        if (!gmtime_r(&now_s, &utc) || strftime(conns->date, DT_CONN_DATE, "%a, %d %b %Y %H:%M:%S GMT", &utc) == 0)
            conns->date[0] = '\0';
    }
    return conns->date;
}

void dt_conn_add_head(struct dt_conn *conn, struct dt_strbuf *out, const struct dt_reply *reply, const char *connection)
{
    const char *date = date_of_second(conn->conns);
    const char *reason = "Status"; /* reason phrase; clients use only the number */
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == reply->status)
            reason = reasons[i].reason;
    dt_strbuf_adds(out, "HTTP/1.1 ");
    dt_strbuf_add_i64(out, reply->status);
    dt_strbuf_addc(out, ' ');
    dt_strbuf_adds(out, reason);
    dt_strbuf_adds(out, "\r\n");
    if (date[0])
        dt_reply_add_header(out, DT_STR_LIT("Date"), dt_str(date));
    if (connection)
        dt_reply_add_header(out, DT_STR_LIT("Connection"), dt_str(connection));
    if (!dt_reply_is_bare(reply->status)) {
        dt_strbuf_adds(out, "Content-Length: ");
        dt_strbuf_add_i64(out, reply->body ? (int64_t)reply->body->n : 0);
        dt_strbuf_adds(out, "\r\n");
    }
    if (reply->type)
        dt_reply_add_header(out, DT_STR_LIT("Content-Type"), dt_str(reply->type));
    dt_strbuf_add(out, reply->headers.p, reply->headers.n);
    dt_strbuf_adds(out, "\r\n");
}
