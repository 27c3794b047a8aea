/* Applying results inside a transaction that is somebody else's; for store/ only. */
#ifndef DT_STORE_STORE_RESULTS_H
#define DT_STORE_STORE_RESULTS_H

#include "store/db/db.h"
#include "store/jobs/counts.h"
#include "store/store.h"

/*
 * The work of dt_store_apply inside the open transaction: locks the jobs in the order of their ids, decides, writes
 * rows and outbox. config: [history] says when what finishes leaves `jobs`. now_ms: MySQL's clock in this transaction.
 * Nothing else of the transaction is touched; on failure the caller rolls back, and the outcomes mean nothing. What is
 * to be counted goes into counts, for the caller's COMMIT; its topics, into the arena, must last as long. A handful
 * of statements, and one for every 960 jobs where they are read or alike. A TIMED_OUT without an error code gets
 * "ack_timeout".
 */
DT_MUST_CHECK dt_status dt_results_apply_within(dt_db *db, const struct dt_config *config,
                                                const struct dt_shard_map *map, int64_t now_ms,
                                                struct dt_apply *results, size_t n, struct dt_counts *counts,
                                                struct dt_arena *arena, struct dt_error *err);

/* How rows are locked while they are read: not at all, so that a change that comes between is noticed when they are
 * written; waiting for others; or passing by what others hold, whose results are BUSY then. */
enum dt_locking { DT_LOCK_NONE, DT_LOCK_WAITING, DT_LOCK_PASSING_BY };

/* dt_results_apply_within, with the locking that is given. */
DT_MUST_CHECK dt_status dt_results_apply_locking(dt_db *db, const struct dt_config *config,
                                                 const struct dt_shard_map *map, int64_t now_ms,
                                                 enum dt_locking locking, struct dt_apply *results, size_t n,
                                                 struct dt_counts *counts, struct dt_arena *arena,
                                                 struct dt_error *err);

/* One transaction: the work between its beginning and its COMMIT. */
typedef dt_status dt_results_work_fn(void *arg, dt_db *db, int64_t now_ms, enum dt_locking locking,
                                     struct dt_counts *counts, struct dt_arena *arena, struct dt_error *err);
/* Begins with `locking`, does the work, commits; repeats it with more locking when somebody was in the way. */
DT_MUST_CHECK dt_status dt_results_transact(dt_store *store, enum dt_locking locking, dt_results_work_fn *work,
                                            void *arg, struct dt_error *err);

#endif
