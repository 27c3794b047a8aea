/*
 * What the service manager is told of the API (base/service/service.h): ready as soon as requests are taken and MySQL has
 * the schema, then signs of life, as long as no thread of the HTTP server hangs.
 */
#ifndef DT_API_SIGNS_H
#define DT_API_SIGNS_H

#include "base/service/service.h"
#include "http/http_server.h"
#include "ops/health.h"

/* Borrows its members' things. One thread uses it. */
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
