/* Hosts, listeners and networks, as they are written in the configuration. Pure. */
#pragma once

#include "base/text/strbuf.h"
#include "status.h"

#define DT_MYSQL_PORT    3306
#define DT_SENTINEL_PORT 26379

/* "host", "host:port", "[::1]" or "[::1]:port". */
struct dt_host {
    char name[256]; /* without the brackets of an IPv6 address */
    int port;
};

/* Returns false if the text has none of these forms, or the port is not 1 to 65535. default_port 0: the text must have
 * a port. */
bool dt_host_parse(struct dt_str text, int default_port, struct dt_host *out);
/* Whether each element of a comma-separated list is a host. An empty list is valid. */
bool dt_hosts_ok(const char *list);

/* ---- listeners: "address", "address:port" or "[::1]:port", after an optional "tls:" or "plain:"; "unix:/path" ---- */

#define DT_LISTENERS_MAX 16

enum dt_listen_as {
    DT_LISTEN_AS_GIVEN, /* TLS if a certificate is configured */
    DT_LISTEN_PLAIN,
    DT_LISTEN_TLS,
    DT_LISTEN_UNIX /* never TLS; the name is a path */
};

struct dt_listen {
    enum dt_listen_as as;
    struct dt_host at; /* port 0: any free port */
};

/* Reads one element. default_port is used if the element has no port; 0 is valid here. False: not a listener. */
bool dt_listen_parse(struct dt_str text, int default_port, struct dt_listen *out);
/* Whether the list has 1 to DT_LISTENERS_MAX elements, all valid. */
bool dt_listen_ok(const char *list);

/* ---- networks: every address is 16 bytes; an IPv4 address is one of ::ffff:0:0/96 ---- */

#define DT_NETWORKS_MAX  64
#define DT_ADDRESS_BYTES 16
#define DT_ADDRESS_TEXT  46 /* an address as text, with its zero byte */

struct dt_network {
    unsigned char address[DT_ADDRESS_BYTES];
    unsigned bits; /* 0 to 128; for an IPv4 network, 96 more than in its text */
};

/* A value: copied by assignment, nothing to free. All zero: no network. */
struct dt_networks {
    size_t n;
    struct dt_network v[DT_NETWORKS_MAX];
};

/* Reads comma-separated CIDRs ("10.0.0.0/8, fd00::/8"). An address without a length is a network of one address.
 * Blanks and an empty text are allowed. INVALID: err names the element and the fault, and *out is empty. */
DT_MUST_CHECK dt_status dt_networks_parse(struct dt_str text, struct dt_networks *out, struct dt_error *err);
bool dt_network_contains(const struct dt_network *network, const unsigned char *address);
bool dt_networks_contain(const struct dt_networks *networks, const unsigned char *address);

struct sockaddr;
/* False: the family is neither IPv4 nor IPv6. */
bool dt_address_bytes(const struct sockaddr *address, size_t n, unsigned char out[DT_ADDRESS_BYTES]);
/* "10.1.2.3", "fd00::1". False: not an address. */
bool dt_address_parse(struct dt_str text, unsigned char out[DT_ADDRESS_BYTES]);
void dt_address_text(const unsigned char *address, char out[DT_ADDRESS_TEXT]);
