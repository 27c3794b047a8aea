/* What is told of an outage: read back from a file that stands in for stderr. */
#include "base/metrics.h"
#include "base/outage.h"
#include "support/rigs/log_rig.h"

#define S INT64_C(1000000)

static void catch_outages(void)
{
    dt_outage_forget();
    catch_stderr();
}

#define CAUGHT_TEST(name) TEST_WITH(name, catch_outages, release_stderr)

static int lines_with(const char *what)
{
    int n = 0;
    for (const char *p = written(); (p = strstr(p, what)); p++)
        n++;
    return n;
}

static int lines(void)
{
    return lines_with("time=");
}

static const struct dt_error gone = {.text = "gone"}, denied = {.text = "INSERT command denied", .alarm = true};

static void meets(int64_t at_us, struct dt_outage_part *part, enum dt_outage_of of)
{
    dt_outage_failed_at(at_us, part, of, "outbox", "notices wait", DT_UNAVAILABLE, &gone);
}

CAUGHT_TEST(a_long_outage_of_many_parts_is_logged_once_and_then_once_a_minute)
{
    struct dt_outage_part parts[16] = {0};
    int64_t us = 0;
    for (; us < 150 * S; us += S / 2)
        for (int i = 0; i < 16; i++)
            meets(us, &parts[i], DT_OUTAGE_MYSQL);
    assert_int_equal(lines(), 3);
    assert_int_equal(lines_with("begins=true tries=1 seconds=0 parts=1 status=UNAVAILABLE reason=gone"), 1);
    assert_int_equal(lines_with("level=warn component=outbox msg=\"notices wait\" outage=mysql"), 3);
    assert_int_equal(lines_with("begins=false tries=1921 seconds=60 parts=16"), 1);
    for (int i = 0; i < 15; i++)
        dt_outage_over_at(us, &parts[i]);
    assert_int_equal(lines_with("outage ended"), 0);
    dt_outage_over_at(us, &parts[15]);
    assert_int_equal(lines_with("msg=\"outage ended\" outage=mysql tries=4800 seconds=150"), 1);
    dt_outage_over_at(us, &parts[15]);
    assert_int_equal(lines(), 4);
}

CAUGHT_TEST(an_outage_that_flaps_is_logged_every_ten_seconds_at_most)
{
    struct dt_outage_part part = {0};
    for (int64_t us = 0; us < 100 * S; us += S / 4) {
        meets(us, &part, DT_OUTAGE_KAFKA);
        dt_outage_over_at(us + S / 8, &part);
    }
    assert_in_range(lines(), 18, 22);
    assert_int_equal(lines_with("begins=true"), lines_with("outage ended"));
}

CAUGHT_TEST(an_outage_that_lasts_is_logged_although_it_began_right_after_another_ended)
{
    struct dt_outage_part part = {0};
    meets(0, &part, DT_OUTAGE_REDIS);
    dt_outage_over_at(1 * S, &part);
    for (int64_t us = 2 * S; us < 13 * S; us += S / 10)
        meets(us, &part, DT_OUTAGE_REDIS);
    assert_int_equal(lines_with("begins=true tries=91 seconds=9"), 1);
    assert_int_equal(lines(), 3);
    dt_outage_over_at(13 * S, &part);
    assert_int_equal(lines_with("outage ended"), 2);
}

CAUGHT_TEST(each_server_has_an_outage_of_its_own_and_a_part_is_in_one_at_a_time)
{
    struct dt_outage_part part = {0}, other = {0};
    meets(0, &part, DT_OUTAGE_MYSQL);
    meets(1 * S, &other, DT_OUTAGE_KAFKA);
    meets(2 * S, &part, DT_OUTAGE_KAFKA);
    assert_int_equal(lines_with("outage ended\" outage=mysql"), 1);
    dt_outage_over_at(3 * S, &other);
    assert_int_equal(lines_with("outage=kafka"), 1);
    dt_outage_over_at(3 * S, &part);
    assert_int_equal(lines_with("outage ended\" outage=kafka"), 1);
}

CAUGHT_TEST(an_outage_ends_soon_after_a_part_succeeds_also_if_another_part_asks_rarely)
{
    struct dt_outage_part part = {0}, rare = {0};
    meets(0, &part, DT_OUTAGE_MYSQL);
    meets(0, &rare, DT_OUTAGE_MYSQL);
    dt_outage_over_at(1 * S, &part);
    dt_outage_look(2 * S);
    assert_int_equal(lines_with("outage ended"), 0);
    meets(2 * S, &part, DT_OUTAGE_MYSQL); /* it was not the end */
    dt_outage_look(1 * S + DT_OUTAGE_WELL_US);
    assert_int_equal(lines_with("outage ended"), 0);
    dt_outage_over_at(3 * S, &part);
    dt_outage_look(3 * S + DT_OUTAGE_WELL_US);
    assert_int_equal(lines_with("outage ended\" outage=mysql tries=3 seconds=3"), 1);
}

/* One part asks often and is well soon; another asks every five seconds and is refused each time. */
CAUGHT_TEST(an_outage_lasts_when_another_part_failed_last)
{
    struct dt_outage_part often = {0}, rare = {0};
    meets(0, &often, DT_OUTAGE_MYSQL);
    for (int64_t us = 0; us < 60 * S; us += 5 * S) {
        meets(us + 1, &rare, DT_OUTAGE_MYSQL);
        dt_outage_over_at(us + S, &often);
        dt_outage_look(us + 4 * S);
        meets(us + 5 * S, &often, DT_OUTAGE_MYSQL);
    }
    assert_int_equal(lines_with("outage ended"), 0);
    meets(60 * S + 1, &rare, DT_OUTAGE_MYSQL);
    dt_outage_over_at(61 * S, &often);
    dt_outage_over_at(62 * S, &rare);
    assert_int_equal(lines_with("outage ended\" outage=mysql tries=26 seconds=62"), 1);
    dt_outage_look(64 * S);
    meets(70 * S, &rare, DT_OUTAGE_MYSQL);
    dt_outage_look(90 * S);
    meets(91 * S, &often, DT_OUTAGE_MYSQL);
    dt_outage_over_at(92 * S, &rare); /* it failed in the outage before */
    dt_outage_look(92 * S + DT_OUTAGE_WELL_US);
    assert_true(dt_outage_lasts(DT_OUTAGE_MYSQL));
}

CAUGHT_TEST(a_refusal_is_logged_as_an_error_once_per_outage)
{
    struct dt_outage_part part = {0};
    meets(0, &part, DT_OUTAGE_MYSQL);
    for (int i = 1; i < 50; i++) {
        dt_outage_failed_at(i * S, &part, DT_OUTAGE_MYSQL, "committer", "a commit failed", DT_UNAVAILABLE, &denied);
        dt_outage_over_at(i * S + 1, &part);
        dt_outage_look(i * S + 1);
    }
    assert_int_equal(lines_with("level=error component=committer"), 1);
    assert_int_equal(lines(), 2);
    dt_outage_look(49 * S + DT_OUTAGE_QUIET_US);
    assert_int_equal(lines_with("outage ended\" outage=mysql tries=50 seconds=49"), 1);
    dt_outage_failed_at(49 * S + DT_OUTAGE_QUIET_US + 1, &part, DT_OUTAGE_MYSQL, "committer", "a commit failed",
                        DT_UNAVAILABLE, &denied);
    assert_int_equal(lines_with("level=error component=committer"), 2);
    dt_outage_forget();
    dt_outage_failed_at(100 * S, &part, DT_OUTAGE_MYSQL, "a", "b", DT_SCHEMA, NULL);
    assert_int_equal(lines_with("level=error component=a msg=b outage=mysql"), 1);
    assert_int_equal(lines_with(dt_status_text(DT_SCHEMA)), 1);
}

CAUGHT_TEST(an_outage_that_no_part_reports_any_more_ends_by_itself)
{
    struct dt_outage_part idle = {0}, other = {0};
    meets(0, &idle, DT_OUTAGE_MYSQL);
    dt_outage_look(DT_OUTAGE_QUIET_US - 1);
    assert_int_equal(lines_with("outage ended"), 0);
    dt_outage_look(DT_OUTAGE_QUIET_US);
    assert_int_equal(lines_with("outage ended"), 1);
    meets(100 * S, &other, DT_OUTAGE_MYSQL);
    dt_outage_over_at(101 * S, &idle); /* of the one before */
    assert_int_equal(lines_with("outage ended"), 1);
    meets(101 * S, &idle, DT_OUTAGE_MYSQL);
    dt_outage_over_at(101 * S, &other);
    assert_int_equal(lines_with("outage ended"), 1);
    dt_outage_over_at(101 * S, &idle);
    assert_int_equal(lines_with("outage ended"), 2);
}

CAUGHT_TEST(metrics_say_which_outage_lasts)
{
    struct dt_outage_part part = {0};
    STRBUF(out);
    meets(0, &part, DT_OUTAGE_ZOOKEEPER);
    dt_metrics_write(&out);
    assert_non_null(strstr(out.p, "duetime_outage{of=\"zookeeper\"} 1"));
    dt_outage_over_at(0, &part);
    dt_strbuf_reset(&out);
    dt_metrics_write(&out);
    assert_non_null(strstr(out.p, "duetime_outage{of=\"zookeeper\"} 0"));
    assert_non_null(strstr(out.p, "duetime_outage_failures_total{of=\"zookeeper\"} 1"));
}

#define THREADS 4

static void *fail_and_recover(void *)
{
    struct dt_outage_part part = {0};
    for (int i = 0; i < 5000; i++) {
        meets(i, &part, DT_OUTAGE_MYSQL);
        if (i % 3 == 0)
            dt_outage_over_at(i, &part);
    }
    dt_outage_over_at(5000, &part);
    return NULL;
}

CAUGHT_TEST(concurrent_threads_count_their_parts_correctly)
{
    struct dt_outage_part part = {0};
    run_at_once(fail_and_recover, NULL, 0, THREADS);
    assert_int_equal(lines_with("begins=true"), lines_with("outage ended"));
    meets(100 * S, &part, DT_OUTAGE_MYSQL);
    assert_int_equal(lines_with("parts=1 "), lines_with("begins=true"));
}
