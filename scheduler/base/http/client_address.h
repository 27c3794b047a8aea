/*
 * The address of the client that a request came from, where proxies stand before the API. Each proxy appends to a
 * header (X-Forwarded-For or Forwarded) the address that it was asked by. The header is read from its end: as long as
 * the address that was reached is of a proxy in http.trusted_proxies, the entry before it is believed; the first
 * address that is not trusted is the client's, and nothing before it is looked at. Pure.
 */
#pragma once

#include "base/addresses.h"

/* In place of an address on a Unix socket, which has none. */
#define DT_CLIENT_NOWHERE "unix"

/* The value of X-Forwarded-For ("a, b:port, [c]:port") or, with `forwarded`, of Forwarded ("for=a;proto=https, …"). */
struct dt_forwarded {
    struct dt_str value;
    bool forwarded;
};

/* Writes the client's address as text. peer: DT_ADDRESS_BYTES of the connection's other end, or NULL. */
void dt_client_address(const struct dt_networks *trusted, const unsigned char *peer, struct dt_forwarded said,
                       char out[DT_ADDRESS_TEXT]);
