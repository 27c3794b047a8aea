/*
 * Owns connections whose first request is not there yet: see acceptor.h. Refuses to know what requests are about beyond
 * their heads (head.h), and how they are served.
 *
 * Invariants: a guest is in one queue at any time: that of the free ones, of those whose head is not whole, by the time
 * that they came, or of those that are ready, one for each rank, by the time that they became so; its socket is open
 * unless it is free. Everything but `wanted` and `closing` belongs to the acceptor's thread. The table never grows:
 * when it is full, who has waited longest for his own head leaves. A look at a head costs as many bytes as have
 * arrived, DT_HEAD_MAX at most; whether the body of a guest that is ready has come costs a call of the system an event.
 */
#include "acceptor.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "base/addresses.h"
#include "base/http/head.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"

#define ACCEPTS_MAX 64      /* in a row, before guests are looked at again */
#define EVENTS_MAX  128     /* at once */
#define SWEEP_MS    100     /* between two looks at deadlines, while anybody waits */
#define PATIENCE_US 50000   /* without a slot, before somebody's is asked for … */
#define PRESSING_US 1000000 /* … and with a whole request, before it is asked for with emphasis */
#define WAKER       UINT64_MAX
#define LISTENERS   (UINT64_MAX - DT_LISTENERS_MAX) /* names from here on are those of listeners; no guest has one */

/* Ranks of connections, lowest first: the highest goes first. A request that is there whole is over soon; nothing else
 * is. */
enum rank { PARTLY, PARTLY_WITH_TOKEN, WHOLE, WHOLE_WITH_TOKEN, HEALTH, RANKS };

struct queue {
    struct guest *first; /* utlist */
    size_t n;
};

struct guest {
    struct guest *prev, *next;
    struct queue *queue;
    uint32_t stay; /* tells guests of the same cell of the table apart */
    int fd;
    bool ready; /* its head is whole; health, token and wanted are those of its request */
    bool health, token;
    size_t wanted;    /* bytes of the whole request; SIZE_MAX: its end is not known */
    enum rank rank;   /* once it is ready */
    int64_t since_us; /* accepted; once ready: since it has been ready */
    socklen_t address_n;
    struct sockaddr_storage address;
};

struct dt_acceptor {
    const struct dt_config *config;
    const dt_clock *clock;
    struct dt_acceptor_server server;
    struct dt_thread thread;
    bool runs;
    struct dt_listeners listeners;
    int epoll, waker;
    struct guest *guests;
    size_t room, n, n_ready;
    struct queue free, waiting, ready[RANKS];
    struct dt_networks proxies; /* each stands for many callers */
    _Atomic bool wanted;        /* somebody waits for a slot */
    _Atomic bool closing;
    char head[DT_HEAD_MAX];
    dt_metric *waiting_gauge, *late, *crowded, *refused;
};

/* ---- coming and going ---- */

static void leave_queue(struct guest *guest)
{
    DL_DELETE(guest->queue->first, guest);
    guest->queue->n--;
}

/* Behind all others. */
static void join(struct queue *queue, struct guest *guest)
{
    guest->queue = queue;
    DL_APPEND(queue->first, guest);
    queue->n++;
}

static void change_queue(struct queue *queue, struct guest *guest)
{
    leave_queue(guest);
    join(queue, guest);
}

static void leave(dt_acceptor *a, struct guest *guest)
{
    a->n_ready -= guest->ready;
    guest->fd = -1;
    guest->ready = false;
    guest->stay++;
    change_queue(&a->free, guest);
    a->n--;
    dt_metric_set(a->waiting_gauge, (double)a->n);
}

static void close_guest(dt_acceptor *a, struct guest *guest)
{
    close(guest->fd);
    leave(a, guest);
}

static void refuse_guest(dt_acceptor *a, struct guest *guest, enum dt_problem_type type, const char *detail)
{
    int fd = guest->fd;
    (void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, fd, NULL);
    leave(a, guest);
    dt_metric_add(a->refused, 1);
    a->server.refuse(a->server.arg, fd, type, detail);
}

/* All who come by a Unix socket have one address. */
static bool same_address(const struct guest *a, const struct guest *b)
{
    const struct sockaddr_in *a4 = (const void *)&a->address;
    const struct sockaddr_in *b4 = (const void *)&b->address;
    const struct sockaddr_in6 *a6 = (const void *)&a->address;
    const struct sockaddr_in6 *b6 = (const void *)&b->address;
    if (a->address.ss_family != b->address.ss_family)
        return false;
    if (a->address.ss_family == AF_UNIX)
        return true;
    if (a->address.ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a->address.ss_family == AF_INET6 && memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/* Finds who has waited longest for his own head, of the address of `like`, and how many wait there. */
static struct guest *longest_waiting_like(const dt_acceptor *a, const struct guest *like, size_t *n)
{
    struct guest *found = NULL;
    *n = 0;
    for (struct guest *guest = a->waiting.first; guest; guest = guest->next) {
        if (!same_address(guest, like))
            continue;
        ++*n;
        found = found ? found : guest;
    }
    return found;
}

/* ---- letting in ---- */

/* True: the guest has gone in. */
static bool let_in(dt_acceptor *a, struct guest *guest)
{
    if (!a->server.has_slot(a->server.arg, guest->rank >= WHOLE_WITH_TOKEN))
        return false;
    (void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, guest->fd, NULL);
    a->server.hand_over(a->server.arg, guest->fd, (const struct sockaddr *)&guest->address, guest->address_n);
    leave(a, guest);
    return true;
}

/* The next to go in. */
static struct guest *next_ready(const dt_acceptor *a)
{
    for (int rank = RANKS - 1; rank >= 0; rank--)
        if (a->ready[rank].first)
            return a->ready[rank].first;
    return NULL;
}

static void let_ready_in(dt_acceptor *a)
{
    struct guest *next;
    while (a->n_ready && (next = next_ready(a)) != NULL && let_in(a, next))
        continue;
    atomic_store(&a->wanted, a->n_ready > 0);
}

static enum rank rank_of(const struct guest *guest)
{
    int arrived = 0;
    bool whole = ioctl(guest->fd, FIONREAD, &arrived) == 0 && (size_t)arrived >= guest->wanted;
    if (!whole)
        return guest->token ? PARTLY_WITH_TOKEN : PARTLY;
    return guest->health ? HEALTH : guest->token ? WHOLE_WITH_TOKEN : WHOLE;
}

static void become_ready(dt_acceptor *a, struct guest *guest, const struct dt_head *head)
{
    guest->ready = true;
    guest->health = head->health;
    guest->token = head->token;
    guest->wanted = head->chunked || head->length > SIZE_MAX - head->n ? SIZE_MAX : head->n + (size_t)head->length;
    guest->rank = rank_of(guest);
    guest->since_us = dt_clock_mono_us(a->clock);
    a->n_ready++;
    change_queue(&a->ready[guest->rank], guest);
    let_ready_in(a);
}

/* More of its body has come, while it waits for a slot. */
static void rank_anew(dt_acceptor *a, struct guest *guest)
{
    enum rank rank = rank_of(guest);
    if (rank == guest->rank)
        return;
    guest->rank = rank;
    change_queue(&a->ready[rank], guest);
}

static void look_at(dt_acceptor *a, struct guest *guest, bool hung_up)
{
    struct dt_head head;
    ssize_t n = recv(guest->fd, a->head, sizeof(a->head), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !hung_up)
        return;
    if (n <= 0) {
        close_guest(a, guest);
        return;
    }
    switch (dt_head_judge((struct dt_str){a->head, (size_t)n}, &head)) {
    case DT_HEAD_WHOLE:
        become_ready(a, guest, &head);
        return;
    case DT_HEAD_REFUSED:
        refuse_guest(a, guest, dt_problem_for_http(head.status), head.detail);
        return;
    case DT_HEAD_MORE:
        break;
    }
    if (hung_up)
        close_guest(a, guest);
}

/* ---- taking in ---- */

static bool is_proxy(const dt_acceptor *a, const struct guest *guest)
{
    unsigned char address[DT_ADDRESS_BYTES];
    return a->proxies.n && dt_address_bytes((const struct sockaddr *)&guest->address, guest->address_n, address) &&
           dt_networks_contain(&a->proxies, address);
}

/* Finds who must leave for the newcomer: an address has half of the acceptor at most, unless it is a proxy's, and a
 * full acceptor loses whoever has waited longest. NULL: there is room. */
static struct guest *in_the_way(const dt_acceptor *a, const struct guest *newcomer)
{
    size_t n;
    struct guest *oldest = NULL;
    if (a->n >= a->room / 2 && !is_proxy(a, newcomer))
        oldest = longest_waiting_like(a, newcomer, &n);
    if (oldest && n < a->room / 2)
        oldest = NULL;
    return !oldest && a->n == a->room ? a->waiting.first : oldest;
}

/* Nobody leaves whose head is there, and was only not looked at yet. */
static void make_room_for(dt_acceptor *a, const struct guest *newcomer)
{
    struct guest *oldest;
    while ((oldest = in_the_way(a, newcomer)) != NULL) {
        int fd = oldest->fd;
        look_at(a, oldest, false);
        if (oldest->fd != fd || oldest->ready)
            continue;
        dt_metric_add(a->crowded, 1);
        close_guest(a, oldest);
    }
}

/* When all of them only wait for a slot, who would be the last to get one gives way to somebody who may go first. */
static struct guest *last_ready(const dt_acceptor *a)
{
    int rank = 0;
    while (rank < RANKS - 1 && !a->ready[rank].first)
        rank++;
    struct guest *first = a->ready[rank].first;
    return first ? first->prev : NULL; /* the first one's prev is the last */
}

static uint64_t name_of(const dt_acceptor *a, const struct guest *guest)
{
    return (uint64_t)guest->stay << 32 | (uint64_t)(guest - a->guests);
}

static void take_in(dt_acceptor *a, int fd, const struct guest *newcomer)
{
    make_room_for(a, newcomer);
    if (!a->free.first)
        refuse_guest(a, last_ready(a), DT_PROBLEM_UNAVAILABLE, "too many connections");
    struct guest *guest = a->free.first;
    guest->fd = fd;
    guest->since_us = newcomer->since_us;
    guest->address_n = newcomer->address_n;
    guest->address = newcomer->address;
    change_queue(&a->waiting, guest);
    a->n++;
    dt_metric_set(a->waiting_gauge, (double)a->n);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.u64 = name_of(a, guest)};
    if (epoll_ctl(a->epoll, EPOLL_CTL_ADD, guest->fd, &event) != 0)
        close_guest(a, guest);
}

/* The process has no descriptors left: whoever has waited longest gives his, or everybody waits a moment. */
static void free_a_descriptor(dt_acceptor *a)
{
    const struct timespec moment = {0, 10 * 1000000};
    if (a->waiting.first) {
        dt_metric_add(a->crowded, 1);
        close_guest(a, a->waiting.first);
    } else {
        nanosleep(&moment, NULL);
    }
}

static void accept_some(dt_acceptor *a, const struct dt_listener *listener)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct guest newcomer = {.address_n = sizeof(newcomer.address), .since_us = dt_clock_mono_us(a->clock)};
        struct sockaddr *address = (struct sockaddr *)&newcomer.address;
        int fd = accept4(listener->fd, address, &newcomer.address_n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                free_a_descriptor(a);
            return;
        }
        if (listener->tls)
            fd = a->server.secure(a->server.arg, fd, address);
        if (fd >= 0)
            take_in(a, fd, &newcomer);
    }
}

/* ---- time ---- */

/* Refuses guests whose head is late. Deadlines of handshakes and heads move by the time that this thread missed. */
static void sweep_waiting(dt_acceptor *a, int64_t now_us, int64_t missed_us)
{
    for (struct guest *guest = a->waiting.first, *next; guest; guest = next) {
        int fd = guest->fd;
        next = guest->next;
        guest->since_us = dt_earlier(guest->since_us + missed_us, now_us);
        if (guest->since_us >= now_us - a->config->http_head_timeout * 1000)
            continue;
        look_at(a, guest, false);
        if (guest->fd != fd || guest->ready)
            continue;
        dt_metric_add(a->late, 1);
        refuse_guest(a, guest, DT_PROBLEM_TIMEOUT, "no whole request in time");
    }
}

/* Refuses guests that found no slot within a request's time. */
static void sweep_ready(dt_acceptor *a, int64_t now_us)
{
    for (int rank = 0; rank < RANKS; rank++)
        for (struct guest *guest = a->ready[rank].first, *next; guest; guest = next) {
            next = guest->next;
            if (guest->since_us < now_us - a->config->http_request_timeout * 1000)
                refuse_guest(a, guest, DT_PROBLEM_UNAVAILABLE, "too many connections");
        }
}

static bool is_pressing(const dt_acceptor *a, int64_t now_us)
{
    for (int rank = WHOLE; rank < RANKS; rank++)
        if (a->ready[rank].first && now_us - a->ready[rank].first->since_us > PRESSING_US)
            return true;
    return false;
}

static void ask_for_slots(dt_acceptor *a, int64_t now_us)
{
    const struct guest *next = a->n_ready ? next_ready(a) : NULL;
    if (next && now_us - next->since_us > PATIENCE_US)
        a->server.evict(a->server.arg, a->n_ready, is_pressing(a, now_us));
}

static void forget_waking(const dt_acceptor *a)
{
    uint64_t count;
    if (read(a->waker, &count, sizeof(count)) < 0)
        return; /* nobody woke it */
}

/* Something has come from a guest, or it has left. */
static void serve_guest(dt_acceptor *a, struct guest *guest, uint32_t events)
{
    if (!guest->ready)
        look_at(a, guest, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    else if (events & (EPOLLHUP | EPOLLERR))
        close_guest(a, guest);
    else
        rank_anew(a, guest);
}

static void serve_event(dt_acceptor *a, const struct epoll_event *event)
{
    if (event->data.u64 == WAKER) {
        forget_waking(a);
    } else if (event->data.u64 >= LISTENERS) {
        accept_some(a, &a->listeners.v[event->data.u64 - LISTENERS]);
    } else {
        struct guest *guest = &a->guests[event->data.u64 & UINT32_MAX];
        if (name_of(a, guest) == event->data.u64)
            serve_guest(a, guest, event->events);
    }
}

static void run(void *arg)
{
    dt_acceptor *a = arg;
    struct epoll_event events[EVENTS_MAX];
    int64_t swept_us = 0;
    while (!atomic_load(&a->closing)) {
        swept_us = a->n ? swept_us : 0;
        int n = epoll_wait(a->epoll, events, EVENTS_MAX, a->n ? SWEEP_MS : -1);
        for (int i = 0; i < n; i++)
            serve_event(a, &events[i]);
        if (a->n_ready)
            let_ready_in(a);
        int64_t now_us = dt_clock_mono_us(a->clock);
        if (now_us - swept_us < SWEEP_MS * 1000)
            continue;
        sweep_waiting(a, now_us, dt_clock_missed_us(&swept_us, now_us, INT64_C(1000) * SWEEP_MS));
        sweep_ready(a, now_us);
        ask_for_slots(a, now_us);
    }
}

/* ---- beginning and end ---- */

static dt_status watch(const dt_acceptor *a, int fd, uint64_t name)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = name};
    return epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? DT_OK : DT_SYSTEM;
}

static void register_metrics(dt_acceptor *a)
{
    const char *refused = "Connections that were sent away before their first request was served.";
    a->waiting_gauge =
        dt_gauge("duetime_http_waiting", "Connections whose first request is not there yet, or waits for a place.", "");
    a->late = dt_counter("duetime_http_sent_away_total", refused, "reason=\"no_request\"");
    a->crowded = dt_counter("duetime_http_sent_away_total", refused, "reason=\"crowded\"");
    a->refused = dt_counter("duetime_http_sent_away_total", refused, "reason=\"refused\"");
}

static dt_status watch_all(const dt_acceptor *a)
{
    dt_status status = watch(a, a->waker, WAKER);
    for (size_t i = 0; status == DT_OK && i < a->listeners.n; i++)
        status = watch(a, a->listeners.v[i].fd, LISTENERS + i);
    return status;
}

static dt_status open_parts(dt_acceptor *a)
{
    a->guests = calloc(a->room, sizeof(*a->guests));
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    a->waker = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!a->guests)
        return DT_NOMEM;
    for (size_t i = 0; i < a->room; i++) {
        a->guests[i].fd = -1;
        join(&a->free, &a->guests[i]);
    }
    if (a->epoll < 0 || a->waker < 0)
        return DT_SYSTEM;
    dt_status status = watch_all(a);
    if (status == DT_OK)
        status = dt_thread_start(&a->thread, "acceptor", run, a, NULL);
    a->runs = status == DT_OK;
    return status;
}

dt_status dt_acceptor_start(const struct dt_config *config, const dt_clock *clock, const struct dt_listeners *listeners,
                            const struct dt_acceptor_server *server, dt_acceptor **out, struct dt_error *err)
{
    *out = NULL;
    dt_acceptor *a = calloc(1, sizeof(*a));
    if (!a) {
        struct dt_listeners taken = *listeners;
        dt_listeners_close(&taken);
        return dt_fail(err, DT_NOMEM, "no memory for the connections that wait");
    }
    *a = (dt_acceptor){
        .config = config, .clock = clock, .server = *server, .listeners = *listeners, .epoll = -1, .waker = -1};
    a->room = (size_t)config->http_waiting;
    register_metrics(a);
    *out = a; /* before the thread begins: whoever is let in by it finds it there */
    dt_status status = dt_networks_parse(dt_str(config->http_trusted_proxies), &a->proxies, err);
    if (status == DT_OK)
        status = open_parts(a);
    if (status == DT_OK)
        return DT_OK;
    *out = NULL;
    dt_acceptor_free(a);
    return dt_fail(err, status, "the HTTP server cannot listen");
}

static void wake(const dt_acceptor *a)
{
    uint64_t one = 1;
    if (write(a->waker, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

void dt_acceptor_slot_freed(dt_acceptor *a)
{
    if (atomic_load(&a->wanted))
        wake(a);
}

void dt_acceptor_close(dt_acceptor *a)
{
    if (!a || !a->runs)
        return;
    atomic_store(&a->closing, true);
    wake(a);
    dt_thread_join(&a->thread);
    a->runs = false;
    dt_listeners_close(&a->listeners);
    for (size_t i = 0; i < a->room; i++) {
        struct guest *guest = &a->guests[i];
        if (guest->fd >= 0 && guest->ready)
            refuse_guest(a, guest, DT_PROBLEM_UNAVAILABLE, "the server is shutting down");
        else if (guest->fd >= 0)
            close_guest(a, guest);
    }
}

void dt_acceptor_free(dt_acceptor *a)
{
    if (!a)
        return;
    dt_acceptor_close(a);
    dt_listeners_close(&a->listeners);
    int fds[] = {a->epoll, a->waker};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(a->guests);
    free(a);
}
