/* The Gregorian calendar, and durations and times as text. Pure functions. A day is a number: days since 1970-01-01. */
#pragma once

#include "base/status.h"
#include "strbuf.h"

/* A date and a time of day. month and day count from 1. */
struct dt_civil {
    int year, month, day, hour, minute, second;
};

bool dt_civil_leap_year(int year);
int dt_civil_days_in_month(int year, int month);
int64_t dt_civil_days(int year, int month, int day);
/* Returns the date of this day, at midnight. */
struct dt_civil dt_civil_of_days(int64_t days);
/* Returns the weekday: 0 is Sunday. */
int dt_civil_weekday(int64_t days);

/* Texts of durations: ISO 8601, weeks to seconds ("P3D", "PT1M", "PT0.5S", "P1W", "P1DT2H"; no years or months; a
 * fraction in the last part only), or 15s 3m 1h 2d, or a number of milliseconds ("1500", "0.5", "1e3"). Not
 * negative, at most 100 years. Texts of times: RFC 3339 with an offset ("2026-11-21T10:30:00.123+02:00", "z" and "t"
 * are valid; the leap second 23:59:60 UTC is the next second). Fractions of a millisecond are rounded up, so that no
 * job is early. */

#define DT_DURATION_MAX_MS (INT64_C(36525) * 86400000)
#define DT_TIME_MAX_MS     INT64_C(253402300799999) /* end of the year 9999 */

/* Reads a duration. If the text is wrong, returns INVALID, and *out_ms is unchanged. */
dt_status dt_duration_parse(struct dt_str text, int64_t *out_ms);
/* Reads a JSON number times ten to the power of `exponent`, exactly, and rounds up. If the text is not a number, or the
 * result is below zero or above DT_DURATION_MAX_MS, returns INVALID, and *out_ms is unchanged. */
dt_status dt_number_parse_ms(struct dt_str number, int exponent, int64_t *out_ms);
/* Appends the shortest usual ISO 8601 form: 60000 -> "PT1M", 500 -> "PT0.5S", 259200000 -> "P3D". A negative duration
 * counts as 0. */
void dt_duration_add_iso(struct dt_strbuf *out, int64_t ms);
/* Appends the short form: 15000 -> "15s", 180000 -> "3m", 86400000 -> "1d", 90000 -> "90s", 1500 -> "1500ms". */
void dt_duration_add_short(struct dt_strbuf *out, int64_t ms);

/* Reads a time. If the text is wrong, returns INVALID, and *out_ms is unchanged. */
dt_status dt_time_parse(struct dt_str text, int64_t *out_ms);
/* Writes a time like "2026-11-21T10:30:00.000Z". Times before year 0 become its beginning, times after the year 9999
 * its end. */
void dt_time_format(int64_t ms, char buf[25]);
