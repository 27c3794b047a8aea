/*
 * The leader of one shard, in a thread of its own, from takeover to stepping down. See shard_loop.c for the
 * protocol.
 */
#pragma once

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

/* The surroundings that all loops of a process share; they must outlive the loops. Callbacks run on the loop's thread
 * and return at once. */
struct dt_loop_env {
    const struct dt_config *config;
    const struct dt_delivery_servers *servers;
    const char *installation;
    const dt_clock *clock;
    dt_refclock *ref;
    const char *owner;          /* host:pid */
    enum dt_outage_of election; /* the server that elects */
    struct dt_room *room;       /* room within the limits of topics: shard/shard_loop.h */
    void *arg;
    bool (*leads)(void *arg, unsigned shard);         /* whether the election still names this process */
    unsigned (*share)(void *arg);                     /* the number of shards that the election gives to this process */
    void (*map)(void *arg, struct dt_shard_map *out); /* the current map */
    void (*stale_map)(void *arg);                     /* requests a reload of the map */
    void (*index_lost)(
        void *arg,
        unsigned shard); /* requests a rebuild of the shard's set; dt_shard_loop_index_whole reports its end */
    void (*index_doubted)(
        void *arg); /* entries of the shard may be missing; dt_shard_loop_index_compared reports the compare */
    /* Entries of a shard could not be written to this index, and are lost. */
    void (*index_entries_lost)(void *arg, const dt_index *index);
    /* Whether every process that changes jobs can write to that endpoint, as far as is known. */
    bool (*index_told)(void *arg, const char *endpoint);
    bool (*hears)(void *arg); /* whether wake-ups arrive: from Redis, or without an index from the watch of MySQL */
    /* Without an index: the shard's row as last seen by the watch. A later change wakes the loop. False: not known. */
    bool (*watched_row)(void *arg, unsigned shard, struct dt_watched_row *out);
    void (*led)(void *arg); /* a leadership began or ended */
    /* The deadline up to which attempts may time out (results.h). Also records that the shard waits for a later one. */
    struct dt_read_up_to (*read_up_to)(void *arg);
    void (*want_read)(void *arg, unsigned shard, int64_t deadline_ms);
    void (*outbox)(void *arg, unsigned shard);  /* the shard's outbox has messages */
    void (*stopped)(void *arg, unsigned shard); /* the loop ended, by itself or as ordered; join it with _free */
    uint64_t (*random)(void *arg);
};

DT_MUST_CHECK dt_status dt_shard_loop_start(const struct dt_loop_env *env, unsigned shard, dt_shard_loop **out);
/* Joins the thread; call after dt_shard_loop_stop or `stopped`. */
void dt_shard_loop_free(dt_shard_loop *loop);

/* ---- any thread ---- */
void dt_shard_loop_wake(dt_shard_loop *loop); /* a job may be due */
void dt_shard_loop_topics(
    dt_shard_loop *loop); /* topics changed, or what is known of the index: everything is checked again */
/* The rebuild that index_lost requested is done; losses: from the loop's state before the end of the rebuild. Ignored
 * if the set was lost again since. */
void dt_shard_loop_index_whole(dt_shard_loop *loop, uint64_t losses);
/* A process could not update the index: due jobs are read from MySQL until the index is trusted again. */
void dt_shard_loop_index_doubted(dt_shard_loop *loop);
/* The set was compared with MySQL, as far ahead as it is read before the next compare. doubts: from the loop's state
 * before the compare. Ignored if there was another doubt since. */
void dt_shard_loop_index_compared(dt_shard_loop *loop, uint64_t doubts);
void dt_shard_loop_room(dt_shard_loop *loop); /* this process may have places for attempts again */
/* The job's attempt may belong to an owner that has expired. NULL: the shard has no loop here. */
void dt_shard_loop_lost(dt_shard_loop *loop, int64_t id);
void dt_shard_loop_release(dt_shard_loop *loop); /* finish what is in flight, step down, end */
void dt_shard_loop_stop(dt_shard_loop *loop);    /* end at once: another process may lead already */

/* The state that a loop reports; strings are copied. */
struct dt_loop_state {
    bool leading;
    struct dt_marker marker; /* of its set in Redis; valid while leading */
    const char *waiting;     /* "kafka", "redis" or NULL: static text */
    const char *callbacks;   /* why due callbacks wait: "full", "off" or NULL: static text */
    char detail[320];
    int64_t generation; /* of the map that it works with, if its set is filled for it; 0 = not yet */
    bool halted;
    bool awaits_compare; /* the index answers, but must be compared with MySQL before it is trusted */
    uint64_t doubts;     /* incremented by each doubt */
    int64_t drains;      /* jobs claimed per second in the last backlog; 0 = never measured */
    uint64_t losses;     /* incremented by each index_lost, at the same time; the first value is random */
};
void dt_shard_loop_state(dt_shard_loop *loop, struct dt_loop_state *out);

/*
 * The loops of the shards that the election gave to this process. Any thread may give orders; the supervisor's thread
 * carries them out:
 *
 *   LEAD     starts a loop (after an earlier one of the shard has ended)
 *   RELEASE  the loop settles, steps down and ends; it is freed, and `released` says that the shard is free
 *   NOTHING  the shard is lost: the loop stops at once, and is freed when it has ended
 */

typedef struct dt_loop_table dt_loop_table;

/* Copied; the objects that its members point at outlive the table. */
struct dt_loop_table_env {
    const struct dt_loop_env *loops; /* the environment of each loop; complete when the first order is carried out */
    void *arg;
    void (*news)(void *arg);                     /* an order waits to be carried out. Any thread */
    void (*released)(void *arg, unsigned shard); /* on the supervisor's thread */
};

DT_MUST_CHECK dt_status dt_loop_table_new(const struct dt_loop_table_env *env, dt_loop_table **out);
void dt_loop_table_free(dt_loop_table *table); /* when no loop is left; accepts NULL */

/* ---- orders: the last one of a shard counts. The elector's thread ---- */

enum dt_loop_want { DT_WANT_NOTHING, DT_WANT_LEAD, DT_WANT_RELEASE };
void dt_loop_table_want(dt_loop_table *table, unsigned shard, enum dt_loop_want what);

/* ---- any thread ---- */

/* A loop's thread has ended. */
void dt_loop_table_ended(dt_loop_table *table, unsigned shard);
/* Calls fn for a shard's loop, if there is one; the loop exists until fn returns. */
void dt_loop_table_tell(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop));
void dt_loop_table_tell_all(dt_loop_table *table, void (*what)(dt_shard_loop *loop));
/* Like dt_loop_table_tell, with a number. */
void dt_loop_table_tell_number(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop, uint64_t number),
                               uint64_t number);
/* Notifies the loops of these jobs' shards that attempts were lost. */
void dt_loop_table_tell_lost(dt_loop_table *table, const struct dt_shard_map *map, const int64_t *ids, size_t n);
bool dt_loop_table_state(dt_loop_table *table, unsigned shard, struct dt_loop_state *out);

/* ---- the supervisor's thread ---- */

/* Carries out all orders. Also leads shards below `forced` that have no order (a test uses this to have two leaders).
 * True: a loop could not be started; call again later. */
bool dt_loop_table_carry_out(dt_loop_table *table, unsigned forced);
/* Stops all loops, and waits for them. */
void dt_loop_table_end(dt_loop_table *table);

/*
 * A chore that looks for room within the limits of topics, for all waiting shards of this process; if none waits, it is
 * not due. Waiting shards get room in turn. A grant only lets a shard try; its leader transaction decides. Other
 * processes look for themselves: if two grant the same room, it is claimed once.
 */

typedef struct dt_room dt_room;

/* Shared parts; they must outlive the room. The callback runs in a tick. */
struct dt_room_env {
    dt_chores *chores;
    const dt_clock *clock;
    void *arg;
    void (*granted)(void *arg, unsigned shard); /* the shard may claim some jobs: dt_room_take */
};

DT_MUST_CHECK dt_status dt_room_start(const struct dt_room_env *env, dt_room **out);
void dt_room_stop(dt_room *room); /* accepts NULL */

/* ---- any thread, never blocks; room may be NULL, which grants nothing ---- */

/* Jobs of the topic wait in the shard, which repeats the call within three seconds while they do. False: too many
 * topics wait, so this request is ignored. */
bool dt_room_want(dt_room *room, unsigned shard, struct dt_str topic);
/* The number of jobs of the topic granted to the shard since the last call; SIZE_MAX: no limit. */
size_t dt_room_take(dt_room *room, unsigned shard, struct dt_str topic);
/* Attempts have ended, so there may be room. */
void dt_room_news(dt_room *room);

/*
 * The watch of a dispatcher without an index: a listener of the watcher (dispatch/watch.h), which waits in MySQL
 * until a job is due. So leaders need neither polling nor Redis. It wakes only the shard loops of this process.
 *
 *   a job became due           its shard's loop is woken: within 40 ms, or 100 ms if another job was due a moment ago
 *   topics, the shard map      all loops check again; the map is read
 *   a shard's row changed      its loop is woken; until then it need not compare the row
 *   a job due long ago         read once per reconcile.period, because a manual edit, or a slow commit, may be before
 *                              the watched window; loops of shards with such a row check everything again
 *
 * If MySQL does not answer, or does not allow the wait (EXECUTE on dt_wait), dt_due_watch_hears is false, and loops
 * poll.
 */

typedef struct dt_due_watch dt_due_watch;

/* Copied; the objects that it names must outlive the watch. Callbacks run on the watcher's thread and return at
 * once. */
struct dt_due_watch_env {
    const struct dt_config *config;
    const dt_clock *clock;
    const char *owner; /* host:pid */
    void *arg;
    void (*map)(void *arg, struct dt_shard_map *out);
    void (*wake)(void *arg, unsigned shard);  /* a job may be due, or the shard's row changed */
    void (*again)(void *arg, unsigned shard); /* everything must be checked again */
    void (*stale_map)(void *arg);
};

/* Adds it to the watcher, which is stopped before dt_due_watch_free. *out is NULL unless OK, and also if the
 * configuration names an index. */
DT_MUST_CHECK dt_status dt_due_watch_new(const struct dt_due_watch_env *env, dt_watcher *watcher, dt_due_watch **out,
                                         struct dt_error *err);
void dt_due_watch_free(dt_due_watch *watch); /* NULL is accepted */

/* ---- any thread; NULL: false ---- */

/* MySQL has answered lately, so that a sleeping leader is woken in time. */
bool dt_due_watch_hears(dt_due_watch *watch);
/* No job was due at the last full read, and none has become due since. */
bool dt_due_watch_none_due(dt_due_watch *watch);
/* Copies the shard's row as of the last answer; a later change wakes the shard's loop. False: not known. */
bool dt_due_watch_row(dt_due_watch *watch, unsigned shard, struct dt_watched_row *out);
