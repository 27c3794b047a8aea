/*
 * Who tries to lead which shard: ZooKeeper, for liveness only. Balanced over the processes that run: with S shards and
 * M members (by order of joining) the first S mod M members lead one more than the others; a member above its share
 * releases, one below it takes free shards. So a join or a leave moves only what it must.
 *
 *   /duetime/<installation>/members/m-<guid>-<seq>   ephemeral sequential, one a process
 *   /duetime/<installation>/leaders/<shard>          ephemeral; data = guid of the leader
 *
 * Only elector_zk.c includes zookeeper.h. Runs in a thread of its own; ZooKeeper's threads only post to it.
 */
#ifndef DT_DISPATCHER_ELECTOR_H
#define DT_DISPATCHER_ELECTOR_H

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"

typedef struct dt_elector dt_elector;

struct dt_elector_events {
    void *arg;
    /* Called on the elector's thread; return at once. */
    void (*gained)(void *arg, unsigned shard); /* this process should lead it now */
    /* Stop leading: the elector keeps the node until dt_elector_released (release asked), or it is gone already (lost).
     */
    void (*release)(void *arg, unsigned shard);
    void (*lost)(void *arg,
                 unsigned shard); /* session expired, or disconnected for two thirds of its timeout: step down now */
};

/* Does not wait for ZooKeeper to be there; reconnects for ever with capped back-off and jitter. owner: host:pid, for
 * people. */
DT_MUST_CHECK dt_status dt_elector_start(const struct dt_config *config, const char *installation, unsigned shards,
                                         const char *owner, const dt_clock *clock,
                                         const struct dt_elector_events *events, dt_elector **out,
                                         struct dt_error *err);
/* A shard loop has stopped after `release`: the node is deleted, others may take it. Any thread. */
void dt_elector_released(dt_elector *elector, unsigned shard);
/* Does ZooKeeper, as far as this process knows, name us (connected, or disconnected for less than two thirds of the
 * timeout)? Any thread. */
bool dt_elector_leads(const dt_elector *elector, unsigned shard);
/* This process's place (0 = joined first) among the members, as last seen; false: never seen yet. For sharing out other
 * work, which then goes on in the last known order while ZooKeeper is away. Any thread. */
bool dt_elector_rank(const dt_elector *elector, unsigned *rank, unsigned *members);
/* The shards' number changed (map generation). Any thread. */
void dt_elector_set_shards(dt_elector *elector, unsigned shards);
/* Leave: no new shards, `release` for all that are held. dt_elector_idle: all have been released. */
void dt_elector_leave(dt_elector *elector);
bool dt_elector_idle(const dt_elector *elector);
void dt_elector_stop(dt_elector *elector); /* closes the session, joins the thread, frees */

#endif
