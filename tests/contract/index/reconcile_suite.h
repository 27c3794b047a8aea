/* The set-up of the reconciler's suites: a real MySQL and real Redis servers. Its time is the test's: a tick is told what time it
 * is, and the next one comes when it asked for it, at once. Everything is static: a suite includes this once. */
#pragma once

#include <unistd.h>

#include "base/metrics.h"
#include "index/reconcile/reconcile.h"
#include "support/mysql_fixture.h"
#include "support/redis_fixture.h"
#include "support/wait.h"

#define START  INT64_C(1800000000000)
#define SHARDS 4
#define OLD    (START - 3600000) /* updated_at of rows that nobody touches now */
#define FAR    INT64_C(9000000000000)

struct fixture {
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
    bool awaits_compare, none_due, begun;
    struct dt_shard_set wake, whole, held, near; /* since forget_output */
};

#define FX_OK(call) MYSQL_FIXTURE_OK(call, &fx->err)

static inline void open_reconciler(struct fixture *fx)
{
    dt_reconciler_free(fx->r);
    FX_OK(dt_reconciler_new(&mysql_fixture.config, fx->index, &fx->r, &fx->err));
}

static inline void begin(struct fixture *fx, bool private)
{
    if (private)
        redis_server_start(&fx->server, "");
    snprintf(fx->endpoints, sizeof(fx->endpoints), "%s", private ? fx->server.endpoint : redis_fixture_endpoints());
    redis_fixture_name(fx->installation, sizeof(fx->installation), "rc");
    mysql_fixture_make("reconcile");
    mysql_fixture_migrate();
    free(mysql_fixture.config.redis_endpoints);
    mysql_fixture.config.redis_endpoints = strdup(fx->endpoints);
    mysql_fixture.config.redis_timeout = WAIT_MS;
    fx->store = mysql_fixture_store();
    FX_OK(dt_index_new(&mysql_fixture.config, fx->installation, dt_clock_system(), &fx->index, &fx->err));
    dt_shard_map_init(&fx->map, 1, SHARDS);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        dt_shard_set_add(&fx->leads, shard);
    fx->now_ms = START;
    open_reconciler(fx);
}

static inline void shared(struct fixture *fx)
{
    begin(fx, false);
}

static inline void private(struct fixture *fx)
{
    begin(fx, true);
}

static inline void done(struct fixture *fx)
{
    dt_reconciler_free(fx->r);
    dt_index_free(fx->index);
    dt_store_free(fx->store);
    mysql_fixture_drop();
    if (fx->server.port)
        redis_server_kill(&fx->server);
    else
        redis_fixture_forget(fx->endpoints, fx->installation);
}

static inline void tick(struct fixture *fx)
{
    struct dt_reconcile_in in = {
        fx->store, (fx->now_ms - START) * 1000 + 1, fx->now_ms, &fx->map, &fx->leads, fx->awaits_compare, fx->none_due};
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
static inline void pass(struct fixture *fx, int64_t ms)
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

static inline void a_period(struct fixture *fx)
{
    pass(fx, mysql_fixture.config.reconcile_period + 1);
}

static inline void forget_output(struct fixture *fx)
{
    fx->wake = (struct dt_shard_set){0};
    fx->whole = (struct dt_shard_set){0};
    fx->held = (struct dt_shard_set){0};
    fx->near = (struct dt_shard_set){0};
    fx->begun = false;
}

/* Until the whole horizon was seen once: from now on, differences are drift. */
static inline void settle(struct fixture *fx)
{
    pass(fx, mysql_fixture.config.reconcile_walk + 3 * mysql_fixture.config.reconcile_period);
    forget_output(fx);
}

#define COLUMNS                                                                                                        \
    "jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, digest, "    \
    "payload)"

#define DIGITS                                                                                                         \
    "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 "      \
    "UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"

static inline void row(int64_t id, const char *topic, const char *state, int64_t next_ms)
{
    run_sql("INSERT INTO " COLUMNS
            " VALUES (%lld, '%s', '%s', %lld, %lld, 1, '15s', 60000, %lld, %lld, 1, REPEAT('d', 16), 'x')",
            (long long)id, topic, state, (long long)next_ms, (long long)next_ms, (long long)OLD, (long long)OLD);
}

static inline int64_t score(struct fixture *fx, int64_t id)
{
    return redis_fixture_score(fx->index, &fx->map, id);
}

static inline void entry(struct fixture *fx, int64_t id, int64_t due_ms)
{
    FX_OK(dt_index_put(fx->index, &fx->map, &(struct dt_entry){id, due_ms, score(fx, id)}, 1, FAR, false, &fx->err));
}

static inline void job(struct fixture *fx, int64_t id, int64_t next_ms)
{
    row(id, "t", "scheduled", next_ms);
    entry(fx, id, next_ms);
}

/* n rows with ids 1… (up to 1,000,000), due from `from_ms` on every step_ms; no entries. */
static inline void many_rows(int n, int64_t from_ms, int step_ms)
{
    run_sql(
        "INSERT INTO " COLUMNS
        " SELECT n + 1, 't', 'scheduled', %lld + n * %d, %lld + n * %d, 1, '15s', 60000, %lld, %lld, 1, REPEAT('d', "
        "16), 'x' FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d n FROM " DIGITS
        " a, " DIGITS " b, " DIGITS " c, " DIGITS " e, " DIGITS " f, " DIGITS " g) numbers WHERE n < %d",
        (long long)from_ms, step_ms, (long long)from_ms, step_ms, (long long)OLD, (long long)OLD, n);
}

static inline int64_t entries_below(struct fixture *fx, int64_t to_ms)
{
    int64_t sum = 0, n;
    for (unsigned shard = 0; shard < fx->map.shards; shard++) {
        FX_OK(dt_index_count(fx->index, shard, 0, to_ms, &n, &fx->err));
        sum += n;
    }
    return sum;
}

static inline struct dt_reconcile_stats totals(struct fixture *fx)
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

static inline void expect_drift(struct fixture *fx, int missing, int extra, int wrong)
{
    struct dt_reconcile_stats sum = totals(fx);
    assert_members(sum, (drift_missing, missing), (drift_extra, extra), (drift_wrong, wrong));
}

/* A rebuild waits a moment for others. */
static inline void tick_soon(struct fixture *fx)
{
    fx->now_ms += 2;
    tick(fx);
}

static inline void lose(struct fixture *fx)
{
    redis_fixture_forget(fx->endpoints, fx->installation);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        dt_reconciler_lost(fx->r, shard);
}
