/* Finished jobs on a real server: how they leave `jobs`, what is told of them from `history`, how they come back, and
 * how partitions are made and dropped. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "store/archive/archive.h"
#include "support/job_rows.h"

#define OK(status) MYSQL_FIXTURE_OK(status, &err)
#define DAY        INT64_C(86400000)
#define MINUTE     INT64_C(60000)
#define IDS        (INT64_C(690) << 40)

static struct mysql_fixture fx;
static dt_store *store;
static struct dt_arena arena;
static struct dt_error err;
static struct dt_shard_map map;
static struct dt_job job;
static struct dt_archiver archiver;
static struct dt_archived archived;
static int64_t now;

static int open_store(void **state)
{
    (void)state;
    mysql_fixture_open(&fx, "history", 4, &store, &arena);
    dt_shard_map_init(&map, 1, 4);
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    mysql_fixture_close(&fx, store, &arena);
    return 0;
}

static int empty_tables(void **state)
{
    (void)state;
    mysql_fixture_empty(&fx, &arena);
    fx.config.history_after = 10 * MINUTE;
    fx.config.history_dead_after = DAY;
    fx.config.history_keys = 36525 * DAY;
    archiver = (struct dt_archiver){0};
    now = mysql_now_ms(&fx);
    return 0;
}

/* A job that was finished `ago` ms ago, made a minute earlier, after two attempts; its key is "k<n>". */
static int64_t finished(int n, const char *state, int64_t ago)
{
    int64_t id = IDS + n, at = now - ago;
    job_row(
        &fx, id,
        "job_key = 'k%d', state = '%s', next_at = NULL, attempt = 2, failures = 1, attempt_status = 'failed', "
        "claim_shard = 1, created_at = %lld, updated_at = %lld, finished_at = %lld, purge_at = %lld, leave_at = %lld, "
        "error_code = 'boom', error_at = 7",
        n, state, (long long)(at - MINUTE), (long long)at, (long long)at, (long long)(at + 30 * DAY),
        (long long)(at + 10 * MINUTE));
    mysql_fixture_run(&fx,
                      "INSERT INTO job_keys VALUES ('orders', 'k%d', %lld) ON DUPLICATE KEY UPDATE job_id = job_id", n,
                      (long long)id);
    mysql_fixture_run(&fx,
                      "INSERT INTO attempts (job_id, attempt, status, due_at, error_code) VALUES (%lld, 1, "
                      "'failed', 5, 'first')",
                      (long long)id);
    return id;
}

static int64_t rows(const char *table)
{
    return mysql_fixture_number(&fx, "SELECT COUNT(*) FROM %s", table);
}

static struct dt_tended tended;

static dt_status tend(int64_t at_ms, const int32_t *v, size_t n)
{
    struct dt_wanted wanted = {.n = n};
    for (size_t i = 0; i < n; i++)
        wanted.v[i] = v[i];
    return dt_store_partitions_tend(store, at_ms, &wanted, &archiver.partitions, &tended, &err);
}

/* As the housekeeper does it: what is missing is made, and the same again. */
static void archive_due(void)
{
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    if (archived.wanted.n == 0)
        return;
    OK(tend(now, archived.wanted.v, archived.wanted.n));
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.wanted.n, 0);
}

static int64_t archive_job(int n, const char *state)
{
    int64_t id = finished(n, state, 20 * MINUTE);
    archive_due();
    assert_int_equal(archived.moved, 1);
    return id;
}

/* One row a job, and what is counted is there. */
static void assert_whole(void)
{
    assert_int_equal(mysql_fixture_number(&fx, "SELECT COUNT(*) FROM jobs j JOIN history h ON h.id = j.id"), 0);
    assert_int_equal(mysql_fixture_number(
                         &fx, "SELECT COUNT(*) FROM history_counts c WHERE c.jobs <> (SELECT COUNT(*) FROM history h "
                              "WHERE h.topic = c.topic AND h.state = c.state AND h.part = c.part)"),
                     0);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT COUNT(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM "
                                               "history_counts c WHERE h.topic = c.topic AND h.state = c.state AND "
                                               "h.part = c.part)"),
                     0);
    assert_int_equal(
        mysql_fixture_number(&fx, "SELECT COUNT(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM "
                                  "history_days d WHERE d.home_day = h.id DIV 1099511627776 AND d.part = h.part)"),
        0);
}

/* ---- numbers of partitions ---- */

static void a_partition_is_a_day_or_a_month_when_that_is_far(void **state)
{
    (void)state;
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

static void finished_jobs_move_to_history_with_all_that_is_known_of_them(void **state)
{
    (void)state;
    int64_t id = finished(1, "dead", 20 * MINUTE);
    finished(2, "succeeded", MINUTE); /* not yet */
    job_row(&fx, IDS + 3, NULL);      /* lives */
    archive_due();
    assert_int_equal(archived.moved, 1);
    assert_int_equal(archived.removed, 0);
    assert_int_equal(rows("jobs"), 2);
    assert_int_equal(rows("history"), 1);
    assert_int_equal(rows("attempts"), 1);
    assert_int_equal(rows("history_attempts"), 1);
    assert_int_equal(mysql_fixture_number(&fx,
                                          "SELECT jobs FROM history_counts WHERE topic = 'orders' AND state = "
                                          "'dead' AND part = %d",
                                          dt_partition_of(now - 20 * MINUTE + 30 * DAY, now)),
                     1);
    OK(dt_store_get(store, id, &arena, &job, &err));
    assert_int_equal(job.state, DT_DEAD);
    assert_int_equal(job.next_at_ms, 0);
    assert_int_equal(job.attempt, 2);
    assert_int_equal(job.failures, 1);
    assert_int_equal(job.claim_shard, 1);
    assert_int_equal(job.created_at_ms, now - 21 * MINUTE);
    assert_int_equal(job.finished_at_ms, now - 20 * MINUTE);
    assert_int_equal(job.error_at_ms, 7);
    assert_true(dt_str_is(job.error_code, "boom"));
    assert_true(dt_str_is(job.topic, "orders"));
    assert_true(dt_str_is(job.key, "k1"));
    assert_true(dt_str_is(job.payload, "{\"n\":1}"));
    assert_true(dt_str_is(job.retry, "15s 3m"));
    assert_whole();
}

static void what_is_needed_stays_and_holds_up_nobody(void **state)
{
    (void)state;
    int64_t flying = finished(1, "succeeded", 40 * MINUTE), told = finished(2, "dead", 40 * MINUTE);
    int64_t young = finished(3, "succeeded", 40 * MINUTE);
    mysql_fixture_run(&fx, "UPDATE jobs SET created_at = %lld WHERE id = %lld", (long long)now, (long long)young);
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[[%lld,2,5]]' WHERE shard = 1", (long long)flying);
    mysql_fixture_run(&fx, "INSERT INTO outbox (shard, kind, job_id, attempt, made_at) VALUES (0, 'dead', %lld, 2, 0)",
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
    mysql_fixture_run(&fx, "UPDATE shards SET inflight = '[]'");
    mysql_fixture_run(&fx, "DELETE FROM outbox");
    mysql_fixture_run(&fx, "UPDATE jobs SET created_at = %lld WHERE id = %lld", (long long)(now - MINUTE),
                      (long long)young);
    archive_due();
    assert_int_equal(archived.moved, 3);
    assert_whole();
}

static void a_job_that_somebody_holds_is_passed_by(void **state)
{
    (void)state;
    int64_t held = finished(1, "succeeded", 20 * MINUTE);
    finished(2, "succeeded", 20 * MINUTE);
    mysql_fixture_run(&fx, "BEGIN");
    mysql_fixture_number(&fx, "SELECT id FROM jobs WHERE id = %lld FOR UPDATE", (long long)held);
    archive_due();
    mysql_fixture_run(&fx, "ROLLBACK");
    assert_int_equal(archived.moved, 1);
    archive_due();
    assert_int_equal(archived.moved, 1);
}

static void one_that_history_has_already_stays_alone(void **state)
{
    (void)state;
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
    assert_int_equal(mysql_fixture_number(&fx, "SELECT id FROM jobs"), id);
    assert_int_equal(rows("history"), 7);
}

static void a_job_whose_retention_is_over_goes_nowhere(void **state)
{
    (void)state;
    int64_t id = finished(1, "succeeded", 20 * MINUTE);
    mysql_fixture_run(&fx, "UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)now, (long long)id);
    finished(2, "succeeded", 20 * MINUTE);
    archive_due();
    assert_int_equal(archived.removed, 1);
    assert_int_equal(archived.moved, 1);
    assert_int_equal(rows("jobs") + rows("attempts"), 0);
    assert_int_equal(rows("history"), 1);
    assert_int_equal(rows("history_attempts"), 1);
    assert_int_equal(rows("job_keys"), 1);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT removed FROM removed_jobs WHERE topic = 'orders'"), 1);
    assert_whole();
}

static void jobs_that_are_archived_together_are_counted_by_topic_state_and_day(void **state)
{
    (void)state;
    enum { JOBS = 16 };
    char text[400], expected[400];
    for (int i = 0; i < JOBS; i++) { /* 2 topics x 2 states x 2 days of their end x 2 home days, in turn */
        int64_t id = finished(i, i & 2 ? "dead" : "succeeded", 20 * MINUTE);
        mysql_fixture_run(
            &fx, "UPDATE jobs SET topic = '%s', purge_at = purge_at + %lld, id = id + %lld WHERE id = %lld",
            i & 1 ? "orders" : "order", (long long)(i & 4 ? DAY : 0), i & 8 ? 1LL << 40 : 0LL, (long long)id);
        mysql_fixture_run(&fx, "UPDATE attempts SET job_id = job_id + %lld WHERE job_id = %lld",
                          i & 8 ? 1LL << 40 : 0LL, (long long)id);
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
    mysql_fixture_text(
        &fx, text, sizeof text,
        "SELECT GROUP_CONCAT(part, ':', jobs ORDER BY topic, state + 0, part SEPARATOR ' ') FROM history_counts");
    assert_string_equal(text, expected);
    assert_int_equal(rows("history_days"), 4);
    assert_whole();
}

static void jobs_that_are_removed_together_are_counted_by_topic(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        int64_t id = finished(i, i % 2 ? "dead" : "cancelled", 20 * MINUTE);
        mysql_fixture_run(&fx, "UPDATE jobs SET topic = '%s', purge_at = %lld WHERE id = %lld",
                          i % 3 ? "orders" : "order", (long long)now, (long long)id);
    }
    archive_due();
    assert_int_equal(archived.removed, 6);
    assert_int_equal(rows("jobs") + rows("attempts") + rows("history") + rows("history_days") + rows("history_counts"),
                     0);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT removed FROM removed_jobs WHERE topic = 'order'"), 2);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT removed FROM removed_jobs WHERE topic = 'orders'"), 4);
}

/* Bits: whether the job that is removed has a key and archived attempts, and the one that moves. */
static void what_goes_with_a_removed_job_goes_whatever_others_have(void **state)
{
    (void)state;
    for (unsigned has = 0; has < 16; has++) {
        empty_tables(state);
        int64_t removed = finished(1, "dead", 20 * MINUTE), moved = finished(2, "dead", 20 * MINUTE),
                ids[] = {removed, removed, moved, moved};
        mysql_fixture_run(&fx, "UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)(now - 1),
                          (long long)removed);
        for (unsigned bit = 0; bit < 4; bit++) {
            if (has & 1u << bit)
                continue;
            mysql_fixture_run(&fx,
                              bit % 2 ? "UPDATE jobs SET attempt = 1 WHERE id = %lld"
                                      : "UPDATE jobs SET job_key = NULL WHERE id = %lld",
                              (long long)ids[bit]);
            mysql_fixture_run(
                &fx, bit % 2 ? "DELETE FROM attempts WHERE job_id = %lld" : "DELETE FROM job_keys WHERE job_id = %lld",
                (long long)ids[bit]);
        }
        archive_due();
        assert_int_equal(archived.removed, 1);
        assert_int_equal(archived.moved, 1);
        assert_int_equal(rows("jobs") + rows("attempts"), 0);
        assert_int_equal(rows("job_keys"), (has & 4) != 0); /* the moved one's */
        assert_int_equal(rows("key_ends"), (has & 4) != 0);
        assert_int_equal(rows("history_attempts"), (has & 8) != 0);
        assert_whole();
    }
}

static void a_job_finished_by_hand_is_told_when_it_is_archived_and_is(void **state)
{
    (void)state;
    fx.config.history_after = 0;
    job_row(&fx, IDS + 1, "state = 'cancelled', next_at = NULL, created_at = 5");
    archive_due();
    assert_int_equal(archived.moved, 0);
    now = mysql_now_ms(&fx) + 1;
    archive_due();
    assert_int_equal(archived.moved, 1);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT purge_at >= %lld FROM history", (long long)(now + 29 * DAY)), 1);
}

static void who_finishes_a_job_says_when_it_is_archived(void **state)
{
    (void)state;
    job_row_dispatched(&fx, IDS + 1, 1, 0);
    job_row_dispatched(&fx, IDS + 2, 1, 0);
    job_row(&fx, IDS + 3, NULL);
    struct dt_apply a[] = {
        {.result = {.job_id = IDS + 1, .attempt = 1, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}},
        {.result = {.job_id = IDS + 2, .attempt = 1, .status = DT_RESULT_GAVE_UP, .retry_after_ms = -1}}};
    OK(dt_store_apply(store, &map, a, 2, &err));
    OK(dt_store_cancel(store, IDS + 3, false, &arena, &job, &err));
    assert_job(&fx, IDS + 1, "leave_at - updated_at", "600000");
    assert_job(&fx, IDS + 2, "leave_at - updated_at", "86400000");
    assert_job(&fx, IDS + 3, "leave_at - updated_at", "600000");
    mysql_fixture_run(&fx,
                      "INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 1000, 1, 1)");
    job_row(&fx, IDS + 4, NULL);
    OK(dt_store_cancel(store, IDS + 4, false, &arena, &job, &err));
    assert_job(&fx, IDS + 4, "leave_at - updated_at", "1000");
}

static int64_t session_status(const char *show)
{
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_query(db, show, DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    struct dt_str text = dt_db_bytes(db, 1);
    int64_t n = strtoll(text.p, NULL, 10);
    OK(dt_db_end(db, &err));
    return n;
}

static int64_t questions(void)
{
    return session_status("SHOW SESSION STATUS LIKE 'Questions'");
}

/* `n` more rows like the first one, with keys and attempts of their own. */
static void multiply(int64_t first, int n)
{
    job_rows_multiply(&fx, n, 0);
    mysql_fixture_run(&fx, "INSERT INTO job_keys SELECT topic, job_key, id FROM jobs WHERE id > %lld",
                      (long long)first);
    mysql_fixture_run(&fx,
                      "INSERT INTO attempts (job_id, attempt, status) SELECT id, 1, 'failed' FROM jobs WHERE id > "
                      "%lld",
                      (long long)first);
}

static void a_thousand_jobs_are_archived_in_few_statements(void **state)
{
    (void)state;
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
static void jobs_with_thousands_of_attempts_are_archived_a_few_at_a_time(void **state)
{
    (void)state;
    archive_job(1, "succeeded");
    for (int i = 2; i < 8; i++) {
        int64_t id = finished(i, "succeeded", 20 * MINUTE);
        mysql_fixture_run(&fx, "UPDATE jobs SET attempt = 4001 WHERE id = %lld", (long long)id);
        mysql_fixture_run(&fx,
                          "INSERT INTO attempts (job_id, attempt, status) SELECT %lld, n, 'snoozed' FROM "
                          "(WITH RECURSIVE up AS (SELECT 2 AS n UNION ALL SELECT n + 1 FROM up WHERE n < 900) SELECT n "
                          "FROM up) few",
                          (long long)id);
    }
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 2);
    assert_true(archived.more);
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 2);
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 2);
    assert_false(archived.more);
    mysql_fixture_run(&fx, "UPDATE jobs SET attempt = 90000 WHERE id = %lld",
                      (long long)finished(8, "succeeded", 20 * MINUTE));
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 1);
    assert_int_equal(rows("jobs") + rows("attempts"), 0);
    assert_int_equal(rows("history_attempts"), 1 + 6 * 900 + 1);
    assert_whole();
}

static void *move_all(void *arg)
{
    dt_store *own = mysql_fixture_store(&fx);
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

static void archivers_at_once_archive_each_job_once(void **state)
{
    (void)state;
    enum { MOVERS = 4 };
    pthread_t threads[MOVERS];
    size_t moved[MOVERS] = {0}, all = 0;
    archive_job(1, "succeeded");
    multiply(finished(2, "succeeded", 20 * MINUTE), 2000);
    for (int i = 0; i < MOVERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, move_all, &moved[i]), 0);
    for (int i = 0; i < MOVERS; i++) {
        pthread_join(threads[i], NULL);
        all += moved[i];
    }
    assert_int_equal(all, 2000);
    assert_int_equal(rows("jobs"), 0);
    assert_int_equal(rows("history"), 2001);
    assert_whole();
}

/* ---- what is told ---- */

static void all_that_is_asked_of_an_archived_job_is_answered(void **state)
{
    (void)state;
    struct dt_attempt_list attempts;
    int64_t id = archive_job(1, "succeeded"), found;
    struct dt_patch patch = {.has_run_at = true, .run_at_ms = now + DAY};
    assert_int_equal(dt_store_cancel(store, id, false, &arena, &job, &err), DT_TOO_LATE);
    assert_int_equal(job.state, DT_SUCCEEDED);
    assert_int_equal(job.attempt, 2);
    assert_int_equal(dt_store_patch(store, id, &patch, &arena, &job, &err), DT_TOO_LATE);
    assert_int_equal(dt_store_run_now(store, id, &arena, &job, &err), DT_TOO_LATE);
    assert_int_equal(dt_store_redrive(store, id, &arena, &job, &err), DT_NOT_DEAD);
    assert_int_equal(job.state, DT_SUCCEEDED);
    OK(dt_store_find_key(store, dt_str("orders"), dt_str("k1"), &found, &err));
    assert_int_equal(found, id);
    OK(dt_store_attempts(store, &(struct dt_attempt_filter){id, 0, 1000}, &arena, &attempts, &err));
    assert_int_equal(attempts.n, 2);
    assert_int_equal(attempts.v[0].status, DT_ATTEMPT_FAILED);
    assert_int_equal(attempts.v[0].due_at_ms, 5);
    assert_true(dt_str_is(attempts.v[0].error_code, "first"));
    assert_int_equal(attempts.v[1].attempt, 2);
    int64_t cancelled = archive_job(2, "cancelled");
    OK(dt_store_cancel(store, cancelled, false, &arena, &job, &err));
    assert_int_equal(job.state, DT_CANCELLED);
    assert_whole();
}

static void a_result_that_comes_after_all_is_stale_or_a_duplicate(void **state)
{
    (void)state;
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

static void what_is_over_is_shown_to_nobody_while_its_partition_stands(void **state)
{
    (void)state;
    struct dt_attempt_list attempts;
    int64_t id = archive_job(1, "dead");
    struct dt_apply a = {.result = {.job_id = id, .attempt = 2, .status = DT_RESULT_FAILED, .retry_after_ms = -1}};
    mysql_fixture_run(&fx, "UPDATE history SET purge_at = %lld", (long long)(now - 1));
    mysql_fixture_run(&fx, "UPDATE history_attempts SET purge_at = %lld", (long long)(now - 1));
    assert_int_equal(dt_store_get(store, id, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_cancel(store, id, false, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_redrive(store, id, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_attempts(store, &(struct dt_attempt_filter){id, 0, 1000}, &arena, &attempts, &err),
                     DT_NOT_FOUND);
    OK(dt_store_apply(store, &map, &a, 1, &err));
    assert_int_equal(a.outcome, DT_OUTCOME_UNKNOWN_JOB);
    assert_int_equal(rows("v_jobs") + rows("v_dead") + rows("v_attempts") + rows("v_history"), 0);
}

static void views_show_jobs_wherever_they_stand(void **state)
{
    (void)state;
    char text[200];
    int64_t id = archive_job(1, "dead");
    finished(2, "dead", MINUTE);
    assert_int_equal(rows("v_jobs"), 2);
    assert_int_equal(rows("v_dead"), 2);
    assert_int_equal(rows("v_history"), 1);
    assert_int_equal(rows("v_attempts"), 4);
    assert_int_equal(rows("v_history_audit"), 0);
    assert_string_equal(
        mysql_fixture_text(&fx, text, sizeof text,
                           "SELECT CONCAT_WS(' ', state, COALESCE(waiting_for, '-'), attempt, max_attempts, "
                           "attempt_status, claim_shard, next_at IS NULL, overdue_ms IS NULL) FROM v_jobs WHERE id = "
                           "%lld",
                           (long long)id),
        "dead - 2 3 failed 1 1 1");
    mysql_fixture_audit(&fx); /* both were put in by hand */
    assert_int_equal(mysql_fixture_number(&fx, "SELECT jobs FROM v_backlog WHERE topic = 'orders'"), 2);
    assert_string_equal(
        mysql_fixture_text(&fx, text, sizeof text,
                           "SELECT CONCAT_WS(' ', created, dead, removed, edited, missing) FROM v_audit "
                           "WHERE topic = 'orders'"),
        "0 2 0 2 0");
    assert_string_equal(mysql_fixture_text(&fx, text, sizeof text,
                                           "SELECT CONCAT_WS(' ', dead, miscounted, live_without_next_at, "
                                           "finished_with_next_at, keys_without_job) FROM v_recount WHERE topic = "
                                           "'orders'"),
                        "1 0 0 0 0");
    mysql_fixture_run(&fx, "UPDATE history_counts SET jobs = 5");
    assert_string_equal(
        mysql_fixture_text(&fx, text, sizeof text, "SELECT CONCAT(counted, found) FROM v_history_audit"), "51");
}

static void procedures_answer_for_archived_jobs_as_the_store_does(void **state)
{
    (void)state;
    char text[200];
    int64_t dead = archive_job(1, "dead"), done = archive_job(2, "succeeded");
    mysql_fixture_run(&fx, "CALL dt_explain(%lld)", (long long)dead);
    mysql_fixture_run(&fx, "CALL dt_cancel(%lld)", (long long)done);
    mysql_fixture_run(&fx, "CALL dt_redrive(%lld)", (long long)done);
    assert_int_equal(rows("jobs"), 0);
    mysql_fixture_run(&fx, "CALL dt_redrive(%lld)", (long long)dead);
    assert_string_equal(mysql_fixture_text(&fx, text, sizeof text,
                                           "SELECT CONCAT_WS(' ', state, attempt, failures, due_band, leave_at, "
                                           "purge_at IS NULL, version, error_code) FROM jobs WHERE id = %lld",
                                           (long long)dead),
                        "scheduled 2 0 1 0 1 2 boom");
    assert_int_equal(rows("attempts"), 1);
    assert_int_equal(rows("history_attempts"), 1);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT COUNT(*) FROM key_ends WHERE job_id = %lld", (long long)dead),
                     0);
    assert_whole();
}

/* ---- back ---- */

static void a_dead_job_is_driven_back_with_its_attempts_and_its_key(void **state)
{
    (void)state;
    int64_t id = archive_job(1, "dead");
    mysql_fixture_run(&fx, "DELETE FROM job_keys"); /* its key was free meanwhile */
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    assert_int_equal(job.state, DT_SCHEDULED);
    assert_int_equal(job.attempt, 2);
    assert_int_equal(job.failures, 0);
    assert_true(dt_str_is(job.payload, "{\"n\":1}"));
    assert_int_equal(rows("history") + rows("history_attempts") + rows("key_ends"), 0);
    assert_int_equal(rows("attempts"), 1);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT job_id FROM job_keys WHERE job_key = 'k1'"), id);
    assert_job(&fx, id, "CONCAT_WS(' ', due_band, due_key = next_at, leave_at, purge_at IS NULL)", "1 1 0 1");
    assert_whole();
    OK(dt_store_redrive(store, archive_job(2, "dead"), &arena, &job, &err));
    mysql_fixture_run(&fx,
                      "UPDATE jobs SET state = 'dispatched', attempt = 3, attempt_status = 'dispatched' WHERE id = "
                      "%lld",
                      (long long)id);
    struct dt_apply a = {.result = {.job_id = id, .attempt = 3, .status = DT_RESULT_SUCCEEDED, .retry_after_ms = -1}};
    OK(dt_store_apply(store, &map, &a, 1, &err));
    assert_int_equal(a.outcome, DT_OUTCOME_APPLIED);
}

static void a_job_driven_back_leaves_a_key_that_moved_on_alone(void **state)
{
    (void)state;
    int64_t id = archive_job(1, "dead");
    mysql_fixture_run(&fx, "UPDATE job_keys SET job_id = 77");
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    assert_int_equal(mysql_fixture_number(&fx, "SELECT job_id FROM job_keys"), 77);
}

/* ---- keys ---- */

static struct dt_insert insert(int64_t id, const char *key, unsigned char digest)
{
    struct dt_insert in = {.job = {.id = id,
                                   .topic = dt_str("orders"),
                                   .key = dt_str(key),
                                   .run_at_ms = now + DAY,
                                   .retry = dt_str("15s"),
                                   .ack_timeout_ms = 1000,
                                   .payload = dt_str("{}")}};
    struct dt_insert *rows_of[] = {&in};
    int64_t created_ms;
    memset(in.job.digest, digest, sizeof in.job.digest);
    OK(dt_store_insert(store, rows_of, 1, 5, &created_ms, &err));
    return in;
}

static void the_key_of_an_archived_job_is_taken_until_its_time_is_over(void **state)
{
    (void)state;
    size_t done;
    fx.config.history_keys = 2 * DAY;
    int64_t id = archive_job(1, "succeeded");
    struct dt_insert in = insert(IDS + 50, "k1", 'd');
    assert_int_equal(in.outcome, DT_INSERT_SAME);
    assert_int_equal(in.existing_id, id);
    in = insert(IDS + 50, "k1", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CONFLICT);
    OK(dt_store_free_keys(store, now + DAY, 100, &done, &err));
    assert_int_equal(done, 0);
    OK(dt_store_free_keys(store, now + 2 * DAY, 100, &done, &err));
    assert_int_equal(done, 1);
    assert_int_equal(rows("job_keys") + rows("key_ends"), 0);
    in = insert(IDS + 51, "k1", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    OK(dt_store_get(store, id, &arena, &job, &err)); /* kept all the same */
}

static struct dt_insert insert_by_command(int64_t id, const char *name, unsigned char digest)
{
    struct dt_insert in = {.job = {.id = id,
                                   .topic = dt_str("others"),
                                   .key = dt_str(name),
                                   .by_command = true,
                                   .run_at_ms = now + DAY,
                                   .retry = dt_str("15s"),
                                   .ack_timeout_ms = 1000,
                                   .payload = dt_str("{}")}};
    struct dt_insert *rows_of[] = {&in};
    int64_t created_ms;
    memset(in.job.digest, digest, sizeof in.job.digest);
    OK(dt_store_insert(store, rows_of, 1, 5, &created_ms, &err));
    return in;
}

static void an_id_of_a_command_is_taken_as_long_as_its_jobs_key(void **state)
{
    (void)state;
    size_t done;
    fx.config.history_keys = 2 * DAY;
    mysql_fixture_run(&fx, "INSERT INTO command_ids (id, job_id) VALUES ('k1', %lld)",
                      (long long)finished(1, "succeeded", 20 * MINUTE));
    archive_due();
    assert_int_equal(archived.moved, 1);
    struct dt_insert in = insert_by_command(IDS + 50, "k1", 'd');
    assert_int_equal(in.outcome, DT_INSERT_SAME);
    struct dt_command_job found = {.id = dt_str("k1")};
    OK(dt_store_command_jobs(store, &found, 1, &arena, &err));
    assert_int_equal(found.job_id, in.existing_id);
    assert_true(dt_str_is(found.topic, "orders") && found.attempt == 2);
    OK(dt_store_free_keys(store, now + 2 * DAY, 100, &done, &err));
    assert_int_equal(rows("command_ids"), 0);
    in = insert_by_command(IDS + 51, "k1", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    mysql_fixture_run(&fx, "INSERT INTO command_ids (id, job_id) VALUES ('k2', %lld)",
                      (long long)finished(2, "succeeded", 20 * MINUTE));
    mysql_fixture_run(&fx, "UPDATE jobs SET purge_at = %lld WHERE job_key = 'k2'", (long long)now);
    archive_due();
    assert_int_equal(archived.removed, 1);
    assert_int_equal(rows("command_ids"), 1); /* the later one's */
}

static void a_key_ends_with_its_own_time_or_its_jobs_whichever_is_sooner(void **state)
{
    (void)state;
    static const struct {
        int64_t keys, kept, ends;
    } cases[] = {{2 * DAY, 3 * DAY, 2 * DAY}, {3 * DAY, 2 * DAY, 2 * DAY}, {DAY, DAY, DAY}};
    const int64_t at = now - 20 * MINUTE;
    for (int i = 0; i < 3; i++) {
        fx.config.history_keys = cases[i].keys;
        int64_t id = finished(i, "succeeded", 20 * MINUTE);
        mysql_fixture_run(&fx, "UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)(at + cases[i].kept),
                          (long long)id);
        archive_due();
        assert_int_equal(archived.moved, 1);
        assert_int_equal(mysql_fixture_number(&fx, "SELECT free_at FROM key_ends WHERE job_id = %lld", (long long)id),
                         at + cases[i].ends);
        assert_int_equal(mysql_fixture_number(&fx, "SELECT key_until FROM history WHERE id = %lld", (long long)id),
                         at + cases[i].ends);
        assert_int_equal(mysql_fixture_number(&fx, "SELECT purge_at FROM history WHERE id = %lld", (long long)id),
                         at + cases[i].kept);
    }
}

static void a_key_whose_time_is_over_is_taken_before_anybody_freed_it(void **state)
{
    (void)state;
    size_t done;
    fx.config.history_keys = MINUTE;
    archive_job(1, "succeeded");
    struct dt_insert in = insert(IDS + 50, "k1", 'd');
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    OK(dt_store_free_keys(store, now, 100, &done, &err));
    assert_int_equal(done, 1);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT job_id FROM job_keys WHERE job_key = 'k1'"), IDS + 50);
    finished(2, "succeeded", 2 * MINUTE); /* still among the live ones */
    in = insert(IDS + 51, "k2", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CREATED);
    finished(3, "succeeded", MINUTE / 2);
    in = insert(IDS + 52, "k3", 'e');
    assert_int_equal(in.outcome, DT_INSERT_CONFLICT);
}

/* ---- lists, counts ---- */

static void lists_merge_what_lives_and_what_is_archived(void **state)
{
    (void)state;
    struct dt_job_list jobs;
    char text[200] = "";
    for (int i = 1; i <= 9; i += 2)
        finished(i, i % 4 == 1 ? "dead" : "succeeded", 20 * MINUTE);
    archive_due();
    assert_int_equal(archived.moved, 5);
    for (int i = 2; i <= 8; i += 2) {
        job_row(&fx, IDS + i, "job_key = 'k%d'", i);
        mysql_fixture_run(&fx, "INSERT INTO job_keys VALUES ('orders', 'k%d', %lld)", i, (long long)(IDS + i));
    }
    static const struct {
        int state;
        const char *prefix, *expected;
    } cases[] = {{-1, NULL, "123456789"}, {DT_DEAD, NULL, "159"}, {DT_SCHEDULED, NULL, "2468"},
                 {-1, "k", "123456789"},  {DT_DEAD, "k", "159"},  {DT_SCHEDULED, "k", "2468"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (unsigned limit = 1; limit < 12; limit += 2) {
            struct dt_list_filter f = {.state = cases[c].state,
                                       .limit = limit,
                                       .payload = limit == 3,
                                       .topic = dt_str("orders"),
                                       .key_prefix = dt_str(cases[c].prefix)};
            if (!cases[c].prefix)
                f.key_prefix = DT_STR_NONE;
            size_t at = 0;
            do {
                OK(dt_store_list(store, &f, &arena, &jobs, &err));
                for (size_t i = 0; i < jobs.n; i++)
                    at += (size_t)snprintf(text + at, sizeof text - at, "%d", (int)(jobs.v[i].id - IDS));
                f.after_id = jobs.last_id;
                f.after_key = jobs.last_key;
            } while (jobs.more);
            assert_string_equal(text, cases[c].expected);
        }
}

/* 2,500 archived jobs, far more than a window; every 500th is dead. Nothing lives, or one job behind all of them. */
static void a_filter_finds_what_is_archived_however_far_it_lies(void **state)
{
    (void)state;
    struct dt_job_list jobs;
    multiply(finished(0, "succeeded", 20 * MINUTE), 2500);
    mysql_fixture_run(&fx, "UPDATE jobs SET state = 'dead' WHERE id %% 500 = 499");
    do
        archive_due();
    while (archived.more);
    assert_int_equal(rows("history"), 2500);
    for (int lives = 0; lives < 2; lives++) {
        if (lives)
            job_row(&fx, IDS + 5000, "state = 'dead', next_at = NULL, job_key = 'k0z'");
        if (lives)
            mysql_fixture_run(&fx, "INSERT INTO job_keys VALUES ('orders', 'k0z', %lld)", (long long)(IDS + 5000));
        for (int by_key = 0; by_key < 2; by_key++) {
            struct dt_list_filter f = {.state = DT_DEAD, .limit = 2, .topic = dt_str("orders")};
            int found = 0, pages = 0;
            if (by_key)
                f.key_prefix = dt_str("k0");
            do {
                OK(dt_store_list(store, &f, &arena, &jobs, &err));
                for (size_t i = 0; i < jobs.n; i++)
                    assert_int_equal(jobs.v[i].state, DT_DEAD);
                found += (int)jobs.n;
                f.after_id = jobs.last_id;
                f.after_key = jobs.last_key;
            } while (jobs.more && ++pages < 10);
            assert_int_equal(found, 5 + lives);
        }
    }
}

static void counts_of_a_topic_have_what_is_archived(void **state)
{
    (void)state;
    struct dt_topic_counts counts;
    archive_job(1, "dead");
    archive_job(2, "succeeded");
    finished(3, "succeeded", MINUTE);
    mysql_fixture_audit(&fx);
    OK(dt_store_topic_counts(store, dt_str("orders"), &counts, &err));
    assert_int_equal(counts.by_state[DT_SUCCEEDED], 2);
    assert_int_equal(counts.by_state[DT_DEAD], 1);
}

/* ---- partitions ---- */

static int64_t parts_of(const char *table)
{
    return mysql_fixture_number(&fx,
                                "SELECT COUNT(*) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() "
                                "AND TABLE_NAME = '%s' AND PARTITION_NAME <> 'rest'",
                                table);
}

static void drop_all(void)
{
    do
        OK(tend(now + 20000 * DAY, NULL, 0));
    while (tended.more);
}

static void partitions_are_made_as_they_are_wanted_and_dropped_when_their_day_is_over(void **state)
{
    (void)state;
    drop_all();
    assert_int_equal(parts_of("history"), 0);
    mysql_fixture_run(&fx, "DELETE FROM removed_jobs");
    int64_t id = finished(1, "dead", 20 * MINUTE);
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 0);
    assert_int_equal(archived.wanted.n, 1);
    assert_int_equal(archived.wanted.v[0], dt_partition_of(now - 20 * MINUTE + 30 * DAY, now));
    archive_due();
    assert_int_equal(archived.moved, 1);
    assert_int_equal(parts_of("history"), 1);
    assert_int_equal(parts_of("history_attempts"), 1);
    int64_t purge_at = now - 20 * MINUTE + 30 * DAY, day_end = purge_at - purge_at % DAY + DAY;
    OK(tend(day_end, NULL, 0));
    assert_int_equal(tended.dropped, 0);
    OK(tend(day_end + 2 * MINUTE, NULL, 0));
    assert_int_equal(tended.dropped, 1);
    assert_int_equal(parts_of("history") + parts_of("history_attempts"), 0);
    assert_int_equal(rows("history") + rows("history_attempts") + rows("history_counts") + rows("history_days"), 0);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT removed FROM removed_jobs WHERE topic = 'orders'"), 1);
    assert_int_equal(dt_store_get(store, id, &arena, &job, &err), DT_NOT_FOUND);
    /* an archiver that does not know of it yet puts nothing where nothing is */
    archiver.partitions = (struct dt_partitions){.read = true, .n = 1, .v = {dt_partition_of(purge_at, now)}};
    finished(2, "dead", 20 * MINUTE);
    assert_int_not_equal(dt_store_archive(store, &archiver, now, 1000, &archived, &err), DT_OK);
    assert_int_equal(rows("jobs"), 1);
    archive_due();
    assert_int_equal(archived.moved, 1);
    assert_whole();
}

static void partitions_are_dropped_in_order_a_few_at_a_time(void **state)
{
    (void)state;
    int32_t wanted[9];
    drop_all();
    for (int i = 0; i < 9; i++)
        wanted[i] = dt_partition_of(now + (i + 1) * DAY, now);
    OK(tend(now, wanted, 9));
    assert_int_equal(archiver.partitions.n, 9);
    OK(tend(now + 8 * DAY, NULL, 0));
    assert_true(tended.more);
    assert_int_equal(parts_of("history"), 9 - tended.dropped);
    OK(tend(now + 8 * DAY, NULL, 0));
    assert_false(tended.more);
    assert_int_equal(parts_of("history"), 2);
    assert_int_equal(archiver.partitions.n, 2);
}

static void a_drop_that_was_cut_off_is_ended_and_counted_once(void **state)
{
    (void)state;
    drop_all();
    archive_job(1, "dead");
    mysql_fixture_run(&fx, "DELETE FROM removed_jobs");
    int32_t part = dt_partition_of(now - 20 * MINUTE + 30 * DAY, now);
    mysql_fixture_run(&fx, "INSERT INTO removed_jobs VALUES ('orders', 1)"); /* counted out, then killed */
    mysql_fixture_run(&fx, "DELETE FROM history_counts");
    mysql_fixture_run(&fx, "ALTER TABLE history DROP PARTITION p%d", part);
    OK(tend(now + 40 * DAY, NULL, 0));
    assert_int_equal(tended.dropped, 1);
    assert_int_equal(parts_of("history_attempts"), 0);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT removed FROM removed_jobs"), 1);
}

static void a_reader_in_the_way_of_a_partition_is_not_waited_for_long(void **state)
{
    (void)state;
    drop_all();
    finished(1, "dead", 20 * MINUTE);
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    mysql_fixture_run(&fx, "BEGIN");
    mysql_fixture_number(&fx, "SELECT COUNT(*) FROM history");
    assert_int_equal(tend(now, archived.wanted.v, archived.wanted.n), DT_BUSY);
    archiver.make_do = true; /* jobs do not wait for it */
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 1);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT part FROM history"), 0);
    mysql_fixture_run(&fx, "COMMIT");
    assert_whole();
}

static void what_lies_in_the_default_partition_moves_to_its_partition_or_away(void **state)
{
    (void)state;
    size_t done;
    drop_all();
    mysql_fixture_run(&fx, "DELETE FROM removed_jobs");
    int64_t stays = finished(1, "dead", 20 * MINUTE), ever = finished(2, "succeeded", 20 * MINUTE);
    int64_t over = finished(3, "succeeded", 20 * MINUTE);
    mysql_fixture_run(&fx, "UPDATE jobs SET purge_at = 9223372036854775807 WHERE id = %lld", (long long)ever);
    mysql_fixture_run(&fx, "UPDATE jobs SET purge_at = %lld WHERE id = %lld", (long long)(now + MINUTE),
                      (long long)over);
    archiver.make_do = true;
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.moved, 3);
    OK(dt_store_sort_default(store, &archiver, now, 100, &done, &err));
    assert_int_equal(done, 0);
    int32_t wanted[] = {dt_partition_of(now - 20 * MINUTE + 30 * DAY, now)};
    OK(tend(now, wanted, 1));
    OK(dt_store_sort_default(store, &archiver, now + 2 * MINUTE, 100, &done, &err));
    assert_int_equal(done, 2);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT part FROM history WHERE id = %lld", (long long)stays),
                     wanted[0]);
    assert_int_equal(
        mysql_fixture_number(&fx, "SELECT part FROM history_attempts WHERE job_id = %lld", (long long)stays),
        wanted[0]);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT part FROM history WHERE id = %lld", (long long)ever), 0);
    assert_int_equal(rows("history"), 2);
    assert_int_equal(rows("history_attempts"), 2);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT removed FROM removed_jobs"), 1);
    assert_int_equal(rows("v_history_audit"), 0);
    assert_whole();
}

static void partitions_ahead_are_those_of_the_topics_retentions(void **state)
{
    (void)state;
    struct dt_wanted wanted;
    mysql_fixture_run(&fx, "INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('a', NULL, 0, 0), "
                           "('b', 86400000, 0, 0), ('c', 0, 0, 0), ('d', 9223372036854775807, 0, 0), "
                           "('e', 86400000, 0, 0)");
    OK(dt_store_partitions_ahead(store, now, 1, &wanted, &err));
    assert_int_equal(wanted.n, 4);
    for (size_t i = 0; i < wanted.n; i++)
        assert_true(
            wanted.v[i] == dt_partition_of(now + DAY, now) || wanted.v[i] == dt_partition_of(now + 2 * DAY, now) ||
            wanted.v[i] == dt_partition_of(now + 30 * DAY, now) || wanted.v[i] == dt_partition_of(now + 31 * DAY, now));
}

static int64_t keys_read(void)
{
    return session_status("SHOW SESSION STATUS LIKE 'Handler_read_key'");
}

/* `n` partitions more, with a job of another day in each. */
static void make_parts(int n)
{
    for (int i = 1; i <= n; i++) {
        const int32_t part = dt_partition_of(now + (40 + i) * DAY, now);
        OK(tend(now, &part, 1));
    }
    for (int i = 1; i <= n; i++) {
        int64_t id = finished(1000 + i, "succeeded", 20 * MINUTE), home = id + ((int64_t)i << 40);
        mysql_fixture_run(&fx, "UPDATE jobs SET id = %lld, purge_at = %lld WHERE id = %lld", (long long)home,
                          (long long)(now + (40 + i) * DAY), (long long)id);
        mysql_fixture_run(&fx, "UPDATE attempts SET job_id = %lld WHERE job_id = %lld", (long long)home, (long long)id);
    }
    archive_due();
    assert_int_equal(archived.moved, n);
}

static void a_job_is_looked_for_where_jobs_of_its_day_have_gone(void **state)
{
    (void)state;
    enum { PARTS = 40 };
    struct dt_apply late[PARTS];
    struct dt_attempt_list attempts;
    make_parts(PARTS);
    int64_t id = archive_job(1, "dead"), before = keys_read();
    OK(dt_store_get(store, id, &arena, &job, &err));
    OK(dt_store_attempts(store, &(struct dt_attempt_filter){id, 0, 1000}, &arena, &attempts, &err));
    assert_int_equal(attempts.n, 2);
    assert_int_equal(dt_store_get(store, id + 1, &arena, &job, &err), DT_NOT_FOUND);
    assert_int_equal(dt_store_get(store, id + (INT64_C(900) << 40), &arena, &job, &err), DT_NOT_FOUND);
    for (int i = 0; i < PARTS; i++)
        late[i] = (struct dt_apply){.result = {.job_id = IDS + 1001 + i + ((int64_t)(i + 1) << 40),
                                               .attempt = 1,
                                               .status = DT_RESULT_FAILED,
                                               .retry_after_ms = -1}};
    OK(dt_store_apply(store, &map, late, PARTS, &err));
    for (int i = 0; i < PARTS; i++)
        assert_int_equal(late[i].outcome, DT_OUTCOME_DUPLICATE);
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    int64_t keys = keys_read() - before;
    print_message("%lld looks\n", (long long)keys);
    assert_in_range(keys, 1, 10 * PARTS); /* a look into each partition for each job would be PARTS * PARTS */
}

static void a_day_in_many_partitions_is_looked_for_in_all_of_them(void **state)
{
    (void)state;
    int64_t id = archive_job(1, "dead");
    for (int i = 1; i < 20; i++)
        mysql_fixture_run(&fx, "INSERT INTO history_days (home_day, part) VALUES (690, %d)", 20200100 + i);
    OK(dt_store_get(store, id, &arena, &job, &err));
    assert_int_equal(dt_store_get(store, id + 1, &arena, &job, &err), DT_NOT_FOUND);
    for (int i = 1; i < 20; i++)
        mysql_fixture_run(&fx, "INSERT INTO history_days (home_day, part) VALUES (690, %d)", 20990100 + i);
    mysql_fixture_run(&fx, "INSERT INTO history_days (home_day, part) VALUES (690, 0)");
    OK(dt_store_get(store, id, &arena, &job, &err));
    assert_int_equal(dt_store_get(store, id + 1, &arena, &job, &err), DT_NOT_FOUND);
    OK(dt_store_redrive(store, id, &arena, &job, &err));
    assert_whole();
}

/* A job is found by a look into each partition's primary key: nothing is read as a whole. */
static void history_is_never_scanned_for_one_job(void **state)
{
    (void)state;
    static const char *const questions_of[] = {
        "SELECT * FROM history WHERE id = 5",
        "SELECT * FROM v_jobs WHERE id = 5",
        "SELECT * FROM v_attempts WHERE job_id = 5",
        "SELECT h.id FROM history h FORCE INDEX (PRIMARY) WHERE h.id > 5 ORDER BY h.id LIMIT 10",
        "SELECT * FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key >= 1 AND due_key <= 5 AND (due_key > 1 OR "
        "id "
        "> 5) ORDER BY due_key, id LIMIT 10",
        "SELECT free_at FROM key_ends FORCE INDEX (PRIMARY) WHERE free_at <= 5 ORDER BY free_at, job_id LIMIT 10",
    };
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    if (dt_db_server(db) == DT_SERVER_MYSQL)
        skip(); /* its EXPLAIN cannot be prepared; integration/test_explain.py asks it by text */
    archive_job(1, "dead");
    multiply(finished(2, "succeeded", 20 * MINUTE), 1000);
    archive_due();
    for (size_t i = 0; i < sizeof questions_of / sizeof *questions_of; i++) {
        char sql[400];
        snprintf(sql, sizeof sql, "EXPLAIN %s", questions_of[i]);
        OK(dt_store_db(store, &db, &err));
        OK(dt_db_query_text(db, dt_str(sql), &err));
        while (dt_db_next(db)) {
            struct dt_str table = dt_db_bytes(db, 2), type = dt_db_bytes(db, 3);
            bool small = dt_str_is(table, "x"); /* shard_stats, a row a shard */
            bool derived = table.n && table.p[0] == '<';
            if (!derived && !small && (dt_str_is(type, "ALL") || dt_str_is(type, "index")))
                fail_msg("%s reads %.*s as a whole", questions_of[i], (int)table.n, table.p);
        }
        OK(dt_db_end(db, &err));
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, empty_tables)
    const struct CMUnitTest tests[] = {
        T(a_partition_is_a_day_or_a_month_when_that_is_far),
        T(finished_jobs_move_to_history_with_all_that_is_known_of_them),
        T(what_is_needed_stays_and_holds_up_nobody),
        T(a_job_that_somebody_holds_is_passed_by),
        T(one_that_history_has_already_stays_alone),
        T(a_job_whose_retention_is_over_goes_nowhere),
        T(jobs_that_are_archived_together_are_counted_by_topic_state_and_day),
        T(jobs_that_are_removed_together_are_counted_by_topic),
        T(what_goes_with_a_removed_job_goes_whatever_others_have),
        T(a_job_finished_by_hand_is_told_when_it_is_archived_and_is),
        T(who_finishes_a_job_says_when_it_is_archived),
        T(a_thousand_jobs_are_archived_in_few_statements),
        T(jobs_with_thousands_of_attempts_are_archived_a_few_at_a_time),
        T(archivers_at_once_archive_each_job_once),
        T(all_that_is_asked_of_an_archived_job_is_answered),
        T(a_result_that_comes_after_all_is_stale_or_a_duplicate),
        T(what_is_over_is_shown_to_nobody_while_its_partition_stands),
        T(views_show_jobs_wherever_they_stand),
        T(procedures_answer_for_archived_jobs_as_the_store_does),
        T(a_dead_job_is_driven_back_with_its_attempts_and_its_key),
        T(a_job_driven_back_leaves_a_key_that_moved_on_alone),
        T(the_key_of_an_archived_job_is_taken_until_its_time_is_over),
        T(an_id_of_a_command_is_taken_as_long_as_its_jobs_key),
        T(a_key_ends_with_its_own_time_or_its_jobs_whichever_is_sooner),
        T(a_key_whose_time_is_over_is_taken_before_anybody_freed_it),
        T(lists_merge_what_lives_and_what_is_archived),
        T(a_filter_finds_what_is_archived_however_far_it_lies),
        T(counts_of_a_topic_have_what_is_archived),
        T(partitions_are_made_as_they_are_wanted_and_dropped_when_their_day_is_over),
        T(partitions_are_dropped_in_order_a_few_at_a_time),
        T(a_drop_that_was_cut_off_is_ended_and_counted_once),
        T(a_reader_in_the_way_of_a_partition_is_not_waited_for_long),
        T(what_lies_in_the_default_partition_moves_to_its_partition_or_away),
        T(partitions_ahead_are_those_of_the_topics_retentions),
        T(a_job_is_looked_for_where_jobs_of_its_day_have_gone),
        T(a_day_in_many_partitions_is_looked_for_in_all_of_them),
        T(history_is_never_scanned_for_one_job),
    };
    return cmocka_run_group_tests_name("history in the store", tests, open_store, close_store);
}
