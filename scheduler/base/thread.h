/*
 * A thread of ours: how it starts, how it is asked to end, and how its owner waits for its end. Every thread that our
 * code starts is started here. Threads of libraries (ZooKeeper's, Kafka's, the HTTP server's) are not.
 *
 *   struct dt_thread thread = {0};
 *   dt_thread_start(&thread, "outbox", run, o, err)   run(o) begins on a new thread
 *   dt_thread_ask_stop(&thread, mailbox)              any thread, any number of times; does not wait
 *   dt_thread_join(&thread)                           the owner; returns when run(o) has returned
 *
 * A struct dt_thread that is all zeroes has no thread, and may be joined. The struct stays where it is until its thread
 * was joined.
 *
 * A thread sleeps on a mailbox (base/mailbox.h), or on a queue of its own with dt_clock_wait (base/clock.h).
 */
#ifndef DT_BASE_THREAD_H
#define DT_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mailbox.h"
#include "status.h"

/* The bit that dt_thread_ask_stop signals. A mailbox whose thread is stopped this way has no other use for the bit. */
#define DT_THREAD_STOP (UINT32_C(1) << 31)

/* The owner may read id and started. A function that waits elsewhere may be given the address of stopping. */
struct dt_thread {
    _Atomic bool stopping; /* somebody asked for the end; never false again */
    bool started;          /* the owner's: there is a thread that was not joined */
    pthread_t id;
    const char *name;
    void (*run)(void *arg);
    void *arg;
};

/*
 * Starts a thread that calls run(arg) and ends when run returns. name (borrowed, at most 15 bytes) is what the kernel
 * shows for the thread. DT_SYSTEM, and no thread, when the system has none to give; err may be NULL.
 */
DT_MUST_CHECK dt_status dt_thread_start(struct dt_thread *thread, const char *name, void (*run)(void *arg), void *arg,
                                        struct dt_error *err);
/* Lowers the priority of the calling thread for good: a process without rights cannot raise it again. dt_thread_start
 * returns SYSTEM on this thread from then on. */
void dt_thread_lower(int nice);
/* Starts a thread that nobody joins; it keeps the name of its creator's thread. False: there is no thread. */
DT_MUST_CHECK bool dt_thread_start_detached(void (*run)(void *arg), void *arg);

/* Whether the thread was asked to end. Any thread. */
static inline bool dt_thread_stopping(const struct dt_thread *thread)
{
    return atomic_load(&thread->stopping);
}

/*
 * Asks the thread to end, and signals DT_THREAD_STOP to the mailbox that it sleeps on. A thread that sleeps on
 * something else is woken by the caller afterwards, and mailbox is NULL. Any thread.
 */
void dt_thread_ask_stop(struct dt_thread *thread, dt_mailbox *mailbox);
/* Waits until run has returned; returns at once when there is no thread, so also a second time. The owner only. */
void dt_thread_join(struct dt_thread *thread);
/* Asks, then joins. The owner only. */
void dt_thread_stop(struct dt_thread *thread, dt_mailbox *mailbox);

#endif
