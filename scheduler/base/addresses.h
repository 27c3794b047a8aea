/* Reads hosts of the configuration from text: "host", "host:port", "[::1]", "[::1]:port". Pure. */
#ifndef DT_BASE_ADDRESSES_H
#define DT_BASE_ADDRESSES_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/text/strbuf.h"
#include "status.h"

#define DT_MYSQL_PORT    3306
#define DT_SENTINEL_PORT 26379

struct dt_host {
    char name[256]; /* without the brackets of an IPv6 address */
    int port;
};

/* False: the text is none of the four forms, or the port is not 1 to 65535. default_port 0: a port must be given. */
bool dt_host_parse(struct dt_str text, int default_port, struct dt_host *out);
/* Whether each element of a comma list is a host; an empty list is one, too. */
bool dt_hosts_ok(const char *list, int default_port);

/*
 * The addresses that a server listens on, as text: a comma list of "address", "address:port", "[::1]:port" (each
 * possibly behind "tls:" or "plain:"), and "unix:/path". Pure.
 */

#define DT_LISTENERS_MAX 16

enum dt_listen_as {
    DT_LISTEN_AS_GIVEN, /* TLS where there is a certificate */
    DT_LISTEN_PLAIN,
    DT_LISTEN_TLS,
    DT_LISTEN_UNIX /* never TLS; the name is a path */
};

struct dt_listen {
    enum dt_listen_as as;
    struct dt_host at; /* port 0: any free one */
};

/* Reads one element. default_port: where none is given; 0 is a port here. False: it is none of these. */
bool dt_listen_parse(struct dt_str text, int default_port, struct dt_listen *out);
/* Whether the list has one to DT_LISTENERS_MAX elements, all of which can be read. */
bool dt_listen_ok(const char *list);

/*
 * Addresses and lists of networks. Every address has one form, 16 bytes, in which an IPv4 address stands behind
 * ::ffff:0:0/96. Pure.
 */

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
