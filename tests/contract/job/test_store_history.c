/* Finished jobs on a real server: how they leave `jobs`, what is told of them from `history`, and how they come back. */
#include "contract/job/history_suite.h"
#include "job/change/jobs.h"
#include "job/results/results.h"

#define FRESH_TEST(name) TEST_WITH(name, begin, NULL)

/* ---- numbers of partitions ---- */

FRESH_TEST(a_partition_is_a_day_or_a_month_if_far_ahead)
{
    int64_t day = INT64_C(1795219200000); /* 2026-11-21 */
    assert_int_equal(dt_partition_of(day, day), 20261121);
    assert_int_equal(dt_partition_of(day + DAY - 1, day), 20261121);
    assert_int_equal(dt_partition_of(day + DAY, day), 20261122);
    assert_int_equal(dt_partition_of(day + 400 * DAY, day + DAY - 1), 20271226);
    assert_int_equal(dt_partition_of(day + 401 * DAY, day), 202712);
    assert_int_equal(dt_partition_of(day + 3650 * DAY, day), 203611);
    assert_int_equal(dt_partition_of(day + 3661 * DAY, day), 0);
    assert_int_equal(dt_partition_of(INT64_MAX, day), 0);
}

/* ---- leaving ---- */

FRESH_TEST(finished_jobs_move_to_history_with_all_columns)
{
    int64_t id = finished(1, "dead", 20 * MINUTE);
    finished(2, "succeeded", MINUTE); /* not yet */
    job_row(IDS + 3, NULL);           /* lives */
    archive_due();
    assert_members(archived, (moved, 1), (removed, 0));
    assert_int_equal(rows("jobs"), 2);
    assert_int_equal(rows("history"), 1);
    assert_int_equal(rows("attempts"), 1);
    assert_int_equal(rows("history_attempts"), 1);
    assert_sql_number(1, "SELECT jobs FROM history_counts WHERE topic = 'orders' AND state = 'dead' AND part = %d",
                      dt_partition_of(now - 20 * MINUTE + 30 * DAY, now));
    OK(dt_store_get(store, id, &arena, &job, &err));
    assert_members(job, (state, DT_DEAD), (next_at_ms, 0), (attempt, 2), (failures, 1), (claim_shard, 1),
                   (created_at_ms, now - 21 * MINUTE), (finished_at_ms, now - 20 * MINUTE), (error_at_ms, 7));
    assert_true(dt_str_is(job.error_code, "boom"));
    assert_true(dt_str_is(job.topic, "orders"));
    assert_true(dt_str_is(job.key, "k1"));
    assert_true(dt_str_is(job.payload, "{\"n\":1}"));
    assert_true(dt_str_is(job.retry, "15s 3m"));
    assert_whole();
}

FRESH_TEST(jobs_still_needed_are_not_archived_and_do_not_delay_others)
{
    int64_t flying = finished(1, "succeeded", 40 * MINUTE), told = finished(2, "dead", 40 * MINUTE);
    int64_t young = finished(3, "succeeded", 40 * MINUTE);
    run_sql("UPDATE jobs SET created_at = %lld WHERE id = %lld", (long long)now, (long long)young);
    run_sql("UPDATE shards SET inflight = '[[%lld,2,5]]' WHERE shard = 1", (long long)flying);
    run_sql("INSERT INTO messages (sender, kind, job_id, attempt, made_at) VALUES (0, 'dead', %lld, 2, 0)",
            (long long)told);
    for (int i = 4; i < 10; i++)
        finished(i, "cancelled", 20 * MINUTE);
    archive_due();
    assert_int_equal(archived.moved, 6);
    for (int i = 10; i < 14; i++)
        finished(i, "cancelled", 20 * MINUTE);
    size_t moved = 0;
    do { /* in steps that are smaller than what stands in the way */
        OK(dt_store_archive(store, &archiver, now, 2, &archived, &err));
        moved += archived.moved;
    } while (archived.more);
    assert_int_equal(moved, 4);
    assert_int_equal(rows("jobs"), 3);
    run_sql("UPDATE shards SET inflight = '[]'");
    run_sql("DELETE FROM messages");
    run_sql("UPDATE jobs SET created_at = %lld WHERE id = %lld", (long long)(now - MINUTE), (long long)young);
    archive_due();
    assert_int_equal(archived.moved, 3);
    assert_whole();
}

FRESH_TEST(a_locked_job_is_not_archived_now)
{
    int64_t held = finished(1, "succeeded", 20 * MINUTE);
    finished(2, "succeeded", 20 * MINUTE);
    run_sql("BEGIN");
    sql_number("SELECT id FROM jobs WHERE id = %lld FOR UPDATE", (long long)held);
    archive_due();
    run_sql("ROLLBACK");
    assert_int_equal(archived.moved, 1);
    archive_due();
    assert_int_equal(archived.moved, 1);
}

FRESH_TEST(a_job_that_history_already_has_is_not_archived_twice)
{
    int64_t id = archive_job(1, "succeeded");
    for (int i = 2; i < 8; i++)
        finished(i, "succeeded", 20 * MINUTE);
    finished(1, "succeeded", 20 * MINUTE);
    size_t moved = 0, failed = 0;
    for (int i = 0; i < 20; i++) {
        failed += dt_store_archive(store, &archiver, now, 10, &archived, &err) != DT_OK;
        moved += archived.moved;
    }
    assert_int_equal(moved, 6);
    assert_true(failed >= 2);
    assert_int_equal(rows("jobs"), 1);
    assert_sql_number(id, "SELECT id FROM jobs");
    assert_int_equal(rows("history"), 7);
}

FRESH_TEST(a_job_whose_retention_has_ended_is_deleted)
{
    int64_t id = finished(1, "succeeded", 20 * MINUTE);
    run_sql("UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)now, (long long)id);
    finished(2, "succeeded", 20 * MINUTE);
    archive_due();
    assert_members(archived, (removed, 1), (moved, 1));
    assert_int_equal(rows("jobs") + rows("attempts"), 0);
    assert_int_equal(rows("history"), 1);
    assert_int_equal(rows("history_attempts"), 1);
    assert_int_equal(rows("job_keys"), 1);
    assert_sql_number(1, "SELECT removed FROM removed_jobs WHERE topic = 'orders'");
    assert_whole();
}

FRESH_TEST(jobs_that_are_archived_together_are_counted_by_topic_state_and_day)
{
    enum { JOBS = 16 };
    char text[400], expected[400];
    for (int i = 0; i < JOBS; i++) { /* 2 topics x 2 states x 2 days of their end x 2 home days, in turn */
        int64_t id = finished(i, i & 2 ? "dead" : "succeeded", 20 * MINUTE);
        run_sql("UPDATE jobs SET topic = '%s', purge_at = purge_at + %lld, id = id + %lld WHERE id = %lld",
                i & 1 ? "orders" : "order", (long long)(i & 4 ? DAY : 0), i & 8 ? 1LL << 40 : 0LL, (long long)id);
        run_sql("UPDATE attempts SET job_id = job_id + %lld WHERE job_id = %lld", i & 8 ? 1LL << 40 : 0LL,
                (long long)id);
    }
    archive_due();
    assert_int_equal(archived.moved, JOBS);
    assert_int_equal(rows("jobs") + rows("attempts"), 0);
    assert_int_equal(rows("history_attempts"), JOBS);
    int one = dt_partition_of(now - 20 * MINUTE + 30 * DAY, now),
        two = dt_partition_of(now - 20 * MINUTE + 31 * DAY, now);
    assert_true(one != two);
    snprintf(expected, sizeof expected, "%d:2 %d:2 %d:2 %d:2 %d:2 %d:2 %d:2 %d:2", one, two, one, two, one, two, one,
             two);
    sql_text(text, sizeof text,
             "SELECT GROUP_CONCAT(part, ':', jobs ORDER BY topic, state + 0, part SEPARATOR ' ') FROM history_counts");
    assert_string_equal(text, expected);
    assert_int_equal(rows("history_days"), 4);
    assert_whole();
}

FRESH_TEST(jobs_that_are_removed_together_are_counted_by_topic)
{
    for (int i = 0; i < 6; i++) {
        int64_t id = finished(i, i % 2 ? "dead" : "cancelled", 20 * MINUTE);
        run_sql("UPDATE jobs SET topic = '%s', purge_at = %lld WHERE id = %lld", i % 3 ? "orders" : "order",
                (long long)now, (long long)id);
    }
    archive_due();
    assert_int_equal(archived.removed, 6);
    assert_int_equal(rows("jobs") + rows("attempts") + rows("history") + rows("history_days") + rows("history_counts"),
                     0);
    assert_sql_number(2, "SELECT removed FROM removed_jobs WHERE topic = 'order'");
    assert_sql_number(4, "SELECT removed FROM removed_jobs WHERE topic = 'orders'");
}

/* Bits: whether the job that is removed has a key and archived attempts, and the one that moves. */
FRESH_TEST(rows_of_a_removed_job_are_removed_whichever_rows_other_jobs_have)
{
    for (unsigned has = 0; has < 16; has++) {
        begin();
        int64_t removed = finished(1, "dead", 20 * MINUTE), moved = finished(2, "dead", 20 * MINUTE),
                ids[] = {removed, removed, moved, moved};
        run_sql("UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)(now - 1), (long long)removed);
        for (unsigned bit = 0; bit < 4; bit++) {
            if (has & 1u << bit)
                continue;
            run_sql(bit % 2 ? "UPDATE jobs SET attempt = 1 WHERE id = %lld"
                            : "UPDATE jobs SET job_key = NULL WHERE id = %lld",
                    (long long)ids[bit]);
            run_sql(bit % 2 ? "DELETE FROM attempts WHERE job_id = %lld" : "DELETE FROM job_keys WHERE job_id = %lld",
                    (long long)ids[bit]);
        }
        archive_due();
        assert_members(archived, (removed, 1), (moved, 1));
        assert_int_equal(rows("jobs") + rows("attempts"), 0);
        assert_int_equal(rows("job_keys"), (has & 4) != 0); /* the moved one's */
        assert_int_equal(rows("key_ends"), (has & 4) != 0);
        assert_int_equal(rows("history_attempts"), (has & 8) != 0);
        assert_whole();
    }
}

FRESH_TEST(a_job_finished_by_hand_gets_an_archive_time_and_is_archived)
{
    mysql_fixture.config.history_after = 0;
    size_t done;
    job_row(IDS + 1, "state = 'cancelled', next_at = NULL, created_at = 5");
    archive_due();
    assert_int_equal(archived.moved, 0);
    OK(dt_store_promote(store, now, 10, &done, &err));
    now = mysql_now_ms() + 1;
    archive_due();
    assert_int_equal(archived.moved, 1);
    assert_sql_number(1, "SELECT purge_at >= %lld FROM history", (long long)(now + 29 * DAY));
}

FRESH_TEST(the_archive_time_of_a_job_is_set_when_it_finishes)
{
    job_row_dispatched(IDS + 1, 1, 0);
    job_row_dispatched(IDS + 2, 1, 0);
    job_row(IDS + 3, NULL);
    struct dt_apply a[] = {
        {.result = {.job_id = IDS + 1, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
        {.result = {.job_id = IDS + 2, .attempt = 1, .status = DT_RESULT_GAVE_UP, .retry_after_ms = -1}}};
    OK(dt_store_apply(store, &map, a, 2, &err));
    OK(dt_store_cancel(store, IDS + 3, false, &arena, &job, &err));
    assert_job(IDS + 1, "leave_at - updated_at", "600000");
    assert_job(IDS + 2, "leave_at - updated_at", "86400000");
    assert_job(IDS + 3, "leave_at - updated_at", "600000");
    run_sql("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 1000, 1, 1)");
    job_row(IDS + 4, NULL);
    OK(dt_store_cancel(store, IDS + 4, false, &arena, &job, &err));
    assert_job(IDS + 4, "leave_at - updated_at", "1000");
}

static int64_t questions(void)
{
    return session_status("SHOW SESSION STATUS LIKE 'Questions'");
}

FRESH_TEST(a_thousand_jobs_are_archived_in_few_statements)
{
    archive_job(1, "succeeded"); /* the partition, and what is prepared once */
    multiply(finished(2, "succeeded", 20 * MINUTE), 1000);
    int64_t before = questions();
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    int64_t statements = questions() - before - 1;
    print_message("%lld statements\n", (long long)statements);
    assert_int_equal(archived.moved, 1000);
    /* a look before, BEGIN, the counters, COMMIT, and what was not prepared yet, among them */
    assert_in_range(statements, 1, 14);
    assert_int_equal(rows("history"), 1001);
    assert_int_equal(rows("history_attempts"), 1001);
    assert_int_equal(rows("key_ends"), 1001);
    assert_whole();
}

/* A job that snoozed for days: its attempts are so many that a batch of such would not end in time. */
FRESH_TEST(jobs_with_thousands_of_attempts_are_archived_a_few_at_a_time)
{
    archive_job(1, "succeeded");
    for (int i = 2; i < 8; i++) {
        int64_t id = finished(i, "succeeded", 20 * MINUTE);
        run_sql("UPDATE jobs SET attempt = 4001 WHERE id = %lld", (long long)id);
        run_sql("INSERT INTO attempts (job_id, attempt, status) SELECT %lld, n, 'snoozed' FROM (WITH RECURSIVE up AS "
                "(SELECT 2 AS n UNION ALL SELECT n + 1 FROM up WHERE n < 900) SELECT n FROM up) few",
                (long long)id);
    }
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_members(archived, (moved, 2), (more, true));
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 2);
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_members(archived, (moved, 2), (more, false));
    run_sql("UPDATE jobs SET attempt = 90000 WHERE id = %lld", (long long)finished(8, "succeeded", 20 * MINUTE));
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 1);
    assert_int_equal(rows("jobs") + rows("attempts"), 0);
    assert_int_equal(rows("history_attempts"), 1 + 6 * 900 + 1);
    assert_whole();
}

static void *move_all(void *arg)
{
    dt_store *own = mysql_fixture_store();
    struct dt_error why = {0};
    struct dt_archived out;
    struct dt_archiver me = {.partitions = archiver.partitions};
    size_t *moved = arg;
    for (int idle = 0; idle < 20;) {
        dt_status status = dt_store_archive(own, &me, now, 50, &out, &why);
        if (status == DT_OK)
            *moved += out.moved;
        idle = status == DT_OK && out.moved == 0 && !out.more ? idle + 1 : 0;
    }
    dt_store_free(own);
    dt_db_thread_end();
    return NULL;
}

FRESH_TEST(archivers_at_once_archive_each_job_once)
{
    enum { MOVERS = 4 };
    size_t moved[MOVERS] = {0}, all = 0;
    archive_job(1, "succeeded");
    multiply(finished(2, "succeeded", 20 * MINUTE), 2000);
    run_at_once(move_all, moved, sizeof *moved, MOVERS);
    for (int i = 0; i < MOVERS; i++)
        all += moved[i];
    assert_int_equal(all, 2000);
    assert_int_equal(rows("jobs"), 0);
    assert_int_equal(rows("history"), 2001);
    assert_whole();
}

/* ---- what is told ---- */

FRESH_TEST(every_request_about_an_archived_job_is_answered)
{
    struct dt_attempt_list attempts;
    int64_t id = archive_job(1, "succeeded"), found;
    struct dt_patch patch = {.has_run_at = true, .run_at_ms = now + DAY};
    assert_int_equal(dt_store_cancel(store, id, false, &arena, &job, &err), DT_TOO_LATE);
    assert_members(job, (state, DT_SUCCEEDED), (attempt, 2));
    assert_int_equal(dt_store_patch(store, id, &patch, &arena, &job, &err), DT_TOO_LATE);
    assert_int_equal(dt_store_run_now(store, id, &arena, &job, &err), DT_TOO_LATE);
    assert_int_equal(dt_store_redrive(store, id, &arena, &job, &err), DT_NOT_DEAD);
    assert_int_equal(job.state, DT_SUCCEEDED);
    OK(dt_store_find_key(store, dt_str("orders"), dt_str("k1"), &found, &err));
    assert_int_equal(found, id);
    OK(dt_store_attempts(store, &(struct dt_attempt_filter){id, 0, 1000}, &arena, &attempts, &err));
    assert_int_equal(attempts.n, 2);
    assert_members(attempts.v[0], (status, DT_ATTEMPT_FAILED), (due_at_ms, 5));
    assert_true(dt_str_is(attempts.v[0].error_code, "first"));
    assert_int_equal(attempts.v[1].attempt, 2);
    int64_t cancelled = archive_job(2, "cancelled");
    OK(dt_store_cancel(store, cancelled, false, &arena, &job, &err));
    assert_int_equal(job.state, DT_CANCELLED);
    assert_whole();
}

FRESH_TEST(a_result_for_an_archived_job_is_stale_or_a_duplicate)
{
    int64_t id = archive_job(1, "dead");
    struct dt_str others[] = {DT_STR_LIT("mail.")}, ours[] = {DT_STR_LIT("orders")};
    const struct dt_topic_bound stranger = {others, 1}, owner = {ours, 1};
    struct dt_apply a[] = {
        {.result = {.job_id = id, .attempt = 2, .status = DT_RESULT_FAILED, .retry_after_ms = -1}},
        {.result = {.job_id = id, .attempt = 2, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
        {.result = {.job_id = id, .attempt = 1, .status = DT_RESULT_FAILED, .retry_after_ms = -1}},
        {.result = {.job_id = id, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
        {.result = {.job_id = id + 100, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
        {.bound = &owner, .result = {.job_id = id, .attempt = 2, .status = DT_RESULT_FAILED, .retry_after_ms = -1}},
        {.bound = &stranger, .result = {.job_id = id, .attempt = 2, .status = DT_RESULT_FAILED, .retry_after_ms = -1}},
        {.bound = &stranger, .result = {.job_id = id, .attempt = 1, .status = DT_RESULT_FAILED, .retry_after_ms = -1}}};
    OK(dt_store_apply(store, &map, a, 8, &err));
    assert_int_equal(a[0].outcome, DT_OUTCOME_DUPLICATE);
    assert_int_equal(a[1].outcome, DT_OUTCOME_STALE);
    assert_int_equal(a[2].outcome, DT_OUTCOME_DUPLICATE);
    assert_int_equal(a[3].outcome, DT_OUTCOME_STALE);
    assert_int_equal(a[4].outcome, DT_OUTCOME_UNKNOWN_JOB);
    assert_int_equal(a[5].outcome, DT_OUTCOME_DUPLICATE);
    assert_int_equal(a[6].outcome, DT_OUTCOME_UNKNOWN_JOB);
    assert_int_equal(a[7].outcome, DT_OUTCOME_UNKNOWN_JOB);
    assert_int_equal(rows("history"), 1);
}

FRESH_TEST(expired_jobs_are_hidden_while_their_partition_still_exists)
{
    struct dt_attempt_list attempts;
    int64_t id = archive_job(1, "dead");
    struct dt_apply a = {.result = {.job_id = id, .attempt = 2, .status = DT_RESULT_FAILED, .retry_after_ms = -1}};
    run_sql("UPDATE history SET purge_at = %lld", (long long)(now - 1));
    run_sql("UPDATE history_attempts SET purge_at = %lld", (long long)(now - 1));
    assert_int_equal(dt_store_get(store, id, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_cancel(store, id, false, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_redrive(store, id, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_attempts(store, &(struct dt_attempt_filter){id, 0, 1000}, &arena, &attempts, &err),
                     DT_NOT_FOUND);
    OK(dt_store_apply(store, &map, &a, 1, &err));
    assert_int_equal(a.outcome, DT_OUTCOME_UNKNOWN_JOB);
    assert_int_equal(rows("v_jobs") + rows("v_dead") + rows("v_attempts") + rows("v_history"), 0);
}

FRESH_TEST(views_show_live_and_archived_jobs)
{
    char text[200];
    int64_t id = archive_job(1, "dead");
    finished(2, "dead", MINUTE);
    assert_int_equal(rows("v_jobs"), 2);
    assert_int_equal(rows("v_dead"), 2);
    assert_int_equal(rows("v_history"), 1);
    assert_int_equal(rows("v_attempts"), 4);
    assert_int_equal(rows("v_history_audit"), 0);
    assert_string_equal(
        sql_text(text, sizeof text,
                 "SELECT CONCAT_WS(' ', state, COALESCE(waiting_for, '-'), attempt, max_attempts, attempt_status, "
                 "claim_shard, next_at IS NULL, overdue_ms IS NULL) FROM v_jobs WHERE id = %lld",
                 (long long)id),
        "dead - 2 3 failed 1 1 1");
    mysql_fixture_audit(); /* both were put in by hand */
    assert_sql_number(2, "SELECT jobs FROM v_backlog WHERE topic = 'orders'");
    assert_string_equal(
        sql_text(text, sizeof text,
                 "SELECT CONCAT_WS(' ', created, dead, removed, edited, missing) FROM v_audit WHERE topic = 'orders'"),
        "0 2 0 2 0");
    assert_string_equal(sql_text(text, sizeof text,
                                 "SELECT CONCAT_WS(' ', dead, miscounted, live_without_next_at, finished_with_next_at, "
                                 "keys_without_job) FROM v_recount WHERE topic = 'orders'"),
                        "1 0 0 0 0");
    run_sql("UPDATE history_counts SET jobs = 5");
    assert_string_equal(sql_text(text, sizeof text, "SELECT CONCAT(counted, found) FROM v_history_audit"), "51");
}

FRESH_TEST(procedures_answer_for_archived_jobs_as_the_store_does)
{
    char text[200];
    int64_t dead = archive_job(1, "dead"), done = archive_job(2, "succeeded");
    run_sql("CALL dt_explain(%lld)", (long long)dead);
    run_sql("CALL dt_cancel(%lld)", (long long)done);
    run_sql("CALL dt_redrive(%lld)", (long long)done);
    assert_int_equal(rows("jobs"), 0);
    run_sql("CALL dt_redrive(%lld)", (long long)dead);
    assert_string_equal(sql_text(text, sizeof text,
                                 "SELECT CONCAT_WS(' ', state, attempt, failures, due_band, leave_at, purge_at IS "
                                 "NULL, version, error_code) FROM jobs WHERE id = %lld",
                                 (long long)dead),
                        "scheduled 2 0 1 0 1 2 boom");
    assert_int_equal(rows("attempts"), 1);
    assert_int_equal(rows("history_attempts"), 1);
    assert_sql_number(0, "SELECT COUNT(*) FROM key_ends WHERE job_id = %lld", (long long)dead);
    assert_whole();
}

/* ---- back ---- */

FRESH_TEST(a_redriven_archived_job_gets_its_attempts_and_key_back)
{
    int64_t id = archive_job(1, "dead");
    run_sql("DELETE FROM job_keys"); /* its key was free meanwhile */
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    assert_members(job, (state, DT_SCHEDULED), (attempt, 2), (failures, 0));
    assert_true(dt_str_is(job.payload, "{\"n\":1}"));
    assert_int_equal(rows("history") + rows("history_attempts") + rows("key_ends"), 0);
    assert_int_equal(rows("attempts"), 1);
    assert_sql_number(id, "SELECT job_id FROM job_keys WHERE job_key = 'k1'");
    assert_job(id, "CONCAT_WS(' ', due_band, due_key = next_at, leave_at, purge_at IS NULL)", "1 1 0 1");
    assert_whole();
    OK(dt_store_redrive(store, archive_job(2, "dead"), &arena, &job, &err));
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 3, attempt_status = 'dispatched' WHERE id = %lld",
            (long long)id);
    struct dt_apply a = {.result = {.job_id = id, .attempt = 3, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    OK(dt_store_apply(store, &map, &a, 1, &err));
    assert_int_equal(a.outcome, DT_OUTCOME_APPLIED);
}

FRESH_TEST(a_redriven_job_does_not_take_a_key_that_another_job_has)
{
    int64_t id = archive_job(1, "dead");
    run_sql("UPDATE job_keys SET job_id = 77");
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    assert_sql_number(77, "SELECT job_id FROM job_keys");
}

SUITE(open_store, close_store)
