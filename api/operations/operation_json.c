/* One function a member, as everywhere bodies are read. See operation_json.h. */
#include "operation_json.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/text/timetext.h"
#include "job/job_id.h"
#include "job/rate.h"
#include "job/result_json.h"

#define ERROR_CODE_MAX 100
#define FILTER_MAX     65535 /* bytes of the filter as it is kept, without white space */

struct decoder {
    const dt_json *json;
    const struct dt_job_rules *rules;
    int64_t now_ms;
    struct dt_faults *faults;
    struct dt_operation_body *out;
    bool has_run_at, has_delay, has_filter;
    unsigned members; /* of the filter */
};

static struct dt_operation_filter *filter_of(struct decoder *d)
{
    return &d->out->ask.filter;
}

static struct dt_str keep(struct decoder *d, struct dt_str text)
{
    struct dt_str copy = dt_arena_copy(d->faults->arena, text);
    d->faults->failed |= !copy.p;
    return copy;
}

static void read_text(struct decoder *d, const struct dt_json_node *node, const char *pointer, size_t max,
                      struct dt_str *out)
{
    if (node->type != DT_JSON_STRING || node->str.n < 1 || node->str.n > max)
        dt_faults_addf(d->faults, pointer, "must be a string of 1 to %zu bytes", max);
    else
        *out = keep(d, node->str);
}

static void read_time(struct decoder *d, const struct dt_json_node *node, const char *pointer, int64_t *out)
{
    if (node->type != DT_JSON_STRING || dt_time_parse(node->str, out) != DT_OK)
        dt_faults_add(d->faults, pointer, "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z");
}

static void read_duration(struct decoder *d, const struct dt_json_node *node, const char *pointer, int64_t max_ms,
                          int64_t *out)
{
    const char *reason = dt_duration_decode(node, out);
    if (reason)
        dt_faults_add(d->faults, pointer, reason);
    else if (*out > max_ms)
        dt_faults_addf(d->faults, pointer, "must be at most %lld seconds", (long long)(max_ms / 1000));
}

/* ---- the filter ---- */

bool dt_operation_topic_is_prefix(struct dt_str topic)
{
    return topic.n > 0 && topic.p[topic.n - 1] == '*';
}

static void read_topic(struct decoder *d, const struct dt_json_node *node)
{
    bool text = node->type == DT_JSON_STRING;
    struct dt_str name = node->str;
    if (text && dt_operation_topic_is_prefix(name))
        name.n--;
    const char *reason = !text ? "must be a string" : NULL;
    if (text && (name.n == node->str.n || name.n > 0))
        reason = dt_topic_check(name, DT_STR_LIT(""));
    if (reason)
        dt_faults_add(d->faults, "/filter/topic", reason);
    filter_of(d)->topic = text ? keep(d, node->str) : DT_STR_LIT("?");
}

static void read_state(struct decoder *d, const struct dt_json_node *node)
{
    bool dead = d->out->ask.kind == DT_OPERATION_REDRIVE;
    if (node->type != DT_JSON_STRING || !dt_str_is(node->str, dead ? "dead" : "scheduled"))
        dt_faults_add(d->faults, "/filter/state",
                      dead ? "must be \"dead\": others cannot be redriven"
                           : "must be \"scheduled\": jobs in other states stay as they are");
}

static void read_key_prefix(struct decoder *d, const struct dt_json_node *node)
{
    read_text(d, node, "/filter/key_prefix", DT_KEY_MAX, &filter_of(d)->key_prefix);
}

static void read_bound(struct decoder *d, const struct dt_json_node *node, const char *pointer,
                       struct dt_list_times *times, int64_t *bound_ms)
{
    times->given = true;
    read_time(d, node, pointer, bound_ms);
}

static void read_run_from(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_list_times *times = &filter_of(d)->run;
    read_bound(d, node, "/filter/run_from", times, &times->from_ms);
}

static void read_run_to(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_list_times *times = &filter_of(d)->run;
    read_bound(d, node, "/filter/run_to", times, &times->to_ms);
}

static void read_created_from(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_list_times *times = &filter_of(d)->created;
    read_bound(d, node, "/filter/created_from", times, &times->from_ms);
}

static void read_created_to(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_list_times *times = &filter_of(d)->created;
    read_bound(d, node, "/filter/created_to", times, &times->to_ms);
}

static void read_failed_from(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_list_times *times = &filter_of(d)->failed;
    read_bound(d, node, "/filter/failed_from", times, &times->from_ms);
}

static void read_failed_to(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_list_times *times = &filter_of(d)->failed;
    read_bound(d, node, "/filter/failed_to", times, &times->to_ms);
}

static void read_error_code(struct decoder *d, const struct dt_json_node *node)
{
    read_text(d, node, "/filter/error_code", ERROR_CODE_MAX, &filter_of(d)->error_code);
}

static void read_ids(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_operation_filter *f = filter_of(d);
    size_t n = 0;
    if (node->type != DT_JSON_ARRAY || node->n < 1 || node->n > DT_OPERATION_IDS_MAX) {
        dt_faults_addf(d->faults, "/filter/ids", "must be a list of 1 to %d ids", DT_OPERATION_IDS_MAX);
        return;
    }
    f->ids = dt_arena_alloc(d->faults->arena, node->n * sizeof(*f->ids));
    d->faults->failed |= !f->ids;
    for (const struct dt_json_node *i = dt_json_first(d->json, node); i && f->ids;
         i = dt_json_sibling(d->json, node, i)) {
        dt_assert_cmp(n, <, node->n);
        if (i->type == DT_JSON_STRING && dt_job_id_parse(i->str, &f->ids[n]))
            n++;
        else
            dt_faults_add(d->faults, "/filter/ids", "must hold ids of jobs, as strings");
    }
    if (!f->ids)
        return;
    qsort(f->ids, n, sizeof(*f->ids), dt_by_job_id);
    f->n_ids = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || f->ids[f->n_ids - 1] != f->ids[i])
            f->ids[f->n_ids++] = f->ids[i];
}

/* ---- members ---- */

struct member {
    struct dt_str name;
    void (*read)(struct decoder *d, const struct dt_json_node *node);
};

static const struct member filter_members[] = {
    {DT_STR_LIT("topic"), read_topic},
    {DT_STR_LIT("state"), read_state},
    {DT_STR_LIT("key_prefix"), read_key_prefix},
    {DT_STR_LIT("run_from"), read_run_from},
    {DT_STR_LIT("run_to"), read_run_to},
    {DT_STR_LIT("created_from"), read_created_from},
    {DT_STR_LIT("created_to"), read_created_to},
    {DT_STR_LIT("failed_from"), read_failed_from},
    {DT_STR_LIT("failed_to"), read_failed_to},
    {DT_STR_LIT("error_code"), read_error_code},
    {DT_STR_LIT("ids"), read_ids},
    {DT_STR_LIT(""), NULL},
};

/* Reads the members that the list has, up to its end; others are faults. */
static void read_members(struct decoder *d, const struct dt_json_node *object, const struct member *list,
                         const char *pointer)
{
    for (const struct dt_json_node *m = dt_json_first(d->json, object); m; m = dt_json_sibling(d->json, object, m)) {
        const struct member *member = list;
        while (member->read && !dt_str_eq(member->name, m->name))
            member++;
        if (member->read)
            member->read(d, m);
        else
            dt_faults_add_member(d->faults, pointer, m->name, "is unknown here");
    }
}

static void read_filter(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_strbuf compact;
    dt_strbuf_init(&compact);
    dt_json_add_compact(&compact, node->raw);
    d->faults->failed |= compact.failed;
    d->has_filter = true;
    d->out->ask.request = keep(d, dt_strbuf_str(&compact));
    dt_strbuf_clear(&compact);
    if (d->out->ask.request.n > FILTER_MAX)
        dt_faults_addf(d->faults, "/filter", "has %zu bytes, %d are allowed", d->out->ask.request.n, FILTER_MAX);
    if (node->type != DT_JSON_OBJECT || node->n == 0)
        dt_faults_add(d->faults, "/filter", "must be an object that is not empty");
    else
        read_members(d, node, filter_members, "/filter");
}

static void read_dry_run(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_BOOL)
        dt_faults_add(d->faults, "/dry_run", "must be true or false");
    d->out->dry_run = node->type == DT_JSON_BOOL && node->b;
}

static void read_rate(struct decoder *d, const struct dt_json_node *node)
{
    int64_t interval_ns;
    if (node->type != DT_JSON_STRING || !dt_rate_parse(node->str, &interval_ns))
        dt_faults_add(d->faults, "/rate",
                      "must be a number of jobs a second or a minute, such as \"1000/s\" or \"600/m\"");
    else
        d->out->ask.rate = keep(d, node->str);
}

static void read_wait(struct decoder *d, const struct dt_json_node *node)
{
    read_duration(d, node, "/wait", DT_OPERATION_WAIT_MAX_MS, &d->out->wait_ms);
}

static void read_run_at(struct decoder *d, const struct dt_json_node *node)
{
    d->has_run_at = true;
    read_time(d, node, "/run_at", &d->out->ask.at_ms);
    if (d->out->ask.at_ms > d->now_ms + d->rules->max_delay_ms)
        dt_faults_add(d->faults, "/run_at", "is further ahead than limits.max_delay allows");
}

static void read_delay(struct decoder *d, const struct dt_json_node *node)
{
    d->has_delay = d->out->ask.delays = true;
    read_duration(d, node, "/delay", d->rules->max_delay_ms, &d->out->ask.at_ms);
}

/* A duration, perhaps with a sign before it. */
static void read_shift(struct decoder *d, const struct dt_json_node *node)
{
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
    d->out->ask.shifts = true;
    read_duration(d, &plain, "/shift", d->rules->max_delay_ms, &d->out->ask.shift_ms);
    if (back || fewer)
        d->out->ask.shift_ms = -d->out->ask.shift_ms;
}

static void read_spread(struct decoder *d, const struct dt_json_node *node)
{
    read_duration(d, node, "/spread", d->rules->max_delay_ms, &d->out->ask.spread_ms);
}

static const struct member reschedule_members[] = {
    {DT_STR_LIT("run_at"), read_run_at}, {DT_STR_LIT("delay"), read_delay},   {DT_STR_LIT("shift"), read_shift},
    {DT_STR_LIT("spread"), read_spread}, {DT_STR_LIT("filter"), read_filter}, {DT_STR_LIT("dry_run"), read_dry_run},
    {DT_STR_LIT("rate"), read_rate},     {DT_STR_LIT("wait"), read_wait},     {DT_STR_LIT(""), NULL},
};
#define OWN_OF_RESCHEDULE 4 /* the first ones */

/* ---- what belongs together ---- */

static void check_filter(struct decoder *d)
{
    const struct dt_operation_filter *f = filter_of(d);
    if (!d->has_filter)
        dt_faults_add(d->faults, "/filter", "is required");
    else if (d->faults->n == 0 && !f->topic.p && !f->n_ids)
        dt_faults_add(d->faults, "/filter/topic", "is required, unless there are ids");
    if (f->key_prefix.p && (!f->topic.p || dt_operation_topic_is_prefix(f->topic)))
        dt_faults_add(d->faults, "/filter/key_prefix", "needs one topic");
    if (f->run.from_ms > f->run.to_ms)
        dt_faults_add(d->faults, "/filter/run_from", "is after run_to");
    if (f->created.from_ms > f->created.to_ms)
        dt_faults_add(d->faults, "/filter/created_from", "is after created_to");
    if (f->failed.from_ms > f->failed.to_ms)
        dt_faults_add(d->faults, "/filter/failed_from", "is after failed_to");
}

static void check_time(struct decoder *d)
{
    const struct dt_operation_ask *ask = &d->out->ask;
    if (ask->kind != DT_OPERATION_RESCHEDULE)
        return;
    if (d->has_run_at + d->has_delay + ask->shifts != 1)
        dt_faults_add(d->faults,
                      d->has_run_at  ? "/run_at"
                      : d->has_delay ? "/delay"
                                     : "/shift",
                      "give exactly one of run_at, delay and shift");
    /* The last job of a spread may not go further than a request for it alone could have it. */
    int64_t begins_ms = ask->delays ? ask->at_ms : dt_later(ask->at_ms, d->now_ms) - d->now_ms;
    if (ask->shifts && ask->spread_ms)
        dt_faults_add(d->faults, "/spread", "does not go with shift");
    else if (d->faults->n == 0 && !ask->shifts && ask->spread_ms > d->rules->max_delay_ms - begins_ms)
        dt_faults_add(d->faults, "/spread", "ends further ahead than limits.max_delay allows");
}

dt_status dt_operation_decode(const dt_json *json, const struct dt_job_rules *rules, enum dt_operation_kind kind,
                              int64_t now_ms, struct dt_faults *faults, struct dt_operation_body *out)
{
    static const struct dt_list_times any = {.from_ms = INT64_MIN, .to_ms = INT64_MAX};
    const struct dt_json_node *root = dt_json_root(json);
    struct decoder d = {.json = json, .rules = rules, .now_ms = now_ms, .faults = faults, .out = out};
    *out = (struct dt_operation_body){.ask = {.kind = kind, .filter = {.run = any, .created = any, .failed = any}},
                                      .wait_ms = DT_OPERATION_WAIT_MS};
    if (root->type != DT_JSON_OBJECT) {
        dt_faults_add(faults, "", "must be an object");
    } else {
        read_members(&d, root, reschedule_members + (kind == DT_OPERATION_RESCHEDULE ? 0 : OWN_OF_RESCHEDULE), "");
        check_filter(&d);
        check_time(&d);
    }
    if (faults->failed)
        return DT_NOMEM;
    return faults->n ? DT_INVALID : DT_OK;
}

/* ---- answers ---- */

static void add_time(struct dt_strbuf *out, const char *name, int64_t ms)
{
    char text[25];
    dt_strbuf_adds(out, name);
    if (ms == 0) {
        dt_strbuf_adds(out, "null");
        return;
    }
    dt_time_format(ms, text);
    dt_strbuf_addf(out, "\"%s\"", text);
}

static void add_string(struct dt_strbuf *out, const char *name, struct dt_str text)
{
    if (!text.p)
        return;
    dt_strbuf_adds(out, name);
    dt_json_add_string(out, text);
}

void dt_operation_add(struct dt_strbuf *out, const struct dt_operation *op)
{
    static const char *const kinds[] = {"cancel", "reschedule", "redrive", "run-now", "delete-topic"};
    static const char *const states[] = {"running", "done", "stopped", "failed"};
    dt_strbuf_addc(out, '{');
    if (op->id)
        dt_strbuf_addf(out, "\"id\":\"%lld\",", (long long)op->id);
    dt_strbuf_addf(out, "\"kind\":\"%s\",\"state\":\"%s\"", kinds[op->kind], states[op->state]);
    dt_strbuf_adds(out, op->id ? ",\"dry_run\":false,\"filter\":" : ",\"dry_run\":true,\"filter\":");
    dt_strbuf_add(out, op->request.p, op->request.n);
    dt_strbuf_addf(out, ",\"matched\":%lld,\"changed\":%lld,\"refused\":%lld,\"sample\":", (long long)op->matched,
                   (long long)op->changed, (long long)op->refused);
    dt_strbuf_add(out, op->sample.p, op->sample.n);
    add_string(out, ",\"rate\":", op->rate);
    add_string(out, ",\"error\":", op->error);
    add_time(out, ",\"started_at\":", op->started_at_ms);
    add_time(out, ",\"finished_at\":", op->finished_at_ms);
    dt_strbuf_addc(out, '}');
}
