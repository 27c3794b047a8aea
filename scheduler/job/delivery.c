/* Implements delivery.h: the names of deliveries, and whether a job fits the delivery of its topic. */
#include "delivery.h"

const char *const dt_delivery_names[] = {[DT_DELIVERY_UNSET] = "",
                                         [DT_DELIVERY_KAFKA] = "kafka",
                                         [DT_DELIVERY_HTTP] = "http",
                                         [DT_DELIVERY_PULL] = "pull",
                                         NULL};

const char *dt_delivery_id_name(enum dt_delivery_id delivery)
{
    return dt_delivery_names[delivery];
}

enum dt_dealing dt_delivery_dealing(enum dt_delivery_id delivery)
{
    static const enum dt_dealing dealings[] = {
        [DT_DELIVERY_HTTP] = DT_DEALING_HANDS, [DT_DELIVERY_PULL] = DT_DEALING_OFFERS};
    return dealings[delivery];
}

/* The first misfit is reported, so the order of the checks is part of the API. */
bool dt_callback_fits(const struct dt_callback_terms *topic, const struct dt_callback_asked *asked,
                      struct dt_callback_misfit *out)
{
    const bool http = topic->delivery == DT_DELIVERY_HTTP;
    *out = (struct dt_callback_misfit){0};
    if (asked->asks_url && asked->url.p && !http)
        *out = (struct dt_callback_misfit){.pointer = "/callback_url",
                                           .reason = "is only for topics whose delivery is \"http\""};
    else if (asked->asks_url && !asked->url.p && http && !topic->has_url)
        *out = (struct dt_callback_misfit){.pointer = "/callback_url",
                                           .reason = "is required: the topic has no callback_url"};
    else if (http && asked->ack_timeout_ms > 0 && asked->ack_timeout_ms <= topic->timeout_ms)
        *out = (struct dt_callback_misfit){.pointer = "/ack_timeout",
                                           .reason = "must be longer than the topic's callback_timeout"};
    else if (http && asked->header_fault.reason)
        *out = (struct dt_callback_misfit){"/headers", asked->header_fault.name, asked->header_fault.reason};
    return !out->reason;
}

struct dt_callback_asked dt_callback_asked_of(const struct dt_new_job *job)
{
    return (struct dt_callback_asked){.asks_url = true,
                                      .url = job->callback_url,
                                      .ack_timeout_ms = job->ack_timeout_ms,
                                      .header_fault = job->header_fault};
}

int64_t dt_callback_timeout_ms(int64_t timeout_ms, int64_t ack_timeout_ms)
{
    int64_t ack_ms = ack_timeout_ms > 0 ? ack_timeout_ms : DT_ACK_TIMEOUT_DEFAULT_MS;
    if (timeout_ms > 0)
        return timeout_ms;
    return dt_later(dt_earlier(DT_CALLBACK_TIMEOUT_DEFAULT_MS, ack_ms / 2), 1);
}
