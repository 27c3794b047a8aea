/* The dispatcher's HTTP server, with its own thread: GET /metrics and GET /healthz. */
#pragma once

#include "base/status.h"

typedef struct dt_metrics_server dt_metrics_server;

/* Starts the server. listen: an IPv4 or IPv6 address in digits. port: 0: any free port. *bound: the port in use.
 * INVALID: `listen` is not an address. */
dt_status dt_metrics_server_start(const char *listen, uint16_t port, uint16_t *bound, dt_metrics_server **out,
                                  struct dt_error *err);
void dt_metrics_server_stop(dt_metrics_server *server); /* NULL is accepted */
