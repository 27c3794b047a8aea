/*
 * Pops: a client claims jobs that a leader has offered (pop_queue), in one transaction on the jobs' rows. A pop needs
 * no fence: locked rows decide, and no process gives a job to a client from memory.
 *
 *   leader        offers a due job: a row of pop_queue, and `near` -1 in the job's row  (dispatch/leader_rows.c)
 *   pop           claims jobs in order of (due, id), and deletes their offers           (pop_store.c)
 *   housekeeping  deletes offers that cannot be popped, and lets leaders offer jobs
 *                 again whose offer is missing                                          (pop_store.c)
 *
 * store/store.h explains statuses and times.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* Whether a topic has anything to pop. */
enum dt_pop_topic {
    DT_POP_TOPIC_UNKNOWN,
    DT_POP_TOPIC_OTHER, /* the topic's jobs are delivered by Kafka or by callbacks, not popped */
    DT_POP_TOPIC_EMPTY, /* none of the topic's jobs is offered, or the topic is paused */
    DT_POP_TOPIC_OFFERS
};
/* Reads whether each of topics[0..n) has anything to pop; out has room for n. One statement, no lock. */
dt_status dt_store_pop_look(dt_store *store, const struct dt_str *topics, size_t n, enum dt_pop_topic *out,
                            struct dt_error *err);

struct dt_pop {
    /* in */
    struct dt_str topic;
    size_t max;       /* maximal number of jobs to claim, at least 1 */
    size_t max_bytes; /* maximal number of bytes of all payloads together */
    bool must_fit;    /* if false, the first job is claimed whatever its size */
    const int64_t
        *ttrs_ms; /* times to report, in the order of the claimed jobs; 0: the job's own. NULL: all have their own */
    struct dt_arena *arena;
    /* out; valid only if OK */
    struct dt_job *jobs; /* the claimed jobs, in order of (due, id); next_at is the deadline */
    size_t n;
    bool more; /* a job that can be popped was left because of max or max_bytes */
    /* Fewer than max were claimed, and an offer was skipped: its row is locked, or its job is due in a moment. */
    bool passed;
    bool at_limit; /* the topic has no more room within its limits; nothing reports when it has room again */
};
/* Claims jobs that are scheduled and due, of a topic that is popped and not paused, within its limits (topic/limits.h),
 * and without an earlier attempt in a shard's in-flight list. Skips jobs that another session has locked, and offers
 * that another pop has locked. Deletes offers that cannot be popped any more. UNKNOWN: the claim may be committed. The
 * caller must not return the jobs to its client then; their attempts time out. */
dt_status dt_store_pop(dt_store *store, struct dt_pop *pop, struct dt_error *err);
/* For qsort: compares jobs by the time at which they were due, then by id. */
int dt_pop_by_due(const void *a, const void *b);

/* The position of a walk over all offers; all zero at first. If a walk has ended, the next call begins the next
 * walk. */
struct dt_offers_walk {
    bool of_jobs; /* the walk is in its second half, which reads jobs whose rows are marked as offered */
    char topic[DT_TOPIC_MAX];
    size_t topic_n;
    int64_t due_ms, id;
};
/* Checks up to `limit` offers, or jobs whose rows are marked as offered. *repaired: how many of these were repaired.
 * *more: the walk has not reached its end. now_ms: MySQL's clock. */
dt_status dt_store_tidy_offers(dt_store *store, struct dt_offers_walk *walk, int64_t now_ms, size_t limit,
                               size_t *repaired, bool *more, struct dt_error *err);
