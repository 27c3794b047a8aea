/* Batches and single jobs in the committer, on a real MySQL: who goes first, and who waits for whom. */
#include "contract/api/committer_suite.h"

static void a_single_job_does_not_stand_behind_batches(void **state)
{
    struct fixture *f = *state;
    enum { BATCHES = 40, BATCH = 200 };
    static struct call batches[BATCHES], single;
    f->mysql.config.api_committers = 1;
    f->mysql.config.api_commit_jobs = BATCH;
    start(f);
    answers_in_all = 0;
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    prepare(f, &single, "t", 1);
    submit_all(f, batches, BATCHES);
    submit_all(f, &single, 1);
    await_all(&single, 1);
    await_all(batches, BATCHES);
    assert_in_range(single.place, 1, BATCHES / 4);
    free(rows);
}

static void batches_that_wait_for_a_lock_leave_a_thread_for_single_jobs(void **state)
{
    struct fixture *f = *state;
    enum { COMMITTERS = 3, BATCH = 20 };
    static struct call batches[COMMITTERS], single, first;
    f->mysql.config.api_committers = COMMITTERS;
    f->mysql.config.api_commit_jobs = BATCH;
    start(f);
    struct dt_create *rows = prepare_many(f, batches, COMMITTERS, BATCH);
    for (size_t i = 0; i < COMMITTERS; i++)
        rows[i * BATCH].row.job.key = DT_STR_LIT("held");
    prepare(f, &single, "t", 1);
    prepare(f, &first, "t", 1);
    submit(f, &first); /* makes the topic */
    dt_unit_clear(&first.unit);
    hold_key(f);
    submit_all(f, batches, COMMITTERS);
    mysql_fixture_await_lock_waits(&f->mysql, COMMITTERS - 1);
    submit(f, &single);
    assert_int_equal(single.unit.status, DT_OK);
    for (size_t i = 0; i < COMMITTERS; i++)
        assert_int_equal(atomic_load(&batches[i].answers), 0);
    mysql_fixture_run(&f->mysql, "ROLLBACK");
    await_all(batches, COMMITTERS);
    dt_unit_clear(&single.unit);
    free(rows);
}

/*
 * Commits two batches that wait for a lock, behind a commit of one row. True: both at once, before the first of them
 * could have counted as hanging, and before single jobs could have stopped to come.
 */
static bool are_committed_at_once(struct fixture *f, bool row_is_of_batch)
{
    enum { BATCHES = 2, BATCH = 20, ALONE_US = 200000, CALM_US = 500000 };
    static struct call batches[BATCHES], one;
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    for (size_t i = 0; i < BATCHES; i++)
        rows[i * BATCH].row.job.key = DT_STR_LIT("held");
    prepare(f, &one, "t", 1);
    one.unit.of_batch = row_is_of_batch;
    hold_key(f);
    int64_t calm_us = dt_clock_mono_us(dt_clock_system()) + CALM_US; /* the commit of the row begins later */
    submit(f, &one);
    int64_t alone_us = dt_clock_mono_us(dt_clock_system()) + ALONE_US;
    submit_all(f, batches, BATCHES);
    mysql_fixture_await_lock_waits(&f->mysql, BATCHES);
    bool at_once = dt_clock_mono_us(dt_clock_system()) < dt_earlier(alone_us, calm_us);
    mysql_fixture_run(&f->mysql, "ROLLBACK");
    await_all(batches, BATCHES);
    dt_unit_clear(&one.unit);
    free(rows);
    return at_once;
}

static void start_with_commits_of_a_batch(struct fixture *f)
{
    f->mysql.config.api_committers = 4;
    f->mysql.config.api_commit_jobs = 20;
    start(f);
}

static void while_single_jobs_come_batches_are_committed_one_at_a_time(void **state)
{
    struct fixture *f = *state;
    start_with_commits_of_a_batch(f);
    assert_false(are_committed_at_once(f, false));
}

/* A batch of 251 rows ends with one. A machine that is busy may need several tries. */
static void the_last_rows_of_a_batch_are_no_single_jobs(void **state)
{
    struct fixture *f = *state;
    start_with_commits_of_a_batch(f);
    int tries = 20;
    while (tries > 0 && !are_committed_at_once(f, true))
        tries--;
    assert_true(tries > 0);
}

static void while_single_jobs_come_a_commit_of_batches_has_no_more_rows_than_a_large_unit(void **state)
{
    struct fixture *f = *state;
    enum { BATCHES = 3, BATCH = DT_UNIT_ROWS / 2 + 1 };
    static struct call batches[BATCHES], single;
    start(f);
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    rows[(BATCHES - 1) * BATCH].row.job.key = DT_STR_LIT("held");
    prepare(f, &single, "t", 1);
    hold_key(f);
    submit(f, &single);
    submit_all(f, batches, BATCHES);
    await_all(batches, BATCHES - 1);
    mysql_fixture_await_lock_waits(&f->mysql, 1);
    assert_int_equal(batches[BATCHES - 1].answers, 0);
    mysql_fixture_run(&f->mysql, "ROLLBACK");
    await_all(&batches[BATCHES - 1], 1);
    dt_unit_clear(&single.unit);
    free(rows);
}

/* What took long is followed by the longest rest that there is; or it took so long that it counts as hanging. */
static void while_single_jobs_come_batches_rest_behind_each_commit(void **state)
{
    struct fixture *f = *state;
    enum {
        BATCHES = 2,
        BATCH = DT_UNIT_ROWS / 2 + 1,
        TOOK_US = 150000,
        REST_US = 50000,
        SLOW_US = 200000,
        CALM_US = 500000
    };
    static struct call batches[BATCHES], single;
    const dt_clock *clock = dt_clock_system();
    start(f);
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    rows[0].row.job.key = DT_STR_LIT("held");
    prepare(f, &single, "t", 1);
    hold_key(f);
    int64_t calm_us = dt_clock_mono_us(clock) + CALM_US; /* the commit of the single job begins later */
    submit(f, &single);
    int64_t slow_us = dt_clock_mono_us(clock) + SLOW_US;
    submit_all(f, batches, BATCHES);
    usleep(TOOK_US);
    int64_t rested_us = dt_clock_mono_us(clock) + REST_US;
    mysql_fixture_run(&f->mysql, "ROLLBACK");
    await_all(batches, BATCHES);
    assert_true(dt_clock_mono_us(clock) >= dt_earlier(rested_us, dt_earlier(slow_us, calm_us)));
    dt_unit_clear(&single.unit);
    free(rows);
}

static void a_batch_has_its_turn_however_many_single_jobs_there_are(void **state)
{
    struct fixture *f = *state;
    enum { SINGLES = 1200, BATCH = 20 };
    static struct call singles[SINGLES], batch, first;
    f->mysql.config.api_committers = 1;
    f->mysql.config.api_commit_jobs = BATCH;
    start(f);
    answers_in_all = 0;
    struct dt_create *rows = prepare_many(f, &batch, 1, BATCH);
    prepare(f, &first, "t", 1);
    for (size_t i = 0; i < SINGLES; i++)
        prepare(f, &singles[i], "t", 1);
    submit_all(f, &first, 1);
    submit_all(f, singles, SINGLES / 2);
    submit_all(f, &batch, 1);
    submit_all(f, singles + SINGLES / 2, SINGLES / 2);
    await_all(&batch, 1);
    await_all(&first, 1);
    await_all(singles, SINGLES);
    assert_in_range(batch.place, 1, SINGLES / 2);
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_single_job_does_not_stand_behind_batches, make, drop),
        cmocka_unit_test_setup_teardown(batches_that_wait_for_a_lock_leave_a_thread_for_single_jobs, make, drop),
        cmocka_unit_test_setup_teardown(while_single_jobs_come_batches_are_committed_one_at_a_time, make, drop),
        cmocka_unit_test_setup_teardown(while_single_jobs_come_a_commit_of_batches_has_no_more_rows_than_a_large_unit,
                                        make, drop),
        cmocka_unit_test_setup_teardown(the_last_rows_of_a_batch_are_no_single_jobs, make, drop),
        cmocka_unit_test_setup_teardown(while_single_jobs_come_batches_rest_behind_each_commit, make, drop),
        cmocka_unit_test_setup_teardown(a_batch_has_its_turn_however_many_single_jobs_there_are, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
