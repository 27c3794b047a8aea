/* Answers that show a job as it is stored; the check that a change fits the job's topic; and changes of one job. */
#pragma once

#include "job/change/jobs.h"
#include "job/delivery.h"
#include "request/request.h"
#include "request/workers.h"
#include "store/store.h"

/* Answers 200 with a job that was just read, its payload, and what the job waits for. Called on a worker, with the
 * worker's store. outcome: word for the result that was applied to the job; NULL: none. Always returns DT_REPLY. */
enum dt_next dt_answer_stored(struct dt_request *req, dt_store *store, const struct dt_job *job, const char *outcome);

/* Checks that a change of a job fits the delivery of its topic (job/delivery.h), by a snapshot that is at most a second
 * old. (The committer checks new jobs.) Returns true if the topic is unknown. False: the answer is filled in. */
bool dt_job_fits(struct dt_request *req, dt_store *store, struct dt_str topic, const struct dt_callback_asked *asked);

/* Changes a job and reads it as it is then, or, for TOO_LATE, as it is now. If the function fills in the answer, its
 * status has no meaning. */
typedef dt_status dt_change_fn(struct dt_request *req, dt_store *store, struct dt_job *job, struct dt_error *err);
/*
 * A change of one job, the first member of its request's state; dt_change_job carries it out.
 *
 * A leader may not have written yet that a batch was sent. If only this unsettled batch prevents a change (the job's
 * last attempt is in the batch, and the job now waits for its retry), the request is put off until the batch is
 * settled, for at most 200 ms. Meanwhile the request holds neither memory for the job, nor a row lock, nor a worker;
 * the shard's list of attempts in flight is read every few milliseconds.
 */
struct dt_change {
    dt_change_fn *apply;
    /* Called instead of answering 404 if `apply` returns NOT_FOUND. NULL: the answer is 404. */
    enum dt_next (*missing)(struct dt_request *req);
    int64_t id; /* the job that the path names; 0: the path names none */
    struct {    /* used by dt_change_job while the request is put off; at first all zeros */
        int64_t id;
        int shard; /* the shard whose list of attempts in flight has an attempt of the job */
        int64_t by_us;
    } settle;
};
/* Changes the job and answers 200 with it, or a problem that shows it; posts its due time to the index. If the token is
 * bound to topics and the path names the job, first reads the job to check its topic. A dt_worker_fn. */
enum dt_next dt_change_job(struct dt_request *req, dt_store *store);

/* Adds an element of GET /v1/jobs/{id}/attempts. out->failed: out of memory. */
void dt_attempt_add(struct dt_strbuf *out, const struct dt_attempt *attempt);
