/*
 * The seam below elector.h: what every elector has, and what an implementation brings. Implementations include it, and
 * tests that move an elector step by step; callers include elector.h.
 *
 *   elector.c   the thread, what other threads may ask, and which implementation the configuration names
 *   zk/         leaders are ephemeral nodes in ZooKeeper
 *   mysql/      leaders are leases in MySQL, for installations without ZooKeeper
 *
 * An implementation's struct begins with a struct dt_elector. Its functions run on the elector's thread.
 */
#ifndef DT_DISPATCHER_ELECTOR_KIND_H
#define DT_DISPATCHER_ELECTOR_KIND_H

#include <sys/random.h>

#include "base/assert.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "elector.h"
#include "elector_share.h"
#include "lease.h"

/* A signal to the mailbox: another thread has called. Bits below it are the implementation's. */
#define DT_ELECTOR_CALLER (UINT32_C(1) << 16)

struct dt_elector_kind {
    const char *name; /* zookeeper or mysql: for logs and metrics */
    enum dt_outage_of server;
    /* Makes an elector with its own parts; `base` is filled in afterwards, but for the lease's length, which is this
     * function's to set. Connects to nothing yet. */
    dt_status (*make)(const struct dt_elector_env *env, dt_mailbox *box, dt_elector **out, struct dt_error *err);
    /* Reads what came, and does what there is to do. Never waits for a server. */
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
