/*
 * Quotas: what a token may ask for in a second, and how many jobs of its topics may be pending. Several API processes
 * let pass the requests of one token, each its own share of the quota. Pure: no I/O, no clock.
 *
 * Shares are parts of DT_QUOTA_WHOLE. The rows of MySQL hold the share of each process, and who changes its own share
 * holds a lock on those of the token: the sum never exceeds the whole. A process asks for the part that its demand is
 * of everybody's, and gets at most what nobody holds; who holds more than its part takes less the next time.
 */
#ifndef DT_QUOTAS_QUOTA_H
#define DT_QUOTAS_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
