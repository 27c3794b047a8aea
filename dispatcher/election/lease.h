/*
 * A lease: how long this process may believe that its session with the server of the election lives (ZooKeeper's, or
 * its row in MySQL).
 *
 * A request that the server answered was sent at some time. At that time the session lived, and it lives on for its
 * whole timeout from then. The lease ends two thirds of the timeout after the sending of the last answered request, by
 * the monotonic clock. So it does not matter how a silence began: cut, killed, stopped, or this process itself stopped
 * for a while.
 *
 * Any thread, without locks.
 */
#ifndef DT_DISPATCHER_LEASE_H
#define DT_DISPATCHER_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * How long a server may wait for a session of this process that is silent inside a transaction. A process that is
 * stopped there keeps rows locked until the server ends its session; who leads its shards next waits for that. So the
 * server's patience ends before the next one is elected: when this one would have stepped down, in whole seconds.
 */
static inline int64_t dt_lease_patience_ms(int64_t timeout_ms)
{
    return (timeout_ms * 2 / 3 + 999) / 1000 * 1000;
}

/* All zeroes: over. */
struct dt_lease {
    _Atomic int64_t until_us, length_us; /* its end by the monotonic clock; its length */
};

static inline void dt_lease_set_timeout(struct dt_lease *lease, int timeout_ms)
{
    atomic_store(&lease->length_us, timeout_ms * INT64_C(1000) * 2 / 3);
}

/* A request that was sent then has been answered. The end never moves back: answers come in order, but two threads tell
 * of them. */
static inline void dt_lease_extend(struct dt_lease *lease, int64_t sent_us)
{
    const int64_t until_us = sent_us + atomic_load(&lease->length_us);
    int64_t was_us = atomic_load(&lease->until_us);

    while (until_us > was_us && !atomic_compare_exchange_weak(&lease->until_us, &was_us, until_us))
        ;
}

static inline bool dt_lease_runs(const struct dt_lease *lease, int64_t now_us)
{
    return now_us < atomic_load(&lease->until_us);
}

/* The session has ended. */
static inline void dt_lease_end(struct dt_lease *lease)
{
    atomic_store(&lease->until_us, 0);
}

#endif
