/*
 * The fence: the values that a leadership last wrote into its shard's row of `shards`. Each transaction of a leader
 * locks the row and compares it with the fence. If they differ, another leadership has the shard, or MySQL was restored
 * to an earlier state, and nothing is written.
 *
 * dt_store_takeover makes a fence; the leader's thread owns it. Every call that changes the row updates the fence after
 * the commit. After a status other than OK the row may have the old or the new values, and the leadership ends.
 */
#pragma once

#include "job/inflight.h"
#include "job/results/results.h"
#include "mysql/db.h"
#include "store/store.h"

/* May be copied by assignment; nothing to free. */
struct dt_fence {
    unsigned shard;
    int64_t epoch, token, version;
    int64_t ledger_offset; /* offset in the ledger before which everything is settled */
    int64_t batch_no;
    size_t inflight; /* number of entries in the row's in-flight list */
    /* Number of entries at the head of the in-flight list that the next batch sends; 0 only if the list is empty. */
    size_t send_n;
    int64_t index_epoch; /* the epoch since which the shard's set has been at its present endpoint */
    /* The row has had trim_offset since trim_at_ms. After a while, ledger records below trim_offset may be deleted. -1
     * and 0: not set yet. */
    int64_t trim_offset, trim_at_ms;
};

/* Compares the row with the fence, without a lock. DEPOSED: they differ, or there is no row. HALTED: the shard is
 * halted. OK: *inst has the current generation and number of shards of the map, and the current version of the topics;
 * its other members are not set. */
dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence, struct dt_installation *inst,
                               struct dt_error *err);

/* Called after the ledger's records below trim_offset were deleted: writes the present ledger_offset as the next
 * trim_offset. DEPOSED, HALTED, NOT_FOUND (no row): nothing was written. */
dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err);

/* Steps down: clears the owner in the row. If a row has no owner and an empty in-flight list, every attempt of the
 * shard is settled. If another leadership has the row, returns OK and does not change the row. */
dt_status dt_store_step_down(dt_store *store, const struct dt_fence *fence, struct dt_error *err);

/* ---- inside a leader's transaction; for store/ only ---- */

/* Values that dt_fence_begin reads when it locks the row. */
struct dt_fence_row {
    int64_t now_ms, generation, topics_version;
};

/* Opens a transaction, locks the shard's row and compares it with the fence. The caller must always call
 * dt_store_commit afterwards, also on failure. *row is also set after HALTED, and after DEPOSED (the row belongs to
 * another leadership, or MySQL was restored to an earlier state). NOT_FOUND: there is no such shard. Usually takes one
 * round trip; a connection that broke while idle is replaced. */
dt_status dt_fence_begin(dt_store *store, const struct dt_fence *fence, dt_db **db, struct dt_fence_row *row,
                         struct dt_error *err);

/* Values that a leader writes into its row. */
struct dt_fence_values {
    struct dt_inflight inflight; /* borrowed */
    size_t send_n;
    int64_t ledger_offset, batch_no;
};
/* Writes the values into the locked row, raises its version, and updates *fence at once. If the commit fails, the
 * caller must not use *fence any more. DEPOSED: the row differs from the fence, and nothing was written. */
dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_fence_values *values, struct dt_error *err);

/*
 * ---- taking a shard over ----
 *
 * Step 1 (dt_store_takeover) makes the fence; step 5 (dt_store_takeover_settle) settles what the earlier leadership
 * left. The delivery does steps 2 to 4; dispatcher/shard/shard_takeover.c has all steps in order. The shard's thread
 * makes both calls; inputs are borrowed for the call.
 */

struct dt_leadership {
    unsigned shard;
    int64_t token;        /* random number, different for each leadership */
    const char *owner;    /* name of the process */
    const char *index_at; /* endpoint of the shard's set; if it has changed, fence->index_epoch is the new epoch */
};
/* The first step of a takeover, on a fresh connection: writes epoch + 1, token, owner and index_at. OK: *fence has the
 * values of the row as written, and *inflight its in-flight list, which the caller clears. HALTED: err has the reason.
 * NOT_FOUND: the shard has no row. UNKNOWN, UNAVAILABLE: start the takeover again; the row may have the epoch that was
 * tried. */
dt_status dt_store_takeover(dt_store *store, const struct dt_leadership *who, struct dt_fence *fence,
                            struct dt_inflight *inflight, struct dt_error *err);

/* What a takeover found in the ledger between ledger_offset and its barrier, and what the delivery remembers of a batch
 * that Kafka refused. */
struct dt_findings {
    const struct dt_inflight *inflight; /* the in-flight list as dt_store_takeover has read it */
    /* The batch (the first fence->send_n entries of the list) was sent, because the ledger has it. */
    bool sent;
    int64_t next_offset; /* offset after the barrier of this takeover */
    const char *halt;    /* reason why the ledger contradicts the row; NULL: it does not */
    /* The list of attempts that Kafka refused (dt_inflight_taken_over); n = 0: Kafka refused none. */
    struct dt_inflight refused;
    const char *refusal;            /* Kafka's reason, stored as the attempt's error */
    const struct dt_shard_map *map; /* determines which shard's leader sends a dead letter */
};

struct dt_settled {
    struct dt_shrink shrink;    /* how the in-flight list was shortened */
    bool ended;                 /* an attempt ended as undeliverable, and its job's row says so */
    int64_t next_ms;            /* if ended: when the job is due again; 0 = never */
    int64_t was_ms[DT_WAS_MAX]; /* if ended: times at which the index may have the job's entry */
    bool outbox;                /* a dead letter was written into the outbox */
};

/*
 * Step 5, one transaction under the fence. It does the following, in this order:
 *
 * - If `halt` is set, it writes the reason and nothing else.
 * - If the ledger has the batch, it removes the batch from the in-flight list. For each of these attempts whose job's
 *   row is still dispatched with the attempt, it extends the deadline to now + ack timeout. A deadline never becomes
 *   earlier.
 * - If Kafka refused a list of several attempts, it halves the list. If Kafka refused a single attempt, it removes the
 *   attempt from the list. If the job's row is still dispatched with that attempt, the attempt ends as undeliverable,
 *   which counts as a failure for the retry policy.
 * - It sets ledger_offset to next_offset.
 *
 * OK: *fence and *done are as written. DEPOSED: another leadership has the row. Any other status: start the takeover
 * again.
 */
dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence, const struct dt_findings *findings,
                                   struct dt_settled *done, struct dt_error *err);
