/*
 * Messages for consumers, in CloudEvents' binary mode for Kafka (CloudEvents 1.0, Kafka protocol binding).
 */
#include "message.h"

#include "job/job_encode.h"
#include "job/retry.h"

#define OWN_HEADERS_MAX 11
#define NOTICE_MAX      1000000 /* below Kafka's default limit of a message */

struct headers {
    struct dt_kafka_header *v;
    size_t n;
};

static void add(struct headers *h, const char *name, struct dt_str value)
{
    if (value.p)
        h->v[h->n++] = (struct dt_kafka_header){dt_str(name), value};
}

/* printf into the arena. */
static struct dt_str text(struct dt_arena *arena, const char *fmt, ...) DT_PRINTF(2, 3);
static struct dt_str text(struct dt_arena *arena, const char *fmt, ...)
{
    char buf[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(buf, sizeof(buf), fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(buf))
        return DT_STR_NONE;
    return dt_arena_copy(arena, (struct dt_str){buf, (size_t)n});
}

static struct dt_str time_text(struct dt_arena *arena, int64_t ms)
{
    char buf[25];
    dt_time_format(ms, buf);
    return dt_arena_copy(arena, dt_str(buf));
}

/* The caller's headers: a JSON object of strings, checked when the job was made; by hand it may be anything. */
static dt_status add_callers(struct headers *h, struct dt_str object, dt_json *json, struct dt_arena *arena)
{
    struct dt_json_limits limits = {.depth = 2};
    if (!object.p || dt_json_parse(json, object, &limits, NULL) != DT_OK || dt_json_root(json)->type != DT_JSON_OBJECT)
        return DT_OK;
    const struct dt_json_node *root = dt_json_root(json);
    struct dt_kafka_header *v = dt_arena_alloc(arena, (OWN_HEADERS_MAX + root->n) * sizeof(*v));
    if (!v)
        return DT_NOMEM;
    memcpy(v, h->v, h->n * sizeof(*v));
    h->v = v;
    for (const struct dt_json_node *m = dt_json_first(json, root); m; m = dt_json_sibling(json, root, m)) {
        if (m->type != DT_JSON_STRING)
            continue;
        struct dt_kafka_header header = {dt_arena_copy(arena, m->name), dt_arena_copy(arena, m->str)};
        if (!header.name.p || !header.value.p)
            return DT_NOMEM;
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
    struct dt_str id = text(arena, "%lld", (long long)from->claim.id);
    add(&h, "content-type", from->content_type.p ? from->content_type : DT_STR_LIT("application/json"));
    add(&h, "ce_specversion", DT_STR_LIT("1.0"));
    add(&h, "ce_id", text(arena, "%lld/%lld", (long long)from->claim.id, (long long)from->claim.attempt));
    add(&h, "ce_source", text(arena, "/duetime/%s", installation));
    add(&h, "ce_type", from->topic);
    add(&h, "ce_subject", from->key.p ? from->key : id);
    add(&h, "ce_time", time_text(arena, now_ms));
    add(&h, "ce_jobid", id);
    add(&h, "ce_jobkey", from->key);
    add(&h, "ce_attempt", text(arena, "%lld", (long long)from->claim.attempt));
    add(&h, "ce_scheduledtime", time_text(arena, from->claim.due_ms));
    dt_status status = add_callers(&h, from->headers, json, arena);
    *message = (struct dt_kafka_message){.topic = from->kafka_topic,
                                         .key = from->partition_key,
                                         .value = from->payload,
                                         .headers = h.v,
                                         .n_headers = h.n};
    return status == DT_OK && !id.p ? DT_NOMEM : status;
}

/* The job as JSON; without its payload when that, as text, makes it larger than Kafka takes. */
static struct dt_str notice_body(const struct dt_job *job, struct dt_arena *arena)
{
    struct dt_strbuf body;
    dt_strbuf_init(&body);
    dt_job_add_json(&body, job, true, NULL);
    if (body.n > NOTICE_MAX) {
        dt_strbuf_reset(&body);
        dt_job_add_json(&body, job, false, NULL);
    }
    struct dt_str value = body.failed ? DT_STR_NONE : dt_arena_copy(arena, dt_strbuf_str(&body));
    dt_strbuf_clear(&body);
    return value;
}

dt_status dt_message_of_notice(const struct dt_notice *notice, const char *installation, struct dt_arena *arena,
                               struct dt_kafka_message *message)
{
    const struct dt_job *job = &notice->job;
    struct headers h = {.v = dt_arena_alloc(arena, OWN_HEADERS_MAX * sizeof(*h.v))};
    struct dt_str value = notice_body(job, arena);
    struct dt_str id = text(arena, "%lld", (long long)job->id);
    if (!h.v || !value.p || !id.p)
        return DT_NOMEM;
    add(&h, "content-type", DT_STR_LIT("application/json"));
    add(&h, "ce_specversion", DT_STR_LIT("1.0"));
    add(&h, "ce_id", text(arena, "%lld/%lld/dead", (long long)job->id, (long long)notice->attempt));
    add(&h, "ce_source", text(arena, "/duetime/%s", installation));
    add(&h, "ce_type", DT_STR_LIT("duetime.dead"));
    add(&h, "ce_subject", job->key.p ? job->key : id);
    add(&h, "ce_time", time_text(arena, notice->made_at_ms));
    add(&h, "ce_jobid", id);
    add(&h, "ce_jobkey", job->key);
    add(&h, "ce_attempt", text(arena, "%lld", (long long)notice->attempt));
    *message = (struct dt_kafka_message){.topic = text(arena, "%s.dead", installation),
                                         .key = job->partition_key,
                                         .value = value,
                                         .headers = h.v,
                                         .n_headers = h.n};
    return message->topic.p ? DT_OK : DT_NOMEM;
}
