/*
 * The meter of one token in this process counts the demand for each quota, and how much of it was admitted. Pure: the
 * time is passed in. Any thread.
 *
 * A rate has a token bucket. It holds what the process's share of the quota yields in a second (at least one unit),
 * and fills at that rate. All shares together are at most the whole, so in t seconds all processes with shares admit
 * at most t + 1 times the quota.
 *
 * If a process has no share because the token was idle in this process for some seconds, it uses an equal part of the
 * quota (the quota divided by the number of live API processes), and asks for a share at once. The first share is at
 * most the equal part, so each of several processes that start together gets one. If another process holds the whole
 * quota, that first share is 0, and the bucket is not filled until the other process takes less, a second later. So a
 * process that starts exceeds its share once, by an equal part of one second's quota.
 *
 * The pending jobs are the jobs of the last count in MySQL and the jobs admitted since. Of the jobs that the quota
 * still allows, a process admits the share that it had when the count began. Without a share at that time, or before
 * the first count, it admits the equal part; all processes together then admit at most a tenth of the quota.
 *
 *   dt_meter_request, dt_meter_job    a request arrives; a new job is submitted
 *   dt_meter_jobs_done                the outcome of submitted jobs
 *   dt_meter_wish -> MySQL -> dt_meter_settled    once a second while the token is active (quotas.c)
 */
#pragma once

#include "base/status.h"
#include "base/text/strbuf.h"
#include "features/quotas/quotas.h"

typedef struct dt_meter dt_meter;

/* Names the quota that refused a request or job, and says when a retry may succeed. */
struct dt_over {
    bool over;
    enum dt_quota quota;
    int64_t limit;
    int64_t retry_after_ms; /* time after which a retry may succeed */
};

/* Jobs of a submitted unit: number and bytes of those that were admitted (passed) and of those that were created
 * (made). */
struct dt_jobs_done {
    int64_t passed, passed_bytes, made, made_bytes;
};

/* Creates the meter of a token, which counts requests and jobs, without limits. NULL: out of memory. */
dt_meter *dt_meter_new(void);
/* Frees the meter. Accepts NULL. */
void dt_meter_free(dt_meter *meter);
/* Sets the limits. Returns true if the limits include pending jobs, and pending jobs were not counted yet. */
bool dt_meter_set(dt_meter *meter, const struct dt_quota_limits *limits, int64_t now_us);
/* Sets the number of live API processes. */
void dt_meter_set_apis(dt_meter *meter, int64_t apis);

/* Counts a request. False: the request exceeds a quota, which *over names. *wake: the meter needs a share of a
 * quota. */
bool dt_meter_request(dt_meter *meter, int64_t now_us, struct dt_over *over, bool *wake);
/* Returns true if a quota limits new jobs. */
bool dt_meter_limits_jobs(const dt_meter *meter);
/* Counts a new job that is submitted. False: the job exceeds a quota, which *over names. *wake: the meter needs a share
 * of a quota. */
bool dt_meter_job(dt_meter *meter, int64_t payload_bytes, int64_t now_us, struct dt_over *over, bool *wake);
/* Counts n further jobs as refused, because a job before them was over a quota. */
void dt_meter_refuse(dt_meter *meter, int64_t n);
/* Counts the outcome of admitted jobs. Jobs that were not created no longer count against the quota. */
void dt_meter_jobs_done(dt_meter *meter, const struct dt_jobs_done *done);

/* Fills in the claim for a share: the demand since the last call, and the largest possible share. False: the token was
 * idle for a while, so it needs no share. *fresh is set if a share is needed and the meter has none. */
bool dt_meter_wish(dt_meter *meter, struct dt_quota_claim *claim, bool *fresh, int64_t now_us);
/* Sets the shares of the quotas that the claim got from MySQL; they are valid until until_us (mono). */
void dt_meter_settled(dt_meter *meter, const struct dt_quota_claim *claim, int64_t until_us, int64_t now_us);
/* Returns true if pending jobs must be counted now: they are limited, and there was demand lately. The count may lack
 * jobs that are created after this call. */
bool dt_meter_wants_pending(dt_meter *meter);
/* Sets the number of pending jobs in the token's topics, and the number of API processes when they were counted. */
void dt_meter_set_pending(dt_meter *meter, int64_t jobs, int64_t apis);
/* Returns a copy of the limits. */
struct dt_quota_limits dt_meter_limits(dt_meter *meter);
/* Takes the counts since the last call; does not set out->name. False: all counts are 0. */
bool dt_meter_take_usage(dt_meter *meter, struct dt_usage *out);
/* Adds back counts that could not be written. */
void dt_meter_put_usage(dt_meter *meter, const struct dt_usage *counts);
