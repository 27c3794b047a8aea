/* Topics on a real broker: made with the right settings, checked, looked up. */

#include "deliver/kafka/kafka_common.h"
#include "support/kafka_fixture.h"

static struct dt_error err;
static struct kafka_fixture fx;

static void make(void)
{
    kafka_fixture_make(&fx, "topics");
}

/* An admin, and none of the topics. */
static void init(void)
{
    kafka_fixture_init(&fx, "topics");
    KAFKA_FIXTURE_OK(dt_kafka_admin_new(&fx.env, &fx.env.admin, &err), &err);
}

static void clear(void)
{
    kafka_fixture_clear(&fx);
}

#define FRESH_TEST(name) TEST_WITH(name, make, clear)

static const char *own(const char *suffix)
{
    return kafka_fixture_own(&fx, suffix);
}

FRESH_TEST(preparing_creates_the_ledger_and_the_other_topics)
{
    kafka_fixture_await_partitions(&fx, own("ledger"), 3);
    kafka_fixture_await_partitions(&fx, own("results"), 2);
    kafka_fixture_await_partitions(&fx, own("results.rejected"), 2);
    kafka_fixture_await_partitions(&fx, own("dead"), 2);
    KAFKA_FIXTURE_OK(dt_kafka_admin_ledger(fx.env.admin, 2, DT_LEDGER_CHECK, &err), &err);
    KAFKA_FIXTURE_OK(dt_kafka_admin_prepare(fx.env.admin, &err), &err); /* again: nothing to do */
}

/* A message that is refused has a header more than it came with. */
FRESH_TEST(the_rejected_topic_accepts_larger_messages)
{
    static const struct {
        const char *suffix;
        size_t bytes;
    } topics[] = {{"results", 1048588},
                  {"results.rejected", DT_KAFKA_MESSAGE_MAX},
                  {"commands", 1048588},
                  {"commands.rejected", DT_KAFKA_MESSAGE_MAX}};
    struct dt_kafka_topic_info info;
    for (size_t i = 0; i < sizeof(topics) / sizeof(*topics); i++) {
        struct dt_str topic = dt_str(own(topics[i].suffix));
        KAFKA_FIXTURE_OK(dt_kafka_admin_topic(fx.env.admin, topic, &info, &err), &err);
        assert_int_equal(info.max_message_bytes, topics[i].bytes);
    }
    assert_true(DT_KAFKA_MESSAGE_MAX > 1048588);
}

FRESH_TEST(the_ledger_gets_more_partitions_when_there_are_more_shards)
{
    assert_int_equal(dt_kafka_admin_ledger(fx.env.admin, 4, DT_LEDGER_CHECK, &err), DT_REFUSED);
    KAFKA_FIXTURE_OK(dt_kafka_admin_ledger(fx.env.admin, 4, DT_LEDGER_GROW, &err), &err);
    kafka_fixture_await_partitions(&fx, own("ledger"), 5);
    KAFKA_FIXTURE_OK(dt_kafka_admin_ledger(fx.env.admin, 3, DT_LEDGER_GROW, &err), &err); /* it is there */
    fx.env.shards = 2; /* fewer shards: the partitions stay */
    KAFKA_FIXTURE_OK(dt_kafka_admin_prepare(fx.env.admin, &err), &err);
    assert_int_equal(kafka_fixture_partitions(&fx, own("ledger")), 5);
}

TEST_WITH(a_ledger_whose_records_expire_is_refused, init, clear)
{
    const char *week[] = {"retention.ms", "604800000", NULL};
    kafka_fixture_topic(&fx, own("ledger"), 3, week);
    assert_int_equal(dt_kafka_admin_ledger(fx.env.admin, 2, DT_LEDGER_CHECK, &err), DT_REFUSED);
    assert_non_null(strstr(err.text, "retention.ms=604800000"));
    assert_int_equal(dt_kafka_admin_prepare(fx.env.admin, &err), DT_REFUSED);
}

TEST_WITH(a_ledger_that_is_compacted_is_refused, init, clear)
{
    const char *compact[] = {"retention.ms", "-1", "cleanup.policy", "compact", NULL};
    kafka_fixture_topic(&fx, own("ledger"), 3, compact);
    assert_int_equal(dt_kafka_admin_ledger(fx.env.admin, 2, DT_LEDGER_CHECK, &err), DT_REFUSED);
    assert_non_null(strstr(err.text, "cleanup.policy=compact"));
}

TEST_WITH(checking_never_creates_a_ledger, init, clear)
{
    assert_int_equal(dt_kafka_admin_ledger(fx.env.admin, 2, DT_LEDGER_CHECK, &err), DT_REFUSED);
    assert_int_equal(kafka_fixture_partitions(&fx, own("ledger")), 0);
}

TEST_WITH(a_missing_topic_is_created_on_demand, init, clear)
{
    struct dt_kafka_topic_info info;
    KAFKA_FIXTURE_OK(dt_kafka_admin_topic(fx.env.admin, dt_str(fx.topic), &info, &err), &err);
    assert_members(info, (partitions, 2), (max_message_bytes, 1048588));
    assert_int_equal(kafka_fixture_partitions(&fx, fx.topic), 2);
}

TEST_WITH(the_size_limit_of_a_topic_is_returned, init, clear)
{
    const char *small[] = {"max.message.bytes", "2000", NULL};
    struct dt_kafka_topic_info info;
    kafka_fixture_topic(&fx, fx.topic, 1, small);
    KAFKA_FIXTURE_OK(dt_kafka_admin_topic(fx.env.admin, dt_str(fx.topic), &info, &err), &err);
    assert_members(info, (max_message_bytes, 2000), (partitions, 1));
}

TEST_WITH(a_topic_that_accepts_more_than_the_client_sends_gets_the_clients_limit, init, clear)
{
    const char *large[] = {"max.message.bytes", "9000000", NULL};
    struct dt_kafka_topic_info info;
    kafka_fixture_topic(&fx, fx.topic, 1, large);
    KAFKA_FIXTURE_OK(dt_kafka_admin_topic(fx.env.admin, dt_str(fx.topic), &info, &err), &err);
    assert_int_equal(info.max_message_bytes, 1200000);
}

TEST_WITH(a_missing_topic_is_refused_if_topics_are_not_created_on_demand, init, clear)
{
    struct dt_kafka_topic_info info;
    fx.config.kafka_auto_create_partitions = 0;
    assert_int_equal(dt_kafka_admin_topic(fx.env.admin, dt_str(fx.topic), &info, &err), DT_REFUSED);
    assert_non_null(strstr(err.text, fx.topic));
    assert_int_equal(kafka_fixture_partitions(&fx, fx.topic), 0);
    err = (struct dt_error){0};
    assert_int_equal(dt_kafka_admin_topic(fx.env.admin, dt_str(fx.topic), &info, &err), DT_REFUSED); /* remembered */
    assert_non_null(strstr(err.text, fx.topic));
}

TEST_WITH(a_name_that_kafka_does_not_accept_is_refused, init, clear)
{
    const char *const names[] = {"", ".", "..", "a b", "a/b"};
    struct dt_kafka_topic_info info;
    char longest[300];
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(dt_kafka_admin_topic(fx.env.admin, dt_str(names[i]), &info, &err), DT_REFUSED);
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(dt_kafka_admin_topic(fx.env.admin, dt_str(longest), &info, &err), DT_REFUSED);
}

TEST_WITH(an_unreachable_broker_is_unavailable_and_not_cached, init, clear)
{
    struct dt_kafka_topic_info info;
    dt_kafka_admin *admin = NULL;
    char right[256];
    memcpy(right, fx.brokers, sizeof(right));
    snprintf(fx.brokers, sizeof(fx.brokers), "127.0.0.1:1");
    KAFKA_FIXTURE_OK(dt_kafka_admin_new(&fx.env, &admin, &err), &err);
    assert_int_equal(dt_kafka_admin_topic(admin, dt_str(fx.topic), &info, &err), DT_UNAVAILABLE);
    int64_t begin_us = kafka_fixture_now_us();
    for (int i = 0; i < 200; i++)
        assert_int_equal(dt_kafka_admin_topic(admin, dt_str(fx.topic), &info, &err), DT_UNAVAILABLE);
    assert_true(kafka_fixture_now_us() - begin_us < 100000000); /* a few of the requests waited again */
    assert_int_equal(dt_kafka_admin_ledger(admin, 0, DT_LEDGER_CHECK, &err), DT_UNAVAILABLE);
    dt_kafka_admin_free(admin);
    memcpy(fx.brokers, right, sizeof(right));
    KAFKA_FIXTURE_OK(dt_kafka_admin_topic(fx.env.admin, dt_str(fx.topic), &info, &err), &err);
}

TEST(an_installations_name_that_is_too_long_for_a_topic_is_invalid)
{
    char longest[DT_KAFKA_TOPIC_MAX + 1], name[DT_KAFKA_TOPIC_MAX + 1];
    const struct dt_kafka_env env = {.installation = longest};
    memset(longest, 'x', DT_KAFKA_TOPIC_MAX);
    longest[DT_KAFKA_TOPIC_MAX - strlen(".dead")] = '\0';
    KAFKA_FIXTURE_OK(dt_kafka_topic_name(&env, "dead", name, &err), &err);
    assert_int_equal(strlen(name), DT_KAFKA_TOPIC_MAX);
    assert_int_equal(dt_kafka_topic_name(&env, "dead.", name, &err), DT_INVALID);
}

/* ---- for those who must not wait ---- */

static _Atomic int told;

static void tell(void *)
{
    told++;
}

static dt_kafka_asker *asker_of(dt_kafka_admin *admin)
{
    dt_kafka_asker *asker;
    told = 0;
    assert_int_equal(dt_kafka_asker_new(admin, tell, NULL, &asker), DT_OK);
    return asker;
}

/* Asks until there is an answer, whenever it is told to. */
static dt_status await_answer(dt_kafka_asker *asker, const char *topic, struct dt_kafka_topic_info *info)
{
    for (;;) {
        int before = told;
        dt_status status = dt_kafka_asker_ask(asker, dt_str(topic), 1, info, &err);
        if (status != DT_BUSY)
            return status;
        AWAIT(told > before);
    }
}

enum { MANY = 24 };

static void ask_for(int n, dt_kafka_asker *asker, char names[MANY][280])
{
    struct dt_kafka_topic_info info;
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "%s.%d", fx.topic, i);
        assert_int_equal(dt_kafka_asker_ask(asker, dt_str(names[i]), 1, &info, &err), DT_BUSY);
    }
}

TEST_WITH(a_topic_that_is_there_waits_for_none_that_are_missing, init, clear)
{
    dt_kafka_asker *maker = asker_of(fx.env.admin);
    dt_kafka_admin *other = NULL;
    struct dt_kafka_topic_info info;
    char names[MANY][280];
    int made = 0;
    assert_int_equal(await_answer(maker, fx.topic, &info), DT_OK);
    KAFKA_FIXTURE_OK(dt_kafka_admin_new(&fx.env, &other, &err), &err); /* which has never heard of it */
    dt_kafka_asker *asker = asker_of(other);
    dt_kafka_asker_sends(asker, 2);
    ask_for(MANY, asker, names);
    assert_int_equal(await_answer(asker, fx.topic, &info), DT_OK);
    for (int i = 0; i < MANY; i++)
        made += dt_kafka_admin_known(other, dt_str(names[i]), &info);
    assert_true(made < MANY / 2);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(await_answer(asker, names[i], &info), DT_OK);
    dt_kafka_asker_free(asker);
    dt_kafka_asker_free(maker);
    dt_kafka_admin_free(other);
}

TEST_WITH(of_topics_that_are_asked_for_at_once_the_one_at_fault_is_named, init, clear)
{
    const struct dt_str good[] = {dt_str("one"), dt_str("two"), dt_str("one")};
    const struct dt_str bad[] = {dt_str("one"), dt_str("two"), dt_str("a b"), dt_str("three")};
    const struct dt_str nameless[] = {dt_str("one"), dt_str("")};
    size_t at_fault;
    KAFKA_FIXTURE_OK(dt_kafka_admin_topics(fx.env.admin, good, 3, &at_fault, &err), &err);
    assert_int_equal(kafka_fixture_partitions(&fx, "two"), 2);
    assert_int_equal(dt_kafka_admin_topics(fx.env.admin, bad, 4, &at_fault, &err), DT_REFUSED);
    assert_int_equal(at_fault, 2);
    assert_non_null(strstr(err.text, "a b"));
    assert_int_equal(dt_kafka_admin_topics(fx.env.admin, nameless, 2, &at_fault, &err), DT_REFUSED);
    assert_int_equal(at_fault, 1);
    KAFKA_FIXTURE_OK(dt_kafka_admin_topics(fx.env.admin, NULL, 0, &at_fault, &err), &err);
}

/* ---- handles that come and go ---- */

TEST_WITH(a_handle_that_is_not_used_goes_and_comes_back_with_its_use, init, clear)
{
    const struct dt_kafka_on_demand_ops ops = {.handle = {.type = RD_KAFKA_PRODUCER}};
    dt_kafka_on_demand *handle;
    rd_kafka_t *rk;
    KAFKA_FIXTURE_OK(dt_kafka_on_demand_new(&fx.env, &ops, 20, &handle, &err), &err);
    assert_false(dt_kafka_on_demand_open(handle));
    for (int i = 0; i < 3; i++) {
        KAFKA_FIXTURE_OK(dt_kafka_on_demand_hold(handle, &rk, &err), &err);
        for (int k = 0; k < 60; k++) { /* not ready while it is held */
            wait_a_moment();
            assert_true(dt_kafka_on_demand_open(handle));
        }
        dt_kafka_on_demand_let_go(handle);
        AWAIT(!dt_kafka_on_demand_open(handle));
    }
    KAFKA_FIXTURE_OK(dt_kafka_on_demand_hold(handle, &rk, &err), &err);
    dt_kafka_on_demand_discard(handle);
    assert_false(dt_kafka_on_demand_open(handle));
    dt_kafka_on_demand_free(handle);
}
