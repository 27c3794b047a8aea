/*
 * Whose request it is, where proxies stand before the API: each proxy adds to the end of a header for whom it asks. What
 * a proxy of http.trusted_proxies says is believed, and so is what the one before it has said, as long as that is
 * trusted, too; what anybody else says is not looked at. Pure.
 */
#ifndef DT_API_CLIENT_ADDRESS_H
#define DT_API_CLIENT_ADDRESS_H

#include "base/connection/networks.h"

/* In place of an address on a Unix socket, which has none. */
#define DT_CLIENT_NOWHERE "unix"

/* The value of X-Forwarded-For ("a, b:port, [c]:port") or, with `forwarded`, of Forwarded ("for=a;proto=https, …"). */
struct dt_forwarded {
    struct dt_str value;
    bool forwarded;
};

/* Writes the address of who asks. peer: of the connection, or NULL. */
void dt_client_address(const struct dt_networks *trusted, const struct sockaddr *peer, struct dt_forwarded said,
                       char out[DT_ADDRESS_TEXT]);

#endif
