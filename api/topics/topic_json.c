/*
 * Topics between JSON and the domain: see job_json.h. An answer shows settings as they were set (null = the default)
 * and, under "effective", what holds; what an answer shows may be put back, so the members that only we write are let
 * pass, and a setting that this version does not offer is refused.
 */
#include "job/callback/callback_timeout.h"
#include "job/rate.h"
#include "job/request/job_fields.h"
#include "job/retry.h"
#include "jobs/job_json.h"
#include "jobs/topic_alerts.h"
#include "jobs/topic_callback.h"

struct decoder {
    const dt_json *json;
    struct dt_faults *faults;
    struct dt_str name;
    const struct dt_job_rules *rules;
    struct dt_topic_setting *setting;
    struct dt_topic *out;
};

typedef void read_fn(struct decoder *d, const struct dt_json_node *node);

static void read_name(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_STRING || !dt_str_eq(node->str, d->name))
        dt_faults_add(d->faults, "/name", "differs from the topic in the path");
}

static void read_delivery(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_NULL)
        return;
    d->out->delivery = node->type == DT_JSON_STRING ? dt_delivery_of_name(node->str) : DT_DELIVERY_UNSET;
    if (d->out->delivery == DT_DELIVERY_UNSET)
        dt_faults_add(d->faults, "/delivery", "must be \"kafka\", \"http\" or \"pull\"");
}

/* Kafka's own rule for names, and our internal topics. */
static void read_kafka_topic(struct decoder *d, const struct dt_json_node *node)
{
    static const char *const length = "must have 1 to 249 of A-Z a-z 0-9 . _ -";
    const char *reason = NULL;
    struct dt_str name = node->str;
    if (node->type == DT_JSON_NULL)
        return;
    if (node->type != DT_JSON_STRING)
        reason = "must be a string";
    else if (name.n < 1 || name.n > DT_KAFKA_TOPIC_MAX)
        reason = length;
    else
        reason = dt_topic_check(name.n > DT_TOPIC_MAX ? (struct dt_str){name.p, DT_TOPIC_MAX} : name,
                                d->rules->installation);
    for (size_t i = 0; !reason && i < name.n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", name.p[i]) || !name.p[i])
            reason = length;
    if (!reason && dt_kafka_topic_internal(name))
        reason =
            "must not end in .ledger, .results, .results.rejected, .commands, .commands.rejected, .dead or .alerts: "
            "such topics are internal to installations";
    if (reason)
        dt_faults_add(d->faults, "/kafka_topic", reason);
    else
        d->out->kafka_topic = dt_arena_copy(d->faults->arena, name);
}

static void read_retry(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_NULL)
        dt_retry_decode(d->json, node, "/retry", d->faults, &d->out->retry);
}

static void read_ack_timeout(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_NULL)
        return;
    const char *reason = dt_duration_decode(node, &d->out->ack_timeout_ms);
    if (!reason && d->out->ack_timeout_ms == 0)
        reason = "must be longer than 0";
    if (reason)
        dt_faults_add(d->faults, "/ack_timeout", reason);
}

static void read_retention(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_NULL)
        return;
    const char *reason = dt_duration_decode(node, &d->out->retention_ms);
    if (reason)
        dt_faults_add(d->faults, "/retention", reason);
}

static void read_max_in_flight(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_NULL)
        return;
    if (node->type != DT_JSON_INT || node->i < 1 || node->i > INT32_MAX)
        dt_faults_add(d->faults, "/max_in_flight", "must be a number from 1 to 2147483647, or null for any number");
    else
        d->out->max_in_flight = node->i;
}

static void read_rate_limit(struct decoder *d, const struct dt_json_node *node)
{
    int64_t interval_ns;
    if (node->type == DT_JSON_NULL)
        return;
    if (node->type != DT_JSON_STRING || !dt_rate_parse(node->str, &interval_ns))
        dt_faults_add(
            d->faults, "/rate_limit",
            "must be a number from 1 to 9999999 a second or a minute, such as \"100/s\" or \"600/m\", or null "
            "for any number");
    else
        d->out->rate_limit = dt_arena_copy(d->faults->arena, node->str);
}

static void read_paused(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_BOOL) {
        dt_faults_add(d->faults, "/paused", "must be true or false");
        return;
    }
    d->setting->set_paused = true;
    d->out->paused = node->b;
}

static void read_callback_url(struct decoder *d, const struct dt_json_node *node)
{
    dt_topic_callback_url(node, d->rules, d->faults, d->setting);
}

static void read_callback_hosts(struct decoder *d, const struct dt_json_node *node)
{
    dt_topic_callback_hosts(d->json, node, d->rules, d->faults, d->setting);
}

static void read_callback_timeout(struct decoder *d, const struct dt_json_node *node)
{
    dt_topic_callback_timeout(node, d->faults, d->setting);
}

static void read_callback_headers(struct decoder *d, const struct dt_json_node *node)
{
    dt_topic_callback_headers(d->json, node, d->rules, d->faults, d->setting);
}

static void read_callback_secret(struct decoder *d, const struct dt_json_node *node)
{
    dt_topic_callback_secret(node, d->faults, d->setting);
}

static void read_alerts(struct decoder *d, const struct dt_json_node *node)
{
    dt_topic_alerts_decode(d->json, node, d->rules, d->faults, d->setting);
}

/* Members of an answer that nobody sets. */
static void read_shown(struct decoder *d, const struct dt_json_node *node)
{
    bool object = dt_str_is(node->name, "effective") || dt_str_is(node->name, "counts");
    if (object != (node->type == DT_JSON_OBJECT))
        dt_faults_add_member(d->faults, "", node->name, "is not as an answer shows it; it cannot be set");
}

static const struct {
    const char *name;
    read_fn *read;
} members[] = {
    {"name", read_name},
    {"delivery", read_delivery},
    {"kafka_topic", read_kafka_topic},
    {"retry", read_retry},
    {"ack_timeout", read_ack_timeout},
    {"retention", read_retention},
    {"max_in_flight", read_max_in_flight},
    {"rate_limit", read_rate_limit},
    {"paused", read_paused},
    {"effective", read_shown},
    {"counts", read_shown},
    {"oldest_overdue_ms", read_shown},
    {"oldest_held_ms", read_shown},
    {"created_at", read_shown},
    {"updated_at", read_shown},
    {"version", read_shown},
    {"deletion", read_shown},
    {"callback_url", read_callback_url},
    {"callback_hosts", read_callback_hosts},
    {"callback_timeout", read_callback_timeout},
    {"callback_headers", read_callback_headers},
    {"callback_secret", read_callback_secret},
    {"alerts", read_alerts},
};

dt_status dt_topic_decode(const dt_json *json, struct dt_str name, const struct dt_job_rules *rules,
                          struct dt_faults *faults, struct dt_topic_setting *out)
{
    static const size_t n_members = sizeof(members) / sizeof(*members);
    const struct dt_json_node *body = dt_json_root(json);
    struct decoder d = {
        .json = json, .faults = faults, .name = name, .rules = rules, .setting = out, .out = &out->topic};
    *out = (struct dt_topic_setting){.topic = {.name = name, .retention_ms = -1}};
    if (body->type != DT_JSON_OBJECT) {
        dt_faults_add(faults, "", "must be an object");
        return DT_INVALID;
    }
    for (const struct dt_json_node *m = dt_json_first(json, body); m; m = dt_json_sibling(json, body, m)) {
        size_t i = 0;
        while (i < n_members && !dt_str_is(m->name, members[i].name))
            i++;
        if (i < n_members)
            members[i].read(&d, m);
        else
            dt_faults_add_member(faults, "", m->name, "is not known");
    }
    dt_topic_callback_compare(rules, faults, out);
    if (faults->failed)
        return DT_NOMEM;
    return faults->n > 0 ? DT_INVALID : DT_OK;
}

/* ---- answers ---- */

static void add_text(struct dt_strbuf *out, const char *name, struct dt_str text)
{
    dt_strbuf_adds(out, name);
    dt_json_add_string_or_null(out, text);
}

static void add_duration(struct dt_strbuf *out, const char *name, bool given, int64_t ms)
{
    dt_strbuf_adds(out, name);
    if (!given) {
        dt_strbuf_adds(out, "null");
        return;
    }
    dt_json_add_duration(out, ms);
}

static void add_effective(struct dt_strbuf *out, const struct dt_topic *t)
{
    struct dt_str goes_to = t->kafka_topic.p ? t->kafka_topic : t->name;
    add_text(out, ",\"effective\":{\"kafka_topic\":", t->delivery == DT_DELIVERY_KAFKA ? goes_to : DT_STR_NONE);
    dt_strbuf_adds(out, ",\"retry\":");
    dt_retry_add_json(out, t->retry.p ? t->retry : DT_STR_LIT(DT_RETRY_DEFAULT));
    add_duration(out, ",\"ack_timeout\":", true, t->ack_timeout_ms > 0 ? t->ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS);
    add_duration(out, ",\"callback_timeout\":", true,
                 dt_callback_timeout_ms(t->callback.timeout_ms, t->ack_timeout_ms));
    add_duration(out, ",\"retention\":", true, t->retention_ms >= 0 ? t->retention_ms : DT_RETENTION_DEFAULT_MS);
    dt_strbuf_addc(out, '}');
}

static void add_counts(struct dt_strbuf *out, const struct dt_topic_counts *counts, bool paused)
{
    for (int s = 0; s < DT_JOB_STATES; s++) {
        dt_strbuf_adds(out, s == 0 ? ",\"counts\":{\"" : ",\"");
        dt_strbuf_adds(out, dt_job_state_name((enum dt_job_state)s));
        dt_strbuf_adds(out, "\":");
        dt_strbuf_add_i64(out, counts->by_state[s]);
    }
    const char *const name = paused ? "oldest_held_ms" : "oldest_overdue_ms";
    const char *const other = paused ? "oldest_overdue_ms" : "oldest_held_ms";
    dt_strbuf_addf(out, "},\"%s\":null,\"%s\":", other, name);
    if (counts->oldest_overdue_ms > 0)
        dt_strbuf_add_i64(out, counts->oldest_overdue_ms);
    else
        dt_strbuf_adds(out, "null");
}

void dt_topic_add(struct dt_strbuf *out, const struct dt_topic *t, const struct dt_topic_counts *counts)
{
    add_text(out, "{\"name\":", t->name);
    add_text(out, ",\"delivery\":", dt_str(dt_delivery_id_name(t->delivery)));
    add_text(out, ",\"kafka_topic\":", t->kafka_topic);
    dt_strbuf_adds(out, ",\"retry\":");
    if (t->retry.p)
        dt_retry_add_json(out, t->retry);
    else
        dt_strbuf_adds(out, "null");
    add_duration(out, ",\"ack_timeout\":", t->ack_timeout_ms > 0, t->ack_timeout_ms);
    add_duration(out, ",\"retention\":", t->retention_ms >= 0, t->retention_ms);
    dt_strbuf_adds(out, ",\"max_in_flight\":");
    if (t->max_in_flight > 0)
        dt_strbuf_add_i64(out, t->max_in_flight);
    else
        dt_strbuf_adds(out, "null");
    add_text(out, ",\"rate_limit\":", t->rate_limit);
    dt_strbuf_adds(out, t->paused ? ",\"paused\":true" : ",\"paused\":false");
    dt_topic_callback_add(out, t);
    dt_topic_alerts_add(out, t);
    add_effective(out, t);
    if (counts)
        add_counts(out, counts, t->paused);
    dt_strbuf_adds(out, ",\"created_at\":");
    dt_json_add_time(out, t->created_at_ms);
    dt_strbuf_adds(out, ",\"updated_at\":");
    dt_json_add_time(out, t->updated_at_ms);
    dt_strbuf_adds(out, ",\"version\":");
    dt_strbuf_add_i64(out, t->version);
    if (t->deletion)
        dt_strbuf_addf(out, ",\"deletion\":\"%lld\"}", (long long)t->deletion);
    else
        dt_strbuf_adds(out, ",\"deletion\":null}");
}
