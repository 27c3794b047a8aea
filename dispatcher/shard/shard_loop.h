/*
 * The leader of one shard, in a thread of its own, from takeover to stepping down. See shard_loop.c for the
 * protocol.
 */
#ifndef DT_DISPATCHER_SHARD_LOOP_H
#define DT_DISPATCHER_SHARD_LOOP_H

#include <stdbool.h>

#include "base/chores.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/outage.h"
#include "base/status.h"
#include "base/text/strbuf.h"
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
    struct dt_room *room;       /* room within limits of topics: shard/shard_loop.h */
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

/*
 * The loops of the shards that the election gave to this process. Any thread gives orders; the supervisor's thread
 * carries them out:
 *
 *   LEAD     starts a loop (after an earlier one of the shard has ended)
 *   RELEASE  the loop settles, steps down and ends; it is freed, and `released` says that the shard is free
 *   NOTHING  the shard is lost: the loop stops at once, and is freed when it has ended
 */

typedef struct dt_loop_table dt_loop_table;

/* Copied; what the members point at outlives the table. */
struct dt_loop_table_env {
    const struct dt_loop_env *loops; /* what each loop is given; complete when the first order is carried out */
    void *arg;
    void (*news)(void *arg);                     /* something is to be carried out. Any thread */
    void (*released)(void *arg, unsigned shard); /* on the supervisor's thread */
};

DT_MUST_CHECK dt_status dt_loop_table_new(const struct dt_loop_table_env *env, dt_loop_table **out);
void dt_loop_table_free(dt_loop_table *table); /* no loop is left; accepts NULL */

/* ---- orders: the last one of a shard counts. The elector's thread ---- */

enum dt_loop_want { DT_WANT_NOTHING, DT_WANT_LEAD, DT_WANT_RELEASE };
void dt_loop_table_want(dt_loop_table *table, unsigned shard, enum dt_loop_want what);

/* ---- any thread ---- */

/* A loop's thread has ended. */
void dt_loop_table_ended(dt_loop_table *table, unsigned shard);
/* Calls fn for a shard's loop, if there is one; the loop stays until fn returns. */
void dt_loop_table_tell(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop));
void dt_loop_table_tell_all(dt_loop_table *table, void (*what)(dt_shard_loop *loop));
/* Passes on a number as well. */
void dt_loop_table_tell_number(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop, uint64_t number),
                               uint64_t number);
/* Notifies the loops of these jobs' shards that attempts were lost. */
void dt_loop_table_tell_lost(dt_loop_table *table, const struct dt_shard_map *map, const int64_t *ids, size_t n);
bool dt_loop_table_state(dt_loop_table *table, unsigned shard, struct dt_loop_state *out);

/* ---- the supervisor's thread ---- */

/* Carries out all orders. Also leads shards below `forced` for which there is no order (a test uses this to have two
 * leaders). True: a loop could not be started; call again after a while. */
bool dt_loop_table_carry_out(dt_loop_table *table, unsigned forced);
/* Stops all loops, and waits for them. */
void dt_loop_table_end(dt_loop_table *table);

/*
 * A chore that looks for room within the limits of topics, for all shards of this process whose jobs wait for it. It is
 * not due while none waits. The shards that wait get the room in turn. A grant lets a shard try; its leader transaction
 * decides. Other processes look for themselves: if two are granted the same room, it is claimed once.
 */

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

/* Jobs of the topic wait in the shard. The shard repeats it within three seconds while they wait. False: too many
 * topics are waited for, and this one is ignored. */
bool dt_room_want(dt_room *room, unsigned shard, struct dt_str topic);
/* The number of jobs of the topic that were granted to the shard since it was last asked; SIZE_MAX: any number. */
size_t dt_room_take(dt_room *room, unsigned shard, struct dt_str topic);
/* Attempts have ended: there may be room at once. */
void dt_room_news(dt_room *room);

/*
 * The watch of a dispatcher without an index: a listener of the watcher (dispatch/watcher.h), which waits in MySQL
 * until something is due. So leaders need neither look by themselves nor be notified through Redis. It wakes only the
 * shard loops of this process.
 *
 *   something became due       its shard's loop is woken: within 40 ms, or 100 ms if another job was due a moment ago
 *   topics, the shard map      all loops look again; the map is read
 *   a shard's row changed      its loop is woken; until then it need not compare the row
 *   a job due long ago         looked for once in reconcile.period: a manual edit, or a row whose commit took long, is
 *                              before the watched window; loops of shards with such a row look at everything again
 *
 * If MySQL does not answer, or does not allow the wait (EXECUTE on dt_wait), dt_due_watch_hears is false, and loops
 * look by themselves.
 */

typedef struct dt_due_watch dt_due_watch;

/* Copied; what it names must outlive the watch. Callbacks run on the watcher's thread and return at once. */
struct dt_due_watch_env {
    const struct dt_config *config;
    const dt_clock *clock;
    const char *owner; /* host:pid */
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    void (*wake)(void *arg, unsigned shard);  /* something may be due, or its row is another */
    void (*again)(void *arg, unsigned shard); /* everything is to be looked at again */
    void (*stale_map)(void *arg);
};

/* Adds it to the watcher, which is stopped before dt_due_watch_free. *out is NULL unless OK, and if the configuration
 * names an index. */
DT_MUST_CHECK dt_status dt_due_watch_new(const struct dt_due_watch_env *env, dt_watcher *watcher, dt_due_watch **out,
                                         struct dt_error *err);
void dt_due_watch_free(dt_due_watch *watch); /* NULL is accepted */

/* ---- any thread; NULL: false ---- */

/* MySQL has answered lately, so that a sleeping leader is woken in time. */
bool dt_due_watch_hears(dt_due_watch *watch);
/* Copies the shard's row as it was at the last answer; a change since then wakes the shard's loop. False: nothing is
 * known. */
bool dt_due_watch_row(dt_due_watch *watch, unsigned shard, struct dt_watched_row *out);

#endif
