/* The socket that the server listens on. */
#ifndef DT_API_HTTP_LISTEN_H
#define DT_API_HTTP_LISTEN_H

#include "base/config.h"
#include "base/status.h"

/* A bound, listening, non-blocking socket of http.listen and http.port, and the port that it has. */
DT_MUST_CHECK dt_status dt_http_listen(const struct dt_config *config, int *fd, int *port, struct dt_error *err);

#endif
