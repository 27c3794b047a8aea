/*
 * The parts of this process, for handlers of requests (req->api). main.c, or a test, fills it in before any thread
 * starts, and frees the parts after all threads have ended. The headers of the parts say what is thread-safe.
 */
#pragma once

#include "base/clock.h"
#include "base/config.h"

struct dt_api {
    const struct dt_config *config;
    const dt_clock *clock;
    dt_refclock *ref;                   /* MySQL's clock */
    struct dt_budget *memory;           /* request/request.h: what all requests may hold */
    struct dt_auth *auth;               /* request/auth.h */
    struct dt_quotas *quotas;           /* request/quotas.h */
    struct dt_topic_cache *topics;      /* request/topic_cache.h */
    struct dt_committer *committer;     /* intake/committer.h */
    struct dt_results_batcher *results; /* intake/results_rest.h */
    struct dt_index_writer *index;      /* intake/index_writer.h */
    struct dt_activity *activity;       /* request/workers.h */
    struct dt_workers *workers;         /* request/workers.h */
    struct dt_gate *job_gate;           /* intake/batch_gate.h: of new jobs … */
    struct dt_gate *result_gate;        /* … and of results */
    struct dt_pop_room *pops;           /* pull/pop_room.h */
    struct dt_health *health;           /* rest/health.h */
    struct dt_overview *overview;       /* rest/overview_rest.h */
    struct dt_zone_files *zones;        /* base/text/zone.h */
    struct dt_tls_files *tls;           /* base/http/tls_files.h: the certificate for clients; NULL: there is none */
};
