/*
 * Results of attempts: applied in batches, or stored while a row is locked.
 */
#ifndef DT_JOB_RESULTS_H
#define DT_JOB_RESULTS_H

#include "job/job_state.h"
#include "job/shard.h"
#include "store/store.h"

/* How a receiver answered a callback. */
struct dt_answer {
    int http_status;     /* 0 = none */
    int64_t duration_ms; /* -1 = none */
};

#define DT_WAS_MAX 3
/* A result, and what came of it. */
struct dt_apply {
    struct dt_result result;            /* in */
    const struct dt_answer *answer;     /* in: written with an outcome that is APPLIED; borrowed; NULL = none */
    const struct dt_topic_bound *bound; /* in: a job of another topic is an UNKNOWN_JOB; NULL = of any topic */
    enum dt_outcome outcome;            /* out */
    /* Out, for the index: where the job is due now. next_at_ms 0 = remove it. Valid when outcome is APPLIED. was_ms:
     * where its entry may be: at its deadline, at the deadline that its claim gave it, at the time that it was claimed
     * at, if the leader has not told yet; 0 = no such. */
    int64_t next_at_ms, was_ms[DT_WAS_MAX];
    bool outbox; /* a dead letter was written: wake the shard's leader */
};
/*
 * Applies results in one transaction. Rows are locked in the order of ids; several results of one job are applied in
 * the order given. A row that somebody keeps locked is waited for once (mysql.lock_timeout), then all results of that
 * job have the outcome BUSY and the others are applied. OK: every outcome is set and durable.
 */
DT_MUST_CHECK dt_status dt_store_apply(dt_store *store, const struct dt_shard_map *map, struct dt_apply *results,
                                       size_t n, struct dt_error *err);

/*
 * Applies results as dt_store_apply does, and stores what is BUSY in the same transaction (deferred_results), to be
 * applied later: after OK the caller need not remember it. some_wait: results may be stored already, so a result whose
 * job has earlier ones there is BUSY, too, whether its row is locked or not, and no locked row is waited for.
 */
DT_MUST_CHECK dt_status dt_store_apply_or_defer(dt_store *store, const struct dt_shard_map *map,
                                                struct dt_apply *results, size_t n, bool some_wait,
                                                struct dt_error *err);
/* A page of the results that are stored, in the order in which they were stored. */
struct dt_deferred_page {
    size_t limit;
    int64_t after_id;   /* in and out: behind this one, which becomes the last of the page; 0 = from the first one on */
    struct dt_apply *v; /* out, in the arena */
    size_t n;           /* out; 0: there are no more */
};
/*
 * Tries the results of a page. Those of jobs whose row is still locked, or that have earlier ones stored, are BUSY and
 * stay; the others are applied and go, in one transaction. Nothing is waited for. Several callers at once may each
 * apply a result: the second one finds a DUPLICATE, or extends a deadline once more.
 */
DT_MUST_CHECK dt_status dt_store_apply_deferred(dt_store *store, const struct dt_shard_map *map, struct dt_arena *arena,
                                                struct dt_deferred_page *page, struct dt_error *err);

#endif
