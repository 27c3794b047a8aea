/* What takeover and leader transaction share; for store/ only. */
#ifndef DT_STORE_FENCE_H
#define DT_STORE_FENCE_H

#include "store/db/db.h"
#include "store/dispatch/store_dispatch.h"
#include "store/store.h"

/* The time for a result, of jobs j: whatever was written there by hand, now + it is a time. */
#define DT_SQL_ACK_MS "LEAST(j.ack_timeout_ms, 3155760000000)" /* DT_ACK_MAX_MS */

/* Values that a leader transaction reads with its row. */
struct dt_fence_row {
    int64_t now_ms, generation, topics_version;
};

/*
 * A leader transaction, for dt_store_commit whatever is returned: the shard's row is locked and compared with the
 * fence. *row is filled in also after DEPOSED (another leadership's, or MySQL went back to an earlier state) and
 * HALTED; NOT_FOUND: no such shard. One round trip mostly; a connection that broke while it was idle is replaced
 * unnoticed.
 */
DT_MUST_CHECK dt_status dt_fence_begin(dt_store *store, const struct dt_fence *fence, dt_db **db,
                                       struct dt_fence_row *row, struct dt_error *err);

/*
 * Claims that were sent: their acknowledgement deadline becomes now + ack timeout, never earlier than it is, and only
 * where the row still says dispatched with that attempt. Rows that others hold locked are passed by. moved (or NULL;
 * room for n): the jobs whose deadline moved, from hint_ms to next_ms.
 */
DT_MUST_CHECK dt_status dt_deadlines_extend(dt_db *db, const struct dt_claim *claims, size_t n, int64_t now_ms,
                                            struct dt_seen *moved, size_t *n_moved, struct dt_error *err);

/* Writes list (whose first send_n go next), ledger offset and batch number of the locked row and raises its version;
 * fence is updated in place (the caller drops it when the commit fails). */
DT_MUST_CHECK dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_claim *inflight, size_t n,
                                       size_t send_n, int64_t ledger_offset, int64_t batch_no, struct dt_error *err);

/* Claims sorted by id, as a JSON parameter; rows are locked in this order. */
DT_MUST_CHECK dt_status dt_inflight_format_by_id(const struct dt_claim *claims, size_t n, struct dt_strbuf *out);

#endif
