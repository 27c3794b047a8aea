/*
 * A mailbox wakes a loop. Other threads, ours or a library's (ZooKeeper's, Kafka's, the HTTP server's), post signals to
 * it; one thread, the owner's, waits for them. A signal is a bit. Signals that are posted before the owner waits are
 * or-ed together: a bit says that something happened, not how often.
 */
#ifndef DT_BASE_THREAD_H
#define DT_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "status.h"

typedef struct dt_mailbox dt_mailbox;

DT_MUST_CHECK dt_status dt_mailbox_new(dt_mailbox **out);
void dt_mailbox_free(dt_mailbox *box); /* accepts NULL */
/* Any thread; never fails, never blocks. */
void dt_mailbox_signal(dt_mailbox *box, uint32_t bits);
/*
 * The owner's thread. Sleeps until a signal is there or the monotonic clock reads until_us (absolute;
 * INT64_MAX = for ever; in the past = do not sleep). Returns the bits and clears them; 0 = time is up.
 */
uint32_t dt_mailbox_wait(dt_mailbox *box, int64_t until_us);
/* The owner's thread. Sleeps until until_us, or until one of the bits in `ends` is there; other signals neither shorten
 * the pause nor wake the thread. Returns all bits that came meanwhile, and clears them. A bit that an earlier wait has
 * returned ends nothing. */
uint32_t dt_mailbox_pause(dt_mailbox *box, int64_t until_us, uint32_t ends);

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
 * A thread sleeps on a mailbox (base/thread.h), or on a queue of its own with dt_clock_wait (base/clock.h).
 */

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
