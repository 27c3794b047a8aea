/* Inserting jobs when a row is at fault, when there is no server, and when COMMITs are lost. */

#include "support/rigs/insert_rig.h"

static struct dt_error err;

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

/* ---- rows at fault ---- */

RIG_TEST(if_the_job_id_is_taken_no_key_is_stored)
{
    add(rig, 1, NULL, 1);
    OK(dt_store_insert(rig->store, rig->ptr, 1, MAKER + 1, &rig->created_ms, &err)); /* another process's */
    rig->n = 0;
    struct dt_insert *taken = add(rig, 1, "k", 1), *fine = add(rig, 2, "l", 1), *plain = add(rig, 3, NULL, 1);
    struct dt_insert *follower = add(rig, 4, "k", 1);
    OK(insert(rig, &err));
    assert_int_equal(taken->outcome, DT_INSERT_ID_TAKEN);
    assert_int_equal(fine->outcome, DT_INSERT_CREATED);
    assert_int_equal(plain->outcome, DT_INSERT_CREATED);
    assert_int_equal(follower->outcome, DT_INSERT_CREATED); /* the first did not get the key */
    assert_int_equal(job_of_key("k"), 4);
    assert_int_equal(number("SELECT maker FROM jobs WHERE id = 1"), MAKER + 1);
}

RIG_TEST(a_repeated_batch_creates_no_job_twice)
{
    add(rig, 1, "k", 1);
    add(rig, 2, NULL, 2);
    OK(insert(rig, &err));
    add(rig, 3, "m", 3);
    OK(insert(rig, &err));
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig->rows[i].outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 3);
    assert_int_equal(job_of_key("k"), 1);
    rig->rows[1].job.digest[5] = 9; /* not the request that made it */
    OK(insert(rig, &err));
    assert_int_equal(rig->rows[1].outcome, DT_INSERT_ID_TAKEN);
}

RIG_TEST(an_invalid_row_is_refused_alone)
{
    static char longer[300];
    memset(longer, 'x', sizeof longer);
    struct dt_insert *good = add(rig, 1, "a", 1), *bad = add(rig, 2, "b", 1), *also = add(rig, 3, NULL, 1);
    struct dt_insert *key = add(rig, 4, "c", 1), *huge = add(rig, 5, "d", 1);
    bad->job.partition_key = key->job.key = (struct dt_str){longer, sizeof longer};
    huge->job.payload = (struct dt_str){longer, SIZE_MAX / 2};
    OK(insert(rig, &err));
    assert_int_equal(good->outcome, DT_INSERT_CREATED);
    assert_int_equal(also->outcome, DT_INSERT_CREATED);
    assert_int_equal(bad->outcome, DT_INSERT_REFUSED);
    assert_int_equal(key->outcome, DT_INSERT_REFUSED);
    assert_int_equal(huge->outcome, DT_INSERT_TOO_LARGE);
    assert_int_equal(number("SELECT COUNT(*) FROM job_keys"), 1);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 2);
}

RIG_TEST(a_row_without_its_topics_settings_has_no_topic)
{
    struct dt_insert *no_retry = add(rig, 1, "a", 1), *no_timeout = add(rig, 2, NULL, 1), *good = add(rig, 3, NULL, 1);
    no_retry->job.retry = DT_STR_NONE;
    no_timeout->job.ack_timeout_ms = 0;
    OK(insert(rig, &err));
    assert_int_equal(no_retry->outcome, DT_INSERT_NO_TOPIC);
    assert_int_equal(no_timeout->outcome, DT_INSERT_NO_TOPIC);
    assert_int_equal(good->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 1);
    assert_int_equal(number("SELECT COUNT(*) FROM job_keys"), 0);
}

RIG_TEST(without_a_server_no_job_is_created)
{
    char nowhere[] = "/nonexistent/mysql.sock";
    struct dt_config config = mysql_fixture.config;
    config.mysql_socket = nowhere;
    dt_store_free(rig->store);
    OK(dt_store_new(&config, NULL, &rig->store));
    add(rig, 1, NULL, 1);
    assert_int_equal(insert(rig, &err), DT_UNAVAILABLE);
    dt_store_free(rig->store);
    rig->store = mysql_fixture_store();
    OK(insert(rig, &err));
}

RIG_TEST(a_connection_that_broke_while_idle_is_replaced_unnoticed)
{
    dt_db *db;
    add(rig, 1, NULL, 1);
    OK(insert(rig, &err));
    OK(dt_store_db(rig->store, &db, &err));
    OK(dt_db_query(db, "SELECT CONNECTION_ID()", DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    int64_t session = dt_db_i64(db, 0);
    OK(dt_db_end(db, &err));
    run_sql("KILL %lld", (long long)session);
    rig->rows[0].job.id = 2;
    OK(insert(rig, &err));
    assert_int_equal(rig->rows[0].outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 2);
}

/* ---- lost commits ---- */

RIG_TEST(a_commit_that_the_server_did_not_receive_is_repeated)
{
    struct dt_insert *k = add(rig, 1, "k", 1), *p = add(rig, 2, NULL, 2);
    wire_loss = LOSE_BEFORE;
    OK(insert(rig, &err));
    assert_int_equal(wire_loss, LOSE_NOTHING);
    assert_int_equal(k->outcome, DT_INSERT_CREATED);
    assert_int_equal(p->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 2);
}

RIG_TEST(a_commit_whose_answer_was_lost_is_read_back)
{
    add(rig, 1, "x", 9);
    OK(insert(rig, &err));
    rig->n = 0;
    struct dt_insert *k = add(rig, 11, "k", 1), *x = add(rig, 12, "x", 1), *p = add(rig, 13, NULL, 2);
    wire_loss = LOSE_AFTER;
    OK(insert(rig, &err));
    assert_int_equal(k->outcome, DT_INSERT_CREATED);
    assert_members(*x, (outcome, DT_INSERT_CONFLICT), (existing_id, 1));
    assert_int_equal(p->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 3);
    assert_int_equal(number("SELECT created_at FROM jobs WHERE id = 13"), rig->created_ms);
}

RIG_TEST(an_insert_lost_before_or_after_the_server_saw_it_makes_the_jobs_once)
{
    enum wire_loss losses[] = {LOSE_BEFORE, LOSE_AFTER};
    for (int i = 0; i < 2; i++) {
        int64_t first = 0;
        rig->n = 0;
        struct dt_insert *a = add(rig, 10 * i + 1, NULL, 1), *b = add(rig, 10 * i + 2, NULL, 2);
        OK(dt_store_reserve_ids(rig->clocked, 1, &first, &err));
        wire_execution_loss = losses[i];
        OK(dt_store_insert(rig->clocked, rig->ptr, rig->n, MAKER, &rig->created_ms, &err));
        assert_int_equal(wire_execution_loss, LOSE_NOTHING);
        assert_int_equal(a->outcome, DT_INSERT_CREATED);
        assert_int_equal(b->outcome, DT_INSERT_CREATED);
        assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 2 * i + 2);
    }
}

RIG_TEST(a_commit_that_hangs_is_waited_for_and_repeated)
{
    struct dt_insert *k = add(rig, 1, "k", 1);
    wire_loss = HOLD; /* the old session keeps its locks until the server ends it */
    OK(insert(rig, &err));
    assert_int_equal(k->outcome, DT_INSERT_CREATED);
    assert_true(wire_holds());
    wire_drop_held();
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 1);
    assert_int_equal(job_of_key("k"), 1);
}

static void *commit_late(void *)
{
    while (!wire_holds())
        wait_a_moment();
    mysql_fixture_await_lock_waits(1); /* the insert's read-back waits */
    wire_commit_held();
    dt_db_thread_end();
    return NULL;
}

RIG_TEST(a_commit_that_arrives_late_is_found)
{
    struct dt_insert *k = add(rig, 1, "k", 1);
    pthread_t thread = start_thread(commit_late, NULL);
    wire_loss = HOLD;
    OK(insert(rig, &err));
    pthread_join(thread, NULL);
    assert_int_equal(k->outcome, DT_INSERT_CREATED);
    assert_int_equal(number("SELECT COUNT(*) FROM jobs"), 1);
    assert_int_equal(number("SELECT created_at FROM jobs"), rig->created_ms);
}
