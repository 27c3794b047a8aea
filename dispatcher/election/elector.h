/*
 * Decides which process tries to lead which shard. This is for liveness only: the fence in MySQL (scheduler/dispatch/)
 * decides whose writes are accepted. Shards are balanced over the processes that run: with S shards and M members (by
 * order of joining) the first S mod M members lead one more than the others. A member above its share releases shards;
 * a member below it takes free ones. So a join or a leave moves as few shards as possible.
 *
 * Leaders are nodes in ZooKeeper, or leases in MySQL if zookeeper.servers is empty. Both guarantee:
 *
 *   - A process steps down by its own monotonic clock, two thirds of zookeeper.session_timeout after it sent the last
 *     request that was answered.
 *   - Another process leads a shard after it was released, or if the server says that the whole timeout has passed.
 *
 * An elector has its own thread, which calls all events. Every function except dt_elector_stop returns at once.
 */
#pragma once

#include "base/chores.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/outage.h"
#include "base/status.h"

typedef struct dt_elector dt_elector;

/* Events. They are called on the elector's thread and must return at once. */
struct dt_elector_events {
    void *arg;
    void (*gained)(void *arg, unsigned shard);
    /* Another process should lead the shard: the owner must step down in order, then call dt_elector_released. The
     * elector keeps the shard until then. */
    void (*release)(void *arg, unsigned shard);
    /* The session ended, or the server did not answer for two thirds of the timeout: the owner must step down now.
     * Another process may already lead the shard. */
    void (*lost)(void *arg, unsigned shard);
    /* Shards were given back, or this process has begun to leave, and the server does not notify members. The owner
     * should notify other processes, so that they call dt_elector_news instead of waiting for their next poll. May be
     * NULL. */
    void (*moved)(void *arg);
};

/* What an elector needs. installation and owner are read only by dt_elector_start. The clock must outlive the elector,
 * and so must config, because the elector reads it if leases are in MySQL. */
struct dt_elector_env {
    dt_chores *urgent; /* run the chore that renews leases in MySQL, with the settings of dt_lease_config */
    const struct dt_config *config;
    const char *installation;
    unsigned shards;   /* number of shards: all shards with lower numbers must be led */
    const char *owner; /* host:pid, for operators */
    const dt_clock *clock;
    struct dt_elector_events events;
};

/* Returns the settings of a connection that renews leases: if a server does not answer, the connection is closed early
 * enough to try another server within the lease, if possible. */
struct dt_config dt_lease_config(const struct dt_config *config);
/* Returns the kind of election under this configuration, "zookeeper" or "mysql". Static. */
const char *dt_elector_name(const struct dt_config *config);
enum dt_outage_of dt_elector_server(const struct dt_config *config);

/* Starts an elector. *out is set before the first event. Does not wait for the server; the elector tries to connect
 * again and again, with capped back-off and jitter. */
DT_MUST_CHECK dt_status dt_elector_start(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err);
/* Leaves the election, so that other processes need not wait for a timeout; joins the threads, frees. If the server
 * does not answer, waits for it within its time limits. Accepts NULL. */
void dt_elector_stop(dt_elector *elector);

/* ---- any thread ---- */

/* Called after `release`, when the shard's loop has stopped: another process may take the shard. */
void dt_elector_released(dt_elector *elector, unsigned shard);
/* Whether this process leads the shard, as far as it knows: the server answered within two thirds of the timeout. */
bool dt_elector_leads(const dt_elector *elector, unsigned shard);
/* Returns this process's rank (0: joined first) among the members, as last seen; false: the members were never seen.
 * Other work is divided by rank, also while the server is down. */
bool dt_elector_rank(const dt_elector *elector, unsigned *rank, unsigned *members);
/* Changes the number of shards that must be led. */
void dt_elector_set_shards(dt_elector *elector, unsigned shards);
/* Another process sent a notification, perhaps because of its `moved`: polls soon, if the server does not notify
 * members. */
void dt_elector_news(dt_elector *elector);
/* Takes no more shards, and calls `release` for all that it holds. */
void dt_elector_leave(dt_elector *elector);
/* Whether no shard is led. After dt_elector_leave: whether all shards were released. */
bool dt_elector_idle(const dt_elector *elector);
