/* Topics that are deleted with their jobs, on a real server: what becomes of the jobs, when the topic goes, and who goes on when
 * somebody dies in the middle. */

#include "features/operations/operations.h"
#include "support/store_suite.h"
#include "topic/topics.h"

static struct dt_operation op;
static struct dt_operation_piece piece;

STORE_SUITE("deletion", 0)

static struct dt_topic_deletion begin(void)
{
    struct dt_topic_deletion deletion;
    const struct dt_operation_ask ask = {.filter.topic = S("orders")};
    OK(dt_store_topic_delete_with_jobs(store, &ask, 0, &arena, &deletion, &err));
    return deletion;
}

static void step(dt_store *by, int64_t id)
{
    piece = (struct dt_operation_piece){.id = id};
    OK(dt_store_operation_step(by, &piece, &arena, &err));
}

static void show(int64_t id)
{
    OK(dt_store_operation_get(store, id, &arena, &op, &err));
}

/* Steps until there is nothing to do but to wait, or the end. */
static void run(int64_t id)
{
    do
        step(store, id);
    while (piece.shown.state == DT_OPERATION_RUNNING && piece.wait_ms == 0);
    show(id);
}

static int64_t number(const char *sql)
{
    return sql_number("%s", sql);
}

static bool is_there(void)
{
    return number("SELECT COUNT(*) FROM topics WHERE name = 'orders'") == 1;
}

/* The counters as those who made the jobs would have written them. */
static void count(void)
{
    run_sql("DELETE FROM job_counts; INSERT INTO job_counts (topic, piece, writer, scheduled, dispatched) SELECT "
            "topic, 0, 0, SUM(state = 'scheduled'), SUM(state = 'dispatched') FROM jobs GROUP BY topic");
}

static void empty_all(void)
{
    empty_tables();
    run_sql("DELETE FROM operations; DELETE FROM schedules; DELETE FROM topics; DELETE FROM job_counts; DELETE FROM "
            "topic_gates; DELETE FROM deleted_topics; INSERT INTO topics (name, created_at, updated_at) VALUES "
            "('orders', 1, 1), ('other', 1, 1)");
}

#define FRESH_TEST(name) TEST_WITH(name, empty_all, NULL)

FRESH_TEST(waiting_jobs_are_cancelled_and_the_topic_is_deleted)
{
    job_row(1, NULL);
    job_row(2, "attempt = 1, failures = 1, claim_shard = 0");
    job_row(3, "topic = 'other'");
    count();
    int64_t version = number("SELECT topics_version FROM installation");
    int64_t id = begin().operation.id;
    assert_int_equal(number("SELECT deletion FROM topics WHERE name = 'orders'"), id);
    int64_t marked = number("SELECT topics_version FROM installation");
    assert_true(marked > version);
    assert_int_equal(begin().operation.id, id);
    step(store, id);
    assert_int_equal(piece.n_moves, 2);
    run(id);
    assert_members(op, (state, DT_OPERATION_DONE), (changed, 2));
    assert_false(is_there());
    assert_true(number("SELECT topics_version FROM installation") > marked);
    assert_job(1, "CONCAT(state, ' ', version, ' ', next_at IS NULL, ' ', purge_at > 0)", "cancelled 2 1 1");
    assert_job(2, "state", "cancelled");
    assert_job(3, "state", "scheduled");
    assert_int_equal(number("SELECT SUM(cancelled) - SUM(scheduled) FROM job_counts WHERE topic = 'orders'"), 2);
}

FRESH_TEST(the_last_attempt_keeps_the_topic_until_it_has_ended)
{
    job_row_dispatched(1, 1, 0);
    count();
    int64_t id = begin().operation.id;
    run(id);
    assert_int_equal(op.state, DT_OPERATION_RUNNING);
    assert_true(piece.wait_ms > 0);
    assert_true(is_there());
    assert_job(1, "CONCAT(state, ' ', no_retries, ' ', version)", "dispatched 1 2");
    run(id);
    assert_job(1, "version", "2"); /* it is changed once */
    run_sql("UPDATE jobs SET state = 'succeeded', next_at = NULL");
    count();
    run(id);
    assert_members(op, (state, DT_OPERATION_DONE), (changed, 1));
    assert_false(is_there());
}

/* As an API makes one that had not heard of the deletion yet. */
FRESH_TEST(a_job_added_during_the_deletion_is_cancelled_too)
{
    job_row_dispatched(5, 1, 0);
    count();
    int64_t id = begin().operation.id;
    run(id);
    job_row(2, NULL);
    run_sql("UPDATE jobs SET state = 'succeeded', next_at = NULL WHERE id = 5");
    count();
    step(store, id); /* sees that something lives */
    run(id);
    assert_int_equal(op.state, DT_OPERATION_DONE);
    assert_job(2, "state", "cancelled");
    assert_false(is_there());
}

FRESH_TEST(a_large_deletion_is_continued_by_several_processes)
{
    enum { JOBS = 3000 };
    dt_store *other = mysql_fixture_store();
    job_row(1, "job_key = 'k'");
    job_rows_multiply(JOBS, 1);
    run_sql("UPDATE jobs SET topic = 'other' WHERE id MOD 3 = 0");
    count();
    int64_t id = begin().operation.id;
    int pieces = 0;
    do {
        step(pieces % 2 ? other : store, id);
        assert_true(piece.changed <= 1024);
    } while (piece.shown.state == DT_OPERATION_RUNNING && ++pieces < 50);
    dt_store_free(other);
    show(id);
    assert_int_equal(op.changed, JOBS - JOBS / 3);
    assert_int_equal(number("SELECT SUM(state = 'cancelled' AND version = 2 AND topic = 'orders') FROM jobs"),
                     op.changed);
    assert_false(is_there());
}

FRESH_TEST(a_stopped_or_failed_deletion_keeps_the_topic)
{
    for (int failed = 0; failed < 2; failed++) {
        run_sql("DELETE FROM jobs");
        job_row_dispatched(1, 1, 0);
        count();
        int64_t id = begin().operation.id;
        int64_t version = number("SELECT topics_version FROM installation");
        OK(failed ? dt_store_operation_fail(store, id, S("why"), &err)
                  : dt_store_operation_stop(store, id, &arena, &op, &err));
        assert_int_equal(number("SELECT COUNT(*) FROM topics WHERE deletion IS NULL AND name = 'orders'"), 1);
        assert_true(number("SELECT topics_version FROM installation") > version);
        assert_int_not_equal(begin().operation.id, id);
        run_sql("UPDATE operations SET state = 'stopped'; UPDATE topics SET deletion = NULL");
    }
}

FRESH_TEST(a_topic_with_a_schedule_is_kept_even_if_it_was_made_late)
{
    static const char *const schedule =
        "INSERT INTO schedules (name, topic, every_ms, anchor_at, time_zone, overlap, catch_up_ms, jitter_ms, paused, "
        "created_at, updated_at, version, digest, payload_binary, payload) VALUES ('s', 'orders', 1000, 0, 'UTC', "
        "'allow', 0, 0, FALSE, 1, 1, 1, '', FALSE, '')";
    int64_t id = begin().operation.id;
    run_sql("%s", schedule);
    piece = (struct dt_operation_piece){.id = id};
    OK(dt_store_operation_step(store, &piece, &arena, &err));
    piece = (struct dt_operation_piece){.id = id};
    assert_int_equal(dt_store_operation_step(store, &piece, &arena, &err), DT_INVALID);
    assert_int_equal(piece.id, id);
    OK(dt_store_operation_fail(store, id, dt_str(err.text), &err));
    show(id);
    assert_true(dt_str_is(op.error, "the schedule s creates jobs in the topic"));
    assert_true(is_there());
    struct dt_topic_deletion deletion = begin();
    assert_int_equal(deletion.keeper, DT_TOPIC_HAS_SCHEDULE);
    assert_int_equal(deletion.operation.id, 0);
}

FRESH_TEST(deleting_a_missing_topic_is_not_found)
{
    const struct dt_operation_ask nobody = {.filter.topic = S("nobody")};
    struct dt_topic_deletion deletion;
    assert_int_equal(dt_store_topic_delete_with_jobs(store, &nobody, 0, &arena, &deletion, &err), DT_NOT_FOUND);
    assert_int_equal(number("SELECT COUNT(*) FROM operations"), 0);
}

/* ---- without its jobs ---- */

static struct dt_topic_deletion delete_topic(struct dt_str name, dt_status expected)
{
    struct dt_topic_deletion deletion;
    assert_int_equal(dt_store_topic_delete(store, name, &arena, &deletion, &err), expected);
    return deletion;
}

FRESH_TEST(a_topic_without_live_jobs_is_deleted)
{
    struct dt_topic t;
    OK(dt_store_topic_ensure(store, S("a"), NULL, &err));
    run_sql("INSERT INTO topic_gates (topic) VALUES ('a'); INSERT INTO job_counts (topic, piece, writer, scheduled, "
            "dispatched, succeeded) VALUES ('a', 0, 0, 3, -1, 5), ('a', 1, 0, -1, 0, 0)");
    int64_t version = number("SELECT topics_version FROM installation");
    struct dt_topic_deletion deletion = delete_topic(S("a"), DT_OK);
    assert_members(deletion, (keeper, DT_TOPIC_HAS_JOBS), (jobs, 1));
    assert_int_equal(number("SELECT topics_version FROM installation"), version);
    assert_sql_number(1, "SELECT COUNT(*) FROM topic_gates");
    run_sql("UPDATE job_counts SET scheduled = 2 WHERE piece = 0");
    assert_int_equal(delete_topic(S("a"), DT_OK).keeper, DT_TOPIC_GOES);
    assert_true(number("SELECT topics_version FROM installation") > version);
    assert_sql_number(0, "SELECT COUNT(*) FROM topic_gates");
    assert_int_equal(dt_store_topic_get(store, S("a"), &arena, &t, &err), DT_NOT_FOUND);
    delete_topic(S("a"), DT_NOT_FOUND);
}

FRESH_TEST(a_topic_stays_while_a_schedule_makes_jobs_of_it)
{
    OK(dt_store_topic_ensure(store, S("a"), NULL, &err));
    run_sql("INSERT INTO schedules (name, topic, every_ms, anchor_at, time_zone, overlap, catch_up_ms, jitter_ms, "
            "paused, created_at, updated_at, version, digest, payload_binary, payload) VALUES ('s', 'a', 1000, 0, "
            "'UTC', 'allow', 0, 0, FALSE, 1, 1, 1, '', FALSE, '')");
    struct dt_topic_deletion deletion = delete_topic(S("a"), DT_OK);
    assert_int_equal(deletion.keeper, DT_TOPIC_HAS_SCHEDULE);
    assert_true(dt_str_is(deletion.schedule, "s"));
}

FRESH_TEST(a_deleted_topic_that_got_a_job_is_created_again)
{
    size_t n;
    OK(dt_store_topic_ensure(store, S("a"), NULL, &err));
    OK(dt_store_topic_ensure(store, S("b"), NULL, &err));
    delete_topic(S("a"), DT_OK);
    delete_topic(S("b"), DT_OK);
    run_sql("INSERT INTO job_counts (topic, piece, writer, scheduled) VALUES ('a', 0, 0, 1)");
    OK(dt_store_topics_revive(store, &arena, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(number("SELECT COUNT(*) FROM topics WHERE name = 'a'"), 1);
    OK(dt_store_topics_revive(store, &arena, &n, &err));
    assert_int_equal(n, 0);
    run_sql("UPDATE deleted_topics SET deleted_at = deleted_at - 86400001");
    OK(dt_store_topic_ensure(store, S("c"), NULL, &err));
    delete_topic(S("c"), DT_OK);
    assert_sql_number(1, "SELECT COUNT(*) FROM deleted_topics");
}

SUITE(open_store, close_store)
