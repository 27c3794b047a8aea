/*
 * Which addresses a callback may reach (which hosts: base/http/host_name.h). Pure: opens nothing. An address is
 * judged when a socket is about to connect to it, so that no answer of a name server gets around the judgement.
 *
 * Refused, unless a network of `callbacks.allow_networks` contains the address: 0.0.0.0/8, ::, loopback, private,
 * 100.64.0.0/10, link-local, site-local, unique-local, multicast, 240.0.0.0/4 and the metadata services of clouds; and
 * each IPv6 form of these (IPv4-mapped, IPv4-compatible, NAT64 64:ff9b::/96, 6to4 2002::/16). The local NAT64 network
 * 64:ff9b:1::/48 is refused whole, because an address in it does not say where its IPv4 address stands. An exception
 * for an IPv4 network covers the IPv6 forms of its addresses. Families other than IPv4 and IPv6 are refused.
 */
#ifndef DT_BASE_ADDRESS_RULES_H
#define DT_BASE_ADDRESS_RULES_H

#include <sys/socket.h>

#include "base/addresses.h"

/* Whether a socket may connect to this address. `allowed` holds the exceptions. */
bool dt_address_allowed(const struct dt_networks *allowed, const struct sockaddr *address, size_t n);

#endif
