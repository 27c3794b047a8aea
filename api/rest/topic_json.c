/*
 * Topics between JSON and the domain: see job_json.h. An answer shows settings as they were set (null = the default)
 * and, under "effective", what holds; what an answer shows may be put back, so the members that only we write are let
 * pass, and a setting that this version does not offer is refused.
 */
#include "base/text/json_write.h"
#include "job/callback_timeout.h"
#include "job/retry.h"
#include "job_json.h"
#include "topic/rate.h"
#include "topic/topics.h"
#include "topic_alerts.h"
#include "topic_callback.h"
#include "topic_secret.h"

static void read_name(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const struct dt_topic_setting *setting = r->out;
    if (node->type != DT_JSON_STRING || !dt_str_eq(node->str, setting->topic.name))
        dt_json_fault(r, field, "differs from the topic in the path");
}

/* Kafka's own rule for names, and our internal topics. */
static const char *check_kafka_topic(struct dt_json_reader *r, struct dt_str name)
{
    static const char *const length = "must have 1 to 249 of A-Z a-z 0-9 . _ -";
    if (name.n < 1 || name.n > DT_KAFKA_TOPIC_MAX)
        return length;
    const char *reason = dt_check_topic(r, name.n > DT_TOPIC_MAX ? (struct dt_str){name.p, DT_TOPIC_MAX} : name);
    for (size_t i = 0; !reason && i < name.n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", name.p[i]) || !name.p[i])
            reason = length;
    if (!reason && dt_kafka_topic_internal(name))
        reason =
            "must not end in .ledger, .results, .results.rejected, .commands, .commands.rejected, .dead or .alerts: "
            "such topics are internal to installations";
    return reason;
}

#define RATE                                                                                                           \
    "must be a number from 1 to 9999999 a second or a minute, such as \"100/s\" or \"600/m\", or null for any number"

static const char *check_rate(struct dt_str text)
{
    int64_t interval_ns;
    return dt_rate_parse(text, &interval_ns) ? NULL : RATE;
}

static const char *check_secret(struct dt_json_reader *r, struct dt_str text)
{
    return dt_topic_secret_check(text, &((struct dt_topic_setting *)r->out)->keeps);
}

#define BODY              struct dt_topic_setting
#define NULLABLE          .flags = DT_FIELD_NULLABLE
#define SHOWN(name, kind) DT_FIELD_FOR_SHOW(name, kind, .reason = "is not as an answer shows it; it cannot be set")

static const struct dt_json_field fields[] = {
    DT_FIELD_BY("name", read_name),
    DT_FIELD("delivery", WORD, BODY, topic.delivery, NULLABLE, .words = dt_delivery_names, .min = DT_DELIVERY_UNSET + 1,
             .reason = "must be \"kafka\", \"http\" or \"pull\""),
    DT_FIELD("kafka_topic", TEXT, BODY, topic.kafka_topic, NULLABLE, .judge = check_kafka_topic),
    DT_FIELD("retry", TEXT, BODY, topic.retry, NULLABLE, .read = dt_read_retry),
    DT_FIELD("ack_timeout", DURATION, BODY, topic.ack_timeout_ms, NULLABLE, .min = 1, .reason = DT_REASON_NOT_ZERO),
    DT_FIELD("retention", DURATION, BODY, topic.retention_ms, NULLABLE, .absent = -1),
    DT_FIELD("max_in_flight", COUNT, BODY, topic.max_in_flight, NULLABLE, .min = 1, .max = INT32_MAX,
             .reason = "must be a number from 1 to 2147483647, or null for any number"),
    DT_FIELD("rate_limit", TEXT, BODY, topic.rate_limit, NULLABLE, .check = check_rate, .reason = RATE),
    DT_FIELD("paused", FLAG, BODY, topic.paused, .has = offsetof(BODY, set_paused)),
    SHOWN("effective", OBJECT),
    SHOWN("counts", OBJECT),
    SHOWN("oldest_overdue_ms", COUNT),
    SHOWN("oldest_held_ms", COUNT),
    SHOWN("created_at", TIME),
    SHOWN("updated_at", TIME),
    SHOWN("version", COUNT),
    SHOWN("deletion", TEXT),
    DT_FIELD("callback_url", TEXT, BODY, topic.callback.places.url, NULLABLE, .judge = dt_check_callback_url),
    DT_FIELD("callback_hosts", TEXT, BODY, topic.callback.places.hosts, NULLABLE, .read = dt_topic_callback_hosts),
    DT_FIELD("callback_timeout", DURATION, BODY, topic.callback.timeout_ms, NULLABLE, .min = DT_CALLBACK_TIMEOUT_MIN_MS,
             .max = DT_CALLBACK_TIMEOUT_MAX_MS, .reason = "must be from 100 milliseconds to 10 minutes"),
    DT_FIELD("callback_headers", TEXT, BODY, topic.callback.headers, NULLABLE, .read = dt_topic_callback_headers),
    DT_FIELD("callback_secret", TEXT, BODY, topic.callback.secret, NULLABLE, .judge = check_secret),
    DT_FIELD("alerts", TEXT, BODY, topic.alerts, NULLABLE, .read = dt_topic_alerts_decode),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

dt_status dt_topic_decode(const dt_json *json, struct dt_str name, const struct dt_job_rules *rules,
                          struct dt_faults *faults, struct dt_topic_setting *out)
{
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out, .context = rules};
    *out = (struct dt_topic_setting){.topic = {.name = name, .retention_ms = -1}};
    if (!dt_json_read(&r, &table, dt_json_root(json)))
        return DT_INVALID;
    dt_topic_callback_compare(rules, faults, out);
    return dt_faults_status(faults);
}

/* ---- answers ---- */

static void put_effective(struct dt_strbuf *out, const struct dt_topic *t)
{
    struct dt_str goes_to = t->kafka_topic.p ? t->kafka_topic : t->name;
    dt_json_begin_object(out, "effective");
    dt_json_put_string(out, "kafka_topic", t->delivery == DT_DELIVERY_KAFKA ? goes_to : DT_STR_NONE);
    dt_retry_put(out, "retry", t->retry.p ? t->retry : DT_STR_LIT(DT_RETRY_DEFAULT));
    dt_json_put_duration(out, "ack_timeout", t->ack_timeout_ms > 0 ? t->ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS);
    dt_json_put_duration(out, "callback_timeout", dt_callback_timeout_ms(t->callback.timeout_ms, t->ack_timeout_ms));
    dt_json_put_duration(out, "retention", t->retention_ms >= 0 ? t->retention_ms : DT_RETENTION_DEFAULT_MS);
    dt_json_end_object(out);
}

static void put_counts(struct dt_strbuf *out, const struct dt_topic_counts *counts, bool paused)
{
    dt_json_begin_object(out, "counts");
    for (int s = 0; s < DT_JOB_STATES; s++)
        dt_json_put_int(out, dt_job_state_name((enum dt_job_state)s), counts->by_state[s]);
    dt_json_end_object(out);
    dt_json_put_null(out, paused ? "oldest_overdue_ms" : "oldest_held_ms");
    dt_json_put_int_or_null(out, paused ? "oldest_held_ms" : "oldest_overdue_ms", counts->oldest_overdue_ms > 0,
                            counts->oldest_overdue_ms);
}

void dt_topic_add(struct dt_strbuf *out, const struct dt_topic *t, const struct dt_topic_counts *counts)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_string(out, "name", t->name);
    dt_json_put_word(out, "delivery", dt_delivery_id_name(t->delivery));
    dt_json_put_string(out, "kafka_topic", t->kafka_topic);
    if (t->retry.p)
        dt_retry_put(out, "retry", t->retry);
    else
        dt_json_put_null(out, "retry");
    dt_json_put_duration_or_null(out, "ack_timeout", t->ack_timeout_ms > 0, t->ack_timeout_ms);
    dt_json_put_duration_or_null(out, "retention", t->retention_ms >= 0, t->retention_ms);
    dt_json_put_int_or_null(out, "max_in_flight", t->max_in_flight > 0, t->max_in_flight);
    dt_json_put_string(out, "rate_limit", t->rate_limit);
    dt_json_put_bool(out, "paused", t->paused);
    dt_topic_callback_add(out, t);
    dt_topic_alerts_add(out, t);
    put_effective(out, t);
    if (counts)
        put_counts(out, counts, t->paused);
    dt_json_put_time(out, "created_at", t->created_at_ms);
    dt_json_put_time(out, "updated_at", t->updated_at_ms);
    dt_json_put_int(out, "version", t->version);
    if (t->deletion)
        dt_json_put_id(out, "deletion", t->deletion);
    else
        dt_json_put_null(out, "deletion");
    dt_json_end_object(out);
}
