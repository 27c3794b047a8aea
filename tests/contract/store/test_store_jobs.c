/*
 * One job on a real server: reading, changing, cancelling, running, redriving; and the races of cancel with a claim,
 * which are played by hand on the test's own connection, as a leader would do it.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "support/store_suite.h"

#define HOUR_MS INT64_C(3600000)
#define assert_str(slice, text)                                                                                        \
    do {                                                                                                               \
        assert_non_null((slice).p);                                                                                    \
        assert_string_equal((slice).p, text);                                                                          \
    } while (0)

static struct dt_job job;
static struct dt_attempt_list attempts;

STORE_SUITE("jobs", 0)

static dt_status cancel(int64_t id)
{
    return dt_store_cancel(store, id, false, &arena, &job, &err);
}

static dt_status list_attempts(int64_t id, int64_t after, unsigned limit)
{
    const struct dt_attempt_filter filter = {.job_id = id, .after = after, .limit = limit};
    return dt_store_attempts(store, &filter, &arena, &attempts, &err);
}

static dt_status patch(int64_t id, struct dt_patch p)
{
    return dt_store_patch(store, id, &p, &arena, &job, &err);
}

/* ---- reading ---- */

static void a_job_is_read_back_column_by_column(void **state)
{
    (void)state;
    job_row(&fx, 7,
            "job_key = 'k\\\"1', state = 'dispatched', run_at = 1000, next_at = 2000, attempt = 3, failures = 2, "
            "attempt_status = 'dispatched', due_at = 3000, dispatched_at = 4000, finished_at = 5000, claim_shard = 2, "
            "no_retries = TRUE, retry = '1s', ack_timeout_ms = 6000, partition_key = 'p', headers = '{}', "
            "callback_url = 'http://a/', content_type = 'text/plain', payload_binary = TRUE, error_code = 'c', "
            "error_message = 'm', "
            "error_at = 7000, created_at = 8000, updated_at = 9000, version = 10, payload = UNHEX('00FF')");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    assert_int_equal(job.id, 7);
    assert_str(job.topic, "orders");
    assert_str(job.key, "k\"1");
    assert_int_equal(job.state, DT_DISPATCHED);
    assert_int_equal(job.run_at_ms, 1000);
    assert_int_equal(job.next_at_ms, 2000);
    assert_int_equal(job.attempt, 3);
    assert_int_equal(job.failures, 2);
    assert_int_equal(job.attempt_status, DT_ATTEMPT_DISPATCHED);
    assert_int_equal(job.due_at_ms, 3000);
    assert_int_equal(job.dispatched_at_ms, 4000);
    assert_int_equal(job.finished_at_ms, 5000);
    assert_int_equal(job.claim_shard, 2);
    assert_true(job.no_retries);
    assert_str(job.retry, "1s");
    assert_int_equal(job.ack_timeout_ms, 6000);
    assert_str(job.partition_key, "p");
    assert_str(job.headers, "{}");
    assert_str(job.callback_url, "http://a/");
    assert_str(job.content_type, "text/plain");
    assert_true(job.payload_binary);
    assert_str(job.error_code, "c");
    assert_str(job.error_message, "m");
    assert_int_equal(job.error_at_ms, 7000);
    assert_int_equal(job.created_at_ms, 8000);
    assert_int_equal(job.updated_at_ms, 9000);
    assert_int_equal(job.version, 10);
    assert_int_equal(job.payload.n, 2);
    assert_memory_equal(job.payload.p, "\0\xff", 2);
}

static void absent_columns_are_absent(void **state)
{
    (void)state;
    job_row(&fx, 7, "payload = ''");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    assert_null(job.key.p);
    assert_null(job.partition_key.p);
    assert_null(job.headers.p);
    assert_null(job.callback_url.p);
    assert_null(job.content_type.p);
    assert_null(job.error_code.p);
    assert_non_null(job.payload.p);
    assert_int_equal(job.payload.n, 0);
    assert_int_equal(job.claim_shard, -1);
    assert_int_equal(job.attempt_status, DT_ATTEMPT_NONE);
}

static void every_state_and_attempt_status_is_read_as_its_word_says(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 1");
    for (int s = 0; s < DT_JOB_STATES; s++) {
        mysql_fixture_run(&fx, "UPDATE jobs SET state = '%s'", dt_job_state_name((enum dt_job_state)s));
        OK(dt_store_get(store, 7, &arena, &job, &err));
        assert_int_equal(job.state, s);
    }
    for (int s = 1; s < DT_ATTEMPT_STATUSES; s++) {
        mysql_fixture_run(&fx, "UPDATE jobs SET attempt_status = '%s'",
                          dt_attempt_status_name((enum dt_attempt_status)s));
        OK(dt_store_get(store, 7, &arena, &job, &err));
        assert_int_equal(job.attempt_status, s);
    }
}

static void a_large_payload_is_read_whole(void **state)
{
    (void)state;
    job_row(&fx, 7, "payload = REPEAT('x', 900000)");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    assert_int_equal(job.payload.n, 900000);
    assert_int_equal(job.payload.p[899999], 'x');
}

static void a_finished_job_has_no_next_at_whatever_a_hand_edit_left(void **state)
{
    (void)state;
    job_row(&fx, 7, "state = 'cancelled'");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    assert_int_equal(job.next_at_ms, 0);
}

static void a_job_that_is_not_there_is_not_found_by_any_request(void **state)
{
    (void)state;
    assert_int_equal(dt_store_get(store, 9, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(cancel(9), DT_NOT_FOUND);
    assert_int_equal(patch(9, (struct dt_patch){.has_payload = true, .payload = S("1")}), DT_NOT_FOUND);
    assert_int_equal(dt_store_run_now(store, 9, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_redrive(store, 9, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(list_attempts(9, 0, 1000), DT_NOT_FOUND);
    assert_int_equal(attempts.n, 0);
}

static void a_key_finds_its_latest_job_byte_for_byte(void **state)
{
    (void)state;
    int64_t id;
    mysql_fixture_run(&fx, "INSERT INTO job_keys VALUES ('orders','k',7),('orders','K',8),('orders','k ',9)");
    OK(dt_store_find_key(store, S("orders"), S("k"), &id, &err));
    assert_int_equal(id, 7);
    OK(dt_store_find_key(store, S("orders"), S("K"), &id, &err));
    assert_int_equal(id, 8);
    OK(dt_store_find_key(store, S("orders"), S("k "), &id, &err));
    assert_int_equal(id, 9);
    assert_int_equal(dt_store_find_key(store, S("Orders"), S("k"), &id, &err), DT_NOT_FOUND);
}

static void a_connection_that_was_killed_is_replaced_unnoticed(void **state)
{
    (void)state;
    dt_db *db;
    job_row(&fx, 7, NULL);
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_query(db, "SELECT CONNECTION_ID()", DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    int64_t connection = dt_db_i64(db, 0);
    OK(dt_db_end(db, &err));
    mysql_fixture_run(&fx, "KILL %lld", (long long)connection);
    OK(dt_store_get(store, 7, &arena, &job, &err));
    OK(cancel(7));
    assert_job(&fx, 7, "state", "cancelled");
}

/* ---- patch ---- */

static void a_patched_time_moves_run_at_and_next_at_together(void **state)
{
    (void)state;
    int64_t at = mysql_now_ms(&fx) + 2 * HOUR_MS;
    job_row(&fx, 7, "next_at = next_at + 5, attempt = 1, attempt_status = 'failed', failures = 1");
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = at}));
    assert_int_equal(job.run_at_ms, at);
    assert_int_equal(job.next_at_ms, at);
    assert_int_equal(job.version, 2);
    assert_true(job.updated_at_ms >= job.created_at_ms);
    assert_job(&fx, 7, "run_at = next_at AND near", "1");
}

static void the_due_index_is_exact_up_to_the_end_of_the_day_after_tomorrow(void **state)
{
    (void)state;
    job_row(&fx, 7, NULL);
    int64_t end = dt_near_end_ms(mysql_now_ms(&fx));
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = end}));
    assert_job(&fx, 7, "CONCAT(near, due_band, due_key = next_at - next_at MOD 86400000)", "001");
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = end - 1}));
    assert_job(&fx, 7, "CONCAT(near, due_band, due_key = next_at)", "111");
}

static void a_patched_time_in_the_past_is_now(void **state)
{
    (void)state;
    job_row(&fx, 7, NULL);
    int64_t before = mysql_now_ms(&fx);
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = 5}));
    assert_in_range(job.run_at_ms, before, mysql_now_ms(&fx));
    assert_int_equal(job.next_at_ms, job.run_at_ms);
}

static void a_patched_delay_counts_from_the_servers_clock_and_is_never_short(void **state)
{
    (void)state;
    job_row(&fx, 7, NULL);
    int64_t before = mysql_now_ms(&fx);
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_is_delay = true, .run_at_ms = 1000}));
    assert_in_range(job.run_at_ms, before + 1001, mysql_now_ms(&fx) + 1001);
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_is_delay = true, .run_at_ms = 0}));
    assert_true(job.run_at_ms <= mysql_now_ms(&fx));
}

static void a_patch_that_changes_nothing_leaves_the_version_alone(void **state)
{
    (void)state;
    job_row(&fx, 7, "partition_key = 'p', headers = '{\"a\":\"b\"}', content_type = NULL");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    struct dt_patch same = {.has_run_at = true,
                            .run_at_ms = job.run_at_ms,
                            .has_payload = true,
                            .payload = S("{\"n\":1}"),
                            .has_retry = true,
                            .retry = S("15s 3m"),
                            .has_ack_timeout = true,
                            .ack_timeout_ms = 60000,
                            .has_partition_key = true,
                            .partition_key = S("p"),
                            .has_headers = true,
                            .headers = S("{\"a\":\"b\"}")};
    OK(patch(7, same));
    assert_int_equal(job.version, 1);
    OK(patch(7, (struct dt_patch){0}));
    assert_int_equal(job.version, 1);
    assert_job(&fx, 7, "updated_at = created_at", "1");
}

static void a_patch_gives_a_url_and_takes_it_away(void **state)
{
    (void)state;
    job_row(&fx, 7, NULL);
    OK(patch(7, (struct dt_patch){.has_callback_url = true, .callback_url = S("http://a/")}));
    assert_str(job.callback_url, "http://a/");
    assert_int_equal(job.version, 2);
    OK(patch(7, (struct dt_patch){.has_callback_url = true, .callback_url = S("http://a/")}));
    assert_int_equal(job.version, 2);
    OK(patch(7, (struct dt_patch){.has_callback_url = true}));
    assert_null(job.callback_url.p);
    assert_int_equal(job.version, 3);
}

static void a_patch_replaces_whole_members(void **state)
{
    (void)state;
    job_row(&fx, 7,
            "partition_key = 'p', headers = '{\"a\":\"b\"}', content_type = 'text/plain', payload_binary = TRUE");
    OK(patch(7, (struct dt_patch){.has_payload = true, .payload = S("[2]")}));
    assert_str(job.payload, "[2]");
    assert_null(job.content_type.p);
    assert_false(job.payload_binary);
    assert_str(job.partition_key, "p");
    assert_int_equal(job.version, 2);
    OK(patch(7, (struct dt_patch){.has_partition_key = true, .has_headers = true}));
    assert_null(job.partition_key.p);
    assert_null(job.headers.p);
    assert_null(job.callback_url.p);
    assert_int_equal(job.version, 3);
    OK(patch(7, (struct dt_patch){.has_payload = true,
                                  .payload = {"\0\xff\xfe", 3},
                                  .payload_binary = true,
                                  .content_type = S("image/png")}));
    assert_int_equal(job.payload.n, 3);
    assert_memory_equal(job.payload.p, "\0\xff\xfe", 3);
    assert_str(job.content_type, "image/png");
    assert_true(job.payload_binary);
    OK(patch(7, (struct dt_patch){.has_retry = true, .retry = S(""), .has_ack_timeout = true, .ack_timeout_ms = 5}));
    assert_str(job.retry, "");
    assert_int_equal(job.ack_timeout_ms, 5);
}

static void a_patch_with_null_takes_the_topics_default_or_ours(void **state)
{
    (void)state;
    struct dt_patch null_policy = {.has_retry = true, .has_ack_timeout = true};
    job_row(&fx, 7, NULL);
    OK(patch(7, null_policy));
    assert_str(job.retry, DT_RETRY_DEFAULT);
    assert_int_equal(job.ack_timeout_ms, DT_ACK_TIMEOUT_DEFAULT_MS);
    mysql_fixture_run(&fx, "INSERT INTO topics (name, created_at, updated_at) VALUES ('orders', 1, 1)");
    OK(patch(7, null_policy));
    assert_str(job.retry, DT_RETRY_DEFAULT);
    assert_int_equal(job.version, 2);
    mysql_fixture_run(&fx, "UPDATE topics SET retry = '7s', ack_timeout_ms = 77");
    OK(patch(7, null_policy));
    assert_str(job.retry, "7s");
    assert_int_equal(job.ack_timeout_ms, 77);
    mysql_fixture_run(&fx, "UPDATE topics SET retry = ''");
    OK(patch(7, null_policy));
    assert_str(job.retry, "");
}

static void only_a_scheduled_job_can_be_patched_and_that_comes_before_its_version(void **state)
{
    (void)state;
    struct dt_patch p = {.if_version = 99, .has_ack_timeout = true, .ack_timeout_ms = 5};
    for (int s = DT_DISPATCHED; s < DT_JOB_STATES; s++) {
        int64_t id = 10 + s;
        job_row_dispatched(&fx, id, 4, 0);
        mysql_fixture_run(&fx, "UPDATE jobs SET state = %d WHERE id = %lld", s + 1, (long long)id);
        assert_int_equal(dt_store_patch(store, id, &p, &arena, &job, &err), DT_TOO_LATE);
        assert_int_equal(job.state, s);
        assert_int_equal(job.attempt, 4);
        assert_int_equal(dt_store_run_now(store, id, &arena, &job, &err), DT_TOO_LATE);
        assert_int_equal(job.version, 1);
        assert_job(&fx, id, "CONCAT(version, ack_timeout_ms)", "160000");
    }
}

static void a_patch_for_another_version_is_refused_and_shows_the_job(void **state)
{
    (void)state;
    struct dt_patch p = {.if_version = 2, .has_ack_timeout = true, .ack_timeout_ms = 5};
    job_row(&fx, 7, "version = 3");
    assert_int_equal(dt_store_patch(store, 7, &p, &arena, &job, &err), DT_VERSION);
    assert_int_equal(job.version, 3);
    p.if_version = 3;
    OK(dt_store_patch(store, 7, &p, &arena, &job, &err));
    assert_int_equal(job.version, 4);
}

static void while_an_attempt_is_in_flight_times_may_change_and_messages_not(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 1, attempt_status = 'failed', claim_shard = 2");
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[5,1,9],[7,1,9]]' WHERE shard = 2");
    assert_int_equal(patch(7, (struct dt_patch){.has_payload = true, .payload = S("2")}), DT_TOO_LATE);
    assert_true(job.unsettled);
    assert_int_equal(job.attempt, 1);
    assert_int_equal(job.state, DT_SCHEDULED);
    assert_int_equal(patch(7, (struct dt_patch){.has_headers = true}), DT_TOO_LATE);
    assert_int_equal(patch(7, (struct dt_patch){.has_partition_key = true}), DT_TOO_LATE);
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = 1, .has_ack_timeout = true, .ack_timeout_ms = 5}));
    assert_int_equal(job.version, 2);
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[]' WHERE shard = 2");
    OK(patch(7, (struct dt_patch){.has_payload = true, .payload = S("2")}));
}

/* ---- cancel ---- */

static void cancelling_ends_a_scheduled_job_and_again_changes_nothing(void **state)
{
    (void)state;
    job_row(&fx, 7, NULL);
    int64_t before = mysql_now_ms(&fx);
    OK(cancel(7));
    assert_int_equal(job.state, DT_CANCELLED);
    assert_int_equal(job.next_at_ms, 0);
    assert_int_equal(job.version, 2);
    assert_in_range(job.finished_at_ms, before, mysql_now_ms(&fx));
    assert_job(&fx, 7, "CONCAT_WS(' ', state, next_at IS NULL, due_band, due_key = leave_at, purge_at - finished_at)",
               "cancelled 1 2 1 2592000000");
    OK(cancel(7));
    assert_int_equal(job.state, DT_CANCELLED);
    assert_int_equal(job.version, 2);
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_int_equal(job.version, 2);
}

static void a_cancelled_job_is_kept_as_long_as_its_topic_says(void **state)
{
    (void)state;
    mysql_fixture_run(&fx,
                      "INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 0, 1, 1)");
    job_row(&fx, 7, NULL);
    OK(cancel(7));
    assert_job(&fx, 7, "purge_at = updated_at", "1");
}

static void cancelling_between_attempts_keeps_when_the_last_one_ended(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 2, attempt_status = 'failed', failures = 2, finished_at = 1234, claim_shard = 0");
    OK(cancel(7));
    assert_job(&fx, 7, "CONCAT_WS(' ', state, attempt, attempt_status, finished_at, purge_at - updated_at)",
               "cancelled 2 failed 1234 2592000000");
}

static void what_is_dispatched_or_finished_cannot_be_cancelled(void **state)
{
    (void)state;
    static const enum dt_job_state states[] = {DT_DISPATCHED, DT_SUCCEEDED, DT_DEAD};
    for (size_t i = 0; i < 3; i++) {
        int64_t id = 10 + (int64_t)i;
        job_row_dispatched(&fx, id, 4, 0);
        mysql_fixture_run(&fx, "UPDATE jobs SET state = %d WHERE id = %lld", states[i] + 1, (long long)id);
        assert_int_equal(cancel(id), DT_TOO_LATE);
        assert_int_equal(job.state, states[i]);
        assert_int_equal(job.attempt, 4);
        assert_int_equal(job.version, 1);
    }
    assert_int_equal(dt_store_cancel(store, 11, true, &arena, &job, &err), DT_TOO_LATE);
    assert_int_equal(dt_store_cancel(store, 12, true, &arena, &job, &err), DT_TOO_LATE);
}

static void further_attempts_of_a_dispatched_job_can_be_cancelled_once(void **state)
{
    (void)state;
    job_row_dispatched(&fx, 7, 4, 0);
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_int_equal(job.state, DT_DISPATCHED);
    assert_true(job.no_retries);
    assert_int_equal(job.version, 2);
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_int_equal(job.version, 2);
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_job(&fx, 7, "CONCAT(state, no_retries, next_at - created_at)", "dispatched159000");
}

static void a_scheduled_job_with_an_earlier_attempt_in_flight_cannot_be_cancelled(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 1, attempt_status = 'dispatched', claim_shard = 2");
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[77,1,9],[7,1,9]]' WHERE shard = 2");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_true(job.unsettled);
    assert_int_equal(job.claim_shard, 2);
    assert_int_equal(job.state, DT_SCHEDULED);
    assert_int_equal(job.attempt, 1);
    assert_job(&fx, 7, "CONCAT(state, version)", "scheduled1");
}

static void what_is_too_late_for_another_reason_than_a_list_is_not_called_unsettled(void **state)
{
    (void)state;
    job_row_dispatched(&fx, 7, 1, 2);
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_false(job.unsettled);
    assert_int_equal(patch(7, (struct dt_patch){.has_payload = true, .payload = S("2")}), DT_TOO_LATE);
    assert_false(job.unsettled);
    mysql_fixture_run(&fx, "UPDATE jobs SET state = 'succeeded', next_at = NULL WHERE id = 7");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_false(job.unsettled);
    mysql_fixture_run(&fx, "UPDATE jobs SET state = 'scheduled', next_at = created_at, attempt_status = 'failed'");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_true(job.unsettled);
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[]' WHERE shard = 2");
    OK(cancel(7));
    assert_false(job.unsettled);
}

static void a_job_that_is_kept_for_ever_is_cancelled_like_any_other(void **state)
{
    (void)state;
    mysql_fixture_run(&fx, "INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', "
                           "9223372036854775807, 1, 1)");
    job_row(&fx, 7, NULL);
    OK(cancel(7));
    assert_job(&fx, 7, "purge_at > 7000000000000000000", "1");
}

static void further_attempts_are_cancelled_also_while_an_earlier_one_is_in_flight(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 1, attempt_status = 'failed', claim_shard = 2");
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_int_equal(job.state, DT_CANCELLED);
    assert_int_equal(job.attempt, 1);
    assert_job(&fx, 7, "CONCAT(state, version)", "cancelled2");
}

static void a_job_that_was_cancelled_by_hand_while_in_flight_is_not_answered_cancelled(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 1, attempt_status = 'dispatched', claim_shard = 2, state = 'cancelled'");
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_int_equal(job.attempt, 1);
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err)); /* it is true that no further attempt follows */
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[]' WHERE shard = 2");
    OK(cancel(7));
    assert_job(&fx, 7, "CONCAT(state, version)", "cancelled1");
}

static void only_its_own_entry_in_its_claiming_shards_list_holds_a_job(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 1, attempt_status = 'failed', claim_shard = 2");
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[77,7,7],[17,1,7],[5,7,7]]' WHERE shard = 2");
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 1");
    OK(cancel(7));
    assert_int_equal(job.state, DT_CANCELLED);
}

/* ---- run now, redrive ---- */

static void run_now_makes_a_job_due_at_once(void **state)
{
    (void)state;
    job_row(&fx, 7, "next_at = next_at + 864000000, near = FALSE");
    int64_t before = mysql_now_ms(&fx);
    OK(dt_store_run_now(store, 7, &arena, &job, &err));
    assert_in_range(job.next_at_ms, before, mysql_now_ms(&fx));
    assert_int_equal(job.run_at_ms, job.next_at_ms);
    assert_int_equal(job.version, 2);
    assert_job(&fx, 7, "CONCAT(near, due_band, due_key = next_at)", "111");
}

static void a_redriven_job_has_a_new_budget_and_goes_on_counting_attempts(void **state)
{
    (void)state;
    job_row(&fx, 7,
            "state = 'dead', next_at = NULL, attempt = 3, failures = 3, attempt_status = 'failed', run_at = 5, "
            "finished_at = 9, purge_at = 99, error_at = 8, error_code = 'boom'");
    int64_t before = mysql_now_ms(&fx);
    OK(dt_store_redrive(store, 7, &arena, &job, &err));
    assert_int_equal(job.state, DT_SCHEDULED);
    assert_int_equal(job.attempt, 3);
    assert_int_equal(job.failures, 0);
    assert_int_equal(job.run_at_ms, 5);
    assert_in_range(job.next_at_ms, before, mysql_now_ms(&fx));
    assert_str(job.error_code, "boom");
    assert_job(&fx, 7, "CONCAT_WS(' ', near, due_band, purge_at IS NULL, version)", "1 1 1 2");
}

static void only_a_dead_job_is_redriven(void **state)
{
    (void)state;
    for (int s = 0; s < DT_JOB_STATES; s++) {
        job_row(&fx, 10 + s, "state = %d", s + 1);
        dt_status expected = s == DT_DEAD ? DT_OK : DT_NOT_DEAD;
        assert_int_equal(dt_store_redrive(store, 10 + s, &arena, &job, &err), expected);
        assert_int_equal(job.state, s == DT_DEAD ? DT_SCHEDULED : s);
    }
}

static void a_key_that_moved_on_stays_with_the_newer_job(void **state)
{
    (void)state;
    int64_t id;
    job_row(&fx, 7, "job_key = 'k', state = 'dead', next_at = NULL");
    job_row(&fx, 8, "job_key = 'k'");
    mysql_fixture_run(&fx, "INSERT INTO job_keys VALUES ('orders', 'k', 8)");
    OK(dt_store_redrive(store, 7, &arena, &job, &err));
    assert_str(job.key, "k");
    OK(dt_store_find_key(store, S("orders"), S("k"), &id, &err));
    assert_int_equal(id, 8);
}

/* ---- attempts ---- */

static void attempts_are_the_archived_ones_and_the_rows_own(void **state)
{
    (void)state;
    job_row(&fx, 7, NULL);
    OK(list_attempts(7, 0, 1000));
    assert_int_equal(attempts.n, 0);
    mysql_fixture_run(&fx, "UPDATE jobs SET state = 'dispatched', attempt = 3, attempt_status = 'dispatched', "
                           "due_at = 30, dispatched_at = 31, finished_at = NULL, error_code = 'old', error_at = 22");
    mysql_fixture_run(&fx, "INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, "
                           "error_code, error_message) VALUES (7, 2, 'failed', 20, 21, 22, 'old', 'msg'), "
                           "(7, 1, 'snoozed', 10, 11, 12, NULL, NULL), (8, 1, 'failed', 1, 1, 1, NULL, NULL)");
    OK(list_attempts(7, 0, 1000));
    assert_int_equal(attempts.n, 3);
    assert_int_equal(attempts.v[0].attempt, 1);
    assert_int_equal(attempts.v[0].status, DT_ATTEMPT_SNOOZED);
    assert_null(attempts.v[0].error_code.p);
    assert_int_equal(attempts.v[1].attempt, 2);
    assert_int_equal(attempts.v[1].status, DT_ATTEMPT_FAILED);
    assert_int_equal(attempts.v[1].due_at_ms, 20);
    assert_int_equal(attempts.v[1].dispatched_at_ms, 21);
    assert_int_equal(attempts.v[1].finished_at_ms, 22);
    assert_str(attempts.v[1].error_code, "old");
    assert_str(attempts.v[1].error_message, "msg");
    assert_int_equal(attempts.v[2].attempt, 3);
    assert_int_equal(attempts.v[2].status, DT_ATTEMPT_DISPATCHED);
    assert_int_equal(attempts.v[2].finished_at_ms, 0);
    assert_null(attempts.v[2].error_code.p);
    mysql_fixture_run(&fx,
                      "UPDATE jobs SET attempt_status = 'timed_out', finished_at = 33, error_code = 'ack_timeout'");
    OK(list_attempts(7, 0, 1000));
    assert_int_equal(attempts.v[2].finished_at_ms, 33);
    assert_str(attempts.v[2].error_code, "ack_timeout");
}

static void very_many_attempts_come_in_pages(void **state)
{
    (void)state;
    size_t pages = 0;
    int64_t after = 0;
    job_row(&fx, 7, "attempt = 10006, attempt_status = 'succeeded', state = 'succeeded'");
    mysql_fixture_run(&fx, "INSERT INTO attempts (job_id, attempt, status) "
                           "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 900) "
                           "SELECT 7, x.n + 900 * y.n - 900, 'snoozed' FROM s x JOIN s y ON y.n <= 12 "
                           "WHERE x.n + 900 * y.n - 900 < 10006");
    for (attempts.more = true; attempts.more; pages++) {
        dt_arena_reset(&arena);
        OK(list_attempts(7, after, 1000));
        assert_int_equal(attempts.n, attempts.more ? 1000 : 6);
        for (size_t i = 0; i < attempts.n; i++)
            assert_int_equal(attempts.v[i].attempt, ++after);
    }
    assert_int_equal(pages, 11);
    assert_int_equal(after, 10006);
    assert_int_equal(attempts.v[attempts.n - 1].status, DT_ATTEMPT_SUCCEEDED);
    OK(list_attempts(7, 10006, 1000));
    assert_true(attempts.n == 0 && !attempts.more);
    OK(list_attempts(7, 9996, 10)); /* the end of a full page is the end */
    assert_true(attempts.n == 10 && !attempts.more);
    OK(list_attempts(7, 9995, 10));
    assert_true(attempts.n == 10 && attempts.more);
}

/* ---- races ---- */

struct canceller {
    int64_t from, to;
    unsigned cancelled, too_late;
    dt_status failed;
};

static void *cancel_each(void *arg)
{
    struct canceller *c = arg;
    struct dt_arena own;
    struct dt_job seen;
    dt_store *mine = NULL;
    dt_arena_init(&own);
    c->failed = dt_store_new(&fx.config, NULL, &mine);
    for (int64_t id = c->from; id < c->to && !c->failed; id++) {
        dt_status status = dt_store_cancel(mine, id, false, &own, &seen, NULL);
        if (status == DT_OK && seen.state == DT_CANCELLED && seen.attempt == 0)
            c->cancelled++;
        else if (status == DT_TOO_LATE && seen.state == DT_DISPATCHED && seen.attempt == 1)
            c->too_late++;
        else
            c->failed = status ? status : DT_INTERNAL;
        dt_arena_reset(&own);
    }
    dt_store_free(mine);
    dt_arena_clear(&own);
    dt_db_thread_end();
    return NULL;
}

/* As a leader does it: shard row first, then the job, attempt and list entry together. */
static void claim(int64_t id)
{
    mysql_fixture_run(&fx,
                      "START TRANSACTION; SELECT shard FROM shards WHERE shard = 0 FOR UPDATE; "
                      "SELECT id FROM jobs WHERE id = %lld FOR UPDATE; "
                      "UPDATE shards SET inflight = IF((SELECT state FROM jobs WHERE id = %lld) = 'scheduled', "
                      "'[[%lld,1,9]]', '[]') WHERE shard = 0; "
                      "UPDATE jobs SET state = 'dispatched', attempt = 1, attempt_status = 'dispatched', "
                      "claim_shard = 0 WHERE id = %lld AND state = 'scheduled'; COMMIT",
                      (long long)id, (long long)id, (long long)id, (long long)id);
}

static void a_job_that_is_cancelled_and_claimed_at_once_gets_one_definitive_answer(void **state)
{
    (void)state;
    enum { JOBS = 400 };
    struct canceller c = {.from = 1, .to = JOBS + 1};
    pthread_t thread;
    for (int64_t id = 1; id <= JOBS; id++)
        job_row(&fx, id, NULL);
    assert_int_equal(pthread_create(&thread, NULL, cancel_each, &c), 0);
    for (int64_t id = JOBS; id >= 1; id--) /* they meet in the middle */
        claim(id);
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(c.failed, NULL);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT COUNT(*) FROM jobs WHERE state = 'cancelled' AND attempt = 0"),
                     c.cancelled);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT COUNT(*) FROM jobs WHERE state = 'dispatched' AND attempt = 1"),
                     c.too_late);
    assert_int_equal(c.cancelled + c.too_late, JOBS);
}

static bool waits_for_a_lock(const char *words)
{
    return mysql_fixture_number(
               &fx,
               "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '%s' AND info LIKE '%s' "
               "AND id <> CONNECTION_ID()",
               fx.database, words) > 0;
}

/* Polls until the other side sits in its locking read; a deadline ends a test that would hang. */
static void wait_for_the_other(void)
{
    for (int i = 0; i < 2000; i++) {
        if (waits_for_a_lock("SELECT%%FOR UPDATE"))
            return;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    fail_msg("nobody waits for the job's lock");
}

static void a_cancel_that_waited_for_a_claim_is_too_late(void **state)
{
    (void)state;
    struct canceller c = {.from = 7, .to = 8};
    pthread_t thread;
    job_row(&fx, 7, NULL);
    mysql_fixture_run(&fx, "START TRANSACTION; UPDATE jobs SET state = 'dispatched', attempt = 1, claim_shard = 0 "
                           "WHERE id = 7");
    assert_int_equal(pthread_create(&thread, NULL, cancel_each, &c), 0);
    wait_for_the_other();
    mysql_fixture_run(&fx, "COMMIT");
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(c.failed, NULL);
    assert_int_equal(c.too_late, 1);
}

static void *cancel_in_flight(void *arg)
{
    struct canceller *c = arg;
    struct dt_arena own;
    struct dt_job seen;
    dt_store *mine = NULL;
    dt_arena_init(&own);
    c->failed = dt_store_new(&fx.config, NULL, &mine);
    if (!c->failed)
        c->failed = dt_store_cancel(mine, c->from, false, &own, &seen, NULL);
    dt_store_free(mine);
    dt_arena_clear(&own);
    dt_db_thread_end();
    return NULL;
}

/* The list must be read after the lock was had: what entered it while the cancel waited counts. */
static void a_cancel_sees_the_list_as_it_is_once_the_job_is_locked(void **state)
{
    (void)state;
    struct canceller c = {.from = 7};
    pthread_t thread;
    job_row(&fx, 7, "attempt = 1, attempt_status = 'failed', claim_shard = 0");
    mysql_fixture_run(&fx, "START TRANSACTION; UPDATE shards SET inflight = '[[7,2,9]]' WHERE shard = 0; "
                           "UPDATE jobs SET attempt = 2, attempt_status = 'dispatched' WHERE id = 7");
    assert_int_equal(pthread_create(&thread, NULL, cancel_in_flight, &c), 0);
    wait_for_the_other();
    mysql_fixture_run(&fx, "COMMIT"); /* claimed, and set back to scheduled by hand before anybody looked */
    pthread_join(thread, NULL);
    assert_int_equal(c.failed, DT_TOO_LATE);
    assert_job(&fx, 7, "state", "scheduled");
}

static void a_cancel_never_waits_for_a_shards_row(void **state)
{
    (void)state;
    job_row(&fx, 7, "attempt = 1, attempt_status = 'failed', claim_shard = 0");
    mysql_fixture_run(&fx, "START TRANSACTION; UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 0");
    dt_status status = cancel(7); /* what is not committed is not there */
    mysql_fixture_run(&fx, "ROLLBACK");
    OK(status);
    assert_int_equal(job.state, DT_CANCELLED);
}

static void a_change_does_not_lock_the_topic(void **state)
{
    (void)state;
    mysql_fixture_run(&fx, "INSERT INTO topics (name, created_at, updated_at) VALUES ('orders', 1, 1)");
    job_row(&fx, 7, NULL);
    mysql_fixture_run(&fx, "START TRANSACTION; UPDATE topics SET retry = '1s'");
    dt_status patched = patch(7, (struct dt_patch){.has_retry = true});
    dt_status cancelled = cancel(7);
    mysql_fixture_run(&fx, "ROLLBACK");
    OK(patched);
    OK(cancelled);
}

static void what_is_in_flight_is_told_by_the_list_that_is_named(void **state)
{
    (void)state;
    bool yes = true;
    job_row_dispatched(&fx, 7, 1, 0);
    OK(dt_store_in_flight(store, 7, 0, &yes, &err));
    assert_false(yes);
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[17,1,5],[7,1,5]]' WHERE shard = 0");
    OK(dt_store_in_flight(store, 7, 0, &yes, &err));
    assert_true(yes);
    OK(dt_store_in_flight(store, 1, 0, &yes, &err));
    assert_false(yes);
    OK(dt_store_in_flight(store, 7, 99, &yes, &err));
    assert_false(yes);
}

static void a_job_that_somebody_keeps_locked_is_busy_after_a_bounded_time(void **state)
{
    (void)state;
    dt_store *impatient;
    int64_t lock_timeout = fx.config.mysql_lock_timeout;
    job_row(&fx, 7, NULL);
    fx.config.mysql_lock_timeout = 1000;
    impatient = mysql_fixture_store(&fx);
    mysql_fixture_run(&fx, "START TRANSACTION; SELECT id FROM jobs WHERE id = 7 FOR UPDATE");
    int64_t begun_us = dt_clock_mono_us(dt_clock_system());
    assert_int_equal(dt_store_cancel(impatient, 7, false, &arena, &job, &err), DT_BUSY);
    assert_true(dt_clock_mono_us(dt_clock_system()) - begun_us < 8000000);
    mysql_fixture_run(&fx, "ROLLBACK");
    fx.config.mysql_lock_timeout = lock_timeout;
    assert_job(&fx, 7, "state", "scheduled");
    OK(dt_store_cancel(impatient, 7, false, &arena, &job, &err));
    dt_store_free(impatient);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, empty_tables)
    const struct CMUnitTest tests[] = {
        T(a_job_is_read_back_column_by_column),
        T(absent_columns_are_absent),
        T(every_state_and_attempt_status_is_read_as_its_word_says),
        T(a_large_payload_is_read_whole),
        T(a_finished_job_has_no_next_at_whatever_a_hand_edit_left),
        T(a_job_that_is_not_there_is_not_found_by_any_request),
        T(a_key_finds_its_latest_job_byte_for_byte),
        T(a_connection_that_was_killed_is_replaced_unnoticed),
        T(a_patched_time_moves_run_at_and_next_at_together),
        T(the_due_index_is_exact_up_to_the_end_of_the_day_after_tomorrow),
        T(a_patched_time_in_the_past_is_now),
        T(a_patched_delay_counts_from_the_servers_clock_and_is_never_short),
        T(a_patch_that_changes_nothing_leaves_the_version_alone),
        T(a_patch_replaces_whole_members),
        T(a_patch_gives_a_url_and_takes_it_away),
        T(a_patch_with_null_takes_the_topics_default_or_ours),
        T(only_a_scheduled_job_can_be_patched_and_that_comes_before_its_version),
        T(a_patch_for_another_version_is_refused_and_shows_the_job),
        T(while_an_attempt_is_in_flight_times_may_change_and_messages_not),
        T(cancelling_ends_a_scheduled_job_and_again_changes_nothing),
        T(a_cancelled_job_is_kept_as_long_as_its_topic_says),
        T(cancelling_between_attempts_keeps_when_the_last_one_ended),
        T(what_is_dispatched_or_finished_cannot_be_cancelled),
        T(further_attempts_of_a_dispatched_job_can_be_cancelled_once),
        T(a_scheduled_job_with_an_earlier_attempt_in_flight_cannot_be_cancelled),
        T(what_is_too_late_for_another_reason_than_a_list_is_not_called_unsettled),
        T(further_attempts_are_cancelled_also_while_an_earlier_one_is_in_flight),
        T(a_job_that_is_kept_for_ever_is_cancelled_like_any_other),
        T(a_job_that_was_cancelled_by_hand_while_in_flight_is_not_answered_cancelled),
        T(only_its_own_entry_in_its_claiming_shards_list_holds_a_job),
        T(run_now_makes_a_job_due_at_once),
        T(a_redriven_job_has_a_new_budget_and_goes_on_counting_attempts),
        T(only_a_dead_job_is_redriven),
        T(a_key_that_moved_on_stays_with_the_newer_job),
        T(attempts_are_the_archived_ones_and_the_rows_own),
        T(very_many_attempts_come_in_pages),
        T(a_job_that_is_cancelled_and_claimed_at_once_gets_one_definitive_answer),
        T(a_cancel_that_waited_for_a_claim_is_too_late),
        T(a_cancel_sees_the_list_as_it_is_once_the_job_is_locked),
        T(a_cancel_never_waits_for_a_shards_row),
        T(a_change_does_not_lock_the_topic),
        T(what_is_in_flight_is_told_by_the_list_that_is_named),
        T(a_job_that_somebody_keeps_locked_is_busy_after_a_bounded_time),
    };
    return cmocka_run_group_tests_name("one job in the store", tests, open_store, close_store);
}
