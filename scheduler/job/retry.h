/*
 * Durations, times and retry schedules as text.
 *
 * Duration: ISO 8601 weeks to seconds ("P3D", "PT1M", "PT0.5S", "P1W", "P1DT2H"; no years or months), or 15s 3m
 * 1h 2d, or plain digits = milliseconds. Finer than 1 ms rounds up. Not negative. At most 100 years.
 * Time: RFC 3339 with an offset ("2026-11-21T10:30:00.123+02:00", "z"/"t" accepted, leap second 60 = next second).
 * Finer than 1 ms rounds up, so that nothing is early.
 * Retry schedule: canonical text as stored in jobs.retry: delays in the short form, space separated ("15s 3m 500ms" is
 * written with "ms" for what is no whole second); the empty text = no retries. At most 100 delays.
 */
#ifndef DT_JOB_RETRY_H
#define DT_JOB_RETRY_H

#include "base/strbuf.h"

#define DT_RETRY_MAX 100
#define DT_RETRY_TEXT_MAX 1600
#define DT_DURATION_MAX_MS (INT64_C(36525) * 86400000)

DT_MUST_CHECK dt_status dt_duration_parse(struct dt_str text, int64_t *out_ms);
/* ISO 8601, shortest usual form: 60000 -> "PT1M", 500 -> "PT0.5S", 259200000 -> "P3D". */
void dt_duration_add_iso(struct dt_strbuf *out, int64_t ms);
/* Short form: 15000 -> "15s", 180000 -> "3m", 86400000 -> "1d", 90000 -> "90s", 1500 -> "1500ms". */
void dt_duration_add_short(struct dt_strbuf *out, int64_t ms);

DT_MUST_CHECK dt_status dt_time_parse(struct dt_str text, int64_t *out_ms);
/* "2026-11-21T10:30:00.000Z" into buf[25]. */
void dt_time_format(int64_t ms, char buf[25]);

/* Canonical text from n delays. */
void dt_retry_format(struct dt_strbuf *out, const int64_t *delays_ms, unsigned n);
/* Reads stored (perhaps hand-edited) text: space or comma separated durations. INVALID for anything else. */
DT_MUST_CHECK dt_status dt_retry_parse(struct dt_str text, int64_t delays_ms[DT_RETRY_MAX], unsigned *n);

#endif
