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
#ifndef DT_API_SETTLE_H
#define DT_API_SETTLE_H

#include "request/workers.h"

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

#endif
