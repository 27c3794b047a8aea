/* The reconciler against real servers: what the index was not told, parts that are down, and others at work meanwhile. */
#include "contract/index/reconcile_suite.h"

/* ---- what the index was not told ---- */

/* An entry of a job that was ended by somebody who could not tell: far from being due, so that only the full scan meets it,
 * and its next round would end a minute from now. */
static void untold(struct fixture *fx)
{
    entry(fx, 9001, START + 1200000);
}

static void expect_seen_soon(struct fixture *fx)
{
    fx->next_us = 0;
    pass(fx, 4000);
    assert_int_equal(score(fx, 9001), 0);
}

#define RIG_TEST(name, setup) TEST_ON(struct fixture, fx, name, setup, done)

RIG_TEST(only_the_full_scan_finds_faults_far_ahead, shared)
{
    many_rows(2000, START + 60000, 1000);
    settle(fx);
    pass(fx, 30000); /* the round is beyond it */
    untold(fx);
    fx->next_us = 0;
    pass(fx, 4000);
    assert_int_not_equal(score(fx, 9001), 0);
}

RIG_TEST(a_full_scan_follows_a_rebuild_at_once, shared)
{
    many_rows(2000, START + 60000, 1000);
    settle(fx);
    lose(fx);
    fx->next_us = 0;
    for (int i = 0; i < 200 && dt_shard_set_empty(&fx->whole); i++)
        tick_soon(fx);
    untold(fx); /* a result that came between a page of the rebuild and its writing */
    expect_seen_soon(fx);
}

RIG_TEST(a_full_scan_follows_the_gain_of_a_shard_at_once, shared)
{
    unsigned shard = dt_shard_of(&fx->map, 9001);
    many_rows(2000, START + 60000, 1000);
    settle(fx);
    dt_shard_set_remove(&fx->leads, shard);
    pass(fx, 30000);
    untold(fx);
    dt_shard_set_add(&fx->leads, shard);
    expect_seen_soon(fx);
}

RIG_TEST(a_full_scan_follows_at_once_after_redis_was_unreachable, shared)
{
    many_rows(2000, START + 60000, 1000);
    settle(fx);
    pass(fx, 30000);
    untold(fx);
    dt_reconciler_doubt(fx->r);
    expect_seen_soon(fx);
}

RIG_TEST(not_every_doubt_restarts_a_running_full_scan, shared)
{
    mysql_fixture.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(3000, START + 60000, 1000);
    settle(fx);
    entry(fx, 2900, 0);
    for (int i = 0; i < 40 && score(fx, 2900) == 0; i++) {
        dt_reconciler_doubt(fx->r);
        pass(fx, 1000);
    }
    assert_int_not_equal(score(fx, 2900), 0);
}

static bool pings(void *arg)
{
    struct fixture *fx = arg;
    return dt_index_ping(fx->index, NULL) == DT_OK;
}

RIG_TEST(a_rebuild_survives_a_redis_that_goes_away_in_the_middle, private)
{
    mysql_fixture.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(1000, START + 60000, 1000);
    settle(fx);
    lose(fx);
    for (int i = 0; i < 50 && entries_below(fx, FAR) == 0; i++)
        tick_soon(fx);
    assert_in_range(entries_below(fx, FAR), 1, 900);
    redis_server_kill(&fx->server);
    for (int i = 0; i < 30; i++)
        pass(fx, 100);
    assert_true(totals(fx).rebuilding);
    assert_true(dt_shard_set_empty(&fx->whole));
    redis_server_again(&fx->server); /* empty */
    AWAIT(pings(fx));
    pass(fx, 2000);
    assert_int_equal(entries_below(fx, FAR), 1000);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_true(dt_shard_set_has(&fx->whole, shard));
    expect_drift(fx, 0, 0, 0);
}

/* ---- when a part is down ---- */

/* Right after a period: nothing would be looked at for another. */
RIG_TEST(entries_that_a_writer_reports_as_lost_are_repaired_at_once, shared)
{
    settle(fx);
    a_period(fx);
    pass(fx, 100);
    row(1, "t", "scheduled", fx->now_ms + 3000);
    forget_output(fx);
    pass(fx, 100);
    assert_false(fx->begun);
    assert_int_equal(score(fx, 1), 0);
    dt_reconciler_doubt(fx->r);
    fx->next_us = 0;
    pass(fx, 20);
    assert_true(fx->begun);
    assert_int_equal(score(fx, 1), sql_number("SELECT next_at FROM jobs WHERE id = 1"));
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_true(dt_shard_set_has(&fx->near, shard));
}

RIG_TEST(near_entries_are_compared_soon_while_a_leader_waits_for_them, shared)
{
    settle(fx);
    a_period(fx);
    forget_output(fx);
    fx->awaits_compare = true;
    fx->next_us = 0;
    pass(fx, 600); /* much less than a period */
    assert_true(fx->begun && dt_shard_set_has(&fx->near, 0));
    fx->awaits_compare = false;
    pass(fx, 300);
    forget_output(fx);
    pass(fx, 600);
    assert_false(fx->begun);
}

RIG_TEST(a_shard_whose_redis_failed_a_call_is_not_reported_as_compared, private)
{
    settle(fx);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 1");
    row(1, "t", "scheduled", fx->now_ms + 3000);
    dt_reconciler_doubt(fx->r);
    fx->next_us = 0;
    forget_output(fx);
    pass(fx, 20);
    assert_true(fx->begun);
    for (unsigned shard = 0; shard < SHARDS; shard++) /* it reads as before, and has nothing to write for the others */
        assert_int_equal(dt_shard_set_has(&fx->near, shard), shard != dt_shard_of(&fx->map, 1));
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 0");
    fx->awaits_compare = true;
    pass(fx, 600);
    assert_true(dt_shard_set_has(&fx->near, dt_shard_of(&fx->map, 1)));
    assert_true(score(fx, 1) > 0);
}

RIG_TEST(without_redis_a_tick_returns_and_is_due_again, private)
{
    many_rows(100, START + 60000, 1000);
    settle(fx);
    redis_server_kill(&fx->server);
    pass(fx, 20000);
    assert_in_range(fx->ticks, 4, 400);
    assert_true(fx->next_us <= (fx->now_ms - START + 5001) * 1000);
    expect_drift(fx, 0, 0, 0);
    redis_server_again(&fx->server); /* empty; nobody said that it was lost */
    AWAIT(pings(fx));
    pass(fx, 70000);
    assert_int_equal(entries_below(fx, FAR), 100);
}

RIG_TEST(without_mysql_a_tick_returns_and_is_due_in_a_second, private)
{
    struct dt_config config = mysql_fixture.config;
    dt_store *nowhere, *there = fx->store;
    config.mysql_socket = (char[]){"/nonexistent/mysql.sock"};
    FX_OK(dt_store_new(&config, NULL, &nowhere));
    fx->store = nowhere;
    entry(fx, 1, START + 1000);
    for (int i = 0; i < 5; i++) { /* the first steps may need Redis only */
        tick(fx);
        fx->now_ms = START + (fx->next_us + 999) / 1000;
    }
    tick(fx);
    assert_in_range(fx->next_us - (fx->now_ms - START) * 1000, 500000, 1000001);
    assert_int_not_equal(score(fx, 1), 0); /* nothing was decided without the truth */
    fx->store = there;
    dt_store_free(nowhere);
}

/* ---- others at work meanwhile ---- */

#define LIVES 600

struct worker {
    struct fixture *fx;
    pthread_t thread;
    atomic_bool over;
};

/* As the API and a leader do it: commit, then tell the index; claim, then move the entry; finish, then remove it. */
static void *live(void *arg)
{
    struct worker *worker = arg;
    struct fixture *fx = worker->fx;
    struct dt_config config = mysql_fixture.config;
    struct dt_error err;
    dt_index *index;
    dt_db *db;
    if (dt_index_new(&config, fx->installation, dt_clock_system(), &index, &err) != DT_OK ||
        dt_db_open(&config, &db, &err) != DT_OK)
        abort();
    for (int64_t id = 1; id <= LIVES; id++) {
        int64_t now_ms = START + id, due_ms = now_ms + 1000, deadline_ms = now_ms + 5000;
        unsigned shard = dt_shard_of(&fx->map, id);
        if (dt_db_run(db,
                      "INSERT INTO " COLUMNS
                      " VALUES (?, 't', 'scheduled', ?, ?, 1, '15s', 60000, ?, ?, 1, REPEAT('d', 16), 'x')",
                      DT_PARAMS(DT_P_INT(id), DT_P_INT(due_ms), DT_P_INT(due_ms), DT_P_INT(now_ms), DT_P_INT(now_ms)),
                      NULL, &err) != DT_OK ||
            dt_index_put(index, &fx->map, &(struct dt_entry){id, due_ms, 0}, 1, FAR, true, &err) != DT_OK)
            abort();
        if (id % 3 == 0)
            continue; /* stays scheduled */
        if (dt_db_run(db, "UPDATE jobs SET state = 'dispatched', next_at = ?, updated_at = ? WHERE id = ?",
                      DT_PARAMS(DT_P_INT(deadline_ms), DT_P_INT(now_ms), DT_P_INT(id)), NULL, &err) != DT_OK ||
            dt_index_fix(index, shard, &(struct dt_fix){id, due_ms, deadline_ms}, 1, &err) != DT_OK)
            abort();
        if (id % 3 == 1)
            continue; /* stays dispatched */
        if (dt_db_run(db, "UPDATE jobs SET state = 'succeeded', next_at = NULL, updated_at = ? WHERE id = ?",
                      DT_PARAMS(DT_P_INT(now_ms), DT_P_INT(id)), NULL, &err) != DT_OK ||
            dt_index_put(index, &fx->map, &(struct dt_entry){id, 0, deadline_ms}, 1, FAR, false, &err) != DT_OK)
            abort();
    }
    dt_db_free(db);
    dt_index_free(index);
    dt_db_thread_end();
    worker->over = true;
    return NULL;
}

RIG_TEST(jobs_that_change_during_a_rebuild_lose_no_entry_and_are_not_counted_as_drift, shared)
{
    struct worker worker = {.fx = fx};
    worker.thread = start_thread(live, &worker);
    while (!worker.over) { /* a period each tick: always comparing */
        struct dt_reconcile_out out;
        struct dt_reconcile_in in = {fx->store, (int64_t)fx->ticks * 6000000, START + 300, &fx->map, &fx->leads, false,
                                     false};
        for (int i = 0; i < 4; i++)
            dt_reconcile_tick(fx->r, &in, &out);
        fx->ticks++;
    }
    pthread_join(worker.thread, NULL);
    for (int64_t id = 1; id <= LIVES; id++) {
        int64_t at = score(fx, id);
        if (id % 3 == 0)
            assert_int_equal(at, START + id + 1000);
        else if (id % 3 == 1)
            assert_int_equal(at, START + id + 5000);
        /* a finished one may be there as a stale hint until the next look; none may be missing above */
    }
    expect_drift(fx, 0, 0, 0);
}
