/* The rows of shards: how many shards there are, who leads each, and what leaders report about them. */
#pragma once

#include "job/shard.h"
#include "store/processes.h"
#include "store/store.h"

/* Changes the number of shards (1 to DT_SHARDS_MAX): adds their rows and raises the generation, in one transaction. If
 * the number is the same, nothing changes. HALTED: a shard is halted, and nothing was changed. OK: *inst is the
 * installation after the change. */
dt_status dt_store_set_shards(dt_store *store, unsigned shards, struct dt_installation *inst, struct dt_error *err);
/* Which shards have rows, and which need a leader. */
struct dt_shard_range {
    /* Shards with numbers below this one need a leader: the shards of the map, and further shards up to the last one
     * whose in-flight list is not empty. */
    unsigned led;
    unsigned rows; /* shards with numbers below this one have a row */
    /* For each shard that the map does not have: token of the leadership in its row; 0: its last leader has stepped
     * down. */
    int64_t standing[DT_SHARDS_MAX];
};
dt_status dt_store_shard_range(dt_store *store, const struct dt_installation *inst, struct dt_shard_range *out,
                               struct dt_error *err);

struct dt_shard_info {
    unsigned shard;
    int64_t epoch;
    struct dt_str owner; /* the leader: owner in the row, if that process is alive and reports that it leads */
    struct dt_str halted;
    int64_t inflight;
    int64_t generation; /* generation of the map for which the leader's index is filled; 0: it is not filled yet */
    int64_t seen_at_ms;
    struct dt_str waiting, detail;
    struct dt_str callbacks; /* reason why due callbacks wait for places, "full" or "off"; absent: none wait */
    int64_t held;            /* number of due jobs of paused topics; these are not overdue */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong;
};
/* Lists the shards of the map, and other shards that still have a leader or need one. The same statement reads what the
 * dispatchers report. Unless OK, *out is NULL and *n is 0. */
dt_status dt_store_shards(dt_store *store, struct dt_arena *arena, struct dt_shard_info **out, size_t *n,
                          struct dt_dispatchers *dispatchers, struct dt_error *err);

/* Rows of `shard_stats`: what a leader reports about its shard, for the API and for operators. Each dispatcher's
 * housekeeper writes the rows of the shards that the process leads. No decision depends on them. */

struct dt_shard_stats {
    unsigned shard;
    int64_t epoch;
    const char *waiting;   /* what the leader waits for, or NULL */
    const char *callbacks; /* reason why due callbacks wait; NULL: none wait */
    const char *detail;    /* a text for operators, cut to 500 characters; NULL: none */
    /* Generation of the shard map for which the leader's index is filled; 0: it is not filled yet. */
    int64_t generation;
    /* Jobs per second that were claimed while more jobs were due; 0: not measured, so the stored value is kept. */
    int64_t drains;
    int64_t held; /* number of due jobs of paused topics; these are not overdue */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong; /* oldest_due_at_ms: 0: no job is due */
};
/* Replaces the reports about these shards. */
dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n, struct dt_error *err);
