/* Builds messages for consumers, in CloudEvents' binary mode for Kafka (CloudEvents 1.0, Kafka protocol binding). */
#include "message.h"

#include "base/assert.h"
#include "deliver/cloud_event.h"
#include "job/job_json.h"

#define OWN_HEADERS_MAX (1 + DT_CLOUD_EVENT_ATTRIBUTES)
#define NOTICE_MAX      1000000 /* maximal bytes of a dead letter; below Kafka's default limit for a message */

struct headers {
    struct dt_kafka_header *v;
    size_t n;
};

static void add_header(struct headers *h, const char *name, struct dt_str value)
{
    if (value.p)
        h->v[h->n++] = (struct dt_kafka_header){dt_str(name), value};
}

static dt_status add_attribute_headers(struct headers *h, const struct dt_cloud_event *event, struct dt_arena *arena)
{
    struct dt_cloud_event_attribute attributes[DT_CLOUD_EVENT_ATTRIBUTES];
    size_t n;
    dt_status status = dt_cloud_event_attributes(event, arena, attributes, &n);
    for (size_t i = 0; status == DT_OK && i < n; i++)
        add_header(h, attributes[i].name, attributes[i].value);
    dt_assert_cmp(h->n, <=, OWN_HEADERS_MAX);
    return status;
}

static dt_status add_caller_headers(struct headers *h, struct dt_str text, dt_json *json, struct dt_arena *arena)
{
    struct dt_caller_headers callers;
    struct dt_str name;
    struct dt_str value;
    dt_status status = dt_caller_headers_open(&callers, text, json);
    if (status != DT_OK || callers.max == 0)
        return status;
    struct dt_kafka_header *v = dt_arena_alloc(arena, (OWN_HEADERS_MAX + callers.max) * sizeof(*v));
    if (!v)
        return DT_NOMEM;
    memcpy(v, h->v, h->n * sizeof(*v));
    h->v = v;
    while (dt_caller_headers_next(&callers, &name, &value)) {
        struct dt_kafka_header header = {dt_arena_copy(arena, name), dt_arena_copy(arena, value)};
        if (!header.name.p || !header.value.p)
            return DT_NOMEM;
        dt_assert_cmp(h->n, <, OWN_HEADERS_MAX + callers.max);
        h->v[h->n++] = header;
    }
    return DT_OK;
}

dt_status dt_message_of_job(const struct dt_outgoing *from, const char *installation, int64_t now_ms, dt_json *json,
                            struct dt_arena *arena, struct dt_kafka_message *message)
{
    struct headers h = {.v = dt_arena_alloc(arena, OWN_HEADERS_MAX * sizeof(*h.v))};
    if (!h.v)
        return DT_NOMEM;
    const struct dt_cloud_event event = dt_cloud_event_of(from, installation, now_ms);
    add_header(&h, "content-type", from->content_type.p ? from->content_type : DT_STR_LIT("application/json"));
    dt_status status = add_attribute_headers(&h, &event, arena);
    DT_THEN(status, add_caller_headers(&h, from->headers, json, arena));
    *message = (struct dt_kafka_message){.topic = from->kafka_topic,
                                         .key = from->partition_key,
                                         .value = from->payload,
                                         .headers = h.v,
                                         .n_headers = h.n};
    return status;
}

dt_status dt_message_of_notice(const struct dt_notice *notice, const char *installation, struct dt_arena *arena,
                               struct dt_kafka_message *message)
{
    const struct dt_job *job = &notice->job;
    struct headers h = {.v = dt_arena_alloc(arena, OWN_HEADERS_MAX * sizeof(*h.v))};
    struct dt_strbuf body = {0};
    dt_job_add_json(&body, job, true, NULL);
    if (body.n > NOTICE_MAX) { /* sends the dead letter without its payload, which as text exceeds Kafka's limit */
        dt_strbuf_reset(&body);
        dt_job_add_json(&body, job, false, NULL);
    }
    struct dt_str value = body.failed ? DT_STR_NONE : dt_arena_copy(arena, dt_strbuf_str(&body));
    dt_strbuf_clear(&body);
    if (!h.v || !value.p)
        return DT_NOMEM;
    const struct dt_cloud_event event = {.job = job->id,
                                         .attempt = notice->attempt,
                                         .id_suffix = "/dead",
                                         .installation = installation,
                                         .type = DT_STR_LIT("duetime.dead"),
                                         .key = job->key,
                                         .time_ms = notice->made_at_ms};
    add_header(&h, "content-type", DT_STR_LIT("application/json"));
    dt_status status = add_attribute_headers(&h, &event, arena);
    *message = (struct dt_kafka_message){.topic = dt_arena_printf(arena, "%s.dead", installation),
                                         .key = job->partition_key,
                                         .value = value,
                                         .headers = h.v,
                                         .n_headers = h.n};
    return status == DT_OK && !message->topic.p ? DT_NOMEM : status;
}
