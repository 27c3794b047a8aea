/* Hosts and origins of requests without a token: see origin.h. */
#include "origin.h"

#include <string.h>
#include <strings.h>

#include "base/http/host_name.h"
#include "base/networks.h"

#define NAME_MAX_BYTES 253 /* of a name in DNS */

/* Cuts ":port" off, and the brackets of an IPv6 address. False: it is no host. */
static bool cut_port(struct dt_str *host)
{
    const char *bracket = host->n && host->p[0] == '[' ? memchr(host->p, ']', host->n) : NULL;
    size_t n = bracket ? (size_t)(bracket - host->p) + 1 : 0;
    while (n < host->n && host->p[n] != ':')
        n++;
    for (size_t i = n + 1; i < host->n; i++)
        if (host->p[i] < '0' || host->p[i] > '9')
            return false;
    if (bracket && (n != (size_t)(bracket - host->p) + 1 || !memchr(host->p, ':', n)))
        return false;
    *host = bracket ? (struct dt_str){host->p + 1, n - 2} : (struct dt_str){host->p, n};
    return true;
}

/* Browsers and resolvers look names below localhost up nowhere else (RFC 6761). */
bool dt_host_is_local(struct dt_str host, struct dt_str names)
{
    static const struct dt_network loopbacks[] = {{{[10] = 0xff, [11] = 0xff, [12] = 127}, 104}, {{[15] = 1}, 128}};
    unsigned char address[DT_ADDRESS_BYTES];
    char name[NAME_MAX_BYTES + 1];
    if (!cut_port(&host))
        return false;
    host.n -= host.n && host.p[host.n - 1] == '.';
    if (host.n == 0 || host.n > NAME_MAX_BYTES)
        return false;
    memcpy(name, host.p, host.n);
    name[host.n] = '\0';
    const bool loopback = dt_address_parse(host, address) &&
                          (dt_network_contains(&loopbacks[0], address) || dt_network_contains(&loopbacks[1], address));
    return loopback || dt_host_allowed(DT_STR_LIT("localhost,*.localhost"), name) ||
           (dt_str_trimmed(names).n && dt_host_allowed(names, name));
}

bool dt_origin_is_host(struct dt_str origin, struct dt_str host)
{
    size_t scheme = origin.n > 7 && strncasecmp(origin.p, "http://", 7) == 0    ? 7
                    : origin.n > 8 && strncasecmp(origin.p, "https://", 8) == 0 ? 8
                                                                                : 0;
    return scheme && origin.n - scheme == host.n && strncasecmp(origin.p + scheme, host.p, host.n) == 0;
}
