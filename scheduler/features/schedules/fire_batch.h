/* The work of one transaction on schedules whose rows it has locked: makes jobs for fires, withdraws fires and
 * schedules them again, and writes the progress of each schedule. Only for this folder. */
#pragma once

#include "features/quotas/quotas.h"
#include "schedule_row.h"
#include "schedules.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* ---- the quotas that fires spend (fire_quota.c) ---- */

struct dt_fire_quota {
    int64_t owner;
    int64_t per_second, pending; /* 0 = no limit */
    int64_t token;               /* the token whose share is spent */
    struct dt_str topics;        /* the token's prefixes, or DT_TOPICS_ALL */
    /* The members below are valid if `open`. */
    bool open;
    int64_t rate_milli; /* jobs that the share adds in a second, in thousandths, like left_milli */
    int64_t left_milli, pending_left;
    int64_t count_at_ms; /* time of the next count of pending jobs */
    int64_t waiting;     /* schedules of this transaction whose fires wait */
};
struct dt_fire_quotas {
    struct dt_fire_quota *v; /* sorted by owner */
    size_t n;
    bool read;
};

/* Reads all quotas once, and locks those of the given owners. An owner may be listed several times. */
DT_MUST_CHECK dt_status dt_fire_quotas_open(struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, dt_store *store,
                                            struct dt_arena *arena, const int64_t *owners, size_t n,
                                            struct dt_error *err);
/* Finds the open quota of an owner; NULL: it has none. */
struct dt_fire_quota *dt_fire_quotas_find(const struct dt_fire_quotas *quotas, int64_t owner);
/* Returns how many jobs the quota still allows. */
size_t dt_fire_quota_room(const struct dt_fire_quota *quota);
/* Takes one job off the quota. Accepts NULL. */
void dt_fire_quota_spend(struct dt_fire_quota *quota);
/* Returns the delay in ms until a waiting schedule's next look. Each call returns a longer delay. *why: text that names
 * the quota. */
int64_t dt_fire_quota_wait_ms(struct dt_fire_quota *quota, const char **why);
/* Writes the rest of each open quota. */
DT_MUST_CHECK dt_status dt_fire_quotas_write(const struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms,
                                             struct dt_error *err);

/* ---- the batch ---- */

struct dt_fire_row; /* a job to be made, defined in fire_batch.c */

struct dt_fire_batch {
    struct dt_fire_maker *maker;
    dt_db *db;
    int64_t now_ms;
    struct dt_counts counts;
    struct dt_fire_row *rows; /* room for DT_FIRES_AT_ONCE */
    size_t n_rows;
    size_t bytes;                          /* sum of the sizes of the jobs in `rows` */
    struct dt_schedule_progress *progress; /* room for 2 * DT_FIRES_AT_ONCE entries */
    size_t n_progress;
    int64_t *cancel_first; /* jobs whose retries must end before their schedule's next look */
    size_t n_cancel_first;
    int64_t *put_off; /* withdrawn fires whose time has passed, but whose jobs were due later because of jitter */
    size_t n_put_off;
    size_t made, skipped, returned;
    /* Defaults of the topic that was read last. */
    struct dt_str topic, retry;
    int64_t ack_timeout_ms, owner;
    bool topic_there;
    struct dt_fire_quotas quotas;
    struct dt_fire_quota *quota; /* quota of the current schedule; NULL = none */
    struct dt_error *err;
};

/* Uses memory of the maker's arena. Returns NOMEM if memory runs out. */
DT_MUST_CHECK dt_status dt_fire_batch_init(struct dt_fire_batch *b, struct dt_fire_maker *maker, struct dt_error *err);
/* Plans the fires of a schedule, which must be in the arena. If its jobs cannot be made, writes the reason into its
 * progress. */
DT_MUST_CHECK dt_status dt_fire_batch_advance(struct dt_fire_batch *b, struct dt_schedule *s);
/* Records in the schedule's progress why its jobs cannot be made, and the time of its next look. */
DT_MUST_CHECK dt_status dt_fire_batch_refuse(struct dt_fire_batch *b, struct dt_schedule *s, const char *why);
/* Plans a job that is due now; dt_fire_batch_write sets last_job_id. */
DT_MUST_CHECK dt_status dt_fire_batch_now(struct dt_fire_batch *b, struct dt_schedule *s);
/* Adds the missing jobs of due fires, before the schedule becomes *then or is deleted. BUSY: a job whose retries must
 * end is locked. */
DT_MUST_CHECK dt_status dt_fire_batch_add_due(struct dt_fire_batch *b, struct dt_schedule *s, struct dt_schedule *then);
DT_MUST_CHECK dt_status dt_fire_batch_write(struct dt_fire_batch *b);
/* Withdraws future fires. If a fire's time has passed, but its job is not due yet because of jitter, the fire is
 * withdrawn and listed in put_off, at most `most` of them. */
DT_MUST_CHECK dt_status dt_fire_batch_withdraw(struct dt_fire_batch *b, const struct dt_schedule *s, size_t most);
/* Withdraws the future fires of a schedule that is deleted, except the next one and those that jitter has put off. */
DT_MUST_CHECK dt_status dt_fire_batch_withdraw_but_next(struct dt_fire_batch *b, const struct dt_schedule *s);
/* Returns how many more jobs of the schedule fit into the transaction and the quota. */
size_t dt_fire_batch_room(const struct dt_fire_batch *b, const struct dt_schedule *s);

/* ---- the plan: which fires get jobs now, and when the schedule is due for its next look; pure ---- */

/* If a fire is at most this late, it was not missed: its schedule was created or changed at that moment. */
#define DT_FIRE_GRACE_MS INT64_C(5000)

enum dt_fire_how {
    DT_FIRE_RUNS,
    DT_FIRE_SKIPPED /* gets a cancelled job, because the previous job is not finished */
};
struct dt_fire {
    int64_t at_ms; /* nominal time */
    enum dt_fire_how how;
};

struct dt_fire_plan {
    const struct dt_recurrence *recurrence; /* in */
    int64_t now_ms;                         /* in */
    bool unfinished;                        /* in: the job of the last fire that ran is not finished */
    bool retries_ended;                     /* in: that job has no further attempts */
    bool due_only;                          /* in: plan no future fires */
    size_t room;                            /* in: most elements of `fires` */
    struct dt_fire *fires;                  /* out: in order of time */
    size_t n;                               /* out */
    bool cancel_first;                      /* out: end the retries of the previous job first, then make another plan */
    int64_t look_ms;                        /* out: time of the next look; 0 = never */
};

/* Makes the plan, and moves next_fire_ms and last_fire_ms of *s past its fires. */
void dt_fire_plan_make(struct dt_schedule *s, struct dt_fire_plan *plan);
/* Returns the time at which the job of a fire is due: the fire's time plus jitter. */
int64_t dt_fire_runs_at_ms(const struct dt_schedule *s, int64_t fire_ms);
/* Sets next_fire_ms to the first fire at from_ms or later; 0: there is none. */
void dt_fire_plan_from(struct dt_schedule *s, const struct dt_recurrence *r, int64_t from_ms);
