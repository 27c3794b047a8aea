/* Replacing the job of a key on a real server, and its races with a claim, with a second replace and with what makes a
 * finished job live again. */

#include "job/change/jobs.h"
#include "job/change/jobs_txn.h"
#include "support/store_suite.h"

static struct dt_job job;

STORE_SUITE("replace", 0)

/* The body of request number n: its payload is the number. */
static struct dt_new_job body_of(int n)
{
    static char payloads[16][8];
    char *payload = payloads[n % 16];
    snprintf(payload, sizeof(payloads[0]), "%d", n);
    struct dt_new_job body = {.topic = S("orders"),
                              .key = S("k"),
                              .run_at_ms = 4000000000000 + n,
                              .retry = S("9s"),
                              .ack_timeout_ms = 7000,
                              .payload = dt_str(payload)};
    memcpy(body.digest, &n, sizeof(n));
    return body;
}

static dt_status replace(int n)
{
    const struct dt_new_job body = body_of(n);
    return dt_store_replace(store, &body, &arena, &job, &err);
}

static void keyed_row(int64_t id, const char *key, const char *change)
{
    job_row(id, "job_key = '%s'%s%s", key, *change ? ", " : "", change);
    run_sql("INSERT INTO job_keys VALUES ('orders', '%s', %lld)", key, (long long)id);
}

static enum dt_insert_outcome insert_with(int64_t id, int n, bool replaces, int64_t *existing)
{
    struct dt_insert row = {.job = body_of(n), .replace = replaces};
    struct dt_insert *rows[] = {&row};
    int64_t created_ms;
    row.job.id = id;
    OK(dt_store_insert(store, rows, 1, 4711, &created_ms, &err));
    *existing = row.existing_id;
    return row.outcome;
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

/* ---- what becomes of the job ---- */

FRESH_TEST(a_replaced_scheduled_job_keeps_its_id_and_attempts)
{
    keyed_row(
        7, "k",
        "attempt = 2, failures = 2, attempt_status = 'failed', no_retries = TRUE, partition_key = 'p', headers = '{}'");
    OK(replace(3));
    assert_members(job, (id, 7), (state, DT_SCHEDULED), (run_at_ms, 4000000000003), (next_at_ms, 4000000000003),
                   (ack_timeout_ms, 7000));
    assert_true(dt_str_is(job.payload, "3"));
    assert_true(dt_str_is(job.retry, "9s"));
    assert_members(job, (attempt, 2), (failures, 0), (no_retries, false), (partition_key.p, NULL), (headers.p, NULL),
                   (version, 2));
    assert_true(job.was_next_at_ms > 0 && job.was_next_at_ms < 4000000000000);
    assert_job(7, "CONCAT(near, due_band)", "00");
}

FRESH_TEST(a_repeated_create_finds_the_replaced_job)
{
    int64_t existing;
    keyed_row(7, "k", "");
    OK(replace(3));
    assert_int_equal(insert_with(8, 3, false, &existing), DT_INSERT_SAME);
    assert_int_equal(existing, 7);
    assert_int_equal(insert_with(8, 4, false, &existing), DT_INSERT_CONFLICT);
    OK(replace(3)); /* the same once more is asked for anew */
    assert_int_equal(job.version, 3);
}

FRESH_TEST(a_replace_takes_members_that_its_body_omits_from_the_topic)
{
    run_sql(
        "INSERT INTO topics (name, retry, ack_timeout_ms, created_at, updated_at) VALUES ('orders', '4m', 99, 1, 1)");
    keyed_row(7, "k", "");
    struct dt_new_job body = body_of(1);
    body.retry = DT_STR_NONE;
    body.ack_timeout_ms = 0;
    body.run_at_ms = 5;
    int64_t before = mysql_now_ms();
    OK(dt_store_replace(store, &body, &arena, &job, &err));
    assert_true(dt_str_is(job.retry, "4m"));
    assert_int_equal(job.ack_timeout_ms, 99);
    assert_in_range(job.run_at_ms, before, mysql_now_ms());
}

FRESH_TEST(a_key_without_a_job_or_with_a_finished_one_has_nothing_to_replace)
{
    assert_int_equal(replace(1), DT_NOT_FOUND);
    static const char *const ends[] = {"succeeded", "dead", "cancelled"};
    for (int i = 0; i < 3; i++) {
        char change[64];
        run_sql("DELETE FROM job_keys");
        snprintf(change, sizeof(change), "state = '%s', next_at = NULL", ends[i]);
        keyed_row(10 + i, "k", change);
        assert_int_equal(replace(1), DT_NOT_FOUND);
        assert_job(10 + i, "version", "1");
    }
}

FRESH_TEST(a_dispatched_job_is_too_late_to_replace)
{
    job_row_dispatched(7, 4, 0);
    run_sql("UPDATE jobs SET job_key = 'k'; INSERT INTO job_keys VALUES ('orders', 'k', 7)");
    assert_int_equal(replace(1), DT_TOO_LATE);
    assert_members(job, (state, DT_DISPATCHED), (attempt, 4), (unsettled, false));
    assert_job(7, "CONCAT(version, payload)", "1{\"n\":1}");
}

FRESH_TEST(a_job_whose_earlier_attempt_is_in_flight_is_unsettled)
{
    keyed_row(7, "k", "attempt = 1, attempt_status = 'failed', claim_shard = 2");
    run_sql("UPDATE shards SET inflight = '[[7,1,9]]' WHERE shard = 2");
    assert_int_equal(replace(1), DT_TOO_LATE);
    assert_true(job.unsettled);
    assert_job(7, "version", "1");
    run_sql("UPDATE shards SET inflight = '[]' WHERE shard = 2");
    OK(replace(1));
}

FRESH_TEST(fires_of_a_schedule_cannot_be_replaced)
{
    keyed_row(7, "s@1000", "");
    run_sql("INSERT INTO schedules (name, topic, every_ms, anchor_at, time_zone, overlap, catch_up_ms, jitter_ms, "
            "paused, created_at, updated_at, version, digest, payload_binary, payload) VALUES ('s', 'orders', 1000, 0, "
            "'UTC', 'allow', 0, 0, FALSE, 1, 1, 1, '', FALSE, '')");
    struct dt_new_job body = body_of(1);
    body.key = S("s@1000");
    assert_int_equal(dt_store_replace(store, &body, &arena, &job, &err), DT_NOT_FOUND);
    assert_job(7, "version", "1");
}

/* ---- the key of a finished job ---- */

FRESH_TEST(only_a_replacing_row_takes_the_key_of_a_finished_job)
{
    int64_t existing;
    keyed_row(7, "k", "state = 'dead', next_at = NULL, purge_at = 8000000000000000");
    assert_int_equal(insert_with(8, 1, false, &existing), DT_INSERT_CONFLICT);
    assert_int_equal(insert_with(8, 1, true, &existing), DT_INSERT_CREATED);
    assert_sql_number(8, "SELECT job_id FROM job_keys");
    assert_job(7, "CONCAT(state, job_key)", "deadk");
    assert_int_equal(insert_with(9, 2, true, &existing), DT_INSERT_CONFLICT); /* this one is not finished */
    assert_int_equal(existing, 8);
}

FRESH_TEST(a_replace_works_inside_a_callers_transaction)
{
    dt_db *db;
    int64_t now_ms;
    struct dt_counts counts;
    const struct dt_new_job body = body_of(1);
    struct dt_job_change replacing = {.how = DT_CHANGE_REPLACE, .body = &body};
    struct dt_insert row = {.job = body_of(2), .replace = true};
    struct dt_insert *rows[] = {&row};
    row.job.id = 8;
    keyed_row(7, "k", "state = 'succeeded', next_at = NULL, purge_at = 8000000000000000");
    dt_counts_init(&counts);
    OK(dt_store_begin(store, &db, &now_ms, &err));
    const struct dt_change_txn txn = {.store = store, .db = db, .now_ms = now_ms, .counts = &counts, .arena = &arena};
    assert_int_equal(dt_change_in_txn(&txn, &replacing, &err), DT_NOT_FOUND);
    OK(dt_insert_in_txn(store, db, now_ms, &(struct dt_insert_rows){.v = rows, .n = 1, .maker = 4711}, &counts, &err));
    assert_int_equal(row.outcome, DT_INSERT_CREATED);
    OK(dt_change_in_txn(&txn, &replacing, &err)); /* in the same transaction */
    OK(dt_counts_commit(db, &counts, DT_OK, &err));
    assert_int_equal(replacing.job.id, 8);
    assert_job(8, "payload", "1");
}

/* ---- races ---- */

struct replacer {
    int first, n;
    int64_t replaced, too_late;
    dt_status failed;
};

/* Replaces the jobs of the keys k1, k2 …, each once, by body 9. */
static void *replace_each(void *arg)
{
    struct replacer *r = arg;
    struct dt_arena own = {0};
    struct dt_job seen;
    dt_store *mine = NULL;
    r->failed = dt_store_new(&mysql_fixture.config, NULL, &mine);
    for (int i = r->first; i < r->first + r->n && !r->failed; i++) {
        char key[16];
        struct dt_new_job body = body_of(9);
        snprintf(key, sizeof(key), "k%d", i);
        body.key = dt_str(key);
        dt_status status = dt_store_replace(mine, &body, &own, &seen, NULL);
        if (status == DT_OK && seen.attempt == 0 && dt_str_is(seen.payload, "9"))
            r->replaced++;
        else if (status == DT_TOO_LATE && seen.state == DT_DISPATCHED && seen.attempt == 1)
            r->too_late++;
        else
            r->failed = status ? status : DT_INTERNAL;
        dt_arena_reset(&own);
    }
    dt_store_free(mine);
    dt_arena_clear(&own);
    dt_db_thread_end();
    return NULL;
}

/* As a leader does it; the body that goes out is noted where nothing else writes. */
static void claim(int64_t id)
{
    run_sql("START TRANSACTION; SELECT shard FROM shards WHERE shard = 0 FOR UPDATE; SELECT id FROM jobs WHERE id = "
            "%lld FOR UPDATE; UPDATE jobs SET state = 'dispatched', attempt = 1, attempt_status = 'dispatched', "
            "claim_shard = 0, error_message = payload WHERE id = %lld AND state = 'scheduled'; COMMIT",
            (long long)id, (long long)id);
}

FRESH_TEST(a_replace_that_races_with_a_claim_reports_the_body_that_was_sent)
{
    enum { JOBS = 300 };
    struct replacer r = {.first = 1, .n = JOBS};
    for (int id = 1; id <= JOBS; id++) {
        char key[16];
        snprintf(key, sizeof(key), "k%d", id);
        keyed_row(id, key, "");
    }
    pthread_t thread = start_thread(replace_each, &r);
    for (int64_t id = JOBS; id >= 1; id--) /* they meet in the middle */
        claim(id);
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(r.failed, NULL);
    assert_int_equal(r.replaced + r.too_late, JOBS);
    assert_sql_number(r.replaced, "SELECT COUNT(*) FROM jobs WHERE error_message = '9' AND payload = '9'");
    assert_sql_number(r.too_late,
                      "SELECT COUNT(*) FROM jobs WHERE error_message = '{\"n\":1}' AND payload = '{\"n\":1}'");
}

FRESH_TEST(a_replace_that_waited_for_a_claim_is_too_late)
{
    struct replacer r = {.first = 7, .n = 1};
    keyed_row(7, "k7", "");
    run_sql("START TRANSACTION; UPDATE jobs SET state = 'dispatched', attempt = 1, claim_shard = 0 WHERE id = 7");
    pthread_t thread = start_thread(replace_each, &r);
    mysql_fixture_await_statement("SELECT%FOR UPDATE");
    run_sql("COMMIT");
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(r.failed, NULL);
    assert_int_equal(r.too_late, 1);
    assert_job(7, "payload", "{\"n\":1}");
}

FRESH_TEST(a_replace_that_waited_for_the_key_replaces_the_job_that_has_it_now)
{
    struct replacer r = {.first = 7, .n = 1};
    keyed_row(7, "k7", "");
    job_row(8, "job_key = 'k7'");
    run_sql("START TRANSACTION; UPDATE job_keys SET job_id = 8");
    pthread_t thread = start_thread(replace_each, &r);
    mysql_fixture_await_statement("SELECT%FOR UPDATE");
    run_sql("COMMIT");
    pthread_join(thread, NULL);
    MYSQL_FIXTURE_OK(r.failed, NULL);
    assert_job(7, "payload", "{\"n\":1}");
    assert_job(8, "payload", "9");
}

SUITE(open_store, close_store)
