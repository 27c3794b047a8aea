/* Schedules and their fires on a real server. Time is moved by hand: a schedule's row says how far it is. */

#include "job/change/jobs.h"
#include "support/rigs/schedules_rig.h"

#define FRESH_TEST(name) TEST_WITH(name, with_topic, NULL)

FRESH_TEST(there_is_always_a_job_for_the_next_fire)
{
    struct dt_schedule s = put(cron("0 9 * * *"));
    assert_int_equal(s.version, 1);
    assert_jobs(1, 0);
    assert_sql_number(1, "SELECT job_key = CONCAT('" NAME
                         "@', run_at) AND next_at = run_at AND run_at MOD 3600000 = 0 FROM jobs");
    assert_sql_number(1, "SELECT look_at > next_fire_at - 90000000 FROM schedule_fires");
    assert_int_equal(make().schedules, 0);
    assert_jobs(1, 0);
}

FRESH_TEST(all_fires_of_the_next_minute_are_made_at_once)
{
    put(every(2000));
    int64_t n = count(SCHEDULED);
    assert_in_range(n, 60, 62);
    assert_sql_number((n - 1) * 2000, "SELECT MAX(run_at) - MIN(run_at) FROM jobs");
    run_sql("UPDATE schedule_fires SET look_at = 1");
    make();
    assert_jobs(count(SCHEDULED), 0);
    assert_in_range(count(SCHEDULED), n, n + 2);
}

FRESH_TEST(a_frequent_schedule_has_a_hundred_fires_ahead_and_is_refilled_at_half)
{
    put(every(100));
    assert_in_range(count(SCHEDULED), DT_FIRES_AHEAD, DT_FIRES_AHEAD + 1);
    assert_int_equal(sql_number("SELECT look_at - (SELECT MIN(run_at) FROM jobs) FROM schedule_fires") / 1000, 5);
}

FRESH_TEST(many_missed_fires_are_made_in_pieces)
{
    struct dt_schedule s = every(100);
    s.catch_up_ms = HOUR_MS;
    put(s);
    was_away(120000);
    make();
    assert_in_range(count(SCHEDULED), DT_FIRES_AT_ONCE, DT_FIRES_AT_ONCE + DT_FIRES_AHEAD + 1);
    for (int i = 0; i < 5 && make().schedules; i++)
        ;
    assert_in_range(count(SCHEDULED), 1200, 1400);
    assert_sql_number(count(SCHEDULED), "SELECT COUNT(DISTINCT job_key) FROM jobs");
}

FRESH_TEST(an_equal_request_changes_nothing)
{
    put(cron("0 9 * * *"));
    assert_int_equal(put(cron("0 9 * * *")).version, 1);
    assert_jobs(1, 0);
}

FRESH_TEST(a_pause_withdraws_future_fires_and_a_resume_returns_them)
{
    put(cron("0 9 * * *"));
    int64_t id = sql_number("SELECT id FROM jobs");
    set_paused(true);
    assert_jobs(0, 1);
    make();
    assert_jobs(0, 1);
    assert_sql_number(1, "SELECT leave_at > run_at AND purge_at >= leave_at FROM jobs");
    assert_sql_number(1, "SELECT look_at IS NULL FROM schedule_fires");
    set_paused(false);
    assert_jobs(1, 0);
    assert_sql_number(id, "SELECT id FROM jobs WHERE error_code IS NULL AND leave_at = 0");
}

FRESH_TEST(a_change_applies_to_future_fires)
{
    put(cron("0 9 * * *"));
    int64_t id = sql_number("SELECT id FROM jobs");
    struct dt_schedule s = cron("0 9 * * *");
    s.job.payload = S("{\"n\":2}");
    s.job.retry = S("1m");
    s.job.callback_url = S("http://a/");
    memcpy(s.job.digest, "two", 4);
    assert_int_equal(put(s).version, 2);
    assert_jobs(1, 0);
    assert_sql_number(
        id, "SELECT id FROM jobs WHERE payload = '{\"n\":2}' AND retry = '1m' AND callback_url = 'http://a/'");
    s.cron = S("30 9 * * *");
    memcpy(s.job.digest, "three", 6);
    put(s);
    assert_jobs(1, 1);
}

FRESH_TEST(a_fire_that_its_caller_cancelled_stays_cancelled)
{
    struct dt_job job;
    put(cron("0 9 * * *"));
    OK(dt_store_cancel(store, sql_number("SELECT id FROM jobs"), false, &arena, &job, &err));
    set_paused(true);
    set_paused(false);
    assert_jobs(0, 0);
}

FRESH_TEST(a_dispatched_fire_is_not_withdrawn)
{
    put(cron("0 9 * * *"));
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1");
    set_paused(true);
    assert_int_equal(count("state = 'dispatched'"), 1);
    assert_int_equal(count(WITHDRAWN), 0);
}

FRESH_TEST(missed_fires_are_skipped_without_catch_up)
{
    put(every(60000));
    int64_t before = count(SCHEDULED);
    was_away(2 * HOUR_MS);
    make();
    assert_in_range(count(SCHEDULED), before, before + 2);
}

FRESH_TEST(missed_fires_are_caught_up_within_bounds)
{
    struct dt_schedule s = every(60000);
    s.catch_up_ms = 10 * 60000;
    put(s);
    int64_t before = count(SCHEDULED);
    was_away(2 * HOUR_MS);
    make();
    assert_in_range(count(SCHEDULED), before + 9, before + 12);
    s.catch_up_max = 3;
    memcpy(s.job.digest, "max", 4);
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts");
    put(s);
    before = count(SCHEDULED);
    was_away(2 * HOUR_MS);
    make();
    assert_in_range(count(SCHEDULED), before + 2, before + 4);
}

FRESH_TEST(without_catch_up_no_fire_of_a_pause_is_made)
{
    put(every(1000));
    set_paused(true);
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts; UPDATE schedules SET anchor_at = "
            "anchor_at - 3000; UPDATE schedule_fires SET next_fire_at = next_fire_at - 3000");
    set_paused(false);
    assert_sql_number(
        1, "SELECT MIN(SUBSTRING_INDEX(job_key, '@', -1) + 0) >= (SELECT updated_at FROM schedules) FROM jobs");
}

/* The fire's time has come while the one before is under way. */
static void fire_meets_a_job_that_is_under_way(enum dt_overlap overlap)
{
    struct dt_schedule s = every(1000);
    s.overlap = overlap;
    put(s);
    assert_int_equal(count(SCHEDULED), 1);
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1, due_at = 1, dispatched_at = 1; UPDATE job_counts SET "
            "scheduled = 0, dispatched = 1");
    run_sql("UPDATE schedule_fires SET look_at = 1, next_fire_at = last_fire_at + 1000");
    wait_for_the_next_fire();
}

FRESH_TEST(a_fire_that_overlaps_is_a_cancelled_job)
{
    fire_meets_a_job_that_is_under_way(DT_OVERLAP_SKIP);
    int64_t first = sql_number("SELECT id FROM jobs");
    assert_int_equal(make().skipped, 1);
    assert_int_equal(count(OVERLAP), 1);
    assert_int_equal(count(SCHEDULED), 0);
    assert_sql_number(first, "SELECT last_job_id FROM schedule_fires");
    run_sql(
        "UPDATE jobs SET state = 'succeeded', next_at = NULL WHERE id = %lld; UPDATE schedule_fires SET look_at = 1",
        (long long)first);
    assert_int_equal(make().made, 1);
}

FRESH_TEST(with_overlap_cancel_a_fire_ends_the_retries_of_the_last_one)
{
    fire_meets_a_job_that_is_under_way(DT_OVERLAP_CANCEL);
    assert_int_equal(make().made, 0);
    assert_int_equal(count("no_retries AND state = 'dispatched'"), 1);
    assert_int_equal(make().made, 1);
    assert_int_equal(count(SCHEDULED), 1);
}

FRESH_TEST(a_removed_schedule_keeps_or_cancels_its_next_fire)
{
    struct dt_fire_maker maker = a_maker();
    put(every(10000));
    int64_t n = count(SCHEDULED);
    OK(dt_store_schedule_delete(&maker, S(NAME), false, &err));
    assert_in_range(count(SCHEDULED), 1, 2); /* that of its beginning is due */
    assert_int_equal(count(SCHEDULED) + count(WITHDRAWN), n);
    assert_int_equal(dt_store_schedule_delete(&maker, S(NAME), true, &err), DT_NOT_FOUND);
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts");
    put(cron("0 9 * * *"));
    OK(dt_store_schedule_delete(&maker, S(NAME), false, &err));
    assert_jobs(1, 0);
    put(cron("0 9 * * *"));
    OK(dt_store_schedule_delete(&maker, S(NAME), true, &err));
    assert_jobs(0, 1);
}

static enum dt_insert_outcome insert(const char *topic, const char *key)
{
    struct dt_insert row = {.job = {.id = 7,
                                    .topic = dt_str(topic),
                                    .key = dt_str(key),
                                    .run_at_ms = 1,
                                    .retry = S(""),
                                    .ack_timeout_ms = 1,
                                    .payload = S("1")}};
    struct dt_insert *rows[] = {&row};
    int64_t created_ms;
    OK(dt_store_insert(store, rows, 1, 1, &created_ms, &err));
    run_sql("DELETE FROM jobs WHERE id = 7; DELETE FROM job_keys WHERE job_id = 7");
    return row.outcome;
}

FRESH_TEST(keys_of_fires_are_reserved_while_the_schedule_exists)
{
    struct dt_fire_maker maker = a_maker();
    assert_int_equal(insert("t", NAME "@1"), DT_INSERT_CREATED);
    put(cron("0 9 * * *"));
    assert_int_equal(insert("t", NAME "@1"), DT_INSERT_RESERVED);
    assert_int_equal(insert("u", NAME "@1"), DT_INSERT_CREATED);
    assert_int_equal(insert("t", NAME "@x1"), DT_INSERT_CREATED);
    assert_int_equal(insert("t", "other@1"), DT_INSERT_CREATED);
    assert_int_equal(insert("t", "@1"), DT_INSERT_CREATED);
    OK(dt_store_schedule_delete(&maker, S(NAME), true, &err));
    assert_int_equal(insert("t", NAME "@1"), DT_INSERT_CREATED);
}

FRESH_TEST(run_now_makes_a_job_also_while_paused)
{
    struct dt_fire_maker maker = a_maker();
    struct dt_job job;
    put(cron("0 9 * * *"));
    set_paused(true);
    OK(dt_store_schedule_run_now(&maker, S(NAME), &job, &err));
    assert_sql_number(job.id, "SELECT id FROM jobs WHERE " SCHEDULED " AND job_key LIKE '" NAME "@%%'");
    assert_int_equal(job.state, DT_SCHEDULED);
    assert_int_equal(maker.n_moves, 1);
    assert_int_equal(dt_store_schedule_run_now(&maker, S("other"), &job, &err), DT_NOT_FOUND);
}

FRESH_TEST(a_schedule_whose_topic_was_deleted_shows_an_error)
{
    struct dt_schedule s;
    put(every(1000));
    run_sql("DELETE FROM topics; UPDATE schedule_fires SET look_at = 1");
    make();
    OK(dt_store_schedule_get(store, S(NAME), &arena, &s, &err));
    assert_true(dt_str_is(s.error, "its topic does not exist"));
    assert_int_equal(make().schedules, 0);
    OK(dt_store_topic_ensure(store, S("t"), NULL, &err));
    run_sql("UPDATE schedule_fires SET look_at = 1");
    make();
    OK(dt_store_schedule_get(store, S(NAME), &arena, &s, &err));
    assert_null(s.error.p);
}

FRESH_TEST(locked_settings_are_read_as_last_committed)
{
    put(every(1000));
    run_sql("UPDATE schedule_fires SET look_at = 1");
    run_sql("START TRANSACTION; UPDATE schedules SET paused = 1");
    make();
    run_sql("ROLLBACK");
    assert_sql_number(1, "SELECT COUNT(*) FROM schedule_fires WHERE look_at > 1");
}

FRESH_TEST(rows_of_fires_whose_schedule_was_deleted_by_hand_are_removed)
{
    put(cron("0 9 * * *"));
    run_sql("DELETE FROM schedules; UPDATE schedule_fires SET look_at = 1");
    assert_int_equal(make().schedules, 1);
    assert_sql_number(0, "SELECT COUNT(*) FROM schedule_fires");
    assert_jobs(1, 0);
}

/* Two schedules that are to be looked at, one of which has a number in a column of its rows. */
static void two_with(const char *column, const char *number)
{
    struct dt_schedule other = every(HOUR_MS);
    other.name = S("other");
    run_sql("DELETE FROM schedules; DELETE FROM schedule_fires");
    put(every(HOUR_MS));
    put(other);
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts;UPDATE schedule_fires SET look_at = 1, "
            "last_fire_at = NULL;UPDATE schedules s JOIN schedule_fires f ON f.name = s.name SET %s = %s WHERE s.name "
            "= '" NAME "'",
            column, number);
}

FRESH_TEST(no_manual_edit_delays_fires_of_other_schedules)
{
    static const char *const columns[] = {"every_ms",     "anchor_at",   "starts_at",      "ends_at",
                                          "catch_up_ms",  "jitter_ms",   "paused",         "s.created_at",
                                          "s.updated_at", "s.version",   "ack_timeout_ms", "next_fire_at",
                                          "last_fire_at", "last_job_id", "zone_stamp"};
    static const char *const numbers[] = {"-9223372036854775808", "-1", "0", "253402300799999", "9223372036854775807"};
    for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
        for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++) {
            struct dt_schedule s;
            if (strcmp(columns[i], "paused") == 0 && strlen(numbers[k]) > 3)
                continue;
            two_with(columns[i], numbers[k]);
            make();
            if (!count("job_key LIKE 'other@%'"))
                fail_msg("%s = %s keeps the other schedule from its fire", columns[i], numbers[k]);
            OK(dt_store_schedule_get(store, S(NAME), &arena, &s, &err));
            set_paused(true);
            struct dt_fire_maker maker = a_maker();
            dt_status status = dt_store_schedule_pause(&maker, S(NAME), false, &s, &err);
            assert_true(status == DT_OK || status == DT_INVALID);
        }
}

FRESH_TEST(a_number_of_missed_fires_below_zero_means_all_of_them)
{
    struct dt_schedule s = every(1000);
    s.catch_up_ms = 2 * HOUR_MS;
    s.catch_up_max = 1;
    put(s);
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts; UPDATE schedules SET catch_up_max = -1");
    was_away(HOUR_MS);
    make();
    assert_int_equal(count(SCHEDULED), DT_FIRES_AT_ONCE);
}

FRESH_TEST(a_schedule_ends_at_the_last_representable_time)
{
    struct dt_schedule s = every(1000);
    s.has_start = true;
    s.starts_at_ms = INT64_C(253402300799999);
    s.jitter_ms = HOUR_MS;
    put(s);
    assert_int_equal(count("next_at = 253402300799999"), 1);
    s.starts_at_ms++;
    s.job.digest[0]++;
    put(s);
    assert_jobs(0, 1);
}

FRESH_TEST(a_schedule_may_begin_with_1970_or_end_with_it)
{
    struct dt_schedule s = every(HOUR_MS);
    s.has_start = true;
    assert_true(put(s).has_start);
    assert_int_equal(count("run_at MOD 3600000 = 0"), count("TRUE"));
    assert_true(count("TRUE") > 0);
    s.has_end = true;
    s.job.digest[0]++;
    assert_true(put(s).has_end);
    assert_int_equal(count(SCHEDULED), 0);
}

FRESH_TEST(fires_with_a_large_payload_are_made_a_few_at_a_time)
{
    static char payload[900002];
    struct dt_schedule s = every(1000);
    memset(payload, 'x', sizeof(payload) - 1);
    payload[0] = payload[sizeof(payload) - 2] = '"';
    s.job.payload = dt_str(payload);
    put(s);
    assert_in_range(count(SCHEDULED), 18, 20);
    make();
    assert_in_range(count(SCHEDULED), 36, 40);
    assert_sql_number(1, "SELECT COUNT(DISTINCT payload) FROM jobs");
}

FRESH_TEST(a_new_tzdata_moves_future_fires)
{
    put(cron("0 9 * * *"));
    run_sql("UPDATE schedule_fires SET look_at = 1, zone_stamp = 5; UPDATE job_keys SET job_key = '" NAME
            "@4000000000000'; UPDATE jobs SET job_key = '" NAME "@4000000000000'");
    make();
    assert_jobs(1, 1);
    assert_sql_number(1, "SELECT zone_stamp <> 5 FROM schedule_fires");
}

/* ---- two at once ---- */

static void *pause_it(void *arg)
{
    struct dt_error why = {0};
    struct dt_arena own = {0};
    struct dt_schedule s;
    dt_store *mine = mysql_fixture_store();
    struct dt_fire_maker maker = {.store = mine, .zones = zones, .arena = &own};
    *(dt_status *)arg = dt_store_schedule_pause(&maker, S(NAME), true, &s, &why);
    dt_arena_clear(&own);
    dt_store_free(mine);
    dt_db_thread_end();
    return NULL;
}

FRESH_TEST(a_fire_that_is_claimed_while_it_is_withdrawn_stays_claimed)
{
    dt_status status = DT_INTERNAL;
    put(cron("0 9 * * *"));
    run_sql("START TRANSACTION; UPDATE jobs SET state = 'dispatched', attempt = 1");
    pthread_t thread = start_thread(pause_it, &status);
    mysql_fixture_await_lock_waits(1);
    run_sql("COMMIT");
    pthread_join(thread, NULL);
    assert_int_equal(status, DT_OK);
    assert_int_equal(count("state = 'dispatched'"), 1);
    assert_sql_number(1, "SELECT paused FROM schedules");
}

#define MAKERS 3

static void *make_all(void *)
{
    struct dt_error why = {0};
    struct dt_arena own = {0};
    dt_store *mine = mysql_fixture_store();
    struct dt_fire_maker maker = {.store = mine, .zones = zones, .arena = &own};
    for (int i = 0; i < 40; i++) {
        struct dt_fires_made made;
        if (dt_store_make_fires(&maker, &made, &why) != DT_OK)
            break;
        dt_arena_reset(&own);
    }
    dt_arena_clear(&own);
    dt_store_free(mine);
    dt_db_thread_end();
    return NULL;
}

FRESH_TEST(concurrent_makers_make_each_fire_once)
{
    char name[32];
    for (int i = 0; i < 100; i++) {
        struct dt_schedule s = every(30000);
        snprintf(name, sizeof(name), "s%d", i);
        s.name = dt_str(name);
        put(s);
    }
    run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts; UPDATE schedule_fires SET next_fire_at = "
            "next_fire_at - 300000, look_at = 1; UPDATE schedules SET catch_up_ms = 600000, anchor_at = anchor_at - "
            "300000");
    run_at_once(make_all, NULL, 0, MAKERS);
    assert_sql_number(
        0, "SELECT COUNT(*) FROM schedule_fires WHERE look_at < CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)");
    assert_sql_number(count("TRUE"), "SELECT COUNT(DISTINCT job_key) FROM jobs");
    assert_in_range(count("TRUE"), 1000, 1600);
    assert_jobs(count("TRUE"), 0);
}

SUITE(begin, end)
