/* One message: a JSON body and an id; for a webhook the headers of Standard Webhooks 1.0. */
#include "http/webhook_sign.h"
#include "outbox_parts.h"

static dt_status copy_out(struct dt_strbuf *text, struct dt_arena *arena, struct dt_str *out)
{
    *out = text->failed ? DT_STR_NONE : dt_arena_copy(arena, dt_strbuf_str(text));
    dt_strbuf_clear(text);
    return out->p ? DT_OK : DT_NOMEM;
}

dt_status dt_alert_text_of(const struct dt_message_row *message, struct dt_arena *arena, struct dt_alert_text *out)
{
    struct dt_strbuf body;
    dt_strbuf_init(&body);
    dt_alert_add_message(&body, &message->alert, message->event, message->made_ms);
    out->alert = dt_arena_printf(arena, "%lld", (long long)message->alert.id);
    out->id = dt_arena_printf(arena, "%lld/%lld", (long long)message->alert.id, (long long)message->made_ms);
    dt_status status = copy_out(&body, arena, &out->body);
    return out->alert.p && out->id.p ? status : DT_NOMEM;
}

dt_status dt_alert_request(const struct dt_alert_text *text, const struct dt_callback_secret *secret, int64_t now_ms,
                           struct dt_arena *arena, struct dt_http_request *out)
{
    const struct dt_webhook webhook = {.id = text->id, .timestamp_s = now_ms / 1000, .body = text->body};
    struct dt_http_header headers[] = {
        {DT_STR_LIT("content-type"), DT_STR_LIT("application/json")},
        {DT_STR_LIT("webhook-id"), text->id},
        {DT_STR_LIT("webhook-timestamp"), dt_arena_printf(arena, "%lld", (long long)webhook.timestamp_s)},
        {DT_STR_LIT("user-agent"), DT_STR_LIT("duetime/" DUETIME_VERSION)},
        {DT_STR_LIT("webhook-signature"), DT_STR_NONE},
    };
    const size_t n = sizeof(headers) / sizeof(*headers);
    struct dt_strbuf signature;
    dt_strbuf_init(&signature);
    dt_status status = secret ? dt_webhook_sign(&webhook, secret, &signature) : DT_OK;
    if (status == DT_OK && secret)
        status = copy_out(&signature, arena, &headers[n - 1].value);
    dt_strbuf_clear(&signature);
    struct dt_http_header *copy = dt_arena_alloc(arena, sizeof(headers));
    if (status != DT_OK)
        return status;
    if (!copy || !headers[2].value.p)
        return DT_NOMEM;
    memcpy(copy, headers, sizeof(headers));
    out->headers = copy;
    out->n_headers = secret ? n : n - 1;
    out->body = text->body;
    return DT_OK;
}
