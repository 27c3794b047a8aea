/*
 * GET /v1/jobs/{id}/explain: reads the job, what leaders and topics say, and the job's entry in the index, and has it
 * put into words.
 */
#include "answer.h"
#include "explain.h"
#include "handlers.h"
#include "index/index.h"
#include "job/change/jobs.h"
#include "request/topic_cache.h"
#include "request/request.h"
#include "request/workers.h"
#include "waiting.h"

static enum dt_entry_state look_at_entry(const struct dt_api *api, const struct dt_view *view,
                                         const struct dt_explained *e, int64_t *entry_ms)
{
    const struct dt_job *job = e->job;
    const struct dt_entry entry = {.id = job->id, .due_ms = dt_later(job->next_at_ms, 1)};
    if (!dt_index_configured(api->config))
        return DT_ENTRY_NONE;
    /* The leader has put a job aside that it offers, or holds back with the others of its topic. An entry of a job that
     * is finished, or aside, or whose time is not near is not read: promotion comes first. */
    const char *word = e->waiting_for ? e->waiting_for : "";
    const bool aside = strcmp(word, "pop") == 0 || strcmp(word, "paused") == 0 || strcmp(word, "limit") == 0;
    if (dt_job_state_terminal(job->state) || aside || job->next_at_ms - e->now_ms >= api->config->index_horizon)
        return DT_ENTRY_NOT_NEEDED;
    /* A person asks this: a connection for one question costs little, and needs no thread of its own. */
    dt_index *index = NULL;
    dt_status status = dt_index_new(api->config, view->installation.name, api->clock, &index, NULL);
    if (status == DT_OK)
        status = dt_index_scores(index, e->shard_number, &entry, 1, entry_ms, NULL);
    dt_index_free(index);
    if (status != DT_OK)
        return DT_ENTRY_UNKNOWN;
    if (!*entry_ms)
        return DT_ENTRY_MISSING;
    return *entry_ms == entry.due_ms ? DT_ENTRY_THERE : DT_ENTRY_DIFFERS;
}

static enum dt_next explain_job(struct dt_request *req, dt_store *store)
{
    const int64_t *id = req->state;
    struct dt_job job;
    struct dt_error err = {0};
    if (!dt_answer_hold_job(req))
        return DT_REPLY;
    dt_status status = dt_topic_cache_refresh(req->api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, store, &err);
    if (status == DT_OK)
        status = dt_store_get(store, *id, &req->arena, &job, &err);
    if (status == DT_OK)
        status = dt_wall_found(req, job.topic);
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "job");
    if (status != DT_OK)
        return dt_answer_status(req, status, NULL, &err);
    struct dt_waiting w;
    int64_t entry_ms = 0;
    dt_waiting_init(&w, req->api->topics, req->api->ref, store);
    const struct dt_explained e = dt_explained_of(&w, &job, dt_waiting_for(&w, &job));
    enum dt_entry_state entry = look_at_entry(req->api, w.view, &e, &entry_ms);
    dt_strbuf_reset(&req->out);
    dt_explain_add_json(&e, entry, entry_ms, &req->out);
    dt_waiting_clear(&w);
    req->status = 200;
    return DT_REPLY;
}

enum dt_next dt_handle_job_explain(struct dt_request *req)
{
    int64_t *id = dt_answer_state(req, sizeof(*id));
    if (!id || !dt_answer_id(req, id))
        return DT_REPLY;
    return dt_workers_submit(req->api->workers, req, explain_job);
}
