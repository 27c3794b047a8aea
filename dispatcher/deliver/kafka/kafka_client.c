/*
 * Owns: tokens of SASL/OAUTHBEARER for librdkafka (first part), and the settings of [kafka] client.* (second part).
 *
 * Refuses to know: who signed a token, and whether the token is valid, which the broker checks.
 */
#include "kafka_common.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/secrets.h"
#include "base/text/encoding.h"
#include "base/text/json.h"

#define OTHER_SOURCE "sasl.oauthbearer.config"

/* ---- contents of a token: HEADER.CLAIMS.SIGNATURE, each in base64url without padding ---- */

static dt_status parse_claims(struct dt_str text, struct dt_kafka_token *out, struct dt_error *err)
{
    dt_json *json = NULL;
    dt_status status = dt_json_new(&json);
    DT_THEN(status, dt_json_parse(json, text, &(struct dt_json_limits){0}, NULL));
    if (status == DT_OK && dt_json_root(json)->type == DT_JSON_OBJECT) {
        const int64_t expires_s = dt_json_int_of(json, dt_json_root(json), "exp");
        const struct dt_str subject = dt_json_text_of(json, dt_json_root(json), "sub");
        if (expires_s <= 0 || expires_s > INT64_MAX / 1000)
            status = dt_fail(err, DT_MALFORMED, "it has no expiry time (exp)");
        else
            out->expires_ms = expires_s * 1000;
        snprintf(out->principal, sizeof(out->principal), "%s", subject.n ? subject.p : "duetime");
    } else {
        status =
            dt_fail(err, status == DT_NOMEM ? DT_NOMEM : DT_MALFORMED, "the claims of the JWT are not a JSON object");
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
        return dt_fail(err, DT_MALFORMED, "it is not a JWT");
    for (size_t i = 0; i < length; i++) {
        char c = first[1 + i];
        encoded[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    while (length % 4)
        encoded[length++] = '=';
    if (!dt_base64_decode((struct dt_str){encoded, length}, text, &n))
        return dt_fail(err, DT_MALFORMED, "it is not a JWT");
    return parse_claims((struct dt_str){text, n}, out, err);
}

/* ---- from a file to a handle ---- */

/* Gives the token in the file to the handle. If the file has no valid token, gives the handle the reason instead, and
 * logs it. */
static void set_token(rd_kafka_t *rk, const char *file)
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
        status = dt_fail(&err, status, "%s is empty, has more than %d bytes, or is not text", file, DT_SECRET_MAX);
    else if ((status = dt_kafka_token_parse(dt_str(text), &token, &why)) != DT_OK)
        status = dt_fail(&err, status, "the token in %s: %s", file, why.text);
    else if (rd_kafka_oauthbearer_set_token(rk, text, token.expires_ms, token.principal, NULL, 0, reason,
                                            sizeof(reason)) != RD_KAFKA_RESP_ERR_NO_ERROR)
        status = dt_fail(&err, DT_INVALID, "the token in %s: %s", file, reason);
    if (status != DT_OK)
        rd_kafka_oauthbearer_set_token_failure(rk, err.text);
    explicit_bzero(text, sizeof(text));
}

/* Called when librdkafka needs a token. `file` is the value of sasl.oauthbearer.config, which is the file's name
 * here. */
static void on_refresh(rd_kafka_t *rk, const char *file, void *)
{
    set_token(rk, file);
}

void dt_kafka_token_background(rd_kafka_t *rk)
{
    rd_kafka_error_destroy(rd_kafka_sasl_background_callbacks_enable(rk)); /* an error means that rk needs no tokens */
}

/* ---- checks ---- */

/* Checks the token file. INVALID: the file holds no valid token, or another setting also provides tokens. */
static dt_status check_token(struct dt_properties *list, struct dt_error *err)
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
        DT_THEN(status, dt_kafka_token_parse(dt_str(jwt.p), &token, &why));
        if (status != DT_OK)
            status = dt_fail(err, DT_INVALID, "[kafka] client.%s_file: %s", property->name, why.text);
    }
    dt_secret_forget(&jwt);
    dt_properties_let_go(list);
    return status;
}

/* Stores librdkafka's reason if the handle could not get a token. */
static void on_error(rd_kafka_t *, int code, const char *reason, void *opaque)
{
    if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION)
        (void)dt_fail(opaque, DT_INVALID, "%s", reason);
}

/* Owns: settings of librdkafka that the configuration gives as client.<librdkafka's name>, how they change while
 * handles are open, and which rights a dispatcher needs. Refuses to know: what a handle is for, and what is in a token
 * (first part). Invariant: a thread that takes both locks takes the settings' lock before handles_lock. */

/* ---- what may be set ---- */

#define PROMISE "duetime sets it, so that each attempt is sent once"
#define OURS    "duetime sets it"

/* Settings of librdkafka that the configuration may not change, with the aliases of their names. */
static const struct {
    const char *name, *reason;
} refused[] = {
    {"enable.idempotence", PROMISE},
    {"transactional.id", "duetime sets it, so that Kafka rejects messages of former leaders"},
    {"transaction.timeout.ms", "kafka.transaction_timeout sets it"},
    {"acks", PROMISE},
    {"request.required.acks", PROMISE},
    {"retries", PROMISE},
    {"message.send.max.retries", PROMISE},
    {"max.in.flight", PROMISE},
    {"max.in.flight.requests.per.connection", PROMISE},
    {"message.timeout.ms", PROMISE},
    {"delivery.timeout.ms", PROMISE},
    {"enable.gapless.guarantee", PROMISE},
    {"delivery.report.only.error", "duetime needs a delivery report for every message"},
    {"isolation.level", "duetime reads only committed results and ledger records"},
    {"enable.auto.commit", "duetime commits offsets after MySQL has committed"},
    {"auto.commit.enable", "duetime commits offsets after MySQL has committed"},
    {"enable.auto.offset.store", "duetime commits offsets after MySQL has committed"},
    {"auto.offset.reset", "duetime must not skip a result"},
    {"group.id", OURS},
    {"group.instance.id", OURS},
    {"partitioner", "consumers rely on Java's default partitioner"},
    {"message.max.bytes", "limits.payload and the topic's max.message.bytes set it"},
    {"allow.auto.create.topics", "kafka.auto_create_partitions sets it"},
    {"bootstrap.servers", "kafka.brokers sets it"},
    {"metadata.broker.list", "kafka.brokers sets it"},
    {"client.id", "duetime sets it to the installation's name"},
    {"statistics.interval.ms", OURS},
    {"test.mock.num.brokers", "it would replace Kafka by a simulation in this process"},
};

dt_status dt_kafka_client_set(rd_kafka_conf_t *conf, const struct dt_config *config, struct dt_error *err)
{
    char reason[200];
    dt_status status = DT_OK;
    dt_properties_hold(config->kafka_client);
    for (size_t i = 0; config->kafka_client && i < config->kafka_client->n && status == DT_OK; i++) {
        const struct dt_property *property = &config->kafka_client->v[i];
        const char *name = property->name;
        struct dt_strbuf value = {0};
        if (strcmp(name, DT_KAFKA_TOKEN) == 0) {
            rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, on_refresh);
            if (!property->file)
                status = dt_fail(err, DT_INVALID,
                                 "[kafka] client.%s: a token expires, so name its file: client.%s_file", name, name);
            else if (rd_kafka_conf_set(conf, OTHER_SOURCE, property->file, reason, sizeof(reason)) != RD_KAFKA_CONF_OK)
                status = dt_fail(err, DT_INVALID, "[kafka] client.%s_file: %s", name, reason);
            continue;
        }
        for (size_t k = 0; status == DT_OK && k < sizeof(refused) / sizeof(refused[0]); k++)
            if (strcmp(refused[k].name, name) == 0)
                status = dt_fail(err, DT_INVALID, "[kafka] client.%s cannot be set: %s", name, refused[k].reason);
        DT_THEN(status, dt_property_now(property, &value));
        if (status == DT_OK && rd_kafka_conf_set(conf, name, value.p, reason, sizeof(reason)) != RD_KAFKA_CONF_OK)
            status = dt_fail(err, DT_INVALID, "[kafka] client.%s: %s", name,
                             dt_property_is_secret(name) ? "librdkafka rejects its value" : reason);
        dt_secret_forget(&value);
    }
    dt_properties_let_go(config->kafka_client);
    return status;
}

/* Creates a handle, because librdkafka then also checks how settings fit together: missing files, protocols without a
 * mechanism. */
dt_status dt_kafka_check(const struct dt_config *config, struct dt_error *err)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char reason[200] = "";
    struct dt_error seen = {0};
    dt_status status = dt_kafka_client_set(conf, config, err);
    rd_kafka_t *rk = NULL;
    DT_THEN(status, check_token(config->kafka_client, err));
    if (status == DT_OK && config->kafka_client && config->kafka_client->n) {
        rd_kafka_conf_set_log_cb(conf, NULL);
        rd_kafka_conf_enable_sasl_queue(conf, 1);
        rd_kafka_conf_set_opaque(conf, &seen);
        if (!dt_properties_find(config->kafka_client, DT_KAFKA_TOKEN)) /* a token file may be replaced later */
            rd_kafka_conf_set_error_cb(conf, on_error);
        rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof(reason));
        if (!rk)
            status = dt_fail(err, DT_INVALID, "[kafka] client: %s", reason);
    }
    if (!rk) {
        rd_kafka_conf_destroy(conf);
        return status;
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_get_sasl(rk); /* has the event that requests the first token */
    if (queue) {
        rd_kafka_queue_poll_callback(queue, 0);
        rd_kafka_queue_destroy(queue);
    }
    rd_kafka_poll(rk, 0);
    if (seen.text[0])
        status = dt_fail(err, DT_INVALID, "[kafka] client: %s", seen.text);
    rd_kafka_destroy(rk);
    return status;
}

/* ---- handles whose credentials may change ---- */

enum { HANDLES_MAX = 4096 };

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static rd_kafka_t *handles[HANDLES_MAX]; /* protected by handles_lock; a handle in the list is not being destroyed */
static size_t n_handles;
static _Atomic unsigned generation;

unsigned dt_kafka_client_generation(void)
{
    return atomic_load(&generation);
}

void dt_kafka_client_enter(rd_kafka_t *rk)
{
    pthread_mutex_lock(&handles_lock);
    if (n_handles < HANDLES_MAX)
        handles[n_handles++] = rk;
    pthread_mutex_unlock(&handles_lock);
}

void dt_kafka_client_leave(rd_kafka_t *rk)
{
    pthread_mutex_lock(&handles_lock);
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i] == rk) {
            handles[i] = handles[--n_handles];
            break;
        }
    pthread_mutex_unlock(&handles_lock);
}

static bool find_credential(const struct dt_properties *list, const char *name, struct dt_strbuf *out)
{
    const struct dt_property *property = dt_properties_find(list, name);
    return property && dt_property_now(property, out) == DT_OK && out->p;
}

dt_status dt_kafka_renew(const struct dt_config *running, const struct dt_config *fresh, struct dt_error *err)
{
    struct dt_strbuf user = {0};
    struct dt_strbuf password = {0};
    dt_status status = dt_kafka_check(fresh, err);
    if (status != DT_OK)
        return status;
    dt_properties_exchange(running->kafka_client, fresh->kafka_client);
    atomic_fetch_add(&generation, 1);
    dt_properties_hold(running->kafka_client);
    pthread_mutex_lock(&handles_lock);
    if (find_credential(running->kafka_client, "sasl.username", &user) &&
        find_credential(running->kafka_client, "sasl.password", &password)) {
        for (size_t i = 0; i < n_handles; i++)
            rd_kafka_error_destroy(rd_kafka_sasl_set_credentials(handles[i], user.p, password.p));
    }
    const struct dt_property *token = dt_properties_find(running->kafka_client, DT_KAFKA_TOKEN);
    for (size_t i = 0; token && i < n_handles; i++)
        set_token(handles[i], token->file);
    pthread_mutex_unlock(&handles_lock);
    dt_properties_let_go(running->kafka_client);
    dt_secret_forget(&user);
    dt_secret_forget(&password);
    return DT_OK;
}

/* ---- rights ---- */

void dt_kafka_print_acls(const struct dt_config *config, FILE *out)
{
    const char *name = config->installation_name;
    static const char begin[] =
        "kafka-acls.sh --bootstrap-server \"$BROKERS\" --command-config \"$ADMIN\" --add --allow-principal";
    fputs(
        "# The least rights of a dispatcher: its own topics, groups and transactional ids, by prefix; then the topics "
        "of jobs,\n"
        "# all of which begin with $TOPICS here. Create is needed where duetime makes topics. PRINCIPAL=User:duetime\n",
        out);
    fprintf(out,
            "%s \"$PRINCIPAL\" --resource-pattern-type prefixed --topic '%s.' --operation Read --operation Write "
            "--operation "
            "Describe --operation Create --operation Delete --operation DescribeConfigs --operation Alter\n",
            begin, name);
    fprintf(out,
            "%s \"$PRINCIPAL\" --resource-pattern-type prefixed --group '%s' --operation Read --operation Describe\n",
            begin, name);
    fprintf(out,
            "%s \"$PRINCIPAL\" --resource-pattern-type prefixed --transactional-id '%s-' --operation Write --operation "
            "Describe\n",
            begin, name);
    fprintf(
        out,
        "%s \"$PRINCIPAL\" --resource-pattern-type prefixed --topic \"$TOPICS\" --operation Write --operation Describe "
        "--operation DescribeConfigs --operation Create\n",
        begin);
}
