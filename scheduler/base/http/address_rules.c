/*
 * The table of refused networks. Every address is brought to one form first (base/addresses.h). A form that
 * carries an IPv4 address is judged twice, as what it is and as what it carries.
 */
#include "address_rules.h"

#include <string.h>

#define ADDRESS_BITS 128
#define MAPPED_BITS  96

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

static bool is_refused(const unsigned char *address)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
        if (dt_network_contains(&refused[i], address))
            return true;
    return false;
}

bool dt_address_allowed(const struct dt_networks *allowed, const struct sockaddr *address, size_t n)
{
    unsigned char bytes[DT_ADDRESS_BYTES];
    unsigned char carried[DT_ADDRESS_BYTES];
    if (!dt_address_bytes(address, n, bytes))
        return false;
    if (dt_networks_contain(allowed, bytes))
        return true;
    if (is_refused(bytes))
        return false;
    for (size_t i = 0; i < sizeof(carriers) / sizeof(*carriers); i++) {
        if (!dt_network_contains(&carriers[i].network, bytes))
            continue;
        memcpy(carried, mapped.address, sizeof(carried));
        memcpy(carried + 12, bytes + carriers[i].at, 4);
        return !is_refused(carried) || dt_networks_contain(allowed, carried);
    }
    return true;
}
