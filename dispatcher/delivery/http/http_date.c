/*
 * Reading dates through a cursor, part by part. Each form is one function that either takes the whole text or none; the
 * calendar is base/text/timetext's, which takes a date as RFC 3339 writes it.
 */
#include "http_date.h"

#include <stdio.h>
#include <strings.h>

#include "base/text/timetext.h"

#define LEAP_SECOND 60
#define SECONDS_MAX INT64_C(1000000000000)

struct cursor {
    struct dt_str left;
    bool failed;
};

struct date {
    int year, month, day, hour, minute, second;
};

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

static void skip(struct cursor *c, size_t n)
{
    c->left.p += n;
    c->left.n -= n;
}

static bool follows(const struct cursor *c, const char *text, size_t n)
{
    return c->left.n >= n && strncasecmp(c->left.p, text, n) == 0;
}

static void take(struct cursor *c, const char *text)
{
    size_t n = strlen(text);
    if (c->failed || !follows(c, text, n))
        c->failed = true;
    else
        skip(c, n);
}

static int take_digits(struct cursor *c, unsigned n)
{
    int value = 0;
    if (c->failed || c->left.n < n) {
        c->failed = true;
        return 0;
    }
    for (unsigned i = 0; i < n; i++) {
        char digit = c->left.p[i];
        c->failed = c->failed || digit < '0' || digit > '9';
        value = value * 10 + (digit - '0');
    }
    skip(c, n);
    return value;
}

static int take_month(struct cursor *c)
{
    for (int i = 0; i < 12 && !c->failed; i++)
        if (follows(c, months[i], 3)) {
            skip(c, 3);
            return i + 1;
        }
    c->failed = true;
    return 0;
}

/* The whole name of a weekday, or its first letters. */
static void take_weekday(struct cursor *c, size_t letters)
{
    for (int i = 0; i < 7 && !c->failed; i++) {
        size_t n = letters ? letters : strlen(days[i]);
        if (follows(c, days[i], n)) {
            skip(c, n);
            return;
        }
    }
    c->failed = true;
}

static void take_time(struct cursor *c, struct date *date)
{
    date->hour = take_digits(c, 2);
    take(c, ":");
    date->minute = take_digits(c, 2);
    take(c, ":");
    date->second = take_digits(c, 2);
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", or with other separators, the whole weekday (letters = 0) and a short year:
 * "Sunday, 06-Nov-94 08:49:37 GMT" */
static bool read_day_first(struct dt_str text, size_t letters, const char *separator, unsigned year_digits,
                           struct date *date)
{
    struct cursor c = {.left = text};
    take_weekday(&c, letters);
    take(&c, ", ");
    date->day = take_digits(&c, 2);
    take(&c, separator);
    date->month = take_month(&c);
    take(&c, separator);
    date->year = take_digits(&c, year_digits);
    take(&c, " ");
    take_time(&c, date);
    take(&c, " GMT");
    return !c.failed && c.left.n == 0;
}

/* "Sun Nov  6 08:49:37 1994" */
static bool read_asctime(struct dt_str text, struct date *date)
{
    struct cursor c = {.left = text};
    take_weekday(&c, 3);
    take(&c, " ");
    date->month = take_month(&c);
    take(&c, " ");
    bool one_digit = follows(&c, " ", 1);
    if (one_digit)
        skip(&c, 1);
    date->day = take_digits(&c, one_digit ? 1 : 2);
    take(&c, " ");
    take_time(&c, date);
    take(&c, " ");
    date->year = take_digits(&c, 4);
    return !c.failed && c.left.n == 0;
}

/* A leap second is the one before it: the calendar has none. */
static bool to_ms(const struct date *date, int64_t *out_ms)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02dZ", date->year, date->month, date->day,
                     date->hour, date->minute, date->second == LEAP_SECOND ? LEAP_SECOND - 1 : date->second);
    return n > 0 && dt_time_parse((struct dt_str){text, (size_t)n}, out_ms) == DT_OK;
}

bool dt_http_date_parse(struct dt_str text, int64_t now_ms, int64_t *out_ms)
{
    struct date date = {0};
    char now_text[25];
    if (read_day_first(text, 3, " ", 4, &date) || read_asctime(text, &date))
        return to_ms(&date, out_ms);
    if (!read_day_first(text, 0, "-", 2, &date))
        return false;
    /* The year of two digits is at most 50 years ahead of this one. */
    dt_time_format(now_ms, now_text);
    int now = take_digits(&(struct cursor){.left = {now_text, 4}}, 4);
    date.year += now / 100 * 100;
    if (date.year > now + 50)
        date.year -= 100;
    else if (date.year <= now - 50)
        date.year += 100;
    return to_ms(&date, out_ms);
}

bool dt_retry_after_parse(struct dt_str text, int64_t now_ms, int64_t max_ms, int64_t *out_ms)
{
    int64_t seconds = 0;
    int64_t delay_ms;
    text = dt_str_trimmed(text);
    bool digits = text.n > 0;
    for (size_t i = 0; digits && i < text.n; i++) {
        digits = text.p[i] >= '0' && text.p[i] <= '9';
        seconds = seconds > SECONDS_MAX ? seconds : seconds * 10 + (text.p[i] - '0');
    }
    if (digits)
        delay_ms = seconds > max_ms / 1000 ? max_ms : seconds * 1000;
    else if (dt_http_date_parse(text, now_ms, &delay_ms))
        delay_ms = delay_ms > now_ms ? delay_ms - now_ms : 0;
    else
        return false;
    *out_ms = delay_ms < max_ms ? delay_ms : max_ms;
    return true;
}
