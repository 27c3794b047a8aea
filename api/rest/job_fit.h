/*
 * Whether what a caller asks of a job fits the delivery of its topic (job/callback_fit.h), for requests that
 * workers carry out. New jobs are judged by the committer.
 */
#ifndef DT_API_JOB_FIT_H
#define DT_API_JOB_FIT_H

#include "job/callback_fit.h"
#include "request/workers.h"

/* Judges by what topics said a second ago at most. False: the answer, 422, is filled in. A topic that is not known
 * takes everything. */
bool dt_job_fits(struct dt_request *req, dt_store *store, struct dt_str topic, const struct dt_callback_asked *asked);

#endif
