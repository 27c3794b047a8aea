/*
 * Owns: how tokens of SASL/OAUTHBEARER come to librdkafka. Refuses to know: who signed one, and whether it is good for
 * anything, which the broker finds out.
 */
#include "kafka_token.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secrets.h"
#include "base/text/base64.h"
#include "base/text/json.h"

#define OTHER_SOURCE "sasl.oauthbearer.config"

/* ---- what a token says: HEADER.CLAIMS.SIGNATURE, each in the base64 of URLs, without padding ---- */

static dt_status parse_claims(struct dt_str text, struct dt_kafka_token *out, struct dt_error *err)
{
    dt_json *json = NULL;
    dt_status status = dt_json_new(&json);
    if (status == DT_OK)
        status = dt_json_parse(json, text, &(struct dt_json_limits){0}, NULL);
    if (status == DT_OK && dt_json_root(json)->type == DT_JSON_OBJECT) {
        const int64_t expires_s = dt_json_int_of(json, dt_json_root(json), "exp");
        const struct dt_str subject = dt_json_text_of(json, dt_json_root(json), "sub");
        if (expires_s <= 0 || expires_s > INT64_MAX / 1000)
            status = dt_fail(err, DT_MALFORMED, "it does not say when it expires (exp)");
        else
            out->expires_ms = expires_s * 1000;
        snprintf(out->principal, sizeof(out->principal), "%s", subject.n ? subject.p : "duetime");
    } else {
        status = dt_fail(err, status == DT_NOMEM ? DT_NOMEM : DT_MALFORMED, "its claims are no JSON object");
    }
    dt_json_free(json);
    return status;
}

dt_status dt_kafka_token_parse(struct dt_str jwt, struct dt_kafka_token *out, struct dt_error *err)
{
    char encoded[DT_SECRET_MAX + 4];
    char text[DT_SECRET_MAX + 4];
    size_t n = 0;
    const char *first = memchr(jwt.p, '.', jwt.n);
    const char *second = first ? memchr(first + 1, '.', (size_t)(jwt.p + jwt.n - first - 1)) : NULL;
    size_t length = second ? (size_t)(second - first - 1) : 0;
    *out = (struct dt_kafka_token){0};
    if (length == 0 || length > DT_SECRET_MAX)
        return dt_fail(err, DT_MALFORMED, "it is no JWT");
    for (size_t i = 0; i < length; i++) {
        char c = first[1 + i];
        encoded[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    while (length % 4)
        encoded[length++] = '=';
    if (!dt_base64_decode((struct dt_str){encoded, length}, text, &n))
        return dt_fail(err, DT_MALFORMED, "it is no JWT");
    return parse_claims((struct dt_str){text, n}, out, err);
}

/* ---- from a file to a handle ---- */

void dt_kafka_token_give(rd_kafka_t *rk, const char *file)
{
    char text[DT_SECRET_MAX + 1] = "";
    char reason[256] = "";
    struct dt_kafka_token token;
    struct dt_error why = {0};
    struct dt_error err = {0};
    dt_status status = dt_secret_read_file(file, text);
    if (status == DT_UNAVAILABLE)
        status = dt_fail(&err, status, "%s cannot be read: %s", file, strerror(errno));
    else if (status != DT_OK)
        status = dt_fail(&err, status, "%s holds no text of at most %d bytes", file, DT_SECRET_MAX);
    else if ((status = dt_kafka_token_parse(dt_str(text), &token, &why)) != DT_OK)
        status = dt_fail(&err, status, "the token in %s: %s", file, why.text);
    else if (rd_kafka_oauthbearer_set_token(rk, text, token.expires_ms, token.principal, NULL, 0, reason,
                                            sizeof(reason)) != RD_KAFKA_RESP_ERR_NO_ERROR)
        status = dt_fail(&err, DT_INVALID, "the token in %s: %s", file, reason);
    if (status != DT_OK)
        rd_kafka_oauthbearer_set_token_failure(rk, err.text);
    explicit_bzero(text, sizeof(text));
}

/* librdkafka hands the value of sasl.oauthbearer.config on, which is the file here. */
static void on_refresh(rd_kafka_t *rk, const char *file, void *opaque)
{
    (void)opaque;
    dt_kafka_token_give(rk, file);
}

dt_status dt_kafka_token_use(rd_kafka_conf_t *conf, const struct dt_property *property, struct dt_error *err)
{
    char reason[200];

    if (!property->file)
        return dt_fail(err, DT_INVALID, "[kafka] client.%s: a token expires, so name its file: client.%s_file",
                       property->name, property->name);
    rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, on_refresh);
    if (rd_kafka_conf_set(conf, OTHER_SOURCE, property->file, reason, sizeof(reason)) != RD_KAFKA_CONF_OK)
        return dt_fail(err, DT_INVALID, "[kafka] client.%s_file: %s", property->name, reason);
    return DT_OK;
}

void dt_kafka_token_background(rd_kafka_t *rk)
{
    rd_kafka_error_destroy(rd_kafka_sasl_background_callbacks_enable(rk)); /* an error: it needs no tokens */
}

/* ---- checks ---- */

dt_status dt_kafka_token_check(struct dt_properties *list, struct dt_error *err)
{
    struct dt_strbuf jwt = {0};
    struct dt_kafka_token token;
    struct dt_error why = {0};
    dt_status status = DT_OK;
    dt_properties_hold(list);
    const struct dt_property *property = dt_properties_find(list, DT_KAFKA_TOKEN);
    if (property && dt_properties_find(list, OTHER_SOURCE)) {
        status = dt_fail(err, DT_INVALID, "[kafka] client.%s_file and client.%s exclude each other", property->name,
                         OTHER_SOURCE);
    } else if (property) {
        status = dt_property_now(property, &jwt);
        if (status == DT_OK)
            status = dt_kafka_token_parse(dt_str(jwt.p), &token, &why);
        if (status != DT_OK)
            status = dt_fail(err, DT_INVALID, "[kafka] client.%s_file: %s", property->name, why.text);
    }
    dt_secret_forget(&jwt);
    dt_properties_let_go(list);
    return status;
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    (void)rk;
    if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION)
        (void)dt_fail(opaque, DT_INVALID, "%s", reason);
}

void dt_kafka_token_watch(rd_kafka_conf_t *conf, const struct dt_properties *list, struct dt_error *seen)
{
    rd_kafka_conf_enable_sasl_queue(conf, 1);
    rd_kafka_conf_set_opaque(conf, seen);
    if (!dt_properties_find(list, DT_KAFKA_TOKEN))
        rd_kafka_conf_set_error_cb(conf, on_error);
}

dt_status dt_kafka_token_try(rd_kafka_t *rk, const struct dt_error *seen, struct dt_error *err)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_get_sasl(rk);

    if (queue) {
        rd_kafka_queue_poll_callback(queue, 0);
        rd_kafka_queue_destroy(queue);
    }
    rd_kafka_poll(rk, 0);
    return seen->text[0] ? dt_fail(err, DT_INVALID, "[kafka] client: %s", seen->text) : DT_OK;
}
