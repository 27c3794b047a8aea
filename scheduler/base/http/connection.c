/*
 * The turns of one connection: see connection.h. Does not know what the requests mean.
 *
 * A turn is the uninterrupted work on one connection: it reads and parses, calls the owner (the program that uses
 * connection.h) and writes. Only one connection has a turn at a time (`current`). A turn uses buffers that all
 * connections share (`in`, `out`); bytes that remain at the end of the turn move to the connection's own buffers. If an
 * owner answers on another connection during a turn, the other connection gets a turn in the next round.
 *
 * Invariants: the memory of a closed connection stays until the round ends, because events of the round may point to
 * it. Unparsed bytes of a connection fit into `in`, and nothing is read while an owner has the request.
 */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/assert.h"
#include "connection_parts.h"

#define IN_SMALL   ((size_t)16 * 1024) /* most bytes of one read outside of bodies: a head, and what follows it */
#define DIRECT     ((size_t)16 * 1024) /* a response body larger than this is not copied */
#define TURN_READS 8                   /* most reads of a turn; then other connections get their turns */
#define UNREAD_US  INT64_C(250000)     /* extension of a body's deadline if the socket still has unread bytes */
/* Most bytes of a client that are dropped while the owner has its request (dt_conn_listen). */
#define DROPPED_MOST ((size_t)4096 * 1024)

static void run_turn(struct dt_conn *conn);

/* ---- sending ---- */

/* Returns the buffer for bytes of a response: the buffer of the turn, unless older bytes wait in the connection's own
 * buffer. */
static struct dt_strbuf *output_buffer_of(struct dt_conn *conn)
{
    return conn->conns->current == conn && dt_conn_unsent(conn) == 0 ? &conn->conns->out : &conn->out;
}

/* Writes as many response bytes as the socket accepts, and keeps the other bytes. */
static void flush_output(struct dt_conn *conn, bool more)
{
    struct dt_strbuf *turns = &conn->conns->out;
    dt_assert(conn->conns->current == conn);
    if (dt_conn_unsent(conn)) {
        dt_assert_cmp(turns->n, ==, 0);
        conn->out_at += dt_sock_write(&conn->sock, conn->out.p + conn->out_at, dt_conn_unsent(conn), more);
    }
    if (turns->n || turns->failed) {
        size_t sent = dt_sock_write(&conn->sock, turns->p, turns->n, more);
        if (sent < turns->n)
            dt_strbuf_add(&conn->out, turns->p + sent, turns->n - sent);
        conn->sock.broken |= turns->failed;
        dt_strbuf_reset(turns);
        if (turns->cap > DT_CONN_OUT)
            dt_strbuf_clear(turns);
    }
    conn->sock.broken |= conn->out.failed;
    if (conn->out.n && (!dt_conn_unsent(conn) || conn->sock.broken)) {
        dt_strbuf_clear(&conn->out);
        conn->out_at = 0;
    }
}

/* Begins a turn if the owner calls outside of a turn. Returns true if it began one. */
static bool begin_turn(struct dt_conn *conn)
{
    if (conn->conns->current || conn->parent)
        return false;
    conn->conns->current = conn;
    return true;
}

static void run_turn_if_begun(struct dt_conn *conn, bool entered)
{
    if (entered)
        run_turn(conn);
    else if (conn->conns->current != conn)
        dt_evloop_again(&conn->conns->loop, &conn->source);
}

/* Sends a body, or adds it to the output. Takes over the memory of a large body that the socket does not accept. */
static void send_body(struct dt_conn *conn, struct dt_strbuf *body)
{
    const bool direct = body->n > DIRECT && conn->conns->current == conn;
    if (direct)
        flush_output(conn, true);
    if (!direct || dt_conn_unsent(conn)) {
        dt_strbuf_add(output_buffer_of(conn), body->p, body->n);
        return;
    }
    const size_t sent = dt_sock_write(&conn->sock, body->p, body->n, false);
    if (sent < body->n) {
        dt_strbuf_clear(&conn->out);
        conn->out = *body;
        conn->out_at = sent;
        *body = (struct dt_strbuf){0};
    }
}

void dt_conn_answer(dt_conn *conn, struct dt_reply *reply)
{
    struct dt_strbuf *body = reply->body;
    const struct dt_head *head = &conn->frames.head;
    const bool has_body = body && body->n && !conn->bare && !dt_reply_is_bare(reply->status);
    dt_assert(conn->request && !conn->answered);
    conn->answered = true;
    conn->waiting = false;
    const bool entered = begin_turn(conn);
    if (conn->parent && !conn->sock.broken) {
        struct dt_strbuf text = {0};
        conn->closing |= !dt_conn_may_drop(conn);
        dt_conn_add_head(conn, &text, reply, NULL);
        dt_h2_answer(conn, &text, has_body ? body : NULL);
        dt_strbuf_clear(&text);
        return;
    }
    if (!conn->sock.broken) {
        const char *connection = head->old ? "keep-alive" : NULL; /* says whether the connection stays open */
        conn->closing |= reply->close || head->close || (head->old && !head->keep) || !dt_conn_may_drop(conn) ||
                         atomic_load_explicit(&conn->conns->stage, memory_order_relaxed) != DT_CONNS_OPEN;
        dt_conn_add_head(conn, output_buffer_of(conn), reply, conn->closing ? "close" : connection);
        if (has_body)
            send_body(conn, body);
    }
    run_turn_if_begun(conn, entered);
}

/* ---- receiving ---- */

void dt_conn_wait(dt_conn *conn)
{
    dt_assert(conn->request && !conn->whole && !conn->answered && conn->conns->current == dt_conn_base(conn));
    conn->waiting = true;
}

void dt_conn_go_on(dt_conn *conn)
{
    const bool entered = begin_turn(conn);
    dt_assert(conn->waiting);
    conn->waiting = false;
    conn->quick_us = conn->conns->loop.now_us;
    run_turn_if_begun(conn, entered);
}

void dt_conn_listen(dt_conn *conn)
{
    dt_assert(conn->request && conn->whole && !conn->answered);
    conn->listens = true;
    if (!conn->parent) /* frames of an HTTP/2 connection are always read */
        dt_evloop_again(&conn->conns->loop, &conn->source);
}

/* Returns whether to drop the n bytes that follow the owner's current request, because they are too many to be kept. */
static bool must_drop_bytes(struct dt_conn *conn, size_t n)
{
    if (!conn->listens || !dt_conn_is_owners(conn) || (n < IN_SMALL && !conn->closing))
        return false;
    conn->closing = true;
    conn->dropped += n;
    if (conn->dropped > DROPPED_MOST) {
        conn->sock.broken = true;
        shutdown(conn->sock.fd, SHUT_RDWR); /* a program that polls the socket sees the end */
    }
    return true;
}

/* Parses bytes that were read, and removes them from the text. Returns false if more bytes are needed. Returns true if
 * parsing stopped for another reason: the owner has the request, responses must be sent first, or the connection
 * closes. */
static bool parse_bytes(struct dt_conn *conn, struct dt_str *text)
{
    struct dt_frames *frames = &conn->frames;
    while (!conn->closing && !conn->waiting && !conn->sock.broken) {
        if (conn->request && !conn->whole && frames->next == DT_FRAME_HEAD) {
            dt_conn_complete_request(conn);
            if (conn->answered && !conn->closing && text->n && dt_conn_unsent(conn) == 0)
                dt_conn_end_request(conn, true); /* this response is sent together with the next one */
            continue;
        }
        if (text->n == 0)
            return false;
        if (conn->request ? conn->whole : dt_conn_unsent(conn) || conn->conns->out.n > DT_CONN_OUT)
            return true;
        const uint64_t heads = frames->heads;
        struct dt_str piece = *text;
        if (frames->next == DT_FRAME_BODY)
            piece.n = dt_conn_offer(conn, *text);
        const size_t n = piece.n ? dt_frames_step(frames, piece) : 0;
        *text = (struct dt_str){text->p + n, text->n - n};
        if (frames->next == DT_FRAME_REFUSED) {
            if (!conn->served)
                dt_metric_add(conn->conns->rules.meters->refused, 1);
            dt_conn_refuse(conn, frames->head.status, frames->head.detail);
        } else if (frames->heads != heads)
            dt_conn_begin_request(conn);
        else if (n == 0 && !conn->waiting)
            return false;
    }
    return true;
}

/* Reads from the socket once, and appends the bytes to the text. */
static void read_from_socket(struct dt_conn *conn, struct dt_str *text)
{
    char *in = conn->conns->in;
    const size_t room = conn->h2 || conn->frames.next == DT_FRAME_BODY ? DT_CONN_IN : IN_SMALL;
    dt_assert_cmp(text->n, <, room);
    if (text->n && text->p != in)
        memmove(in, text->p, text->n);
    const size_t n = dt_sock_read(&conn->sock, in + text->n, room - text->n);
    *text = (struct dt_str){in, text->n + n};
}

/* ---- a turn ---- */

/* Ends the turn: keeps bytes that were not parsed; closes the connection, or puts it into the queue of its next
 * wait. */
static void end_turn(struct dt_conn *conn, struct dt_str text)
{
    dt_assert_cmp(text.n, <=, DT_CONN_IN);
    dt_assert_cmp(conn->out_at, <=, conn->out.n);
    dt_strbuf_clear(&conn->held);
    if (text.n)
        dt_strbuf_add(&conn->held, text.p, text.n);
    conn->sock.broken |= conn->held.failed;
    const bool stuck =
        conn->sock.ended && conn->request && !conn->whole; /* the rest of an answered request's body cannot arrive */
    if (conn->sock.broken || conn->sock.ended)
        dt_h2_break(conn);
    bool ends = !dt_conn_is_owners(conn) && !conn->streams && (conn->sock.broken || stuck);
    if (ends && conn->request)
        dt_conn_end_request(conn, conn->answered && !conn->sock.broken);
    if (!ends && !conn->request && !conn->streams && dt_conn_unsent(conn) == 0 && (conn->closing || conn->sock.ended)) {
        if (!conn->parted)
            dt_sock_part(&conn->sock);
        conn->parted = true; /* the client gets time to read the last response */
        ends = conn->sock.ended;
    }
    if (ends) {
        dt_h2_free(conn->h2);
        dt_conn_close(conn);
    } else {
        dt_conn_requeue(conn);
    }
}

/* Continues the TLS handshake. Returns false if no request can be read now. */
static bool continue_handshake(struct dt_conn *conn)
{
    if (conn->sock.tls && conn->conns->greetings++ >= DT_CONN_GREETINGS) {
        dt_evloop_again(&conn->conns->loop, &conn->source);
        return false;
    }
    const enum dt_sock_greeting result = dt_sock_greet(&conn->sock);
    switch (result) {
    case DT_SOCK_GREETED:
    case DT_SOCK_GREETED_H2:
        dt_metric_add(conn->conns->rules.meters->greeted, 1);
        if (result == DT_SOCK_GREETED_H2)
            dt_h2_begin(conn);
        return true;
    case DT_SOCK_NOT_TLS:
        dt_metric_add(conn->conns->rules.meters->no_tls, 1);
        dt_conn_refuse(conn, DT_HEAD_MALFORMED, "this port requires TLS: use https");
        return true;
    case DT_SOCK_FAILED:
        dt_metric_add(conn->conns->rules.meters->not_greeted, 1);
        conn->closing = true;
        return false;
    case DT_SOCK_GREETING:
        break;
    }
    return false;
}

/* Reads, parses and writes until the connection must wait for the socket, the owner or the client. Ends the turn. */
static void run_turn(struct dt_conn *conn)
{
    struct dt_conns *conns = conn->conns;
    struct dt_sock *sock = &conn->sock;
    struct dt_str text = {conns->in, conn->held.n};
    int reads = 0;
    dt_assert(conns->current == conn && sock->fd >= 0);
    bool goes_on = sock->greeted || (sock->may_read && !sock->broken && continue_handshake(conn));
    if (conn->held.n)
        memcpy(conns->in, conn->held.p, conn->held.n);
    while (goes_on) {
        const bool decided = conn->http1 || conn->h2 || dt_h2_decide(conn, text);
        const bool stopped = conn->h2 ? dt_h2_pass(conn, &text) : decided && parse_bytes(conn, &text);
        if (dt_conn_owes_continue(conn))
            dt_strbuf_adds(output_buffer_of(conn), "HTTP/1.1 100 Continue\r\n\r\n");
        flush_output(conn, false);
        if (sock->broken || dt_conn_unsent(conn)) {
            goes_on = false;
        } else if (conn->request && conn->answered && (conn->whole || conn->closing)) {
            dt_conn_end_request(conn, true);
        } else if (stopped && !conn->parted && !(conn->listens && dt_conn_is_owners(conn))) {
            /* Continues to read if parsing stopped only because responses had to be sent first; they were sent
             * above. */
            goes_on = !conn->request && !conn->closing;
        } else if (sock->ended && conn->request && !conn->whole && !conn->answered) {
            dt_conn_refuse(conn, DT_HEAD_MALFORMED, "the connection ended before the body");
        } else if (sock->ended || !sock->may_read) {
            goes_on = false;
        } else if (++reads > TURN_READS) {
            dt_evloop_again(&conns->loop, &conn->source);
            goes_on = false;
        } else {
            text.n = conn->parted || must_drop_bytes(conn, text.n)
                         ? 0
                         : text.n; /* bytes that arrive from now on are dropped */
            read_from_socket(conn, &text);
        }
    }
    end_turn(conn, text);
    dt_assert_cmp(conns->out.n, ==, 0);
    conns->current = NULL;
}

/* Runs the turn of a connection; for a stream of HTTP/2, also its connection's turn. */
static void run_turn_with_parent(struct dt_conn *conn)
{
    if (conn->parent)
        dt_h2_serve(conn);
    run_turn(dt_conn_base(conn));
}

void dt_conn_serve(void *owner, uint32_t events)
{
    struct dt_conn *conn = owner;
    if (conn->sock.fd < 0)
        return; /* the connection was closed in this round */
    dt_assert(!conn->conns->current);
    conn->conns->current = dt_conn_base(conn);
    if (!conn->parent)
        dt_sock_event(&conn->sock, events);
    if (events & (EPOLLHUP | EPOLLERR) && (conn->streams || dt_conn_is_owners(conn)))
        conn->sock.broken = true;
    run_turn_with_parent(conn);
}

/* Reads from the socket. Returns false if the connection no longer waits as before, or goes on to receive a body. */
static bool look_again(struct dt_conn *conn)
{
    const enum dt_wait wait = conn->wait;
    const int64_t since_us = conn->since_us;
    const int64_t quick_us = conn->quick_us;
    const int64_t now_us = conn->conns->loop.now_us;
    const int64_t body_us = conn->conns->rules.body_us;
    struct dt_conn *base = dt_conn_base(conn);
    base->sock.may_read = true;
    dt_conn_serve(conn, 0);
    if (conn->sock.fd < 0 || conn->wait != wait || conn->since_us != since_us)
        return false;
    if (wait != DT_WAIT_BODY)
        return true;
    if (!base->sock.may_read || now_us - conn->begun_us > 2 * body_us)
        return conn->quick_us == quick_us || since_us + body_us <= now_us;
    conn->begun_us = dt_later(conn->begun_us, now_us - body_us + UNREAD_US);
    conn->moved = true;
    dt_conn_requeue(conn);
    return false;
}

bool dt_conn_give_up(struct dt_conn *conn, int status, const char *detail)
{
    if (!look_again(conn))
        return false;
    const bool sends = conn->wait == DT_WAIT_SEND || conn->wait == DT_WAIT_LINGER;
    dt_assert(!conn->conns->current && conn->wait != DT_WAIT_OWNER);
    conn->conns->current = dt_conn_base(conn);
    if (conn->h2 && !sends)
        dt_h2_leave(conn);
    else if (status && conn->sock.greeted && !sends)
        dt_conn_refuse(conn, status, detail);
    else if (conn->wait == DT_WAIT_IDLE && conn->sock.greeted)
        conn->closing = true;
    else
        conn->sock.broken = true;
    run_turn_with_parent(conn);
    return true;
}
