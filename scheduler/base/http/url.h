/*
 * The URL of a callback: which texts are taken, and which host a URL belongs to. Pure: resolves no name, opens nothing.
 *
 * The text is taken literally and is sent as it stands. A text that two programs could read differently is refused, and
 * the parser is the one of the HTTP client (libcurl's), so the host judged here is the host that it connects to.
 */
#ifndef DT_BASE_URL_H
#define DT_BASE_URL_H

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

#endif
