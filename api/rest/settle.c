/* Waiting for a batch to be settled: see settle.h. */
#include "settle.h"

#include "api.h"
#include "job/change/jobs.h"

#define WAIT_US INT64_C(200000)

static bool time_left(const struct dt_request *req, const struct dt_settle *settle)
{
    return dt_clock_mono_us(req->api->clock) < settle->by_us;
}

bool dt_settle_goes_on(struct dt_request *req, dt_store *store, const struct dt_settle *settle, dt_worker_fn run)
{
    bool in_flight = false;
    return time_left(req, settle) && dt_store_in_flight(store, settle->id, settle->shard, &in_flight, NULL) == DT_OK &&
           in_flight && dt_workers_later(req->api->workers, req, run);
}

bool dt_settle_wait(struct dt_request *req, struct dt_settle *settle, const struct dt_job *job, dt_worker_fn run)
{
    if (!job->unsettled)
        return false;
    if (!settle->by_us)
        settle->by_us = dt_clock_mono_us(req->api->clock) + WAIT_US;
    settle->id = job->id;
    settle->shard = job->claim_shard;
    dt_request_trim(req); /* many may wait, each of them without the room for a job */
    return time_left(req, settle) && dt_workers_later(req->api->workers, req, run);
}
