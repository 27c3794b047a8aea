/*
 * A lease: how long this process may believe that its session with the server of the election (a session of ZooKeeper,
 * or a row in MySQL) is alive.
 *
 * If the server answers a request, the session was alive when the request was sent, and stays alive for its whole
 * timeout from then. The lease ends two thirds of the timeout after the last answered request was sent, by the
 * monotonic clock. So it does not matter why answers are missing: a broken connection, a stopped server, or a pause of
 * this process.
 *
 * Any thread, without locks.
 */
#pragma once

#include <stdatomic.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/thread.h"
#include "elector.h"
#include "job/shard.h"

/* Returns how long a database server may wait for a session of this process that sends nothing inside a transaction. If
 * the process is stopped in a transaction, its rows stay locked until the server ends the session, and the next leaders
 * of its shards wait for these rows. So the server should end the session before they are elected: when this process
 * would have stepped down, in whole seconds. */
static inline int64_t dt_lease_patience_ms(int64_t timeout_ms)
{
    return (timeout_ms * 2 / 3 + 999) / 1000 * 1000;
}

/* If all members are 0, the lease has expired. */
struct dt_lease {
    /* until_us: end of the lease by the monotonic clock; length_us: length of the lease. */
    _Atomic int64_t until_us, length_us;
};

static inline void dt_lease_set_timeout(struct dt_lease *lease, int timeout_ms)
{
    atomic_store(&lease->length_us, timeout_ms * INT64_C(1000) * 2 / 3);
}

/* Extends the lease, because a request that was sent at sent_us was answered. The end never moves back: two threads
 * report answers, so sent_us may be lower than in the last call. */
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

/* The election's arithmetic: how many shards each member leads, which shards it gives back, and which it takes. Pure:
 * no I/O, no globals, no time. */

/* Returns how many of `shards` the member with this rank (0: joined first) leads among `members` (> 0). The shares of
 * all members add up to `shards`. */
unsigned dt_share_of(unsigned shards, unsigned members, unsigned rank);

/* Finds the member whose node name contains `guid` among `names` (…-<sequence number>, in any order). *rank: the
 * member's rank by sequence number. False: no name contains `guid`. */
bool dt_share_rank(const char *const *names, size_t n, const char *guid, unsigned *rank);

/* What one member knows. mine and taken are indexed by shard, and have DT_SHARDS_MAX elements. */
struct dt_share_view {
    unsigned shards, members, rank;
    bool leaving;      /* the member is leaving, so its share is 0 */
    const bool *mine;  /* shards that this member leads and is not giving back */
    const bool *taken; /* shards that have a leader, or whose last leader may not have stepped down yet */
};

struct dt_share_plan {
    unsigned release[DT_SHARDS_MAX], take[DT_SHARDS_MAX];
    size_t n_release, n_take;
};

/* Plans the next step. A member that leads more than its share gives back the surplus (highest numbers first) and takes
 * nothing. A member that leads less takes free shards; each member begins at another shard, so that two members seldom
 * want the same shard. Shards that the map no longer names are given back. */
void dt_share_plan(const struct dt_share_view *view, struct dt_share_plan *out);

/*
 * The interface between elector.h and its implementations. Included by implementations, and by tests that run an
 * elector step by step; callers include elector.h.
 *
 *   elector.c         the thread, functions for other threads, and the choice of the implementation
 *   elector_zk.c      leaders are ephemeral nodes in ZooKeeper
 *   elector_mysql.c   leaders are leases in MySQL, for installations without ZooKeeper
 *
 * An implementation's struct begins with a struct dt_elector. Its functions run on the elector's thread.
 */

/* Signal to the mailbox: another thread has called a function of the elector. An implementation uses lower bits for its
 * own signals. */
#define DT_ELECTOR_CALLER (UINT32_C(1) << 16)

struct dt_elector_kind {
    const char *name; /* zookeeper or mysql: for logs and metrics */
    enum dt_outage_of server;
    /* Creates an elector with the parts of its implementation, and sets the length of the lease. dt_elector_new then
     * fills in the other members of `base`. Connects to nothing yet. */
    dt_status (*make)(const struct dt_elector_env *env, dt_mailbox *box, dt_elector **out, struct dt_error *err);
    /* Reads replies, and sends the requests that are due. Never waits for a server. */
    void (*step)(dt_elector *elector, uint32_t signals);
    /* Returns when the next step is due if no signal arrives (monotonic); INT64_MAX: never. */
    int64_t (*next_us)(const dt_elector *elector);
    /* Ends the elector's session with the server, so that other processes need not wait for a timeout. Calls `lost` for
     * shards that are still led. May wait briefly for the server. */
    void (*close)(dt_elector *elector);
    void (*free)(dt_elector *elector); /* frees what `make` allocated; called after `close`, or before the first step */
};

extern const struct dt_elector_kind dt_elector_zk, dt_elector_mysql;

struct dt_elector {
    /* Members that are set once. */
    const struct dt_elector_kind *kind;
    const dt_clock *clock;
    struct dt_elector_events events;
    struct dt_thread thread;
    dt_mailbox *box;

    /* Members that any thread may use. */
    _Atomic unsigned shards;
    _Atomic bool leaving;
    _Atomic bool news; /* dt_elector_news was called since the last step */
    _Atomic bool released[DT_SHARDS_MAX];
    /* The shard was gained by this process, and since then neither lost nor given back. */
    _Atomic bool leads[DT_SHARDS_MAX];
    _Atomic unsigned n_leads;
    struct dt_lease lease;
    _Atomic uint64_t place; /* members << 32 | rank, as last seen; 0: never seen */

    /* Members that only the elector's thread uses. */
    int64_t not_before_us; /* mono: after a failure: earliest time of the next request to the server */
    int64_t backoff_us;    /* the next pause; set by `make`, and again when a request succeeds */
    struct dt_share_plan plan;
};

/* Only this function writes leads[] and n_leads. */
static inline void dt_elector_set_leads(dt_elector *e, unsigned shard, bool leads)
{
    if (atomic_exchange(&e->leads[shard], leads) == leads)
        return;
    if (leads)
        atomic_store(&e->released[shard], false);
    const unsigned was = leads ? atomic_fetch_add(&e->n_leads, 1) : atomic_fetch_sub(&e->n_leads, 1);
    dt_assert(leads ? was < DT_SHARDS_MAX : was > 0);
}

static inline void dt_elector_set_place(dt_elector *e, unsigned rank, unsigned members)
{
    atomic_store(&e->place, (uint64_t)members << 32 | rank);
}

/* Random numbers for sessions and members, and for jitter. */
static inline uint64_t dt_elector_random(const dt_elector *e)
{
    uint64_t v;

    if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
        v = (uint64_t)dt_clock_mono_us(e->clock) * UINT64_C(6364136223846793005);
    return v;
}

/* Backs off: no request for a pause that doubles each time, up to most_us. The pause is random, between half of the
 * current step and the whole step. */
static inline void dt_elector_back_off(dt_elector *e, int64_t most_us)
{
    const int64_t step_us = e->backoff_us;
    e->not_before_us =
        dt_clock_mono_us(e->clock) + step_us / 2 + (int64_t)(dt_elector_random(e) % (uint64_t)(step_us / 2));
    e->backoff_us = dt_earlier(step_us * 2, most_us);
}

/* ---- elector.c, for tests: an elector without its thread ---- */

dt_status dt_elector_new(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err);
void dt_elector_step(dt_elector *elector, uint32_t signals);
int64_t dt_elector_next_us(const dt_elector *elector);
