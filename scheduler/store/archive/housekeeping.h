/*
 * Housekeeping in bounded steps, for the dispatcher that keeps house: rows of `jobs` whose day has come are indexed by
 * their exact time, jobs that a manual edit finished are tidied, notices that nobody sends are removed. Each step is
 * one transaction over at most `limit` rows. *done: how many rows it changed; 0 = nothing is left to do now.
 */
#ifndef DT_STORE_HOUSEKEEPING_H
#define DT_STORE_HOUSEKEEPING_H

#include "store/store.h"

/* Sets `near` in far rows whose day has come. now_ms: MySQL's clock. */
DT_MUST_CHECK dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                         struct dt_error *err);
/* Removes notices that were made before before_ms: dead letters of an installation whose Kafka was taken away. */
DT_MUST_CHECK dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done,
                                                 struct dt_error *err);
/* Tidies the jobs among `ids` that a manual edit finished and whose next_at is still set: next_at is cleared, purge_at
 * and leave_at are set. */
DT_MUST_CHECK dt_status dt_store_tidy(dt_store *store, const int64_t *ids, size_t n, size_t *done,
                                      struct dt_error *err);

#endif
