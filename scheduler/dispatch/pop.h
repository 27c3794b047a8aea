/*
 * Pops: a client claims jobs that a leader has offered (pop_queue), in one transaction on the jobs' rows. It needs no
 * fence: each pop decides by locked rows, and no process hands a job out again from memory.
 *
 *   leader        offers a due job: a row of pop_queue, and `near` -1 in the job's row  (dispatch/leader_rows.c)
 *   pop           claims jobs in order of (due, id), and deletes their offers            (pop_store.c)
 *   housekeeping  deletes offers that cannot be popped, and has jobs without an offer
 *                 offered again                                                          (pop_store.c)
 *
 * Statuses and times as in store/store.h.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* What a pop finds of a topic. */
enum dt_pop_topic {
    DT_POP_TOPIC_UNKNOWN,
    DT_POP_TOPIC_OTHER, /* its delivery is another one */
    DT_POP_TOPIC_EMPTY, /* nothing is offered, or the topic is paused */
    DT_POP_TOPIC_OFFERS
};
/* Looks at topics[n]; out has room for n. One statement, no lock. */
DT_MUST_CHECK dt_status dt_store_pop_look(dt_store *store, const struct dt_str *topics, size_t n,
                                          enum dt_pop_topic *out, struct dt_error *err);

struct dt_pop {
    /* in */
    struct dt_str topic;
    size_t max;       /* jobs, 1 at least */
    size_t max_bytes; /* of their payloads … */
    bool must_fit;    /* … the first job's, too; otherwise that is claimed whatever its size */
    const int64_t
        *ttrs_ms; /* times to report of the first job that is claimed, of the second …; 0 = the job's own. NULL: all
                   * have their own */
    struct dt_arena *arena;
    /* out; nothing unless OK */
    struct dt_job *jobs; /* as claimed, in order of (due, id); next_at is the deadline */
    size_t n;
    bool more;     /* a job that can be popped was left, because of max or max_bytes */
    bool passed;   /* fewer than max, and an offer was skipped: another session has it locked, or it is due in a
                    * moment */
    bool at_limit; /* the topic has no more room within its limits; there is no notification when it has */
};
/*
 * Claims jobs that are scheduled and due, of a topic that is popped and not paused, within its limits (topic/limits.h),
 * with no earlier attempt in a shard's in-flight list. Skips rows that another session has locked, and offers that
 * another pop has locked. Deletes offers that cannot be popped any more. UNKNOWN: the claim may be committed. The
 * caller must not hand out the jobs; their attempts time out.
 */
DT_MUST_CHECK dt_status dt_store_pop(dt_store *store, struct dt_pop *pop, struct dt_error *err);
/* For qsort: by the time that popped jobs were due, then by id. */
int dt_pop_by_due(const void *a, const void *b);

/* The position of a walk over all offers; zero at first. After its end the next walk begins. */
struct dt_offers_walk {
    bool of_jobs; /* the second half: offered rows of jobs */
    char topic[DT_TOPIC_MAX];
    size_t topic_n;
    int64_t due_ms, id;
};
/* Looks at up to `limit` offers, or offered rows, and repairs *repaired of them. *more: the walk is not at its end.
 * now_ms: MySQL's clock. */
DT_MUST_CHECK dt_status dt_store_tidy_offers(dt_store *store, struct dt_offers_walk *walk, int64_t now_ms, size_t limit,
                                             size_t *repaired, bool *more, struct dt_error *err);
