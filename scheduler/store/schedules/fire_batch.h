/*
 * The work of one transaction on schedules whose rows it holds: jobs for their fires, fires withdrawn and returned, and
 * how far each schedule is afterwards. For schedules/ only.
 */
#ifndef DT_STORE_FIRE_BATCH_H
#define DT_STORE_FIRE_BATCH_H

#include "store/jobs/counts.h"
#include "store/schedules/fire_plan.h"
#include "store/schedules/fire_quota.h"
#include "store/schedules/schedule_row.h"

struct dt_fire_row; /* a job to be made */

struct dt_fire_batch {
    struct dt_fire_maker *maker;
    dt_db *db;
    int64_t now_ms;
    struct dt_counts counts;
    struct dt_fire_row *rows; /* DT_FIRES_AT_ONCE */
    size_t n_rows;
    size_t bytes;                          /* of their jobs */
    struct dt_schedule_progress *progress; /* likewise */
    size_t n_progress;
    int64_t *cancel_first; /* jobs whose retries are to end before their schedule is looked at again; likewise */
    size_t n_cancel_first;
    int64_t *put_off; /* instants of withdrawn fires that are over, by jitter not their jobs' times */
    size_t n_put_off;
    size_t made, skipped, returned;
    /* The defaults of the topic that was asked for last. */
    struct dt_str topic, retry;
    int64_t ack_timeout_ms, owner;
    bool topic_there;
    struct dt_fire_quotas quotas;
    struct dt_fire_quota *quota; /* of the schedule at work; NULL = none */
    struct dt_error *err;
};

/* Begins; memory is the maker's arena's. NOMEM. */
DT_MUST_CHECK dt_status dt_fire_batch_init(struct dt_fire_batch *b, struct dt_fire_maker *maker, struct dt_error *err);
/* Plans the fires of a schedule, which lives in the arena. What keeps it from having any is noted in its row. */
DT_MUST_CHECK dt_status dt_fire_batch_advance(struct dt_fire_batch *b, struct dt_schedule *s);
/* Notes in the schedule's row why it cannot have its jobs. */
DT_MUST_CHECK dt_status dt_fire_batch_refuse(struct dt_fire_batch *b, struct dt_schedule *s, const char *why);
/* Plans a job for now: last_job_id after dt_fire_batch_write. */
DT_MUST_CHECK dt_status dt_fire_batch_now(struct dt_fire_batch *b, struct dt_schedule *s);
/* Adds jobs for the fires of a schedule whose time has come, and which nobody has made yet: it becomes *then, or goes.
 * BUSY: somebody has the job whose retries are to end. */
DT_MUST_CHECK dt_status dt_fire_batch_add_due(struct dt_fire_batch *b, struct dt_schedule *s, struct dt_schedule *then);
/* Writes the jobs and the progress. */
DT_MUST_CHECK dt_status dt_fire_batch_write(struct dt_fire_batch *b);
/* Cancels fires that lie ahead. Those whose instant is over, and whose jobs are not due yet by their jitter, are listed
 * in put_off, and are left beyond `most`. */
DT_MUST_CHECK dt_status dt_fire_batch_withdraw(struct dt_fire_batch *b, const struct dt_schedule *s, size_t most);
/* Cancels fires of a schedule that goes, but for its next one and what jitter has put off. */
DT_MUST_CHECK dt_status dt_fire_batch_withdraw_but_next(struct dt_fire_batch *b, const struct dt_schedule *s);
/* How many more jobs of the schedule fit. */
size_t dt_fire_batch_room(const struct dt_fire_batch *b, const struct dt_schedule *s);

#endif
