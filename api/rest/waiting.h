/*
 * What a job waits for (job/job_wait.h), from its row and from what the leaders said about their shards a second
 * ago at most. Reads snapshots; asks the store only about dispatched jobs of a shard whose leader waits for Kafka, and
 * about topics with limits.
 */
#ifndef DT_API_WAITING_H
#define DT_API_WAITING_H

#include "job/job.h"
#include "request/topic_cache.h"

#define DT_WAITING_LIMITS 16 /* topics with limits that one answer asks about; of others it is not said */

/* References to snapshots; either may be NULL (MySQL was not reached yet). now_ms, latest_ms: MySQL's clock, at least
 * and at most. */
struct dt_waiting {
    struct dt_view *view;
    struct dt_shards_view *shards;
    int64_t now_ms, latest_ms;
    dt_store *store; /* NULL = cannot be asked */
    struct dt_waiting_limit {
        struct dt_str topic; /* borrowed of its job's view */
        bool full;
    } limits[DT_WAITING_LIMITS]; /* topics that were asked about */
    size_t n_limits;
};
/* Takes references to the present snapshots; clear gives them back. store: borrowed until then. */
void dt_waiting_init(struct dt_waiting *waiting, dt_topic_cache *cache, const dt_refclock *ref, dt_store *store);
void dt_waiting_clear(struct dt_waiting *waiting);
/* Chooses the word: static text; NULL when the job is finished. */
const char *dt_waiting_for(struct dt_waiting *waiting, const struct dt_job *job);

#endif
