/* Which fires get a job, and when a schedule is looked at again. */
#include "support/suite.h"

#include "features/schedules/fire_batch.h"

#define NOW  INT64_C(1000000000)
#define HOUR INT64_C(3600000)
#define ROOM 400

static struct dt_fire fires[ROOM];

static struct dt_recurrence every(int64_t ms)
{
    return (struct dt_recurrence){.every_ms = ms, .starts_at_ms = INT64_MIN, .ends_at_ms = INT64_MAX};
}

static struct dt_schedule from(int64_t next_ms)
{
    return (struct dt_schedule){.name = DT_STR_LIT("s"), .next_fire_ms = next_ms};
}

static struct dt_fire_plan plan(struct dt_schedule *s, const struct dt_recurrence *r, bool unfinished)
{
    struct dt_fire_plan p = {.recurrence = r, .now_ms = NOW, .room = ROOM, .fires = fires, .unfinished = unfinished};
    dt_fire_plan_make(s, &p);
    return p;
}

TEST(the_next_fire_is_planned_however_far_it_is)
{
    struct dt_recurrence r = every(24 * HOUR);
    struct dt_schedule s = from(NOW + 20 * HOUR);
    struct dt_fire_plan p = plan(&s, &r, false);
    assert_int_equal(p.n, 1);
    assert_int_equal(fires[0].at_ms, NOW + 20 * HOUR);
    assert_in_range(p.look_ms, NOW + 20 * HOUR + 1, NOW + 20 * HOUR + 60001);
    assert_int_equal(plan(&s, &r, false).n, 0);
}

TEST(fires_that_come_soon_are_made_together_and_the_next_look_is_in_time)
{
    struct dt_recurrence r = every(2000);
    struct dt_schedule s = from(NOW);
    struct dt_fire_plan p = plan(&s, &r, false);
    assert_int_equal(p.n, 61);
    assert_int_equal(s.next_fire_ms, NOW + 122000);
    assert_int_equal(p.look_ms, NOW + 62000);
}

TEST(at_most_a_hundred_fires_are_planned_ahead)
{
    struct dt_recurrence r = every(100);
    struct dt_schedule s = from(NOW);
    struct dt_fire_plan p = plan(&s, &r, false);
    assert_int_equal(p.n, DT_FIRES_AHEAD + 1);
    assert_int_equal(s.last_fire_ms, NOW + 100 * DT_FIRES_AHEAD);
    assert_in_range(p.look_ms, NOW + 4900, NOW + 5200);
    assert_int_equal(plan(&s, &r, false).n, 0);
}

TEST(fires_that_wait_for_a_quota_are_not_missed_up_to_a_hundred)
{
    struct dt_recurrence r = every(HOUR);
    struct dt_schedule s = from(NOW - 3 * HOUR);
    assert_int_equal(plan(&s, &r, false).n, 1);
    s = from(NOW - 3 * HOUR);
    s.waits_since_ms = NOW - 4 * HOUR;
    assert_int_equal(plan(&s, &r, false).n, 5);
    assert_int_equal(fires[0].at_ms, NOW - 3 * HOUR);
    s = from(NOW - 150 * HOUR);
    s.waits_since_ms = NOW - 151 * HOUR;
    assert_int_equal(plan(&s, &r, false).n, DT_FIRES_AHEAD + 1);
}

TEST(a_schedule_whose_fires_do_not_fit_is_processed_again_at_once)
{
    struct dt_recurrence r = every(100);
    struct dt_schedule s = from(NOW - HOUR);
    s.catch_up_ms = HOUR;
    struct dt_fire_plan p = plan(&s, &r, false);
    assert_members(p, (n, ROOM), (look_ms, NOW));
}

TEST(an_ended_or_paused_schedule_has_no_next_fire)
{
    struct dt_recurrence r = every(HOUR);
    struct dt_schedule s = from(NOW);
    r.ends_at_ms = NOW + 1;
    r.anchor_ms = NOW;
    struct dt_fire_plan p = plan(&s, &r, false);
    assert_members(p, (n, 1), (look_ms, 0));
    assert_int_equal(s.next_fire_ms, 0);
    s = from(NOW);
    s.paused = true;
    p = plan(&s, &r, false);
    assert_members(p, (n, 0), (look_ms, 0));
}

TEST(a_fire_waits_for_the_job_before_it_until_its_own_time)
{
    struct dt_recurrence r = every(HOUR);
    struct dt_schedule s = from(NOW + 100000);
    s.overlap = DT_OVERLAP_SKIP;
    struct dt_fire_plan p = plan(&s, &r, true);
    assert_members(p, (n, 0), (look_ms, NOW + 40000));
    s.next_fire_ms = NOW + 5000;
    p = plan(&s, &r, true);
    assert_members(p, (n, 0), (look_ms, NOW + 5000));
    p = plan(&s, &r, false);
    assert_int_equal(p.n, 1);
    assert_int_equal(fires[0].how, DT_FIRE_RUNS);
    assert_true(p.look_ms > NOW);
}

TEST(overlap_skip_skips_a_due_fire_and_overlap_cancel_ends_the_retries_of_the_previous_job)
{
    struct dt_recurrence r = every(HOUR);
    struct dt_schedule s = from(NOW);
    s.overlap = DT_OVERLAP_SKIP;
    struct dt_fire_plan p = plan(&s, &r, true);
    assert_int_equal(p.n, 1);
    assert_int_equal(fires[0].how, DT_FIRE_SKIPPED);
    s = from(NOW);
    s.overlap = DT_OVERLAP_CANCEL;
    p = plan(&s, &r, true);
    assert_members(p, (n, 0), (cancel_first, true), (look_ms, NOW));
    p.retries_ended = true;
    dt_fire_plan_make(&s, &p);
    assert_members(p, (cancel_first, false), (n, 1));
    assert_int_equal(fires[0].how, DT_FIRE_RUNS);
}

TEST(a_fire_delayed_by_jitter_is_not_missed)
{
    struct dt_recurrence r = every(10 * HOUR);
    struct dt_schedule s = from(NOW - HOUR);
    r.anchor_ms = NOW - HOUR;
    s.jitter_ms = 2 * HOUR;
    s.overlap = DT_OVERLAP_SKIP;
    assert_int_equal(plan(&s, &r, false).n, 1);
    assert_int_equal(fires[0].at_ms, NOW - HOUR);
}

TEST(missed_fires_are_made_up_within_catch_up)
{
    struct dt_recurrence r = every(60000);
    struct dt_schedule s = from(NOW / 60000 * 60000 - HOUR);
    const int64_t minute = NOW / 60000 * 60000;
    plan(&s, &r, false);
    assert_true(fires[0].at_ms >= NOW - DT_FIRE_GRACE_MS);
    s = from(minute - HOUR);
    s.catch_up_ms = 10 * 60000;
    plan(&s, &r, false);
    assert_in_range(fires[0].at_ms, NOW - 10 * 60000, minute - 9 * 60000);
    s = from(minute - HOUR);
    s.catch_up_ms = HOUR;
    s.catch_up_max = 2;
    plan(&s, &r, false);
    assert_int_equal(fires[0].at_ms, minute - 60000);
    assert_int_equal(fires[1].at_ms, minute);
}

TEST(a_schedule_that_ended_meanwhile_makes_no_fire_that_is_too_old)
{
    struct dt_recurrence r = every(60000);
    struct dt_schedule s = from(NOW / 60000 * 60000 - HOUR);
    r.ends_at_ms = NOW - HOUR / 2;
    s.catch_up_ms = 10 * 60000;
    s.catch_up_max = 2;
    struct dt_fire_plan p = plan(&s, &r, false);
    assert_members(p, (n, 0), (look_ms, 0));
    assert_int_equal(s.next_fire_ms, 0);
}

/* Before a schedule changes: what lies ahead is the changed one's. */
TEST(only_due_fires_are_planned_if_asked)
{
    struct dt_recurrence r = every(1000);
    for (int overlap = DT_OVERLAP_ALLOW; overlap <= DT_OVERLAP_CANCEL; overlap++) {
        struct dt_schedule s = from(NOW - 2000);
        struct dt_fire_plan p = {.recurrence = &r, .now_ms = NOW, .room = ROOM, .fires = fires, .due_only = true};
        s.overlap = (enum dt_overlap)overlap;
        dt_fire_plan_make(&s, &p);
        assert_int_equal(p.n, overlap == DT_OVERLAP_ALLOW ? 3 : 1);
        assert_members(fires[0], (at_ms, NOW - 2000), (how, DT_FIRE_RUNS));
        s.next_fire_ms = NOW + 1;
        dt_fire_plan_make(&s, &p);
        assert_int_equal(p.n, 0);
        assert_int_equal(s.next_fire_ms, NOW + 1);
    }
}
