/*
 * Changes of schedules on a real server: what becomes of fires that lie ahead, that jitter has put off, that were missed, or whose time
 * came in that very moment.
 */
#include "support/rigs/schedules_rig.h"

/* The first fire was at the schedule's making, and its job comes hours later. */
static struct dt_schedule put_off(enum dt_overlap overlap)
{
    struct dt_schedule s = every(24 * HOUR_MS);
    s.overlap = overlap;
    s.jitter_ms = 12 * HOUR_MS;
    int64_t made_ms = put(s).created_at_ms;
    while (mysql_now_ms(&fx) <= made_ms + 1)
        continue;
    return s;
}

static void a_fire_that_jitter_puts_off_lies_ahead_until_its_job_is_due(void **state)
{
    (void)state;
    for (int overlap = DT_OVERLAP_ALLOW; overlap <= DT_OVERLAP_SKIP; overlap++) {
        const int64_t n = overlap == DT_OVERLAP_ALLOW ? 2 : 1;
        struct dt_fire_maker maker = a_maker();
        struct dt_schedule s = put_off((enum dt_overlap)overlap);
        int64_t id = mysql_fixture_number(&fx, "SELECT MIN(id) FROM jobs WHERE " SCHEDULED);
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
        assert_int_equal(mysql_fixture_number(&fx, "SELECT MIN(id) FROM jobs WHERE " SCHEDULED), id);
        s.cron = S("30 9 29 2 *");
        s.job.digest[0]++;
        put(s);
        assert_jobs(1, n);
        OK(dt_store_schedule_delete(&maker, S(NAME), true, &err));
        assert_jobs(0, n + 1);
        mysql_fixture_run(&fx, "DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts");
    }
}

static void a_schedule_that_goes_leaves_what_jitter_put_off_and_its_next_fire(void **state)
{
    (void)state;
    struct dt_fire_maker maker = a_maker();
    put_off(DT_OVERLAP_ALLOW);
    OK(dt_store_schedule_delete(&maker, S(NAME), false, &err));
    assert_jobs(2, 0);
}

/* Its number has a digit more, and stands among those of the past as text. */
static void a_fire_of_another_century_is_withdrawn_as_well(void **state)
{
    (void)state;
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
static void a_put_that_ends_a_pause_catches_up_as_a_resume_does(void **state)
{
    (void)state;
    for (int by_put = 0; by_put < 2; by_put++) {
        struct dt_fire_maker maker = a_maker();
        struct dt_schedule s = every(1000);
        struct dt_schedule_put ask = {.schedule = &s, .set_paused = true};
        struct dt_schedule out;
        s.catch_up_ms = HOUR_MS;
        put(s);
        set_paused(true);
        mysql_fixture_run(&fx, "DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts; "
                               "UPDATE schedules SET anchor_at = anchor_at - 5000, created_at = created_at - 5000; "
                               "UPDATE schedule_fires SET next_fire_at = next_fire_at - 5000");
        s.job.digest[0]++;
        put(s);
        if (by_put)
            OK(dt_store_schedule_put(&maker, &ask, &out, &err));
        else
            set_paused(false);
        assert_in_range(count(SCHEDULED " AND SUBSTRING_INDEX(job_key, '@', -1) + 0 <= created_at"), 4, 8);
        OK(dt_store_schedule_delete(&maker, S(NAME), true, &err));
        mysql_fixture_run(&fx, "DELETE FROM jobs; DELETE FROM job_keys; DELETE FROM job_counts");
    }
}

/* Its maker had not looked yet. */
static void a_fire_whose_time_came_just_before_a_change_has_its_job(void **state)
{
    (void)state;
    struct dt_schedule s = every(1000);
    s.overlap = DT_OVERLAP_SKIP;
    put(s);
    mysql_fixture_run(&fx, "UPDATE jobs SET state = 'succeeded', next_at = NULL");
    int64_t fire_ms = mysql_fixture_number(&fx, "SELECT next_fire_at FROM schedule_fires");
    wait_for_the_next_fire();
    s.job.payload = S("2");
    s.job.digest[0]++;
    put(s);
    assert_int_equal(
        mysql_fixture_number(&fx, "SELECT SUBSTRING_INDEX(job_key, '@', -1) + 0 FROM jobs WHERE " SCHEDULED), fire_ms);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, with_topic)
    const struct CMUnitTest tests[] = {
        TEST(a_fire_that_jitter_puts_off_lies_ahead_until_its_job_is_due),
        TEST(a_schedule_that_goes_leaves_what_jitter_put_off_and_its_next_fire),
        TEST(a_fire_of_another_century_is_withdrawn_as_well),
        TEST(a_put_that_ends_a_pause_catches_up_as_a_resume_does),
        TEST(a_fire_whose_time_came_just_before_a_change_has_its_job),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
