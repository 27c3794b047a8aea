/* Implements meter.h: what one token uses of its quotas. The lock is held for a few instructions. A token without
 * limits needs no lock, because its counts are atomic. */
#include "meter.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"

#define SECOND_US  INT64_C(1000000)
#define RETRY_MS   INT64_C(1000)
#define RETRY_MOST INT64_C(60000)

struct bucket {
    /* tokens in the bucket: requests, jobs or bytes that may pass now; below zero if more passed than the bucket had */
    double level;
    int64_t at_us;
    /* share of the quota, in parts of DT_QUOTA_WHOLE; without a share: the quota divided by the number of API
     * processes */
    int64_t share;
    int64_t until_us; /* when the share expires; 0: the process has no share */
    int64_t demand;   /* demand since the last call of dt_meter_wish */
    int64_t before;   /* demand that the last call of dt_meter_wish reported */
};

struct dt_meter {
    _Atomic bool limited, limits_jobs;
    _Atomic int64_t requests, refused, jobs, jobs_refused, payload_bytes;
    pthread_mutex_t lock;
    /* Members below: protected by the lock. */
    struct dt_quota_limits limits;
    int64_t apis;
    struct bucket rates[DT_QUOTA_RATES];
    int64_t pending;       /* pending jobs by the latest count; below zero: not counted yet */
    int64_t pending_share; /* share when the latest count began, in parts of DT_QUOTA_WHOLE; 0: the process had none */
    /* share when the count in progress began, in parts of DT_QUOTA_WHOLE; 0: the process had none */
    int64_t share_marked;
    bool pending_asked;   /* a new job was submitted since the latest count began */
    int64_t passed, made; /* passed: jobs ever admitted, minus jobs given back; made: jobs ever created */
    int64_t made_before;  /* jobs created before the latest count began */
    int64_t made_marked;  /* jobs created before the count in progress began */
};

dt_meter *dt_meter_new(void)
{
    struct dt_meter *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->apis = 1;
    m->pending = -1;
    m->pending_asked = true;
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

void dt_meter_free(dt_meter *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- buckets ---- */

static double allowed_rate_of(const struct dt_meter *m, int i)
{
    return (double)m->limits.v[i] * (double)m->rates[i].share / (double)DT_QUOTA_WHOLE;
}

/* The capacity of a bucket is at least one request, job or byte; otherwise it would never admit anything. */
static double bucket_size(const struct dt_meter *m, int i)
{
    return fmax(allowed_rate_of(m, i), m->rates[i].share > 0 ? 1 : 0);
}

/* Fills the bucket for the time since at_us. If the share was not renewed in time, it expires. */
static void refill_bucket(struct dt_meter *m, int i, int64_t now_us)
{
    struct bucket *b = &m->rates[i];
    if (now_us > b->at_us)
        b->level += allowed_rate_of(m, i) * (double)(now_us - b->at_us) / (double)SECOND_US;
    b->at_us = now_us;
    if (b->share > 0) /* share 0: other processes hold the whole quota; the bucket keeps its level */
        b->level = fmin(b->level, bucket_size(m, i));
    if (b->until_us > now_us)
        return;
    b->until_us = 0;
    b->share = DT_QUOTA_WHOLE / m->apis;
}

bool dt_meter_set(dt_meter *m, const struct dt_quota_limits *limits, int64_t now_us)
{
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < DT_QUOTA_RATES; i++) {
        if (m->limits.v[i] == limits->v[i])
            continue;
        /* A bucket whose quota has changed starts full. */
        m->limits.v[i] = limits->v[i];
        refill_bucket(m, i, now_us);
        m->rates[i].level = bucket_size(m, i);
    }
    m->limits = *limits;
    atomic_store(&m->limited, dt_quota_limits_any(limits));
    atomic_store(&m->limits_jobs,
                 limits->v[DT_QUOTA_JOBS] > 0 || limits->v[DT_QUOTA_BYTES] > 0 || limits->v[DT_QUOTA_PENDING] > 0);
    const bool uncounted = limits->v[DT_QUOTA_PENDING] > 0 && m->pending < 0;
    pthread_mutex_unlock(&m->lock);
    return uncounted;
}

/* Sets the number of live API processes. A process that was the only one counted pending jobs with the whole quota as
 * its share. If other processes now run, it needs a new count with its real share. */
void dt_meter_set_apis(dt_meter *m, int64_t apis)
{
    pthread_mutex_lock(&m->lock);
    if (m->apis == 1 && apis > 1)
        m->pending_share = 0;
    m->apis = apis;
    pthread_mutex_unlock(&m->lock);
}

bool dt_meter_limits_jobs(const dt_meter *m)
{
    return atomic_load_explicit(&m->limits_jobs, memory_order_relaxed);
}

/* ---- admitting ---- */

static bool exceeds_rate(const struct dt_meter *m, int i, struct dt_over *over)
{
    if (m->limits.v[i] == 0 || m->rates[i].level >= (i == DT_QUOTA_BYTES ? 0.001 : 1))
        return false;
    int64_t wait_ms = RETRY_MS; /* time until the bucket has enough for one request, job or byte */
    const double rate = allowed_rate_of(m, i);
    if (m->rates[i].until_us != 0 && rate > 0) {
        const double ms = ceil((1 - m->rates[i].level) / rate * 1000);
        wait_ms = ms < 1 ? 1 : ms > (double)RETRY_MOST ? RETRY_MOST : (int64_t)ms;
    }
    *over = (struct dt_over){true, (enum dt_quota)i, m->limits.v[i], wait_ms};
    return true;
}

static void drain_bucket(struct dt_meter *m, int i, int64_t n)
{
    if (m->limits.v[i] > 0)
        m->rates[i].level -= (double)n;
}

/* Pending jobs have no shares of their own: what the quota still allows is divided by the shares of new jobs. */
static bool is_quota_shared(const struct dt_meter *m, int i)
{
    return m->limits.v[i] > 0 || (i == DT_QUOTA_JOBS && m->limits.v[DT_QUOTA_PENDING] > 0);
}

static void record_demand(struct dt_meter *m, int i, int64_t n)
{
    if (is_quota_shared(m, i))
        m->rates[i].demand += n;
}

static bool wants_share(const struct dt_meter *m, int i)
{
    return is_quota_shared(m, i) && m->rates[i].demand > 0 && m->rates[i].until_us == 0;
}

bool dt_meter_request(dt_meter *m, int64_t now_us, struct dt_over *over, bool *wake)
{
    bool passed = true;
    *wake = false;
    if (atomic_load_explicit(&m->limited, memory_order_relaxed)) {
        pthread_mutex_lock(&m->lock);
        refill_bucket(m, DT_QUOTA_REQUESTS, now_us);
        record_demand(m, DT_QUOTA_REQUESTS, 1);
        passed = !exceeds_rate(m, DT_QUOTA_REQUESTS, over);
        if (passed)
            drain_bucket(m, DT_QUOTA_REQUESTS, 1);
        *wake = wants_share(m, DT_QUOTA_REQUESTS);
        pthread_mutex_unlock(&m->lock);
    }
    atomic_fetch_add_explicit(passed ? &m->requests : &m->refused, 1, memory_order_relaxed);
    return passed;
}

/* Returns whether a new job would exceed the number of jobs that this process may add to the counted ones. If the share
 * has grown since the count began, the added part is used only after the next count: other processes may have used it
 * for jobs that the count lacks. Without a share, the process may create its equal part of a tenth of the quota, at
 * least one job. */
static bool exceeds_pending_quota(struct dt_meter *m, struct dt_over *over)
{
    const int64_t limit = m->limits.v[DT_QUOTA_PENDING];
    const int64_t left = limit - max_i64(m->pending, 0);
    const struct bucket *jobs = &m->rates[DT_QUOTA_JOBS];
    const bool has_share = jobs->until_us > 0 || m->apis == 1;
    int64_t room = 0;
    if (limit == 0)
        return false;
    m->pending_asked = true;
    if (left > 0 && m->pending >= 0 && m->pending_share > 0 && has_share)
        room = (int64_t)ceil((double)left * (double)min_i64(m->pending_share, jobs->share) / (double)DT_QUOTA_WHOLE);
    else if (left > 0)
        room = max_i64(1, min_i64(left, limit / 10) / m->apis);
    if (m->passed - m->made_before < room)
        return false;
    *over = (struct dt_over){true, DT_QUOTA_PENDING, limit, RETRY_MS};
    return true;
}

bool dt_meter_job(dt_meter *m, int64_t bytes, int64_t now_us, struct dt_over *over, bool *wake)
{
    pthread_mutex_lock(&m->lock);
    refill_bucket(m, DT_QUOTA_JOBS, now_us);
    refill_bucket(m, DT_QUOTA_BYTES, now_us);
    record_demand(m, DT_QUOTA_JOBS, 1);
    record_demand(m, DT_QUOTA_BYTES, bytes);
    const bool passed = !exceeds_rate(m, DT_QUOTA_JOBS, over) && !exceeds_rate(m, DT_QUOTA_BYTES, over) &&
                        !exceeds_pending_quota(m, over);
    if (passed) {
        m->passed++;
        drain_bucket(m, DT_QUOTA_JOBS, 1);
        drain_bucket(m, DT_QUOTA_BYTES, bytes);
    }
    *wake = wants_share(m, DT_QUOTA_JOBS) || wants_share(m, DT_QUOTA_BYTES);
    pthread_mutex_unlock(&m->lock);
    if (!passed)
        atomic_fetch_add_explicit(&m->jobs_refused, 1, memory_order_relaxed);
    return passed;
}

void dt_meter_refuse(dt_meter *m, int64_t n)
{
    pthread_mutex_lock(&m->lock);
    record_demand(m, DT_QUOTA_JOBS, n);
    pthread_mutex_unlock(&m->lock);
    atomic_fetch_add_explicit(&m->jobs_refused, n, memory_order_relaxed);
}

void dt_meter_jobs_done(dt_meter *m, const struct dt_jobs_done *done)
{
    dt_assert_cmp(done->made, <=, done->passed);
    dt_assert_cmp(done->made_bytes, <=, done->passed_bytes);
    atomic_fetch_add_explicit(&m->jobs, done->made, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->payload_bytes, done->made_bytes, memory_order_relaxed);
    if (!dt_meter_limits_jobs(m))
        return;
    pthread_mutex_lock(&m->lock);
    m->made += done->made;
    m->passed -= done->passed - done->made;
    drain_bucket(m, DT_QUOTA_JOBS, done->made - done->passed);
    drain_bucket(m, DT_QUOTA_BYTES, done->made_bytes - done->passed_bytes);
    pthread_mutex_unlock(&m->lock);
}

/* ---- settling ---- */

/* Reports the demand, which decays by half, so that a share outlives a short pause. A process without a share has not
 * measured a second of demand yet, so it claims at least the quota divided by the number of API processes. The demand
 * is at most the quota, so that callers who repeat refused requests do not take shares from other processes. */
bool dt_meter_wish(dt_meter *m, struct dt_quota_claim *claim, bool *fresh, int64_t now_us)
{
    bool any = false;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < DT_QUOTA_RATES; i++) {
        struct bucket *b = &m->rates[i];
        refill_bucket(m, i, now_us);
        const bool has_share = b->until_us > 0;
        int64_t demand = max_i64(b->demand, b->before / 2);
        if (demand > 0 && !has_share)
            demand = max_i64(demand, m->limits.v[i] / m->apis);
        b->before = m->limits.v[i] > 0 ? min_i64(demand, m->limits.v[i]) : demand;
        b->demand = 0;
        claim->demand[i] = b->before;
        claim->most[i] = has_share ? DT_QUOTA_WHOLE : DT_QUOTA_WHOLE / m->apis;
        any = any || claim->demand[i] > 0 || has_share;
        *fresh = *fresh || (claim->demand[i] > 0 && !has_share);
    }
    pthread_mutex_unlock(&m->lock);
    return any;
}

/* Sets the shares. If this is the process's first share and no other process has one, the new bucket starts full, minus
 * what was admitted without a share. Otherwise the bucket's level is unchanged. */
void dt_meter_settled(dt_meter *m, const struct dt_quota_claim *claim, int64_t until_us, int64_t now_us)
{
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < DT_QUOTA_RATES; i++) {
        struct bucket *b = &m->rates[i];
        refill_bucket(m, i, now_us);
        if (claim->demand[i] <= 0) {
            b->until_us = 0;
            continue;
        }
        const double missing = bucket_size(m, i) - b->level;
        const bool begins = b->until_us == 0;
        b->share = claim->share[i];
        b->until_us = until_us;
        if (begins && claim->alone[i])
            b->level = bucket_size(m, i) - missing;
    }
    pthread_mutex_unlock(&m->lock);
}

/* ---- pending jobs ---- */

bool dt_meter_wants_pending(dt_meter *m)
{
    pthread_mutex_lock(&m->lock);
    const bool wanted = m->limits.v[DT_QUOTA_PENDING] > 0 && m->pending_asked;
    m->made_marked = m->made;
    m->share_marked = m->rates[DT_QUOTA_JOBS].until_us > 0 ? m->rates[DT_QUOTA_JOBS].share : 0;
    m->pending_asked = m->pending_asked && !wanted;
    pthread_mutex_unlock(&m->lock);
    return wanted;
}

/* The only process has the whole quota, even if it has no share. */
void dt_meter_set_pending(dt_meter *m, int64_t jobs, int64_t apis)
{
    pthread_mutex_lock(&m->lock);
    m->apis = apis;
    m->pending = jobs;
    m->made_before = m->made_marked;
    m->pending_share = apis == 1 ? DT_QUOTA_WHOLE : m->share_marked;
    pthread_mutex_unlock(&m->lock);
}

struct dt_quota_limits dt_meter_limits(dt_meter *m)
{
    pthread_mutex_lock(&m->lock);
    const struct dt_quota_limits limits = m->limits;
    pthread_mutex_unlock(&m->lock);
    return limits;
}

/* ---- usage ---- */

bool dt_meter_take_usage(dt_meter *m, struct dt_usage *out)
{
    *out = (struct dt_usage){.requests = atomic_exchange(&m->requests, 0),
                             .requests_refused = atomic_exchange(&m->refused, 0),
                             .jobs = atomic_exchange(&m->jobs, 0),
                             .jobs_refused = atomic_exchange(&m->jobs_refused, 0),
                             .payload_bytes = atomic_exchange(&m->payload_bytes, 0)};
    return out->requests || out->requests_refused || out->jobs || out->jobs_refused || out->payload_bytes;
}

void dt_meter_put_usage(dt_meter *m, const struct dt_usage *counts)
{
    atomic_fetch_add(&m->requests, counts->requests);
    atomic_fetch_add(&m->refused, counts->requests_refused);
    atomic_fetch_add(&m->jobs, counts->jobs);
    atomic_fetch_add(&m->jobs_refused, counts->jobs_refused);
    atomic_fetch_add(&m->payload_bytes, counts->payload_bytes);
}
