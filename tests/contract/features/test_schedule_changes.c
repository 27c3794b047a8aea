/* Changes of schedules on a real server: what becomes of fires that lie ahead, that jitter has put off, that were missed, or whose time
 * came in that very moment. */
#include "support/rigs/schedules_rig.h"

/* The first fire was at the schedule's making, and its job comes hours later. */
static struct dt_schedule put_off(enum dt_overlap overlap)
{
    struct dt_schedule s = every(24 * HOUR_MS);
    s.overlap = overlap;
    s.jitter_ms = 12 * HOUR_MS;
    int64_t made_ms = put(s).created_at_ms;
    while (mysql_now_ms() <= made_ms + 1)
        continue;
    return s;
}

#define FRESH_TEST(name) TEST_WITH(name, with_topic, NULL)

FRESH_TEST(a_fire_delayed_by_jitter_is_pending_until_its_job_is_due)
{
    for (int overlap = DT_OVERLAP_ALLOW; overlap <= DT_OVERLAP_SKIP; overlap++) {
        const int64_t n = overlap == DT_OVERLAP_ALLOW ? 2 : 1;
        struct dt_fire_maker maker = a_maker();
        struct dt_schedule s = put_off((enum dt_overlap)overlap);
        int64_t id = sql_number("SELECT MIN(id) FROM jobs WHERE " SCHEDULED);
        assert_jobs(n, 0);
        set_paused(true);
        assert_jobs(0, n);
        set_paused(false);
        assert_jobs(n, 0);
        s.job.payload = S("{\"n\":2}");
        s.job.digest[0]++;
        put(s);
        assert_jobs(n, 0);
        assert_int_equal(count(SCHEDULED " AND payload = '{\"n\":2}'"), n);
        assert_sql_number(id, "SELECT MIN(id) FROM jobs WHERE " SCHEDULED);
        s.cron = S("30 9 29 2 *");
        s.job.digest[0]++;
        put(s);
        assert_jobs(1, n);
        OK(dt_store_schedule_delete(&maker, S(NAME), true, &err));
        assert_jobs(0, n + 1);
        run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts");
    }
}

FRESH_TEST(a_removed_schedule_keeps_fires_delayed_by_jitter_and_the_next_one)
{
    struct dt_fire_maker maker = a_maker();
    put_off(DT_OVERLAP_ALLOW);
    OK(dt_store_schedule_delete(&maker, S(NAME), false, &err));
    assert_jobs(2, 0);
}

/* The topic may have been another one when the request was looked at. */
FRESH_TEST(a_token_with_prefixes_is_checked_against_the_current_topic)
{
    const struct dt_str prefixes[] = {S("mine.")};
    const struct dt_topic_bound bound = {prefixes, 1};
    struct dt_fire_maker maker = a_maker();
    struct dt_schedule s = put(every(HOUR_MS));
    struct dt_schedule mine = s;
    struct dt_schedule_put ask = {.schedule = &mine};
    struct dt_job job;
    const int64_t before = count(SCHEDULED);
    maker.bound = &bound;
    mine.job.topic = S("mine.t");
    mine.job.digest[0]++;
    assert_int_equal(dt_store_schedule_put(&maker, &ask, &s, &err), DT_DENIED);
    assert_int_equal(dt_store_schedule_pause(&maker, S(NAME), true, &s, &err), DT_DENIED);
    assert_int_equal(dt_store_schedule_run_now(&maker, S(NAME), &job, &err), DT_DENIED);
    assert_int_equal(dt_store_schedule_delete(&maker, S(NAME), true, &err), DT_DENIED);
    assert_int_equal(count(SCHEDULED), before);
    assert_sql_number(1, "SELECT COUNT(*) FROM schedules WHERE version = 1 AND NOT paused");
}

/* Its number has a digit more, and stands among those of the past as text. */
FRESH_TEST(a_fire_of_another_century_is_withdrawn_as_well)
{
    struct dt_schedule s = every(24 * HOUR_MS);
    s.has_start = true;
    s.starts_at_ms = INT64_C(10413792000000);
    put(s);
    assert_jobs(1, 0);
    set_paused(true);
    assert_jobs(0, 1);
    set_paused(false);
    assert_jobs(1, 0);
}

/* Whichever way a schedule goes on, and whatever else was changed while it was paused. */
FRESH_TEST(a_put_that_ends_a_pause_catches_up_like_a_resume)
{
    for (int by_put = 0; by_put < 2; by_put++) {
        struct dt_fire_maker maker = a_maker();
        struct dt_schedule s = every(1000);
        struct dt_schedule_put ask = {.schedule = &s, .set_paused = true};
        struct dt_schedule out;
        s.catch_up_ms = HOUR_MS;
        put(s);
        set_paused(true);
        run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts; UPDATE schedules SET anchor_at = "
                "anchor_at - 5000, created_at = created_at - 5000; UPDATE schedule_fires SET next_fire_at = "
                "next_fire_at - 5000");
        s.job.digest[0]++;
        put(s);
        if (by_put)
            OK(dt_store_schedule_put(&maker, &ask, &out, &err));
        else
            set_paused(false);
        assert_in_range(count(SCHEDULED " AND SUBSTRING_INDEX(job_key, '@', -1) + 0 <= created_at"), 4, 8);
        OK(dt_store_schedule_delete(&maker, S(NAME), true, &err));
        run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts");
    }
}

/* Its maker had not looked yet. */
FRESH_TEST(a_fire_whose_time_came_just_before_a_change_has_its_job)
{
    struct dt_schedule s = every(1000);
    s.overlap = DT_OVERLAP_SKIP;
    put(s);
    run_sql("UPDATE jobs SET state = 'succeeded', next_at = NULL");
    int64_t fire_ms = sql_number("SELECT next_fire_at FROM schedule_fires");
    wait_for_the_next_fire();
    s.job.payload = S("2");
    s.job.digest[0]++;
    put(s);
    assert_sql_number(fire_ms, "SELECT SUBSTRING_INDEX(job_key, '@', -1) + 0 FROM jobs WHERE " SCHEDULED);
}

/* The fire's time has come, its maker has not looked yet, and the job before it is under way. */
static int64_t fire_that_nobody_made(enum dt_overlap overlap)
{
    struct dt_schedule s = every(1000);
    s.overlap = overlap;
    put(s);
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1, due_at = 1, dispatched_at = 1; UPDATE job_counts SET "
            "scheduled = 0, dispatched = 1");
    int64_t fire_ms = sql_number("SELECT next_fire_at FROM schedule_fires");
    wait_for_the_next_fire();
    return fire_ms;
}

static void change_times(void)
{
    struct dt_schedule s = cron("30 9 29 2 *");
    s.overlap = DT_OVERLAP_SKIP;
    s.job.digest[0]++;
    put(s);
}

static void pause_now(void)
{
    set_paused(true);
}

static void delete_now(void)
{
    struct dt_fire_maker maker = a_maker();
    OK(dt_store_schedule_delete(&maker, S(NAME), false, &err));
}

static int64_t jobs_of(int64_t fire_ms, const char *where)
{
    return sql_number("SELECT COUNT(*) FROM jobs WHERE job_key = '" NAME "@%lld' AND %s", (long long)fire_ms, where);
}

FRESH_TEST(a_due_fire_keeps_its_job_when_its_schedule_changes)
{
    static void (*const changes[])(void) = {pause_now, change_times, delete_now};
    for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
        int64_t fire_ms = fire_that_nobody_made(DT_OVERLAP_SKIP);
        changes[i]();
        assert_int_equal(jobs_of(fire_ms, OVERLAP), 1);
        assert_sql_number(changes[i] != delete_now, "SELECT COUNT(*) FROM schedule_fires");
        assert_int_equal(mysql_fixture_audit(), 0);
        run_sql("DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts; DELETE FROM schedules; DELETE FROM "
                "schedule_fires");
    }
}

FRESH_TEST(a_pause_at_the_moment_of_a_fire_ends_retries_of_the_last_one)
{
    int64_t fire_ms = fire_that_nobody_made(DT_OVERLAP_CANCEL);
    set_paused(true);
    assert_int_equal(jobs_of(fire_ms, SCHEDULED), 1);
    assert_int_equal(count("state = 'dispatched' AND no_retries"), 1);
    assert_jobs(1, 0);
    set_paused(false); /* its pause made it miss nothing */
    assert_int_equal(jobs_of(fire_ms, SCHEDULED), 1);
}

FRESH_TEST(a_new_tzdata_at_the_moment_of_a_fire_loses_no_fire)
{
    int64_t fire_ms = fire_that_nobody_made(DT_OVERLAP_SKIP);
    run_sql("UPDATE schedule_fires SET zone_stamp = zone_stamp + 1, look_at = 1");
    make();
    assert_int_equal(jobs_of(fire_ms, OVERLAP), 1);
}

/* They only look like fires: their callers may do with them as they like. */
FRESH_TEST(jobs_whose_keys_resemble_those_of_fires_are_not_withdrawn)
{
    static const char *const keys[] = {"9000000000000x", "9x", "9000000000000 ", "9000000000000@9000000000000x"};
    const size_t n = sizeof(keys) / sizeof(*keys);
    struct dt_schedule s = cron("0 9 * * *");
    struct dt_fire_maker maker = a_maker();
    s.jitter_ms = 12 * HOUR_MS;
    put(s);
    for (size_t i = 0; i < n; i++) {
        job_row(7 + (int64_t)i, "topic = 't', job_key = '" NAME "@%s'", keys[i]);
        run_sql("INSERT INTO job_keys (topic, job_key, job_id) SELECT topic, job_key, id FROM jobs WHERE id = %zu",
                7 + i);
    }
    set_paused(true);
    assert_int_equal(count(SCHEDULED " AND id < 100"), n);
    assert_int_equal(count(SCHEDULED), n);
    set_paused(false);
    OK(dt_store_schedule_delete(&maker, S(NAME), true, &err));
    assert_int_equal(count(SCHEDULED), n);
    assert_int_equal(count(WITHDRAWN), 1);
}

SUITE(begin, end)
