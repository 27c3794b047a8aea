/* The committer on a real MySQL: what is answered is there, once; what is refused is not. */
#include "contract/api/committer_suite.h"
#include "job/change/jobs.h"

#define RIG_TEST(name) TEST_ON(struct fixture, f, name, make, drop)

RIG_TEST(a_unit_is_committed_and_answered_once)
{
    struct call call;
    start(f);
    prepare(f, &call, "t", 2);
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_OK);
    assert_true(call.unit.created_ms > 0);
    for (int i = 0; i < 2; i++) {
        const struct dt_insert *row = &call.rows[i].row;
        assert_int_equal(row->outcome, DT_INSERT_CREATED);
        assert_true(dt_str_is(row->job.retry, DT_RETRY_DEFAULT));
        assert_int_equal(row->job.ack_timeout_ms, DT_ACK_TIMEOUT_DEFAULT_MS);
        assert_sql_number(1, "SELECT COUNT(*) FROM jobs WHERE id = %lld", (long long)row->job.id);
    }
    assert_true(call.rows[0].row.job.id != call.rows[1].row.job.id);
    dt_unit_clear(&call.unit);
}

RIG_TEST(a_job_copies_the_settings_that_its_topic_has_at_that_moment)
{
    struct call call;
    start(f);
    run_sql("INSERT INTO topics (name, retry, ack_timeout_ms, created_at, updated_at) VALUES ('t', '7s', 9000, 1, 1)");
    prepare(f, &call, "t", 2);
    call.rows[1].row.job.retry = DT_STR_LIT("");
    call.rows[1].row.job.ack_timeout_ms = 1234;
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_OK);
    assert_true(dt_str_is(call.rows[0].row.job.retry, "7s"));
    assert_int_equal(call.rows[0].row.job.ack_timeout_ms, 9000);
    assert_true(dt_str_is(call.rows[1].row.job.retry, ""));
    assert_int_equal(call.rows[1].row.job.ack_timeout_ms, 1234);
    dt_unit_clear(&call.unit);
}

RIG_TEST(the_first_job_makes_its_topic)
{
    struct call call;
    start(f);
    prepare(f, &call, "new.topic", 1);
    submit(f, &call);
    assert_int_equal(call.rows[0].row.outcome, DT_INSERT_CREATED);
    assert_sql_number(1, "SELECT COUNT(*) FROM topics WHERE name = 'new.topic'");
    dt_unit_clear(&call.unit);
}

RIG_TEST(unknown_topics_are_refused_if_topics_are_not_created_on_demand)
{
    struct call call;
    mysql_fixture.config.topics_auto_create = false;
    start(f);
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('known', 1, 1)");
    prepare(f, &call, "unknown", 3);
    call.rows[1].row.job.topic = DT_STR_LIT("known");
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_OK);
    assert_int_equal(call.rows[0].row.outcome, DT_INSERT_NO_TOPIC);
    assert_int_equal(call.rows[1].row.outcome, DT_INSERT_CREATED);
    assert_int_equal(call.rows[2].row.outcome, DT_INSERT_NO_TOPIC);
    assert_sql_number(1, "SELECT COUNT(*) FROM jobs");
    dt_unit_clear(&call.unit);
}

RIG_TEST(only_the_job_that_does_not_fit_its_topic_is_refused)
{
    struct call call;
    start(f);
    run_sql("INSERT INTO topics (name, delivery, created_at, updated_at) VALUES ('h', 'http', 1, 1)");
    prepare(f, &call, "h", 4);
    for (size_t i = 1; i < 4; i++)
        call.rows[i].row.job.callback_url = DT_STR_LIT("http://a/");
    call.rows[1].row.job.ack_timeout_ms = 5;
    call.rows[2].row.job.header_fault = (struct dt_header_fault){DT_STR_LIT("host"), "is ours"};
    submit(f, &call);
    static const char *const pointers[] = {"/callback_url", "/ack_timeout", "/headers", NULL};
    for (size_t i = 0; i < 4; i++) {
        enum dt_insert_outcome expected = pointers[i] ? DT_INSERT_REFUSED : DT_INSERT_CREATED;
        assert_int_equal(call.rows[i].row.outcome, expected);
        if (pointers[i])
            assert_string_equal(call.rows[i].misfit.pointer, pointers[i]);
    }
    assert_sql_number(1, "SELECT COUNT(*) FROM jobs WHERE callback_url = 'http://a/'");
    dt_unit_clear(&call.unit);
}

RIG_TEST(only_rows_of_a_topic_that_clashes_in_kafka_are_refused)
{
    struct call call;
    start(f);
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('a.b', 1, 1)");
    prepare(f, &call, "a_b", 3);
    call.rows[1].row.job.topic = DT_STR_LIT("a.b");
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_OK);
    assert_int_equal(call.rows[0].row.outcome, DT_INSERT_REFUSED);
    assert_non_null(call.rows[0].reason);
    assert_int_equal(call.rows[1].row.outcome, DT_INSERT_CREATED);
    assert_int_equal(call.rows[2].row.outcome, DT_INSERT_REFUSED);
    dt_unit_clear(&call.unit);
}

#define AHEAD_OF_THE_CLOCK INT64_C(1000000000000000)

static void set_next_number(int64_t number)
{
    run_sql("UPDATE id_sequence SET next_id = %lld", (long long)number);
}

RIG_TEST(ids_repeated_by_a_restored_server_are_replaced)
{
    struct call call;
    start(f);
    set_next_number(AHEAD_OF_THE_CLOCK);
    prepare(f, &call, "t", 1);
    submit(f, &call);
    int64_t taken = call.rows[0].row.job.id;
    dt_unit_clear(&call.unit);
    dt_committer_stop(f->committer);
    dt_committer_free(f->committer);
    f->committer = NULL;
    set_next_number(AHEAD_OF_THE_CLOCK);
    struct dt_error err = {0};
    mysql_fixture.config.api_committers = 1;
    OK(dt_committer_start(&f->env, f->topics, f->index, &f->committer, &err));
    prepare(f, &call, "t", 3);
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(call.rows[i].row.outcome, DT_INSERT_CREATED);
        assert_true(call.rows[i].row.job.id != taken);
    }
    assert_sql_number(4, "SELECT COUNT(*) FROM jobs");
    dt_unit_clear(&call.unit);
}

RIG_TEST(a_restored_server_hands_out_no_block_of_ids_twice)
{
    struct dt_error err = {0};
    dt_committer *other = NULL;
    struct call before, after, others;
    mysql_fixture.config.api_committers = 1;
    start(f);
    int64_t copy = sql_number("SELECT next_id FROM id_sequence");
    prepare(f, &before, "t", 3);
    submit(f, &before);
    /* Until the server's clock has passed what was given out: a restore takes longer. */
    const int64_t number = sql_number("SELECT next_id FROM id_sequence");
    AWAIT(sql_number("SELECT " DT_SQL_NOW_MS " * 16") >= number);
    set_next_number(copy);
    run_sql("DELETE FROM jobs"); /* done, and moved to history */
    OK(dt_committer_start(&f->env, f->topics, f->index, &other, &err));
    prepare(f, &others, "t", 3);
    dt_committer_submit(other, &others.unit);
    AWAIT_ANSWER(&others.answers);
    prepare(f, &after, "t", 3);
    submit(f, &after); /* from the block of before */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(others.rows[i].row.outcome, DT_INSERT_CREATED);
        assert_int_equal(after.rows[i].row.outcome, DT_INSERT_CREATED);
        for (int j = 0; j < 3; j++) {
            assert_true(others.rows[i].row.job.id != before.rows[j].row.job.id);
            assert_true(others.rows[i].row.job.id != after.rows[j].row.job.id);
        }
    }
    dt_unit_clear(&before.unit);
    dt_unit_clear(&after.unit);
    dt_unit_clear(&others.unit);
    dt_committer_stop(other);
    dt_committer_free(other);
}

RIG_TEST(an_expired_unit_is_answered_and_inserts_nothing)
{
    struct call late;
    start(f);
    prepare(f, &late, "t", 1);
    late.unit.deadline_us = 1;
    submit(f, &late);
    assert_int_equal(late.unit.status, DT_UNAVAILABLE);
    assert_sql_number(0, "SELECT COUNT(*) FROM jobs");
    dt_unit_clear(&late.unit);
}

RIG_TEST(no_unit_is_accepted_before_mysqls_time_is_known)
{
    struct call call;
    start(f);
    prepare(f, &call, "t", 1);
    dt_refclock_init(&f->ref, dt_clock_system());
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_UNAVAILABLE);
}

RIG_TEST(a_full_queue_refuses_and_loses_nothing)
{
    enum { CALLS = 400 };
    static struct call calls[CALLS];
    int ok = 0, full = 0;
    mysql_fixture.config.api_queue_jobs = 100;
    mysql_fixture.config.api_committers = 1;
    start(f);
    for (int i = 0; i < CALLS; i++)
        prepare(f, &calls[i], "t", ROWS);
    for (int i = 0; i < CALLS; i++)
        dt_committer_submit(f->committer, &calls[i].unit);
    for (int i = 0; i < CALLS; i++) {
        AWAIT_ANSWER(&calls[i].answers);
        ok += calls[i].unit.status == DT_OK;
        full += calls[i].unit.status == DT_FULL;
        dt_unit_clear(&calls[i].unit);
    }
    assert_int_equal(ok + full, CALLS);
    assert_true(ok >= 25);
    assert_true(full > 0);
    assert_sql_number(ok * ROWS, "SELECT COUNT(*) FROM jobs");
}

/* Many bursts that each nearly fill the queue: what has left it counts no longer. */
static void bursts(struct fixture *f)
{
    enum { ROUNDS = 12, BURST = 20 };
    static struct call calls[BURST];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BURST; i++)
            prepare(f, &calls[i], "t", ROWS);
        submit_all(f, calls, BURST);
        await_all(calls, BURST);
    }
}

RIG_TEST(committed_jobs_free_their_room_in_the_queue)
{
    mysql_fixture.config.api_queue_jobs = 100;
    mysql_fixture.config.api_committers = 1;
    start(f);
    bursts(f);
}

RIG_TEST(committed_bytes_free_their_room_in_the_queue)
{
    mysql_fixture.config.api_queue_bytes = (int64_t)(100 * (sizeof(struct dt_create) + 8));
    mysql_fixture.config.api_committers = 1;
    start(f);
    bursts(f);
}

/* Nobody who is queued then would fare better: none of them has a try of its own. */
RIG_TEST(if_mysql_fails_queued_requests_fail_with_the_running_one)
{
    enum { QUEUED = 3 };
    static struct call first, held, queued[QUEUED];
    mysql_fixture.config.api_committers = 1;
    start(f);
    prepare(f, &first, "t", 1);
    submit(f, &first); /* makes the topic */
    prepare(f, &held, "t", 1);
    held.rows[0].row.job.key = DT_STR_LIT("held");
    hold_key();
    submit_all(f, &held, 1);
    mysql_fixture_await_lock_waits(1);
    for (int i = 0; i < QUEUED; i++)
        prepare(f, &queued[i], "t", 1);
    submit_all(f, queued, QUEUED);
    mysql_fixture_kill_sessions();
    AWAIT_ANSWER(&held.answers);
    assert_int_not_equal(held.unit.status, DT_OK);
    for (int i = 0; i < QUEUED; i++) {
        AWAIT_ANSWER(&queued[i].answers);
        assert_int_equal(queued[i].unit.status, DT_UNAVAILABLE);
        dt_unit_clear(&queued[i].unit);
    }
    run_sql("ROLLBACK");
    assert_sql_number(1, "SELECT COUNT(*) FROM jobs");
    dt_unit_clear(&held.unit);
    dt_unit_clear(&first.unit);
}

RIG_TEST(large_jobs_are_committed_in_a_batch_of_their_own)
{
    enum { CALLS = 12, PAYLOAD = 900000 };
    static struct call calls[CALLS];
    char *payload = malloc(PAYLOAD);
    assert_non_null(payload);
    memset(payload, '7', PAYLOAD);
    mysql_fixture.config.api_committers = 1;
    start(f);
    for (int i = 0; i < CALLS; i++) {
        prepare(f, &calls[i], "t", ROWS);
        for (int n = 0; i > 0 && n < ROWS; n++)
            calls[i].rows[n].row.job.payload = (struct dt_str){payload, PAYLOAD};
    }
    submit_all(f, calls, CALLS); /* while the first is committed, the others gather */
    await_all(calls, CALLS);
    assert_sql_number(CALLS * ROWS, "SELECT COUNT(*) FROM jobs");
    assert_true((CALLS - 1) * ROWS * (size_t)PAYLOAD > 2 * DT_COMMIT_BYTES);
    assert_true(sql_number("SELECT COUNT(DISTINCT created_at) FROM jobs") > 2);
    free(payload);
}

RIG_TEST(stopping_commits_the_queue_and_refuses_new_units)
{
    enum { CALLS = 200 };
    static struct call calls[CALLS];
    struct call after;
    start(f);
    for (int i = 0; i < CALLS; i++)
        prepare(f, &calls[i], "t", 1);
    for (int i = 0; i < CALLS; i++)
        dt_committer_submit(f->committer, &calls[i].unit);
    dt_committer_stop(f->committer);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(&calls[i].answers), 1);
        assert_int_equal(calls[i].unit.status, DT_OK);
        dt_unit_clear(&calls[i].unit);
    }
    prepare(f, &after, "t", 1);
    submit(f, &after);
    assert_int_equal(after.unit.status, DT_SHUTDOWN);
    assert_sql_number(CALLS, "SELECT COUNT(*) FROM jobs");
    dt_committer_free(f->committer);
    f->committer = NULL;
}

#define SUBMITTERS 4
#define EACH       300

static void *submit_many(void *arg)
{
    struct fixture *f = arg;
    struct call *calls = calloc(EACH, sizeof(*calls));
    int ok = 0;
    for (int i = 0; i < EACH; i++) {
        prepare(f, &calls[i], i % 2 ? "odd" : "even", 1);
        dt_committer_submit(f->committer, &calls[i].unit);
    }
    for (int i = 0; i < EACH; i++) {
        while (atomic_load(&calls[i].answers) == 0)
            wait_a_moment();
        ok += calls[i].unit.status == DT_OK && calls[i].rows[0].row.outcome == DT_INSERT_CREATED;
        dt_unit_clear(&calls[i].unit);
    }
    free(calls);
    return (void *)(intptr_t)ok;
}

RIG_TEST(many_threads_at_once_get_each_row_once)
{
    pthread_t threads[SUBMITTERS];
    start(f);
    for (int i = 0; i < SUBMITTERS; i++)
        threads[i] = start_thread(submit_many, f);
    for (int i = 0; i < SUBMITTERS; i++) {
        void *ok;
        pthread_join(threads[i], &ok);
        assert_int_equal((intptr_t)ok, EACH);
    }
    assert_sql_number(SUBMITTERS * EACH, "SELECT COUNT(*) FROM jobs");
}
