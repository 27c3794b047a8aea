/* Single jobs on a real server: reading, patching, cancelling, running now, driving back, attempts. */
#include "contract/job/jobs_suite.h"

STORE_SUITE("jobs", 0)

#define HOUR_MS INT64_C(3600000)

#define assert_str(slice, text)                                                                                        \
    do {                                                                                                               \
        assert_non_null((slice).p);                                                                                    \
        assert_string_equal((slice).p, text);                                                                          \
    } while (0)

static struct dt_attempt_list attempts;

static dt_status list_attempts(int64_t id, int64_t after, unsigned limit)
{
    const struct dt_attempt_filter filter = {.job_id = id, .after = after, .limit = limit};
    return dt_store_attempts(store, &filter, &arena, &attempts, &err);
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

/* ---- reading ---- */

FRESH_TEST(a_job_is_read_back_column_by_column)
{
    job_row(7,
            "job_key = 'k\\\"1', state = 'dispatched', run_at = 1000, next_at = 2000, attempt = 3, failures = 2, "
            "attempt_status = 'dispatched', due_at = 3000, dispatched_at = 4000, finished_at = 5000, claim_shard = 2, "
            "no_retries = TRUE, retry = '1s', ack_timeout_ms = 6000, partition_key = 'p', headers = '{}', callback_url "
            "= 'http://a/', content_type = 'text/plain', payload_binary = TRUE, error_code = 'c', error_message = 'm', "
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

FRESH_TEST(absent_columns_are_absent)
{
    job_row(7, "payload = ''");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    assert_members(job, (key.p, NULL), (partition_key.p, NULL), (headers.p, NULL), (callback_url.p, NULL),
                   (content_type.p, NULL), (error_code.p, NULL));
    assert_non_null(job.payload.p);
    assert_int_equal(job.payload.n, 0);
    assert_members(job, (claim_shard, -1), (attempt_status, DT_ATTEMPT_NONE));
}

FRESH_TEST(every_state_and_attempt_status_is_read_as_its_word_says)
{
    job_row(7, "attempt = 1");
    for (int s = 0; s < DT_JOB_STATES; s++) {
        run_sql("UPDATE jobs SET state = '%s'", dt_job_state_name((enum dt_job_state)s));
        OK(dt_store_get(store, 7, &arena, &job, &err));
        assert_int_equal(job.state, s);
    }
    for (int s = 1; s < DT_ATTEMPT_STATUSES; s++) {
        run_sql("UPDATE jobs SET attempt_status = '%s'", dt_attempt_status_name((enum dt_attempt_status)s));
        OK(dt_store_get(store, 7, &arena, &job, &err));
        assert_int_equal(job.attempt_status, s);
    }
}

FRESH_TEST(a_large_payload_is_read_whole)
{
    job_row(7, "payload = REPEAT('x', 900000)");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    assert_int_equal(job.payload.n, 900000);
    assert_int_equal(job.payload.p[899999], 'x');
}

FRESH_TEST(a_finished_job_has_no_next_at_even_after_a_manual_edit)
{
    job_row(7, "state = 'cancelled'");
    OK(dt_store_get(store, 7, &arena, &job, &err));
    assert_int_equal(job.next_at_ms, 0);
}

FRESH_TEST(a_missing_job_is_not_found_by_any_request)
{
    assert_int_equal(dt_store_get(store, 9, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(cancel(9), DT_NOT_FOUND);
    assert_int_equal(patch(9, (struct dt_patch){.has_payload = true, .payload = S("1")}), DT_NOT_FOUND);
    assert_int_equal(dt_store_run_now(store, 9, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_redrive(store, 9, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(list_attempts(9, 0, 1000), DT_NOT_FOUND);
    assert_int_equal(attempts.n, 0);
}

FRESH_TEST(a_key_finds_its_latest_job_byte_for_byte)
{
    int64_t id;
    run_sql("INSERT INTO job_keys VALUES ('orders','k',7),('orders','K',8),('orders','k ',9)");
    OK(dt_store_find_key(store, S("orders"), S("k"), &id, &err));
    assert_int_equal(id, 7);
    OK(dt_store_find_key(store, S("orders"), S("K"), &id, &err));
    assert_int_equal(id, 8);
    OK(dt_store_find_key(store, S("orders"), S("k "), &id, &err));
    assert_int_equal(id, 9);
    assert_int_equal(dt_store_find_key(store, S("Orders"), S("k"), &id, &err), DT_NOT_FOUND);
}

FRESH_TEST(a_connection_that_was_killed_is_replaced_unnoticed)
{
    dt_db *db;
    job_row(7, NULL);
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_query(db, "SELECT CONNECTION_ID()", DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    int64_t connection = dt_db_i64(db, 0);
    OK(dt_db_end(db, &err));
    run_sql("KILL %lld", (long long)connection);
    OK(dt_store_get(store, 7, &arena, &job, &err));
    OK(cancel(7));
    assert_job(7, "state", "cancelled");
}

/* ---- patch ---- */

FRESH_TEST(a_patched_time_moves_run_at_and_next_at_together)
{
    int64_t at = mysql_now_ms() + 2 * HOUR_MS;
    job_row(7, "next_at = next_at + 5, attempt = 1, attempt_status = 'failed', failures = 1");
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = at}));
    assert_members(job, (run_at_ms, at), (next_at_ms, at), (version, 2));
    assert_true(job.updated_at_ms >= job.created_at_ms);
    assert_job(7, "run_at = next_at AND near", "1");
}

FRESH_TEST(the_due_index_is_exact_up_to_the_end_of_the_day_after_tomorrow)
{
    job_row(7, NULL);
    int64_t end = dt_near_end_ms(mysql_now_ms());
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = end}));
    assert_job(7, "CONCAT(near, due_band, due_key = next_at - next_at MOD 86400000)", "001");
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = end - 1}));
    assert_job(7, "CONCAT(near, due_band, due_key = next_at)", "111");
}

FRESH_TEST(a_patched_time_in_the_past_is_now)
{
    job_row(7, NULL);
    int64_t before = mysql_now_ms();
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = 5}));
    assert_in_range(job.run_at_ms, before, mysql_now_ms());
    assert_int_equal(job.next_at_ms, job.run_at_ms);
}

FRESH_TEST(a_patched_delay_counts_from_the_servers_clock_and_is_never_short)
{
    job_row(7, NULL);
    int64_t before = mysql_now_ms();
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_is_delay = true, .run_at_ms = 1000}));
    assert_in_range(job.run_at_ms, before + 1001, mysql_now_ms() + 1001);
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_is_delay = true, .run_at_ms = 0}));
    assert_true(job.run_at_ms <= mysql_now_ms());
}

FRESH_TEST(a_patch_that_changes_nothing_leaves_the_version_alone)
{
    job_row(7, "partition_key = 'p', headers = '{\"a\":\"b\"}', content_type = NULL");
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
    assert_job(7, "updated_at = created_at", "1");
}

FRESH_TEST(a_patch_sets_and_removes_the_url)
{
    job_row(7, NULL);
    OK(patch(7, (struct dt_patch){.has_callback_url = true, .callback_url = S("http://a/")}));
    assert_members(job, (callback_url.p, "http://a/"), (version, 2));
    OK(patch(7, (struct dt_patch){.has_callback_url = true, .callback_url = S("http://a/")}));
    assert_int_equal(job.version, 2);
    OK(patch(7, (struct dt_patch){.has_callback_url = true}));
    assert_members(job, (callback_url.p, NULL), (version, 3));
}

FRESH_TEST(a_patch_replaces_whole_members)
{
    job_row(7, "partition_key = 'p', headers = '{\"a\":\"b\"}', content_type = 'text/plain', payload_binary = TRUE");
    OK(patch(7, (struct dt_patch){.has_payload = true, .payload = S("[2]")}));
    assert_members(job, (payload.p, "[2]"), (content_type.p, NULL), (payload_binary, false), (partition_key.p, "p"),
                   (version, 2));
    OK(patch(7, (struct dt_patch){.has_partition_key = true, .has_headers = true}));
    assert_members(job, (partition_key.p, NULL), (headers.p, NULL), (callback_url.p, NULL), (version, 3));
    OK(patch(7, (struct dt_patch){.has_payload = true,
                                  .payload = {"\0\xff\xfe", 3},
                                  .payload_binary = true,
                                  .content_type = S("image/png")}));
    assert_int_equal(job.payload.n, 3);
    assert_memory_equal(job.payload.p, "\0\xff\xfe", 3);
    assert_members(job, (content_type.p, "image/png"), (payload_binary, true));
    OK(patch(7, (struct dt_patch){.has_retry = true, .retry = S(""), .has_ack_timeout = true, .ack_timeout_ms = 5}));
    assert_members(job, (retry.p, ""), (ack_timeout_ms, 5));
}

FRESH_TEST(a_patch_with_null_takes_the_topics_default_or_ours)
{
    struct dt_patch null_policy = {.has_retry = true, .has_ack_timeout = true};
    job_row(7, NULL);
    OK(patch(7, null_policy));
    assert_members(job, (retry.p, DT_RETRY_DEFAULT), (ack_timeout_ms, DT_ACK_TIMEOUT_DEFAULT_MS));
    run_sql("INSERT INTO topics (name, created_at, updated_at) VALUES ('orders', 1, 1)");
    OK(patch(7, null_policy));
    assert_members(job, (retry.p, DT_RETRY_DEFAULT), (version, 2));
    run_sql("UPDATE topics SET retry = '7s', ack_timeout_ms = 77");
    OK(patch(7, null_policy));
    assert_members(job, (retry.p, "7s"), (ack_timeout_ms, 77));
    run_sql("UPDATE topics SET retry = ''");
    OK(patch(7, null_policy));
    assert_str(job.retry, "");
}

FRESH_TEST(the_state_is_checked_before_the_version_of_a_patch)
{
    struct dt_patch p = {.if_version = 99, .has_ack_timeout = true, .ack_timeout_ms = 5};
    for (int s = DT_DISPATCHED; s < DT_JOB_STATES; s++) {
        int64_t id = 10 + s;
        job_row_dispatched(id, 4, 0);
        run_sql("UPDATE jobs SET state = %d WHERE id = %lld", s + 1, (long long)id);
        assert_int_equal(dt_store_patch(store, id, &p, &arena, &job, &err), DT_TOO_LATE);
        assert_members(job, (state, s), (attempt, 4));
        assert_int_equal(dt_store_run_now(store, id, &arena, &job, &err), DT_TOO_LATE);
        assert_int_equal(job.version, 1);
        assert_job(id, "CONCAT(version, ack_timeout_ms)", "160000");
    }
}

FRESH_TEST(a_patch_for_another_version_is_refused_and_shows_the_job)
{
    struct dt_patch p = {.if_version = 2, .has_ack_timeout = true, .ack_timeout_ms = 5};
    job_row(7, "version = 3");
    assert_int_equal(dt_store_patch(store, 7, &p, &arena, &job, &err), DT_VERSION);
    assert_int_equal(job.version, 3);
    p.if_version = 3;
    OK(dt_store_patch(store, 7, &p, &arena, &job, &err));
    assert_int_equal(job.version, 4);
}

FRESH_TEST(while_an_attempt_is_in_flight_only_times_can_be_changed)
{
    job_row(7, "attempt = 1, attempt_status = 'failed', claim_shard = 2");
    run_sql("UPDATE shards SET inflight = '[[5,1,9],[7,1,9]]' WHERE shard = 2");
    assert_int_equal(patch(7, (struct dt_patch){.has_payload = true, .payload = S("2")}), DT_TOO_LATE);
    assert_members(job, (unsettled, true), (attempt, 1), (state, DT_SCHEDULED));
    assert_int_equal(patch(7, (struct dt_patch){.has_headers = true}), DT_TOO_LATE);
    assert_int_equal(patch(7, (struct dt_patch){.has_partition_key = true}), DT_TOO_LATE);
    OK(patch(7, (struct dt_patch){.has_run_at = true, .run_at_ms = 1, .has_ack_timeout = true, .ack_timeout_ms = 5}));
    assert_int_equal(job.version, 2);
    run_sql("UPDATE shards SET inflight = '[]' WHERE shard = 2");
    OK(patch(7, (struct dt_patch){.has_payload = true, .payload = S("2")}));
}

/* ---- cancel ---- */

FRESH_TEST(cancelling_ends_a_scheduled_job_and_again_changes_nothing)
{
    job_row(7, NULL);
    int64_t before = mysql_now_ms();
    OK(cancel(7));
    assert_members(job, (state, DT_CANCELLED), (next_at_ms, 0), (version, 2));
    assert_in_range(job.finished_at_ms, before, mysql_now_ms());
    assert_job(7, "CONCAT_WS(' ', state, next_at IS NULL, due_band, due_key = leave_at, purge_at - finished_at)",
               "cancelled 1 2 1 2592000000");
    OK(cancel(7));
    assert_members(job, (state, DT_CANCELLED), (version, 2));
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_int_equal(job.version, 2);
}

FRESH_TEST(a_cancelled_job_is_kept_as_long_as_its_topic_says)
{
    run_sql("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 0, 1, 1)");
    job_row(7, NULL);
    OK(cancel(7));
    assert_job(7, "purge_at = updated_at", "1");
}

FRESH_TEST(cancelling_between_attempts_keeps_when_the_last_one_ended)
{
    job_row(7, "attempt = 2, attempt_status = 'failed', failures = 2, finished_at = 1234, claim_shard = 0");
    OK(cancel(7));
    assert_job(7, "CONCAT_WS(' ', state, attempt, attempt_status, finished_at, purge_at - updated_at)",
               "cancelled 2 failed 1234 2592000000");
}

FRESH_TEST(a_dispatched_or_finished_job_cannot_be_cancelled)
{
    static const enum dt_job_state states[] = {DT_DISPATCHED, DT_SUCCEEDED, DT_DEAD};
    for (size_t i = 0; i < 3; i++) {
        int64_t id = 10 + (int64_t)i;
        job_row_dispatched(id, 4, 0);
        run_sql("UPDATE jobs SET state = %d WHERE id = %lld", states[i] + 1, (long long)id);
        assert_int_equal(cancel(id), DT_TOO_LATE);
        assert_members(job, (state, states[i]), (attempt, 4), (version, 1));
    }
    assert_int_equal(dt_store_cancel(store, 11, true, &arena, &job, &err), DT_TOO_LATE);
    assert_int_equal(dt_store_cancel(store, 12, true, &arena, &job, &err), DT_TOO_LATE);
}

FRESH_TEST(further_attempts_of_a_dispatched_job_can_be_cancelled_once)
{
    job_row_dispatched(7, 4, 0);
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_members(job, (state, DT_DISPATCHED), (no_retries, true), (version, 2));
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_int_equal(job.version, 2);
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_job(7, "CONCAT(state, no_retries, next_at - created_at)", "dispatched159000");
}

FRESH_TEST(a_scheduled_job_with_an_earlier_attempt_in_flight_cannot_be_cancelled)
{
    job_row(7, "attempt = 1, attempt_status = 'dispatched', claim_shard = 2");
    run_sql("UPDATE shards SET inflight = '[[77,1,9],[7,1,9]]' WHERE shard = 2");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_members(job, (unsettled, true), (claim_shard, 2), (state, DT_SCHEDULED), (attempt, 1));
    assert_job(7, "CONCAT(state, version)", "scheduled1");
}

FRESH_TEST(a_change_that_is_too_late_for_another_reason_is_not_reported_as_unsettled)
{
    job_row_dispatched(7, 1, 2);
    run_sql("UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_false(job.unsettled);
    assert_int_equal(patch(7, (struct dt_patch){.has_payload = true, .payload = S("2")}), DT_TOO_LATE);
    assert_false(job.unsettled);
    run_sql("UPDATE jobs SET state = 'succeeded', next_at = NULL WHERE id = 7");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_false(job.unsettled);
    run_sql("UPDATE jobs SET state = 'scheduled', next_at = created_at, attempt_status = 'failed'");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_true(job.unsettled);
    run_sql("UPDATE shards SET inflight = '[]' WHERE shard = 2");
    OK(cancel(7));
    assert_false(job.unsettled);
}

FRESH_TEST(a_job_with_endless_retention_can_be_cancelled)
{
    run_sql(
        "INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 9223372036854775807, 1, 1)");
    job_row(7, NULL);
    OK(cancel(7));
    assert_job(7, "purge_at > 7000000000000000000", "1");
}

FRESH_TEST(further_attempts_are_cancelled_also_while_an_earlier_one_is_in_flight)
{
    job_row(7, "attempt = 1, attempt_status = 'failed', claim_shard = 2");
    run_sql("UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err));
    assert_members(job, (state, DT_CANCELLED), (attempt, 1));
    assert_job(7, "CONCAT(state, version)", "cancelled2");
}

FRESH_TEST(a_job_that_was_cancelled_by_hand_while_in_flight_is_not_answered_cancelled)
{
    job_row(7, "attempt = 1, attempt_status = 'dispatched', claim_shard = 2, state = 'cancelled'");
    run_sql("UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    assert_int_equal(cancel(7), DT_TOO_LATE);
    assert_int_equal(job.attempt, 1);
    OK(dt_store_cancel(store, 7, true, &arena, &job, &err)); /* it is true that no further attempt follows */
    run_sql("UPDATE shards SET inflight = '[]' WHERE shard = 2");
    OK(cancel(7));
    assert_job(7, "CONCAT(state, version)", "cancelled1");
}

FRESH_TEST(a_job_is_in_flight_only_by_its_own_entry_in_its_shards_list)
{
    job_row(7, "attempt = 1, attempt_status = 'failed', claim_shard = 2");
    run_sql("UPDATE shards SET inflight = '[[77,7,7],[17,1,7],[5,7,7]]' WHERE shard = 2");
    run_sql("UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 1");
    OK(cancel(7));
    assert_int_equal(job.state, DT_CANCELLED);
}

/* ---- run now, redrive ---- */

FRESH_TEST(run_now_makes_a_job_due_at_once)
{
    job_row(7, "next_at = next_at + 864000000, near = FALSE");
    int64_t before = mysql_now_ms();
    OK(dt_store_run_now(store, 7, &arena, &job, &err));
    assert_in_range(job.next_at_ms, before, mysql_now_ms());
    assert_members(job, (run_at_ms, job.next_at_ms), (version, 2));
    assert_job(7, "CONCAT(near, due_band, due_key = next_at)", "111");
}

FRESH_TEST(a_redriven_job_has_no_failures_and_keeps_its_attempt_number)
{
    job_row(7, "state = 'dead', next_at = NULL, attempt = 3, failures = 3, attempt_status = 'failed', run_at = 5, "
               "finished_at = 9, purge_at = 99, leave_at = 99, error_at = 8, error_code = 'boom'");
    int64_t before = mysql_now_ms();
    OK(dt_store_redrive(store, 7, &arena, &job, &err));
    assert_members(job, (state, DT_SCHEDULED), (attempt, 3), (failures, 0), (run_at_ms, 5));
    assert_in_range(job.next_at_ms, before, mysql_now_ms());
    assert_str(job.error_code, "boom");
    assert_job(7, "CONCAT_WS(' ', near, due_band, purge_at IS NULL, version)", "1 1 1 2");
}

FRESH_TEST(only_a_dead_job_is_redriven)
{
    for (int s = 0; s < DT_JOB_STATES; s++) {
        job_row(10 + s, "state = %d", s + 1);
        dt_status expected = s == DT_DEAD ? DT_OK : DT_NOT_DEAD;
        assert_int_equal(dt_store_redrive(store, 10 + s, &arena, &job, &err), expected);
        assert_int_equal(job.state, s == DT_DEAD ? DT_SCHEDULED : s);
    }
}

FRESH_TEST(a_key_taken_by_a_newer_job_stays_with_it)
{
    int64_t id;
    job_row(7, "job_key = 'k', state = 'dead', next_at = NULL");
    job_row(8, "job_key = 'k'");
    run_sql("INSERT INTO job_keys VALUES ('orders', 'k', 8)");
    OK(dt_store_redrive(store, 7, &arena, &job, &err));
    assert_str(job.key, "k");
    OK(dt_store_find_key(store, S("orders"), S("k"), &id, &err));
    assert_int_equal(id, 8);
}

/* ---- attempts ---- */

FRESH_TEST(attempts_are_the_archived_ones_and_the_latest)
{
    job_row(7, NULL);
    OK(list_attempts(7, 0, 1000));
    assert_int_equal(attempts.n, 0);
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 3, attempt_status = 'dispatched', due_at = 30, "
            "dispatched_at = 31, finished_at = NULL, error_code = 'old', error_at = 22");
    run_sql("INSERT INTO attempts (job_id, attempt, status, due_at, dispatched_at, finished_at, error_code, "
            "error_message) VALUES (7, 2, 'failed', 20, 21, 22, 'old', 'msg'), (7, 1, 'snoozed', 10, 11, 12, NULL, "
            "NULL), (8, 1, 'failed', 1, 1, 1, NULL, NULL)");
    OK(list_attempts(7, 0, 1000));
    assert_int_equal(attempts.n, 3);
    assert_members(attempts.v[0], (attempt, 1), (status, DT_ATTEMPT_SNOOZED), (error_code.p, NULL));
    assert_members(attempts.v[1], (attempt, 2), (status, DT_ATTEMPT_FAILED), (due_at_ms, 20), (dispatched_at_ms, 21),
                   (finished_at_ms, 22), (error_code.p, "old"), (error_message.p, "msg"));
    assert_members(attempts.v[2], (attempt, 3), (status, DT_ATTEMPT_DISPATCHED), (finished_at_ms, 0),
                   (error_code.p, NULL));
    run_sql("UPDATE jobs SET attempt_status = 'timed_out', finished_at = 33, error_code = 'ack_timeout'");
    OK(list_attempts(7, 0, 1000));
    assert_members(attempts.v[2], (finished_at_ms, 33), (error_code.p, "ack_timeout"));
}

FRESH_TEST(very_many_attempts_come_in_pages)
{
    size_t pages = 0;
    int64_t after = 0;
    job_row(7, "attempt = 10006, attempt_status = 'succeeded', state = 'succeeded'");
    run_sql("INSERT INTO attempts (job_id, attempt, status) WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 "
            "FROM s WHERE n < 900) SELECT 7, x.n + 900 * y.n - 900, 'snoozed' FROM s x JOIN s y ON y.n <= 12 WHERE x.n "
            "+ 900 * y.n - 900 < 10006");
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

SUITE(open_store, close_store)
