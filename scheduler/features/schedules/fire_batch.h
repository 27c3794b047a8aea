/*
 * The work of one transaction on schedules whose rows it holds: jobs for their fires, fires withdrawn and returned, and
 * how far each schedule is afterwards. For schedules/ only.
 */
#ifndef DT_SCHEDULES_FIRE_BATCH_H
#define DT_SCHEDULES_FIRE_BATCH_H

#include "features/quotas/quotas.h"
#include "schedule_row.h"
#include "schedules.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* ---- the quotas that fires spend (fire_quota.c) ---- */

struct dt_fire_quota {
    int64_t owner;
    int64_t per_second, pending; /* 0 = no limit */
    int64_t token;               /* whose share is spent */
    struct dt_str topics;        /* its prefixes, or DT_TOPICS_ALL */
    /* Once it is open. */
    bool open;
    int64_t rate_milli; /* what the share adds in a second, in thousandths of jobs, as is left_milli */
    int64_t left_milli, pending_left;
    int64_t count_at_ms; /* pending jobs are counted again */
    int64_t waiting;     /* schedules of this transaction whose fires wait */
};
struct dt_fire_quotas {
    struct dt_fire_quota *v; /* by owner */
    size_t n;
    bool read;
};

/* Reads the quotas, unless they were read, and locks those of the owners that have some. Each owner may be listed
 * several times: once for each of its schedules. */
DT_MUST_CHECK dt_status dt_fire_quotas_open(struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, dt_store *store,
                                            struct dt_arena *arena, const int64_t *owners, size_t n,
                                            struct dt_error *err);
/* The quota of an owner that is open; NULL: it has none. */
struct dt_fire_quota *dt_fire_quotas_find(const struct dt_fire_quotas *quotas, int64_t owner);
/* How many jobs may be made. */
size_t dt_fire_quota_room(const struct dt_fire_quota *quota);
/* A job is made. NULL is accepted. */
void dt_fire_quota_spend(struct dt_fire_quota *quota);
/* Returns when to look again at a schedule that waits, in ms; each further one waits longer. *why: the quota. */
int64_t dt_fire_quota_wait_ms(struct dt_fire_quota *quota, const char **why);
/* Writes what is left of each open quota. */
DT_MUST_CHECK dt_status dt_fire_quotas_write(const struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms,
                                             struct dt_error *err);

/* ---- the batch ---- */

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

/*
 * Which fires of a schedule are to have jobs now, and when to look again. Pure. For schedules/ only.
 */

/* A fire that is made this much too late was not missed: its schedule was made, or changed, at that moment. */
#define DT_FIRE_GRACE_MS INT64_C(5000)

enum dt_fire_how {
    DT_FIRE_RUNS,
    DT_FIRE_SKIPPED /* made as a cancelled job: the one before is not finished */
};
struct dt_fire {
    int64_t at_ms; /* nominal */
    enum dt_fire_how how;
};

/* The work on one schedule. */
struct dt_fire_plan {
    const struct dt_recurrence *recurrence; /* in */
    int64_t now_ms;                         /* in */
    bool unfinished;                        /* in: the job of the last fire that was to run is not finished */
    bool retries_ended;                     /* in: … and has no further attempts */
    bool due_only;                          /* in: leave what lies ahead */
    size_t room;                            /* in: of fires */
    struct dt_fire *fires;                  /* out: in order of time */
    size_t n;                               /* out */
    bool cancel_first;                      /* out: end the retries of the job before, then plan again */
    int64_t look_ms;                        /* out: when to look again; 0 = never */
};

/* Plans: *s goes on behind the fires of the plan (next_fire_ms, last_fire_ms). */
void dt_fire_plan_make(struct dt_schedule *s, struct dt_fire_plan *plan);
/* The time at which the job of a fire runs. */
int64_t dt_fire_runs_at_ms(const struct dt_schedule *s, int64_t fire_ms);
/* Sets next_fire_ms to the first fire at an instant or later; 0: there is none. */
void dt_fire_plan_from(struct dt_schedule *s, const struct dt_recurrence *r, int64_t from_ms);

#endif
