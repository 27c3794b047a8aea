/*
 * See quotas.h. Owns the table of tenants and the keeper; refuses to know requests and jobs.
 *
 *   a tenant without a share is asked -> signal -> the keeper settles all that are in use, then once a second, until
 *   nobody asks
 */
#include "quota/quotas.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uthash.h>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "work/session.h"

#define WANTED    UINT32_C(1)      /* signal: somebody is asked who has no share */
#define PERIOD_US INT64_C(1000000) /* of taking shares anew */
#define APART_US  INT64_C(20000)   /* of two transactions, at least */

struct dt_tenant {
    dt_quotas *quotas;
    dt_meter *meter;
    int64_t token;
    char *name;
    unsigned refs; /* under the lock of quotas */
    UT_hash_handle hh;
};

struct dt_quotas {
    const struct dt_session_env *env;
    struct dt_quota_limits defaults;
    struct dt_session session;
    struct dt_thread thread;
    dt_mailbox *box;
    int64_t process, apis; /* the keeper's */
    pthread_mutex_t lock;
    dt_tenant *tenants; /* by name; under the lock */
};

/* ---- tenants ---- */

static void tenant_free(dt_tenant *tenant)
{
    if (!tenant)
        return;
    dt_meter_free(tenant->meter);
    free(tenant->name);
    free(tenant);
}

static dt_tenant *tenant_new(dt_quotas *q, struct dt_str name)
{
    dt_tenant *tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    tenant->quotas = q;
    tenant->meter = dt_meter_new();
    tenant->name = strndup(name.p, name.n);
    if (tenant->meter && tenant->name)
        return tenant;
    tenant_free(tenant);
    return NULL;
}

static dt_tenant *find_locked(dt_quotas *q, struct dt_str name)
{
    dt_tenant *tenant = NULL;
    HASH_FIND(hh, q->tenants, name.p, name.n, tenant);
    if (tenant)
        return tenant;
    tenant = tenant_new(q, name);
    if (tenant)
        HASH_ADD_KEYPTR(hh, q->tenants, tenant->name, strlen(tenant->name), tenant);
    return tenant;
}

dt_tenant *dt_quotas_tenant(dt_quotas *q, const struct dt_token *token)
{
    const struct dt_quota_limits limits = dt_quota_effective(&token->quotas, &q->defaults);
    pthread_mutex_lock(&q->lock);
    dt_tenant *tenant = find_locked(q, token->name);
    if (tenant) {
        tenant->refs++;
        tenant->token = dt_quota_token_id(token->hash);
        dt_meter_set(tenant->meter, &limits, dt_clock_mono_us(q->env->clock));
    }
    pthread_mutex_unlock(&q->lock);
    return tenant;
}

void dt_tenant_release(dt_tenant *tenant)
{
    if (!tenant)
        return;
    dt_quotas *q = tenant->quotas;
    pthread_mutex_lock(&q->lock);
    bool last = --tenant->refs == 0;
    if (last)
        HASH_DEL(q->tenants, tenant);
    pthread_mutex_unlock(&q->lock);
    if (last)
        tenant_free(tenant);
}

bool dt_tenant_request(dt_tenant *tenant, int64_t now_us, struct dt_over *over)
{
    bool wake;
    bool passed = dt_meter_request(tenant->meter, now_us, over, &wake);
    if (wake)
        dt_mailbox_signal(tenant->quotas->box, WANTED);
    return passed;
}

bool dt_tenant_limits_jobs(const dt_tenant *tenant)
{
    return dt_meter_limits_jobs(tenant->meter);
}

bool dt_tenant_job(dt_tenant *tenant, int64_t payload_bytes, int64_t now_us, struct dt_over *over)
{
    bool wake;
    bool passed = dt_meter_job(tenant->meter, payload_bytes, now_us, over, &wake);
    if (wake)
        dt_mailbox_signal(tenant->quotas->box, WANTED);
    return passed;
}

void dt_tenant_jobs_done(dt_tenant *tenant, const struct dt_jobs_done *done)
{
    dt_meter_jobs_done(tenant->meter, done);
}

/* ---- shares ---- */

struct round {
    struct dt_quota_claim claims[DT_QUOTA_CLAIMS];
    dt_tenant *tenants[DT_QUOTA_CLAIMS]; /* counted */
    size_t n;
    bool fresh; /* somebody has no share yet */
};

static int by_token(const void *a, const void *b)
{
    const dt_tenant *x = *(dt_tenant *const *)a;
    const dt_tenant *y = *(dt_tenant *const *)b;
    return (x->token > y->token) - (x->token < y->token);
}

/* All tenants, counted; NULL when there is none, or no memory. */
static dt_tenant **all_tenants(dt_quotas *q, size_t *n)
{
    *n = 0;
    pthread_mutex_lock(&q->lock);
    dt_tenant **all = calloc(HASH_COUNT(q->tenants) + 1, sizeof(*all));
    for (dt_tenant *tenant = all ? q->tenants : NULL; tenant; tenant = tenant->hh.next) {
        tenant->refs++;
        all[(*n)++] = tenant;
    }
    pthread_mutex_unlock(&q->lock);
    if (all)
        qsort(all, *n, sizeof(dt_tenant *), by_token);
    return all;
}

static void add_wish(dt_quotas *q, struct round *round, dt_tenant *tenant)
{
    struct dt_quota_claim *claim = &round->claims[round->n];
    *claim = (struct dt_quota_claim){.token = tenant->token};
    dt_meter_set_apis(tenant->meter, q->apis);
    if (dt_meter_wish(tenant->meter, claim, &round->fresh, dt_clock_mono_us(q->env->clock)))
        round->tenants[round->n++] = tenant;
}

static dt_status take_shares(dt_quotas *q, struct round *round, struct dt_error *err)
{
    dt_status status = dt_session_begin(&q->session, err);
    if (status == DT_OK && round->fresh)
        status = dt_store_quota_apis(q->session.store, &q->apis, err);
    const int64_t asked_us = dt_clock_mono_us(q->env->clock);
    if (status == DT_OK)
        status = dt_store_quota_settle(q->session.store, q->process, round->claims, round->n, err);
    dt_session_end(&q->session);
    for (size_t i = 0; status == DT_OK && i < round->n; i++)
        dt_meter_settled(round->tenants[i]->meter, &round->claims[i], asked_us + DT_QUOTA_BELIEF_US,
                         dt_clock_mono_us(q->env->clock));
    return status;
}

static void finish_round(dt_quotas *q, struct round *round, bool *used)
{
    struct dt_error err = {0};
    *used = *used || round->n > 0;
    if (round->n > 0 && take_shares(q, round, &err) != DT_OK)
        DT_LOG(DEBUG, "quotas", "no shares were taken", DT_S("error", err.text));
    round->n = 0;
    round->fresh = false;
}

/* Takes shares for whoever was asked of late. False: nobody was. */
static bool settle_all(dt_quotas *q)
{
    size_t n;
    bool used = false;
    struct round round = {.n = 0};
    dt_tenant **all = all_tenants(q, &n);
    for (size_t i = 0; i < n; i++) {
        add_wish(q, &round, all[i]);
        if (round.n == DT_QUOTA_CLAIMS || i + 1 == n)
            finish_round(q, &round, &used);
    }
    for (size_t i = 0; i < n; i++)
        dt_tenant_release(all[i]);
    free(all);
    return used;
}

static void run(void *arg)
{
    dt_quotas *q = arg;
    int64_t next_us = INT64_MAX;
    for (;;) {
        uint32_t bits = dt_mailbox_wait(q->box, next_us);
        if (bits & DT_THREAD_STOP)
            break;
        bool used = settle_all(q);
        const int64_t now_us = dt_clock_mono_us(q->env->clock);
        next_us = used ? now_us + PERIOD_US : INT64_MAX;
        if (dt_mailbox_pause(q->box, now_us + APART_US, DT_THREAD_STOP) & DT_THREAD_STOP)
            break;
    }
    dt_session_clear(&q->session);
}

/* ---- beginning and end ---- */

static void read_defaults(dt_quotas *q)
{
    const struct dt_config *config = q->env->config;
#define X(kind, name, words) q->defaults.v[DT_QUOTA_##kind] = config->quotas_##name;
    DT_QUOTA_MAP(X)
#undef X
}

static dt_status make_number(int64_t *out, struct dt_error *err)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    *out = (int64_t)(number >> 1) | 1;
    return DT_OK;
}

static dt_status start_keeper(dt_quotas *q, struct dt_error *err)
{
    dt_status status = dt_session_init(&q->session, q->env);
    if (status != DT_OK)
        return status;
    status = dt_thread_start(&q->thread, "quotas", run, q, err);
    if (status != DT_OK)
        dt_session_clear(&q->session);
    return status;
}

dt_status dt_quotas_start(const struct dt_session_env *env, dt_quotas **out, struct dt_error *err)
{
    *out = NULL;
    dt_quotas *q = calloc(1, sizeof(*q));
    if (!q)
        return dt_fail(err, DT_NOMEM, "no memory for quotas");
    q->env = env;
    q->apis = 1;
    read_defaults(q);
    pthread_mutex_init(&q->lock, NULL);
    dt_status status = make_number(&q->process, err);
    if (status == DT_OK)
        status = dt_mailbox_new(&q->box);
    if (status == DT_OK)
        status = start_keeper(q, err);
    if (status != DT_OK) {
        dt_quotas_free(q);
        return status;
    }
    *out = q;
    return DT_OK;
}

void dt_quotas_stop(dt_quotas *q)
{
    dt_thread_stop(&q->thread, q->box);
}

void dt_quotas_free(dt_quotas *q)
{
    if (!q)
        return;
    dt_mailbox_free(q->box);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
