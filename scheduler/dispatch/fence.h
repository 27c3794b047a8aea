/*
 * The fence: what a leadership wrote last into its shard's row of `shards`. Each transaction of a leader locks the row
 * and compares it with the fence; if they differ, another leadership holds the shard, or MySQL went back to an earlier
 * state, and nothing is written.
 *
 * A fence is made by dt_store_takeover (takeover.h). It belongs to the leader's thread. Every call that changes the row
 * updates the fence it is given, after the commit; after any status but OK the row may hold either, and the leadership
 * is over.
 */
#ifndef DT_DISPATCH_FENCE_H
#define DT_DISPATCH_FENCE_H

#include "store/store.h"

/* A value. */
struct dt_fence {
    unsigned shard;
    int64_t epoch, token, version;
    int64_t ledger_offset; /* first offset of the ledger that is not settled */
    int64_t batch_no;
    size_t inflight;     /* entries of the row's in-flight list */
    size_t send_n;       /* how many of them are the next batch: 1 to inflight; 0 when the list is empty */
    int64_t index_epoch; /* since this epoch the shard's set has been on the endpoint that it is on */
    /* Ledger records below trim_offset may be deleted once the row has held it since trim_at_ms for long enough; -1, 0:
     * the row holds none yet. */
    int64_t trim_offset, trim_at_ms;
};

/* Compares the row with the fence, without a lock. DEPOSED: they differ, or there is no row. HALTED. OK: *inst has the
 * map's generation, its shards and the topics' version as they are now; its other members are not written. */
DT_MUST_CHECK dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence,
                                             struct dt_installation *inst, struct dt_error *err);

/* Writes, after the ledger's records below trim_offset were deleted, the present ledger_offset as the next trim_offset.
 * DEPOSED, HALTED, NOT_FOUND (no row): nothing was written. */
DT_MUST_CHECK dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err);

/* Steps down: the row has no owner afterwards. With an empty in-flight list that is also a promise that all is settled.
 * A row that is another leadership's stays as it is, and the status is OK. */
DT_MUST_CHECK dt_status dt_store_step_down(dt_store *store, const struct dt_fence *fence, struct dt_error *err);

#endif
