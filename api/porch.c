/*
 * Owns connections whose first request is not there yet: see porch.h. Refuses to know what requests are about beyond
 * their heads (head.h), and how they are served.
 *
 * Invariants: a guest is in the table from its accept to its end, and its socket is open as long; everything but
 * `wanted` and `closing` belongs to the porch's thread. The table never grows: when it is full, who has waited longest
 * for his own head leaves. A look at a head costs as many bytes as have arrived, DT_HEAD_MAX at most.
 */
#include "porch.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "head.h"

#define ACCEPTS_MAX 64    /* in a row, before guests are looked at again */
#define EVENTS_MAX  128   /* at once */
#define SWEEP_MS    100   /* between two looks at deadlines, while anybody waits */
#define PATIENCE_US 50000 /* without a place, before somebody's is asked for */
#define LISTENER    UINT64_MAX
#define WAKER       (UINT64_MAX - 1)

struct guest {
    int fd;           /* -1 = free */
    bool ready;       /* its head is whole */
    int rank;         /* the higher goes first: 2 asks for health, 1 shows a token, 0 neither */
    int64_t since_us; /* accepted; once ready: since it has been ready */
    socklen_t address_n;
    struct sockaddr_storage address;
};

struct dt_porch {
    const struct dt_config *config;
    const dt_clock *clock;
    struct dt_porch_door door;
    pthread_t thread;
    bool runs;
    int listening, epoll, waker;
    struct guest *guests;
    size_t room, n, n_ready;
    _Atomic bool wanted; /* somebody waits for a place */
    _Atomic bool closing;
    char head[DT_HEAD_MAX];
    dt_metric *waiting, *late, *crowded, *refused;
};

/* ---- coming and going ---- */

static void leave(dt_porch *p, struct guest *guest)
{
    p->n_ready -= guest->ready;
    guest->fd = -1;
    guest->ready = false;
    p->n--;
    dt_metric_set(p->waiting, (double)p->n);
}

static void close_guest(dt_porch *p, struct guest *guest)
{
    close(guest->fd);
    leave(p, guest);
}

static void refuse(dt_porch *p, struct guest *guest, enum dt_problem_type type, const char *detail)
{
    int fd = guest->fd;
    (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, fd, NULL);
    leave(p, guest);
    dt_metric_add(p->refused, 1);
    p->door.refuse(p->door.arg, fd, type, detail);
}

static bool same_address(const struct guest *a, const struct guest *b)
{
    const struct sockaddr_in *a4 = (const void *)&a->address, *b4 = (const void *)&b->address;
    const struct sockaddr_in6 *a6 = (const void *)&a->address, *b6 = (const void *)&b->address;
    if (a->address.ss_family != b->address.ss_family)
        return false;
    if (a->address.ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a->address.ss_family == AF_INET6 && memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/* Who has waited longest for his own head; of the address of `like` when not NULL. */
static struct guest *longest_waiting(const dt_porch *p, const struct guest *like, size_t *n)
{
    struct guest *found = NULL;
    *n = 0;
    for (size_t i = 0; i < p->room; i++) {
        struct guest *guest = &p->guests[i];
        if (guest->fd < 0 || guest->ready || (like && !same_address(guest, like)))
            continue;
        ++*n;
        if (!found || guest->since_us < found->since_us)
            found = guest;
    }
    return found;
}

/* ---- letting in ---- */

/* True: the guest has gone in. */
static bool let_in(dt_porch *p, struct guest *guest)
{
    (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, guest->fd, NULL);
    if (!p->door.let_in(p->door.arg, guest->fd, (const struct sockaddr *)&guest->address, guest->address_n,
                        guest->rank > 0))
        return false;
    leave(p, guest);
    return true;
}

/* The next to go in: who goes first before others, then who has been ready longest. */
static struct guest *next_ready(const dt_porch *p)
{
    struct guest *next = NULL;
    for (size_t i = 0; i < p->room; i++) {
        struct guest *guest = &p->guests[i];
        if (guest->fd < 0 || !guest->ready)
            continue;
        if (!next || guest->rank > next->rank || (guest->rank == next->rank && guest->since_us < next->since_us))
            next = guest;
    }
    return next;
}

static void let_ready_in(dt_porch *p)
{
    struct guest *next;
    while (p->n_ready && (next = next_ready(p)) != NULL && let_in(p, next))
        continue;
    atomic_store(&p->wanted, p->n_ready > 0);
}

static void become_ready(dt_porch *p, struct guest *guest, int rank)
{
    guest->ready = true;
    guest->rank = rank;
    guest->since_us = dt_clock_mono_us(p->clock);
    p->n_ready++;
    let_ready_in(p);
}

static void look_at(dt_porch *p, struct guest *guest, bool hung_up)
{
    struct dt_head head;
    ssize_t n = recv(guest->fd, p->head, sizeof(p->head), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && !hung_up)
        return;
    if (n <= 0) {
        close_guest(p, guest);
        return;
    }
    switch (dt_head_judge((struct dt_str){p->head, (size_t)n}, &head)) {
    case DT_HEAD_WHOLE:
        become_ready(p, guest, head.health ? 2 : head.token);
        return;
    case DT_HEAD_REFUSED:
        refuse(p, guest, head.problem, head.detail);
        return;
    case DT_HEAD_MORE:
        break;
    }
    if (hung_up)
        close_guest(p, guest);
}

/* ---- taking in ---- */

/* Who must leave for the newcomer: an address has half of the porch at most, and a full porch loses whoever has waited
 * longest. NULL: there is room. */
static struct guest *in_the_way(const dt_porch *p, const struct guest *newcomer)
{
    size_t n;
    struct guest *oldest = NULL;
    if (p->n >= p->room / 2)
        oldest = longest_waiting(p, newcomer, &n);
    if (oldest && n < p->room / 2)
        oldest = NULL;
    return !oldest && p->n == p->room ? longest_waiting(p, NULL, &n) : oldest;
}

/* Nobody leaves whose head is there, and was only not looked at yet. */
static void make_room_for(dt_porch *p, const struct guest *newcomer)
{
    struct guest *oldest;
    while ((oldest = in_the_way(p, newcomer)) != NULL) {
        int fd = oldest->fd;
        look_at(p, oldest, false);
        if (oldest->fd != fd || oldest->ready)
            continue;
        dt_metric_add(p->crowded, 1);
        close_guest(p, oldest);
    }
}

static struct guest *free_place(dt_porch *p)
{
    for (size_t i = 0; i < p->room; i++)
        if (p->guests[i].fd < 0)
            return &p->guests[i];
    return NULL;
}

/* When all of them only wait for a place, who would be the last to get one gives way to somebody who may go first. */
static struct guest *last_ready(dt_porch *p)
{
    struct guest *last = &p->guests[0];
    for (size_t i = 1; i < p->room; i++) {
        struct guest *guest = &p->guests[i];
        if (guest->rank < last->rank || (guest->rank == last->rank && guest->since_us > last->since_us))
            last = guest;
    }
    return last;
}

static void take_in(dt_porch *p, const struct guest *newcomer)
{
    make_room_for(p, newcomer);
    struct guest *guest = free_place(p);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    if (!guest) {
        guest = last_ready(p);
        refuse(p, guest, DT_PROBLEM_UNAVAILABLE, "too many connections");
    }
    *guest = *newcomer;
    p->n++;
    dt_metric_set(p->waiting, (double)p->n);
    event.data.u64 = (uint64_t)(guest - p->guests);
    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, guest->fd, &event) != 0)
        close_guest(p, guest);
}

/* The process has no descriptors left: whoever has waited longest gives his, or everybody waits a moment. */
static void free_a_descriptor(dt_porch *p)
{
    const struct timespec moment = {0, 10 * 1000000};
    size_t n;
    struct guest *oldest = longest_waiting(p, NULL, &n);
    if (oldest) {
        dt_metric_add(p->crowded, 1);
        close_guest(p, oldest);
    } else {
        nanosleep(&moment, NULL);
    }
}

static void accept_some(dt_porch *p)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct guest newcomer = {.address_n = sizeof(newcomer.address), .since_us = dt_clock_mono_us(p->clock)};
        newcomer.fd = accept4(p->listening, (struct sockaddr *)&newcomer.address, &newcomer.address_n,
                              SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (newcomer.fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                free_a_descriptor(p);
            return;
        }
        take_in(p, &newcomer);
    }
}

/* ---- time ---- */

/* Sends away whose head does not come, and who finds no place in a request's time. */
static void sweep(dt_porch *p)
{
    int64_t now_us = dt_clock_mono_us(p->clock);
    for (size_t i = 0; i < p->room && p->n; i++) {
        struct guest *guest = &p->guests[i];
        int64_t age_us = now_us - guest->since_us;
        if (guest->fd < 0)
            continue;
        if (!guest->ready && age_us > p->config->http_head_timeout * 1000) {
            dt_metric_add(p->late, 1);
            refuse(p, guest, DT_PROBLEM_TIMEOUT, "no whole request in time");
        } else if (guest->ready && age_us > p->config->http_request_timeout * 1000) {
            refuse(p, guest, DT_PROBLEM_UNAVAILABLE, "too many connections");
        }
    }
}

static void ask_for_places(dt_porch *p)
{
    const struct guest *next = p->n_ready ? next_ready(p) : NULL;
    if (next && dt_clock_mono_us(p->clock) - next->since_us > PATIENCE_US)
        p->door.make_places(p->door.arg, p->n_ready);
}

static void forget_waking(const dt_porch *p)
{
    uint64_t count;
    if (read(p->waker, &count, sizeof(count)) < 0)
        return; /* nobody woke it */
}

static void serve(dt_porch *p, const struct epoll_event *event)
{
    if (event->data.u64 == LISTENER)
        accept_some(p);
    else if (event->data.u64 == WAKER)
        forget_waking(p);
    else if (p->guests[event->data.u64].fd >= 0 && !p->guests[event->data.u64].ready)
        look_at(p, &p->guests[event->data.u64], (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
}

static void *run(void *arg)
{
    dt_porch *p = arg;
    struct epoll_event events[EVENTS_MAX];
    int64_t swept_us = 0;
    while (!atomic_load(&p->closing)) {
        int n = epoll_wait(p->epoll, events, EVENTS_MAX, p->n ? SWEEP_MS : -1);
        for (int i = 0; i < n; i++)
            serve(p, &events[i]);
        if (p->n_ready)
            let_ready_in(p);
        if (dt_clock_mono_us(p->clock) - swept_us < SWEEP_MS * 1000)
            continue;
        swept_us = dt_clock_mono_us(p->clock);
        sweep(p);
        ask_for_places(p);
    }
    return NULL;
}

/* ---- beginning and end ---- */

static dt_status watch(const dt_porch *p, int fd, uint64_t name)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = name};
    return epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? DT_OK : DT_SYSTEM;
}

static void register_metrics(dt_porch *p)
{
    const char *refused = "Connections that were sent away before their first request was served.";
    p->waiting =
        dt_gauge("duetime_http_waiting", "Connections whose first request is not there yet, or waits for a place.", "");
    p->late = dt_counter("duetime_http_sent_away_total", refused, "reason=\"no_request\"");
    p->crowded = dt_counter("duetime_http_sent_away_total", refused, "reason=\"crowded\"");
    p->refused = dt_counter("duetime_http_sent_away_total", refused, "reason=\"refused\"");
}

static dt_status open_parts(dt_porch *p)
{
    p->guests = calloc(p->room, sizeof(*p->guests));
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->waker = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!p->guests)
        return DT_NOMEM;
    for (size_t i = 0; i < p->room; i++)
        p->guests[i].fd = -1;
    if (p->epoll < 0 || p->waker < 0)
        return DT_SYSTEM;
    dt_status status = watch(p, p->listening, LISTENER);
    if (status == DT_OK)
        status = watch(p, p->waker, WAKER);
    if (status == DT_OK && pthread_create(&p->thread, NULL, run, p) != 0)
        status = DT_SYSTEM;
    p->runs = status == DT_OK;
    return status;
}

dt_status dt_porch_start(const struct dt_config *config, const dt_clock *clock, int listening,
                         const struct dt_porch_door *door, dt_porch **out, struct dt_error *err)
{
    *out = NULL;
    dt_porch *p = calloc(1, sizeof(*p));
    if (!p) {
        close(listening);
        return dt_fail(err, DT_NOMEM, "no memory for the connections that wait");
    }
    *p = (dt_porch){.config = config, .clock = clock, .door = *door, .listening = listening, .epoll = -1, .waker = -1};
    p->room = (size_t)config->http_waiting;
    register_metrics(p);
    *out = p; /* before the thread begins: whoever is let in by it finds it there */
    dt_status status = open_parts(p);
    if (status == DT_OK)
        return DT_OK;
    *out = NULL;
    dt_porch_free(p);
    return dt_fail(err, status, "the HTTP server cannot listen");
}

static void wake(const dt_porch *p)
{
    uint64_t one = 1;
    if (write(p->waker, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

void dt_porch_place(dt_porch *p)
{
    if (atomic_load(&p->wanted))
        wake(p);
}

void dt_porch_close(dt_porch *p)
{
    if (!p || !p->runs)
        return;
    atomic_store(&p->closing, true);
    wake(p);
    pthread_join(p->thread, NULL);
    p->runs = false;
    close(p->listening);
    p->listening = -1;
    for (size_t i = 0; i < p->room; i++) {
        struct guest *guest = &p->guests[i];
        if (guest->fd >= 0 && guest->ready)
            refuse(p, guest, DT_PROBLEM_UNAVAILABLE, "the server is shutting down");
        else if (guest->fd >= 0)
            close_guest(p, guest);
    }
}

void dt_porch_free(dt_porch *p)
{
    if (!p)
        return;
    dt_porch_close(p);
    int fds[] = {p->listening, p->epoll, p->waker};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(p->guests);
    free(p);
}
