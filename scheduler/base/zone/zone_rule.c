/*
 * POSIX TZ strings: grammar, and the changes that a rule makes in a year. Owns nothing.
 */
#include "base/zone/zone_rule.h"

#include "base/text/civil.h"

#define DAY_S        INT64_C(86400)
#define HOURS_MAX    167 /* of a change's time of day, as RFC 8536 allows; offsets go to 24 */
#define YEARS_LOOKED 3
#define CHANGES      (2 * YEARS_LOOKED)

struct cursor {
    const char *p, *end;
};

static bool eat(struct cursor *c, char want)
{
    if (c->p == c->end || *c->p != want)
        return false;
    c->p++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A designation: three letters or more, or anything in <>. */
static bool skip_name(struct cursor *c)
{
    const char *from = c->p;
    if (eat(c, '<')) {
        while (c->p < c->end && *c->p != '>')
            c->p++;
        return eat(c, '>');
    }
    while (c->p < c->end && is_letter(*c->p))
        c->p++;
    return c->p - from >= 3;
}

static bool read_number(struct cursor *c, int max, int *out)
{
    int v = 0;
    if (c->p == c->end || *c->p < '0' || *c->p > '9')
        return false;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && v <= max; c->p++)
        v = v * 10 + (*c->p - '0');
    *out = v;
    return v <= max;
}

/* "[+-]hh[:mm[:ss]]" in seconds. */
static bool read_clock(struct cursor *c, int hours_max, int64_t *out)
{
    int64_t sign = eat(c, '-') ? -1 : 1;
    int hour;
    int minute = 0;
    int second = 0;
    if (sign > 0)
        (void)eat(c, '+');
    if (!read_number(c, hours_max, &hour))
        return false;
    if (eat(c, ':') && !read_number(c, 59, &minute))
        return false;
    if (eat(c, ':') && !read_number(c, 59, &second))
        return false;
    *out = sign * (hour * INT64_C(3600) + minute * INT64_C(60) + second);
    return true;
}

static bool read_month_day(struct cursor *c, struct dt_zone_day *day)
{
    day->kind = DT_ZONE_DAY_MONTH;
    return read_number(c, 12, &day->month) && day->month >= 1 && eat(c, '.') && read_number(c, 5, &day->week) &&
           day->week >= 1 && eat(c, '.') && read_number(c, 6, &day->weekday);
}

static bool read_date(struct cursor *c, struct dt_zone_day *day)
{
    if (eat(c, 'M'))
        return read_month_day(c, day);
    if (eat(c, 'J')) {
        day->kind = DT_ZONE_DAY_JULIAN;
        return read_number(c, 365, &day->n) && day->n >= 1;
    }
    day->kind = DT_ZONE_DAY_NUMBER;
    return read_number(c, 365, &day->n);
}

/* ",date[/time]" */
static bool read_change(struct cursor *c, struct dt_zone_day *day)
{
    day->second = 2 * INT64_C(3600);
    return eat(c, ',') && read_date(c, day) && (!eat(c, '/') || read_clock(c, HOURS_MAX, &day->second));
}

static bool read_summer(struct cursor *c, struct dt_zone_rule *out)
{
    int64_t west_s = 0;
    out->summer = true;
    out->summer_s = out->offset_s + 3600;
    if (!skip_name(c))
        return false;
    if (c->p < c->end && *c->p != ',') {
        if (!read_clock(c, 24, &west_s))
            return false;
        out->summer_s = -west_s;
    }
    return read_change(c, &out->starts) && read_change(c, &out->ends);
}

dt_status dt_zone_rule_parse(struct dt_str text, struct dt_zone_rule *out)
{
    struct cursor c = {text.p, text.p + text.n};
    int64_t west_s;
    *out = (struct dt_zone_rule){0};
    if (text.n == 0)
        return DT_OK;
    out->given = true;
    if (!skip_name(&c) || !read_clock(&c, 24, &west_s))
        return DT_INVALID;
    out->offset_s = -west_s;
    if (c.p < c.end && !read_summer(&c, out))
        return DT_INVALID;
    return c.p == c.end ? DT_OK : DT_INVALID;
}

/* The w-th such weekday of the month; the fifth is the last. */
static int64_t month_day(const struct dt_zone_day *day, int year)
{
    int64_t first = dt_civil_days(year, day->month, 1);
    int64_t at = first + (day->weekday - dt_civil_weekday(first) + 7) % 7 + (day->week - 1) * INT64_C(7);
    return at - first >= dt_civil_days_in_month(year, day->month) ? at - 7 : at;
}

static int64_t day_in_year(const struct dt_zone_day *day, int year)
{
    int64_t first = dt_civil_days(year, 1, 1);
    switch (day->kind) {
    case DT_ZONE_DAY_JULIAN: /* 29 February is never counted */
        return first + day->n - 1 + (day->n >= 60 && dt_civil_leap_year(year));
    case DT_ZONE_DAY_NUMBER:
        return first + day->n;
    case DT_ZONE_DAY_MONTH:
        break;
    }
    return month_day(day, year);
}

struct change {
    int64_t at_s, offset_s;
};

/* Sorts by time; changes of one instant keep their order. */
static void sort_changes(struct change v[CHANGES])
{
    for (int i = 1; i < CHANGES; i++)
        for (int k = i; k > 0 && v[k].at_s < v[k - 1].at_s; k--) {
            struct change later = v[k - 1];
            v[k - 1] = v[k];
            v[k] = later;
        }
}

/* The changes of the year before, the year itself and the year after. */
static void list_changes(const struct dt_zone_rule *rule, int64_t at_s, struct change v[CHANGES])
{
    int64_t days = at_s / DAY_S - (at_s % DAY_S < 0);
    int year = dt_civil_of_days(days).year - 1;
    for (int i = 0; i < CHANGES; i += 2, year++) {
        v[i] = (struct change){day_in_year(&rule->starts, year) * DAY_S + rule->starts.second - rule->offset_s,
                               rule->summer_s};
        v[i + 1] = (struct change){day_in_year(&rule->ends, year) * DAY_S + rule->ends.second - rule->summer_s,
                                   rule->offset_s};
    }
    sort_changes(v);
}

struct dt_zone_span dt_zone_rule_span(const struct dt_zone_rule *rule, int64_t at_s)
{
    struct dt_zone_span span = {INT64_MIN, INT64_MAX, rule->offset_s};
    struct change v[CHANGES];
    if (!rule->summer)
        return span;
    list_changes(rule, at_s, v);
    for (int i = 0; i < CHANGES && span.until_s == INT64_MAX; i++) {
        if (v[i].at_s > at_s)
            span.until_s = v[i].at_s;
        else
            span = (struct dt_zone_span){v[i].at_s, INT64_MAX, v[i].offset_s};
    }
    return span;
}
