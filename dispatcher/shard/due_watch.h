/*
 * The watch of a dispatcher without an index: a listener of the watcher (dispatch/watcher.h), which waits in MySQL
 *                                             until
 * something is due. So leaders need neither look by themselves nor be notified through Redis. It wakes only the shard
 * loops of this process.
 *
 *   something became due       its shard's loop is woken: within 40 ms, or 100 ms if another job was due a moment ago
 *   topics, the shard map      all loops look again; the map is read
 *   a shard's row changed      its loop is woken; until then it need not compare the row
 *   a job due long ago         looked for once in reconcile.period: a manual edit, or a row whose commit took long, is
 *   before
 *                              the watched window; loops of shards with such a row look at everything again
 *
 * If MySQL does not answer, or does not allow the wait (EXECUTE on dt_wait), dt_due_watch_hears is false, and loops
 * look by themselves.
 */
#ifndef DT_DISPATCHER_DUE_WATCH_H
#define DT_DISPATCHER_DUE_WATCH_H

#include "base/clock.h"
#include "base/config.h"
#include "dispatch/watcher.h"
#include "index/index.h"
#include "job/shard.h"

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
/* Accepts NULL. */
void dt_due_watch_free(dt_due_watch *watch);

/* ---- any thread; NULL: false ---- */

/* MySQL has answered lately, so that a sleeping leader is woken in time. */
bool dt_due_watch_hears(dt_due_watch *watch);
/* Copies the shard's row as it was at the last answer; a change since then wakes the shard's loop. False: nothing is
 * known. */
bool dt_due_watch_row(dt_due_watch *watch, unsigned shard, struct dt_watched_row *out);

#endif
