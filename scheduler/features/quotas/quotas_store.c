/* Implements quotas.h in MySQL. A process changes its shares in a transaction that locks the rows of all processes. So
 * the sum of the other shares, which it reads, is valid until its commit. */
#include <xxhash.h>

#include "base/assert.h"
#include "mysql/statements.h"
#include "quotas.h"
#include "store/store_internal.h"
#include "topic/counts.h"

#define COLUMNS       9 /* columns of put_quota_shares */
#define USAGE_COLUMNS 7 /* columns of add_usage */
/* longer than a heartbeat is ever late, so that a process does not believe by mistake that it is the only one */
#define APIS_FRESH_MS 15000

struct sums {
    int64_t demand[DT_QUOTA_RATES], share[DT_QUOTA_RATES]; /* sums over all other processes whose shares are valid */
    bool locked, mine;                                     /* locked: the row of process 0 exists and was locked; mine:
                                                            * this process has a row */
};

struct settling {
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

static dt_status read_quota_share(void *arg)
{
    struct settling *s = arg;
    const dt_db *db = s->db;
    const int64_t token = dt_db_i64(db, 0);
    const int64_t process = dt_db_i64(db, 1);
    size_t at = 0;
    while (at < s->n && s->claims[at].token != token)
        at++;
    if (at == s->n)
        return DT_OK;
    struct sums *sums = &s->sums[at];
    struct dt_quota_claim *mine = &s->claims[at];
    if (process == 0) {
        sums->locked = true;
    } else if (process == s->process) {
        sums->mine = true;
        mine->jobs_left = dt_db_i64(db, 9);
        mine->left_at_ms = dt_db_i64(db, 10);
        mine->pending_left = dt_db_i64(db, 11);
        mine->count_at_ms = dt_db_i64(db, 12);
    } else if (dt_db_i64(db, 2) > s->now_ms) { /* a share of another process, if it is valid */
        for (unsigned i = 0; i < DT_QUOTA_RATES; i++) {
            sums->demand[i] += dt_db_i64(db, 3 + 2 * i);
            sums->share[i] += dt_db_i64(db, 4 + 2 * i);
        }
    }
    return DT_OK;
}

static dt_status lock_shares(struct settling *s, struct dt_error *err)
{
    int64_t tokens[DT_QUOTA_CLAIMS];
    memset(s->sums, 0, sizeof(s->sums));
    for (size_t i = 0; i < s->n; i++)
        tokens[i] = s->claims[i].token;
    return dt_id_in_read(s->db, &dt_sql_lock_quota_shares, DT_NO_PARAMS, DT_IDS(tokens, s->n), read_quota_share, s,
                         err);
}

static dt_status write_shares(struct settling *s, struct dt_error *err)
{
    struct dt_param rows[DT_QUOTA_CLAIMS * COLUMNS];
    struct dt_param *row = rows;
    for (size_t i = 0; i < s->n; i++) {
        struct dt_quota_claim *claim = &s->claims[i];
        const struct sums *sums = &s->sums[i];
        row = dt_params_add(
            row, DT_PARAMS(DT_P_INT(claim->token), DT_P_INT(s->process), DT_P_INT(s->now_ms + DT_QUOTA_LEASE_MS)));
        for (int k = 0; k < DT_QUOTA_RATES; k++) {
            const int64_t share = dt_quota_share(claim->demand[k], sums->demand[k], sums->share[k]);
            claim->share[k] = share < claim->most[k] ? share : claim->most[k];
            claim->alone[k] = sums->share[k] == 0;
            *row++ = DT_P_INT(claim->demand[k]);
            *row++ = DT_P_INT(claim->share[k]);
        }
    }
    dt_assert_cmp(row - rows, ==, s->n * COLUMNS);
    return dt_db_run_many(s->db, dt_sql_put_quota_shares, (struct dt_param_rows){rows, COLUMNS, s->n}, NULL, err);
}

static dt_status settle_shares(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct settling *s = arg;
    bool complete = true;
    dt_assert_cmp(s->n, <=, DT_QUOTA_CLAIMS);
    s->db = db;
    s->now_ms = now_ms;
    dt_status status = lock_shares(s, err);
    /* If the row of process 0 is missing, inserts it, and then locks and reads all rows again: while it was missing,
     * another process may have changed the values that were read. */
    for (size_t i = 0; status == DT_OK && i < s->n; i++) {
        if (s->sums[i].locked)
            continue;
        complete = false;
        status = dt_db_run(db, dt_sql_insert_quota_lock, DT_PARAMS(DT_P_INT(s->claims[i].token)), NULL, err);
    }
    if (status == DT_OK && !complete)
        status = lock_shares(s, err);
    /* A process without a row of its own has just started; it deletes the expired shares of other processes. */
    for (size_t i = 0; status == DT_OK && i < s->n; i++)
        if (!s->sums[i].mine)
            status = dt_db_run(db, dt_sql_delete_old_quota_shares,
                               DT_PARAMS(DT_P_INT(s->claims[i].token), DT_P_INT(now_ms)), NULL, err);
    return status == DT_OK ? write_shares(s, err) : status;
}

dt_status dt_quota_settle_in_txn(dt_db *db, int64_t now_ms, int64_t process, struct dt_quota_claim *claims, size_t n,
                                 struct dt_error *err)
{
    struct settling s = {.process = process, .claims = claims, .n = n};
    return settle_shares(&s, db, now_ms, err);
}

dt_status dt_store_quota_settle(dt_store *store, int64_t process, struct dt_quota_claim *claims, size_t n,
                                struct dt_error *err)
{
    struct settling s = {.process = process, .claims = claims, .n = n < DT_QUOTA_CLAIMS ? n : DT_QUOTA_CLAIMS};
    return dt_store_commit_work(store, NULL, settle_shares, &s, err);
}

dt_status dt_store_quota_apis(dt_store *store, int64_t *n, struct dt_error *err)
{
    int64_t count = 0;
    dt_status status = dt_store_number(store, dt_sql_count_apis, DT_PARAMS(DT_P_INT(APIS_FRESH_MS)), &count, err);
    if (status == DT_OK)
        *n = count > 1 ? count : 1;
    return status;
}

static int64_t day_of_time(int64_t now_ms)
{
    return now_ms - now_ms % DT_DAY_MS;
}

dt_status dt_store_usage_add(dt_store *store, const struct dt_usage *rows, size_t n, int64_t now_ms,
                             struct dt_error *err)
{
    dt_db *db = NULL;
    struct dt_param *params = calloc(n ? n : 1, USAGE_COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    dt_status status = params ? dt_store_db(store, &db, err) : dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; params && i < n; i++) {
        const struct dt_usage *u = &rows[i];
        p = dt_params_add(p, DT_PARAMS(DT_P_INT(day_of_time(now_ms)), DT_P_STR(u->token), DT_P_INT(u->requests),
                                       DT_P_INT(u->requests_refused), DT_P_INT(u->jobs), DT_P_INT(u->jobs_refused),
                                       DT_P_INT(u->payload_bytes)));
    }
    if (status == DT_OK && n > 0)
        status = dt_db_run_many(db, dt_sql_add_usage, (struct dt_param_rows){params, USAGE_COLUMNS, n}, NULL, err);
    free(params);
    return status;
}

dt_status dt_store_usage_expire(dt_store *store, int64_t now_ms, struct dt_error *err)
{
    const int64_t before_ms = day_of_time(now_ms) - DT_USAGE_KEPT_DAYS * DT_DAY_MS;
    return dt_store_run(store, dt_sql_delete_old_usage, DT_PARAMS(DT_P_INT(before_ms)), NULL, err);
}

static dt_status read_usage(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_usage *u = row;
    *u = (struct dt_usage){dt_arena_copy(arena, dt_db_bytes(db, 0)),
                           dt_db_i64(db, 1),
                           dt_db_i64(db, 2),
                           dt_db_i64(db, 3),
                           dt_db_i64(db, 4),
                           dt_db_i64(db, 5)};
    return u->token.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_usage(dt_store *store, int64_t from_ms, struct dt_arena *arena, struct dt_usage **out, size_t *n,
                         struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_usage, DT_PARAMS(DT_P_INT(from_ms)), arena, DT_ROWS(out, n, read_usage),
                         err);
}

static dt_status read_pending(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_topic_pending *p = row;
    *p = (struct dt_topic_pending){dt_arena_copy(arena, dt_db_bytes(db, 0)), dt_db_i64(db, 1)};
    return p->topic.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_pending(dt_store *store, struct dt_arena *arena, struct dt_topic_pending **out, size_t *n,
                           struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_pending_of_topics, DT_NO_PARAMS, arena, DT_ROWS(out, n, read_pending),
                         err);
}
