/*
 * The table of refused networks, and reading lists of networks and names. Every address is brought to one form first:
 * 16 bytes, in which an IPv4 address stands behind ::ffff:0:0/96. A form that carries an IPv4 address is judged twice,
 * as what it is and as what it carries.
 */
#include "address_rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>

#define ADDRESS_BYTES 16
#define ADDRESS_BITS  128
#define MAPPED_BITS   96
#define ELEMENT_MAX   253

#define V4(a, b, c, d)                                                                                                 \
    {                                                                                                                  \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, (a), (b), (c), (d)                                                   \
    }

static const struct dt_network refused[] = {
    {V4(0, 0, 0, 0), MAPPED_BITS + 8},      /* this network */
    {V4(10, 0, 0, 0), MAPPED_BITS + 8},     /* private */
    {V4(100, 64, 0, 0), MAPPED_BITS + 10},  /* shared by carriers; 100.100.100.200 is a metadata service */
    {V4(127, 0, 0, 0), MAPPED_BITS + 8},    /* loopback */
    {V4(168, 63, 129, 16), ADDRESS_BITS},   /* a metadata service */
    {V4(169, 254, 0, 0), MAPPED_BITS + 16}, /* link-local; 169.254.169.254 is a metadata service */
    {V4(172, 16, 0, 0), MAPPED_BITS + 12},  /* private */
    {V4(192, 0, 0, 192), ADDRESS_BITS},     /* a metadata service */
    {V4(192, 168, 0, 0), MAPPED_BITS + 16}, /* private */
    {V4(224, 0, 0, 0), MAPPED_BITS + 4},    /* multicast */
    {V4(240, 0, 0, 0), MAPPED_BITS + 4},    /* reserved, broadcast */
    {{0}, ADDRESS_BITS},                    /* :: */
    {{[15] = 1}, ADDRESS_BITS},             /* ::1 */
    {{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48},   /* local NAT64 */
    {{0xfc}, 7},                            /* unique-local; fd00:ec2::254 is a metadata service */
    {{0xfe, 0x80}, 10},                     /* link-local */
    {{0xfe, 0xc0}, 10},                     /* site-local */
    {{0xff}, 8},                            /* multicast */
};

/* IPv6 networks whose addresses carry an IPv4 address, and the byte at which it stands. */
static const struct carrier {
    struct dt_network network;
    unsigned at;
} carriers[] = {
    {{{0}, 96}, 12},                      /* IPv4-compatible */
    {{{[8] = 0xff, [9] = 0xff}, 96}, 12}, /* IPv4-translated */
    {{{0x00, 0x64, 0xff, 0x9b}, 96}, 12}, /* NAT64 */
    {{{0x20, 0x02}, 16}, 2},              /* 6to4 */
};

static const struct dt_network mapped = {V4(0, 0, 0, 0), MAPPED_BITS};

static bool bits_equal(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    unsigned whole = bits / 8;
    unsigned char mask = (unsigned char)(0xff00u >> (bits % 8));
    if (memcmp(a, b, whole) != 0)
        return false;
    return bits % 8 == 0 || ((a[whole] ^ b[whole]) & mask) == 0;
}

static bool contains(const struct dt_network *network, const unsigned char *address)
{
    return bits_equal(network->address, address, network->bits);
}

/* An IPv6 network that is wider than all of IPv4 does not stand for IPv4 addresses. */
static bool excepted(const struct dt_networks *allowed, const unsigned char *address)
{
    unsigned least = contains(&mapped, address) ? MAPPED_BITS : 0;
    for (size_t i = 0; i < allowed->n; i++)
        if (allowed->v[i].bits >= least && contains(&allowed->v[i], address))
            return true;
    return false;
}

static bool is_refused(const unsigned char *address)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
        if (contains(&refused[i], address))
            return true;
    return false;
}

static bool one_allowed(const struct dt_networks *allowed, const unsigned char *address)
{
    return !is_refused(address) || excepted(allowed, address);
}

/* Whether the IPv4 address that is carried, if there is any, may be reached. */
static bool carried_allowed(const struct dt_networks *allowed, const unsigned char *address)
{
    for (size_t i = 0; i < sizeof(carriers) / sizeof(*carriers); i++) {
        if (!contains(&carriers[i].network, address))
            continue;
        unsigned char carried[ADDRESS_BYTES];
        memcpy(carried, mapped.address, sizeof(carried));
        memcpy(carried + 12, address + carriers[i].at, 4);
        return one_allowed(allowed, carried);
    }
    return true;
}

static bool bytes_of(const struct sockaddr *address, size_t n, unsigned char out[ADDRESS_BYTES])
{
    if (n >= sizeof(struct sockaddr_in) && address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof(in));
        memcpy(out, mapped.address, ADDRESS_BYTES);
        memcpy(out + 12, &in.sin_addr, 4);
        return true;
    }
    if (n >= sizeof(struct sockaddr_in6) && address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof(in6));
        memcpy(out, &in6.sin6_addr, ADDRESS_BYTES);
        return true;
    }
    return false;
}

bool dt_address_allowed(const struct dt_networks *allowed, const struct sockaddr *address, size_t n)
{
    unsigned char bytes[ADDRESS_BYTES];
    if (!bytes_of(address, n, bytes))
        return false;
    if (excepted(allowed, bytes))
        return true;
    return !is_refused(bytes) && carried_allowed(allowed, bytes);
}

/* ---- reading lists ---- */

static bool read_address(struct dt_str text, struct dt_network *out, unsigned *most)
{
    char buf[INET6_ADDRSTRLEN];
    if (text.n >= sizeof(buf))
        return false;
    memcpy(buf, text.p, text.n);
    buf[text.n] = '\0';
    memcpy(out->address, mapped.address, ADDRESS_BYTES);
    *most = 32;
    if (inet_pton(AF_INET, buf, out->address + 12) == 1)
        return true;
    *most = ADDRESS_BITS;
    return inet_pton(AF_INET6, buf, out->address) == 1;
}

static bool read_length(struct dt_str text, unsigned most, unsigned *out)
{
    *out = 0;
    if (text.n == 0 || text.n > 3)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (!isdigit((unsigned char)text.p[i]))
            return false;
        *out = *out * 10 + (unsigned)(text.p[i] - '0');
    }
    return *out <= most;
}

static bool host_bits_clear(const struct dt_network *network)
{
    struct dt_network base = *network;
    for (unsigned bit = network->bits; bit < ADDRESS_BITS; bit++)
        base.address[bit / 8] &= (unsigned char)~(0x80u >> (bit % 8));
    return memcmp(base.address, network->address, ADDRESS_BYTES) == 0;
}

/* NULL, or what is wrong. */
static const char *read_network(struct dt_str text, struct dt_network *out)
{
    const char *slash = memchr(text.p, '/', text.n);
    size_t n = slash ? (size_t)(slash - text.p) : text.n;
    unsigned most = 0;
    unsigned length = 0;
    if (!read_address((struct dt_str){text.p, n}, out, &most))
        return "is not an IPv4 or IPv6 address with a length, such as 10.0.0.0/8";
    if (slash && !read_length((struct dt_str){slash + 1, text.n - n - 1}, most, &length))
        return most == 32 ? "must have a length from 0 to 32" : "must have a length from 0 to 128";
    out->bits = ADDRESS_BITS - most + (slash ? length : most);
    return host_bits_clear(out) ? NULL : "has bits behind its length";
}

static dt_status refuse(struct dt_error *err, struct dt_str element, const char *wrong)
{
    int shown = element.n > ELEMENT_MAX ? ELEMENT_MAX : (int)element.n;
    return dt_fail(err, DT_INVALID, "\"%.*s\" %s", shown, element.p, wrong);
}

static dt_status read_networks(struct dt_str text, struct dt_networks *out, struct dt_error *err)
{
    while (text.n > 0) {
        struct dt_str element = dt_str_next_element(&text);
        if (out->n == DT_NETWORKS_MAX)
            return refuse(err, element, "is one network too many, 64 are allowed");
        const char *wrong = read_network(element, &out->v[out->n]);
        if (wrong)
            return refuse(err, element, wrong);
        out->n++;
    }
    return DT_OK;
}

dt_status dt_networks_parse(struct dt_str text, struct dt_networks *out, struct dt_error *err)
{
    out->n = 0;
    dt_status status = read_networks(dt_str_trimmed(text), out, err);
    if (status != DT_OK)
        out->n = 0;
    return status;
}
