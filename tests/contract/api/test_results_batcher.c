/* Results that come by REST, on a real MySQL: each report is answered once, in order, and what has left the queue
 * leaves room. */

#include "intake/results_rest.h"
#include "job/results/results.h"
#include "support/job_rows.h"
#include "support/wait.h"

#define IDS INT64_C(1000)

struct fixture {
    dt_refclock ref;
    struct dt_session_env env;
    dt_topic_cache *topics;
    dt_index_writer *index;
    dt_results_batcher *results;
};

struct call {
    struct dt_apply apply;
    struct dt_reports reports;
    _Atomic int answers;
};

static void answered(struct dt_reports *reports)
{
    struct call *call = reports->arg;
    atomic_fetch_add(&call->answers, 1);
}

static struct dt_apply applying(int64_t job_id, int32_t attempt, enum dt_result_status status)
{
    return (struct dt_apply){.result = {.job_id = job_id, .attempt = attempt, .status = status, .retry_after_ms = -1}};
}

static void report(struct fixture *f, struct call *call, int64_t job_id, int32_t attempt, enum dt_result_status status)
{
    *call = (struct call){.apply = applying(job_id, attempt, status),
                          .reports = {.v = &call->apply, .n = 1, .done = answered, .arg = call}};
    dt_results_batcher_submit(f->results, &call->reports);
}

static void make(struct fixture *f)
{
    struct dt_error err = {0};
    const dt_clock *clock = dt_clock_system();
    mysql_fixture_make("results_batcher");
    mysql_fixture_migrate();
    free(mysql_fixture.config.redis_endpoints); /* nobody listens there: no answer depends on Redis */
    mysql_fixture.config.redis_endpoints = strdup("127.0.0.1:1");
    dt_store *store;
    dt_refclock_init(&f->ref, clock);
    f->env = (struct dt_session_env){.config = &mysql_fixture.config, .clock = clock, .ref = &f->ref};
    OK(dt_store_new(&mysql_fixture.config, &f->ref, &store));
    OK(dt_store_ping(store, &err));
    dt_store_free(store);
    OK(dt_topic_cache_new(&mysql_fixture.config, clock, &f->topics));
    OK(dt_index_writer_start(&f->env, f->topics, &f->index, &err));
    OK(dt_results_batcher_start(&f->env, f->topics, f->index, &f->results, &err));
}

static void drop(struct fixture *f)
{
    if (f->results)
        dt_results_batcher_stop(f->results);
    dt_results_batcher_free(f->results);
    dt_index_writer_stop(f->index);
    dt_index_writer_free(f->index);
    dt_topic_cache_free(f->topics);
    mysql_fixture_drop();
}

#define RIG_TEST(name) TEST_ON(struct fixture, f, name, make, drop)

RIG_TEST(each_report_gets_its_outcome)
{
    struct call calls[5];
    job_row_dispatched(IDS + 1, 1, 0);
    job_row_dispatched(IDS + 2, 3, 0);
    report(f, &calls[0], IDS + 1, 1, DT_RESULT_SUCCEEDED);
    report(f, &calls[1], IDS + 1, 1, DT_RESULT_SUCCEEDED);
    report(f, &calls[2], IDS + 2, 2, DT_RESULT_FAILED);
    report(f, &calls[3], IDS + 3, 1, DT_RESULT_SUCCEEDED);
    report(f, &calls[4], IDS + 2, 3, DT_RESULT_GAVE_UP);
    static const enum dt_outcome expected[] = {DT_OUTCOME_APPLIED, DT_OUTCOME_DUPLICATE, DT_OUTCOME_STALE,
                                               DT_OUTCOME_UNKNOWN_JOB, DT_OUTCOME_APPLIED};
    for (int i = 0; i < 5; i++) {
        AWAIT_ANSWER(&calls[i].answers);
        assert_int_equal(calls[i].reports.status, DT_OK);
        assert_int_equal(calls[i].apply.outcome, expected[i]);
    }
    assert_job(IDS + 1, "state", "succeeded");
    assert_job(IDS + 2, "state", "dead");
}

RIG_TEST(applied_reports_free_their_room_in_the_queue)
{
    enum { ROUNDS = 22, BURST = 1000 }; /* more than the queue takes, a burst at a time */
    struct call *calls = calloc(BURST, sizeof *calls);
    mysql_fixture.config.results_batch =
        mysql_fixture.config.results_batch < BURST ? mysql_fixture.config.results_batch : BURST;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BURST; i++)
            report(f, &calls[i], IDS + i, 1, DT_RESULT_SUCCEEDED);
        for (int i = 0; i < BURST; i++) {
            AWAIT_ANSWER(&calls[i].answers);
            assert_int_equal(calls[i].reports.status, DT_OK);
            assert_int_equal(calls[i].apply.outcome, DT_OUTCOME_UNKNOWN_JOB);
        }
    }
    free(calls);
}

RIG_TEST(a_full_queue_refuses_and_loses_nothing)
{
    enum { CALLS = 20000 + 3 * 2000 }; /* the queue, what a batch may have taken from it, and more */
    struct call *calls = calloc(CALLS, sizeof *calls);
    int ok = 0, full = 0;
    run_sql("LOCK TABLES jobs WRITE"); /* the first batch waits, the others gather */
    for (int i = 0; i < CALLS; i++)
        report(f, &calls[i], IDS, 1, DT_RESULT_SUCCEEDED);
    run_sql("UNLOCK TABLES");
    for (int i = 0; i < CALLS; i++) {
        AWAIT_ANSWER(&calls[i].answers);
        ok += calls[i].reports.status == DT_OK;
        full += calls[i].reports.status == DT_FULL;
    }
    assert_int_equal(ok + full, CALLS);
    assert_true(ok >= 20000);
    assert_true(full > 0);
    free(calls);
}

RIG_TEST(stopping_applies_the_queue_and_refuses_new_reports)
{
    enum { CALLS = 700 };
    static struct call calls[CALLS];
    struct call after;
    for (int i = 0; i < CALLS; i++)
        report(f, &calls[i], IDS + i, 1, DT_RESULT_SUCCEEDED);
    dt_results_batcher_stop(f->results);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(&calls[i].answers), 1);
        assert_int_equal(calls[i].reports.status, DT_OK);
    }
    report(f, &after, IDS, 1, DT_RESULT_SUCCEEDED);
    AWAIT_ANSWER(&after.answers);
    assert_int_equal(after.reports.status, DT_SHUTDOWN);
    dt_results_batcher_free(f->results);
    f->results = NULL;
}

/* ---- many of one request ---- */

enum { UNIT = 1000 };
struct unit {
    struct dt_apply v[UNIT];
    struct dt_reports reports;
    _Atomic int answers;
};

static void unit_answered(struct dt_reports *reports)
{
    struct unit *unit = reports->arg;
    atomic_fetch_add(&unit->answers, 1);
}

static struct unit *submit_unit(struct fixture *f, int64_t first, size_t n, const struct dt_topic_bound *bound)
{
    struct unit *unit = calloc(1, sizeof(*unit));
    for (size_t i = 0; i < n; i++)
        unit->v[i] = applying(first + (int64_t)i, 1, DT_RESULT_SUCCEEDED);
    unit->reports =
        (struct dt_reports){.v = unit->v, .n = n, .bound = bound, .of_batch = true, .done = unit_answered, .arg = unit};
    dt_results_batcher_submit(f->results, &unit->reports);
    return unit;
}

static void await_unit(struct unit *unit, dt_status status)
{
    AWAIT_ANSWER(&unit->answers);
    assert_int_equal(unit->reports.status, status);
}

RIG_TEST(results_of_one_request_are_answered_together)
{
    job_row_dispatched(IDS + 1, 1, 0);
    job_row_dispatched(IDS + 2, 1, 0);
    assert_int_equal(dt_results_batcher_unit(f->results), UNIT);
    struct unit *first = submit_unit(f, IDS, 3, NULL);
    struct unit *again = submit_unit(f, IDS + 2, UNIT, NULL);
    await_unit(first, DT_OK);
    await_unit(again, DT_OK);
    assert_int_equal(first->v[0].outcome, DT_OUTCOME_UNKNOWN_JOB);
    assert_int_equal(first->v[1].outcome, DT_OUTCOME_APPLIED);
    assert_int_equal(first->v[2].outcome, DT_OUTCOME_APPLIED);
    assert_int_equal(again->v[0].outcome, DT_OUTCOME_DUPLICATE);
    assert_int_equal(again->v[UNIT - 1].outcome, DT_OUTCOME_UNKNOWN_JOB);
    free(first);
    free(again);
}

RIG_TEST(a_caller_reports_on_topics_that_it_sees)
{
    struct dt_str others[] = {DT_STR_LIT("mail."), DT_STR_LIT("order-")}, ours[] = {DT_STR_LIT("ord")};
    job_row_dispatched(IDS + 1, 1, 0); /* of the topic orders */
    struct unit *stranger = submit_unit(f, IDS + 1, 1, &(struct dt_topic_bound){others, 2});
    await_unit(stranger, DT_OK);
    assert_int_equal(stranger->v[0].outcome, DT_OUTCOME_UNKNOWN_JOB);
    assert_job(IDS + 1, "state", "dispatched");
    struct unit *owner = submit_unit(f, IDS + 1, 1, &(struct dt_topic_bound){ours, 1});
    await_unit(owner, DT_OK);
    assert_int_equal(owner->v[0].outcome, DT_OUTCOME_APPLIED);
    free(stranger);
    free(owner);
}

/* Ten thousand reports of batches wait: one that comes alone is in the next transaction but one. */
RIG_TEST(a_single_report_overtakes_reports_of_batches)
{
    enum { UNITS = 10 };
    struct unit *units[UNITS];
    struct call alone;
    int before = 0;
    job_row_dispatched(IDS, 1, 0);
    run_sql("LOCK TABLES jobs WRITE");
    for (int i = 0; i < UNITS; i++)
        units[i] = submit_unit(f, IDS + 1, UNIT, NULL);
    report(f, &alone, IDS, 1, DT_RESULT_SUCCEEDED);
    run_sql("UNLOCK TABLES");
    AWAIT_ANSWER(&alone.answers);
    for (int i = 0; i < UNITS; i++)
        before += atomic_load(&units[i]->answers);
    for (int i = 0; i < UNITS; i++) {
        await_unit(units[i], DT_OK);
        free(units[i]);
    }
    assert_int_equal(alone.apply.outcome, DT_OUTCOME_APPLIED);
    assert_true(before <= 6);
}

RIG_TEST(a_request_larger_than_the_queue_is_refused_as_a_whole)
{
    enum { UNITS = DT_RESULTS_QUEUE / UNIT + 4 };
    struct unit *units[UNITS];
    int full = 0;
    run_sql("LOCK TABLES jobs WRITE");
    for (int i = 0; i < UNITS; i++)
        units[i] = submit_unit(f, IDS, UNIT, NULL);
    run_sql("UNLOCK TABLES");
    for (int i = 0; i < UNITS; i++) {
        AWAIT_ANSWER(&units[i]->answers);
        if (units[i]->reports.status != DT_FULL)
            assert_int_equal(units[i]->reports.status, DT_OK);
        full += units[i]->reports.status == DT_FULL;
        free(units[i]);
    }
    assert_true(full >= 1 && full <= 4);
}
