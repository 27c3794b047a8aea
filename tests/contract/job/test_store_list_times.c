/* Lists by due time and by when jobs finished, on a real server. */
#include "contract/job/list_suite.h"

STORE_SUITE("list", 0)

/* All pages of a list by time as one text. */
static const char *way(struct dt_list_filter f)
{
    static char text[8000];
    size_t at = 0;
    text[0] = '\0';
    do {
        list(f);
        for (size_t i = 0; i < last.n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", at ? " " : "", (long long)last.v[i].id);
        f.after = last.last_place;
    } while (last.more);
    return text;
}

#define DAY INT64_C(86400000)

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

FRESH_TEST(a_list_by_due_time_has_near_and_offered_jobs_in_their_order_before_far_ones)
{
    job_row(1, "next_at = 300, near = 1");
    job_row(2, "next_at = 100, near = 1");
    job_row(3, "next_at = 300, near = 1, state = 'dispatched'");
    job_row(4, "next_at = -5, near = 1");
    job_row(5, "next_at = %lld, near = 0", (long long)(7 * DAY + 9));
    job_row(6, "next_at = %lld, near = 0", (long long)(7 * DAY + 3));
    job_row(7, "next_at = %lld, near = 0", (long long)(6 * DAY + 5));
    job_row(8, "state = 'dead', next_at = NULL, leave_at = 100");
    job_row(9, "next_at = 200, near = -1");
    job_row(10, "next_at = 300, near = -1");
    job_row(11, "next_at = 50, near = -1");
    for (unsigned limit = 1; limit <= 11; limit++) {
        struct dt_list_filter f = WITH(.limit = limit, .due = between(INT64_MIN, INT64_MAX));
        assert_string_equal(way(f), "4 11 2 9 1 3 10 7 5 6");
        f.due = between(100, 7 * DAY + 9);
        assert_string_equal(way(f), "2 9 1 3 10 7 6");
        f.due = between(101, 300);
        assert_string_equal(way(f), "9");
        f.due = between(201, 300);
        assert_string_equal(way(f), "");
        f.due = between(INT64_MIN, 0);
        assert_string_equal(way(f), "4");
        f.due = between(300, 301);
        f.state = DT_SCHEDULED;
        assert_string_equal(way(f), "1 10");
        f.payload = true;
        f.bytes = 2000;
        f.state = -1;
        f.due = between(INT64_MIN, INT64_MAX);
        assert_string_equal(way(f), "4 11 2 9 1 3 10 7 5 6");
        assert_non_null(last.n ? last.v[0].payload.p : "");
    }
}

/* The order of jobs that alternate between two bands of the index holds across windows of either. */
FRESH_TEST(a_list_by_due_time_merges_the_jobs_of_many_windows)
{
    job_row(1, NULL);
    job_rows_multiply(3000, 0);
    run_sql("UPDATE jobs SET near = IF(MOD(id, 3), 1, -1), next_at = 1000 + id DIV 2");
    struct dt_list_filter f = all(700);
    int64_t id = 0;
    f.due = between(INT64_MIN, INT64_MAX);
    do {
        list(f);
        for (size_t i = 0; i < last.n; i++)
            assert_int_equal(last.v[i].id, ++id);
        f.after = last.last_place;
    } while (last.more);
    assert_int_equal(id, 3000);
}

/* Rows with payloads are asked for in parts of four at first: one ends within the jobs that are due at 300. */
FRESH_TEST(no_job_is_skipped_if_a_page_ends_within_one_due_time)
{
    for (int64_t id = 1; id <= 9; id++)
        job_row(id, "near = 1, next_at = %d", id <= 2 ? 100 : 300);
    job_row(10, "near = 1, next_at = 400");
    struct dt_list_filter f = WITH(.due = between(0, 500), .payload = true, .bytes = 1000000);
    assert_string_equal(way(f), "1 2 3 4 5 6 7 8 9 10");
}

static void finished(int64_t id, const char *table, const char *what, int64_t finished_at, int64_t leave_at)
{
    job_row(id, "state = '%s', next_at = NULL, finished_at = %lld, leave_at = %lld", what, (long long)finished_at,
            (long long)leave_at);
    if (strcmp(table, "history") == 0)
        job_rows_archive("id = %lld", (long long)id);
}

FRESH_TEST(a_list_of_finished_jobs_continues_in_history)
{
    job_row(1, "finished_at = 500"); /* lives: an earlier attempt ended */
    finished(2, "jobs", "succeeded", 500, 1500);
    finished(3, "jobs", "dead", 400, 9400);
    finished(4, "jobs", "dead", 300, 9300);
    finished(5, "jobs", "cancelled", 100, 1100);
    finished(6, "history", "dead", 50, 0);
    finished(7, "history", "succeeded", 60, 0);
    for (unsigned limit = 1; limit <= 6; limit++) {
        struct dt_list_filter f = all(limit);
        f.after.split_ms = 2000;
        f.finished = between(INT64_MIN, INT64_MAX);
        assert_string_equal(way(f), "4 3 5 2 6 7");
        f.state = DT_DEAD;
        assert_string_equal(way(f), "4 3 6");
        f.payload = true;
        f.bytes = 2000;
        assert_string_equal(way(f), "4 3 6");
        f.finished = between(50, 400);
        assert_string_equal(way(f), "4 6");
    }
    struct dt_list_filter f = all(10); /* and by id, where another filter says the way */
    f.id = 1;
    f.finished = between(INT64_MIN, INT64_MAX);
    assert_string_equal(way(f), "");
}

FRESH_TEST(dead_jobs_of_history_are_listed_by_when_they_died)
{
    finished(1, "jobs", "dead", 400, 9400);
    finished(2, "jobs", "dead", 90, 1000); /* leaves soon */
    for (int64_t id = 3; id <= 9; id++) {
        finished(id, "jobs", id == 6 ? "succeeded" : "dead", 300 - id / 2 * 10, 9);
        run_sql("UPDATE jobs SET error_at = finished_at WHERE id = %lld", (long long)id);
        job_rows_archive("id = %lld", (long long)id);
    }
    for (unsigned limit = 1; limit <= 9; limit++) {
        struct dt_list_filter f = all(limit);
        f.after.split_ms = 2000;
        f.state = DT_DEAD;
        f.finished = between(INT64_MIN, INT64_MAX);
        assert_string_equal(way(f), "1 8 9 7 4 5 3 2");
        f.finished = between(0, 0);
        assert_string_equal(way(f), "");
        f.finished = (struct dt_list_times){.given = false};
        f.failed = between(260, 290);
        assert_string_equal(way(f), "8 9 7 4 5");
        f.payload = true;
        f.bytes = 2000;
        assert_string_equal(way(f), "8 9 7 4 5");
    }
}

/* ---- bounds ---- */

FRESH_TEST(dead_jobs_are_found_without_reading_other_archived_jobs)
{
    many_jobs();
    run_sql("UPDATE jobs SET next_at = NULL, state = IF(id MOD 8000, 'succeeded', 'dead'), error_at = id");
    job_rows_archive("TRUE");
    struct dt_list_filter f = WITH(.state = DT_DEAD, .failed = between(8000, 20000));
    int64_t before = rows_read();
    assert_string_equal(way(f), "8000 16000");
    assert_in_range(rows_read() - before, 2, 100);
}

/* All of them due at one time, then all on one day: the due index has no more than ids to divide them by. */
FRESH_TEST(a_search_by_due_time_is_bounded_even_within_one_value)
{
    many_jobs();
    run_sql("UPDATE jobs SET topic = 'rare' WHERE id IN (5, 15000, %d)", MANY);
    for (int near = 1; near >= 0; near--) {
        run_sql("UPDATE jobs SET near = %d, next_at = %lld", near, (long long)(9 * DAY));
        struct dt_list_filter f = WITH(.topic = S("rare"), .due = between(8 * DAY, 10 * DAY));
        int64_t before = rows_read();
        assert_page(f, "5+");
        assert_in_range(rows_read() - before, 10000, 45000); /* an entry of the index, and its row */
        assert_string_equal(way(f), "5 15000 24000");
        f.due = between(1 * DAY, 9 * DAY);
        before = rows_read();
        assert_string_equal(way(f), "");
        assert_in_range(rows_read() - before, 0, 100);
    }
}

FRESH_TEST(due_jobs_are_found_without_reading_others)
{
    many_jobs();
    run_sql("UPDATE jobs SET near = 1, next_at = 1000000 + id");
    struct dt_list_filter f = WITH(.due = between(1000100, 1000103));
    int64_t before = rows_read();
    assert_string_equal(way(f), "100 101 102");
    assert_in_range(rows_read() - before, 3, 100);
    f = WITH(.finished = between(INT64_MIN, INT64_MAX));
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL, finished_at = 7 WHERE id = 23000");
    before = rows_read();
    assert_string_equal(way(f), "23000");
    assert_in_range(rows_read() - before, 1, 100);
}

SUITE(open_store, close_store)
