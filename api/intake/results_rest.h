/*
 * Results that come by REST: one thread applies all that have gathered (at most 2,000) in one transaction
 * through dt_store_apply, then tells the index writer where the jobs are due now.
 */
#ifndef DT_API_RESULTS_REST_H
#define DT_API_RESULTS_REST_H

#include "index_writer.h"
#include "job/results/results.h"
#include "request/session.h"
#include "request/topic_cache.h"
#include "store/store.h"

#define DT_RESULTS_QUEUE 20000 /* results that wait, at most */

/* Results of one request that are applied together. The submitter makes and frees them; they are the batcher's from
 * submit until done. */
struct dt_reports {
    struct dt_apply *v; /* in: result (slices borrowed until done); out: outcome */
    size_t n;           /* 1 to dt_results_batcher_unit() */
    /* The topics that the caller sees: a job of another one is an UNKNOWN_JOB. Borrowed until done; NULL = all. */
    const struct dt_topic_bound *bound;
    bool of_batch; /* stands behind results that come alone, in the order of batches */
    /* Called exactly once, on the batcher's thread or inside dt_results_batcher_submit when refused. Must not block;
     * typically hands the request to the workers, which read the job for the answer. */
    void (*done)(struct dt_reports *reports);
    void *arg;
    int64_t deadline_us; /* monotonic: not begun by then -> UNAVAILABLE; 0 = none */
    dt_status status;    /* out. OK: outcomes count. UNAVAILABLE, BUSY, FULL, SHUTDOWN: nothing happened. UNKNOWN:
                            perhaps; a repeat is harmless. */
    struct dt_reports *prev, *next; /* the batcher's own */
};

typedef struct dt_results_batcher dt_results_batcher;

/* Starts the thread. All arguments are borrowed and outlive the batcher. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_results_batcher_start(const struct dt_session_env *env, dt_topic_cache *topics,
                                                 dt_index_writer *index, dt_results_batcher **out,
                                                 struct dt_error *err);
/* The most results that are submitted together. */
size_t dt_results_batcher_unit(const dt_results_batcher *results);
/* Gives back results whose time is up and that are not begun: UNAVAILABLE. Any thread. */
void dt_results_batcher_expire(dt_results_batcher *results, int64_t now_us);
/* Takes no more results, applies what is queued, ends the thread. */
void dt_results_batcher_stop(dt_results_batcher *results);
/* After dt_results_batcher_stop. Accepts NULL. */
void dt_results_batcher_free(dt_results_batcher *results);
/* Queues the results, or refuses all of them; either ends in one call of done. Any thread; does not block. */
void dt_results_batcher_submit(dt_results_batcher *results, struct dt_reports *reports);

#endif
