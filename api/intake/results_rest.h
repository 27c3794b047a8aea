/* The batcher of results that arrive by REST: one thread applies all queued results (at most 2,000) in one transaction
 * (dt_store_apply), then posts the jobs' new due times to the index writer. */
#pragma once

#include "index_writer.h"
#include "job/results/results.h"
#include "request/session.h"
#include "request/topic_cache.h"
#include "store/store.h"

#define DT_RESULTS_QUEUE 20000 /* maximal number of queued results */

/* Results of one request that are applied together. The submitter creates and frees the reports; the batcher owns them
 * from submit until their `done` is called. */
struct dt_reports {
    struct dt_apply *v; /* in: the results, whose slices are borrowed until `done`; out: their outcomes */
    size_t n;           /* number of results: 1 to dt_results_batcher_unit() */
    /* Topics that the caller sees; NULL: all topics. A result for a job of another topic gets UNKNOWN_JOB. Borrowed
     * until `done` is called. */
    const struct dt_topic_bound *bound;
    bool of_batch; /* false: a single result, applied before results of batches */
    /* Called exactly once: on the batcher's thread, or inside dt_results_batcher_submit if the results are refused.
     * Must not block; usually submits the request to the workers, which read the job for the answer. */
    void (*done)(struct dt_reports *reports);
    void *arg;
    int64_t deadline_us; /* monotonic: results that are still queued at this time get UNAVAILABLE; 0: no deadline */
    dt_status status;    /* out. OK: every result has its outcome. UNAVAILABLE, BUSY, FULL, SHUTDOWN: nothing happened.
                            UNKNOWN: they may have been applied; a repeat is harmless. */
    struct dt_reports *prev, *next; /* used by the batcher */
};

typedef struct dt_results_batcher dt_results_batcher;

/* Starts the batcher's thread. All arguments are borrowed, and must outlive the batcher. Unless OK, *out is NULL. */
dt_status dt_results_batcher_start(const struct dt_session_env *env, dt_topic_cache *topics, dt_index_writer *index,
                                   dt_results_batcher **out, struct dt_error *err);
/* Returns the maximal number of results that may be submitted together. */
size_t dt_results_batcher_unit(const dt_results_batcher *results);
/* Answers queued results whose deadline has passed, with UNAVAILABLE. Any thread. */
void dt_results_batcher_expire(dt_results_batcher *results, int64_t now_us);
/* Refuses new results, applies the queued ones, and ends the thread. */
void dt_results_batcher_stop(dt_results_batcher *results);
/* Frees the batcher, after dt_results_batcher_stop. Accepts NULL. */
void dt_results_batcher_free(dt_results_batcher *results);
/* Queues the results, or refuses all of them; in both cases calls reports->done once. Any thread; does not block. */
void dt_results_batcher_submit(dt_results_batcher *results, struct dt_reports *reports);
