/*
 * The meter of one token in this process: what it has asked for, and what of it was let pass. Pure: the time is passed
 * in. Any thread.
 *
 * A rate is let pass like this: a bucket holds at most what its share of the quota brings in a second (one unit at
 * least), fills at that rate, and what is let pass is taken out. As all shares together are never more than the whole,
 * all processes with shares let pass in t seconds at most t + 1 times the quota.
 *
 * A process without a share (the token rested here for some seconds) has the equal part of the quota, by the number of
 * API processes that live, and asks for a share at once; the first one is no more than that part, so those who begin
 * together do not take it from each other. Where another process holds all, the bucket is not filled until that one has
 * taken less, a second later: who begins beside others lets pass an equal part of one second more than its share, once.
 *
 *   dt_meter_request, dt_meter_job    a request comes; a new job is submitted
 *   dt_meter_jobs_done                what became of submitted jobs
 *   dt_meter_wish -> MySQL -> dt_meter_settled    once a second while it is active (quotas.c)
 */
#ifndef DT_API_METER_H
#define DT_API_METER_H

#include "base/status.h"
#include "base/strbuf.h"
#include "store/quotas/quotas.h"

typedef struct dt_meter dt_meter;

/* Why something was not let pass. */
struct dt_over {
    bool over;
    enum dt_quota quota;
    int64_t limit;
    int64_t retry_after_ms; /* when it is worth while to come again */
};

/* What was let pass, and what was not; for token_usage. */
struct dt_usage_counts {
    int64_t requests, refused, jobs, jobs_refused, payload_bytes;
};

/* Jobs that were let pass, and those of them that were made. */
struct dt_jobs_done {
    int64_t passed, passed_bytes, made, made_bytes;
};

/* Makes a meter without limits. NULL: memory is out. */
dt_meter *dt_meter_new(void);
/* Accepts NULL. */
void dt_meter_free(dt_meter *meter);
/* Sets the limits. */
void dt_meter_set(dt_meter *meter, const struct dt_quota_limits *limits, int64_t now_us);
/* Tells how many API processes live. */
void dt_meter_set_apis(dt_meter *meter, int64_t apis);

/* Counts a request. False: it is over a quota, and *over says which. *wake: the meter has no share and wants one. */
bool dt_meter_request(dt_meter *meter, int64_t now_us, struct dt_over *over, bool *wake);
/* Says whether new jobs are limited at all. */
bool dt_meter_limits_jobs(const dt_meter *meter);
/* Counts a new job that is submitted; likewise. */
bool dt_meter_job(dt_meter *meter, int64_t payload_bytes, int64_t now_us, struct dt_over *over, bool *wake);
/* Says what became of jobs that were let pass. What was not made is given back. */
void dt_meter_jobs_done(dt_meter *meter, const struct dt_jobs_done *done);

/* Gives the demand since the last call, which begins anew, and the most that a share may be. False: there was no demand
 * for a while, and no share is wanted. *fresh: a share is wanted where there is none. */
bool dt_meter_wish(dt_meter *meter, struct dt_quota_claim *claim, bool *fresh, int64_t now_us);
/* Takes the shares, which hold until until_us (mono). */
void dt_meter_settled(dt_meter *meter, const struct dt_quota_claim *claim, int64_t until_us, int64_t now_us);
/* Takes the counts since the last call. False: all are 0. */
bool dt_meter_take_usage(dt_meter *meter, struct dt_usage_counts *out);
/* Adds counts that could not be written. */
void dt_meter_put_usage(dt_meter *meter, const struct dt_usage_counts *counts);

#endif
