/*
 * Retry schedules as text, as stored in jobs.retry and topics.retry.
 *
 * Canonical text: delays in the short form, space separated ("15s 3m 500ms": "ms" for what is no whole second); the
 * empty text = no retries. At most 100 delays. Durations and times as text: base/text/timetext.h.
 */
#ifndef DT_JOB_RETRY_H
#define DT_JOB_RETRY_H

#include "base/text/strbuf.h"
#include "base/text/timetext.h"

#define DT_RETRY_MAX      100
#define DT_RETRY_TEXT_MAX 1600

/* Canonical text from n delays. */
void dt_retry_format(struct dt_strbuf *out, const int64_t *delays_ms, unsigned n);
/*
 * Reads stored (perhaps manually edited) text: durations separated by spaces or commas, "ms" included. INVALID for
 * anything else and for more than DT_RETRY_MAX, *n is then 0.
 */
DT_MUST_CHECK dt_status dt_retry_parse(struct dt_str text, int64_t delays_ms[DT_RETRY_MAX], unsigned *n);

#endif
