/*
 * Implements quotas.h. Owns the table of tenants and the keeper:
 *
 *   a tenant without a share has demand -> the keeper wakes and takes shares for all tenants in use -> it repeats this
 *   every second until no tenant has demand or a share
 */
#include "quotas.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "session.h"

#define USAGE_US   INT64_C(5000000) /* delay from the use of a token until its usage is written */
#define COUNT_PART 20               /* counting pending jobs may take at most 1/COUNT_PART of the time */
#define PERIOD_US  INT64_C(1000000) /* time between two renewals of the shares */
#define APART_US   INT64_C(20000)   /* minimal time between two transactions that take shares */
#define ELEMENT_US (INT64_C(1000000) / DT_REFUSED_RATE)
#define BURST_US   (DT_REFUSED_BURST * ELEMENT_US)

struct dt_tenant {
    dt_quotas *quotas;
    dt_meter *meter;
    struct dt_refusals refusals;
    _Atomic int places; /* number of batches of the tenant that pause before they begin (dt_tenant_take_place) */
    int64_t token;
    char *name;
    char *topics;  /* protected by the lock of struct dt_quotas */
    unsigned refs; /* protected by the lock of struct dt_quotas */
    UT_hash_handle hh;
};

struct dt_quotas {
    const struct dt_session_env *env;
    struct dt_quota_limits defaults;
    struct dt_chore keeper;
    _Atomic bool wanted; /* a token without a share has demand, so the keeper must take shares */
    /* Members below up to expired_day: used only by the keeper (the chore that takes shares). */
    int64_t process;     /* a random number: the key of this process's shares in MySQL */
    int64_t apis;        /* number of live API processes */
    int64_t settle_us;   /* when shares are renewed next */
    int64_t usage_us;    /* when usage is written next */
    int64_t again_us;    /* earliest time of the next transaction that takes shares */
    int64_t count_us;    /* earliest time of the next count of pending jobs */
    int64_t expired_day; /* day on which old usage was last removed */
    _Atomic bool used;   /* a token was used since usage was last written */
    pthread_mutex_t lock;
    dt_tenant *tenants; /* hash table by name; protected by the lock */
    dt_metric *refused[DT_QUOTAS];
};

static void wake_quota_chore(dt_quotas *q)
{
    atomic_store(&q->wanted, true);
    dt_chore_wake(&q->keeper);
}

/* ---- tenants ---- */

static void tenant_free(dt_tenant *tenant)
{
    if (!tenant)
        return;
    dt_meter_free(tenant->meter);
    free(tenant->name);
    free(tenant->topics);
    free(tenant);
}

/* Returns the tenant with this name, and creates it if needed. NULL: out of memory. */
static dt_tenant *find_tenant_locked(dt_quotas *q, struct dt_str name)
{
    dt_tenant *tenant = NULL;
    HASH_FIND(hh, q->tenants, name.p, name.n, tenant);
    if (tenant)
        return tenant;
    tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    tenant->quotas = q;
    tenant->meter = dt_meter_new();
    tenant->name = strndup(name.p, name.n);
    if (tenant->meter && tenant->name) {
        HASH_ADD_KEYPTR(hh, q->tenants, tenant->name, strlen(tenant->name), tenant);
        if (tenant->hh.tbl)
            return tenant;
    }
    tenant_free(tenant);
    return NULL;
}

dt_tenant *dt_quotas_tenant(dt_quotas *q, const struct dt_token *token)
{
    const struct dt_quota_limits limits = dt_quota_effective(&token->quotas, &q->defaults);
    pthread_mutex_lock(&q->lock);
    dt_tenant *tenant = find_tenant_locked(q, token->name);
    if (tenant) {
        tenant->refs++;
        tenant->token = dt_quota_token_id(token->name);
        if (!tenant->topics || !dt_str_is(token->topics, tenant->topics)) {
            char *copy = strndup(token->topics.p ? token->topics.p : "", token->topics.n);
            if (copy) { /* if memory ran out, the old topics are kept */
                free(tenant->topics);
                tenant->topics = copy;
            }
        }
        if (dt_meter_set(tenant->meter, &limits, dt_clock_mono_us(q->env->clock)))
            wake_quota_chore(q); /* so that pending jobs are counted for the first time */
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
    dt_assert_cmp(tenant->refs, >, 0);
    bool last = --tenant->refs == 0;
    if (last)
        HASH_DEL(q->tenants, tenant);
    pthread_mutex_unlock(&q->lock);
    if (last)
        tenant_free(tenant);
}

static void mark_quotas_used(dt_quotas *q)
{
    if (!atomic_load_explicit(&q->used, memory_order_relaxed) && !atomic_exchange(&q->used, true))
        dt_chore_wake(&q->keeper);
}

static void record_verdict(dt_quotas *q, bool passed, const struct dt_over *over, bool wake)
{
    if (!passed)
        dt_metric_add(q->refused[over->quota], 1);
    if (wake)
        wake_quota_chore(q);
}

bool dt_tenant_request(dt_tenant *tenant, int64_t now_us, struct dt_over *over)
{
    bool wake;
    bool passed = dt_meter_request(tenant->meter, now_us, over, &wake);
    mark_quotas_used(tenant->quotas);
    record_verdict(tenant->quotas, passed, over, wake);
    return passed;
}

bool dt_tenant_job(dt_tenant *tenant, int64_t payload_bytes, int64_t now_us, struct dt_over *over)
{
    bool wake;
    if (!dt_meter_limits_jobs(tenant->meter))
        return true;
    bool passed = dt_meter_job(tenant->meter, payload_bytes, now_us, over, &wake);
    record_verdict(tenant->quotas, passed, over, wake);
    return passed;
}

void dt_tenant_jobs_done(dt_tenant *tenant, const struct dt_jobs_done *done)
{
    dt_meter_jobs_done(tenant->meter, done);
    mark_quotas_used(tenant->quotas);
}

void dt_tenant_refuse(dt_tenant *tenant, const struct dt_over *over, int64_t jobs)
{
    dt_metric_add(tenant->quotas->refused[over->quota], jobs);
    dt_meter_refuse(tenant->meter, jobs);
}

static int64_t count_refused_elements(dt_tenant *tenant, size_t elements)
{
    int64_t now_us = dt_clock_mono_us(tenant->quotas->env->clock);
    int64_t rest_us = dt_refusals_add(&tenant->refusals, (int64_t)elements, now_us);
    return rest_us ? now_us + rest_us : 0;
}

int64_t dt_tenant_refused_elements(dt_tenant *tenant, size_t elements)
{
    return tenant && elements > 0 ? count_refused_elements(tenant, elements) : 0;
}

int64_t dt_tenant_rests_until(dt_tenant *tenant)
{
    return tenant ? count_refused_elements(tenant, 0) : 0;
}

bool dt_tenant_take_place(dt_tenant *tenant)
{
    bool free = atomic_fetch_add(&tenant->places, 1) < DT_TENANT_PLACES;
    if (!free)
        dt_tenant_give_place(tenant);
    return free;
}

void dt_tenant_give_place(dt_tenant *tenant)
{
    const int places = atomic_fetch_sub(&tenant->places, 1);
    dt_assert_cmp(places, >, 0);
}

bool dt_quotas_limits(dt_quotas *q, struct dt_str name, struct dt_quota_limits *out)
{
    dt_tenant *tenant = NULL;
    pthread_mutex_lock(&q->lock);
    HASH_FIND(hh, q->tenants, name.p, name.n, tenant);
    if (tenant)
        *out = dt_meter_limits(tenant->meter);
    pthread_mutex_unlock(&q->lock);
    return tenant != NULL;
}

/* ---- shares ---- */

struct round {
    struct dt_quota_claim claims[DT_QUOTA_CLAIMS];
    /* tokens that the claims are for; the caller of claim_all_shares holds the references */
    dt_tenant *tenants[DT_QUOTA_CLAIMS];
    size_t n;
    bool fresh; /* at least one of the claims is for a token that has no share yet */
};

static int compare_token(const void *a, const void *b)
{
    const dt_tenant *x = *(dt_tenant *const *)a;
    const dt_tenant *y = *(dt_tenant *const *)b;
    return DT_ORDER(x->token, y->token);
}

/* Returns all tenants, with a reference to each. NULL: out of memory. */
static dt_tenant **acquire_all_tenants(dt_quotas *q, size_t *n)
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
        qsort(all, *n, sizeof(dt_tenant *), compare_token);
    return all;
}

/* Takes shares for all tokens with recent demand. False: no token has demand or a share. */
static bool claim_all_shares(dt_quotas *q, dt_store *store, dt_tenant **all, size_t n)
{
    bool used = false;
    struct round round = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        struct dt_quota_claim *claim = &round.claims[round.n];
        *claim = (struct dt_quota_claim){.token = all[i]->token};
        dt_meter_set_apis(all[i]->meter, q->apis);
        if (dt_meter_wish(all[i]->meter, claim, &round.fresh, dt_clock_mono_us(q->env->clock)))
            round.tenants[round.n++] = all[i];
        dt_assert_cmp(round.n, <=, DT_QUOTA_CLAIMS);
        if (round.n < DT_QUOTA_CLAIMS && i + 1 < n)
            continue;
        struct dt_error err = {0};
        used = used || round.n > 0;
        dt_status status = store ? DT_OK : dt_fail(&err, DT_UNAVAILABLE, "MySQL was not reached");
        if (status == DT_OK && round.n > 0 && round.fresh)
            status = dt_store_quota_apis(store, &q->apis, &err);
        const int64_t asked_us = dt_clock_mono_us(q->env->clock);
        if (status == DT_OK && round.n > 0)
            status = dt_store_quota_settle(store, q->process, round.claims, round.n, &err);
        for (size_t k = 0; status == DT_OK && k < round.n; k++)
            dt_meter_settled(round.tenants[k]->meter, &round.claims[k], asked_us + DT_QUOTA_BELIEF_US,
                             dt_clock_mono_us(q->env->clock));
        if (status != DT_OK && round.n > 0)
            DT_LOG(DEBUG, "quotas", "shares of quotas were not updated in MySQL", DT_S("error", err.text));
        round.n = 0;
        round.fresh = false;
    }
    return used;
}

/* ---- pending jobs ---- */

int64_t dt_pending_within(struct dt_str topics, const struct dt_topic_pending *pending, size_t n)
{
    int64_t jobs = 0;
    for (size_t i = 0; i < n; i++) {
        struct dt_str remainder = topics;
        bool within = dt_str_is(topics, DT_TOPICS_ALL);
        while (!within && remainder.n > 0) {
            struct dt_str prefix = dt_str_next_element(&remainder);
            within = prefix.n > 0 && dt_str_begins(pending[i].topic, prefix);
        }
        jobs += within ? pending[i].jobs : 0;
    }
    return jobs > 0 ? jobs : 0;
}

/* Counts pending jobs once, for all tokens with demand for new jobs. Does nothing if counting would take more than its
 * part (1/COUNT_PART) of the time. */
static void count_pending(dt_quotas *q, dt_store *store, dt_tenant **all, size_t n)
{
    struct dt_error err = {0};
    const int64_t began_us = dt_clock_mono_us(q->env->clock);
    size_t k = 0;
    if (began_us < q->count_us || !store)
        return;
    for (size_t i = 0; i < n; i++)
        if (dt_meter_wants_pending(all[i]->meter)) {
            dt_tenant *wants = all[i];
            all[i] = all[k]; /* moves tokens whose pending jobs must be counted to the front */
            all[k++] = wants;
        }
    if (k > 0) {
        struct dt_topic_pending *pending = NULL;
        struct dt_arena arena = {0};
        size_t topics = 0;
        dt_status status = dt_store_quota_apis(store, &q->apis, &err);
        DT_THEN(status, dt_store_pending(store, &arena, &pending, &topics, &err));
        if (status != DT_OK)
            DT_LOG(DEBUG, "quotas", "pending jobs of tokens were not counted", DT_S("error", err.text));
        pthread_mutex_lock(&q->lock); /* protects the topics of the tokens (tenants) */
        for (size_t i = 0; status == DT_OK && i < k; i++)
            dt_meter_set_pending(all[i]->meter, dt_pending_within(dt_str(all[i]->topics), pending, topics), q->apis);
        pthread_mutex_unlock(&q->lock);
        dt_arena_clear(&arena);
    }
    q->count_us = began_us + COUNT_PART * (dt_clock_mono_us(q->env->clock) - began_us);
}

/* ---- usage ---- */

/* Writes usage, in several statements if needed. Counts that could not be written are added back to their meters. */
static dt_status write_usage(dt_quotas *q, dt_tenant **all, size_t n, dt_store *store, struct dt_error *err)
{
    struct dt_usage rows[DT_QUOTA_CLAIMS];
    dt_tenant *tenants[DT_QUOTA_CLAIMS];
    size_t k = 0;
    dt_status status = DT_OK;
    atomic_store(&q->used, false);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        if (dt_meter_take_usage(all[i]->meter, &rows[k])) {
            rows[k].token = dt_str(all[i]->name);
            tenants[k++] = all[i];
        }
        if (k == 0 || (k < DT_QUOTA_CLAIMS && i + 1 < n))
            continue;
        status = dt_store_usage_add(store, rows, k, dt_refclock_earliest_ms(q->env->ref), err);
        for (size_t j = 0; status != DT_OK && j < k; j++)
            dt_meter_put_usage(tenants[j]->meter, &rows[j]);
        k = 0;
    }
    return status;
}

static void release_all_tenants(dt_tenant **all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dt_tenant_release(all[i]);
    free(all);
}

dt_status dt_quotas_write_usage(dt_quotas *q, dt_store *store, struct dt_error *err)
{
    size_t n;
    dt_tenant **all = acquire_all_tenants(q, &n);
    dt_status status = write_usage(q, all, n, store, err);
    release_all_tenants(all, n);
    return status;
}

static void save_usage(dt_quotas *q, dt_store *store, dt_tenant **all, size_t n)
{
    struct dt_error err = {0};
    dt_status status = store ? write_usage(q, all, n, store, &err) : DT_UNAVAILABLE;
    const int64_t now_ms = dt_refclock_earliest_ms(q->env->ref);
    if (status == DT_OK && now_ms / DT_DAY_MS != q->expired_day) { /* removes old usage once a day */
        q->expired_day = now_ms / DT_DAY_MS;
        status = dt_store_usage_expire(store, now_ms, &err);
    }
    if (status == DT_OK)
        return;
    DT_LOG(DEBUG, "quotas", "the usage of tokens was not written to MySQL", DT_S("error", err.text));
    mark_quotas_used(q);
}

/* ---- the keeper ---- */

/* Runs the keeper (the chore that takes shares of quotas). Returns when it runs next. If its last transaction ended
 * less than APART_US ago, does nothing now. */
static int64_t tick_quotas(void *arg, void *context)
{
    dt_quotas *q = arg;
    dt_store *store = context;
    struct dt_error err = {0};
    size_t n;
    const int64_t now_us = dt_clock_mono_us(q->env->clock);
    if (now_us < q->again_us)
        return q->again_us;
    if (atomic_load(&q->used) && q->usage_us == INT64_MAX)
        q->usage_us = now_us + USAGE_US;
    const bool settles = atomic_exchange(&q->wanted, false) || now_us >= q->settle_us;
    if (settles || now_us >= q->usage_us) {
        dt_tenant **all = acquire_all_tenants(q, &n);
        /* If MySQL has closed the idle connection, the first ping fails and the second one reconnects. */
        dt_status status = dt_store_ping(store, &err);
        if (status != DT_OK)
            status = dt_store_ping(store, &err);
        if (status != DT_OK)
            store = NULL;
        if (settles) {
            q->settle_us = claim_all_shares(q, store, all, n) ? now_us + PERIOD_US : INT64_MAX;
            count_pending(q, store, all, n);
        }
        if (now_us >= q->usage_us) {
            q->usage_us = INT64_MAX;
            save_usage(q, store, all, n);
        }
        release_all_tenants(all, n);
    }
    q->again_us = dt_clock_mono_us(q->env->clock) + APART_US;
    return dt_earlier(q->settle_us, q->usage_us);
}

/* ---- start and end ---- */

dt_status dt_quotas_start(const struct dt_session_env *env, dt_chores *chores, dt_quotas **out, struct dt_error *err)
{
    uint64_t number = 0;
    dt_status status = DT_OK;
    *out = NULL;
    dt_quotas *q = calloc(1, sizeof(*q));
    if (!q)
        return dt_fail(err, DT_NOMEM, "no memory for quotas");
    q->env = env;
    q->apis = 1;
    q->settle_us = q->usage_us = INT64_MAX;
#define X(kind, name, words) q->defaults.v[DT_QUOTA_##kind] = env->config->quotas_##name;
    DT_QUOTA_MAP(X)
#undef X
    for (int i = 0; i < DT_QUOTAS; i++) {
        char labels[60];
        snprintf(labels, sizeof(labels), "quota=\"%s\"", dt_quota_name((enum dt_quota)i));
        q->refused[i] =
            dt_counter("duetime_api_quota_refused_total", "Requests and new jobs over a quota of their token.", labels);
    }
    pthread_mutex_init(&q->lock, NULL);
    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        status = dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    q->process = (int64_t)(number >> 1) | 1;
    if (status != DT_OK) {
        dt_quotas_free(q);
        return status;
    }
    q->keeper = (struct dt_chore){.name = "quotas", .tick = tick_quotas, .arg = q};
    dt_chores_add(chores, &q->keeper);
    *out = q;
    return DT_OK;
}

/* Stops the keeper (the chore that takes shares of quotas), and writes the remaining usage on the calling thread. */
void dt_quotas_stop(dt_quotas *q)
{
    struct dt_session session;
    struct dt_error err = {0};
    dt_chore_remove(&q->keeper);
    if (!atomic_load(&q->used) || dt_session_init(&session, q->env) != DT_OK)
        return;
    dt_status status = dt_session_begin(&session, &err);
    DT_THEN(status, dt_quotas_write_usage(q, session.store, &err));
    if (status != DT_OK)
        DT_LOG(DEBUG, "quotas", "the usage of tokens was not written to MySQL", DT_S("error", err.text));
    dt_session_end(&session);
    dt_session_clear(&session);
}

void dt_quotas_free(dt_quotas *q)
{
    if (!q)
        return;
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* ---- refusals ---- */

static int64_t clamp_i64(int64_t v, int64_t least, int64_t most)
{
    return v < least ? least : v > most ? most : v;
}

int64_t dt_refusals_add(struct dt_refusals *refusals, int64_t elements, int64_t now_us)
{
    int64_t paid_us = atomic_load(&refusals->paid_us);
    int64_t next_us;
    do {
        next_us = clamp_i64(paid_us, now_us, INT64_MAX) + elements * ELEMENT_US;
        next_us = clamp_i64(next_us, now_us, now_us + BURST_US + DT_REFUSED_REST_US);
    } while (!atomic_compare_exchange_weak(&refusals->paid_us, &paid_us, next_us));
    return clamp_i64(next_us - now_us - BURST_US, 0, DT_REFUSED_REST_US);
}

void dt_over_problem(const struct dt_over *over, struct dt_problem *problem)
{
    *problem = (struct dt_problem){.type = DT_PROBLEM_QUOTA_EXCEEDED,
                                   .detail = dt_str(dt_quota_detail(over->quota)),
                                   .quota = dt_quota_name(over->quota),
                                   .limit = over->limit,
                                   .retry_after_ms = over->retry_after_ms};
}
