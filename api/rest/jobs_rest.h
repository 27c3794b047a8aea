/*
 * Answers that show a job as it is stored (GET, changes, results, equal creates); the fit of a change to its topic;
 * changes that wait until a batch of the leader is settled.
 */
#pragma once

#include "job/change/jobs.h"
#include "job/delivery.h"
#include "request/request.h"
#include "request/workers.h"
#include "store/store.h"

/* Answers 200 with a job that was just read, its payload, and what it waits for. Called on a worker, with its store.
 * outcome: the word for a result that was applied; NULL = none. Always DT_REPLY. */
enum dt_next dt_answer_stored(struct dt_request *req, dt_store *store, const struct dt_job *job, const char *outcome);
/* As dt_answer_stored, after refreshing the snapshots of topics and shards. */
enum dt_next dt_answer_read(struct dt_request *req, dt_store *store, const struct dt_job *job);
/* Answers a change of a job by the store's status: 200, or a problem that shows the job. Posts the new due time to the
 * index. */
enum dt_next dt_answer_changed(struct dt_request *req, dt_store *store, dt_status status, const struct dt_job *job,
                               const struct dt_error *err);

/* Checks that a change of a job fits the delivery of its topic (job/delivery.h), by a snapshot that is at most a
 * second old. The committer checks new jobs. False: the answer, 422, is filled in. An unknown topic fits everything.
 * */
bool dt_job_fits(struct dt_request *req, dt_store *store, struct dt_str topic, const struct dt_callback_asked *asked);

/*
 * If only an unsettled batch prevents a change (the job waits for its retry, and the leader has not yet written that
 * its last attempt was sent), the change is put off until the batch is settled, 200 ms at most. Meanwhile it holds
 * neither a row lock nor a worker; the list of attempts in flight is read every few milliseconds.
 *
 *     if (dt_settle_goes_on(req, store, &settle, run))          // first thing of run(req, store)
 *         return DT_PENDING;
 *     if (!dt_answer_hold_job(req))                              // released while the request waits
 *         return DT_REPLY;
 *     status = dt_store_cancel(store, …, &job, &err);
 *     if (status == DT_TOO_LATE && dt_settle_wait(req, &settle, &job, run))
 *         return DT_PENDING;
 */

/* Zero at first; lives in the request's state. */
struct dt_settle {
    int64_t id;
    int shard; /* the shard whose list has an attempt of the job */
    int64_t by_us;
};
/* Returns true if the request was put off before and the batch is not settled yet: it is put off again. */
DT_MUST_CHECK bool dt_settle_goes_on(struct dt_request *req, dt_store *store, const struct dt_settle *settle,
                                     dt_worker_fn run);
/* Called after TOO_LATE. True: only a batch prevents the change, and there is time to wait: the request is put off. */
DT_MUST_CHECK bool dt_settle_wait(struct dt_request *req, struct dt_settle *settle, const struct dt_job *job,
                                  dt_worker_fn run);

/* Adds an element of GET /v1/jobs/{id}/attempts. out->failed: out of memory. */
void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt);
