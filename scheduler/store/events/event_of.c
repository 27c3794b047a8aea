/* The differences between a job, a topic or a schedule before and after a change: see event_of.h. */
#include "store/events/event_of.h"

#include "job/job_state.h"

static struct dt_str state_of(const struct dt_job *job)
{
    return dt_str(dt_job_state_name(job->state));
}

/* Payloads may be large, and headers are texts of any kind: that they changed is told, and how large they are. */
static void compare_content(struct dt_event_diff *d, const struct dt_job *a, const struct dt_job *b)
{
    dt_event_diff_text(d, "content_type", a->content_type, b->content_type);
    dt_event_diff_hidden(d, "headers", a->headers, b->headers);
    if (dt_str_eq(a->payload, b->payload))
        return;
    dt_event_diff_hidden(d, "payload", a->payload, b->payload);
    dt_event_diff_number(d, "payload_bytes", (int64_t)a->payload.n, (int64_t)b->payload.n);
}

dt_status dt_event_of_job(dt_db *db, const struct dt_job_event *event, const struct dt_job *before,
                          const struct dt_job *after, struct dt_error *err)
{
    struct dt_job_event e = *event;
    struct dt_event_diff d;
    e.topic = after->topic;
    e.job_id = after->id;
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "state", state_of(before), state_of(after));
    dt_event_diff_time(&d, "run_at", before->run_at_ms, after->run_at_ms);
    dt_event_diff_time(&d, "next_at", before->next_at_ms, after->next_at_ms);
    dt_event_diff_number(&d, "failures", before->failures, after->failures);
    dt_event_diff_bool(&d, "no_retries", before->no_retries, after->no_retries);
    dt_event_diff_text(&d, "retry", before->retry, after->retry);
    dt_event_diff_duration(&d, "ack_timeout", before->ack_timeout_ms, after->ack_timeout_ms);
    dt_event_diff_text(&d, "partition_key", before->partition_key, after->partition_key);
    dt_event_diff_text(&d, "callback_url", before->callback_url, after->callback_url);
    compare_content(&d, before, after);
    dt_event_diff_number(&d, "version", before->version, after->version);
    return dt_event_diff_write(&d, db, &e, err);
}

static void compare_callback(struct dt_event_diff *d, const struct dt_topic_callback *a,
                             const struct dt_topic_callback *b)
{
    dt_event_diff_text(d, "callback_url", a->places.url, b->places.url);
    dt_event_diff_text(d, "callback_hosts", a->places.hosts, b->places.hosts);
    dt_event_diff_duration(d, "callback_timeout", a->timeout_ms, b->timeout_ms);
    dt_event_diff_hidden(d, "callback_headers", a->headers, b->headers);
    dt_event_diff_hidden(d, "callback_secret", a->secret, b->secret);
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
    compare_callback(&d, &a->callback, &b->callback);
    return dt_event_diff_write(&d, db, &e, err);
}

static void compare_times(struct dt_event_diff *d, const struct dt_schedule *a, const struct dt_schedule *b)
{
    dt_event_diff_text(d, "cron", a->cron, b->cron);
    dt_event_diff_duration(d, "every", a->every_ms, b->every_ms);
    dt_event_diff_text(d, "time_zone", a->time_zone, b->time_zone);
    dt_event_diff_time(d, "starts_at", a->starts_at_ms, b->starts_at_ms);
    dt_event_diff_time(d, "ends_at", a->ends_at_ms, b->ends_at_ms);
    dt_event_diff_text(d, "overlap", dt_str(dt_overlap_name(a->overlap)), dt_str(dt_overlap_name(b->overlap)));
    dt_event_diff_duration(d, "catch_up", a->catch_up_ms, b->catch_up_ms);
    dt_event_diff_number(d, "catch_up_max", a->catch_up_max, b->catch_up_max);
    dt_event_diff_duration(d, "jitter", a->jitter_ms, b->jitter_ms);
    dt_event_diff_bool(d, "paused", a->paused, b->paused);
}

dt_status dt_event_of_schedule(dt_db *db, const struct dt_job_event *event, const struct dt_schedule *before,
                               const struct dt_schedule *after, struct dt_error *err)
{
    static const struct dt_schedule none;
    const struct dt_schedule *a = before ? before : &none;
    const struct dt_schedule *b = after ? after : &none;
    struct dt_job_event e = *event;
    struct dt_event_diff d;
    e.topic = after ? after->job.topic : before->job.topic;
    e.subject = after ? after->name : before->name;
    if (before == after)
        return dt_events_write(db, &e, 1, err);
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "topic", a->job.topic, b->job.topic);
    compare_times(&d, a, b);
    dt_event_diff_text(&d, "retry", a->job.retry, b->job.retry);
    dt_event_diff_duration(&d, "ack_timeout", a->job.ack_timeout_ms, b->job.ack_timeout_ms);
    dt_event_diff_text(&d, "callback_url", a->job.callback_url, b->job.callback_url);
    dt_event_diff_hidden(&d, "headers", a->job.headers, b->job.headers);
    dt_event_diff_hidden(&d, "payload", a->job.payload, b->job.payload);
    dt_event_diff_number(&d, "version", a->version, b->version);
    return dt_event_diff_write(&d, db, &e, err);
}
