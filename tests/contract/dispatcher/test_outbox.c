/* Senders of the outbox (outbox.h) on a real MySQL and Kafka. What is between them and Kafka here refuses single
 * messages, or fails when the test says so. */

#include "deliver/kafka/message.h"
#include "features/alerts/alerts.h"
#include "support/job_rows.h"
#include "support/kafka_fixture.h"
#include "support/rigs/hand_clock.h"

#define SHARDS   4
#define TOGETHER 500               /* letters that are sent together … */
#define LISTED   2000              /* … and in one round */
#define LOOK_US  INT64_C(10000000) /* between two rounds that nothing asked for */
#define RETRY_US INT64_C(500000)   /* pause after a failure */

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

static _Atomic int64_t last_job;        /* of the last letter that was sent, … */
static _Atomic int64_t before_theirs;   /* … and of the one before the first letter of another shard's job */
static _Atomic int64_t first_of_theirs; /* that shard's jobs have these ids, and higher ones */
static char asked[16][64];              /* topics of the answers that were sent first, in their order */
static _Atomic size_t n_asked;

__typeof__(dt_store_delete_messages) __real_dt_store_delete_messages;
__typeof__(dt_store_delete_messages) __wrap_dt_store_delete_messages;

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

static void note(const struct dt_kafka_message *m)
{
    const int64_t job = job_of(m);
    if (job && first_of_theirs && job >= first_of_theirs && !before_theirs)
        before_theirs = last_job;
    last_job = job;
    if (!job && n_asked < sizeof(asked) / sizeof(*asked))
        snprintf(asked[n_asked++], sizeof(*asked), "%.*s", (int)m->topic.n, m->topic.p);
}

/* As the producer does: all but what is refused is sent. Topics named silent.* take nothing, those named far.* take
 * all, and there are none of either. */
static dt_status send_to_kafka(void *, const struct dt_kafka_message *messages, size_t n, bool *sent, int timeout_ms,
                               struct dt_error *e)
{
    bool silent = false;
    struct dt_kafka_message *taken = calloc(n, sizeof *taken);
    bool *arrived = calloc(n, sizeof *arrived);
    size_t n_taken = 0, k = 0, most = lose_the_rest ? 1 : n;
    calls++;
    for (size_t i = 0; i < n; i++)
        note(&messages[i]);
    for (size_t i = 0; i < n; i++) {
        sent[i] = strncmp(messages[i].topic.p, "far.", 4) == 0;
        silent |= strncmp(messages[i].topic.p, "silent.", 7) == 0;
    }
    if (silent || (n && sent[0])) {
        free(taken);
        free(arrived);
        return silent ? dt_fail(e, DT_UNAVAILABLE, "no answer in time") : DT_OK;
    }
    for (size_t i = 0; i < n; i++)
        if (!is_refused(&messages[i]) && n_taken < most)
            taken[n_taken++] = messages[i];
    bool fails = spend(&sends_to_fail);
    dt_status status = fails ? dt_fail(e, DT_UNAVAILABLE, "no answer")
                             : dt_notice_producer_send(notices, taken, n_taken, arrived, timeout_ms, e);
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

dt_status __wrap_dt_store_delete_messages(dt_store *store, const int64_t *ids, size_t n, struct dt_error *e)
{
    return n && spend(&deletes_to_fail) ? dt_fail(e, DT_UNAVAILABLE, "MySQL is away")
                                        : __real_dt_store_delete_messages(store, ids, n, e);
}

/* ---- its surroundings ---- */

static bool sends_shard(void *, int64_t shard)
{
    return sends >> shard & 1;
}

static dt_status ask(void *, struct dt_str topic, int64_t, struct dt_error *)
{
    return strncmp(topic.p, "unmade.", 7) == 0 ? DT_BUSY : DT_OK;
}

static void start_sender(const struct dt_outbox_kind *kind)
{
    static const struct dt_outbox_kafka to_kafka = {.send = send_to_kafka, .ask = ask, .letter = dt_message_of_notice};
    OK(dt_store_chores_start(&stores, &hand_clock, "chores", 1, &chores, &err));
    const struct dt_outbox_env env = {.kind = kind,
                                      .chores = chores,
                                      .config = &config,
                                      .clock = &hand_clock,
                                      .installation = kafka.env.installation,
                                      .kafka = &to_kafka,
                                      .ours = sends_shard};
    OK(dt_outbox_start(&env, &outbox));
}

static void start(void)
{
    start_sender(&dt_outbox_letters);
}

static void stop(void)
{
    dt_outbox_stop(outbox);
    outbox = NULL;
    dt_chores_stop(chores);
    chores = NULL;
}

static void open_all(void)
{
    mysql_fixture_make("outbox");
    mysql_fixture_migrate();
    kafka_fixture_make(&kafka, "outbox");
    config = mysql_fixture.config;
    config.kafka_brokers = kafka.config.kafka_brokers;
    config.kafka_transaction_timeout = kafka.config.kafka_transaction_timeout;
    kafka.env.config = &config;
    OK(dt_notice_producer_new(&kafka.env, &notices, &err));
}

static void close_all(void)
{
    dt_notice_producer_free(notices);
    kafka_fixture_clear(&kafka);
    mysql_fixture_drop();
}

static void begin_test(void)
{
    run_sql("DELETE FROM jobs; DELETE FROM messages; DELETE FROM topics");
    sends_to_fail = deletes_to_fail = 0;
    refuse_from = refuse_to = 0;
    refuse_odd = lose_the_rest = false;
    last_job = before_theirs = first_of_theirs = 0;
    n_asked = 0;
    sends = (1u << SHARDS) - 1;
}

static void end_test(void)
{
    stop();
}

#define FRESH_TEST(name) TEST_WITH(name, begin_test, end_test)

/* ---- hands ---- */

static int64_t first_id = 1000; /* each test has jobs of its own: their letters stay in Kafka */

/* n dead jobs, each with a notice in the outbox of `shard`. */
static int64_t bury(int64_t n, unsigned shard)
{
    int64_t first = first_id;
    first_id += n + 1000;
    job_row(first, "state = 'dead', next_at = NULL, attempt = 3, error_code = 'why', error_message = 'so'");
    for (int64_t made = 1; made < n; made *= 2)
        run_sql("INSERT INTO jobs (id, topic, state, run_at, attempt, retry, ack_timeout_ms, created_at, updated_at, "
                "maker, digest, payload) SELECT id + %lld, topic, state, run_at, attempt, retry, ack_timeout_ms, "
                "created_at, updated_at, maker, digest, payload FROM jobs WHERE id >= %lld AND id < %lld",
                (long long)made, (long long)first, (long long)(first + (n - made < made ? n - made : made)));
    run_sql("INSERT INTO messages (sender, kind, job_id, attempt, made_at) SELECT %u, 'dead', id, 3, 1 FROM jobs WHERE "
            "id >= %lld AND id < %lld ORDER BY id",
            shard, (long long)first, (long long)(first + n));
    return first;
}

static void wait_for_waiting(int64_t wanted)
{
    int64_t n;
    AWAIT_OR((n = sql_number("SELECT COUNT(*) FROM messages")) == wanted,
             print_error("%lld notices wait\n", (long long)n));
}

static int64_t put_off(void)
{
    return sql_number("SELECT COUNT(*) FROM messages WHERE next_at > 1 AND error IS NOT NULL");
}

/* Lets time pass after the end of the round: what passes during a round shortens no sleep. */
static void pass_after_round(int64_t us)
{
    AWAIT(hand_due_in() > 0);
    pass(us);
}

/* Waits until so many messages were put off, and has all of them tried again. */
static void let_them_be_tried_again(int64_t wanted)
{
    AWAIT(put_off() == wanted);
    run_sql("UPDATE messages SET next_at = 1");
    pass_after_round(LOOK_US);
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
    size_t n = kafka_fixture_read(&kafka, kafka_fixture_own(&kafka, "dead"), KAFKA_COMMITTED, &seen), found = 0;
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

FRESH_TEST(notices_are_sent_when_the_outbox_is_woken)
{
    start_and_look();
    int64_t first = bury(3, 2);
    dt_outbox_wake(outbox);
    wait_for_waiting(0);
    int each[3] = {0};
    assert_int_equal(letters(first, first + 2, each), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(each[i], 1);
}

FRESH_TEST(a_notice_without_a_wake_up_is_sent_at_the_next_poll)
{
    start_and_look();
    int64_t first = bury(2, 1);
    pass_after_round(LOOK_US);
    wait_for_waiting(0);
    assert_int_equal(letters(first, first + 1, NULL), 2);
}

FRESH_TEST(notices_of_other_processes_shards_are_not_sent)
{
    sends = 1u << 3;
    int64_t theirs = bury(2, 0), ours = bury(2, 3);
    start();
    dt_outbox_wake(outbox);
    wait_for_waiting(2);
    assert_int_equal(letters(ours, ours + 1, NULL), 2);
    assert_int_equal(letters(theirs, theirs + 1, NULL), 0);
    sends = (1u << SHARDS) - 1; /* led here from now on */
    pass_after_round(LOOK_US);
    wait_for_waiting(0);
}

FRESH_TEST(a_refused_notice_is_kept_and_sent_when_kafka_accepts_it)
{
    int64_t first = bury(10, 0);
    refuse_odd = true;
    start();
    wait_for_waiting(5);
    for (int i = 0; i < 2; i++)
        let_them_be_tried_again(5);
    AWAIT(sql_number("SELECT COUNT(*) FROM messages WHERE job_id MOD 2 AND tries = 3") == 5);
    refuse_odd = false;
    let_them_be_tried_again(5);
    wait_for_waiting(0);
    int each[10] = {0};
    assert_int_equal(letters(first, first + 9, each), 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(each[i], 1);
}

FRESH_TEST(refused_notices_do_not_block_later_ones)
{
    enum { N = 2 * TOGETHER + 20 };
    int64_t first = bury(N, 0), other = bury(5, 1);
    refuse_from = first;
    refuse_to = first + 2 * TOGETHER - 1;
    start();
    wait_for_waiting(2 * TOGETHER);
    assert_int_equal(letters(first + 2 * TOGETHER, first + N - 1, NULL), N - 2 * TOGETHER);
    assert_int_equal(letters(other, other + 4, NULL), 5); /* nor another shard's */
    /* What comes behind them later goes, too. */
    int64_t later = bury(3, 0);
    dt_outbox_wake(outbox);
    AWAIT(letters(later, later + 2, NULL) == 3);
}

FRESH_TEST(a_notice_without_an_answer_from_kafka_is_sent_again_soon)
{
    int64_t first = bury(4, 0);
    lose_the_rest = true;
    start();
    for (int left = 3; left > 0; left--) /* one after another, and each only once */
        let_them_be_tried_again(left);
    wait_for_waiting(0);
    int each[4] = {0};
    assert_int_equal(letters(first, first + 3, each), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(each[i], 1);
}

FRESH_TEST(while_kafka_is_down_sending_is_retried_with_pauses)
{
    int64_t first = bury(2, 0);
    sends_to_fail = 3;
    calls = 0;
    start();
    for (int i = 0; i < 3; i++) {
        AWAIT(hand_due_in() == RETRY_US);
        assert_int_equal(calls, i + 1);
        dt_outbox_wake(outbox); /* it shortens no pause */
        let_them_be_tried_again(2);
        AWAIT(calls == i + 2);
    }
    wait_for_waiting(0);
    assert_int_equal(calls, 4);
    assert_int_equal(letters(first, first + 1, NULL), 2);
}

/* At least once: it was sent, and MySQL did not hear of it. */
FRESH_TEST(a_sent_but_not_deleted_notice_is_sent_again_with_the_same_id)
{
    int64_t first = bury(2, 0);
    deletes_to_fail = 1;
    start();
    AWAIT(hand_due_in() == 2 * RETRY_US);
    pass(2 * RETRY_US);
    wait_for_waiting(0);
    int each[2] = {0};
    letters(first, first + 1, each);
    assert_int_equal(each[0], 2);
    assert_int_equal(each[1], 2);
}

/* A test clock moves the time of transactions, and so made_at, ahead of the time by which messages are due. */
FRESH_TEST(a_notice_with_a_future_time_is_sent_at_once)
{
    int64_t first = bury(2, 0);
    run_sql("UPDATE messages SET made_at = 4000000000000");
    start();
    wait_for_waiting(0);
    assert_int_equal(letters(first, first + 1, NULL), 2);
}

/* Each round begins to read after the last shard whose letter was sent. */
FRESH_TEST(shards_with_many_notices_leave_turns_to_others)
{
    const int64_t ours = bury(3 * LISTED, 0);
    first_of_theirs = bury(5, 1);
    start();
    wait_for_waiting(0);
    assert_true(before_theirs < ours + 2 * LISTED);
}

/* ---- answers ---- */

static void answer(int64_t n, const char *topic, const char *reply_to)
{
    run_sql("INSERT INTO messages (kind, sender, made_at, topic, kafka_topic, answers) WITH RECURSIVE n AS (SELECT 1 "
            "AS i UNION ALL SELECT i + 1 FROM n WHERE i < %lld) SELECT 'answers', 0, 1, '%s', '%s', "
            "'[{\"topic\":\"%s\",\"key\":null,\"value\":null,\"headers\":[]}]' FROM n",
            (long long)n, topic, reply_to, reply_to);
}

FRESH_TEST(owners_take_turns_with_their_answers)
{
    run_sql("INSERT INTO topics (name, owner, delivery, created_at, updated_at) VALUES ('a', 7, 'pull', 1, 1), ('b', "
            "8, 'pull', 1, 1)");
    answer(900, "a", "far.a");
    answer(900, "a", "far.a"); /* more than are read at once */
    answer(2, "b", "far.b");
    start_sender(&dt_outbox_answers);
    wait_for_waiting(0);
    assert_string_equal(asked[0], "far.a"); /* both of b's are among the first sixteen, which go in the order of ids */
    assert_string_equal(asked[14], "far.b");
    assert_string_equal(asked[15], "far.b");
}

FRESH_TEST(a_topic_that_accepts_no_answer_delays_no_other)
{
    answer(100, "", "silent.a");
    start_sender(&dt_outbox_answers);
    AWAIT(put_off() == 16 && hand_due_in() == 2 * RETRY_US);
    calls = 0;
    answer(3, "", "silent.a");
    run_sql("UPDATE messages SET sender = 1 ORDER BY id DESC LIMIT 3"); /* nor by another sender */
    answer(40, "", "far.b");
    pass(2 * RETRY_US);
    wait_for_waiting(103);
    assert_int_equal(put_off(), 16);
    assert_int_equal(calls, 3); /* none of them for the silent topic */
}

FRESH_TEST(an_answer_is_tried_again_after_five_to_twenty_seconds)
{
    static const int seconds[] = {5, 10, 20, 20};
    answer(1, "", "silent.a");
    start_sender(&dt_outbox_answers);
    for (int tries = 1; tries <= 4; tries++) {
        AWAIT(sql_number("SELECT COUNT(*) FROM messages WHERE tries = %d", tries) == 1);
        const int64_t after_ms = sql_number("SELECT next_at - UNIX_TIMESTAMP(SYSDATE(3))*1000 FROM messages");
        assert_in_range(after_ms, seconds[tries - 1] * 1000 - 4000, seconds[tries - 1] * 1000);
        run_sql("UPDATE messages SET next_at = 1");
        pass_after_round(INT64_C(60000000));
    }
}

FRESH_TEST(answers_for_missing_topics_do_not_block_others)
{
    answer(900, "", "unmade.a");
    answer(900, "", "unmade.a");
    answer(2, "", "far.b");
    start_sender(&dt_outbox_answers);
    wait_for_waiting(1800);
}

/* ---- messages about alerts ---- */

FRESH_TEST(a_message_behind_another_does_not_change_the_next_due_time)
{
    run_sql("INSERT INTO messages (kind, sender, made_at, alert, target, type, alert_kind, value, bound, began_at) "
            "SELECT 'alert', 0, UNIX_TIMESTAMP(SYSDATE(3))*1000, 1, 'kafka', 'began', 'dead', 1, 1, 1 UNION ALL SELECT "
            "'alert', 0, UNIX_TIMESTAMP(SYSDATE(3))*1000, 1, 'kafka', 'ended', 'dead', 1, 1, 1");
    sends_to_fail = 1;
    start_sender(&dt_alert_messages);
    AWAIT(put_off() == 1);
    AWAIT(hand_due_in() > 0 && hand_due_in() <= 1000000);
}

FRESH_TEST(a_locked_row_of_one_kind_delays_no_other_kind)
{
    static const char *const names[] = {"dead", "answers", "alert"};
    static const struct dt_outbox_kind *const kinds[] = {&dt_outbox_letters, &dt_outbox_answers};
    run_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    for (size_t held = 0; held < 3; held++) {
        bury(1, 0);
        answer(1, "", "far.a");
        run_sql("INSERT INTO messages (kind, sender, made_at, alert, target, type, alert_kind, value, bound, began_at) "
                "VALUES ('alert', 0, UNIX_TIMESTAMP(SYSDATE(3))*1000, 1, 'kafka', 'began', 'dead', 1, 1, 1)");
        run_sql("START TRANSACTION");
        sql_number("SELECT id FROM messages WHERE kind = '%s' FOR UPDATE", names[held]);
        for (size_t other = 0; other < 2; other++) /* the alert is only locked: no topic of Kafka takes it here */
            if (other != held) {
                start_sender(kinds[other]);
                AWAIT(sql_number("SELECT COUNT(*) FROM messages WHERE kind = '%s'", names[other]) == 0);
                stop();
            }
        run_sql("ROLLBACK");
        run_sql("DELETE FROM messages");
    }
}

SUITE(open_all, close_all)
