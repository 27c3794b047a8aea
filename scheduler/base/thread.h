/*
 * Threads, and the mailboxes that they sleep on.
 *
 * A mailbox wakes a loop. Any thread, also one of a library, signals bits to it; one thread, the owner, waits for them.
 * Bits that are signalled before the owner waits are combined: a bit says that something happened, not how often.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "status.h"

typedef struct dt_mailbox dt_mailbox;

DT_MUST_CHECK dt_status dt_mailbox_new(dt_mailbox **out);
void dt_mailbox_free(dt_mailbox *box); /* accepts NULL */
/* Any thread. Never fails, never blocks. */
void dt_mailbox_signal(dt_mailbox *box, uint32_t bits);
/* The owner only. Sleeps until a bit is signalled, or until until_us on the monotonic clock (INT64_MAX: no limit; a
 * time in the past: does not sleep). Returns the bits and clears them; 0: none until until_us. */
uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us);
/* The owner only. Sleeps until until_us, or until one of the bits in `ends` is signalled. Other bits do not wake the
 * thread. Returns all bits that were signalled, and clears them. */
uint32_t dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends);

/*
 * Every thread of ours is started here; threads of libraries (ZooKeeper's, Kafka's, the HTTP server's) are not.
 *
 *   struct dt_thread thread = {0};
 *   dt_thread_start(&thread, "outbox", run, o, err)   run(o) begins on a new thread
 *   dt_thread_ask_stop(&thread, mailbox)              any thread, any number of times; does not wait
 *   dt_thread_join(&thread)                           the owner; returns when run(o) has returned
 *
 * A struct dt_thread that is all zeroes has no thread, and may be joined. It must not move before its thread is joined.
 * A thread sleeps on a mailbox, or on a queue of its own with dt_clock_wait (clock.h).
 */

/* dt_thread_ask_stop signals this bit, so nothing else may. */
#define DT_THREAD_STOP (UINT32_C(1) << 31)

/* The owner may read id and started. A function that waits on something else may read `stopping`. */
struct dt_thread {
    _Atomic bool stopping; /* never becomes false again */
    bool started;          /* the owner's: the thread was started and not joined yet */
    pthread_t id;
    const char *name;
    void (*run)(void *arg);
    void *arg;
};

/* Starts a thread that calls run(arg) and ends when run returns. The kernel shows `name` (borrowed, at most 15 bytes).
 * SYSTEM: no thread was started. err may be NULL. */
DT_MUST_CHECK dt_status dt_thread_start(struct dt_thread *thread, const char *name, void (*run)(void *arg), void *arg,
                                        struct dt_error *err);
/* Lowers the priority of the calling thread permanently: without privileges it cannot be raised again. From then on,
 * dt_thread_start on this thread returns SYSTEM. */
void dt_thread_lower(int nice);
/* Starts a thread that is never joined; its name is that of the calling thread. Returns false if no thread was
 * started. */
DT_MUST_CHECK bool dt_thread_start_detached(void (*run)(void *arg), void *arg);

/* Any thread. */
static inline bool dt_thread_stopping(const struct dt_thread *thread)
{
    return atomic_load(&thread->stopping);
}

/* Asks the thread to end, and signals DT_THREAD_STOP to the mailbox that it sleeps on. If the thread sleeps on
 * something else, mailbox is NULL and the caller wakes the thread afterwards. Any thread. */
void dt_thread_ask_stop(struct dt_thread *thread, dt_mailbox *mailbox);
/* Waits until run has returned. Returns at once if there is no thread or it was joined. The owner only. */
void dt_thread_join(struct dt_thread *thread);
/* Asks the thread to end, and joins it. The owner only. */
void dt_thread_stop(struct dt_thread *thread, dt_mailbox *mailbox);
