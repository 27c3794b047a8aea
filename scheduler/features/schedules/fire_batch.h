/* The work of one transaction on schedules whose rows it has locked. It makes jobs for fires, withdraws jobs, schedules
 * withdrawn jobs again, and writes the progress of each schedule. Only for this folder. */
#pragma once

#include "features/quotas/quotas.h"
#include "schedule_row.h"
#include "schedules.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* ---- the quotas that fires spend (fire_quota.c) ---- */

struct dt_fire_quota {
    int64_t owner;
    int64_t per_second, pending; /* limits of the quota; 0 = no limit */
    int64_t token;               /* number of the token whose share is spent */
    struct dt_str topics;        /* the token's prefixes, or DT_TOPICS_ALL */
    /* The members below are valid if `open` is set. */
    bool open;
    int64_t rate_milli; /* jobs by which the share grows in a second, in thousandths of a job, like left_milli */
    int64_t left_milli, pending_left;
    int64_t count_at_ms; /* when pending jobs are to be counted next */
    int64_t waiting;     /* number of schedules in this transaction whose fires wait for the quota */
};
struct dt_fire_quotas {
    struct dt_fire_quota *v; /* the quotas, sorted by owner */
    size_t n;
    bool read;
};

/* Reads the quotas of all owners, once, and locks those of the given owners. An owner may be listed several times. */
dt_status dt_fire_quotas_open(struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, dt_store *store,
                              struct dt_arena *arena, const int64_t *owners, size_t n, struct dt_error *err);
/* Returns the open quota that an owner's fires spend; NULL: they spend none. */
struct dt_fire_quota *dt_fire_quotas_find(const struct dt_fire_quotas *quotas, int64_t owner);
/* Returns how many more jobs the quota allows. If quota is NULL, there is no limit. */
size_t dt_fire_quota_room(const struct dt_fire_quota *quota);
/* Subtracts one job from the quota. Accepts NULL. */
void dt_fire_quota_spend(struct dt_fire_quota *quota);
/* Returns after how many ms a schedule that waits for the quota is due for its next check. Each call returns a longer
 * time. *why: text that names the quota. */
int64_t dt_fire_quota_wait_ms(struct dt_fire_quota *quota, const char **why);
/* Writes how many jobs each open quota still allows. */
dt_status dt_fire_quotas_write(const struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, struct dt_error *err);

/* ---- the batch ---- */

struct dt_fire_row; /* a job to be made for a fire, with its schedule; defined in fire_batch.c */

struct dt_fire_batch {
    struct dt_fire_maker *maker;
    dt_db *db;
    int64_t now_ms;
    struct dt_counts counts;
    struct dt_fire_row *rows; /* jobs to be made; memory for DT_FIRES_AT_ONCE */
    size_t n_rows;
    size_t bytes;                          /* sum of the sizes of the jobs in `rows` */
    struct dt_schedule_progress *progress; /* progress to be written; memory for 2 * DT_FIRES_AT_ONCE entries */
    size_t n_progress;
    int64_t *cancel_first; /* ids of jobs whose retries must be cancelled before the next check of their schedules */
    size_t n_cancel_first;
    int64_t *put_off; /* nominal times of withdrawn fires whose time has passed, but whose jobs were not due yet because
                       * of jitter */
    size_t n_put_off;
    size_t made, skipped, returned;
    /* Defaults of the topic that was read last, and its owner. */
    struct dt_str topic, retry;
    int64_t ack_timeout_ms, owner;
    bool topic_there;
    struct dt_fire_quotas quotas;
    struct dt_fire_quota *quota; /* quota that the current schedule's jobs spend; NULL = none */
    struct dt_error *err;
};

/* Allocates the lists in the maker's arena. Returns NOMEM if memory runs out. */
dt_status dt_fire_batch_init(struct dt_fire_batch *b, struct dt_fire_maker *maker, struct dt_error *err);
/* Plans the fires of a schedule, which must be in the arena. If its jobs cannot be made, stores the reason in its
 * progress. */
dt_status dt_fire_batch_advance(struct dt_fire_batch *b, struct dt_schedule *s);
/* Stores in the schedule's progress why its jobs cannot be made, and when the next check is. */
dt_status dt_fire_batch_refuse(struct dt_fire_batch *b, struct dt_schedule *s, const char *why);
/* Plans a job that is due now. dt_fire_batch_write sets the schedule's last_job_id to it. */
dt_status dt_fire_batch_now(struct dt_fire_batch *b, struct dt_schedule *s);
/* Before a schedule is changed to *then or deleted, plans the fires of *s that are due and have no job yet. BUSY: a job
 * whose retries must be cancelled is locked. */
dt_status dt_fire_batch_add_due(struct dt_fire_batch *b, struct dt_schedule *s, struct dt_schedule *then);
dt_status dt_fire_batch_write(struct dt_fire_batch *b);
/* Withdraws the future fires of a schedule. If a fire's time has passed, but its job is not due yet because of jitter,
 * the fire is withdrawn and added to put_off; at most `most` such fires. */
dt_status dt_fire_batch_withdraw(struct dt_fire_batch *b, const struct dt_schedule *s, size_t most);
/* For a schedule that is deleted: withdraws its future fires, except the next one and those that are only delayed by
 * jitter. */
dt_status dt_fire_batch_withdraw_but_next(struct dt_fire_batch *b, const struct dt_schedule *s);
/* Returns how many more jobs of the schedule the transaction and the quota allow. */
size_t dt_fire_batch_room(const struct dt_fire_batch *b, const struct dt_schedule *s);

/* ---- the plan: which fires get jobs now, and when the schedule is due for its next check; pure ---- */

/* A fire that is at most this late does not count as missed: its schedule was just created or changed. */
#define DT_FIRE_GRACE_MS INT64_C(5000)

enum dt_fire_how {
    DT_FIRE_RUNS,
    DT_FIRE_SKIPPED /* its job is made and cancelled at once, because the previous job is not finished */
};
struct dt_fire {
    int64_t at_ms; /* nominal time of the fire */
    enum dt_fire_how how;
};

struct dt_fire_plan {
    const struct dt_recurrence *recurrence; /* in */
    int64_t now_ms;                         /* in */
    bool unfinished;                        /* in: the job of the fire that ran last is not finished */
    bool retries_ended;                     /* in: the job of the fire that ran last gets no further attempts */
    bool due_only;                          /* in: plan only fires that are due */
    size_t room;                            /* in: capacity of `fires` */
    struct dt_fire *fires;                  /* out: the planned fires, in order of time */
    size_t n;                               /* out: number of planned fires */
    bool cancel_first;                      /* out: the retries of the previous job must be cancelled first, then the
                                             * plan must be made again */
    int64_t look_ms;                        /* out: time of the next check; 0 = never */
};

/* Makes the plan, and moves next_fire_ms and last_fire_ms of *s past the planned fires. */
void dt_fire_plan_make(struct dt_schedule *s, struct dt_fire_plan *plan);
/* Returns when the job of a fire is due: the time of the fire plus its jitter. */
int64_t dt_fire_runs_at_ms(const struct dt_schedule *s, int64_t fire_ms);
/* Sets next_fire_ms to the first fire that is not before from_ms; 0: there is none. */
void dt_fire_plan_from(struct dt_schedule *s, const struct dt_recurrence *r, int64_t from_ms);
