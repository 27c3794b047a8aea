/*
 * Dead letters by topic and error: the number of dead jobs in each group, with an example.
 *
 * The work is bounded, whatever the size of the tables. At most DT_DEAD_LOOKED_AT dead jobs are read, the newest first:
 *
 *     jobs      in the due index, those that leave `jobs` later than a job that succeeds now: usually only dead jobs
 *     history   in the index of its dead jobs
 *     jobs      those that leave `jobs` soon: at most DT_DEAD_LEAVING finished jobs, some of them dead
 *
 * If all dead jobs were read, the numbers are exact; otherwise they cover only the newest. If more than DT_DEAD_LEAVING
 * jobs are about to leave `jobs` for history, a dead job among them may be missed until it has moved.
 */
#pragma once

#include "job/list/list.h"
#include "store/store.h"

#define DT_DEAD_LOOKED_AT 100000
#define DT_DEAD_LEAVING   10000
#define DT_DEAD_GROUPS    200 /* most groups that are returned, the largest ones */

struct dt_dead_ask {
    struct dt_str topic;         /* absent = any */
    struct dt_list_times failed; /* range of the time of the last failure */
    const struct dt_topic_bound *bound;
    int64_t now_ms;
};

struct dt_dead_group {
    struct dt_str topic, error_code; /* topic and error of the group's jobs; absent: no code. All texts are in the
                                      * arena */
    struct dt_str message;           /* error message of one of the jobs; absent: none has a message */
    int64_t jobs, last_ms, job_id;   /* jobs: number of jobs; last_ms: time of the latest failure, 0 = unknown; job_id:
                                      * one of the jobs */
};

struct dt_dead_groups {
    struct dt_dead_group *v; /* the largest first */
    size_t n, more;          /* more: number of smaller groups that are not in `v` */
    int64_t jobs;            /* number of jobs in all groups, including those not in `v` */
    bool newest;             /* some older dead jobs were not read */
};

/* Finds the groups. Opens no transaction, and locks nothing. */
dt_status dt_store_dead_groups(dt_store *store, const struct dt_dead_ask *ask, struct dt_arena *arena,
                               struct dt_dead_groups *out, struct dt_error *err);
