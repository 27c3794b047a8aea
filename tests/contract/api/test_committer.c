/* The committer on a real MySQL: what is answered is there, once; what is refused is not. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "intake/committer.h"
#include "support/mysql_fixture.h"

#define ROWS 4

struct fixture {
    struct mysql_fixture mysql;
    dt_refclock ref;
    struct dt_session_env env;
    dt_topic_cache *topics;
    dt_index_writer *index;
    dt_committer *committer;
};

/* A unit that counts its answers. */
struct call {
    struct dt_unit unit;
    struct dt_create rows[ROWS];
    _Atomic int answers;
    int place; /* of its answer among all of the test */
};

static _Atomic int answers_in_all;

static const struct dt_caller anybody = {.scopes = DT_SCOPE_WRITE | DT_SCOPE_ALL_TOPICS};

static void answered(struct dt_unit *unit)
{
    struct call *call = unit->arg;
    call->place = atomic_fetch_add(&answers_in_all, 1) + 1;
    atomic_fetch_add(&call->answers, 1);
}

static void prepare(struct fixture *f, struct call *call, const char *topic, size_t n)
{
    memset(call, 0, sizeof(*call));
    call->unit = (struct dt_unit){.rows = call->rows, .n = n, .caller = &anybody, .done = answered, .arg = call};
    for (size_t i = 0; i < n; i++) {
        struct dt_new_job *job = &call->rows[i].row.job;
        job->topic = dt_str(topic);
        job->payload = DT_STR_LIT("null");
        job->run_at_ms = dt_refclock_latest_ms(&f->ref) + 3600000;
    }
}

static void await(struct call *call)
{
    int64_t until_us = dt_clock_mono_us(dt_clock_system()) + 20000000;
    while (atomic_load(&call->answers) == 0) {
        if (dt_clock_mono_us(dt_clock_system()) > until_us)
            fail_msg("no answer within 20 s");
        usleep(500);
    }
    assert_int_equal(atomic_load(&call->answers), 1);
}

static void submit(struct fixture *f, struct call *call)
{
    dt_committer_submit(f->committer, &call->unit);
    await(call);
}

static void start(struct fixture *f)
{
    struct dt_error err = {0};
    const dt_clock *clock = dt_clock_system();
    dt_store *store = mysql_fixture_store(&f->mysql);
    dt_refclock_init(&f->ref, clock);
    f->env = (struct dt_session_env){.config = &f->mysql.config, .clock = clock, .ref = &f->ref};
    dt_store_free(store);
    MYSQL_FIXTURE_OK(dt_store_new(&f->mysql.config, &f->ref, &store), &err);
    MYSQL_FIXTURE_OK(dt_store_ping(store, &err), &err);
    dt_store_free(store);
    MYSQL_FIXTURE_OK(dt_topic_cache_new(&f->mysql.config, clock, &f->topics), &err);
    MYSQL_FIXTURE_OK(dt_index_writer_start(&f->env, f->topics, &f->index, &err), &err);
    MYSQL_FIXTURE_OK(dt_committer_start(&f->env, f->topics, f->index, &f->committer, &err), &err);
}

static int make(void **state)
{
    static struct fixture f;
    memset(&f, 0, sizeof(f));
    mysql_fixture_make(&f.mysql, "committer");
    mysql_fixture_migrate(&f.mysql);
    /* Nobody listens there: no answer depends on Redis. */
    free(f.mysql.config.redis_endpoints);
    f.mysql.config.redis_endpoints = strdup("127.0.0.1:1");
    *state = &f;
    return 0;
}

static int drop(void **state)
{
    struct fixture *f = *state;
    if (f->committer)
        dt_committer_stop(f->committer);
    dt_committer_free(f->committer);
    if (f->index)
        dt_index_writer_stop(f->index);
    dt_index_writer_free(f->index);
    dt_topic_cache_free(f->topics);
    mysql_fixture_drop(&f->mysql);
    return 0;
}

static void a_unit_is_committed_and_answered_once(void **state)
{
    struct fixture *f = *state;
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
        assert_int_equal(
            mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs WHERE id = %lld", (long long)row->job.id), 1);
    }
    assert_true(call.rows[0].row.job.id != call.rows[1].row.job.id);
    dt_unit_clear(&call.unit);
}

static void a_job_copies_what_its_topic_says_at_that_moment(void **state)
{
    struct fixture *f = *state;
    struct call call;
    start(f);
    mysql_fixture_run(&f->mysql, "INSERT INTO topics (name, retry, ack_timeout_ms, created_at, updated_at) VALUES "
                                 "('t', '7s', 9000, 1, 1)");
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

static void the_first_job_makes_its_topic(void **state)
{
    struct fixture *f = *state;
    struct call call;
    start(f);
    prepare(f, &call, "new.topic", 1);
    submit(f, &call);
    assert_int_equal(call.rows[0].row.outcome, DT_INSERT_CREATED);
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM topics WHERE name = 'new.topic'"), 1);
    dt_unit_clear(&call.unit);
}

static void unknown_topics_are_refused_where_none_may_be_made(void **state)
{
    struct fixture *f = *state;
    struct call call;
    f->mysql.config.topics_auto_create = false;
    start(f);
    mysql_fixture_run(&f->mysql, "INSERT INTO topics (name, created_at, updated_at) VALUES ('known', 1, 1)");
    prepare(f, &call, "unknown", 3);
    call.rows[1].row.job.topic = DT_STR_LIT("known");
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_OK);
    assert_int_equal(call.rows[0].row.outcome, DT_INSERT_NO_TOPIC);
    assert_int_equal(call.rows[1].row.outcome, DT_INSERT_CREATED);
    assert_int_equal(call.rows[2].row.outcome, DT_INSERT_NO_TOPIC);
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), 1);
    dt_unit_clear(&call.unit);
}

static void a_job_that_does_not_fit_its_topic_is_refused_alone(void **state)
{
    struct fixture *f = *state;
    struct call call;
    start(f);
    mysql_fixture_run(&f->mysql,
                      "INSERT INTO topics (name, delivery, created_at, updated_at) VALUES ('h', 'http', 1, 1)");
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
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs WHERE callback_url = 'http://a/'"), 1);
    dt_unit_clear(&call.unit);
}

static void a_topic_that_clashes_in_kafka_refuses_its_rows_alone(void **state)
{
    struct fixture *f = *state;
    struct call call;
    start(f);
    mysql_fixture_run(&f->mysql, "INSERT INTO topics (name, created_at, updated_at) VALUES ('a.b', 1, 1)");
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

static void set_next_number(struct fixture *f, int64_t number)
{
    mysql_fixture_run(&f->mysql, "UPDATE id_sequence SET next_id = %lld", (long long)number);
}

static void ids_of_a_server_that_went_back_in_time_are_replaced(void **state)
{
    struct fixture *f = *state;
    struct call call;
    start(f);
    set_next_number(f, AHEAD_OF_THE_CLOCK);
    prepare(f, &call, "t", 1);
    submit(f, &call);
    int64_t taken = call.rows[0].row.job.id;
    dt_unit_clear(&call.unit);
    dt_committer_stop(f->committer);
    dt_committer_free(f->committer);
    f->committer = NULL;
    set_next_number(f, AHEAD_OF_THE_CLOCK);
    struct dt_error err = {0};
    f->mysql.config.api_committers = 1;
    MYSQL_FIXTURE_OK(dt_committer_start(&f->env, f->topics, f->index, &f->committer, &err), &err);
    prepare(f, &call, "t", 3);
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(call.rows[i].row.outcome, DT_INSERT_CREATED);
        assert_true(call.rows[i].row.job.id != taken);
    }
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), 4);
    dt_unit_clear(&call.unit);
}

/* Until the server's clock has passed what was given out: a restore takes longer. */
static void await_clock(struct fixture *f, int64_t number)
{
    int64_t until_us = dt_clock_mono_us(dt_clock_system()) + 20000000;
    while (mysql_fixture_number(&f->mysql, "SELECT " DT_SQL_NOW_MS " * 16") < number) {
        if (dt_clock_mono_us(dt_clock_system()) > until_us)
            fail_msg("the numbers are far ahead of the clock");
        usleep(20000);
    }
}

static void a_restored_server_gives_no_block_out_that_somebody_has(void **state)
{
    struct fixture *f = *state;
    struct dt_error err = {0};
    dt_committer *other = NULL;
    struct call before, after, others;
    f->mysql.config.api_committers = 1;
    start(f);
    int64_t copy = mysql_fixture_number(&f->mysql, "SELECT next_id FROM id_sequence");
    prepare(f, &before, "t", 3);
    submit(f, &before);
    await_clock(f, mysql_fixture_number(&f->mysql, "SELECT next_id FROM id_sequence"));
    set_next_number(f, copy);
    mysql_fixture_run(&f->mysql, "DELETE FROM jobs"); /* done, and moved to history */
    MYSQL_FIXTURE_OK(dt_committer_start(&f->env, f->topics, f->index, &other, &err), &err);
    prepare(f, &others, "t", 3);
    dt_committer_submit(other, &others.unit);
    await(&others);
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

static void units_without_time_or_sense_are_answered_and_leave_no_row(void **state)
{
    struct fixture *f = *state;
    struct call late, empty;
    start(f);
    prepare(f, &late, "t", 1);
    late.unit.deadline_us = 1;
    submit(f, &late);
    assert_int_equal(late.unit.status, DT_UNAVAILABLE);
    prepare(f, &empty, "t", 0);
    submit(f, &empty);
    assert_int_equal(empty.unit.status, DT_INTERNAL);
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), 0);
    dt_unit_clear(&late.unit);
}

static void nothing_is_taken_before_mysql_has_said_what_time_it_is(void **state)
{
    struct fixture *f = *state;
    struct call call;
    start(f);
    prepare(f, &call, "t", 1);
    dt_refclock_init(&f->ref, dt_clock_system());
    submit(f, &call);
    assert_int_equal(call.unit.status, DT_UNAVAILABLE);
}

static void a_full_queue_refuses_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    enum { CALLS = 400 };
    static struct call calls[CALLS];
    int ok = 0, full = 0;
    f->mysql.config.api_queue_jobs = 100;
    f->mysql.config.api_committers = 1;
    start(f);
    for (int i = 0; i < CALLS; i++)
        prepare(f, &calls[i], "t", ROWS);
    for (int i = 0; i < CALLS; i++)
        dt_committer_submit(f->committer, &calls[i].unit);
    for (int i = 0; i < CALLS; i++) {
        await(&calls[i]);
        ok += calls[i].unit.status == DT_OK;
        full += calls[i].unit.status == DT_FULL;
        dt_unit_clear(&calls[i].unit);
    }
    assert_int_equal(ok + full, CALLS);
    assert_true(ok >= 25);
    assert_true(full > 0);
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), ok * ROWS);
}

static void submit_all(struct fixture *f, struct call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dt_committer_submit(f->committer, &calls[i].unit);
}

static void await_all(struct call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        await(&calls[i]);
        assert_int_equal(calls[i].unit.status, DT_OK);
        dt_unit_clear(&calls[i].unit);
    }
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

static void a_queue_has_the_room_of_the_jobs_that_have_left_it(void **state)
{
    struct fixture *f = *state;
    f->mysql.config.api_queue_jobs = 100;
    f->mysql.config.api_committers = 1;
    start(f);
    bursts(f);
}

static void a_queue_has_the_room_of_the_bytes_that_have_left_it(void **state)
{
    struct fixture *f = *state;
    f->mysql.config.api_queue_bytes = (int64_t)(100 * (sizeof(struct dt_create) + 8));
    f->mysql.config.api_committers = 1;
    start(f);
    bursts(f);
}

/* n calls of so many rows each; the rows of all of them are to be freed. */
static struct dt_create *prepare_many(struct fixture *f, struct call *calls, size_t n, size_t rows)
{
    struct dt_create *all = calloc(n * rows, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < n; i++) {
        prepare(f, &calls[i], "t", 1);
        for (size_t k = 0; k < rows; k++)
            all[i * rows + k] = calls[i].rows[0];
        calls[i].unit.rows = &all[i * rows];
        calls[i].unit.n = rows;
    }
    return all;
}

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
    mysql_fixture_run(&f->mysql, "START TRANSACTION");
    mysql_fixture_run(&f->mysql, "INSERT INTO job_keys VALUES ('t', 'held', 1)");
    submit_all(f, batches, COMMITTERS);
    mysql_fixture_await_lock_waits(&f->mysql, COMMITTERS - 1);
    submit(f, &single);
    assert_int_equal(single.unit.status, DT_OK);
    for (size_t i = 0; i < COMMITTERS; i++)
        assert_int_equal(atomic_load(&batches[i].answers), 0);
    mysql_fixture_run(&f->mysql, "ROLLBACK");
    for (size_t i = 0; i < COMMITTERS; i++) {
        await(&batches[i]);
        dt_unit_clear(&batches[i].unit);
    }
    dt_unit_clear(&single.unit);
    free(rows);
}

/* Nobody who is queued then would fare better: none of them has a try of its own. */
static void who_is_queued_when_mysql_goes_away_is_told_with_the_one_at_work(void **state)
{
    struct fixture *f = *state;
    enum { QUEUED = 3 };
    static struct call first, held, queued[QUEUED];
    f->mysql.config.api_committers = 1;
    start(f);
    prepare(f, &first, "t", 1);
    submit(f, &first); /* makes the topic */
    prepare(f, &held, "t", 1);
    held.rows[0].row.job.key = DT_STR_LIT("held");
    mysql_fixture_run(&f->mysql, "START TRANSACTION");
    mysql_fixture_run(&f->mysql, "INSERT INTO job_keys VALUES ('t', 'held', 1)");
    submit_all(f, &held, 1);
    mysql_fixture_await_lock_waits(&f->mysql, 1);
    for (int i = 0; i < QUEUED; i++)
        prepare(f, &queued[i], "t", 1);
    submit_all(f, queued, QUEUED);
    mysql_fixture_kill_sessions(&f->mysql);
    await(&held);
    assert_int_not_equal(held.unit.status, DT_OK);
    for (int i = 0; i < QUEUED; i++) {
        await(&queued[i]);
        assert_int_equal(queued[i].unit.status, DT_UNAVAILABLE);
        dt_unit_clear(&queued[i].unit);
    }
    mysql_fixture_run(&f->mysql, "ROLLBACK");
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), 1);
    dt_unit_clear(&held.unit);
    dt_unit_clear(&first.unit);
}

/* What a batch that hangs is given before another one is begun beside it, while single jobs come. */
static void while_single_jobs_come_batches_are_committed_one_at_a_time(void **state)
{
    struct fixture *f = *state;
    enum { COMMITTERS = 4, BATCHES = 2, BATCH = 20, ALONE_US = 200000, CALM_US = 500000 };
    static struct call batches[BATCHES], single;
    f->mysql.config.api_committers = COMMITTERS;
    f->mysql.config.api_commit_jobs = BATCH;
    start(f);
    struct dt_create *rows = prepare_many(f, batches, BATCHES, BATCH);
    for (size_t i = 0; i < BATCHES; i++)
        rows[i * BATCH].row.job.key = DT_STR_LIT("held");
    prepare(f, &single, "t", 1);
    mysql_fixture_run(&f->mysql, "START TRANSACTION");
    mysql_fixture_run(&f->mysql, "INSERT INTO job_keys VALUES ('t', 'held', 1)");
    int64_t calm_us = dt_clock_mono_us(dt_clock_system()) + CALM_US; /* the commit of the single job begins later */
    submit(f, &single);
    int64_t alone_us = dt_clock_mono_us(dt_clock_system()) + ALONE_US;
    submit_all(f, batches, BATCHES);
    mysql_fixture_await_lock_waits(&f->mysql, BATCHES);
    assert_true(dt_clock_mono_us(dt_clock_system()) >= dt_earlier(alone_us, calm_us));
    mysql_fixture_run(&f->mysql, "ROLLBACK");
    for (size_t i = 0; i < BATCHES; i++) {
        await(&batches[i]);
        dt_unit_clear(&batches[i].unit);
    }
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
    struct dt_create *rows = prepare_many(f, &batch, 1, BATCH), *others = prepare_many(f, &first, 1, BATCH);
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
    free(others);
}

static void what_is_large_is_committed_apart(void **state)
{
    struct fixture *f = *state;
    enum { CALLS = 12, PAYLOAD = 900000 };
    static struct call calls[CALLS];
    char *payload = malloc(PAYLOAD);
    assert_non_null(payload);
    memset(payload, '7', PAYLOAD);
    f->mysql.config.api_committers = 1;
    start(f);
    for (int i = 0; i < CALLS; i++) {
        prepare(f, &calls[i], "t", ROWS);
        for (int n = 0; i > 0 && n < ROWS; n++)
            calls[i].rows[n].row.job.payload = (struct dt_str){payload, PAYLOAD};
    }
    submit_all(f, calls, CALLS); /* while the first is committed, the others gather */
    await_all(calls, CALLS);
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), CALLS * ROWS);
    assert_true((CALLS - 1) * ROWS * (size_t)PAYLOAD > 2 * DT_COMMIT_BYTES);
    assert_true(mysql_fixture_number(&f->mysql, "SELECT COUNT(DISTINCT created_at) FROM jobs") > 2);
    free(payload);
}

static void stopping_commits_what_is_queued_and_takes_no_more(void **state)
{
    struct fixture *f = *state;
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
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), CALLS);
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
            usleep(500);
        ok += calls[i].unit.status == DT_OK && calls[i].rows[0].row.outcome == DT_INSERT_CREATED;
        dt_unit_clear(&calls[i].unit);
    }
    free(calls);
    return (void *)(intptr_t)ok;
}

static void many_threads_at_once_get_each_row_once(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[SUBMITTERS];
    start(f);
    for (int i = 0; i < SUBMITTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, f), 0);
    for (int i = 0; i < SUBMITTERS; i++) {
        void *ok;
        pthread_join(threads[i], &ok);
        assert_int_equal((intptr_t)ok, EACH);
    }
    assert_int_equal(mysql_fixture_number(&f->mysql, "SELECT COUNT(*) FROM jobs"), SUBMITTERS * EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_unit_is_committed_and_answered_once, make, drop),
        cmocka_unit_test_setup_teardown(a_job_copies_what_its_topic_says_at_that_moment, make, drop),
        cmocka_unit_test_setup_teardown(the_first_job_makes_its_topic, make, drop),
        cmocka_unit_test_setup_teardown(unknown_topics_are_refused_where_none_may_be_made, make, drop),
        cmocka_unit_test_setup_teardown(a_job_that_does_not_fit_its_topic_is_refused_alone, make, drop),
        cmocka_unit_test_setup_teardown(a_topic_that_clashes_in_kafka_refuses_its_rows_alone, make, drop),
        cmocka_unit_test_setup_teardown(ids_of_a_server_that_went_back_in_time_are_replaced, make, drop),
        cmocka_unit_test_setup_teardown(a_restored_server_gives_no_block_out_that_somebody_has, make, drop),
        cmocka_unit_test_setup_teardown(units_without_time_or_sense_are_answered_and_leave_no_row, make, drop),
        cmocka_unit_test_setup_teardown(nothing_is_taken_before_mysql_has_said_what_time_it_is, make, drop),
        cmocka_unit_test_setup_teardown(a_full_queue_refuses_and_loses_nothing, make, drop),
        cmocka_unit_test_setup_teardown(a_queue_has_the_room_of_the_jobs_that_have_left_it, make, drop),
        cmocka_unit_test_setup_teardown(a_queue_has_the_room_of_the_bytes_that_have_left_it, make, drop),
        cmocka_unit_test_setup_teardown(a_single_job_does_not_stand_behind_batches, make, drop),
        cmocka_unit_test_setup_teardown(batches_that_wait_for_a_lock_leave_a_thread_for_single_jobs, make, drop),
        cmocka_unit_test_setup_teardown(who_is_queued_when_mysql_goes_away_is_told_with_the_one_at_work, make, drop),
        cmocka_unit_test_setup_teardown(while_single_jobs_come_batches_are_committed_one_at_a_time, make, drop),
        cmocka_unit_test_setup_teardown(a_batch_has_its_turn_however_many_single_jobs_there_are, make, drop),
        cmocka_unit_test_setup_teardown(what_is_large_is_committed_apart, make, drop),
        cmocka_unit_test_setup_teardown(stopping_commits_what_is_queued_and_takes_no_more, make, drop),
        cmocka_unit_test_setup_teardown(many_threads_at_once_get_each_row_once, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
