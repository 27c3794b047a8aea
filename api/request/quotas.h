/*
 * The quotas of all tokens in this process: a meter for each token, and a chore, the keeper, that takes shares of
 * quotas from MySQL (features/quotas/quotas.h) for tokens in use. Tokens without a quota, and quotas that are not used,
 * cost no statement.
 *
 * The keeper writes the usage of tokens to token_usage within some seconds, many tokens in one statement.
 *
 * A tenant is a token with its meter. It lives as long as a list of tokens or a caller refers to it.
 */
#pragma once

#include "base/chores.h"
#include "features/tokens/tokens.h"
#include "job/problem.h"
#include "meter.h"

struct dt_session_env;
typedef struct dt_quotas dt_quotas;
typedef struct dt_tenant dt_tenant;

/* Creates the quotas, and adds the keeper (the chore that takes shares of quotas) to `chores`, whose context must be a
 * dt_store. Both arguments are borrowed, and must outlive the quotas. Unless OK, *out is NULL. */
dt_status dt_quotas_start(const struct dt_session_env *env, dt_chores *chores, dt_quotas **out, struct dt_error *err);
/* Stops the chore that takes shares of quotas, and writes the usage that is left. Shares are no longer renewed; tenants
 * can still be used. */
void dt_quotas_stop(dt_quotas *quotas);
/* Frees the quotas, after dt_quotas_stop, when no tenant is left. Accepts NULL. */
void dt_quotas_free(dt_quotas *quotas);

/* Returns a reference to the tenant (token with its meter) of this token, and sets its limits. NULL: out of memory. Any
 * thread. */
dt_tenant *dt_quotas_tenant(dt_quotas *quotas, const struct dt_token *token);
/* Releases the reference. Accepts NULL. */
void dt_tenant_release(dt_tenant *tenant);

/* Counts a request of the token (tenant). False: it is over a quota. Any thread; never waits for I/O. */
bool dt_tenant_request(dt_tenant *tenant, int64_t now_us, struct dt_over *over);
/* Counts a new job, if a quota limits the new jobs of this token. False: it is over a quota. Any thread; never waits
 * for I/O. */
bool dt_tenant_job(dt_tenant *tenant, int64_t payload_bytes, int64_t now_us, struct dt_over *over);
/* Counts jobs of a unit as refused, because an earlier job of the same unit was over the quota in `over`. */
void dt_tenant_refuse(dt_tenant *tenant, const struct dt_over *over, int64_t jobs);
/* Counts refused elements of a batch. Returns until when (monotonic, us) the batch must pause before it is answered; 0:
 * it need not, or the tenant is NULL. Any thread. */
int64_t dt_tenant_refused_elements(dt_tenant *tenant, size_t elements);
/* Returns until when a new batch of the tenant must pause before it begins; 0: it need not. Any thread. */
int64_t dt_tenant_rests_until(dt_tenant *tenant);
/* Lets another batch of the tenant pause before it begins. Because each such batch holds a connection, a tenant has
 * only a few places for them. False: all places are taken. */
#define DT_TENANT_PLACES 16
bool dt_tenant_take_place(dt_tenant *tenant);
void dt_tenant_give_place(dt_tenant *tenant);
/* Counts how many of the admitted jobs were created. Jobs that were not created no longer count against the quota. */
void dt_tenant_jobs_done(dt_tenant *tenant, const struct dt_jobs_done *done);

/* Copies the limits of the token with this name. False: no tenant has this name. Any thread. */
bool dt_quotas_limits(dt_quotas *quotas, struct dt_str name, struct dt_quota_limits *out);
/* Writes the usage that was not written yet. Any thread that has a store of its own. */
dt_status dt_quotas_write_usage(dt_quotas *quotas, dt_store *store, struct dt_error *err);
/* Returns the number of pending jobs in the topics that a token sees: DT_TOPICS_ALL, or a comma-separated list of
 * prefixes. */
int64_t dt_pending_within(struct dt_str topics, const struct dt_topic_pending *pending, size_t n);

/*
 * Refused elements of a token's batches, as a debt of time. A refused element costs the API as much as a created job,
 * but neither the queue nor the disk slows its sender down. So a batch is answered, and the token's next batch begins,
 * only when the debt is paid.
 *
 * Each refused element adds time by a rate. A burst is free, so that a batch with a few faults is answered at once.
 * This is the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371, annex A), with a bounded debt:
 * a sender that stops is served as before within seconds.
 *
 * Any thread; a zero struct has no debt.
 */

#define DT_REFUSED_RATE    1000             /* refused elements per second by which a token's debt falls */
#define DT_REFUSED_BURST   10000            /* refused elements that cause no debt, if no element was refused lately */
#define DT_REFUSED_REST_US INT64_C(5000000) /* longest pause of a batch, in us */

struct dt_refusals {
    _Atomic int64_t paid_us; /* monotonic: when the debt is paid and the whole burst is free again */
};

/* Adds refused elements to the debt. Returns how long their batch pauses before it is answered, in us. */
int64_t dt_refusals_add(struct dt_refusals *refusals, int64_t elements, int64_t now_us);

/* Fills in the problem (429) for a request or job that is over a quota. */
void dt_over_problem(const struct dt_over *over, struct dt_problem *problem);
