/*
 * Quotas: how much a token may request in a second, and how many jobs of its topics may be pending. Each API process
 * enforces its own share of a token's quota.
 *
 * Shares are parts of DT_QUOTA_WHOLE. A row in MySQL has the share of each process. A process changes its share under a
 * lock of all rows of the token, so the sum never exceeds the whole. A process asks for a share in proportion to its
 * demand, and gets at most what no other process holds. If it holds more than its proportion, it takes a smaller share
 * the next time.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* Kind; member in REST and in the configuration's section [quotas]; human-readable words. */
#define DT_QUOTA_MAP(X)                                                                                                \
    X(REQUESTS, requests_per_second, "requests per second")                                                            \
    X(JOBS, jobs_per_second, "new jobs per second")                                                                    \
    X(BYTES, payload_bytes_per_second, "payload bytes of new jobs per second")                                         \
    X(PENDING, pending_jobs, "unfinished jobs of the token's topics")

enum dt_quota {
#define X(kind, name, words) DT_QUOTA_##kind,
    DT_QUOTA_MAP(X)
#undef X
        DT_QUOTAS
};
#define DT_QUOTA_RATES DT_QUOTA_PENDING /* the kinds before this one are rates per second */
#define DT_QUOTA_UNSET (-1)             /* in a token: the configuration's value applies */
#define DT_QUOTA_KEPT  (-2)             /* in a change: the value is kept */
#define DT_QUOTA_MAX   INT64_C(1000000000000)
#define DT_QUOTA_WHOLE INT64_C(1000000)

/* Limits, indexed by enum dt_quota. 0 = no limit. */
struct dt_quota_limits {
    int64_t v[DT_QUOTAS];
};

/* Returns the name, such as "jobs_per_second". */
const char *dt_quota_name(enum dt_quota quota);
/* Returns a text like "the token's quota of new jobs per second is exceeded". */
const char *dt_quota_detail(enum dt_quota quota);
/* Returns limits that all have one value, such as UNSET or KEPT. */
struct dt_quota_limits dt_quota_all(int64_t limit);
/* Replaces UNSET values by the defaults. */
struct dt_quota_limits dt_quota_effective(const struct dt_quota_limits *of_token,
                                          const struct dt_quota_limits *of_installation);
bool dt_quota_limits_any(const struct dt_quota_limits *limits);
/* Returns the share of a process. others_demand, others_share: sums of all other processes. */
int64_t dt_quota_share(int64_t demand, int64_t others_demand, int64_t others_share);

/*
 * ---- quotas in MySQL: the shares of the API processes (quota_shares), and what tokens used (token_usage) ----
 *
 * For a token without a quota only its usage is written, a few times a minute while it is used.
 */
/* A share is valid for this long after it was written. Its process uses it only for DT_QUOTA_BELIEF_US, counted from
 * before the transaction. */
#define DT_QUOTA_LEASE_MS  INT64_C(4000)
#define DT_QUOTA_BELIEF_US INT64_C(3000000)
#define DT_QUOTA_CLAIMS    64 /* most tokens of one call */

struct dt_quota_claim {
    int64_t token;                  /* dt_quota_token_id */
    int64_t demand[DT_QUOTA_RATES]; /* demand of this process in the last second */
    int64_t most[DT_QUOTA_RATES];   /* the largest share that this process takes */
    int64_t share[DT_QUOTA_RATES];  /* out: the new share; 0 if the demand is 0, or if other processes hold the whole */
    bool alone[DT_QUOTA_RATES];     /* out: no other process holds a share */
    /* Out, for the process DT_QUOTA_FIRES: what is left of its share (schedules/fire_quota.c). */
    int64_t jobs_left, left_at_ms, pending_left, count_at_ms;
};
#define DT_QUOTA_FIRES 2 /* number of a process that stands for all makers of fires: they have one share together */

/* Returns the number of a token in quota_shares, a hash of its name. */
int64_t dt_quota_token_id(struct dt_str name);
/* Takes new shares of the tokens in one transaction: a read that locks the tokens' rows, and a write. process: an odd
 * random number. The claims are sorted by token. After any status but OK and UNKNOWN nothing was changed. UNKNOWN: the
 * new shares may have been written. */
DT_MUST_CHECK dt_status dt_store_quota_settle(dt_store *store, int64_t process, struct dt_quota_claim *claims, size_t n,
                                              struct dt_error *err);
/* Does the work of dt_store_quota_settle in the caller's transaction, which began at now_ms, for at most
 * DT_QUOTA_CLAIMS tokens. */
DT_MUST_CHECK dt_status dt_quota_settle_in_txn(struct dt_db *db, int64_t now_ms, int64_t process,
                                               struct dt_quota_claim *claims, size_t n, struct dt_error *err);

/* ---- usage ---- */

#define DT_DAY_MS          INT64_C(86400000)
#define DT_USAGE_KEPT_DAYS 400

struct dt_usage {
    struct dt_str token;
    int64_t requests, requests_refused, jobs, jobs_refused, payload_bytes;
};
/* Adds usage to the rows of the day of now_ms; payload_bytes are those of new jobs. */
DT_MUST_CHECK dt_status dt_store_usage_add(dt_store *store, const struct dt_usage *rows, size_t n, int64_t now_ms,
                                           struct dt_error *err);
/* Deletes rows older than DT_USAGE_KEPT_DAYS, a limited number in a call. */
DT_MUST_CHECK dt_status dt_store_usage_expire(dt_store *store, int64_t now_ms, struct dt_error *err);
/* Reads the sums of usage by token since from_ms, which must be the beginning of a day. */
DT_MUST_CHECK dt_status dt_store_usage(dt_store *store, int64_t from_ms, struct dt_arena *arena, struct dt_usage **out,
                                       size_t *n, struct dt_error *err);

/* The number of scheduled and dispatched jobs of a topic, by its counters. */
struct dt_topic_pending {
    struct dt_str topic;
    int64_t jobs;
};
DT_MUST_CHECK dt_status dt_store_pending(dt_store *store, struct dt_arena *arena, struct dt_topic_pending **out,
                                         size_t *n, struct dt_error *err);

/* Returns the number of API processes that were alive some seconds ago; at least 1. */
DT_MUST_CHECK dt_status dt_store_quota_apis(dt_store *store, int64_t *n, struct dt_error *err);
