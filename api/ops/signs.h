/*
 * Tells the service manager about the API (base/service/service.h): that it is ready, once requests are taken and MySQL
 * has the schema; after that regularly that it is alive, as long as no thread of the HTTP server hangs.
 */
#ifndef DT_API_SIGNS_H
#define DT_API_SIGNS_H

#include "base/service/service.h"
#include "http/http_server.h"
#include "ops/health.h"

/* Everything that members point at is borrowed. One thread uses it. */
struct dt_signs {
    struct dt_service service;
    dt_health *health;
    dt_http *http;
    bool ready;
    int64_t due_us; /* the next sign of life */
};

/* Gives the signs that are due, and returns when the next one is: monotonic; INT64_MAX where nobody waits for it. */
int64_t dt_signs_give(struct dt_signs *signs, int64_t now_us);

#endif
