/* Owns: how it is written what a server listens on. Refuses to know: whether an address is one of this host. */
#include "listen.h"

#include <string.h>

#define UNIX_PATH_MAX 107 /* what a sockaddr_un holds, its zero byte apart */

static bool take_prefix(struct dt_str *text, const char *prefix)
{
    size_t n = strlen(prefix);
    if (text->n < n || memcmp(text->p, prefix, n) != 0)
        return false;
    *text = (struct dt_str){text->p + n, text->n - n};
    return true;
}

static bool keep_name(struct dt_str name, int port, struct dt_host *out)
{
    if (!name.n || name.n >= sizeof(out->name))
        return false;
    memcpy(out->name, name.p, name.n);
    out->name[name.n] = '\0';
    out->port = port;
    return true;
}

bool dt_listen_parse(struct dt_str text, int default_port, struct dt_listen *out)
{
    out->as = take_prefix(&text, "unix:")    ? DT_LISTEN_UNIX
              : take_prefix(&text, "tls:")   ? DT_LISTEN_TLS
              : take_prefix(&text, "plain:") ? DT_LISTEN_PLAIN
                                             : DT_LISTEN_AS_GIVEN;
    if (!text.n)
        return false;
    if (out->as == DT_LISTEN_UNIX)
        return text.p[0] == '/' && text.n <= UNIX_PATH_MAX && keep_name(text, 0, &out->at);
    const char *colon = memchr(text.p, ':', text.n);
    if (text.p[0] != '[' && colon && memchr(colon + 1, ':', text.n - (size_t)(colon + 1 - text.p)))
        return keep_name(text, default_port, &out->at); /* "::1" stands for itself: with a port it needs brackets */
    if (!dt_host_parse(text, default_port ? default_port : 1, &out->at))
        return false;
    bool told = text.p[text.n - 1] != ']' && colon;
    out->at.port = told ? out->at.port : default_port;
    return true;
}

bool dt_listen_ok(const char *list)
{
    struct dt_str rest = dt_str(list);
    struct dt_listen one;
    size_t n = 0;
    do {
        if (!dt_listen_parse(dt_str_next_element(&rest), 0, &one))
            return false;
    } while (++n < DT_LISTENERS_MAX && rest.n);
    return rest.n == 0;
}
