/* What changes jobs and topics on a real server, over a wire that loses COMMITs (support/mysql_wire.h): nobody is told
 * that nothing happened when something may have. */

#include "support/suite.h"

#include "job/change/jobs.h"
#include "job/results/results.h"
#include "support/job_rows.h"
#include "support/mysql_wire.h"
#include "topic/topics.h"

#define FAR "next_at = 4000000000000"

static dt_store *store;
static struct dt_arena arena;
static struct dt_error err;
static struct dt_shard_map map;
static struct dt_job job;

static void open_store(void)
{
    mysql_fixture_open("unknown", 4, &store);
    dt_shard_map_init(&map, 1, 4);
}

static void close_store(void)
{
    wire_heal();
    mysql_fixture_close(store, &arena);
}

static void empty_tables(void)
{
    wire_heal();
    mysql_fixture_kill_sessions(); /* a session whose wire was cut keeps its locks until the server notices */
    mysql_fixture_empty(&arena);
    job_row(1, FAR);
    job_row_dispatched(2, 1, 0);
    job_row(3, "state = 'dead', next_at = NULL, attempt = 1, failures = 1");
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('t', 1, 1)");
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

/* ---- what changes something ---- */

static dt_status cancel(void)
{
    return dt_store_cancel(store, 1, false, &arena, &job, &err);
}

static dt_status cancel_retries(void)
{
    return dt_store_cancel(store, 2, true, &arena, &job, &err);
}

static dt_status patch(void)
{
    const struct dt_patch change = {.has_partition_key = true, .partition_key = DT_STR_LIT("p")};
    return dt_store_patch(store, 1, &change, &arena, &job, &err);
}

static dt_status run_now(void)
{
    return dt_store_run_now(store, 1, &arena, &job, &err);
}

static dt_status redrive(void)
{
    return dt_store_redrive(store, 3, &arena, &job, &err);
}

static dt_status apply(void)
{
    struct dt_apply a = {.result = {.job_id = 2, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    return dt_store_apply(store, &map, &a, 1, &err);
}

static dt_status pause_topic(void)
{
    return dt_store_topic_pause(store, DT_STR_LIT("t"), true, NULL, &err);
}

/* `done`: what is true once it has happened. */
static const struct {
    const char *name;
    dt_status (*change)(void);
    const char *done;
} changes[] = {
    {"cancel", cancel, "SELECT COUNT(*) FROM jobs WHERE id = 1 AND state = 'cancelled'"},
    {"cancel of the retries", cancel_retries, "SELECT COUNT(*) FROM jobs WHERE id = 2 AND version > 1"},
    {"patch", patch, "SELECT COUNT(*) FROM jobs WHERE id = 1 AND partition_key = 'p'"},
    {"run-now", run_now, "SELECT COUNT(*) FROM jobs WHERE id = 1 AND next_at < 4000000000000"},
    {"redrive", redrive, "SELECT COUNT(*) FROM jobs WHERE id = 3 AND state = 'scheduled'"},
    {"apply", apply, "SELECT COUNT(*) FROM jobs WHERE id = 2 AND state = 'succeeded'"},
    {"pause", pause_topic, "SELECT COUNT(*) FROM topics WHERE name = 't' AND paused = 1"},
};

/* Done, or honestly unknown; "unavailable" and "busy" would say that nothing happened. */
static void expect_honest(enum wire_loss loss)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        empty_tables();
        wire_loss = loss;
        dt_status status = changes[i].change();
        wire_heal();
        int64_t done = sql_number("%s", changes[i].done);
        print_message("%s: %s, %s\n", changes[i].name, dt_status_name(status), done ? "done" : "not done");
        if (status == DT_OK)
            assert_int_equal(done, 1);
        else
            assert_int_equal(status, DT_UNKNOWN);
    }
}

FRESH_TEST(a_change_with_an_unsent_commit_has_an_unknown_outcome)
{
    expect_honest(LOSE_BEFORE);
}

FRESH_TEST(a_change_with_an_unanswered_commit_has_an_unknown_outcome)
{
    expect_honest(LOSE_AFTER);
}

FRESH_TEST(a_change_without_a_fault_succeeds)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        empty_tables();
        OK(changes[i].change());
        assert_sql_number(1, "%s", changes[i].done);
    }
}

FRESH_TEST(a_change_whose_statements_are_lost_is_unavailable_and_undone_or_done)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        empty_tables();
        wire_execution_loss = LOSE_AFTER;
        dt_status status = changes[i].change();
        wire_heal();
        int64_t done = sql_number("%s", changes[i].done);
        print_message("%s: %s, %s\n", changes[i].name, dt_status_name(status), done ? "done" : "not done");
        assert_true(done ? status == DT_OK || status == DT_UNKNOWN : status != DT_OK);
    }
}

SUITE(open_store, close_store)
