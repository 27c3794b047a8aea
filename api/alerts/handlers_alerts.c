/* Alerts that stand: list, silence. The judge begins and ends them (scheduler/alerts). */
#include <stdio.h>

#include "answer.h"
#include "api.h"
#include "auth/auth.h"
#include "base/text/timetext.h"
#include "handlers.h"
#include "job/job_encode.h"
#include "job/result_json.h"
#include "store/alerts/alerts.h"
#include "work/workers.h"

#define BY_ALERT    'l'
#define ALERT_BYTES ((size_t)2 << 10)

static void add_alert(struct dt_strbuf *out, const struct dt_alert *alert)
{
    dt_strbuf_addc(out, '{');
    dt_alert_add_members(out, alert);
    dt_strbuf_adds(out, ",\"told_at\":");
    dt_json_add_time(out, alert->told_at_ms);
    dt_strbuf_adds(out, ",\"silenced_until\":");
    dt_json_add_time(out, alert->silenced_until_ms);
    dt_strbuf_addc(out, '}');
}

static enum dt_next silence_alert(struct dt_request *req, dt_store *store)
{
    struct dt_alert_silence *silence = req->state;
    struct dt_alert alert = {0};
    struct dt_error err = {0};
    silence->bound = dt_caller_bound(&req->caller);
    dt_status status = dt_store_alert_silence(store, silence, &req->arena, &alert, &err);
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "alert");
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    req->status = 200;
    dt_strbuf_reset(&req->out);
    add_alert(&req->out, &alert);
    return DT_REPLY;
}

static void read_silence(const dt_json *json, int64_t now_ms, struct dt_faults *faults, int64_t *until_ms)
{
    const struct dt_json_node *body = dt_json_root(json);
    int64_t ms = 0;
    if (body->type != DT_JSON_OBJECT) {
        dt_faults_add(faults, "", "must be an object");
        return;
    }
    if (body->n > 1)
        dt_faults_add(faults, "", "has until or for, not both");
    for (const struct dt_json_node *m = dt_json_first(json, body); m; m = dt_json_sibling(json, body, m)) {
        bool is_until = dt_str_is(m->name, "until");
        if (is_until && (m->type != DT_JSON_STRING || dt_time_parse(m->str, until_ms) != DT_OK || *until_ms <= 0))
            dt_faults_add(faults, "/until", "must be an RFC 3339 time with an offset, after 1970");
        else if (dt_str_is(m->name, "for") && dt_duration_decode(m, &ms))
            dt_faults_add(faults, "/for", dt_duration_decode(m, &ms));
        else if (dt_str_is(m->name, "for"))
            *until_ms = now_ms + ms;
        else if (!is_until)
            dt_faults_add_member(faults, "", m->name, "is not known");
    }
}

enum dt_next dt_handle_alert_silence(struct dt_request *req)
{
    const struct dt_job_rules rules = dt_answer_rules(req->api, NULL);
    struct dt_alert_silence *silence = dt_arena_alloc(&req->arena, sizeof(*silence));
    struct dt_faults faults;
    if (!silence)
        return dt_answer_status(req, DT_NOMEM, NULL, NULL);
    *silence = (struct dt_alert_silence){.until_ms = DT_TIME_MAX_MS};
    if (!dt_job_id_parse(req->params[0], &silence->id))
        return dt_answer_not_found(req, "alert");
    if (!dt_answer_clock(req))
        return DT_REPLY;
    dt_json *json = req->body.n ? dt_answer_parse(req, &rules, &faults) : NULL;
    if (req->body.n && !json)
        return DT_REPLY;
    if (json) {
        read_silence(json, dt_refclock_real_latest_ms(req->api->ref), &faults, &silence->until_ms);
        if (faults.n > 0)
            return dt_answer_faults(req, DT_INVALID, &faults);
    }
    req->state = silence;
    return dt_workers_submit(req->api->workers, req, silence_alert);
}

static enum dt_next list_alerts(struct dt_request *req, dt_store *store)
{
    const struct dt_id_page *page = req->state;
    const struct dt_topic_bound *bound = dt_caller_bound(&req->caller);
    struct dt_alert_list list;
    struct dt_error err = {0};
    struct dt_arena rows;
    bool first = true;
    if (!dt_hold_bulk(&req->hold, dt_page_room(page->limit * ALERT_BYTES)))
        return dt_request_no_room(req);
    dt_arena_init(&rows);
    dt_status status = dt_store_alerts(store, page->id, page->limit, &rows, &list, &err);
    if (status != DT_OK) {
        dt_arena_clear(&rows);
        return dt_answer_status(req, status, NULL, &err);
    }
    req->status = 200;
    dt_strbuf_reset(&req->out);
    dt_strbuf_adds(&req->out, "{\"alerts\":[");
    for (size_t i = 0; i < list.n; i++) {
        /* Alerts of the installation are for tokens that see all topics. */
        if (bound && !(list.v[i].topic.p && dt_topic_within(bound, list.v[i].topic)))
            continue;
        if (!first)
            dt_strbuf_addc(&req->out, ',');
        add_alert(&req->out, &list.v[i]);
        first = false;
    }
    dt_answer_next_id(req, &page->cursor, list.n == page->limit, list.n ? list.v[list.n - 1].id : 0);
    dt_arena_clear(&rows);
    return DT_REPLY;
}

enum dt_next dt_handle_alert_list(struct dt_request *req)
{
    req->state = dt_answer_id_page(req, BY_ALERT, 0);
    return req->state ? dt_workers_submit(req->api->workers, req, list_alerts) : DT_REPLY;
}
