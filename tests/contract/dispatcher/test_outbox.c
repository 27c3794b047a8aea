/*
 * The outbox (outbox.h) on a real MySQL and Kafka. What stands between it and Kafka here refuses single messages, or
 * fails when it is told to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chores/outbox.h"
#include "store/results/outbox.h"
#include "store/store_chores.h"
#include "support/job_rows.h"
#include "support/kafka_fixture.h"
#include "support/rigs/hand_clock.h"

#define SHARDS   4
#define PAGE     500               /* notices in one read */
#define LOOK_US  INT64_C(10000000) /* between two looks at all outboxes */
#define RETRY_US INT64_C(500000)   /* pause after a failure */

static struct mysql_fixture fx;
static struct kafka_fixture kafka;
static struct dt_config config;
static dt_notice_producer *notices;
static dt_outbox *outbox;
static const struct dt_store_source stores = {.config = &config};
static dt_chores *chores;
static struct dt_error err;

static _Atomic unsigned sends; /* shards whose notices this process sends: a bit each */

/* ---- between the outbox and its servers ---- */

static _Atomic int sends_to_fail, deletes_to_fail, calls;
static _Atomic bool refuse_odd;                /* Kafka refuses the messages of jobs with odd ids */
static _Atomic int64_t refuse_from, refuse_to; /* and those of these jobs */
static _Atomic bool lose_the_rest;             /* of a batch nothing arrives but its first message */

__typeof__(dt_notice_producer_send) __real_dt_notice_producer_send;
__typeof__(dt_notice_producer_send) __wrap_dt_notice_producer_send;
__typeof__(dt_store_outbox_sent) __real_dt_store_outbox_sent;
__typeof__(dt_store_outbox_sent) __wrap_dt_store_outbox_sent;

static bool spend(_Atomic int *budget)
{
    int left = *budget;
    while (left > 0 && !atomic_compare_exchange_weak(budget, &left, left - 1))
        ;
    return left > 0;
}

static int64_t job_of(const struct dt_kafka_message *m)
{
    for (size_t i = 0; i < m->n_headers; i++)
        if (dt_str_is(m->headers[i].name, "ce_jobid"))
            return strtoll(m->headers[i].value.p, NULL, 10);
    return 0;
}

static bool is_refused(const struct dt_kafka_message *m)
{
    int64_t id = job_of(m);
    return (refuse_odd && id % 2) || (id >= refuse_from && id <= refuse_to);
}

/* As the real one does: all but what is refused is sent. */
dt_status __wrap_dt_notice_producer_send(dt_notice_producer *s, const struct dt_kafka_message *messages, size_t n,
                                         bool *sent, int timeout_ms, struct dt_error *e)
{
    struct dt_kafka_message *taken = calloc(n, sizeof *taken);
    bool *arrived = calloc(n, sizeof *arrived);
    size_t n_taken = 0, k = 0, most = lose_the_rest ? 1 : n;
    calls++;
    memset(sent, 0, n * sizeof *sent);
    for (size_t i = 0; i < n; i++)
        if (!is_refused(&messages[i]) && n_taken < most)
            taken[n_taken++] = messages[i];
    bool fails = spend(&sends_to_fail);
    dt_status status = fails ? dt_fail(e, DT_UNAVAILABLE, "no answer")
                             : __real_dt_notice_producer_send(s, taken, n_taken, arrived, timeout_ms, e);
    for (size_t i = 0; i < n; i++)
        if (!is_refused(&messages[i]) && k < n_taken)
            sent[i] = arrived[k++];
    free(taken);
    free(arrived);
    if (status == DT_OK && n_taken < n)
        status = lose_the_rest ? dt_fail(e, DT_UNAVAILABLE, "no answer for the rest")
                               : dt_fail(e, DT_REFUSED, "some are refused");
    return status;
}

dt_status __wrap_dt_store_outbox_sent(dt_store *store, const int64_t *ids, size_t n, struct dt_error *e)
{
    return spend(&deletes_to_fail) ? dt_fail(e, DT_UNAVAILABLE, "MySQL is away")
                                   : __real_dt_store_outbox_sent(store, ids, n, e);
}

/* ---- its surroundings ---- */

static bool sends_shard(void *arg, unsigned shard)
{
    (void)arg;
    return sends >> shard & 1;
}

static unsigned shards(void *arg)
{
    (void)arg;
    return SHARDS;
}

static void start(void)
{
    MYSQL_FIXTURE_OK(dt_store_chores_start(&stores, &hand_clock, "chores", 1, &chores, &err), &err);
    const struct dt_outbox_env env = {.chores = chores,
                                      .kafka = &kafka.env,
                                      .clock = &hand_clock,
                                      .notices = notices,
                                      .sends = sends_shard,
                                      .shards = shards};
    MYSQL_FIXTURE_OK(dt_outbox_start(&env, &outbox), &err);
}

static void stop(void)
{
    dt_outbox_stop(outbox);
    outbox = NULL;
    dt_chores_stop(chores);
    chores = NULL;
}

static int open_all(void **state)
{
    (void)state;
    mysql_fixture_make(&fx, "outbox");
    mysql_fixture_migrate(&fx);
    kafka_fixture_make(&kafka, "outbox");
    config = fx.config;
    config.kafka_brokers = kafka.config.kafka_brokers;
    config.kafka_transaction_timeout = kafka.config.kafka_transaction_timeout;
    kafka.env.config = &config;
    MYSQL_FIXTURE_OK(dt_notice_producer_new(&kafka.env, &notices, &err), &err);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    dt_notice_producer_free(notices);
    kafka_fixture_clear(&kafka);
    mysql_fixture_drop(&fx);
    return 0;
}

static int begin_test(void **state)
{
    (void)state;
    mysql_fixture_run(&fx, "DELETE FROM jobs; DELETE FROM outbox");
    sends_to_fail = deletes_to_fail = 0;
    refuse_from = refuse_to = 0;
    refuse_odd = lose_the_rest = false;
    sends = (1u << SHARDS) - 1;
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    stop();
    return 0;
}

/* ---- hands ---- */

static int64_t first_id = 1000; /* each test has jobs of its own: their letters stay in Kafka */

/* n dead jobs, each with a notice in the outbox of `shard`. */
static int64_t bury(int64_t n, unsigned shard)
{
    int64_t first = first_id;
    first_id += n + 1000;
    job_row(&fx, first, "state = 'dead', next_at = NULL, attempt = 3, error_code = 'why', error_message = 'so'");
    for (int64_t made = 1; made < n; made *= 2)
        mysql_fixture_run(&fx,
                          "INSERT INTO jobs (id, topic, state, run_at, attempt, retry, ack_timeout_ms, created_at,"
                          " updated_at, maker, digest, payload) SELECT id + %lld, topic, state, run_at, attempt, retry,"
                          " ack_timeout_ms, created_at, updated_at, maker, digest, payload FROM jobs"
                          " WHERE id >= %lld AND id < %lld",
                          (long long)made, (long long)first, (long long)(first + (n - made < made ? n - made : made)));
    mysql_fixture_run(&fx,
                      "INSERT INTO outbox (shard, kind, job_id, attempt, made_at) SELECT %u, 'dead', id, 3, 1 FROM "
                      "jobs WHERE id >= %lld AND id < %lld ORDER BY id",
                      shard, (long long)first, (long long)(first + n));
    return first;
}

static void wait_for_waiting(int64_t wanted)
{
    int64_t n;
    AWAIT_OR((n = mysql_fixture_number(&fx, "SELECT COUNT(*) FROM outbox")) == wanted,
             print_error("%lld notices wait\n", (long long)n));
}

/* Starts the next try: half a second after the failed one. */
static void let_it_retry(void)
{
    AWAIT(hand_due_in() == RETRY_US);
    pass(RETRY_US);
}

/* Starts the outbox and waits until its first look at all outboxes has ended. */
static void start_and_look(void)
{
    bury(1, SHARDS - 1);
    start();
    wait_for_waiting(0);
}

/* How many letters of jobs first to last are in Kafka; each[i]: of job first + i. */
static size_t letters(int64_t first, int64_t last, int *each)
{
    struct kafka_seen *seen;
    size_t n = kafka_fixture_read(&kafka, kafka_fixture_own(&kafka, "dead"), true, &seen), found = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t id = strtoll(seen[i].header, NULL, 10);
        if (id < first || id > last)
            continue;
        found++;
        if (each)
            each[id - first]++;
    }
    free(seen);
    return found;
}

/* ---- the tests ---- */

static void notices_leave_when_it_is_told_of_their_shard(void **state)
{
    (void)state;
    start_and_look();
    int64_t first = bury(3, 2);
    dt_outbox_post(outbox, 2);
    wait_for_waiting(0);
    int each[3] = {0};
    assert_int_equal(letters(first, first + 2, each), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(each[i], 1);
}

static void what_nobody_told_of_leaves_with_the_next_look(void **state)
{
    (void)state;
    start_and_look();
    int64_t first = bury(2, 1);
    pass(LOOK_US);
    wait_for_waiting(0);
    assert_int_equal(letters(first, first + 1, NULL), 2);
}

static void notices_of_shards_that_others_send_stay(void **state)
{
    (void)state;
    sends = 1u << 3;
    int64_t theirs = bury(2, 0), ours = bury(2, 3);
    start();
    dt_outbox_post(outbox, 0);
    wait_for_waiting(2);
    assert_int_equal(letters(ours, ours + 1, NULL), 2);
    assert_int_equal(letters(theirs, theirs + 1, NULL), 0);
    sends = (1u << SHARDS) - 1; /* led here from now on */
    pass(LOOK_US);
    wait_for_waiting(0);
}

static void a_notice_that_kafka_refuses_is_not_deleted_and_goes_when_kafka_takes_it(void **state)
{
    (void)state;
    int64_t first = bury(10, 0);
    refuse_odd = true;
    start();
    wait_for_waiting(5);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT COUNT(*) FROM outbox WHERE job_id MOD 2"), 5);
    for (int i = 0; i < 2; i++) { /* offered again and refused; each try ends before the next one */
        AWAIT(hand_waits);
        int calls_before = calls;
        pass(LOOK_US);
        AWAIT(calls > calls_before);
    }
    AWAIT(hand_waits);
    assert_int_equal(mysql_fixture_number(&fx, "SELECT COUNT(*) FROM outbox WHERE job_id MOD 2"), 5);
    refuse_odd = false;
    pass(LOOK_US);
    wait_for_waiting(0);
    int each[10] = {0};
    assert_int_equal(letters(first, first + 9, each), 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(each[i], 1);
}

static void pages_of_refused_notices_do_not_block_those_behind_them(void **state)
{
    (void)state;
    enum { N = 2 * PAGE + 20 };
    int64_t first = bury(N, 0), other = bury(5, 1);
    refuse_from = first;
    refuse_to = first + 2 * PAGE - 1;
    start();
    wait_for_waiting(2 * PAGE);
    assert_int_equal(letters(first + 2 * PAGE, first + N - 1, NULL), N - 2 * PAGE);
    assert_int_equal(letters(other, other + 4, NULL), 5); /* nor another shard's */
    /* What comes behind them later goes, too. */
    int64_t later = bury(3, 0);
    dt_outbox_post(outbox, 0);
    AWAIT(letters(later, later + 2, NULL) == 3);
}

static void what_did_not_arrive_for_want_of_an_answer_goes_again_soon(void **state)
{
    (void)state;
    int64_t first = bury(4, 0);
    lose_the_rest = true;
    start();
    for (int i = 0; i < 3; i++) /* one after another, and each only once */
        let_it_retry();
    wait_for_waiting(0);
    int each[4] = {0};
    assert_int_equal(letters(first, first + 3, each), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(each[i], 1);
}

static void a_kafka_that_is_away_is_asked_again_and_not_all_the_time(void **state)
{
    (void)state;
    int64_t first = bury(2, 0);
    sends_to_fail = 3;
    calls = 0;
    start();
    for (int i = 0; i < 3; i++) {
        AWAIT(hand_due_in() == RETRY_US);
        assert_int_equal(calls, i + 1);
        let_it_retry();
        AWAIT(calls == i + 2);
    }
    wait_for_waiting(0);
    assert_int_equal(calls, 4);
    assert_int_equal(letters(first, first + 1, NULL), 2);
}

/* At least once: it was sent, and MySQL did not hear of it. */
static void what_was_sent_and_could_not_be_deleted_goes_again_under_the_same_id(void **state)
{
    (void)state;
    int64_t first = bury(2, 0);
    deletes_to_fail = 1;
    start();
    let_it_retry();
    wait_for_waiting(0);
    int each[2] = {0};
    letters(first, first + 1, each);
    assert_int_equal(each[0], 2);
    assert_int_equal(each[1], 2);
}

static void a_letter_tells_of_its_job(void **state)
{
    (void)state;
    int64_t first = bury(1, 0);
    struct kafka_seen *seen;
    char id[64];
    bool found = false;
    snprintf(id, sizeof id, "%lld/3/dead", (long long)first);
    start();
    wait_for_waiting(0);
    size_t n = kafka_fixture_read(&kafka, kafka_fixture_own(&kafka, "dead"), true, &seen);
    for (size_t i = 0; i < n; i++)
        found |= strcmp(seen[i].header, id) == 0 && !seen[i].null_value;
    free(seen);
    assert_true(found);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        T(notices_leave_when_it_is_told_of_their_shard),
        T(what_nobody_told_of_leaves_with_the_next_look),
        T(notices_of_shards_that_others_send_stay),
        T(a_notice_that_kafka_refuses_is_not_deleted_and_goes_when_kafka_takes_it),
        T(pages_of_refused_notices_do_not_block_those_behind_them),
        T(what_did_not_arrive_for_want_of_an_answer_goes_again_soon),
        T(a_kafka_that_is_away_is_asked_again_and_not_all_the_time),
        T(what_was_sent_and_could_not_be_deleted_goes_again_under_the_same_id),
        T(a_letter_tells_of_its_job),
    };
    return cmocka_run_group_tests_name("the outbox", tests, open_all, close_all);
}
