/* Builds the headers of a callback as one list in the arena. Our own headers are first. A caller's header cannot
 * replace one of our own, because no caller's header may have one of their names. */
#include <curl/curl.h>
#include <strings.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/http/callback_rules.h"
#include "base/text/encoding.h"
#include "callback.h"
#include "deliver/cloud_event.h"
#include "job/results/results.h"

#define OWN_HEADERS_MAX 16

struct head {
    struct dt_arena *arena;
    struct dt_http_header *v;
    size_t n, cap;
    bool failed; /* memory ran out */
};

static void add_header(struct head *h, struct dt_str name, struct dt_str value)
{
    if (h->n == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : OWN_HEADERS_MAX;
        struct dt_http_header *v = dt_arena_alloc(h->arena, cap * sizeof(*v));
        if (!v) {
            h->failed = true;
            return;
        }
        if (h->n)
            memcpy(v, h->v, h->n * sizeof(*v));
        h->v = v;
        h->cap = cap;
    }
    h->v[h->n++] = (struct dt_http_header){name, value};
}

static struct dt_str copy_to_arena(struct head *h, struct dt_str s)
{
    struct dt_str copied = dt_arena_copy(h->arena, s);
    h->failed = h->failed || (s.p && !copied.p);
    return copied;
}

/* ---- ours ---- */

static void add_attribute_header(struct head *h, struct dt_str name, struct dt_str value)
{
    if (!value.p)
        return;
    bool plain = true;
    for (size_t i = 0; plain && i < value.n; i++)
        plain = value.p[i] > ' ' && value.p[i] <= '~' && value.p[i] != '"' && value.p[i] != '%';
    if (plain) {
        add_header(h, name, value);
        return;
    }
    struct dt_strbuf encoded = {0};
    /* Encodes a value as the HTTP binding of CloudEvents does: blanks, '"', '%' and all bytes outside of 0x21 to 0x7E
     * become %XX. */
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        if (c > ' ' && c <= '~' && c != '"' && c != '%') {
            dt_strbuf_addc(&encoded, (char)c);
            continue;
        }
        dt_strbuf_addc(&encoded, '%');
        dt_strbuf_addc(&encoded, digits[c >> 4]);
        dt_strbuf_addc(&encoded, digits[c & 15]);
    }
    h->failed = h->failed || encoded.failed;
    if (!encoded.failed)
        add_header(h, name, copy_to_arena(h, dt_strbuf_str(&encoded)));
    dt_strbuf_clear(&encoded);
}

static struct dt_str mark_failed_if_null(struct head *h, struct dt_str text)
{
    h->failed = h->failed || !text.p;
    return text;
}

/* Adds the CloudEvents attributes. Returns the event's id, "<job>/<attempt>", because other headers have it too. */
static struct dt_str add_attribute_headers(struct head *h, const struct dt_outgoing *from, const char *installation,
                                           int64_t now_ms)
{
    const struct dt_cloud_event event = dt_cloud_event_of(from, installation, now_ms);
    struct dt_cloud_event_attribute attributes[DT_CLOUD_EVENT_ATTRIBUTES];
    size_t n = 0;
    struct dt_str id = DT_STR_NONE;
    struct dt_str type = from->content_type.p ? from->content_type : DT_STR_LIT("application/json");
    if (type.n == 0 || dt_callback_header_value_check(type))
        type = DT_STR_LIT("application/octet-stream");
    add_header(h, DT_STR_LIT("content-type"), type);
    if (dt_cloud_event_attributes(&event, h->arena, attributes, &n) != DT_OK) {
        h->failed = true;
        return id;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(attributes[i].name, "ce_id") == 0)
            id = attributes[i].value;
        add_attribute_header(h,
                             mark_failed_if_null(h, dt_arena_join(h->arena, DT_STR_LIT("ce-"),
                                                                  dt_str(attributes[i].name + strlen("ce_")))),
                             attributes[i].value);
    }
    dt_assert(id.p);
    return id;
}

static dt_status add_webhook_headers(struct head *h, struct dt_str id, const struct dt_outgoing *from,
                                     const struct dt_callback_setting *setting, int64_t now_ms)
{
    struct dt_webhook webhook = {.id = id, .timestamp_s = (now_ms - setting->ahead_ms) / 1000, .body = from->payload};
    add_header(h, DT_STR_LIT("idempotency-key"), webhook.id);
    add_header(h, DT_STR_LIT("webhook-id"), webhook.id);
    add_header(h, DT_STR_LIT("webhook-timestamp"),
               mark_failed_if_null(h, dt_arena_printf(h->arena, "%lld", (long long)webhook.timestamp_s)));
    add_header(h, DT_STR_LIT("user-agent"), DT_STR_LIT("duetime/" DUETIME_VERSION));
    if (!setting->secret)
        return DT_OK;
    struct dt_strbuf value = {0};
    dt_status status = dt_webhook_sign(&webhook, setting->secret, &value);
    h->failed = h->failed || value.failed;
    if (status == DT_OK && !value.failed)
        add_header(h, DT_STR_LIT("webhook-signature"), copy_to_arena(h, dt_strbuf_str(&value)));
    dt_strbuf_clear(&value);
    return status;
}

/* ---- the callers' ---- */

static void add_caller_headers(struct head *h, struct dt_str text, dt_json *json)
{
    struct dt_caller_headers callers;
    struct dt_str name;
    struct dt_str value;
    if (dt_caller_headers_open(&callers, text, json) != DT_OK)
        h->failed = true;
    while (dt_caller_headers_next(&callers, &name, &value)) {
        if (dt_callback_header_name_check(name) || dt_callback_header_value_check(value))
            continue;
        struct dt_str copied = copy_to_arena(h, value);
        size_t at = 0;
        while (at < h->n && !(h->v[at].name.n == name.n && strncasecmp(h->v[at].name.p, name.p, name.n) == 0))
            at++;
        if (at < h->n)
            h->v[at].value = copied;
        else
            add_header(h, copy_to_arena(h, name), copied);
    }
}

dt_status dt_request_head(const struct dt_outgoing *from, const struct dt_callback_setting *setting, int64_t now_ms,
                          dt_json *json, struct dt_arena *arena, struct dt_http_request *request)
{
    struct head h = {.arena = arena};
    const struct dt_str id = add_attribute_headers(&h, from, setting->installation, now_ms);
    dt_status status = h.failed ? DT_NOMEM : add_webhook_headers(&h, id, from, setting, now_ms);
    if (status != DT_OK)
        return status;
    add_caller_headers(&h, setting->headers, json);
    add_caller_headers(&h, from->headers, json);
    request->headers = h.v;
    request->n_headers = h.n;
    request->body = from->payload;
    return h.failed ? DT_NOMEM : DT_OK;
}

/* Turns a receiver's answer into an outcome. This file only decides whether the answer is a report; results_json.c
 * interprets reports. */

#define DATE_BYTES  64                     /* size of the buffer for a date; the longest date in HTTP has 33 bytes */
#define SECONDS_MAX INT64_C(1000000000000) /* maximum to which longer delays and later dates are cut, in seconds */

static const char *const end_codes[DT_HTTP_ENDS] = {
    [DT_HTTP_TIMEOUT] = "http_timeout", [DT_HTTP_CONNECT] = "http_connect",     [DT_HTTP_DNS] = "http_dns",
    [DT_HTTP_TLS] = "http_tls",         [DT_HTTP_FORBIDDEN] = "http_forbidden", [DT_HTTP_BROKEN] = "http_broken",
    [DT_HTTP_NO_URL] = "http_url",      [DT_HTTP_NO_SECRET] = "http_secret"};

/* ---- messages ---- */

struct dt_str dt_http_message(struct dt_str body, struct dt_arena *arena)
{
    bool shortened = body.n > DT_HTTP_MESSAGE_BYTES;
    size_t n = shortened ? DT_HTTP_MESSAGE_BYTES : body.n;
    char *out = dt_arena_alloc(arena, n + 1);
    size_t length = 0;
    for (size_t i = 0; out && i < n;) {
        const unsigned char *at = (const unsigned char *)body.p + i;
        size_t bytes = dt_utf8_character(at, n - i);
        if (bytes == 0 && shortened && dt_utf8_cut_off(at, n - i))
            break;
        if (bytes > 0)
            memcpy(out + length, at, bytes);
        else
            out[length] = '?';
        i += bytes ? bytes : 1;
        length += bytes ? bytes : 1;
    }
    if (out)
        out[length] = '\0';
    return (struct dt_str){out, length};
}

/* ---- Retry-After ---- */

bool dt_retry_after_parse(struct dt_str text, int64_t now_ms, int64_t max_ms, int64_t *out_ms)
{
    char date[DATE_BYTES] = "";
    int64_t seconds = 0;
    size_t n = 0;
    text = dt_str_trimmed(text);
    for (; n < text.n && text.p[n] >= '0' && text.p[n] <= '9'; n++)
        seconds = dt_earlier(seconds * 10 + (text.p[n] - '0'), SECONDS_MAX);
    if (text.n > 0 && n == text.n) {
        *out_ms = dt_earlier(seconds * 1000, max_ms);
        return true;
    }
    if (n > 0 ||
        text.n >= sizeof(date)) /* a date in HTTP begins with a weekday; curl_getdate also accepts other formats */
        return false;
    memcpy(date, text.n > 0 ? text.p : "", text.n);
    const int64_t at_s = curl_getdate(date, NULL);
    if (at_s < 0)
        return false;
    *out_ms = dt_earlier(dt_later(dt_earlier(at_s, SECONDS_MAX) * 1000 - now_ms, 0), max_ms);
    return true;
}

/* ---- outcomes ---- */

static dt_status add_error(struct dt_callback_outcome *out, const char *code, struct dt_str message,
                           struct dt_arena *arena)
{
    out->result.error_code = dt_arena_copy(arena, dt_str(code));
    out->result.error_message = dt_http_message(message, arena);
    return out->result.error_code.p && out->result.error_message.p ? DT_OK : DT_NOMEM;
}

/* Returns whether the answer's body is a report: decides by the media type, without its parameters. */
static bool is_report_answer(const struct dt_http_answer *answer)
{
    if (!answer->content_type.p)
        return false;
    const char *semicolon = memchr(answer->content_type.p, ';', answer->content_type.n);
    size_t n = semicolon ? (size_t)(semicolon - answer->content_type.p) : answer->content_type.n;
    return dt_str_is_caseless(dt_str_trimmed((struct dt_str){answer->content_type.p, n}),
                              "application/vnd.duetime.result+json");
}

static void init_result(struct dt_callback_outcome *out, const struct dt_callback_attempt *attempt,
                        enum dt_result_status status)
{
    out->result = (struct dt_result){
        .job_id = attempt->job_id, .attempt = attempt->attempt, .status = status, .retry_after_ms = -1};
}

/* Sets the delay of the retry after a failure from the answer's header Retry-After, unless the report already sets a
 * delay. */
static void apply_retry_after(const struct dt_http_answer *answer, const struct dt_callback_attempt *attempt,
                              struct dt_callback_outcome *out)
{
    bool wanted = out->result.status == DT_RESULT_FAILED && out->result.retry_after_ms < 0;
    if (wanted && answer->retry_after.p)
        (void)dt_retry_after_parse(answer->retry_after, attempt->now_ms, attempt->max_delay_ms,
                                   &out->result.retry_after_ms);
}

static dt_status decode_report(const struct dt_http_answer *answer, const struct dt_callback_attempt *attempt,
                               dt_json *json, struct dt_arena *arena, struct dt_callback_outcome *out)
{
    struct dt_json_limits limits = {.depth = 16};
    struct dt_faults faults = {.arena = arena};
    dt_status status = answer->body_whole ? dt_json_parse(json, answer->body, &limits, NULL) : DT_INVALID;
    if (status == DT_OK)
        status = dt_result_decode(json, dt_json_root(json), NULL, &faults, &out->result);
    else if (answer->body_whole)
        out->fault = "is not JSON";
    else
        out->fault = answer->body.n >= DT_HTTP_BODY_MAX ? "is too large" : "is not whole";
    if (status == DT_NOMEM)
        return status;
    if (faults.n)
        out->fault = faults.v[0].reason.p;
    if (status != DT_OK)
        init_result(out, attempt, DT_RESULT_FAILED);
    apply_retry_after(answer, attempt, out);
    return status == DT_OK ? status : add_error(out, "http_report", answer->body, arena);
}

dt_status dt_callback_outcome(const struct dt_http_answer *answer, const struct dt_callback_attempt *attempt,
                              dt_json *json, struct dt_arena *arena, struct dt_callback_outcome *out)
{
    char code[32];
    *out = (struct dt_callback_outcome){.kind = DT_CALLBACK_RESULT, .duration_ms = -1};
    init_result(out, attempt, DT_RESULT_SUCCEEDED);
    if (answer->end == DT_HTTP_UNKNOWN || answer->end == DT_HTTP_WITHHELD) {
        out->kind = DT_CALLBACK_UNKNOWN;
        return DT_OK;
    }
    if (answer->end != DT_HTTP_ANSWERED) {
        out->result.status = DT_RESULT_FAILED;
        return add_error(out, end_codes[answer->end], dt_str(answer->detail), arena);
    }
    out->http_status = answer->status;
    out->duration_ms = answer->duration_ms;
    if (answer->status < 200 || answer->status > 299) {
        snprintf(code, sizeof(code), "http_%d", answer->status);
        out->result.status = answer->status == 410 ? DT_RESULT_GAVE_UP : DT_RESULT_FAILED;
        apply_retry_after(answer, attempt, out);
        return add_error(out, code, answer->body, arena);
    }
    if (is_report_answer(answer))
        return decode_report(answer, attempt, json, arena, out);
    if (answer->status == 202)
        out->kind = DT_CALLBACK_TAKEN;
    return DT_OK;
}
