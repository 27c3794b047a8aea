/*
 * The quotas of tokens, as far as the fires of schedules spend them: jobs_per_second and pending_jobs. No token asks
 * for a fire, so it spends what the tokens of the topic's owner have (job/owner.h); of several tokens the largest
 * counts. If no prefix covers the topic, these are the tokens for all topics, except those of administrators.
 *
 * All schedule makers together hold one share of a token's quota, as each API process does (quotas/quotas.h). Its
 * row also stores what is left. dt_fire_quotas_open locks the row until the commit, so two transactions never spend the
 * same. For schedules/ only.
 */
#ifndef DT_STORE_FIRE_QUOTA_H
#define DT_STORE_FIRE_QUOTA_H

#include "store/quotas/quotas.h"
#include "store/store_internal.h"

struct dt_fire_quota {
    int64_t owner;
    int64_t per_second, pending; /* 0 = no limit */
    int64_t token;               /* whose share is spent */
    struct dt_str topics;        /* its prefixes, or DT_TOPICS_ALL */
    /* Once it is open. */
    bool open;
    int64_t rate_milli; /* what the share adds in a second, in thousandths of jobs, as is left_milli */
    int64_t left_milli, pending_left;
    int64_t count_at_ms; /* pending jobs are counted again */
    int64_t waiting;     /* schedules of this transaction whose fires wait */
};
struct dt_fire_quotas {
    struct dt_fire_quota *v; /* by owner */
    size_t n;
    bool read;
};

/* Reads the quotas, unless they were read, and locks those of the owners that have some. Each owner may be listed
 * several times: once for each of its schedules. */
DT_MUST_CHECK dt_status dt_fire_quotas_open(struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, dt_store *store,
                                            struct dt_arena *arena, const int64_t *owners, size_t n,
                                            struct dt_error *err);
/* The quota of an owner that is open; NULL: it has none. */
struct dt_fire_quota *dt_fire_quotas_find(const struct dt_fire_quotas *quotas, int64_t owner);
/* How many jobs may be made. */
size_t dt_fire_quota_room(const struct dt_fire_quota *quota);
/* A job is made. NULL is accepted. */
void dt_fire_quota_spend(struct dt_fire_quota *quota);
/* Returns when to look again at a schedule that waits, in ms; each further one waits longer. *why: the quota. */
int64_t dt_fire_quota_wait_ms(struct dt_fire_quota *quota, const char **why);
/* Writes what is left of each open quota. */
DT_MUST_CHECK dt_status dt_fire_quotas_write(const struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms,
                                             struct dt_error *err);

#endif
