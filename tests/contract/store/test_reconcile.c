/*
 * The reconciler against a real MySQL and real Redis servers. Its time is the test's: a tick is told what time it is,
 * and the next one comes when it asked for it, at once.
 */
#include "reconcile/reconcile.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "store/store.h"
#include "support/mysql_fixture.h"
#include "support/redis_fixture.h"

#define START  INT64_C(1800000000000)
#define SHARDS 4
#define OLD    (START - 3600000) /* updated_at of rows that nobody touches now */
#define FAR    INT64_C(9000000000000)

struct fixture {
    struct mysql_fixture mysql;
    struct redis_server server; /* port 0 = the shared servers */
    char endpoints[256], installation[64];
    struct dt_shard_map map;
    struct dt_shard_set leads;
    dt_store *store;
    dt_index *index;
    dt_reconciler *r;
    struct dt_error err;
    int64_t now_ms; /* virtual; mono_us = (now_ms - START) * 1000 */
    int64_t next_us;
    int ticks;
    bool unsure, begun;
    struct dt_shard_set wake, whole, held, near; /* since forget_output */
};

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        fx->err.text[0] = '\0';                                                                                        \
        dt_status status_ = (call);                                                                                    \
        if (status_ != DT_OK)                                                                                          \
            fail_msg("%s: %s", #call, fx->err.text);                                                                   \
    } while (0)

static void open_reconciler(struct fixture *fx)
{
    dt_reconciler_free(fx->r);
    OK(dt_reconciler_new(&fx->mysql.config, fx->store, fx->index, &fx->r, &fx->err));
}

static int begin(void **state, bool private)
{
    struct fixture *fx = calloc(1, sizeof(*fx));

    *state = fx;
    if (private)
        redis_server_start(&fx->server, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s", private ? fx->server.endpoint : redis_fixture_endpoints());
    redis_fixture_name(fx->installation, sizeof(fx->installation), "rc");
    mysql_fixture_make(&fx->mysql, "reconcile");
    mysql_fixture_migrate(&fx->mysql);
    free(fx->mysql.config.redis_endpoints);
    fx->mysql.config.redis_endpoints = strdup(fx->endpoints);
    fx->mysql.config.redis_timeout = 500;
    fx->store = mysql_fixture_store(&fx->mysql);
    OK(dt_index_new(&fx->mysql.config, fx->installation, dt_clock_system(), &fx->index, &fx->err));
    dt_shard_map_init(&fx->map, 1, SHARDS);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        dt_shard_set_add(&fx->leads, shard);
    fx->now_ms = START;
    open_reconciler(fx);
    return 0;
}

static int shared(void **state)
{
    return begin(state, false);
}
static int private(void **state)
{
    return begin(state, true);
}

static int done(void **state)
{
    struct fixture *fx = *state;

    dt_reconciler_free(fx->r);
    dt_index_free(fx->index);
    dt_store_free(fx->store);
    mysql_fixture_drop(&fx->mysql);
    if (fx->server.port)
        redis_server_kill(&fx->server);
    else
        redis_fixture_forget(fx->endpoints, fx->installation);
    free(fx);
    return 0;
}

/* ---- time ---- */

static void tick(struct fixture *fx)
{
    struct dt_reconcile_in in = {(fx->now_ms - START) * 1000 + 1, fx->now_ms, &fx->map, &fx->leads, fx->unsure};
    struct dt_reconcile_out out;

    dt_reconcile_tick(fx->r, &in, &out);
    fx->next_us = out.next_us;
    fx->ticks++;
    fx->begun |= out.near_begun;
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++) {
        fx->near.bits[i] |= out.near.bits[i];
        fx->wake.bits[i] |= out.wake.bits[i];
        fx->whole.bits[i] |= out.whole.bits[i];
        fx->held.bits[i] |= out.held.bits[i];
    }
}

/* Lets ms pass: every tick that is wanted meanwhile happens. */
static void pass(struct fixture *fx, int64_t ms)
{
    int64_t end_ms = fx->now_ms + ms;

    fx->ticks = 0;
    for (;;) {
        int64_t want_ms = START + fx->next_us / 1000 + (fx->next_us % 1000 > 1);

        if (want_ms > end_ms)
            break;
        if (want_ms > fx->now_ms)
            fx->now_ms = want_ms;
        tick(fx);
        assert_true(fx->ticks < 200000);
    }
    fx->now_ms = end_ms;
}

static void a_period(struct fixture *fx)
{
    pass(fx, fx->mysql.config.reconcile_period + 1);
}

static void forget_output(struct fixture *fx)
{
    fx->wake = (struct dt_shard_set){0};
    fx->whole = (struct dt_shard_set){0};
    fx->held = (struct dt_shard_set){0};
    fx->near = (struct dt_shard_set){0};
    fx->begun = false;
}

/* Until the whole horizon was seen once: from now on, differences are drift. */
static void settle(struct fixture *fx)
{
    pass(fx, fx->mysql.config.reconcile_walk + 3 * fx->mysql.config.reconcile_period);
    forget_output(fx);
}

/* ---- rows and entries ---- */

#define COLUMNS                                                                                                        \
    "jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, digest, "    \
    "payload)"
#define DIGITS                                                                                                         \
    "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 "      \
    "UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"

static void row(struct fixture *fx, int64_t id, const char *topic, const char *state, int64_t next_ms)
{
    mysql_fixture_run(&fx->mysql,
                      "INSERT INTO " COLUMNS " VALUES (%lld, '%s', '%s', %lld, %lld, 1, '15s', 60000, %lld, %lld, 1, "
                      "REPEAT('d', 16), 'x')",
                      (long long)id, topic, state, (long long)next_ms, (long long)next_ms, (long long)OLD,
                      (long long)OLD);
}

static int64_t score(struct fixture *fx, int64_t id)
{
    return redis_fixture_score(fx->index, &fx->map, id);
}

static void entry(struct fixture *fx, int64_t id, int64_t due_ms)
{
    OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, due_ms, score(fx, id)}, 1, FAR, false, &fx->err));
}

static void job(struct fixture *fx, int64_t id, int64_t next_ms)
{
    row(fx, id, "t", "scheduled", next_ms);
    entry(fx, id, next_ms);
}

/* n rows with ids 1… (up to 1,000,000), due from `from_ms` on every step_ms; no entries. */
static void many_rows(struct fixture *fx, int n, int64_t from_ms, int step_ms)
{
    mysql_fixture_run(
        &fx->mysql,
        "INSERT INTO " COLUMNS " SELECT n + 1, 't', 'scheduled', %lld + n * %d, %lld + n * %d, 1, '15s', 60000, %lld, "
        "%lld, 1, REPEAT('d', 16), 'x' FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * "
        "g.d n FROM " DIGITS " a, " DIGITS " b, " DIGITS " c, " DIGITS " e, " DIGITS " f, " DIGITS " g) numbers WHERE "
        "n < %d",
        (long long)from_ms, step_ms, (long long)from_ms, step_ms, (long long)OLD, (long long)OLD, n);
}

/* Is there an entry of the job at its row's time, whatever there is beside it? */
static bool is_where_its_row_says(struct fixture *fx, int64_t id)
{
    struct dt_entry wanted = {
        id, mysql_fixture_number(&fx->mysql, "SELECT next_at FROM jobs WHERE id = %lld", (long long)id), 0};
    int64_t found = 0;

    OK(dt_index_scores(fx->index, dt_shard_of(&fx->map, id), &wanted, 1, &found, &fx->err));
    return found == wanted.due_ms;
}

static void change_row(struct fixture *fx, int64_t id, const char *set)
{
    mysql_fixture_run(&fx->mysql, "UPDATE jobs SET %s WHERE id = %lld", set, (long long)id);
}

static void move_row(struct fixture *fx, int64_t id, int64_t next_ms)
{
    mysql_fixture_run(&fx->mysql, "UPDATE jobs SET next_at = %lld WHERE id = %lld", (long long)next_ms, (long long)id);
}

static int64_t entries_below(struct fixture *fx, int64_t to_ms)
{
    int64_t sum = 0, n;

    for (unsigned shard = 0; shard < fx->map.shards; shard++) {
        OK(dt_index_count(fx->index, shard, 0, to_ms, &n, &fx->err));
        sum += n;
    }
    return sum;
}

static struct dt_reconcile_stats totals(struct fixture *fx)
{
    struct dt_reconcile_stats sum = {0}, one;

    for (unsigned shard = 0; shard < DT_SHARDS_MAX; shard++) {
        dt_reconciler_stats(fx->r, shard, &one);
        sum.drift_missing += one.drift_missing;
        sum.drift_extra += one.drift_extra;
        sum.drift_wrong += one.drift_wrong;
        sum.overdue += one.overdue;
        if (one.oldest_due_at_ms && (!sum.oldest_due_at_ms || one.oldest_due_at_ms < sum.oldest_due_at_ms))
            sum.oldest_due_at_ms = one.oldest_due_at_ms;
        sum.rebuilding |= one.rebuilding;
    }
    return sum;
}

static void expect_drift(struct fixture *fx, int missing, int extra, int wrong)
{
    struct dt_reconcile_stats sum = totals(fx);

    assert_int_equal(sum.drift_missing, missing);
    assert_int_equal(sum.drift_extra, extra);
    assert_int_equal(sum.drift_wrong, wrong);
}

/* ---- tests: nothing to do ---- */

static void a_system_at_rest_has_no_drift_and_few_ticks(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.reconcile_slice = 300;
    open_reconciler(fx);
    many_rows(fx, 3000, START + 60000, 1000); /* within the horizon */
    settle(fx);
    assert_int_equal(entries_below(fx, FAR), 3000);
    pass(fx, 60000);
    expect_drift(fx, 0, 0, 0);
    assert_true(fx->ticks < 60 * 20);
    assert_true(dt_shard_set_empty(&fx->wake));
}

static void nothing_is_done_for_shards_that_are_not_led(void **state)
{
    struct fixture *fx = *state;

    fx->leads = (struct dt_shard_set){0};
    dt_shard_set_add(&fx->leads, 2);
    many_rows(fx, 200, START + 1000, 10);
    entry(fx, 1001, START + 1000);
    settle(fx);
    for (int64_t id = 1; id <= 200; id++)
        assert_int_equal(score(fx, id) != 0, dt_shard_of(&fx->map, id) == 2);
    assert_int_equal(score(fx, 1001) != 0, dt_shard_of(&fx->map, 1001) != 2);
}

/* ---- near ---- */

static void a_missing_entry_is_added_within_a_period_and_counted(void **state)
{
    struct fixture *fx = *state;
    struct dt_reconcile_stats stats;

    for (int64_t id = 1; id <= 50; id++)
        job(fx, id, START + 600000);
    settle(fx);
    job(fx, 60, fx->now_ms + 4000);
    entry(fx, 60, 0); /* lost */
    a_period(fx);
    assert_int_equal(score(fx, 60), mysql_fixture_number(&fx->mysql, "SELECT next_at FROM jobs WHERE id = 60"));
    expect_drift(fx, 1, 0, 0);
    dt_reconciler_stats(fx->r, dt_shard_of(&fx->map, 60), &stats);
    assert_int_equal(stats.drift_missing, 1);
    a_period(fx);
    expect_drift(fx, 1, 0, 0); /* once */
}

static void an_entry_without_a_job_is_removed_and_counted(void **state)
{
    struct fixture *fx = *state;

    job(fx, 1, START + 600000);
    settle(fx);
    entry(fx, 2, fx->now_ms + 4000);
    row(fx, 3, "t", "succeeded", fx->now_ms + 4000);
    change_row(fx, 3, "next_at = NULL");
    entry(fx, 3, fx->now_ms + 4000);
    a_period(fx);
    assert_int_equal(score(fx, 2), 0);
    assert_int_equal(score(fx, 3), 0);
    assert_int_not_equal(score(fx, 1), 0);
    expect_drift(fx, 0, 2, 0);
}

static void an_entry_with_a_wrong_score_is_put_right_and_counted_once(void **state)
{
    struct fixture *fx = *state;
    int64_t due_ms = START + 600000;

    settle(fx);
    due_ms = fx->now_ms + 4000;
    job(fx, 1, due_ms); /* both within the window */
    entry(fx, 1, due_ms + 1);
    job(fx, 2, due_ms); /* the entry far behind it */
    entry(fx, 2, due_ms + 1000000);
    job(fx, 3, due_ms + 1000000); /* the row far behind it */
    entry(fx, 3, due_ms);
    a_period(fx);
    assert_int_equal(score(fx, 1), due_ms);
    assert_int_equal(score(fx, 2), due_ms);
    assert_int_equal(score(fx, 3), due_ms + 1000000);
    expect_drift(fx, 0, 0, 3);
}

static void a_row_moved_by_hand_takes_effect_within_a_period(void **state)
{
    struct fixture *fx = *state;

    job(fx, 7, START + 2400000);
    settle(fx);
    forget_output(fx);
    move_row(fx, 7, fx->now_ms + 6000);
    a_period(fx);
    assert_true(is_where_its_row_says(fx, 7));
    forget_output(fx);
    move_row(fx, 7, fx->now_ms - 1000); /* due: its leader is woken too */
    a_period(fx);
    assert_true(is_where_its_row_says(fx, 7));
    assert_true(dt_shard_set_has(&fx->wake, dt_shard_of(&fx->map, 7)));
    pass(fx, 70000); /* its old entry lies in a part of the horizon that is scanned more slowly */
    assert_int_equal(score(fx, 7), mysql_fixture_number(&fx->mysql, "SELECT next_at FROM jobs WHERE id = 7"));
    assert_in_range(totals(fx).drift_wrong, 1, 2);
}

static void a_far_row_moved_near_by_hand_takes_effect_within_a_period(void **state)
{
    struct fixture *fx = *state;

    settle(fx);
    row(fx, 1, "t", "scheduled", START + INT64_C(94608000000)); /* three years */
    change_row(fx, 1, "near = 0");
    move_row(fx, 1, fx->now_ms + 6000); /* `near` is not for people to know */
    a_period(fx);
    assert_int_equal(score(fx, 1), mysql_fixture_number(&fx->mysql, "SELECT next_at FROM jobs WHERE id = 1"));
}

static void only_leaders_of_shards_with_something_due_are_woken(void **state)
{
    struct fixture *fx = *state;

    settle(fx);
    row(fx, 1, "t", "scheduled", fx->now_ms + 9000);
    a_period(fx);
    assert_int_not_equal(score(fx, 1), 0);
    assert_true(dt_shard_set_empty(&fx->wake));
    row(fx, 2, "t", "scheduled", fx->now_ms);
    a_period(fx);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_int_equal(dt_shard_set_has(&fx->wake, shard), shard == dt_shard_of(&fx->map, 2));
}

static void what_was_changed_just_now_is_mended_but_is_no_drift(void **state)
{
    struct fixture *fx = *state;
    int64_t deadline_ms;

    settle(fx);
    job(fx, 1, fx->now_ms + 1000);
    deadline_ms = fx->now_ms + 60000; /* claimed; its leader has not told the index yet */
    mysql_fixture_run(&fx->mysql,
                      "UPDATE jobs SET state = 'dispatched', next_at = %lld, updated_at = %lld WHERE id = 1",
                      (long long)deadline_ms, (long long)fx->now_ms);
    job(fx, 2, fx->now_ms + 1000); /* created: the API has not told yet */
    mysql_fixture_run(&fx->mysql, "UPDATE jobs SET updated_at = %lld WHERE id = 2", (long long)fx->now_ms);
    entry(fx, 2, 0);
    pass(fx, 1);
    a_period(fx);
    assert_int_equal(score(fx, 1), deadline_ms);
    assert_int_not_equal(score(fx, 2), 0);
}

static void entries_of_another_shard_are_removed_from_a_set(void **state)
{
    struct fixture *fx = *state;
    unsigned wrong = (dt_shard_of(&fx->map, 1) + 1) % SHARDS;
    int64_t count;

    settle(fx);
    job(fx, 1, fx->now_ms + 4000);
    OK(dt_index_add_missing(fx->index, wrong, &(struct dt_entry){1, fx->now_ms + 4000, 0}, 1, &fx->err));
    a_period(fx);
    assert_int_not_equal(score(fx, 1), 0);
    OK(dt_index_count(fx->index, wrong, 0, FAR, &count, &fx->err));
    assert_int_equal(count, 0);
    expect_drift(fx, 0, 1, 0);
}

/* ---- hand edits to finished states, pauses ---- */

static void without_an_index_rows_are_counted_and_tidied(void **state)
{
    struct fixture *fx = *state;
    struct dt_reconcile_stats stats = {0};

    dt_index_free(fx->index);
    fx->index = NULL;
    open_reconciler(fx);
    row(fx, 1, "t", "succeeded", START - 5000); /* finished by hand: next_at stands there still */
    row(fx, 2, "t", "scheduled", START - 4000);
    tick(fx);
    a_period(fx);
    a_period(fx);
    assert_int_equal(mysql_fixture_number(&fx->mysql, "SELECT COUNT(*) FROM jobs WHERE due_band = 2"), 1);
    assert_int_equal(mysql_fixture_number(&fx->mysql, "SELECT COUNT(*) FROM jobs WHERE due_band = 1"), 1);
    dt_reconciler_stats(fx->r, dt_shard_of(&fx->map, 2), &stats);
    assert_int_equal(stats.overdue, 1);
    assert_false(stats.rebuilding);
    assert_true(dt_shard_set_empty(&fx->wake));
    assert_true(fx->ticks < 10); /* and it sleeps in between */
}

static void a_job_finished_by_hand_is_tidied(void **state)
{
    struct fixture *fx = *state;

    row(fx, 1, "t", "scheduled", START + 90000);
    row(fx, 2, "t", "scheduled", START + 90000);
    settle(fx);
    change_row(fx, 1, "state = 'cancelled'"); /* next_at stays set */
    entry(fx, 1, 0);                          /* its leader met the entry and removed it */
    pass(fx, 60000);
    assert_int_equal(mysql_fixture_number(&fx->mysql, "SELECT next_at IS NULL AND purge_at IS NOT NULL FROM jobs "
                                                      "WHERE id = 1"),
                     1);
    assert_int_equal(score(fx, 1), 0);
    assert_int_equal(mysql_fixture_number(&fx->mysql, "SELECT next_at FROM jobs WHERE id = 2"), START + 90000);
    expect_drift(fx, 0, 0, 0);
}

static void set_paused(struct fixture *fx, const char *topic, bool paused)
{
    mysql_fixture_run(&fx->mysql,
                      "INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('%s', %d, 0, 0) ON DUPLICATE "
                      "KEY UPDATE paused = VALUES(paused)",
                      topic, paused);
}

static void due_jobs_of_a_paused_topic_belong_into_its_held_set(void **state)
{
    struct fixture *fx = *state;
    unsigned shard = dt_shard_of(&fx->map, 1);
    struct dt_arena arena;
    struct dt_str *topics;
    size_t n;
    int64_t next_ms;

    set_paused(fx, "p", true);
    settle(fx);
    row(fx, 1, "p", "scheduled", fx->now_ms - 1000);
    row(fx, 2, "p", "dispatched", fx->now_ms - 1000); /* its acknowledgement is overdue: not held back by a pause */
    row(fx, 3, "p", "scheduled", fx->now_ms + 60000); /* not due yet */
    entry(fx, 3, fx->now_ms + 60000);
    for (int i = 0; i < 2; i++) {
        a_period(fx);
        assert_int_equal(score(fx, 1), 0);
        assert_int_not_equal(score(fx, 2), 0);
        dt_arena_init(&arena);
        OK(dt_index_held(fx->index, shard, &arena, &topics, &n, &fx->err));
        assert_int_equal(n, 1);
        dt_arena_clear(&arena);
    }
    assert_int_not_equal(score(fx, 3), 0);
    expect_drift(fx, 1, 0, 0); /* job 2 alone */
    assert_int_equal(redis_fixture_sum(fx->endpoints, "ZCARD %s:{%u}:held:p", fx->installation, shard), 1);

    set_paused(fx, "p", false); /* resumed: its leader gives it back */
    OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("p"), 10, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
    a_period(fx);
    assert_int_equal(score(fx, 1), mysql_fixture_number(&fx->mysql, "SELECT next_at FROM jobs WHERE id = 1"));
    expect_drift(fx, 1, 0, 0);
}

static void due_jobs_of_a_topic_that_cannot_be_written_stay_in_its_held_set(void **state)
{
    struct fixture *fx = *state;
    unsigned shard = dt_shard_of(&fx->map, 1);
    int64_t next_ms, other = 2;
    const struct dt_entry held = {1, START - 1000, 0};

    while (dt_shard_of(&fx->map, other) == shard)
        other++;
    settle(fx);
    row(fx, 1, "w", "scheduled", START - 1000); /* not paused: its leader has found out that it cannot be written */
    row(fx, other, "w", "scheduled", START - 1000);
    OK(dt_index_hold(fx->index, shard, DT_STR_LIT("w"), &held, 1, &fx->err));
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_equal(score(fx, 1), 0);
    assert_int_not_equal(score(fx, other), 0); /* another shard's leader has not */
    OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("w"), 10, &next_ms, &fx->err));
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_not_equal(score(fx, 1), 0);
    expect_drift(fx, 1, 0, 0);
}

static void what_a_leader_has_too_much_of_is_no_drift(void **state)
{
    struct fixture *fx = *state;
    unsigned shard = dt_shard_of(&fx->map, 1);
    int64_t next_ms, ids[2] = {2, 3};
    struct dt_entry parked[2];

    for (int i = 0; i < 2; i++) { /* of job 1's shard */
        ids[i] = i ? ids[0] + 1 : 2;
        while (dt_shard_of(&fx->map, ids[i]) != shard)
            ids[i]++;
    }
    settle(fx);
    row(fx, 1, "h", "scheduled", START - 1000);
    row(fx, ids[0], "h", "dispatched", START - 1000); /* its result did not come in time */
    row(fx, ids[1], "h", "scheduled", START - 500);   /* this one is missing */
    parked[0] = (struct dt_entry){.id = 1, .due_ms = START - 1000};
    parked[1] = (struct dt_entry){.id = ids[0], .due_ms = START - 1000};
    OK(dt_index_hold(fx->index, shard, DT_STR_LIT("h"), &parked[0], 1, &fx->err));
    OK(dt_index_hold(fx->index, shard, DT_STR_LIT("h" DT_HELD_TIMEOUTS), &parked[1], 1, &fx->err));
    for (int i = 0; i < 2; i++)
        a_period(fx);
    assert_int_equal(score(fx, 1), 0);
    assert_int_equal(score(fx, ids[0]), 0);
    assert_int_equal(score(fx, ids[1]), 0); /* its turn comes with the others of its topic */
    expect_drift(fx, 0, 0, 0);
    assert_true(dt_shard_set_has(&fx->held, shard)); /* its leader is told */
    OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("h"), 10, &next_ms, &fx->err));
    assert_int_equal(next_ms, 0);
    assert_int_not_equal(score(fx, 1), 0);
    assert_int_not_equal(score(fx, ids[1]), 0);
    OK(dt_index_unhold(fx->index, shard, DT_STR_LIT("h" DT_HELD_TIMEOUTS), 10, &next_ms, &fx->err));
    assert_int_not_equal(score(fx, ids[0]), 0);
}

/* ---- overdue ---- */

static void overdue_jobs_are_counted_and_the_oldest_is_known(void **state)
{
    struct fixture *fx = *state;
    struct dt_reconcile_stats stats;

    for (int64_t id = 1; id <= 40; id++)
        job(fx, id, START - 5000 - id);
    job(fx, 41, START + 500000);
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 40);
    assert_int_equal(totals(fx).oldest_due_at_ms, START - 5040);
    dt_reconciler_stats(fx->r, dt_shard_of(&fx->map, 40), &stats);
    assert_int_equal(stats.oldest_due_at_ms, START - 5040);
    mysql_fixture_run(&fx->mysql, "UPDATE jobs SET next_at = %lld", (long long)START + 1000000);
    a_period(fx);
    assert_int_equal(totals(fx).overdue, 0);
    assert_int_equal(totals(fx).oldest_due_at_ms, 0);
}

static void a_long_overdue_queue_is_compared_in_slices_to_its_end(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(fx, 1500, START - 100000, 10);
    dt_reconciler_lost(fx->r, 0);
    dt_reconciler_lost(fx->r, 1);
    dt_reconciler_lost(fx->r, 2);
    dt_reconciler_lost(fx->r, 3);
    settle(fx);
    assert_int_equal(entries_below(fx, FAR), 1500);
    assert_in_range(totals(fx).overdue, 1, 100); /* bounded */
    entry(fx, 1500, 0);
    entry(fx, 750, START - 500);
    entry(fx, 1501, START - 50000);
    pass(fx, 20000);
    assert_int_not_equal(score(fx, 1500), 0);
    assert_int_equal(score(fx, 750), START - 100000 + 7490);
    assert_int_equal(score(fx, 1501), 0);
    expect_drift(fx, 2, 1, 1); /* what is in a wrong place is missing in the right one, if they are far apart */
}

static void more_jobs_than_a_slice_in_one_millisecond_are_compared(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(fx, 1234, START + 300000, 0);
    row(fx, 2000, "t", "scheduled", START + 300000 - 1);
    row(fx, 2001, "t", "scheduled", START + 300000 + 1);
    settle(fx);
    assert_int_equal(entries_below(fx, FAR), 1236);
    fx->now_ms = START + 295000;
    entry(fx, 1, 0);
    entry(fx, 1234, 0);
    entry(fx, 600, START + 300002);
    entry(fx, 5000, START + 300000);
    entry(fx, 2001, 0);
    pass(fx, 5001); /* a period later; the full scan alone would have gone over them as well */
    assert_int_equal(entries_below(fx, FAR), 1236);
    assert_int_equal(score(fx, 600), START + 300000);
    expect_drift(fx, 4, 1, 1);
}

/* ---- horizon ---- */

static void what_enters_the_horizon_is_loaded_and_is_no_drift(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.index_horizon = 120000;
    fx->mysql.config.reconcile_walk = 10000;
    many_rows(fx, 600, START + 1000, 1000);
    settle(fx);
    for (int minute = 0; minute < 5; minute++) {
        int64_t n = entries_below(fx, FAR), until_ms = fx->now_ms + 120000;
        int64_t rows = (until_ms - START) / 1000;

        assert_in_range(n, rows - 8, rows); /* at most a period behind */
        pass(fx, 60000);
    }
    expect_drift(fx, 0, 0, 0);
}

static void a_missing_entry_far_behind_is_found_by_the_full_scan(void **state)
{
    struct fixture *fx = *state;

    many_rows(fx, 2000, START + 60000, 1000);
    settle(fx);
    entry(fx, 1900, 0);
    entry(fx, 9001, START + 1200000);
    pass(fx, 65000);
    assert_int_equal(score(fx, 1900), START + 60000 + 1899000);
    assert_int_equal(score(fx, 9001), 0);
    expect_drift(fx, 1, 1, 0);
}

/* As many as there should be: counts do not tell. */
static void expect_swapped_to_be_found(struct fixture *fx, int64_t apart_ms, int64_t within_ms)
{
    const int64_t due_ms = START + 60000 + 1899 * apart_ms;
    unsigned shard = dt_shard_of(&fx->map, 1900);
    int64_t stranger = 90001;

    while (dt_shard_of(&fx->map, stranger) != shard)
        stranger++;
    settle(fx);
    entry(fx, 1900, 0);
    entry(fx, stranger, due_ms + 50);
    pass(fx, within_ms);
    assert_int_equal(score(fx, 1900), due_ms);
    assert_int_equal(score(fx, stranger), 0);
    expect_drift(fx, 1, 1, 0);
}

static void a_missing_entry_beside_one_too_many_is_found_in_a_round_where_rows_are_few(void **state)
{
    struct fixture *fx = *state;

    many_rows(fx, 2000, START + 60000, 1000);
    expect_swapped_to_be_found(fx, 1000, 65000);
}

static void a_missing_entry_beside_one_too_many_is_found_by_and_by_where_rows_are_many(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.reconcile_walk = 1000;
    many_rows(fx, 18000, START + 60000, 120);
    expect_swapped_to_be_found(fx, 120, 40000);
}

/* One entry missing and one too many in each of the steps that a round has: none of them is always the one left out. */
static void every_part_of_many_rows_is_compared_in_its_turn(void **state)
{
    struct fixture *fx = *state;
    enum { ROWS = 18000, APART = 1000, APART_MS = 120 };
    int64_t strangers[ROWS / APART], next = 90001;

    fx->mysql.config.reconcile_walk = 1000;
    many_rows(fx, ROWS, START + 60000, APART_MS);
    settle(fx);
    for (int i = 0; i < ROWS / APART; i++) {
        const int64_t id = 1 + i * APART;
        while (dt_shard_of(&fx->map, next) != dt_shard_of(&fx->map, id))
            next++;
        strangers[i] = next++;
        entry(fx, id, 0);
        entry(fx, strangers[i], START + 60000 + (id - 1) * APART_MS + 50);
    }
    pass(fx, 40000);
    for (int i = 0; i < ROWS / APART; i++) {
        assert_true(is_where_its_row_says(fx, 1 + i * APART));
        assert_int_equal(score(fx, strangers[i]), 0);
    }
}

static void looks_that_take_longer_than_a_period_leave_nothing_out(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.reconcile_period = 1000;
    many_rows(fx, 40, START + 600000, 60000);
    for (int i = 0; i < 450; i++) {
        tick(fx);
        fx->now_ms += 1100; /* so slow is everything */
    }
    assert_true(fx->now_ms < START + 600000);
    for (int i = 0; i < 40; i++)
        assert_int_equal(score(fx, i + 1), START + 600000 + i * 60000);
}

static void a_row_moved_beyond_the_horizon_leaves_the_index(void **state)
{
    struct fixture *fx = *state;

    job(fx, 1, START + 200000);
    settle(fx);
    move_row(fx, 1, START + 80000000);
    pass(fx, 130000);
    assert_int_equal(score(fx, 1), 0);
    expect_drift(fx, 0, 0, 1);
}

/* ---- rebuild ---- */

/* A rebuild waits a moment for others. */
static void tick_soon(struct fixture *fx)
{
    fx->now_ms += 2;
    tick(fx);
}

static void lose(struct fixture *fx)
{
    redis_fixture_forget(fx->endpoints, fx->installation);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        dt_reconciler_lost(fx->r, shard);
}

static void a_lost_index_is_rebuilt_nearest_first_and_is_no_drift(void **state)
{
    struct fixture *fx = *state;
    int64_t built = 0;

    fx->mysql.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(fx, 3000, START - 20000, 1000);
    settle(fx);
    lose(fx);
    fx->next_us = 0;
    for (int i = 0; i < 200 && dt_shard_set_empty(&fx->whole); i++) {
        tick_soon(fx);
        int64_t n = entries_below(fx, FAR);
        assert_true(n - built <= 400); /* bounded steps */
        /* what is there is exactly the nearest n */
        assert_int_equal(entries_below(fx, START - 20000 + n * 1000), n);
        built = n;
    }
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        assert_true(dt_shard_set_has(&fx->whole, shard));
        assert_true(dt_shard_set_has(&fx->wake, shard)); /* some were due */
    }
    assert_int_equal(built, 3000);
    expect_drift(fx, 0, 0, 0);
    assert_false(totals(fx).rebuilding);
    pass(fx, 70000);
    expect_drift(fx, 0, 0, 0);
}

static void a_rebuild_leaves_alone_what_is_there_and_the_other_shards(void **state)
{
    struct fixture *fx = *state;
    unsigned lost = dt_shard_of(&fx->map, 1);

    many_rows(fx, 100, START + 600000, 1000);
    settle(fx);
    redis_fixture_forget(fx->endpoints, fx->installation);
    dt_reconciler_lost(fx->r, lost);
    entry(fx, 1, START + 5); /* moved since, not committed in our view: the compares decide about it */
    forget_output(fx);
    for (int i = 0; i < 50 && dt_shard_set_empty(&fx->whole); i++)
        tick_soon(fx);
    for (int64_t id = 2; id <= 100; id++)
        assert_int_equal(score(fx, id) != 0, dt_shard_of(&fx->map, id) == lost);
    assert_int_equal(score(fx, 1), -1); /* as moved, and as its row says */
    for (int i = 0; i < 3; i++)
        a_period(fx);
    assert_int_equal(score(fx, 1), START + 600000);
}

static void a_request_that_came_before_the_lead_waits_for_it(void **state)
{
    struct fixture *fx = *state;
    struct dt_shard_set leads = fx->leads;

    fx->leads = (struct dt_shard_set){0};
    dt_reconciler_lost(fx->r, 3);
    a_period(fx);
    assert_true(dt_shard_set_empty(&fx->whole));
    fx->leads = leads;
    a_period(fx);
    pass(fx, 100);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_int_equal(dt_shard_set_has(&fx->whole, shard), shard == 3);
}

static void slots_that_moved_are_filled_in_where_they_belong_and_removed_where_they_were(void **state)
{
    struct fixture *fx = *state;

    many_rows(fx, 300, START + 300000, 1000);
    settle(fx);
    mysql_fixture_run(&fx->mysql, "UPDATE installation SET shards = 7, generation = 2");
    dt_shard_map_init(&fx->map, 2, 7);
    for (unsigned shard = SHARDS; shard < 7; shard++) {
        dt_shard_set_add(&fx->leads, shard);
        dt_reconciler_lost(fx->r, shard); /* its leader found no marker */
    }
    a_period(fx);
    pass(fx, 100);
    for (int64_t id = 1; id <= 300; id++)
        assert_int_equal(score(fx, id), START + 300000 + (id - 1) * 1000);
    pass(fx, 65000); /* the full scan removes them from where they were */
    assert_int_equal(entries_below(fx, FAR), 300);
}

/* ---- a rebuild that two processes share ---- */

struct process {
    struct fixture *fx;
    dt_index *index;
    dt_reconciler *r;
    struct dt_shard_set leads, whole;
};

static struct process process_of(struct fixture *fx, unsigned first, unsigned last)
{
    struct process p = {.fx = fx};

    OK(dt_index_new(&fx->mysql.config, fx->installation, dt_clock_system(), &p.index, &fx->err));
    OK(dt_reconciler_new(&fx->mysql.config, fx->store, p.index, &p.r, &fx->err));
    for (unsigned shard = first; shard <= last; shard++)
        dt_shard_set_add(&p.leads, shard);
    return p;
}

static void process_end(struct process *p)
{
    dt_reconciler_free(p->r);
    dt_index_free(p->index);
}

static void process_tick(struct process *p)
{
    struct dt_reconcile_in in = {(p->fx->now_ms - START) * 1000 + 1, p->fx->now_ms, &p->fx->map, &p->leads, false};
    struct dt_reconcile_out out;

    dt_reconcile_tick(p->r, &in, &out);
    for (unsigned i = 0; i < DT_SHARDS_MAX / 64; i++)
        p->whole.bits[i] |= out.whole.bits[i];
    p->fx->now_ms += 2;
}

/* Its leaders notice that their sets are lost: each says that its set is being filled, and asks for that. */
static void process_loses(struct process *p, int64_t count, int64_t generation)
{
    struct fixture *fx = p->fx;
    bool intact, gone;

    for (unsigned shard = 0; shard < SHARDS; shard++) {
        const struct dt_marker marker = {1, shard, count, 1, 0, true, generation};

        if (!dt_shard_set_has(&p->leads, shard))
            continue;
        OK(dt_index_mark(p->index, shard, marker, NULL, &intact, &gone, &fx->err));
        dt_reconciler_lost(p->r, shard);
    }
}

static bool process_is_whole(const struct process *p)
{
    return memcmp(&p->whole, &p->leads, sizeof(p->whole)) == 0;
}

static int64_t entries_of(struct fixture *fx, unsigned shard)
{
    int64_t n;

    OK(dt_index_count(fx->index, shard, 0, FAR, &n, &fx->err));
    return n;
}

/* Ticks of the one until its shards are whole. */
static int until_whole(struct process *p, int most)
{
    int ticks = 0;

    while (!process_is_whole(p) && ticks++ < most)
        process_tick(p);
    assert_true(process_is_whole(p));
    return ticks;
}

static void two_processes(struct fixture *fx, struct process *a, struct process *b)
{
    fx->mysql.config.reconcile_slice = 100;
    many_rows(fx, 2000, START + 60000, 1000);
    *a = process_of(fx, 0, 1);
    *b = process_of(fx, 2, 3);
    for (int i = 0; i < 40; i++) {
        process_tick(a); /* their first periods' looks, at nothing */
        process_tick(b);
    }
    redis_fixture_forget(fx->endpoints, fx->installation);
    process_loses(a, 1, 1);
    process_loses(b, 1, 1);
}

static void one_process_fills_the_lost_sets_of_all(void **state)
{
    struct fixture *fx = *state;
    struct process a, b;

    two_processes(fx, &a, &b);
    until_whole(&a, 300);
    assert_int_equal(entries_below(fx, FAR), 2000);
    assert_true(dt_shard_set_empty(&b.whole));
    assert_true(until_whole(&b, 100) <
                60); /* it waits a moment for others, and reads what is behind the horizon of a */
    assert_int_equal(entries_below(fx, FAR), 2000);
    process_end(&a);
    process_end(&b);
}

static void who_waits_adds_nothing_meanwhile(void **state)
{
    struct fixture *fx = *state;
    struct process a, b;
    int64_t n;

    two_processes(fx, &a, &b);
    while (entries_below(fx, FAR) == 0)
        process_tick(&a);
    n = entries_below(fx, FAR);
    for (int i = 0; i < 100; i++)
        process_tick(&b);
    assert_int_equal(entries_below(fx, FAR), n);
    assert_true(dt_shard_set_empty(&b.whole));
    until_whole(&a, 300);
    until_whole(&b, 100);
    assert_int_equal(entries_below(fx, FAR), 2000);
    process_end(&a);
    process_end(&b);
}

/* More than TELL_US after the pass began, so that something is noted; then it is not heard of any more. */
static void who_falls_silent_is_succeeded(void **state)
{
    struct fixture *fx = *state;
    struct process a, b;
    int64_t done;

    two_processes(fx, &a, &b);
    while (entries_below(fx, FAR) < 500)
        process_tick(&a);
    fx->now_ms += 300;
    process_tick(&a);
    done = entries_below(fx, FAR);
    assert_in_range(done, 500, 1500);
    usleep((DT_FILLING_MS + 100) * 1000);
    until_whole(&b, 300);
    for (unsigned shard = 2; shard < SHARDS; shard++)
        assert_true(entries_of(fx, shard) > 400);
    until_whole(&a, 300); /* it was only slow */
    assert_int_equal(entries_below(fx, FAR), 2000);
    process_end(&a);
    process_end(&b);
}

static void what_was_filled_before_another_loss_does_not_count(void **state)
{
    struct fixture *fx = *state;
    struct process a, b;

    two_processes(fx, &a, &b);
    until_whole(&a, 300);
    redis_fixture_forget(fx->endpoints, fx->installation);
    process_loses(&b, 2, 1);
    until_whole(&b, 300);
    assert_int_equal(entries_of(fx, 0) + entries_of(fx, 1), 0); /* nobody has asked for these */
    assert_in_range(entries_of(fx, 2) + entries_of(fx, 3), 900, 1100);
    process_end(&a);
    process_end(&b);
}

static void who_has_another_map_fills_his_own_only(void **state)
{
    struct fixture *fx = *state;
    struct process a, b;

    two_processes(fx, &a, &b);
    process_loses(&b, 2, 2);
    until_whole(&a, 300);
    assert_int_equal(entries_of(fx, 2) + entries_of(fx, 3), 0);
    until_whole(&b, 300);
    assert_int_equal(entries_below(fx, FAR), 2000);
    process_end(&a);
    process_end(&b);
}

/* With a second server: `a` leads the shards that have their home on it, `others` those of the first. */
static bool divided(struct fixture *fx, struct redis_server *second, struct process *a, struct process *others)
{
    char both[300];

    redis_server_start(second, "");
    snprintf(both, sizeof(both), "%s,%s", fx->endpoints, second->endpoint);
    free(fx->mysql.config.redis_endpoints);
    fx->mysql.config.redis_endpoints = strdup(both);
    *a = process_of(fx, 0, SHARDS - 1);
    *others = process_of(fx, 0, SHARDS - 1);
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        bool ours = strcmp(dt_index_home(a->index, shard), second->endpoint) == 0;
        dt_shard_set_remove(ours ? &others->leads : &a->leads, shard);
    }
    return !dt_shard_set_empty(&a->leads) && !dt_shard_set_empty(&others->leads);
}

/* Where a shard has its home is a matter of the ports: one time in eight all are on one of the two. */
static void divide(struct fixture *fx, struct redis_server *second, struct process *a, struct process *others)
{
    for (int tries = 0; !divided(fx, second, a, others); tries++) {
        assert_true(tries < 30);
        process_end(a);
        process_end(others);
        redis_server_kill(second);
    }
}

/* Of two servers the one of our own sets fails in the middle, and what is left of the pass is others'. */
static void a_pass_that_is_left_with_others_sets_only_starts_over_with_its_own(void **state)
{
    struct fixture *fx = *state;
    struct redis_server second = {0};
    struct process a, others;

    fx->mysql.config.reconcile_slice = 25;
    many_rows(fx, 2000, START + 60000, 1000);
    divide(fx, &second, &a, &others);
    for (int i = 0; i < 40; i++)
        process_tick(&a);
    process_loses(&a, 1, 1);
    process_loses(&others, 1, 1);
    for (int i = 0; i < 20; i++)
        process_tick(&a);
    redis_server_kill(&second);
    for (int i = 0; i < 20; i++)
        process_tick(&a);
    assert_true(dt_shard_set_empty(&a.whole));
    redis_server_again(&second);
    usleep(1000000); /* longer than the back-off */
    for (int i = 0; i < 500 && !process_is_whole(&a); i++) {
        process_tick(&a);
        fx->now_ms += 5;
    }
    assert_true(process_is_whole(&a));
    process_end(&a);
    process_end(&others);
    redis_server_kill(&second);
}

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

static void nothing_but_the_full_scan_sees_what_is_far_behind(void **state)
{
    struct fixture *fx = *state;

    many_rows(fx, 2000, START + 60000, 1000);
    settle(fx);
    pass(fx, 30000); /* the round is beyond it */
    untold(fx);
    fx->next_us = 0;
    pass(fx, 4000);
    assert_int_not_equal(score(fx, 9001), 0);
}

static void a_full_scan_follows_a_rebuild_at_once(void **state)
{
    struct fixture *fx = *state;

    many_rows(fx, 2000, START + 60000, 1000);
    settle(fx);
    lose(fx);
    fx->next_us = 0;
    for (int i = 0; i < 200 && dt_shard_set_empty(&fx->whole); i++)
        tick_soon(fx);
    untold(fx); /* a result that came between a page of the rebuild and its writing */
    expect_seen_soon(fx);
}

static void a_full_scan_follows_the_gain_of_a_shard_at_once(void **state)
{
    struct fixture *fx = *state;
    unsigned shard = dt_shard_of(&fx->map, 9001);

    many_rows(fx, 2000, START + 60000, 1000);
    settle(fx);
    dt_shard_set_remove(&fx->leads, shard);
    pass(fx, 30000);
    untold(fx);
    dt_shard_set_add(&fx->leads, shard);
    expect_seen_soon(fx);
}

static void a_full_scan_follows_at_once_when_redis_was_out_of_reach(void **state)
{
    struct fixture *fx = *state;

    many_rows(fx, 2000, START + 60000, 1000);
    settle(fx);
    pass(fx, 30000);
    untold(fx);
    dt_reconciler_doubt(fx->r);
    expect_seen_soon(fx);
}

static void a_full_scan_is_not_begun_anew_by_every_doubt(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(fx, 3000, START + 60000, 1000);
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

static void a_rebuild_survives_a_redis_that_goes_away_in_the_middle(void **state)
{
    struct fixture *fx = *state;

    fx->mysql.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(fx, 1000, START + 60000, 1000);
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
    assert_true(wait_until(pings, fx, 5000));
    pass(fx, 2000);
    assert_int_equal(entries_below(fx, FAR), 1000);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_true(dt_shard_set_has(&fx->whole, shard));
    expect_drift(fx, 0, 0, 0);
}

/* ---- when a part is down ---- */

/* Right after a period: nothing would be looked at for another. */
static void what_somebody_lost_is_mended_at_once_when_that_is_told(void **state)
{
    struct fixture *fx = *state;

    settle(fx);
    a_period(fx);
    pass(fx, 100);
    row(fx, 1, "t", "scheduled", fx->now_ms + 3000);
    forget_output(fx);
    pass(fx, 100);
    assert_false(fx->begun);
    assert_int_equal(score(fx, 1), 0);
    dt_reconciler_doubt(fx->r);
    fx->next_us = 0;
    pass(fx, 20);
    assert_true(fx->begun);
    assert_int_equal(score(fx, 1), mysql_fixture_number(&fx->mysql, "SELECT next_at FROM jobs WHERE id = 1"));
    for (unsigned shard = 0; shard < SHARDS; shard++)
        assert_true(dt_shard_set_has(&fx->near, shard));
}

static void what_is_near_is_compared_soon_while_a_leader_waits_for_it(void **state)
{
    struct fixture *fx = *state;

    settle(fx);
    a_period(fx);
    forget_output(fx);
    fx->unsure = true;
    fx->next_us = 0;
    pass(fx, 600); /* much less than a period */
    assert_true(fx->begun && dt_shard_set_has(&fx->near, 0));
    fx->unsure = false;
    pass(fx, 300);
    forget_output(fx);
    pass(fx, 600);
    assert_false(fx->begun);
}

static void a_shard_whose_redis_did_not_do_what_was_asked_is_not_called_compared(void **state)
{
    struct fixture *fx = *state;

    settle(fx);
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 1");
    row(fx, 1, "t", "scheduled", fx->now_ms + 3000);
    dt_reconciler_doubt(fx->r);
    fx->next_us = 0;
    forget_output(fx);
    pass(fx, 20);
    assert_true(fx->begun);
    for (unsigned shard = 0; shard < SHARDS; shard++) /* it reads as before, and has nothing to write for the others */
        assert_int_equal(dt_shard_set_has(&fx->near, shard), shard != dt_shard_of(&fx->map, 1));
    redis_fixture_text(fx->endpoints, 0, "CONFIG SET maxmemory 0");
    fx->unsure = true;
    pass(fx, 600);
    assert_true(dt_shard_set_has(&fx->near, dt_shard_of(&fx->map, 1)));
    assert_true(score(fx, 1) > 0);
}

static void without_redis_a_tick_returns_and_is_wanted_again(void **state)
{
    struct fixture *fx = *state;

    many_rows(fx, 100, START + 60000, 1000);
    settle(fx);
    redis_server_kill(&fx->server);
    pass(fx, 20000);
    assert_in_range(fx->ticks, 4, 400);
    assert_true(fx->next_us <= (fx->now_ms - START + 5001) * 1000);
    expect_drift(fx, 0, 0, 0);
    redis_server_again(&fx->server); /* empty; nobody said that it was lost */
    assert_true(wait_until(pings, fx, 5000));
    pass(fx, 70000);
    assert_int_equal(entries_below(fx, FAR), 100);
}

static void without_mysql_a_tick_returns_and_is_wanted_in_a_second(void **state)
{
    struct fixture *fx = *state;
    struct dt_config config = fx->mysql.config;
    dt_store *nowhere;

    config.mysql_socket = (char[]){"/nonexistent/mysql.sock"};
    OK(dt_store_new(&config, NULL, &nowhere));
    dt_reconciler_free(fx->r);
    OK(dt_reconciler_new(&config, nowhere, fx->index, &fx->r, &fx->err));
    entry(fx, 1, START + 1000);
    for (int i = 0; i < 5; i++) { /* the first steps may need Redis only */
        tick(fx);
        fx->now_ms = START + (fx->next_us + 999) / 1000;
    }
    tick(fx);
    assert_in_range(fx->next_us - (fx->now_ms - START) * 1000, 500000, 1000001);
    assert_int_not_equal(score(fx, 1), 0); /* nothing was decided without the truth */
    dt_reconciler_free(fx->r);
    fx->r = NULL;
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
    struct dt_config config = fx->mysql.config;
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
                      "INSERT INTO " COLUMNS " VALUES (?, 't', 'scheduled', ?, ?, 1, '15s', 60000, ?, ?, 1, "
                      "REPEAT('d', 16), 'x')",
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

static void jobs_that_live_meanwhile_lose_no_entry_and_are_no_drift(void **state)
{
    struct fixture *fx = *state;
    struct worker worker = {.fx = fx};

    assert_int_equal(pthread_create(&worker.thread, NULL, live, &worker), 0);
    while (!worker.over) { /* a period each tick: always comparing */
        struct dt_reconcile_out out;
        struct dt_reconcile_in in = {(int64_t)fx->ticks * 6000000, START + 300, &fx->map, &fx->leads, false};

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

int main(void)
{
#define T(f, setup) cmocka_unit_test_setup_teardown(f, setup, done)
    const struct CMUnitTest tests[] = {
        T(a_system_at_rest_has_no_drift_and_few_ticks, shared),
        T(nothing_is_done_for_shards_that_are_not_led, shared),
        T(a_missing_entry_is_added_within_a_period_and_counted, shared),
        T(an_entry_without_a_job_is_removed_and_counted, shared),
        T(an_entry_with_a_wrong_score_is_put_right_and_counted_once, shared),
        T(a_row_moved_by_hand_takes_effect_within_a_period, shared),
        T(a_far_row_moved_near_by_hand_takes_effect_within_a_period, shared),
        T(only_leaders_of_shards_with_something_due_are_woken, shared),
        T(what_was_changed_just_now_is_mended_but_is_no_drift, shared),
        T(entries_of_another_shard_are_removed_from_a_set, shared),
        T(a_job_finished_by_hand_is_tidied, shared),
        T(without_an_index_rows_are_counted_and_tidied, shared),
        T(due_jobs_of_a_paused_topic_belong_into_its_held_set, shared),
        T(due_jobs_of_a_topic_that_cannot_be_written_stay_in_its_held_set, shared),
        T(what_a_leader_has_too_much_of_is_no_drift, shared),
        T(overdue_jobs_are_counted_and_the_oldest_is_known, shared),
        T(a_long_overdue_queue_is_compared_in_slices_to_its_end, shared),
        T(more_jobs_than_a_slice_in_one_millisecond_are_compared, shared),
        T(what_enters_the_horizon_is_loaded_and_is_no_drift, shared),
        T(a_missing_entry_far_behind_is_found_by_the_full_scan, shared),
        T(a_missing_entry_beside_one_too_many_is_found_in_a_round_where_rows_are_few, shared),
        T(a_missing_entry_beside_one_too_many_is_found_by_and_by_where_rows_are_many, shared),
        T(every_part_of_many_rows_is_compared_in_its_turn, shared),
        T(looks_that_take_longer_than_a_period_leave_nothing_out, shared),
        T(a_row_moved_beyond_the_horizon_leaves_the_index, shared),
        T(a_lost_index_is_rebuilt_nearest_first_and_is_no_drift, shared),
        T(nothing_but_the_full_scan_sees_what_is_far_behind, shared),
        T(a_full_scan_follows_a_rebuild_at_once, shared),
        T(a_full_scan_follows_the_gain_of_a_shard_at_once, shared),
        T(a_full_scan_follows_at_once_when_redis_was_out_of_reach, shared),
        T(a_full_scan_is_not_begun_anew_by_every_doubt, shared),
        T(a_rebuild_leaves_alone_what_is_there_and_the_other_shards, shared),
        T(a_request_that_came_before_the_lead_waits_for_it, shared),
        T(slots_that_moved_are_filled_in_where_they_belong_and_removed_where_they_were, shared),
        T(jobs_that_live_meanwhile_lose_no_entry_and_are_no_drift, shared),
        T(a_rebuild_survives_a_redis_that_goes_away_in_the_middle, private),
        T(one_process_fills_the_lost_sets_of_all, shared),
        T(who_waits_adds_nothing_meanwhile, shared),
        T(who_falls_silent_is_succeeded, shared),
        T(what_was_filled_before_another_loss_does_not_count, shared),
        T(who_has_another_map_fills_his_own_only, shared),
        T(a_pass_that_is_left_with_others_sets_only_starts_over_with_its_own, private),
        T(what_somebody_lost_is_mended_at_once_when_that_is_told, shared),
        T(what_is_near_is_compared_soon_while_a_leader_waits_for_it, shared),
        T(a_shard_whose_redis_did_not_do_what_was_asked_is_not_called_compared, private),
        T(without_redis_a_tick_returns_and_is_wanted_again, private),
        T(without_mysql_a_tick_returns_and_is_wanted_in_a_second, private),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
