/*
 * Quotas: how much a token may request in a second, and how many jobs of its topics may be pending. Each API process
 * enforces its own share of a token's quota.
 *
 * Shares are parts of DT_QUOTA_WHOLE. Each process has a row in MySQL with its share. A process changes its share under
 * a lock of all rows of the token, so the sum of the shares never exceeds DT_QUOTA_WHOLE. The share of a process is in
 * proportion to its demand, but at most what the other processes leave. If demands change, a process with too large a
 * share takes a smaller one the next time.
 */
#pragma once

#include "job/job.h"
#include "store/store.h"

/* The kinds of quotas: kind, name (of the member in REST and of the option in [quotas]), text for people. */
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
#define DT_QUOTA_RATES DT_QUOTA_PENDING /* the kinds before DT_QUOTA_PENDING are rates per second */
#define DT_QUOTA_UNSET (-1)             /* in a token: the configuration's value applies */
#define DT_QUOTA_KEPT  (-2)             /* in a change: the token's value does not change */
#define DT_QUOTA_MAX   INT64_C(1000000000000)
#define DT_QUOTA_WHOLE INT64_C(1000000)

/* The limits of a token, indexed by enum dt_quota. 0 = no limit. */
struct dt_quota_limits {
    int64_t v[DT_QUOTAS];
};

/* Returns the name of the quota, such as "jobs_per_second". */
const char *dt_quota_name(enum dt_quota quota);
/* Returns a text like "the token's quota of new jobs per second is exceeded". */
const char *dt_quota_detail(enum dt_quota quota);
/* Returns limits that all have the same value, such as DT_QUOTA_UNSET or DT_QUOTA_KEPT. */
struct dt_quota_limits dt_quota_all(int64_t limit);
/* Returns the limits of a token. A limit that is DT_QUOTA_UNSET is that of the installation. */
struct dt_quota_limits dt_quota_effective(const struct dt_quota_limits *of_token,
                                          const struct dt_quota_limits *of_installation);
bool dt_quota_limits_any(const struct dt_quota_limits *limits);
/* Returns the share for a process with this demand. others_demand, others_share: sums over all other processes. */
int64_t dt_quota_share(int64_t demand, int64_t others_demand, int64_t others_share);

/*
 * ---- quotas in MySQL: the shares of the API processes (quota_shares), and what tokens used (token_usage) ----
 *
 * If a token has no quota, only its usage is written, a few times a minute while the token is used.
 */
/* A share is valid for DT_QUOTA_LEASE_MS after it was written. Its process uses it for a shorter time,
 * DT_QUOTA_BELIEF_US, counted from before the transaction. */
#define DT_QUOTA_LEASE_MS  INT64_C(4000)
#define DT_QUOTA_BELIEF_US INT64_C(3000000)
#define DT_QUOTA_CLAIMS    64 /* most tokens in one transaction */

struct dt_quota_claim {
    int64_t token;                  /* number of the token, from dt_quota_token_id */
    int64_t demand[DT_QUOTA_RATES]; /* demand of this process in the last second */
    int64_t most[DT_QUOTA_RATES];   /* largest share that this process wants */
    int64_t share[DT_QUOTA_RATES];  /* out: the new share; 0 if the demand is 0, or if the other processes leave
                                     * nothing */
    bool alone[DT_QUOTA_RATES];     /* out: no other process holds a share */
    /* Out, only for the process DT_QUOTA_FIRES: what was left of its share (schedules/fire_quota.c). */
    int64_t jobs_left, left_at_ms, pending_left, count_at_ms;
};
#define DT_QUOTA_FIRES 2 /* process number that all makers of fires use together: they have one share */

/* Returns the number of a token in quota_shares, which is a hash of its name. */
int64_t dt_quota_token_id(struct dt_str name);
/* Writes new shares of this process for the tokens, in one transaction that locks all shares of the tokens. process: an
 * odd random number. The claims must be sorted by token. UNKNOWN: the new shares may have been written. After any other
 * status but OK, nothing was changed. */
dt_status dt_store_quota_settle(dt_store *store, int64_t process, struct dt_quota_claim *claims, size_t n,
                                struct dt_error *err);
/* Writes new shares of this process for at most DT_QUOTA_CLAIMS tokens in the caller's transaction, which began at
 * now_ms, and otherwise like dt_store_quota_settle. */
dt_status dt_quota_settle_in_txn(struct dt_db *db, int64_t now_ms, int64_t process, struct dt_quota_claim *claims,
                                 size_t n, struct dt_error *err);

/* ---- usage ---- */

#define DT_DAY_MS          INT64_C(86400000)
#define DT_USAGE_KEPT_DAYS 400

struct dt_usage {
    struct dt_str token;
    int64_t requests, requests_refused, jobs, jobs_refused, payload_bytes;
};
/* Adds usage to the rows of the day that contains now_ms. payload_bytes counts the payloads of new jobs. */
dt_status dt_store_usage_add(dt_store *store, const struct dt_usage *rows, size_t n, int64_t now_ms,
                             struct dt_error *err);
/* Deletes rows of usage older than DT_USAGE_KEPT_DAYS, a limited number in each call. */
dt_status dt_store_usage_expire(dt_store *store, int64_t now_ms, struct dt_error *err);
/* Reads the usage of each token, summed since from_ms, which must be the beginning of a day. */
dt_status dt_store_usage(dt_store *store, int64_t from_ms, struct dt_arena *arena, struct dt_usage **out, size_t *n,
                         struct dt_error *err);

/* The number of scheduled and dispatched jobs of a topic, from the counters. */
struct dt_topic_pending {
    struct dt_str topic;
    int64_t jobs;
};
dt_status dt_store_pending(dt_store *store, struct dt_arena *arena, struct dt_topic_pending **out, size_t *n,
                           struct dt_error *err);

/* Returns how many API processes are live, or were some seconds ago; at least 1. */
dt_status dt_store_quota_apis(dt_store *store, int64_t *n, struct dt_error *err);
