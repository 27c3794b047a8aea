/* Converts the text of http.listen to the sockets that the server listens on. The file of a Unix socket gets the mode
 * http.unix_mode. It replaces the file of a socket on which no process listens any more. It is removed when the
 * listener is closed. */
#pragma once

#include <sys/types.h>

#include "base/addresses.h"
#include "base/config.h"
#include "base/status.h"

/* A bound, listening, non-blocking socket. */
struct dt_listener {
    int fd;
    bool tls;
    struct dt_listen on; /* address; if its port was 0, the port that the kernel chose */
    dev_t device;        /* device and inode of a Unix socket's file, so that only this file is removed */
    ino_t inode;
};

struct dt_listeners {
    struct dt_listener v[DT_LISTENERS_MAX];
    size_t n;
};

/* Sets *local to whether the list names only addresses of the loopback (including "localhost") and Unix sockets.
 * INVALID: an element is no address; *local is unchanged. */
dt_status dt_http_is_local(const char *listen, bool *local, struct dt_error *err);
/* Returns whether the configuration has a listener that uses TLS. */
bool dt_http_wants_tls(const struct dt_config *config);
/* Opens all listeners of http.listen. SYSTEM, INVALID: one of them failed, and none is open. */
dt_status dt_http_listen(const struct dt_config *config, struct dt_listeners *out, struct dt_error *err);
/* Closes all listeners; n is 0 afterwards. */
void dt_listeners_close(struct dt_listeners *listeners);
