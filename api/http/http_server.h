/*
 * The HTTP server: it listens, lets connections in and calls the handlers of routes for their requests (request.h).
 *
 * Calling sequence: dt_http_start, dt_http_drain, dt_http_cut (more than once, if need be), dt_http_stop; all on one
 * thread. The handlers run on threads of the server.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "request/router.h"

struct dt_api;

typedef struct dt_http dt_http;

/*
 * Answers every suspended request whose deadline has passed. Called by the janitor several times a second while there
 * are connections; must not block on anything but the locks of queues.
 */
typedef void dt_http_expire(const struct dt_api *api, int64_t now_us);

/*
 * Listens on all that http.listen names, and serves. api and router are borrowed until dt_http_stop. SYSTEM: a port is
 * taken, or not permitted, or a thread cannot start; INVALID: something is no address, or has no certificate. *out is
 * NULL on failure.
 */
DT_MUST_CHECK dt_status dt_http_start(struct dt_api *api, const struct dt_router *router, dt_http_expire *expire,
                                      dt_http **out, struct dt_error *err);
/* False: a thread of the server hangs. Asked by one thread, at distances that no request's handler takes. */
bool dt_http_moves(dt_http *http);
/*
 * Accepts no more connections, and closes each connection after its answer. Returns when no request is under way, or at
 * until_us (monotonic).
 */
void dt_http_drain(dt_http *http, int64_t until_us);
/* After a drain: cuts off bodies that are not complete. Returns as dt_http_drain does. */
void dt_http_cut(dt_http *http, int64_t until_us);
/*
 * Closes all connections, ends the threads and frees the server. Accepts NULL. No request may be suspended any more:
 * committers and workers are stopped before.
 */
void dt_http_stop(dt_http *http);
