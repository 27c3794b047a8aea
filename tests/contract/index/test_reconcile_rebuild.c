/* The reconciler against real servers: how a lost index is rebuilt, by one process or by several. */
#include "contract/index/reconcile_suite.h"

#define RIG_TEST(name, setup) TEST_ON(struct fixture, fx, name, setup, done)

/* ---- rebuild ---- */

RIG_TEST(a_lost_index_is_rebuilt_nearest_first_and_not_counted_as_drift, shared)
{
    int64_t built = 0;
    mysql_fixture.config.reconcile_slice = 100;
    open_reconciler(fx);
    many_rows(3000, START - 20000, 1000);
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

RIG_TEST(a_rebuild_changes_neither_existing_entries_nor_other_shards, shared)
{
    unsigned lost = dt_shard_of(&fx->map, 1);
    many_rows(100, START + 600000, 1000);
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

RIG_TEST(a_rebuild_requested_before_the_leadership_waits_for_it, shared)
{
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

RIG_TEST(moved_slots_are_added_to_their_new_shard_and_removed_from_the_old_one, shared)
{
    many_rows(300, START + 300000, 1000);
    settle(fx);
    run_sql("UPDATE installation SET shards = 7, generation = 2");
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
    FX_OK(dt_index_new(&mysql_fixture.config, fx->installation, dt_clock_system(), &p.index, &fx->err));
    FX_OK(dt_reconciler_new(&mysql_fixture.config, p.index, &p.r, &fx->err));
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
    struct dt_reconcile_in in = {
        p->fx->store, (p->fx->now_ms - START) * 1000 + 1, p->fx->now_ms, &p->fx->map, &p->leads, false, false};
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
        FX_OK(dt_index_mark(p->index, shard, marker, NULL, &intact, &gone, &fx->err));
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
    FX_OK(dt_index_count(fx->index, shard, 0, FAR, &n, &fx->err));
    return n;
}

/* Ticks of the one until its shards are whole. */
static int until_whole(struct process *p)
{
    int ticks = 0;
    AWAIT(process_is_whole(p) || (ticks++, process_tick(p), false));
    return ticks;
}

static void two_processes(struct fixture *fx, struct process *a, struct process *b)
{
    mysql_fixture.config.reconcile_slice = 100;
    many_rows(2000, START + 60000, 1000);
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

RIG_TEST(one_process_fills_the_lost_sets_of_all_leaders, shared)
{
    struct process a, b;
    two_processes(fx, &a, &b);
    until_whole(&a);
    assert_int_equal(entries_below(fx, FAR), 2000);
    assert_true(dt_shard_set_empty(&b.whole));
    assert_true(until_whole(&b) < 60); /* it waits briefly for others, and reads the jobs after a's horizon */
    assert_int_equal(entries_below(fx, FAR), 2000);
    process_end(&a);
    process_end(&b);
}

RIG_TEST(a_reconciler_that_waits_for_a_rebuild_adds_no_entry, shared)
{
    struct process a, b;
    int64_t n, heard_us = 0;
    bool waited = true;
    two_processes(fx, &a, &b);
    while (entries_below(fx, FAR) == 0) {
        heard_us = dt_clock_mono_us(dt_clock_system());
        process_tick(&a);
    }
    n = entries_below(fx, FAR);
    for (int i = 0; i < 100 && waited; i++) {
        process_tick(&b);
        waited = entries_below(fx, FAR) == n && dt_shard_set_empty(&b.whole);
    }
    if (dt_clock_mono_us(dt_clock_system()) - heard_us < DT_FILLING_MS * 1000) /* after that it need not hold */
        assert_true(waited);
    until_whole(&a);
    until_whole(&b);
    assert_int_equal(entries_below(fx, FAR), 2000);
    process_end(&a);
    process_end(&b);
}

/* More than TELL_US after the pass began, so that something is noted; then it is not heard of any more. */
RIG_TEST(another_process_continues_a_rebuild_when_its_process_stops_reporting, shared)
{
    struct process a, b;
    two_processes(fx, &a, &b);
    while (entries_below(fx, FAR) < 500)
        process_tick(&a);
    fx->now_ms += 300;
    process_tick(&a);
    int64_t done = entries_below(fx, FAR);
    assert_in_range(done, 500, 1500);
    usleep((DT_FILLING_MS + 100) * 1000); /* by Redis's clock, which no event reports */
    until_whole(&b);
    for (unsigned shard = 2; shard < SHARDS; shard++)
        assert_true(entries_of(fx, shard) > 400);
    until_whole(&a); /* it was only slow */
    assert_int_equal(entries_below(fx, FAR), 2000);
    process_end(&a);
    process_end(&b);
}

RIG_TEST(entries_that_were_filled_in_before_another_loss_do_not_count, shared)
{
    struct process a, b;
    two_processes(fx, &a, &b);
    until_whole(&a);
    redis_fixture_forget(fx->endpoints, fx->installation);
    process_loses(&b, 2, 1);
    until_whole(&b);
    assert_int_equal(entries_of(fx, 0) + entries_of(fx, 1), 0); /* nobody has asked for these */
    assert_in_range(entries_of(fx, 2) + entries_of(fx, 3), 900, 1100);
    process_end(&a);
    process_end(&b);
}

RIG_TEST(a_process_with_another_shard_map_fills_only_its_own_index, shared)
{
    struct process a, b;
    two_processes(fx, &a, &b);
    process_loses(&b, 2, 2);
    until_whole(&a);
    assert_int_equal(entries_of(fx, 2) + entries_of(fx, 3), 0);
    until_whole(&b);
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
    free(mysql_fixture.config.redis_endpoints);
    mysql_fixture.config.redis_endpoints = strdup(both);
    *a = process_of(fx, 0, SHARDS - 1);
    *others = process_of(fx, 0, SHARDS - 1);
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        bool ours = strcmp(dt_index_home(a->index, shard), second->endpoint) == 0;
        dt_shard_set_remove(ours ? &others->leads : &a->leads, shard);
    }
    return !dt_shard_set_empty(&a->leads) && !dt_shard_set_empty(&others->leads);
}

/* Of two servers the one of our own sets fails in the middle, and what is left of the pass is others'. */
RIG_TEST(a_pass_left_with_sets_of_others_only_starts_again_with_its_own_set, private)
{
    struct redis_server second = {0};
    struct process a, others;
    mysql_fixture.config.reconcile_slice = 25;
    many_rows(2000, START + 60000, 1000);
    /* Where a shard has its home is a matter of the ports: one time in eight all are on one of the two. */
    for (int tries = 0; !divided(fx, &second, &a, &others); tries++) {
        assert_true(tries < 30);
        process_end(&a);
        process_end(&others);
        redis_server_kill(&second);
    }
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
    AWAIT(dt_index_ping(a.index, NULL) == DT_OK);
    for (int i = 0; i < 500 && !process_is_whole(&a); i++) {
        process_tick(&a);
        fx->now_ms += 5;
    }
    assert_true(process_is_whole(&a));
    process_end(&a);
    process_end(&others);
    redis_server_kill(&second);
}
