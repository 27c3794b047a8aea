/* See addresses.h. */
#include "addresses.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>

#include "assert.h"

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

bool dt_hosts_ok(const char *list)
{
    struct dt_str rest = dt_str(list);
    struct dt_host host;
    while (rest.n)
        if (!dt_host_parse(dt_str_next_element(&rest), DT_MYSQL_PORT, &host))
            return false;
    return true;
}

#define UNIX_PATH_MAX 107 /* bytes of sun_path, without the terminating zero */

static bool strip_prefix(struct dt_str *text, const char *prefix)
{
    size_t n = strlen(prefix);
    if (text->n < n || memcmp(text->p, prefix, n) != 0)
        return false;
    *text = (struct dt_str){text->p + n, text->n - n};
    return true;
}

static bool copy_host_name(struct dt_str name, int port, struct dt_host *out)
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
    out->as = strip_prefix(&text, "unix:")    ? DT_LISTEN_UNIX
              : strip_prefix(&text, "tls:")   ? DT_LISTEN_TLS
              : strip_prefix(&text, "plain:") ? DT_LISTEN_PLAIN
                                              : DT_LISTEN_AS_GIVEN;
    if (!text.n)
        return false;
    if (out->as == DT_LISTEN_UNIX)
        return text.p[0] == '/' && text.n <= UNIX_PATH_MAX && copy_host_name(text, 0, &out->at);
    const char *colon = memchr(text.p, ':', text.n);
    if (text.p[0] != '[' && colon && memchr(colon + 1, ':', text.n - (size_t)(colon + 1 - text.p)))
        return copy_host_name(text, default_port,
                              &out->at); /* such as "::1"; an IPv6 address with a port needs brackets */
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

#define ADDRESS_BITS 128
#define MAPPED_BITS  96
#define ELEMENT_MAX  253

static const struct dt_network mapped = {{[10] = 0xff, [11] = 0xff}, MAPPED_BITS};

bool dt_network_contains(const struct dt_network *network, const unsigned char *address)
{
    const unsigned whole = network->bits / 8;
    const unsigned char mask = (unsigned char)(0xff00u >> (network->bits % 8));
    dt_assert_cmp(network->bits, <=, ADDRESS_BITS);
    if (memcmp(network->address, address, whole) != 0)
        return false;
    return network->bits % 8 == 0 || ((network->address[whole] ^ address[whole]) & mask) == 0;
}

/* IPv4 addresses are compared in the form ::ffff:a.b.c.d. An IPv6 network that is wider than ::ffff:0:0/96, such as
 * ::/0, does not contain them. */
bool dt_networks_contain(const struct dt_networks *networks, const unsigned char *address)
{
    unsigned least = dt_network_contains(&mapped, address) ? MAPPED_BITS : 0;
    for (size_t i = 0; i < networks->n; i++)
        if (networks->v[i].bits >= least && dt_network_contains(&networks->v[i], address))
            return true;
    return false;
}

bool dt_address_bytes(const struct sockaddr *address, size_t n, unsigned char out[DT_ADDRESS_BYTES])
{
    if (n >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        memcpy(out, mapped.address, DT_ADDRESS_BYTES);
        memcpy(out + 12, &in.sin_addr, 4);
        return true;
    }
    if (n >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof(in6));
        memcpy(out, &in6.sin6_addr, DT_ADDRESS_BYTES);
        return true;
    }
    return false;
}

void dt_address_text(const unsigned char *address, char out[DT_ADDRESS_TEXT])
{
    bool four = dt_network_contains(&mapped, address);
    (void)inet_ntop(four ? AF_INET : AF_INET6, four ? address + 12 : address, out, DT_ADDRESS_TEXT);
}

static bool read_network_address(struct dt_str text, struct dt_network *out, unsigned *most)
{
    char buf[INET6_ADDRSTRLEN];
    if (!text.n || text.n >= sizeof(buf))
        return false;
    memcpy(buf, text.p, text.n);
    buf[text.n] = '\0';
    memcpy(out->address, mapped.address, DT_ADDRESS_BYTES);
    *most = 32;
    if (inet_pton(AF_INET, buf, out->address + 12) == 1)
        return true;
    *most = ADDRESS_BITS;
    return inet_pton(AF_INET6, buf, out->address) == 1;
}

bool dt_address_parse(struct dt_str text, unsigned char out[DT_ADDRESS_BYTES])
{
    struct dt_network one;
    unsigned most;
    if (!read_network_address(text, &one, &most))
        return false;
    memcpy(out, one.address, DT_ADDRESS_BYTES);
    return true;
}

static const char *read_network(struct dt_str text, struct dt_network *out)
{
    const char *slash = memchr(text.p, '/', text.n);
    const char *end = text.p + text.n;
    unsigned most = 0;
    unsigned length = 0;
    if (!read_network_address((struct dt_str){text.p, slash ? (size_t)(slash - text.p) : text.n}, out, &most))
        return "is not an IPv4 or IPv6 address with a length, such as 10.0.0.0/8";
    bool good = !slash || (end - slash > 1 && end - slash <= 4);
    for (const char *p = slash ? slash + 1 : end; p < end && good; p++) {
        good = isdigit((unsigned char)*p);
        length = length * 10 + (unsigned)(*p - '0');
    }
    if (!good || length > most)
        return most == 32 ? "must have a length from 0 to 32" : "must have a length from 0 to 128";
    out->bits = ADDRESS_BITS - most + (slash ? length : most);
    for (unsigned bit = out->bits; bit < ADDRESS_BITS; bit++)
        if (out->address[bit / 8] & 0x80u >> (bit % 8))
            return "has bits that are set after its length";
    return NULL;
}

dt_status dt_networks_parse(struct dt_str text, struct dt_networks *out, struct dt_error *err)
{
    out->n = 0;
    for (text = dt_str_trimmed(text); text.n > 0; out->n++) {
        const struct dt_str element = dt_str_next_element(&text);
        const char *wrong = out->n == DT_NETWORKS_MAX ? "is one network too many, 64 are allowed"
                                                      : read_network(element, &out->v[out->n]);
        if (wrong) {
            out->n = 0;
            return dt_fail(err, DT_INVALID, "\"%.*s\" %s", element.n > ELEMENT_MAX ? ELEMENT_MAX : (int)element.n,
                           element.p, wrong);
        }
    }
    return DT_OK;
}
