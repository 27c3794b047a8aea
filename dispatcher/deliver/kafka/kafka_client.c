/*
 * Owns: settings of librdkafka that the configuration gives under its own names, how they change while handles are
 * open, and which rights a dispatcher needs. Refuses to know: what a handle is for, and what is in a token
 * (kafka_token.c).
 * Invariant: of the two locks the list's is taken first, the handles' second.
 */
#include "kafka_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/properties.h"
#include "base/secrets.h"
#include "kafka_token.h"

/* ---- what may be set ---- */

#define PROMISE "each attempt is sent once because of it"
#define OURS    "it is the business of duetime"

/* Aliases stand here, too. */
static const struct {
    const char *name, *reason;
} refused[] = {
    {"enable.idempotence", PROMISE},
    {"transactional.id", "it fences deposed leaders"},
    {"transaction.timeout.ms", "kafka.transaction_timeout says it"},
    {"acks", PROMISE},
    {"request.required.acks", PROMISE},
    {"retries", PROMISE},
    {"message.send.max.retries", PROMISE},
    {"max.in.flight", PROMISE},
    {"max.in.flight.requests.per.connection", PROMISE},
    {"message.timeout.ms", PROMISE},
    {"delivery.timeout.ms", PROMISE},
    {"enable.gapless.guarantee", PROMISE},
    {"delivery.report.only.error", "each message is awaited by its report"},
    {"isolation.level", "results and the ledger are read as they are committed"},
    {"enable.auto.commit", "offsets follow MySQL"},
    {"auto.commit.enable", "offsets follow MySQL"},
    {"enable.auto.offset.store", "offsets follow MySQL"},
    {"auto.offset.reset", "no result may be passed by"},
    {"group.id", OURS},
    {"group.instance.id", OURS},
    {"partitioner", "consumers rely on Java's default partitioner"},
    {"message.max.bytes", "limits.payload and the topic's own max.message.bytes say it"},
    {"allow.auto.create.topics", "kafka.auto_create_partitions says it"},
    {"bootstrap.servers", "kafka.brokers says it"},
    {"metadata.broker.list", "kafka.brokers says it"},
    {"client.id", "it is the installation's name"},
    {"statistics.interval.ms", OURS},
    {"test.mock.num.brokers", "it is no Kafka"},
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
            status = dt_kafka_token_use(conf, property, err);
            continue;
        }
        for (size_t k = 0; status == DT_OK && k < sizeof(refused) / sizeof(refused[0]); k++)
            if (strcmp(refused[k].name, name) == 0)
                status = dt_fail(err, DT_INVALID, "[kafka] client.%s cannot be set: %s", name, refused[k].reason);
        if (status == DT_OK)
            status = dt_property_now(property, &value);
        if (status == DT_OK && rd_kafka_conf_set(conf, name, value.p, reason, sizeof(reason)) != RD_KAFKA_CONF_OK)
            status = dt_fail(err, DT_INVALID, "[kafka] client.%s: %s", name,
                             dt_property_is_secret(name) ? "librdkafka does not take its value" : reason);
        dt_secret_forget(&value);
    }
    dt_properties_let_go(config->kafka_client);
    return status;
}

/* A handle says more of its settings than they do one by one: files that are not there, protocols without a
 * mechanism. */
dt_status dt_kafka_check(const struct dt_config *config, struct dt_error *err)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char reason[200] = "";
    struct dt_error seen = {0};
    dt_status status = dt_kafka_client_set(conf, config, err);
    rd_kafka_t *rk = NULL;

    if (status == DT_OK)
        status = dt_kafka_token_check(config->kafka_client, err);
    if (status == DT_OK && config->kafka_client && config->kafka_client->n) {
        rd_kafka_conf_set_log_cb(conf, NULL);
        dt_kafka_token_watch(conf, config->kafka_client, &seen);
        rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof(reason));
        status = rk ? dt_kafka_token_try(rk, &seen, err) : dt_fail(err, DT_INVALID, "[kafka] client: %s", reason);
    }
    if (rk)
        rd_kafka_destroy(rk); /* the settings are its own */
    else
        rd_kafka_conf_destroy(conf);
    return status;
}

/* ---- handles whose credentials may change ---- */

enum { HANDLES_MAX = 4096 };

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static rd_kafka_t *handles[HANDLES_MAX]; /* under the lock; a handle in it is not being destroyed */
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

/* The list is held. */
static bool credential(const struct dt_properties *list, const char *name, struct dt_strbuf *out)
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
    if (credential(running->kafka_client, "sasl.username", &user) &&
        credential(running->kafka_client, "sasl.password", &password)) {
        for (size_t i = 0; i < n_handles; i++)
            rd_kafka_error_destroy(rd_kafka_sasl_set_credentials(handles[i], user.p, password.p));
    }
    const struct dt_property *token = dt_properties_find(running->kafka_client, DT_KAFKA_TOKEN);
    for (size_t i = 0; token && i < n_handles; i++)
        dt_kafka_token_give(handles[i], token->file);
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
