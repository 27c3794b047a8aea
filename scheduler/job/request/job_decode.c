/*
 * Decoding of what makes or changes a job: one table of members, one function each, shared by create and PATCH. First
 * every member is read by itself into dt_job_fields, then what belongs together is compared, then the result is put
 * together; faults are collected all the way, so that a caller learns all of them at once.
 */
#include "job_decode.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/text/base64.h"
#include "job/callback/callback_header.h"
#include "job/callback/callback_host.h"
#include "job/retry.h"
#include "job_fields.h"

/* Of a body without its payload: a value of two bytes is a node of eighty, and no member that there is has so many. A
 * payload's names are as many as it has room for. */
#define NODES_MAX 16384
#define NAMES_MAX 4000000

struct decoder {
    const dt_json *json;
    const struct dt_job_rules *rules;
    struct dt_faults *faults;
    struct dt_job_fields f;
    bool patch;                      /* null means the default */
    bool (*own)(struct dt_str name); /* of a template: the member is the schedule's */
    bool time_read;                  /* run_at or delay is there, without a fault of its own */
    bool too_large;                  /* one of the faults is a size */
};

struct dt_json_limits dt_job_json_limits(const struct dt_job_rules *rules, unsigned nested)
{
    return (struct dt_json_limits){
        .depth = rules->json_depth + nested, .opaque = "payload", .nodes = NODES_MAX, .names = NAMES_MAX};
}

/* ---- values ---- */

const char *dt_duration_decode(const struct dt_json_node *node, int64_t *out_ms)
{
    static const char *const range = "must not be negative, nor longer than 100 years";
    switch (node->type) {
    case DT_JSON_INT:
        *out_ms = node->i;
        return node->i >= 0 && node->i <= DT_DURATION_MAX_MS ? NULL : range;
    case DT_JSON_NUMBER:
        return dt_number_parse_ms(node->str, 0, out_ms) == DT_OK ? NULL : range;
    case DT_JSON_STRING:
        if (dt_duration_parse(node->str, out_ms) == DT_OK)
            return NULL;
        return "must be a duration: ISO 8601 with weeks to seconds (\"PT15M\"), \"15s\", \"3m\", \"1h\", \"2d\", or a "
               "number of milliseconds, from 0 to 100 years";
    case DT_JSON_NULL:
    case DT_JSON_BOOL:
    case DT_JSON_ARRAY:
    case DT_JSON_OBJECT:
        break;
    }
    return "must be a duration such as \"PT15M\" or \"15s\", or a number of milliseconds";
}

const char *dt_key_check(struct dt_str key)
{
    if (key.n < 1 || key.n > DT_KEY_MAX)
        return "must have 1 to 255 bytes of UTF-8";
    return dt_utf8_valid(key) ? NULL : "must be UTF-8";
}

static const char *content_type_check(struct dt_str s)
{
    if (s.n < 1 || s.n > DT_CONTENT_TYPE_MAX)
        return "must have 1 to 255 characters";
    const char *slash = memchr(s.p, '/', s.n);
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < ' ' || s.p[i] > '~')
            return "must be a media type in printable ASCII";
    return slash && slash > s.p && slash < s.p + s.n - 1 ? NULL
                                                         : "must be a media type such as application/octet-stream";
}

bool dt_retry_decode(const dt_json *json, const struct dt_json_node *node, const char *pointer,
                     struct dt_faults *faults, struct dt_str *out)
{
    int64_t delays[DT_RETRY_MAX];
    unsigned n = 0;
    size_t before = faults->n;
    if (node->type != DT_JSON_ARRAY) {
        dt_faults_add(faults, pointer, "must be a list of durations; the empty list means no retries");
        return false;
    }
    if (node->n > DT_RETRY_MAX) {
        dt_faults_add(faults, pointer, "must have at most 100 delays");
        return false;
    }
    for (const struct dt_json_node *i = dt_json_first(json, node); i; i = dt_json_sibling(json, node, i), n++) {
        const char *reason = dt_duration_decode(i, &delays[n]);
        if (reason)
            dt_faults_add_item(faults, pointer, n, reason);
    }
    if (faults->n > before)
        return false;
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_retry_format(&text, delays, n);
    *out = dt_arena_copy(faults->arena, text.p ? dt_strbuf_str(&text) : DT_STR_LIT(""));
    faults->failed = faults->failed || text.failed || !out->p;
    dt_strbuf_clear(&text);
    return true;
}

/* ---- members ---- */

static struct dt_str keep(struct decoder *d, struct dt_str s)
{
    struct dt_str copy = dt_arena_copy(d->faults->arena, s);
    if (!copy.p)
        d->faults->failed = true;
    return copy;
}

static void read_string(struct decoder *d, const struct dt_json_node *node, const char *pointer,
                        const char *(*check)(struct dt_str), struct dt_str *out)
{
    const char *reason = node->type != DT_JSON_STRING ? "must be a string" : check ? check(node->str) : NULL;
    if (reason)
        dt_faults_add(d->faults, pointer, reason);
    else
        *out = keep(d, node->str);
}

static void read_topic(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason =
        node->type != DT_JSON_STRING ? "must be a string" : dt_topic_check(node->str, d->rules->installation);
    if (reason)
        dt_faults_add(d->faults, "/topic", reason);
    else
        d->f.topic = keep(d, node->str);
}

static void read_key(struct decoder *d, const struct dt_json_node *node)
{
    read_string(d, node, "/key", dt_key_check, &d->f.key);
}

static void read_run_at(struct decoder *d, const struct dt_json_node *node)
{
    if (node->type != DT_JSON_STRING || dt_time_parse(node->str, &d->f.run_at_ms) != DT_OK)
        dt_faults_add(d->faults, "/run_at", "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z");
    else
        d->time_read = true;
}

static void read_delay(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason = dt_duration_decode(node, &d->f.delay_ms);
    if (reason)
        dt_faults_add(d->faults, "/delay", reason);
    else
        d->time_read = true;
}

static void check_payload_size(struct decoder *d, const char *pointer)
{
    if (d->f.payload.n <= d->rules->payload_max)
        return;
    d->too_large = true;
    dt_faults_addf(d->faults, pointer, "has %zu bytes, %zu are allowed", d->f.payload.n, d->rules->payload_max);
}

static void read_payload(struct decoder *d, const struct dt_json_node *node)
{
    d->f.payload = node->raw;
    check_payload_size(d, "/payload");
}

static void read_payload_base64(struct decoder *d, const struct dt_json_node *node)
{
    struct dt_str s = node->str;
    if (node->type != DT_JSON_STRING) {
        dt_faults_add(d->faults, "/payload_base64", "must be a string");
        return;
    }
    char *bytes = dt_arena_alloc(d->faults->arena, dt_base64_decoded_max(s.n) + 1);
    if (!bytes) {
        d->faults->failed = true;
        return;
    }
    d->f.payload.p = bytes;
    if (!dt_base64_decode(s, bytes, &d->f.payload.n))
        dt_faults_add(d->faults, "/payload_base64", "must be base64 (RFC 4648, section 4) with its padding");
    else
        check_payload_size(d, "/payload_base64");
}

static void read_content_type(struct decoder *d, const struct dt_json_node *node)
{
    read_string(d, node, "/content_type", content_type_check, &d->f.content_type);
}

static const char *partition_key_check(struct dt_str s)
{
    return s.n >= 1 && s.n <= DT_PARTITION_KEY_MAX ? NULL : "must have 1 to 255 bytes of UTF-8";
}

static void read_partition_key(struct decoder *d, const struct dt_json_node *node)
{
    read_string(d, node, "/partition_key", partition_key_check, &d->f.partition_key);
}

static void read_retry(struct decoder *d, const struct dt_json_node *node)
{
    dt_retry_decode(d->json, node, "/retry", d->faults, &d->f.retry);
}

static void read_ack_timeout(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason = dt_duration_decode(node, &d->f.ack_timeout_ms);
    if (!reason && d->f.ack_timeout_ms == 0)
        reason = "must be longer than 0";
    if (reason)
        dt_faults_add(d->faults, "/ack_timeout", reason);
}

/* Adds a header to the text and the pairs, unless it is refused or too much; *bytes: of all so far. */
static void read_header(struct decoder *d, const struct dt_json_node *m, struct dt_strbuf *text, size_t *bytes)
{
    const struct dt_str name = m->name;
    const char *reason = NULL;
    if (name.n == 0)
        reason = "must have a name";
    else if (memchr(name.p, '\0', name.n)) /* consumers would read "content-type\0x" as ours */
        reason = "must have a name without U+0000";
    else if ((name.n >= 3 && strncasecmp(name.p, "ce_", 3) == 0) ||
             (name.n == 12 && strncasecmp(name.p, "content-type", 12) == 0))
        reason = "is set by duetime: ce_* and content-type are not yours";
    else if (m->type != DT_JSON_STRING)
        reason = "must be a string";
    if (reason) {
        dt_faults_add_member(d->faults, "/headers", name, reason);
        return;
    }
    *bytes += name.n + m->str.n;
    if (*bytes > d->rules->headers_max)
        return;
    const struct dt_header_pair pair = {keep(d, name), keep(d, m->str)};
    if (d->f.n_pairs > 0)
        dt_strbuf_addc(text, ',');
    dt_json_add_string(text, pair.name);
    dt_strbuf_addc(text, ':');
    dt_json_add_string(text, pair.value);
    d->f.pairs[d->f.n_pairs++] = pair;
    /* What a callback cannot carry, topics whose delivery is another one take all the same. */
    reason = dt_callback_header_name_check(pair.name);
    if (!reason)
        reason = dt_callback_header_value_check(pair.value);
    if (reason && !d->f.header_fault.reason)
        d->f.header_fault = (struct dt_header_fault){pair.name, reason};
}

static void read_headers(struct decoder *d, const struct dt_json_node *node)
{
    const size_t most = d->rules->headers_max;
    size_t bytes = 0;
    if (node->type != DT_JSON_OBJECT) {
        dt_faults_add(d->faults, "/headers", "must be an object of strings");
        return;
    }
    struct dt_strbuf text;
    dt_strbuf_init(&text);
    dt_strbuf_addc(&text, '{');
    d->f.pairs = dt_arena_alloc(d->faults->arena, (node->n + 1) * sizeof(*d->f.pairs));
    for (const struct dt_json_node *m = d->f.pairs ? dt_json_first(d->json, node) : NULL; m;
         m = dt_json_sibling(d->json, node, m))
        read_header(d, m, &text, &bytes);
    dt_assert_cmp(d->f.n_pairs, <=, node->n);
    if (bytes > most)
        dt_faults_addf(d->faults, "/headers", "names and values have %zu bytes, %zu are allowed", bytes, most);
    dt_strbuf_addc(&text, '}');
    if (text.n > DT_HEADERS_TEXT_MAX) /* many short names with escapes are longer as JSON than their bytes tell */
        dt_faults_addf(d->faults, "/headers", "has %zu bytes as JSON, %d are allowed", text.n, DT_HEADERS_TEXT_MAX);
    d->too_large = d->too_large || bytes > most || text.n > DT_HEADERS_TEXT_MAX;
    d->f.headers = keep(d, dt_strbuf_str(&text));
    d->faults->failed = d->faults->failed || text.failed || !d->f.pairs;
    dt_strbuf_clear(&text);
}

static void read_callback_url(struct decoder *d, const struct dt_json_node *node)
{
    const char *reason =
        node->type != DT_JSON_STRING ? "must be a string" : dt_callback_url_refusal(node->str, d->rules->allow_hosts);
    if (reason)
        dt_faults_add(d->faults, "/callback_url", reason);
    else
        d->f.callback_url = keep(d, node->str);
}

#define PATCHABLE 1
#define NULLABLE  2 /* in a PATCH or a template: the default, or none */
#define ONCE      4 /* not in a template: each of its jobs has another */

static const struct member {
    struct dt_str name;
    enum dt_job_member bit;
    unsigned flags;
    void (*read)(struct decoder *d, const struct dt_json_node *node);
} members[] = {
    {DT_STR_LIT("topic"), DT_MEMBER_TOPIC, 0, read_topic},
    {DT_STR_LIT("key"), DT_MEMBER_KEY, ONCE, read_key},
    {DT_STR_LIT("run_at"), DT_MEMBER_RUN_AT, PATCHABLE | ONCE, read_run_at},
    {DT_STR_LIT("delay"), DT_MEMBER_DELAY, PATCHABLE | ONCE, read_delay},
    {DT_STR_LIT("payload"), DT_MEMBER_PAYLOAD, PATCHABLE, read_payload},
    {DT_STR_LIT("payload_base64"), DT_MEMBER_PAYLOAD_BASE64, PATCHABLE, read_payload_base64},
    {DT_STR_LIT("content_type"), DT_MEMBER_CONTENT_TYPE, PATCHABLE, read_content_type},
    {DT_STR_LIT("partition_key"), DT_MEMBER_PARTITION_KEY, PATCHABLE | NULLABLE, read_partition_key},
    {DT_STR_LIT("retry"), DT_MEMBER_RETRY, PATCHABLE | NULLABLE, read_retry},
    {DT_STR_LIT("ack_timeout"), DT_MEMBER_ACK_TIMEOUT, PATCHABLE | NULLABLE, read_ack_timeout},
    {DT_STR_LIT("headers"), DT_MEMBER_HEADERS, PATCHABLE | NULLABLE, read_headers},
    {DT_STR_LIT("callback_url"), DT_MEMBER_CALLBACK_URL, PATCHABLE | NULLABLE, read_callback_url},
};

static void read_member(struct decoder *d, const struct dt_json_node *node)
{
    const struct member *member = members;
    const struct member *end = members + sizeof(members) / sizeof(*members);
    const char *reason = NULL;
    while (member < end && !dt_str_eq(member->name, node->name))
        member++;
    const bool known = member < end;
    const bool is_default = known && member->flags & NULLABLE && node->type == DT_JSON_NULL;
    if (d->rules->beside && d->rules->beside(node->name))
        return;
    if (d->own && (d->own(node->name) || is_default))
        return;
    if (d->own && known && member->flags & ONCE)
        reason = "is not the caller's to say: each fire has its own";
    else if (!known)
        reason = "is not known";
    else if (d->patch && !(member->flags & PATCHABLE))
        reason = "cannot be changed";
    if (reason) {
        dt_faults_add_member(d->faults, "", node->name, reason);
        return;
    }
    d->f.has |= member->bit;
    if (!d->patch || !is_default)
        member->read(d, node);
}

/* ---- what belongs together ---- */

static bool has(const struct decoder *d, enum dt_job_member bit)
{
    return (d->f.has & bit) != 0;
}

/* When the job is due; a past time is now. Refused when that is too far ahead. */
static int64_t due_ms(struct decoder *d, int64_t now_ms)
{
    if (!d->time_read)
        return now_ms;
    const bool at_a_time = has(d, DT_MEMBER_RUN_AT);
    int64_t from_ms = !at_a_time && d->rules->delays_from_ms ? d->rules->delays_from_ms : now_ms;
    int64_t delay = at_a_time ? dt_later(d->f.run_at_ms, now_ms) - now_ms : d->f.delay_ms;
    if (delay > d->rules->max_delay_ms)
        dt_faults_addf(d->faults, at_a_time ? "/run_at" : "/delay",
                       "is further ahead than limits.max_delay allows (%lld days)",
                       (long long)(d->rules->max_delay_ms / DT_DAY_MS));
    return dt_later(from_ms + delay, now_ms);
}

static bool read_object(struct decoder *d)
{
    const struct dt_json_node *body = dt_json_root(d->json);
    if (body->type != DT_JSON_OBJECT) {
        dt_faults_add(d->faults, "", "must be an object");
        return false;
    }
    for (const struct dt_json_node *m = dt_json_first(d->json, body); m; m = dt_json_sibling(d->json, body, m))
        read_member(d, m);
    if (has(d, DT_MEMBER_RUN_AT) && has(d, DT_MEMBER_DELAY)) {
        dt_faults_add(d->faults, "/run_at", "contradicts delay: give one of the two");
        dt_faults_add(d->faults, "/delay", "contradicts run_at: give one of the two");
    }
    if (has(d, DT_MEMBER_PAYLOAD) && has(d, DT_MEMBER_PAYLOAD_BASE64)) {
        dt_faults_add(d->faults, "/payload", "contradicts payload_base64: give one of the two");
        dt_faults_add(d->faults, "/payload_base64", "contradicts payload: give one of the two");
    }
    if (has(d, DT_MEMBER_CONTENT_TYPE) && !has(d, DT_MEMBER_PAYLOAD_BASE64))
        dt_faults_add(d->faults, "/content_type", "goes with payload_base64 only; other payloads are application/json");
    if (has(d, DT_MEMBER_PAYLOAD_BASE64) && !has(d, DT_MEMBER_CONTENT_TYPE))
        dt_faults_add(d->faults, "/content_type", "is required with payload_base64");
    return true;
}

static dt_status verdict(const struct decoder *d)
{
    if (d->faults->failed)
        return DT_NOMEM;
    if (d->too_large)
        return DT_TOO_LARGE;
    return d->faults->n > 0 ? DT_INVALID : DT_OK;
}

/* ---- create ---- */

static void fill_new(struct decoder *d, struct dt_new_job *out)
{
    struct dt_job_fields *f = &d->f;
    if (!f->payload.p)
        f->payload = DT_STR_LIT("null");
    out->topic = f->topic;
    out->key = f->key;
    out->retry = f->retry;
    out->ack_timeout_ms = f->ack_timeout_ms;
    out->partition_key = f->partition_key;
    out->headers = f->headers;
    out->header_fault = f->header_fault;
    out->callback_url = f->callback_url;
    out->content_type = f->content_type;
    out->payload = f->payload;
    out->payload_binary = has(d, DT_MEMBER_PAYLOAD_BASE64);
    dt_job_digest(f, out->digest);
}

dt_status dt_job_decode(const dt_json *json, const struct dt_job_rules *rules, const struct dt_job_path *path,
                        int64_t now_ms, struct dt_faults *faults, struct dt_new_job *out)
{
    struct decoder d = {.json = json, .rules = rules, .faults = faults};
    *out = (struct dt_new_job){0};
    if (!read_object(&d))
        return DT_INVALID;
    /* Topic and key stand in the path, in the body, or in both and agree. */
    if (path->topic.p) {
        if (d.f.topic.p && !dt_str_eq(d.f.topic, path->topic))
            dt_faults_add(faults, "/topic", "differs from the topic in the path");
        d.f.topic = path->topic;
    } else if (!has(&d, DT_MEMBER_TOPIC)) {
        dt_faults_add(faults, "/topic", "is required");
    }
    if (path->key.p) {
        if (d.f.key.p && !dt_str_eq(d.f.key, path->key))
            dt_faults_add(faults, "/key", "differs from the key in the path");
        d.f.key = path->key;
        d.f.has |= DT_MEMBER_KEY;
    }
    if (!has(&d, DT_MEMBER_RUN_AT) && !has(&d, DT_MEMBER_DELAY))
        dt_faults_add(faults, "/run_at", "is required: give exactly one of run_at and delay");
    out->run_at_ms = due_ms(&d, now_ms);
    dt_status status = verdict(&d);
    if (status == DT_OK)
        fill_new(&d, out);
    return status;
}

dt_status dt_job_template_decode(const dt_json *json, const struct dt_job_rules *rules, bool (*own)(struct dt_str name),
                                 struct dt_faults *faults, struct dt_new_job *out)
{
    struct decoder d = {.json = json, .rules = rules, .faults = faults, .own = own};
    *out = (struct dt_new_job){0};
    if (!read_object(&d))
        return DT_INVALID;
    dt_status status = verdict(&d);
    if (status == DT_OK)
        fill_new(&d, out);
    return status;
}

/* ---- PATCH ---- */

dt_status dt_patch_decode(const dt_json *json, const struct dt_job_rules *rules, int64_t now_ms,
                          struct dt_faults *faults, struct dt_patch *out)
{
    struct decoder d = {.json = json, .rules = rules, .faults = faults, .patch = true};
    const struct dt_job_fields *f = &d.f;
    *out = (struct dt_patch){0};
    if (!read_object(&d))
        return DT_INVALID;
    const int64_t due = due_ms(&d, now_ms);
    const dt_status status = verdict(&d);
    if (status != DT_OK)
        return status;
    out->has_run_at = (f->has & (DT_MEMBER_RUN_AT | DT_MEMBER_DELAY)) != 0;
    out->run_at_is_delay = has(&d, DT_MEMBER_DELAY);
    out->run_at_ms = out->run_at_is_delay ? f->delay_ms : due;
    out->has_payload = (f->has & (DT_MEMBER_PAYLOAD | DT_MEMBER_PAYLOAD_BASE64)) != 0;
    out->payload = f->payload;
    out->payload_binary = has(&d, DT_MEMBER_PAYLOAD_BASE64);
    out->content_type = f->content_type;
    out->has_retry = has(&d, DT_MEMBER_RETRY);
    out->retry = f->retry;
    out->has_ack_timeout = has(&d, DT_MEMBER_ACK_TIMEOUT);
    out->ack_timeout_ms = f->ack_timeout_ms;
    out->has_partition_key = has(&d, DT_MEMBER_PARTITION_KEY);
    out->partition_key = f->partition_key;
    out->has_headers = has(&d, DT_MEMBER_HEADERS);
    out->headers = f->headers;
    out->header_fault = f->header_fault;
    out->has_callback_url = has(&d, DT_MEMBER_CALLBACK_URL);
    out->callback_url = f->callback_url;
    return DT_OK;
}
