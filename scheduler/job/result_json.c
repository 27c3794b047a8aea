/*
 * Decoding of result bodies: one table of members, one function each. Knows nothing of where the body came from.
 */
#include "job/result_json.h"

#include "job/retry.h"

struct decoder {
    const dt_json *json;
    struct dt_result *out;
    dt_bad_member_fn *bad;
    void *arg;
    int64_t attempt; /* the attempt that the body answers; -1 = the body must carry it */
    bool (*beside)(struct dt_str name);
    unsigned errors;
};

static void refuse(struct decoder *d, const char *pointer, const char *reason)
{
    d->errors++;
    d->bad(d->arg, pointer, reason);
}

bool dt_job_id_parse(struct dt_str text, int64_t *out)
{
    if (text.n == 0 || text.n > 18 || text.p[0] == '0')
        return false;
    int64_t id = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        id = id * 10 + (text.p[i] - '0');
    }
    *out = id;
    return true;
}

static struct dt_str cut(struct dt_str s, size_t max)
{
    if (s.n <= max)
        return s;
    s.n = max;
    while (s.n > 0 && ((unsigned char)s.p[s.n] & 0xC0) == 0x80)
        s.n--;
    return s;
}

static void decode_job_id(struct decoder *d, const struct dt_json_node *node)
{
    int64_t id = 0;
    if (node->type != DT_JSON_STRING || !dt_job_id_parse(node->str, &id))
        refuse(d, "/job_id", "must be a job's id, a string of digits");
    else if (d->out->job_id >= 0 && d->out->job_id != id)
        refuse(d, "/job_id", "differs from the job in the path");
    else
        d->out->job_id = id;
}

static void decode_attempt(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_INT || node->i < 1 || node->i > INT32_MAX)
        refuse(d, "/attempt", "must be a whole number from 1");
    else if (d->attempt >= 0 && node->i != d->attempt)
        refuse(d, "/attempt", "differs from the attempt that is answered");
    else
        d->out->attempt = node->i;
}

static void decode_status(struct decoder *d, const struct dt_json_node *node)
{
    static const char *const words[] = {[DT_RESULT_SUCCEEDED] = "succeeded",
                                        [DT_RESULT_FAILED] = "failed",
                                        [DT_RESULT_SNOOZED] = "snoozed",
                                        [DT_RESULT_GAVE_UP] = "gave_up",
                                        [DT_RESULT_EXTENDED] = "extended"};
    if (node->type == DT_JSON_STRING)
        for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
            if (dt_str_is(node->str, words[i])) {
                d->out->status = (enum dt_result_status)i;
                return;
            }
    refuse(d, "/status", "must be one of succeeded, failed, snoozed, gave_up, extended");
}

static void decode_retry_after(struct decoder *d, const struct dt_json_node *node)
{
    int64_t ms = -1;
    if (node->type == DT_JSON_NULL)
        return;
    if (node->type == DT_JSON_INT && node->i >= 0 && node->i <= DT_DURATION_MAX_MS)
        ms = node->i;
    else if (!(node->type == DT_JSON_STRING && dt_duration_parse(node->str, &ms) == DT_OK) &&
             !(node->type == DT_JSON_NUMBER && dt_number_parse_ms(node->str, 0, &ms) == DT_OK)) {
        refuse(d, "/retry_after", "must be a duration such as \"PT5M\" or \"3m\", or milliseconds");
        return;
    }
    d->out->retry_after_ms = ms;
}

static void decode_error(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type == DT_JSON_NULL)
        return;
    if (node->type != DT_JSON_OBJECT) {
        refuse(d, "/error", "must be an object with code and message");
        return;
    }
    for (const struct dt_json_node *m = dt_json_first(d->json, node); m; m = dt_json_sibling(d->json, node, m)) {
        bool code = dt_str_is(m->name, "code");
        if (!code && !dt_str_is(m->name, "message"))
            refuse(d, "/error", "has a member other than code and message");
        else if (m->type == DT_JSON_NULL)
            continue;
        else if (m->type != DT_JSON_STRING)
            refuse(d, code ? "/error/code" : "/error/message", "must be a string");
        else if (code)
            d->out->error_code = cut(m->str, DT_ERROR_CODE_MAX);
        else
            d->out->error_message = cut(m->str, DT_ERROR_MESSAGE_MAX);
    }
}

static void decode_finished_at(struct decoder *d, const struct dt_json_node *node)
{
    int64_t ms;
    if (node->type == DT_JSON_NULL)
        return;
    if (node->type != DT_JSON_STRING || dt_time_parse(node->str, &ms) != DT_OK)
        refuse(d, "/finished_at", "must be an RFC 3339 time with an offset");
}

static const struct {
    const char *name;
    void (*decode)(struct decoder *d, const struct dt_json_node *node);
} members[] = {
    {"job_id", decode_job_id}, {"attempt", decode_attempt},         {"status", decode_status},
    {"error", decode_error},   {"retry_after", decode_retry_after}, {"finished_at", decode_finished_at},
};

static void decode_member(struct decoder *d, const struct dt_json_node *node)
{
    for (unsigned i = 0; i < sizeof(members) / sizeof(*members); i++)
        if (dt_str_is(node->name, members[i].name)) {
            members[i].decode(d, node);
            return;
        }
    struct dt_strbuf pointer;
    dt_strbuf_init(&pointer);
    dt_strbuf_addc(&pointer, '/');
    for (size_t i = 0; i < node->name.n && i < 100; i++) {
        char c = node->name.p[i];
        dt_strbuf_add(&pointer, c == '~' ? "~0" : c == '/' ? "~1" : &node->name.p[i], c == '~' || c == '/' ? 2 : 1);
    }
    refuse(d, pointer.failed ? "" : pointer.p, "is not known");
    dt_strbuf_clear(&pointer);
}

static dt_status decode_body(struct decoder *d, const struct dt_json_node *body)
{
    const struct dt_result *out = d->out;
    if (body->type != DT_JSON_OBJECT) {
        refuse(d, "", "must be an object");
        return DT_INVALID;
    }
    for (const struct dt_json_node *m = dt_json_first(d->json, body); m; m = dt_json_sibling(d->json, body, m))
        if (!d->beside || !d->beside(m->name))
            decode_member(d, m);
    if (out->job_id < 0 && !dt_json_member(d->json, body, "job_id"))
        refuse(d, "/job_id", "is required");
    if (d->attempt < 0 && !dt_json_member(d->json, body, "attempt"))
        refuse(d, "/attempt", "is required");
    if (!dt_json_member(d->json, body, "status"))
        refuse(d, "/status", "is required");
    if (d->errors)
        return DT_INVALID;
    if (out->status == DT_RESULT_SNOOZED && out->retry_after_ms < 0)
        refuse(d, "/retry_after", "is required with status snoozed");
    else if (out->retry_after_ms >= 0 && (out->status == DT_RESULT_SUCCEEDED || out->status == DT_RESULT_GAVE_UP))
        refuse(d, "/retry_after", "does not go with this status");
    return d->errors ? DT_INVALID : DT_OK;
}

dt_status dt_result_decode(const dt_json *json, const struct dt_json_node *body, int64_t job_id, struct dt_result *out,
                           dt_bad_member_fn *bad, void *arg)
{
    struct decoder d = {.json = json, .out = out, .bad = bad, .arg = arg, .attempt = -1};
    *out = (struct dt_result){.job_id = job_id, .retry_after_ms = -1};
    return decode_body(&d, body);
}

dt_status dt_result_decode_beside(const dt_json *json, const struct dt_json_node *body,
                                  bool (*beside)(struct dt_str name), struct dt_result *out, dt_bad_member_fn *bad,
                                  void *arg)
{
    struct decoder d = {.json = json, .out = out, .bad = bad, .arg = arg, .attempt = -1, .beside = beside};
    *out = (struct dt_result){.job_id = out->job_id, .retry_after_ms = -1};
    return decode_body(&d, body);
}

dt_status dt_result_decode_answer(const dt_json *json, const struct dt_json_node *body, struct dt_result *out,
                                  dt_bad_member_fn *bad, void *arg)
{
    struct decoder d = {.json = json, .out = out, .bad = bad, .arg = arg, .attempt = out->attempt};
    *out = (struct dt_result){.job_id = out->job_id, .attempt = out->attempt, .retry_after_ms = -1};
    return decode_body(&d, body);
}
