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
#ifndef DT_DISPATCHER_ELECTOR_KIND_H
#define DT_DISPATCHER_ELECTOR_KIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/thread.h"
#include "elector.h"
#include "job/shard.h"

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

/* A request that was sent at sent_us was answered. The end never moves back: answers arrive in order, but two threads
 * report them. */
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

static inline void dt_lease_end(struct dt_lease *lease)
{
    atomic_store(&lease->until_us, 0);
}

/*
 * The election's arithmetic: how many shards each member leads, which ones it gives back, and which it takes. Pure:
 * no I/O, no globals, no time.
 */

/* How many of `shards` the member with this rank (0 = joined first) leads among `members` (> 0). All shares sum up to
 * `shards`. */
unsigned dt_share_of(unsigned shards, unsigned members, unsigned rank);

/*
 * Rank of the member whose node name contains `guid` among `names` (…-<sequence number>, any order), by sequence
 * number. False: it is not among them.
 */
bool dt_share_rank(const char *const *names, size_t n, const char *guid, unsigned *rank);

/* A member's view. mine and taken are indexed by shard and DT_SHARDS_MAX long. */
struct dt_share_view {
    unsigned shards, members, rank;
    bool leaving;      /* its share is none */
    const bool *mine;  /* led by this member, and not being given back already */
    const bool *taken; /* has a leader of whatever kind, or has not yet lost the last one */
};

struct dt_share_plan {
    unsigned release[DT_SHARDS_MAX], take[DT_SHARDS_MAX];
    size_t n_release, n_take;
};

/*
 * Plans the next step. A member above its share gives back the surplus (highest numbers first) and takes nothing; one
 * below it takes free shards, starting at a place of its own so that members who take at the same time seldom want the
 * same one. Shards that the map no longer names are given back.
 */
void dt_share_plan(const struct dt_share_view *view, struct dt_share_plan *out);

/*
 * The seam below elector.h: what every elector has, and what an implementation brings. Implementations include it, and
 * tests that move an elector step by step; callers include elector.h.
 *
 *   elector.c         the thread, what other threads may ask, and which implementation the configuration names
 *   elector_zk.c      leaders are ephemeral nodes in ZooKeeper
 *   elector_mysql.c   leaders are leases in MySQL, for installations without ZooKeeper
 *
 * An implementation's struct begins with a struct dt_elector. Its functions run on the elector's thread.
 */

/* A signal to the mailbox: another thread has called. Bits below it are the implementation's. */
#define DT_ELECTOR_CALLER (UINT32_C(1) << 16)

struct dt_elector_kind {
    const char *name; /* zookeeper or mysql: for logs and metrics */
    enum dt_outage_of server;
    /* Makes an elector with its own parts. dt_elector_new fills in `base` afterwards, except the length of the lease,
     * which this function sets. Connects to nothing yet. */
    dt_status (*make)(const struct dt_elector_env *env, dt_mailbox *box, dt_elector **out, struct dt_error *err);
    /* Reads what arrived, and does what is due. Never waits for a server. */
    void (*step)(dt_elector *elector, uint32_t signals);
    /* Mono: when there will be something to do without a signal; INT64_MAX = never. */
    int64_t (*next_us)(const dt_elector *elector);
    /* Ends what the elector has with the server, so that others need not wait for a timeout; calls `lost` for what was
     * led still. May wait a moment for the server. */
    void (*close)(dt_elector *elector);
    void (*free)(dt_elector *elector); /* what `make` made, after `close` or without a first step */
};

extern const struct dt_elector_kind dt_elector_zk, dt_elector_mysql;

struct dt_elector {
    /* set once */
    const struct dt_elector_kind *kind;
    const dt_clock *clock;
    struct dt_elector_events events;
    struct dt_thread thread;
    dt_mailbox *box;

    /* shared with every thread */
    _Atomic unsigned shards;
    _Atomic bool leaving;
    _Atomic bool news; /* dt_elector_news */
    _Atomic bool released[DT_SHARDS_MAX];
    _Atomic bool leads[DT_SHARDS_MAX]; /* gained, and neither lost nor given away since */
    _Atomic unsigned n_leads;
    struct dt_lease lease;
    _Atomic uint64_t place; /* members << 32 | rank, as last seen; 0 = never */

    struct dt_share_plan plan; /* scratch of the elector's thread */
};

/* The one place where the two of them change. Leading begins with nothing released. */
static inline void dt_elector_set_leads(dt_elector *e, unsigned shard, bool leads)
{
    if (atomic_exchange(&e->leads[shard], leads) == leads)
        return;
    const unsigned was = leads ? atomic_fetch_add(&e->n_leads, 1) : atomic_fetch_sub(&e->n_leads, 1);
    dt_assert(leads ? was < DT_SHARDS_MAX : was > 0);
}

static inline void dt_elector_set_place(dt_elector *e, unsigned rank, unsigned members)
{
    atomic_store(&e->place, (uint64_t)members << 32 | rank);
}

/* For numbers of sessions and members, and for jitter. */
static inline uint64_t dt_elector_random(const dt_elector *e)
{
    uint64_t v;

    if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
        v = (uint64_t)dt_clock_mono_us(e->clock) * UINT64_C(6364136223846793005);
    return v;
}

/* ---- elector.c, for tests: an elector without its thread ---- */

DT_MUST_CHECK dt_status dt_elector_new(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err);
void dt_elector_step(dt_elector *elector, uint32_t signals);
int64_t dt_elector_next_us(const dt_elector *elector);

#endif
