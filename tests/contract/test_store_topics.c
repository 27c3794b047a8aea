/* Topics and shard information on a real server. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "support/mysql_fixture.h"

#define OK(status) MYSQL_FIXTURE_OK(status, &err)
#define S(text)    DT_STR_LIT(text)

struct rig {
    struct mysql_fixture fx;
    dt_store *store;
    struct dt_arena arena;
};

static int setup(void **state)
{
    static struct rig rig;
    mysql_fixture_make(&rig.fx, "topics");
    mysql_fixture_migrate(&rig.fx);
    rig.store = mysql_fixture_store(&rig.fx);
    dt_arena_init(&rig.arena);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    dt_arena_clear(&rig->arena);
    dt_store_free(rig->store);
    mysql_fixture_drop(&rig->fx);
    return 0;
}

static int64_t topics_version(struct rig *rig)
{
    struct dt_error err = {0};
    struct dt_installation inst;
    OK(dt_store_installation(rig->store, &inst, &err));
    return inst.topics_version;
}

static struct dt_topic get(struct rig *rig, struct dt_str name)
{
    struct dt_error err = {0};
    struct dt_topic t;
    OK(dt_store_topic_get(rig->store, name, &rig->arena, &t, &err));
    return t;
}

static bool put(struct rig *rig, struct dt_topic topic, bool set_paused)
{
    struct dt_error err = {0};
    bool created;
    OK(dt_store_topic_put(rig->store, &topic, set_paused, &created, &err));
    return created;
}

static void settings_come_back_as_they_were_put(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_topic t;
    assert_int_equal(dt_store_topic_get(rig->store, S("a"), &rig->arena, &t, &err), DT_NOT_FOUND);
    assert_true(put(rig, (struct dt_topic){.name = S("a"), .retention_ms = -1}, false));
    t = get(rig, S("a"));
    assert_true(dt_str_is(t.name, "a"));
    assert_null(t.kafka_topic.p);
    assert_null(t.retry.p);
    assert_int_equal(t.ack_timeout_ms, 0);
    assert_int_equal(t.retention_ms, -1);
    assert_false(t.paused);
    assert_int_equal(t.version, 1);
    assert_true(t.created_at_ms > 0 && t.created_at_ms == t.updated_at_ms);
    assert_false(put(rig,
                     (struct dt_topic){.name = S("a"),
                                       .kafka_topic = S("out"),
                                       .retry = S(""),
                                       .ack_timeout_ms = 5,
                                       .retention_ms = 0,
                                       .paused = true},
                     true));
    t = get(rig, S("a"));
    assert_true(dt_str_is(t.kafka_topic, "out"));
    assert_non_null(t.retry.p);
    assert_int_equal(t.retry.n, 0);
    assert_int_equal(t.ack_timeout_ms, 5);
    assert_int_equal(t.retention_ms, 0);
    assert_true(t.paused);
    assert_int_equal(t.version, 2);
}

static void a_put_leaves_paused_alone_unless_told(void **state)
{
    struct rig *rig = *state;
    put(rig, (struct dt_topic){.name = S("a"), .retention_ms = -1, .paused = true}, true);
    put(rig, (struct dt_topic){.name = S("a"), .retention_ms = 9}, false);
    assert_true(get(rig, S("a")).paused);
    put(rig, (struct dt_topic){.name = S("a"), .retention_ms = 9}, true);
    assert_false(get(rig, S("a")).paused);
}

static void changes_raise_the_topics_version_and_nothing_else_does(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    int64_t v = topics_version(rig);
    struct dt_topic topic = {.name = S("a"), .retry = S("1s"), .retention_ms = -1};
    put(rig, topic, false);
    assert_int_equal(topics_version(rig), ++v);
    put(rig, topic, false);
    OK(dt_store_topic_ensure(rig->store, S("a"), &err));
    OK(dt_store_topic_pause(rig->store, S("a"), false, &err));
    assert_int_equal(topics_version(rig), v);
    assert_int_equal(get(rig, S("a")).version, 1);
    OK(dt_store_topic_pause(rig->store, S("a"), true, &err));
    assert_int_equal(topics_version(rig), ++v);
    OK(dt_store_topic_ensure(rig->store, S("b"), &err));
    assert_int_equal(topics_version(rig), ++v);
    topic.kafka_topic = S("x");
    put(rig, topic, false);
    assert_int_equal(topics_version(rig), ++v);
    topic.kafka_topic = S("a"); /* its own name is the default */
    put(rig, topic, false);
    assert_int_equal(topics_version(rig), ++v);
    assert_null(get(rig, S("a")).kafka_topic.p);
}

static void pause_and_resume(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    assert_int_equal(dt_store_topic_pause(rig->store, S("a"), true, &err), DT_NOT_FOUND);
    OK(dt_store_topic_ensure(rig->store, S("a"), &err));
    OK(dt_store_topic_pause(rig->store, S("a"), true, &err));
    assert_true(get(rig, S("a")).paused);
    assert_int_equal(get(rig, S("a")).version, 2);
    OK(dt_store_topic_pause(rig->store, S("a"), false, &err));
    assert_false(get(rig, S("a")).paused);
}

static void clashing_kafka_names_are_refused(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    bool created;
    OK(dt_store_topic_ensure(rig->store, S("a.b"), &err));
    assert_int_equal(dt_store_topic_ensure(rig->store, S("a_b"), &err), DT_INVALID);
    struct dt_topic t = {.name = S("c"), .kafka_topic = S("a_b"), .retention_ms = -1};
    assert_int_equal(dt_store_topic_put(rig->store, &t, false, &created, &err), DT_INVALID);
    t.kafka_topic = S("a.b"); /* the same Kafka topic is no clash */
    put(rig, t, false);
    t = (struct dt_topic){.name = S("a_b"), .kafka_topic = S("other"), .retention_ms = -1};
    put(rig, t, false);
    t.kafka_topic = DT_STR_NONE;
    assert_int_equal(dt_store_topic_put(rig->store, &t, false, &created, &err), DT_INVALID);
    assert_true(dt_str_is(get(rig, S("a_b")).kafka_topic, "other"));
    /* A topic may change between names that clash with none but its own. */
    put(rig, (struct dt_topic){.name = S("x.y"), .retention_ms = -1}, false);
    put(rig, (struct dt_topic){.name = S("x.y"), .kafka_topic = S("x_y"), .retention_ms = -1}, false);
    assert_int_equal(dt_store_topic_ensure(rig->store, S("duetime_results"), &err), DT_INVALID);
    assert_int_equal(dt_store_topic_ensure(rig->store, S("duetime_results_rejected"), &err), DT_INVALID);
    OK(dt_store_topic_ensure(rig->store, S("duetime_orders"), &err));
    t = (struct dt_topic){.name = S("d"), .kafka_topic = S("duetime.ledger"), .retention_ms = -1};
    assert_int_equal(dt_store_topic_put(rig->store, &t, false, &created, &err), DT_INVALID);
}

struct maker {
    pthread_t thread;
    struct rig *rig;
    const char *name;
    dt_status status;
};

static void *ensure(void *arg)
{
    struct maker *m = arg;
    dt_store *store = NULL;
    m->status = dt_store_new(&m->rig->fx.config, NULL, &store);
    if (!m->status)
        m->status = dt_store_topic_ensure(store, dt_str(m->name), NULL);
    dt_store_free(store);
    dt_db_thread_end();
    return NULL;
}

static void of_two_that_clash_made_at_once_one_gets_in(void **state)
{
    struct rig *rig = *state;
    for (int round = 0; round < 5; round++) {
        char names[8][20];
        struct maker m[8];
        int in = 0;
        for (int i = 0; i < 8; i++) {
            snprintf(names[i], sizeof names[i], "r%d%cx", round, i % 2 ? '.' : '_');
            m[i] = (struct maker){.rig = rig, .name = names[i]};
            assert_int_equal(pthread_create(&m[i].thread, NULL, ensure, &m[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
            pthread_join(m[i].thread, NULL);
            assert_true(m[i].status == DT_OK || m[i].status == DT_INVALID);
            in += m[i].status == DT_OK;
        }
        assert_int_equal(in, 4); /* all of the one name, none of the other */
        assert_int_equal(
            mysql_fixture_number(&rig->fx, "SELECT COUNT(*) FROM topics WHERE kafka_fold = 'r%d_x'", round), 1);
    }
}

static void the_list_goes_on_behind_a_name_in_byte_order(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_topic *topics;
    size_t n;
    OK(dt_store_topic_list(rig->store, DT_STR_NONE, 10, &rig->arena, &topics, &n, &err));
    assert_int_equal(n, 0);
    OK(dt_store_topic_ensure(rig->store, S("b"), &err));
    OK(dt_store_topic_ensure(rig->store, S("B"), &err));
    OK(dt_store_topic_ensure(rig->store, S("a-"), &err));
    OK(dt_store_topic_list(rig->store, DT_STR_NONE, 2, &rig->arena, &topics, &n, &err));
    assert_int_equal(n, 2);
    assert_true(dt_str_is(topics[0].name, "B") && dt_str_is(topics[1].name, "a-"));
    OK(dt_store_topic_list(rig->store, topics[1].name, 2, &rig->arena, &topics, &n, &err));
    assert_int_equal(n, 1);
    assert_true(dt_str_is(topics[0].name, "b"));
}

/* A near job, due in so many ms; 0 = finished. */
static void make_job(struct rig *rig, int id, const char *topic, const char *state, int due_in)
{
    char next[80] = "NULL";
    if (due_in)
        snprintf(next, sizeof next, DT_SQL_NOW_MS " + (%d)", due_in);
    mysql_fixture_run(&rig->fx,
                      "INSERT INTO jobs (id, topic, state, run_at, next_at, near, retry, ack_timeout_ms, created_at, "
                      "updated_at, maker, digest, payload) VALUES (%d, '%s', '%s', 0, %s, 1, '', 1, 0, 0, 0, '', '')",
                      id, topic, state, next);
}

static void counts_and_the_oldest_overdue(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_topic_counts c;
    OK(dt_store_topic_counts(rig->store, S("t"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 0);
    assert_int_equal(c.oldest_overdue_ms, 0);
    make_job(rig, 1, "t", "scheduled", -5000);
    make_job(rig, 2, "t", "scheduled", 60000);
    make_job(rig, 3, "u", "scheduled", -90000);
    make_job(rig, 4, "t", "dispatched", -99000); /* waits for its acknowledgement: not overdue */
    make_job(rig, 5, "t", "dead", 0);
    assert_int_equal(mysql_fixture_audit(&rig->fx), 5);
    OK(dt_store_topic_counts(rig->store, S("t"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 2);
    assert_int_equal(c.by_state[DT_DISPATCHED], 1);
    assert_int_equal(c.by_state[DT_SUCCEEDED], 0);
    assert_int_equal(c.by_state[DT_DEAD], 1);
    assert_in_range(c.oldest_overdue_ms, 5000, 60000);
    OK(dt_store_topic_counts(rig->store, S("u"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 1);
    assert_in_range(c.oldest_overdue_ms, 90000, 150000);
}

static void counts_of_a_large_table_are_exact(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_topic_counts c;
    mysql_fixture_run(
        &rig->fx,
        "INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, "
        "maker, digest, payload) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 230) "
        "SELECT a.i * 1000 + b.i, 'other', 0, 4000000000000, 0, '', 1, 0, 0, 0, '', '' FROM n a CROSS JOIN n b");
    make_job(rig, 1, "t", "scheduled", 60000);
    make_job(rig, 2, "t", "dead", 0);
    assert_int_equal(mysql_fixture_audit(&rig->fx), 230 * 230 + 2);
    OK(dt_store_topic_counts(rig->store, S("t"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 1);
    assert_int_equal(c.by_state[DT_DEAD], 1);
    OK(dt_store_topic_counts(rig->store, S("other"), &c, &err));
    assert_int_equal(c.by_state[DT_SCHEDULED], 230 * 230);
}

static void shards_are_listed_with_what_their_leaders_said(void **state)
{
    struct rig *rig = *state;
    struct dt_error err = {0};
    struct dt_shard_info *shards;
    size_t n;
    int64_t now_ms;
    mysql_fixture_run(&rig->fx,
                      "UPDATE shards SET epoch = 9, owner = 'h:1', inflight = '[[1,2,3],[4,5,6]]' WHERE shard = 2");
    mysql_fixture_run(&rig->fx, "UPDATE shards SET halted = 'why' WHERE shard = 3");
    mysql_fixture_run(&rig->fx,
                      "INSERT INTO shard_stats (shard, seen_at, epoch, waiting, overdue, oldest_due_at, drift_extra) "
                      "VALUES (2, 77, 9, 'kafka', 5, 66, 4)");
    OK(dt_store_shards(rig->store, &rig->arena, &shards, &n, &now_ms, &err));
    assert_int_equal(n, 4);
    assert_true(now_ms > INT64_C(1700000000000));
    assert_int_equal(shards[0].inflight, 0);
    assert_null(shards[0].owner.p);
    assert_null(shards[0].waiting.p);
    assert_int_equal(shards[0].seen_at_ms, 0);
    assert_int_equal(shards[2].shard, 2);
    assert_int_equal(shards[2].epoch, 9);
    assert_int_equal(shards[2].inflight, 2);
    assert_true(dt_str_is(shards[2].owner, "h:1"));
    assert_true(dt_str_is(shards[2].waiting, "kafka"));
    assert_int_equal(shards[2].seen_at_ms, 77);
    assert_int_equal(shards[2].overdue, 5);
    assert_int_equal(shards[2].oldest_due_at_ms, 66);
    assert_int_equal(shards[2].drift_extra, 4);
    assert_true(dt_str_is(shards[3].halted, "why"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(settings_come_back_as_they_were_put, setup, teardown),
        cmocka_unit_test_setup_teardown(a_put_leaves_paused_alone_unless_told, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_raise_the_topics_version_and_nothing_else_does, setup, teardown),
        cmocka_unit_test_setup_teardown(pause_and_resume, setup, teardown),
        cmocka_unit_test_setup_teardown(clashing_kafka_names_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(of_two_that_clash_made_at_once_one_gets_in, setup, teardown),
        cmocka_unit_test_setup_teardown(the_list_goes_on_behind_a_name_in_byte_order, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_and_the_oldest_overdue, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_of_a_large_table_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_are_listed_with_what_their_leaders_said, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
