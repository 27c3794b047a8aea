/*
 * Compares MySQL (the truth) with Redis (the index) in bounded steps, for the shards that this process leads. It
 * repairs the index and tidies rows. It never dispatches: it adds what is due to the index and wakes the leader.
 *
 * A tick: the caller calls dt_reconcile_tick, which does one bounded step (at most about [reconcile] slice rows, of a
 * rebuild a few times as many; it never sleeps) and returns when to call again. One thread at a time; the index must
 * not be used for anything else. Only dt_reconciler_lost and dt_reconciler_doubt may be called from any thread.
 *
 * The windows, and when each is compared:
 *   near       [now, now + 2 periods)       each period, exactly
 *   overdue    [0, now)                     each period a slice, the rest in slices by a cursor
 *   edge       what enters the horizon      each period, exactly: loading, not drift
 *   full scan  the horizon beyond near      once in [reconcile] walk, and soon after a shard was gained, rebuilt or out
 *                                           of reach. By counts: a slice is compared exactly if its counts differ or it
 *                                           has few rows, and otherwise in one of sixteen rounds
 *   rebuild    [0, horizon), nearest first  for shards whose set was lost, as fast as pages and pipelines allow
 *
 * If MySQL or a Redis server does not answer, the step ends, nothing is changed there, and it is tried again soon.
 */
#pragma once

#include "base/config.h"
#include "index/index.h"
#include "job/shard.h"
#include "store/store.h"

typedef struct dt_reconciler dt_reconciler;

/* Makes a reconciler. Both inputs are borrowed and must outlive it. index NULL: without Redis, a tick only counts
 * overdue jobs and tidies rows. NOMEM: *out is NULL. */
DT_MUST_CHECK dt_status dt_reconciler_new(const struct dt_config *config, dt_index *index, dt_reconciler **out,
                                          struct dt_error *err);
/* Accepts NULL. */
void dt_reconciler_free(dt_reconciler *reconciler);

/* Requests a rebuild of the shard's set, which was lost. It begins when a tick's input says that the shard is led.
 * Any thread; the caller makes sure that a tick follows soon. */
void dt_reconciler_lost(dt_reconciler *reconciler, unsigned shard);
/* Requests a compare of the near window at once, and of the rest of the index soon, because changes did not reach
 * Redis for a while. Any thread, as above. */
void dt_reconciler_doubt(dt_reconciler *reconciler);

struct dt_reconcile_in {
    dt_store *store;
    int64_t mono_us;                  /* time for pacing */
    int64_t now_ms;                   /* MySQL's clock */
    const struct dt_shard_map *map;   /* borrowed for the call, like store and leads */
    const struct dt_shard_set *leads; /* the shards that this process leads now */
    /* A leader waits for a compare of the near window, so periods begin sooner until it is done. */
    bool awaits_compare;
    bool none_due; /* no job of any shard is due, so that none is overdue */
};
struct dt_reconcile_out {
    int64_t next_us;           /* when to call again, by the monotonic clock (now or in the past: at once) */
    struct dt_shard_set wake;  /* an entry that is due within two seconds was added: these leaders must be woken */
    struct dt_shard_set held;  /* an entry was added to a held set: these leaders should read their held sets */
    bool near_begun;           /* a compare of the near window began in this step */
    struct dt_shard_set near;  /* for these shards a compare of the near window, with the repair of the index, was
                                * finished */
    struct dt_shard_set whole; /* the rebuild of these shards was finished in this step */
};
/* Does one bounded step. Failures are logged, and a later tick tries again. */
void dt_reconcile_tick(dt_reconciler *reconciler, const struct dt_reconcile_in *in, struct dt_reconcile_out *out);

/* Facts about a shard that is led; zeros for other shards. Only for the tick's thread. */
struct dt_reconcile_stats {
    int64_t overdue; /* rows due for more than a second: at least this many, since counting stops after a slice of
                      * all shards' rows that are not held, or after DT_LATE_SLICES slices */
    int64_t held;    /* overdue rows of paused topics, counted in the same way; they are not overdue */
    int64_t oldest_due_at_ms;                        /* due time of the oldest overdue row; 0 = none */
    int64_t drift_missing, drift_extra, drift_wrong; /* repaired since the shard was gained (rebuilds not counted) */
    bool rebuilding;
};
void dt_reconciler_stats(const dt_reconciler *reconciler, unsigned shard, struct dt_reconcile_stats *out);
