/* The dispatcher's HTTP server: GET /metrics and GET /healthz, from a thread of its own (base/http). */
#pragma once

#include "base/status.h"

typedef struct dt_metrics_server dt_metrics_server;

/* listen: an IPv4 or IPv6 address in digits, INVALID otherwise; port 0 = any free one; *bound tells which. */
DT_MUST_CHECK dt_status dt_metrics_server_start(const char *listen, uint16_t port, uint16_t *bound,
                                                dt_metrics_server **out, struct dt_error *err);
void dt_metrics_server_stop(dt_metrics_server *server); /* NULL is accepted */
