/* Alerts as text: see alert.h. */
#include "job/alert/alert.h"

#include "job/job_encode.h"

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

/* ---- settings ---- */

#define LIMIT(name, kind) DT_FIELD(name, COUNT, struct dt_alert_setting, limits[kind - 1], .max = INT64_MAX)

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
    struct dt_faults spoiled; /* by manual edits: not reported */
    struct dt_json_reader r = {.json = json, .faults = &spoiled, .out = out};
    dt_faults_init(&spoiled, arena);
    *out = (struct dt_alert_setting){0};
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        out->limits[i] = DT_ALERT_DEFAULT;
    const dt_status status = text.p ? dt_json_parse(json, text, &limits, NULL) : DT_NOT_FOUND;
    if (status == DT_OK)
        dt_json_read(&r, &table, dt_json_root(json));
    return status == DT_NOMEM || spoiled.failed ? DT_NOMEM : DT_OK;
}

static void add_name(struct dt_strbuf *out, size_t empty, const char *name)
{
    dt_strbuf_adds(out, out->n > empty ? ",\"" : "{\"");
    dt_strbuf_adds(out, name);
    dt_strbuf_adds(out, "\":");
}

void dt_alert_setting_write(struct dt_strbuf *out, const struct dt_alert_setting *setting)
{
    const struct dt_str texts[] = {setting->url, setting->secret};
    static const char *const text_names[] = {"url", "secret"};
    const size_t empty = out->n;
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        if (setting->limits[i] >= 0) {
            add_name(out, empty, names[i + 1]);
            dt_strbuf_add_i64(out, setting->limits[i]);
        }
    if (setting->mute_until_ms > 0) {
        add_name(out, empty, "mute_until");
        dt_strbuf_add_i64(out, setting->mute_until_ms);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (texts[i].p) {
            add_name(out, empty, text_names[i]);
            dt_json_add_string(out, texts[i]);
        }
    if (out->n > empty)
        dt_strbuf_addc(out, '}');
}

/* ---- telling ---- */

static void add_figure(struct dt_strbuf *out, const char *name, enum dt_alert_kind kind, int64_t figure)
{
    dt_strbuf_adds(out, name);
    if (dt_alert_is_time(kind))
        dt_json_add_duration(out, figure);
    else
        dt_strbuf_add_i64(out, figure);
}

void dt_alert_add_members(struct dt_strbuf *out, const struct dt_alert *alert)
{
    dt_strbuf_addf(out, "\"id\":\"%lld\",\"topic\":", (long long)alert->id);
    dt_json_add_string_or_null(out, alert->topic);
    dt_strbuf_addf(out, ",\"kind\":\"%s\"", names[alert->kind]);
    add_figure(out, ",\"value\":", alert->kind, alert->value);
    add_figure(out, ",\"limit\":", alert->kind, alert->limit);
    dt_strbuf_adds(out, ",\"began_at\":");
    dt_json_add_time(out, alert->began_at_ms);
}

void dt_alert_add_message(struct dt_strbuf *out, const struct dt_alert *alert, enum dt_alert_event event,
                          int64_t made_at_ms)
{
    static const char *const events[] = {"", "began", "reminded", "ended"};
    dt_strbuf_addf(out, "{\"type\":\"alert.%s\",\"timestamp\":", events[event]);
    dt_json_add_time(out, made_at_ms);
    dt_strbuf_adds(out, ",\"data\":{");
    dt_alert_add_members(out, alert);
    dt_strbuf_adds(out, "}}");
}
