/*
 * Headers that a caller may add to a callback: which names and values are allowed. Pure.
 */
#ifndef DT_BASE_HEADER_H
#define DT_BASE_HEADER_H

#include "base/text/strbuf.h"

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

#endif
