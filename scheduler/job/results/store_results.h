/*
 * Applying results inside a transaction: the caller's (a leader's), or one that is begun, repeated and committed here.
 * For store/ only.
 */
#ifndef DT_JOB_STORE_RESULTS_H
#define DT_JOB_STORE_RESULTS_H

#include "mysql/db.h"
#include "results.h"
#include "store/store.h"
#include "topic/counts.h"

/* How rows are locked while they are read: not at all, so that a change that comes between is noticed when they are
 * written; waiting for others; or passing by what others hold, whose results are BUSY then. */
enum dt_locking { DT_LOCK_NONE, DT_LOCK_WAITING, DT_LOCK_PASSING_BY };

/* The transaction in which results are applied. All of it is borrowed. */
struct dt_results_txn {
    dt_db *db;                      /* the transaction is open */
    const struct dt_config *config; /* [history] says when what finishes is archived */
    const struct dt_shard_map *map; /* whose leader sends a dead letter */
    int64_t now_ms;                 /* MySQL's clock in this transaction */
    enum dt_locking locking;
    struct dt_counts *counts; /* gets what is to be counted, for the caller's COMMIT */
    struct dt_arena *arena;   /* for topics that counts names, and all else; must last as long as counts */
};

/*
 * Does the work of dt_store_apply inside the transaction: locks the jobs in the order of their ids, decides, writes
 * rows and outbox; nothing else of the transaction is touched. It takes a handful of statements, and one for every 960
 * jobs where they are read or alike. A TIMED_OUT without an error code gets "ack_timeout". On failure the caller rolls
 * back, and the outcomes mean nothing. BUSY, with DT_LOCK_NONE: a row changed since it was read.
 */
DT_MUST_CHECK dt_status dt_results_apply_within(const struct dt_results_txn *txn, struct dt_apply *results, size_t n,
                                                struct dt_error *err);

/* Adds two elements of a row: HTTP status and duration, each null if there is none. answer: NULL = none. */
void dt_answer_put(struct dt_strbuf *text, const struct dt_answer *answer);

/* The work of one transaction, between its beginning and its COMMIT. */
typedef dt_status dt_results_work_fn(void *arg, const struct dt_results_txn *txn, struct dt_error *err);
/* Begins with `locking`, does the work, counts and commits; repeats it all with more locking when somebody was in the
 * way. */
DT_MUST_CHECK dt_status dt_results_commit(dt_store *store, const struct dt_shard_map *map, enum dt_locking locking,
                                          dt_results_work_fn *work, void *arg, struct dt_error *err);

#endif
