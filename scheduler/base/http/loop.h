/*
 * An event loop for one thread: which sockets are ready, which tasks other threads have posted, and the time. Knows
 * nothing of HTTP.
 *
 * Sockets are watched edge-triggered, and a source remembers whether it may still read or write. So a request needs no
 * call of epoll_ctl.
 *
 * The loop's time is a monotonic clock that omits the time in which the process was stopped or a call blocked the
 * thread. So all deadlines of clients, which use this time, move by the time that the thread missed.
 *
 * The loop's thread calls init, watch, forget, again, round and clear; any thread may call post and wake.
 */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/status.h"

/* Serves a source. events: events of epoll; 0 in a further turn that dt_evloop_again requested. */
typedef void dt_evsource_ready(void *owner, uint32_t events);

/* Embed this in the struct that owns a socket. Its owner sets `ready` and `owner`; the other members belong to the
 * loop. */
struct dt_evsource {
    dt_evsource_ready *ready;
    void *owner;
    struct dt_evsource *prev, *next; /* neighbours in the list of sources that get a further turn */
    bool listed;
};

/* Work for the loop's thread: embedded in the struct that it works on. A posted task must not be posted again before it
 * runs. */
struct dt_evtask {
    void (*run)(struct dt_evtask *task);
    struct dt_evtask *next;
};

struct dt_evloop {
    const dt_clock *clock;
    int64_t now_us;    /* the loop's time in this round */
    int64_t lost_us;   /* how far the loop's time is behind the monotonic clock */
    int64_t looked_us; /* monotonic time when the clock was last read; 0: never */
    int epoll, waker;
    struct dt_evsource *again;
    unsigned n_again;
    _Atomic(struct dt_evtask *) posted; /* list of posted tasks, the latest first */
    _Atomic uint64_t turns;             /* counts beginnings and ends of work: odd while the thread works */
    uint64_t looked;                    /* value of `turns` at the last dt_evloop_moves */
};

/* Initializes a loop. Returns SYSTEM if no descriptor is available. */
dt_status dt_evloop_init(struct dt_evloop *loop, const dt_clock *clock, struct dt_error *err);
/* Closes the loop. A loop that is all zero is accepted. Tasks that have not run still belong to their owners. */
void dt_evloop_clear(struct dt_evloop *loop);

/* Watches a socket until it is closed. Returns false if the kernel has no memory. */
DT_MUST_CHECK bool dt_evloop_watch(struct dt_evloop *loop, int fd, struct dt_evsource *source, uint32_t events);
/* Stops serving a source in further rounds. An event of the current round may still arrive, so the source's memory must
 * outlive the round. */
void dt_evloop_forget(struct dt_evloop *loop, struct dt_evsource *source);
/* Gives the source a turn in the next round, which does not sleep. */
void dt_evloop_again(struct dt_evloop *loop, struct dt_evsource *source);
/* Runs the task on the loop's thread. Tasks run in the order in which they were posted. */
void dt_evloop_post(struct dt_evloop *loop, struct dt_evtask *task);
/* Makes the sleeping round return at once; if none sleeps, the next round. */
void dt_evloop_wake(struct dt_evloop *loop);

/* Runs a round: sleeps until an event occurs or the loop's time is until_us (INT64_MAX: no limit), handles the events,
 * and returns. */
void dt_evloop_round(struct dt_evloop *loop, int64_t until_us);
/* Runs posted tasks when no round follows, at the end. */
void dt_evloop_run_posted(struct dt_evloop *loop);
/* Returns false if the thread has worked in the same round since the last call. One thread calls it, at intervals
 * longer than any round should take. */
bool dt_evloop_moves(struct dt_evloop *loop);
