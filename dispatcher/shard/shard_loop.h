/* The leader of one shard, in a thread of its own, from takeover to stepping down. shard_loop.c describes the
 * protocol. */
#pragma once

#include "process.h"

typedef struct dt_shard_loop dt_shard_loop;

dt_status dt_shard_loop_start(const struct dt_process_env *env, unsigned shard, dt_shard_loop **out);
/* Joins the thread, and frees the loop. Must be called after dt_shard_loop_stop, or after `stopped` was called. */
void dt_shard_loop_free(dt_shard_loop *loop);

/* ---- any thread ---- */
void dt_shard_loop_tell(dt_shard_loop *loop, enum dt_loop_news news);
/* Called when the rebuild that index_lost requested is done. losses: state.losses, read before the rebuild ended; if it
 * has risen since, the set was lost again, and the call is ignored. */
void dt_shard_loop_index_whole(dt_shard_loop *loop, uint64_t losses);
/* Called when a process could not update the index: the loop reads due jobs from MySQL until the index is trusted
 * again. */
void dt_shard_loop_index_doubted(dt_shard_loop *loop);
/* Called when the index has been compared with MySQL for all times that the loop reads before the next compare. doubts:
 * state.doubts, read before the compare; if it has risen since, the call is ignored. */
void dt_shard_loop_index_compared(dt_shard_loop *loop, uint64_t doubts);
/* Called when the attempt of a job may belong to an owner that has expired. Accepts NULL: this process has no loop of
 * the shard. */
void dt_shard_loop_lost(dt_shard_loop *loop, int64_t id);
void dt_shard_loop_release(dt_shard_loop *loop); /* orders the loop to settle what is in flight, step down and end */
/* Orders the loop to end at once, because another process may lead already. */
void dt_shard_loop_stop(dt_shard_loop *loop);

/* What a loop reports about itself; strings are copied. */
struct dt_loop_state {
    bool leading;
    struct dt_marker marker; /* marker of the shard's set in Redis; valid while leading */
    const char *waiting;     /* what due jobs wait for: "kafka", "redis" or NULL; static text */
    const char *callbacks;   /* why due callbacks wait: "full", "off" or NULL; static text */
    char detail[320];
    int64_t generation; /* generation of the map, if the loop uses the map and the set is filled for it; otherwise 0 */
    bool halted;
    bool awaits_compare; /* the index answers, but is not trusted until it has been compared with MySQL */
    uint64_t doubts;     /* how often index entries of the shard were reported as missing so far */
    int64_t drains;      /* jobs per second that were claimed in the last backlog; 0: never measured */
    uint64_t losses;     /* number of times that index_lost was called, plus a random first value */
};
void dt_shard_loop_state(dt_shard_loop *loop, struct dt_loop_state *out);

/*
 * The loops of the shards that the election gave to this process. Any thread may give orders; the supervisor's thread
 * carries them out:
 *
 *   LEAD     starts a loop (after an earlier one of the shard has ended)
 *   RELEASE  the loop settles, steps down and ends; it is freed, and `released` is called: another process may lead
 *   NOTHING  the shard is lost: the loop stops at once, and is freed when it has ended
 */

typedef struct dt_loop_table dt_loop_table;

dt_status dt_loop_table_new(const struct dt_process_env *env, dt_loop_table **out);
void dt_loop_table_free(dt_loop_table *table); /* called when no loop is left; accepts NULL */

/* ---- orders: the last one of a shard counts. The elector's thread ---- */

void dt_loop_table_want(dt_loop_table *table, unsigned shard, enum dt_loop_want what);

/* ---- any thread ---- */

/* Records that a loop's thread has ended. */
void dt_loop_table_ended(dt_loop_table *table, unsigned shard);
/* Tells the shard's loop, if there is one, or all loops. */
void dt_loop_table_tell(dt_loop_table *table, unsigned shard, enum dt_loop_news news);
void dt_loop_table_tell_all(dt_loop_table *table, enum dt_loop_news news);
void dt_loop_table_doubt_all(dt_loop_table *table); /* calls dt_shard_loop_index_doubted for all loops */
/* Calls what(loop, number) for the shard's loop, if there is one. The loop is not freed before `what` returns. */
void dt_loop_table_tell_number(dt_loop_table *table, unsigned shard, void (*what)(dt_shard_loop *loop, uint64_t number),
                               uint64_t number);
/* Notifies the loops of these jobs' shards that attempts were lost. */
void dt_loop_table_tell_lost(dt_loop_table *table, const struct dt_shard_map *map, const int64_t *ids, size_t n);
bool dt_loop_table_state(dt_loop_table *table, unsigned shard, struct dt_loop_state *out);

/* ---- the supervisor's thread ---- */

/* Starts and stops loops as ordered. Also leads shards below `forced` without an order (a test thus makes two leaders).
 * Returns true if a loop could not be started, and the call must be repeated. */
bool dt_loop_table_carry_out(dt_loop_table *table, unsigned forced);
/* Stops all loops, and waits for them. */
void dt_loop_table_end(dt_loop_table *table);

/* A chore that looks for room within the limits of topics, for all waiting shards of this process. If no shard waits,
 * it is not due. Waiting shards get room in turn. A grant only lets a shard try; its leader transaction decides. Each
 * process looks for room by itself: if two processes grant the same room, only one of them can claim it. */

typedef struct dt_room dt_room;

dt_status dt_room_start(const struct dt_process_env *env, dt_room **out);
void dt_room_stop(dt_room *room); /* accepts NULL */

/* ---- any thread, never blocks; room may be NULL, which grants nothing ---- */

/* Requests room for jobs of the topic in the shard. The shard must repeat the call within three seconds while it waits.
 * False: too many topics wait, so the request is ignored. */
bool dt_room_want(dt_room *room, unsigned shard, struct dt_str topic);
/* Returns how many jobs of the topic were granted to the shard since the last call; SIZE_MAX: no limit. */
size_t dt_room_take(dt_room *room, unsigned shard, struct dt_str topic);
/* Called when attempts have ended, so that topics may have room again. */
void dt_room_news(dt_room *room);

/*
 * The watch of a dispatcher without an index: a listener of the watcher (dispatch/watch.h), which waits in MySQL
 * until a job is due. So leaders need neither polling nor Redis. It wakes only the shard loops of this process.
 *
 *   a job became due           its shard's loop is woken: within 40 ms, or 100 ms if another job was due a moment ago
 *   topics or the map changed  all loops check again; the shard map is read
 *   a shard's row changed      its loop is woken; until then the loop need not compare the row
 *   a job due long ago         read once per reconcile.period, because a manual edit, or a slow commit, may be before
 *                              the watched window; loops of shards with such a job check everything again
 *
 * If MySQL does not answer, or does not allow the wait (EXECUTE on dt_wait), dt_due_watch_hears is false, and loops
 * poll.
 */

typedef struct dt_due_watch dt_due_watch;

/* Creates the watch, and adds it to the watcher, which must be stopped before dt_due_watch_free. If the configuration
 * names an index, returns OK, and *out is NULL. Unless OK, *out is NULL. */
dt_status dt_due_watch_new(const struct dt_process_env *env, dt_due_watch **out, struct dt_error *err);
void dt_due_watch_free(dt_due_watch *watch); /* NULL is accepted */

/* ---- any thread; NULL: false ---- */

/* Returns whether MySQL has answered lately, so that a sleeping leader will be woken in time. */
bool dt_due_watch_hears(dt_due_watch *watch);
/* Returns whether no job was due at the last full read, and none has become due since. */
bool dt_due_watch_none_due(dt_due_watch *watch);
/* Copies the shard's row as the watch last read it. If the row changes later, the watch wakes the shard's loop. False:
 * the row is not known. */
bool dt_due_watch_row(dt_due_watch *watch, unsigned shard, struct dt_watched_row *out);
