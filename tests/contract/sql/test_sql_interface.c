/* The schema as an interface: views, CHECKs and edits by hand. */

#include "job/archive/archive.h"
#include "job/change/jobs.h"
#include "job/results/results.h"
#include "support/rigs/sql_rig.h"

static struct dt_job job;

STORE_SUITE("sql", 7)

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

/* ---- views ---- */

FRESH_TEST(v_jobs_shows_times_as_dates_in_utc_to_the_millisecond)
{
    job_row(7, "run_at = 1795257000123, next_at = 4102444800001, attempt = 1, due_at = 1795257000123, dispatched_at = "
               "1795257000130, finished_at = -1");
    run_sql("SET time_zone = '+05:30'");
    const char *row =
        sql_text(cell, sizeof cell, "SELECT CONCAT_WS(' ', run_at, next_at, lateness_ms, finished_at) FROM v_jobs");
    assert_string_equal(row, "2026-11-21 10:30:00.123 2100-01-01 00:00:00.001 7 1969-12-31 23:59:59.999");
    run_sql("SET time_zone = '+00:00'");
    assert_sql("datetime(3)", "SELECT LEFT(column_type, 11) FROM information_schema.columns WHERE table_schema = "
                              "DATABASE() AND table_name = 'v_jobs' AND column_name = 'next_at'");
}

FRESH_TEST(v_jobs_shows_max_attempts)
{
    static const char *const retries[] = {"", "1s", "15s 3m", " 15s 3m ", DT_RETRY_DEFAULT};
    static const char *const expected[] = {"1", "2", "3", "3", "10"};
    job_row(7, NULL);
    for (int i = 0; i < 5; i++) {
        run_sql("UPDATE jobs SET retry = '%s'", retries[i]);
        assert_sql(expected[i], "SELECT max_attempts FROM v_jobs");
    }
}

FRESH_TEST(v_jobs_shows_what_a_job_waits_for)
{
    run_sql("INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('orders', TRUE, 1, 1)");
    job_row(7, NULL);
    assert_sql("time", "SELECT waiting_for FROM v_jobs");
    run_sql("UPDATE jobs SET next_at = 5");
    assert_sql("paused", "SELECT waiting_for FROM v_jobs");
    run_sql("UPDATE topics SET paused = FALSE");
    assert_sql("leader", "SELECT waiting_for FROM v_jobs");
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1, claim_shard = 2");
    assert_sql("ack", "SELECT waiting_for FROM v_jobs");
    run_sql("UPDATE shards SET inflight = '[[7,1,5]]' WHERE shard = 2");
    assert_sql("kafka", "SELECT waiting_for FROM v_jobs");
    run_sql("UPDATE jobs SET state = 'succeeded'");
    assert_sql("", "SELECT waiting_for FROM v_jobs");
}

FRESH_TEST(v_jobs_shows_the_slot_that_the_dispatcher_uses)
{
    for (int64_t id = 1; id < INT64_C(1) << 50; id = id * 7 + 1) {
        job_row(id, NULL);
        assert_sql_number(dt_slot(id), "SELECT slot FROM v_jobs WHERE id = %lld", (long long)id);
    }
}

FRESH_TEST(v_overdue_lists_jobs_that_should_have_been_sent_or_reported)
{
    job_row(1, NULL);
    job_row(2, "next_at = " SQL_NOW " - 5000");
    job_row(3, "next_at = " SQL_NOW " - 864000000, near = FALSE");
    job_row_dispatched(4, 1, 0);
    job_row(5, "state = 'dispatched', next_at = " SQL_NOW " - 1");
    job_row(6, "state = 'cancelled', next_at = 5");
    job_row(7, "state = 'dead', next_at = NULL");
    assert_sql("2,3,5", "SELECT GROUP_CONCAT(id ORDER BY id) FROM v_overdue");
    assert_sql("dispatch", "SELECT missing FROM v_overdue WHERE id = 2 AND overdue_ms >= 5000 AND overdue_ms < 65000");
    assert_sql("result", "SELECT missing FROM v_overdue WHERE id = 5");
}

FRESH_TEST(v_backlog_counts_per_topic_and_state)
{
    job_row(1, NULL);
    job_row(2, "next_at = 5");
    job_row(3, "state = 'dead', next_at = NULL, leave_at = 1");
    job_row(4, "topic = 'other'");
    mysql_fixture_audit();
    assert_sql("orders dead 1 0,orders scheduled 2 1,other scheduled 1 0",
               "SELECT GROUP_CONCAT(CONCAT_WS(' ', topic, state, jobs, overdue) ORDER BY topic, CAST(state AS CHAR)) "
               "FROM v_backlog");
    assert_sql("1970-01-01 00:00:00.005",
               "SELECT overdue_since FROM v_backlog WHERE topic = 'orders' AND state = 'scheduled'");
    run_sql("INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('orders', TRUE, 1, 1)");
    assert_sql("2 0 - 1", "SELECT CONCAT_WS(' ', jobs, overdue, COALESCE(overdue_since, '-'), held) FROM v_backlog "
                          "WHERE topic = 'orders' AND state = 'scheduled'"); /* held, and not overdue */
}

FRESH_TEST(v_shards_counts_attempts_in_flight_even_of_an_invalid_list)
{
    run_sql("UPDATE shards SET inflight = '[[1,1,1],[2,1,1]]', owner = 'host:1' WHERE shard = 3; UPDATE shards SET "
            "inflight = 'oops' WHERE shard = 4; INSERT INTO shard_stats (shard, seen_at, epoch, waiting) VALUES "
            "(3, " SQL_NOW " - 2000, 1, 'kafka')");
    process_leads("host:1", 3);
    assert_sql("2 host:1 kafka 1", "SELECT CONCAT_WS(' ', in_flight, owner, waiting, seen_ms_ago BETWEEN 2000 AND "
                                   "60000) FROM v_shards WHERE shard = 3");
    assert_sql("1", "SELECT in_flight IS NULL FROM v_shards WHERE shard = 4");
    assert_sql("7", "SELECT COUNT(*) FROM v_shards");
    assert_sql("waiting no-leader",
               "SELECT GROUP_CONCAT(DISTINCT health ORDER BY shard = 3 DESC SEPARATOR ' ') FROM v_shards");
    run_sql("DELETE FROM processes");
    assert_sql("no-dispatcher -",
               "SELECT CONCAT_WS(' ', health, COALESCE(waiting, '-')) FROM v_shards WHERE shard = 3");
}

FRESH_TEST(v_attempts_and_v_dead_show_the_failures_of_a_job)
{
    job_row(7, "state = 'dead', next_at = NULL, attempt = 2, failures = 2, attempt_status = 'timed_out', due_at = 10, "
               "dispatched_at = 15, finished_at = 20, error_at = 20, error_code = 'ack_timeout'");
    run_sql("INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, "
            "error_message) VALUES (7, 1, 'failed', 1, 2, 3, 'boom', 'it did')");
    job_row(8, NULL);
    assert_sql("1 failed 1 boom it did,2 timed_out 5 ack_timeout",
               "SELECT GROUP_CONCAT(CONCAT_WS(' ', attempt, status, lateness_ms, error_code, error_message) ORDER BY "
               "attempt) FROM v_attempts WHERE job_id = 7");
    assert_sql("0", "SELECT COUNT(*) FROM v_attempts WHERE job_id = 8");
    assert_sql("7 2 2 ack_timeout 1970-01-01 00:00:00.020",
               "SELECT CONCAT_WS(' ', id, attempt, failures, error_code, error_at) FROM v_dead");
    run_sql("UPDATE jobs SET attempt_status = 'snoozed' WHERE id = 7");
    assert_sql("1", "SELECT error_code IS NULL FROM v_attempts WHERE job_id = 7 AND attempt = 2");
}

FRESH_TEST(v_audit_conserves_every_job_ever_made)
{
    for (int s = 0; s < DT_JOB_STATES; s++) {
        for (int i = 0; i <= s; i++)
            job_row(10 * s + i, "leave_at = 1, state = %d, next_at = %s", s + 1, s < 2 ? "next_at" : "NULL");
    }
    assert_sql("15", "SELECT miscounted FROM v_recount");
    assert_int_equal(mysql_fixture_audit(), 15);
    assert_int_equal(mysql_fixture_audit(), 0);
    assert_sql("1", "SELECT audited_since IS NOT NULL FROM v_audit");
    run_sql("INSERT INTO removed_jobs VALUES ('orders', 100), ('gone', 5); UPDATE job_counts SET created = created + "
            "100, edited = edited - 2 LIMIT 1");
    assert_sql("gone 0 0 0 0 0 0 5 0 0 -5,orders 100 1 2 3 4 5 100 13 15 -2",
               "SELECT GROUP_CONCAT(CONCAT_WS(' ', topic, created, scheduled, dispatched, succeeded, dead, cancelled, "
               "removed, edited, corrected, missing) ORDER BY topic) FROM v_audit");
    assert_sql(
        "0", "SELECT SUM(miscounted + live_without_next_at + finished_with_next_at + keys_without_job) FROM v_recount");
    run_sql("UPDATE jobs SET state = 'cancelled' WHERE id = 0; INSERT INTO job_keys VALUES ('orders', 'k', 99)");
    assert_sql("1 1",
               "SELECT CONCAT_WS(' ', finished_with_next_at, keys_without_job) FROM v_recount WHERE topic = 'orders'");
    assert_sql("1", "SELECT miscounted FROM v_recount WHERE topic = 'orders'");
}

/* ---- CHECKs and hand edits ---- */

FRESH_TEST(a_live_job_must_have_a_time)
{
    job_row(7, NULL);
    assert_int_equal(by_hand("UPDATE jobs SET next_at = NULL WHERE id = 7"), DT_INVALID);
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL WHERE id = 7");
    assert_int_equal(by_hand("UPDATE jobs SET state = 'scheduled' WHERE id = 7"), DT_INVALID);
    assert_int_equal(by_hand("UPDATE jobs SET state = 'dispatched' WHERE id = 7"), DT_INVALID);
    assert_job(7, "state", "dead");
}

FRESH_TEST(invalid_values_are_refused_by_checks)
{
    job_row(7, NULL);
    assert_int_not_equal(by_hand("UPDATE jobs SET state = 'done' WHERE id = 7"), DT_OK);
    assert_int_not_equal(by_hand("UPDATE jobs SET attempt = -1 WHERE id = 7"), DT_OK);
    assert_int_not_equal(by_hand("UPDATE jobs SET failures = -1 WHERE id = 7"), DT_OK);
    assert_int_not_equal(by_hand("UPDATE jobs SET payload = NULL WHERE id = 7"), DT_OK);
    assert_int_not_equal(
        by_hand("INSERT INTO topics (name, ack_timeout_ms, created_at, updated_at) VALUES ('a', 0, 1, 1)"), DT_OK);
    assert_int_not_equal(
        by_hand("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('a', -1, 1, 1)"), DT_OK);
    assert_int_not_equal(
        by_hand("INSERT INTO installation (one, name, uuid, shards, created_at) VALUES (2, 'x', 'x', 1, 1)"), DT_OK);
}

/* Whatever `near` says, a hand edit cannot break the index: its key follows next_at. */
FRESH_TEST(a_time_set_by_hand_is_in_the_due_index)
{
    job_row(7, NULL);
    run_sql("UPDATE jobs SET next_at = 4102444800001 WHERE id = 7");
    assert_job(7, "CONCAT_WS(' ', due_band, due_key)", "1 4102444800001");
    run_sql("UPDATE jobs SET near = FALSE, next_at = 4102444800001 WHERE id = 7");
    assert_job(7, "CONCAT_WS(' ', due_band, due_key)", "0 4102444800000");
    run_sql("UPDATE jobs SET state = 'cancelled', next_at = NULL, leave_at = 9 WHERE id = 7");
    assert_job(7, "CONCAT_WS(' ', due_band, due_key)", "2 9");
}

FRESH_TEST(a_time_of_zero_or_less_is_1_in_the_due_index)
{
    static const char *const times[] = {"0", "-1", "-86400001", "-9223372036854775808"};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t near = 7 + 2 * (int64_t)i, far = near + 1;
        job_row(near, "next_at = %s, near = TRUE", times[i]);
        job_row(far, "next_at = %s, near = FALSE", times[i]);
        assert_job(near, "CONCAT_WS(' ', due_band, due_key)", "1 1");
        assert_job(far, "CONCAT_WS(' ', due_band, due_key)", "0 0");
    }
    assert_sql("8", "SELECT COUNT(*) FROM v_overdue WHERE overdue_ms = 0 AND missing = 'dispatch'");
    assert_int_not_equal(by_hand("UPDATE jobs SET next_at = 253402300800000 WHERE id = 7"), DT_OK);
    assert_int_not_equal(by_hand("UPDATE jobs SET ack_timeout_ms = 0 WHERE id = 7"), DT_OK);
}

FRESH_TEST(counters_must_leave_room_to_rise)
{
    static const char *const columns[] = {"attempt", "failures", "version"};
    job_row(7, NULL);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        char sql[80];
        snprintf(sql, sizeof sql, "UPDATE jobs SET %s = 2000000000", columns[i]);
        assert_int_not_equal(by_hand(sql), DT_OK);
        snprintf(sql, sizeof sql, "UPDATE jobs SET %s = 1999999999", columns[i]);
        OK(by_hand(sql));
    }
}

FRESH_TEST(texts_of_every_view_are_compared_by_a_client_of_another_collation)
{
    static const char column[] =
        "SELECT CONCAT(table_name, ' WHERE ', column_name) FROM information_schema.columns WHERE table_schema = "
        "DATABASE() AND table_name LIKE 'v\\_%%' AND collation_name IS NOT NULL ORDER BY 1 LIMIT 1 OFFSET %d";
    char of_view[200];
    int n = 0;
    run_sql("SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci");
    while (*sql_text(of_view, sizeof of_view, column, n)) {
        assert_sql("0", "SELECT COUNT(*) FROM %s = 'no such word'", of_view);
        n++;
    }
    run_sql("SET NAMES utf8mb4");
    assert_in_range(n, 20, 1000);
}

FRESH_TEST(a_job_with_endless_retention_can_be_cancelled)
{
    run_sql(
        "INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 9223372036854775807, 1, 1)");
    job_row(7, NULL);
    assert_string_equal(answer("CALL dt_cancel(7)"), "7|cancelled\n");
    assert_sql("1", "SELECT COUNT(*) FROM v_jobs WHERE id = 7 AND purge_at > '9999-01-01'");
}

FRESH_TEST(dt_reschedule_handles_extreme_dates)
{
    job_row(7, NULL);
    run_sql("CALL dt_reschedule(7, '9999-12-31 23:59:59.999999')");
    assert_job(7, "CONCAT_WS(' ', next_at, near)", "253402300799999 0");
    int64_t before = mysql_now_ms();
    run_sql("CALL dt_reschedule(7, '1000-01-01')");
    assert_in_range(sql_number("SELECT next_at FROM jobs"), before, mysql_now_ms());
    run_sql("CALL dt_reschedule(7, '1969-12-31 23:59:59.999')");
    assert_in_range(sql_number("SELECT next_at FROM jobs"), before, mysql_now_ms());
    run_sql("SET sql_mode = ''");
    dt_status zeros = by_hand("CALL dt_reschedule(7, '0000-00-00')");
    run_sql("SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'");
    assert_int_not_equal(zeros, DT_OK);
    assert_non_null(strstr(err.text, "needs a time"));
}

FRESH_TEST(the_store_continues_after_documented_manual_edits)
{
    struct dt_shard_map map;
    dt_shard_map_init(&map, 1, 7);
    /* scheduled -> cancelled, next_at left behind */
    job_row(1, NULL);
    run_sql("UPDATE jobs SET state = 'cancelled' WHERE id = 1");
    OK(dt_store_cancel(store, 1, false, &arena, &job, &err));
    assert_members(job, (version, 1), (next_at_ms, 0));
    /* dead -> scheduled: one more attempt with the old budget */
    job_row(2, "state = 'dead', next_at = NULL, attempt = 3, failures = 3, attempt_status = 'failed', purge_at = 5");
    run_sql("UPDATE jobs SET state = 'scheduled', next_at = 5 WHERE id = 2");
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 4, attempt_status = 'dispatched' WHERE id = 2");
    struct dt_apply a = {.result = {.job_id = 2, .attempt = 4, .status = DT_RESULT_FAILED, .retry_after_ms = -1}};
    OK(dt_store_apply(store, &map, &a, 1, &err));
    assert_job(2, "CONCAT_WS(' ', state, failures, purge_at > 5)", "dead 4 1");
    /* cancelled -> scheduled */
    job_row(3, "state = 'cancelled', next_at = NULL, finished_at = 5, purge_at = 6");
    run_sql("UPDATE jobs SET state = 'scheduled', next_at = 4102444800001 WHERE id = 3");
    assert_job(3, "CONCAT_WS(' ', due_band, due_key)", "1 4102444800001");
    OK(dt_store_run_now(store, 3, &arena, &job, &err));
    assert_int_equal(job.state, DT_SCHEDULED);
    /* dispatched -> scheduled: the attempt's failure comes too late, its success ends the job */
    job_row_dispatched(4, 1, 0);
    run_sql("UPDATE jobs SET state = 'scheduled' WHERE id = 4");
    a.result = (struct dt_result){.job_id = 4, .attempt = 1, .status = DT_RESULT_FAILED, .retry_after_ms = -1};
    OK(dt_store_apply(store, &map, &a, 1, &err));
    assert_int_equal(a.outcome, DT_OUTCOME_STALE);
    a.result.status = DT_RESULT_SUCCEEDED;
    OK(dt_store_apply(store, &map, &a, 1, &err));
    assert_int_equal(a.outcome, DT_OUTCOME_APPLIED);
    /* dispatched -> succeeded, dead, cancelled: no result applies */
    for (int s = DT_SUCCEEDED; s < DT_JOB_STATES; s++) {
        job_row_dispatched(10 + s, 1, 0);
        run_sql("UPDATE jobs SET state = %d WHERE id = %d", s + 1, 10 + s);
        a.result = (struct dt_result){.job_id = 10 + s, .attempt = 1, .status = DT_RESULT_FAILED, .retry_after_ms = -1};
        OK(dt_store_apply(store, &map, &a, 1, &err));
        assert_int_equal(a.outcome, DT_OUTCOME_STALE);
    }
    /* payload and policy of a scheduled one */
    job_row(20, NULL);
    run_sql("UPDATE jobs SET payload = '{\"n\":2}', retry = '1s, 2s', ack_timeout_ms = 9 WHERE id = 20");
    OK(dt_store_get(store, 20, &arena, &job, &err));
    assert_string_equal(job.payload.p, "{\"n\":2}");
    /* and each is counted where it stands */
    size_t done;
    mysql_fixture_audit();
    OK(dt_store_promote(store, sql_number("SELECT " DT_SQL_NOW_MS), 100, &done, &err));
    assert_int_equal(done, 4);
    assert_sql("8 0", "SELECT CONCAT_WS(' ', scheduled + dispatched + succeeded + dead + cancelled, missing) FROM "
                      "v_audit WHERE topic = 'orders'");
    assert_sql("0 0", "SELECT CONCAT_WS(' ', miscounted, live_without_next_at) FROM v_recount WHERE topic = 'orders'");
}

SUITE(open_store, close_store)
