/*
 * See quotas.h. Owns the transaction in which a process changes its shares: the rows of all processes are locked, so
 * the sum that is seen is the sum that holds until the commit.
 */
#include "store/quotas/quotas.h"

#include <xxhash.h>

#include "store/sql/statements.h"
#include "store/store_internal.h"

#define COLUMNS       9     /* of put_quota_shares */
#define APIS_FRESH_MS 15000 /* nobody takes himself for alone because others' heartbeats are late */

struct sums {
    int64_t demand[DT_QUOTA_RATES], share[DT_QUOTA_RATES]; /* of others, as far as they hold */
    bool locked, mine;                                     /* there is a row to lock; there is one of this process */
};

struct settle {
    int64_t process, now_ms;
    struct dt_quota_claim *claims;
    struct sums sums[DT_QUOTA_CLAIMS];
    size_t n;
    dt_db *db;
};

int64_t dt_quota_token_id(struct dt_str name)
{
    return (int64_t)(XXH3_64bits(name.p, name.n) >> 1);
}

/* ---- reading ---- */

static struct sums *sums_of(struct settle *s, int64_t token)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->claims[i].token == token)
            return &s->sums[i];
    return NULL;
}

static void add_holder(struct settle *s, struct sums *sums)
{
    if (dt_db_i64(s->db, 2) <= s->now_ms)
        return;
    for (unsigned i = 0; i < DT_QUOTA_RATES; i++) {
        sums->demand[i] += dt_db_i64(s->db, 3 + 2 * i);
        sums->share[i] += dt_db_i64(s->db, 4 + 2 * i);
    }
}

static dt_status read_share(void *arg)
{
    struct settle *s = arg;
    struct sums *sums = sums_of(s, dt_db_i64(s->db, 0));
    const int64_t process = dt_db_i64(s->db, 1);
    if (!sums)
        return DT_OK;
    if (process == 0)
        sums->locked = true;
    else if (process == s->process) {
        struct dt_quota_claim *mine = &s->claims[sums - s->sums];
        sums->mine = true;
        mine->jobs_left = dt_db_i64(s->db, 9);
        mine->left_at_ms = dt_db_i64(s->db, 10);
        mine->pending_left = dt_db_i64(s->db, 11);
        mine->count_at_ms = dt_db_i64(s->db, 12);
    } else
        add_holder(s, sums);
    return DT_OK;
}

static dt_status lock_shares(struct settle *s, struct dt_error *err)
{
    int64_t tokens[DT_QUOTA_CLAIMS];
    memset(s->sums, 0, sizeof(s->sums));
    for (size_t i = 0; i < s->n; i++)
        tokens[i] = s->claims[i].token;
    return dt_id_in_read(s->db, &dt_sql_lock_quota_shares, DT_NO_PARAMS, DT_IDS(tokens, s->n), read_share, s, err);
}

/* Makes the rows that are locked first, where they are missing, and locks all once more: what was read without them may
 * be what another process changes. */
static dt_status lock_surely(struct settle *s, struct dt_error *err)
{
    bool complete = true;
    dt_status status = lock_shares(s, err);
    for (size_t i = 0; status == DT_OK && i < s->n; i++) {
        if (s->sums[i].locked)
            continue;
        complete = false;
        status = dt_db_run(s->db, dt_sql_insert_quota_lock, DT_PARAMS(DT_P_INT(s->claims[i].token)), NULL, err);
    }
    return status == DT_OK && !complete ? lock_shares(s, err) : status;
}

/* ---- writing ---- */

static void share_out(struct dt_quota_claim *claim, const struct sums *sums)
{
    for (int i = 0; i < DT_QUOTA_RATES; i++) {
        int64_t share = dt_quota_share(claim->demand[i], sums->demand[i], sums->share[i]);
        claim->share[i] = share < claim->most[i] ? share : claim->most[i];
        claim->alone[i] = sums->share[i] == 0;
    }
}

static void fill_row(const struct settle *s, const struct dt_quota_claim *claim, struct dt_param row[COLUMNS])
{
    *row++ = DT_P_INT(claim->token);
    *row++ = DT_P_INT(s->process);
    *row++ = DT_P_INT(s->now_ms + DT_QUOTA_LEASE_MS);
    for (int i = 0; i < DT_QUOTA_RATES; i++) {
        *row++ = DT_P_INT(claim->demand[i]);
        *row++ = DT_P_INT(claim->share[i]);
    }
}

static dt_status put_shares(struct settle *s, struct dt_error *err)
{
    struct dt_param rows[DT_QUOTA_CLAIMS * COLUMNS];
    for (size_t i = 0; i < s->n; i++) {
        share_out(&s->claims[i], &s->sums[i]);
        fill_row(s, &s->claims[i], &rows[i * COLUMNS]);
    }
    return dt_db_run_many(s->db, dt_sql_put_quota_shares, (struct dt_param_rows){rows, COLUMNS, s->n}, NULL, err);
}

/* A process that has no row yet clears up behind those that are gone. */
static dt_status forget_old(const struct settle *s, struct dt_error *err)
{
    dt_status status = DT_OK;
    for (size_t i = 0; status == DT_OK && i < s->n; i++)
        if (!s->sums[i].mine)
            status = dt_db_run(s->db, dt_sql_delete_old_quota_shares,
                               DT_PARAMS(DT_P_INT(s->claims[i].token), DT_P_INT(s->now_ms)), NULL, err);
    return status;
}

static dt_status settle(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct settle *s = arg;
    s->db = db;
    s->now_ms = now_ms;
    dt_status status = lock_surely(s, err);
    if (status == DT_OK)
        status = forget_old(s, err);
    return status == DT_OK ? put_shares(s, err) : status;
}

dt_status dt_quota_settle_in_txn(dt_db *db, int64_t now_ms, int64_t process, struct dt_quota_claim *claims, size_t n,
                                 struct dt_error *err)
{
    struct settle s = {.process = process, .claims = claims, .n = n};
    return settle(&s, db, now_ms, err);
}

dt_status dt_store_quota_settle(dt_store *store, int64_t process, struct dt_quota_claim *claims, size_t n,
                                struct dt_error *err)
{
    struct settle s = {.process = process, .claims = claims, .n = n < DT_QUOTA_CLAIMS ? n : DT_QUOTA_CLAIMS};
    return dt_store_commit_work(store, NULL, settle, &s, err);
}

static dt_status read_count(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    (void)arena, (void)arg;
    *(int64_t *)row = dt_db_i64(db, 0);
    return DT_OK;
}

dt_status dt_store_quota_apis(dt_store *store, int64_t *n, struct dt_error *err)
{
    struct dt_arena arena;
    struct dt_rows rows = {.row_bytes = sizeof(*n), .read = read_count};
    dt_arena_init(&arena);
    dt_status status = dt_store_read(store, dt_sql_count_apis, DT_PARAMS(DT_P_INT(APIS_FRESH_MS)), &arena, &rows, err);
    if (status == DT_OK)
        *n = rows.n && *(int64_t *)rows.v > 1 ? *(int64_t *)rows.v : 1;
    dt_arena_clear(&arena);
    return status;
}
