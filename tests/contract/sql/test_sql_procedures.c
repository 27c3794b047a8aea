/* The schema as an interface: its procedures. */

#include "job/job.h"
#include "job/shard.h"
#include "support/rigs/sql_rig.h"

STORE_SUITE("sql", 7)

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

FRESH_TEST(dt_cancel_has_the_same_outcomes_as_the_api)
{
    job_row(7, NULL);
    assert_string_equal(answer("CALL dt_cancel(7)"), "7|cancelled\n");
    assert_job(
        7,
        "CONCAT_WS(' ', state, next_at IS NULL, due_band, purge_at - finished_at, version, updated_at = finished_at)",
        "cancelled 1 2 2592000000 2 1");
    assert_string_equal(answer("CALL dt_cancel(7)"), "7|cancelled\n");
    assert_job(7, "version", "2");
    assert_string_equal(answer("CALL dt_cancel(8)"), "8|not_found\n");
    for (int s = DT_DISPATCHED; s <= DT_DEAD; s++) {
        job_row_dispatched(10 + s, 1, 0);
        run_sql("UPDATE jobs SET state = %d WHERE id = %d", s + 1, 10 + s);
        char call[60], expected[60];
        snprintf(call, sizeof call, "CALL dt_cancel(%d)", 10 + s);
        snprintf(expected, sizeof expected, "%d|too_late\n", 10 + s);
        assert_string_equal(answer(call), expected);
        assert_job(10 + s, "version", "1");
    }
}

FRESH_TEST(dt_cancel_checks_the_in_flight_list_and_uses_the_topics_retention)
{
    run_sql("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 7, 1, 1)");
    job_row(7, "attempt = 1, attempt_status = 'failed', finished_at = 55, claim_shard = 2");
    run_sql("UPDATE shards SET inflight = '[[77,1,9],[7,1,9]]' WHERE shard = 2");
    assert_string_equal(answer("CALL dt_cancel(7)"), "7|too_late\n");
    run_sql("UPDATE shards SET inflight = '[[77,1,9],[17,1,9]]' WHERE shard = 2");
    assert_string_equal(answer("CALL dt_cancel(7)"), "7|cancelled\n");
    assert_job(7, "CONCAT_WS(' ', finished_at, purge_at - updated_at)", "55 7");
}

static void *cancel_seven(void *)
{
    answer("CALL dt_cancel(7)");
    return NULL;
}

FRESH_TEST(dt_cancel_waits_for_a_settlement_without_locks)
{
    job_row(7, "attempt = 1, attempt_status = 'failed', finished_at = 55, claim_shard = 2");
    run_sql("UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    pthread_t other = start_thread(cancel_seven, NULL);
    mysql_fixture_await_statement("%SLEEP(0.004)%");
    run_sql("UPDATE jobs SET version = 9 WHERE id = 7; UPDATE shards SET inflight = '[]'");
    pthread_join(other, NULL);
    assert_string_equal(cell, "7|cancelled\n");
    assert_job(7, "CONCAT_WS(' ', state, version)", "cancelled 10");
}

FRESH_TEST(dt_reschedule_takes_utc_and_follows_the_rule_of_near)
{
    job_row(7, "next_at = next_at + 1, attempt = 1");
    run_sql("SET time_zone = '-08:00'; CALL dt_reschedule(7, '2199-12-31 23:59:59.999'); SET time_zone = '+00:00'");
    assert_job(7, "CONCAT_WS(' ', run_at, next_at, near, version)", "7258118399999 7258118399999 0 2");
    run_sql("CALL dt_reschedule(7, '2100-01-01 00:00:00.000001')");
    assert_job(7, "run_at", "4102444800001");
    int64_t end = dt_near_end_ms(mysql_now_ms());
    run_sql("CALL dt_reschedule(7, '1970-01-01' + INTERVAL %lld MICROSECOND)", (long long)end * 1000);
    assert_job(7, "near", "0");
    run_sql("CALL dt_reschedule(7, '1970-01-01' + INTERVAL %lld MICROSECOND)", (long long)(end - 1) * 1000);
    assert_job(7, "near", "1");
    int64_t before = mysql_now_ms();
    assert_string_equal(answer("CALL dt_reschedule(7, '2001-01-01')"), "7|rescheduled\n");
    assert_in_range(sql_number("SELECT next_at FROM jobs"), before, mysql_now_ms());
    assert_int_not_equal(by_hand("CALL dt_reschedule(7, NULL)"), DT_OK);
    run_sql("UPDATE jobs SET state = 'dispatched'");
    assert_string_equal(answer("CALL dt_reschedule(7, '2100-01-01')"), "7|too_late\n");
    assert_string_equal(answer("CALL dt_reschedule(8, '2100-01-01')"), "8|not_found\n");
}

static void *redrive_seven(void *)
{
    answer("CALL dt_redrive(7)");
    return NULL;
}

/* The second one waits for the row in history, and finds it gone: the job is in `jobs` again. */
FRESH_TEST(the_second_of_two_redrives_at_once_gets_an_error)
{
    job_row(7, "state = 'dead', next_at = NULL, attempt = 1");
    run_sql("INSERT INTO history (id, part, topic, state, run_at, attempt, failures, attempt_status, due_at, "
            "dispatched_at, claim_shard, no_retries, retry, ack_timeout_ms, version, created_at, updated_at, purge_at, "
            "maker, digest, payload_binary, payload) SELECT id, 0, topic, state, run_at, attempt, failures, "
            "attempt_status, due_at, dispatched_at, claim_shard, no_retries, retry, ack_timeout_ms, version, "
            "created_at, updated_at, 9000000000000, maker, digest, payload_binary, payload FROM jobs; DELETE FROM "
            "jobs; INSERT INTO history_days VALUES (0, 0); BEGIN; SELECT id FROM history FOR UPDATE");
    pthread_t other = start_thread(redrive_seven, NULL);
    mysql_fixture_await_statement("%FROM history h WHERE%FOR UPDATE%");
    job_row(7, "attempt = 1");
    run_sql("DELETE FROM history; COMMIT");
    pthread_join(other, NULL);
    assert_string_equal(cell, "7|not_dead\n");
}

/* The operation that was begun last, as dispatchers find it. */
#define LAST_OPERATION                                                                                                 \
    "SELECT CONCAT_WS('|', kind, request, HEX(topic_from), HEX(topic_to), run_from, run_to, shift_ms, walk, "          \
    "look_at = started_at, created_to - started_at, LEFT(actor, 4)) FROM operations ORDER BY id DESC LIMIT 1"

#define LAST_FAILURES "SELECT CONCAT_WS('|', failed_from, failed_to) FROM operations ORDER BY id DESC LIMIT 1"

FRESH_TEST(a_set_of_jobs_is_changed_by_an_operation_that_one_call_begins)
{
    assert_non_null(strstr(answer("CALL dt_redrive_all('a.b', '2026-11-25', '2026-11-26 06:00:00')"), "begun|"));
    assert_sql("redrive|{\"topic\":\"a.b\",\"failed_from\":\"2026-11-25T00:00:00Z\",\"failed_to\":\"2026-11-26T06:00:"
               "00Z\"}|612E62|612E62|-9223372036854775807|9223372036854775807|0|jobs|1|1000|sql:",
               LAST_OPERATION);
    assert_sql("1795564800000|1795672800000", LAST_FAILURES);
    assert_non_null(strstr(answer("CALL dt_redrive_all('a.b', NULL, '2026-11-26 06:00:00')"), "begun|"));
    assert_sql("-9223372036854775807|1795672800000", LAST_FAILURES);
    assert_non_null(strstr(answer("CALL dt_redrive_all('a.b', NULL, NULL)"), "begun|"));
    assert_sql("", LAST_FAILURES);
    assert_non_null(strstr(answer("CALL dt_shift_all('a*', NULL, '2026-11-26', -86400)"), "begun|"));
    assert_sql("reschedule|{\"topic\":\"a*\",\"run_to\":\"2026-11-26T00:00:00Z\"}|61|617F|-9223372036854775807|"
               "1795651200000|-86400000|jobs|1|1000|sql:",
               LAST_OPERATION);
    assert_non_null(strstr(answer("CALL dt_cancel_all('*', NULL, NULL)"), "begun|"));
    assert_sql("cancel|{\"topic\":\"*\"}||7F|-9223372036854775807|9223372036854775807|0|jobs|1|1000|sql:",
               LAST_OPERATION);
}

FRESH_TEST(an_operation_without_a_topic_or_with_an_invalid_date_is_refused)
{
    run_sql("DELETE FROM operations");
    assert_int_not_equal(by_hand("CALL dt_cancel_all('', NULL, NULL)"), DT_OK);
    assert_int_not_equal(by_hand("CALL dt_redrive_all(NULL, NULL, NULL)"), DT_OK);
    run_sql("SET @mode = @@sql_mode, SESSION sql_mode = ''");
    assert_int_not_equal(by_hand("CALL dt_cancel_all('a', '0000-00-00', NULL)"), DT_OK);
    assert_int_not_equal(by_hand("CALL dt_cancel_all('a', NULL, '0000-00-00 00:00:00')"), DT_OK);
    run_sql("SET SESSION sql_mode = @mode");
    assert_sql("0", "SELECT COUNT(*) FROM operations");
}

FRESH_TEST(dt_redrive_resets_failures_but_not_the_attempt_number)
{
    job_row(7, "state = 'dead', next_at = NULL, attempt = 3, failures = 3, purge_at = 99");
    int64_t before = mysql_now_ms();
    assert_string_equal(answer("CALL dt_redrive(7)"), "7|redriven\n");
    assert_job(7, "CONCAT_WS(' ', state, attempt, failures, near, purge_at IS NULL, version)", "scheduled 3 0 1 1 2");
    assert_in_range(sql_number("SELECT next_at FROM jobs"), before, mysql_now_ms());
    assert_string_equal(answer("CALL dt_redrive(7)"), "7|not_dead\n");
    assert_string_equal(answer("CALL dt_redrive(8)"), "8|not_found\n");
}

FRESH_TEST(dt_explain_names_the_shard_that_the_dispatcher_uses)
{
    struct dt_shard_map map;
    static const unsigned counts[] = {1, 2, 7, 64, 1024};
    for (int64_t id = 5; id < INT64_C(1) << 50; id = id * 5 + 3)
        job_row(id, NULL);
    for (int i = 0; i < 5; i++) {
        run_sql("UPDATE installation SET shards = %u", counts[i]);
        dt_shard_map_init(&map, 1, counts[i]);
        for (int64_t id = 5; id < INT64_C(1) << 50; id = id * 5 + 3) {
            char call[60], expected[60];
            snprintf(call, sizeof call, "CALL dt_explain(%lld)", (long long)id);
            snprintf(expected, sizeof expected, "\nshard|%u (slot %u)", dt_shard_of(&map, id), dt_slot(id));
            if (!strstr(answer(call), expected))
                fail_msg("%s: expected %s in %s", call, expected, cell);
        }
    }
    run_sql("UPDATE installation SET shards = 7");
}

#define assert_explained(words)                                                                                        \
    do {                                                                                                               \
        if (!strstr(answer("CALL dt_explain(7)"), words))                                                              \
            fail_msg("expected \"%s\" in:\n%s", words, cell);                                                          \
    } while (0)

FRESH_TEST(dt_explain_gives_the_reason_for_waiting)
{
    struct dt_shard_map map;
    dt_shard_map_init(&map, 1, 7);
    unsigned shard = dt_shard_of(&map, 7);
    assert_explained("no job 7");
    run_sql("INSERT INTO topics (name, paused, created_at, updated_at) VALUES ('orders', TRUE, 1, 1)");
    job_row(7, "job_key = 'k'");
    assert_explained("scheduled: due in ");
    assert_explained("k (not in job_keys)");
    run_sql("UPDATE jobs SET next_at = 5; INSERT INTO job_keys VALUES ('orders', 'k', 8)");
    assert_explained("its topic is paused");
    assert_explained("k (moved on to job 8)");
    run_sql("UPDATE topics SET paused = FALSE");
    assert_explained("no dispatcher runs");
    run_sql("UPDATE shards SET owner = 'host:1' WHERE shard = %u", shard);
    assert_explained("no dispatcher runs"); /* a name in the row is not a process that lives */
    process_leads("host:2", shard);
    assert_explained("has no leader, though dispatchers run");
    run_sql("UPDATE processes SET waits = 'kafka'"); /* before it elects one */
    assert_explained("its shard waits for kafka");
    run_sql("DELETE FROM processes");
    process_leads("host:1", shard);
    assert_explained("not been heard of");
    run_sql("INSERT INTO shard_stats (shard, seen_at, epoch, waiting) VALUES (%u, " SQL_NOW ", 1, 'kafka')", shard);
    assert_explained("shard waits for kafka");
    run_sql("UPDATE shard_stats SET waiting = NULL");
    assert_explained("picks it up next");
    run_sql("UPDATE shards SET halted = 'ledger' WHERE shard = %u", shard);
    assert_explained("shard is halted");
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 1, attempt_status = 'dispatched', due_at = 1, "
            "dispatched_at = 3, claim_shard = %u",
            shard);
    assert_explained("attempt 1 waits for its result");
    assert_explained("late by 2 ms");
    run_sql("UPDATE jobs SET no_retries = TRUE");
    assert_explained("no attempt follows");
    run_sql("UPDATE shards SET inflight = '[[7,1,1]]' WHERE shard = %u", shard);
    assert_explained("is halted");
    run_sql("UPDATE shards SET halted = NULL");
    assert_explained("on its way to Kafka");
    run_sql("UPDATE topics SET delivery = 'http'");
    assert_explained("callback|no URL: its attempts fail");
    run_sql("UPDATE topics SET callback_url = 'http://t/'");
    assert_explained("callback|http://t/ (its topic's)");
    run_sql("UPDATE jobs SET callback_url = 'http://j/'");
    assert_explained("callback|http://j/\n");
    run_sql("UPDATE jobs SET state = 'dead', next_at = NULL, purge_at = 5, error_at = 5, error_code = 'boom'");
    assert_explained("state|dead\n");
    assert_explained("1970-01-01 00:00:00.005 boom");
}

FRESH_TEST(dt_explain_names_a_limit_or_a_missing_pop)
{
    run_sql("INSERT INTO topics (name, max_in_flight, created_at, updated_at) VALUES ('orders', 2, 1, 1)");
    run_sql("DELETE FROM processes");
    job_row(7, "next_at = 5");
    assert_explained("scheduled: due, but no dispatcher runs");
    run_sql(
        "INSERT INTO job_counts (topic, piece, writer, dispatched) VALUES ('orders', 0, 1, 2), ('orders', 3, 2, 1)");
    assert_explained("scheduled: due, but 3 attempts of its topic are in flight, of at most 2 (max_in_flight)");
    run_sql("UPDATE topics SET max_in_flight = NULL, rate_limit = '600/m'");
    run_sql("INSERT INTO topic_gates (topic, next_ns) VALUES ('orders', 9000000000000000000)");
    assert_explained("scheduled: due, but its topic's rate_limit of 600/m is used up");
    run_sql("UPDATE topics SET rate_limit = NULL, delivery = 'pull'");
    assert_explained("scheduled: due, and nobody has popped it yet");
}

FRESH_TEST(dt_explain_shows_rows_of_the_inbox)
{
    job_row(7, "job_key = 'k'");
    run_sql("INSERT INTO job_inbox (id, action, topic, job_key, job_id) VALUES (11, 'cancel', 'orders', 'k', NULL), "
            "(12, 'run_now', NULL, NULL, 7), (13, 'create', 'orders', 'k', NULL), (14, 'create', 'orders', 'l', NULL); "
            "UPDATE job_inbox SET error = 'key-conflict: other', error_at = 5 WHERE id = 13");
    assert_explained("2 rows of job_inbox wait for this job or its key; the first: 11 cancel");
    assert_explained("could not be carried out; the last: 13 create: key-conflict: other");
    run_sql("DELETE FROM job_inbox");
    assert_null(strstr(answer("CALL dt_explain(7)"), "inbox"));
}

FRESH_TEST(dt_clear_halt_lets_the_operator_choose_whether_the_batch_was_sent)
{
    static const char halted[] = "UPDATE shards SET halted = 'why', inflight = '[[7,1,1]]', send_n = 1, ledger_offset "
                                 "= 40, version = 3, epoch = 9 WHERE shard = 2";
    static const char row[] = "SELECT CONCAT_WS(' ', halted IS NULL, inflight, send_n, ledger_offset, version, epoch) "
                              "FROM shards WHERE shard = 2";
    run_sql("%s", halted);
    assert_string_equal(answer("CALL dt_clear_halt(2, 'resend', NULL)"), "2|cleared\n");
    assert_sql("1 [[7,1,1]] 1 40 4 9", "%s", row);
    assert_string_equal(answer("CALL dt_clear_halt(2, 'drop', NULL)"), "2|not_halted\n");
    assert_sql("1 [[7,1,1]] 1 40 4 9", "%s", row);
    run_sql("%s", halted);
    assert_string_equal(answer("CALL dt_clear_halt(2, 'drop', -1)"), "2|cleared\n");
    assert_sql("1 [] 0 -1 4 9", "%s", row);
    run_sql("%s", halted);
    assert_string_equal(answer("CALL dt_clear_halt(2, 'drop', 77)"), "2|cleared\n");
    assert_sql("1 [] 0 77 4 9", "%s", row);
    assert_string_equal(answer("CALL dt_clear_halt(99, 'drop', 77)"), "99|not_found\n");
    run_sql("%s", halted);
    assert_int_not_equal(by_hand("CALL dt_clear_halt(2, 'forget', NULL)"), DT_OK);
    assert_int_not_equal(by_hand("CALL dt_clear_halt(2, NULL, NULL)"), DT_OK);
    assert_int_not_equal(by_hand("CALL dt_clear_halt(2, 'drop', -2)"), DT_OK);
    assert_sql("0 [[7,1,1]] 1 40 3 9", "%s", row);
}

FRESH_TEST(after_a_cleared_halt_deadlines_restart_and_trimming_waits)
{
    job_row_dispatched(7, 2, 2);
    job_row_dispatched(8, 2, 2);
    job_row_dispatched(9, 2, 2);
    run_sql("UPDATE jobs SET next_at = 5; UPDATE jobs SET next_at = " SQL_NOW " + 9000000 WHERE id = 9");
    run_sql("UPDATE shards SET halted = 'why', inflight = '[[7,2,1],[8,1,1],[9,2,1]]', send_n = 3, trim_offset = 30, "
            "trim_at = 5 WHERE shard = 2");
    assert_sql("[[7,2,1],[8,1,1],[9,2,1]]", "SELECT inflight FROM shards WHERE shard = 2");
    assert_string_equal(answer("CALL dt_clear_halt(2, 'drop', NULL)"), "2|cleared\n");
    assert_sql("1 1", "SELECT CONCAT_WS(' ', trim_offset IS NULL, trim_at IS NULL) FROM shards WHERE shard = 2");
    assert_sql("1", "SELECT next_at BETWEEN " SQL_NOW " + 30000 AND " SQL_NOW " + 60000 FROM jobs WHERE id = 7");
    assert_sql("5", "SELECT next_at FROM jobs WHERE id = 8"); /* not the attempt that was in flight */
    assert_sql("1", "SELECT next_at > " SQL_NOW " + 8000000 FROM jobs WHERE id = 9");
}

FRESH_TEST(v_in_flight_shows_each_attempt_that_is_claimed_and_not_settled)
{
    job_row_dispatched(7, 2, 2);
    run_sql("UPDATE shards SET inflight = '[[7,2,1],[8,1,5]]', send_n = 1 WHERE shard = 2");
    run_sql("UPDATE shards SET inflight = '[[7,2' WHERE shard = 1");
    assert_sql("2 1 1 7/2 orders dispatched 2", "SELECT CONCAT_WS(' ', shard, place, goes_next, ce_id, kafka_topic, "
                                                "state, latest_attempt) FROM v_in_flight WHERE job_id = 7");
    assert_sql("2 2 0 8/1 1970-01-01 00:00:00.005",
               "SELECT CONCAT_WS(' ', shard, place, goes_next, ce_id, due_at) FROM v_in_flight WHERE job_id = 8");
    assert_sql("2", "SELECT COUNT(*) FROM v_in_flight");
}

FRESH_TEST(a_procedure_leaves_no_transaction_or_isolation_level_behind)
{
    job_row(7, NULL);
    run_sql("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; CALL dt_cancel(7)");
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_run(db, "UPDATE jobs SET version = version + 1 WHERE id = 7", DT_NO_PARAMS, NULL, &err)); /* not locked */
    run_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    assert_job(7, "version", "3");
}

#define AS_MARKED                                                                                                      \
    "CONCAT_WS(' ', state, attempt, attempt_status, near, next_at - dispatched_at = ack_timeout_ms, finished_at, "     \
    "claim_shard)"

FRESH_TEST(dt_mark_sent_records_an_attempt_that_a_restored_row_lacks)
{
    job_row(7, NULL);
    assert_string_equal(answer("CALL dt_mark_sent(7, 1)"), "7|marked\n");
    assert_job(7, AS_MARKED, "dispatched 1 dispatched 1 1 0 -1");
    assert_job(7, "due_at = run_at", "1");
    assert_string_equal(answer("CALL dt_mark_sent(7, 1)"), "7|known\n");
    assert_job(7, "version", "2");
    assert_string_equal(answer("CALL dt_mark_sent(7, 2)"), "7|marked\n");
    assert_job(7, AS_MARKED, "dispatched 2 dispatched 1 1 0 -1");
    assert_sql("1 timed_out restored", "SELECT CONCAT_WS(' ', attempt, status, error_code) FROM attempts");
    assert_sql("0 1", "SELECT CONCAT_WS(' ', 1 + SUM(scheduled), SUM(dispatched)) FROM job_counts");
    assert_string_equal(answer("CALL dt_mark_sent(8, 1)"), "8|not_found\n");
    assert_int_not_equal(by_hand("CALL dt_mark_sent(7, 0)"), DT_OK);
    assert_int_not_equal(by_hand("CALL dt_mark_sent(7, NULL)"), DT_OK);
}

FRESH_TEST(dt_mark_sent_changes_neither_earlier_attempts_nor_finished_jobs)
{
    job_row(7, "attempt = 1, attempt_status = 'failed', due_at = 3, dispatched_at = 4, finished_at = 5");
    assert_string_equal(answer("CALL dt_mark_sent(7, 2)"), "7|marked\n");
    assert_sql("1 failed 3 4 5",
               "SELECT CONCAT_WS(' ', attempt, status, due_at, dispatched_at, finished_at) FROM attempts");
    for (int s = DT_SUCCEEDED; s <= DT_CANCELLED; s++) {
        job_row_dispatched(10 + s, 1, 0);
        run_sql("UPDATE jobs SET state = %d, next_at = NULL WHERE id = %d", s + 1, 10 + s);
        char call[60], expected[60];
        snprintf(call, sizeof call, "CALL dt_mark_sent(%d, 2)", 10 + s);
        snprintf(expected, sizeof expected, "%d|finished\n", 10 + s);
        assert_string_equal(answer(call), expected);
        assert_job(10 + s, "CONCAT_WS(' ', attempt, version)", "1 1");
    }
}

FRESH_TEST(views_and_procedures_need_no_definer)
{
    assert_sql(
        "0",
        "SELECT COUNT(*) FROM information_schema.views WHERE table_schema = DATABASE() AND security_type <> 'INVOKER'");
    assert_sql("0", "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE() AND "
                    "security_type <> 'INVOKER'");
    assert_sql("14", "SELECT COUNT(*) FROM information_schema.views WHERE table_schema = DATABASE()");
    assert_sql("13", "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE()");
}

FRESH_TEST(every_table_has_a_comment_and_so_have_its_important_columns)
{
    assert_sql("", "SELECT GROUP_CONCAT(table_name) FROM information_schema.tables WHERE table_schema = DATABASE() AND "
                   "table_type = 'BASE TABLE' AND table_comment = '' AND table_name <> 'schema_migrations'");
}

SUITE(open_store, close_store)
