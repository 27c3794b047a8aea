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

static void read_text(const struct dt_json_node *node, struct dt_arena *arena, struct dt_str *out, bool *failed)
{
    if (!node || node->type != DT_JSON_STRING)
        return;
    *out = dt_arena_copy(arena, node->str);
    *failed = *failed || !out->p;
}

static int64_t read_number(const struct dt_json_node *node, int64_t otherwise)
{
    return node && node->type == DT_JSON_INT && node->i >= 0 ? node->i : otherwise;
}

dt_status dt_alert_setting_read(dt_json *json, struct dt_str text, struct dt_arena *arena, struct dt_alert_setting *out)
{
    static const struct dt_json_limits limits = {.depth = 2};
    bool failed = false;
    *out = (struct dt_alert_setting){0};
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        out->limits[i] = DT_ALERT_DEFAULT;
    dt_status status = text.p ? dt_json_parse(json, text, &limits, NULL) : DT_OK;
    if (status != DT_OK || !text.p)
        return status == DT_NOMEM ? status : DT_OK;
    const struct dt_json_node *root = dt_json_root(json);
    if (root->type != DT_JSON_OBJECT)
        return DT_OK;
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        out->limits[i] = read_number(dt_json_member(json, root, names[i + 1]), DT_ALERT_DEFAULT);
    out->mute_until_ms = read_number(dt_json_member(json, root, "mute_until"), 0);
    read_text(dt_json_member(json, root, "url"), arena, &out->url, &failed);
    read_text(dt_json_member(json, root, "secret"), arena, &out->secret, &failed);
    return failed ? DT_NOMEM : DT_OK;
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
