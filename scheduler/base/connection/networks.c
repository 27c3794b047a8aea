/* Owns: reading addresses and networks, and what is in which. Refuses to know: who asks. */
#include "base/connection/networks.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define ADDRESS_BITS 128
#define MAPPED_BITS  96
#define ELEMENT_MAX  253

static const struct dt_network mapped = {{[10] = 0xff, [11] = 0xff}, MAPPED_BITS};

static bool bits_equal(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    unsigned whole = bits / 8;
    unsigned char mask = (unsigned char)(0xff00u >> (bits % 8));
    if (memcmp(a, b, whole) != 0)
        return false;
    return bits % 8 == 0 || ((a[whole] ^ b[whole]) & mask) == 0;
}

bool dt_network_contains(const struct dt_network *network, const unsigned char *address)
{
    return bits_equal(network->address, address, network->bits);
}

/* An IPv6 network that is wider than all of IPv4 does not stand for IPv4 addresses. */
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

static bool read_address(struct dt_str text, struct dt_network *out, unsigned *most)
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
    if (!read_address(text, &one, &most))
        return false;
    memcpy(out, one.address, DT_ADDRESS_BYTES);
    return true;
}

/* ---- reading lists ---- */

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
    return memcmp(base.address, network->address, DT_ADDRESS_BYTES) == 0;
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
