/*
 * Addresses and lists of networks. Every address has one form, 16 bytes, in which an IPv4 address stands behind
 * ::ffff:0:0/96. Pure.
 */
#ifndef DT_BASE_NETWORKS_H
#define DT_BASE_NETWORKS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/text/strbuf.h"
#include "status.h"

#define DT_NETWORKS_MAX  64
#define DT_ADDRESS_BYTES 16
#define DT_ADDRESS_TEXT  46 /* an address as text, with its zero byte */

struct dt_network {
    unsigned char address[DT_ADDRESS_BYTES];
    unsigned bits; /* 0 to 128; of an IPv4 network 96 more than in its text */
};

/* A value: copied by assignment, nothing to free. All zero = none. */
struct dt_networks {
    size_t n;
    struct dt_network v[DT_NETWORKS_MAX];
};

/*
 * Reads comma-separated CIDRs ("10.0.0.0/8, fd00::/8"); an address without a length is that address alone; blanks
 * around an element and an empty text are fine. INVALID: err names the element and the fault; *out then has no
 * networks.
 */
DT_MUST_CHECK dt_status dt_networks_parse(struct dt_str text, struct dt_networks *out, struct dt_error *err);
bool dt_network_contains(const struct dt_network *network, const unsigned char *address);
/* Whether one of them does. */
bool dt_networks_contain(const struct dt_networks *networks, const unsigned char *address);

/* False: its family is neither IPv4 nor IPv6. */
bool dt_address_bytes(const struct sockaddr *address, size_t n, unsigned char out[DT_ADDRESS_BYTES]);
/* "10.1.2.3", "fd00::1". False: it is no address. */
bool dt_address_parse(struct dt_str text, unsigned char out[DT_ADDRESS_BYTES]);
void dt_address_text(const unsigned char *address, char out[DT_ADDRESS_TEXT]);

#endif
