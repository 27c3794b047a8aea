/* Puts a job, what it waits for, and its answer together: see job_answer.h. */
#include "job_answer.h"

#include "answer.h"
#include "api.h"
#include "intake/index_writer.h"
#include "request/workers.h"
#include "request/topic_cache.h"
#include "explain_rest.h"

enum dt_next dt_answer_stored(struct dt_request *req, dt_store *store, const struct dt_job *job, const char *outcome)
{
    struct dt_waiting waiting;
    dt_waiting_init(&waiting, req->api->topics, req->api->ref, store);
    struct dt_job_view view = {
        .payload = true, .waiting_for = dt_waiting_for(&waiting, job), .outcome = outcome, .check = dt_scratch_json()};
    dt_waiting_clear(&waiting);
    return dt_answer_job(req, 200, job, &view);
}

enum dt_next dt_answer_read(struct dt_request *req, dt_store *store, const struct dt_job *job)
{
    /* What leaders and topics say is a second old at most; when it cannot be read the last known holds. */
    (void)(dt_topic_cache_refresh(req->api->topics, DT_SNAPSHOT_TOPICS_AND_SHARDS, store, NULL) == DT_OK);
    return dt_answer_stored(req, store, job, NULL);
}

enum dt_next dt_answer_changed(struct dt_request *req, dt_store *store, dt_status status, const struct dt_job *job,
                               const struct dt_error *err)
{
    if (status == DT_NOT_FOUND)
        return dt_answer_not_found(req, "job");
    if (status != DT_OK)
        return dt_answer_status(req, status, job->id > 0 ? job : NULL, err);
    struct dt_entry entry = {.id = job->id,
                             .due_ms = dt_job_state_terminal(job->state) ? 0 : job->next_at_ms,
                             .was_ms = job->was_next_at_ms};
    dt_index_writer_post(req->api->index, &entry, 1);
    return dt_answer_read(req, store, job);
}
