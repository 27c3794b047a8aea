/* The parts of this process, for handlers of requests (req->api). main.c, or a test, fills in struct dt_api before any
 * thread starts, and frees the parts after all threads have ended. The headers of the parts say what is thread-safe. */
#pragma once

#include "base/clock.h"
#include "base/config.h"

struct dt_api {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;                   /* estimate of MySQL's clock */
    struct dt_budget *memory;           /* memory budget that all requests share (request/request.h) */
    struct dt_auth *auth;               /* tokens and callers (request/auth.h) */
    struct dt_quotas *quotas;           /* quotas of tokens (request/quotas.h) */
    struct dt_topic_cache *topics;      /* snapshots (request/topic_cache.h) */
    struct dt_committer *committer;     /* inserts new jobs (intake/committer.h) */
    struct dt_results_batcher *results; /* applies results (intake/results_rest.h) */
    struct dt_index_writer *index;      /* writes entries to Redis (intake/index_writer.h) */
    struct dt_activity *activity;       /* callers that were active lately (request/workers.h) */
    struct dt_workers *workers;         /* threads that run requests (request/workers.h) */
    struct dt_gate *job_gate;           /* limits the queued rows of all batches of new jobs (intake/batch_gate.h) */
    struct dt_gate *result_gate;        /* limits the queued rows of all batches of results (intake/batch_gate.h) */
    struct dt_pop_room *pops;           /* waiting pops (pull/pop_room.h) */
    struct dt_health *health;           /* checks MySQL and Redis (rest/health.h) */
    struct dt_overview *overview;       /* caches of answers (rest/overview_rest.h) */
    struct dt_zone_files *zones;        /* time zones (base/text/zone.h) */
    struct dt_tls_files *tls;           /* certificate of the API (base/http/tls_files.h); NULL: none */
};
