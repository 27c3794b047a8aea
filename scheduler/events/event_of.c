/* The differences between a job, a topic or a schedule before and after a change: see event_of.h. */
#include "event_of.h"

#include "job/job_state.h"

dt_status dt_event_of_job(dt_db *db, const struct dt_job_event *event, const struct dt_job *before,
                          const struct dt_job *after, struct dt_error *err)
{
    struct dt_job_event e = *event;
    struct dt_event_diff d;
    e.topic = after->topic;
    e.job_id = after->id;
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "state", dt_str(dt_job_state_name(before->state)), dt_str(dt_job_state_name(after->state)));
    dt_event_diff_time(&d, "run_at", before->run_at_ms, after->run_at_ms);
    dt_event_diff_time(&d, "next_at", before->next_at_ms, after->next_at_ms);
    dt_event_diff_number(&d, "failures", before->failures, after->failures);
    dt_event_diff_bool(&d, "no_retries", before->no_retries, after->no_retries);
    dt_event_diff_text(&d, "retry", before->retry, after->retry);
    dt_event_diff_duration(&d, "ack_timeout", before->ack_timeout_ms, after->ack_timeout_ms);
    dt_event_diff_text(&d, "partition_key", before->partition_key, after->partition_key);
    dt_event_diff_text(&d, "callback_url", before->callback_url, after->callback_url);
    dt_event_diff_text(&d, "content_type", before->content_type, after->content_type);
    /* Payloads may be large, and headers are texts of any kind: that they changed is told, and how large they are. */
    dt_event_diff_hidden(&d, "headers", before->headers, after->headers);
    if (!dt_str_eq(before->payload, after->payload)) {
        dt_event_diff_hidden(&d, "payload", before->payload, after->payload);
        dt_event_diff_number(&d, "payload_bytes", (int64_t)before->payload.n, (int64_t)after->payload.n);
    }
    dt_event_diff_number(&d, "version", before->version, after->version);
    return dt_event_diff_write(&d, db, &e, err);
}

static struct dt_str delivery_of(const struct dt_topic *topic)
{
    return topic->delivery == DT_DELIVERY_UNSET ? DT_STR_NONE : dt_str(dt_delivery_id_name(topic->delivery));
}

dt_status dt_event_of_topic(dt_db *db, const struct dt_job_event *event, const struct dt_topic *before,
                            const struct dt_topic *after, struct dt_error *err)
{
    static const struct dt_topic none = {.retention_ms = -1};
    const struct dt_topic *a = before ? before : &none;
    const struct dt_topic *b = after ? after : &none;
    struct dt_job_event e = *event;
    struct dt_event_diff d;
    e.topic = after ? after->name : before->name;
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "name", a->name, b->name);
    dt_event_diff_text(&d, "delivery", delivery_of(a), delivery_of(b));
    dt_event_diff_text(&d, "kafka_topic", a->kafka_topic, b->kafka_topic);
    dt_event_diff_text(&d, "retry", a->retry, b->retry);
    dt_event_diff_duration(&d, "ack_timeout", a->ack_timeout_ms, b->ack_timeout_ms);
    dt_event_diff_duration(&d, "retention", a->retention_ms, b->retention_ms);
    dt_event_diff_number(&d, "max_in_flight", a->max_in_flight, b->max_in_flight);
    dt_event_diff_text(&d, "rate_limit", a->rate_limit, b->rate_limit);
    dt_event_diff_bool(&d, "paused", a->paused, b->paused);
    dt_event_diff_text(&d, "callback_url", a->callback.places.url, b->callback.places.url);
    dt_event_diff_text(&d, "callback_hosts", a->callback.places.hosts, b->callback.places.hosts);
    dt_event_diff_duration(&d, "callback_timeout", a->callback.timeout_ms, b->callback.timeout_ms);
    dt_event_diff_hidden(&d, "callback_headers", a->callback.headers, b->callback.headers);
    dt_event_diff_hidden(&d, "callback_secret", a->callback.secret, b->callback.secret);
    return dt_event_diff_write(&d, db, &e, err);
}
