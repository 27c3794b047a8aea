/*
 * One word for what a job waits for, from its row and from what the leaders said about their shards a second ago at
 * most:
 *
 *   scheduled, next_at ahead              time
 *   scheduled, due, its topic paused      paused
 *   scheduled, due, its topic is full     limit (no room within max_in_flight or rate_limit, or nearly none)
 *   scheduled, due, nobody leads          leader (no owner, not heard of for 15 s, or halted)
 *   scheduled, due, its topic is popped   pop (from when the leader has offered it: milliseconds)
 *   scheduled, due, no place for callback limit (callbacks.max_in_flight, per_host or max_bytes of the dispatcher that
 *                                         leads its shard; no place at all where callbacks are not enabled)
 *   scheduled, due, its leader waits      kafka, redis: what the leader says; kafka not of a job that is called back
 *   scheduled, due, none of these         leader (it has yet to pick the job up: milliseconds, or a backlog)
 *   dispatched, still to be sent          kafka (the leader waits for Kafka and has the job in its list)
 *   dispatched                            ack
 *   finished                              null
 *
 * Reads snapshots; asks the store only about dispatched jobs of a shard whose leader waits for Kafka, and about topics
 * with limits.
 */
#ifndef DT_API_WAITING_H
#define DT_API_WAITING_H

#include "job/job.h"
#include "topics/topic_cache.h"

#define DT_LEADER_SILENT_MS 15000
#define DT_WAITING_LIMITS   16 /* topics with limits that one answer asks about; of others it is not said */

/* References to snapshots; either may be NULL (MySQL was not reached yet). now_ms: MySQL's clock. */
struct dt_waiting {
    struct dt_view *view;
    struct dt_shards_view *shards;
    int64_t now_ms;
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
