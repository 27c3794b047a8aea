/* Results of attempts: their bodies, applying them in batches, and storing those whose row is locked. */
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
    const struct dt_answer *answer;     /* in: written if the outcome is APPLIED; borrowed; NULL = none */
    const struct dt_topic_bound *bound; /* in: jobs of other topics get UNKNOWN_JOB; NULL = any topic */
    enum dt_outcome outcome;            /* out */
    /* Out, for the index, if the outcome is APPLIED: when the job is due now; 0 = remove its entry. was_ms: the
     * times at which the index may have its entry: its deadline, the deadline of its claim, or, if the leader has
     * not updated the index, the time at which it was claimed; 0 = none. */
    int64_t next_at_ms, was_ms[DT_WAS_MAX];
    bool outbox; /* a dead letter was written: the caller wakes the shard's leader */
};
/*
 * Applies results in one transaction. Rows are locked in the order of ids; several results of one job are applied in
 * the order given. It waits for a locked row once (mysql.lock_timeout); then all results of that job are BUSY, and the
 * others are applied. OK: every outcome is set and durable.
 */
DT_MUST_CHECK dt_status dt_store_apply(dt_store *store, const struct dt_shard_map *map, struct dt_apply *results,
                                       size_t n, struct dt_error *err);

/*
 * Applies results as dt_store_apply does, and stores those that are BUSY in the same transaction (deferred_results), to
 * be applied later. So after OK the caller may forget them. some_wait: results may be stored already. Then a result is
 * BUSY too if its job has earlier ones stored, and the call does not wait for locked rows.
 */
DT_MUST_CHECK dt_status dt_store_apply_or_defer(dt_store *store, const struct dt_shard_map *map,
                                                struct dt_apply *results, size_t n, bool some_wait,
                                                struct dt_error *err);
/* A page of the stored results, in the order in which they were stored. */
struct dt_deferred_page {
    size_t limit;
    int64_t after_id;   /* in: results after this one, 0 = from the first one; out: the last of the page */
    struct dt_apply *v; /* out, in the arena */
    size_t n;           /* out; 0: there are no more */
};
/*
 * Tries to apply the results of a page, without waiting for locks. If the row of a job is still locked, or earlier
 * results of the job are stored, its results are BUSY and stay. The others are applied and deleted, in one transaction.
 * If several callers apply the same result, the second one finds a DUPLICATE, or extends a deadline once more.
 */
DT_MUST_CHECK dt_status dt_store_apply_deferred(dt_store *store, const struct dt_shard_map *map, struct dt_arena *arena,
                                                struct dt_deferred_page *page, struct dt_error *err);

/* ---- inside a transaction; for the store only ---- */

/* How rows are locked while they are read. NONE: not at all; a change in between is noticed when the rows are
 * written. WAITING: waits for locks. PASSING_BY: skips locked rows, whose results are then BUSY. */
enum dt_locking { DT_LOCK_NONE, DT_LOCK_WAITING, DT_LOCK_PASSING_BY };

/* The transaction in which results are applied. Borrowed. */
struct dt_results_txn {
    dt_db *db;                      /* the transaction is open */
    const struct dt_config *config; /* [history] says when finished jobs are archived */
    const struct dt_shard_map *map; /* to find the leader that sends a dead letter */
    int64_t now_ms;                 /* MySQL's clock in this transaction */
    enum dt_locking locking;
    struct dt_counts *counts; /* counts the changes, for the caller's COMMIT */
    struct dt_arena *arena;   /* for the topics in counts, and everything else; must live as long as counts */
};

/*
 * Does the work of dt_store_apply inside the transaction: locks the jobs in the order of their ids, decides, writes
 * rows and outbox, and nothing else. It takes a handful of statements, and one for every 960 jobs that are read or
 * written alike. A TIMED_OUT without an error code gets "ack_timeout". After a failure the caller rolls back, and the
 * outcomes are not valid. BUSY, with DT_LOCK_NONE: a row has changed since it was read.
 */
DT_MUST_CHECK dt_status dt_results_apply_within(const struct dt_results_txn *txn, struct dt_apply *results, size_t n,
                                                struct dt_error *err);

/* Adds two elements of a row: HTTP status and duration, each null if absent. answer: NULL = none. */
void dt_answer_put(struct dt_strbuf *text, const struct dt_answer *answer);

/* The work of one transaction, between its beginning and its COMMIT. */
typedef dt_status dt_results_work_fn(void *arg, const struct dt_results_txn *txn, struct dt_error *err);
/* Begins with `locking`, does the work, counts and commits. If another transaction interferes, repeats everything
 * with more locking. */
DT_MUST_CHECK dt_status dt_results_commit(dt_store *store, const struct dt_shard_map *map, enum dt_locking locking,
                                          dt_results_work_fn *work, void *arg, struct dt_error *err);

/*
 * ---- the body of a result, the same on the results topic and over REST ----
 *
 *   {"job_id":"…","attempt":1,"status":"succeeded",
 *    "error":{"code":"…","message":"…"},"retry_after":"PT5M","finished_at":"…"}
 */

/* Returns true for members that do not belong to the report but to the object around it; they are skipped. */
struct dt_result_beside {
    bool (*is)(struct dt_str name);
};

/*
 * Decodes a report from a parsed object. If the caller sets out->job_id to < 0, or out->attempt to 0, the body must
 * have it. Otherwise the body may have it, and must have the same value. Texts are copied into the arena of the faults;
 * those of the error are cut to their limits at a character. beside: NULL = none. INVALID: faults were added. NOMEM.
 */
DT_MUST_CHECK dt_status dt_result_decode(const dt_json *json, const struct dt_json_node *body,
                                         const struct dt_result_beside *beside, struct dt_faults *faults,
                                         struct dt_result *out);

/* Returns "applied", "duplicate" or "stale". */
const char *dt_report_outcome(enum dt_outcome outcome);

/* Reads a decimal id as in paths and bodies: digits only, no leading zero, > 0. */
bool dt_job_id_parse(struct dt_str text, int64_t *out);
