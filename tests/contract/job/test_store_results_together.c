/* Results on a real server: together with others, without deadlocks, and those that wait for a locked row. */
#include "contract/job/results_suite.h"

/* ---- together with others ---- */

struct applier {
    struct dt_apply *results;
    size_t n;
    dt_status status;
};

static void *apply_all(void *arg)
{
    struct applier *a = arg;
    dt_store *mine = NULL;
    a->status = dt_store_new(&mysql_fixture.config, NULL, &mine);
    if (!a->status)
        a->status = dt_store_apply(mine, &map, a->results, a->n, NULL);
    dt_store_free(mine);
    dt_db_thread_end();
    return NULL;
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

FRESH_TEST(the_same_results_sent_concurrently_are_applied_once)
{
    enum { JOBS = 200, SIDES = 4 };
    static struct dt_apply results[SIDES][JOBS];
    struct applier appliers[SIDES];
    for (int64_t id = 1; id <= JOBS; id++)
        job_row_dispatched(id, 1, 0);
    for (int s = 0; s < SIDES; s++) {
        for (int i = 0; i < JOBS; i++)
            results[s][i] = result(s % 2 ? i + 1 : JOBS - i, 1, i % 2 == s / 2 ? DT_RESULT_GAVE_UP : DT_RESULT_FAILED);
        appliers[s] = (struct applier){.results = results[s], .n = JOBS};
    }
    run_at_once(apply_all, appliers, sizeof *appliers, SIDES);
    int applied = 0;
    for (int s = 0; s < SIDES; s++) {
        MYSQL_FIXTURE_OK(appliers[s].status, NULL);
        for (int i = 0; i < JOBS; i++)
            applied += results[s][i].outcome == DT_OUTCOME_APPLIED;
    }
    assert_int_equal(applied, JOBS);
    assert_sql_number(JOBS, "SELECT COUNT(*) FROM jobs WHERE version = 2");
    assert_sql_number(sql_number("SELECT COUNT(*) FROM jobs WHERE state = 'dead'"), "SELECT COUNT(*) FROM messages");
}

/* What was judged without a lock is judged again when somebody came between; nothing of the batch is written twice. */
FRESH_TEST(a_job_that_changed_between_reading_and_writing_is_judged_again)
{
    struct dt_apply results[] = {result(6, 1, DT_RESULT_SUCCEEDED), result(7, 1, DT_RESULT_FAILED),
                                 result(8, 1, DT_RESULT_GAVE_UP)};
    struct applier a = {.results = results, .n = 3};
    for (int64_t id = 6; id <= 8; id++)
        job_row_dispatched(id, 1, 0);
    run_sql("START TRANSACTION; UPDATE jobs SET no_retries = TRUE, version = version + 1 WHERE id = 7");
    pthread_t thread = start_thread(apply_all, &a);
    mysql_fixture_await_statement("UPDATE%");
    run_sql("COMMIT");
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(a.status, NULL);
    for (int i = 0; i < 3; i++)
        assert_outcome(results[i], APPLIED);
    assert_job(6, "CONCAT_WS(' ', state, version)", "succeeded 2");
    assert_job(7, "CONCAT_WS(' ', state, version)", "cancelled 3");
    assert_job(8, "CONCAT_WS(' ', state, version)", "dead 2");
    assert_sql_number(1, "SELECT COUNT(*) FROM messages");
}

/* Inside a leader transaction nothing can be judged again: the rows are locked while they are read. */
FRESH_TEST(inside_a_callers_transaction_rows_are_locked_while_they_are_read)
{
    dt_db *db;
    int64_t now_ms;
    struct dt_apply a = result(7, 1, DT_RESULT_SUCCEEDED);
    job_row_dispatched(7, 2, 0);
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_begin_at(db, &now_ms, &err));
    OK(apply_within(db, now_ms, &a)); /* stale: nothing is written */
    run_sql("SET innodb_lock_wait_timeout = 1");
    assert_int_equal(dt_db_script(mysql_fixture.db, S("UPDATE jobs SET version = 9"), NULL), DT_BUSY);
    dt_db_rollback(db);
    OK(dt_db_script(mysql_fixture.db, S("UPDATE jobs SET version = 9"), &err));
}

FRESH_TEST(results_do_not_lock_topics)
{
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('orders', 1, 1)");
    job_row_dispatched(7, 1, 0);
    run_sql("START TRANSACTION; UPDATE topics SET retry = '1s'");
    struct dt_apply a = result(7, 1, DT_RESULT_SUCCEEDED);
    dt_status status = dt_store_apply(store, &map, &a, 1, &err);
    run_sql("ROLLBACK");
    OK(status);
    assert_outcome(a, APPLIED);
}

/* Somebody edits a job by hand and does not commit: its results are told to be busy, and everybody else's go through.
 */
FRESH_TEST(a_result_for_a_locked_job_is_skipped)
{
    for (int64_t id = 1; id <= 3; id++)
        job_row_dispatched(id, 1, 0);
    run_sql("START TRANSACTION; UPDATE jobs SET payload = 'x' WHERE id = 2");
    struct dt_apply a[] = {result(1, 1, DT_RESULT_SUCCEEDED), result(2, 1, DT_RESULT_FAILED),
                           result(3, 1, DT_RESULT_SUCCEEDED), result(2, 1, DT_RESULT_SUCCEEDED),
                           result(99, 1, DT_RESULT_SUCCEEDED)};
    OK(dt_store_apply(store, &map, a, 5, &err));
    assert_outcome(a[0], APPLIED);
    assert_outcome(a[1], BUSY);
    assert_outcome(a[2], APPLIED);
    assert_outcome(a[3], BUSY);
    assert_outcome(a[4], UNKNOWN_JOB);
    run_sql("COMMIT");
    struct dt_apply b[] = {a[1], a[3]};
    OK(dt_store_apply(store, &map, b, 2, &err)); /* in their order: the failure, then the success that ends the retry */
    assert_outcome(b[0], APPLIED);
    assert_outcome(b[1], APPLIED);
    assert_sql_number(3, "SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'");
}

/* Who may not see a topic is not told whether its jobs are there … */
FRESH_TEST(a_job_outside_the_callers_topics_is_unknown)
{
    struct dt_str prefixes[] = {S("mail."), S("orders-"), S("")}, wider[] = {S("mail."), S("ord")};
    const struct dt_topic_bound stranger = {prefixes, 3}, owner = {wider, 2};
    for (int64_t id = 1; id <= 3; id++)
        job_row_dispatched(id, 1, 0);
    struct dt_apply a[] = {result(1, 1, DT_RESULT_SUCCEEDED), result(1, 1, DT_RESULT_SUCCEEDED),
                           result(2, 1, DT_RESULT_FAILED), result(3, 1, DT_RESULT_SUCCEEDED)};
    a[0].bound = a[2].bound = &stranger;
    a[1].bound = &owner;
    OK(dt_store_apply(store, &map, a, 4, &err));
    assert_outcome(a[0], UNKNOWN_JOB);
    assert_outcome(a[1], APPLIED);
    assert_outcome(a[2], UNKNOWN_JOB);
    assert_outcome(a[3], APPLIED);
    assert_job(2, "state", "dispatched");
    assert_job(2, "version", "1");
}

/* … nor whether somebody holds them. */
FRESH_TEST(a_locked_job_outside_the_callers_topics_is_unknown)
{
    struct dt_str prefixes[] = {S("mail.")};
    const struct dt_topic_bound stranger = {prefixes, 1};
    job_row_dispatched(2, 1, 0);
    run_sql("START TRANSACTION; UPDATE jobs SET payload = 'x' WHERE id = 2");
    struct dt_apply a[] = {result(2, 1, DT_RESULT_FAILED), result(2, 1, DT_RESULT_FAILED)};
    a[0].bound = &stranger;
    OK(dt_store_apply(store, &map, a, 2, &err));
    run_sql("ROLLBACK");
    assert_outcome(a[0], UNKNOWN_JOB);
    assert_outcome(a[1], BUSY);
}

/* ---- results that wait ---- */

/* The next page of at most `limit`; how many there were. */
static size_t apply_page(int64_t *after_id, size_t limit, struct dt_apply **page)
{
    struct dt_deferred_page read = {.limit = limit, .after_id = *after_id};
    OK(dt_store_apply_deferred(store, &map, &waiting_texts, &read, &err));
    *after_id = read.after_id;
    *page = read.v;
    return read.n;
}

FRESH_TEST(a_result_of_a_busy_job_is_stored_and_applied_later_as_reported)
{
    for (int64_t id = 1; id <= 3; id++)
        job_row_dispatched(id, 1, 0);
    run_sql("START TRANSACTION; UPDATE jobs SET payload = 'x' WHERE id IN (2, 3)");
    struct dt_apply a[] = {result(1, 1, DT_RESULT_SUCCEEDED), failure(2, 1, S("late"), S("one \xC3\xA9")),
                           result(3, 1, DT_RESULT_SNOOZED)};
    OK(dt_store_apply_or_defer(store, &map, a, 3, false, &err));
    assert_outcome(a[0], APPLIED);
    assert_outcome(a[1], BUSY);
    assert_outcome(a[2], BUSY);
    assert_int_equal(stored(), 2);
    int64_t after_id = 0, begun_us = dt_clock_mono_us(dt_clock_system());
    struct dt_apply *page;
    assert_int_equal(apply_page(&after_id, 10, &page), 2); /* nobody is waited for */
    assert_true(dt_clock_mono_us(dt_clock_system()) - begun_us < mysql_fixture.config.mysql_lock_timeout * 1000);
    assert_outcome(page[0], BUSY);
    assert_outcome(page[1], BUSY);
    assert_int_equal(apply_page(&after_id, 10, &page), 0);
    assert_int_equal(stored(), 2);
    run_sql("COMMIT");
    after_id = 0;
    assert_int_equal(apply_page(&after_id, 10, &page), 2);
    assert_outcome(page[0], APPLIED);
    assert_int_equal(page[0].result.job_id, 2);
    assert_outcome(page[1], APPLIED);
    assert_int_equal(stored(), 0);
    assert_job(2, "CONCAT_WS(' ', state, attempt_status, error_code, error_message)",
               "scheduled failed late one \xC3\xA9");
    assert_job(3, "CONCAT_WS(' ', state, attempt_status, next_at - updated_at)", "scheduled snoozed 5000");
}

FRESH_TEST(a_result_does_not_overtake_an_earlier_one_of_its_job_that_is_stored)
{
    job_row_dispatched(1, 1, 0);
    job_row_dispatched(2, 1, 0);
    run_sql("INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, deferred_at) VALUES (1, 1, "
            "'gave_up', -1, 1)");
    struct dt_apply a[] = {result(1, 1, DT_RESULT_SUCCEEDED), result(2, 1, DT_RESULT_SUCCEEDED)};
    OK(dt_store_apply_or_defer(store, &map, a, 2, true, &err));
    assert_outcome(a[0], BUSY);
    assert_outcome(a[1], APPLIED);
    assert_int_equal(stored(), 2);
    struct dt_apply *page;
    int64_t after_id = 0;
    assert_int_equal(apply_page(&after_id, 1, &page), 1);
    assert_outcome(page[0], APPLIED);
    assert_int_equal(apply_page(&after_id, 1, &page), 1);
    assert_outcome(page[0], STALE);
    assert_int_equal(stored(), 0);
    assert_job(1, "state", "dead");
}

/* Its job was let go between two pages of one walk. */
FRESH_TEST(a_result_of_a_later_page_does_not_overtake_either)
{
    job_row_dispatched(1, 1, 0);
    run_sql("INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, deferred_at) VALUES (1, 1, "
            "'gave_up', -1, 1), (1, 1, 'succeeded', -1, 1)");
    run_sql("START TRANSACTION; UPDATE jobs SET payload = 'x'");
    struct dt_apply *page;
    int64_t after_id = 0;
    assert_int_equal(apply_page(&after_id, 1, &page), 1);
    assert_outcome(page[0], BUSY);
    run_sql("COMMIT");
    assert_int_equal(apply_page(&after_id, 1, &page), 1);
    assert_outcome(page[0], BUSY);
    after_id = 0;
    assert_int_equal(apply_page(&after_id, 2, &page), 2);
    assert_outcome(page[0], APPLIED);
    assert_outcome(page[1], STALE);
    assert_int_equal(stored(), 0);
}

FRESH_TEST(stored_results_commit_together_with_applied_ones)
{
    job_row_dispatched(1, 1, 0);
    run_sql("INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, deferred_at) VALUES (1, 1, "
            "'succeeded', -1, 1), (99, 1, 'succeeded', -1, 1)");
    struct dt_apply *page;
    int64_t after_id = 0;
    assert_int_equal(apply_page(&after_id, 10, &page), 2);
    assert_outcome(page[0], APPLIED);
    assert_outcome(page[1], UNKNOWN_JOB); /* nothing waits for a job that is not there */
    assert_int_equal(stored(), 0);
    assert_job(1, "state", "succeeded");
}

/* More than one statement reads, and any of them may pass somebody by. */
FRESH_TEST(only_locked_jobs_of_two_thousand_are_skipped)
{
    enum { N = 2000, MISSING = 3 };
    static struct dt_apply batch[N + MISSING];
    dispatched_up_to(N, 1);
    for (int i = 0; i < N + MISSING; i++)
        batch[i] = result(i + 1, 1, DT_RESULT_SUCCEEDED);
    run_sql("START TRANSACTION; UPDATE jobs SET payload = 'x' WHERE id MOD 480 = 0");
    OK(dt_store_apply(store, &map, batch, N + MISSING, &err));
    run_sql("ROLLBACK");
    for (int i = 0; i < N + MISSING; i++) {
        if (i >= N)
            assert_outcome(batch[i], UNKNOWN_JOB);
        else if ((i + 1) % 480 == 0)
            assert_outcome(batch[i], BUSY);
        else
            assert_outcome(batch[i], APPLIED);
    }
    assert_sql_number(N - N / 480, "SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'");
}

/* Topics by turns: one without a row, one without a retention of its own. */
FRESH_TEST(each_job_of_a_large_batch_is_kept_as_long_as_its_own_topic_says)
{
    enum { N = 1500, TOPICS = 3 };
    static struct dt_apply batch[N];
    const long long kept_ms[TOPICS] = {DT_RETENTION_DEFAULT_MS, 1000, DT_RETENTION_DEFAULT_MS};
    dispatched_up_to(N, 1);
    run_sql("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('t1', 1000, 1, 1), ('t2', NULL, "
            "1, 1)");
    for (int i = 0; i < TOPICS; i++)
        run_sql("UPDATE jobs SET topic = 't%d' WHERE id MOD %d = %d", i, TOPICS, i);
    for (int i = 0; i < N; i++)
        batch[i] = result(i + 1, 1, DT_RESULT_SUCCEEDED);
    OK(dt_store_apply(store, &map, batch, N, &err));
    for (int i = 0; i < N; i++)
        assert_outcome(batch[i], APPLIED);
    for (int i = 0; i < TOPICS; i++)
        assert_sql_number(N / TOPICS, "SELECT COUNT(*) FROM jobs WHERE topic = 't%d' AND purge_at - updated_at = %lld",
                          i, kept_ms[i]);
}

SUITE(open_store, close_store)
