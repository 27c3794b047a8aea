/* The reconciler against real servers: what it compares near and far, and what it mends. */
#include "base/http/callback_rules.h"
#include "contract/index/reconcile_suite.h"

/* Is there an entry of the job at its row's time, whatever there is beside it? */
static bool is_where_its_row_says(struct fixture *fx, int64_t id)
{
    struct dt_entry wanted = {id, sql_number("SELECT next_at FROM jobs WHERE id = %lld", (long long)id), 0};
    int64_t found = 0;
    FX_OK(dt_index_scores(fx->index, dt_shard_of(&fx->map, id), &wanted, 1, &found, &fx->err));
    return found == wanted.due_ms;
}

static void change_row(int64_t id, const char *set)
{
    run_sql("UPDATE jobs SET %s WHERE id = %lld", set, (long long)id);
}

static void move_row(int64_t id, int64_t next_ms)
{
    run_sql("UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)next_ms, (long long)id);
}

#define RIG_TEST(name, setup) TEST_ON(struct fixture, fx, name, setup, done)

/* ---- tests: nothing to do ---- */

RIG_TEST(an_idle_system_has_no_drift_and_few_ticks, shared)
{
    mysql_fixture.config.reconcile_slice = 300;
    open_reconciler(fx);
    many_rows(3000, START + 60000, 1000); /* within the horizon */
    settle(fx);
    assert_int_equal(entries_below(fx, FAR), 3000);
    pass(fx, 60000);
    expect_drift(fx, 0, 0, 0);
    assert_true(fx->ticks < 60 * 20);
    assert_true(dt_shard_set_empty(&fx->wake));
}

RIG_TEST(shards_that_are_not_led_are_not_repaired, shared)
{
    fx->leads = (struct dt_shard_set){0};
    dt_shard_set_add(&fx->leads, 2);
    many_rows(200, START + 1000, 10);
    entry(fx, 1001, START + 1000);
    settle(fx);
    for (int64_t id = 1; id <= 200; id++)
        assert_int_equal(score(fx, id) != 0, dt_shard_of(&fx->map, id) == 2);
    assert_int_equal(score(fx, 1001) != 0, dt_shard_of(&fx->map, 1001) != 2);
}

/* ---- near ---- */

RIG_TEST(a_missing_entry_is_added_within_a_period_and_counted, shared)
{
    struct dt_reconcile_stats stats;
    for (int64_t id = 1; id <= 50; id++)
        job(fx, id, START + 600000);
    settle(fx);
    job(fx, 60, fx->now_ms + 4000);
    entry(fx, 60, 0); /* lost */
    a_period(fx);
    assert_int_equal(score(fx, 60), sql_number("SELECT next_at FROM jobs WHERE id = 60"));
    expect_drift(fx, 1, 0, 0);
    dt_reconciler_stats(fx->r, dt_shard_of(&fx->map, 60), &stats);
    assert_int_equal(stats.drift_missing, 1);
    a_period(fx);
    expect_drift(fx, 1, 0, 0); /* once */
}

RIG_TEST(an_entry_without_a_job_is_removed_and_counted, shared)
{
    job(fx, 1, START + 600000);
    settle(fx);
    entry(fx, 2, fx->now_ms + 4000);
    row(3, "t", "succeeded", fx->now_ms + 4000);
    change_row(3, "next_at = NULL");
    entry(fx, 3, fx->now_ms + 4000);
    a_period(fx);
    assert_int_equal(score(fx, 2), 0);
    assert_int_equal(score(fx, 3), 0);
    assert_int_not_equal(score(fx, 1), 0);
    expect_drift(fx, 0, 2, 0);
}

RIG_TEST(an_entry_with_a_wrong_score_is_corrected_and_counted_once, shared)
{
    int64_t due_ms = START + 600000;
    settle(fx);
    due_ms = fx->now_ms + 4000;
    job(fx, 1, due_ms); /* both within the window */
    entry(fx, 1, due_ms + 1);
    job(fx, 2, due_ms); /* the entry far behind it */
    entry(fx, 2, due_ms + 1000000);
    job(fx, 3, due_ms + 1000000); /* the row far behind it */
    entry(fx, 3, due_ms);
    a_period(fx);
    assert_int_equal(score(fx, 1), due_ms);
    assert_int_equal(score(fx, 2), due_ms);
    assert_int_equal(score(fx, 3), due_ms + 1000000);
    expect_drift(fx, 0, 0, 3);
}

RIG_TEST(a_row_moved_by_hand_takes_effect_within_a_period, shared)
{
    job(fx, 7, START + 2400000);
    settle(fx);
    forget_output(fx);
    move_row(7, fx->now_ms + 6000);
    a_period(fx);
    assert_true(is_where_its_row_says(fx, 7));
    forget_output(fx);
    move_row(7, fx->now_ms - 1000); /* due: its leader is woken too */
    a_period(fx);
    assert_true(is_where_its_row_says(fx, 7));
    assert_true(dt_shard_set_has(&fx->wake, dt_shard_of(&fx->map, 7)));
    pass(fx, 70000); /* its old entry lies in a part of the horizon that is scanned more slowly */
    assert_int_equal(score(fx, 7), sql_number("SELECT next_at FROM jobs WHERE id = 7"));
    assert_in_range(totals(fx).drift_wrong, 1, 2);
}

RIG_TEST(a_far_row_moved_near_by_hand_takes_effect_within_a_period, shared)
{
    settle(fx);
    row(1, "t", "scheduled", START + INT64_C(94608000000)); /* three years */
    change_row(1, "near = 0");
    move_row(1, fx->now_ms + 6000); /* `near` is not for people to know */
    a_period(fx);
    assert_int_equal(score(fx, 1), sql_number("SELECT next_at FROM jobs WHERE id = 1"));
}

RIG_TEST(only_leaders_of_shards_with_something_due_are_woken, shared)
{
    settle(fx);
    row(1, "t", "scheduled", fx->now_ms + 9000);
    a_period(fx);
    assert_int_not_equal(score(fx, 1), 0);
    assert_true(dt_shard_set_empty(&fx->wake));
    row(2, "t", "scheduled", fx->now_ms);
    a_period(fx);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_int_equal(dt_shard_set_has(&fx->wake, shard), shard == dt_shard_of(&fx->map, 2));
}

RIG_TEST(a_recent_change_is_repaired_and_not_counted_as_drift, shared)
{
    settle(fx);
    job(fx, 1, fx->now_ms + 1000);
    int64_t deadline_ms = fx->now_ms + 60000; /* claimed; its leader has not told the index yet */
    run_sql("UPDATE jobs SET state = 'dispatched', next_at = %lld, updated_at = %lld WHERE id = 1",
            (long long)deadline_ms, (long long)fx->now_ms);
    job(fx, 2, fx->now_ms + 1000); /* created: the API has not told yet */
    run_sql("UPDATE jobs SET updated_at = %lld WHERE id = 2", (long long)fx->now_ms);
    entry(fx, 2, 0);
    pass(fx, 1);
    a_period(fx);
    assert_int_equal(score(fx, 1), deadline_ms);
    assert_int_not_equal(score(fx, 2), 0);
}

RIG_TEST(entries_of_another_shard_are_removed_from_a_set, shared)
{
    unsigned wrong = (dt_shard_of(&fx->map, 1) + 1) % SHARDS;
    int64_t count;
    settle(fx);
    job(fx, 1, fx->now_ms + 4000);
    FX_OK(dt_index_add_missing(fx->index, wrong, &(struct dt_entry){1, fx->now_ms + 4000, 0}, 1, &fx->err));
    a_period(fx);
    assert_int_not_equal(score(fx, 1), 0);
    FX_OK(dt_index_count(fx->index, wrong, 0, FAR, &count, &fx->err));
    assert_int_equal(count, 0);
    expect_drift(fx, 0, 1, 0);
}

/* ---- hand edits to finished states, pauses ---- */

RIG_TEST(without_an_index_rows_are_counted_except_jobs_that_were_finished_by_hand, shared)
{
    struct dt_reconcile_stats stats = {0};
    dt_index_free(fx->index);
    fx->index = NULL;
    open_reconciler(fx);
    row(1, "t", "succeeded", START - 5000); /* finished by hand: next_at stands there still */
    row(2, "t", "scheduled", START - 4000);
    tick(fx);
    a_period(fx);
    a_period(fx);
    dt_reconciler_stats(fx->r, dt_shard_of(&fx->map, 2), &stats);
    assert_members(stats, (overdue, 1), (held, 0));
    run_sql("INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('t', TRUE, 1, 1) ON DUPLICATE KEY "
            "UPDATE paused = TRUE");
    a_period(fx);
    a_period(fx);
    dt_reconciler_stats(fx->r, dt_shard_of(&fx->map, 2), &stats);
    assert_members(stats, (overdue, 0), (oldest_due_at_ms, 0));
    assert_int_equal(stats.held, 1); /* its topic is paused */
    assert_false(stats.rebuilding);
    assert_true(dt_shard_set_empty(&fx->wake));
    assert_true(fx->ticks < 14); /* and it sleeps in between */
}

RIG_TEST(the_row_of_a_job_finished_by_hand_is_corrected, shared)
{
    row(1, "t", "scheduled", START + 90000);
    row(2, "t", "scheduled", START + 90000);
    settle(fx);
    change_row(1, "state = 'cancelled'"); /* next_at stays set */
    entry(fx, 1, 0);                      /* its leader met the entry and removed it */
    pass(fx, 60000);
    assert_sql_number(1, "SELECT next_at IS NULL AND purge_at IS NOT NULL FROM jobs WHERE id = 1");
    assert_int_equal(score(fx, 1), 0);
    assert_sql_number(START + 90000, "SELECT next_at FROM jobs WHERE id = 2");
    expect_drift(fx, 0, 0, 0);
}

static void set_paused(const char *topic, bool paused)
{
    run_sql("INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('%s', %d, 0, 0) ON DUPLICATE KEY UPDATE "
            "paused = VALUES(paused)",
            topic, paused);
}

/* Held rows of a paused topic from START - 90,000 ms on, and five of another topic that are late after them. */
static void held_jobs_and_five_late_ones(struct fixture *fx, int held, int step_ms)
{
    many_rows(held, START - 90000, step_ms);
    set_paused("t", true);
    for (int i = 0; i < 5; i++)
        row(100001 + i, "late", "scheduled", START - 20000 + i);
    dt_index_free(fx->index);
    fx->index = NULL;
    open_reconciler(fx);
}

RIG_TEST(held_jobs_do_not_hide_late_ones, shared)
{
    held_jobs_and_five_late_ones(fx, 25000, 0); /* all of one millisecond; three slices of 10,000 */
    tick(fx);
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 5);
    assert_int_equal(totals(fx).oldest_due_at_ms, START - 20000);
    set_paused("t", false);
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 10000); /* nothing is held: one slice */
}

RIG_TEST(held_jobs_are_skipped_for_at_most_ten_slices, shared)
{
    mysql_fixture.config.reconcile_slice = 100;
    held_jobs_and_five_late_ones(fx, 1002, 1);
    tick(fx);
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 0);
    run_sql("DELETE FROM jobs WHERE id <= 5");
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 3); /* after 997 held ones */
}

RIG_TEST(due_jobs_of_a_paused_topic_belong_into_its_held_set, shared)
{
    unsigned shard = dt_shard_of(&fx->map, 1);
    struct dt_arena arena = {0};
    struct dt_str *topics;
    size_t n;
    int64_t next_ms;
    set_paused("p", true);
    settle(fx);
    row(1, "p", "scheduled", fx->now_ms - 1000);
    row(2, "p", "dispatched", fx->now_ms - 1000); /* its acknowledgement is overdue: not held back by a pause */
    row(3, "p", "scheduled", fx->now_ms + 60000); /* not due yet */
    entry(fx, 3, fx->now_ms + 60000);
    for (int i = 0; i < 2; i++) {
        a_period(fx);
        assert_int_equal(score(fx, 1), 0);
        assert_int_not_equal(score(fx, 2), 0);
        FX_OK(dt_index_held(fx->index, shard, &arena, &topics, &n, &fx->err));
        assert_int_equal(n, 1);
        dt_arena_clear(&arena);
    }
    assert_int_not_equal(score(fx, 3), 0);
    expect_drift(fx, 1, 0, 0); /* job 2 alone */
    assert_int_equal(redis_fixture_sum(fx->endpoints, "ZCARD %s:{%u}:held:p", fx->installation, shard), 1);

    set_paused("p", false); /* resumed: its leader gives it back */
    FX_OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("p"), 10, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
    a_period(fx);
    assert_int_equal(score(fx, 1), sql_number("SELECT next_at FROM jobs WHERE id = 1"));
    expect_drift(fx, 1, 0, 0);
}

RIG_TEST(due_jobs_of_a_topic_that_cannot_be_written_stay_in_its_held_set, shared)
{
    unsigned shard = dt_shard_of(&fx->map, 1);
    int64_t next_ms, other = 2;
    const struct dt_entry held = {1, START - 1000, 0};
    while (dt_shard_of(&fx->map, other) == shard)
        other++;
    settle(fx);
    row(1, "w", "scheduled", START - 1000); /* not paused: its leader has found out that it cannot be written */
    row(other, "w", "scheduled", START - 1000);
    FX_OK(dt_index_hold(fx->index, shard, DT_STR_LIT("w"), &held, 1, &fx->err));
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_equal(score(fx, 1), 0);
    assert_int_not_equal(score(fx, other), 0); /* another shard's leader has not */
    FX_OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("w"), 10, &next_ms, &fx->err));
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_not_equal(score(fx, 1), 0);
    expect_drift(fx, 1, 0, 0);
}

/* The reconciler knows by the row's URL in which of a topic's held sets a job belongs. */
RIG_TEST(due_jobs_of_a_host_without_places_stay_in_the_held_set_of_that_host, shared)
{
    unsigned shard = dt_shard_of(&fx->map, 1);
    int64_t other = 2;
    const struct dt_entry held = {1, START - 1000, 0};
    char name[DT_HELD_NAME_SIZE];
    struct dt_str set = dt_held_name_at(DT_STR_LIT("c"), dt_callback_host_of(DT_STR_LIT("http://dead/")), name);
    while (dt_shard_of(&fx->map, other) != shard)
        other++;
    settle(fx);
    row(1, "c", "scheduled", START - 1000);
    row(other, "c", "scheduled", START - 1000);
    change_row(1, "callback_url = 'http://dead/one'");
    change_row(other, "callback_url = 'http://live/one'");
    FX_OK(dt_index_hold(fx->index, shard, set, &held, 1, &fx->err));
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_equal(score(fx, 1), 0);
    assert_int_not_equal(score(fx, other), 0);
    assert_int_equal(redis_fixture_sum(fx->endpoints, "ZCARD %s:{%u}:held:%s", fx->installation, shard, name), 1);
    assert_int_equal(redis_fixture_sum(fx->endpoints, "ZCARD %s:{%u}:held:c", fx->installation, shard), 0);
    redis_fixture_sum(fx->endpoints, "DEL %s:{%u}:held:%s", fx->installation, shard, name); /* it comes back there */
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_equal(redis_fixture_sum(fx->endpoints, "ZCARD %s:{%u}:held:%s", fx->installation, shard, name), 1);
}

RIG_TEST(an_entry_that_is_parked_is_not_held_again, shared)
{
    unsigned shard = dt_shard_of(&fx->map, 1);
    const struct dt_entry parked = {1, START - 1000, 0};
    settle(fx);
    row(1, "h", "scheduled", START - 1000);
    FX_OK(dt_index_hold(fx->index, shard, DT_STR_LIT("h"), &parked, 1, &fx->err));
    fx->held = (struct dt_shard_set){0};
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_equal(score(fx, 1), 0);
    assert_int_equal(redis_fixture_sum(fx->endpoints, "ZCARD %s:{%u}:held:h", fx->installation, shard), 1);
    assert_false(dt_shard_set_has(&fx->held, shard)); /* nothing was put there */
    expect_drift(fx, 0, 0, 0);
}

RIG_TEST(surplus_entries_of_a_leader_are_not_counted_as_drift, shared)
{
    unsigned shard = dt_shard_of(&fx->map, 1);
    int64_t next_ms, ids[2] = {2, 3};
    struct dt_entry parked[2];
    for (int i = 0; i < 2; i++) { /* of job 1's shard */
        ids[i] = i ? ids[0] + 1 : 2;
        while (dt_shard_of(&fx->map, ids[i]) != shard)
            ids[i]++;
    }
    settle(fx);
    row(1, "h", "scheduled", START - 1000);
    row(ids[0], "h", "dispatched", START - 1000); /* its result did not come in time */
    row(ids[1], "h", "scheduled", START - 500);   /* this one is missing */
    parked[0] = (struct dt_entry){.id = 1, .due_ms = START - 1000};
    parked[1] = (struct dt_entry){.id = ids[0], .due_ms = START - 1000};
    FX_OK(dt_index_hold(fx->index, shard, DT_STR_LIT("h"), &parked[0], 1, &fx->err));
    FX_OK(dt_index_hold(fx->index, shard, DT_STR_LIT("h" DT_HELD_TIMEOUTS), &parked[1], 1, &fx->err));
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_equal(score(fx, 1), 0);
    assert_int_equal(score(fx, ids[0]), 0);
    assert_int_equal(score(fx, ids[1]), 0); /* its turn comes with the others of its topic */
    expect_drift(fx, 0, 0, 0);
    assert_true(dt_shard_set_has(&fx->held, shard)); /* its leader is told */
    FX_OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("h"), 10, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
    assert_int_not_equal(score(fx, 1), 0);
    assert_int_not_equal(score(fx, ids[1]), 0);
    FX_OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("h" DT_HELD_TIMEOUTS), 10, &next_ms, &fx->err));
    assert_int_not_equal(score(fx, ids[0]), 0);
}

/* ---- overdue ---- */

RIG_TEST(overdue_jobs_are_counted_and_the_oldest_is_known, shared)
{
    struct dt_reconcile_stats stats;
    for (int64_t id = 1; id <= 40; id++)
        job(fx, id, START - 5000 - id);
    job(fx, 41, START + 500000);
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 40);
    assert_int_equal(totals(fx).oldest_due_at_ms, START - 5040);
    dt_reconciler_stats(fx->r, dt_shard_of(&fx->map, 40), &stats);
    assert_int_equal(stats.oldest_due_at_ms, START - 5040);
    run_sql("UPDATE jobs SET next_at = %lld", (long long)START + 1000000);
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 0);
    assert_int_equal(totals(fx).oldest_due_at_ms, 0);
    run_sql("UPDATE jobs SET next_at = %lld", (long long)START - 5000);
    fx->none_due = true; /* the watch says so: they are not counted */
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 0);
    fx->none_due = false;
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 41);
}

RIG_TEST(a_long_overdue_queue_is_compared_in_slices_to_its_end, shared)
{
    mysql_fixture.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(1500, START - 100000, 10);
    dt_reconciler_lost(fx->r, 0);
    dt_reconciler_lost(fx->r, 1);
    dt_reconciler_lost(fx->r, 2);
    dt_reconciler_lost(fx->r, 3);
    settle(fx);
    assert_int_equal(entries_below(fx, FAR), 1500);
    assert_in_range(totals(fx).overdue, 1, 100); /* bounded */
    entry(fx, 1500, 0);
    entry(fx, 750, START - 500);
    entry(fx, 1501, START - 50000);
    pass(fx, 20000);
    assert_int_not_equal(score(fx, 1500), 0);
    assert_int_equal(score(fx, 750), START - 100000 + 7490);
    assert_int_equal(score(fx, 1501), 0);
    expect_drift(fx, 2, 1, 1); /* what is in a wrong place is missing in the right one, if they are far apart */
}

RIG_TEST(more_jobs_than_a_slice_in_one_millisecond_are_compared, shared)
{
    mysql_fixture.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(1234, START + 300000, 0);
    row(2000, "t", "scheduled", START + 300000 - 1);
    row(2001, "t", "scheduled", START + 300000 + 1);
    settle(fx);
    assert_int_equal(entries_below(fx, FAR), 1236);
    fx->now_ms = START + 295000;
    entry(fx, 1, 0);
    entry(fx, 1234, 0);
    entry(fx, 600, START + 300002);
    entry(fx, 5000, START + 300000);
    entry(fx, 2001, 0);
    pass(fx, 5001); /* a period later; the full scan alone would have gone over them as well */
    assert_int_equal(entries_below(fx, FAR), 1236);
    assert_int_equal(score(fx, 600), START + 300000);
    expect_drift(fx, 4, 1, 1);
}

/* ---- horizon ---- */

RIG_TEST(jobs_that_enter_the_horizon_are_loaded_and_not_counted_as_drift, shared)
{
    mysql_fixture.config.index_horizon = 120000;
    mysql_fixture.config.reconcile_walk = 10000;
    many_rows(600, START + 1000, 1000);
    settle(fx);
    for (int minute = 0; minute < 5; minute++) {
        int64_t n = entries_below(fx, FAR), until_ms = fx->now_ms + 120000;
        int64_t rows = (until_ms - START) / 1000;
        assert_in_range(n, rows - 8, rows); /* at most a period behind */
        pass(fx, 60000);
    }
    expect_drift(fx, 0, 0, 0);
}

RIG_TEST(a_missing_entry_far_ahead_is_found_by_the_full_scan, shared)
{
    many_rows(2000, START + 60000, 1000);
    settle(fx);
    entry(fx, 1900, 0);
    entry(fx, 9001, START + 1200000);
    pass(fx, 65000);
    assert_int_equal(score(fx, 1900), START + 60000 + 1899000);
    assert_int_equal(score(fx, 9001), 0);
    expect_drift(fx, 1, 1, 0);
}

/* As many as there should be: counts do not tell. */
static void expect_swapped_to_be_found(struct fixture *fx, int64_t apart_ms, int64_t within_ms)
{
    const int64_t due_ms = START + 60000 + 1899 * apart_ms;
    unsigned shard = dt_shard_of(&fx->map, 1900);
    int64_t stranger = 90001;
    while (dt_shard_of(&fx->map, stranger) != shard)
        stranger++;
    settle(fx);
    entry(fx, 1900, 0);
    entry(fx, stranger, due_ms + 50);
    pass(fx, within_ms);
    assert_int_equal(score(fx, 1900), due_ms);
    assert_int_equal(score(fx, stranger), 0);
    expect_drift(fx, 1, 1, 0);
}

RIG_TEST(a_missing_entry_that_a_surplus_one_hides_is_found_in_a_round_if_rows_are_few, shared)
{
    many_rows(2000, START + 60000, 1000);
    expect_swapped_to_be_found(fx, 1000, 65000);
}

RIG_TEST(a_missing_entry_that_a_surplus_one_hides_is_found_eventually_if_rows_are_many, shared)
{
    mysql_fixture.config.reconcile_walk = 1000;
    many_rows(18000, START + 60000, 120);
    expect_swapped_to_be_found(fx, 120, 40000);
}

/* One entry missing and one too many in each of the steps that a round has: none of them is always the one left out. */
RIG_TEST(every_part_of_many_rows_is_compared_in_its_turn, shared)
{
    enum { ROWS = 18000, APART = 1000, APART_MS = 120 };
    int64_t strangers[ROWS / APART], next = 90001;
    mysql_fixture.config.reconcile_walk = 1000;
    many_rows(ROWS, START + 60000, APART_MS);
    settle(fx);
    for (int i = 0; i < ROWS / APART; i++) {
        const int64_t id = 1 + i * APART;
        while (dt_shard_of(&fx->map, next) != dt_shard_of(&fx->map, id))
            next++;
        strangers[i] = next++;
        entry(fx, id, 0);
        entry(fx, strangers[i], START + 60000 + (id - 1) * APART_MS + 50);
    }
    pass(fx, 40000);
    for (int i = 0; i < ROWS / APART; i++) {
        assert_true(is_where_its_row_says(fx, 1 + i * APART));
        assert_int_equal(score(fx, strangers[i]), 0);
    }
}

RIG_TEST(comparisons_that_take_longer_than_a_period_skip_no_entry, shared)
{
    mysql_fixture.config.reconcile_period = 1000;
    many_rows(40, START + 600000, 60000);
    for (int i = 0; i < 450; i++) {
        tick(fx);
        fx->now_ms += 1100; /* so slow is everything */
    }
    assert_true(fx->now_ms < START + 600000);
    for (int i = 0; i < 40; i++)
        assert_int_equal(score(fx, i + 1), START + 600000 + i * 60000);
}

RIG_TEST(a_row_moved_beyond_the_horizon_leaves_the_index, shared)
{
    job(fx, 1, START + 200000);
    settle(fx);
    move_row(1, START + 80000000);
    pass(fx, 130000);
    assert_int_equal(score(fx, 1), 0);
    expect_drift(fx, 0, 0, 1);
}
