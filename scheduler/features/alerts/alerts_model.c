/* Implements alerts.h without MySQL: alerts and their settings as text, and the messages about alerts. */
#include "alerts.h"
#include "base/http/callback_rules.h"
#include "base/secrets.h"
#include "base/text/json_write.h"

static const char *const names[DT_ALERT_KINDS_END] = {[DT_ALERT_OVERDUE] = "overdue",
                                                      [DT_ALERT_BACKLOG] = "backlog",
                                                      [DT_ALERT_DEAD] = "dead",
                                                      [DT_ALERT_UNREPORTED] = "unreported",
                                                      [DT_ALERT_SHARD_HALTED] = "shard_halted",
                                                      [DT_ALERT_NO_LEADER] = "no_leader",
                                                      [DT_ALERT_KAFKA_UNWRITABLE] = "kafka_unwritable",
                                                      [DT_ALERT_INDEX_INCOMPLETE] = "index_incomplete",
                                                      [DT_ALERT_INBOX_ERRORS] = "inbox_errors",
                                                      [DT_ALERT_AUDIT_CORRECTED] = "audit_corrected",
                                                      [DT_ALERT_NO_DISPATCHER] = "no_dispatcher"};

const char *dt_alert_kind_name(enum dt_alert_kind kind)
{
    return kind > 0 && kind < DT_ALERT_KINDS_END ? names[kind] : NULL;
}

#define LIMIT(name, kind) DT_FIELD(name, COUNT, struct dt_alert_setting, limits[(kind)-1], .max = INT64_MAX)

static const struct dt_json_field fields[] = {
    LIMIT("overdue", DT_ALERT_OVERDUE),
    LIMIT("backlog", DT_ALERT_BACKLOG),
    LIMIT("dead", DT_ALERT_DEAD),
    LIMIT("unreported", DT_ALERT_UNREPORTED),
    DT_FIELD("mute_until", COUNT, struct dt_alert_setting, mute_until_ms, .max = INT64_MAX),
    DT_FIELD("url", TEXT, struct dt_alert_setting, url),
    DT_FIELD("secret", TEXT, struct dt_alert_setting, secret),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = NULL);

dt_status dt_alert_setting_read(dt_json *json, struct dt_str text, struct dt_arena *arena, struct dt_alert_setting *out)
{
    static const struct dt_json_limits limits = {.depth = 2};
    struct dt_faults spoiled = {.arena = arena};
    struct dt_json_reader r = {.json = json, .faults = &spoiled, .out = out};
    *out = (struct dt_alert_setting){0};
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        out->limits[i] = DT_ALERT_DEFAULT;
    const dt_status status = text.p ? dt_json_parse(json, text, &limits, NULL) : DT_NOT_FOUND;
    if (status == DT_OK)
        dt_json_read(&r, &table, dt_json_root(json));
    return status == DT_NOMEM || spoiled.failed ? DT_NOMEM : DT_OK;
}

void dt_alert_setting_write(struct dt_strbuf *out, const struct dt_alert_setting *setting)
{
    const size_t begin = out->n;
    dt_json_begin_object(out, NULL);
    const size_t empty = out->n;
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        if (setting->limits[i] >= 0)
            dt_json_put_int(out, names[i + 1], setting->limits[i]);
    if (setting->mute_until_ms > 0)
        dt_json_put_int(out, "mute_until", setting->mute_until_ms);
    dt_json_put_given(out, "url", setting->url);
    dt_json_put_given(out, "secret", setting->secret);
    if (out->n > empty)
        dt_json_end_object(out);
    else if (!out->failed)
        out->p[out->n = begin] = '\0';
}

static void put_figure(struct dt_strbuf *out, const char *name, enum dt_alert_kind kind, int64_t figure)
{
    if (dt_alert_is_time(kind))
        dt_json_put_duration(out, name, figure);
    else
        dt_json_put_int(out, name, figure);
}

void dt_alert_add_members(struct dt_strbuf *out, const struct dt_alert *alert)
{
    dt_json_put_id(out, "id", alert->id);
    dt_json_put_string(out, "topic", alert->topic);
    dt_json_put_word(out, "kind", names[alert->kind]);
    put_figure(out, "value", alert->kind, alert->value);
    put_figure(out, "limit", alert->kind, alert->limit);
    dt_json_put_time(out, "began_at", alert->began_at_ms);
}

void dt_alert_add_message(struct dt_strbuf *out, const struct dt_alert *alert, enum dt_alert_event event,
                          int64_t made_at_ms)
{
    static const char *const types[] = {"", "alert.began", "alert.reminded", "alert.ended"};
    dt_json_begin_object(out, NULL);
    dt_json_put_word(out, "type", types[event]);
    dt_json_put_time(out, "timestamp", made_at_ms);
    dt_json_begin_object(out, "data");
    dt_alert_add_members(out, alert);
    dt_json_end_object(out);
    dt_json_end_object(out);
}

static dt_status write_alert_text(const struct dt_message_row *m, struct dt_arena *arena, struct dt_outbox_text *out)
{
    const struct dt_alert alert = {.id = m->alert,
                                   .topic = m->topic,
                                   .kind = (enum dt_alert_kind)m->alert_kind,
                                   .value = m->value,
                                   .limit = m->bound,
                                   .began_at_ms = m->began_ms};
    struct dt_strbuf body = {0};
    dt_alert_add_message(&body, &alert, (enum dt_alert_event)m->type, m->made_ms);
    out->key = dt_arena_printf(arena, "%lld", (long long)m->alert);
    out->id = dt_arena_printf(arena, "%lld/%lld", (long long)m->alert, (long long)m->made_ms);
    out->body = body.failed ? DT_STR_NONE : dt_arena_copy(arena, dt_strbuf_str(&body));
    dt_strbuf_clear(&body);
    return out->key.p && out->id.p && out->body.p ? DT_OK : DT_NOMEM;
}

static dt_status find_alert_target(const struct dt_config *config, dt_json *json, const struct dt_message_row *m,
                                   struct dt_arena *arena, struct dt_outbox_way *way)
{
    struct dt_alert_setting setting;
    *way = (struct dt_outbox_way){.url = dt_str(config->alerts_url)};
    if (m->target == DT_TO_OUR_URL) { /* the secret is read each time, because its file may have changed */
        struct dt_strbuf secret = {0};
        dt_status known = dt_secret_now(config, &config->alerts_secret, &secret);
        way->has_secret = known == DT_OK && secret.n > 0;
        if (way->has_secret && dt_callback_secret_read(dt_strbuf_str(&secret), &way->secret))
            way->why = "alerts.secret is not a secret";
        dt_secret_forget(&secret);
        return known;
    }
    dt_status status = dt_alert_setting_read(json, m->setting, arena, &setting);
    way->url = setting.url;
    way->has_secret = setting.secret.p != NULL;
    if (!config->callbacks_enabled)
        way->why = "callbacks are not enabled (callbacks.enabled)";
    if (status == DT_OK && setting.url.p && dt_callback_url_check(setting.url, NULL))
        way->why = "alerts.url of the topic is not a URL";
    if (status == DT_OK && setting.secret.p && dt_callback_secret_read(setting.secret, &way->secret))
        way->why = "alerts.secret of the topic is not a secret";
    return status;
}

/* The kind of the outbox's messages. `listed` has room for 10,000 webhooks and as many messages to Kafka. `look_us` is
 * long, because the judge wakes the sender. */
const struct dt_outbox_kind dt_alert_messages = {.kind = DT_MESSAGE_ALERT,
                                                 .chore = "alert-sender",
                                                 .waits = "messages about alerts are not sent",
                                                 .listed = 20480,
                                                 .together = 256,
                                                 .timeout_ms = 5000,
                                                 .look_us = 600000000,
                                                 .again_ms = 1000,
                                                 .again_most_ms = 60000,
                                                 .kept_ms = INT64_C(24) * 3600000,
                                                 .topic = "alerts",
                                                 .area = "alerts",
                                                 .failed = "a message about an alert did not arrive: it is sent again",
                                                 .given_up = "a message about an alert is given up",
                                                 .text = write_alert_text,
                                                 .way = find_alert_target};
