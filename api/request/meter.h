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
 * Pending jobs: those that MySQL counted when it was last asked, and those that were let pass since. A process lets
 * pass the share of what is left that it had when the count began; without a share at that time, or before the first
 * count, the equal part, and where there are several processes together no more than a tenth of the quota.
 *
 *   dt_meter_request, dt_meter_job    a request comes; a new job is submitted
 *   dt_meter_jobs_done                what became of submitted jobs
 *   dt_meter_wish -> MySQL -> dt_meter_settled    once a second while it is active (quotas.c)
 */
#ifndef DT_API_METER_H
#define DT_API_METER_H

#include "base/status.h"
#include "base/text/strbuf.h"
#include "features/quotas/quotas.h"

typedef struct dt_meter dt_meter;

/* Why something was not let pass. */
struct dt_over {
    bool over;
    enum dt_quota quota;
    int64_t limit;
    int64_t retry_after_ms; /* when it is worth while to come again */
};

/* Jobs that were let pass, and those of them that were made. */
struct dt_jobs_done {
    int64_t passed, passed_bytes, made, made_bytes;
};

/* Makes a meter without limits. NULL: memory is out. */
dt_meter *dt_meter_new(void);
/* Accepts NULL. */
void dt_meter_free(dt_meter *meter);
/* Sets the limits. True: they include pending jobs, which were not counted yet. */
bool dt_meter_set(dt_meter *meter, const struct dt_quota_limits *limits, int64_t now_us);
/* Tells how many API processes live. */
void dt_meter_set_apis(dt_meter *meter, int64_t apis);

/* Counts a request. False: it is over a quota, and *over says which. *wake: the meter has no share and wants one. */
bool dt_meter_request(dt_meter *meter, int64_t now_us, struct dt_over *over, bool *wake);
/* Says whether new jobs are limited at all. */
bool dt_meter_limits_jobs(const dt_meter *meter);
/* Counts a new job that is submitted; likewise. */
bool dt_meter_job(dt_meter *meter, int64_t payload_bytes, int64_t now_us, struct dt_over *over, bool *wake);
/* Counts n more jobs behind one that is over a quota, which are refused with it. */
void dt_meter_refuse(dt_meter *meter, int64_t n);
/* Says what became of jobs that were let pass. What was not made is given back. */
void dt_meter_jobs_done(dt_meter *meter, const struct dt_jobs_done *done);

/* Gives the demand since the last call, which begins anew, and the most that a share may be. False: there was no demand
 * for a while, and no share is wanted. *fresh: a share is wanted where there is none. */
bool dt_meter_wish(dt_meter *meter, struct dt_quota_claim *claim, bool *fresh, int64_t now_us);
/* Takes the shares, which hold until until_us (mono). */
void dt_meter_settled(dt_meter *meter, const struct dt_quota_claim *claim, int64_t until_us, int64_t now_us);
/* Says whether pending jobs are limited, and of late were asked about; then they are about to be counted: what is made
 * from here on may be missing in the count. */
bool dt_meter_wants_pending(dt_meter *meter);
/* Tells how many jobs of the token's topics are pending, and how many API processes lived at that time. */
void dt_meter_set_pending(dt_meter *meter, int64_t jobs, int64_t apis);
/* Copies the limits. */
struct dt_quota_limits dt_meter_limits(dt_meter *meter);
/* Takes the counts since the last call, but no name. False: all are 0. */
bool dt_meter_take_usage(dt_meter *meter, struct dt_usage *out);
/* Adds counts that could not be written. */
void dt_meter_put_usage(dt_meter *meter, const struct dt_usage *counts);

#endif
