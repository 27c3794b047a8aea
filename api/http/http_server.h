/*
 * The HTTP server: it listens, accepts connections, and calls the handlers of routes for requests (request.h).
 *
 * Call dt_http_start, dt_http_drain (as often as needed) and dt_http_stop in this order, on one thread.
 * The handlers run on threads of the server.
 */
#pragma once

#include "base/config.h"
#include "base/status.h"
#include "request/router.h"

struct dt_api;

typedef struct dt_http dt_http;

/* Sets *local to whether the list names only addresses of the loopback (including "localhost") and Unix sockets.
 * INVALID: an element is no address; *local is unchanged. */
dt_status dt_http_is_local(const char *listen, bool *local, struct dt_error *err);
/* Returns whether the configuration has a listener that uses TLS. */
bool dt_http_wants_tls(const struct dt_config *config);

/* Answers every suspended request whose deadline has passed. Called several times a second while there are connections;
 * must not block on anything but the locks of queues. */
typedef void dt_http_expire(const struct dt_api *api, int64_t now_us);

/* Listens on all addresses of http.listen, and serves requests. Borrows api and router until dt_http_stop. SYSTEM: a
 * port is in use or not permitted, or a thread cannot start. INVALID: an element of http.listen is no address, or lacks
 * its certificate. If it fails, *out is NULL. */
dt_status dt_http_start(struct dt_api *api, const struct dt_router *router, dt_http_expire *expire, dt_http **out,
                        struct dt_error *err);
/* Returns false if a thread of the server hangs. Called by one thread, at intervals that are longer than any handler
 * takes. */
bool dt_http_moves(dt_http *http);
/* Accepts no more connections, and closes each connection after its current answer. cut: also ends the waits for
 * incomplete bodies, now and later. Returns when no request is under way, but at until_us (monotonic) at the latest. */
void dt_http_drain(dt_http *http, bool cut, int64_t until_us);
/* Closes all connections, ends the threads and frees the server. No request may be suspended, so committers and workers
 * must be stopped before. Accepts NULL. */
void dt_http_stop(dt_http *http);
