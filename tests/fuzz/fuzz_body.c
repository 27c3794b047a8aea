/* Bodies of POST /v1/jobs, PUT by key, PATCH, and PUT of a topic (first byte: which). A body is refused with faults
 * that point somewhere, or taken; what is taken keeps its limits, is decoded to the same request again, and reads as
 * JSON in an answer; the answer about a topic can be put back and changes nothing. */
#include "fuzz.h"
#include "job/job.h"
#include "job/job_json.h"
#include "rest/topics_rest.h"
#include "topic/topics.h"

#define NOW_MS INT64_C(1900000000000)

static dt_json *json, *other;
static const struct dt_job_rules rules = {.max_delay_ms = INT64_C(3650) * DT_DAY_MS,
                                          .payload_max = 2000,
                                          .headers_max = 300,
                                          .json_depth = 16,
                                          .installation = {"duetime", 7}};

static void check_faults(const struct dt_faults *faults, dt_status status)
{
    MUST(status == DT_OK || status == DT_INVALID || status == DT_TOO_LARGE);
    MUST((status == DT_OK) == (faults->n == 0));
    for (size_t i = 0; i < faults->n && i < DT_FAULTS_MAX; i++) {
        MUST(faults->v[i].reason.n > 0);
        MUST(faults->v[i].pointer.n == 0 || faults->v[i].pointer.p[0] == '/');
    }
}

static void check_is_json(struct dt_str text)
{
    struct dt_json_limits limits = {.depth = 40};
    MUST(dt_json_parse(other, text, &limits, NULL) == DT_OK);
    MUST(dt_json_root(other)->type == DT_JSON_OBJECT);
}

static void check_headers(struct dt_str headers)
{
    if (!headers.p)
        return;
    check_is_json(headers);
}

static void check_retry(struct dt_str retry)
{
    int64_t delays[DT_RETRY_MAX];
    unsigned n;
    if (retry.p)
        MUST(dt_retry_parse(retry, delays, &n) == DT_OK && retry.n <= DT_RETRY_TEXT_MAX);
}

static void check_job(const struct dt_new_job *job)
{
    struct dt_job made;
    struct dt_strbuf answer = {0};
    struct dt_job_view view = {.payload = true, .check = NULL};
    MUST(job->run_at_ms >= NOW_MS && job->run_at_ms <= NOW_MS + rules.max_delay_ms + 1);
    MUST(!dt_topic_check(job->topic, rules.installation));
    MUST(!job->key.p || !dt_key_check(job->key));
    /* The limit counts names and values as they are; stored, a byte may be escaped with six, and each header has its
     * marks. */
    MUST(job->payload.n <= rules.payload_max && job->headers.n <= 12 * rules.headers_max + 2);
    check_headers(job->headers);
    check_retry(job->retry);
    MUST(job->ack_timeout_ms >= 0);
    dt_job_from_new(&made, job, NOW_MS);
    if (!made.retry.p)
        made.retry = dt_str(DT_RETRY_DEFAULT);
    dt_job_add(&answer, &made, &view);
    check_is_json(dt_strbuf_str(&answer));
    dt_strbuf_clear(&answer);
}

static void job_body(unsigned char flags, struct dt_arena *arena)
{
    struct dt_faults faults = {.arena = arena}, again = {.arena = arena};
    struct dt_new_job job, same;
    const struct dt_job_path path = {.topic = flags & 4 ? dt_str("orders") : DT_STR_NONE,
                                     .key = flags & 4 ? dt_str("k 1") : DT_STR_NONE};
    dt_status status = dt_job_decode(json, &rules, &path, NOW_MS, &faults, &job);
    check_faults(&faults, status);
    if (status != DT_OK)
        return;
    check_job(&job);
    MUST(dt_job_decode(json, &rules, &path, NOW_MS, &again, &same) == DT_OK);
    MUST(memcmp(job.digest, same.digest, sizeof job.digest) == 0 && job.run_at_ms == same.run_at_ms);
}

static void patch_body(struct dt_arena *arena)
{
    struct dt_faults faults = {.arena = arena};
    struct dt_patch patch;
    dt_status status = dt_patch_decode(json, &rules, NOW_MS, &faults, &patch);
    check_faults(&faults, status);
    if (status != DT_OK)
        return;
    if (patch.has_payload)
        MUST(patch.payload.n <= rules.payload_max);
    if (patch.has_retry)
        check_retry(patch.retry);
    if (patch.has_headers)
        check_headers(patch.headers);
}

static bool same_text(struct dt_str a, struct dt_str b)
{
    return !a.p == !b.p && dt_str_eq(a, b);
}

/* What GET shows, put back. */
static void put_back(const struct dt_topic *topic, struct dt_arena *arena)
{
    struct dt_strbuf answer = {0};
    struct dt_faults faults = {.arena = arena};
    struct dt_topic_setting put;
    const struct dt_topic *same = &put.topic;
    dt_topic_add(&answer, topic, NULL);
    check_is_json(dt_strbuf_str(&answer));
    MUST(dt_topic_decode(other, topic->name, &rules, &faults, &put) == DT_OK);
    MUST(same_text(same->kafka_topic, topic->kafka_topic) && same_text(same->retry, topic->retry));
    MUST(same->ack_timeout_ms == topic->ack_timeout_ms && same->retention_ms == topic->retention_ms);
    MUST(put.set_paused && same->paused == topic->paused);
    dt_strbuf_clear(&answer);
}

static void topic_body(struct dt_arena *arena)
{
    struct dt_faults faults = {.arena = arena};
    struct dt_topic_setting put;
    dt_status status = dt_topic_decode(json, dt_str("orders"), &rules, &faults, &put);
    check_faults(&faults, status);
    if (status != DT_OK)
        return;
    check_retry(put.topic.retry);
    if (!put.topic.delivery) /* the topic's own, or the default: a topic that is there has one */
        put.topic.delivery = DT_DELIVERY_KAFKA;
    put_back(&put.topic, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {(const char *)data, n};
    unsigned char flags = input_byte(&in);
    struct dt_json_limits limits = dt_job_json_limits(rules.json_depth);
    struct dt_arena arena = {0};
    if (!json)
        MUST(dt_json_new(&json) == DT_OK && dt_json_new(&other) == DT_OK);
    if ((flags & 3) == 2) /* a topic's body has no payload that need not be looked into */
        limits.opaque = NULL;
    struct dt_str text = exact_copy(input_rest(&in));
    if (dt_json_parse(json, text, &limits, NULL) == DT_OK) {
        if ((flags & 3) == 2)
            topic_body(&arena);
        else if ((flags & 3) == 1)
            patch_body(&arena);
        else
            job_body(flags, &arena);
    }
    dt_arena_clear(&arena);
    free_copy(text);
    return 0;
}
