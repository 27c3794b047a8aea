/*
 * Threads, and the mailboxes that they sleep on.
 *
 * A mailbox wakes a loop. Any thread, including a library's, signals bits to it; one thread, the owner, waits for them.
 * Bits that are signalled before the owner waits are combined: a bit says that something happened, not how often.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "status.h"

typedef struct dt_mailbox dt_mailbox;

dt_status dt_mailbox_new(dt_mailbox **out);
void dt_mailbox_free(dt_mailbox *box); /* accepts NULL */
/* Signals bits to the owner. Never fails, never blocks. Any thread may call it. */
void dt_mailbox_signal(dt_mailbox *box, uint32_t bits);
/* Sleeps until a bit is signalled, or until until_us on the monotonic clock (INT64_MAX: no limit; a time in the past:
 * does not sleep). Returns the signalled bits and clears them; 0: no bit was signalled before until_us. Only the owner
 * calls it. */
uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us);
/* Sleeps until until_us, or until one of the bits in `ends` is signalled. Other bits do not wake the thread. Returns
 * all bits that were signalled, and clears them. Only the owner calls it. */
uint32_t dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends);

/*
 * Threads. Every thread of ours is started with these functions; libraries (ZooKeeper's, Kafka's, the HTTP server's)
 * start their own threads.
 *
 *   struct dt_thread thread = {0};
 *   dt_thread_start(&thread, "outbox", run, o, err)   run(o) begins on a new thread
 *   dt_thread_ask_stop(&thread, mailbox)              any thread, any number of times; does not wait
 *   dt_thread_join(&thread)                           the owner; returns when run(o) has returned
 *
 * A struct dt_thread that is all zeroes has no thread, and may be joined. It must not move before its thread is joined.
 * A thread sleeps on a mailbox, or on a queue of its own with dt_clock_wait (clock.h).
 */

/* The bit that dt_thread_ask_stop signals, so other signals must not use it. */
#define DT_THREAD_STOP (UINT32_C(1) << 31)

/* A thread. Its owner may read `id` and `started`. A function on this thread that waits for something else may read
 * `stopping`. */
struct dt_thread {
    _Atomic bool stopping; /* dt_thread_ask_stop was called; never becomes false again */
    bool started;          /* the thread was started and not joined yet; only for the owner */
    pthread_t id;
    const char *name;
    void (*run)(void *arg);
    void *arg;
};

/* Starts a thread that calls run(arg) and ends when run returns. The kernel shows `name` (borrowed, at most 15 bytes).
 * Returns SYSTEM if no thread was started. err may be NULL. */
dt_status dt_thread_start(struct dt_thread *thread, const char *name, void (*run)(void *arg), void *arg,
                          struct dt_error *err);
/* Lowers the priority of the calling thread permanently: without privileges it cannot be raised again. From then on,
 * dt_thread_start returns SYSTEM if this thread calls it. */
void dt_thread_lower(int nice);
/* Starts a thread that is never joined, with the name of the calling thread. Returns false if no thread was started. */
DT_MUST_CHECK bool dt_thread_start_detached(void (*run)(void *arg), void *arg);

/* Returns whether the thread was asked to end. Any thread may call it. */
static inline bool dt_thread_stopping(const struct dt_thread *thread)
{
    return atomic_load(&thread->stopping);
}

/* Asks the thread to end, and signals DT_THREAD_STOP to the mailbox that it sleeps on. If the thread sleeps on
 * something else, mailbox is NULL, and the caller wakes the thread after this call. Any thread may call it. */
void dt_thread_ask_stop(struct dt_thread *thread, dt_mailbox *mailbox);
/* Waits until run has returned. Returns at once if no thread was started, or if it was joined already. Only the owner
 * calls it. */
void dt_thread_join(struct dt_thread *thread);
/* Asks the thread to end, and joins it. Only the owner calls it. */
void dt_thread_stop(struct dt_thread *thread, dt_mailbox *mailbox);
