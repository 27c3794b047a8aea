/* Hosts, listeners and networks, as the configuration spells them. Pure functions. */
#pragma once

#include "base/text/strbuf.h"
#include "status.h"

#define DT_MYSQL_PORT    3306
#define DT_SENTINEL_PORT 26379

/* A host and its port, from "host", "host:port", "[::1]" or "[::1]:port". */
struct dt_host {
    char name[256]; /* the host's name or address, without the brackets of an IPv6 address */
    int port;
};

/* Reads a host in one of the forms of struct dt_host. Returns false if the text has another form, or if the port is not
 * 1 to 65535. If default_port is 0, the text must have a port. */
bool dt_host_parse(struct dt_str text, int default_port, struct dt_host *out);
/* Returns whether each element of a comma-separated list is a host. An empty list is valid. */
bool dt_hosts_ok(const char *list);

/* ---- listeners: "address", "address:port" or "[::1]:port", after an optional "tls:" or "plain:"; "unix:/path" ---- */

#define DT_LISTENERS_MAX 16

enum dt_listen_as {
    DT_LISTEN_AS_GIVEN, /* TLS if a certificate is configured, else plain */
    DT_LISTEN_PLAIN,
    DT_LISTEN_TLS,
    DT_LISTEN_UNIX /* never TLS; at.name is a path */
};

struct dt_listen {
    enum dt_listen_as as;
    struct dt_host at; /* address and port; port 0: any free port */
};

/* Reads one element of a list of listeners. If the element has no port, the port is default_port, which may be 0.
 * Returns false if the element is not a listener. */
bool dt_listen_parse(struct dt_str text, int default_port, struct dt_listen *out);
/* Returns whether the list has 1 to DT_LISTENERS_MAX elements, all valid. */
bool dt_listen_ok(const char *list);

/* ---- networks: every address is 16 bytes; an IPv4 address is one of ::ffff:0:0/96 ---- */

#define DT_NETWORKS_MAX  64
#define DT_ADDRESS_BYTES 16
#define DT_ADDRESS_TEXT  46 /* bytes of an address as text, including the terminating zero */

struct dt_network {
    unsigned char address[DT_ADDRESS_BYTES];
    unsigned bits; /* length of the prefix, 0 to 128; for an IPv4 network, the length in its text plus 96 */
};

/* A list of networks: copied by assignment, nothing to free. All zero: no network. */
struct dt_networks {
    size_t n;
    struct dt_network v[DT_NETWORKS_MAX];
};

/* Reads comma-separated CIDRs ("10.0.0.0/8, fd00::/8"). An address without a length is a network of one address. Blanks
 * and an empty text are allowed. If the text is wrong, returns INVALID, err names the element and the fault, and *out
 * is empty. */
dt_status dt_networks_parse(struct dt_str text, struct dt_networks *out, struct dt_error *err);
bool dt_network_contains(const struct dt_network *network, const unsigned char *address);
bool dt_networks_contain(const struct dt_networks *networks, const unsigned char *address);

struct sockaddr;
/* Writes the address of a socket; IPv4 in the form ::ffff:a.b.c.d. Returns false if the family is neither IPv4 nor
 * IPv6. */
bool dt_address_bytes(const struct sockaddr *address, size_t n, unsigned char out[DT_ADDRESS_BYTES]);
/* Reads an address like "10.1.2.3" or "fd00::1". Returns false if the text is not an address. */
bool dt_address_parse(struct dt_str text, unsigned char out[DT_ADDRESS_BYTES]);
void dt_address_text(const unsigned char *address, char out[DT_ADDRESS_TEXT]);
