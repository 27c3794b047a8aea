/* What a token says of itself, and settings that cannot be; brokers that verify tokens are in integration/secured. */

#include "support/suite.h"

#include "base/text/encoding.h"
#include "deliver/kafka/kafka.h"
#include "deliver/kafka/kafka_common.h"

/* {"alg":"RS256"}.CLAIMS.c2ln, as issuers write it: the base64 of URLs, without padding. Freed by the caller. */
static char *jwt_of(const char *claims)
{
    struct dt_strbuf coded = {0};
    struct dt_strbuf out = {0};
    dt_base64_add(&coded, dt_str(claims));
    for (size_t i = 0; i < coded.n; i++)
        coded.p[i] = coded.p[i] == '+' ? '-' : coded.p[i] == '/' ? '_' : coded.p[i];
    while (coded.n && coded.p[coded.n - 1] == '=')
        coded.p[--coded.n] = '\0';
    dt_strbuf_addf(&out, "eyJhbGciOiJSUzI1NiJ9.%s.c2ln", coded.p);
    dt_strbuf_clear(&coded);
    return out.p;
}

static dt_status parse(const char *claims, struct dt_kafka_token *out, struct dt_error *err)
{
    char *jwt = jwt_of(claims);
    dt_status status = dt_kafka_token_parse(dt_str(jwt), out, err);
    free(jwt);
    return status;
}

TEST(a_token_has_a_subject_and_an_expiry)
{
    struct dt_kafka_token token;
    assert_int_equal(parse("{\"sub\":\"jobs\",\"aud\":[\"kafka\"],\"exp\":1795273967}", &token, NULL), DT_OK);
    assert_string_equal(token.principal, "jobs");
    assert_true(token.expires_ms == INT64_C(1795273967000));
    assert_int_equal(parse("{\"exp\":1,\"note\":\"\xc3\xbf\xc3\xbe?>\"}", &token, NULL), DT_OK);
    assert_string_equal(token.principal, "duetime");
}

TEST(an_invalid_token_file_is_reported_as_such)
{
    const char *const texts[] = {"", "abc", "a.b", "..", "a..c", "a.e30=.c", "a.!!!!.c"};
    const char *const claims[] = {
        "{}", "[]", "7", "{\"exp\":\"soon\"}", "{\"exp\":-1}", "{\"exp\":9223372036854775807}", "{\"exp\":1"};
    struct dt_kafka_token token;
    struct dt_error err = {0};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_int_equal(dt_kafka_token_parse(dt_str(texts[i]), &token, &err), DT_MALFORMED);
    assert_string_equal(err.text, "it is not a JWT");
    for (size_t i = 0; i < sizeof(claims) / sizeof(*claims); i++)
        assert_int_equal(parse(claims[i], &token, NULL), DT_MALFORMED);
}

/* ---- settings ---- */

static struct dt_config config;

static void make_config(void)
{
    config = (struct dt_config){.kafka_client = dt_properties_new()};
    assert_non_null(config.kafka_client);
}

static void clear_config(void)
{
    dt_properties_free(config.kafka_client);
}

#define FRESH_TEST(name) TEST_WITH(name, make_config, clear_config)

static void set(struct dt_properties *list, const char *name, const char *value, const char *file)
{
    assert_int_equal(dt_properties_set(list, dt_str(name), value, file), DT_OK);
}

static void refused(const char *words)
{
    struct dt_error err = {0};
    assert_int_equal(dt_kafka_check(&config, &err), DT_INVALID);
    if (!strstr(err.text, words))
        fail_msg("%s", err.text);
}

static void use_tokens(struct dt_properties *list)
{
    set(list, "security.protocol", "SASL_PLAINTEXT", NULL);
    set(list, "sasl.mechanism", "OAUTHBEARER", NULL);
}

FRESH_TEST(a_token_without_a_file_or_beside_another_source_is_refused)
{
    use_tokens(config.kafka_client);
    set(config.kafka_client, "sasl.oauthbearer.jwt", "a.b.c", NULL);
    refused("client.sasl.oauthbearer.jwt_file");
    set(config.kafka_client, "sasl.oauthbearer.jwt", "a.b.c", "/nowhere");
    refused("not a JWT");
    set(config.kafka_client, "sasl.oauthbearer.config", "principal=x", NULL);
    refused("exclude each other");
}

FRESH_TEST(tokens_that_librdkafka_makes_are_tried_before_anything_starts)
{
    struct dt_error err = {0};
    use_tokens(config.kafka_client);
    set(config.kafka_client, "enable.sasl.oauthbearer.unsecure.jwt", "true", NULL);
    set(config.kafka_client, "sasl.oauthbearer.config", "scope=x", NULL);
    refused("no principal");
    set(config.kafka_client, "sasl.oauthbearer.config", "principal=jobs", NULL);
    if (dt_kafka_check(&config, &err) != DT_OK)
        fail_msg("%s", err.text);
}

FRESH_TEST(invalid_settings_leave_the_running_ones_unchanged)
{
    struct dt_config fresh = {.kafka_client = dt_properties_new()};
    struct dt_error err = {0};
    set(config.kafka_client, "client.rack", "one", NULL);
    set(fresh.kafka_client, "acks", "1", NULL);
    assert_int_equal(dt_kafka_renew(&config, &fresh, &err), DT_INVALID);
    assert_string_equal(dt_properties_find(config.kafka_client, "client.rack")->value, "one");
    dt_properties_free(fresh.kafka_client);
    fresh.kafka_client = dt_properties_new();
    set(fresh.kafka_client, "client.rack", "two", NULL);
    assert_int_equal(dt_kafka_renew(&config, &fresh, &err), DT_OK);
    assert_string_equal(dt_properties_find(config.kafka_client, "client.rack")->value, "two");
    dt_properties_free(fresh.kafka_client);
}
