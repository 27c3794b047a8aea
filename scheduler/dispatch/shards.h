/*
 * The rows of shards: how many there are, who leads each, and what leaders report of them.
 */
#ifndef DT_DISPATCH_SHARDS_H
#define DT_DISPATCH_SHARDS_H

#include "job/shard.h"
#include "store/processes.h"
#include "store/store.h"

/* Makes slots map to `shards` of them (1 to DT_SHARDS_MAX): their rows exist and the generation has risen, in one
 * transaction. Nothing changes when the number is the same. HALTED: a shard is halted, and nothing was changed. *inst:
 * the installation as it is afterwards; valid with OK. */
DT_MUST_CHECK dt_status dt_store_set_shards(dt_store *store, unsigned shards, struct dt_installation *inst,
                                            struct dt_error *err);
/* The shards that there are. */
struct dt_shard_range {
    /* Shards below it are to be led: those that the map names, and up to the last whose list is not empty. */
    unsigned led;
    unsigned rows; /* shards below it have a row */
    /* Of a shard that the map does not name: the token of the leadership that its row tells of; 0 = the last one has
     * stepped down. */
    int64_t standing[DT_SHARDS_MAX];
};
DT_MUST_CHECK dt_status dt_store_shard_range(dt_store *store, const struct dt_installation *inst,
                                             struct dt_shard_range *out, struct dt_error *err);

struct dt_shard_info {
    unsigned shard;
    int64_t epoch;
    struct dt_str owner; /* whoever leads it now: the owner in its row, if that process lives and says so */
    struct dt_str halted;
    int64_t inflight;
    int64_t generation; /* of the map that the leader works with, its index filled for it; 0 = not yet */
    int64_t seen_at_ms;
    struct dt_str waiting, detail;
    struct dt_str callbacks; /* "full" or "off": due callbacks wait for places; absent: none do */
    int64_t held;            /* jobs that are due, of paused topics: they are not overdue */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong;
};
/* Lists the shards of the map, the shards outside the map that still have a leader or need one, and, from the same
 * statement, what the dispatchers report. *out is NULL and *n is 0 unless OK. */
DT_MUST_CHECK dt_status dt_store_shards(dt_store *store, struct dt_arena *arena, struct dt_shard_info **out, size_t *n,
                                        struct dt_dispatchers *dispatchers, struct dt_error *err);

/*
 * The rows of `shard_stats`: what a leader says of its shard, for the API and for operators (what it waits for, what is
 * overdue, how far the index has drifted). The housekeeper of a dispatcher writes them for the shards that are led
 * there. Nothing is decided by them.
 */

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
