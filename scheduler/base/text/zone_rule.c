/*
 * POSIX TZ strings: grammar, and the changes that a rule makes in a year. Owns nothing.
 */
#include "zone_rule.h"

#include "base/assert.h"
#include "civil.h"

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

/* A designation: three letters or more, or anything in <>. */
static bool skip_name(struct cursor *c)
{
    const char *from = c->p;
    if (eat(c, '<')) {
        while (c->p < c->end && *c->p != '>')
            c->p++;
        return eat(c, '>');
    }
    while (c->p < c->end && ((*c->p >= 'a' && *c->p <= 'z') || (*c->p >= 'A' && *c->p <= 'Z')))
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

/* ",date[/time]"; a date is Mm.w.d, Jn or n. */
static bool read_change(struct cursor *c, struct dt_zone_day *day)
{
    bool good = eat(c, ',');
    day->second = 2 * INT64_C(3600);
    if (good && eat(c, 'M')) {
        day->kind = DT_ZONE_DAY_MONTH;
        good = read_number(c, 12, &day->month) && day->month >= 1 && eat(c, '.') && read_number(c, 5, &day->week) &&
               day->week >= 1 && eat(c, '.') && read_number(c, 6, &day->weekday);
    } else if (good) {
        const bool julian = eat(c, 'J');
        day->kind = julian ? DT_ZONE_DAY_JULIAN : DT_ZONE_DAY_NUMBER;
        good = read_number(c, 365, &day->n) && (!julian || day->n >= 1);
    }
    return good && (!eat(c, '/') || read_clock(c, HOURS_MAX, &day->second));
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
    if (c.p == c.end)
        return DT_OK;
    out->summer = true;
    out->summer_s = out->offset_s + 3600;
    if (!skip_name(&c))
        return DT_INVALID;
    if (c.p < c.end && *c.p != ',') {
        if (!read_clock(&c, 24, &west_s))
            return DT_INVALID;
        out->summer_s = -west_s;
    }
    return read_change(&c, &out->starts) && read_change(&c, &out->ends) && c.p == c.end ? DT_OK : DT_INVALID;
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
    /* The w-th such weekday of the month; the fifth is the last. */
    first = dt_civil_days(year, day->month, 1);
    int64_t at = first + (day->weekday - dt_civil_weekday(first) + 7) % 7 + (day->week - 1) * INT64_C(7);
    return at - first >= dt_civil_days_in_month(year, day->month) ? at - 7 : at;
}

struct change {
    int64_t at_s, offset_s;
};

struct dt_zone_span dt_zone_rule_span(const struct dt_zone_rule *rule, int64_t at_s)
{
    struct dt_zone_span span = {INT64_MIN, INT64_MAX, rule->offset_s};
    struct change v[CHANGES];
    dt_assert(rule->given);
    if (!rule->summer)
        return span;
    /* The changes of the year before, the year itself and the year after. */
    int year = dt_civil_of_days(at_s / DAY_S - (at_s % DAY_S < 0)).year - 1;
    for (int i = 0; i < CHANGES; i += 2, year++) {
        v[i] = (struct change){day_in_year(&rule->starts, year) * DAY_S + rule->starts.second - rule->offset_s,
                               rule->summer_s};
        v[i + 1] = (struct change){day_in_year(&rule->ends, year) * DAY_S + rule->ends.second - rule->summer_s,
                                   rule->offset_s};
    }
    /* By time; changes of one instant keep their order. */
    for (int i = 1; i < CHANGES; i++)
        for (int k = i; k > 0 && v[k].at_s < v[k - 1].at_s; k--) {
            struct change later = v[k - 1];
            v[k - 1] = v[k];
            v[k] = later;
        }
    for (int i = 0; i < CHANGES && span.until_s == INT64_MAX; i++) {
        if (v[i].at_s > at_s)
            span.until_s = v[i].at_s;
        else
            span = (struct dt_zone_span){v[i].at_s, INT64_MAX, v[i].offset_s};
    }
    return span;
}
