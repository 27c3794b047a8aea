/*
 * The quotas that fires spend: jobs_per_second and pending_jobs. A fire has no token. So it spends the quota that the
 * owner of its topic (topic/owners.h) has by its tokens; if the tokens have different quotas, the largest. If no token
 * has a prefix of the topic, the fire spends the quota of the tokens for all topics, except administrators' tokens.
 *
 * All makers of fires together have one share of a token's quota, like an API process (features/quotas/quotas.h). The
 * row of this share also has what is left of it. dt_fire_quotas_open locks the row until the commit, so two
 * transactions never spend the same part of the share.
 */

#include "base/assert.h"
#include "base/clock.h"
#include "features/tokens/tokens.h"
#include "fire_batch.h"
#include "job/change/jobs_txn.h"
#include "mysql/statements.h"
#include "topic/owners.h"

#define MILLI 1000
/* The demand of fires is at least 1/LEAST_PART of the quota, even if the token's clients demand more. */
#define LEAST_PART    20
#define COUNT_MS      INT64_C(1000) /* pause between two counts of pending jobs */
#define COUNT_PART    20            /* counting pending jobs takes at most 1/COUNT_PART of the time */
#define WAIT_LEAST_MS INT64_C(100)
#define WAIT_MOST_MS  INT64_C(3000) /* less than DT_QUOTA_LEASE_MS, so that the share still exists at the next check */

/* The owner number that stands for the tokens for all topics. It is below the numbers of all owners. */
#define ALL_TOPICS 0
#define NO_TOPICS  (-1)

static dt_status read_quota_token(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    const struct dt_config *config = arg;
    struct dt_quota_limits of_token = dt_quota_all(0);
    struct dt_quota_limits defaults = dt_quota_all(0);
    struct dt_fire_quota *q = row;
    struct dt_owners owners = {0};
    bool copied = true;
    of_token.v[DT_QUOTA_JOBS] = dt_db_is_null(db, 2) ? DT_QUOTA_UNSET : dt_db_i64(db, 2);
    of_token.v[DT_QUOTA_PENDING] = dt_db_is_null(db, 3) ? DT_QUOTA_UNSET : dt_db_i64(db, 3);
    defaults.v[DT_QUOTA_JOBS] = config->quotas_jobs_per_second;
    defaults.v[DT_QUOTA_PENDING] = config->quotas_pending_jobs;
    of_token = dt_quota_effective(&of_token, &defaults);
    *q = (struct dt_fire_quota){.per_second = of_token.v[DT_QUOTA_JOBS],
                                .pending = of_token.v[DT_QUOTA_PENDING],
                                .token = dt_quota_token_id(dt_db_bytes(db, 0)),
                                .topics = dt_store_text(db, 1, arena, &copied)};
    dt_status status = copied ? dt_owners_add(&owners, q->topics, arena) : DT_NOMEM;
    const struct dt_str scopes = dt_db_bytes(db, 4);
    bool spends_for_all = dt_str_is(q->topics, DT_TOPICS_ALL);
    for (struct dt_str rest = scopes; rest.n;)
        spends_for_all &= !dt_str_is(dt_str_next_element(&rest), "admin");
    q->owner = !dt_scopes_make_jobs(scopes) ? NO_TOPICS
               : owners.n                   ? owners.v[0].owner
               : spends_for_all             ? ALL_TOPICS
                                            : NO_TOPICS;
    return status;
}

static int compare_quotas_by_owner(const void *a, const void *b)
{
    const struct dt_fire_quota *x = a;
    const struct dt_fire_quota *y = b;
    return x->owner != y->owner ? DT_ORDER(x->owner, y->owner) : DT_ORDER(x->token, y->token);
}

static dt_status read_all_quotas(struct dt_fire_quotas *quotas, dt_db *db, dt_store *store, struct dt_arena *arena,
                                 struct dt_error *err)
{
    struct dt_config config = *dt_store_config(store);
    struct dt_rows rows = {.row_bytes = sizeof(*quotas->v), .read = read_quota_token, .arg = &config};
    dt_status status = dt_db_query(db, dt_sql_select_fire_quotas, DT_NO_PARAMS, err);
    if (status == DT_FORBIDDEN) /* until the account may read the tokens, fires spend no quota */
        return DT_OK;
    DT_THEN(status, dt_store_read_rows(db, arena, &rows, err));
    struct dt_fire_quota *v = rows.v;
    if (status != DT_OK || rows.n == 0)
        return status;
    qsort(v, rows.n, sizeof(*v), compare_quotas_by_owner);
    size_t n = 0;
    for (size_t i = 0; i < rows.n; i++) {
        if (n == 0 || v[n - 1].owner != v[i].owner) {
            v[n++] = v[i];
            continue;
        }
        /* If an owner has several tokens, its quota is the largest of theirs; if one of them has no quota, there is no
         * limit. */
        struct dt_fire_quota *q = &v[n - 1];
        if (q->per_second && (!v[i].per_second || v[i].per_second > q->per_second)) {
            q->per_second = v[i].per_second;
            q->token = v[i].token;
        }
        if (q->pending && (!v[i].pending || v[i].pending > q->pending))
            q->pending = v[i].pending;
    }
    quotas->v = v;
    quotas->n = n;
    return DT_OK;
}

static struct dt_fire_quota *find_quota_of_owner(const struct dt_fire_quotas *quotas, int64_t owner)
{
    const struct dt_fire_quota key = {.owner = owner, .token = -1};
    size_t begin = 0;
    size_t end = quotas->n;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (compare_quotas_by_owner(&quotas->v[middle], &key) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < quotas->n && quotas->v[begin].owner == owner ? &quotas->v[begin] : NULL;
}

static struct dt_fire_quota *find_quota(const struct dt_fire_quotas *quotas, int64_t owner)
{
    struct dt_fire_quota *q = find_quota_of_owner(quotas, owner);
    if (!q)
        q = find_quota_of_owner(quotas, ALL_TOPICS);
    return q && (q->per_second || q->pending) ? q : NULL;
}

struct dt_fire_quota *dt_fire_quotas_find(const struct dt_fire_quotas *quotas, int64_t owner)
{
    struct dt_fire_quota *q = find_quota(quotas, owner);
    return q && q->open ? q : NULL;
}

/* Returns whether another prefix in the list is a prefix of this one. If the list has the same prefix twice, that
 * counts for one of the two. */
static bool is_covered_by_other_prefix(struct dt_str prefix, struct dt_str topics)
{
    while (topics.n > 0) {
        struct dt_str other = dt_str_next_element(&topics);
        if (other.n &&
            (other.n < prefix.n ? dt_str_begins(prefix, other) : other.p < prefix.p && dt_str_eq(other, prefix)))
            return true;
    }
    return false;
}

/* Computes the quota's token bucket at now_ms, and counts pending jobs if that is due. The capacity of the bucket is
 * what the share adds in a second, but at least one job. The bucket is full at first. */
static dt_status prepare_quota(struct dt_fire_quota *q, const struct dt_quota_claim *claim, dt_db *db, int64_t now_ms,
                               struct dt_arena *arena, struct dt_error *err)
{
    const int64_t past_ms = dt_earlier(dt_later(now_ms - claim->left_at_ms, 0), 3600 * MILLI);
    q->open = true;
    q->rate_milli = (int64_t)((double)q->per_second * MILLI * (double)claim->share[DT_QUOTA_JOBS] / DT_QUOTA_WHOLE);
    const int64_t most = dt_later(q->rate_milli, MILLI);
    const int64_t first = claim->share[DT_QUOTA_JOBS] ? most : 0;
    q->left_milli =
        claim->left_at_ms ? dt_earlier(dt_later(claim->jobs_left, 0) + q->rate_milli * past_ms / MILLI, most) : first;
    q->pending_left = claim->pending_left;
    q->count_at_ms = claim->count_at_ms;
    const bool counts =
        q->pending && (claim->count_at_ms <= now_ms || claim->left_at_ms > now_ms || !claim->left_at_ms);
    if (!counts)
        return DT_OK;
    const int64_t begun_us = dt_clock_mono_us(dt_clock_system());
    struct dt_str topics = q->topics;
    int64_t jobs = 0;
    dt_status status = DT_OK;
    while (status == DT_OK && topics.n > 0) {
        struct dt_str prefix = dt_str_next_element(&topics);
        if (dt_str_is(prefix, DT_TOPICS_ALL))
            prefix.n = 0;
        else if (prefix.n == 0 || is_covered_by_other_prefix(prefix, q->topics))
            continue;
        const struct dt_str above = dt_topic_above_prefix(arena, prefix);
        int64_t n = 0;
        status = above.p ? dt_db_read_number(db, dt_sql_sum_pending, DT_PARAMS(DT_P_STR(prefix), DT_P_STR(above)), NULL,
                                             &n, err)
                         : dt_fail(err, DT_NOMEM, "out of memory");
        jobs += n;
    }
    const int64_t took_ms = (dt_clock_mono_us(dt_clock_system()) - begun_us) / 1000;
    q->pending_left = dt_later(q->pending - dt_later(jobs, 0), 0);
    q->count_at_ms = now_ms + dt_later(COUNT_MS, COUNT_PART * took_ms);
    return status;
}

static int compare_claims_by_token(const void *a, const void *b)
{
    const struct dt_quota_claim *x = a;
    const struct dt_quota_claim *y = b;
    return DT_ORDER(x->token, y->token);
}

dt_status dt_fire_quotas_open(struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, dt_store *store,
                              struct dt_arena *arena, const int64_t *owners, size_t n, struct dt_error *err)
{
    struct dt_quota_claim claims[DT_QUOTA_CLAIMS];
    size_t n_claims = 0;
    dt_status status = quotas->read ? DT_OK : read_all_quotas(quotas, db, store, arena, err);
    quotas->read = true;
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        const struct dt_fire_quota *q = find_quota(quotas, owners[i]);
        size_t k = 0;
        if (!q || q->open)
            continue;
        while (k < n_claims && claims[k].token != q->token)
            k++;
        if (k == DT_QUOTA_CLAIMS)
            continue;
        if (k == n_claims)
            claims[n_claims++] =
                (struct dt_quota_claim){.token = q->token, .demand[DT_QUOTA_JOBS] = q->per_second / LEAST_PART};
        claims[k].most[DT_QUOTA_JOBS] = DT_QUOTA_WHOLE;
        claims[k].demand[DT_QUOTA_JOBS]++;
    }
    if (status != DT_OK || n_claims == 0)
        return status;
    qsort(claims, n_claims, sizeof(*claims), compare_claims_by_token);
    status = dt_quota_settle_in_txn(db, now_ms, DT_QUOTA_FIRES, claims, n_claims, err);
    for (size_t i = 0; status == DT_OK && i < n_claims; i++) {
        struct dt_fire_quota *q = NULL;
        for (size_t k = 0; k < n && (!q || q->token != claims[i].token); k++)
            q = find_quota(quotas, owners[k]);
        dt_assert(q && q->token == claims[i].token);
        status = prepare_quota(q, &claims[i], db, now_ms, arena, err);
    }
    return status;
}

size_t dt_fire_quota_room(const struct dt_fire_quota *q)
{
    int64_t room = INT64_MAX;
    if (q && q->per_second)
        room = q->left_milli / MILLI;
    if (q && q->pending)
        room = dt_earlier(room, q->pending_left);
    return (size_t)dt_later(room, 0);
}

void dt_fire_quota_spend(struct dt_fire_quota *q)
{
    if (!q)
        return;
    q->left_milli -= MILLI;
    q->pending_left--;
    dt_assert(!q->per_second || q->left_milli >= 0);
    dt_assert(!q->pending || q->pending_left >= 0);
}

int64_t dt_fire_quota_wait_ms(struct dt_fire_quota *q, const char **why)
{
    const bool by_rate = q->per_second && q->left_milli < MILLI;
    *why = dt_quota_detail(by_rate ? DT_QUOTA_JOBS : DT_QUOTA_PENDING);
    const int64_t rate_milli = by_rate && q->rate_milli > 0 ? q->rate_milli : (int64_t)10 * MILLI;
    const int64_t first_ms = by_rate ? 0 : COUNT_MS;
    const int64_t wait_ms = first_ms + ++q->waiting * MILLI * MILLI / rate_milli;
    return dt_earlier(dt_later(wait_ms, WAIT_LEAST_MS), WAIT_MOST_MS);
}

dt_status dt_fire_quotas_write(const struct dt_fire_quotas *quotas, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    dt_status status = DT_OK;
    for (size_t i = 0; status == DT_OK && i < quotas->n; i++) {
        const struct dt_fire_quota *q = &quotas->v[i];
        if (q->open)
            status = dt_db_run(db, dt_sql_put_fire_quota,
                               DT_PARAMS(DT_P_INT(dt_later(q->left_milli, 0)), DT_P_INT(now_ms),
                                         DT_P_INT(dt_later(q->pending_left, 0)), DT_P_INT(q->count_at_ms),
                                         DT_P_INT(q->token), DT_P_INT(DT_QUOTA_FIRES)),
                               NULL, err);
    }
    return status;
}
