/* The rows of shards: how many shards there are, who leads each, and what leaders report about them. */
#pragma once

#include "job/shard.h"
#include "store/processes.h"
#include "store/store.h"

/* Changes the number of shards (1 to DT_SHARDS_MAX): adds their rows and raises the generation, in one transaction. If
 * the number is the same, nothing changes. HALTED: a shard is halted, and nothing was changed. OK: *inst is the
 * installation after the change. */
DT_MUST_CHECK dt_status dt_store_set_shards(dt_store *store, unsigned shards, struct dt_installation *inst,
                                            struct dt_error *err);
/* The shards that have rows, and those that need a leader. */
struct dt_shard_range {
    /* Shards below this number need a leader: those of the map, and those up to the last one whose list is not
     * empty. */
    unsigned led;
    unsigned rows; /* shards below this number have a row */
    /* Token of the leadership in the row of each shard that the map does not have; 0 = its last leader has stepped
     * down. */
    int64_t standing[DT_SHARDS_MAX];
};
DT_MUST_CHECK dt_status dt_store_shard_range(dt_store *store, const struct dt_installation *inst,
                                             struct dt_shard_range *out, struct dt_error *err);

struct dt_shard_info {
    unsigned shard;
    int64_t epoch;
    struct dt_str owner; /* the leader: the owner in the row, if that process is alive and reports that it leads */
    struct dt_str halted;
    int64_t inflight;
    int64_t generation; /* generation of the map for which the leader's index is filled; 0 = not filled yet */
    int64_t seen_at_ms;
    struct dt_str waiting, detail;
    struct dt_str callbacks; /* reason why due callbacks wait for places, "full" or "off"; absent: none wait */
    int64_t held;            /* due jobs of paused topics, which are not overdue */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong;
};
/* Lists the shards of the map, and the shards outside the map that still have a leader or need one. The same statement
 * reads what the dispatchers report. *out is NULL and *n is 0 unless OK. */
DT_MUST_CHECK dt_status dt_store_shards(dt_store *store, struct dt_arena *arena, struct dt_shard_info **out, size_t *n,
                                        struct dt_dispatchers *dispatchers, struct dt_error *err);

/* Rows of `shard_stats`: what a leader reports about its shard, for the API and for operators. Each dispatcher's
 * housekeeper writes the rows of the shards that the process leads. No decision depends on them. */

struct dt_shard_stats {
    unsigned shard;
    int64_t epoch;
    const char *waiting;   /* what the leader waits for, or NULL */
    const char *callbacks; /* reason why due callbacks wait; NULL: none wait */
    const char *detail;    /* NULL: none; cut to 500 characters */
    int64_t generation;    /* of the shard map for which the leader's index is filled; 0 = not filled yet */
    int64_t drains;        /* jobs a second, measured while more jobs were due; 0 = not measured: the stored value is
                            * kept */
    int64_t held;          /* due jobs of paused topics, which are not overdue */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong; /* oldest_due_at_ms 0 = no job is due */
};
/* Replaces the reports about these shards. */
DT_MUST_CHECK dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n,
                                           struct dt_error *err);
