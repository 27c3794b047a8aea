/* Owns: how hosts and ports are written. Refuses to know: who is reached there. */
#include "base/connection/host.h"

#include <ctype.h>

static bool parse_port(struct dt_str digits, int *out)
{
    int port = 0;
    if (digits.n < 1 || digits.n > 5)
        return false;
    for (size_t i = 0; i < digits.n; i++) {
        if (!isdigit((unsigned char)digits.p[i]))
            return false;
        port = port * 10 + (digits.p[i] - '0');
    }
    *out = port;
    return port >= 1 && port <= 65535;
}

/* Takes the name off the front of *text. */
static bool take_name(struct dt_str *text, struct dt_str *name)
{
    bool bracketed = text->n && text->p[0] == '[';
    const char *end = bracketed ? memchr(text->p, ']', text->n) : memchr(text->p, ':', text->n);
    if (bracketed && !end)
        return false;
    size_t n = end ? (size_t)(end - text->p) : text->n;
    *name = bracketed ? (struct dt_str){text->p + 1, n - 1} : (struct dt_str){text->p, n};
    n += bracketed;
    *text = (struct dt_str){text->p + n, text->n - n};
    return true;
}

bool dt_host_parse(struct dt_str text, int default_port, struct dt_host *out)
{
    struct dt_str name;
    if (!text.n || !take_name(&text, &name) || name.n == 0 || name.n >= sizeof(out->name))
        return false;
    memcpy(out->name, name.p, name.n);
    out->name[name.n] = '\0';
    out->port = default_port;
    if (text.n == 0)
        return default_port != 0;
    return text.p[0] == ':' && parse_port((struct dt_str){text.p + 1, text.n - 1}, &out->port);
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
