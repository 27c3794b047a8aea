/*
 * A chore that looks for room within the limits of topics, for all shards of this process whose jobs wait for it. It is
 * not due while none waits. The shards that wait get the room in turn. A grant lets a shard try; its leader transaction
 * decides. Other processes look for themselves: if two are granted the same room, it is claimed once.
 */
#ifndef DT_DISPATCHER_ROOM_H
#define DT_DISPATCHER_ROOM_H

#include "base/chores.h"
#include "base/text/strbuf.h"

typedef struct dt_room dt_room;

/* Shared parts; must outlive the room. The callback runs in a tick. */
struct dt_room_env {
    dt_chores *chores;
    const dt_clock *clock;
    void *arg;
    void (*granted)(void *arg, unsigned shard); /* the shard may take some: dt_room_take */
};

DT_MUST_CHECK dt_status dt_room_start(const struct dt_room_env *env, dt_room **out);
void dt_room_stop(dt_room *room); /* accepts NULL */

/* ---- any thread, never blocks; room may be NULL, which grants nothing ---- */

/* Jobs of the topic wait in the shard. Who does not say so again within three seconds waits no longer. False: too many
 * topics are waited for, this one is not looked after. */
bool dt_room_want(dt_room *room, unsigned shard, struct dt_str topic);
/* The number of jobs of the topic that were granted to the shard since it was last asked; SIZE_MAX: any number. */
size_t dt_room_take(dt_room *room, unsigned shard, struct dt_str topic);
/* Attempts have ended: there may be room at once. */
void dt_room_news(dt_room *room);

#endif
