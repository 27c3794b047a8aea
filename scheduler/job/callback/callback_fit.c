/* One question a member, in the order in which answers name them. */
#include "job/callback/callback_fit.h"

static const char *check_url(const struct dt_callback_terms *topic, const struct dt_callback_asked *asked)
{
    if (!asked->asks_url)
        return NULL;
    if (asked->url.p && topic->delivery != DT_DELIVERY_HTTP)
        return "is for topics whose delivery is \"http\", and that of this topic is another one";
    if (!asked->url.p && topic->delivery == DT_DELIVERY_HTTP && !topic->has_url)
        return "is required: the topic has no callback_url";
    return NULL;
}

static const char *check_ack_timeout(const struct dt_callback_terms *topic, const struct dt_callback_asked *asked)
{
    bool short_of_it = asked->ack_timeout_ms > 0 && asked->ack_timeout_ms <= topic->timeout_ms;
    return topic->delivery == DT_DELIVERY_HTTP && short_of_it ? "must be longer than the topic's callback_timeout"
                                                              : NULL;
}

static struct dt_header_fault check_headers(const struct dt_callback_terms *topic,
                                            const struct dt_callback_asked *asked)
{
    return topic->delivery == DT_DELIVERY_HTTP ? asked->header_fault : (struct dt_header_fault){0};
}

bool dt_callback_fits(const struct dt_callback_terms *topic, const struct dt_callback_asked *asked,
                      struct dt_callback_misfit *out)
{
    *out = (struct dt_callback_misfit){.pointer = "/callback_url", .reason = check_url(topic, asked)};
    if (out->reason)
        return false;
    *out = (struct dt_callback_misfit){.pointer = "/ack_timeout", .reason = check_ack_timeout(topic, asked)};
    if (out->reason)
        return false;
    const struct dt_header_fault fault = check_headers(topic, asked);
    *out = (struct dt_callback_misfit){"/headers", fault.name, fault.reason};
    return !out->reason;
}

struct dt_callback_asked dt_callback_asked_of(const struct dt_new_job *job)
{
    return (struct dt_callback_asked){.asks_url = true,
                                      .url = job->callback_url,
                                      .ack_timeout_ms = job->ack_timeout_ms,
                                      .header_fault = job->header_fault};
}
