/* The tables of operations and of their filters. See operation_json.h. */
#include "operation_json.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "job/job_id.h"
#include "job/list/list.h"
#include "job/results/result_json.h"
#include "topic/rate.h"

#define ERROR_CODE_MAX 100
#define FILTER_MAX     65535 /* bytes of the filter as it is kept, without white space */
#define RATE           "must be a number of jobs a second or a minute, such as \"1000/s\" or \"600/m\""

/* For the functions of the tables. */
struct context {
    const struct dt_job_rules *rules;
    int64_t now_ms;
};

/* ---- the filter ---- */

bool dt_operation_topic_is_prefix(struct dt_str topic)
{
    return topic.n > 0 && topic.p[topic.n - 1] == '*';
}

static void read_topic(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    bool text = node->type == DT_JSON_STRING;
    struct dt_str name = node->str;
    if (text && dt_operation_topic_is_prefix(name))
        name.n--;
    const char *reason = !text ? "must be a string" : NULL;
    if (text && (name.n == node->str.n || name.n > 0))
        reason = dt_topic_check(name, DT_STR_LIT(""));
    if (reason)
        dt_json_fault(r, field, reason);
    *(struct dt_str *)dt_json_place(r, field) = text ? dt_json_keep(r->faults, node->str) : DT_STR_LIT("?");
}

static void read_state(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const bool dead = ((const struct dt_operation_body *)r->out)->ask.kind == DT_OPERATION_REDRIVE;
    if (node->type != DT_JSON_STRING || !dt_str_is(node->str, dead ? "dead" : "scheduled"))
        dt_json_fault(r, field,
                      dead ? "must be \"dead\": others cannot be redriven"
                           : "must be \"scheduled\": jobs in other states stay as they are");
}

static void read_ids(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_operation_filter *f = &((struct dt_operation_body *)r->out)->ask.filter;
    size_t n = 0;
    if (node->type != DT_JSON_ARRAY || node->n < 1 || node->n > DT_OPERATION_IDS_MAX) {
        dt_json_faultf(r, field, "must be a list of 1 to %d ids", DT_OPERATION_IDS_MAX);
        return;
    }
    f->ids = dt_arena_alloc(r->faults->arena, node->n * sizeof(*f->ids));
    r->faults->failed |= !f->ids;
    for (const struct dt_json_node *i = dt_json_first(r->json, node); i && f->ids;
         i = dt_json_sibling(r->json, node, i)) {
        dt_assert_cmp(n, <, node->n);
        if (i->type == DT_JSON_STRING && dt_job_id_parse(i->str, &f->ids[n]))
            n++;
        else
            dt_json_fault(r, field, "must hold ids of jobs, as strings");
    }
    if (!f->ids)
        return;
    qsort(f->ids, n, sizeof(*f->ids), dt_by_job_id);
    f->n_ids = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || f->ids[f->n_ids - 1] != f->ids[i])
            f->ids[f->n_ids++] = f->ids[i];
}

#define BODY struct dt_operation_body
#define BOUND(name, times, bound)                                                                                      \
    DT_FIELD(name, TIME, BODY, ask.filter.times.bound, .has = offsetof(BODY, ask.filter.times.given))

static const struct dt_json_field filter_fields[] = {
    DT_FIELD("topic", TEXT, BODY, ask.filter.topic, .read = read_topic),
    DT_FIELD_BY("state", read_state),
    DT_FIELD("key_prefix", TEXT, BODY, ask.filter.key_prefix, .min = 1, .max = DT_KEY_MAX),
    BOUND("run_from", run, from_ms),
    BOUND("run_to", run, to_ms),
    BOUND("created_from", created, from_ms),
    BOUND("created_to", created, to_ms),
    BOUND("failed_from", failed, from_ms),
    BOUND("failed_to", failed, to_ms),
    DT_FIELD("error_code", TEXT, BODY, ask.filter.error_code, .min = 1, .max = ERROR_CODE_MAX),
    DT_FIELD_BY("ids", read_ids),
};
static const struct dt_json_table filter_table =
    DT_TABLE(filter_fields, .object = "must be an object that is not empty", .unknown = "is unknown here");

/* ---- members ---- */

static void read_filter(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_json_reader filter = *r;
    struct dt_str *request = dt_json_place(r, field);
    struct dt_strbuf compact;
    dt_strbuf_init(&compact);
    dt_json_add_compact(&compact, node->raw);
    r->faults->failed |= compact.failed;
    *request = dt_json_keep(r->faults, dt_strbuf_str(&compact));
    dt_strbuf_clear(&compact);
    if (request->n > FILTER_MAX)
        dt_json_faultf(r, field, "has %zu bytes, %d are allowed", request->n, FILTER_MAX);
    filter.parent = "/filter";
    if (node->type == DT_JSON_OBJECT && node->n == 0)
        dt_json_fault(r, field, filter_table.object);
    else
        dt_json_read(&filter, &filter_table, node);
}

static const char *check_rate(struct dt_str text)
{
    int64_t interval_ns;
    return dt_rate_parse(text, &interval_ns) ? NULL : RATE;
}

static void read_run_at(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const struct context *context = r->context;
    dt_json_read_value(r, field, node);
    if (*(int64_t *)dt_json_place(r, field) > context->now_ms + context->rules->max_delay_ms)
        dt_json_fault(r, field, "is further ahead than limits.max_delay allows");
}

/* A duration that is not longer than a job may be away. */
static void read_distance(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const int64_t max_ms = ((const struct context *)r->context)->rules->max_delay_ms;
    int64_t *ms = dt_json_place(r, field);
    const char *reason = dt_duration_decode(node, ms);
    if (reason)
        dt_json_fault(r, field, reason);
    else if (*ms > max_ms)
        dt_json_faultf(r, field, "must be at most %lld seconds", (long long)(max_ms / 1000));
}

/* A duration, perhaps with a sign before it. */
static void read_shift(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    int64_t *ms = dt_json_place(r, field);
    struct dt_json_node plain = *node;
    bool text = node->type == DT_JSON_STRING || node->type == DT_JSON_NUMBER;
    bool back = text && node->str.n > 0 && node->str.p[0] == '-';
    bool fewer = node->type == DT_JSON_INT && node->i < 0;
    if (back) {
        plain.str.p++;
        plain.str.n--;
    }
    if (fewer)
        plain.i = node->i > INT64_MIN ? -node->i : INT64_MAX;
    read_distance(r, field, &plain);
    if (back || fewer)
        *ms = -*ms;
}

enum { RUN_AT, DELAY, SHIFT, SPREAD, FILTER }; /* rows */

static const struct dt_json_field fields[] = {
    [RUN_AT] = DT_FIELD("run_at", TIME, BODY, ask.at_ms, .read = read_run_at),
    [DELAY] = DT_FIELD("delay", DURATION, BODY, ask.at_ms, .read = read_distance, .has = offsetof(BODY, ask.delays)),
    [SHIFT] = DT_FIELD("shift", DURATION, BODY, ask.shift_ms, .read = read_shift, .has = offsetof(BODY, ask.shifts)),
    [SPREAD] = DT_FIELD("spread", DURATION, BODY, ask.spread_ms, .read = read_distance),
    [FILTER] = DT_FIELD("filter", TEXT, BODY, ask.request, .read = read_filter),
    DT_FIELD("dry_run", FLAG, BODY, dry_run),
    DT_FIELD("rate", TEXT, BODY, ask.rate, .check = check_rate, .reason = RATE),
    DT_FIELD("wait", DURATION, BODY, wait_ms, .max = DT_OPERATION_WAIT_MAX_MS, .reason = "must be at most 60 seconds"),
};

/* The first rows are of a reschedule only. */
static bool admits(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const bool reschedules = ((const struct dt_operation_body *)r->out)->ask.kind == DT_OPERATION_RESCHEDULE;
    if (field && (reschedules || field >= &fields[FILTER]))
        return true;
    dt_faults_add_member(r->faults, "", node->name, filter_table.unknown);
    return false;
}

static const struct dt_json_table table = DT_TABLE(fields, .admits = admits);

/* ---- what belongs together ---- */

static void check_filter(const struct dt_json_reader *r)
{
    const struct dt_operation_filter *f = &((const struct dt_operation_body *)r->out)->ask.filter;
    if (!dt_json_given(r, FILTER))
        dt_faults_add(r->faults, "/filter", "is required");
    else if (r->faults->n == 0 && !f->topic.p && !f->n_ids)
        dt_faults_add(r->faults, "/filter/topic", "is required, unless there are ids");
    if (f->key_prefix.p && (!f->topic.p || dt_operation_topic_is_prefix(f->topic)))
        dt_faults_add(r->faults, "/filter/key_prefix", "needs one topic");
    if (f->run.from_ms > f->run.to_ms)
        dt_faults_add(r->faults, "/filter/run_from", "is after run_to");
    if (f->created.from_ms > f->created.to_ms)
        dt_faults_add(r->faults, "/filter/created_from", "is after created_to");
    if (f->failed.from_ms > f->failed.to_ms)
        dt_faults_add(r->faults, "/filter/failed_from", "is after failed_to");
}

static void check_time(const struct dt_json_reader *r)
{
    const struct dt_operation_ask *ask = &((const struct dt_operation_body *)r->out)->ask;
    const struct context *context = r->context;
    const bool has_run_at = dt_json_given(r, RUN_AT);
    if (ask->kind != DT_OPERATION_RESCHEDULE)
        return;
    if (has_run_at + ask->delays + ask->shifts != 1)
        dt_faults_add(r->faults,
                      has_run_at    ? "/run_at"
                      : ask->delays ? "/delay"
                                    : "/shift",
                      "give exactly one of run_at, delay and shift");
    /* The last job of a spread may not go further than a request for it alone could have it. */
    int64_t begins_ms = ask->delays ? ask->at_ms : dt_later(ask->at_ms, context->now_ms) - context->now_ms;
    if (ask->shifts && ask->spread_ms)
        dt_faults_add(r->faults, "/spread", "does not go with shift");
    else if (r->faults->n == 0 && !ask->shifts && ask->spread_ms > context->rules->max_delay_ms - begins_ms)
        dt_faults_add(r->faults, "/spread", "ends further ahead than limits.max_delay allows");
}

dt_status dt_operation_decode(const dt_json *json, const struct dt_job_rules *rules, enum dt_operation_kind kind,
                              int64_t now_ms, struct dt_faults *faults, struct dt_operation_body *out)
{
    static const struct dt_list_times any = {.from_ms = INT64_MIN, .to_ms = INT64_MAX};
    const struct context context = {rules, now_ms};
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out, .context = &context};
    *out = (struct dt_operation_body){.ask = {.kind = kind, .filter = {.run = any, .created = any, .failed = any}},
                                      .wait_ms = DT_OPERATION_WAIT_MS};
    if (dt_json_read(&r, &table, dt_json_root(json))) {
        check_filter(&r);
        check_time(&r);
    }
    return dt_faults_status(faults);
}

/* ---- answers ---- */

void dt_operation_add(struct dt_strbuf *out, const struct dt_operation *op)
{
    static const char *const kinds[] = {"cancel", "reschedule", "redrive", "run-now", "delete-topic"};
    static const char *const states[] = {"running", "done", "stopped", "failed"};
    dt_json_begin_object(out, NULL);
    if (op->id)
        dt_json_put_id(out, "id", op->id);
    dt_json_put_word(out, "kind", kinds[op->kind]);
    dt_json_put_word(out, "state", states[op->state]);
    dt_json_put_bool(out, "dry_run", !op->id);
    dt_json_put_raw(out, "filter", op->request);
    dt_json_put_int(out, "matched", op->matched);
    dt_json_put_int(out, "changed", op->changed);
    dt_json_put_int(out, "refused", op->refused);
    dt_json_put_raw(out, "sample", op->sample);
    dt_json_put_given(out, "rate", op->rate);
    dt_json_put_given(out, "error", op->error);
    dt_json_put_time(out, "started_at", op->started_at_ms);
    dt_json_put_time(out, "finished_at", op->finished_at_ms);
    dt_json_end_object(out);
}
