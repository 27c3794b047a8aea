/*
 * Which web pages may use an installation that asks for no token. A browser on the machine reaches the loopback for any
 * page: across sites, and by a name of the page's own that DNS points at the loopback. So Host must be a name that only
 * this machine answers to, and what the browser says about the page must be the same origin. Pure.
 */
#ifndef DT_API_ORIGIN_H
#define DT_API_ORIGIN_H

#include <stdbool.h>

#include "base/text/strbuf.h"

/* Whether a Host, with any port, is a loopback name or address, or in names (http.names). */
bool dt_host_is_local(struct dt_str host, struct dt_str names);
/* Whether an Origin is a page of this Host. */
bool dt_origin_is_host(struct dt_str origin, struct dt_str host);

#endif
