/*
 * The quotas of all tokens in this process: a meter for each token, and a chore, the keeper, that takes shares from
 * MySQL (features/quotas/quotas.h) for those that are in use. It rests while none is: a token without a quota costs no
 * statement, and a quota that nobody uses costs none either.
 *
 * What tokens are used for is written to token_usage some seconds later, all of it in one statement.
 *
 * A tenant is a token with its meter. The list of tokens is read again every other second; a tenant lives on while any
 * list or caller refers to it.
 */
#ifndef DT_API_QUOTAS_H
#define DT_API_QUOTAS_H

#include <stdint.h>

#include "base/chores.h"
#include "features/tokens/tokens.h"
#include "job/problem.h"
#include "meter.h"

struct dt_session_env;
typedef struct dt_quotas dt_quotas;
typedef struct dt_tenant dt_tenant;

/* Adds the keeper to `chores`, whose context is a dt_store. Both are borrowed and outlive it. *out is NULL unless
 * OK. */
DT_MUST_CHECK dt_status dt_quotas_start(const struct dt_session_env *env, dt_chores *chores, dt_quotas **out,
                                        struct dt_error *err);
/* Ends the keeper, and writes usage: shares are not renewed any more. Tenants can still be got, and asked. */
void dt_quotas_stop(dt_quotas *quotas);
/* After dt_quotas_stop, when no tenant is referred to. Accepts NULL. */
void dt_quotas_free(dt_quotas *quotas);

/* The tenant of this token, with the token's limits from here on; counted. NULL: memory is out. Any thread. */
dt_tenant *dt_quotas_tenant(dt_quotas *quotas, const struct dt_token *token);
/* Gives the reference back. Accepts NULL. */
void dt_tenant_release(dt_tenant *tenant);

/* Counts a request of the tenant. False: it is over a quota. Any thread; never waits for I/O. */
bool dt_tenant_request(dt_tenant *tenant, int64_t now_us, struct dt_over *over);
/* Says whether new jobs of the tenant are limited at all. */
bool dt_tenant_limits_jobs(const dt_tenant *tenant);
/* Counts a new job. False: it is over a quota. Any thread; never waits for I/O. */
bool dt_tenant_job(dt_tenant *tenant, int64_t payload_bytes, int64_t now_us, struct dt_over *over);
/* As dt_meter_refuse; over: what the job before them was refused for. */
void dt_tenant_refuse(dt_tenant *tenant, const struct dt_over *over, int64_t jobs);
/* Tells of elements of a batch that were refused by their sender's fault. Returns until when (monotonic, us) the batch
 * rests before it is answered (quotas.h); 0: it does not, as without a tenant. Any thread. */
int64_t dt_tenant_refused_elements(dt_tenant *tenant, size_t elements);
/* Returns until when a batch of the tenant rests before it begins, for what was refused before; likewise. */
int64_t dt_tenant_rests_until(dt_tenant *tenant);
/* A place among the tenant's batches that rest before they begin: each holds a connection. False: all are taken. */
#define DT_TENANT_PLACES 16
bool dt_tenant_take_place(dt_tenant *tenant);
void dt_tenant_give_place(dt_tenant *tenant);
/* As dt_meter_jobs_done. */
void dt_tenant_jobs_done(dt_tenant *tenant, const struct dt_jobs_done *done);

/* The limits of the token of this name; false: there is none. Any thread. */
bool dt_quotas_limits(dt_quotas *quotas, struct dt_str name, struct dt_quota_limits *out);
/* Writes what was used and is not written yet. Any thread, with a store of its own. */
DT_MUST_CHECK dt_status dt_quotas_write_usage(dt_quotas *quotas, dt_store *store, struct dt_error *err);
/* The pending jobs of those topics that a token sees: DT_TOPICS_ALL, or prefixes with commas. */
int64_t dt_pending_within(struct dt_str topics, const struct dt_topic_pending *pending, size_t n);

/*
 * What a token has had refused in batches, element by element, kept as a debt of time. An element that is refused costs
 * the API as much as one that is made, and nothing else holds its sender back: not the room of the queue, not the disk.
 * So a batch is answered only when its token's debt is paid, and the next one is begun only then. Batches that are cut
 * off have all their elements refused: their answers hold nobody back.
 *
 * Each refused element adds the time that it may take, by a rate; a burst is free, so that an honest batch with faults
 * in it is answered at once. This is the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371,
 * annex A), with a bound on the debt: whoever stops is served as before within seconds.
 *
 * Any thread; a zero struct has no debt.
 */

#define DT_REFUSED_RATE    1000             /* elements a second */
#define DT_REFUSED_BURST   10000            /* elements that are free, at rest */
#define DT_REFUSED_REST_US INT64_C(5000000) /* the longest rest */

struct dt_refusals {
    _Atomic int64_t paid_us; /* monotonic: when all is paid, the burst, too */
};

/* Adds so many refused elements. Returns for how long their batch rests before it is answered, in us. */
int64_t dt_refusals_add(struct dt_refusals *refusals, int64_t elements, int64_t now_us);

/* The problem (429) of what is over a quota. Pure. */

/* Fills in the problem. */
void dt_over_problem(const struct dt_over *over, struct dt_problem *problem);

#endif
