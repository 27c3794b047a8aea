/*
 * Deleting topics. A topic goes only when none of its jobs is unfinished, so nothing waits for it. Its finished jobs,
 * in `jobs` and in history, stay as long as they would without the deletion.
 *
 * Whoever makes jobs knows topics from a snapshot that is a second old at most, or older in a process that was stopped
 * for a while. So a job may still be made in a topic that is gone. It is treated as the first job of a new topic: the
 * topic is made again, with defaults. dt_store_topics_revive sees to that for a day.
 */
#ifndef DT_OPERATIONS_TOPIC_DELETION_H
#define DT_OPERATIONS_TOPIC_DELETION_H

#include "operations.h"

enum dt_topic_keeper { DT_TOPIC_GOES, DT_TOPIC_HAS_JOBS, DT_TOPIC_HAS_SCHEDULE };
struct dt_topic_deletion {
    enum dt_topic_keeper keeper; /* why nothing was deleted */
    int64_t jobs;                /* HAS_JOBS: scheduled and dispatched ones */
    struct dt_str schedule;      /* HAS_SCHEDULE: one of those that make jobs of the topic; in the arena */
    /* Of dt_store_topic_delete_with_jobs: the operation that deletes the topic; its id 0 = keeper says why there is
     * none. */
    struct dt_operation operation;
};
/* Deletes a topic, with its gate; forgets deletions that are older than a day. NOT_FOUND: there is none. OK:
 * out->keeper says whether it is gone. */
DT_MUST_CHECK dt_status dt_store_topic_delete(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                              struct dt_topic_deletion *out, struct dt_error *err);
/*
 * Begins to delete a topic with its jobs, unless a schedule makes some: marks it (topics.deletion), so that nothing new
 * is taken for it, and makes an operation, which dispatchers leave alone for lease_ms. One that is under way already is
 * told again. Stopped or failed, it takes the mark off and leaves the rest as it is. Of ask the filter's topic and the
 * tenant count. NOT_FOUND; FULL as of dt_store_operation_make.
 */
DT_MUST_CHECK dt_status dt_store_topic_delete_with_jobs(dt_store *store, const struct dt_operation_ask *ask,
                                                        int64_t lease_ms, struct dt_arena *arena,
                                                        struct dt_topic_deletion *out, struct dt_error *err);
/* Makes topics again that were deleted within a day and have jobs which are not finished, a bounded number at once. *n:
 * how many were made. */
DT_MUST_CHECK dt_status dt_store_topics_revive(dt_store *store, struct dt_arena *arena, size_t *n,
                                               struct dt_error *err);

#endif
