/*
 * The leader's side of the port to MySQL: takeover, the leader transaction, and what reconciler and housekeeping
 * read. See dispatcher/shard/shard_loop.c for the protocol that these are the steps of.
 */
#ifndef DT_STORE_STORE_DISPATCH_H
#define DT_STORE_STORE_DISPATCH_H

#include "store/store.h"

/* What a leadership knows of its own row: compared in each of its transactions. A value. */
struct dt_fence {
    unsigned shard;
    int64_t epoch, token, version;
    int64_t ledger_offset; /* first offset of the ledger that is not settled */
    int64_t batch_no;
    size_t inflight;     /* entries of the row's in-flight list */
    size_t send_n;       /* the next batch is its first so many: 1 to inflight; 0 when it is empty */
    int64_t index_epoch; /* since this epoch the shard's set has been on the endpoint that it is on */
    /* Ledger records below trim_offset may be deleted once the row has held it since trim_at_ms for long enough; -1, 0:
     * the row holds none yet. */
    int64_t trim_offset, trim_at_ms;
};

/* An entry of the in-flight list. */
struct dt_claim {
    int64_t id, attempt, due_ms;
};
struct dt_inflight {
    struct dt_claim *v;
    size_t n, cap;
};
void dt_inflight_clear(struct dt_inflight *list);
/* The list as text, [[id,attempt,due],...]: the same in shards.inflight and in ledger records. MALFORMED when it is
 * not. */
void dt_inflight_format(const struct dt_claim *v, size_t n, struct dt_strbuf *out);
DT_MUST_CHECK dt_status dt_inflight_parse(struct dt_str text, struct dt_inflight *out);
/* The first n leave. */
void dt_inflight_drop(struct dt_inflight *list, size_t n);
/* Entry for entry: id, attempt and due time, in the same order. */
bool dt_inflight_equal(const struct dt_claim *a, size_t n_a, const struct dt_claim *b, size_t n_b);

/*
 * What becomes of a list of n entries whose first send_n are the batch. Pure: the only place that halves and doubles.
 * How fast send_n falls and grows decides the speed alone; what leaves the list, and why, decides safety.
 */
struct dt_shrink {
    size_t leave;       /* so many leave the list at its head */
    bool undeliverable; /* the one that leaves was refused alone: it was not sent */
    bool halved;
    size_t send_n; /* of what is left */
};
/* The batch went through: it leaves, and twice as many go next. */
struct dt_shrink dt_inflight_sent(size_t n, size_t send_n);
/* At a takeover, after the ledger: in_ledger when it has the batch; refused: the list that this process had sent when
 * Kafka refused it for good (n = 0: none, or forgotten). */
struct dt_shrink dt_inflight_taken_over(const struct dt_inflight *list, size_t send_n, bool in_ledger,
                                        const struct dt_inflight *refused);

/* What is to be sent for one claim, read under the claim's lock. Slices in the arena of the leader transaction. */
struct dt_outgoing {
    struct dt_claim claim;
    struct dt_str topic, kafka_topic, key, partition_key, content_type, headers, payload;
};

/* Takeover, step 1: fresh connection; epoch+1, new token, owner, and where the shard's set is (index_at, for
 * fence->index_epoch). HALTED (reason in err). NOT_FOUND: the shard has no
 * row. UNKNOWN/UNAVAILABLE: start over; the row may hold the epoch that was tried. */
DT_MUST_CHECK dt_status dt_store_takeover(dt_store *store, unsigned shard, int64_t token, const char *owner,
                                          const char *index_at, struct dt_fence *fence, struct dt_inflight *inflight,
                                          struct dt_error *err);
/* Step 3, and at every wake-up with nothing due: is the row as we wrote it? DEPOSED (also without a row), HALTED. OK:
 * *inst has the map's generation and shards and the topics' version as they are now, nothing else. */
DT_MUST_CHECK dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence,
                                             struct dt_installation *inst, struct dt_error *err);
/* What a takeover found out between ledger_offset and its barrier, and remembers of a refusal. */
struct dt_findings {
    const struct dt_inflight *inflight; /* as step 1 read it */
    bool in_ledger;                     /* the batch, the first fence->send_n entries, was committed */
    int64_t next_offset;                /* after our barrier */
    const char *halt;                   /* not NULL: what cannot be explained */
    struct dt_inflight refused;         /* the hint (borrowed): see dt_inflight_taken_over; n = 0: none */
    const char *refusal;                /* what Kafka said, for the attempt's error */
    const struct dt_shard_map *map;     /* whose leader sends a dead letter */
};
/* What step 5 did. */
struct dt_settled {
    struct dt_shrink shrink;    /* of the list */
    bool ended;                 /* undeliverable, and the job's row took it (it was not edited by hand meanwhile) */
    int64_t next_ms;            /* then: when the job is due again; 0 = never */
    int64_t was_ms[DT_WAS_MAX]; /* then: where its entry may be in the index, as in dt_apply */
    bool outbox;                /* a dead letter waits */
};
/*
 * Step 5, one leader transaction. A batch that the ledger has leaves the list, and its rows get their deadlines (now
 * + ack timeout, never earlier than it is, only where the row still says dispatched with that attempt). Only then the
 * hint: a list that was refused is halved; a single attempt that was refused ends as undeliverable (a failure, by the
 * retry policy; only where the row still says dispatched with that attempt) and leaves the list. ledger_offset :=
 * next_offset. halt: writes the reason instead, nothing else. DEPOSED when the row is not ours. *done: after OK.
 */
DT_MUST_CHECK dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence,
                                                 const struct dt_findings *findings, struct dt_settled *done,
                                                 struct dt_error *err);
/* A leader transaction: the records below trim_offset are gone from the ledger; from now on the row holds the present
 * ledger_offset as the next trim_offset. Any status but OK: the leadership is over. */
DT_MUST_CHECK dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err);
/* Reads what is to be sent for claims that are in flight already (after a takeover): whatever their rows say by now. A
 * row that is gone: .payload absent and topic absent. */
DT_MUST_CHECK dt_status dt_store_read_outgoing(dt_store *store, const struct dt_inflight *claims,
                                               struct dt_arena *arena, struct dt_outgoing **out, struct dt_error *err);

/* What leaders need to know of topics; reread only when installation.topics_version rose. One a thread. */
typedef struct dt_topic_snapshot dt_topic_snapshot;
DT_MUST_CHECK dt_status dt_topic_snapshot_new(dt_topic_snapshot **out);
void dt_topic_snapshot_free(dt_topic_snapshot *snapshot);
/* Rereads outside of a leader transaction. */
DT_MUST_CHECK dt_status dt_store_read_topics(dt_store *store, dt_topic_snapshot *snapshot, struct dt_error *err);
/* Of the last reading; false for topics that are not known. */
bool dt_topic_snapshot_paused(const dt_topic_snapshot *snapshot, struct dt_str topic);
/* The Kafka topic of a topic; absent for topics that are not known. Valid until the snapshot is read again. */
struct dt_str dt_topic_snapshot_kafka_topic(const dt_topic_snapshot *snapshot, struct dt_str topic);

/* An index entry that says that a job may be due. */
struct dt_hint {
    int64_t id, due_ms;
};

/* What became of a hint: what the index should say now. */
struct dt_seen {
    int64_t id, hint_ms;
    int64_t next_ms; /* 0 = the entry goes away */
    bool elsewhere;  /* its slot is another shard's: the entry goes there */
    struct dt_str
        hold; /* present: due, but its topic is paused or cannot be written: the entry goes to this topic's held set */
};

/* UNKNOWN: left for a later leader transaction, the caller finds out meanwhile. */
enum dt_writable {
    DT_WRITABLE_NO,
    DT_WRITABLE_YES,
    DT_WRITABLE_UNKNOWN,
    DT_WRITABLE_ALONE /* perhaps too large for its topic: goes in a batch of its own, so that a refusal is about it */
};

/* One leader transaction: what goes in and what comes out. */
struct dt_leader_txn {
    /* in */
    const struct dt_inflight
        *settle;                 /* the whole list in flight; its first fence->send_n were sent and committed; n = 0:
                                       nothing is in flight */
    int64_t settle_offset;       /* first offset after their ledger record */
    bool extend_deadlines;       /* the claim is so old that deadlines are moved to now + ack timeout first */
    const struct dt_hint *hints; /* ids to look at, each once */
    size_t n_hints;
    size_t max_jobs, max_bytes;
    const struct dt_shard_map *map;
    dt_topic_snapshot *topics;
    int64_t read_up_to_ms; /* reports that were there at this instant have been applied: later deadlines wait */
    /* May this Kafka topic take a message of so many bytes now? Asked while the row is locked: answers from memory. */
    enum dt_writable (*writable)(void *arg, struct dt_str kafka_topic, int64_t bytes);
    void *arg;
    /*
     * NULL, or told what is about to be claimed, in order, with the fence as it will be, while the rows are locked and
     * nothing is committed: whatever is prepared with it must come to nothing unless this transaction ends with OK.
     * Must not wait. Told before the claim is written, or, with large messages, after it, when these were read.
     */
    void (*claiming)(void *arg, const struct dt_fence *next, const struct dt_outgoing *batch,
                     const struct dt_claim *claims, size_t n);
    void *claiming_arg;
    struct dt_arena *arena; /* for everything below */
    /* out; only after OK */
    int64_t now_ms;            /* MySQL's clock in this transaction */
    bool stale_map;            /* the map's generation rose: reload it; nothing was claimed */
    size_t settled;            /* so many left the list at its head */
    size_t rest;               /* so many are still in flight, their first fence->send_n go next: the hints were left */
    struct dt_outgoing *batch; /* claimed now, in order of (due, id) */
    size_t n_batch;
    int64_t shortest_ack_ms; /* of the claimed: the shortest acknowledgement timeout */
    struct dt_seen *seen;    /* hints that were settled one way or other, the claimed ones too */
    size_t n_seen;
    struct dt_seen *moved; /* settled attempts whose acknowledgement deadline was put off */
    size_t n_moved;
    size_t timed_out, held;
    size_t unread;     /* hints that were left because reports of their attempts may be unread: so many, and */
    int64_t unread_ms; /* the latest of their deadlines */
    size_t unknown;    /* hints that were left because nobody could say yet whether their topic can be written */
    bool outbox;       /* a dead letter waits in the outbox */
    bool more;         /* hints were left for the next leader transaction: over the limits */
    bool locked;       /* hints were left because their rows are locked, wait for another shard's list, or for reports
                          that may be unread or wait to be applied, or unknown */
    struct dt_str orphan; /* present: a due job's topic has no row in `topics` (deleted by hand): its entry is held */
};
/*
 * Locks the shard row and compares it with the fence: DEPOSED (or HALTED) when it differs, nothing written. Settles;
 * decides acknowledgement timeouts among the hints (of deadlines up to read_up_to_ms, and of jobs that no stored result
 * waits for: deferred_results); claims what is scheduled and due among them: of this shard's slots,
 * not paused, writable, with no earlier attempt in its claiming shard's list, in order of (due, id) within a topic, and
 * when not all of them fit an equal part of the bytes for each topic; writes the list, send_n, batch_no,
 * version; commits; updates the fence. While a rest is left in flight nothing is claimed and nothing times out. Writes
 * nothing at all when there is nothing to settle, decide or claim. Any status but OK: the leadership is over, take over
 * again.
 */
DT_MUST_CHECK dt_status dt_leader_txn_commit(dt_store *store, struct dt_fence *fence, struct dt_leader_txn *txn,
                                             struct dt_error *err);

/* Steps down cleanly: owner := NULL (only when nothing is in flight it is also a promise that all is settled). */
DT_MUST_CHECK dt_status dt_store_step_down(dt_store *store, const struct dt_fence *fence, struct dt_error *err);

/* ---- scans (covering the due index, never locking) ---- */
struct dt_due {
    int64_t id, next_ms;
};
/* Near rows with from_ms <= next_at < to_ms in order of (next_at, id), after (after_ms, after_id), at most limit; of
 * any shard. */
DT_MUST_CHECK dt_status dt_store_scan_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t after_ms,
                                          int64_t after_id, size_t limit, struct dt_due *out, size_t *n,
                                          struct dt_error *err);
/* dt_store_scan_due in several parts: the question, and its answer, page by page. The answer ends with a page that is
 * not full, with the `last` one, or with an error. The server works in between; the store may be asked nothing else
 * before the end. */
DT_MUST_CHECK dt_status dt_store_ask_due(dt_store *store, int64_t from_ms, int64_t to_ms, size_t limit,
                                         struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_take_due(dt_store *store, size_t page, bool last, struct dt_due *out, size_t *n,
                                          struct dt_error *err);
/* Due rows of one shard (by the map), for a leader without Redis: next_at <= now_ms after (after_ms, after_id); scans
 * at most `scan` index entries; *end: the scan reached now. */
DT_MUST_CHECK dt_status dt_store_scan_shard(dt_store *store, const struct dt_shard_map *map, unsigned shard,
                                            int64_t now_ms, int64_t after_ms, int64_t after_id, size_t scan,
                                            size_t limit, struct dt_due *out, size_t *n, bool *end, int64_t *last_ms,
                                            int64_t *last_id, struct dt_error *err);
/* Earliest next_at of the shard after now_ms among the next `scan` index entries; 0 = none among them. */
DT_MUST_CHECK dt_status dt_store_next_due(dt_store *store, const struct dt_shard_map *map, unsigned shard,
                                          int64_t now_ms, size_t scan, int64_t *next_ms, struct dt_error *err);
/* When the n-th (from 0) of the near rows with from_ms <= next_at < to_ms is due; to_ms when there are fewer. */
DT_MUST_CHECK dt_status dt_store_due_nth(dt_store *store, int64_t from_ms, int64_t to_ms, size_t n, int64_t *due_ms,
                                         struct dt_error *err);
/* Rows per slot with from_ms <= next_at < to_ms: counts[DT_SLOTS]. Costs what there is between them. */
DT_MUST_CHECK dt_status dt_store_count_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t *counts,
                                           struct dt_error *err);
/* Current truth about ids, in order of ids; absent jobs are left out. */
struct dt_truth {
    int64_t id, next_ms /* 0 = finished */;
    enum dt_job_state state;
    struct dt_str topic;
    bool topic_paused;
    int64_t updated_at_ms;
    int64_t generation; /* of the slot map, at that moment */
};
DT_MUST_CHECK dt_status dt_store_truth(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                                       struct dt_truth **out, size_t *n_out, struct dt_error *err);

/* What queues up with what: the topic of each id, and whether it waits for an acknowledgement, for one shard's leader
 * to share out what is due. ids ascending; out[n] in their order, without a topic where there is no row. */
struct dt_topic_of {
    struct dt_str topic;
    bool dispatched;
};
DT_MUST_CHECK dt_status dt_store_topics_of(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                                           struct dt_topic_of *out, struct dt_error *err);

/* ---- housekeeping: bounded steps; *done: how many rows (0 = nothing left to do now) ---- */
/* Far rows whose day has come near -> near = 1. Fills the (id, next_at) of those due before horizon_end_ms, for the
 * index. */
DT_MUST_CHECK dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                         struct dt_error *err);
/* Finished by hand but with next_at still set (seen among these ids): cleared, purge_at and leave_at set. */
DT_MUST_CHECK dt_status dt_store_tidy(dt_store *store, const int64_t *ids, size_t n, size_t *done,
                                      struct dt_error *err);
/* ---- history (store_history.c, store_parts.c) ---- */

/* The partitions that there are, ascending, without `rest`. A value; all zero = not read yet. */
#define DT_PARTS_MAX 2048
struct dt_parts {
    bool read;
    size_t n;
    int32_t v[DT_PARTS_MAX];
};
bool dt_parts_have(const struct dt_parts *parts, int32_t part); /* 0, `rest`, always */
/* Where a job belongs that leaves `jobs` now: YYYYMMDD of its purge_at, or YYYYMM if that is more than 400 days ahead,
 * or 0 (`rest`) if it is more than ten years ahead. */
int32_t dt_part_of(int64_t purge_at_ms, int64_t now_ms);

/* Which there are, without looking at their rows. */
DT_MUST_CHECK dt_status dt_store_parts_read(dt_store *store, struct dt_parts *out, struct dt_error *err);
/*
 * Makes those of `wanted` that are missing, drops some whose time is over (counting what they hold in removed_jobs) and
 * tells which there are then. *more: others are to be dropped still. BUSY: another session is at it, or readers are in
 * the way; what was done is done. DDL: it commits, and ends what prepared statements knew.
 */
DT_MUST_CHECK dt_status dt_store_parts_tend(dt_store *store, int64_t now_ms, const int32_t *wanted, size_t n,
                                            struct dt_parts *parts, unsigned *dropped, bool *more,
                                            struct dt_error *err);
/* The partitions that jobs which finish on one of the next `days` days will need, by their topics' retentions. */
DT_MUST_CHECK dt_status dt_store_parts_ahead(dt_store *store, int64_t now_ms, unsigned days, int32_t *wanted,
                                             size_t max, size_t *n, struct dt_error *err);

/* What a mover remembers. All zero at first. */
struct dt_mover {
    struct dt_parts parts;
    bool make_do;               /* jobs whose partition is missing go to `rest` */
    int64_t after_ms, after_id; /* the cursor in `jobs` */
    int64_t rest_id;            /* and in `rest` */
    unsigned singly;            /* so many go one at a time, after one of a batch could not: it alone stays */
};
#define DT_WANTED_MAX 64
struct dt_left {
    size_t moved, removed;
    bool more;
    int32_t wanted[DT_WANTED_MAX]; /* partitions that were missing: then nothing was moved */
    size_t n_wanted;
};
/* Finished jobs whose leave_at has come: to history, or away if purge_at has come, too. One short transaction; which
 * may be repeated or cut off at any point. */
DT_MUST_CHECK dt_status dt_store_leave(dt_store *store, struct dt_mover *mover, int64_t now_ms, size_t limit,
                                       struct dt_left *out, struct dt_error *err);
/* Keys whose time is over become free. */
DT_MUST_CHECK dt_status dt_store_free_keys(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                           struct dt_error *err);
/* Looks at some rows of `rest`: those that have a partition now move there, those whose retention is over are removed.
 * *done: how many did; the cursor goes round. */
DT_MUST_CHECK dt_status dt_store_sort_rest(dt_store *store, struct dt_mover *mover, int64_t now_ms, size_t limit,
                                           size_t *done, struct dt_error *err);

/* ---- outbox ---- */
struct dt_notice {
    int64_t outbox_id;
    struct dt_job job;
    int64_t attempt, made_at_ms;
};
DT_MUST_CHECK dt_status dt_store_outbox(dt_store *store, unsigned shard, int64_t after_id, size_t limit,
                                        struct dt_arena *arena, struct dt_notice **out, size_t *n,
                                        struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_outbox_sent(dt_store *store, const int64_t *outbox_ids, size_t n,
                                             struct dt_error *err);

struct dt_shard_stats {
    unsigned shard;
    int64_t epoch;
    const char *waiting;
    const char *detail;
    int64_t generation; /* of the map that the leader works with, its set filled for it; 0 = not yet */
    int64_t overdue, oldest_due_at_ms, drift_missing, drift_extra, drift_wrong;
};
DT_MUST_CHECK dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n,
                                           struct dt_error *err);

/* ---- the audit of counters (store_audit.c) ---- */

/* One thread's. Has a connection of its own; between the steps of a piece a transaction that reads stays open on it. */
typedef struct dt_audit dt_audit;
struct dt_audited {
    unsigned piece;
    bool done;         /* the piece was recounted; the next step begins the next one */
    int64_t rows;      /* that it has */
    int64_t corrected; /* of them, or of what was counted and is not there: how many the counters had wrong */
};
DT_MUST_CHECK dt_status dt_audit_new(const struct dt_config *config, dt_audit **out);
void dt_audit_free(dt_audit *audit);
/* Counts at most about `limit` rows. A failure forgets the piece: the next step begins it anew. BUSY: another process
 * recounted it at the same time. */
DT_MUST_CHECK dt_status dt_audit_step(dt_audit *audit, size_t limit, struct dt_audited *out, struct dt_error *err);
/* Nobody goes on with the piece for now: it begins anew. */
void dt_audit_pause(dt_audit *audit);

#endif
