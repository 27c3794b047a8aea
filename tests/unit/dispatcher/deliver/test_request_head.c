/* The head of a callback: CloudEvents over HTTP, Standard Webhooks, and the headers of topic and job. */

#include "deliver/http/callback.h"
#include "deliver/kafka/message.h"
#include "support/rigs/outgoing_rig.h"

struct rig {
    struct outgoing_rig from;
    struct dt_callback_setting setting;
    struct dt_http_request request;
};

static void setup(struct rig *rig)
{
    outgoing_rig_init(&rig->from, "{\"test\": 2432232314}");
    rig->setting.installation = "duetime";
}

static void teardown(struct rig *rig)
{
    outgoing_rig_clear(&rig->from);
}

#define RIG_TEST(name) TEST_ON(struct rig, rig, name, setup, teardown)

static void make(struct rig *rig)
{
    assert_int_equal(
        dt_request_head(&rig->from.job, &rig->setting, DUE + 5, rig->from.json, &rig->from.arena, &rig->request),
        DT_OK);
}

static struct dt_str value_of(const struct rig *rig, const char *name)
{
    struct dt_str found = DT_STR_NONE;
    for (size_t i = 0; i < rig->request.n_headers; i++)
        if (dt_str_is(rig->request.headers[i].name, name)) {
            assert_null(found.p);
            found = rig->request.headers[i].value;
        }
    return found;
}

static void assert_header(const struct rig *rig, const char *name, const char *value)
{
    struct dt_str found = value_of(rig, name);
    if (value ? !found.p || !dt_str_is(found, value) : found.p != NULL)
        fail_msg("%s is %.*s", name, (int)found.n, found.p ? found.p : "");
}

RIG_TEST(a_callback_has_the_attributes_of_a_message)
{
    struct dt_kafka_message message;
    size_t attributes = 0;
    char name[64];
    rig->from.job.key = dt_str("order-42");
    make(rig);
    assert_int_equal(dt_message_of_job(&rig->from.job, "duetime", DUE + 5, rig->from.json, &rig->from.arena, &message),
                     DT_OK);
    for (size_t i = 0; i < message.n_headers; i++) {
        assert_int_equal(
            snprintf(name, sizeof(name), "%.*s", (int)message.headers[i].name.n, message.headers[i].name.p),
            message.headers[i].name.n);
        if (strncmp(name, "ce_", 3) == 0)
            name[2] = '-';
        assert_true(dt_str_eq(value_of(rig, name), message.headers[i].value));
    }
    for (size_t i = 0; i < rig->request.n_headers; i++)
        attributes += memcmp(rig->request.headers[i].name.p, "ce-", 3) == 0;
    assert_int_equal(attributes, message.n_headers - 1);
    assert_true(dt_str_eq(rig->request.body, rig->from.job.payload));
}

RIG_TEST(a_callback_says_which_attempt_it_is)
{
    make(rig);
    assert_header(rig, "content-type", "application/json");
    assert_header(rig, "ce-id", "42/3");
    assert_header(rig, "ce-subject", "42");
    assert_header(rig, "ce-jobkey", NULL);
    assert_header(rig, "idempotency-key", "42/3");
    assert_header(rig, "webhook-id", "42/3");
    assert_header(rig, "webhook-timestamp", "1795273967");
    assert_header(rig, "webhook-signature", NULL);
    assert_header(rig, "user-agent", "duetime/" DUETIME_VERSION);
}

RIG_TEST(values_are_percent_encoded)
{
    rig->from.job.key = dt_str("a b\"%\xc3\xa4\xf0\x9f\x98\x80\n~!");
    make(rig);
    assert_header(rig, "ce-jobkey", "a%20b%22%25%C3%A4%F0%9F%98%80%0A~!");
    assert_header(rig, "ce-subject", "a%20b%22%25%C3%A4%F0%9F%98%80%0A~!");
}

RIG_TEST(a_content_type_that_no_header_can_have_is_not_sent)
{
    rig->from.job.content_type = dt_str("text/plain; charset=utf-8");
    make(rig);
    assert_header(rig, "content-type", "text/plain; charset=utf-8");
    rig->from.job.content_type = dt_str("text/plain\r\nx: y");
    make(rig);
    assert_header(rig, "content-type", "application/octet-stream");
}

RIG_TEST(the_published_test_vector_of_standard_webhooks_is_reproduced)
{
    struct dt_callback_secret secret;
    struct dt_webhook webhook = {DT_STR_LIT("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                                 DT_STR_LIT("{\"test\": 2432232314}")};
    STRBUF(value);
    assert_null(dt_callback_secret_read(dt_str("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), &secret));
    assert_int_equal(dt_webhook_sign(&webhook, &secret, &value), DT_OK);
    assert_string_equal(value.p, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    dt_strbuf_reset(&value);
    assert_null(dt_callback_secret_read(
        dt_str("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), &secret));
    assert_int_equal(dt_webhook_sign(&webhook, &secret, &value), DT_OK);
    assert_string_equal(value.p, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= "
                                 "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

RIG_TEST(a_request_with_a_secret_is_signed)
{
    struct dt_callback_secret secret;
    struct dt_webhook webhook = {DT_STR_LIT("42/3"), DUE / 1000, rig->from.job.payload};
    assert_null(dt_callback_secret_read(dt_str("whsec_QUJD whsec_REU="), &secret));
    rig->setting.secret = &secret;
    make(rig);
    STRBUF(value);
    assert_int_equal(dt_webhook_sign(&webhook, &secret, &value), DT_OK);
    assert_header(rig, "webhook-signature", value.p);
}

RIG_TEST(an_empty_body_is_signed_and_sent)
{
    struct dt_callback_secret secret;
    assert_null(dt_callback_secret_read(dt_str("whsec_QUJD"), &secret));
    rig->setting.secret = &secret;
    rig->from.job.payload = dt_str("");
    make(rig);
    assert_int_equal(rig->request.body.n, 0);
    assert_int_equal(value_of(rig, "webhook-signature").n, 3 + 44);
}

RIG_TEST(the_jobs_headers_override_the_topics)
{
    rig->setting.headers = dt_str("{\"X-A\":\"topic\",\"authorization\":\"Bearer t\"}");
    rig->from.job.headers = dt_str("{\"x-a\":\"job\",\"traceparent\":\"00-1\"}");
    make(rig);
    assert_header(rig, "X-A", "job");
    assert_header(rig, "x-a", NULL);
    assert_header(rig, "authorization", "Bearer t");
    assert_header(rig, "traceparent", "00-1");
}

RIG_TEST(headers_that_no_caller_may_set_are_left_out)
{
    make(rig);
    size_t own = rig->request.n_headers;
    rig->from.job.headers = dt_str("{\"ce-id\":\"1/1\",\"Webhook-Id\":\"x\",\"Host\":\"evil\",\"content-length\":\"0\","
                                   "\"transfer-encoding\":\"chunked\",\"x\":\"a\\r\\nb: c\",\"a b\":\"c\",\"n\":1}");
    rig->setting.headers = dt_str("[\"no object\"]");
    make(rig);
    assert_int_equal(rig->request.n_headers, own);
    assert_header(rig, "ce-id", "42/3");
    rig->from.job.headers = dt_str("no JSON");
    make(rig);
    assert_int_equal(rig->request.n_headers, own);
}

RIG_TEST(many_headers_are_all_sent)
{
    char text[4096] = "{";
    make(rig);
    size_t own = rig->request.n_headers;
    for (int i = 0; i < 100; i++)
        assert_true(snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s\"h%d\":\"%d\"", i ? "," : "", i, i) >
                    0);
    strcat(text, "}");
    rig->from.job.headers = dt_str(text);
    make(rig);
    assert_int_equal(rig->request.n_headers, own + 100);
    assert_header(rig, "h99", "99");
}
