/*
 * The addresses that a server listens on, as text: a comma list of "address", "address:port", "[::1]:port" (each
 * possibly behind "tls:" or "plain:"), and "unix:/path". Pure.
 */
#ifndef DT_BASE_LISTEN_H
#define DT_BASE_LISTEN_H

#include <stdbool.h>

#include "base/text/strbuf.h"
#include "host.h"

#define DT_LISTENERS_MAX 16

enum dt_listen_as {
    DT_LISTEN_AS_GIVEN, /* TLS where there is a certificate */
    DT_LISTEN_PLAIN,
    DT_LISTEN_TLS,
    DT_LISTEN_UNIX /* never TLS; the name is a path */
};

struct dt_listen {
    enum dt_listen_as as;
    struct dt_host at; /* port 0: any free one */
};

/* Reads one element. default_port: where none is given; 0 is a port here. False: it is none of these. */
bool dt_listen_parse(struct dt_str text, int default_port, struct dt_listen *out);
/* Whether the list has one to DT_LISTENERS_MAX elements, all of which can be read. */
bool dt_listen_ok(const char *list);

#endif
