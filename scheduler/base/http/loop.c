/*
 * The epoll set of a thread, its waker and its clock: see loop.h.
 *
 * Invariants: a source is in the list `again` while it is `listed`; n_again is the length of that list. The waker is
 * never read: it is watched edge-triggered, and each write to it is another edge.
 */
#include "loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/assert.h"

#define EVENTS_MAX 256
#define MISSED_US  INT64_C(100000) /* a round that ends late by less than this does not delay the loop's time */

dt_status dt_evloop_init(struct dt_evloop *loop, const dt_clock *clock, struct dt_error *err)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    *loop = (struct dt_evloop){.clock = clock, .now_us = dt_clock_mono_us(clock)};
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll >= 0 && loop->waker >= 0 && epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->waker, &event) == 0)
        return DT_OK;
    dt_evloop_clear(loop);
    return dt_fail(err, DT_SYSTEM, "an event loop cannot start: no descriptor is left");
}

void dt_evloop_clear(struct dt_evloop *loop)
{
    if (!loop->clock)
        return;
    if (loop->waker >= 0)
        close(loop->waker);
    if (loop->epoll >= 0)
        close(loop->epoll);
    loop->clock = NULL;
}

bool dt_evloop_watch(struct dt_evloop *loop, int fd, struct dt_evsource *source, uint32_t events)
{
    dt_assert(source->ready && source->owner);
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void dt_evloop_forget(struct dt_evloop *loop, struct dt_evsource *source)
{
    if (!source->listed)
        return;
    dt_assert_cmp(loop->n_again, >, 0);
    DL_DELETE(loop->again, source);
    loop->n_again--;
    source->listed = false;
}

void dt_evloop_again(struct dt_evloop *loop, struct dt_evsource *source)
{
    if (source->listed)
        return;
    DL_APPEND(loop->again, source);
    loop->n_again++;
    source->listed = true;
}

void dt_evloop_wake(struct dt_evloop *loop)
{
    const uint64_t one = 1;
    ssize_t written = write(loop->waker, &one, sizeof(one));
    (void)written; /* fails only if the counter is full: an earlier write has woken the loop */
}

void dt_evloop_post(struct dt_evloop *loop, struct dt_evtask *task)
{
    struct dt_evtask *first = atomic_load_explicit(&loop->posted, memory_order_relaxed);
    do
        task->next = first;
    while (!atomic_compare_exchange_weak(&loop->posted, &first, task));
    if (!first) /* the thread that posted the first task has woken the loop */
        dt_evloop_wake(loop);
}

/* Reads the clock. If the thread was blocked for longer than allowed_us, delays the loop's time (loop.h) by the
 * excess. */
static void read_clock(struct dt_evloop *loop, int64_t since_us, int64_t allowed_us)
{
    const int64_t mono_us = dt_clock_mono_us(loop->clock);
    if (allowed_us != INT64_MAX && mono_us - since_us - allowed_us > MISSED_US)
        loop->lost_us += mono_us - since_us - allowed_us;
    loop->now_us = mono_us - loop->lost_us;
    loop->looked_us = mono_us;
}

void dt_evloop_round(struct dt_evloop *loop, int64_t until_us)
{
    struct epoll_event events[EVENTS_MAX];
    if (loop->looked_us)
        read_clock(loop, loop->looked_us, 0);
    else
        loop->looked_us = dt_clock_mono_us(loop->clock);
    const int64_t left_us = until_us == INT64_MAX ? INT64_MAX : dt_later(until_us - loop->now_us, 0);
    const int64_t sleep_us = loop->n_again ? 0 : left_us;
    const int sleep_ms = sleep_us == INT64_MAX ? -1 : (int)dt_earlier((sleep_us + 999) / 1000, 3600 * 1000);
    const int n = epoll_wait(loop->epoll, events, EVENTS_MAX, sleep_ms);
    atomic_fetch_add_explicit(&loop->turns, 1, memory_order_relaxed);
    read_clock(loop, loop->looked_us, sleep_us);
    for (int i = 0; i < n; i++) {
        struct dt_evsource *source = events[i].data.ptr;
        if (source)
            source->ready(source->owner, events[i].events);
    }
    for (unsigned turns = loop->n_again; turns && loop->again; turns--) {
        struct dt_evsource *source = loop->again;
        dt_evloop_forget(loop, source);
        source->ready(source->owner, 0);
    }
    dt_evloop_run_posted(loop);
    atomic_fetch_add_explicit(&loop->turns, 1, memory_order_relaxed);
}

bool dt_evloop_moves(struct dt_evloop *loop)
{
    const uint64_t turns = atomic_load_explicit(&loop->turns, memory_order_relaxed);
    const bool hangs = turns % 2 && turns == loop->looked;
    loop->looked = turns;
    return !hangs;
}

void dt_evloop_run_posted(struct dt_evloop *loop)
{
    struct dt_evtask *latest = atomic_exchange(&loop->posted, NULL);
    struct dt_evtask *first = NULL;
    while (latest) { /* reverses the list of tasks, so that the first posted is the first to run */
        struct dt_evtask *before = latest->next;
        latest->next = first;
        first = latest;
        latest = before;
    }
    while (first) {
        struct dt_evtask *next = first->next; /* when the task runs, it may be posted again or freed */
        first->run(first);
        first = next;
    }
}
