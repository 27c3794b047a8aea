/*
 * The way from the text of http.listen to the sockets that the server listens on. A Unix socket's file is made with
 * http.unix_mode, in place of one that nobody listens on any more, and is removed when its listener is closed.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/addresses.h"
#include "base/config.h"
#include "base/status.h"

/* One bound, listening, non-blocking socket. */
struct dt_listener {
    int fd;
    bool tls;
    struct dt_listen on; /* its port is the one that the kernel chose for 0 */
    dev_t device;        /* of a Unix socket's file, so that no other one is removed … */
    ino_t inode;
};

struct dt_listeners {
    struct dt_listener v[DT_LISTENERS_MAX];
    size_t n;
};

/*
 * Does the list name nothing but addresses of the loopback ("localhost" is one) and Unix sockets? INVALID: it names
 * something that is no address, and *local is untouched.
 */
DT_MUST_CHECK dt_status dt_http_is_local(const char *listen, bool *local, struct dt_error *err);
/* Whether the configuration has anything listen with TLS. */
bool dt_http_wants_tls(const struct dt_config *config);
/* Opens everything that http.listen names, or nothing: SYSTEM, INVALID. */
DT_MUST_CHECK dt_status dt_http_listen(const struct dt_config *config, struct dt_listeners *out, struct dt_error *err);
/* Closes them; there are none afterwards. */
void dt_listeners_close(struct dt_listeners *listeners);
