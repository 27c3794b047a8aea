/* Rules for callbacks: their URLs, hosts and headers, and the addresses that they may reach. Pure functions: they
 * resolve no name and open nothing. The API applies the rules when it stores a job, and the dispatcher applies them
 * again when it sends the callback, because the configuration may have changed. */
#pragma once

#include "base/addresses.h"
#include "base/text/strbuf.h"

/* ---- URLs: a URL is not changed, and sent as it is. If two programs could read it differently, it is refused. The
 * parser is libcurl's, so the host that is checked here is the host that libcurl connects to. ---- */

#define DT_CALLBACK_URL_MAX 2000
#define DT_HOST_MAX         253 /* most bytes of a host name */
#define DT_HOST_KEY_MAX     (sizeof("https://[]:65535") + DT_HOST_MAX)

struct dt_callback_url {
    bool tls;
    uint16_t port;              /* port; the default port of the scheme if the text has none */
    char host[DT_HOST_MAX + 1]; /* host in lower case without a final dot, or shortest IPv6 address, no brackets */
    char key[DT_HOST_KEY_MAX];  /* text such as "https://example.com:443", the same for all URLs of a host */
};

/*
 * Reads an absolute http or https URL of at most DT_CALLBACK_URL_MAX bytes. Returns NULL and fills *out, which may be
 * NULL; or returns the reason of the refusal, a static text that continues "callback_url", and *out is undefined.
 *
 * Refused: other schemes, user information, fragments, blanks, control characters, bytes outside of ASCII, a zone of an
 * IPv6 address, port 0, and numbers that only look like an IPv4 address ("127.1", "0x7f000001", "010.0.0.1"). If memory
 * runs out, any text is refused, and the reason says so.
 */
const char *dt_callback_url_check(struct dt_str text, struct dt_callback_url *out);
/* Reads a URL that has only scheme, host and port. Returns NULL and fills *out; or returns the reason of the refusal, a
 * static text. */
const char *dt_callback_origin_check(struct dt_str text, struct dt_callback_url *out);
/* Returns a hash of the URL's scheme, host and port (`key`), at least 1; 0 if the text is absent or not a URL. */
uint32_t dt_callback_host_of(struct dt_str text);

/* ---- hosts: the list `callbacks.allow_hosts`; and the places to which a topic's headers and signature may be sent.
 * These are secrets of the topic, but a job may name any URL. ---- */

/* Checks comma-separated host names. A name may begin with "*.", which means all names below it, but not the name
 * itself. An empty text is valid and means every host. If the text is wrong, returns INVALID, and err names the element
 * and the fault. */
dt_status dt_host_names_check(struct dt_str names, struct dt_error *err);
/* Returns whether a valid list contains this host (lower case, no final dot, as in struct dt_callback_url). */
bool dt_host_allowed(struct dt_str names, const char *host);
/* Checks a URL, and its host against the list `names`. Returns NULL, or the reason of the refusal, a static text. */
const char *dt_callback_url_refusal(struct dt_str text, struct dt_str names);

/* The places to which a topic's secrets may be sent. An absent text names no place. */
struct dt_callback_places {
    struct dt_str url;   /* the topic's own URL */
    struct dt_str hosts; /* origins besides that of `url` (dt_callback_origin_check), separated by commas */
};
/* Returns whether the secrets may be sent to this URL: whether its scheme, host and port are those of the topic's URL
 * or of an element of `hosts`. Invalid texts count as absent. */
bool dt_callback_place_is_listed(const struct dt_callback_places *places, struct dt_str url);
/* Returns whether `after` has a place that `before` does not have, or a URL with another host. */
bool dt_callback_places_widen(const struct dt_callback_places *before, const struct dt_callback_places *after);

/* ---- headers ---- */

/* Returns whether the name is a token of RFC 9110. */
bool dt_header_name_is_token(struct dt_str name);
/* Returns NULL if a caller may add a header of this name, else the reason, a static text. Refused: names that are not a
 * token of RFC 9110; names of headers that every callback has (ce-*, webhook-*, idempotency-key, content-*, host,
 * user-agent); names that control the connection (connection, keep-alive, proxy-*, te, trailer, transfer-encoding,
 * upgrade, http2-settings) or the exchange (expect). Upper and lower case are equal. */
const char *dt_callback_header_name_check(struct dt_str name);
/* Returns NULL if a header may have this value. If the value has a control character, such as a tab, returns the
 * reason. */
const char *dt_callback_header_value_check(struct dt_str value);

/*
 * Addresses. Each address is checked when a socket is about to connect to it, so that no answer of a name server can
 * avoid the check.
 *
 * Refused, unless a network of `callbacks.allow_networks` contains the address: 0.0.0.0/8, ::, loopback, private,
 * 100.64.0.0/10, link-local, site-local, unique-local, multicast, 240.0.0.0/4 and the metadata services of clouds; and
 * each IPv6 form of these (IPv4-mapped, IPv4-compatible, NAT64 64:ff9b::/96, 6to4 2002::/16). The local NAT64 network
 * 64:ff9b:1::/48 is refused as a whole, because the position of the IPv4 address in its addresses is unknown. An
 * exception for an IPv4 network also allows the IPv6 forms of its addresses. Families other than IPv4 and IPv6 are
 * refused.
 */

struct sockaddr;
/* Returns whether a socket may connect to this address. `allowed` is the list of exceptions. */
bool dt_address_allowed(const struct dt_networks *allowed, const struct sockaddr *address, size_t n);
