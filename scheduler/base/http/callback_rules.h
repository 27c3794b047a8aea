/*
 * The URL of a callback: which texts are taken, and which host a URL belongs to. Pure: resolves no name, opens nothing.
 *
 * The text is taken literally and is sent as it stands. A text that two programs could read differently is refused, and
 * the parser is the one of the HTTP client (libcurl's), so the host judged here is the host that it connects to.
 */
#ifndef DT_BASE_CALLBACK_RULES_H
#define DT_BASE_CALLBACK_RULES_H

#include <sys/socket.h>

#include "base/addresses.h"
#include "base/text/strbuf.h"

#define DT_CALLBACK_URL_MAX 2000
#define DT_HOST_MAX         253 /* bytes of a host's name */
/* Room for "https://<host>:65535" and its end. */
#define DT_HOST_KEY_MAX (sizeof("https://[]:65535") + DT_HOST_MAX)

struct dt_callback_url {
    bool tls;
    uint16_t port;              /* the scheme's default where the text has none */
    char host[DT_HOST_MAX + 1]; /* lower case, without the final dot; an IPv6 address without brackets, shortest form */
    char key[DT_HOST_KEY_MAX];  /* "https://example.com:443": equal for all URLs of one host */
};

/*
 * Reads an absolute http or https URL of at most DT_CALLBACK_URL_MAX bytes. Returns NULL and fills *out, or returns the
 * reason of the refusal, a static sentence that goes on from "callback_url"; *out is then undefined. `out` may be NULL.
 *
 * Refused: other schemes, user information, fragments, blanks, control characters, bytes outside of ASCII, a zone of an
 * IPv6 address, port 0, and numbers that only look like an IPv4 address ("127.1", "0x7f000001", "010.0.0.1"). Also any
 * text while memory is out; the reason says so.
 */
const char *dt_callback_url_check(struct dt_str text, struct dt_callback_url *out);
/* Reads scheme, host and port, as dt_callback_url_check does: an URL that ends there. */
const char *dt_callback_origin_check(struct dt_str text, struct dt_callback_url *out);
/* A number for the host of a URL, equal for equal keys; few hosts share one. */
uint32_t dt_callback_host_number(const struct dt_callback_url *url);
/* The number of the host of a text; 0 where it is absent, or no URL. */
uint32_t dt_callback_host_of(struct dt_str text);

/*
 * Which hosts callbacks may go to: the list of `callbacks.allow_hosts`. Pure. Who takes a URL from a caller asks, so
 * that one that may never be called is refused; who sends asks again, because the list may be another one by then.
 *
 * And which hosts a topic's secrets may go to: headers and signature are the topic's, and a job may name any URL.
 */

/*
 * Checks comma-separated host names, of which each may begin with "*." (every name below it, but not the name itself).
 * INVALID: err names the element and the fault. An empty text is fine and stands for every host.
 */
DT_MUST_CHECK dt_status dt_host_names_check(struct dt_str names, struct dt_error *err);
/* Whether a list that dt_host_names_check took has this host (struct dt_callback_url: lower case, no final dot). */
bool dt_host_allowed(struct dt_str names, const char *host);
/* Checks a URL (url.h) and its host. NULL: it may be called; else the reason, static text. */
const char *dt_callback_url_refusal(struct dt_str text, struct dt_str names);

/* Where a topic's secrets may go. Absent: nowhere. */
struct dt_callback_places {
    struct dt_str url;   /* the topic's own */
    struct dt_str hosts; /* further origins (dt_callback_origin_check), comma-separated */
};
/* Whether the secrets may go to this URL: scheme, host and port are those of the topic's URL, or of one of its hosts.
 * A text that is no URL, or no origin, counts as absent. */
bool dt_callback_place_is_listed(const struct dt_callback_places *places, struct dt_str url);
/* Whether `after` has a place that `before` has not, or another host in its URL. */
bool dt_callback_places_widen(const struct dt_callback_places *before, const struct dt_callback_places *after);

/*
 * Headers that a caller may add to a callback: which names and values are allowed. Pure.
 */

/* Whether a header can have this name at all: a token of RFC 9110. */
bool dt_header_name_is_token(struct dt_str name);
/*
 * Returns NULL when a callback may carry a header of this name, else the reason, a static sentence. Refused: what is no
 * token of RFC 9110; the names that every request of ours has (ce-*, webhook-*, idempotency-key, content-*, host,
 * user-agent); the names that rule the connection (connection, keep-alive, proxy-*, te, trailer, transfer-encoding,
 * upgrade, http2-settings) or the exchange (expect). Letters are compared without regard to case.
 */
const char *dt_callback_header_name_check(struct dt_str name);
/* Returns NULL when a header may have this value, else the reason: it has a control character. A tab is one of them. */
const char *dt_callback_header_value_check(struct dt_str value);

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

/* Whether a socket may connect to this address. `allowed` holds the exceptions. */
bool dt_address_allowed(const struct dt_networks *allowed, const struct sockaddr *address, size_t n);

#endif
