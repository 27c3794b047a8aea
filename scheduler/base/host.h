/* Reads hosts of the configuration from text: "host", "host:port", "[::1]", "[::1]:port". Pure. */
#ifndef DT_BASE_HOST_H
#define DT_BASE_HOST_H

#include <stdbool.h>

#include "base/text/strbuf.h"

#define DT_MYSQL_PORT    3306
#define DT_SENTINEL_PORT 26379

struct dt_host {
    char name[256]; /* without the brackets of an IPv6 address */
    int port;
};

/* False: the text is none of the four forms, or the port is not 1 to 65535. default_port 0: a port must be given. */
bool dt_host_parse(struct dt_str text, int default_port, struct dt_host *out);
/* Whether each element of a comma list is a host; an empty list is one, too. */
bool dt_hosts_ok(const char *list, int default_port);

#endif
