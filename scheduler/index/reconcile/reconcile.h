/*
 * Compares MySQL (the truth) with Redis (the index) in bounded steps, for the shards that this process leads. Repairs
 * the index and tidies rows. Never dispatches: if a due job is missing, it adds an entry and wakes the leader.
 *
 * Each call of dt_reconcile_tick does one bounded step (about [reconcile] slice rows at most, a few times as many in a
 * rebuild), never sleeps, and returns when to call again. One thread at a time calls it; the index must not be used for
 * anything else. Only dt_reconciler_lost and dt_reconciler_doubt may be called from any thread.
 *
 * The windows, and when each is compared:
 *   near       [now, now + 2 periods)       each period, exactly
 *   overdue    [0, now)                     each period a slice; a cursor moves over the slices
 *   edge       what enters the horizon      each period, exactly; a missing entry is loading, not drift
 *   full scan  the horizon beyond near      once in [reconcile] walk, and soon after a shard was gained or rebuilt, or
 *                                           its Redis was out of reach. By counts: a slice is compared exactly if the
 *                                           counts differ or the slice has few rows, else in one of sixteen rounds
 *   rebuild    [0, horizon), nearest first  for shards whose due set Redis has lost, as fast as possible
 *
 * If MySQL or a Redis server does not answer, the step ends without changing anything there. A later tick repeats it.
 */
#pragma once

#include "base/config.h"
#include "index/index.h"
#include "job/shard.h"
#include "store/store.h"

typedef struct dt_reconciler dt_reconciler;

/* Makes a reconciler. config and index are borrowed and must outlive it. If index is NULL (no Redis), a tick only
 * counts overdue jobs and tidies rows. If memory runs out, returns NOMEM, and *out is NULL. */
dt_status dt_reconciler_new(const struct dt_config *config, dt_index *index, dt_reconciler **out, struct dt_error *err);
/* Accepts NULL. */
void dt_reconciler_free(dt_reconciler *reconciler);

/* Requests a rebuild of the shard's due set, because Redis has lost it. The rebuild begins when a tick's input says
 * that this process leads the shard. May be called from any thread; the caller makes sure that a tick follows soon. */
void dt_reconciler_lost(dt_reconciler *reconciler, unsigned shard);
/* Requests a compare of the near window at once, and of the rest of the index soon, because changes did not reach Redis
 * for some time. May be called from any thread; the caller makes sure that a tick follows soon. */
void dt_reconciler_doubt(dt_reconciler *reconciler);

struct dt_reconcile_in {
    dt_store *store;
    int64_t mono_us;                  /* monotonic time, for pacing */
    int64_t now_ms;                   /* MySQL's time */
    const struct dt_shard_map *map;   /* borrowed for the call, as are store and leads */
    const struct dt_shard_set *leads; /* shards that this process leads now */
    /* A leader waits for a compare of the near window: periods are shorter until this compare is done. */
    bool awaits_compare;
    bool none_due; /* no job of any shard is due, so no job is overdue */
};
struct dt_reconcile_out {
    int64_t next_us;           /* monotonic time of the next tick; now or in the past: at once */
    struct dt_shard_set wake;  /* shards whose leaders must wake: an entry due within two seconds was added */
    struct dt_shard_set held;  /* shards whose leaders should read their held sets: an entry was added to one */
    bool near_begun;           /* a compare of the near window began in this step */
    struct dt_shard_set near;  /* shards whose near window was compared and repaired completely */
    struct dt_shard_set whole; /* shards whose rebuild was finished in this step */
};
/* Does one bounded step. Failures are logged, and a later tick tries again. */
void dt_reconcile_tick(dt_reconciler *reconciler, const struct dt_reconcile_in *in, struct dt_reconcile_out *out);

/* Figures of a shard that this process leads; zeros for other shards. Only the thread of the ticks may read them. */
struct dt_reconcile_stats {
    int64_t overdue; /* overdue rows, due for more than a second; a lower bound: see dt_store_visit_late */
    int64_t held;    /* overdue rows of paused topics; also a lower bound, because the same bounded read counts them */
    int64_t oldest_due_at_ms;                        /* due time of the oldest overdue row; 0: none */
    int64_t drift_missing, drift_extra, drift_wrong; /* differences that were repaired since the shard was gained */
    bool rebuilding;
};
void dt_reconciler_stats(const dt_reconciler *reconciler, unsigned shard, struct dt_reconcile_stats *out);
