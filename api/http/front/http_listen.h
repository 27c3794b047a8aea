/*
 * The way from the text of an address to the socket that the server listens on.
 */
#ifndef DT_API_HTTP_LISTEN_H
#define DT_API_HTTP_LISTEN_H

#include <stdbool.h>

#include "base/config.h"
#include "base/status.h"

/* Is this text an address of the loopback? ("localhost" is.) INVALID: it is no address, and *loopback is untouched. */
DT_MUST_CHECK dt_status dt_http_is_loopback(const char *listen, bool *loopback, struct dt_error *err);
/*
 * Makes a bound, listening, non-blocking socket of http.listen and http.port, and says which port it has. The caller
 * closes it. SYSTEM, INVALID: *fd and *port are untouched.
 */
DT_MUST_CHECK dt_status dt_http_listen(const struct dt_config *config, int *fd, int *port, struct dt_error *err);

#endif
