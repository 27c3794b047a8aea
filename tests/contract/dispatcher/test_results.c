/* The reader of results (results.h) on a real MySQL, Kafka and Redis. Wrappers of their
 * functions refuse single messages, fail on request, and check MySQL whenever offsets are about to be committed. */

#include "deliver/kafka/kafka_parts.h"
#include "job/results/results.h"
#include "support/job_rows.h"
#include "support/kafka_fixture.h"
#include "support/redis_fixture.h"

#define SHARDS    4
#define TEXT_SIZE 64

static struct kafka_fixture kafka;
static struct dt_config config;
static struct dt_shard_map map;
static dt_refclock ref;
static dt_notice_producer *notices;
static dt_index *index_of_test;
static dt_results *results;
static dt_store *onlooker; /* of the reader's thread */
static struct dt_error err;
static dt_db *holder; /* keeps rows locked, while there is one */
static _Atomic bool no_place;
static _Atomic unsigned told[SHARDS];
static _Atomic unsigned untold; /* times that the index could not be told */

/* ---- between the reader and its servers ---- */

static _Atomic int applies_to_fail, sends_to_fail, commits_to_fail;
static _Atomic int read_so_far, commits, committed_too_early;
static char refused_value[TEXT_SIZE]; /* Kafka refuses messages with it */

__typeof__(dt_notice_producer_send) __real_dt_notice_producer_send;
__typeof__(dt_notice_producer_send) __wrap_dt_notice_producer_send;
__typeof__(dt_kafka_reader_poll) __real_dt_kafka_reader_poll;
__typeof__(dt_kafka_reader_poll) __wrap_dt_kafka_reader_poll;
__typeof__(dt_kafka_reader_commit) __real_dt_kafka_reader_commit;
__typeof__(dt_kafka_reader_commit) __wrap_dt_kafka_reader_commit;
__typeof__(dt_store_apply_or_defer) __real_dt_store_apply_or_defer;
__typeof__(dt_store_apply_or_defer) __wrap_dt_store_apply_or_defer;

static bool spend(_Atomic int *budget)
{
    int left = *budget;
    while (left > 0 && !atomic_compare_exchange_weak(budget, &left, left - 1))
        ;
    return left > 0;
}

/* All but the message that is refused. */
dt_status __wrap_dt_notice_producer_send(dt_notice_producer *s, const struct dt_kafka_message *messages, size_t n,
                                         bool *sent, int timeout_ms, struct dt_error *e)
{
    dt_status status = DT_OK;
    if (spend(&sends_to_fail)) {
        memset(sent, 0, n * sizeof *sent);
        return dt_fail(e, DT_UNAVAILABLE, "no answer");
    }
    for (size_t i = 0; i < n; i++) {
        sent[i] = false;
        if (refused_value[0] && dt_str_is(messages[i].value, refused_value))
            status = dt_fail(e, DT_REFUSED, "one is refused");
        else if (__real_dt_notice_producer_send(s, &messages[i], 1, &sent[i], timeout_ms, e) != DT_OK)
            return dt_fail(e, DT_UNAVAILABLE, "not sent");
    }
    return status;
}

dt_status __wrap_dt_kafka_reader_poll(dt_kafka_reader *c, size_t max, int wait_ms, int linger_ms,
                                      const _Atomic bool *stop, const struct dt_kafka_record **records, size_t *n,
                                      struct dt_error *e)
{
    dt_status status = __real_dt_kafka_reader_poll(c, max, wait_ms, linger_ms, stop, records, n, e);
    read_so_far += (int)*n;
    return status;
}

/* What was read is in MySQL: with its job, or with the results that wait. Good for tests with one result a job. */
static int in_mysql(void)
{
    struct dt_error e = {0};
    struct dt_db *db;
    int n = -1;
    if (dt_store_db(onlooker, &db, &e) == DT_OK &&
        dt_db_query(db,
                    "SELECT (SELECT COUNT(*) FROM jobs WHERE attempt_status <> 'dispatched') + (SELECT COUNT(*) FROM "
                    "deferred_results)",
                    DT_NO_PARAMS, &e) == DT_OK &&
        dt_db_next(db))
        n = (int)dt_db_i64(db, 0);
    if (db && dt_db_end(db, &e) != DT_OK)
        n = -1;
    return n;
}

static _Atomic bool count_commits;

dt_status __wrap_dt_kafka_reader_commit(dt_kafka_reader *c, struct dt_error *e)
{
    if (count_commits)
        committed_too_early += in_mysql() < read_so_far;
    commits++;
    if (spend(&commits_to_fail))
        return dt_fail(e, DT_UNAVAILABLE, "offsets were not committed");
    return __real_dt_kafka_reader_commit(c, e);
}

dt_status __wrap_dt_store_apply_or_defer(dt_store *store, const struct dt_shard_map *m, struct dt_apply *v, size_t n,
                                         bool some_wait, struct dt_error *e)
{
    if (spend(&applies_to_fail)) {
        read_so_far -= (int)n;
        return dt_fail(e, DT_UNAVAILABLE, "MySQL is away");
    }
    return __real_dt_store_apply_or_defer(store, m, v, n, some_wait, e);
}

/* ---- the reader's surroundings ---- */

static void get_map(void *, struct dt_shard_map *out)
{
    *out = map;
}

static bool place(void *, unsigned *rank, unsigned *members)
{
    *rank = 0;
    *members = 1;
    return !no_place;
}

static void outbox(void *, unsigned shard)
{
    told[shard % SHARDS]++;
}

/* Both come as they were given, and no Redis answered. */
static void index_entries_lost(void *arg, const dt_index *index)
{
    char down[64];
    dt_index_failing(index, down, sizeof(down));
    untold += arg == &map && strcmp(down, "*") == 0;
}

static void start(void)
{
    static struct dt_process_env env;
    env = (struct dt_process_env){.config = &config,
                                  .arg = &map,
                                  .kafka = &kafka.env,
                                  .clock = dt_clock_system(),
                                  .ref = &ref,
                                  .map = get_map,
                                  .place = place,
                                  .outbox = outbox,
                                  .index_entries_lost = index_entries_lost};
    OK(dt_results_start(&env, notices, &results, &err));
}

static void stop(void)
{
    dt_results_stop(results);
    results = NULL;
    dt_kafka_drain(10000);
}

static void open_all(void)
{
    mysql_fixture_make("reader");
    mysql_fixture_migrate();
    kafka_fixture_make(&kafka, "reader");
    config = mysql_fixture.config;
    config.kafka_brokers = kafka.config.kafka_brokers;
    config.kafka_transaction_timeout = kafka.config.kafka_transaction_timeout;
    config.redis_endpoints = (char *)(uintptr_t)redis_fixture_endpoints();
    config.mysql_lock_timeout = 1000;
    kafka.env.config = &config;
    dt_shard_map_init(&map, 1, SHARDS);
    dt_refclock_init(&ref, dt_clock_system());
    OK(dt_notice_producer_new(&kafka.env, &notices, &err));
    OK(dt_index_new(&config, kafka.installation, dt_clock_system(), &index_of_test, &err));
    OK(dt_store_new(&config, &ref, &onlooker));
    OK(dt_store_ping(onlooker, &err));
}

static void close_all(void)
{
    dt_store_free(onlooker);
    dt_index_free(index_of_test);
    dt_notice_producer_free(notices);
    redis_fixture_forget(redis_fixture_endpoints(), kafka.installation);
    kafka_fixture_clear(&kafka);
    mysql_fixture_drop();
}

static void drain(void);
static void let_go(void);

static void forget_all(void)
{
    run_sql("DELETE FROM jobs; DELETE FROM attempts; DELETE FROM messages; DELETE FROM topics; DELETE FROM "
            "deferred_results");
}

static void begin_test(void)
{
    forget_all();
    applies_to_fail = sends_to_fail = commits_to_fail = 0;
    refused_value[0] = '\0';
    no_place = false;
    count_commits = false;
    start();
    drain();
    forget_all();
    read_so_far = commits = committed_too_early = 0;
    untold = 0;
    for (unsigned i = 0; i < SHARDS; i++)
        told[i] = 0;
}

static void end_test(void)
{
    if (holder)
        let_go();
    if (results)
        stop();
}

#define FRESH_TEST(name) TEST_WITH(name, begin_test, end_test)

/* ---- hands ---- */

static void report(const char *fmt, ...) DT_PRINTF(1, 2);
static void report(const char *fmt, ...)
{
    char value[2000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(value, sizeof value, fmt, args);
    va_end(args);
    kafka_fixture_write(&kafka, kafka_fixture_own(&kafka, "results"), 0, "1", value);
}

/* Successes of the first attempts of jobs first to last, at once. */
static void report_all(int64_t first, int64_t last)
{
    size_t n = (size_t)(last - first + 1);
    struct dt_kafka_message *messages = calloc(n, sizeof *messages);
    char(*values)[TEXT_SIZE] = calloc(n, sizeof *values);
    const char *topic = kafka_fixture_own(&kafka, "results");
    bool *sent = calloc(n, sizeof *sent);
    for (size_t i = 0; i < n; i++) {
        int size = snprintf(values[i], TEXT_SIZE, "{\"job_id\":\"%lld\",\"attempt\":1,\"status\":\"succeeded\"}",
                            (long long)first + (long long)i);
        assert_in_range(size, 1, TEXT_SIZE - 1);
        messages[i] =
            (struct dt_kafka_message){.topic = dt_str(topic), .key = DT_STR_LIT("k"), .value = dt_str(values[i])};
    }
    OK(__real_dt_notice_producer_send(notices, messages, n, sent, WAIT_MS, &err));
    free(messages);
    free(values);
    free(sent);
}

static void wait_for(const char *sql, int64_t wanted)
{
    int64_t n;
    AWAIT_OR((n = sql_number("%s", sql)) == wanted,
             print_error("%s: %lld instead of %lld\n", sql, (long long)n, (long long)wanted));
}

/* What the test before left to be read again, since its reader ended before its offsets were committed, is read before
 * there are jobs that it could be taken for. */
static void drain(void)
{
    enum { LAST = 1000000 };
    job_row_dispatched(LAST, 1, 0);
    job_row_dispatched(LAST + 1, 1, 0);
    report("{\"job_id\":\"%d\",\"attempt\":1,\"status\":\"succeeded\"}", LAST); /* where report() writes … */
    report_all(LAST + 1, LAST + 1);                                             /* … and where this one does */
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 2);
}

/* Another session keeps rows locked until let_go. */
static void keep_locked(const char *where)
{
    char sql[200];
    mysql_fixture.config.mysql_idle_transaction_timeout = 120000;
    OK(dt_db_open(&mysql_fixture.config, &holder, &err));
    OK(dt_db_script(holder, DT_STR_LIT("SET SESSION wait_timeout = 300"), &err));
    OK(dt_db_begin(holder, &err));
    snprintf(sql, sizeof sql, "UPDATE jobs SET payload = 'held' WHERE %s", where);
    OK(dt_db_script(holder, dt_str(sql), &err));
}

static void let_go(void)
{
    OK(dt_db_commit(holder, &err));
    dt_db_free(holder);
    holder = NULL;
}

/* ---- what is reported is done ---- */

FRESH_TEST(a_result_is_applied_and_the_index_and_the_outbox_are_updated)
{
    job_row_dispatched(7, 1, 0);
    job_row_dispatched(8, 1, 0);
    report("{\"job_id\":\"7\",\"attempt\":1,\"status\":\"failed\"}");
    report("{\"job_id\":\"8\",\"attempt\":1,\"status\":\"gave_up\"}");
    wait_for("SELECT COUNT(*) FROM jobs WHERE id = 7 AND state = 'scheduled' AND failures = 1", 1);
    wait_for("SELECT COUNT(*) FROM messages WHERE job_id = 8", 1);
    AWAIT(told[dt_shard_of(&map, 8)]);
    for (unsigned i = 0; i < SHARDS; i++)
        assert_int_equal(told[i], i == dt_shard_of(&map, 8));
    /* The two results may be of two batches, and the index is changed after the commit of each. */
    AWAIT(redis_fixture_score(index_of_test, &map, 7) == sql_number("SELECT next_at FROM jobs WHERE id = 7"));
    assert_int_equal(untold, 0);
}

FRESH_TEST(a_result_is_applied_and_the_failed_index_update_reported)
{
    char *right = config.redis_endpoints;
    stop();
    config.redis_endpoints = (char *)(uintptr_t) "127.0.0.1:1"; /* nobody is there */
    start();
    job_row_dispatched(7, 1, 0);
    report("{\"job_id\":\"7\",\"attempt\":1,\"status\":\"failed\"}");
    wait_for("SELECT COUNT(*) FROM jobs WHERE id = 7 AND state = 'scheduled' AND failures = 1", 1);
    AWAIT(untold >= 1);
    stop();
    config.redis_endpoints = right;
}

FRESH_TEST(each_error_text_of_a_batch_is_stored_for_its_own_job)
{
    no_place = true; /* so that all come as one batch */
    for (int64_t id = 1; id <= 3; id++) {
        job_row_dispatched(id, 1, 0);
        report("{\"job_id\":\"%lld\",\"attempt\":1,\"status\":\"failed\",\"error\":{\"code\":\"c%lld\",\"message\":"
               "\"told of %lld\"}}",
               (long long)id, (long long)id, (long long)id);
    }
    no_place = false;
    wait_for("SELECT COUNT(*) FROM jobs WHERE error_code = CONCAT('c', id) AND error_message = CONCAT('told of ', id)",
             3);
}

FRESH_TEST(no_record_is_read_before_a_share_is_known)
{
    no_place = true;
    stop(); /* what it asked for before is over */
    read_so_far = 0;
    start();
    job_row_dispatched(1, 1, 0);
    report_all(1, 1);
    for (int i = 0; i < 600; i++) { /* it must do nothing, so there is no condition to wait for */
        wait_a_moment();
        assert_int_equal(read_so_far, 0);
    }
    no_place = false;
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 1);
}

/* ---- nothing is lost ---- */

FRESH_TEST(offsets_are_committed_only_after_the_results_are_in_mysql)
{
    job_row_dispatched(1, 1, 0);
    job_rows_multiply(600, 0);
    keep_locked("id > 100 AND id <= 200");
    count_commits = true;
    applies_to_fail = 2;
    report_all(1, 300);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 200);
    report_all(301, 600);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 500);
    let_go();
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 600);
    assert_true(commits > 0);
    assert_int_equal(committed_too_early, 0);
}

FRESH_TEST(results_that_mysql_refused_are_read_again)
{
    job_row_dispatched(1, 1, 0);
    job_rows_multiply(50, 0);
    applies_to_fail = 3;
    report_all(1, 50);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 50);
    assert_int_equal(applies_to_fail, 0);
    assert_sql_number(50, "SELECT COUNT(*) FROM jobs WHERE version = 2");
}

FRESH_TEST(a_failed_commit_of_offsets_delays_nothing)
{
    job_row_dispatched(1, 1, 0);
    job_rows_multiply(20, 0);
    commits_to_fail = 2;
    report_all(1, 10);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 10);
    report_all(11, 20);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 20);
}

/* ---- what cannot be understood ---- */

static size_t rejected(const char *value, size_t n)
{
    struct kafka_seen *seen;
    size_t all = kafka_fixture_read(&kafka, kafka_fixture_own(&kafka, "results.rejected"), KAFKA_COMMITTED, &seen),
           found = 0;
    for (size_t i = 0; i < all; i++)
        found += seen[i].value_n == n && strncmp(seen[i].value, value, strlen(value)) == 0;
    free(seen);
    return found;
}

static bool is_rejected(void *arg)
{
    return rejected(arg, strlen(arg)) > 0;
}

FRESH_TEST(results_that_cannot_be_parsed_are_rejected_and_the_others_are_applied)
{
    char nonsense[] = "{\"job_id\":\"x1\"}", more[] = "not json 1";
    job_row_dispatched(1, 1, 0);
    report("%s", nonsense);
    report_all(1, 1);
    report("%s", more);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 1);
    AWAIT(is_rejected(nonsense));
    AWAIT(is_rejected(more));
}

/* While Kafka does not answer, the batch waits: what was rejected is not forgotten. */
FRESH_TEST(rejected_results_wait_while_kafka_is_unavailable)
{
    char nonsense[] = "not json 2";
    sends_to_fail = 2;
    job_row_dispatched(1, 1, 0);
    report("%s", nonsense);
    report_all(1, 1);
    AWAIT(is_rejected(nonsense));
    assert_int_equal(sends_to_fail, 0);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 1);
}

FRESH_TEST(a_rejected_result_that_kafka_refuses_does_not_block_others)
{
    char other[] = "not json 4";
    snprintf(refused_value, sizeof refused_value, "not json 3");
    job_row_dispatched(1, 1, 0);
    job_row_dispatched(2, 1, 0);
    report("not json 3");
    report("%s", other);
    report_all(1, 1);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 1);
    AWAIT(is_rejected(other));
    report_all(2, 2);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 2);
    assert_int_equal(rejected("not json 3", 10), 0);
}

/* A record may be as large as Kafka takes it; with its reason it would be larger. */
FRESH_TEST(a_very_large_record_is_rejected_and_truncated)
{
    const size_t n = 900000;
    char *value = malloc(n + 1);
    memset(value, 'x', n);
    value[n] = '\0';
    kafka_fixture_write(&kafka, kafka_fixture_own(&kafka, "results"), 0, "1", value);
    free(value);
    job_row_dispatched(1, 1, 0);
    report_all(1, 1);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 1);
    AWAIT(rejected("xxxx", 500000) == 1);
}

/* ---- jobs that somebody keeps locked ---- */

FRESH_TEST(results_of_very_many_locked_jobs_do_not_delay_others)
{
    enum { LOCKED = 5000, OTHERS = 200 };
    job_row_dispatched(1, 1, 0);
    job_rows_multiply(LOCKED + OTHERS, 0);
    keep_locked("id <= 5000");
    report_all(1, LOCKED);
    wait_for("SELECT COUNT(*) FROM deferred_results", LOCKED);
    report_all(LOCKED + 1, LOCKED + OTHERS);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", OTHERS);
    let_go();
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", LOCKED + OTHERS);
    wait_for("SELECT COUNT(*) FROM deferred_results", 0);
}

FRESH_TEST(results_of_a_locked_job_are_applied_in_order_after_it_is_unlocked)
{
    job_row_dispatched(1, 1, 0);
    job_row_dispatched(2, 1, 0);
    keep_locked("id = 1");
    report("{\"job_id\":\"1\",\"attempt\":1,\"status\":\"extended\",\"retry_after\":\"PT2H\"}");
    wait_for("SELECT COUNT(*) FROM deferred_results", 1);
    report("{\"job_id\":\"1\",\"attempt\":1,\"status\":\"failed\",\"retry_after\":\"PT3H\",\"error\":{\"code\":"
           "\"first\",\"message\":\"the one that counts\"}}");
    report("{\"job_id\":\"1\",\"attempt\":1,\"status\":\"gave_up\",\"error\":{\"code\":\"second\"}}");
    report_all(2, 2);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 1);
    wait_for("SELECT COUNT(*) FROM deferred_results", 3);
    let_go();
    wait_for("SELECT COUNT(*) FROM deferred_results", 0);
    assert_job(1,
               "CONCAT_WS(' ', state, attempt_status, failures, error_code, error_message, version, ROUND((next_at - "
               "updated_at) / 3600000))",
               "scheduled failed 1 first the one that counts 3 3");
}

/* The row is free again, and an earlier result of its job still waits: a later one does not overtake it. */
FRESH_TEST(a_result_does_not_overtake_an_earlier_one_of_its_job)
{
    stop();
    job_row_dispatched(1, 1, 0);
    run_sql("INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, deferred_at) VALUES (1, 1, "
            "'gave_up', -1, 1)");
    report_all(1, 1);
    start();
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'dead'", 1);
    wait_for("SELECT COUNT(*) FROM deferred_results", 0);
    assert_job(1, "state", "dead");
}

FRESH_TEST(a_reader_that_ends_while_results_wait_loses_none_of_them)
{
    job_row_dispatched(1, 1, 0);
    job_rows_multiply(40, 0);
    keep_locked("id <= 20");
    report_all(1, 40);
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 20);
    stop();
    let_go();
    start();
    wait_for("SELECT COUNT(*) FROM jobs WHERE state = 'succeeded'", 40);
    wait_for("SELECT COUNT(*) FROM deferred_results", 0);
}

/* Kafka was taken away: what its readers had stored is still applied, and nothing of Kafka is asked. */
FRESH_TEST(without_kafka_stored_results_are_applied)
{
    char *brokers = config.kafka_brokers;
    stop();
    job_row_dispatched(1, 1, 0);
    job_row_dispatched(2, 1, 0);
    run_sql("INSERT INTO deferred_results (job_id, attempt, status, retry_after_ms, deferred_at) VALUES (1, 1, "
            "'succeeded', -1, 1), (2, 1, 'gave_up', -1, 1)");
    config.kafka_brokers = (char[]){""};
    start();
    wait_for("SELECT COUNT(*) FROM deferred_results", 0);
    assert_job(1, "state", "succeeded");
    assert_job(2, "state", "dead");
    stop();
    config.kafka_brokers = brokers;
}

SUITE(open_all, close_all)
