/*
 * Pops: a client claims jobs that a leader has offered (pop_queue), in one transaction on the jobs' rows. A pop needs
 * no fence: it decides by locked rows, and no process gives a job to a client from memory.
 *
 *   leader        offers a due job: a row of pop_queue, and `near` -1 in the job's row  (dispatch/leader_rows.c)
 *   pop           claims jobs in order of (due, id), and deletes their offers            (pop_store.c)
 *   housekeeping  deletes offers that cannot be popped, and lets leaders offer jobs
 *                 again whose offer is missing                                           (pop_store.c)
 *
 * store/store.h explains statuses and times.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* Whether a topic has anything to pop. */
enum dt_pop_topic {
    DT_POP_TOPIC_UNKNOWN,
    DT_POP_TOPIC_OTHER, /* the topic is delivered in another way */
    DT_POP_TOPIC_EMPTY, /* nothing is offered, or the topic is paused */
    DT_POP_TOPIC_OFFERS
};
/* Reads whether each of topics[n] has anything to pop; out has room for n. One statement, no lock. */
DT_MUST_CHECK dt_status dt_store_pop_look(dt_store *store, const struct dt_str *topics, size_t n,
                                          enum dt_pop_topic *out, struct dt_error *err);

struct dt_pop {
    /* in */
    struct dt_str topic;
    size_t max;       /* most jobs to claim, at least 1 */
    size_t max_bytes; /* most bytes of the payloads of all claimed jobs */
    bool must_fit;    /* also the first job must fit into max_bytes; if false, the first is claimed whatever its size */
    const int64_t
        *ttrs_ms; /* time to report of the first claimed job, of the second, and so on; 0 = the job's own. NULL: all
                   * have their own */
    struct dt_arena *arena;
    /* out; nothing unless OK */
    struct dt_job *jobs; /* as claimed, in order of (due, id); next_at is the deadline */
    size_t n;
    bool more;     /* because of max or max_bytes, a job that can be popped was left */
    bool passed;   /* fewer than max were claimed, and an offer was skipped: its row is locked, or its job is due in
                    * a moment */
    bool at_limit; /* the topic has no more room within its limits; no notification follows when it has room again */
};
/* Claims jobs that are scheduled and due, of a topic that is popped and not paused, within its limits (topic/limits.h),
 * with no earlier attempt in a shard's in-flight list. Skips jobs that another session has locked, and offers that
 * another pop has locked. Deletes offers that cannot be popped any more. UNKNOWN: the claim may be committed. The
 * caller must not return the jobs to its client; their attempts time out. */
DT_MUST_CHECK dt_status dt_store_pop(dt_store *store, struct dt_pop *pop, struct dt_error *err);
/* For qsort: compares by the time at which the popped jobs were due, then by id. */
int dt_pop_by_due(const void *a, const void *b);

/* The position of a walk over all offers; all zero at first. A call after the end of a walk begins the next walk. */
struct dt_offers_walk {
    bool of_jobs; /* the walk is in its second half: offered rows of jobs */
    char topic[DT_TOPIC_MAX];
    size_t topic_n;
    int64_t due_ms, id;
};
/* Checks up to `limit` offers, or offered rows of jobs; *repaired is the number of those that were repaired. *more: the
 * walk has not reached its end. now_ms: MySQL's clock. */
DT_MUST_CHECK dt_status dt_store_tidy_offers(dt_store *store, struct dt_offers_walk *walk, int64_t now_ms, size_t limit,
                                             size_t *repaired, bool *more, struct dt_error *err);
