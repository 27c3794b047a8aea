/* Answers that show a job as it is stored; the check that a change fits the job's topic; and changes that wait until a
 * leader's batch is settled. */
#pragma once

#include "job/change/jobs.h"
#include "job/delivery.h"
#include "request/request.h"
#include "request/workers.h"
#include "store/store.h"

/* Answers 200 with a job that was just read, its payload, and what the job waits for. Called on a worker, with the
 * worker's store. outcome: word for the result that was applied to the job; NULL: none. Always returns DT_REPLY. */
enum dt_next dt_answer_stored(struct dt_request *req, dt_store *store, const struct dt_job *job, const char *outcome);
/* Refreshes the snapshots of topics and shards, then answers 200 with the job, as dt_answer_stored does. */
enum dt_next dt_answer_read(struct dt_request *req, dt_store *store, const struct dt_job *job);
/* Answers a change of a job, by the store's status: 200, or a problem that shows the job. Posts the job's due time to
 * the index. */
enum dt_next dt_answer_changed(struct dt_request *req, dt_store *store, dt_status status, const struct dt_job *job,
                               const struct dt_error *err);

/* Checks that a change of a job fits the delivery of its topic (job/delivery.h), by a snapshot that is at most a second
 * old. (The committer checks new jobs.) Returns true if the topic is unknown. False: the answer is filled in. */
bool dt_job_fits(struct dt_request *req, dt_store *store, struct dt_str topic, const struct dt_callback_asked *asked);

/*
 * A leader may not have written yet that a batch was sent. If only this unsettled batch prevents a change (the job's
 * last attempt is in the batch, and the job now waits for its retry), the request is put off until the batch is
 * settled, for at most 200 ms. Meanwhile the request holds neither a row lock nor a worker; the shard's list of
 * attempts in flight is read every few milliseconds.
 *
 *     if (dt_settle_goes_on(req, store, &settle, run))          // first thing of run(req, store)
 *         return DT_PENDING;
 *     if (!dt_answer_hold_job(req))                              // released while the request waits
 *         return DT_REPLY;
 *     status = dt_store_cancel(store, …, &job, &err);
 *     if (status == DT_TOO_LATE && dt_settle_wait(req, &settle, &job, run))
 *         return DT_PENDING;
 */

/* State of a change that may be put off; a member of the request's state. At first all zeros. */
struct dt_settle {
    int64_t id;
    int shard; /* the shard whose list of attempts in flight has an attempt of the job */
    int64_t by_us;
};
/* If the request was put off before, and the leader has not settled the batch yet, puts it off again and returns
 * true. */
DT_MUST_CHECK bool dt_settle_goes_on(struct dt_request *req, dt_store *store, const struct dt_settle *settle,
                                     dt_worker_fn run);
/* Called after TOO_LATE. If only a batch that the leader has not settled yet prevents the change and there is time to
 * wait, puts the request off and returns true. */
DT_MUST_CHECK bool dt_settle_wait(struct dt_request *req, struct dt_settle *settle, const struct dt_job *job,
                                  dt_worker_fn run);

/* Adds an element of GET /v1/jobs/{id}/attempts. out->failed: out of memory. */
void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt);
