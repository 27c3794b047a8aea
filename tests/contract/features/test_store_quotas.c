/* Shares of quotas on a real server: what two processes hold together, and what becomes of what one leaves. */
#include "features/quotas/quotas.h"
#include "support/store_suite.h"

STORE_SUITE("quotas", 0)

#define QUOTAS_TEST(name) TEST_WITH(name, open_store, close_store)

#define TOKENS 3
#define ROUNDS 40

static struct dt_quota_claim claim_of(int64_t token, int64_t demand)
{
    struct dt_quota_claim claim = {.token = token};
    for (int i = 0; i < DT_QUOTA_RATES; i++) {
        claim.demand[i] = demand;
        claim.most[i] = DT_QUOTA_WHOLE;
    }
    return claim;
}

QUOTAS_TEST(the_shares_of_two_processes_are_never_more_than_the_whole)
{
    struct dt_quota_claim x = claim_of(5, 30);
    struct dt_quota_claim y = claim_of(5, 10);
    OK(dt_store_quota_settle(store, 1, &x, 1, &err));
    assert_int_equal(x.share[DT_QUOTA_JOBS], DT_QUOTA_WHOLE);
    assert_true(x.alone[DT_QUOTA_JOBS]);
    OK(dt_store_quota_settle(store, 2, &y, 1, &err));
    assert_int_equal(y.share[DT_QUOTA_JOBS], 0);
    assert_false(y.alone[DT_QUOTA_JOBS]);
    OK(dt_store_quota_settle(store, 1, &x, 1, &err));
    assert_int_equal(x.share[DT_QUOTA_JOBS], DT_QUOTA_WHOLE * 3 / 4);
    OK(dt_store_quota_settle(store, 2, &y, 1, &err));
    assert_int_equal(y.share[DT_QUOTA_JOBS], DT_QUOTA_WHOLE / 4);
    x = claim_of(5, 0);
    OK(dt_store_quota_settle(store, 1, &x, 1, &err));
    OK(dt_store_quota_settle(store, 2, &y, 1, &err));
    assert_int_equal(y.share[DT_QUOTA_JOBS], DT_QUOTA_WHOLE);
    struct dt_quota_claim other = claim_of(6, 1);
    OK(dt_store_quota_settle(store, 1, &other, 1, &err));
    assert_int_equal(other.share[DT_QUOTA_BYTES], DT_QUOTA_WHOLE);
}

struct process {
    dt_store *store;
    int64_t number;
    _Atomic int *running;
};

static void *settle_often(void *arg)
{
    struct process *p = arg;
    struct dt_error why = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct dt_quota_claim claims[TOKENS];
        for (int t = 0; t < TOKENS; t++)
            claims[t] = claim_of(t + 1, (p->number * 7 + round * 3 + t) % 11);
        MYSQL_FIXTURE_OK(dt_store_quota_settle(p->store, p->number, claims, TOKENS, &why), &why);
    }
    (*p->running)--;
    return NULL;
}

/* The most that any token's processes hold together, in one look. */
static int64_t most_held(void)
{
    return sql_number("SELECT COALESCE(MAX(s.held), 0) FROM (SELECT CAST(SUM(jobs_share) AS SIGNED) held FROM "
                      "quota_shares GROUP BY token) s");
}

QUOTAS_TEST(processes_that_settle_at_the_same_time_hold_no_more_than_the_whole)
{
    struct process processes[3];
    pthread_t threads[3];
    _Atomic int running = 3;
    for (int i = 0; i < 3; i++) {
        processes[i] = (struct process){mysql_fixture_store(), i + 1, &running};
        threads[i] = start_thread(settle_often, &processes[i]);
    }
    do
        assert_in_range(most_held(), 0, DT_QUOTA_WHOLE);
    while (running > 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        dt_store_free(processes[i].store);
    }
}

QUOTAS_TEST(a_share_that_is_not_renewed_expires_and_its_row_is_deleted)
{
    struct dt_quota_claim x = claim_of(5, 30);
    OK(dt_store_quota_settle(store, 1, &x, 1, &err));
    run_sql("UPDATE quota_shares SET until = until - 5000 WHERE process = 1");
    OK(dt_store_quota_settle(store, 2, &x, 1, &err));
    assert_int_equal(x.share[DT_QUOTA_REQUESTS], DT_QUOTA_WHOLE);
    assert_sql_number(0, "SELECT COUNT(*) FROM quota_shares WHERE process = 1");
    int64_t apis = 0;
    OK(dt_store_quota_apis(store, &apis, &err));
    assert_int_equal(apis, 1);
}

/* Notes 10 bytes and a job of the token's at that time. */
static void use(const char *token, int64_t now_ms)
{
    const struct dt_usage row = {.token = dt_str(token), .requests = 2, .jobs = 1, .payload_bytes = 10};
    OK(dt_store_usage_add(store, &row, 1, now_ms, &err));
}

QUOTAS_TEST(usage_is_summed_by_day_and_deleted_after_its_retention)
{
    const int64_t today_ms = 1000 * DT_DAY_MS, now_ms = today_ms + 5000;
    const int64_t last_kept_ms = today_ms - DT_USAGE_KEPT_DAYS * DT_DAY_MS;
    struct dt_usage *rows;
    size_t n;
    use("a", now_ms);
    use("a", today_ms + DT_DAY_MS - 1);
    use("a", last_kept_ms);
    use("a", last_kept_ms - 1);
    use("b", last_kept_ms - 100 * DT_DAY_MS);
    OK(dt_store_usage(store, today_ms, &arena, &rows, &n, &err));
    assert_int_equal(n, 1);
    assert_true(dt_str_is(rows[0].token, "a"));
    assert_members(rows[0], (requests, 4), (jobs, 2), (payload_bytes, 20));
    OK(dt_store_usage_expire(store, now_ms, &err));
    assert_sql_number(2, "SELECT COUNT(*) FROM token_usage");
    assert_sql_number(last_kept_ms, "SELECT MIN(day) FROM token_usage");
}
