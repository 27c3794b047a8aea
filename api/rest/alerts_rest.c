/* Alerts: list and silence; and the alert settings of a topic. The chore in scheduler/features/alerts raises and ends
 * alerts. */

#include "alerts_rest.h"
#include "answer.h"
#include "base/http/callback_rules.h"
#include "base/text/timetext.h"
#include "features/alerts/alerts.h"
#include "handlers.h"
#include "job/results/results.h"
#include "topics_rest.h"

static void add_alert(struct dt_strbuf *out, const struct dt_alert *alert)
{
    dt_json_begin_object(out, NULL);
    dt_alert_add_members(out, alert);
    dt_json_put_time(out, "told_at", alert->told_at_ms);
    dt_json_put_time(out, "silenced_until", alert->silenced_until_ms);
    dt_json_end_object(out);
}

static enum dt_next silence_alert(struct dt_request *req, dt_store *store)
{
    struct dt_alert_silence *silence = req->state;
    struct dt_alert alert = {0};
    struct dt_error err = {0};
    silence->bound = dt_wall_bound(req);
    dt_status status = dt_store_alert_silence(store, silence, &req->arena, &alert, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "alert", &err);
    req->status = 200;
    dt_strbuf_reset(&req->out);
    add_alert(&req->out, &alert);
    return DT_REPLY;
}

struct silence_body {
    int64_t until_ms, for_ms;
    bool has_for;
};

static const struct dt_json_field silence_fields[] = {
    DT_FIELD("until", TIME, struct silence_body, until_ms, .min = 1, .reason = DT_REASON_AFTER_1970),
    DT_FIELD("for", DURATION, struct silence_body, for_ms, .has = offsetof(struct silence_body, has_for)),
};
static const struct dt_json_table silence_table = DT_TABLE(silence_fields, .unknown = DT_REASON_UNKNOWN);

static dt_status decode_silence(struct dt_request *req, const dt_json *json, const struct dt_job_rules *,
                                struct dt_faults *faults)
{
    struct dt_alert_silence *silence = req->state;
    struct silence_body body = {.until_ms = silence->until_ms};
    struct dt_json_reader r = {.json = json, .faults = faults, .out = &body};
    const struct dt_json_node *root = dt_json_root(json);
    if (root->type == DT_JSON_OBJECT && root->n > 1)
        dt_faults_add(faults, "", "must have until or for, not both");
    (void)dt_json_read(&r, &silence_table, root);
    silence->until_ms = body.has_for ? dt_refclock_real_latest_ms(req->api->ref) + body.for_ms : body.until_ms;
    return DT_OK;
}

enum dt_next dt_handle_alert_silence(struct dt_request *req)
{
    struct dt_alert_silence *silence = dt_answer_state(req, sizeof(*silence));
    if (!silence)
        return DT_REPLY;
    silence->until_ms = DT_TIME_MAX_MS;
    if (!dt_job_id_parse(req->params[0], &silence->id))
        return dt_answer_not_found(req, "alert");
    if (!dt_answer_clock(req) || (req->body.n && !dt_answer_decode(req, decode_silence)))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, silence_alert);
}

static dt_status write_alerts(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct dt_page *page = req->state;
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    struct dt_alert_list list;
    dt_status status = dt_store_alerts(store, page->id, page->end.rows, rows, &list, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "alerts");
    for (size_t i = 0; i < list.n; i++)
        /* Only tokens that see all topics may see alerts of the whole installation. */
        if (!bound || (list.v[i].topic.p && dt_topic_within(bound, list.v[i].topic)))
            add_alert(&req->out, &list.v[i]);
    dt_answer_next_id(req, &page->cursor, list.n == page->end.rows, list.n ? list.v[list.n - 1].id : 0);
    return DT_OK;
}

const struct dt_list dt_list_of_alerts = {
    .letter = 'l', .row = "alert", .row_bytes = (size_t)2 << 10, .write = write_alerts};

/* ---- settings of a topic ---- */

static const char at_secret[] = "/alerts/secret";

struct alerts_body {
    struct dt_alert_setting setting;
    bool keeps;
};

static const char *check_alert_url(struct dt_json_reader *r, struct dt_str text)
{
    const struct dt_job_rules *rules = r->context;
    return rules->callbacks ? dt_check_callback_url(r, text) : "callbacks are not enabled here (callbacks.enabled)";
}

static const char *check_alert_secret(struct dt_json_reader *r, struct dt_str text)
{
    return dt_topic_secret_check(text, &((struct alerts_body *)r->out)->keeps);
}

#define LIMIT(name, kind, number, ...)                                                                                 \
    DT_FIELD(name, kind, struct alerts_body, setting.limits[DT_ALERT_##number - 1], .flags = DT_FIELD_NULLABLE,        \
             .absent = DT_ALERT_DEFAULT, __VA_ARGS__)
#define NUMBER .max = 1000000000, .reason = "must be a number from 0, for never, to 1000000000"

static const struct dt_json_field alerts_fields[] = {
    LIMIT("overdue", DURATION, OVERDUE),
    LIMIT("backlog", COUNT, BACKLOG, NUMBER),
    LIMIT("dead", COUNT, DEAD, NUMBER),
    LIMIT("unreported", DURATION, UNREPORTED),
    DT_FIELD("url", TEXT, struct alerts_body, setting.url, .flags = DT_FIELD_NULLABLE, .judge = check_alert_url),
    DT_FIELD("secret", TEXT, struct alerts_body, setting.secret, .flags = DT_FIELD_NULLABLE,
             .judge = check_alert_secret),
    DT_FIELD("mute_until", TIME, struct alerts_body, setting.mute_until_ms, .flags = DT_FIELD_NULLABLE, .min = 1,
             .reason = DT_REASON_AFTER_1970),
};
static const struct dt_json_table alerts_table = DT_TABLE(alerts_fields, .unknown = DT_REASON_UNKNOWN);

static struct dt_str format_stored_setting(struct dt_faults *faults, const struct dt_alert_setting *setting)
{
    struct dt_strbuf text = {0};
    dt_alert_setting_write(&text, setting);
    faults->failed = faults->failed || text.failed;
    struct dt_str out = text.n ? dt_json_keep(faults, dt_strbuf_str(&text)) : DT_STR_NONE;
    dt_strbuf_clear(&text);
    return out;
}

void dt_topic_alerts_decode(struct dt_json_reader *r, const struct dt_json_field *field,
                            const struct dt_json_node *node)
{
    struct dt_topic_setting *setting = r->out;
    struct alerts_body body = {.keeps = false};
    struct dt_json_reader alerts = {
        .json = r->json, .faults = r->faults, .out = &body, .context = r->context, .parent = "/alerts"};
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++)
        body.setting.limits[i] = DT_ALERT_DEFAULT;
    if (!dt_json_read(&alerts, &alerts_table, node))
        return;
    if (body.setting.secret.p && !body.setting.url.p && !r->faults->n)
        dt_faults_add(r->faults, at_secret, "requires a url");
    *(struct dt_str *)dt_json_place(r, field) = format_stored_setting(r->faults, &body.setting);
    setting->keeps |= body.keeps;
}

dt_status dt_topic_alerts_keep(dt_json *json, const struct dt_topic *there, struct dt_faults *faults,
                               struct dt_topic *out)
{
    struct dt_alert_setting wanted;
    struct dt_alert_setting had;
    dt_status status = dt_alert_setting_read(json, out->alerts, faults->arena, &wanted);
    DT_THEN(status, dt_alert_setting_read(json, there ? there->alerts : DT_STR_NONE, faults->arena, &had));
    if (status != DT_OK || !wanted.secret.p)
        return status;
    const bool widen = dt_callback_places_widen(&(struct dt_callback_places){.url = had.url},
                                                &(struct dt_callback_places){.url = wanted.url});
    wanted.secret = dt_topic_secret_keep(wanted.secret, had.secret, widen, at_secret, faults);
    out->alerts = format_stored_setting(faults, &wanted);
    return dt_faults_status(faults);
}

void dt_topic_alerts_add(struct dt_strbuf *out, const struct dt_topic *topic)
{
    struct dt_alert_setting setting;
    struct dt_arena arena = {0};
    dt_json *json = NULL;
    if (!topic->alerts.p) {
        dt_json_put_null(out, "alerts");
        return;
    }
    if (dt_json_new(&json) != DT_OK || dt_alert_setting_read(json, topic->alerts, &arena, &setting) != DT_OK) {
        out->failed = true;
        goto end;
    }
    dt_json_begin_object(out, "alerts");
    for (int i = 0; i < DT_ALERT_TOPIC_KINDS; i++) {
        const enum dt_alert_kind kind = (enum dt_alert_kind)(i + 1);
        const char *name = dt_alert_kind_name(kind);
        if (dt_alert_is_time(kind))
            dt_json_put_duration_or_null(out, name, setting.limits[i] >= 0, setting.limits[i]);
        else
            dt_json_put_int_or_null(out, name, setting.limits[i] >= 0, setting.limits[i]);
    }
    dt_json_put_string(out, "url", setting.url);
    dt_json_put_word(out, "secret", setting.secret.p ? DT_TOPIC_HIDDEN : NULL);
    dt_json_put_time(out, "mute_until", setting.mute_until_ms);
    dt_json_end_object(out);
end:
    dt_json_free(json);
    dt_arena_clear(&arena);
}
