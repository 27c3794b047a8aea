/*
 * The fence: what a leadership wrote last into its shard's row of `shards`. Each transaction of a leader locks the row
 * and compares it with the fence. If they differ, another leadership has the shard, or MySQL went back to an earlier
 * state, and nothing is written.
 *
 * dt_store_takeover makes a fence; the leader's thread owns it. Every call that changes the row updates the fence
 * after the commit. After any status but OK it is not known which of both the row has, and the leadership ends.
 */
#ifndef DT_DISPATCH_FENCE_H
#define DT_DISPATCH_FENCE_H

#include "job/inflight.h"
#include "job/results/results.h"
#include "mysql/db.h"
#include "store/store.h"

/* A value. */
struct dt_fence {
    unsigned shard;
    int64_t epoch, token, version;
    int64_t ledger_offset; /* first offset of the ledger that is not settled */
    int64_t batch_no;
    size_t inflight;     /* entries of the row's in-flight list */
    size_t send_n;       /* how many of them are the next batch: 1 to inflight; 0 if the list is empty */
    int64_t index_epoch; /* since this epoch the shard's set has been on its present endpoint */
    /* Ledger records below trim_offset may be deleted once the row has had it, since trim_at_ms, for long enough.
     * -1, 0: the row has none yet. */
    int64_t trim_offset, trim_at_ms;
};

/* Compares the row with the fence, without a lock. DEPOSED: they differ, or there is no row. HALTED. OK: *inst has
 * the present generation and shards of the map and the topics' version; its other members are not written. */
DT_MUST_CHECK dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence,
                                             struct dt_installation *inst, struct dt_error *err);

/* After the ledger's records below trim_offset were deleted, writes the present ledger_offset as the next
 * trim_offset. DEPOSED, HALTED, NOT_FOUND (no row): nothing was written. */
DT_MUST_CHECK dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err);

/* Steps down: the row has no owner afterwards. An empty in-flight list then also promises that all is settled. If
 * the row is another leadership's, it stays as it is, and the status is OK. */
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

/* Who takes a shard over. */
struct dt_leadership {
    unsigned shard;
    int64_t token;        /* random: no other leadership has it */
    const char *owner;    /* the process */
    const char *index_at; /* the endpoint of the shard's set, which decides fence->index_epoch */
};
/*
 * Step 1, on a fresh connection: writes epoch + 1, token, owner and index_at. OK: *fence is the row as it is now,
 * *inflight its list, which the caller clears. HALTED (the reason in err). NOT_FOUND: the shard has no row. UNKNOWN,
 * UNAVAILABLE: start over; the row may hold the epoch that was tried.
 */
DT_MUST_CHECK dt_status dt_store_takeover(dt_store *store, const struct dt_leadership *who, struct dt_fence *fence,
                                          struct dt_inflight *inflight, struct dt_error *err);

/* What a takeover found between ledger_offset and its barrier, and what it remembers of a refusal. */
struct dt_findings {
    const struct dt_inflight *inflight; /* as step 1 read it */
    bool sent;                          /* the batch, the first fence->send_n entries, was committed */
    int64_t next_offset;                /* the offset after our barrier */
    const char *halt;                   /* not NULL: why the ledger cannot be explained */
    struct dt_inflight refused;         /* as the delivery remembers it: see dt_inflight_taken_over; n = 0: none */
    const char *refusal;                /* what Kafka said, for the attempt's error */
    const struct dt_shard_map *map;     /* whose leader sends a dead letter */
};

/* The effects of step 5. */
struct dt_settled {
    struct dt_shrink shrink;    /* of the list */
    bool ended;                 /* undeliverable, and recorded in the job's row (no manual edit came between) */
    int64_t next_ms;            /* if ended: when the job is due again; 0 = never */
    int64_t was_ms[DT_WAS_MAX]; /* if ended: where its entry may be in the index, as in dt_apply */
    bool outbox;                /* a dead letter waits */
};

/*
 * Step 5, one transaction under the fence. In this order:
 *
 * - halt: writes the reason, and nothing else
 * - if the ledger has the batch, it leaves the list, and its rows get new deadlines: now + ack timeout, never earlier
 *   than they are, only if the row still says dispatched with that attempt
 * - then what the delivery refused: a list is halved. A single attempt ends as undeliverable (a failure, by the retry
 *   policy, only if the row still says dispatched with that attempt) and leaves the list
 * - ledger_offset becomes next_offset
 *
 * OK: *fence and *done are as written. DEPOSED: the row is not ours. Any other status: start over.
 */
DT_MUST_CHECK dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence,
                                                 const struct dt_findings *findings, struct dt_settled *done,
                                                 struct dt_error *err);

#endif
