/*
 * Compares MySQL (the truth) with Redis (the index) in bounded steps, for the shards that this process leads. It
 * repairs the index and tidies rows. It has no dispatch right: it puts what is due into the index and wakes the leader.
 *
 * A tick: the caller calls dt_reconcile_tick, which does one bounded step (at most about [reconcile] slice rows, of a
 * rebuild a few times as many; it never sleeps) and says when to call again. One thread at a time; nothing else uses
 * the index. Only dt_reconciler_lost and dt_reconciler_doubt may be called from any thread.
 *
 * The windows, and when each is compared:
 *   near       [now, now + 2 periods)       each period, exactly
 *   overdue    [0, now)                     each period a slice, the rest in slices by a cursor
 *   edge       what enters the horizon      each period, exactly: loading, not drift
 *   full scan  the horizon beyond near      once in [reconcile] walk, and soon after a shard was gained, rebuilt or out
 *                                           of reach. By counts: a slice is compared exactly if its counts differ or it
 *                                           has few rows, and otherwise in one of sixteen rounds
 *   rebuild    [0, horizon), nearest first  for shards whose set was lost, as fast as pages and pipelines go
 *
 * If MySQL or a Redis server does not answer, the step ends, nothing is changed there, and it is tried again soon.
 */
#ifndef DT_INDEX_RECONCILE_H
#define DT_INDEX_RECONCILE_H

#include "base/config.h"
#include "index/index.h"
#include "job/shard.h"
#include "store/store.h"

typedef struct dt_reconciler dt_reconciler;

/* Makes a reconciler. Both inputs are borrowed and outlive it. index NULL: the installation has none, so a tick
 * only counts what is overdue, and tidies rows. NOMEM: *out is NULL. */
DT_MUST_CHECK dt_status dt_reconciler_new(const struct dt_config *config, dt_index *index, dt_reconciler **out,
                                          struct dt_error *err);
/* Accepts NULL. */
void dt_reconciler_free(dt_reconciler *reconciler);

/* Has the shard's set, which was lost, rebuilt as soon as a tick says that it is led. Any thread; take care that a tick
 * follows soon. */
void dt_reconciler_lost(dt_reconciler *reconciler, unsigned shard);
/* Has what is near compared at once, and the remainder of the index looked through soon: Redis could not be told for a
 * while. Any thread, as above. */
void dt_reconciler_doubt(dt_reconciler *reconciler);

/* The input of a tick. */
struct dt_reconcile_in {
    dt_store *store;
    int64_t mono_us;                  /* for pacing */
    int64_t now_ms;                   /* MySQL's clock */
    const struct dt_shard_map *map;   /* borrowed for the call, as the next and the store */
    const struct dt_shard_set *leads; /* what this process leads now */
    /* A leader waits for a compare of what is near: the next period begins soon, and so until it is done. */
    bool awaits_compare;
};
/* The output of a tick. */
struct dt_reconcile_out {
    int64_t next_us;           /* call again at this monotonic time (not after now: at once) */
    struct dt_shard_set wake;  /* something that is due now, or within two seconds, was added: wake these leaders */
    struct dt_shard_set held;  /* something was put into a held set: these leaders should look at theirs */
    bool near_begun;           /* a compare of what is near began at this step … */
    struct dt_shard_set near;  /* … and was finished for these, and the index repaired, by this one */
    struct dt_shard_set whole; /* the rebuild of these was finished by this step */
};
/* Does one bounded step. Failures are logged, and tried again by a later tick. */
void dt_reconcile_tick(dt_reconciler *reconciler, const struct dt_reconcile_in *in, struct dt_reconcile_out *out);

/* The reconciler's knowledge of a shard that is led; zeros otherwise. The tick's thread. */
struct dt_reconcile_stats {
    int64_t overdue; /* rows due for more than a second; counting stops after a slice of all shards' rows that are not
                        held, or after DT_LATE_SLICES slices: at least this many */
    int64_t held;    /* likewise, whose topic is paused: they are not overdue */
    int64_t oldest_due_at_ms;                        /* of them; 0 = none */
    int64_t drift_missing, drift_extra, drift_wrong; /* repaired since the shard was gained (rebuilds not counted) */
    bool rebuilding;
};
/* Copies what is known of the shard. The tick's thread. */
void dt_reconciler_stats(const dt_reconciler *reconciler, unsigned shard, struct dt_reconcile_stats *out);

#endif
