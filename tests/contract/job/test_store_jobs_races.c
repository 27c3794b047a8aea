/* One job on a real server: the races of changes with a claim,
 * which are played by hand on the test's own connection, as a leader would do it. */
#include "contract/job/jobs_suite.h"

STORE_SUITE("jobs", 0)

struct canceller {
    int64_t from, to;
    unsigned cancelled, too_late;
    dt_status failed;
};

static void *cancel_each(void *arg)
{
    struct canceller *c = arg;
    struct dt_arena own = {0};
    struct dt_job seen;
    dt_store *mine = NULL;
    c->failed = dt_store_new(&mysql_fixture.config, NULL, &mine);
    for (int64_t id = c->from; id < c->to && !c->failed; id++) {
        dt_status status = dt_store_cancel(mine, id, false, &own, &seen, NULL);
        if (status == DT_OK && seen.state == DT_CANCELLED && seen.attempt == 0)
            c->cancelled++;
        else if (status == DT_TOO_LATE && seen.state == DT_DISPATCHED && seen.attempt == 1)
            c->too_late++;
        else
            c->failed = status ? status : DT_INTERNAL;
        dt_arena_reset(&own);
    }
    dt_store_free(mine);
    dt_arena_clear(&own);
    dt_db_thread_end();
    return NULL;
}

/* As a leader does it: shard row first, then the job, attempt and list entry together. */
static void claim(int64_t id)
{
    run_sql("START TRANSACTION; SELECT shard FROM shards WHERE shard = 0 FOR UPDATE; SELECT id FROM jobs WHERE id = "
            "%lld FOR UPDATE; UPDATE shards SET inflight = IF((SELECT state FROM jobs WHERE id = %lld) = 'scheduled', "
            "'[[%lld,1,9]]', '[]') WHERE shard = 0; UPDATE jobs SET state = 'dispatched', attempt = 1, attempt_status "
            "= 'dispatched', claim_shard = 0 WHERE id = %lld AND state = 'scheduled'; COMMIT",
            (long long)id, (long long)id, (long long)id, (long long)id);
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

FRESH_TEST(a_cancel_that_races_with_a_claim_gets_the_real_outcome)
{
    enum { JOBS = 400 };
    struct canceller c = {.from = 1, .to = JOBS + 1};
    for (int64_t id = 1; id <= JOBS; id++)
        job_row(id, NULL);
    pthread_t thread = start_thread(cancel_each, &c);
    for (int64_t id = JOBS; id >= 1; id--) /* they meet in the middle */
        claim(id);
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(c.failed, NULL);
    assert_sql_number(c.cancelled, "SELECT COUNT(*) FROM jobs WHERE state = 'cancelled' AND attempt = 0");
    assert_sql_number(c.too_late, "SELECT COUNT(*) FROM jobs WHERE state = 'dispatched' AND attempt = 1");
    assert_int_equal(c.cancelled + c.too_late, JOBS);
}

FRESH_TEST(a_cancel_that_waited_for_a_claim_is_too_late)
{
    struct canceller c = {.from = 7, .to = 8};
    job_row(7, NULL);
    run_sql("START TRANSACTION; UPDATE jobs SET state = 'dispatched', attempt = 1, claim_shard = 0 WHERE id = 7");
    pthread_t thread = start_thread(cancel_each, &c);
    mysql_fixture_await_statement("SELECT%FOR UPDATE");
    run_sql("COMMIT");
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(c.failed, NULL);
    assert_int_equal(c.too_late, 1);
}

static void *cancel_in_flight(void *arg)
{
    struct canceller *c = arg;
    struct dt_arena own = {0};
    struct dt_job seen;
    dt_store *mine = NULL;
    c->failed = dt_store_new(&mysql_fixture.config, NULL, &mine);
    if (!c->failed)
        c->failed = dt_store_cancel(mine, c->from, false, &own, &seen, NULL);
    dt_store_free(mine);
    dt_arena_clear(&own);
    dt_db_thread_end();
    return NULL;
}

/* The list must be read after the lock was had: what entered it while the cancel waited counts. */
FRESH_TEST(a_cancel_reads_the_in_flight_list_after_it_locked_the_job)
{
    struct canceller c = {.from = 7};
    job_row(7, "attempt = 1, attempt_status = 'failed', claim_shard = 0");
    run_sql("START TRANSACTION; UPDATE shards SET inflight = '[[7,2,9]]' WHERE shard = 0; UPDATE jobs SET attempt = 2, "
            "attempt_status = 'dispatched' WHERE id = 7");
    pthread_t thread = start_thread(cancel_in_flight, &c);
    mysql_fixture_await_statement("SELECT%FOR UPDATE");
    run_sql("COMMIT"); /* claimed, and set back to scheduled by hand before anybody looked */
    pthread_join(thread, NULL);
    assert_int_equal(c.failed, DT_TOO_LATE);
    assert_job(7, "state", "scheduled");
}

FRESH_TEST(a_cancel_never_waits_for_a_shards_row)
{
    job_row(7, "attempt = 1, attempt_status = 'failed', claim_shard = 0");
    run_sql("START TRANSACTION; UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 0");
    dt_status status = cancel(7); /* what is not committed is not there */
    run_sql("ROLLBACK");
    OK(status);
    assert_int_equal(job.state, DT_CANCELLED);
}

FRESH_TEST(a_change_does_not_lock_the_topic)
{
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('orders', 1, 1)");
    job_row(7, NULL);
    run_sql("START TRANSACTION; UPDATE topics SET retry = '1s'");
    dt_status patched = patch(7, (struct dt_patch){.has_retry = true});
    dt_status cancelled = cancel(7);
    run_sql("ROLLBACK");
    OK(patched);
    OK(cancelled);
}

FRESH_TEST(the_named_in_flight_list_decides_whether_a_job_is_in_flight)
{
    bool yes = true;
    job_row_dispatched(7, 1, 0);
    OK(dt_store_in_flight(store, 7, 0, &yes, &err));
    assert_false(yes);
    run_sql("UPDATE shards SET inflight = '[[17,1,5],[7,1,5]]' WHERE shard = 0");
    OK(dt_store_in_flight(store, 7, 0, &yes, &err));
    assert_true(yes);
    OK(dt_store_in_flight(store, 1, 0, &yes, &err));
    assert_false(yes);
    OK(dt_store_in_flight(store, 7, 99, &yes, &err));
    assert_false(yes);
}

FRESH_TEST(a_locked_job_is_busy_after_a_bounded_time)
{
    int64_t lock_timeout = mysql_fixture.config.mysql_lock_timeout;
    job_row(7, NULL);
    mysql_fixture.config.mysql_lock_timeout = 1000;
    dt_store *impatient = mysql_fixture_store();
    run_sql("START TRANSACTION; SELECT id FROM jobs WHERE id = 7 FOR UPDATE");
    assert_int_equal(dt_store_cancel(impatient, 7, false, &arena, &job, &err), DT_BUSY);
    run_sql("ROLLBACK");
    mysql_fixture.config.mysql_lock_timeout = lock_timeout;
    assert_job(7, "state", "scheduled");
    OK(dt_store_cancel(impatient, 7, false, &arena, &job, &err));
    dt_store_free(impatient);
}

SUITE(open_store, close_store)
