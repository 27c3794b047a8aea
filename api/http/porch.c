/*
 * Owns connections whose first request is not there yet: see porch.h. Refuses to know what requests are about beyond
 * their heads (head.h), and how they are served.
 *
 * Invariants: a guest is in one queue at any time: that of the free ones, of those whose head is not whole, by the time
 * that they came, or of those that are ready, one for each rank, by the time that they became so; its socket is open
 * unless it is free. Everything but `wanted` and `closing` belongs to the porch's thread. The table never grows: when
 * it is full, who has waited longest for his own head leaves. A look at a head costs as many bytes as have arrived,
 * DT_HEAD_MAX at most; whether the body of a guest that is ready has come costs a call of the system an event.
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
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "head.h"

#define ACCEPTS_MAX 64      /* in a row, before guests are looked at again */
#define EVENTS_MAX  128     /* at once */
#define SWEEP_MS    100     /* between two looks at deadlines, while anybody waits */
#define PATIENCE_US 50000   /* without a place, before somebody's is asked for … */
#define PRESSING_US 1000000 /* … and with a whole request, before it is asked for with emphasis */
#define LISTENER    UINT64_MAX
#define WAKER       (UINT64_MAX - 1)

/* Who goes first, the last one first. A request that is there whole is over soon; so is nothing else. */
enum rank { PARTLY, PARTLY_WITH_TOKEN, WHOLE, WHOLE_WITH_TOKEN, HEALTH, RANKS };

struct queue {
    struct guest *first, *last;
    size_t n;
};

struct guest {
    struct guest *prev, *next;
    struct queue *queue;
    uint32_t stay; /* tells guests of the same place in the table apart */
    int fd;
    bool ready; /* its head is whole; health, token and wanted are those of its request */
    bool health, token;
    size_t wanted;    /* bytes of the whole request; SIZE_MAX: its end is not known */
    enum rank rank;   /* once it is ready */
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
    struct queue free, waiting, ready[RANKS];
    _Atomic bool wanted; /* somebody waits for a place */
    _Atomic bool closing;
    char head[DT_HEAD_MAX];
    dt_metric *waiting_gauge, *late, *crowded, *refused;
};

/* ---- coming and going ---- */

static void leave_queue(struct guest *guest)
{
    struct queue *queue = guest->queue;
    *(guest->prev ? &guest->prev->next : &queue->first) = guest->next;
    *(guest->next ? &guest->next->prev : &queue->last) = guest->prev;
    queue->n--;
}

/* Behind all others. */
static void join(struct queue *queue, struct guest *guest)
{
    guest->queue = queue;
    guest->prev = queue->last;
    guest->next = NULL;
    *(queue->last ? &queue->last->next : &queue->first) = guest;
    queue->last = guest;
    queue->n++;
}

static void change_queue(struct queue *queue, struct guest *guest)
{
    leave_queue(guest);
    join(queue, guest);
}

static void leave(dt_porch *p, struct guest *guest)
{
    p->n_ready -= guest->ready;
    guest->fd = -1;
    guest->ready = false;
    guest->stay++;
    change_queue(&p->free, guest);
    p->n--;
    dt_metric_set(p->waiting_gauge, (double)p->n);
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
    const struct sockaddr_in *a4 = (const void *)&a->address;
    const struct sockaddr_in *b4 = (const void *)&b->address;
    const struct sockaddr_in6 *a6 = (const void *)&a->address;
    const struct sockaddr_in6 *b6 = (const void *)&b->address;
    if (a->address.ss_family != b->address.ss_family)
        return false;
    if (a->address.ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a->address.ss_family == AF_INET6 && memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/* Who has waited longest for his own head, of the address of `like`, and how many wait there. */
static struct guest *longest_waiting_like(const dt_porch *p, const struct guest *like, size_t *n)
{
    struct guest *found = NULL;
    *n = 0;
    for (struct guest *guest = p->waiting.first; guest; guest = guest->next) {
        if (!same_address(guest, like))
            continue;
        ++*n;
        found = found ? found : guest;
    }
    return found;
}

/* ---- letting in ---- */

/* True: the guest has gone in. */
static bool let_in(dt_porch *p, struct guest *guest)
{
    if (!p->door.has_place(p->door.arg, guest->rank >= WHOLE_WITH_TOKEN))
        return false;
    (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, guest->fd, NULL);
    p->door.let_in(p->door.arg, guest->fd, (const struct sockaddr *)&guest->address, guest->address_n);
    leave(p, guest);
    return true;
}

/* The next to go in. */
static struct guest *next_ready(const dt_porch *p)
{
    for (int rank = RANKS - 1; rank >= 0; rank--)
        if (p->ready[rank].first)
            return p->ready[rank].first;
    return NULL;
}

static void let_ready_in(dt_porch *p)
{
    struct guest *next;
    while (p->n_ready && (next = next_ready(p)) != NULL && let_in(p, next))
        continue;
    atomic_store(&p->wanted, p->n_ready > 0);
}

static enum rank rank_of(const struct guest *guest)
{
    int arrived = 0;
    bool whole = ioctl(guest->fd, FIONREAD, &arrived) == 0 && (size_t)arrived >= guest->wanted;
    if (!whole)
        return guest->token ? PARTLY_WITH_TOKEN : PARTLY;
    return guest->health ? HEALTH : guest->token ? WHOLE_WITH_TOKEN : WHOLE;
}

static void become_ready(dt_porch *p, struct guest *guest, const struct dt_head *head)
{
    guest->ready = true;
    guest->health = head->health;
    guest->token = head->token;
    guest->wanted = head->chunked || head->length > SIZE_MAX - head->n ? SIZE_MAX : head->n + (size_t)head->length;
    guest->rank = rank_of(guest);
    guest->since_us = dt_clock_mono_us(p->clock);
    p->n_ready++;
    change_queue(&p->ready[guest->rank], guest);
    let_ready_in(p);
}

/* More of its body has come, while it waits for a place. */
static void rank_anew(dt_porch *p, struct guest *guest)
{
    enum rank rank = rank_of(guest);
    if (rank == guest->rank)
        return;
    guest->rank = rank;
    change_queue(&p->ready[rank], guest);
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
        become_ready(p, guest, &head);
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
        oldest = longest_waiting_like(p, newcomer, &n);
    if (oldest && n < p->room / 2)
        oldest = NULL;
    return !oldest && p->n == p->room ? p->waiting.first : oldest;
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

/* When all of them only wait for a place, who would be the last to get one gives way to somebody who may go first. */
static struct guest *last_ready(const dt_porch *p)
{
    int rank = 0;
    while (rank < RANKS - 1 && !p->ready[rank].last)
        rank++;
    return p->ready[rank].last;
}

static uint64_t name_of(const dt_porch *p, const struct guest *guest)
{
    return (uint64_t)guest->stay << 32 | (uint64_t)(guest - p->guests);
}

static void take_in(dt_porch *p, int fd, const struct guest *newcomer)
{
    make_room_for(p, newcomer);
    if (!p->free.first)
        refuse(p, last_ready(p), DT_PROBLEM_UNAVAILABLE, "too many connections");
    struct guest *guest = p->free.first;
    guest->fd = fd;
    guest->since_us = newcomer->since_us;
    guest->address_n = newcomer->address_n;
    guest->address = newcomer->address;
    change_queue(&p->waiting, guest);
    p->n++;
    dt_metric_set(p->waiting_gauge, (double)p->n);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.u64 = name_of(p, guest)};
    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, guest->fd, &event) != 0)
        close_guest(p, guest);
}

/* The process has no descriptors left: whoever has waited longest gives his, or everybody waits a moment. */
static void free_a_descriptor(dt_porch *p)
{
    const struct timespec moment = {0, 10 * 1000000};
    if (p->waiting.first) {
        dt_metric_add(p->crowded, 1);
        close_guest(p, p->waiting.first);
    } else {
        nanosleep(&moment, NULL);
    }
}

static void accept_some(dt_porch *p)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct guest newcomer = {.address_n = sizeof(newcomer.address), .since_us = dt_clock_mono_us(p->clock)};
        int fd = accept4(p->listening, (struct sockaddr *)&newcomer.address, &newcomer.address_n,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                free_a_descriptor(p);
            return;
        }
        take_in(p, fd, &newcomer);
    }
}

/* ---- time ---- */

/* Sends away those of a queue who have been in it for longer than this. */
static void sweep_queue(dt_porch *p, const struct queue *queue, int64_t until_us, enum dt_problem_type type,
                        const char *detail)
{
    for (struct guest *guest = queue->first, *next; guest; guest = next) {
        next = guest->next;
        if (guest->since_us < until_us)
            refuse(p, guest, type, detail);
    }
}

/* Sends away whose head does not come, and who finds no place in a request's time. */
static void sweep(dt_porch *p)
{
    int64_t now_us = dt_clock_mono_us(p->clock);
    size_t waiting = p->waiting.n;
    sweep_queue(p, &p->waiting, now_us - p->config->http_head_timeout * 1000, DT_PROBLEM_TIMEOUT,
                "no whole request in time");
    dt_metric_add(p->late, (int64_t)(waiting - p->waiting.n));
    for (int rank = 0; rank < RANKS; rank++)
        sweep_queue(p, &p->ready[rank], now_us - p->config->http_request_timeout * 1000, DT_PROBLEM_UNAVAILABLE,
                    "too many connections");
}

static bool is_pressing(const dt_porch *p, int64_t now_us)
{
    for (int rank = WHOLE; rank < RANKS; rank++)
        if (p->ready[rank].first && now_us - p->ready[rank].first->since_us > PRESSING_US)
            return true;
    return false;
}

static void ask_for_places(dt_porch *p)
{
    const struct guest *next = p->n_ready ? next_ready(p) : NULL;
    int64_t now_us = dt_clock_mono_us(p->clock);
    if (next && now_us - next->since_us > PATIENCE_US)
        p->door.make_places(p->door.arg, p->n_ready, is_pressing(p, now_us));
}

static void forget_waking(const dt_porch *p)
{
    uint64_t count;
    if (read(p->waker, &count, sizeof(count)) < 0)
        return; /* nobody woke it */
}

/* Something has come from a guest, or it has left. */
static void serve_guest(dt_porch *p, struct guest *guest, uint32_t events)
{
    if (!guest->ready)
        look_at(p, guest, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
    else if (events & (EPOLLHUP | EPOLLERR))
        close_guest(p, guest);
    else
        rank_anew(p, guest);
}

static void serve(dt_porch *p, const struct epoll_event *event)
{
    if (event->data.u64 == LISTENER) {
        accept_some(p);
    } else if (event->data.u64 == WAKER) {
        forget_waking(p);
    } else {
        struct guest *guest = &p->guests[event->data.u64 & UINT32_MAX];
        if (name_of(p, guest) == event->data.u64)
            serve_guest(p, guest, event->events);
    }
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
    p->waiting_gauge =
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
    for (size_t i = 0; i < p->room; i++) {
        p->guests[i].fd = -1;
        join(&p->free, &p->guests[i]);
    }
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
