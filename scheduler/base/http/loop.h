/*
 * An event loop for one thread: which sockets are ready, what other threads have posted, and what time it is. Knows
 * nothing of HTTP.
 *
 * Sockets are watched edge-triggered, and a source remembers whether it may still read or write. So a request costs no
 * call of epoll_ctl.
 *
 * The loop's time is patient: when the process was stopped, or a call kept the thread, it goes on from where it was.
 * So all deadlines of clients, which are judged by this time, move by what the thread missed.
 *
 * init, watch, forget, again, round, clear: the loop's thread. post, wake: any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"

/* events: those of epoll; 0 in a further turn that dt_evloop_again asked for. */
typedef void dt_evsource_ready(void *owner, uint32_t events);

/* A member of what owns a socket. `ready` and `owner` are the owner's, the rest belongs to the loop. */
struct dt_evsource {
    dt_evsource_ready *ready;
    void *owner;
    struct dt_evsource *prev, *next; /* in the list of those that get a further turn */
    bool listed;
};

/* Work for the loop's thread: a member of what it is about, posted once until it has run. */
struct dt_evtask {
    void (*run)(struct dt_evtask *task);
    struct dt_evtask *next;
};

struct dt_evloop {
    const dt_clock *clock;
    int64_t now_us;    /* the patient time of this round */
    int64_t lost_us;   /* what that is behind the monotonic clock */
    int64_t looked_us; /* when the clock was read last, by the monotonic clock; 0: never */
    int epoll, waker;
    struct dt_evsource *again;
    unsigned n_again;
    _Atomic(struct dt_evtask *) posted; /* the latest first */
    _Atomic uint64_t turns;             /* odd: the thread is at work */
    uint64_t looked;                    /* as dt_evloop_moves found it */
};

/* SYSTEM: there is no descriptor left. */
DT_MUST_CHECK dt_status dt_evloop_init(struct dt_evloop *loop, const dt_clock *clock, struct dt_error *err);
/* All zero is accepted. Tasks that have not run are left to their owners. */
void dt_evloop_clear(struct dt_evloop *loop);

/* Watches the socket until it is closed. False: the kernel has no memory. */
DT_MUST_CHECK bool dt_evloop_watch(struct dt_evloop *loop, int fd, struct dt_evsource *source, uint32_t events);
/* No further turn comes. An event of the round under way still may: the source's memory must outlive the round. */
void dt_evloop_forget(struct dt_evloop *loop, struct dt_evsource *source);
/* Gives the source a turn in the next round, which does not sleep. */
void dt_evloop_again(struct dt_evloop *loop, struct dt_evsource *source);
/* Runs the task on the loop's thread. Tasks run in the order in which they were posted. */
void dt_evloop_post(struct dt_evloop *loop, struct dt_evtask *task);
/* Has the round that sleeps, or else the next one, return at once. */
void dt_evloop_wake(struct dt_evloop *loop);

/* Sleeps until something is to be done or the loop's time is until_us (INT64_MAX: for ever); does it, and returns. */
void dt_evloop_round(struct dt_evloop *loop, int64_t until_us);
/* Runs what was posted. For the end, when no round follows. */
void dt_evloop_run_posted(struct dt_evloop *loop);
/* False: the thread is in the same round as at the last question. Asked by one thread, at distances that no round
 * takes. */
bool dt_evloop_moves(struct dt_evloop *loop);
