/* Alerts that stand: list, silence. The judge begins and ends them (scheduler/alerts). */
#include <stdio.h>

#include "answer.h"
#include "api.h"
#include "base/text/json_table.h"
#include "base/text/timetext.h"
#include "features/alerts/alerts.h"
#include "handlers.h"
#include "job/job_encode.h"
#include "job/results/result_json.h"
#include "request/request.h"
#include "request/workers.h"

#define BY_ALERT    'l'
#define ALERT_BYTES ((size_t)2 << 10)

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

struct body {
    int64_t until_ms, for_ms;
    bool has_for;
};

static const struct dt_json_field fields[] = {
    DT_FIELD("until", TIME, struct body, until_ms, .min = 1, .reason = DT_REASON_AFTER_1970),
    DT_FIELD("for", DURATION, struct body, for_ms, .has = offsetof(struct body, has_for)),
};
static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);

enum dt_next dt_handle_alert_silence(struct dt_request *req)
{
    const struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_alert_silence *silence = dt_answer_state(req, sizeof(*silence));
    struct dt_faults faults;
    if (!silence)
        return DT_REPLY;
    *silence = (struct dt_alert_silence){.until_ms = DT_TIME_MAX_MS};
    if (!dt_job_id_parse(req->params[0], &silence->id))
        return dt_answer_not_found(req, "alert");
    if (!dt_answer_clock(req))
        return DT_REPLY;
    dt_json *json = req->body.n ? dt_answer_parse(req, &rules, &faults) : NULL;
    if (req->body.n && !json)
        return DT_REPLY;
    if (json) {
        struct body body = {.until_ms = silence->until_ms};
        struct dt_json_reader r = {.json = json, .faults = &faults, .out = &body};
        const struct dt_json_node *root = dt_json_root(json);
        if (root->type == DT_JSON_OBJECT && root->n > 1)
            dt_faults_add(&faults, "", "has until or for, not both");
        if (!dt_json_read(&r, &table, root) || dt_faults_status(&faults) != DT_OK)
            return dt_answer_faults(req, dt_faults_status(&faults), &faults);
        silence->until_ms = body.has_for ? dt_refclock_real_latest_ms(req->api->ref) + body.for_ms : body.until_ms;
    }
    return dt_workers_submit(req->api->workers, req, silence_alert);
}

static dt_status write_alerts(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct dt_id_page *page = req->state;
    const struct dt_topic_bound *bound = dt_wall_bound(req);
    struct dt_alert_list list;
    dt_status status = dt_store_alerts(store, page->id, page->limit, rows, &list, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "alerts");
    for (size_t i = 0; i < list.n; i++)
        /* Alerts of the installation are for tokens that see all topics. */
        if (!bound || (list.v[i].topic.p && dt_topic_within(bound, list.v[i].topic)))
            add_alert(&req->out, &list.v[i]);
    dt_answer_next_id(req, &page->cursor, list.n == page->limit, list.n ? list.v[list.n - 1].id : 0);
    return DT_OK;
}

static enum dt_next list_alerts(struct dt_request *req, dt_store *store)
{
    const struct dt_id_page *page = req->state;
    return dt_answer_page(req, store, dt_page_room(page->limit * ALERT_BYTES), "alert", write_alerts);
}

enum dt_next dt_handle_alert_list(struct dt_request *req)
{
    req->state = dt_answer_id_page(req, BY_ALERT, 0);
    return req->state ? dt_workers_submit(req->api->workers, req, list_alerts) : DT_REPLY;
}
