/* Puts a job, what it waits for, and its answer together: see job_answer.h. */
#include "job_answer.h"

#include "answer.h"
#include "waiting.h"
#include "work/scratch.h"

enum dt_next dt_answer_stored(struct dt_request *req, dt_store *store, const struct dt_job *job, const char *outcome)
{
    struct dt_waiting waiting;
    dt_waiting_init(&waiting, req->api->topics, req->api->ref, store);
    struct dt_job_view view = {
        .payload = true, .waiting_for = dt_waiting_for(&waiting, job), .outcome = outcome, .check = dt_scratch_json()};
    dt_waiting_clear(&waiting);
    return dt_answer_job(req, 200, job, &view);
}
