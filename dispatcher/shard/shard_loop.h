/*
 * The leader of one shard, in a thread of its own, from takeover to stepping down. See shard_loop.c for the
 * protocol.
 */
#ifndef DT_DISPATCHER_SHARD_LOOP_H
#define DT_DISPATCHER_SHARD_LOOP_H

#include "base/clock.h"
#include "base/config.h"
#include "base/outage.h"
#include "deliver/delivery.h"
#include "dispatch/watch.h"
#include "index/index.h"
#include "job/shard.h"

typedef struct dt_shard_loop dt_shard_loop;

/* The surroundings that all loops of a process share; must outlive them. Callbacks run on the loop's thread and return
 * at once. */
struct dt_loop_env {
    const struct dt_config *config;
    const struct dt_delivery_servers *servers;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    const char *owner;          /* host:pid */
    enum dt_outage_of election; /* the server that elects */
    struct dt_room *room;       /* room within limits of topics: shard/room.h */
    void *arg;
    bool (*leads)(void *arg, unsigned shard);         /* does the election still name this process? */
    unsigned (*share)(void *arg);                     /* how many shards are this process's by the election's sharing */
    void (*map)(void *arg, struct dt_shard_map *out); /* the present map */
    void (*stale_map)(void *arg);                     /* reload it */
    void (*index_lost)(void *arg,
                       unsigned shard); /* the shard's set must be rebuilt: dt_shard_loop_index_whole when it is */
    void (*index_doubted)(void *arg);   /* entries of the shard may be missing: dt_shard_loop_index_compared when not */
    /* Entries of a shard could not be written to the index `index`, and are lost. */
    void (*index_untold)(void *arg, const dt_index *index);
    /* Every process that changes jobs can write to that endpoint, as far as is known. */
    bool (*index_told)(void *arg, const char *endpoint);
    bool (*hears)(void *arg); /* wake-ups arrive: from Redis, or without an index from the watch of MySQL */
    /* Without an index: the shard's row as the watch saw it last; a change since then wakes the loop. False: not
     * known. */
    bool (*watched_row)(void *arg, unsigned shard, struct dt_watched_row *out);
    void (*led)(void *arg); /* a leadership began or ended */
    /* Up to which deadline attempts may time out (results.h), and: the shard waits for a later one. */
    struct dt_read_up_to (*read_up_to)(void *arg);
    void (*want_read)(void *arg, unsigned shard, int64_t deadline_ms);
    void (*outbox)(void *arg, unsigned shard);  /* there is something in the outbox */
    void (*stopped)(void *arg, unsigned shard); /* the loop ended by itself or as asked; join it with _free */
    uint64_t (*random)(void *arg);
};

DT_MUST_CHECK dt_status dt_shard_loop_start(const struct dt_loop_env *env, unsigned shard, dt_shard_loop **out);
/* Joins the thread; call after dt_shard_loop_stop or `stopped`. */
void dt_shard_loop_free(dt_shard_loop *loop);

/* ---- any thread ---- */
void dt_shard_loop_wake(dt_shard_loop *loop); /* something may be due */
void dt_shard_loop_topics(
    dt_shard_loop *loop); /* topics changed, or what is known of the index did: everything is looked at again */
/* The rebuild that index_lost asked for is done; `losses` as the loop's state said before it was finished. Ignored if
 * the set was lost once more since. */
void dt_shard_loop_index_whole(dt_shard_loop *loop, uint64_t losses);
/* A process could not tell the index of a change: due jobs are read from MySQL until the index is believed again. */
void dt_shard_loop_index_doubted(dt_shard_loop *loop);
/* The set has been compared with MySQL, as far as it is looked at before the next compare, after the loop's state said
 * `doubts`. Ignored if there was another doubt since. */
void dt_shard_loop_index_compared(dt_shard_loop *loop, uint64_t doubts);
void dt_shard_loop_room(dt_shard_loop *loop); /* there may be places for attempts in the hands of this process again */
/* The job's attempt may be in the hands of an owner that is gone. NULL: the shard has no loop here. */
void dt_shard_loop_lost(dt_shard_loop *loop, int64_t id);
void dt_shard_loop_release(dt_shard_loop *loop); /* finish what is in flight, step down, end */
void dt_shard_loop_stop(dt_shard_loop *loop);    /* end at once: another process may lead already */

/* The state that a loop tells of itself; strings are copied. */
struct dt_loop_state {
    bool leading;
    struct dt_marker marker; /* of its set in Redis; valid while leading */
    const char *waiting;     /* "kafka", "redis" or NULL: static text */
    const char *callbacks;   /* why due callbacks wait: "full", "off" or NULL: static text */
    char detail[320];
    int64_t generation; /* of the map that it works with, its set filled for it; 0 = not yet */
    bool halted;
    bool awaits_compare; /* the index could be asked, and is not believed before it is compared with MySQL */
    uint64_t doubts;     /* rises with each doubt */
    int64_t drains;  /* jobs a second that it claimed while more were due, when that last lasted; 0 = it never did */
    uint64_t losses; /* rises with each index_lost, together with it; begins anywhere */
};
void dt_shard_loop_state(dt_shard_loop *loop, struct dt_loop_state *out);

#endif
