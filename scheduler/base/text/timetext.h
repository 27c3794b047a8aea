/* The Gregorian calendar, and durations and times as text. Pure. A day is a number: days since 1970-01-01. */
#pragma once

#include "base/status.h"
#include "strbuf.h"

/* month and day count from 1. */
struct dt_civil {
    int year, month, day, hour, minute, second;
};

bool dt_civil_leap_year(int year);
int dt_civil_days_in_month(int year, int month);
int64_t dt_civil_days(int year, int month, int day);
/* Returns the day with this number, at midnight. */
struct dt_civil dt_civil_of_days(int64_t days);
/* Returns the weekday: 0 is Sunday. */
int dt_civil_weekday(int64_t days);

/*
 * Duration: ISO 8601, weeks to seconds ("P3D", "PT1M", "PT0.5S", "P1W", "P1DT2H"; no years or months; a fraction in the
 * last part only), or 15s 3m 1h 2d, or a number of milliseconds ("1500", "0.5", "1e3"). Not negative, at most 100
 * years. Time: RFC 3339 with an offset ("2026-11-21T10:30:00.123+02:00", "z" and "t" are valid; the leap second
 * 23:59:60 UTC is the next second). Fractions of a millisecond are rounded up, so that nothing is early.
 */

#define DT_DURATION_MAX_MS (INT64_C(36525) * 86400000)
#define DT_TIME_MAX_MS     INT64_C(253402300799999) /* the end of the year 9999 */

/* Reads a duration. INVALID: *out_ms is unchanged. */
DT_MUST_CHECK dt_status dt_duration_parse(struct dt_str text, int64_t *out_ms);
/* Reads a JSON number times ten to the power of `exponent`, exactly, and rounds up. INVALID: not a number, below zero,
 * or above DT_DURATION_MAX_MS; *out_ms is unchanged. */
DT_MUST_CHECK dt_status dt_number_parse_ms(struct dt_str number, int exponent, int64_t *out_ms);
/* Appends the shortest usual ISO 8601 form: 60000 -> "PT1M", 500 -> "PT0.5S", 259200000 -> "P3D". Negative: 0. */
void dt_duration_add_iso(struct dt_strbuf *out, int64_t ms);
/* Appends the short form: 15000 -> "15s", 180000 -> "3m", 86400000 -> "1d", 90000 -> "90s", 1500 -> "1500ms". */
void dt_duration_add_short(struct dt_strbuf *out, int64_t ms);

/* Reads a time. INVALID: *out_ms is unchanged. */
DT_MUST_CHECK dt_status dt_time_parse(struct dt_str text, int64_t *out_ms);
/* Writes a time like "2026-11-21T10:30:00.000Z". Times outside of the years 0 to 9999 are limited to them. */
void dt_time_format(int64_t ms, char buf[25]);
