/* What a token's meter lets pass, alone and beside the meters of other processes; the clock is the test's. */

#include "support/suite.h"

#include "request/meter.h"

#define SECOND INT64_C(1000000)
#define METERS 3

struct world {
    dt_meter *meters[METERS];
    struct dt_quota_claim rows[METERS]; /* as MySQL would have them */
    int64_t until_us[METERS];
    int64_t now_us;
    size_t n;
};

static void set_jobs(dt_meter *meter, int64_t jobs, int64_t now_us)
{
    struct dt_quota_limits limits = {{0}};
    limits.v[DT_QUOTA_JOBS] = jobs;
    dt_meter_set(meter, &limits, now_us);
}

static void make_world(struct world *w, size_t n, int64_t jobs)
{
    memset(w, 0, sizeof(*w));
    w->n = n;
    w->now_us = 100 * SECOND;
    for (size_t i = 0; i < n; i++) {
        w->meters[i] = dt_meter_new();
        dt_meter_set_apis(w->meters[i], (int64_t)n);
        set_jobs(w->meters[i], jobs, w->now_us);
    }
}

static void drop_world(struct world *w)
{
    for (size_t i = 0; i < w->n; i++)
        dt_meter_free(w->meters[i]);
}

/* As quotas_store.c does it. */
static void settle(struct world *w, size_t i)
{
    struct dt_quota_claim *claim = &w->rows[i];
    bool fresh = false;
    if (!dt_meter_wish(w->meters[i], claim, &fresh, w->now_us))
        return;
    for (int k = 0; k < DT_QUOTA_RATES; k++) {
        int64_t demand = 0;
        int64_t share = 0;
        for (size_t j = 0; j < w->n; j++)
            if (j != i && w->until_us[j] > w->now_us) {
                demand += w->rows[j].demand[k];
                share += w->rows[j].share[k];
            }
        claim->share[k] = dt_quota_share(claim->demand[k], demand, share);
        if (claim->share[k] > claim->most[k])
            claim->share[k] = claim->most[k];
        claim->alone[k] = share == 0;
        assert_true(share + claim->share[k] <= DT_QUOTA_WHOLE);
    }
    w->until_us[i] = w->now_us + DT_QUOTA_LEASE_MS * 1000;
    dt_meter_settled(w->meters[i], claim, w->now_us + DT_QUOTA_BELIEF_US, w->now_us);
}

static int64_t ask(struct world *w, size_t i, int64_t n)
{
    struct dt_over over;
    bool wake;
    int64_t passed = 0;
    for (int64_t k = 0; k < n; k++)
        passed += dt_meter_job(w->meters[i], 10, w->now_us, &over, &wake);
    return passed;
}

/* Each meter is asked at its own rate for some seconds, in steps of 10 ms; all settle once a second, not together. */
static int64_t run(struct world *w, int64_t seconds, const int64_t rates[METERS], int64_t passed[METERS])
{
    int64_t all = 0;
    memset(passed, 0, METERS * sizeof(*passed));
    for (int64_t step = 0; step < seconds * 100; step++) {
        w->now_us += SECOND / 100;
        for (size_t i = 0; i < w->n; i++) {
            const int64_t due = rates[i] * (step + 1) / 100 - rates[i] * step / 100;
            const int64_t n = ask(w, i, due);
            passed[i] += n;
            all += n;
            if (step % 100 == (int64_t)(7 + 31 * i) % 100 || (step == 0 && rates[i] > 0))
                settle(w, i);
        }
    }
    return all;
}

TEST(without_limits_everything_passes_and_is_counted)
{
    struct dt_over over;
    struct dt_usage used;
    bool wake;
    dt_meter *meter = dt_meter_new();
    for (int i = 0; i < 1000; i++) {
        assert_true(dt_meter_request(meter, 5, &over, &wake));
        assert_false(wake);
    }
    assert_false(dt_meter_limits_jobs(meter));
    dt_meter_jobs_done(meter, &(struct dt_jobs_done){3, 30, 2, 20});
    assert_true(dt_meter_take_usage(meter, &used));
    assert_members(used, (requests, 1000), (jobs, 2), (payload_bytes, 20));
    assert_false(dt_meter_take_usage(meter, &used));
    dt_meter_free(meter);
}

TEST(a_single_process_has_exactly_the_whole_quota)
{
    struct world w;
    int64_t passed[METERS];
    make_world(&w, 1, 100);
    int64_t n = run(&w, 10, (const int64_t[METERS]){1000}, passed);
    assert_in_range(n, 990, 1100);
    drop_world(&w);
}

TEST(a_refusal_names_the_quota_and_when_to_retry)
{
    struct world w;
    struct dt_over over = {0};
    bool wake = false;
    make_world(&w, 1, 4);
    assert_int_equal(ask(&w, 0, 3), 3);
    settle(&w, 0);
    assert_int_equal(ask(&w, 0, 5), 1);
    assert_false(dt_meter_job(w.meters[0], 1, w.now_us, &over, &wake));
    assert_false(wake);
    assert_members(over, (quota, DT_QUOTA_JOBS), (limit, 4));
    assert_in_range(over.retry_after_ms, 200, 260);
    w.now_us += over.retry_after_ms * 1000;
    assert_int_equal(ask(&w, 0, 2), 1);
    drop_world(&w);
}

TEST(jobs_that_were_not_created_are_returned_to_the_quota)
{
    struct world w;
    make_world(&w, 1, 10);
    assert_int_equal(ask(&w, 0, 20), 10);
    dt_meter_jobs_done(w.meters[0], &(struct dt_jobs_done){10, 100, 4, 40});
    assert_int_equal(ask(&w, 0, 20), 6);
    drop_world(&w);
}

TEST(a_payload_larger_than_the_remaining_quota_is_admitted_as_a_debt)
{
    struct dt_quota_limits limits = {{0}};
    struct dt_over over;
    bool wake;
    dt_meter *meter = dt_meter_new();
    limits.v[DT_QUOTA_BYTES] = 1000;
    dt_meter_set(meter, &limits, SECOND);
    assert_true(dt_meter_job(meter, 3000, SECOND, &over, &wake));
    assert_false(dt_meter_job(meter, 1, 2 * SECOND, &over, &wake));
    assert_int_equal(over.quota, DT_QUOTA_BYTES);
    assert_true(dt_meter_job(meter, 1, 3 * SECOND + SECOND / 10, &over, &wake));
    dt_meter_free(meter);
}

TEST(processes_together_admit_the_quota_however_unequal_their_load)
{
    static const int64_t rates[][METERS] = {{500, 500, 500}, {1000, 10, 10}, {1000, 0, 0}, {70, 70, 10}, {0, 900, 300}};
    for (size_t k = 0; k < sizeof(rates) / sizeof(rates[0]); k++) {
        struct world w;
        int64_t passed[METERS];
        make_world(&w, METERS, 100);
        int64_t n = run(&w, 30, rates[k], passed);
        assert_in_range(n, 30 * 100 * 9 / 10, 32 * 100);
        drop_world(&w);
    }
}

TEST(an_unused_share_moves_to_other_processes_within_seconds)
{
    struct world w;
    int64_t passed[METERS];
    make_world(&w, 2, 100);
    run(&w, 10, (const int64_t[METERS]){300, 300}, passed);
    assert_in_range(passed[0], 400, 600);
    run(&w, 10, (const int64_t[METERS]){0, 300}, passed); /* demand is forgotten by halves */
    run(&w, 10, (const int64_t[METERS]){0, 300}, passed);
    assert_in_range(passed[1], 950, 1050);
    run(&w, 4, (const int64_t[METERS]){300, 300}, passed); /* and back */
    run(&w, 10, (const int64_t[METERS]){300, 300}, passed);
    assert_in_range(passed[0], 400, 600);
    drop_world(&w);
}

TEST(a_process_that_starts_while_another_runs_refuses_no_request_below_the_quota)
{
    struct world w;
    int64_t passed[METERS];
    make_world(&w, 2, 100);
    run(&w, 10, (const int64_t[METERS]){40, 0}, passed);
    assert_int_equal(passed[0], 400);
    run(&w, 10, (const int64_t[METERS]){40, 40}, passed);
    assert_int_equal(passed[0], 400);
    assert_int_equal(passed[1], 400);
    drop_world(&w);
}

TEST(a_share_that_is_not_renewed_becomes_an_equal_part)
{
    struct world w;
    int64_t passed[METERS];
    make_world(&w, 2, 100);
    run(&w, 10, (const int64_t[METERS]){1000, 0}, passed);
    int64_t n = 0;
    for (int i = 0; i < 1000; i++) { /* MySQL is away */
        w.now_us += SECOND / 100;
        n += ask(&w, 0, 10);
    }
    assert_in_range(n, 3 * 100 + 6 * 50, 3 * 100 + 8 * 50);
    drop_world(&w);
}

static dt_meter *pending_meter(int64_t limit, int64_t apis)
{
    struct dt_quota_limits limits = {{0}};
    dt_meter *meter = dt_meter_new();
    limits.v[DT_QUOTA_PENDING] = limit;
    dt_meter_set_apis(meter, apis);
    assert_true(dt_meter_set(meter, &limits, SECOND));
    return meter;
}

static int64_t ask_meter(dt_meter *meter, int n)
{
    struct dt_over over;
    bool wake;
    int64_t passed = 0;
    for (int i = 0; i < n; i++)
        if (dt_meter_job(meter, 1, SECOND, &over, &wake))
            passed++;
        else
            assert_int_equal(over.quota, DT_QUOTA_PENDING);
    return passed;
}

TEST(pending_jobs_are_the_last_count_plus_admitted_jobs)
{
    dt_meter *meter = pending_meter(100, 1);
    assert_int_equal(ask_meter(meter, 50), 10); /* not counted yet: a tenth */
    assert_true(dt_meter_wants_pending(meter));
    dt_meter_set_pending(meter, 40, 1);
    assert_int_equal(ask_meter(meter, 100), 50); /* the ten may be missing in the count */
    dt_meter_jobs_done(meter, &(struct dt_jobs_done){60, 60, 45, 45});
    assert_int_equal(ask_meter(meter, 100), 15);
    assert_true(dt_meter_wants_pending(meter)); /* all 45 are in the next count */
    dt_meter_jobs_done(meter, &(struct dt_jobs_done){15, 15, 15, 15});
    dt_meter_set_pending(meter, 90, 1);
    assert_int_equal(ask_meter(meter, 100), 0);
    assert_true(dt_meter_wants_pending(meter));
    dt_meter_set_pending(meter, 90, 1);
    assert_int_equal(ask_meter(meter, 100), 10);
    dt_meter_free(meter);
}

TEST(before_a_count_with_its_share_one_of_several_processes_admits_a_tenth_of_pending_jobs)
{
    bool fresh = false;
    struct dt_quota_claim claim = {0};
    dt_meter *meter = pending_meter(1000, 2);
    assert_true(dt_meter_wants_pending(meter));
    dt_meter_set_pending(meter, 0, 2);
    assert_int_equal(ask_meter(meter, 500), 50);
    assert_true(dt_meter_wish(meter, &claim, &fresh, SECOND));
    assert_true(fresh);
    claim.share[DT_QUOTA_JOBS] = DT_QUOTA_WHOLE / 2;
    dt_meter_settled(meter, &claim, 4 * SECOND, SECOND);
    assert_int_equal(ask_meter(meter, 1000), 0); /* others may have made jobs since the count */
    assert_true(dt_meter_wants_pending(meter));
    dt_meter_set_pending(meter, 300, 2);
    assert_int_equal(ask_meter(meter, 1000), 300);
    claim.share[DT_QUOTA_JOBS] = DT_QUOTA_WHOLE;
    dt_meter_settled(meter, &claim, 4 * SECOND, SECOND);
    assert_int_equal(ask_meter(meter, 1000), 0); /* likewise for what a share grew by */
    dt_meter_free(meter);
}

/* It took itself for alone when it was asked to count, or was so at an earlier count. */
TEST(one_of_several_processes_admits_at_most_a_tenth_of_the_pending_quota)
{
    dt_meter *meter = pending_meter(1000, 1);
    assert_true(dt_meter_wants_pending(meter));
    dt_meter_set_pending(meter, 0, 2);
    assert_int_equal(ask_meter(meter, 500), 50);
    dt_meter_free(meter);
    meter = pending_meter(1000, 1);
    assert_true(dt_meter_wants_pending(meter));
    dt_meter_set_pending(meter, 0, 1);
    dt_meter_set_apis(meter, 2);
    assert_int_equal(ask_meter(meter, 500), 50);
    dt_meter_free(meter);
}

TEST(a_token_without_a_pending_quota_is_not_counted)
{
    dt_meter *meter = dt_meter_new();
    set_jobs(meter, 10, SECOND);
    assert_int_equal(ask_meter(meter, 3), 3);
    assert_false(dt_meter_wants_pending(meter));
    dt_meter_free(meter);
}
