/*
 * Who tries to lead which shard: ZooKeeper, for liveness only. Balanced over the processes that run: with S shards and
 * M members (by order of joining) the first S mod M members lead one more than the others; a member above its share
 * releases, one below it takes free shards. So a join or a leave moves only what it must.
 *
 *   /duetime/<installation>/members/m-<guid>-<seq>   ephemeral sequential, one a process
 *   /duetime/<installation>/leaders/<shard>          ephemeral; data = guid of the leader
 *
 * An elector has a thread of its own, on which all events are called. Every function returns at once, but dt_elector_stop.
 */
#ifndef DT_DISPATCHER_ELECTOR_H
#define DT_DISPATCHER_ELECTOR_H

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"

typedef struct dt_elector dt_elector;

/* Called on the elector's thread; return at once. */
struct dt_elector_events {
    void *arg;
    /* This process should lead the shard now. */
    void (*gained)(void *arg, unsigned shard);
    /* Another process should lead the shard: step down in order, then call dt_elector_released. The elector keeps the
     * node until then. */
    void (*release)(void *arg, unsigned shard);
    /* The session expired, or ZooKeeper did not answer for two thirds of its timeout: step down now. Another process may
     * lead the shard already. */
    void (*lost)(void *arg, unsigned shard);
};

/* config, installation and owner are read by dt_elector_start alone; the clock must outlive the elector. */
struct dt_elector_env {
    const struct dt_config *config;
    const char *installation;
    unsigned shards;   /* those below it are to be led */
    const char *owner; /* host:pid, for people */
    const dt_clock *clock;
    struct dt_elector_events events;
};

/* *out is set before the first event. Does not wait for ZooKeeper to be there; connects for ever, with capped back-off
 * and jitter. */
DT_MUST_CHECK dt_status dt_elector_start(const struct dt_elector_env *env, dt_elector **out, struct dt_error *err);
/* Closes the session, joins the thread, frees. NULL is accepted. */
void dt_elector_stop(dt_elector *elector);

/* ---- any thread ---- */

/* A shard's loop has stopped after `release`: the node is deleted, and others may take it. */
void dt_elector_released(dt_elector *elector, unsigned shard);
/* Whether ZooKeeper, as far as this process knows, names it as the shard's leader: it is connected, or has been
 * disconnected for less than two thirds of the timeout. */
bool dt_elector_leads(const dt_elector *elector, unsigned shard);
/* This process's place (0 = joined first) among the members, as last seen; false: never seen yet. For sharing out other
 * work, which then goes on in the last known order while ZooKeeper is away. */
bool dt_elector_rank(const dt_elector *elector, unsigned *rank, unsigned *members);
/* Shards below it are to be led from now on. */
void dt_elector_set_shards(dt_elector *elector, unsigned shards);
/* Takes no more shards, and calls `release` for all that are held. */
void dt_elector_leave(dt_elector *elector);
/* Whether nothing is led: after dt_elector_leave, whether all have been released. */
bool dt_elector_idle(const dt_elector *elector);

#endif
