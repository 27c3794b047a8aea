/*
 * The rows of `shard_stats`: what a leader says of its shard, for the API and for operators (what it waits for, what is
 * overdue, how far the index has drifted). The housekeeper of a dispatcher writes them for the shards that are led
 * there. Nothing is decided by them.
 */
#ifndef DT_DISPATCH_SHARD_STATS_H
#define DT_DISPATCH_SHARD_STATS_H

#include "store/store.h"

struct dt_shard_stats {
    unsigned shard;
    int64_t epoch;
    const char *waiting;   /* what the leader waits for; NULL: nothing */
    const char *callbacks; /* why due callbacks wait; NULL: none do */
    const char *detail;    /* NULL: nothing; cut to 500 characters */
    int64_t generation;    /* of the map that the leader works with, its set filled for it; 0 = not yet */
    int64_t drains; /* jobs a second, measured while more were due; 0 = not measured: what was said of it stays */
    int64_t held;   /* due, of paused topics: not overdue */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra,
        drift_wrong; /* oldest_due_at_ms 0 = nothing is due */
};
/* Replaces what was said about these shards. */
DT_MUST_CHECK dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n,
                                           struct dt_error *err);

#endif
