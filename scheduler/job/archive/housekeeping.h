/*
 * Housekeeping in bounded steps, for the dispatcher that keeps house: rows of `jobs` whose day has come are indexed by
 * their exact time, jobs that a manual edit ended are counted, notices that no process sends are removed. A step reads
 * at most `limit` rows. *done: the number of rows that it found; 0: nothing is left to do now.
 */
#ifndef DT_JOB_HOUSEKEEPING_H
#define DT_JOB_HOUSEKEEPING_H

#include "store/store.h"
#include "topic/counts.h"

/* Sets `near` in far rows whose day has come (now_ms: MySQL's clock). Ends what a manual edit ended: its row gets the
 * status of the attempt and the times at which it leaves, and is counted in its new state. *done: the larger of both
 * numbers. */
DT_MUST_CHECK dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                         struct dt_error *err);
/* Removes notices that were made before before_ms: dead letters of an installation whose Kafka was taken away. */
DT_MUST_CHECK dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done,
                                                 struct dt_error *err);

/* ---- inside a transaction; for store/ only ---- */

/* Ends those of the jobs (a JSON list of ids) that a manual edit ended and that are not counted yet: see
 * dt_store_promote. The arena has the topics that counts names. */
DT_MUST_CHECK dt_status dt_edited_end(dt_db *db, const struct dt_config *config, struct dt_str ids,
                                      struct dt_counts *counts, struct dt_arena *arena, struct dt_error *err);

#endif
