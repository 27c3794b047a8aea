/* Housekeeping of `jobs` in bounded steps: what comes near is indexed exactly, what manual edits finished is tidied; and
 * of notices that nobody sends. *done: how many rows; 0 = nothing is left to do now. */
#ifndef DT_STORE_HOUSEKEEPING_H
#define DT_STORE_HOUSEKEEPING_H

#include "store/store.h"

/* Sets `near` in far rows whose day has come. now_ms: MySQL's clock. */
DT_MUST_CHECK dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                         struct dt_error *err);
/* Removes notices that were made before before_ms: dead letters of an installation whose Kafka was taken away. */
DT_MUST_CHECK dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done,
                                                 struct dt_error *err);
/* Tidies those of the jobs that a manual edit finished with next_at still set: it is cleared, purge_at and leave_at are
 * set. */
DT_MUST_CHECK dt_status dt_store_tidy(dt_store *store, const int64_t *ids, size_t n, size_t *done,
                                      struct dt_error *err);

#endif
