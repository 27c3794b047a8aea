/*
 * What HTTP/1 connections and HTTP/2 streams have in common: the queue of what each waits for, and a request from its
 * head to its end. Does not know how bytes are sent and received.
 *
 * Invariants: an open connection or stream is in exactly one queue, ordered by when its wait began; `n` is the sum of
 * the queues' lengths. A closed one is in no queue.
 */
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"
#include "connection_parts.h"

#define QUICK_BYTES 4096             /* bytes per second at which a body counts as fast enough */
#define QUICK_MOST  INT64_C(1000000) /* received bytes move quick_us at most this far into the future */

void dt_conn_leave_queue(struct dt_conn *conn)
{
    struct dt_conn_queue *queue = &conn->conns->queues[conn->wait];
    dt_assert_cmp(queue->n, >, 0);
    DL_DELETE(queue->first, conn);
    queue->n--;
    conn->conns->n--;
    if (conn->wait == DT_WAIT_FIRST)
        DT_CONN_GAUGE(conn->conns, waiting, -1);
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
        DT_CONN_GAUGE(conn->conns, waiting, 1);
}

void dt_conn_requeue(struct dt_conn *conn, enum dt_wait wait)
{
    if (wait == conn->wait && !conn->moved)
        return;
    conn->moved = false; /* the connection now waits for another request */
    if (conn->wait == DT_WAIT_OWNER && wait == DT_WAIT_BODY)
        conn->begun_us += conn->conns->loop.now_us - conn->since_us;
    dt_conn_leave_queue(conn);
    dt_conn_join(conn, wait);
}

void dt_conn_close(struct dt_conn *conn)
{
    struct dt_conns *conns = conn->conns;
    dt_assert(!conn->request);
    if (conn->secure) {
        DT_CONN_GAUGE(conns, secure, -1);
        if (!conn->sock.greeted)
            DT_CONN_COUNT(conns, deserted);
    }
    dt_conn_leave_queue(conn);
    dt_evloop_forget(&conns->loop, &conn->source);
    if (conn->parent) {
        conn->sock.fd = -1;
        if (conn->poll_fd >= 0)
            close(conn->poll_fd);
    } else {
        dt_sock_close(&conn->sock);
        DT_CONN_GAUGE(conns, open, -1);
    }
    dt_strbuf_clear(&conn->held);
    dt_strbuf_clear(&conn->out);
    LL_PREPEND2(conns->dead, conn, next);
    dt_assert_cmp(atomic_fetch_sub(&conns->count, 1), >, 0);
}

/* ---- a request ---- */

void dt_conn_begin_request(struct dt_conn *conn, const struct dt_head *head)
{
    dt_assert(!conn->request && dt_conn_unsent(conn) == 0);
    conn->request = conn->moved = true;
    conn->begun_us = conn->quick_us = conn->conns->loop.now_us;
    conn->dropped = 0;
    conn->bare = dt_str_is(head->method, "HEAD");
    conn->old = head->old;
    conn->keep = head->keep;
    conn->ends = head->close;
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

void dt_conn_refuse(struct dt_conn *conn, int status, const char *detail)
{
    dt_assert(conn->conns->current == dt_conn_base(conn));
    conn->closing = conn->whole = true;
    conn->waiting = false;
    if (conn->answered) { /* the owner has answered the request already, so there is no refusal */
        conn->sock.broken |= conn->parent != NULL;
        return;
    }
    conn->request = conn->moved = true;
    conn->conns->events.refused(conn, status, detail);
}

void dt_conn_end_request(struct dt_conn *conn, bool sent)
{
    dt_assert(conn->request);
    conn->request = conn->whole = conn->answered = conn->waiting = false;
    conn->bare = conn->old = conn->keep = conn->ends = conn->expects = conn->listens = false;
    conn->served = conn->moved = true;
    if (conn->conns->events.ended)
        conn->conns->events.ended(conn, sent);
}

const char *dt_conn_date(struct dt_conns *conns)
{
    const int64_t real_ms = dt_clock_real_ms(conns->loop.clock);
    if (real_ms / 1000 != conns->date_s) {
        conns->date_s = real_ms / 1000;
        dt_reply_date(real_ms, conns->date);
    }
    return conns->date;
}
