/*
 * Reads due jobs from MySQL: bounded reads of the due index, for the reconciler and for leaders without Redis; and
 * reads the current rows of given jobs. These functions lock nothing, and their cost depends on the window, not on the
 * table. The results are hints: only a claim decides.
 *
 * A scan reads rows whose due_band is 1 (near) in order of (next_at, id); of all shards, unless the caller names one.
 */
#pragma once

#include "job/job.h"
#include "job/shard.h"
#include "store/store.h"

struct dt_due {
    int64_t id, next_ms;
};

/* A window of due times: at most `limit` rows with from_ms <= next_at < to_ms and (next_at, id) > (after_ms, after_id).
 * If after_id is 0, the scan begins at the later of after_ms and from_ms. */
struct dt_due_window {
    int64_t from_ms, to_ms, after_ms, after_id;
    size_t limit;
};
/* dt_store_visit_late reads at most this many slices of `limit` rows. It ends earlier if a slice is not full, or if it
 * has read `limit` rows that are not held. (So held jobs do not hide late jobs.) */
#define DT_LATE_SLICES 10
struct dt_late {
    int64_t id, next_ms;
    bool held; /* the job's topic is paused */
};
/* Calls the visitor with rows that are due before to_ms: the oldest slice first; rows within a slice are in no order.
 * If no topic is paused, it reads only one slice of `limit` rows. */
dt_status dt_store_visit_late(dt_store *store, int64_t to_ms, size_t limit,
                              void (*visit)(void *arg, const struct dt_late *late), void *arg, struct dt_error *err);
/* Reads the rows of a window into out; *n: number of rows. */
dt_status dt_store_scan_due(dt_store *store, const struct dt_due_window *window, struct dt_due *out, size_t *n,
                            struct dt_error *err);

/* Sends a query for at most `limit` rows with from_ms <= next_at < to_ms, without waiting for the answer, which
 * dt_store_take_due reads. Until the answer ends, the store must not be used for anything else. */
dt_status dt_store_ask_due(dt_store *store, int64_t from_ms, int64_t to_ms, size_t limit, struct dt_error *err);
/* Reads the next page of the answer into out: at most `page` rows; *n: number of rows. The answer ends with a page that
 * is not full, with the page for which the caller sets `last`, or with a failure. UNAVAILABLE: no query was sent. */
dt_status dt_store_take_due(dt_store *store, size_t page, bool last, struct dt_due *out, size_t *n,
                            struct dt_error *err);

/* A scan for one shard of the map, for a leader without Redis. */
struct dt_shard_scan {
    const struct dt_shard_map *map;
    unsigned shard;
    int64_t now_ms;
    size_t scan; /* maximal number of index entries to read */

    /* used by dt_store_scan_shard only */
    struct dt_due *out; /* room for `limit` */
    size_t limit;       /* maximal number of rows of the shard to write to out */
    /* In, out: the cursor: position of the last entry that was read; 0, 0: before the first entry. */
    int64_t after_ms, after_id;
    size_t n; /* out: number of rows of the shard */
    bool end; /* out: the scan has read all rows up to now_ms */
};
/* Reads rows of the shard that are after the cursor and due: next_at <= now_ms. */
dt_status dt_store_scan_shard(dt_store *store, struct dt_shard_scan *scan, struct dt_error *err);
/* Finds the earliest next_at of the shard after now_ms, among the next scan->scan index entries. 0: none of these
 * entries is of the shard. */
dt_status dt_store_next_due(dt_store *store, const struct dt_shard_scan *scan, int64_t *next_ms, struct dt_error *err);

/* Finds when the n-th (from 0) of the rows with from_ms <= next_at < to_ms is due; to_ms if there are fewer. */
dt_status dt_store_due_nth(dt_store *store, int64_t from_ms, int64_t to_ms, size_t n, int64_t *due_ms,
                           struct dt_error *err);
/* Counts the rows with from_ms <= next_at < to_ms in each slot; counts has DT_SLOTS elements. */
dt_status dt_store_count_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t *counts, struct dt_error *err);

struct dt_truth {
    int64_t id, next_ms; /* next_ms: when the job is due; 0: it is finished */
    enum dt_job_state state;
    struct dt_str topic;
    bool topic_paused;
    int64_t updated_at_ms;
    int64_t generation; /* generation of the shard map when the row was read */
    uint32_t host;      /* number of the host in the job's own callback_url; 0: the job has none */
};
struct dt_truths {
    struct dt_truth *v; /* the jobs in the arena, in the order of ids */
    size_t n;
};
/* Reads jobs by their ids, in the order of ids. A job that is not in `jobs` is left out. */
dt_status dt_store_truth(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena, struct dt_truths *out,
                         struct dt_error *err);

/* The fair queue that a due job belongs to. */
struct dt_topic_of {
    struct dt_str topic;
    bool dispatched; /* the job waits for a result */
    uint32_t host;   /* number of the host in the job's own callback_url; 0: the job has none */
};
/* Reads the fair queues of the jobs with these ids (ascending) into out[0..n), in the same order. If a job has no row,
 * its topic is absent. */
dt_status dt_store_topics_of(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                             struct dt_topic_of *out, struct dt_error *err);
