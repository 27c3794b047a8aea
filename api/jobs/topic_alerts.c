/* Alert settings: reading, keeping what is secret, and showing. See topic_alerts.h. */
#include "jobs/topic_alerts.h"

#include "base/text/timetext.h"
#include "job/alert/alert.h"
#include "job/callback/callback_host.h"
#include "job/callback/callback_secret.h"
#include "job/job_encode.h"
#include "jobs/topic_secret.h"

#define LIMIT_MAX INT64_C(1000000000)

static const char at_secret[] = "/alerts/secret";

struct decoder {
    const struct dt_job_rules *rules;
    struct dt_faults *faults;
    struct dt_alert_setting setting;
    bool keeps;
};

/* ---- reading ---- */

static void read_limit(struct decoder *d, const struct dt_json_node *node, enum dt_alert_kind kind)
{
    int64_t *limit = &d->setting.limits[kind - 1];
    const char *reason = NULL;
    if (dt_alert_is_time(kind))
        reason = dt_duration_decode(node, limit);
    else if (node->type != DT_JSON_INT || node->i < 0 || node->i > LIMIT_MAX)
        reason = "must be a number from 0, for never, to 1000000000";
    else
        *limit = node->i;
    if (reason)
        dt_faults_add_member(d->faults, "/alerts", node->name, reason);
}

static void read_url(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason = node->type != DT_JSON_STRING ? "must be a string"
                         : !d->rules->callbacks       ? "callbacks are not enabled here (callbacks.enabled)"
                                                      : dt_callback_url_refusal(node->str, d->rules->allow_hosts);
    if (reason)
        dt_faults_add(d->faults, "/alerts/url", reason);
    else
        d->setting.url = dt_topic_keep_text(d->faults, node->str);
}

static void read_secret(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason = dt_topic_secret_check(node, &d->keeps);
    if (reason)
        dt_faults_add(d->faults, at_secret, reason);
    else
        d->setting.secret = dt_topic_keep_text(d->faults, node->str);
}

static void read_mute(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_STRING || dt_time_parse(node->str, &d->setting.mute_until_ms) != DT_OK ||
        d->setting.mute_until_ms <= 0)
        dt_faults_add(d->faults, "/alerts/mute_until", "must be an RFC 3339 time with an offset, after 1970");
}

static void read_member(struct decoder *d, const struct dt_json_node *node)
{
    for (int kind = 1; kind <= DT_ALERT_TOPIC_KINDS; kind++)
        if (dt_str_is(node->name, dt_alert_kind_name((enum dt_alert_kind)kind))) {
            if (node->type != DT_JSON_NULL)
                read_limit(d, node, (enum dt_alert_kind)kind);
            return;
        }
    static const struct {
        const char *name;
        void (*read)(struct decoder *d, const struct dt_json_node *node);
    } others[] = {{"url", read_url}, {"secret", read_secret}, {"mute_until", read_mute}};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (dt_str_is(node->name, others[i].name)) {
            if (node->type != DT_JSON_NULL)
                others[i].read(d, node);
            return;
        }
    dt_faults_add_member(d->faults, "/alerts", node->name, "is not known");
}

static struct dt_str stored(struct dt_faults *faults, const struct dt_alert_setting *setting)
{
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_alert_setting_write(&text, setting);
    faults->failed = faults->failed || text.failed;
    struct dt_str out = text.n ? dt_topic_keep_text(faults, dt_strbuf_str(&text)) : DT_STR_NONE;
    dt_strbuf_clear(&text);
    return out;
}

void dt_topic_alerts_decode(const dt_json *json, const struct dt_json_node *node, const struct dt_job_rules *rules,
                            struct dt_faults *faults, struct dt_topic_setting *setting)
{
    struct decoder d = {.rules = rules, .faults = faults};
    if (node->type == DT_JSON_NULL)
        return;
    if (node->type != DT_JSON_OBJECT) {
        dt_faults_add(faults, "/alerts", "must be an object");
        return;
    }
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        d.setting.limits[i] = DT_ALERT_DEFAULT;
    for (const struct dt_json_node *m = dt_json_first(json, node); m; m = dt_json_sibling(json, node, m))
        read_member(&d, m);
    if (d.setting.secret.p && !d.setting.url.p && !faults->n)
        dt_faults_add(faults, at_secret, "needs a url: it is sent nowhere else");
    setting->topic.alerts = stored(faults, &d.setting);
    setting->keeps |= d.keeps;
}

/* ---- keeping ---- */

dt_status dt_topic_alerts_keep(dt_json *json, const struct dt_topic *there, struct dt_faults *faults,
                               struct dt_topic *out)
{
    struct dt_alert_setting wanted;
    struct dt_alert_setting had;
    dt_status status = dt_alert_setting_read(json, out->alerts, faults->arena, &wanted);
    if (status == DT_OK)
        status = dt_alert_setting_read(json, there ? there->alerts : DT_STR_NONE, faults->arena, &had);
    if (status != DT_OK || !wanted.secret.p)
        return status;
    const bool widen = dt_callback_places_widen(&(struct dt_callback_places){.url = had.url},
                                                &(struct dt_callback_places){.url = wanted.url});
    wanted.secret = dt_topic_secret_keep(wanted.secret, had.secret, widen, at_secret, faults);
    out->alerts = stored(faults, &wanted);
    if (faults->failed)
        return DT_NOMEM;
    return faults->n > 0 ? DT_INVALID : DT_OK;
}

/* ---- answers ---- */

void dt_topic_alerts_add(struct dt_strbuf *out, const struct dt_topic *topic)
{
    struct dt_alert_setting setting;
    struct dt_arena arena;
    dt_json *json = NULL;
    dt_strbuf_adds(out, ",\"alerts\":");
    if (!topic->alerts.p) {
        dt_strbuf_adds(out, "null");
        return;
    }
    dt_arena_init(&arena);
    if (dt_json_new(&json) != DT_OK || dt_alert_setting_read(json, topic->alerts, &arena, &setting) != DT_OK) {
        out->failed = true;
        goto end;
    }
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++) {
        const enum dt_alert_kind kind = (enum dt_alert_kind)(i + 1);
        dt_strbuf_addf(out, "%c\"%s\":", i == 0 ? '{' : ',', dt_alert_kind_name(kind));
        if (setting.limits[i] < 0)
            dt_strbuf_adds(out, "null");
        else if (dt_alert_is_time(kind))
            dt_json_add_duration(out, setting.limits[i]);
        else
            dt_strbuf_add_i64(out, setting.limits[i]);
    }
    dt_strbuf_adds(out, ",\"url\":");
    dt_json_add_string_or_null(out, setting.url);
    dt_strbuf_adds(out, setting.secret.p ? ",\"secret\":\"" DT_TOPIC_HIDDEN "\",\"mute_until\":"
                                         : ",\"secret\":null,\"mute_until\":");
    dt_json_add_time(out, setting.mute_until_ms);
    dt_strbuf_addc(out, '}');
end:
    dt_json_free(json);
    dt_arena_clear(&arena);
}
