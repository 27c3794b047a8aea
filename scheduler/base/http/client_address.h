/* Finds the address of the client if proxies forward its requests to the API. Each proxy appends the address of its own
 * client to a header (X-Forwarded-For or Forwarded). The header is read from its end, beginning with the address of the
 * connection: if an address is in http.trusted_proxies, the entry before it is the next address. The first address that
 * is not trusted is the client's; entries before it are ignored. Pure functions. */
#pragma once

#include "base/addresses.h"

/* Text that is returned instead of the client's address if the connection is on a Unix socket. */
#define DT_CLIENT_NOWHERE "unix"

/* The value of X-Forwarded-For ("a, b:port, [c]:port") or, if `forwarded` is set, of Forwarded ("for=a;proto=https,
 * …"). */
struct dt_forwarded {
    struct dt_str value;
    bool forwarded;
};

/* Writes the client's address as text. peer: address of the other end of the connection, in DT_ADDRESS_BYTES; NULL: a
 * Unix socket. */
void dt_client_address(const struct dt_networks *trusted, const unsigned char *peer, struct dt_forwarded said,
                       char out[DT_ADDRESS_TEXT]);
