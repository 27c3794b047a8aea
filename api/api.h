/*
 * What the parts of the API share. Filled by main.c (or a test) before any thread starts and constant afterwards; the
 * parts themselves are thread-safe as their headers say. Handlers reach it as req->api.
 */
#ifndef DT_API_API_H
#define DT_API_API_H

#include "auth/auth.h"
#include "base/clock.h"
#include "base/config.h"
#include "intake/batch_gate.h"
#include "intake/committer.h"
#include "intake/index_writer.h"
#include "intake/results_batcher.h"
#include "ops/health.h"
#include "topics/topic_cache.h"
#include "work/budget.h"
#include "work/slices.h"
#include "work/workers.h"

struct dt_api {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;
    struct dt_budget *memory; /* what all requests may hold */
    dt_auth *auth;
    dt_topic_cache *topics;
    dt_committer *committer;
    dt_results_batcher *results;
    dt_index_writer *index;
    dt_workers *workers;
    dt_gate *gate;     /* of batches */
    dt_slices *slices; /* take arrays of jobs apart */
    dt_health *health;
};

#endif
