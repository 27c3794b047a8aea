/* Results of attempts: their JSON bodies, applying them in batches, and deferring a result whose job's row is
 * locked. */
#pragma once

#include "base/text/json_table.h"
#include "job/job_state.h"
#include "job/shard.h"
#include "mysql/db.h"
#include "store/store.h"
#include "topic/counts.h"

struct dt_answer {
    int http_status;     /* 0 = none */
    int64_t duration_ms; /* -1 = none */
};

#define DT_WAS_MAX 3
struct dt_apply {
    struct dt_result result;            /* in */
    const struct dt_answer *answer;     /* in: HTTP status and duration, which are written if the outcome is APPLIED;
                                         * borrowed; NULL = none */
    const struct dt_topic_bound *bound; /* in: jobs of other topics get UNKNOWN_JOB; NULL = any topic */
    enum dt_outcome outcome;            /* out */
    /* Out, for the index, if the outcome is APPLIED. next_at_ms: time at which the job is due now; 0 = its entry must
     * be removed. was_ms: times at which the index may have the job's entry; 0 = none. They are the job's next_at
     * before the result, the time at which the attempt was due (if the leader has not updated the index yet), and the
     * deadline from the claim. */
    int64_t next_at_ms, was_ms[DT_WAS_MAX];
    bool outbox; /* out: a dead letter was written, so the caller must wake the shard's leader */
};
/* Applies results in one transaction. Rows are locked in the order of their ids; several results of one job are applied
 * in the order given. If a row is locked, waits for it once (mysql.lock_timeout). If it is still locked, all results of
 * its job are BUSY, and the other results are applied. OK: every outcome is set and durable. */
dt_status dt_store_apply(dt_store *store, const struct dt_shard_map *map, struct dt_apply *results, size_t n,
                         struct dt_error *err);

/* Applies results in one transaction, and stores those that are BUSY in the same transaction (table deferred_results),
 * to be applied later, so that after OK the caller can forget all results. some_wait: the table may have earlier
 * results. Then a result is also BUSY if the table has an earlier result of its job, and the call does not wait for
 * locked rows. */
dt_status dt_store_apply_or_defer(dt_store *store, const struct dt_shard_map *map, struct dt_apply *results, size_t n,
                                  bool some_wait, struct dt_error *err);
/* A page of the deferred results, in the order in which they were stored. */
struct dt_deferred_page {
    size_t limit;
    int64_t after_id;   /* in: only results stored after this one, 0 = all; out: the last result of the page */
    struct dt_apply *v; /* out, in the arena */
    size_t n;           /* out; 0: there are no further deferred results */
};
/* Tries to apply the results of a page in one transaction, without waiting for locks. If a job's row is still locked,
 * or the job has earlier deferred results, its results are BUSY and stay stored. The other results are applied and
 * deleted. If several callers apply the same result, the second caller gets DUPLICATE, or extends a deadline once
 * more. */
dt_status dt_store_apply_deferred(dt_store *store, const struct dt_shard_map *map, struct dt_arena *arena,
                                  struct dt_deferred_page *page, struct dt_error *err);

/* ---- inside a transaction; for the store only ---- */

/* How rows are locked while they are read. NONE: without locks; the write detects if a row has changed since. WAITING:
 * locks, and waits for locked rows. PASSING_BY: locks, but skips locked rows, whose results are then BUSY. */
enum dt_locking { DT_LOCK_NONE, DT_LOCK_WAITING, DT_LOCK_PASSING_BY };

/* The transaction in which results are applied. Members are borrowed. */
struct dt_results_txn {
    dt_db *db;                      /* connection with the open transaction */
    const struct dt_config *config; /* configuration; [history] says when finished jobs are archived */
    const struct dt_shard_map *map; /* map of slots to shards; the leader of the job's shard sends its dead letter */
    int64_t now_ms;                 /* MySQL's clock in this transaction */
    enum dt_locking locking;
    struct dt_counts *counts; /* changes of the counters of jobs, which the caller's COMMIT writes */
    struct dt_arena *arena;   /* memory for the topics in `counts` and for all other data; must live as long as
                               * `counts` */
};

/* Applies results inside the caller's transaction, as dt_store_apply describes: locks the jobs in the order of their
 * ids, decides, and writes rows and outbox. Runs a handful of statements; a statement by id has at most 960 jobs. A
 * TIMED_OUT without an error code gets "ack_timeout". If it fails, the caller must roll back, and the outcomes are not
 * valid. BUSY, with DT_LOCK_NONE: a row has changed since it was read. */
dt_status dt_results_apply_within(const struct dt_results_txn *txn, struct dt_apply *results, size_t n,
                                  struct dt_error *err);

/* Adds two elements to a JSON array: HTTP status and duration of the answer. An absent value is null; if `answer` is
 * NULL, both are null. */
void dt_answer_put(struct dt_strbuf *text, const struct dt_answer *answer);

/* The statements of one transaction, without its BEGIN and COMMIT. */
typedef dt_status dt_results_work_fn(void *arg, const struct dt_results_txn *txn, struct dt_error *err);
/* Begins a transaction with `locking`, runs the work, counts and commits. If another transaction interferes, repeats
 * all of it, with more locking. */
dt_status dt_results_commit(dt_store *store, const struct dt_shard_map *map, enum dt_locking locking,
                            dt_results_work_fn *work, void *arg, struct dt_error *err);

/*
 * ---- the body of a result, the same on the results topic and over REST ----
 *
 *   {"job_id":"…","attempt":1,"status":"succeeded",
 *    "error":{"code":"…","message":"…"},"retry_after":"PT5M","finished_at":"…"}
 */

/* is() returns true for members of the object around the result; the decoder skips them. */
struct dt_result_beside {
    bool (*is)(struct dt_str name);
};

/* Decodes a result from a parsed object. If the caller sets out->job_id below 0, or out->attempt to 0, the body must
 * have that member. Otherwise the body may have the member, with the value that the caller set. Texts are copied into
 * the arena of the faults; texts of the error are cut to their limits, between characters. beside: NULL = there is no
 * object around the result. INVALID: faults were added. NOMEM: memory ran out. */
dt_status dt_result_decode(const dt_json *json, const struct dt_json_node *body, const struct dt_result_beside *beside,
                           struct dt_faults *faults, struct dt_result *out);

/* Returns the outcome as text: "applied", "duplicate" or "stale". */
const char *dt_report_outcome(enum dt_outcome outcome);

/* Reads a job's id as paths and bodies write it: decimal digits only, no leading zero, above 0. */
bool dt_job_id_parse(struct dt_str text, int64_t *out);
