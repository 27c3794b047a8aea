/* The fence inside a leader's transaction: its beginning with the lock, and the row that it writes. For store/ only. */
#ifndef DT_DISPATCH_FENCE_TXN_H
#define DT_DISPATCH_FENCE_TXN_H

#include "fence.h"
#include "job/inflight.h"
#include "mysql/db.h"

/* Values that are read together with the locked row. */
struct dt_fence_row {
    int64_t now_ms, generation, topics_version;
};

/*
 * Opens a transaction, for dt_store_commit whatever is returned, locks the shard's row and compares it with the fence.
 * *row is filled in also after DEPOSED (another leadership's, or MySQL went back to an earlier state) and HALTED.
 * NOT_FOUND: no such shard. Mostly one round trip; a connection that broke while it was idle is replaced unnoticed.
 */
DT_MUST_CHECK dt_status dt_fence_begin(dt_store *store, const struct dt_fence *fence, dt_db **db,
                                       struct dt_fence_row *row, struct dt_error *err);

/* Values that a leader writes into its row. */
struct dt_fence_values {
    struct dt_inflight inflight; /* borrowed */
    size_t send_n;
    int64_t ledger_offset, batch_no;
};
/* Writes the values into the locked row, raises its version, and updates *fence at once: the caller forgets that one
 * when the commit fails. DEPOSED: the row is not what the fence says, nothing was written. */
DT_MUST_CHECK dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_fence_values *values,
                                       struct dt_error *err);

#endif
