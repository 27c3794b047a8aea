/*
 * The fence: what a leadership wrote last into its shard's row of `shards`. Each transaction of a leader locks the row
 * and compares it with the fence. If they differ, another leadership has the shard, or MySQL was restored to an earlier
 * state, and nothing is written.
 *
 * dt_store_takeover makes a fence; the leader's thread owns it. Every call that changes the row updates the fence after
 * the commit. After any status but OK the row may have the old or the new values, and the leadership ends.
 */
#pragma once

#include "job/inflight.h"
#include "job/results/results.h"
#include "mysql/db.h"
#include "store/store.h"

/* Copied by assignment; nothing to free. */
struct dt_fence {
    unsigned shard;
    int64_t epoch, token, version;
    int64_t ledger_offset; /* first offset of the ledger that is not settled */
    int64_t batch_no;
    size_t inflight;     /* entries of the row's in-flight list */
    size_t send_n;       /* entries of the list in the next batch: 1 to inflight; 0 if the list is empty */
    int64_t index_epoch; /* the epoch since which the shard's set has been on its present endpoint */
    /* The row has had trim_offset since trim_at_ms. Once that is long enough ago, ledger records below trim_offset
     * may be deleted. -1, 0: not set yet. */
    int64_t trim_offset, trim_at_ms;
};

/* Compares the row with the fence, without a lock. DEPOSED: they differ, or there is no row. HALTED. OK: *inst has
 * the present generation and shards of the map and the topics' version; its other members are not written. */
DT_MUST_CHECK dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence,
                                             struct dt_installation *inst, struct dt_error *err);

/* After the ledger's records below trim_offset were deleted, writes the present ledger_offset as the next
 * trim_offset. DEPOSED, HALTED, NOT_FOUND (no row): nothing was written. */
DT_MUST_CHECK dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err);

/* Steps down: clears the owner in the row. A row without an owner and with an empty in-flight list means that all is
 * settled. If another leadership has the row, it is not changed, and the status is OK. */
DT_MUST_CHECK dt_status dt_store_step_down(dt_store *store, const struct dt_fence *fence, struct dt_error *err);

/* ---- inside a leader's transaction; for store/ only ---- */

/* Values that are read together with the locked row. */
struct dt_fence_row {
    int64_t now_ms, generation, topics_version;
};

/*
 * Opens a transaction, locks the shard's row and compares it with the fence. The caller must always call
 * dt_store_commit afterwards, also on failure. *row is also set after HALTED, and after DEPOSED (the row belongs to
 * another leadership, or MySQL was restored to an earlier state). NOT_FOUND: no such shard. Usually one round trip; a
 * connection that broke while idle is replaced.
 */
DT_MUST_CHECK dt_status dt_fence_begin(dt_store *store, const struct dt_fence *fence, dt_db **db,
                                       struct dt_fence_row *row, struct dt_error *err);

/* Values that a leader writes into its row. */
struct dt_fence_values {
    struct dt_inflight inflight; /* borrowed */
    size_t send_n;
    int64_t ledger_offset, batch_no;
};
/* Writes the values into the locked row, raises its version, and updates *fence at once: if the commit fails, the
 * caller discards *fence. DEPOSED: the row is not what the fence says, nothing was written. */
DT_MUST_CHECK dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_fence_values *values,
                                       struct dt_error *err);

/*
 * ---- taking a shard over ----
 *
 * Step 1 makes the fence, step 5 settles what the earlier leadership left. The delivery does the steps between them;
 * dispatcher/shard/shard_takeover.c has all of them in order. The shard's thread makes both calls; inputs are borrowed
 * for the call.
 */

struct dt_leadership {
    unsigned shard;
    int64_t token;        /* random: no other leadership has it */
    const char *owner;    /* name of the process */
    const char *index_at; /* the endpoint of the shard's set, which decides fence->index_epoch */
};
/*
 * Step 1, on a fresh connection: writes epoch + 1, token, owner and index_at. OK: *fence is the row as it is now,
 * *inflight its list, which the caller clears. HALTED (the reason in err). NOT_FOUND: the shard has no row. UNKNOWN,
 * UNAVAILABLE: start over; the row may hold the epoch that was tried.
 */
DT_MUST_CHECK dt_status dt_store_takeover(dt_store *store, const struct dt_leadership *who, struct dt_fence *fence,
                                          struct dt_inflight *inflight, struct dt_error *err);

/* What a takeover found in the ledger between ledger_offset and its barrier, and what the delivery remembers of a
 * refusal. */
struct dt_findings {
    const struct dt_inflight *inflight; /* as step 1 read it */
    bool sent;                          /* the batch, the first fence->send_n entries, was committed */
    int64_t next_offset;                /* the offset after our barrier */
    const char *halt;                   /* not NULL: why the ledger cannot be explained */
    struct dt_inflight refused;         /* the list that was refused (dt_inflight_taken_over); n = 0: none */
    const char *refusal;                /* Kafka's reason, stored as the attempt's error */
    const struct dt_shard_map *map;     /* determines which shard's leader sends a dead letter */
};

struct dt_settled {
    struct dt_shrink shrink;    /* change of the list */
    bool ended;                 /* an undeliverable attempt ended, and its job's row says so */
    int64_t next_ms;            /* if ended: when the job is due again; 0 = never */
    int64_t was_ms[DT_WAS_MAX]; /* if ended: where its entry may be in the index, as in dt_apply */
    bool outbox;                /* a dead letter waits in the outbox */
};

/*
 * Step 5, one transaction under the fence. In this order:
 *
 * - If `halt` is set, it writes the reason and nothing else.
 * - If the ledger has the batch, it removes the batch from the list and extends deadlines to now + ack timeout, in rows
 *   that still say dispatched with that attempt. A deadline never becomes earlier.
 * - If the delivery refused a list, it halves the list. If the delivery refused a single attempt, it removes the
 *   attempt from the list. If the row still says dispatched with that attempt, the attempt ends as undeliverable, which
 *   counts as a failure for the retry policy.
 * - It sets ledger_offset to next_offset.
 *
 * OK: *fence and *done are as written. DEPOSED: another leadership has the row. Any other status: start over.
 */
DT_MUST_CHECK dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence,
                                                 const struct dt_findings *findings, struct dt_settled *done,
                                                 struct dt_error *err);
