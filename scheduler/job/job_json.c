/*
 * Jobs as JSON: reading bodies that make or change a job, the digest of a request, and writing a job.
 *
 * One table of members serves create, PATCH and templates. Reading has three steps: read each member into
 * dt_job_fields, check the rules between members, make the result. If a body is refused, the problem lists all faults.
 */
#include "job_json.h"

#define XXH_STATIC_LINKING_ONLY /* makes the state's type complete, so that it can be a local variable */
#include <xxhash.h>

#include "base/assert.h"
#include "base/http/callback_rules.h"
#include "base/text/encoding.h"

/* Limits the number of JSON nodes of a body without its payload, because a value of two bytes takes a node of eighty
 * bytes. No valid body reaches the limit. Only the size of the body limits the number of names in a payload. */
#define NODES_MAX 16384
#define NAMES_MAX 4000000

/* State while a body is read. The functions in the table of members get `rules` as their context. */
struct decoder {
    struct dt_job_fields f;
    bool patch;                      /* a PATCH: null means the default */
    bool (*own)(struct dt_str name); /* for a template: returns true for members of the schedule */
    bool time_read;                  /* run_at or delay was read without a fault */
    bool too_large;                  /* at least one of the faults is about a size */
};

struct dt_json_limits dt_job_json_limits(unsigned json_depth)
{
    return (struct dt_json_limits){.depth = json_depth, .opaque = "payload", .nodes = NODES_MAX, .names = NAMES_MAX};
}

const char *dt_key_check(struct dt_str key)
{
    if (key.n < 1 || key.n > DT_KEY_MAX)
        return "must have 1 to 255 bytes of UTF-8";
    return dt_utf8_valid(key) ? NULL : "must be UTF-8";
}

void dt_read_retry(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    int64_t delays[DT_RETRY_MAX];
    unsigned n = 0;
    const size_t before = r->faults->n;
    if (node->type != DT_JSON_ARRAY) {
        dt_json_fault(r, field, "must be a list of durations; the empty list means no retries");
        return;
    }
    if (node->n > DT_RETRY_MAX) {
        dt_json_fault(r, field, "must have at most 100 delays");
        return;
    }
    for (const struct dt_json_node *i = dt_json_first(r->json, node); i; i = dt_json_sibling(r->json, node, i), n++) {
        const char *reason = dt_duration_decode(i, &delays[n]);
        if (reason)
            dt_faults_add_item(r->faults, "/retry", n, reason);
    }
    if (r->faults->n > before)
        return;
    struct dt_strbuf text = {0};
    dt_retry_format(&text, delays, n);
    *(struct dt_str *)dt_json_place(r, field) = dt_json_keep(r->faults, text.p ? dt_strbuf_str(&text) : DT_STR_LIT(""));
    r->faults->failed |= text.failed;
    dt_strbuf_clear(&text);
}

const char *dt_check_topic(struct dt_json_reader *r, struct dt_str text)
{
    const struct dt_job_rules *rules = r->context;
    return dt_topic_check(text, rules->installation);
}

const char *dt_check_callback_url(struct dt_json_reader *r, struct dt_str text)
{
    const struct dt_job_rules *rules = r->context;
    return dt_callback_url_refusal(text, rules->allow_hosts);
}

static const char *check_content_type(struct dt_str s)
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

static const char *check_partition_key(struct dt_str s)
{
    return s.n >= 1 && s.n <= DT_PARTITION_KEY_MAX ? NULL : "must have 1 to 255 bytes of UTF-8";
}

static void check_payload_size(struct dt_json_reader *r, const struct dt_json_field *field)
{
    struct decoder *d = r->out;
    const size_t most = ((const struct dt_job_rules *)r->context)->payload_max;
    if (d->f.job.payload.n <= most)
        return;
    d->too_large = true;
    dt_json_faultf(r, field, "has %zu bytes, %zu are allowed", d->f.job.payload.n, most);
}

static void read_payload(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    ((struct decoder *)r->out)->f.job.payload = node->raw;
    check_payload_size(r, field);
}

static void read_payload_base64(struct dt_json_reader *r, const struct dt_json_field *field,
                                const struct dt_json_node *node)
{
    struct dt_str *payload = &((struct decoder *)r->out)->f.job.payload;
    struct dt_str s = node->str;
    if (node->type != DT_JSON_STRING) {
        dt_json_fault(r, field, "must be a string");
        return;
    }
    char *bytes = dt_arena_alloc(r->faults->arena, dt_base64_decoded_max(s.n) + 1);
    if (!bytes) {
        r->faults->failed = true;
        return;
    }
    payload->p = bytes;
    if (!dt_base64_decode(s, bytes, &payload->n))
        dt_json_fault(r, field, "must be base64 (RFC 4648, section 4) with its padding");
    else
        check_payload_size(r, field);
}

/* Adds a header to the text and to the pairs, unless it is refused or too large. *bytes: size of all headers so far. */
static void read_job_header(struct dt_json_reader *r, const struct dt_json_node *m, struct dt_strbuf *text,
                            size_t *bytes)
{
    struct dt_job_fields *f = &((struct decoder *)r->out)->f;
    const struct dt_str name = m->name;
    const char *reason = NULL;
    if (name.n == 0)
        reason = "must have a name";
    else if (memchr(name.p, '\0', name.n)) /* a consumer would read "content-type\0x" as "content-type" */
        reason = "must have a name without U+0000";
    else if ((name.n >= 3 && strncasecmp(name.p, "ce_", 3) == 0) ||
             (name.n == 12 && strncasecmp(name.p, "content-type", 12) == 0))
        reason = "is set by duetime: ce_* and content-type are reserved";
    else if (m->type != DT_JSON_STRING)
        reason = "must be a string";
    if (reason) {
        dt_faults_add_member(r->faults, "/headers", name, reason);
        return;
    }
    *bytes += name.n + m->str.n;
    if (*bytes > ((const struct dt_job_rules *)r->context)->headers_max)
        return;
    const struct dt_header_pair pair = {dt_json_keep(r->faults, name), dt_json_keep(r->faults, m->str)};
    dt_json_put_key(text, pair.name);
    dt_json_put_string(text, NULL, pair.value);
    f->pairs[f->n_pairs++] = pair;
    /* Stores the fault for topics with callbacks. Topics with another delivery accept the header. */
    reason = dt_callback_header_name_check(pair.name);
    if (!reason)
        reason = dt_callback_header_value_check(pair.value);
    if (reason && !f->job.header_fault.reason)
        f->job.header_fault = (struct dt_header_fault){pair.name, reason};
}

static void read_headers(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    struct decoder *d = r->out;
    struct dt_job_fields *f = &d->f;
    const size_t most = ((const struct dt_job_rules *)r->context)->headers_max;
    size_t bytes = 0;
    if (node->type != DT_JSON_OBJECT) {
        dt_json_fault(r, field, "must be an object of strings");
        return;
    }
    struct dt_strbuf text = {0};
    dt_strbuf_addc(&text, '{');
    f->pairs = dt_arena_alloc(r->faults->arena, (node->n + 1) * sizeof(*f->pairs));
    for (const struct dt_json_node *m = f->pairs ? dt_json_first(r->json, node) : NULL; m;
         m = dt_json_sibling(r->json, node, m))
        read_job_header(r, m, &text, &bytes);
    dt_assert_cmp(f->n_pairs, <=, node->n);
    if (bytes > most)
        dt_json_faultf(r, field, "names and values have %zu bytes, %zu are allowed", bytes, most);
    dt_strbuf_addc(&text, '}');
    if (text.n > DT_HEADERS_TEXT_MAX) /* short names with escapes need more bytes in JSON than the headers themselves */
        dt_json_faultf(r, field, "has %zu bytes as JSON, %d are allowed", text.n, DT_HEADERS_TEXT_MAX);
    d->too_large |= bytes > most || text.n > DT_HEADERS_TEXT_MAX;
    f->job.headers = dt_json_keep(r->faults, dt_strbuf_str(&text));
    r->faults->failed |= text.failed || !f->pairs;
    dt_strbuf_clear(&text);
}

#define FIXED   (DT_FIELD_OWN << 0) /* a PATCH cannot change the member */
#define DEFAULT (DT_FIELD_OWN << 1) /* null in a PATCH or a template means the default, or no value */
#define ONCE    (DT_FIELD_OWN << 2) /* a template must not have the member, since each of its jobs has another value */

/* Rows in the order of enum dt_job_member. */
static const struct dt_json_field fields[] = {
    DT_FIELD("topic", TEXT, struct decoder, f.job.topic, .flags = FIXED, .judge = dt_check_topic),
    DT_FIELD("key", TEXT, struct decoder, f.job.key, .flags = FIXED | ONCE, .check = dt_key_check),
    DT_FIELD("run_at", TIME, struct decoder, f.job.run_at_ms, .flags = ONCE),
    DT_FIELD("delay", DURATION, struct decoder, f.delay_ms, .flags = ONCE),
    DT_FIELD_BY("payload", read_payload),
    DT_FIELD_BY("payload_base64", read_payload_base64),
    DT_FIELD("content_type", TEXT, struct decoder, f.job.content_type, .check = check_content_type),
    DT_FIELD("partition_key", TEXT, struct decoder, f.job.partition_key, .flags = DEFAULT,
             .check = check_partition_key),
    DT_FIELD("retry", TEXT, struct decoder, f.job.retry, .flags = DEFAULT, .read = dt_read_retry),
    DT_FIELD("ack_timeout", DURATION, struct decoder, f.job.ack_timeout_ms, .flags = DEFAULT, .min = 1,
             .reason = DT_REASON_NOT_ZERO),
    DT_FIELD_BY("headers", read_headers, .flags = DEFAULT),
    DT_FIELD("callback_url", TEXT, struct decoder, f.job.callback_url, .flags = DEFAULT,
             .judge = dt_check_callback_url),
};

static bool admits_member(struct dt_json_reader *r, const struct dt_json_field *field, const struct dt_json_node *node)
{
    const struct dt_job_rules *rules = r->context;
    const struct decoder *d = r->out;
    const unsigned flags = field ? field->flags : 0;
    const bool is_default = flags & DEFAULT && node->type == DT_JSON_NULL;
    const char *reason = NULL;
    if ((rules->beside && rules->beside(node->name)) || (d->own && (d->own(node->name) || is_default)))
        return false;
    if (d->own && flags & ONCE)
        reason = "cannot be set: each fire has its own";
    else if (!field)
        reason = DT_REASON_UNKNOWN;
    else if (d->patch && flags & FIXED)
        reason = "cannot be changed";
    if (reason)
        dt_faults_add_member(r->faults, "", node->name, reason);
    else if (d->patch && is_default)
        r->given |= UINT64_C(1) << (field - fields);
    else
        return true;
    return false;
}

/* The members that a create by REST accepts. */
static const struct dt_json_table plain = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);
static const struct dt_json_table table = DT_TABLE(fields, .admits = admits_member);

static bool has_member(const struct decoder *d, enum dt_job_member bit)
{
    return (d->f.has & bit) != 0;
}

/* Returns the time at which the job is due. A past time becomes now. If the time is too far ahead, adds a fault. */
static int64_t read_due_ms(const struct decoder *d, const struct dt_job_rules *rules, int64_t now_ms,
                           struct dt_faults *faults)
{
    if (!d->time_read)
        return now_ms;
    const bool at_a_time = has_member(d, DT_MEMBER_RUN_AT);
    int64_t from_ms = !at_a_time && rules->delays_from_ms ? rules->delays_from_ms : now_ms;
    int64_t delay = at_a_time ? dt_later(d->f.job.run_at_ms, now_ms) - now_ms : d->f.delay_ms;
    if (delay > rules->max_delay_ms)
        dt_faults_addf(faults, at_a_time ? "/run_at" : "/delay",
                       "is further ahead than limits.max_delay allows (%lld days)",
                       (long long)(rules->max_delay_ms / DT_DAY_MS));
    return dt_later(from_ms + delay, now_ms);
}

static bool read_job_object(struct decoder *d, const dt_json *json, const struct dt_job_rules *rules,
                            struct dt_faults *faults)
{
    struct dt_json_reader r = {.json = json, .faults = faults, .out = d, .context = rules};
    const bool by_rules = d->patch || d->own || rules->beside;
    if (!dt_json_read(&r, by_rules ? &table : &plain, dt_json_root(json)))
        return false;
    d->f.has = (unsigned)r.given;
    d->time_read = (r.good & (DT_MEMBER_RUN_AT | DT_MEMBER_DELAY)) != 0;
    if (has_member(d, DT_MEMBER_RUN_AT) && has_member(d, DT_MEMBER_DELAY)) {
        dt_faults_add(faults, "/run_at", "contradicts delay: give one of the two");
        dt_faults_add(faults, "/delay", "contradicts run_at: give one of the two");
    }
    if (has_member(d, DT_MEMBER_PAYLOAD) && has_member(d, DT_MEMBER_PAYLOAD_BASE64)) {
        dt_faults_add(faults, "/payload", "contradicts payload_base64: give one of the two");
        dt_faults_add(faults, "/payload_base64", "contradicts payload: give one of the two");
    }
    if (has_member(d, DT_MEMBER_CONTENT_TYPE) && !has_member(d, DT_MEMBER_PAYLOAD_BASE64))
        dt_faults_add(faults, "/content_type",
                      "is only allowed with payload_base64; other payloads are application/json");
    if (has_member(d, DT_MEMBER_PAYLOAD_BASE64) && !has_member(d, DT_MEMBER_CONTENT_TYPE))
        dt_faults_add(faults, "/content_type", "is required with payload_base64");
    return true;
}

static dt_status decode_status(const struct decoder *d, const struct dt_faults *faults)
{
    const dt_status status = dt_faults_status(faults);
    return status == DT_INVALID && d->too_large ? DT_TOO_LARGE : status;
}

static void fill_new_job(struct decoder *d, struct dt_new_job *out)
{
    struct dt_new_job *job = &d->f.job;
    if (!job->payload.p)
        job->payload = DT_STR_LIT("null");
    job->payload_binary = has_member(d, DT_MEMBER_PAYLOAD_BASE64);
    dt_job_digest(&d->f);
    *out = *job;
}

dt_status dt_job_decode(const dt_json *json, const struct dt_job_rules *rules, const struct dt_job_path *path,
                        int64_t now_ms, struct dt_faults *faults, struct dt_new_job *out)
{
    struct decoder d = {.own = NULL};
    *out = (struct dt_new_job){0};
    if (!read_job_object(&d, json, rules, faults))
        return DT_INVALID;
    /* Topic and key may be in the path, in the body, or in both. If they are in both, they must be equal. */
    if (path->topic.p) {
        if (d.f.job.topic.p && !dt_str_eq(d.f.job.topic, path->topic))
            dt_faults_add(faults, "/topic", "differs from the topic in the path");
        d.f.job.topic = path->topic;
    } else if (!has_member(&d, DT_MEMBER_TOPIC)) {
        dt_faults_add(faults, "/topic", "is required");
    }
    if (path->key.p) {
        if (d.f.job.key.p && !dt_str_eq(d.f.job.key, path->key))
            dt_faults_add(faults, "/key", "differs from the key in the path");
        d.f.job.key = path->key;
        d.f.has |= DT_MEMBER_KEY;
    }
    if (!has_member(&d, DT_MEMBER_RUN_AT) && !has_member(&d, DT_MEMBER_DELAY))
        dt_faults_add(faults, "/run_at", "is required: give exactly one of run_at and delay");
    const int64_t due = read_due_ms(&d, rules, now_ms, faults);
    dt_status status = decode_status(&d, faults);
    if (status != DT_OK)
        return status;
    fill_new_job(&d, out);
    out->run_at_ms = due;
    return DT_OK;
}

dt_status dt_job_template_decode(const dt_json *json, const struct dt_job_rules *rules, bool (*own)(struct dt_str name),
                                 struct dt_faults *faults, struct dt_new_job *out)
{
    struct decoder d = {.own = own};
    *out = (struct dt_new_job){0};
    if (!read_job_object(&d, json, rules, faults))
        return DT_INVALID;
    dt_status status = decode_status(&d, faults);
    if (status == DT_OK)
        fill_new_job(&d, out);
    return status;
}

dt_status dt_patch_decode(const dt_json *json, const struct dt_job_rules *rules, int64_t now_ms,
                          struct dt_faults *faults, struct dt_patch *out)
{
    struct decoder d = {.patch = true};
    const struct dt_job_fields *f = &d.f;
    const struct dt_new_job *job = &d.f.job;
    *out = (struct dt_patch){0};
    if (!read_job_object(&d, json, rules, faults))
        return DT_INVALID;
    const int64_t due = read_due_ms(&d, rules, now_ms, faults);
    const dt_status status = decode_status(&d, faults);
    if (status != DT_OK)
        return status;
    out->has_run_at = (f->has & (DT_MEMBER_RUN_AT | DT_MEMBER_DELAY)) != 0;
    out->run_at_is_delay = has_member(&d, DT_MEMBER_DELAY);
    out->run_at_ms = out->run_at_is_delay ? f->delay_ms : due;
    out->has_payload = (f->has & (DT_MEMBER_PAYLOAD | DT_MEMBER_PAYLOAD_BASE64)) != 0;
    out->payload = job->payload;
    out->payload_binary = has_member(&d, DT_MEMBER_PAYLOAD_BASE64);
    out->content_type = job->content_type;
    out->has_retry = has_member(&d, DT_MEMBER_RETRY);
    out->retry = job->retry;
    out->has_ack_timeout = has_member(&d, DT_MEMBER_ACK_TIMEOUT);
    out->ack_timeout_ms = job->ack_timeout_ms;
    out->has_partition_key = has_member(&d, DT_MEMBER_PARTITION_KEY);
    out->partition_key = job->partition_key;
    out->has_headers = has_member(&d, DT_MEMBER_HEADERS);
    out->headers = job->headers;
    out->header_fault = job->header_fault;
    out->has_callback_url = has_member(&d, DT_MEMBER_CALLBACK_URL);
    out->callback_url = job->callback_url;
    return DT_OK;
}

/*
 * ---- the digest of a request ----
 *
 * Two requests with the same key are equal if their digests are equal. The digest is xxh3-128 of a canonical text: for
 * each given member a tag, its length and its bytes; long members (payload, headers) are replaced by their hash. MySQL
 * stores the digest, so it does not depend on the machine's byte order. The form of the text must never change:
 * otherwise the repetition of an earlier request would be a conflict.
 */

struct canon {
    /* Room for topic 200, key 255, partition key 255, content type 255, retry 1,600 and URL 2,000 bytes, and for the
     * small members. */
    unsigned char p[6144];
    size_t n;
};

static void put_digest_u64(struct canon *c, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        c->p[c->n++] = (unsigned char)(v >> (8 * i));
}

static void put_digest_tag(struct canon *c, char tag)
{
    dt_assert_cmp(c->n + 17, <=, sizeof(c->p)); /* room for a tag, a length and a number or a hash */
    c->p[c->n++] = (unsigned char)tag;
}

static void put_digest_i64(struct canon *c, char tag, int64_t v)
{
    put_digest_tag(c, tag);
    put_digest_u64(c, (uint64_t)v);
}

static void put_digest_bytes(struct canon *c, char tag, struct dt_str s)
{
    dt_assert_cmp(s.n, <, sizeof(c->p) - c->n - 9); /* members were read within their limits, so they fit */
    put_digest_tag(c, tag);
    put_digest_u64(c, s.n);
    if (s.n > 0)
        memcpy(c->p + c->n, s.p, s.n);
    c->n += s.n;
}

static void put_digest_hash(struct canon *c, char tag, XXH128_hash_t hash)
{
    put_digest_tag(c, tag);
    put_digest_u64(c, hash.low64);
    put_digest_u64(c, hash.high64);
}

static int compare_headers_by_name(const void *a, const void *b)
{
    return dt_str_order(((const struct dt_header_pair *)a)->name, ((const struct dt_header_pair *)b)->name);
}

static void hash_for_digest(XXH3_state_t *state, struct dt_str s)
{
    unsigned char n[8];
    for (unsigned i = 0; i < 8; i++)
        n[i] = (unsigned char)((uint64_t)s.n >> (8 * i));
    XXH3_128bits_update(state, n, sizeof(n));
    if (s.n > 0)
        XXH3_128bits_update(state, s.p, s.n);
}

void dt_job_digest(struct dt_job_fields *f)
{
    struct dt_new_job *job = &f->job;
    struct canon c;
    c.n = 0;
    put_digest_bytes(&c, 't', job->topic);
    if (f->has & DT_MEMBER_KEY)
        put_digest_bytes(&c, 'k', job->key);
    if (f->has & DT_MEMBER_RUN_AT)
        put_digest_i64(&c, 'r', job->run_at_ms);
    if (f->has & DT_MEMBER_DELAY)
        put_digest_i64(&c, 'd', f->delay_ms);
    if (f->has & DT_MEMBER_RETRY)
        put_digest_bytes(&c, 'y', job->retry);
    if (f->has & DT_MEMBER_ACK_TIMEOUT)
        put_digest_i64(&c, 'a', job->ack_timeout_ms);
    if (f->has & DT_MEMBER_PARTITION_KEY)
        put_digest_bytes(&c, 'p', job->partition_key);
    if (f->has & DT_MEMBER_CONTENT_TYPE)
        put_digest_bytes(&c, 'c', job->content_type);
    if (f->has & DT_MEMBER_HEADERS) {
        XXH3_state_t state;
        XXH3_128bits_reset(&state);
        if (f->n_pairs > 1)
            qsort(f->pairs, f->n_pairs, sizeof(*f->pairs), compare_headers_by_name);
        for (size_t i = 0; i < f->n_pairs; i++) {
            hash_for_digest(&state, f->pairs[i].name);
            hash_for_digest(&state, f->pairs[i].value);
        }
        put_digest_hash(&c, 'h', XXH3_128bits_digest(&state));
    }
    if (f->has & DT_MEMBER_CALLBACK_URL)
        put_digest_bytes(&c, 'u', job->callback_url);
    put_digest_hash(&c, f->has & DT_MEMBER_PAYLOAD_BASE64 ? 'b' : 'j', XXH3_128bits(job->payload.p, job->payload.n));
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(c.p, c.n));
    memcpy(job->digest, canonical.digest, 16);
}

void dt_job_digest_add(unsigned char digest[16], struct dt_str text)
{
    XXH3_state_t state;
    XXH128_canonical_t canonical;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, digest, 16);
    hash_for_digest(&state, text);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(digest, canonical.digest, 16);
}

uint64_t dt_key_hash(struct dt_str topic, struct dt_str key)
{
    uint64_t hash = XXH3_64bits_withSeed(key.p, key.n, XXH3_64bits(topic.p, topic.n));
    return hash != 0 ? hash : 1;
}

/* ---- writing a job ---- */

#define STORED_DEPTH_MAX 128 /* limits.json_depth may have been larger when the job was made */

/* Writes a delay. A delay of digits and one unit (s, m, h or d) is shown as stored. Other delays are shown in the short
 * form if they are whole seconds, otherwise as ISO 8601. Text that is not a delay (after a manual edit) is shown
 * unchanged. */
static void put_retry_delay(struct dt_strbuf *out, struct dt_str word)
{
    int64_t ms[DT_RETRY_MAX];
    unsigned n;
    bool is_short = word.n >= 2 && memchr("smhd", word.p[word.n - 1], 4);
    for (size_t i = 0; is_short && i < word.n - 1; i++)
        is_short = word.p[i] >= '0' && word.p[i] <= '9';
    if (is_short || dt_retry_parse(word, ms, &n) != DT_OK || n != 1) {
        dt_json_put_string(out, NULL, word);
    } else if (ms[0] % 1000) {
        dt_json_put_duration(out, NULL, ms[0]);
    } else {
        dt_json_comma(out);
        dt_strbuf_addc(out, '"');
        dt_duration_add_short(out, ms[0]);
        dt_strbuf_addc(out, '"');
    }
}

static bool is_separator(char c)
{
    return c == ' ' || c == ',';
}

void dt_retry_put(struct dt_strbuf *out, const char *name, struct dt_str retry)
{
    dt_json_begin_array(out, name);
    for (size_t i = 0; i < retry.n;) {
        const size_t start = i;
        while (i < retry.n && !is_separator(retry.p[i]))
            i++;
        if (i > start)
            put_retry_delay(out, (struct dt_str){retry.p + start, i - start});
        else
            i++;
    }
    dt_json_end_array(out);
}

/* Returns whether a text is JSON. If memory runs out, the answer is unknown, and `out` is marked as failed. */
static bool is_json_text(struct dt_strbuf *out, dt_json *check, struct dt_str text)
{
    const struct dt_json_limits limits = {.depth = STORED_DEPTH_MAX, .check_only = true};
    dt_status status = check ? dt_json_parse(check, text, &limits, NULL) : DT_OK;
    out->failed = out->failed || status == DT_NOMEM;
    return status == DT_OK;
}

static void put_retry_policy(struct dt_strbuf *out, const struct dt_job *job)
{
    const struct dt_str retry = job->retry;
    int64_t attempts = 1;
    for (size_t i = 0; i < retry.n; i++)
        attempts += !is_separator(retry.p[i]) && (i == 0 || is_separator(retry.p[i - 1]));
    dt_json_put_int(out, "max_attempts", attempts);
    dt_retry_put(out, "retry", retry);
    dt_json_put_duration(out, "ack_timeout", job->ack_timeout_ms);
    if (job->no_retries)
        dt_json_put_bool(out, "retries_cancelled", true);
}

void dt_job_add(struct dt_strbuf *out, const struct dt_job *job, const struct dt_job_view *view)
{
    const bool terminal = dt_job_state_terminal(job->state);
    dt_strbuf_reserve(out, 640 + (view->payload ? job->payload.n : 0));
    dt_json_begin_object(out, NULL);
    dt_json_put_id(out, "id", job->id);
    dt_json_put_given(out, "topic", job->topic);
    dt_json_put_given(out, "key", job->key);
    dt_json_put_word(out, "state", dt_job_state_name(job->state));
    dt_json_put_time(out, "run_at", job->run_at_ms);
    dt_json_put_time(out, "next_at", terminal ? 0 : job->next_at_ms);
    dt_json_put_int(out, "attempt", job->attempt);
    if (job->failures > 0 || job->error_at_ms > 0)
        dt_json_put_int(out, "failures", job->failures);
    if (job->error_at_ms) {
        dt_json_begin_object(out, "last_error");
        dt_json_put_string(out, "code", job->error_code);
        dt_json_put_string(out, "message", job->error_message);
        dt_json_put_time(out, "at", job->error_at_ms);
        dt_json_end_object(out);
    }
    put_retry_policy(out, job);
    dt_json_put_given(out, "partition_key", job->partition_key);
    if (job->headers.p && is_json_text(out, view->check, job->headers))
        dt_json_put_raw(out, "headers", job->headers);
    dt_json_put_given(out, "callback_url", job->callback_url);
    if (view->payload && !job->payload_binary && is_json_text(out, view->check, job->payload)) {
        dt_json_put_raw(out, "payload", job->payload);
    } else if (view->payload) {
        dt_json_put_base64(out, "payload_base64", job->payload);
        dt_json_put_string(out, "content_type",
                           job->content_type.p ? job->content_type : DT_STR_LIT("application/json"));
    }
    dt_json_put_word(out, "waiting_for", view->waiting_for);
    dt_json_put_time(out, "created_at", job->created_at_ms);
    dt_json_put_time(out, "updated_at", job->updated_at_ms);
    if (terminal && job->finished_at_ms > 0)
        dt_json_put_time(out, "finished_at", job->finished_at_ms);
    dt_json_put_int(out, "version", job->version);
    if (view->deadline_ms)
        dt_json_put_time(out, "deadline", view->deadline_ms);
    dt_json_put_given(out, "outcome", dt_str(view->outcome));
    dt_json_end_object(out);
}

void dt_job_add_json(struct dt_strbuf *out, const struct dt_job *job, bool with_payload, const char *waiting_for)
{
    struct dt_job_view view = {.payload = with_payload, .waiting_for = waiting_for};
    if (dt_json_new(&view.check) != DT_OK) {
        out->failed = true;
        return;
    }
    dt_job_add(out, job, &view);
    dt_json_free(view.check);
}
