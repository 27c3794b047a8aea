/* The table of the members of a schedule's own; those of its jobs are read by job_decode.c. See schedule_json.h. */
#include "schedule_json.h"

#include "base/text/base64.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "job/job_encode.h"

#define EVERY_MIN_MS    INT64_C(100)
#define CATCH_UP_MAX_MS (366 * DT_DAY_MS)
#define JITTER_MAX_MS   DT_DAY_MS

static void read_name(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const struct dt_str name = ((const struct dt_schedule_body *)r->out)->schedule.name;
    if (node->type != DT_JSON_STRING || (name.p && !dt_str_eq(node->str, name)))
        dt_json_fault(r, field, "differs from the name in the path");
}

static void read_cron(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct dt_error err = {0};
    struct dt_cron cron;
    if (node->type != DT_JSON_STRING)
        dt_json_fault(r, field, "must be a string such as \"0 9 * * MON-FRI\"");
    else if (dt_cron_parse(node->str, &cron, &err) != DT_OK)
        dt_json_fault(r, field, err.text);
    *(struct dt_str *)dt_json_place(r, field) =
        node->type == DT_JSON_STRING ? dt_json_keep(r->faults, node->str) : DT_STR_LIT("");
}

static void read_every(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    int64_t *every_ms = dt_json_place(r, field);
    dt_json_read_value(r, field, node);
    if (*every_ms < EVERY_MIN_MS)
        dt_json_fault(r, field, "must be at least PT0.1S");
    if (*every_ms == 0)
        *every_ms = EVERY_MIN_MS; /* it was given */
}

/* A duration that is refused in itself may be beyond its bound as well. */
static void read_bounded(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const struct dt_json_field unbounded = {.name = field->name, .kind = DT_FIELD_DURATION, .at = field->at};
    dt_json_read_value(r, &unbounded, node);
    if (*(int64_t *)dt_json_place(r, field) > field->max)
        dt_json_fault(r, field, field->reason);
}

#define BODY     struct dt_schedule_body
#define NULLABLE .flags = DT_FIELD_NULLABLE

static const struct dt_json_field fields[] = {
    DT_FIELD("name", TEXT, BODY, schedule.name, NULLABLE, .read = read_name),
    DT_FIELD("cron", TEXT, BODY, schedule.cron, NULLABLE, .read = read_cron),
    DT_FIELD("every", DURATION, BODY, schedule.every_ms, NULLABLE, .read = read_every),
    DT_FIELD("time_zone", TEXT, BODY, schedule.time_zone, NULLABLE, .min = 1, .max = DT_ZONE_NAME_MAX,
             .reason = "must be the name of a time zone such as \"Europe/Berlin\""),
    DT_FIELD("starts_at", TIME, BODY, schedule.starts_at_ms, NULLABLE, .has = offsetof(BODY, schedule.has_start)),
    DT_FIELD("ends_at", TIME, BODY, schedule.ends_at_ms, NULLABLE, .has = offsetof(BODY, schedule.has_end)),
    DT_FIELD("overlap", WORD, BODY, schedule.overlap, NULLABLE, .words = dt_overlap_names,
             .reason = "must be \"allow\", \"skip\" or \"cancel\""),
    DT_FIELD("catch_up", DURATION, BODY, schedule.catch_up_ms, NULLABLE, .read = read_bounded, .max = CATCH_UP_MAX_MS,
             .reason = "must be at most 366 days"),
    DT_FIELD("catch_up_max", COUNT, BODY, schedule.catch_up_max, NULLABLE, .min = 1, .max = DT_CATCH_UP_MAX),
    DT_FIELD("jitter", DURATION, BODY, schedule.jitter_ms, NULLABLE, .read = read_bounded, .max = JITTER_MAX_MS,
             .reason = "must be at most 1 days"),
    DT_FIELD("paused", FLAG, BODY, schedule.paused, NULLABLE, .has = offsetof(BODY, set_paused)),
    DT_FIELD_FOR_SHOW("next_at", TIME),
    DT_FIELD_FOR_SHOW("last_fire_at", TIME),
    DT_FIELD_FOR_SHOW("last_job_id", TEXT),
    DT_FIELD_FOR_SHOW("last_error", OBJECT),
    DT_FIELD_FOR_SHOW("created_at", TIME),
    DT_FIELD_FOR_SHOW("updated_at", TIME),
    DT_FIELD_FOR_SHOW("version", COUNT),
};
/* Skips the members of its jobs. */
static const struct dt_json_table table = DT_TABLE(fields, .unknown = NULL);

static bool is_own(struct dt_str name)
{
    return dt_json_field_of(&table, name) != NULL;
}

/* Everything that was asked for counts in the digest, but for paused, which has a way of its own. */
static void add_to_digest(struct dt_schedule *s, struct dt_faults *faults)
{
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_strbuf_addf(&text, "%lld %d %lld %d %lld %d %lld %lld %lld ", (long long)s->every_ms, s->has_start,
                   (long long)s->starts_at_ms, s->has_end, (long long)s->ends_at_ms, (int)s->overlap,
                   (long long)s->catch_up_ms, (long long)s->catch_up_max, (long long)s->jitter_ms);
    dt_strbuf_add(&text, s->time_zone.p, s->time_zone.n);
    dt_strbuf_addc(&text, ' ');
    if (s->cron.p)
        dt_strbuf_add(&text, s->cron.p, s->cron.n);
    faults->failed |= text.failed;
    dt_job_digest_add(s->job.digest, dt_strbuf_str(&text));
    dt_strbuf_clear(&text);
}

dt_status dt_schedule_decode(const dt_json *json, const struct dt_job_rules *rules, struct dt_str name,
                             struct dt_faults *faults, struct dt_schedule_body *out)
{
    const struct dt_schedule *s = &out->schedule;
    const struct dt_json_node *body = dt_json_root(json);
    const bool object = body->type == DT_JSON_OBJECT;
    struct dt_json_reader r = {.json = json, .faults = faults, .out = out};
    *out = (struct dt_schedule_body){.schedule = {.name = name, .time_zone = DT_STR_LIT("UTC")}};
    if (object) /* otherwise the decoder of its jobs says so */
        dt_json_read(&r, &table, body);
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
        add_to_digest(&out->schedule, faults);
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

/* A bound may be the beginning of 1970, which other times are not. */
static void put_bound(struct dt_strbuf *out, const char *name, bool given, int64_t ms)
{
    char text[25];
    dt_time_format(ms, text);
    dt_json_put_word(out, name, given ? text : NULL);
}

static void put_times(struct dt_strbuf *out, const struct dt_schedule *s)
{
    dt_json_put_given(out, "cron", s->cron);
    if (!s->cron.p)
        dt_json_put_duration(out, "every", s->every_ms);
    dt_json_put_given(out, "time_zone", s->time_zone);
    put_bound(out, "starts_at", s->has_start, s->starts_at_ms);
    put_bound(out, "ends_at", s->has_end, s->ends_at_ms);
    dt_json_put_word(out, "overlap", dt_overlap_name(s->overlap));
    dt_json_put_duration(out, "catch_up", s->catch_up_ms);
    dt_json_put_int_or_null(out, "catch_up_max", s->catch_up_max, s->catch_up_max);
    dt_json_put_duration(out, "jitter", s->jitter_ms);
    dt_json_put_bool(out, "paused", s->paused);
}

static void put_job(struct dt_strbuf *out, const struct dt_new_job *job, bool payload)
{
    if (job->retry.p)
        dt_retry_put(out, "retry", job->retry);
    if (job->ack_timeout_ms)
        dt_json_put_duration(out, "ack_timeout", job->ack_timeout_ms);
    dt_json_put_given(out, "partition_key", job->partition_key);
    if (job->headers.p)
        dt_json_put_raw(out, "headers", job->headers);
    dt_json_put_given(out, "callback_url", job->callback_url);
    dt_json_put_given(out, "content_type", job->content_type);
    if (payload && job->payload_binary)
        dt_json_put_base64(out, "payload_base64", job->payload);
    else if (payload)
        dt_json_put_raw(out, "payload", job->payload);
}

void dt_schedule_add(struct dt_strbuf *out, const struct dt_schedule *s, int64_t next_ms, bool payload)
{
    dt_json_begin_object(out, NULL);
    dt_json_put_given(out, "name", s->name);
    dt_json_put_given(out, "topic", s->job.topic);
    put_times(out, s);
    put_job(out, &s->job, payload);
    dt_json_put_time(out, "next_at", next_ms);
    if (s->last_job_id)
        dt_json_put_id(out, "last_job_id", s->last_job_id);
    if (s->error.p) {
        dt_json_begin_object(out, "last_error");
        dt_json_put_string(out, "message", s->error);
        dt_json_put_time(out, "at", s->error_at_ms);
        dt_json_end_object(out);
    }
    dt_json_put_time(out, "created_at", s->created_at_ms);
    dt_json_put_time(out, "updated_at", s->updated_at_ms);
    dt_json_put_int(out, "version", s->version);
    dt_json_end_object(out);
}
