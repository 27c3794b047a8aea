/*
 * Quotas: what a token may ask for in a second, and how many jobs of its topics may be pending. Several API processes
 * let pass the requests of one token, each its own share of the quota. Pure: no I/O, no clock.
 *
 * Shares are parts of DT_QUOTA_WHOLE. The rows of MySQL hold the share of each process, and who changes its own share
 * holds a lock on those of the token: the sum never exceeds the whole. A process asks for the part that its demand is
 * of everybody's, and gets at most what nobody holds; who holds more than its part takes less the next time.
 */
#ifndef DT_QUOTAS_QUOTAS_H
#define DT_QUOTAS_QUOTAS_H

#include <stdbool.h>
#include <stdint.h>

#include "job/job.h"
#include "store/store.h"

/* Kind, member of REST and of the configuration's section [quotas], words. */
#define DT_QUOTA_MAP(X)                                                                                                \
    X(REQUESTS, requests_per_second, "requests in a second")                                                           \
    X(JOBS, jobs_per_second, "new jobs in a second")                                                                   \
    X(BYTES, payload_bytes_per_second, "bytes of payloads of new jobs in a second")                                    \
    X(PENDING, pending_jobs, "jobs of the token's topics that are not finished")

enum dt_quota {
#define X(kind, name, words) DT_QUOTA_##kind,
    DT_QUOTA_MAP(X)
#undef X
        DT_QUOTAS
};
#define DT_QUOTA_RATES DT_QUOTA_PENDING /* the kinds before it are numbers in a second */
#define DT_QUOTA_UNSET (-1)             /* of a token: the configuration's */
#define DT_QUOTA_KEPT  (-2)             /* of a change: as it is */
#define DT_QUOTA_MAX   INT64_C(1000000000000)
#define DT_QUOTA_WHOLE INT64_C(1000000)

/* By enum dt_quota. 0 = no limit. */
struct dt_quota_limits {
    int64_t v[DT_QUOTAS];
};

/* "jobs_per_second" */
const char *dt_quota_name(enum dt_quota quota);
/* "the token's quota of new jobs in a second is used up" */
const char *dt_quota_detail(enum dt_quota quota);
/* All the same: UNSET, KEPT. */
struct dt_quota_limits dt_quota_all(int64_t limit);
/* Fills in what is UNSET. */
struct dt_quota_limits dt_quota_effective(const struct dt_quota_limits *of_token,
                                          const struct dt_quota_limits *of_installation);
/* Says whether anything is limited. */
bool dt_quota_limits_any(const struct dt_quota_limits *limits);
/* The share of a process with this demand. others_demand, others_share: of all other processes together. */
int64_t dt_quota_share(int64_t demand, int64_t others_demand, int64_t others_share);

/*
 * Quotas of tokens in MySQL: the shares of the API processes (quota_shares), and what was let pass (token_usage). What
 * a share is: features/quotas/quotas.h.
 *
 * Nothing is written for a token without a quota but its usage, and that a few times a minute while it is used.
 */

/* A share is held for so long after it was written; who wrote it believes in it for DT_QUOTA_BELIEF_US alone, counted
 * from before the transaction. */
#define DT_QUOTA_LEASE_MS  INT64_C(4000)
#define DT_QUOTA_BELIEF_US INT64_C(3000000)
#define DT_QUOTA_CLAIMS    64 /* tokens of one call, at most */

/* One token's shares, of this process. */
struct dt_quota_claim {
    int64_t token;                  /* dt_quota_token_id */
    int64_t demand[DT_QUOTA_RATES]; /* of this process, in the last second */
    int64_t most[DT_QUOTA_RATES];   /* of a share */
    int64_t share[DT_QUOTA_RATES];  /* out; 0 if the demand is 0, or if others hold the whole */
    bool alone[DT_QUOTA_RATES];     /* out: no other process holds a share */
    /* Out, of the process DT_QUOTA_FIRES: what is left of its share (schedules/fire_quota.c). */
    int64_t jobs_left, left_at_ms, pending_left, count_at_ms;
};
#define DT_QUOTA_FIRES 2 /* the process that all makers of fires together are */

/* The number under which a token's shares are kept, made of its name. */
int64_t dt_quota_token_id(struct dt_str name);
/*
 * Takes new shares for the tokens, in one transaction: one read that locks the tokens' rows, one write. process: an odd
 * random number. The claims are sorted by token. Nothing has changed unless OK, or UNKNOWN: then the shares are
 * perhaps what was written.
 */
DT_MUST_CHECK dt_status dt_store_quota_settle(dt_store *store, int64_t process, struct dt_quota_claim *claims, size_t n,
                                              struct dt_error *err);
/* Does it in the caller's transaction, which began at now_ms, for at most DT_QUOTA_CLAIMS. */
DT_MUST_CHECK dt_status dt_quota_settle_in_txn(struct dt_db *db, int64_t now_ms, int64_t process,
                                               struct dt_quota_claim *claims, size_t n, struct dt_error *err);

/* ---- usage ---- */

#define DT_DAY_MS          INT64_C(86400000)
#define DT_USAGE_KEPT_DAYS 400

/* The use of a token. */
struct dt_usage {
    struct dt_str token;
    int64_t requests, requests_refused, jobs, jobs_refused, payload_bytes;
};
/* Adds to the rows of the day that now_ms is in; payload_bytes of jobs that were made. */
DT_MUST_CHECK dt_status dt_store_usage_add(dt_store *store, const struct dt_usage *rows, size_t n, int64_t now_ms,
                                           struct dt_error *err);
/* Removes rows that are older than DT_USAGE_KEPT_DAYS, some at a time. */
DT_MUST_CHECK dt_status dt_store_usage_expire(dt_store *store, int64_t now_ms, struct dt_error *err);
/* Sums by token since the beginning of a day, which from_ms is. */
DT_MUST_CHECK dt_status dt_store_usage(dt_store *store, int64_t from_ms, struct dt_arena *arena, struct dt_usage **out,
                                       size_t *n, struct dt_error *err);

/* A topic's jobs that are scheduled or dispatched, as they were counted. */
struct dt_topic_pending {
    struct dt_str topic;
    int64_t jobs;
};
DT_MUST_CHECK dt_status dt_store_pending(dt_store *store, struct dt_arena *arena, struct dt_topic_pending **out,
                                         size_t *n, struct dt_error *err);

/* The number of API processes that live, or did some seconds ago; at least 1. */
DT_MUST_CHECK dt_status dt_store_quota_apis(dt_store *store, int64_t *n, struct dt_error *err);

#endif
