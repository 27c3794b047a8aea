/* Callback settings of a topic: decoded, kept and shown, without what is secret in any answer. */

#include "rest/topics_rest.h"
#include "support/rigs/body_rig.h"
#include "topic/topics.h"

static void make(struct body_rig *f)
{
    open_body_rig(f, (struct dt_job_rules){.headers_max = 64, .json_depth = 8, .installation = DT_STR_LIT("duetime")});
}

#define RIG_TEST(name) TEST_ON(struct body_rig, f, name, make, close_body_rig)

static dt_status topic(struct body_rig *f, const char *text, struct dt_topic_setting *out)
{
    struct dt_json_limits limits = dt_job_json_limits(f->rules.json_depth);
    f->faults = (struct dt_faults){.arena = &f->arena};
    assert_int_equal(dt_json_parse(f->json, dt_str(text), &limits, NULL), DT_OK);
    return dt_topic_decode(f->json, DT_STR_LIT("orders"), &f->rules, &f->faults, out);
}

static void assert_ok(struct body_rig *f, dt_status status, const char *text)
{
    if (status != DT_OK)
        fail_msg("%s: %s at %s: %s", text, dt_status_name(status), f->faults.n ? f->faults.v[0].pointer.p : "-",
                 f->faults.n ? f->faults.v[0].reason.p : "-");
}

/* The pointers of all faults, joined by spaces. */
static const char *pointers(struct body_rig *f)
{
    dt_strbuf_reset(&f->out);
    for (size_t i = 0; i < f->faults.n && i < DT_FAULTS_MAX; i++) {
        if (i > 0)
            dt_strbuf_addc(&f->out, ' ');
        dt_strbuf_add(&f->out, f->faults.v[i].pointer.p, f->faults.v[i].pointer.n);
    }
    return f->out.p ? f->out.p : "";
}

static void assert_str(struct dt_str s, const char *text)
{
    assert_non_null(s.p);
    assert_int_equal(s.n, strlen(text));
    assert_memory_equal(s.p, text, s.n);
}

RIG_TEST(callback_settings_are_shown_without_secrets)
{
    struct dt_topic_setting t;
    f->rules.callbacks = true;
    assert_ok(f,
              topic(f,
                    "{\"delivery\":\"http\",\"callback_url\":\"https://x.test/a?b\",\"callback_timeout\":\"PT2S\","
                    "\"callback_headers\":{\"authorization\":\"Bearer hush\"},\"callback_secret\":\"whsec_aHVzaA==\"}",
                    &t),
              "callbacks");
    assert_int_equal(t.topic.delivery, DT_DELIVERY_HTTP);
    assert_str(t.topic.callback.places.url, "https://x.test/a?b");
    assert_members(t.topic.callback, (headers.p, "{\"authorization\":\"Bearer hush\"}"), (timeout_ms, 2000));
    assert_false(t.keeps);
    STRBUF(out);
    dt_topic_add(&out, &t.topic, NULL);
    assert_null(strstr(out.p, "hush"));
    assert_null(strstr(out.p, "aHVzaA"));
    assert_non_null(strstr(out.p, "\"callback_headers\":{\"authorization\":\"***\"},\"callback_secret\":\"***\""));
}

RIG_TEST(callback_settings_that_are_wrong_are_refused)
{
    struct dt_topic_setting t;
    f->rules.callbacks = true;
    assert_int_equal(
        topic(f,
              "{\"callback_url\":\"http://u@x/\",\"callback_timeout\":99,\"callback_headers\":{\"Host\":\"x\","
              "\"ce-id\":\"1\",\"a b\":\"1\",\"x\":\"a\\nb\",\"y\":1},\"callback_secret\":\"hush\"}",
              &t),
        DT_INVALID);
    assert_string_equal(pointers(f), "/callback_url /callback_timeout /callback_headers/Host /callback_headers/ce-id "
                                     "/callback_headers/a b /callback_headers/x /callback_headers/y /callback_secret");
    assert_int_equal(topic(f, "{\"callback_timeout\":\"PT1M\",\"ack_timeout\":\"PT1M\"}", &t), DT_INVALID);
    assert_string_equal(pointers(f), "/callback_timeout");
}

static const struct dt_topic there = {.callback = {.places.url = DT_STR_LIT("https://a.test/x"),
                                                   .headers = DT_STR_LIT("{\"a\":\"1\",\"b\":\"2\"}"),
                                                   .secret = DT_STR_LIT("whsec_YQ==")}};
#define URL "\"callback_url\":\"https://a.test/y\","

/* Puts "***" onto a topic that has two headers and one secret. */
static dt_status keep(struct body_rig *f, const char *text, struct dt_topic *out)
{
    struct dt_topic_setting t;
    assert_ok(f, topic(f, text, &t), text);
    assert_true(t.keeps);
    return dt_topic_callback_keep(f->json, &there, &t, &f->faults, out);
}

RIG_TEST(three_stars_keep_the_stored_value)
{
    struct dt_topic t;
    assert_ok(f, keep(f, "{" URL "\"callback_headers\":{\"b\":\"***\",\"c\":\"3\"},\"callback_secret\":\"***\"}", &t),
              "kept");
    assert_members(t.callback, (headers.p, "{\"b\":\"2\",\"c\":\"3\"}"), (secret.p, "whsec_YQ=="));
    assert_ok(f, keep(f, "{" URL "\"callback_secret\":\"*** whsec_Yg==\"}", &t), "added");
    assert_str(t.callback.secret, "whsec_YQ== whsec_Yg==");
    assert_int_equal(keep(f, "{" URL "\"callback_headers\":{\"d\":\"***\"}}", &t), DT_INVALID);
    assert_string_equal(pointers(f), "/callback_headers/d");
    assert_int_equal(topic(f, "{\"callback_secret\":\"*** hush\"}", &(struct dt_topic_setting){0}), DT_INVALID);
    assert_string_equal(pointers(f), "/callback_secret");
}

RIG_TEST(three_stars_do_not_keep_a_secret_for_another_destination)
{
    static const char *const others[] = {
        "\"callback_url\":\"http://a.test/x\"", "\"callback_url\":\"https://a.test:8443/x\"",
        "\"callback_url\":\"https://b.test/x\"", URL "\"callback_hosts\":[\"https://b.test\"]",
        "\"callback_hosts\":[\"https://b.test\"]"};
    struct dt_topic t;
    char body[512];
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        snprintf(body, sizeof(body),
                 "{%s,\"callback_headers\":{\"a\":\"***\",\"c\":\"3\"},\"callback_secret\":\"***\"}", others[i]);
        assert_int_equal(keep(f, body, &t), DT_INVALID);
        assert_string_equal(pointers(f), "/callback_secret /callback_headers/a");
        snprintf(body, sizeof(body), "{%s,\"callback_secret\":\"*** whsec_Yg==\"}", others[i]);
        assert_int_equal(keep(f, body, &t), DT_INVALID);
    }
    assert_ok(f, keep(f, "{\"callback_hosts\":[\"https://A.test:443\"],\"callback_secret\":\"***\"}", &t), "same");
}

RIG_TEST(secrets_need_a_destination)
{
    struct dt_topic_setting t;
    assert_int_equal(topic(f, "{\"callback_headers\":{\"a\":\"1\"},\"callback_secret\":\"whsec_YQ==\"}", &t),
                     DT_INVALID);
    assert_string_equal(pointers(f), "/callback_headers /callback_secret");
    assert_int_equal(topic(f, "{\"callback_secret\":\"whsec_YQ==\",\"callback_hosts\":[]}", &t), DT_INVALID);
    assert_ok(f, topic(f, "{\"callback_secret\":\"whsec_YQ==\",\"callback_hosts\":[\"https://b.test\"]}", &t), "hosts");
    assert_int_equal(topic(f, "{\"alerts\":{\"secret\":\"whsec_YQ==\"}}", &t), DT_INVALID);
    assert_string_equal(pointers(f), "/alerts/secret");
}

RIG_TEST(hosts_are_a_list_of_origins)
{
    struct dt_topic_setting t;
    assert_ok(f, topic(f, "{\"callback_hosts\":[\"https://B.test\",\"http://[::1]:81\"]}", &t), "hosts");
    assert_str(t.topic.callback.places.hosts, "https://B.test,http://[::1]:81");
    dt_strbuf_reset(&f->out);
    dt_topic_add(&f->out, &t.topic, NULL);
    assert_non_null(strstr(f->out.p, "\"callback_hosts\":[\"https://B.test\",\"http://[::1]:81\"]"));
    assert_int_equal(topic(f,
                           "{\"callback_hosts\":[\"https://b.test/\",\"https://u@b.test\",1,\"b.test\",\"https://"
                           "b.test?\",\"https://c.test,https://d.test\"]}",
                           &t),
                     DT_INVALID);
    assert_string_equal(
        pointers(f),
        "/callback_hosts/0 /callback_hosts/1 /callback_hosts/2 /callback_hosts/3 /callback_hosts/4 /callback_hosts/5");
    assert_int_equal(topic(f, "{\"callback_hosts\":\"https://b.test\"}", &t), DT_INVALID);
    assert_string_equal(pointers(f), "/callback_hosts");
    f->rules.allow_hosts = DT_STR_LIT("*.inside.test");
    assert_int_equal(topic(f, "{\"callback_hosts\":[\"https://b.test\"]}", &t), DT_INVALID);
    f->rules.allow_hosts = DT_STR_NONE;
}

RIG_TEST(out_of_memory_is_reported_even_if_the_secret_fits)
{
    struct dt_topic_setting t;
    struct dt_topic out;
    assert_ok(f, topic(f, "{" URL "\"callback_secret\":\"***\"}", &t), "kept");
    f->faults.failed = true;
    assert_int_equal(dt_topic_callback_keep(f->json, &there, &t, &f->faults, &out), DT_NOMEM);
}

RIG_TEST(a_topic_that_is_not_enabled_is_refused)
{
    struct dt_topic_setting t;
    assert_int_equal(topic(f, "{\"delivery\":\"http\"}", &t), DT_INVALID);
    assert_string_equal(pointers(f), "/delivery");
}
