/* The set-up of the suites of single jobs. Everything is static: a suite includes this once. */
#pragma once

#include "job/change/jobs.h"
#include "support/store_suite.h"

static struct dt_job job;

static inline dt_status cancel(int64_t id)
{
    return dt_store_cancel(store, id, false, &arena, &job, &err);
}

static inline dt_status patch(int64_t id, struct dt_patch p)
{
    return dt_store_patch(store, id, &p, &arena, &job, &err);
}
