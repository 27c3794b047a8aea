/* Owns: how hosts and ports are written. Refuses to know: who is reached there. */
#include "host.h"

#include <ctype.h>

bool dt_host_parse(struct dt_str text, int default_port, struct dt_host *out)
{
    if (!text.n)
        return false;
    const bool bracketed = text.p[0] == '[';
    const char *end = memchr(text.p, bracketed ? ']' : ':', text.n);
    if (bracketed && !end)
        return false;
    const char *name = text.p + bracketed;
    const size_t n = (end ? (size_t)(end - text.p) : text.n) - bracketed;
    if (n == 0 || n >= sizeof(out->name))
        return false;
    memcpy(out->name, name, n);
    out->name[n] = '\0';
    out->port = default_port;
    const char *p = name + n + bracketed;
    const char *stop = text.p + text.n;
    if (p == stop)
        return default_port != 0;
    if (*p++ != ':' || stop - p < 1 || stop - p > 5)
        return false;
    for (out->port = 0; p < stop; p++) {
        if (!isdigit((unsigned char)*p))
            return false;
        out->port = out->port * 10 + (*p - '0');
    }
    return out->port >= 1 && out->port <= 65535;
}

bool dt_hosts_ok(const char *list, int default_port)
{
    struct dt_str rest = dt_str(list);
    struct dt_host host;
    while (rest.n)
        if (!dt_host_parse(dt_str_next_element(&rest), default_port, &host))
            return false;
    return true;
}
