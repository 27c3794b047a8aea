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

#endif
