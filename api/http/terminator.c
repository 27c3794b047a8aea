/*
 * Owns the threads of the TLS terminator and which connection's turn it is: see terminator.h. Refuses to know how
 * bytes are moved (tls_stream.h), and what they say.
 *
 * A thread serves connections that are open before those that still greet, and of these a few at a time: a handshake
 * costs as much as a hundred requests, and a flood of them must not hold up who is served already.
 *
 * A connection that its server has left, and that still has something to send, or whose client does not end, is late.
 * The server has no place for it any more, so a few of them are kept here, each for its time.
 *
 * Invariants: a stream is in `all` from its first turn to its end, in `open` or `greeting` when it may have something
 * to do, and in `late` when `late` says so. Streams end between two looks at events only. Everything but the
 * newcomers, `closing` and `until_us` belongs to the thread.
 */
#include "terminator.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "tls_stream.h"

#define EVENTS_MAX    128
#define MOVES_MAX     16          /* of one connection, before it is the turn of others */
#define GREETINGS_MAX 4           /* between two looks at those that are open */
#define SERVER_BUFFER (64 * 1024) /* bytes that the server may have written and this has not read */
#define LATE_MAX      128         /* connections past their deadline, of one thread; beyond it the oldest is closed */
#define LATE_MS       250         /* between two looks at these */
#define PARTING_US    INT64_C(2000000)
#define STOPPING_US   INT64_C(2000000)
#define SERVERS       UINT64_C(1) /* an event's name is its stream's address, with this bit for the server's socket */
#define WAKER         UINT64_C(0)

struct pump {
    dt_terminator *terminator;
    struct dt_thread thread;
    int epoll, waker;
    pthread_mutex_t lock;
    struct dt_tls_stream *newcomers; /* under the lock */
    struct dt_tls_stream *all, *open, *greeting, *late;
    size_t n_late;
    int64_t looked_us; /* the last look at late streams; 0: there are none */
    char scratch[DT_TLS_PIECE];
};

struct dt_terminator {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_tls_files *files;
    dt_terminator_refuse *refuse;
    void *arg;
    struct pump *pumps;
    size_t n, next;
    _Atomic bool closing;
    _Atomic int64_t until_us; /* once it is closing */
    _Atomic int64_t connections;
    dt_metric *connections_gauge, *opened, *refused, *plain, *left;
};

static int64_t now_us(const struct pump *pump)
{
    return dt_clock_mono_us(pump->terminator->clock);
}

static void count_connection(dt_terminator *t, int change)
{
    dt_metric_set(t->connections_gauge, (double)(atomic_fetch_add(&t->connections, change) + change));
}

/* ---- turns ---- */

static void join_turn(struct pump *pump, struct dt_tls_stream *s)
{
    if (s->in_turn)
        return;
    s->in_turn = true;
    s->greets = s->phase == DT_TLS_SILENT || s->phase == DT_TLS_GREETING;
    if (s->greets)
        DL_APPEND2(pump->greeting, s, turn_prev, turn_next);
    else
        DL_APPEND2(pump->open, s, turn_prev, turn_next);
}

static void leave_turn(struct pump *pump, struct dt_tls_stream *s)
{
    if (!s->in_turn)
        return;
    s->in_turn = false;
    if (s->greets)
        DL_DELETE2(pump->greeting, s, turn_prev, turn_next);
    else
        DL_DELETE2(pump->open, s, turn_prev, turn_next);
}

/* ---- the end of a connection ---- */

static void tell_failure(const struct dt_tls_stream *s)
{
    char name[64] = "?";
    (void)getnameinfo((const struct sockaddr *)&s->address, sizeof(s->address), name, sizeof(name), NULL, 0,
                      NI_NUMERICHOST);
    DT_LOG(DEBUG, "tls", "no connection", DT_S("client", name), DT_S("error", s->why));
}

static void count_failure(const dt_terminator *t, const struct dt_tls_stream *s)
{
    dt_metric_add(s->failure == DT_TLS_NOT_TLS ? t->plain : s->failure == DT_TLS_LEFT ? t->left : t->refused, 1);
    if (s->failure == DT_TLS_REFUSED)
        tell_failure(s);
}

/* Passes the socket of a client that does not speak TLS to the function that answers it. */
static void refuse_plain_client(const struct pump *pump, struct dt_tls_stream *s)
{
    const dt_terminator *t = pump->terminator;
    if (!t->refuse)
        return;
    (void)epoll_ctl(pump->epoll, EPOLL_CTL_DEL, s->client, NULL);
    t->refuse(t->arg, s->client, DT_PROBLEM_MALFORMED, "only TLS is spoken here: ask by https");
    s->client = -1;
}

static void end_stream(struct pump *pump, struct dt_tls_stream *s)
{
    dt_terminator *t = pump->terminator;
    leave_turn(pump, s);
    if (s->late)
        DL_DELETE2(pump->late, s, late_prev, late_next);
    pump->n_late -= s->late;
    DL_DELETE(pump->all, s);
    if (s->failure != DT_TLS_NO_FAILURE)
        count_failure(t, s);
    if (s->failure == DT_TLS_NOT_TLS)
        refuse_plain_client(pump, s);
    dt_tls_stream_clear(s);
    free(s);
    count_connection(t, -1);
}

static void become_late(struct pump *pump, struct dt_tls_stream *s, int64_t for_us)
{
    int64_t until_us = now_us(pump) + for_us;
    s->until_us = s->late ? dt_earlier(s->until_us, until_us) : until_us;
    if (s->late)
        return;
    s->late = true;
    DL_APPEND2(pump->late, s, late_prev, late_next);
    if (++pump->n_late > LATE_MAX)
        end_stream(pump, pump->late);
}

/* Ends whose time is up; when the server ends, who is only awaited. */
static void sweep_late(struct pump *pump)
{
    struct dt_tls_stream *next;
    bool closing = atomic_load(&pump->terminator->closing);
    int64_t now = now_us(pump);
    int64_t missed_us = dt_clock_missed_us(&pump->looked_us, now, INT64_C(1000) * LATE_MS);
    pump->looked_us = pump->late ? now : 0;
    for (struct dt_tls_stream *s = pump->late; s; s = next) {
        next = s->late_next;
        s->until_us += missed_us;
        if (s->until_us <= now || (closing && s->phase == DT_TLS_PARTING))
            end_stream(pump, s);
    }
}

/* ---- serving ---- */

/* True: there may be more to do at once. */
static bool move(struct pump *pump, struct dt_tls_stream *s)
{
    for (int i = 0; i < MOVES_MAX; i++)
        if (!dt_tls_stream_move(s, pump->terminator->files, pump->scratch))
            return false;
    return true;
}

static void note_phase(struct pump *pump, struct dt_tls_stream *s, enum dt_tls_phase before)
{
    const dt_terminator *t = pump->terminator;
    bool greeted = before == DT_TLS_SILENT || before == DT_TLS_GREETING;
    if (greeted && s->phase >= DT_TLS_OPEN && s->failure == DT_TLS_NO_FAILURE)
        dt_metric_add(t->opened, 1);
    if (s->phase == DT_TLS_PARTING && before != DT_TLS_PARTING)
        become_late(pump, s, PARTING_US);
    else if (s->phase == DT_TLS_OPEN && s->server_gone && !s->late)
        become_late(pump, s, t->config->http_request_timeout * 1000);
}

static void serve(struct pump *pump, struct dt_tls_stream *s)
{
    enum dt_tls_phase before = s->phase;
    leave_turn(pump, s);
    bool more = move(pump, s);
    if (s->phase == DT_TLS_OVER) {
        end_stream(pump, s);
        return;
    }
    if (more)
        join_turn(pump, s);
    note_phase(pump, s, before);
}

/* Everybody who is there when it begins has a turn. */
static void serve_open(struct pump *pump)
{
    const struct dt_tls_stream *s;
    size_t n;
    DL_COUNT2(pump->open, s, n, turn_next);
    for (; n > 0 && pump->open; n--)
        serve(pump, pump->open);
}

static void serve_greetings(struct pump *pump)
{
    for (int i = 0; i < GREETINGS_MAX && pump->greeting; i++)
        serve(pump, pump->greeting);
}

/* ---- events ---- */

static void note_event(struct pump *pump, const struct epoll_event *event)
{
    uint64_t count;
    if (event->data.u64 == WAKER) {
        if (read(pump->waker, &count, sizeof(count)) < 0)
            return; /* nobody woke it */
        return;
    }
    struct dt_tls_stream *s = (struct dt_tls_stream *)(uintptr_t)(event->data.u64 & ~SERVERS);
    if (event->data.u64 & SERVERS) {
        s->may_read_server = s->may_write_server = true;
        s->server_gone = s->server_gone || (event->events & EPOLLHUP);
    } else {
        s->may_read_client = s->may_write_client = true;
    }
    join_turn(pump, s);
}

static bool watch(const struct pump *pump, int fd, uint64_t name)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u64 = name};
    return epoll_ctl(pump->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void take_newcomers(struct pump *pump)
{
    struct dt_tls_stream *next;
    pthread_mutex_lock(&pump->lock);
    struct dt_tls_stream *s = pump->newcomers;
    pump->newcomers = NULL;
    pthread_mutex_unlock(&pump->lock);
    for (; s; s = next) {
        next = s->next;
        DL_APPEND(pump->all, s);
        bool watched = watch(pump, s->client, (uintptr_t)s) && watch(pump, s->server, (uintptr_t)s | SERVERS);
        if (watched)
            join_turn(pump, s);
        else
            end_stream(pump, s);
    }
}

static int patience_ms(const struct pump *pump)
{
    if (pump->open || pump->greeting)
        return 0;
    return pump->late || atomic_load(&pump->terminator->closing) ? LATE_MS : -1;
}

static bool goes_on(const struct pump *pump)
{
    const dt_terminator *t = pump->terminator;
    return !atomic_load(&t->closing) || (pump->all && now_us(pump) < atomic_load(&t->until_us));
}

static void run(void *arg)
{
    struct pump *pump = arg;
    struct epoll_event events[EVENTS_MAX];
    while (goes_on(pump)) {
        int n = epoll_wait(pump->epoll, events, EVENTS_MAX, patience_ms(pump));
        for (int i = 0; i < n; i++)
            note_event(pump, &events[i]);
        take_newcomers(pump);
        serve_open(pump);
        serve_greetings(pump);
        sweep_late(pump);
    }
    take_newcomers(pump);
    while (pump->all)
        end_stream(pump, pump->all);
}

/* ---- newcomers ---- */

static void wake(const struct pump *pump)
{
    uint64_t one = 1;
    if (write(pump->waker, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

static void add_newcomer(struct pump *pump, struct dt_tls_stream *s)
{
    pthread_mutex_lock(&pump->lock);
    s->next = pump->newcomers;
    pump->newcomers = s;
    pthread_mutex_unlock(&pump->lock);
    count_connection(pump->terminator, 1);
    wake(pump);
}

int dt_terminator_secure(dt_terminator *t, int fd, const struct sockaddr *address)
{
    int pair[2];
    int one = 1;
    int room = SERVER_BUFFER;
    struct dt_tls_stream *s = malloc(sizeof(*s));
    if (!s || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        free(s);
        close(fd);
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    dt_tls_stream_init(s, fd, pair[1]);
    memcpy(&s->address, address,
           address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    add_newcomer(&t->pumps[t->next++ % t->n], s);
    return pair[0];
}

/* ---- beginning and end ---- */

static dt_status start_pump(dt_terminator *t, struct pump *pump)
{
    pump->terminator = t;
    pthread_mutex_init(&pump->lock, NULL);
    pump->epoll = epoll_create1(EPOLL_CLOEXEC);
    pump->waker = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (pump->epoll < 0 || pump->waker < 0 || !watch(pump, pump->waker, WAKER))
        return DT_SYSTEM;
    return dt_thread_start(&pump->thread, "tls", run, pump, NULL);
}

static void register_metrics(dt_terminator *t)
{
    const char *help = "Connections to listeners with TLS, by what became of the handshake.";
    t->connections_gauge =
        dt_gauge("duetime_tls_connections", "Connections of clients with TLS, handshakes included.", "");
    t->opened = dt_counter("duetime_tls_handshakes_total", help, "outcome=\"ok\"");
    t->refused = dt_counter("duetime_tls_handshakes_total", help, "outcome=\"failed\"");
    t->plain = dt_counter("duetime_tls_handshakes_total", help, "outcome=\"not_tls\"");
    t->left = dt_counter("duetime_tls_handshakes_total", help, "outcome=\"left\"");
}

dt_status dt_terminator_start(const struct dt_config *config, const dt_clock *clock, dt_tls_files *files,
                              dt_terminator **out, struct dt_error *err)
{
    dt_terminator *t = calloc(1, sizeof(*t));
    const int64_t wanted = config->http_tls_threads ? config->http_tls_threads : (config->http_threads + 1) / 2;
    const size_t threads = (size_t)wanted;
    *out = NULL;
    if (t)
        *t = (dt_terminator){
            .config = config, .clock = clock, .files = files, .pumps = calloc(threads, sizeof(*t->pumps))};
    dt_status status = t && t->pumps ? DT_OK : DT_NOMEM;
    if (status == DT_OK)
        register_metrics(t);
    while (status == DT_OK && t->n < threads)
        status = start_pump(t, &t->pumps[t->n++]);
    if (status != DT_OK) {
        dt_terminator_stop(t);
        return dt_fail(err, status, "TLS cannot be served");
    }
    *out = t;
    return DT_OK;
}

void dt_terminator_refuse_by(dt_terminator *t, dt_terminator_refuse *refuse, void *arg)
{
    t->refuse = refuse;
    t->arg = arg;
}

static void end_pump(struct pump *pump)
{
    dt_thread_join(&pump->thread);
    if (pump->epoll >= 0)
        close(pump->epoll);
    if (pump->waker >= 0)
        close(pump->waker);
    pthread_mutex_destroy(&pump->lock);
}

void dt_terminator_stop(dt_terminator *t)
{
    if (!t)
        return;
    atomic_store(&t->until_us, dt_clock_mono_us(t->clock) + STOPPING_US);
    atomic_store(&t->closing, true);
    for (size_t i = 0; i < t->n; i++)
        wake(&t->pumps[i]);
    for (size_t i = 0; i < t->n; i++)
        end_pump(&t->pumps[i]);
    free(t->pumps);
    free(t);
}
