/* What consumers get: CloudEvents in binary mode. Dead letters of unusual size are in test_dead_letter.c. */

#include "deliver/kafka/message.h"
#include "support/rigs/outgoing_rig.h"

struct rig {
    struct outgoing_rig from;
    struct dt_kafka_message message;
};

static void setup(struct rig *rig)
{
    outgoing_rig_init(&rig->from, "{ \"a\": 1 }");
    rig->from.job.kafka_topic = dt_str("orders.v2");
}

static void teardown(struct rig *rig)
{
    outgoing_rig_clear(&rig->from);
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static void make(struct rig *rig)
{
    assert_int_equal(
        dt_message_of_job(&rig->from.job, "duetime", DUE + 5, rig->from.json, &rig->from.arena, &rig->message), DT_OK);
}

/* value NULL: there must be no such header. */
static void assert_header(const struct rig *rig, const char *name, const char *value)
{
    for (size_t i = 0; i < rig->message.n_headers; i++)
        if (dt_str_is(rig->message.headers[i].name, name)) {
            struct dt_str found = rig->message.headers[i].value;
            if (!value || !dt_str_is(found, value))
                fail_msg("%s is %.*s", name, (int)found.n, found.p);
            return;
        }
    if (value)
        fail_msg("no header %s", name);
}

RIG_TEST(a_job_becomes_a_cloud_event)
{
    static const char *const expected[][2] = {{"content-type", "application/json"},
                                              {"ce_specversion", "1.0"},
                                              {"ce_id", "42/3"},
                                              {"ce_source", "/duetime/duetime"},
                                              {"ce_type", "orders"},
                                              {"ce_subject", "order-42"},
                                              {"ce_time", "2026-11-21T15:12:47.088Z"},
                                              {"ce_jobid", "42"},
                                              {"ce_jobkey", "order-42"},
                                              {"ce_attempt", "3"},
                                              {"ce_scheduledtime", "2026-11-21T15:12:47.083Z"}};
    rig->from.job.key = dt_str("order-42");
    make(rig);
    assert_true(dt_str_is(rig->message.topic, "orders.v2"));
    assert_true(dt_str_is(rig->message.value, "{ \"a\": 1 }"));
    assert_members(rig->message, (key.p, NULL), (n_headers, sizeof expected / sizeof *expected));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_header(rig, expected[i][0], expected[i][1]);
}

RIG_TEST(the_partition_key_is_the_message_key_an_empty_one_too)
{
    rig->from.job.key = dt_str("order-42");
    rig->from.job.partition_key = dt_str("customer-7");
    make(rig);
    assert_true(dt_str_is(rig->message.key, "customer-7"));
    rig->from.job.partition_key = dt_str("");
    make(rig);
    assert_true(rig->message.key.p && rig->message.key.n == 0);
}

RIG_TEST(headers_that_a_job_lacks_are_left_out_or_take_its_id)
{
    rig->from.job.content_type = dt_str("image/png");
    make(rig);
    assert_header(rig, "content-type", "image/png");
    assert_header(rig, "ce_subject", "42");
    assert_header(rig, "ce_jobkey", NULL);
}

RIG_TEST(a_callers_headers_are_sent)
{
    rig->from.job.headers = dt_str("{\"traceparent\":\"00-\\u00e4\",\"x\":\"\"}");
    make(rig);
    assert_header(rig, "traceparent", "00-\xc3\xa4");
    assert_header(rig, "x", "");
    assert_header(rig, "ce_id", "42/3");
}

RIG_TEST(headers_broken_by_hand_do_not_stop_the_job)
{
    static const char *const broken[] = {"", "x", "[1]", "{\"a\":{\"b\":{}}}", "{\"a\":1}"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        rig->from.job.headers = dt_str(broken[i]);
        make(rig);
        assert_header(rig, "ce_id", "42/3");
        assert_header(rig, "a", NULL);
    }
}

RIG_TEST(a_dead_letter_is_of_the_attempt_that_died)
{
    struct dt_notice notice = {.id = 1,
                               .attempt = 3,
                               .made_at_ms = DUE,
                               .job = {.id = 42,
                                       .topic = dt_str("orders"),
                                       .state = DT_DEAD,
                                       .attempt = 4,
                                       .retry = dt_str("15s"),
                                       .payload = dt_str("{\"a\":1}"),
                                       .claim_shard = -1}};
    struct dt_json_limits limits = {.depth = 8};
    assert_int_equal(dt_message_of_notice(&notice, "duetime", &rig->from.arena, &rig->message), DT_OK);
    assert_true(dt_str_is(rig->message.topic, "duetime.dead"));
    assert_header(rig, "ce_id", "42/3/dead");
    assert_int_equal(dt_json_parse(rig->from.json, rig->message.value, &limits, NULL), DT_OK);
    const struct dt_json_node *id = dt_json_member(rig->from.json, dt_json_root(rig->from.json), "id");
    assert_true(id && dt_str_is(id->str, "42"));
}

RIG_TEST(a_dead_letter_has_the_key_that_its_job_had)
{
    struct dt_notice notice = {.attempt = 3,
                               .job = {.id = 42,
                                       .topic = dt_str("orders"),
                                       .key = dt_str("order-42"),
                                       .state = DT_DEAD,
                                       .payload = dt_str("1"),
                                       .claim_shard = -1}};
    assert_int_equal(dt_message_of_notice(&notice, "duetime", &rig->from.arena, &rig->message), DT_OK);
    assert_null(rig->message.key.p);
    notice.job.partition_key = dt_str("customer-7");
    assert_int_equal(dt_message_of_notice(&notice, "duetime", &rig->from.arena, &rig->message), DT_OK);
    assert_true(dt_str_is(rig->message.key, "customer-7"));
}
