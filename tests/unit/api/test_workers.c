/* Workers: who is served next, who is refused and with what, and that each request leaves the pool exactly once. The
 * connections to MySQL and the HTTP server behind a request are fakes; threads and queues are the real ones. */
#include <unistd.h>

#include "base/metrics.h"
#include "request/session.h"
#include "request/workers.h"
#include "support/wait.h"

#define MANY    4100 /* more than the queue takes */
#define FULL    4096
#define SECOND  INT64_C(1000000)
#define PATIENT (5 * WAIT_SECONDS * SECOND)

/* A request and what became of it. Under the lock of the rig from its submission on. */
struct call {
    struct dt_request req; /* first: a request is its call */
    bool is_long;
    bool suspended, held; /* held: whoever runs it waits for let_go */
    bool handed_on;       /* whoever runs it gives it to somebody else */
    int times_later;      /* so many times it is put off before it is answered */
    int runs, resumed, trimmed, order;
};

static struct rig {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct call calls[MANY];
    int runs; /* of all calls */
    int sessions, n_stalled, fail_session, asked_stalled;
    dt_status begin;
    struct dt_config config;
    dt_refclock ref;
    struct dt_session_env env;
    struct dt_activity activity;
    dt_workers *pool;
    struct dt_error err;
} * rig;

static int64_t now_us(void)
{
    return dt_clock_mono_us(dt_clock_system());
}

/* ---- the connection and the server ---- */

dt_status dt_session_init(struct dt_session *session, const struct dt_session_env *env)
{
    assert_members(*env, (config, &rig->config), (clock, dt_clock_system()), (ref, &rig->ref));
    if (rig->sessions == rig->fail_session)
        return DT_NOMEM;
    session->used_us = rig->sessions++;
    return DT_OK;
}

void dt_session_clear(struct dt_session *)
{
    pthread_mutex_lock(&rig->lock);
    rig->sessions--;
    pthread_mutex_unlock(&rig->lock);
}

dt_status dt_session_begin(struct dt_session *, struct dt_error *err)
{
    return rig->begin == DT_OK ? DT_OK : dt_fail(err, rig->begin, "away");
}

void dt_store_act_as(dt_store *store, struct dt_str actor)
{
    assert_null(store);
    assert_string_equal(actor.p, "-");
}

STUB(void, dt_session_end, (struct dt_session * session), )

bool dt_session_stalled(const struct dt_session *session)
{
    return session->used_us < rig->n_stalled;
}

void dt_request_suspend(struct dt_request *req)
{
    struct call *call = (struct call *)req;
    assert_false(call->suspended);
    call->suspended = true;
}

bool dt_request_suspended(const struct dt_request *req)
{
    return ((const struct call *)req)->suspended;
}

void dt_request_resume(struct dt_request *req)
{
    struct call *call = (struct call *)req;
    pthread_mutex_lock(&rig->lock);
    call->resumed++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

void dt_request_trim(struct dt_request *req)
{
    struct call *call = (struct call *)req;
    assert_int_equal(call->resumed, 0);
    call->trimmed++;
}

/* ---- requests ---- */

static const struct dt_route route = {.wall = DT_WALL_NOTHING};

static enum dt_next serve(struct dt_request *req, dt_store *)
{
    struct call *call = (struct call *)req;
    pthread_mutex_lock(&rig->lock);
    call->runs++;
    call->order = ++rig->runs;
    pthread_cond_broadcast(&rig->changed);
    while (call->held)
        pthread_cond_wait(&rig->changed, &rig->lock);
    bool later = call->times_later > 0;
    call->times_later -= later;
    pthread_mutex_unlock(&rig->lock);
    if (later) {
        if (dt_workers_later(rig->pool, req, serve))
            return DT_PENDING;
        fail_msg("there is no room to put it off");
    }
    if (call->handed_on)
        return DT_PENDING;
    req->status = 200;
    return DT_REPLY;
}

STUB(static enum dt_next, go_on, (struct dt_request * req), DT_REPLY)

static void submit_by(struct call *call, uint8_t caller)
{
    call->req.caller.fair_queue = caller;
    call->req.then = go_on;
    call->req.route = &route;
    if (call->req.deadline_us == 0)
        call->req.deadline_us = now_us() + PATIENT;
    call->req.reads_much = call->is_long;
    assert_int_equal(dt_workers_submit(rig->pool, &call->req, serve), DT_PENDING);
}

static void submit(struct call *call)
{
    submit_by(call, 0);
}

static void await(const int *what, int wanted)
{
    AWAIT_CHANGED(*what >= wanted, &rig->changed, &rig->lock);
}

static int runs_of(const struct call *call)
{
    pthread_mutex_lock(&rig->lock);
    int runs = call->runs;
    pthread_mutex_unlock(&rig->lock);
    return runs;
}

static void let_go(struct call *call)
{
    pthread_mutex_lock(&rig->lock);
    call->held = false;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void assert_served(struct call *call)
{
    await(&call->resumed, 1);
    assert_int_equal(call->req.status, 200);
    assert_int_equal(call->trimmed, 1);
    assert_ptr_equal(call->req.then, go_on);
}

static void assert_refused(struct call *call, enum dt_problem_type type, const char *why)
{
    await(&call->resumed, 1);
    assert_int_equal(call->req.status, dt_problem_http_status(type));
    assert_non_null(strstr(call->req.out.p, dt_problem_slug(type)));
    if (!strstr(call->req.out.p, why))
        fail_msg("%s, and not \"%s\"", call->req.out.p, why);
    assert_ptr_equal(call->req.then, go_on); /* it may have done something before, and answers for that */
}

/* So many requests wait in the pool, and so many are at work. */
static void assert_shown(int queued, int busy)
{
    dt_metric *waiting = dt_gauge("duetime_api_workers_queued", "", "");
    dt_metric *working = dt_gauge("duetime_api_workers_busy", "", "");
    AWAIT_OR(dt_metric_value(waiting) == queued && dt_metric_value(working) == busy,
             print_error("%g wait, %g are at work\n", dt_metric_value(waiting), dt_metric_value(working)));
}

/* ---- the rig ---- */

static void make(void)
{
    rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->fail_session = -1;
    rig->env = (struct dt_session_env){.config = &rig->config, .clock = dt_clock_system(), .ref = &rig->ref};
    for (int i = 0; i < MANY; i++) {
    }
}

/* The end of the pool answers whoever is left, each once. */
static void drop(void)
{
    if (rig->pool)
        dt_workers_stop(rig->pool);
    assert_int_equal(rig->sessions, 0);
    dt_workers_free(rig->pool);
    for (int i = 0; i < MANY; i++) {
        struct call *call = &rig->calls[i];
        assert_int_equal(call->resumed, call->suspended && !call->handed_on);
        dt_strbuf_clear(&call->req.out);
        dt_strbuf_clear(&call->req.headers);
        dt_arena_clear(&call->req.arena);
    }
    pthread_mutex_destroy(&rig->lock);
    pthread_cond_destroy(&rig->changed);
    free(rig);
}

#define FRESH_TEST(name) TEST_WITH(name, make, drop)

static void start(int workers)
{
    rig->config.http_workers = workers;
    assert_int_equal(dt_workers_start(&rig->env, &rig->activity, &rig->pool, &rig->err), DT_OK);
    assert_int_equal(rig->sessions, 1); /* the others are started when they are needed */
}

/* Keeps n workers busy until they are let go. */
static void hold(struct call *calls, int n, uint8_t caller)
{
    for (int i = 0; i < n; i++) {
        calls[i].held = true;
        submit_by(&calls[i], caller);
        await(&calls[i].runs, 1);
    }
}

/* ---- the tests ---- */

FRESH_TEST(each_request_is_run_once_and_answered_once)
{
    start(4);
    for (int i = 0; i < 500; i++)
        submit_by(&rig->calls[i], (uint8_t)i);
    for (int i = 0; i < 500; i++) {
        assert_served(&rig->calls[i]);
        assert_int_equal(rig->calls[i].runs, 1);
    }
    assert_shown(0, 0);
}

FRESH_TEST(a_worker_does_not_touch_a_request_that_its_handler_passed_to_another_thread)
{
    start(1);
    rig->calls[0].handed_on = true;
    submit(&rig->calls[0]);
    submit(&rig->calls[1]);
    assert_served(&rig->calls[1]);
    assert_members(rig->calls[0], (runs, 1), (trimmed, 0));
}

FRESH_TEST(a_request_that_is_suspended_already_is_not_suspended_again)
{
    start(1);
    rig->calls[0].suspended = true; /* a unit's done hands it on */
    submit(&rig->calls[0]);
    assert_served(&rig->calls[0]);
}

FRESH_TEST(waiting_and_running_requests_are_counted)
{
    struct call *calls = rig->calls;
    start(2);
    assert_shown(0, 0);
    hold(calls, 2, 0);
    for (int i = 2; i < 5; i++)
        submit(&calls[i]);
    assert_shown(3, 2);
    let_go(&calls[0]);
    for (int i = 2; i < 5; i++)
        assert_served(&calls[i]);
    assert_shown(0, 1);
    let_go(&calls[1]);
    assert_shown(0, 0);
}

FRESH_TEST(the_caller_served_longest_ago_is_next)
{
    struct call *calls = rig->calls;
    static const uint8_t callers[] = {1, 1, 1, 2, 3, 2};
    static const int order[] = {2, 5, 7, 3, 4, 6}; /* in which each is run */
    start(1);
    hold(&calls[10], 1, 4);
    for (int i = 0; i < 6; i++)
        submit_by(&calls[i], callers[i]);
    let_go(&calls[10]);
    for (int i = 0; i < 6; i++) {
        assert_served(&calls[i]);
        assert_int_equal(calls[i].order, order[i]);
    }
}

FRESH_TEST(only_a_single_caller_gets_all_workers)
{
    struct call *calls = rig->calls;
    start(4);
    hold(calls, 3, 7);
    submit_by(&calls[3], 7);
    submit_by(&calls[4], 8); /* behind it, and not kept waiting by it */
    assert_served(&calls[4]);
    assert_int_equal(runs_of(&calls[3]), 0);
    assert_shown(1, 3);
    let_go(&calls[0]);
    assert_served(&calls[3]);
    for (int i = 1; i < 3; i++)
        let_go(&calls[i]);
    hold(&calls[5], 4, 0); /* without tokens */
    for (int i = 5; i < 9; i++)
        let_go(&calls[i]);
    assert_shown(0, 0);
}

FRESH_TEST(a_caller_leaves_a_quarter_of_the_workers_to_others)
{
    static const struct {
        int workers, most;
    } rows[] = {{1, 1}, {2, 1}, {3, 2}, {4, 3}, {5, 3}, {8, 6}, {9, 6}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct call *calls = &rig->calls[20 * i];
        start(rows[i].workers);
        hold(calls, rows[i].most, 5);
        submit_by(&calls[10], 5);
        assert_shown(1, rows[i].most);
        for (int k = 0; k < rows[i].most; k++)
            let_go(&calls[k]);
        assert_served(&calls[10]);
        dt_workers_stop(rig->pool);
        dt_workers_free(rig->pool);
        rig->pool = NULL;
    }
}

FRESH_TEST(long_requests_of_a_single_caller_run_together)
{
    struct call *calls = rig->calls;
    start(4);
    dt_activity_note(&rig->activity, 7, now_us());
    for (int i = 0; i < 3; i++) {
        calls[i].held = calls[i].is_long = true;
        submit_by(&calls[i], 7);
    }
    for (int i = 0; i < 3; i++)
        await(&calls[i].runs, 1);
    for (int i = 0; i < 3; i++) {
        let_go(&calls[i]);
        assert_served(&calls[i]);
    }
}

FRESH_TEST(if_other_callers_wait_long_requests_run_one_at_a_time_with_pauses)
{
    struct call *calls = rig->calls;
    enum { TOOK_US = 30000 };
    start(4);
    dt_activity_note(&rig->activity, 9, now_us());
    dt_activity_note(&rig->activity, 7, now_us());
    calls[0].held = calls[0].is_long = calls[1].is_long = calls[3].is_long = true;
    submit_by(&calls[0], 7);
    await(&calls[0].runs, 1);
    dt_activity_note(&rig->activity, 9, now_us());
    submit_by(&calls[1], 7);
    submit_by(&calls[2], 7); /* what is not long goes on … */
    submit_by(&calls[3], 8); /* … as does what is somebody else's */
    assert_served(&calls[2]);
    assert_served(&calls[3]);
    usleep(TOOK_US); /* what it takes is measured by the real clock */
    int runs = runs_of(&calls[1]);
    if (dt_activity_of_others(&rig->activity, 7, now_us())) /* this test has not been stopped for long */
        assert_int_equal(runs, 0);
    int64_t us = now_us();
    dt_activity_note(&rig->activity, 9, us);
    let_go(&calls[0]);
    assert_served(&calls[0]);
    assert_served(&calls[1]);
    assert_true(now_us() - us >= DT_WORKERS_RESTS * TOOK_US);
    assert_shown(0, 0);
}

FRESH_TEST(when_every_connection_hangs_a_request_is_refused_at_once)
{
    struct call *calls = rig->calls;
    start(2);
    hold(calls, 1, 0);
    rig->n_stalled = 1;
    submit(&calls[1]); /* by the other worker */
    assert_served(&calls[1]);
    rig->n_stalled = 2;
    submit(&calls[2]);
    assert_int_equal(calls[2].resumed, 1);
    assert_refused(&calls[2], DT_PROBLEM_UNAVAILABLE, "the database does not answer");
    let_go(&calls[0]);
    rig->n_stalled = 0;
}

FRESH_TEST(a_pool_grows_while_requests_wait_and_tolerates_failed_starts)
{
    start(3);
    hold(rig->calls, 2, 0);
    assert_int_equal(rig->sessions, 2);
    rig->fail_session = 2;
    submit(&rig->calls[2]);
    assert_shown(1, 2);
    let_go(&rig->calls[0]);
    assert_served(&rig->calls[2]);
    let_go(&rig->calls[1]);
}

FRESH_TEST(a_full_queue_refuses_requests_with_a_reason)
{
    struct call *calls = rig->calls;
    start(1);
    hold(calls, 1, 0);
    for (int i = 1; i <= FULL; i++)
        submit(&calls[i]);
    assert_shown(FULL, 1);
    assert_int_equal(calls[FULL].resumed, 0);
    submit(&calls[FULL + 1]);
    assert_refused(&calls[FULL + 1], DT_PROBLEM_UNAVAILABLE, "too many requests are waiting");
    let_go(&calls[0]);
    for (int i = 1; i <= FULL; i++)
        assert_served(&calls[i]);
    assert_int_equal(calls[1].order, 2);
    assert_int_equal(calls[FULL].order, FULL + 1);
    assert_shown(0, 0);
}

FRESH_TEST(an_expired_request_is_removed_and_the_others_keep_their_order)
{
    struct call *calls = rig->calls;
    int64_t us = now_us();
    start(1);
    hold(&calls[10], 1, 0);
    for (int i = 0; i < 6; i++) {
        calls[i].req.deadline_us = us + (i == 0 || i == 3 || i == 5 ? 30 : 90) * SECOND;
        submit(&calls[i]);
    }
    dt_workers_expire(rig->pool, us + 30 * SECOND - 1);
    assert_shown(6, 1);
    dt_workers_expire(rig->pool, us + 30 * SECOND);
    assert_shown(3, 1);
    for (int i = 0; i < 6; i += i == 0 ? 3 : 2)
        assert_refused(&calls[i], DT_PROBLEM_UNAVAILABLE, "the request waited too long for the database");
    let_go(&calls[10]);
    static const int stay[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        assert_served(&calls[stay[i]]);
        assert_int_equal(calls[stay[i]].order, 2 + i);
    }
}

FRESH_TEST(without_the_database_a_request_is_refused_unless_it_has_changed_something)
{
    struct call *calls = rig->calls;
    start(1);
    rig->begin = DT_UNAVAILABLE;
    calls[0].req.changed = true;
    submit(&calls[0]);
    assert_served(&calls[0]); /* its statements fail, and it answers what it knows */
    submit(&calls[1]);
    assert_refused(&calls[1], DT_PROBLEM_UNAVAILABLE, "the database does not answer");
    assert_int_equal(calls[0].runs, 1);
    assert_int_equal(calls[1].runs, 0);
    rig->begin = DT_OK;
    submit(&calls[2]);
    assert_served(&calls[2]);
    assert_shown(0, 0);
}

FRESH_TEST(a_request_whose_time_is_up_when_its_turn_comes_is_not_run)
{
    struct call *calls = rig->calls;
    start(1);
    calls[0].req.deadline_us = calls[1].req.deadline_us = now_us();
    calls[1].req.changed = true;
    submit(&calls[0]);
    assert_refused(&calls[0], DT_PROBLEM_UNAVAILABLE, "waited too long");
    submit(&calls[1]);
    assert_refused(&calls[1], DT_PROBLEM_OUTCOME_UNKNOWN, "waited too long");
    assert_int_equal(calls[0].runs + calls[1].runs, 0);
}

FRESH_TEST(a_request_that_is_put_off_holds_no_worker_and_is_run_again)
{
    struct call *calls = rig->calls;
    int64_t us = now_us();
    start(1);
    for (int i = 0; i < 3; i++) {
        calls[i].times_later = 4;
        submit(&calls[i]);
    }
    submit(&calls[3]);
    assert_served(&calls[3]);
    assert_int_equal(calls[3].runs, 1);
    for (int i = 0; i < 3; i++) {
        assert_served(&calls[i]);
        assert_int_equal(calls[i].runs, 5);
    }
    assert_true(now_us() - us >= 4 * DT_WORKERS_LATER_US);
    assert_shown(0, 0);
}

FRESH_TEST(a_request_that_is_put_off_is_refused_when_its_time_is_up)
{
    struct call *calls = rig->calls;
    int64_t us = now_us();
    start(2);
    calls[2].held = true; /* the other worker serves the others */
    submit(&calls[2]);
    await(&calls[2].runs, 1);
    for (int i = 0; i < 5; i++) {
        if (i == 2)
            continue;
        calls[i].times_later = 1000000;
        calls[i].req.deadline_us = us + (i % 2 ? 90 : 30) * SECOND;
        submit(&calls[i]);
        await(&calls[i].runs, 1);
    }
    for (int i = 0; i < 5; i += 4)
        while (calls[i].resumed == 0)
            dt_workers_expire(rig->pool, us + 30 * SECOND);
    assert_refused(&calls[0], DT_PROBLEM_UNAVAILABLE, "waited too long");
    assert_refused(&calls[4], DT_PROBLEM_UNAVAILABLE, "waited too long");
    for (int i = 1; i < 4; i += 2) {
        await(&calls[i].runs, runs_of(&calls[i]) + 2);
        pthread_mutex_lock(&rig->lock);
        calls[i].times_later = 0;
        pthread_mutex_unlock(&rig->lock);
        assert_served(&calls[i]);
    }
    let_go(&calls[2]);
    assert_served(&calls[2]);
}

static void *stop(void *arg)
{
    dt_workers_stop(arg);
    return NULL;
}

/* All workers are held: what is answered was refused, so the end has begun. Gives how many were submitted until
 * then. */
static int submit_until_the_end(struct call *calls)
{
    bool refused = false;
    int n = 0;
    for (; n < FULL - 100 && !refused; n++) {
        submit(&calls[n]);
        usleep(5000);
        pthread_mutex_lock(&rig->lock);
        refused = calls[n].resumed > 0;
        pthread_mutex_unlock(&rig->lock);
    }
    assert_true(refused);
    return n;
}

FRESH_TEST(stopping_refuses_waiting_requests_and_lets_running_ones_end)
{
    struct call *calls = rig->calls;
    start(2);
    calls[2].times_later = 1000000;
    submit(&calls[2]);
    await(&calls[2].runs, 3);
    hold(calls, 2, 0);
    submit_by(&calls[3], 9);
    submit_by(&calls[4], 9);
    pthread_t stopper = start_thread(stop, rig->pool);
    int n = submit_until_the_end(&calls[10]);
    let_go(&calls[0]);
    let_go(&calls[1]);
    pthread_join(stopper, NULL);
    for (int i = 0; i < 2; i++)
        assert_served(&calls[i]);
    for (int i = 2; i < 10 + n; i++)
        if (i < 5 || i >= 10)
            assert_refused(&calls[i], DT_PROBLEM_UNAVAILABLE, "the server is shutting down");
    for (int i = 3; i < 10 + n; i++)
        assert_int_equal(calls[i].runs, 0);
    assert_shown(0, 0);
}

FRESH_TEST(requests_after_the_pool_has_stopped_are_refused)
{
    start(1);
    dt_workers_stop(rig->pool);
    submit(&rig->calls[0]);
    assert_refused(&rig->calls[0], DT_PROBLEM_UNAVAILABLE, "the server is shutting down");
    dt_workers_free(rig->pool);
    rig->pool = NULL;
}

FRESH_TEST(a_pool_that_cannot_start_releases_everything)
{
    rig->fail_session = 0;
    rig->config.http_workers = 3;
    assert_int_equal(dt_workers_start(&rig->env, &rig->activity, &rig->pool, &rig->err), DT_NOMEM);
    assert_members(*rig, (pool, NULL), (sessions, 0));
}
