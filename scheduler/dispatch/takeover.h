/*
 * Taking a shard over, in MySQL: step 1 makes the fence, step 5 settles what the earlier leadership left. The steps
 * between them are the delivery's; dispatcher/shard/shard_takeover.c has all of them in order.
 *
 * Both calls are made by the shard's thread. What goes in is borrowed for the call.
 */
#ifndef DT_DISPATCH_TAKEOVER_H
#define DT_DISPATCH_TAKEOVER_H

#include "fence.h"
#include "job/inflight.h"
#include "job/results/results.h"

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

/* The findings of a takeover between ledger_offset and its barrier, and what it remembers of a refusal. */
struct dt_findings {
    const struct dt_inflight *inflight; /* as step 1 read it */
    bool sent;                          /* the batch, the first fence->send_n entries, was committed */
    int64_t next_offset;                /* after our barrier */
    const char *halt;                   /* not NULL: what cannot be explained */
    struct dt_inflight refused;         /* as the delivery remembers it: see dt_inflight_taken_over; n = 0: none */
    const char *refusal;                /* what Kafka said, for the attempt's error */
    const struct dt_shard_map *map;     /* whose leader sends a dead letter */
};

/* The effects of step 5. */
struct dt_settled {
    struct dt_shrink shrink;    /* of the list */
    bool ended;                 /* undeliverable, and the job's row took it (no manual edit came between) */
    int64_t next_ms;            /* then: when the job is due again; 0 = never */
    int64_t was_ms[DT_WAS_MAX]; /* then: where its entry may be in the index, as in dt_apply */
    bool outbox;                /* a dead letter waits */
};

/*
 * Step 5, one transaction under the fence. In this order:
 *
 *   - halt: writes the reason, and nothing else;
 *   - a batch that the ledger has leaves the list, and its rows get their deadlines: now + ack timeout, never earlier
 *     than they are, only where the row still says dispatched with that attempt;
 *   - only then what the delivery refused: a list that was refused is halved; a single attempt that was refused ends as
 *     undeliverable (a failure, by the retry policy; only where the row still says dispatched with that attempt) and
 *     leaves the list;
 *   - ledger_offset becomes next_offset.
 *
 * OK: *fence and *done are as written. DEPOSED: the row is not ours. Any other status: start over.
 */
DT_MUST_CHECK dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence,
                                                 const struct dt_findings *findings, struct dt_settled *done,
                                                 struct dt_error *err);

#endif
