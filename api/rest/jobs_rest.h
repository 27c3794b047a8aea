/*
 * The answer to every request that shows a job as MySQL has it: GET, changes, results, and creates that were made
 * before.
 */
#ifndef DT_API_JOBS_REST_H
#define DT_API_JOBS_REST_H

#include "job/callback_fit.h"
#include "job/change/jobs.h"
#include "request/request.h"
#include "request/workers.h"
#include "store/store.h"

/*
 * Fills in 200 with a job that was just read, its payload, and what it waits for. Runs on a worker, whose store it
 * asks. outcome: the word for a result that was applied; NULL = none. Always DT_REPLY.
 */
enum dt_next dt_answer_stored(struct dt_request *req, dt_store *store, const struct dt_job *job, const char *outcome);
/* Does so after the topics and shards, which say what it waits for, were read again where they are old. */
enum dt_next dt_answer_read(struct dt_request *req, dt_store *store, const struct dt_job *job);
/* The answer after a change of a job by the store, whose status is given: 200, or a problem with the job as it is. The
 * index is told where the job is due now. */
enum dt_next dt_answer_changed(struct dt_request *req, dt_store *store, dt_status status, const struct dt_job *job,
                               const struct dt_error *err);

/*
 * Whether what a caller asks of a job fits the delivery of its topic (job/callback_fit.h), for requests that
 * workers carry out. New jobs are judged by the committer.
 */

/* Judges by what topics said a second ago at most. False: the answer, 422, is filled in. A topic that is not known
 * takes everything. */
bool dt_job_fits(struct dt_request *req, dt_store *store, struct dt_str topic, const struct dt_callback_asked *asked);

/*
 * A change that only an unsettled batch is in the way of (the job waits for its retry, and the leader has not yet
 * written that its last attempt was sent) is put off until the batch is settled, 200 ms at most: the row is not locked
 * and no worker is taken meanwhile, only the list is looked at every few milliseconds.
 *
 *     if (dt_settle_goes_on(req, store, &settle, run))          // first thing of run(req, store)
 *         return DT_PENDING;
 *     if (!dt_answer_hold_job(req))                              // given back while the request waits
 *         return DT_REPLY;
 *     status = dt_store_cancel(store, …, &job, &err);
 *     if (status == DT_TOO_LATE && dt_settle_wait(req, &settle, &job, run))
 *         return DT_PENDING;
 */

/* Zero at first; lives in the request's state. */
struct dt_settle {
    int64_t id;
    int shard; /* whose list an attempt of the job stands in */
    int64_t by_us;
};
/* Says whether the request was put off before and the batch still stands: it is put off again. */
DT_MUST_CHECK bool dt_settle_goes_on(struct dt_request *req, dt_store *store, const struct dt_settle *settle,
                                     dt_worker_fn run);
/* After TOO_LATE: says whether only a batch is in the way, and there is time to wait for it: the request is put off. */
DT_MUST_CHECK bool dt_settle_wait(struct dt_request *req, struct dt_settle *settle, const struct dt_job *job,
                                  dt_worker_fn run);

/* Adds an element of GET /v1/jobs/{id}/attempts. out->failed: memory is out. */
void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt);

#endif
