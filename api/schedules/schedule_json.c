/*
 * The members of a schedule's own, one function each; those of its jobs are read by job_decode.c. See schedule_json.h.
 */
#include "schedule_json.h"

#include "base/text/base64.h"
#include "base/text/timetext.h"
#include "job/job_encode.h"
#include "job/request/job_fields.h"

#define EVERY_MIN_MS    INT64_C(100)
#define CATCH_UP_MAX_MS (366 * DT_DAY_MS)
#define JITTER_MAX_MS   DT_DAY_MS

struct decoder {
    const dt_json *json;
    struct dt_faults *faults;
    struct dt_str name;
    struct dt_schedule *s;
    bool *set_paused;
};

/* ---- values ---- */

static struct dt_str keep(struct decoder *d, struct dt_str text)
{
    struct dt_str copy = dt_arena_copy(d->faults->arena, text);
    d->faults->failed |= !copy.p;
    return copy;
}

static void read_duration(struct decoder *d, const struct dt_json_node *node, const char *pointer, int64_t *out)
{
    const char *reason = dt_duration_decode(node, out);
    if (reason)
        dt_faults_add(d->faults, pointer, reason);
}

static void read_time(struct decoder *d, const struct dt_json_node *node, const char *pointer, int64_t *out)
{
    if (node->type != DT_JSON_STRING || dt_time_parse(node->str, out) != DT_OK)
        dt_faults_add(d->faults, pointer, "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z");
}

static void read_bounded(struct decoder *d, const struct dt_json_node *node, const char *pointer, int64_t max_ms,
                         int64_t *out)
{
    read_duration(d, node, pointer, out);
    if (*out > max_ms)
        dt_faults_addf(d->faults, pointer, "must be at most %lld days", (long long)(max_ms / DT_DAY_MS));
}

/* ---- members ---- */

static void read_name(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_STRING || (d->name.p && !dt_str_eq(node->str, d->name)))
        dt_faults_add(d->faults, "/name", "differs from the name in the path");
}

static void read_cron(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_error err = {0};
    struct dt_cron cron;
    if (node->type != DT_JSON_STRING)
        dt_faults_add(d->faults, "/cron", "must be a string such as \"0 9 * * MON-FRI\"");
    else if (dt_cron_parse(node->str, &cron, &err) != DT_OK)
        dt_faults_addf(d->faults, "/cron", "%s", err.text);
    d->s->cron = node->type == DT_JSON_STRING ? keep(d, node->str) : DT_STR_LIT("");
}

static void read_every(struct decoder *d, const struct dt_json_node *node)
{
    read_duration(d, node, "/every", &d->s->every_ms);
    if (d->s->every_ms < EVERY_MIN_MS)
        dt_faults_add(d->faults, "/every", "must be at least PT0.1S");
    if (d->s->every_ms == 0)
        d->s->every_ms = EVERY_MIN_MS; /* it was given */
}

static void read_zone(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_STRING && node->str.n >= 1 && node->str.n <= DT_ZONE_NAME_MAX)
        d->s->time_zone = keep(d, node->str);
    else
        dt_faults_add(d->faults, "/time_zone", "must be the name of a time zone such as \"Europe/Berlin\"");
}

static void read_starts_at(struct decoder *d, const struct dt_json_node *node)
{
    d->s->has_start = true;
    read_time(d, node, "/starts_at", &d->s->starts_at_ms);
}

static void read_ends_at(struct decoder *d, const struct dt_json_node *node)
{
    d->s->has_end = true;
    read_time(d, node, "/ends_at", &d->s->ends_at_ms);
}

static void read_overlap(struct decoder *d, const struct dt_json_node *node)
{
    for (int i = 0; i < DT_OVERLAPS && node->type == DT_JSON_STRING; i++)
        if (dt_str_is(node->str, dt_overlap_name((enum dt_overlap)i))) {
            d->s->overlap = (enum dt_overlap)i;
            return;
        }
    dt_faults_add(d->faults, "/overlap", "must be \"allow\", \"skip\" or \"cancel\"");
}

static void read_catch_up(struct decoder *d, const struct dt_json_node *node)
{
    read_bounded(d, node, "/catch_up", CATCH_UP_MAX_MS, &d->s->catch_up_ms);
}

static void read_catch_up_max(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_INT || node->i < 1 || node->i > DT_CATCH_UP_MAX)
        dt_faults_addf(d->faults, "/catch_up_max", "must be a whole number from 1 to %d", DT_CATCH_UP_MAX);
    else
        d->s->catch_up_max = node->i;
}

static void read_jitter(struct decoder *d, const struct dt_json_node *node)
{
    read_bounded(d, node, "/jitter", JITTER_MAX_MS, &d->s->jitter_ms);
}

static void read_paused(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_BOOL)
        dt_faults_add(d->faults, "/paused", "must be true or false");
    d->s->paused = node->type == DT_JSON_BOOL && node->b;
    *d->set_paused = true;
}

/* A member that an answer has, and nobody sets. */
static void pass_by(struct decoder *d, const struct dt_json_node *node)
{
    (void)d;
    (void)node;
}

static const struct member {
    struct dt_str name;
    void (*read)(struct decoder *d, const struct dt_json_node *node);
} members[] = {
    {DT_STR_LIT("name"), read_name},
    {DT_STR_LIT("cron"), read_cron},
    {DT_STR_LIT("every"), read_every},
    {DT_STR_LIT("time_zone"), read_zone},
    {DT_STR_LIT("starts_at"), read_starts_at},
    {DT_STR_LIT("ends_at"), read_ends_at},
    {DT_STR_LIT("overlap"), read_overlap},
    {DT_STR_LIT("catch_up"), read_catch_up},
    {DT_STR_LIT("catch_up_max"), read_catch_up_max},
    {DT_STR_LIT("jitter"), read_jitter},
    {DT_STR_LIT("paused"), read_paused},
    {DT_STR_LIT("next_at"), pass_by},
    {DT_STR_LIT("last_fire_at"), pass_by},
    {DT_STR_LIT("last_job_id"), pass_by},
    {DT_STR_LIT("last_error"), pass_by},
    {DT_STR_LIT("created_at"), pass_by},
    {DT_STR_LIT("updated_at"), pass_by},
    {DT_STR_LIT("version"), pass_by},
};

static const struct member *find_member(struct dt_str name)
{
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
        if (dt_str_eq(members[i].name, name))
            return &members[i];
    return NULL;
}

static bool is_own(struct dt_str name)
{
    return find_member(name) != NULL;
}

/* Everything that was asked for counts in the digest, but for paused, which has a way of its own. */
static void add_to_digest(struct decoder *d)
{
    const struct dt_schedule *s = d->s;
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_strbuf_addf(&text, "%lld %d %lld %d %lld %d %lld %lld %lld ", (long long)s->every_ms, s->has_start,
                   (long long)s->starts_at_ms, s->has_end, (long long)s->ends_at_ms, (int)s->overlap,
                   (long long)s->catch_up_ms, (long long)s->catch_up_max, (long long)s->jitter_ms);
    dt_strbuf_add(&text, s->time_zone.p, s->time_zone.n);
    dt_strbuf_addc(&text, ' ');
    if (s->cron.p)
        dt_strbuf_add(&text, s->cron.p, s->cron.n);
    d->faults->failed |= text.failed;
    dt_job_digest_add(d->s->job.digest, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
}

dt_status dt_schedule_decode(const dt_json *json, const struct dt_job_rules *rules, struct dt_str name,
                             struct dt_faults *faults, struct dt_schedule_body *out)
{
    const struct dt_schedule *s = &out->schedule;
    const struct dt_json_node *body = dt_json_root(json);
    const bool object = body->type == DT_JSON_OBJECT;
    struct decoder d = {json, faults, name, &out->schedule, &out->set_paused};
    *out = (struct dt_schedule_body){.schedule = {.name = name, .time_zone = DT_STR_LIT("UTC")}};
    for (const struct dt_json_node *m = object ? dt_json_first(json, body) : NULL; m;
         m = dt_json_sibling(json, body, m)) {
        const struct member *member = find_member(m->name);
        if (member && m->type != DT_JSON_NULL) /* null is the default */
            member->read(&d, m);
    }
    if (object && s->cron.p && s->every_ms) {
        dt_faults_add(faults, "/cron", "contradicts every: give one of the two");
        dt_faults_add(faults, "/every", "contradicts cron: give one of the two");
    }
    if (object && !s->cron.p && !s->every_ms)
        dt_faults_add(faults, "/cron", "is required: give exactly one of cron and every");
    if (object && name.p && !dt_json_member(json, body, "topic"))
        dt_faults_add(faults, "/topic", "is required");
    if (s->has_start && s->has_end && s->ends_at_ms <= s->starts_at_ms)
        dt_faults_add(faults, "/ends_at", "must be after starts_at");
    dt_status status = dt_job_template_decode(json, rules, is_own, faults, &out->schedule.job);
    if (status == DT_OK)
        add_to_digest(&d);
    return status == DT_OK && faults->failed ? DT_NOMEM : status;
}

const char *dt_schedule_name_check(struct dt_str name)
{
    static const char *const reason = "must have 1 to 200 of A-Z, a-z, 0-9, '.', '_' and '-'";
    if (name.n < 1 || name.n > DT_SCHEDULE_NAME_MAX)
        return reason;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-'))
            return reason;
    }
    return NULL;
}

/* ---- answers ---- */

static void add_string(struct dt_strbuf *out, const char *name, struct dt_str text)
{
    if (!text.p)
        return;
    dt_strbuf_adds(out, name);
    dt_json_add_string(out, text);
}

static void add_bound(struct dt_strbuf *out, const char *name, bool given, int64_t ms)
{
    char text[25];
    dt_strbuf_adds(out, name);
    if (!given) {
        dt_strbuf_adds(out, "null");
        return;
    }
    dt_time_format(ms, text);
    dt_strbuf_addf(out, "\"%s\"", text);
}

/* A time of ours, which is not 1970. */
static void add_time(struct dt_strbuf *out, const char *name, int64_t ms)
{
    add_bound(out, name, ms != 0, ms);
}

static void add_duration(struct dt_strbuf *out, const char *name, int64_t ms)
{
    dt_strbuf_adds(out, name);
    dt_strbuf_addc(out, '"');
    dt_duration_add_iso(out, ms);
    dt_strbuf_addc(out, '"');
}

static void add_times(struct dt_strbuf *out, const struct dt_schedule *s)
{
    add_string(out, ",\"cron\":", s->cron);
    if (!s->cron.p)
        add_duration(out, ",\"every\":", s->every_ms);
    add_string(out, ",\"time_zone\":", s->time_zone);
    add_bound(out, ",\"starts_at\":", s->has_start, s->starts_at_ms);
    add_bound(out, ",\"ends_at\":", s->has_end, s->ends_at_ms);
    add_string(out, ",\"overlap\":", dt_str(dt_overlap_name(s->overlap)));
    add_duration(out, ",\"catch_up\":", s->catch_up_ms);
    dt_strbuf_adds(out, ",\"catch_up_max\":");
    if (s->catch_up_max)
        dt_strbuf_add_i64(out, s->catch_up_max);
    else
        dt_strbuf_adds(out, "null");
    add_duration(out, ",\"jitter\":", s->jitter_ms);
    dt_strbuf_adds(out, s->paused ? ",\"paused\":true" : ",\"paused\":false");
}

static void add_job(struct dt_strbuf *out, const struct dt_new_job *job, bool payload)
{
    if (job->retry.p) {
        dt_strbuf_adds(out, ",\"retry\":");
        dt_retry_add_json(out, job->retry);
    }
    if (job->ack_timeout_ms)
        add_duration(out, ",\"ack_timeout\":", job->ack_timeout_ms);
    add_string(out, ",\"partition_key\":", job->partition_key);
    if (job->headers.p) {
        dt_strbuf_adds(out, ",\"headers\":");
        dt_strbuf_add(out, job->headers.p, job->headers.n);
    }
    add_string(out, ",\"callback_url\":", job->callback_url);
    add_string(out, ",\"content_type\":", job->content_type);
    if (payload && job->payload_binary) {
        dt_strbuf_adds(out, ",\"payload_base64\":\"");
        dt_base64_add(out, job->payload);
        dt_strbuf_addc(out, '"');
    } else if (payload) {
        dt_strbuf_adds(out, ",\"payload\":");
        dt_strbuf_add(out, job->payload.p, job->payload.n);
    }
}

void dt_schedule_add(struct dt_strbuf *out, const struct dt_schedule *s, int64_t next_ms, bool payload)
{
    add_string(out, "{\"name\":", s->name);
    add_string(out, ",\"topic\":", s->job.topic);
    add_times(out, s);
    add_job(out, &s->job, payload);
    add_time(out, ",\"next_at\":", next_ms);
    if (s->last_job_id)
        dt_strbuf_addf(out, ",\"last_job_id\":\"%lld\"", (long long)s->last_job_id);
    if (s->error.p) {
        add_string(out, ",\"last_error\":{\"message\":", s->error);
        add_time(out, ",\"at\":", s->error_at_ms);
        dt_strbuf_addc(out, '}');
    }
    add_time(out, ",\"created_at\":", s->created_at_ms);
    add_time(out, ",\"updated_at\":", s->updated_at_ms);
    dt_strbuf_addf(out, ",\"version\":%lld}", (long long)s->version);
}
