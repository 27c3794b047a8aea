/* Dead letters by topic and error: what is counted, and that counting is bounded. */
#include "contract/job/list_suite.h"
#include "job/results/dead.h"

#define DAY_MS INT64_C(86400000)

STORE_SUITE("dead", 0)

static struct dt_dead_groups found;

static void count(struct dt_dead_ask ask)
{
    ask.now_ms = mysql_now_ms();
    OK(dt_store_dead_groups(store, &ask, &arena, &found, &err));
}

/* "topic/code: jobs message last" of each group. */
static const char *groups(void)
{
    static char text[4000];
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < found.n; i++) {
        const struct dt_dead_group *g = &found.v[i];
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.*s/%.*s %lld %.*s %lld", i ? ", " : "",
                               (int)g->topic.n, g->topic.p, (int)g->error_code.n,
                               g->error_code.p ? g->error_code.p : "", (long long)g->jobs, (int)g->message.n,
                               g->message.p ? g->message.p : "", (long long)g->last_ms);
    }
    return text;
}

static void dead(int64_t id, const char *topic, const char *code, int64_t at_ms)
{
    job_row(id, "topic = '%s', state = 'dead', next_at = NULL, leave_at = %lld, error_at = %lld, error_code = %s",
            topic, (long long)(mysql_now_ms() + DAY_MS / 2), (long long)at_ms, code);
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

FRESH_TEST(dead_jobs_are_counted_by_topic_and_error_in_descending_order)
{
    dead(1, "orders", "'E1', error_message = 'it was'", 100);
    dead(2, "orders", "'E1'", 300);
    dead(3, "orders", "'E2'", 200);
    dead(4, "mails", "'E1'", 200);
    dead(5, "mails", "NULL", 50);
    dead(6, "orders", "'E1'", 250);
    job_row(7, "state = 'succeeded', next_at = NULL, error_code = 'E1', leave_at = 9000000000000");
    job_row(8, "error_code = 'E1'");
    count((struct dt_dead_ask){.now_ms = 0});
    assert_string_equal(groups(), "orders/E1 3 it was 300, mails/ 1  50, mails/E1 1  200, orders/E2 1  200");
    assert_members(found, (jobs, 6), (newest, false));
    count((struct dt_dead_ask){.topic = S("mails")});
    assert_string_equal(groups(), "mails/ 1  50, mails/E1 1  200");
    count((struct dt_dead_ask){.failed = between(200, 300)});
    assert_string_equal(groups(), "mails/E1 1  200, orders/E1 1  250, orders/E2 1  200");
    const struct dt_str prefix = S("mai");
    const struct dt_topic_bound bound = {&prefix, 1};
    count((struct dt_dead_ask){.bound = &bound});
    assert_string_equal(groups(), "mails/ 1  50, mails/E1 1  200");
    assert_int_equal(found.jobs, 2);
}

FRESH_TEST(dead_jobs_in_the_archive_and_those_about_to_be_archived_are_listed)
{
    int64_t now_ms = mysql_now_ms();
    for (int64_t id = 1; id <= 5; id++)
        dead(id, "orders", "'E1'", now_ms - id * DAY_MS);
    run_sql("UPDATE jobs SET purge_at = 5 WHERE id = 5");
    job_rows_archive("id >= 3");
    run_sql("UPDATE jobs SET leave_at = %lld WHERE id = 2", (long long)now_ms);
    count((struct dt_dead_ask){.now_ms = 0});
    assert_int_equal(found.n, 1);
    assert_members(found.v[0], (jobs, 4), (last_ms, now_ms - DAY_MS));
    count((struct dt_dead_ask){.failed = between(now_ms - 4 * DAY_MS, now_ms - 2 * DAY_MS)});
    assert_members(found.v[0], (jobs, 2), (last_ms, now_ms - 3 * DAY_MS));
}

/* A manual edit may leave a job's times as no program would. */
FRESH_TEST(a_job_that_leaves_at_an_odd_time_is_found_by_when_it_failed)
{
    int64_t now_ms = mysql_now_ms();
    dead(1, "orders", "'E1'", now_ms - 9 * DAY_MS);
    run_sql("UPDATE jobs SET leave_at = %lld", (long long)(now_ms + 90 * DAY_MS));
    count((struct dt_dead_ask){.failed = between(now_ms - 10 * DAY_MS, now_ms - 8 * DAY_MS)});
    assert_int_equal(found.jobs, 1);
}

FRESH_TEST(at_most_the_maximal_number_of_groups_is_returned)
{
    dead(1, "orders", "'E'", 7);
    job_rows_multiply(1250, 0);
    run_sql("UPDATE jobs SET error_code = CONCAT('E', id), next_at = NULL");
    count((struct dt_dead_ask){.now_ms = 0});
    assert_members(found, (n, DT_DEAD_GROUPS), (more, 1250 - DT_DEAD_GROUPS), (jobs, 1250));
}

/* 1,000 that died last are left of many more: rows are read for those that are counted, and for no others. */
FRESH_TEST(only_the_newest_dead_jobs_are_read)
{
    dead(1, "orders", "'old'", 7);
    job_rows_multiply(DT_DEAD_LOOKED_AT + 1000, 0);
    run_sql(
        "UPDATE jobs SET next_at = NULL, error_code = IF(id > 1500, 'new', 'old'), leave_at = leave_at + (id > 1500)");
    int64_t before = rows_read();
    count((struct dt_dead_ask){.now_ms = 0});
    int64_t read = rows_read() - before;
    assert_members(found, (newest, true), (jobs, DT_DEAD_LOOKED_AT));
    assert_string_equal(groups(), "orders/new 99500  7, orders/old 500  7");
    assert_in_range(read, DT_DEAD_LOOKED_AT, 7 * DT_DEAD_LOOKED_AT);
    assert_in_range(found.v[0].job_id, DT_DEAD_LOOKED_AT, DT_DEAD_LOOKED_AT + 1000);
}

SUITE(open_store, close_store)
