/*
 * The work of one transaction on schedules whose rows it has locked: it makes jobs for fires, withdraws and returns
 * fires, and writes the progress of each schedule. Only for this folder.
 */
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
    /* Valid if `open`. */
    bool open;
    int64_t rate_milli; /* what the share adds in a second, in thousandths of jobs, like left_milli */
    int64_t left_milli, pending_left;
    int64_t count_at_ms; /* when to count pending jobs again */
    int64_t waiting;     /* schedules of this transaction whose fires wait */
};
struct dt_fire_quotas {
    struct dt_fire_quota *v; /* sorted by owner */
    size_t n;
    bool read;
};

/* Reads the quotas once, and locks those of the given owners. An owner may be listed several times. */
DT_MUST_CHECK dt_status dt_fire_quotas_open(struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, dt_store *store,
                                            struct dt_arena *arena, const int64_t *owners, size_t n,
                                            struct dt_error *err);
/* Finds the open quota of an owner; NULL: it has none. */
struct dt_fire_quota *dt_fire_quotas_find(const struct dt_fire_quotas *quotas, int64_t owner);
/* Returns how many jobs may be made. */
size_t dt_fire_quota_room(const struct dt_fire_quota *quota);
/* Takes one job off the quota. Accepts NULL. */
void dt_fire_quota_spend(struct dt_fire_quota *quota);
/* Returns after how many ms a waiting schedule is due for its next look. Each call returns a longer time. *why:
 * names the quota. */
int64_t dt_fire_quota_wait_ms(struct dt_fire_quota *quota, const char **why);
/* Writes the rest of each open quota. */
DT_MUST_CHECK dt_status dt_fire_quotas_write(const struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms,
                                             struct dt_error *err);

/* ---- the batch ---- */

struct dt_fire_row; /* a job to be made */

struct dt_fire_batch {
    struct dt_fire_maker *maker;
    dt_db *db;
    int64_t now_ms;
    struct dt_counts counts;
    struct dt_fire_row *rows; /* room for DT_FIRES_AT_ONCE */
    size_t n_rows;
    size_t bytes;                          /* size of their jobs */
    struct dt_schedule_progress *progress; /* room for 2 * DT_FIRES_AT_ONCE entries */
    size_t n_progress;
    int64_t *cancel_first; /* jobs whose retries must end before their schedule's next look */
    size_t n_cancel_first;
    int64_t *put_off; /* withdrawn fires whose instant has passed, but whose jobs were due later because of jitter */
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

/* Uses memory of the maker's arena. NOMEM. */
DT_MUST_CHECK dt_status dt_fire_batch_init(struct dt_fire_batch *b, struct dt_fire_maker *maker, struct dt_error *err);
/* Plans the fires of a schedule, which must be in the arena. If it cannot have jobs, its row will have the reason. */
DT_MUST_CHECK dt_status dt_fire_batch_advance(struct dt_fire_batch *b, struct dt_schedule *s);
/* Records in the schedule's row why it cannot have jobs, and when it is due for its next look. */
DT_MUST_CHECK dt_status dt_fire_batch_refuse(struct dt_fire_batch *b, struct dt_schedule *s, const char *why);
/* Plans a job that is due now; dt_fire_batch_write sets last_job_id. */
DT_MUST_CHECK dt_status dt_fire_batch_now(struct dt_fire_batch *b, struct dt_schedule *s);
/* Adds the missing jobs of due fires, before the schedule becomes *then or is deleted. BUSY: the job whose retries
 * must end is locked. */
DT_MUST_CHECK dt_status dt_fire_batch_add_due(struct dt_fire_batch *b, struct dt_schedule *s, struct dt_schedule *then);
DT_MUST_CHECK dt_status dt_fire_batch_write(struct dt_fire_batch *b);
/* Withdraws future fires. A fire whose instant has passed, but whose job is not due yet because of jitter, is
 * withdrawn and listed in put_off, at most `most` of them. */
DT_MUST_CHECK dt_status dt_fire_batch_withdraw(struct dt_fire_batch *b, const struct dt_schedule *s, size_t most);
/* Withdraws the future fires of a schedule that is deleted, except the next one and those that jitter has put off. */
DT_MUST_CHECK dt_status dt_fire_batch_withdraw_but_next(struct dt_fire_batch *b, const struct dt_schedule *s);
/* Returns how many more jobs of the schedule fit into the transaction and the quota. */
size_t dt_fire_batch_room(const struct dt_fire_batch *b, const struct dt_schedule *s);

/* ---- the plan: which fires get jobs now, and when the schedule is due for its next look; pure ---- */

/* If a fire is only this much in the past, it was not missed: its schedule was created or changed at that moment. */
#define DT_FIRE_GRACE_MS INT64_C(5000)

enum dt_fire_how {
    DT_FIRE_RUNS,
    DT_FIRE_SKIPPED /* gets a cancelled job, because the previous job is not finished */
};
struct dt_fire {
    int64_t at_ms; /* nominal */
    enum dt_fire_how how;
};

struct dt_fire_plan {
    const struct dt_recurrence *recurrence; /* in */
    int64_t now_ms;                         /* in */
    bool unfinished;                        /* in: the job of the last fire that ran is not finished */
    bool retries_ended;                     /* in: that job has no further attempts */
    bool due_only;                          /* in: plan no future fires */
    size_t room;                            /* in: limit of `fires` */
    struct dt_fire *fires;                  /* out: in order of time */
    size_t n;                               /* out */
    bool cancel_first;                      /* out: first end the retries of the previous job, then make another plan */
    int64_t look_ms;                        /* out: when the next look is due; 0 = never */
};

/* Makes the plan, and moves next_fire_ms and last_fire_ms of *s past its fires. */
void dt_fire_plan_make(struct dt_schedule *s, struct dt_fire_plan *plan);
/* Returns when the job of a fire is due: its instant plus jitter. */
int64_t dt_fire_runs_at_ms(const struct dt_schedule *s, int64_t fire_ms);
/* Sets next_fire_ms to the first fire at from_ms or later; 0: there is none. */
void dt_fire_plan_from(struct dt_schedule *s, const struct dt_recurrence *r, int64_t from_ms);
