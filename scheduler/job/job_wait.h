/*
 * One word for what a job waits for:
 *
 *   scheduled, next_at ahead              time
 *   scheduled, due, its topic paused      paused
 *   scheduled, due, its topic is full     limit (no room within max_in_flight or rate_limit, or nearly none)
 *   scheduled, due, no leader             leader (no owner, not heard of for 15 s, or halted); kafka if dispatchers
 *                                         wait for it before they elect one, and the job goes there
 *   scheduled, due, its topic is popped   pop (from when the leader has offered it: milliseconds)
 *   scheduled, due, no place for callback limit (callbacks.max_in_flight, per_host or max_bytes of the dispatcher that
 *                                         leads its shard; no place at all where callbacks are not enabled)
 *   scheduled, due, its leader waits      kafka, redis: what the leader says; kafka not of a job that is called back
 *   scheduled, due, none of these         leader (it has yet to pick the job up: milliseconds, or a backlog)
 *   dispatched, still to be sent          kafka (the leader waits for Kafka and has the job in its list)
 *   dispatched                            ack
 *   finished                              null
 *
 * Pure: whoever asks finds out the facts.
 */
#ifndef DT_JOB_JOB_WAIT_H
#define DT_JOB_JOB_WAIT_H

#include "delivery.h"
#include "job.h"

/* What is known of a job's topic and of its shard; what is not known is zero. */
struct dt_wait_facts {
    int64_t now_ms;            /* MySQL's clock */
    bool paused, full;         /* the topic is; full: at its limits */
    enum dt_dealing dealing;   /* with the topic's jobs */
    bool led;                  /* the shard has a leader that was heard of and is not halted */
    bool no_place;             /* … which has none for a callback */
    struct dt_str leader_says; /* what the leader, or dispatchers that elect none yet, wait for; absent: nothing */
    bool unsent;               /* the job was dispatched, and has not left */
};
static inline bool dt_job_is_due(const struct dt_job *job, int64_t now_ms)
{
    return job->state == DT_SCHEDULED && job->next_at_ms <= now_ms;
}
/* Chooses the word: static text; NULL when the job is finished. */
const char *dt_job_waits_for(const struct dt_job *job, const struct dt_wait_facts *facts);

#endif
