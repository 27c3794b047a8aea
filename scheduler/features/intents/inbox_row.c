/*
 * Columns of job_inbox as a body: {"run_at":…,"payload":…,<the members of options>}, topic and key as in a path.
 *
 * The payload and the options are texts of a stranger that are put into a text of ours. What they are is checked
 * first, or seen afterwards: options are read by themselves, and a payload that is not exactly one value shows as a
 * member that is not the payload that was put in.
 */
#include "intent_decode.h"

#include "base/assert.h"
#include "base/text/encoding.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "job/job_json.h"

struct reading {
    const struct dt_intent_decoder *with;
    const struct dt_inbox_row *row;
    struct dt_intent *out;
    struct dt_str payload; /* without the white space around it */
    bool has_content_type;
    struct dt_strbuf body;
    struct dt_job_rules rules; /* of the reader, but that delays count from the row's INSERT */
};

/* ---- refusals ---- */

static dt_status refuse_text(struct reading *r, const char *what, const struct dt_error *why)
{
    struct dt_str detail = dt_arena_printf(r->with->arena, "%s: %s", what, why->text);
    r->out->outcome = DT_INTENT_REFUSED;
    r->out->problem = (struct dt_problem){.type = dt_problem_of_status(why->status), .detail = detail};
    return detail.p ? DT_OK : DT_NOMEM;
}

static bool is_refused(const struct reading *r)
{
    return r->out->outcome == DT_INTENT_REFUSED;
}

static void fault(struct reading *r, const char *pointer, const char *reason)
{
    dt_faults_add(&r->out->faults, pointer, reason);
}

/* ---- options ---- */

static dt_status parse_text(struct reading *r, struct dt_str text, const char *what)
{
    struct dt_json_limits limits = {.depth = r->with->rules->json_depth};
    struct dt_error why = {0};
    dt_status status = dt_json_parse(r->with->json, text, &limits, &why);
    return status == DT_OK || status == DT_NOMEM ? status : refuse_text(r, what, &why);
}

static dt_status read_options(struct reading *r)
{
    /* Names alone: the decoder of the body reads them. */
    static const struct dt_json_field fields[] = {
        DT_FIELD_BY("content_type", NULL), DT_FIELD_BY("retry", NULL),         DT_FIELD_BY("ack_timeout", NULL),
        DT_FIELD_BY("headers", NULL),      DT_FIELD_BY("partition_key", NULL), DT_FIELD_BY("callback_url", NULL),
    };
    static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);
    struct dt_json_reader options = {.json = r->with->json, .faults = &r->out->faults, .parent = "/options"};
    const struct dt_inbox_row *row = r->row;
    if (!row->options.p)
        return DT_OK;
    if (row->options_bytes > DT_INBOX_OPTIONS_MAX) {
        dt_faults_addf(&r->out->faults, "/options", "has %zu bytes, %zu are allowed", row->options_bytes,
                       DT_INBOX_OPTIONS_MAX);
        dt_intent_refuse_faults(r->out, DT_TOO_LARGE);
        return DT_OK;
    }
    dt_status status = parse_text(r, row->options, "options");
    if (status != DT_OK || is_refused(r))
        return status;
    dt_json_read(&options, &table, dt_json_root(r->with->json));
    r->has_content_type = dt_json_given(&options, 0);
    return DT_OK;
}

/* ---- the body ---- */

static struct dt_str trimmed(struct dt_str s)
{
    while (s.n > 0 && memchr(" \t\r\n", s.p[0], 4)) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && memchr(" \t\r\n", s.p[s.n - 1], 4))
        s.n--;
    return s;
}

static void make_body(struct reading *r)
{
    const struct dt_inbox_row *row = r->row;
    dt_json_begin_object(&r->body, NULL);
    if (row->has_run_at)
        dt_json_put_time(&r->body, "run_at", row->run_at_ms > 0 ? row->run_at_ms : 1);
    if (row->has_delay)
        dt_json_put_int(&r->body, "delay", row->delay_ms);
    if (row->payload.p && r->has_content_type) {
        dt_json_put_base64(&r->body, "payload_base64", row->payload);
    } else if (row->payload.p) {
        r->payload = trimmed(row->payload);
        dt_json_put_raw(&r->body, "payload", r->payload);
    }
    if (row->options.p) { /* they were parsed, and are an object: its members are between its braces */
        const struct dt_str object = trimmed(row->options);
        dt_assert_cmp(object.n, >=, 2);
        const struct dt_str members = trimmed((struct dt_str){object.p + 1, object.n - 2});
        if (members.n)
            dt_json_put_raw(&r->body, NULL, members);
    }
    dt_json_end_object(&r->body);
}

/* Parses the body. If it cannot be read, or does not say what was put into it, the payload is why: other texts than
 * one value make other members of it. */
static dt_status parse_body(struct reading *r)
{
    struct dt_json_limits limits = dt_job_json_limits(r->with->rules, 0);
    struct dt_error why = {0};
    struct dt_str text = dt_arena_copy(r->with->arena, dt_strbuf_str(&r->body));
    if (r->body.failed || !text.p)
        return DT_NOMEM;
    dt_status status = dt_json_parse(r->with->json, text, &limits, &why);
    if (status == DT_NOMEM || (status == DT_OK && !r->payload.p))
        return status;
    if (status == DT_OK) {
        const struct dt_json_node *node = dt_json_member(r->with->json, dt_json_root(r->with->json), "payload");
        if (node && node->raw.n == r->payload.n)
            return DT_OK;
        why = (struct dt_error){.status = DT_MALFORMED, .text = "is more than one JSON value"};
    } else if (r->payload.p) { /* if it shows by itself, its bytes are counted from its own first one */
        status = parse_text(r, r->payload, "payload");
        if (status != DT_OK || is_refused(r))
            return status;
    }
    return refuse_text(r, "payload", &why);
}

/* ---- which job ---- */

static void check_columns(struct reading *r, bool creates)
{
    const struct dt_inbox_row *row = r->row;
    const char *reason = row->topic.p ? dt_topic_check(row->topic, r->with->rules->installation) : NULL;
    if (reason)
        fault(r, "/topic", reason);
    reason = row->key.p ? dt_key_check(row->key) : NULL;
    if (reason)
        fault(r, "/job_key", reason);
    if (creates ? row->has_job_id : row->has_job_id && row->key.p)
        fault(r, "/job_id", creates ? "is not the caller's to say" : "contradicts job_key: give one of the two");
    if (row->has_job_id && row->job_id < 1)
        fault(r, "/job_id", "must be the id of a job");
    if (!creates && row->key.p && !row->topic.p)
        fault(r, "/topic", "is required with job_key");
    if (!creates && !row->key.p && !row->has_job_id)
        fault(r, "/job_key", "is required, or job_id for a job without a key");
    if (row->has_run_at && row->run_at_ms > DT_TIME_MAX_MS)
        fault(r, "/run_at", "must be a time in ms before the year 10000");
    if (row->created_at_ms < 0 || row->created_at_ms > r->with->now_ms + r->with->rules->max_delay_ms)
        fault(r, "/created_at", "must be a time in ms, no further ahead than limits.max_delay allows");
}

/* ---- actions ---- */

static dt_status read_body(struct reading *r)
{
    const size_t most = r->with->rules->payload_max;
    const int64_t now_ms = r->with->now_ms;
    if (r->row->payload_bytes > most) {
        dt_faults_addf(&r->out->faults, "/payload", "has %zu bytes, %zu are allowed", r->row->payload_bytes, most);
        dt_intent_refuse_faults(r->out, DT_TOO_LARGE);
        return DT_OK;
    }
    dt_status status = read_options(r);
    if (status == DT_OK && !is_refused(r) && r->out->faults.n > 0)
        dt_intent_refuse_faults(r->out, DT_INVALID);
    if (status == DT_OK && r->out->faults.failed) /* there was a fault, and no memory for it */
        status = DT_NOMEM;
    if (status != DT_OK || is_refused(r))
        return status;
    make_body(r);
    status = parse_body(r);
    if (status != DT_OK || is_refused(r))
        return status;
    const bool changes = r->out->action == DT_INTENT_CHANGE;
    const struct dt_job_path path = {.topic = r->row->topic, .key = r->row->key};
    struct dt_patch *patch = &r->out->patch;
    struct dt_new_job *job = &r->out->insert.job;
    status = changes ? dt_patch_decode(r->with->json, &r->rules, now_ms, &r->out->faults, patch)
                     : dt_job_decode(r->with->json, &r->rules, &path, now_ms, &r->out->faults, job);
    if (status == DT_NOMEM)
        return status;
    if (status != DT_OK) {
        dt_intent_refuse_faults(r->out, status);
        return DT_OK;
    }
    if (changes && !patch->has_run_at)
        return DT_OK;
    if (changes && patch->run_at_is_delay)
        patch->run_at_ms += r->row->created_at_ms;
    patch->run_at_is_delay = false;
    /* If the row's clock was ahead of the server's, the job may not be later than those of other rows. */
    if ((changes ? patch->run_at_ms : job->run_at_ms) > now_ms + r->with->rules->max_delay_ms) {
        fault(r, r->row->has_run_at ? "/run_at" : "/delay_ms", "is further ahead than limits.max_delay allows");
        dt_intent_refuse_faults(r->out, DT_INVALID);
    }
    return DT_OK;
}

static dt_status read_row(struct reading *r)
{
    const struct dt_inbox_row *row = r->row;
    if (row->action < 1 || row->action > DT_INTENT_ACTIONS) {
        fault(r, "/action", "must be one of create, replace, cancel, change, run_now");
        dt_intent_refuse_faults(r->out, DT_INVALID);
        return DT_OK;
    }
    enum dt_intent_action action = r->out->action = (enum dt_intent_action)(row->action - 1);
    check_columns(r, action == DT_INTENT_CREATE || action == DT_INTENT_REPLACE);
    if (action == DT_INTENT_REPLACE && !row->key.p)
        fault(r, "/job_key", "is required");
    if (action != DT_INTENT_CANCEL && action != DT_INTENT_RUN_NOW)
        return read_body(r);
    /* Nothing that is given is passed by in silence. */
    static const char *const why = "has no place in this action";
    if (row->has_run_at)
        fault(r, "/run_at", why);
    if (row->has_delay)
        fault(r, "/delay_ms", why);
    if (row->payload.p)
        fault(r, "/payload", why);
    if (row->options.p)
        fault(r, "/options", why);
    if (r->out->faults.n > 0)
        dt_intent_refuse_faults(r->out, DT_INVALID);
    return DT_OK;
}

dt_status dt_inbox_decode(const struct dt_intent_decoder *reader, const struct dt_inbox_row *row, struct dt_intent *out)
{
    *out = (struct dt_intent){.topic = row->topic, .key = row->key, .job_id = row->has_job_id ? row->job_id : 0};
    struct reading r = {.with = reader, .row = row, .out = out, .rules = *reader->rules};
    r.rules.delays_from_ms = dt_later(row->created_at_ms, 1);
    dt_faults_init(&out->faults, reader->arena);
    dt_strbuf_init(&r.body);
    dt_status status = read_row(&r);
    dt_strbuf_clear(&r.body);
    return out->faults.failed ? DT_NOMEM : status;
}
