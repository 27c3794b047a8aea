/* Alerts as text: see alerts.h. */
#include "alerts.h"
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
