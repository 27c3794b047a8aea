/*
 * What is due, by MySQL: bounded readings of the due index for the reconciler and for leaders without Redis, and the
 * truth about jobs that an index tells of. They lock nothing, and cost what lies in their window, whatever else the
 * table has. What they find are hints: a claim decides.
 *
 * A scan reads near rows (due_band 1) in the order of (next_at, id), of any shard unless it says otherwise.
 */
#ifndef DT_STORE_SCAN_H
#define DT_STORE_SCAN_H

#include "store/store.h"

struct dt_due {
    int64_t id, next_ms;
};

/* Rows with from_ms <= next_at < to_ms behind (after_ms, after_id), at most `limit` of them; *n are written to out. */
DT_MUST_CHECK dt_status dt_store_scan_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t after_ms,
                                          int64_t after_id, size_t limit, struct dt_due *out, size_t *n,
                                          struct dt_error *err);

/* Asks for at most `limit` rows with from_ms <= next_at < to_ms, without waiting for the answer, which dt_store_take_due
 * then reads. The store may be asked nothing else before the answer's end. */
DT_MUST_CHECK dt_status dt_store_ask_due(dt_store *store, int64_t from_ms, int64_t to_ms, size_t limit,
                                         struct dt_error *err);
/* Reads the next page of the answer: at most `page` rows, *n are written to out. A page that is not full ends the answer,
 * as does a page that is asked for as the last one, or a failure. UNAVAILABLE: no answer is owed. */
DT_MUST_CHECK dt_status dt_store_take_due(dt_store *store, size_t page, bool last, struct dt_due *out, size_t *n,
                                          struct dt_error *err);

/* Due rows of one shard (by the map), for a leader without Redis: next_at <= now_ms after (after_ms, after_id); scans
 * at most `scan` index entries; *end: the scan reached now. */
DT_MUST_CHECK dt_status dt_store_scan_shard(dt_store *store, const struct dt_shard_map *map, unsigned shard,
                                            int64_t now_ms, int64_t after_ms, int64_t after_id, size_t scan,
                                            size_t limit, struct dt_due *out, size_t *n, bool *end, int64_t *last_ms,
                                            int64_t *last_id, struct dt_error *err);
/* Earliest next_at of the shard after now_ms among the next `scan` index entries; 0 = none among them. */
DT_MUST_CHECK dt_status dt_store_next_due(dt_store *store, const struct dt_shard_map *map, unsigned shard,
                                          int64_t now_ms, size_t scan, int64_t *next_ms, struct dt_error *err);

/* When the n-th (from 0) of the rows with from_ms <= next_at < to_ms is due; to_ms when there are fewer. */
DT_MUST_CHECK dt_status dt_store_due_nth(dt_store *store, int64_t from_ms, int64_t to_ms, size_t n, int64_t *due_ms,
                                         struct dt_error *err);
/* The number of rows with from_ms <= next_at < to_ms in each slot, in counts[DT_SLOTS]. */
DT_MUST_CHECK dt_status dt_store_count_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t *counts,
                                           struct dt_error *err);

/* A job as it is now. */
struct dt_truth {
    int64_t id, next_ms; /* next_ms 0 = finished */
    enum dt_job_state state;
    struct dt_str topic;
    bool topic_paused;
    int64_t updated_at_ms;
    int64_t generation; /* of the shard map, at that moment */
};
/* Reads jobs by their ids, into an array in the arena, in the order of ids. Jobs that are not in `jobs` are left out. */
DT_MUST_CHECK dt_status dt_store_truth(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                                       struct dt_truth **out, size_t *n_out, struct dt_error *err);

/* Which fair queue a due job belongs to. */
struct dt_topic_of {
    struct dt_str topic;
    bool dispatched; /* it waits for a result */
};
/* Reads it for ids, which ascend; out[n] in their order, without a topic where there is no row. */
DT_MUST_CHECK dt_status dt_store_topics_of(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                                           struct dt_topic_of *out, struct dt_error *err);

#endif
