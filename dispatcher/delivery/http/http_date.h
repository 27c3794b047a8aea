/* Dates of HTTP headers (RFC 9110, section 5.6.7). Pure. */
#ifndef DT_DISPATCHER_HTTP_DATE_H
#define DT_DISPATCHER_HTTP_DATE_H

#include "base/strbuf.h"

/*
 * Reads one of the three forms:
 *   "Sun, 06 Nov 1994 08:49:37 GMT"   "Sunday, 06-Nov-94 08:49:37 GMT"   "Sun Nov  6 08:49:37 1994"
 * A year of two digits is the one within 50 years ahead of now_ms, else in the past. The name of the weekday is not
 * compared with the date. A leap second is the next second. False: it is none of these; *out_ms is then as it was.
 */
bool dt_http_date_parse(struct dt_str text, int64_t now_ms, int64_t *out_ms);

/*
 * Reads the value of Retry-After: whole seconds, or a date. *out_ms is the delay from now_ms, 0 for a date that is
 * past, at most max_ms. False: unreadable; *out_ms is then as it was.
 */
bool dt_retry_after_parse(struct dt_str text, int64_t now_ms, int64_t max_ms, int64_t *out_ms);

#endif
