/*
 * The meter of one token in this process: the demand, and how much of it was admitted. Pure: the time is passed in. Any
 * thread.
 *
 * A rate has a token bucket. It holds what the process's share of the quota yields in a second (at least one unit),
 * and fills at that rate. All shares together are at most the whole, so in t seconds all processes with shares admit
 * at most t + 1 times the quota.
 *
 * If a process has no share (the token was idle here for some seconds), it uses an equal part of the quota, by the
 * number of live API processes, and asks for a share at once. The first share is at most the equal part, so processes
 * that start together do not take it from each other. If another process holds the whole quota, the bucket is not
 * filled until that process takes less, a second later. So a process that starts admits, once, an equal part of one
 * second more than its share.
 *
 * Pending jobs are those that MySQL counted last, and those that were admitted since. A process admits, of the jobs
 * that the quota leaves, the share that it had when the count began. Without a share at that time, or before the first
 * count, it admits the equal part; all processes together then admit at most a tenth of the quota.
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

/* Why something was refused. */
struct dt_over {
    bool over;
    enum dt_quota quota;
    int64_t limit;
    int64_t retry_after_ms; /* when a retry may succeed */
};

/* Admitted jobs, and how many of them were created. */
struct dt_jobs_done {
    int64_t passed, passed_bytes, made, made_bytes;
};

/* Creates a meter without limits. NULL: out of memory. */
dt_meter *dt_meter_new(void);
/* Accepts NULL. */
void dt_meter_free(dt_meter *meter);
/* Sets the limits. True: they limit pending jobs, which were not counted yet. */
bool dt_meter_set(dt_meter *meter, const struct dt_quota_limits *limits, int64_t now_us);
/* Sets the number of live API processes. */
void dt_meter_set_apis(dt_meter *meter, int64_t apis);

/* Counts a request. False: it is over a quota; *over has which. *wake: the meter needs a share. */
bool dt_meter_request(dt_meter *meter, int64_t now_us, struct dt_over *over, bool *wake);
/* Returns true if new jobs are limited at all. */
bool dt_meter_limits_jobs(const dt_meter *meter);
/* As dt_meter_request, for a new job that is submitted. */
bool dt_meter_job(dt_meter *meter, int64_t payload_bytes, int64_t now_us, struct dt_over *over, bool *wake);
/* Counts n more jobs, refused together with one that is over a quota. */
void dt_meter_refuse(dt_meter *meter, int64_t n);
/* Counts the outcome of admitted jobs. Jobs that were not created are given back. */
void dt_meter_jobs_done(dt_meter *meter, const struct dt_jobs_done *done);

/* Takes the demand since the last call, and the largest possible share. False: there was no demand for a while, and no
 * share is needed. *fresh is set if a share is needed and the meter has none. */
bool dt_meter_wish(dt_meter *meter, struct dt_quota_claim *claim, bool *fresh, int64_t now_us);
/* Sets the shares, which are valid until until_us (mono). */
void dt_meter_settled(dt_meter *meter, const struct dt_quota_claim *claim, int64_t until_us, int64_t now_us);
/* Returns true if pending jobs are limited and there was demand lately: then they must be counted. The count may miss
 * jobs that are created after this call. */
bool dt_meter_wants_pending(dt_meter *meter);
/* Sets the number of pending jobs of the token's topics, and the number of API processes at that time. */
void dt_meter_set_pending(dt_meter *meter, int64_t jobs, int64_t apis);
/* Copies the limits. */
struct dt_quota_limits dt_meter_limits(dt_meter *meter);
/* Takes the counts since the last call; does not set the name. False: all are 0. */
bool dt_meter_take_usage(dt_meter *meter, struct dt_usage *out);
/* Adds counts that could not be written. */
void dt_meter_put_usage(dt_meter *meter, const struct dt_usage *counts);
