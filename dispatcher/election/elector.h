/*
 * Who tries to lead which shard, for liveness only: the fence in MySQL (scheduler/dispatch/) decides whose writes
 * count.
 * Shards are balanced over the processes that run: with S shards and M members (by order of joining) the first S mod M
 * members lead one more than the others; a member above its share releases, one below it takes free shards. So a join
 * or a leave moves only what it must.
 *
 * Leaders are nodes in ZooKeeper, or leases in MySQL where zookeeper.servers is empty. The promise is the same:
 *
 *   - A process steps down by its own monotonic clock, two thirds of zookeeper.session_timeout after it sent the last
 *     request that was answered.
 *   - Another one leads a shard once it was released, or when the server says that the whole timeout has passed.
 *
 * An elector has a thread of its own, on which all events are called. Every function returns at once, but
 * dt_elector_stop.
 */
#ifndef DT_DISPATCHER_ELECTOR_H
#define DT_DISPATCHER_ELECTOR_H

#include "base/chores.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/outage.h"
#include "base/status.h"

typedef struct dt_elector dt_elector;

/* Called on the elector's thread; return at once. */
struct dt_elector_events {
    void *arg;
    void (*gained)(void *arg, unsigned shard);
    /* Another process should lead the shard: step down in order, then call dt_elector_released. The elector keeps the
     * shard until then. */
    void (*release)(void *arg, unsigned shard);
    /* The session ended, or the server did not answer for two thirds of the timeout: step down now. Another process may
     * lead the shard already. */
    void (*lost)(void *arg, unsigned shard);
    /* Shards were given back, or this process begins to leave, and the server notifies no member. The owner should
     * notify the other processes, so that they call dt_elector_news and need not wait for their next look. May be
     * NULL. */
    void (*moved)(void *arg);
};

/* installation and owner are read by dt_elector_start alone; config (read by a thread of the elector where leases are
 * in MySQL) and the clock must outlive the elector. */
struct dt_elector_env {
    dt_chores *urgent; /* whose connection renews leases in MySQL, with the settings of dt_lease_config */
    const struct dt_config *config;
    const char *installation;
    unsigned shards;   /* shards below it are to be led */
    const char *owner; /* host:pid, for people */
    const dt_clock *clock;
    struct dt_elector_events events;
};

/* The settings of a connection that renews leases: a server that does not answer is given up, and another connection
 * tried, within the time of a lease where it can be. */
struct dt_config dt_lease_config(const struct dt_config *config);
/* "zookeeper" or "mysql": what elects under this configuration. Static. */
const char *dt_elector_name(const struct dt_config *config);
enum dt_outage_of dt_elector_server(const struct dt_config *config);

/* *out is set before the first event. Does not wait for the server to be there; connects for ever, with capped back-off
 * and jitter. */
DT_MUST_CHECK dt_status dt_elector_start(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err);
/* Leaves the election, so that others need not wait for a timeout; joins the threads, frees. Takes as long as the
 * server does not answer, within its time limits. NULL is accepted. */
void dt_elector_stop(dt_elector *elector);

/* ---- any thread ---- */

/* A shard's loop has stopped after `release`: another process may take the shard. */
void dt_elector_released(dt_elector *elector, unsigned shard);
/* Whether this process is the shard's leader, as far as it knows: the server has answered within two thirds of the
 * timeout. */
bool dt_elector_leads(const dt_elector *elector, unsigned shard);
/* This process's place (0 = joined first) among the members, as last seen; false: never seen yet. For sharing out other
 * work, which then goes on in the last known order while the server is away. */
bool dt_elector_rank(const dt_elector *elector, unsigned *rank, unsigned *members);
/* Shards below it are to be led from now on. */
void dt_elector_set_shards(dt_elector *elector, unsigned shards);
/* Another process announced something, perhaps its `moved`: looks soon, if the server notifies no member. */
void dt_elector_news(dt_elector *elector);
/* Takes no more shards, and calls `release` for all that are held. */
void dt_elector_leave(dt_elector *elector);
/* Whether nothing is led: after dt_elector_leave, whether all have been released. */
bool dt_elector_idle(const dt_elector *elector);

#endif
