/* Limits of topics on a real server: gates, room, and leader transactions within them (topic/limits.h). */

#include "support/suite.h"

#include "dispatch/fence.h"
#include "dispatch/leader.h"
#include "dispatch/pop.h"
#include "job/archive/archive.h"
#include "job/results/results.h"
#include "support/mysql_fixture.h"
#include "support/mysql_wire.h"
#include "topic/limits.h"
#include "topic/topics.h"

#define SHARDS 4
#define JOBS   64

/* The leaders of two shards, each with a store of its own. */
struct leader {
    dt_store *store;
    dt_topic_snapshot *snapshot;
    struct dt_arena arena;
    struct dt_inflight flight;
    struct dt_fence fence;
};
struct rig {
    struct dt_shard_map map;
    struct leader leaders[2];
    size_t allowed;
    int64_t next_id;
};

static struct dt_error err;

static void setup(struct rig *rig)
{
    mysql_fixture_make("limits");
    mysql_fixture.config.shards_count = SHARDS;
    mysql_fixture_migrate();
    rig->allowed = SIZE_MAX;
    rig->next_id = INT64_C(690) << 40;
    dt_shard_map_init(&rig->map, 1, SHARDS);
    for (unsigned i = 0; i < 2; i++) {
        struct leader *l = &rig->leaders[i];
        l->store = mysql_fixture_store();
        assert_int_equal(dt_topic_snapshot_new(&l->snapshot), DT_OK);
    }
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('t', 0, 0), ('u', 0, 0)");
    for (unsigned i = 0; i < 2; i++)
        OK(dt_store_takeover(rig->leaders[i].store, &(struct dt_leadership){i, 7, "host:1", "redis:1"},
                             &rig->leaders[i].fence, &rig->leaders[i].flight, &err));
}

static void teardown(struct rig *rig)
{
    for (unsigned i = 0; i < 2; i++) {
        struct leader *l = &rig->leaders[i];
        dt_topic_snapshot_free(l->snapshot);
        dt_arena_clear(&l->arena);
        dt_inflight_clear(&l->flight);
        dt_store_free(l->store);
    }
    mysql_fixture_drop();
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static int64_t now_ms(void)
{
    return sql_number("SELECT " DT_SQL_NOW_MS);
}

/* A job of a shard, due for so long. */
static int64_t job(struct rig *rig, unsigned shard, const char *topic, int64_t overdue_ms)
{
    int64_t due_ms = now_ms() - overdue_ms;
    do
        rig->next_id++;
    while (dt_shard_of(&rig->map, rig->next_id) != shard);
    run_sql("INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, "
            "maker, digest, payload) VALUES (%lld, '%s', 'scheduled', %lld, %lld, 1, '15s', 60000, 0, 0, 1, "
            "REPEAT('d', 16), '{}')",
            (long long)rig->next_id, topic, (long long)due_ms, (long long)due_ms);
    return rig->next_id;
}

static void jobs(struct rig *rig, unsigned shard, const char *topic, size_t n, int64_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = job(rig, shard, topic, 60000 - (int64_t)i);
}

STUB(static enum dt_writable, writable, (void *arg, struct dt_str topic, int64_t owner, int64_t bytes), DT_WRITABLE_YES)

static size_t allowed(void *arg, struct dt_str)
{
    return ((struct rig *)arg)->allowed;
}

/* A leader transaction over the hints, settling what is in flight. */
static struct dt_leader_txn leader_txn(struct rig *rig, unsigned leader, const int64_t *ids, size_t n)
{
    static struct dt_hint hints[2][JOBS];
    struct leader *l = &rig->leaders[leader];
    for (size_t i = 0; i < n; i++)
        hints[leader][i] = (struct dt_hint){ids[i], 1};
    struct dt_leader_txn t = {.sent = {.list = &l->flight, .offset = l->fence.ledger_offset + 2},
                              .due = {.hints = hints[leader],
                                      .n_hints = n,
                                      .max_jobs = 1000,
                                      .max_topics = 1000,
                                      .max_bytes = 8 << 20,
                                      .map = &rig->map,
                                      .topics = l->snapshot,
                                      .read_up_to = {INT64_MAX, INT64_MAX}},
                              .gate = {.writable = writable, .arg = rig, .allowed = allowed, .limits = rig},
                              .arena = &l->arena};
    OK(dt_leader_txn_commit(l->store, &l->fence, &t, &err));
    dt_inflight_drop(&l->flight, t.settled.n);
    for (size_t i = 0; i < t.batch.n; i++) {
        if (l->flight.n == l->flight.cap)
            l->flight.v = realloc(l->flight.v, (l->flight.cap = l->flight.cap * 2 + 8) * sizeof *l->flight.v);
        l->flight.v[l->flight.n++] = t.batch.jobs[i].claim;
    }
    return t;
}

static void limit(struct rig *rig, const char *topic, int64_t max_in_flight, const char *rate)
{
    const struct dt_topic put = {.name = dt_str(topic),
                                 .retention_ms = -1,
                                 .max_in_flight = max_in_flight,
                                 .rate_limit = rate ? dt_str(rate) : DT_STR_NONE};
    struct dt_topic_now now = {.arena = &rig->leaders[0].arena};
    OK(dt_store_topic_put(rig->leaders[0].store, &put, true, NULL, &now, &err));
    run_sql("UPDATE topic_gates SET opens_at = 0"); /* claims without limits are through */
}

/* Reports that so many of the attempts in flight have succeeded. */
static void report(struct rig *rig, const int64_t *ids, size_t n)
{
    struct dt_apply results[JOBS];
    for (size_t i = 0; i < n; i++)
        results[i] = (struct dt_apply){
            .result = {.job_id = ids[i], .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    OK(dt_store_apply(rig->leaders[0].store, &rig->map, results, n, &err));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(results[i].outcome, DT_OUTCOME_APPLIED);
}

static int64_t in_flight(const char *topic)
{
    return sql_number("SELECT COUNT(*) FROM jobs WHERE topic = '%s' AND state = 'dispatched'", topic);
}

/* ---- max_in_flight ---- */

RIG_TEST(the_longest_due_jobs_are_claimed_and_the_others_held_at_the_limit)
{
    int64_t ids[5];
    jobs(rig, 0, "t", 5, ids);
    int64_t other = job(rig, 0, "u", 1);
    limit(rig, "t", 2, NULL);
    int64_t hints[] = {ids[4], ids[3], other, ids[1], ids[2], ids[0]};
    struct dt_leader_txn t = leader_txn(rig, 0, hints, 6);
    assert_int_equal(t.batch.n, 3);
    assert_int_equal(t.batch.jobs[0].claim.id, ids[0]);
    assert_int_equal(t.batch.jobs[1].claim.id, ids[1]);
    assert_int_equal(t.batch.jobs[2].claim.id, other);
    assert_int_equal(t.limits.held, 3);
    assert_int_equal(t.seen.held, 3);
    for (size_t i = 0; i < t.seen.n; i++)
        assert_int_equal(t.seen.v[i].at_limit, t.seen.v[i].hold.p != NULL);
    assert_int_equal(in_flight("t"), 2);
}

RIG_TEST(places_are_shared_by_all_shards_and_free_when_attempts_end)
{
    int64_t a[4], b[4];
    jobs(rig, 0, "t", 4, a);
    jobs(rig, 1, "t", 4, b);
    limit(rig, "t", 3, NULL);
    assert_int_equal(leader_txn(rig, 0, a, 4).batch.n, 3);
    assert_int_equal(leader_txn(rig, 1, b, 4).batch.n, 0);
    report(rig, a, 2);
    assert_int_equal(leader_txn(rig, 1, b, 4).batch.n, 2);
    assert_int_equal(leader_txn(rig, 0, a + 3, 1).batch.n, 0);
    assert_int_equal(in_flight("t"), 3);
}

RIG_TEST(after_a_limit_was_lowered_no_job_is_claimed_until_there_is_room)
{
    int64_t ids[10];
    jobs(rig, 0, "t", 10, ids);
    limit(rig, "t", 5, NULL);
    assert_int_equal(leader_txn(rig, 0, ids, 10).batch.n, 5);
    limit(rig, "t", 2, NULL);
    assert_int_equal(in_flight("t"), 5);
    report(rig, ids, 3);
    assert_int_equal(leader_txn(rig, 0, ids + 5, 5).batch.n, 0);
    report(rig, ids + 3, 1);
    assert_int_equal(leader_txn(rig, 0, ids + 5, 5).batch.n, 1);
    limit(rig, "t", 0, NULL);
    assert_int_equal(leader_txn(rig, 0, ids + 6, 4).batch.n, 4);
}

RIG_TEST(jobs_of_a_topic_whose_gate_another_leader_holds_are_skipped_for_some_milliseconds)
{
    int64_t ids[2] = {job(rig, 0, "t", 5), job(rig, 0, "u", 5)};
    limit(rig, "t", 5, NULL);
    run_sql("START TRANSACTION");
    sql_number("SELECT COUNT(*) FROM (SELECT topic FROM topic_gates WHERE topic = 't' FOR UPDATE) g");
    struct dt_leader_txn t = leader_txn(rig, 0, ids, 2);
    run_sql("ROLLBACK");
    assert_int_equal(t.batch.n, 1); /* that of u */
    assert_members(t.limits, (busy, 1), (held, 0));
    assert_false(t.seen.locked);
    assert_int_equal(leader_txn(rig, 0, ids, 1).batch.n, 1);
}

/* Legal manual edits of an attempt that is out: whatever a leader, the audit and the housekeeper do next, and in
 * whatever order, its place is free once. */
RIG_TEST(test_an_attempt_that_a_manual_edit_ends_frees_its_place_at_once)
{
    static const char *const edits[] = {"'succeeded', next_at = NULL",
                                        "'dead', next_at = NULL",
                                        "'cancelled'",
                                        "'cancelled', next_at = NULL",
                                        "'scheduled'",
                                        "'scheduled', next_at = 1",
                                        "'scheduled', next_at = next_at + 864000000"};
    size_t n_edits = sizeof(edits) / sizeof(edits[0]);
    int64_t ids[8];
    jobs(rig, 0, "t", n_edits + 1, ids);
    mysql_fixture_audit();
    limit(rig, "t", 1, NULL);
    assert_int_equal(leader_txn(rig, 0, ids, 1).batch.n, 1);
    for (size_t i = 0; i < n_edits; i++) {
        size_t done;
        struct dt_gate gate = {.topic = DT_STR_LIT("t")};
        assert_int_equal(leader_txn(rig, 0, ids + i + 1, 1).batch.n, 0);
        run_sql("UPDATE jobs SET state = %s WHERE id = %lld AND state = 'dispatched'", edits[i], (long long)ids[i]);
        OK(dt_store_gates_look(rig->leaders[0].store, &gate, 1, &err));
        assert_int_equal(gate.room, 1);
        assert_int_equal(leader_txn(rig, 0, ids + i, 1).batch.n, 0); /* it is not claimed before it was counted */
        assert_int_equal(leader_txn(rig, 0, ids + i + 1, 1).batch.n, 1);
        assert_int_equal(i % 2 ? mysql_fixture_audit() : 0, 0);
        OK(dt_store_promote(rig->leaders[0].store, now_ms(), 100, &done, &err));
        assert_int_equal(done, 1);
        assert_int_equal(mysql_fixture_audit(), 0);
        OK(dt_store_gates_look(rig->leaders[0].store, &gate, 1, &err));
        assert_int_equal(gate.room, 0);
        assert_sql_number(1,
                          "SELECT (state IN ('scheduled','dispatched')) = (next_at IS NOT NULL) AND attempt_status = "
                          "'none' AND due_key > 0 FROM jobs WHERE id = %lld",
                          (long long)ids[i]);
    }
    limit(rig, "t", 2, NULL);
    assert_int_equal(leader_txn(rig, 0, ids + 5, 1).batch.n, 1); /* scheduled by hand, and due */
}

RIG_TEST(at_most_the_allowed_number_of_jobs_is_claimed)
{
    int64_t ids[4];
    jobs(rig, 0, "t", 4, ids);
    limit(rig, "t", 10, NULL);
    rig->allowed = 0;
    struct dt_leader_txn t = leader_txn(rig, 0, ids, 4);
    assert_int_equal(t.batch.n, 0);
    assert_int_equal(t.limits.held, 4);
    rig->allowed = 3;
    t = leader_txn(rig, 0, ids, 4);
    assert_int_equal(t.batch.n, 3);
    assert_int_equal(t.limits.held, 1);
}

RIG_TEST(the_limits_of_many_topics_are_read_together)
{
    int64_t ids[40];
    char name[8];
    for (size_t i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "m%02zu", i);
        limit(rig, name, 1, NULL);
        ids[2 * i] = job(rig, 0, name, 10);
        ids[2 * i + 1] = job(rig, 0, name, 9);
    }
    struct dt_leader_txn t = leader_txn(rig, 0, ids, 40);
    assert_int_equal(t.batch.n, 20);
    assert_int_equal(t.limits.held, 20);
}

RIG_TEST(a_limit_set_by_hand_gets_its_gate)
{
    int64_t ids[3];
    jobs(rig, 0, "t", 3, ids);
    run_sql("UPDATE topics SET max_in_flight = 2 WHERE name = 't'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    assert_int_equal(leader_txn(rig, 0, ids, 3).batch.n, 2);
    assert_int_equal(leader_txn(rig, 0, ids, 3).batch.n, 0);
    assert_sql_number(1, "SELECT COUNT(*) FROM topic_gates WHERE topic = 't'");
}

RIG_TEST(after_a_first_limit_claims_wait_half_a_second)
{
    struct dt_gate gate = {.topic = DT_STR_LIT("t")};
    const struct dt_topic put = {.name = gate.topic, .retention_ms = -1, .max_in_flight = 5};
    struct dt_topic_now now = {.arena = &rig->leaders[0].arena};
    OK(dt_store_topic_put(rig->leaders[0].store, &put, true, NULL, &now, &err));
    OK(dt_store_gates_look(rig->leaders[0].store, &gate, 1, &err));
    assert_int_equal(gate.room, 0);
    assert_true(gate.opens_ms > now_ms());
    assert_true(gate.opens_ms <= now_ms() + 500);
    run_sql("UPDATE topic_gates SET opens_at = 1");
    const struct dt_topic again = {.name = gate.topic, .retention_ms = -1, .max_in_flight = 6};
    OK(dt_store_topic_put(rig->leaders[0].store, &again, true, NULL, &now, &err)); /* not its first limit */
    OK(dt_store_gates_look(rig->leaders[0].store, &gate, 1, &err));
    assert_int_equal(gate.room, 6);
}

/* ---- pops ---- */

static struct dt_pop pop(struct rig *rig, size_t max)
{
    struct leader *l = &rig->leaders[1];
    struct dt_pop popped = {.topic = DT_STR_LIT("t"), .max = max, .max_bytes = 1 << 20, .arena = &l->arena};
    dt_arena_reset(&l->arena);
    OK(dt_store_pop(l->store, &popped, &err));
    return popped;
}

RIG_TEST(pops_respect_the_same_limits_as_leaders)
{
    int64_t ids[12];
    jobs(rig, 0, "t", 12, ids);
    limit(rig, "t", 5, NULL);
    run_sql("UPDATE topics SET delivery = 'pull' WHERE name = 't'");
    run_sql("UPDATE installation SET topics_version = topics_version + 1");
    leader_txn(rig, 0, ids, 12);
    assert_sql_number(12, "SELECT COUNT(*) FROM pop_queue");
    struct dt_pop popped = pop(rig, 3);
    assert_int_equal(popped.n, 3);
    assert_true(popped.more && !popped.at_limit);
    popped = pop(rig, 10);
    assert_int_equal(popped.n, 2);
    assert_true(popped.at_limit && !popped.more);
    assert_int_equal(pop(rig, 10).n, 0);
    assert_true(pop(rig, 10).at_limit);
    assert_int_equal(in_flight("t"), 5);
    report(rig, ids, 4);
    run_sql("START TRANSACTION");
    sql_number("SELECT COUNT(*) FROM (SELECT topic FROM topic_gates WHERE topic = 't' FOR UPDATE) g");
    popped = pop(rig, 10); /* somebody else claims: as if there were no room */
    run_sql("ROLLBACK");
    assert_members(popped, (n, 0), (at_limit, true));
    assert_int_equal(pop(rig, 10).n, 4);
    limit(rig, "t", 0, "60/m"); /* one a second */
    run_sql("UPDATE topics SET delivery = 'pull' WHERE name = 't'");
    assert_int_equal(pop(rig, 10).n, 1);
    assert_int_equal(pop(rig, 10).n, 0);
    limit(rig, "t", 0, NULL);
    assert_int_equal(pop(rig, 10).n, 2);
    assert_int_equal(in_flight("t"), 8);
}

/* ---- rate_limit ---- */

RIG_TEST(a_rate_allows_a_burst_and_then_one_attempt_at_a_time)
{
    int64_t ids[20];
    jobs(rig, 0, "t", 20, ids);
    limit(rig, "t", 0, "600/m");
    struct dt_leader_txn t = leader_txn(rig, 0, ids, 20);
    assert_int_equal(t.batch.n, 9);
    assert_int_equal(t.limits.held, 11);
    int64_t first_ms = t.now_ms;
    size_t more = 0;
    while (now_ms() < first_ms + 500)
        more += leader_txn(rig, 0, ids + 9 + more, 11 - more).batch.n;
    assert_in_range(more, 3, 5);
    struct dt_gate gate = {.topic = DT_STR_LIT("t")};
    OK(dt_store_gates_look(rig->leaders[0].store, &gate, 1, &err));
    assert_true(gate.full);
    assert_true(gate.room > 0 || gate.opens_ms > first_ms);
}

RIG_TEST(a_changed_rate_applies_at_once)
{
    int64_t ids[20];
    jobs(rig, 0, "t", 20, ids);
    limit(rig, "t", 0, "1/m");
    assert_int_equal(leader_txn(rig, 0, ids, 20).batch.n, 1);
    assert_int_equal(leader_txn(rig, 0, ids + 1, 19).batch.n, 0);
    limit(rig, "t", 0, "1000/s");
    assert_int_equal(leader_txn(rig, 0, ids + 1, 19).batch.n, 1); /* the burst is used up but for one */
    int64_t until_ms = now_ms() + 50;
    while (now_ms() < until_ms)
        ;
    assert_int_equal(leader_txn(rig, 0, ids + 2, 18).batch.n, 18);
}

/* ---- what is looked at, and what it costs ---- */

RIG_TEST(topics_without_limits_need_no_statement)
{
    int64_t ids[3];
    jobs(rig, 0, "t", 3, ids);
    leader_txn(rig, 0, ids, 1); /* statements are prepared */
    wire_statements = 0;
    leader_txn(rig, 0, ids + 1, 1);
    int without = wire_statements;
    limit(rig, "u", 1, NULL);
    leader_txn(rig, 0, NULL, 0);
    leader_txn(rig, 1, NULL, 0);
    wire_statements = 0;
    struct dt_leader_txn t = leader_txn(rig, 0, ids + 2, 1);
    assert_int_equal(t.batch.n, 1);
    assert_in_range(wire_statements, without - 1, without + 1); /* the topics were read again */
}

RIG_TEST(a_topic_without_a_limit_always_has_room)
{
    struct dt_gate gates[] = {{.topic = DT_STR_LIT("t")}, {.topic = DT_STR_LIT("nobody")}, {.topic = DT_STR_LIT("u")}};
    limit(rig, "u", 4, NULL);
    OK(dt_store_gates_look(rig->leaders[0].store, gates, 3, &err));
    assert_true(gates[0].room == SIZE_MAX && gates[1].room == SIZE_MAX);
    assert_members(gates[2], (room, 4), (full, false));
}

RIG_TEST(the_table_refuses_invalid_limits)
{
    static const char *const bad[] = {"max_in_flight = 0", "max_in_flight = -1", "rate_limit = '5/h'",
                                      "rate_limit = ''", "rate_limit = '0/s'"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "UPDATE topics SET %s WHERE name = 't'", bad[i]);
        assert_int_equal(dt_db_query_text(mysql_fixture.db, dt_str(sql), &err), DT_INVALID);
    }
    run_sql("UPDATE topics SET max_in_flight = 1, rate_limit = '9999999/s' WHERE name = 't'");
}
