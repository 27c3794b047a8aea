/* What a shard's producer is refused, and by whom it is fenced, on a real broker. */

#include "support/rigs/kafka_producer_rig.h"

static struct dt_error err;

/* ---- refused ---- */

RIG_TEST(a_message_over_the_topics_own_limit_is_refused_and_nothing_is_committed)
{
    const char *small[] = {"max.message.bytes", "1000", NULL};
    char payload[2000], other[120];
    struct dt_kafka_message messages[2] = {message("1", "x"), message("2", "y")};
    int64_t offset;
    dt_producer *p = producer(0);
    memset(payload, 'p', sizeof(payload));
    snprintf(other, sizeof(other), "%s-other", fx.topic);
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    messages[0].topic = dt_str(other); /* fine by itself */
    messages[1].value = (struct dt_str){payload, sizeof(payload)};
    assert_int_equal(dt_producer_send(p, messages, 2, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), DT_REFUSED);
    assert_non_null(strstr(err.text, fx.topic));
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_false(dt_producer_refusal(p).whole_topic);                 /* others may well go */
    assert_int_equal(send_one(p, "3", "z", &offset, &err), DT_DOUBT); /* good for nothing any more */
    dt_producer_free(p);
    dt_producer_free(producer(0)); /* the next takeover ends what was open */
    assert_int_equal(committed(other), 0);
    assert_int_equal(committed(fx.topic), 0);
    assert_int_equal(committed(ledger()), 0);
}

RIG_TEST(a_topic_with_a_small_limit_gets_small_batches)
{
    enum { N = 50 };
    const char *small[] = {"max.message.bytes", "2000", NULL};
    struct dt_kafka_message messages[N];
    char payload[1000];
    int64_t offset;
    dt_producer *p = producer(0);
    memset(payload, 'p', sizeof(payload));
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    for (int i = 0; i < N; i++) {
        messages[i] = message("k", "");
        messages[i].value = (struct dt_str){payload, sizeof(payload)};
    }
    KAFKA_FIXTURE_OK(dt_producer_send(p, messages, N, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), &err);
    dt_producer_free(p);
    assert_int_equal(committed(fx.topic), N);
}

RIG_TEST(a_topic_that_cannot_be_created_is_refused_before_sending)
{
    int64_t offset;
    dt_producer *p = producer(0);
    fx.config.kafka_auto_create_partitions = 0;
    assert_int_equal(send_one(p, "1", "x", &offset, &err), DT_REFUSED);
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
    dt_producer_free(p);
    assert_int_equal(count(ledger(), KAFKA_ALL), 0);
}

RIG_TEST(a_deleted_topic_is_refused_before_sending)
{
    int64_t offset;
    dt_producer *p = producer(0);
    fx.config.kafka_auto_create_partitions = 0;
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    KAFKA_FIXTURE_OK(send_one(p, "1", "x", &offset, &err), &err);
    dt_producer_free(p);
    kafka_fixture_delete(&fx, fx.topic);
    dt_kafka_admin_forget(fx.env.admin, dt_str(fx.topic));
    p = producer(0);
    assert_int_equal(send_one(p, "2", "y", &offset, &err), DT_REFUSED);
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
    dt_producer_free(p);
    assert_int_equal(kafka_fixture_partitions(&fx, fx.topic), 0); /* nobody made it again */
}

RIG_TEST(a_topic_deleted_while_a_producer_uses_it_is_refused)
{
    int64_t offset;
    PRODUCER(p) = producer(0);
    fx.config.kafka_auto_create_partitions = 0;
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    KAFKA_FIXTURE_OK(send_one(p, "1", "x", &offset, &err), &err);
    kafka_fixture_delete(&fx, fx.topic);
    dt_status status = send_one(p, "2", "y", &offset, &err);
    if (status == DT_DOUBT) { /* the library did not say of which topic the coordinator spoke: the next one asks */
        dt_producer_free(p);
        p = producer(0);
        status = send_one(p, "2", "y", &offset, &err);
    }
    assert_int_equal(status, DT_REFUSED);
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
}

RIG_TEST(a_topic_that_may_not_be_written_is_refused_and_named)
{
    char other[120];
    struct dt_kafka_message messages[2] = {message("1", "x"), message("2", "y")};
    int64_t offset;
    dt_producer *p = producer(0);
    snprintf(other, sizeof(other), "%s-other", fx.topic);
    kafka_fixture_topic(&fx, fx.topic, 1, NULL);
    kafka_fixture_deny_write(&fx, fx.topic);
    messages[0].topic = dt_str(other);
    assert_int_equal(dt_producer_send(p, messages, 2, DT_STR_LIT("1"), DT_STR_LIT("[]"), &offset, &err), DT_REFUSED);
    assert_string_equal(dt_producer_refusal(p).topic, fx.topic);
    assert_true(dt_producer_refusal(p).whole_topic);
    dt_producer_free(p);
    dt_producer_free(producer(0));
    assert_int_equal(committed(other), 0);
}

/* Nothing of this is about a message: it must never end as undeliverable. */
RIG_TEST(a_forbidden_ledger_is_a_doubt_and_no_refusal)
{
    int64_t offset;
    PRODUCER(p) = producer(0);
    KAFKA_FIXTURE_OK(send_one(p, "1", "x", &offset, &err), &err);
    kafka_fixture_deny_write(&fx, ledger());
    assert_int_equal(send_one(p, "2", "y", &offset, &err), DT_DOUBT);
}

RIG_TEST(a_record_refused_by_its_ledger_is_a_doubt_and_no_refusal)
{
    static char record[20000];
    const char *small[] = {"max.message.bytes", "5000", "retention.ms", "-1", NULL};
    int64_t offset;
    memset(record, 'r', sizeof(record) - 1);
    kafka_fixture_delete(&fx, ledger());
    kafka_fixture_topic(&fx, ledger(), 3, small);
    PRODUCER(p) = producer(0);
    assert_int_equal(send_one(p, record, "y", &offset, &err), DT_DOUBT);
}

/* ---- fenced ---- */

/* A producer that has committed so many: its next transaction is under the first or the second of its two ids. */
static dt_producer *producer_after(int transactions)
{
    int64_t offset;
    dt_producer *p = producer(0);
    for (int i = 0; i < transactions; i++)
        KAFKA_FIXTURE_OK(send_one(p, "before", "x", &offset, &err), &err);
    return p;
}

static void fence_after(int transactions)
{
    struct kafka_seen *seen;
    int64_t offset;
    dt_producer *old = producer_after(transactions), *new = producer(0);
    assert_int_equal(send_one(old, "zombie", "x", &offset, &err), DT_DOUBT);
    KAFKA_FIXTURE_OK(send_one(new, "after", "x", &offset, &err), &err);
    assert_int_equal(send_one(old, "zombie", "x", &offset, &err), DT_DOUBT);
    dt_producer_free(old);
    dt_producer_free(new);
    assert_int_equal(kafka_fixture_read(&fx, ledger(), KAFKA_COMMITTED, &seen), transactions + 1);
    assert_string_equal(seen[0].value, "before");
    assert_string_equal(seen[transactions].value, "after");
    free(seen);
    assert_int_equal(committed(fx.topic), transactions + 1);
}

RIG_TEST(messages_of_a_fenced_producer_are_not_visible)
{
    fence_after(1);
}

RIG_TEST(a_producer_is_fenced_under_its_other_id_too)
{
    fence_after(2);
}

/* What is open under either id is not committed by whoever comes back to it. */
static void open_after(int transactions)
{
    int64_t offset;
    const struct dt_kafka_message m = message("17", "x");
    dt_producer *old = producer_after(transactions), *new;
    KAFKA_FIXTURE_OK(dt_producer_begin(old, &m, 1, DT_STR_LIT("1"), DT_STR_LIT("[]"), &err), &err);
    new = producer(0);
    assert_int_equal(dt_producer_commit(old, &offset, &err), DT_DOUBT);
    KAFKA_FIXTURE_OK(send_one(new, "after", "x", &offset, &err), &err);
    dt_producer_free(old);
    dt_producer_free(new);
    assert_int_equal(committed(fx.topic), transactions + 1);
}

RIG_TEST(a_transaction_open_under_the_first_id_is_ended_by_the_next_producer)
{
    open_after(2);
}

RIG_TEST(a_transaction_open_under_the_second_id_is_ended_by_the_next_producer)
{
    open_after(1);
}

RIG_TEST(producers_of_different_shards_do_not_fence_each_other)
{
    int64_t offset;
    dt_producer *p[3];
    for (unsigned s = 0; s < 3; s++)
        p[s] = producer(s);
    for (unsigned i = 0; i < 9; i++)
        KAFKA_FIXTURE_OK(send_one(p[i % 3], "k", "v", &offset, &err), &err);
    for (unsigned s = 0; s < 3; s++)
        dt_producer_free(p[s]);
    assert_int_equal(committed(fx.topic), 9);
}

struct fighter {
    int committed;
};

static void *fight(void *arg)
{
    struct fighter *f = arg;
    for (int i = 0; i < 15; i++) {
        struct dt_error why = {0};
        PRODUCER(p) = NULL;
        int64_t offset;
        if (dt_producer_new(&fx.env, 0, NULL, &p, &why) == DT_OK) {
            for (int k = 0; k < 5 && send_one(p, "k", "v", &offset, &why) == DT_OK; k++)
                f->committed++;
        }
    }
    return NULL;
}

/* A doubt may turn out to be committed or not; what was answered OK is there, and message and record are there
 * together. */
RIG_TEST(two_producers_that_fence_each_other_never_commit_half_a_transaction)
{
    struct fighter f[2] = {0};
    size_t messages, records;
    run_at_once(fight, f, sizeof *f, 2);
    dt_producer_free(producer(0)); /* ends what is open */
    messages = committed(fx.topic);
    records = committed(ledger());
    print_message("committed: %d + %d, seen: %zu\n", f[0].committed, f[1].committed, messages);
    assert_int_equal(messages, records);
    assert_true(messages >= (size_t)(f[0].committed + f[1].committed));
    assert_true(f[0].committed + f[1].committed > 0);
}
