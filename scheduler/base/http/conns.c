/*
 * All connections of one thread: which are accepted, which have exceeded a deadline, which are closed to make room, and
 * how all are closed. See connection.h; connection.c has single connections.
 *
 * Listeners are served at the end of a round, so that the other connections are read before a new connection takes a
 * place. Threads that share listeners give a new connection to the thread with the fewest connections, as a task.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"
#include "connection_parts.h"

#define ACCEPTS   64 /* most connections that are accepted from a listener in a round */
#define LINGER_US INT64_C(2000000)
#define SLOW_US   INT64_C(500000) /* a connection that was silent or slow for this time may be closed to make room */
#define RUSH      4 /* if the crowd (dt_conn_rules) is this many times its limit, younger connections are closed, too */
#define PRESSED   64              /* most connections that dt_conns_press closes in a round */
#define LOOK_US   INT64_C(250000) /* longest time between rounds while clients are awaited, so that a stop is noticed */

/* ---- beginning and end ---- */

dt_status dt_conns_new(const struct dt_conn_rules *rules, const struct dt_conn_events *events, void *arg,
                       const dt_clock *clock, dt_conns **out, struct dt_error *err)
{
    static const struct dt_conn_meters no_meters;
    dt_conns *conns = calloc(1, sizeof(*conns));
    *out = NULL;
    dt_assert(events->begun && events->whole && events->refused && rules->most > 0 && rules->crowd > 0);
    if (conns)
        conns->in = malloc(DT_CONN_IN);
    dt_status status = conns && conns->in ? dt_evloop_init(&conns->loop, clock, err)
                                          : dt_fail(err, DT_NOMEM, "no memory for HTTP connections");
    if (status != DT_OK) {
        dt_conns_free(conns);
        return status;
    }
    conns->peer = conns;
    conns->date_s = -1;
    conns->rules = *rules;
    conns->rules.meters = rules->meters ? rules->meters : &no_meters;
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

static void free_dead_connections(dt_conns *conns)
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
    dt_evloop_run_posted(&conns->loop); /* adopts connections that other threads have handed over */
    dt_assert_cmp(conns->queues[DT_WAIT_OWNER].n, ==, 0);
    for (int wait = 0; wait < DT_WAITS; wait++)
        while (conns->queues[wait].first) {
            struct dt_conn *base = dt_conn_base(conns->queues[wait].first);
            base->sock.broken = true;
            while (base->sock.fd >= 0)
                dt_conn_serve(base->streams ? base->streams : base, 0);
        }
    dt_assert_cmp(conns->n, ==, 0);
    free_dead_connections(conns);
    dt_evloop_clear(&conns->loop);
    dt_strbuf_clear(&conns->out);
    free(conns->in);
    free(conns);
}

/* ---- accepting ---- */

static bool may_be_closed_for_others(const struct dt_conn *conn, enum dt_wait wait, bool known)
{
    if (conn->sock.fd < 0 || conn->wait != wait)
        return false; /* the turn of another stream of the same connection has closed this one, or changed its wait */
    const bool at_once = wait == DT_WAIT_LINGER || wait == DT_WAIT_IDLE;
    const int64_t since_us = wait == DT_WAIT_BODY ? conn->quick_us : conn->since_us;
    return conn->known == known && (at_once || conn->conns->loop.now_us - since_us > SLOW_US);
}

/* Closes one connection of the queue of `wait`. Unknown clients are closed before known ones, and the longest wait
 * first. */
static bool close_one_waiting(dt_conns *conns, enum dt_wait wait)
{
    struct dt_conn *conn;
    struct dt_conn *next;
    for (int known = 0; known < 2; known++)
        DL_FOREACH_SAFE(conns->queues[wait].first, conn, next)
    if (may_be_closed_for_others(conn, wait, known) &&
        dt_conn_give_up(conn, wait == DT_WAIT_BODY ? 408 : 0,
                        "the body arrived too slowly while other connections waited; nothing was changed")) {
        dt_metric_add(conns->rules.meters->crowded, wait == DT_WAIT_FIRST);
        return true;
    }
    return false;
}

/* Closes the least useful connection among those that wait for their client, in the order of enum dt_wait. Returns
 * false if none can be closed. */
static bool close_least_useful(dt_conns *conns)
{
    for (enum dt_wait wait = 0; wait < DT_WAIT_OWNER; wait++)
        if (close_one_waiting(conns, wait))
            return true;
    return false;
}

/* What the connections of the crowd wait for (dt_conn_rules.crowd). */
static const enum dt_wait crowd_waits[] = {DT_WAIT_FIRST, DT_WAIT_HEAD, DT_WAIT_BODY};
#define CROWD_WAITS (sizeof(crowd_waits) / sizeof(crowd_waits[0]))

static size_t count_crowd(const dt_conns *conns)
{
    size_t n = 0;
    for (size_t i = 0; i < CROWD_WAITS; i++)
        n += conns->queues[crowd_waits[i]].n;
    return n;
}

/* Closes connections of the crowd that have waited for SLOW_US, until the crowd is not larger than `most`. If it is
 * still larger than RUSH times `most`, also closes a younger connection. */
static void reduce_crowd(dt_conns *conns, size_t most)
{
    for (size_t i = 0; i < CROWD_WAITS && count_crowd(conns) > most;)
        i += !close_one_waiting(conns, crowd_waits[i]);
    struct dt_conn *first = conns->queues[DT_WAIT_FIRST].first;
    if (first && count_crowd(conns) > RUSH * most)
        dt_metric_add(conns->rules.meters->crowded, dt_conn_give_up(first, 0, NULL));
}

/* Lets one address have at most half of a crowd of connections without a first request: if the newcomer would exceed
 * this, closes the oldest of them. */
static void limit_crowd_of_address(dt_conns *conns, const struct dt_conn *newcomer)
{
    const size_t most = conns->rules.crowd / 2;
    struct dt_conn *conn;
    struct dt_conn *oldest = NULL;
    size_t same = 0;
    if (conns->queues[DT_WAIT_FIRST].n < most ||
        (conns->rules.proxies && dt_networks_contain(conns->rules.proxies, newcomer->address)))
        return;
    DL_FOREACH(conns->queues[DT_WAIT_FIRST].first, conn)
    if (conn->local == newcomer->local && memcmp(conn->address, newcomer->address, DT_ADDRESS_BYTES) == 0) {
        same++;
        oldest = oldest ? oldest : conn;
    }
    if (same && same >= most)
        dt_metric_add(conns->rules.meters->crowded, dt_conn_give_up(oldest, 0, NULL));
}

static void adopt_connection(struct dt_evtask *task)
{
    struct dt_conn *conn = (struct dt_conn *)((char *)task - offsetof(struct dt_conn, adoption));
    dt_conns *conns = conn->conns;
    if (conns->n >= conns->rules.most)
        (void)close_least_useful(conns);
    limit_crowd_of_address(conns, conn);
    reduce_crowd(conns, conns->rules.crowd - 1);
    dt_conn_join(conn, DT_WAIT_FIRST);
    conn->sock.broken |=
        !dt_evloop_watch(&conns->loop, conn->sock.fd, &conn->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    dt_conn_serve(conn, 0); /* serves the first bytes of this connection before another one can replace it */
}

bool dt_conns_adopt(dt_conns *conns, int fd, const struct sockaddr *address, socklen_t n, dt_tls_files *files,
                    bool later)
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
    conn->sock = (struct dt_sock){.fd = fd, .files = files, .greeted = !files, .may_read = true, .may_write = true};
    if (!conn->local)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    conn->adoption.run = adopt_connection;
    dt_metric_add(conns->rules.meters->open, 1);
    if (files)
        dt_metric_add(conns->rules.meters->secure, 1);
    atomic_fetch_add(&conns->count, 1);
    if (later)
        dt_evloop_post(&conns->loop, &conn->adoption);
    else
        adopt_connection(&conn->adoption);
    return true;
}

void dt_conns_share(dt_conns *conns, dt_conns *with)
{
    dt_conns *next = conns->peer;
    conns->peer = with->peer;
    with->peer = next;
}

/* Accepts connections. events: those of epoll; 0: at the end of the round. */
static void accept_connections(void *owner, uint32_t events)
{
    struct dt_conn_listener *listener = owner;
    dt_conns *conns = listener->conns;
    if (events)
        dt_evloop_again(&conns->loop, &listener->source);
    const struct timespec moment = {0, 10 * 1000000};
    for (int i = 0; !events && i < ACCEPTS; i++) {
        struct sockaddr_storage address;
        socklen_t n = sizeof(address);
        int fd = accept4(listener->fd, (struct sockaddr *)&address, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        /* If no descriptor is left, accept4 fails even if no connection waits, for example after earlier calls of this
         * loop. So only the failure of the first call counts. */
        if (fd < 0 && i == 0 && (errno == EMFILE || errno == ENFILE) && !close_least_useful(conns))
            nanosleep(&moment, NULL);
        if (fd < 0)
            return;
        dt_conns *chosen = conns; /* the thread with the fewest connections */
        for (dt_conns *peer = conns->peer; peer != conns; peer = peer->peer)
            if (dt_conns_count(peer) < dt_conns_count(chosen))
                chosen = peer;
        if (dt_conns_count(chosen) >= 2 * conns->rules.most) { /* the emptiest thread has too many connections */
            close(fd);
            continue;
        }
        (void)dt_conns_adopt(chosen, fd, (const struct sockaddr *)&address, n, listener->files, chosen != conns);
    }
}

dt_status dt_conns_listen(dt_conns *conns, int fd, dt_tls_files *files, struct dt_error *err)
{
    dt_assert_cmp(conns->n_listeners, <, DT_CONN_LISTENERS);
    struct dt_conn_listener *listener = &conns->listeners[conns->n_listeners];
    *listener = (struct dt_conn_listener){.conns = conns, .files = files, .fd = fd};
    listener->source = (struct dt_evsource){.ready = accept_connections, .owner = listener};
    if (!dt_evloop_watch(&conns->loop, fd, &listener->source, EPOLLIN | EPOLLEXCLUSIVE))
        return dt_fail(err, DT_SYSTEM, "cannot wait for connections (epoll)");
    conns->n_listeners++;
    return DT_OK;
}

/* ---- deadlines ---- */

/* Closes or refuses connections whose deadline has passed. Returns the time of the next deadline. */
static int64_t close_late_connections(dt_conns *conns)
{
    const int64_t now_us = conns->loop.now_us;
    int64_t next_us = INT64_MAX;
    for (int wait = 0; wait < DT_WAIT_OWNER; wait++) {
        const struct dt_conn_queue *queue = &conns->queues[wait];
        while (queue->first && queue->first->since_us + queue->length_us <= now_us) {
            struct dt_conn *conn = queue->first;
            if (!dt_conn_give_up(conn, wait == DT_WAIT_IDLE ? 0 : 408,
                                 wait == DT_WAIT_BODY
                                     ? "the body did not arrive in the request's time; nothing was changed"
                                     : "no complete request arrived in time"))
                continue;
            dt_metric_add(conns->rules.meters->late, wait == DT_WAIT_FIRST);
            dt_assert(conn->sock.fd < 0 || (int)conn->wait != wait || conn->since_us == now_us);
        }
        if (queue->first)
            next_us = dt_earlier(next_us, queue->first->since_us + queue->length_us);
        if (queue->first && wait != DT_WAIT_IDLE)
            next_us = dt_earlier(next_us, now_us + LOOK_US);
    }
    if (conns->n && conns->events.tick)
        next_us = dt_earlier(next_us, conns->ticked_us + LOOK_US);
    return next_us;
}

/* Does what the stage requires: closes idle connections, later refuses incomplete requests. */
static void apply_shutdown_stage(dt_conns *conns, int stage)
{
    for (size_t i = 0; i < conns->n_listeners; i++)
        (void)epoll_ctl(conns->loop.epoll, EPOLL_CTL_DEL, conns->listeners[i].fd, NULL);
    conns->n_listeners = 0;
    while (conns->queues[DT_WAIT_IDLE].first)
        (void)dt_conn_give_up(conns->queues[DT_WAIT_IDLE].first, 0, NULL);
    struct dt_conn *conn;
    struct dt_conn *next;
    DL_FOREACH_SAFE(conns->queues[DT_WAIT_STREAMS].first, conn, next)
    dt_conn_serve(conn, 0); /* tells the client of this connection that no further stream is served */
    for (size_t i = 0; stage >= DT_CONNS_CUT && i < CROWD_WAITS; i++) {
        const struct dt_conn_queue *queue = &conns->queues[crowd_waits[i]];
        while (queue->first)
            (void)dt_conn_give_up(queue->first, 503, "the server is shutting down");
    }
}

/* ---- rounds ---- */

void dt_conns_round(dt_conns *conns)
{
    const int64_t next_us = close_late_connections(conns);
    dt_evloop_round(&conns->loop, next_us);
    const int stage = atomic_load(&conns->stage);
    if (stage != DT_CONNS_OPEN)
        apply_shutdown_stage(conns, stage);
    reduce_crowd(conns, conns->rules.crowd);
    for (int i = 0; conns->pressed && i < PRESSED; i++)
        conns->pressed = close_one_waiting(conns, DT_WAIT_SEND);
    conns->pressed = false;
    if (conns->n && conns->events.tick && conns->loop.now_us - conns->ticked_us >= LOOK_US) {
        conns->ticked_us = conns->loop.now_us;
        conns->events.tick(conns->arg);
    }
    size_t waiting = 0;
    for (int wait = 0; wait < DT_WAITS; wait++)
        waiting += conns->queues[wait].n;
    dt_assert_cmp(waiting, ==, conns->n);
    dt_assert_cmp(waiting, <=, dt_conns_count(conns));
    free_dead_connections(conns);
    conns->greetings = 0;
}

void dt_conns_run(void *conns)
{
    while (atomic_load(&((dt_conns *)conns)->stage) != DT_CONNS_STOP)
        dt_conns_round(conns);
}

void dt_conns_enter(dt_conns *conns, enum dt_conns_stage stage)
{
    dt_assert_cmp(atomic_exchange(&conns->stage, (int)stage), <=, stage);
    dt_evloop_wake(&conns->loop);
}

void dt_conns_press(dt_conns *conns)
{
    conns->pressed = true;
}

size_t dt_conns_count(const dt_conns *conns)
{
    return atomic_load_explicit(&conns->count, memory_order_relaxed);
}

size_t dt_conns_requests(const dt_conns *conns)
{
    return atomic_load_explicit(&conns->requests, memory_order_relaxed);
}

struct dt_evloop *dt_conns_loop(dt_conns *conns)
{
    return &conns->loop;
}

void dt_conn_meters_init(struct dt_conn_meters *meters)
{
    const char *away = "Connections closed before their first request was served.";
    const char *shaken = "TLS handshakes by outcome.";
    *meters = (struct dt_conn_meters){
        .open = dt_gauge("duetime_http_connections", "Open HTTP connections.", ""),
        .waiting = dt_gauge("duetime_http_waiting", "Connections that have not sent a complete first request yet.", ""),
        .secure = dt_gauge("duetime_tls_connections", "Connections of clients with TLS, handshakes included.", ""),
        .late = dt_counter("duetime_http_sent_away_total", away, "reason=\"no_request\""),
        .crowded = dt_counter("duetime_http_sent_away_total", away, "reason=\"crowded\""),
        .refused = dt_counter("duetime_http_sent_away_total", away, "reason=\"refused\""),
        .flooded =
            dt_counter("duetime_http_floods_total",
                       "HTTP/2 connections closed because the client sent too many frames that are not requests.", ""),
        .greeted = dt_counter("duetime_tls_handshakes_total", shaken, "outcome=\"ok\""),
        .no_tls = dt_counter("duetime_tls_handshakes_total", shaken, "outcome=\"not_tls\""),
        .not_greeted = dt_counter("duetime_tls_handshakes_total", shaken, "outcome=\"failed\""),
        .deserted = dt_counter("duetime_tls_handshakes_total", shaken, "outcome=\"left\""),
    };
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

int dt_conn_fd(dt_conn *conn)
{
    return conn->parent ? dt_h2_poll_fd(conn) : conn->sock.fd;
}

void dt_conn_known(dt_conn *conn)
{
    conn->known = dt_conn_base(conn)->known = true;
}

const unsigned char *dt_conn_address(const dt_conn *conn)
{
    return conn->local ? NULL : conn->address;
}
