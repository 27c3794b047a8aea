/* Results on a real server: what each does to a job's row, batches against one by one, few statements. */
#include "contract/job/results_suite.h"

static struct dt_apply apply_one(struct dt_apply a)
{
    OK(dt_store_apply(store, &map, &a, 1, &err));
    return a;
}

static int64_t letters(int64_t id)
{
    return sql_number("SELECT COUNT(*) FROM messages WHERE job_id = %lld", (long long)id);
}

#define FRESH_TEST(name) TEST_WITH(name, empty_tables, NULL)

/* ---- what each result does ---- */

FRESH_TEST(a_success_ends_the_job)
{
    job_row_dispatched(7, 1, 0);
    int64_t before = mysql_now_ms();
    struct dt_apply a = apply_one(result(7, 1, DT_RESULT_SUCCEEDED));
    assert_outcome(a, APPLIED);
    assert_members(a, (next_at_ms, 0), (outbox, false));
    assert_job(7,
               "CONCAT_WS(' ', state, attempt_status, attempt, failures, next_at IS NULL, due_band, due_key = "
               "updated_at + 600000, purge_at - finished_at, version, updated_at = finished_at, error_at IS NULL)",
               "succeeded succeeded 1 0 1 2 1 2592000000 2 1 1");
    int64_t finished_at = sql_number("SELECT finished_at FROM jobs");
    assert_in_range(finished_at, before, mysql_now_ms());
}

FRESH_TEST(a_finished_job_is_kept_as_long_as_its_topic_says)
{
    run_sql("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('orders', 1000, 1, 1), "
            "('forever', 9223372036854775807, 1, 1)");
    job_row_dispatched(7, 1, 0);
    job_row_dispatched(8, 9, 0);
    job_row_dispatched(9, 1, 0);
    run_sql("UPDATE jobs SET topic = 'forever' WHERE id = 9");
    apply_one(result(7, 1, DT_RESULT_SUCCEEDED));
    apply_one(result(8, 9, DT_RESULT_GAVE_UP));
    apply_one(result(9, 1, DT_RESULT_SUCCEEDED));
    assert_job(7, "purge_at - finished_at", "1000");
    assert_job(8, "purge_at - finished_at", "1000");
    assert_job(9, "purge_at", "9223372036854775807");
}

#define CANCELLED "state, next_at IS NULL, purge_at - finished_at", "cancelled 1 2592000000"

/* Attempt 1 of job 7 is out, but for what `row` says; then its result is applied. */
FRESH_TEST(each_result_changes_the_row_as_its_rule_says)
{
    static const struct {
        const char *name, *row;
        enum dt_result_status status;
        int64_t retry_after_ms;
        const char *columns, *want;
    } rows[] = {
        {"a retry far ahead is indexed by its day", NULL, DT_RESULT_FAILED, INT64_C(10) * DT_DAY_MS,
         "next_at - finished_at, near, due_band, due_key MOD 86400000", "864000000 0 0 0"},
        {"a failure may bring its own delay", NULL, DT_RESULT_FAILED, 0, "state, failures, next_at - finished_at",
         "scheduled 1 0"},
        {"giving up buries at once", NULL, DT_RESULT_GAVE_UP, -1,
         "state, attempt_status, (SELECT COUNT(*) FROM messages)", "dead gave_up 1"},
        {"a snooze spends nothing", "error_at = 3, error_code = 'before'", DT_RESULT_SNOOZED, 5000,
         "state, attempt_status, failures, next_at - finished_at, error_at, error_code",
         "scheduled snoozed 0 5000 3 before"},
        {"a deadline that has passed", "next_at = 1000", DT_RESULT_TIMED_OUT, -1,
         "state, attempt_status, failures, error_code", "scheduled timed_out 1 ack_timeout"},
        {"a late success",
         "state = 'scheduled', attempt_status = 'timed_out', failures = 2, error_code = 'ack_timeout'",
         DT_RESULT_SUCCEEDED, -1,
         "state, attempt_status, next_at IS NULL, purge_at - finished_at, failures, error_code",
         "succeeded succeeded 1 2592000000 2 ack_timeout"},
        {"a failure without retries", "no_retries = TRUE", DT_RESULT_FAILED, -1, CANCELLED},
        {"giving up without retries", "no_retries = TRUE", DT_RESULT_GAVE_UP, -1, CANCELLED},
        {"a snooze without retries", "no_retries = TRUE", DT_RESULT_SNOOZED, 5000, CANCELLED},
        {"undeliverable without retries", "no_retries = TRUE", DT_RESULT_UNDELIVERABLE, -1, CANCELLED},
        {"an extension without retries", "no_retries = TRUE", DT_RESULT_EXTENDED, -1, "state", "dispatched"},
        {"a success without retries", "no_retries = TRUE", DT_RESULT_SUCCEEDED, -1, "state", "succeeded"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char columns[200];
        print_message("%s\n", rows[i].name);
        empty_tables();
        job_row_dispatched(7, 1, 0);
        if (rows[i].row)
            run_sql("UPDATE jobs SET %s", rows[i].row);
        struct dt_apply a = result(7, 1, rows[i].status);
        a.result.retry_after_ms = rows[i].retry_after_ms;
        assert_outcome(apply_one(a), APPLIED);
        snprintf(columns, sizeof columns, "CONCAT_WS(' ', %s)", rows[i].columns);
        assert_job(7, columns, rows[i].want);
    }
}

FRESH_TEST(a_failure_is_tried_again_after_its_delay)
{
    job_row_dispatched(7, 1, 0);
    run_sql("UPDATE jobs SET near = FALSE");
    struct dt_apply a = apply_one(failure(7, 1, S("boom"), S("it did")));
    assert_outcome(a, APPLIED);
    assert_false(a.outbox);
    assert_job(7,
               "CONCAT_WS(' ', state, attempt_status, attempt, failures, next_at - finished_at, near, due_band, "
               "purge_at IS NULL, error_code, error_message, error_at = finished_at, version)",
               "scheduled failed 1 1 15000 1 1 1 boom it did 1 2");
    assert_sql_number(a.next_at_ms, "SELECT next_at FROM jobs");
    run_sql("UPDATE jobs SET state = 'dispatched', attempt = 2");
    apply_one(result(7, 2, DT_RESULT_FAILED));
    assert_job(7, "CONCAT_WS(' ', failures, next_at - finished_at, error_code IS NULL, error_message IS NULL)",
               "2 180000 1 1");
}

FRESH_TEST(after_the_last_failure_the_job_is_dead_and_has_a_dead_letter)
{
    job_row_dispatched(7, 5, 0);
    run_sql("UPDATE jobs SET failures = 2");
    struct dt_apply a = apply_one(failure(7, 5, S("c"), DT_STR_NONE));
    assert_outcome(a, APPLIED);
    assert_members(a, (outbox, true), (next_at_ms, 0));
    assert_job(7,
               "CONCAT_WS(' ', state, attempt_status, failures, next_at IS NULL, purge_at - finished_at, error_code)",
               "dead failed 3 1 2592000000 c");
    char row[200];
    assert_string_equal(sql_text(row, sizeof row,
                                 "SELECT CONCAT_WS(' ', o.kind, o.sender, o.job_id, o.attempt, o.made_at = "
                                 "j.finished_at) FROM messages o JOIN jobs j ON j.id = o.job_id"),
                        dt_shard_of(&map, 7) == 0   ? "dead 0 7 5 1"
                        : dt_shard_of(&map, 7) == 1 ? "dead 1 7 5 1"
                        : dt_shard_of(&map, 7) == 2 ? "dead 2 7 5 1"
                                                    : "dead 3 7 5 1");
}

/* Nobody would send it, now or when a Kafka comes. */
FRESH_TEST(without_kafka_a_job_dies_and_leaves_no_dead_letter)
{
    char *brokers = mysql_fixture.config.kafka_brokers;
    job_row_dispatched(7, 5, 0);
    run_sql("UPDATE jobs SET failures = 2");
    mysql_fixture.config.kafka_brokers = (char[]){""};
    struct dt_apply a = apply_one(failure(7, 5, S("c"), DT_STR_NONE));
    mysql_fixture.config.kafka_brokers = brokers;
    assert_outcome(a, APPLIED);
    assert_false(a.outbox);
    assert_job(7, "state", "dead");
    assert_int_equal(letters(7), 0);
}

FRESH_TEST(after_kafka_was_removed_old_dead_letters_are_dropped)
{
    size_t done = 0;
    run_sql("INSERT INTO messages (sender, kind, job_id, attempt, made_at) VALUES (0, 'dead', 1, 1, 1000), (3, 'dead', "
            "2, 1, 3000), (0, 'dead', 3, 1, 2000)");
    OK(dt_store_give_up_notices(store, 3000, 1, &done, &err));
    assert_int_equal(done, 1);
    OK(dt_store_give_up_notices(store, 3000, 10, &done, &err));
    assert_int_equal(done, 1);
    assert_int_equal(letters(2), 1);
    assert_sql_number(1, "SELECT COUNT(*) FROM messages");
}

FRESH_TEST(each_extension_restarts_the_deadline)
{
    job_row_dispatched(7, 1, 0);
    run_sql("UPDATE jobs SET next_at = 1000");
    struct dt_apply a = apply_one(result(7, 1, DT_RESULT_EXTENDED));
    assert_outcome(a, APPLIED);
    assert_job(7, "CONCAT_WS(' ', state, attempt_status, next_at - updated_at, finished_at, version)",
               "dispatched dispatched 60000 0 2");
    a.result.retry_after_ms = 7000;
    assert_outcome(apply_one(a), APPLIED);
    assert_job(7, "CONCAT_WS(' ', next_at - updated_at, version)", "7000 3");
}

/* ---- what is not applied ---- */

FRESH_TEST(repeated_results_are_duplicates_and_others_stale)
{
    job_row_dispatched(7, 2, 0);
    run_sql("INSERT INTO attempts (job_id, attempt, status) VALUES (7, 1, 'failed')");
    assert_outcome(apply_one(result(7, 1, DT_RESULT_FAILED)), DUPLICATE);
    assert_outcome(apply_one(result(7, 1, DT_RESULT_SUCCEEDED)), STALE);
    assert_outcome(apply_one(result(7, 1, DT_RESULT_EXTENDED)), STALE);
    assert_outcome(apply_one(result(7, 3, DT_RESULT_SUCCEEDED)), STALE);
    assert_outcome(apply_one(result(7, 2, DT_RESULT_TIMED_OUT)), STALE); /* its deadline is ahead */
    assert_outcome(apply_one(result(7, 0, DT_RESULT_SUCCEEDED)), STALE);
    assert_outcome(apply_one(result(7, INT64_C(1) << 40, DT_RESULT_FAILED)), STALE);
    assert_outcome(apply_one(result(8, 1, DT_RESULT_SUCCEEDED)), UNKNOWN_JOB);
    assert_outcome(apply_one(result(-5, 1, DT_RESULT_SUCCEEDED)), UNKNOWN_JOB);
    assert_job(7, "CONCAT(state, version)", "dispatched1");
    assert_outcome(apply_one(result(7, 2, DT_RESULT_SUCCEEDED)), APPLIED);
    assert_outcome(apply_one(result(7, 2, DT_RESULT_SUCCEEDED)), DUPLICATE);
    assert_outcome(apply_one(result(7, 2, DT_RESULT_FAILED)), STALE);
    assert_outcome(apply_one(result(7, 2, DT_RESULT_EXTENDED)), STALE);
    assert_job(7, "CONCAT(state, version)", "succeeded2");
}

FRESH_TEST(a_dead_or_cancelled_job_accepts_no_result)
{
    job_row(7, "state = 'dead', next_at = NULL, attempt = 1, attempt_status = 'gave_up'");
    job_row(8, "state = 'cancelled', next_at = NULL, attempt = 1, attempt_status = 'failed'");
    job_row(9, NULL);
    assert_outcome(apply_one(result(7, 1, DT_RESULT_SUCCEEDED)), STALE);
    assert_outcome(apply_one(result(7, 1, DT_RESULT_GAVE_UP)), DUPLICATE);
    assert_outcome(apply_one(result(8, 1, DT_RESULT_SUCCEEDED)), STALE);
    assert_outcome(apply_one(result(9, 0, DT_RESULT_SUCCEEDED)), STALE);
    assert_outcome(apply_one(result(9, 1, DT_RESULT_SUCCEEDED)), STALE);
    assert_sql_number(0, "SELECT COUNT(*) FROM jobs WHERE version > 1");
}

/* ---- error texts ---- */

FRESH_TEST(error_texts_arrive_as_they_were_reported)
{
    static const char message[] =
        "quote \" back \\ tab \t nul \\u0000 nl \n \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 '[,]";
    job_row_dispatched(7, 1, 0);
    apply_one(failure(7, 1, S("a\"b\\c"), (struct dt_str){message, sizeof message - 1}));
    char cell[300];
    sql_text(cell, sizeof cell, "SELECT error_message FROM jobs");
    assert_string_equal(cell, message);
    assert_job(7, "error_code", "a\"b\\c");
}

FRESH_TEST(error_texts_that_are_too_long_are_cut_at_a_character)
{
    char message[1600];
    for (size_t i = 0; i + 1 < sizeof message; i += 2)
        memcpy(message + i, "\xC3\xA9", 2);
    job_row_dispatched(7, 1, 0);
    /* an odd byte first: the limit falls into a character */
    message[0] = message[1] = 'x';
    struct dt_str odd = {message + 1, sizeof message - 1};
    apply_one(failure(7, 1, odd, odd));
    assert_job(
        7,
        "CONCAT_WS(' ', LENGTH(error_code), LENGTH(error_message), CHAR_LENGTH(CONVERT(error_message USING utf8mb4)))",
        "99 999 500");
}

/* ---- batches ---- */

FRESH_TEST(several_results_of_one_job_are_applied_in_the_order_given)
{
    job_row_dispatched(7, 1, 0);
    job_row_dispatched(3, 1, 0);
    struct dt_apply a[] = {result(7, 1, DT_RESULT_EXTENDED),  result(3, 1, DT_RESULT_SUCCEEDED),
                           failure(7, 1, S("c"), S("m")),     result(3, 1, DT_RESULT_SUCCEEDED),
                           result(7, 1, DT_RESULT_FAILED),    result(7, 1, DT_RESULT_SUCCEEDED),
                           result(9, 1, DT_RESULT_SUCCEEDED), result(7, 1, DT_RESULT_SUCCEEDED)};
    OK(dt_store_apply(store, &map, a, 8, &err));
    assert_outcome(a[0], APPLIED);
    assert_outcome(a[1], APPLIED);
    assert_outcome(a[2], APPLIED);
    assert_outcome(a[3], DUPLICATE);
    assert_outcome(a[4], DUPLICATE);
    assert_outcome(a[5], APPLIED);
    assert_outcome(a[6], UNKNOWN_JOB);
    assert_outcome(a[7], DUPLICATE);
    assert_int_equal(a[0].next_at_ms, 0);
    assert_job(7, "CONCAT_WS(' ', state, attempt_status, failures, error_code, version, next_at IS NULL)",
               "succeeded succeeded 1 c 4 1");
    assert_job(3, "CONCAT_WS(' ', state, version)", "succeeded 2");
}

static unsigned seed = 1;

static unsigned dice(unsigned sides)
{
    return (unsigned)rand_r(&seed) % sides;
}

/* The same job twice, at id and at id + 100000, each in any state that a job can be in. */
static void random_twins(int64_t id)
{
    static const char *const states[] = {"dispatched", "dispatched", "dispatched", "scheduled",
                                         "succeeded",  "dead",       "cancelled"};
    const char *s = states[dice(7)];
    bool live = strcmp(s, "dispatched") == 0 || strcmp(s, "scheduled") == 0;
    unsigned attempt = 1 + dice(3), failures = dice(attempt + 1), status = 1 + dice(7), no_retries = dice(4) == 0;
    bool overdue = dice(3) == 0;
    for (int twin = 0; twin < 2; twin++)
        job_row(id + twin * 100000,
                "state = '%s', next_at = %s, attempt = %u, failures = %u, attempt_status = IF(state = 'dispatched', 1, "
                "%u), no_retries = %u, claim_shard = 0",
                s,
                !live     ? "NULL"
                : overdue ? "1000"
                          : "next_at",
                attempt, failures, status, no_retries);
}

FRESH_TEST(a_batch_does_what_its_results_do_one_by_one)
{
    enum { JOBS = 120, RESULTS = 700 };
    static struct dt_apply batch[RESULTS];
    print_message("seed %u\n", seed);
    for (int64_t id = 1; id <= JOBS; id++)
        random_twins(id);
    for (int i = 0; i < RESULTS; i++) {
        batch[i] = result(1 + dice(JOBS + 1), 1 + dice(3), (enum dt_result_status)dice(7));
        if (dice(3) == 0)
            batch[i].result.retry_after_ms = dice(100000);
        if (dice(2))
            batch[i].result.error_code = S("code");
    }
    OK(dt_store_apply(store, &map, batch, RESULTS, &err));
    for (int i = 0; i < RESULTS; i++) {
        struct dt_apply one = batch[i];
        one.result.job_id += 100000;
        one = apply_one(one);
        if (one.outcome != batch[i].outcome || one.outbox != batch[i].outbox)
            fail_msg("result %d: one by one %d, in the batch %d", i, (int)one.outcome, (int)batch[i].outcome);
    }
#define COMPARED                                                                                                       \
    "CONCAT_WS(' ', %s.state, %s.attempt, %s.failures, %s.attempt_status, %s.version, %s.next_at IS NULL, %s.near, "   \
    "%s.purge_at IS NULL, %s.finished_at IS NULL, %s.error_at IS NULL, COALESCE(%s.error_code, '-'), %s.no_retries)"
#define OF(t) t, t, t, t, t, t, t, t, t, t, t, t
    assert_sql_number(JOBS,
                      "SELECT COUNT(*) FROM jobs a JOIN jobs b ON b.id = a.id + 100000 WHERE " COMPARED " = " COMPARED,
                      OF("a"), OF("b"));
    assert_sql_number(sql_number("SELECT COUNT(*) FROM messages WHERE job_id > 100000"),
                      "SELECT COUNT(*) FROM messages WHERE job_id < 100000");
    assert_true(sql_number("SELECT COUNT(*) FROM messages") > 0);
    assert_sql_number(0, "SELECT COUNT(*) FROM (SELECT job_id, attempt FROM messages GROUP BY job_id, attempt HAVING "
                         "COUNT(*) > 1) twice");
}

static int64_t questions(dt_db *db)
{
    OK(dt_db_query_text(db, S("SHOW SESSION STATUS LIKE 'Questions'"), &err));
    assert_true(dt_db_next(db));
    int64_t n = strtoll(dt_db_bytes(db, 1).p, NULL, 10);
    OK(dt_db_end(db, &err));
    return n;
}

FRESH_TEST(two_thousand_results_of_every_kind_take_a_handful_of_statements)
{
    enum { N = 2000 };
    static struct dt_apply batch[N];
    dt_db *db;
    dispatched_up_to(N + 1, 2);
    run_sql("INSERT INTO attempts (job_id, attempt, status) VALUES (2000, 1, 'failed')");
    OK(dt_store_apply(store, &map, (struct dt_apply[]){result(N + 1, 2, DT_RESULT_SUCCEEDED)}, 1, &err)); /* prepares */
    for (int i = 0; i < N; i++)
        batch[i] = result(N - i, i == 0 ? 1 : 2,
                          i == 0       ? DT_RESULT_FAILED
                          : i % 4 == 0 ? DT_RESULT_GAVE_UP
                          : i % 4 == 1 ? DT_RESULT_FAILED
                                       : DT_RESULT_SUCCEEDED);
    OK(dt_store_db(store, &db, &err));
    int64_t before = questions(db);
    OK(dt_store_apply(store, &map, batch, N, &err));
    int64_t statements = questions(db) - before - 1;
    print_message("%lld statements\n", (long long)statements);
    assert_in_range(statements, 1, 16); /* each PREPARE counts, too */
    for (int i = 1; i < N; i++)
        assert_outcome(batch[i], APPLIED);
    assert_outcome(batch[0], DUPLICATE);
    before = questions(db);
    for (int i = 0; i < N; i++)
        batch[i].result.attempt = 2;
    batch[0] = result(2001, 2, DT_RESULT_SUCCEEDED);
    OK(dt_store_apply(store, &map, batch, N, &err));
    assert_in_range(questions(db) - before - 1, 1, 6);
}

/* Large groups that are alike and small ones, over several statements: each row is written as itself. */
FRESH_TEST(successes_of_jobs_that_differ_keep_their_differences)
{
    enum { N = 1024 };
    static struct dt_apply batch[N];
    run_sql("INSERT INTO topics (name, retention_ms, created_at, updated_at) VALUES ('short', 1000, 1, 1)");
    dispatched_up_to(N, 1);
    run_sql("UPDATE jobs SET topic = IF(id MOD 5 = 0, 'short', topic), attempt = 1 + (id MOD 100 = 0), version = 7 + "
            "IF(id > 700, id MOD 12, 0), state = IF(id MOD 7 = 0, 'scheduled', state)");
    for (int i = 0; i < N; i++)
        batch[i] = result(i + 1, 1 + ((i + 1) % 100 == 0), DT_RESULT_SUCCEEDED);
    OK(dt_store_apply(store, &map, batch, N, &err));
    for (int i = 0; i < N; i++)
        assert_outcome(batch[i], APPLIED);
    assert_sql_number(N, "SELECT COUNT(*) FROM jobs WHERE state = 'succeeded' AND attempt_status = 'succeeded' AND "
                         "next_at IS NULL AND attempt = 1 + (id MOD 100 = 0) AND version = 8 + IF(id > 700, id MOD 12, "
                         "0) AND updated_at = finished_at AND purge_at - finished_at = IF(id MOD 5 = 0, 1000, "
                         "2592000000) AND leave_at - finished_at = IF(id MOD 5 = 0, 1000, 600000)");
}

FRESH_TEST(jobs_of_fifty_kinds_take_a_handful_of_statements)
{
    enum { N = 1024 };
    static struct dt_apply batch[N];
    dt_db *db;
    dispatched_up_to(N, 1);
    run_sql("UPDATE jobs SET version = id MOD 50");
    for (int i = 0; i < N; i++)
        batch[i] = result(i + 1, 1, DT_RESULT_SUCCEEDED);
    OK(dt_store_db(store, &db, &err));
    int64_t before = questions(db);
    OK(dt_store_apply(store, &map, batch, N, &err));
    assert_in_range(questions(db) - before - 1, 1, 12); /* each PREPARE counts, too */
}

FRESH_TEST(without_results_there_is_no_transaction)
{
    OK(dt_store_apply(store, &map, NULL, 0, &err));
}

FRESH_TEST(inside_a_callers_transaction_results_can_be_rolled_back)
{
    dt_db *db;
    int64_t now_ms;
    struct dt_apply a = result(7, 1, DT_RESULT_GAVE_UP);
    job_row_dispatched(7, 1, 0);
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_begin_at(db, &now_ms, &err));
    OK(apply_within(db, now_ms, &a));
    assert_outcome(a, APPLIED);
    dt_db_rollback(db);
    assert_job(7, "CONCAT(state, version)", "dispatched1");
    assert_int_equal(letters(7), 0);
}

SUITE(open_store, close_store)
