/*
 * The leader's side of the port to MySQL: takeover, the leader's transaction, and what reconciler and housekeeping read.
 * See dispatcher/shard_loop.c for the protocol that these are the steps of.
 */
#ifndef DT_STORE_STORE_DISPATCH_H
#define DT_STORE_STORE_DISPATCH_H

#include "store/store.h"

/* What a leadership knows of its own row: compared in each of its transactions. A value. */
struct dt_lease {
    unsigned shard;
    int64_t epoch, token, version;
    int64_t ledger_offset, batch_no;
};

/* An entry of the in-flight list. */
struct dt_claim { int64_t id, attempt, due_ms; };
struct dt_claims { struct dt_claim *v; size_t n, cap; };
void dt_claims_clear(struct dt_claims *claims);
/* The list as text, [[id,attempt,due],...]: the same in shards.inflight and in ledger records. MALFORMED when it is not. */
void dt_claims_format(const struct dt_claim *v, size_t n, struct dt_strbuf *out);
DT_MUST_CHECK dt_status dt_claims_parse(struct dt_str text, struct dt_claims *out);

/* What is to be sent for one claim, read under the claim's lock. Slices in the arena of the turn. */
struct dt_outgoing {
    struct dt_claim claim;
    struct dt_str topic, kafka_topic, key, partition_key, content_type, headers, payload;
};

/* Takeover, step 1: fresh connection; epoch+1, new token, owner. HALTED (reason in err). UNKNOWN/UNAVAILABLE: start over. */
DT_MUST_CHECK dt_status dt_store_takeover(dt_store *store, unsigned shard, int64_t token, const char *owner, struct dt_lease *lease, struct dt_claims *inflight, struct dt_error *err);
/* Step 3, and at every wake-up with nothing due: is the row as we wrote it? DEPOSED. Samples the clock and the map too. */
DT_MUST_CHECK dt_status dt_store_lease_check(dt_store *store, const struct dt_lease *lease, struct dt_installation *inst, struct dt_error *err);
/*
 * Step 5, one leader's transaction: the first `settled` entries of inflight (what the ledger has) leave the list and get their
 * deadlines (now + ack timeout, never earlier than it is, only where the row still says dispatched with that attempt);
 * ledger_offset := next_offset. halt (not NULL): writes the reason instead, nothing else. DEPOSED when the row is not ours.
 */
DT_MUST_CHECK dt_status dt_store_takeover_settle(dt_store *store, struct dt_lease *lease, const struct dt_claims *inflight, size_t settled, int64_t next_offset, const char *halt, struct dt_error *err);
/* Reads what is to be sent for claims that are in flight already (after a takeover): whatever their rows say by now. A row that is gone: .payload absent and topic absent. */
DT_MUST_CHECK dt_status dt_store_read_outgoing(dt_store *store, const struct dt_claims *claims, struct dt_arena *arena, struct dt_outgoing **out, struct dt_error *err);

/* One leader's transaction. All in/out of a batch. */
struct dt_turn {
    /* in */
    const struct dt_claims *settle;    /* sent and committed since the last turn; n = 0: none */
    int64_t settle_offset;             /* offset after its ledger record */
    int64_t settle_deadline_since_ms;  /* > 0: the claim is so old that deadlines are moved to now + ack timeout first */
    const struct dt_entry_ref *due;    /* hints: ids to look at, any order, at most max_jobs */
    size_t n_due;
    size_t max_jobs, max_bytes;
    const struct dt_shard_map *map;    /* generation is compared with the row's: stale -> stale_map */
    /* Topics that may not be claimed from now (cannot be written): rows of them are reported in `skipped`. */
    bool (*topic_writable)(void *arg, struct dt_str kafka_topic, size_t message_bytes);
    void *arg;
    /* out; slices in arena */
    struct dt_arena *arena;
    int64_t now_ms;                    /* MySQL's clock in this transaction */
    bool stale_map;
    struct dt_outgoing *batch; size_t n_batch; /* claimed: in order of (due, id) */
    /* What the index should say now about hints that were looked at: 0 = remove. Includes the claimed ones (their deadline), timed-out ones, and stale hints. */
    struct dt_seen { int64_t id, hint_ms, next_ms; struct dt_str hold_topic /* present: due, but its topic is paused */; bool unwritable; } *seen; size_t n_seen;
    size_t timed_out; bool outbox; bool more; /* more hints were due than fitted */
};
struct dt_entry_ref { int64_t id, hint_ms; };
/*
 * Locks the shard row, compares (epoch, token, version, and not halted) with the lease: DEPOSED otherwise, nothing written. Settles; decides acknowledgement
 * timeouts among the hints; claims what is scheduled and due among them, of this shard's slots, not paused, writable, with no earlier attempt in its claiming shard's list;
 * writes the list, batch_no+1, version+1; commits; updates the lease. Writes nothing at all when there is nothing to settle, decide or claim.
 * UNKNOWN, UNAVAILABLE, BUSY: take over again.
 */
DT_MUST_CHECK dt_status dt_store_turn(dt_store *store, struct dt_lease *lease, struct dt_turn *turn, struct dt_error *err);

/* Steps down cleanly: owner := NULL (only when nothing is in flight it is also a promise that all is settled). */
DT_MUST_CHECK dt_status dt_store_step_down(dt_store *store, const struct dt_lease *lease, struct dt_error *err);

/* ---- scans (covering the due index, never locking) ---- */
struct dt_due { int64_t id, next_ms; };
/* Near rows with from_ms <= next_at < to_ms in order of (next_at, id), after (after_ms, after_id), at most limit; of any shard. */
DT_MUST_CHECK dt_status dt_store_scan_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t after_ms, int64_t after_id, size_t limit, struct dt_due *out, size_t *n, struct dt_error *err);
/* Due rows of one shard (by the map), for a leader without Redis: next_at <= now_ms after (after_ms, after_id); scans at most `scan` index entries; *end: the scan reached now. */
DT_MUST_CHECK dt_status dt_store_scan_shard(dt_store *store, const struct dt_shard_map *map, unsigned shard, int64_t now_ms, int64_t after_ms, int64_t after_id, size_t scan, size_t limit, struct dt_due *out, size_t *n, bool *end, int64_t *last_ms, int64_t *last_id, struct dt_error *err);
/* Earliest next_at of the shard after now_ms among the next `scan` index entries; 0 = none among them. */
DT_MUST_CHECK dt_status dt_store_next_due(dt_store *store, const struct dt_shard_map *map, unsigned shard, int64_t now_ms, size_t scan, int64_t *next_ms, struct dt_error *err);
/* Rows per slot with from_ms <= next_at < to_ms: counts[DT_SLOTS]. */
DT_MUST_CHECK dt_status dt_store_count_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t *counts, struct dt_error *err);
/* Current truth about ids, in order of ids; absent jobs are left out. */
struct dt_truth { int64_t id, next_ms /* 0 = finished */; enum dt_job_state state; struct dt_str topic; bool topic_paused; };
DT_MUST_CHECK dt_status dt_store_truth(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena, struct dt_truth **out, size_t *n_out, struct dt_error *err);

/* ---- housekeeping: bounded steps; *done: how many rows (0 = nothing left to do now) ---- */
/* Far rows whose day has come near -> near = 1. Fills the (id, next_at) of those due before horizon_end_ms, for the index. */
DT_MUST_CHECK dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err);
/* Finished by hand but with next_at still set (seen among these ids): cleared, purge_at set. */
DT_MUST_CHECK dt_status dt_store_tidy(dt_store *store, const int64_t *ids, size_t n, size_t *done, struct dt_error *err);
/* Deletes finished jobs whose retention ended, their attempts and keys; counts them in removed_jobs. */
DT_MUST_CHECK dt_status dt_store_purge(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err);

/* ---- outbox ---- */
struct dt_notice { int64_t outbox_id; struct dt_job job; int64_t attempt, made_at_ms; };
DT_MUST_CHECK dt_status dt_store_outbox(dt_store *store, unsigned shard, size_t limit, struct dt_arena *arena, struct dt_notice **out, size_t *n, struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_outbox_sent(dt_store *store, const int64_t *outbox_ids, size_t n, struct dt_error *err);

struct dt_shard_stats { unsigned shard; int64_t epoch; const char *waiting; const char *detail; int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong; };
DT_MUST_CHECK dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n, struct dt_error *err);

#endif
