/*
 * Decides which process tries to lead which shard. This is for liveness only: the fence in MySQL (scheduler/dispatch/)
 * decides whose writes are accepted. Shards are balanced over the processes that run, the members: with S shards and M
 * members, the first S mod M members (by order of joining) lead one shard more than the rest. A member that leads more
 * than its share releases shards; a member that leads less takes free shards. So if a member joins or leaves, as few
 * shards as possible move.
 *
 * Leaders are nodes in ZooKeeper, or leases in MySQL if zookeeper.servers is empty. Both guarantee:
 *
 *   - A process steps down two thirds of zookeeper.session_timeout after it sent the last request that was answered,
 *     by its own monotonic clock.
 *   - Another process leads a shard only after the shard was released, or if the server says that the whole timeout has
 *     passed.
 *
 * An elector has its own thread, which calls all events. Every function except dt_elector_stop returns at once.
 */
#pragma once

#include "base/outage.h"
#include "process.h"

typedef struct dt_elector dt_elector;

/* Events. They are called on the elector's thread and must return at once. */
struct dt_elector_events {
    void *arg;
    /* LEAD: the shard was gained. RELEASE: another process should lead the shard: its loop must step down in order,
     * then dt_elector_released must be called; until then the elector keeps the shard. NOTHING: the shard was lost,
     * because the session ended, or the server did not answer for two thirds of the timeout: the loop must step down at
     * once, because another process may already lead the shard. */
    void (*want)(void *arg, unsigned shard, enum dt_loop_want want);
    /* This process has given shards back, or has begun to leave: the callback notifies the other processes, so that
     * they call dt_elector_news before their next poll. Called only if the server notifies no members. May be NULL. */
    void (*moved)(void *arg);
};

/* What an elector needs. Only dt_elector_start reads installation and owner. The clock must outlive the elector, and so
 * must config, because the elector reads it if leases are in MySQL. */
struct dt_elector_env {
    /* Runs the chore that renews leases in MySQL; its connections have the settings of dt_lease_config. */
    dt_chores *urgent;
    const struct dt_config *config;
    const char *installation;
    unsigned shards;   /* number of shards; all shards with lower numbers must be led */
    const char *owner; /* host:pid, for operators */
    const dt_clock *clock;
    struct dt_elector_events events;
};

/* Returns the settings of a connection that renews leases. If a server does not answer, the connection is closed early
 * enough to try another server before the lease ends, if possible. */
struct dt_config dt_lease_config(const struct dt_config *config);
/* Returns the kind of election under this configuration, "zookeeper" or "mysql". Static. */
const char *dt_elector_name(const struct dt_config *config);
enum dt_outage_of dt_elector_server(const struct dt_config *config);

/* Starts an elector. *out is set before the first event. Does not wait for the server: the elector tries to connect
 * until it succeeds, with capped back-off and jitter. */
dt_status dt_elector_start(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err);
/* Leaves the election, so that other processes need not wait for a timeout; joins the threads, and frees the elector.
 * If the server does not answer, waits for it within the elector's time limits. Accepts NULL. */
void dt_elector_stop(dt_elector *elector);

/* ---- any thread ---- */

/* Called after RELEASE, when the shard's loop has stopped: another process may take the shard. */
void dt_elector_released(dt_elector *elector, unsigned shard);
/* Returns whether this process leads the shard, as far as it knows: the server answered within two thirds of the
 * timeout. */
bool dt_elector_leads(const dt_elector *elector, unsigned shard);
/* Returns this process's rank (0: joined first) among the members, as last seen. False: the members were never seen.
 * Other work is divided by rank, also while the server is down. */
bool dt_elector_rank(const dt_elector *elector, unsigned *rank, unsigned *members);
/* Changes the number of shards that must be led. */
void dt_elector_set_shards(dt_elector *elector, unsigned shards);
/* Called when another process sent a notification (perhaps because of its event `moved`): if the server does not notify
 * members, the elector polls soon. */
void dt_elector_news(dt_elector *elector);
/* Takes no more shards, and wants all shards that it leads to be released. */
void dt_elector_leave(dt_elector *elector);
/* Returns whether no shard is led. After dt_elector_leave, this means that all shards were released. */
bool dt_elector_idle(const dt_elector *elector);
