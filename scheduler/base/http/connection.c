/*
 * Owns the connections of a thread: see connection.h. Refuses to know what is asked on them.
 *
 * A turn is all that one connection does without another's: it reads, judges, calls its owner and writes. Only one
 * connection has a turn at a time (`current`); its bytes are in the buffers that all share (`in`, `out`), and what is
 * left of them at the end of the turn moves to buffers of its own. If an owner answers on another connection during a
 * turn, that one gets its turn in the next round.
 *
 * Invariants: a connection is in exactly one queue, that of what it waits for, in the order in which it began to wait;
 * the queues together have as many as `n`. A closed connection is in none, and its memory stays until the round is
 * over, because events of the round may name it. At most `in` is held of what was not judged, and nothing is read while
 * an owner has the request.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/assert.h"
#include "connection_parts.h"

#define IN_SMALL     ((size_t)16 * 1024) /* read at once, outside of bodies: a head and what follows */
#define OUT_KEPT     ((size_t)64 * 1024) /* answers beyond this leave before further requests are looked at */
#define DIRECT       ((size_t)16 * 1024) /* a larger body is not copied */
#define DROPPED_BODY ((uint64_t)64 * 1024)
#define TURN_READS   8                     /* then others have their turns */
#define QUICK_BYTES  4096                  /* of a body, a second: it is quick enough … */
#define QUICK_MOST   INT64_C(1000000)      /* … for so long at most, whatever has come */
#define UNREAD_US    INT64_C(250000)       /* that a late body has more, if the socket has not been emptied */
#define DROPPED_MOST ((size_t)4096 * 1024) /* dt_conn_listen */

static void run_turn(struct dt_conn *conn);

/* ---- queues, and the end of a connection ---- */

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

static void close_conn(struct dt_conn *conn)
{
    struct dt_conns *conns = conn->conns;
    dt_assert(!conn->request);
    if (conns->events.closed)
        conns->events.closed(conn);
    if (conn->secure) {
        DT_CONN_GAUGE(conns, secure, -1);
        if (!conn->sock.greeted)
            DT_CONN_COUNT(conns, deserted);
    }
    dt_conn_leave_queue(conn);
    dt_evloop_forget(&conns->loop, &conn->source);
    dt_sock_close(&conn->sock);
    free(conn->held);
    dt_strbuf_clear(&conn->out);
    LL_PREPEND2(conns->dead, conn, next);
    DT_CONN_GAUGE(conns, open, -1);
    dt_assert_cmp(atomic_fetch_sub(&conns->count, 1), >, 0);
}

static bool is_owners(const struct dt_conn *conn)
{
    return conn->request && !conn->answered && (conn->whole || conn->waiting);
}

/* The owner does not know yet that its request's client sends nothing further. */
static bool has_left(const struct dt_conn *conn)
{
    const struct dt_sock *sock = &conn->sock;
    return is_owners(conn) && !conn->left && (sock->broken || sock->ended || sock->hung_up);
}

static void end_request(struct dt_conn *conn, bool sent)
{
    dt_assert(conn->request);
    conn->request = conn->whole = conn->answered = conn->waiting = conn->left = false;
    conn->bare = conn->old = conn->keep = conn->ends = conn->expects = conn->listens = false;
    conn->served = conn->moved = true;
    if (conn->conns->events.ended)
        conn->conns->events.ended(conn, sent);
}

/* ---- the way out ---- */

/* Bytes of answers that wait for the client. */
static size_t unsent(const struct dt_conn *conn)
{
    return conn->out.n - conn->out_at;
}

/* Where bytes of an answer go: those of a turn are together, unless older ones wait. */
static struct dt_strbuf *out_of(struct dt_conn *conn)
{
    return conn->conns->current == conn && unsent(conn) == 0 ? &conn->conns->out : &conn->out;
}

/* Writes what the socket takes, and keeps what it does not. */
static void flush(struct dt_conn *conn, bool more)
{
    struct dt_strbuf *turns = &conn->conns->out;
    dt_assert(conn->conns->current == conn);
    if (unsent(conn)) {
        dt_assert_cmp(turns->n, ==, 0);
        conn->out_at += dt_sock_write(&conn->sock, conn->out.p + conn->out_at, unsent(conn), more);
    }
    if (turns->n || turns->failed) {
        size_t sent = dt_sock_write(&conn->sock, turns->p, turns->n, more);
        if (sent < turns->n)
            dt_strbuf_add(&conn->out, turns->p + sent, turns->n - sent);
        conn->sock.broken |= turns->failed;
        dt_strbuf_reset(turns);
        if (turns->cap > OUT_KEPT)
            dt_strbuf_clear(turns);
    }
    conn->sock.broken |= conn->out.failed;
    if (conn->out.n && (!unsent(conn) || conn->sock.broken)) {
        dt_strbuf_clear(&conn->out);
        conn->out_at = 0;
    }
}

/* A call of the owner's on a connection begins a turn, unless there is one. True: it did. */
static bool enter_turn(struct dt_conn *conn)
{
    if (conn->conns->current)
        return false;
    conn->conns->current = conn;
    return true;
}

static void leave_turn(struct dt_conn *conn, bool entered)
{
    if (entered)
        run_turn(conn);
    else if (conn->conns->current != conn)
        dt_evloop_again(&conn->conns->loop, &conn->source);
}

/* Decides whether the connection goes on after this answer, and says so in its head. */
static void add_head(struct dt_conn *conn, const struct dt_reply *reply, size_t length)
{
    struct dt_conns *conns = conn->conns;
    const bool dropped = conn->whole || (!conn->expects && !conn->frames.chunked && conn->frames.left <= DROPPED_BODY);
    const int64_t real_ms = dt_clock_real_ms(conns->loop.clock);
    const char *connection = conn->old ? "keep-alive" : NULL;
    if (real_ms / 1000 != conns->date_s) {
        conns->date_s = real_ms / 1000;
        dt_reply_date(real_ms, conns->date);
    }
    conn->closing |= reply->close || conn->ends || (conn->old && !conn->keep) || !dropped ||
                     atomic_load_explicit(&conns->stage, memory_order_relaxed) != DT_CONNS_OPEN;
    dt_reply_add_head(out_of(conn), reply, length, conn->closing ? "close" : connection, conns->date);
}

void dt_conn_answer(dt_conn *conn, struct dt_reply *reply)
{
    const bool entered = enter_turn(conn);
    struct dt_strbuf *body = reply->body;
    size_t length = body ? body->n : 0;
    dt_assert(conn->request && !conn->answered);
    conn->answered = true;
    conn->waiting = false;
    if (conn->sock.broken) {
        leave_turn(conn, entered);
        return;
    }
    add_head(conn, reply, length);
    if (length && !conn->bare && !dt_reply_is_bare(reply->status)) {
        if (length > DIRECT && conn->conns->current == conn)
            flush(conn, true);
        if (length <= DIRECT || conn->conns->current != conn || unsent(conn)) {
            dt_strbuf_add(out_of(conn), body->p, length);
        } else {
            size_t sent = dt_sock_write(&conn->sock, body->p, length, false);
            if (sent < length) {
                dt_strbuf_clear(&conn->out);
                conn->out = *body;
                conn->out_at = sent;
                *body = (struct dt_strbuf){0};
            }
        }
    }
    leave_turn(conn, entered);
}

/* ---- the way in ---- */

void dt_conn_wait(dt_conn *conn)
{
    dt_assert(conn->request && !conn->whole && !conn->answered && conn->conns->current == conn);
    conn->waiting = true;
}

void dt_conn_go_on(dt_conn *conn)
{
    const bool entered = enter_turn(conn);
    dt_assert(conn->waiting);
    conn->waiting = false;
    conn->quick_us = conn->conns->loop.now_us;
    leave_turn(conn, entered);
}

void dt_conn_listen(dt_conn *conn)
{
    dt_assert(conn->request && conn->whole && !conn->answered);
    conn->listens = true;
    dt_evloop_again(&conn->conns->loop, &conn->source);
}

/* Whether what came after the request that its owner has is dropped: it is too much to be kept. */
static bool drops(struct dt_conn *conn, size_t n)
{
    if (!conn->listens || !is_owners(conn) || (n < IN_SMALL && !conn->closing))
        return false;
    conn->closing = true;
    conn->dropped += n;
    if (conn->dropped > DROPPED_MOST) {
        conn->sock.broken = true;
        shutdown(conn->sock.fd, SHUT_RDWR); /* for whoever polls the socket */
    }
    return true;
}

/* What came is no request, or what was to come has not. The owner says so to the client, if an answer is still due. */
static void refuse(struct dt_conn *conn, int status, const char *detail)
{
    dt_assert(conn->conns->current == conn);
    conn->closing = conn->whole = true;
    conn->waiting = false;
    if (conn->answered) /* the client has been told something else */
        return;
    conn->request = conn->moved = true;
    conn->conns->events.refused(conn, status, detail);
}

static void begin_request(struct dt_conn *conn, const struct dt_head *head)
{
    dt_assert(!conn->request && unsent(conn) == 0);
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

/* Offers the part of a body that has come; returns how much of it was taken. */
static size_t offer_body(struct dt_conn *conn, struct dt_str text)
{
    const struct dt_conn_events *events = &conn->conns->events;
    const size_t n = text.n < conn->frames.left ? text.n : (size_t)conn->frames.left;
    const int64_t now_us = conn->conns->loop.now_us;
    conn->expects = false; /* the client did not wait */
    conn->quick_us =
        dt_earlier(dt_later(conn->quick_us, now_us) + (int64_t)n * 1000000 / QUICK_BYTES, now_us + QUICK_MOST);
    if (conn->answered || !events->body)
        return n;
    const size_t taken = events->body(conn, text.p, n);
    dt_assert_cmp(taken, <=, n);
    conn->waiting |= taken < n && !conn->answered;
    return conn->answered ? n : taken;
}

/*
 * Judges what was read, and takes it off the text. False: all of it was, but for the beginning of something that is not
 * whole. True: something must happen first.
 */
static bool consume(struct dt_conn *conn, struct dt_str *text)
{
    struct dt_frames *frames = &conn->frames;
    while (!conn->closing && !conn->waiting && !conn->sock.broken) {
        if (conn->request && !conn->whole && frames->next == DT_FRAME_HEAD) {
            conn->whole = true;
            if (!conn->answered)
                conn->conns->events.whole(conn);
            if (conn->answered && !conn->closing && text->n && unsent(conn) == 0)
                end_request(conn, true); /* its answer leaves together with that of the next one */
            continue;
        }
        if (text->n == 0)
            return false;
        if (conn->request ? conn->whole : unsent(conn) || conn->conns->out.n > OUT_KEPT)
            return true;
        const uint64_t heads = frames->heads;
        struct dt_str piece = *text;
        if (frames->next == DT_FRAME_BODY)
            piece.n = offer_body(conn, *text);
        const size_t n = piece.n ? dt_frames_step(frames, piece) : 0;
        *text = (struct dt_str){text->p + n, text->n - n};
        if (frames->next == DT_FRAME_REFUSED) {
            if (!conn->served)
                DT_CONN_COUNT(conn->conns, refused);
            refuse(conn, frames->status, frames->detail);
        } else if (frames->heads != heads)
            begin_request(conn, &frames->head);
        else if (n == 0 && !conn->waiting)
            return false;
    }
    return true;
}

/* Reads once, after what the text has. */
static void fill(struct dt_conn *conn, struct dt_str *text)
{
    char *in = conn->conns->in;
    const size_t room = conn->frames.next == DT_FRAME_BODY ? DT_CONN_IN : IN_SMALL;
    dt_assert_cmp(text->n, <, room);
    if (text->n && text->p != in)
        memmove(in, text->p, text->n);
    const size_t n = dt_sock_read(&conn->sock, in + text->n, room - text->n);
    *text = (struct dt_str){in, text->n + n};
}

/* ---- a turn ---- */

/* Ends the turn: keeps what was not judged, and finds what the connection waits for now, or closes it. */
static void settle(struct dt_conn *conn, struct dt_str text)
{
    char *held = text.n ? malloc(text.n) : NULL;
    dt_assert_cmp(text.n, <=, DT_CONN_IN);
    dt_assert_cmp(conn->out_at, <=, conn->out.n);
    if (held)
        memcpy(held, text.p, text.n);
    conn->sock.broken |= text.n && !held;
    free(conn->held);
    conn->held = held;
    conn->held_n = held ? text.n : 0;
    const bool stuck =
        conn->sock.ended && conn->request && !conn->whole; /* the body of an answered request will not come */
    enum dt_wait wait = DT_WAIT_OWNER;
    if (has_left(conn))
        dt_evloop_again(&conn->conns->loop, &conn->source); /* its next turn begins with that */
    if (!is_owners(conn) && (conn->sock.broken || stuck)) {
        if (conn->request)
            end_request(conn, conn->answered && !conn->sock.broken);
        close_conn(conn);
        return;
    }
    if (!conn->request && unsent(conn) == 0 && (conn->closing || conn->sock.ended)) {
        if (!conn->parted)
            dt_sock_part(&conn->sock);
        conn->parted = true; /* the client gets the time to read what was said */
        if (conn->sock.ended) {
            close_conn(conn);
            return;
        }
        wait = DT_WAIT_LINGER;
    } else if (unsent(conn) && !conn->sock.broken) {
        wait = DT_WAIT_SEND;
    } else if (!conn->request) {
        wait = !conn->served ? DT_WAIT_FIRST : conn->held_n ? DT_WAIT_HEAD : DT_WAIT_IDLE;
    } else if (!conn->whole && !conn->waiting) {
        wait = DT_WAIT_BODY;
    }
    if (wait == conn->wait && !conn->moved)
        return;
    conn->moved = false; /* what it waits for is another request's */
    if (conn->wait == DT_WAIT_OWNER && wait == DT_WAIT_BODY)
        conn->begun_us += conn->conns->loop.now_us - conn->since_us;
    dt_conn_leave_queue(conn);
    dt_conn_join(conn, wait);
}

/* The handshake. False: nothing can be read as a request now. */
static bool greet(struct dt_conn *conn)
{
    if (conn->sock.tls && conn->conns->greetings++ >= DT_CONN_GREETINGS) {
        dt_evloop_again(&conn->conns->loop, &conn->source);
        return false;
    }
    switch (dt_sock_greet(&conn->sock)) {
    case DT_SOCK_GREETED:
        DT_CONN_COUNT(conn->conns, greeted);
        return true;
    case DT_SOCK_NOT_TLS:
        DT_CONN_COUNT(conn->conns, no_tls);
        refuse(conn, DT_HEAD_MALFORMED, "TLS is spoken here: ask by https");
        return true;
    case DT_SOCK_FAILED:
        DT_CONN_COUNT(conn->conns, not_greeted);
        conn->closing = true;
        return false;
    case DT_SOCK_GREETING:
        break;
    }
    return false;
}

/* Goes on until the socket, the owner or the client must do something; ends the turn. */
static void run_turn(struct dt_conn *conn)
{
    struct dt_conns *conns = conn->conns;
    struct dt_sock *sock = &conn->sock;
    struct dt_str text = {conns->in, conn->held_n};
    int reads = 0;
    dt_assert(conns->current == conn && sock->fd >= 0);
    bool goes_on = sock->greeted || (sock->may_read && !sock->broken && greet(conn));
    if (conn->held_n)
        memcpy(conns->in, conn->held, conn->held_n);
    while (goes_on) {
        const bool stopped = consume(conn, &text);
        if (conn->expects && !conn->whole && !conn->answered && !conn->waiting) {
            conn->expects = false;
            dt_strbuf_adds(out_of(conn), "HTTP/1.1 100 Continue\r\n\r\n");
        }
        flush(conn, false);
        if (sock->broken || unsent(conn)) {
            goes_on = false;
        } else if (conn->request && conn->answered && (conn->whole || conn->closing)) {
            end_request(conn, true);
        } else if (stopped && !conn->parted && !(conn->listens && is_owners(conn))) {
            goes_on = !conn->request && !conn->closing; /* it stopped for answers, which have left now */
        } else if (sock->ended && conn->request && !conn->whole && !conn->answered) {
            refuse(conn, DT_HEAD_MALFORMED, "the connection ended before the body");
        } else if (sock->ended || !sock->may_read) {
            goes_on = false;
        } else if (++reads > TURN_READS) {
            dt_evloop_again(&conns->loop, &conn->source);
            goes_on = false;
        } else {
            text.n = conn->parted || drops(conn, text.n) ? 0 : text.n; /* what still comes is dropped */
            fill(conn, &text);
        }
    }
    settle(conn, text);
    dt_assert_cmp(conns->out.n, ==, 0);
    conns->current = NULL;
}

void dt_conn_serve(void *owner, uint32_t events)
{
    struct dt_conn *conn = owner;
    if (conn->sock.fd < 0)
        return; /* it was closed in this round */
    dt_assert(!conn->conns->current);
    conn->conns->current = conn;
    dt_sock_event(&conn->sock, events);
    if (events & (EPOLLHUP | EPOLLERR) && is_owners(conn))
        conn->sock.broken = true;
    if (has_left(conn)) {
        conn->left = true;
        if (conn->conns->events.left)
            conn->conns->events.left(conn);
    }
    run_turn(conn);
}

bool dt_conn_look_again(struct dt_conn *conn)
{
    const enum dt_wait wait = conn->wait;
    const int64_t since_us = conn->since_us;
    conn->sock.may_read = true;
    dt_conn_serve(conn, 0);
    if (conn->sock.fd < 0 || conn->wait != wait || conn->since_us != since_us)
        return false;
    const int64_t body_us = conn->conns->rules.body_us;
    if (wait != DT_WAIT_BODY || !conn->sock.may_read || conn->conns->loop.now_us - conn->begun_us > 2 * body_us)
        return true;
    conn->begun_us = dt_later(conn->begun_us, conn->conns->loop.now_us - body_us + UNREAD_US);
    dt_conn_leave_queue(conn);
    dt_conn_join(conn, wait);
    return false;
}

void dt_conn_give_up(struct dt_conn *conn, int status, const char *detail)
{
    dt_assert(!conn->conns->current && conn->wait != DT_WAIT_OWNER);
    conn->conns->current = conn;
    if (status && conn->sock.greeted && conn->wait != DT_WAIT_SEND && conn->wait != DT_WAIT_LINGER)
        refuse(conn, status, detail);
    else if (conn->wait == DT_WAIT_IDLE && conn->sock.greeted)
        conn->closing = true;
    else
        conn->sock.broken = true;
    run_turn(conn);
}
