/* Batches and single jobs in the committer, on a real MySQL: who goes first, and who waits for whom. */
#include "contract/api/committer_suite.h"

/* A stopped clock: commits take no time by it, so no test depends on how long they really take. */
static _Atomic int64_t stopped_us;

STUB(static int64_t, stopped_mono_us, (const dt_clock *clock), stopped_us)

static int64_t host_ms(const dt_clock *)
{
    return dt_clock_real_ms(dt_clock_system());
}

static bool is_answered_later(struct call *call)
{
    if (call->answers == 0)
        stopped_us += 1000;
    return call->answers > 0;
}

static void stop_clock(struct fixture *f)
{
    static const dt_clock stopped = {.mono_us = stopped_mono_us, .real_ms = host_ms};
    stopped_us = dt_clock_mono_us(dt_clock_system());
    f->clock = &stopped;
}

/* Until ROLLBACK the only committer waits for a lock in one unit, and further units queue after it. */
static void hold_committer(struct fixture *f, struct call *held)
{
    prepare(f, held, "t", 1);
    submit(f, held); /* creates the topic */
    dt_unit_clear(&held->unit);
    prepare(f, held, "t", 1);
    held->rows[0].row.job.key = DT_STR_LIT("held");
    hold_key();
    submit_all(f, held, 1);
    mysql_fixture_await_lock_waits(1);
    answers_in_all = 0;
}

#define RIG_TEST(name) TEST_ON(struct fixture, f, name, make, drop)

RIG_TEST(a_single_job_does_not_wait_for_batches)
{
    enum { BATCHES = 40, BATCH = 200 };
    static struct call batches[BATCHES], single, held;
    mysql_fixture.config.api_committers = 1;
    mysql_fixture.config.api_commit_jobs = BATCH;
    start(f);
    hold_committer(f, &held);
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    prepare(f, &single, "t", 1);
    submit_all(f, batches, BATCHES);
    submit_all(f, &single, 1);
    run_sql("ROLLBACK");
    await_all(&held, 1);
    await_all(&single, 1);
    await_all(batches, BATCHES);
    assert_in_range(single.place, 1, BATCHES / 4);
    free(rows);
}

RIG_TEST(batches_that_wait_for_a_lock_leave_a_thread_for_single_jobs)
{
    enum { COMMITTERS = 3, BATCH = 20 };
    static struct call batches[COMMITTERS], single, first;
    mysql_fixture.config.api_committers = COMMITTERS;
    mysql_fixture.config.api_commit_jobs = BATCH;
    mysql_fixture.config.mysql_lock_timeout = DT_MINUTE; /* the lock is held as long as this test looks */
    start(f);
    struct dt_create *rows = prepare_many(f, batches, COMMITTERS, BATCH);
    for (size_t i = 0; i < COMMITTERS; i++)
        rows[i * BATCH].row.job.key = DT_STR_LIT("held");
    prepare(f, &single, "t", 1);
    prepare(f, &first, "t", 1);
    submit(f, &first); /* makes the topic */
    dt_unit_clear(&first.unit);
    hold_key();
    submit_all(f, batches, COMMITTERS);
    mysql_fixture_await_lock_waits(COMMITTERS - 1);
    submit(f, &single);
    assert_int_equal(single.unit.status, DT_OK);
    for (size_t i = 0; i < COMMITTERS; i++)
        assert_int_equal(atomic_load(&batches[i].answers), 0);
    run_sql("ROLLBACK");
    await_all(batches, COMMITTERS);
    dt_unit_clear(&single.unit);
    free(rows);
}

/* Commits one row and then two batches that wait for a lock; `n` of the batches commit at the same time. By the test's
 * clock the first batch does not hang, and single jobs are still arriving. */
static void assert_committed_at_once(struct fixture *f, bool row_is_of_batch, int64_t n)
{
    enum { BATCHES = 2, BATCH = 20, GATHERED_US = 100000 }; /* long enough for a commit to begin after another */
    static struct call batches[BATCHES], one, after;
    stop_clock(f);
    mysql_fixture.config.api_committers = 4;
    mysql_fixture.config.api_commit_jobs = 20;
    mysql_fixture.config.mysql_lock_timeout = DT_MINUTE; /* as above */
    start(f);
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    for (size_t i = 0; i < BATCHES; i++)
        rows[i * BATCH].row.job.key = DT_STR_LIT("held");
    prepare(f, &one, "t", 1);
    one.unit.of_batch = row_is_of_batch;
    prepare(f, &after, "t", 1);
    after.unit.of_batch = row_is_of_batch;
    hold_key();
    submit(f, &one);
    submit_all(f, batches, BATCHES);
    mysql_fixture_await_lock_waits(1);
    stopped_us += GATHERED_US;
    mysql_fixture_await_lock_waits(n);
    if (n < BATCHES)
        submit(f, &after); /* threads are free: one would have taken the second batch first */
    assert_int_equal(mysql_fixture_lock_waits(), n);
    run_sql("ROLLBACK");
    await_all(batches, 1);
    stopped_us += 1000000;
    await_all(&batches[1], 1);
    dt_unit_clear(&one.unit);
    dt_unit_clear(&after.unit);
    free(rows);
}

RIG_TEST(while_single_jobs_arrive_batches_are_committed_one_at_a_time)
{
    assert_committed_at_once(f, false, 1);
}

/* The last part of a batch of 251 rows is one row. */
RIG_TEST(the_last_rows_of_a_batch_do_not_count_as_single_jobs)
{
    assert_committed_at_once(f, true, 2);
}

RIG_TEST(while_single_jobs_arrive_a_commit_of_batches_is_at_most_a_large_unit)
{
    enum { BATCHES = 3, BATCH = DT_UNIT_ROWS / 2 + 1 };
    static struct call batches[BATCHES], single;
    stop_clock(f);
    start(f);
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    rows[(BATCHES - 1) * BATCH].row.job.key = DT_STR_LIT("held");
    prepare(f, &single, "t", 1);
    hold_key();
    submit(f, &single);
    submit_all(f, batches, BATCHES);
    await_all(batches, BATCHES - 1);
    mysql_fixture_await_lock_waits(1);
    assert_int_equal(batches[BATCHES - 1].answers, 0);
    run_sql("ROLLBACK");
    await_all(&batches[BATCHES - 1], 1);
    dt_unit_clear(&single.unit);
    free(rows);
}

/* After a slow commit, batches rest as long as they ever do. */
RIG_TEST(while_single_jobs_arrive_batches_pause_after_each_commit)
{
    enum { BATCHES = 2, BATCH = DT_UNIT_ROWS / 2 + 1, TOOK_US = 150000, REST_US = 50000 };
    static struct call batches[BATCHES], single, after;
    stop_clock(f);
    start(f);
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    rows[0].row.job.key = DT_STR_LIT("held");
    prepare(f, &single, "t", 1);
    hold_key();
    prepare(f, &after, "t", 1);
    submit(f, &single);
    submit_all(f, batches, BATCHES);
    mysql_fixture_await_lock_waits(1);
    stopped_us += TOOK_US;
    run_sql("ROLLBACK");
    await_all(batches, 1);
    submit(f, &after); /* single jobs do not rest */
    assert_int_equal(batches[1].answers, 0);
    const int64_t rests_us = stopped_us;
    AWAIT(is_answered_later(&batches[1]));
    assert_true(stopped_us - rests_us >= REST_US);
    await_all(&batches[1], 1);
    dt_unit_clear(&single.unit);
    dt_unit_clear(&after.unit);
    free(rows);
}

RIG_TEST(a_batch_is_committed_however_many_single_jobs_arrive)
{
    enum { SINGLES = 1200, BATCH = 20 };
    static struct call singles[SINGLES], batch, held;
    mysql_fixture.config.api_committers = 1;
    mysql_fixture.config.api_commit_jobs = BATCH;
    start(f);
    hold_committer(f, &held);
    struct dt_create *rows = prepare_many(f, &batch, 1, BATCH);
    for (size_t i = 0; i < SINGLES; i++)
        prepare(f, &singles[i], "t", 1);
    submit_all(f, singles, SINGLES / 2);
    submit_all(f, &batch, 1);
    submit_all(f, singles + SINGLES / 2, SINGLES / 2);
    run_sql("ROLLBACK");
    await_all(&batch, 1);
    await_all(&held, 1);
    await_all(singles, SINGLES);
    assert_in_range(batch.place, 1, SINGLES / 2);
    free(rows);
}
