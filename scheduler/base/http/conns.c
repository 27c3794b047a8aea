/*
 * Owns all connections of a thread: which are accepted, which are late, which give way to others, and how all end. See
 * connection.h; single connections are connection.c's.
 *
 * Listeners are served at the end of a round, so that the other connections are read before a newcomer takes a place.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"
#include "connection_parts.h"

#define ACCEPTS   64 /* a round, of each listener */
#define LINGER_US INT64_C(2000000)
#define LOOK_US   INT64_C(250000) /* at most between rounds while a client is waited for, so that a stop is noticed */

/* ---- beginning and end ---- */

dt_status dt_conns_new(const struct dt_conn_rules *rules, const struct dt_conn_events *events, void *arg,
                       const dt_clock *clock, dt_conns **out, struct dt_error *err)
{
    dt_conns *conns = calloc(1, sizeof(*conns));
    *out = NULL;
    dt_assert(events->begun && events->whole && events->refused && rules->most > 0);
    if (conns)
        conns->in = malloc(DT_CONN_IN);
    dt_status status = conns && conns->in ? dt_evloop_init(&conns->loop, clock, err)
                                          : dt_fail(err, DT_NOMEM, "no memory for HTTP connections");
    if (status != DT_OK) {
        dt_conns_free(conns);
        return status;
    }
    conns->date_s = -1;
    conns->rules = *rules;
    conns->events = *events;
    conns->arg = arg;
    conns->queues[DT_WAIT_LINGER].length_us = LINGER_US;
    conns->queues[DT_WAIT_FIRST].length_us = conns->queues[DT_WAIT_HEAD].length_us = rules->head_us;
    conns->queues[DT_WAIT_IDLE].length_us = rules->idle_us;
    conns->queues[DT_WAIT_BODY].length_us = rules->body_us;
    conns->queues[DT_WAIT_SEND].length_us = rules->send_us;
    *out = conns;
    return DT_OK;
}

static void free_dead(dt_conns *conns)
{
    while (conns->dead) {
        struct dt_conn *conn = conns->dead;
        conns->dead = conn->next;
        free(conn);
    }
}

void dt_conns_free(dt_conns *conns)
{
    if (!conns)
        return;
    dt_assert_cmp(conns->queues[DT_WAIT_OWNER].n, ==, 0);
    for (int wait = 0; wait < DT_WAITS; wait++)
        while (conns->queues[wait].first) {
            struct dt_conn *conn = conns->queues[wait].first;
            conn->sock.broken = true;
            dt_conn_serve(conn, 0);
            dt_assert(conn->sock.fd < 0);
        }
    dt_assert_cmp(dt_conns_count(conns), ==, 0);
    free_dead(conns);
    dt_evloop_clear(&conns->loop);
    dt_strbuf_clear(&conns->out);
    free(conns->in);
    free(conns);
}

/* ---- accepting ---- */

/* Ends the connection that is the least useful, if one waits for its client. */
static bool make_room(dt_conns *conns)
{
    for (int wait = 0; wait < DT_WAIT_OWNER; wait++)
        for (size_t left = conns->queues[wait].n; left && conns->queues[wait].first; left--) {
            struct dt_conn *conn = conns->queues[wait].first;
            if (!dt_conn_look_again(conn))
                continue;
            dt_conn_give_up(conn, 0, NULL);
            if (conn->sock.fd >= 0 && conn->wait == DT_WAIT_LINGER) /* it was idle, and has parted */
                dt_conn_give_up(conn, 0, NULL);
            if (conn->sock.fd < 0)
                return true;
        }
    return false;
}

bool dt_conns_adopt(dt_conns *conns, int fd, const struct sockaddr *address, socklen_t n, dt_tls_files *files)
{
    const int one = 1;
    struct dt_conn *conn = calloc(1, sizeof(*conn) + conns->events.own);
    if (!conn) {
        close(fd);
        return false;
    }
    conn->conns = conns;
    conn->source = (struct dt_evsource){.ready = dt_conn_serve, .owner = conn};
    conn->local = !address || !dt_address_bytes(address, n, conn->address);
    dt_sock_init(&conn->sock, fd, files);
    dt_frames_init(&conn->frames);
    if (!conn->local)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    dt_conn_join(conn, DT_WAIT_FIRST);
    atomic_fetch_add(&conns->n, 1);
    conn->sock.broken = !dt_evloop_watch(&conns->loop, fd, &conn->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    dt_conn_serve(conn, 0); /* what came with it is served before others can take its place */
    return true;
}

static void accept_some(dt_conns *conns, const struct dt_conn_listener *listener)
{
    const struct timespec moment = {0, 10 * 1000000};
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage address;
        socklen_t n = sizeof(address);
        int fd = accept4(listener->fd, (struct sockaddr *)&address, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !make_room(conns))
            nanosleep(&moment, NULL);
        if (fd < 0)
            return;
        if (dt_conns_count(conns) >= conns->rules.most && !make_room(conns))
            close(fd); /* all have requests that are being answered */
        else
            (void)dt_conns_adopt(conns, fd, (const struct sockaddr *)&address, n, listener->files);
    }
}

static void note_ready(void *owner, uint32_t events)
{
    struct dt_conn_listener *listener = owner;
    (void)events;
    listener->ready = true;
}

dt_status dt_conns_listen(dt_conns *conns, int fd, dt_tls_files *files, struct dt_error *err)
{
    dt_assert_cmp(conns->n_listeners, <, DT_CONN_LISTENERS);
    struct dt_conn_listener *listener = &conns->listeners[conns->n_listeners];
    *listener = (struct dt_conn_listener){.conns = conns, .files = files, .fd = fd};
    listener->source = (struct dt_evsource){.ready = note_ready, .owner = listener};
    if (!dt_evloop_watch(&conns->loop, fd, &listener->source, EPOLLIN | EPOLLEXCLUSIVE))
        return dt_fail(err, DT_SYSTEM, "cannot wait for connections");
    conns->n_listeners++;
    return DT_OK;
}

/* ---- deadlines ---- */

/* Gives up connections that have waited too long. Returns when the next one will have. */
static int64_t sweep(dt_conns *conns)
{
    const int64_t now_us = conns->loop.now_us;
    int64_t next_us = INT64_MAX;
    for (int wait = 0; wait < DT_WAIT_OWNER; wait++) {
        const struct dt_conn_queue *queue = &conns->queues[wait];
        while (queue->first && queue->first->since_us + queue->length_us <= now_us) {
            struct dt_conn *conn = queue->first;
            if (!dt_conn_look_again(conn))
                continue;
            dt_conn_give_up(conn, wait == DT_WAIT_IDLE ? 0 : 408,
                            wait == DT_WAIT_BODY ? "the body did not come in time" : "no whole request in time");
            dt_assert(conn->sock.fd < 0 || (int)conn->wait != wait || conn->since_us == now_us);
        }
        if (queue->first)
            next_us = dt_earlier(next_us, queue->first->since_us + queue->length_us);
        if (queue->first && wait != DT_WAIT_IDLE)
            next_us = dt_earlier(next_us, now_us + LOOK_US);
    }
    return next_us;
}

/* Ends what the stage ends: idle connections, then requests that are not whole. */
static void end_some(dt_conns *conns, int stage)
{
    static const enum dt_wait cut[] = {DT_WAIT_FIRST, DT_WAIT_HEAD, DT_WAIT_BODY};
    for (size_t i = 0; i < conns->n_listeners; i++)
        (void)epoll_ctl(conns->loop.epoll, EPOLL_CTL_DEL, conns->listeners[i].fd, NULL);
    conns->n_listeners = 0;
    while (conns->queues[DT_WAIT_IDLE].first)
        if (dt_conn_look_again(conns->queues[DT_WAIT_IDLE].first))
            dt_conn_give_up(conns->queues[DT_WAIT_IDLE].first, 0, NULL);
    for (size_t i = 0; stage >= DT_CONNS_CUT && i < sizeof(cut) / sizeof(cut[0]); i++)
        while (conns->queues[cut[i]].first)
            if (dt_conn_look_again(conns->queues[cut[i]].first))
                dt_conn_give_up(conns->queues[cut[i]].first, 503, "the server is shutting down");
}

/* ---- rounds ---- */

void dt_conns_round(dt_conns *conns)
{
    const int64_t next_us = sweep(conns);
    dt_evloop_round(&conns->loop, next_us);
    for (size_t i = 0; i < conns->n_listeners; i++)
        if (conns->listeners[i].ready) {
            conns->listeners[i].ready = false;
            accept_some(conns, &conns->listeners[i]);
        }
    const int stage = atomic_load(&conns->stage);
    if (stage != DT_CONNS_OPEN)
        end_some(conns, stage);
    size_t waiting = 0;
    for (int wait = 0; wait < DT_WAITS; wait++)
        waiting += conns->queues[wait].n;
    dt_assert_cmp(waiting, ==, dt_conns_count(conns));
    free_dead(conns);
    conns->greetings = 0;
}

void dt_conns_run(dt_conns *conns)
{
    while (atomic_load(&conns->stage) != DT_CONNS_STOP)
        dt_conns_round(conns);
}

void dt_conns_enter(dt_conns *conns, enum dt_conns_stage stage)
{
    dt_assert_cmp(atomic_exchange(&conns->stage, (int)stage), <=, stage);
    dt_evloop_wake(&conns->loop);
}

size_t dt_conns_count(const dt_conns *conns)
{
    return atomic_load_explicit(&conns->n, memory_order_relaxed);
}

struct dt_evloop *dt_conns_loop(dt_conns *conns)
{
    return &conns->loop;
}

/* ---- of one connection ---- */

void *dt_conn_own(dt_conn *conn)
{
    return conn->own;
}

void *dt_conn_arg(const dt_conn *conn)
{
    return conn->conns->arg;
}

bool dt_conn_address(const dt_conn *conn, unsigned char out[DT_ADDRESS_BYTES])
{
    memcpy(out, conn->address, DT_ADDRESS_BYTES);
    return !conn->local;
}
