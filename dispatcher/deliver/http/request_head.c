/*
 * Building the head in one list in the arena. Our own headers come first and cannot be replaced, because no header of a
 * caller may have their names.
 */
#include "request_head.h"

#include <strings.h>

#include "base/assert.h"
#include "base/http/header.h"
#include "deliver/caller_headers.h"
#include "deliver/cloud_event.h"

#define OWN_HEADERS_MAX 16

struct head {
    struct dt_arena *arena;
    struct dt_http_header *v;
    size_t n, cap;
    bool failed; /* memory is out */
};

static void push(struct head *h, struct dt_str name, struct dt_str value)
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

static struct dt_str copy(struct head *h, struct dt_str s)
{
    struct dt_str copied = dt_arena_copy(h->arena, s);
    h->failed = h->failed || (s.p && !copied.p);
    return copied;
}

/* ---- ours ---- */

void dt_percent_encode(struct dt_strbuf *out, struct dt_str value)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < value.n; i++) {
        unsigned char c = (unsigned char)value.p[i];
        if (c > ' ' && c <= '~' && c != '"' && c != '%') {
            dt_strbuf_addc(out, (char)c);
            continue;
        }
        dt_strbuf_addc(out, '%');
        dt_strbuf_addc(out, digits[c >> 4]);
        dt_strbuf_addc(out, digits[c & 15]);
    }
}

static void add_attribute(struct head *h, struct dt_str name, struct dt_str value)
{
    if (!value.p)
        return;
    bool plain = true;
    for (size_t i = 0; plain && i < value.n; i++)
        plain = value.p[i] > ' ' && value.p[i] <= '~' && value.p[i] != '"' && value.p[i] != '%';
    if (plain) {
        push(h, name, value);
        return;
    }
    struct dt_strbuf encoded;
    dt_strbuf_init(&encoded);
    dt_percent_encode(&encoded, value);
    h->failed = h->failed || encoded.failed;
    if (!encoded.failed)
        push(h, name, copy(h, dt_strbuf_str(&encoded)));
    dt_strbuf_clear(&encoded);
}

static struct dt_str made(struct head *h, struct dt_str text)
{
    h->failed = h->failed || !text.p;
    return text;
}

/* Returns the event's id, "<job>/<attempt>", which names the attempt in other headers, too. */
static struct dt_str add_attributes(struct head *h, const struct dt_outgoing *from, const char *installation,
                                    int64_t now_ms)
{
    const struct dt_cloud_event event = {.job = from->claim.id,
                                         .attempt = from->claim.attempt,
                                         .id_suffix = "",
                                         .installation = installation,
                                         .type = from->topic,
                                         .key = from->key,
                                         .time_ms = now_ms,
                                         .scheduled_ms = from->claim.due_ms};
    struct dt_cloud_event_attribute attributes[DT_CLOUD_EVENT_ATTRIBUTES];
    size_t n = 0;
    struct dt_str id = DT_STR_NONE;
    struct dt_str type = from->content_type.p ? from->content_type : DT_STR_LIT("application/json");
    if (type.n == 0 || dt_callback_header_value_check(type))
        type = DT_STR_LIT("application/octet-stream");
    push(h, DT_STR_LIT("content-type"), type);
    if (dt_cloud_event_attributes(&event, h->arena, attributes, &n) != DT_OK) {
        h->failed = true;
        return id;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(attributes[i].name, "ce_id") == 0)
            id = attributes[i].value;
        add_attribute(h,
                      made(h, dt_arena_join(h->arena, DT_STR_LIT("ce-"), dt_str(attributes[i].name + strlen("ce_")))),
                      attributes[i].value);
    }
    dt_assert(id.p);
    return id;
}

static dt_status add_webhook(struct head *h, struct dt_str id, const struct dt_outgoing *from,
                             const struct dt_callback_setting *setting, int64_t now_ms)
{
    struct dt_webhook webhook = {.id = id, .timestamp_s = (now_ms - setting->ahead_ms) / 1000, .body = from->payload};
    push(h, DT_STR_LIT("idempotency-key"), webhook.id);
    push(h, DT_STR_LIT("webhook-id"), webhook.id);
    push(h, DT_STR_LIT("webhook-timestamp"),
         made(h, dt_arena_printf(h->arena, "%lld", (long long)webhook.timestamp_s)));
    push(h, DT_STR_LIT("user-agent"), DT_STR_LIT("duetime/" DUETIME_VERSION));
    if (!setting->secret)
        return DT_OK;
    struct dt_strbuf value;
    dt_strbuf_init(&value);
    dt_status status = dt_webhook_sign(&webhook, setting->secret, &value);
    h->failed = h->failed || value.failed;
    if (status == DT_OK && !value.failed)
        push(h, DT_STR_LIT("webhook-signature"), copy(h, dt_strbuf_str(&value)));
    dt_strbuf_clear(&value);
    return status;
}

/* ---- the callers' ---- */

static void add_callers(struct head *h, struct dt_str text, dt_json *json)
{
    struct dt_caller_headers callers;
    struct dt_str name;
    struct dt_str value;
    if (dt_caller_headers_open(&callers, text, json) != DT_OK)
        h->failed = true;
    while (dt_caller_headers_next(&callers, &name, &value)) {
        if (dt_callback_header_name_check(name) || dt_callback_header_value_check(value))
            continue;
        struct dt_str copied = copy(h, value);
        size_t at = 0;
        while (at < h->n && !(h->v[at].name.n == name.n && strncasecmp(h->v[at].name.p, name.p, name.n) == 0))
            at++;
        if (at < h->n)
            h->v[at].value = copied;
        else
            push(h, copy(h, name), copied);
    }
}

dt_status dt_request_head(const struct dt_outgoing *from, const struct dt_callback_setting *setting, int64_t now_ms,
                          dt_json *json, struct dt_arena *arena, struct dt_http_request *request)
{
    struct head h = {.arena = arena};
    const struct dt_str id = add_attributes(&h, from, setting->installation, now_ms);
    dt_status status = h.failed ? DT_NOMEM : add_webhook(&h, id, from, setting, now_ms);
    if (status != DT_OK)
        return status;
    add_callers(&h, setting->headers, json);
    add_callers(&h, from->headers, json);
    request->headers = h.v;
    request->n_headers = h.n;
    request->body = from->payload;
    return h.failed ? DT_NOMEM : DT_OK;
}
