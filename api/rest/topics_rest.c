/*
 * Topics: GET, PUT, list, pause, resume, DELETE. All work is a worker's; after a change the cache is made to read again
 * and the dispatchers are told. The router has checked the token's topics already.
 *
 * Invariant: nothing is read after a change was committed. Its answer shows the topic as it was read in the
 * transaction, with numbers of jobs that were counted before it.
 */
#include "answer.h"
#include "api.h"
#include "features/operations/operations.h"
#include "handlers.h"
#include "intake/index_writer.h"
#include "job/list/list.h"
#include "request/workers.h"
#include "request/topic_cache.h"
#include "request/request.h"
#include "topic/topics.h"
#include "topic_alerts.h"
#include "topic_callback.h"
#include "topic_deleted.h"

#define BY_NAME 't'
#define TOPIC_BYTES                                                                                                    \
    ((size_t)28 << 10) /* a topic in an answer: twice a retry schedule, three names, a URL, hosts, names of headers */
#define KEEP_TRIES 5   /* a topic that is put by several at once is read again */

/* ---- on a worker ---- */

static enum dt_next answer_topic(struct dt_request *req, int http_status, const struct dt_topic *topic,
                                 const struct dt_topic_counts *counts)
{
    req->status = http_status;
    dt_strbuf_reset(&req->out);
    dt_topic_add(&req->out, topic, counts);
    return DT_REPLY;
}

enum dt_next dt_handle_topic_get(struct dt_request *req, dt_store *store)
{
    struct dt_topic topic;
    struct dt_topic_counts counts;
    struct dt_error err = {0};
    dt_status status = dt_store_topic_get(store, req->params[0], &req->arena, &topic, &err);
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "topic");
    if (status == DT_OK)
        status = dt_store_topic_counts(store, req->params[0], &counts, &err);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    return answer_topic(req, 200, &topic, &counts);
}

/*
 * Puts the setting. If "***" in it stands for values that the topic has, these are read, and the setting is put onto
 * the version that was read; if the topic changed meanwhile, again. INVALID: faults says why, or the terms do.
 */
static dt_status put_setting(struct dt_request *req, dt_store *store, struct dt_topic_terms *terms,
                             struct dt_faults *faults, struct dt_topic_now *now, struct dt_error *err)
{
    const struct dt_topic_setting *setting = req->state;
    struct dt_topic there;
    struct dt_topic topic;
    if (!setting->keeps)
        return dt_store_topic_put(store, &setting->topic, setting->set_paused, terms, now, err);
    for (int i = 0; i < KEEP_TRIES; i++) {
        dt_json *json = dt_scratch_json();
        dt_status status = json ? dt_store_topic_get(store, setting->topic.name, &req->arena, &there, err) : DT_NOMEM;
        const struct dt_topic *found = status == DT_OK ? &there : NULL;
        if (status != DT_OK && status != DT_NOT_FOUND)
            return status;
        terms->refusal = DT_TOPIC_CHANGED;
        terms->of_version = true;
        terms->version = found ? there.version : 0;
        status = dt_topic_callback_keep(json, found, setting, faults, &topic);
        if (status == DT_OK)
            status = dt_topic_alerts_keep(json, found, faults, &topic);
        if (status == DT_OK)
            status = dt_store_topic_put(store, &topic, setting->set_paused, terms, now, err);
        if (status != DT_INVALID || terms->refusal != DT_TOPIC_CHANGED || faults->n)
            return status;
    }
    return DT_BUSY;
}

static enum dt_next put_topic(struct dt_request *req, dt_store *store)
{
    const struct dt_topic_setting *setting = req->state;
    struct dt_topic_terms terms = dt_topic_terms_of(req->api->config, &req->caller, setting->topic.kafka_topic);
    struct dt_faults faults;
    struct dt_topic_now now = {.arena = &req->arena};
    struct dt_topic_counts counts;
    struct dt_error err = {0};
    dt_faults_init(&faults, &req->arena);
    dt_status status = dt_store_topic_counts(store, setting->topic.name, &counts, &err);
    if (status == DT_OK)
        status = put_setting(req, store, &terms, &faults, &now, &err);
    if (status == DT_INVALID && !faults.n) {
        bool too_many = terms.refusal == DT_TOPIC_LIMIT || terms.refusal == DT_TOPIC_PREFIX_LIMIT;
        dt_faults_add(&faults, setting->topic.kafka_topic.p && !too_many ? "/kafka_topic" : "/name",
                      dt_topic_cache_refusal(req->api->topics, terms.refusal));
    }
    if (status == DT_INVALID)
        return dt_answer_faults(req, DT_INVALID, &faults);
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    dt_topics_announce(req);
    return answer_topic(req, now.created ? 201 : 200, &now.topic, &counts);
}

enum dt_next dt_handle_topic_pause(struct dt_request *req, dt_store *store)
{
    struct dt_topic_now now = {.arena = &req->arena};
    struct dt_topic_counts counts;
    struct dt_error err = {0};
    dt_status status = dt_store_topic_counts(store, req->params[0], &counts, &err);
    if (status == DT_OK)
        status = dt_store_topic_pause(store, req->params[0], req->route->arg, &now, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "topic", &err);
    dt_topics_announce(req);
    return answer_topic(req, 200, &now.topic, &counts);
}

/* Answers the topic as it was. */
static enum dt_next delete_topic(struct dt_request *req, dt_store *store)
{
    struct dt_topic_deletion deletion;
    struct dt_error err = {0};
    dt_handle_topic_get(req, store);
    if (req->status != 200)
        return DT_REPLY;
    dt_status status = dt_store_topic_delete(store, req->params[0], &req->arena, &deletion, &err);
    if (status != DT_OK)
        return dt_answer_failed(req, status, "topic", &err);
    if (deletion.keeper)
        return dt_topic_refuse_deletion(req, &deletion);
    dt_topics_announce(req);
    return DT_REPLY;
}

struct page {
    struct dt_topic_filter filter;
    struct dt_cursor_list cursor;
};

static dt_status write_topics(struct dt_request *req, dt_store *store, struct dt_arena *rows, struct dt_error *err)
{
    const struct page *page = req->state;
    struct dt_topic_list topics;
    dt_status status = dt_store_topic_list(store, &page->filter, rows, &topics, err);
    if (status != DT_OK)
        return status;
    dt_answer_begin_list(req, "topics");
    for (size_t i = 0; i < topics.n; i++) {
        if (i > 0 && req->out.n >= DT_PAGE_BYTES) {
            topics.more = true;
            topics.last = topics.v[i - 1].name;
            break;
        }
        dt_topic_add(&req->out, &topics.v[i], NULL);
    }
    dt_answer_next_cursor(req, &page->cursor, topics.more, topics.last);
    return DT_OK;
}

static enum dt_next list_topics(struct dt_request *req, dt_store *store)
{
    const struct page *page = req->state;
    const size_t bytes = dt_page_end(page->filter.limit, TOPIC_BYTES).bytes;
    return dt_answer_page(req, store, dt_page_room(bytes), "topic", write_topics);
}

/* ---- on an HTTP thread ---- */

enum dt_next dt_handle_topic_delete(struct dt_request *req)
{
    bool with_jobs;
    if (!dt_answer_flag(req, "cancel", &with_jobs))
        return DT_REPLY;
    if (with_jobs)
        return dt_handle_topic_delete_with_jobs(req);
    if (dt_request_query(req, "wait").p) /* where no job is cancelled, there is nothing to wait for */
        return dt_answer_fault(req, "?wait", "goes with cancel=true alone");
    return dt_workers_submit(req->api->workers, req, delete_topic);
}

enum dt_next dt_handle_topic_list(struct dt_request *req)
{
    struct page *page = dt_answer_state(req, sizeof(*page));
    if (!page)
        return DT_REPLY;
    *page = (struct page){.filter = {.bound = dt_wall_bound(req) != NULL,
                                     .prefixes = req->caller.topics.prefixes,
                                     .n_prefixes = req->caller.topics.n}};
    struct dt_faults faults;
    dt_faults_init(&faults, &req->arena);
    dt_answer_limit(req, &faults, &page->filter.limit);
    if (!dt_answer_list(req, BY_NAME, NULL, 0, &page->cursor))
        return DT_REPLY;
    dt_answer_cursor(req, &page->cursor, &faults, &page->filter.after);
    if (faults.n > 0)
        return dt_answer_faults(req, DT_INVALID, &faults);
    return dt_workers_submit(req->api->workers, req, list_topics);
}

enum dt_next dt_handle_topic_put(struct dt_request *req)
{
    struct dt_topic_setting *setting = dt_answer_state(req, sizeof(*setting));
    struct dt_faults faults;
    if (!setting || !dt_answer_clock(req))
        return DT_REPLY;
    struct dt_view *view = dt_topic_cache_view(req->api->topics);
    struct dt_job_rules rules = dt_answer_rules(req->api, view);
    dt_json *json = dt_answer_parse(req, &rules, &faults);
    dt_status status = DT_INVALID;
    if (json) {
        const char *reason = dt_topic_check(req->params[0], rules.installation);
        if (reason)
            dt_faults_add(&faults, "/name", reason);
        status = dt_topic_decode(json, req->params[0], &rules, &faults, setting);
        /* A topic that is Kafka's from before keeps its delivery where the setting does not say. */
        if (setting->topic.delivery == DT_DELIVERY_KAFKA && !dt_config_has_kafka(req->api->config))
            dt_faults_add(&faults, "/delivery",
                          "cannot be \"kafka\": this installation has no Kafka (kafka.brokers is empty)");
        if (status == DT_OK && faults.n)
            status = faults.failed ? DT_NOMEM : DT_INVALID;
    }
    dt_view_release(view);
    if (!json)
        return DT_REPLY;
    if (status != DT_OK)
        return dt_answer_faults(req, status, &faults);
    return dt_workers_submit(req->api->workers, req, put_topic);
}
