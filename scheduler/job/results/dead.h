/*
 * Dead letters by topic and error: how many there are of each, and what one of them says.
 *
 * The work is bounded, whatever the tables hold. Dead jobs are looked at from the newest on, DT_DEAD_LOOKED_AT at most:
 *
 *     jobs      in the due index, those that leave after everything that finishes now: dead jobs alone, as a rule
 *     history   in its index of dead jobs
 *     jobs      those that leave soon, DT_DEAD_LEAVING of them, among all that finished lately
 *
 * Who looks at all of them sees exact numbers; else those of the newest. A dead job that is about to leave `jobs` for
 * history may be missed for that while, where more than DT_DEAD_LEAVING others leave with it.
 */
#ifndef DT_JOB_DEAD_H
#define DT_JOB_DEAD_H

#include "job/list/list.h"
#include "store/store.h"

#define DT_DEAD_LOOKED_AT 100000
#define DT_DEAD_LEAVING   10000
#define DT_DEAD_GROUPS    200 /* are told, the largest */

struct dt_dead_ask {
    struct dt_str topic;         /* absent = any */
    struct dt_list_times failed; /* when their last failure was */
    const struct dt_topic_bound *bound;
    int64_t now_ms;
};

struct dt_dead_group {
    struct dt_str topic, error_code; /* in the arena, as the rest; absent: without a code */
    struct dt_str message;           /* of one of them; absent: none has any */
    int64_t jobs, last_ms, job_id;   /* last_ms: the latest failure, 0 = none is known; job_id: of one of them */
};

struct dt_dead_groups {
    struct dt_dead_group *v; /* the largest first */
    size_t n, more;          /* more: smaller groups that are not told */
    int64_t jobs;            /* in all groups, told or not */
    bool newest;             /* there are more dead jobs than were looked at */
};

/* Reads outside of a transaction, and locks nothing. */
DT_MUST_CHECK dt_status dt_store_dead_groups(dt_store *store, const struct dt_dead_ask *ask, struct dt_arena *arena,
                                             struct dt_dead_groups *out, struct dt_error *err);

#endif
