/*
 * The answer to every request that shows a job as MySQL has it: GET, changes, results, and creates that were made
 * before.
 */
#ifndef DT_API_JOB_ANSWER_H
#define DT_API_JOB_ANSWER_H

#include "request/request.h"
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

#endif
