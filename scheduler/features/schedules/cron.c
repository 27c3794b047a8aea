/*
 * The next fire of a compiled expression. First the calendar, which knows no zones: the next local time that matches.
 * Then the zone, in one of two ways: a local time is turned into its instant (fixed hours), or each stretch of one
 * offset is searched for what matches within it (elapsed time).
 */
#include "cron.h"

#include "base/assert.h"
#include "base/text/civil.h"

#define DAY_S    INT64_C(86400)
#define MONTHS   (400 * 12) /* the calendar repeats after that */
#define SATURDAY 6

/* ---- days ---- */

/* A month that is looked at. */
struct month {
    int year, month, length;
    int64_t first;     /* the number of its first day */
    int first_weekday; /* 0 = Sunday */
};

static struct month month_of(int year, int month)
{
    int64_t first = dt_civil_days(year, month, 1);
    return (struct month){year, month, dt_civil_days_in_month(year, month), first, dt_civil_weekday(first)};
}

static int weekday_of(const struct month *m, int day)
{
    return (m->first_weekday + day - 1) % 7;
}

/* The day from MON to FRI that is nearest to a day, within the month. */
static int nearest_weekday(const struct month *m, int day)
{
    int weekday = weekday_of(m, day);
    if (weekday == SATURDAY)
        return day > 1 ? day - 1 : day + 2;
    if (weekday == 0)
        return day < m->length ? day + 1 : day - 2;
    return day;
}

static bool day_matches(const struct dt_cron *c, const struct month *m, int day)
{
    bool by_day = (c->days >> day & 1) || (c->last_day && day == m->length) ||
                  (c->last_weekday && day == nearest_weekday(m, m->length));
    /* The nW that mean the day stand at most two days away from it. */
    for (int n = day > 2 ? day - 2 : 1; n <= day + 2 && n <= m->length && !by_day; n++)
        by_day = c->near_days >> n & 1 && nearest_weekday(m, n) == day;
    const int weekday = weekday_of(m, day);
    const unsigned nth = c->nth[weekday];
    const bool by_weekday =
        (c->weekdays >> weekday & 1) || (nth >> ((day + 6) / 7) & 1) || ((nth & 1) && day + 7 > m->length);
    return c->all_days || c->all_weekdays ? by_day && by_weekday : by_day || by_weekday;
}

/* ---- times of a day ---- */

/* The lowest bit from one on; -1: none. */
static int bit_from(uint64_t bits, int from)
{
    bits = from < 64 ? bits >> from << from : 0;
    return bits ? __builtin_ctzll(bits) : -1;
}

/* The second within the minute, from one on. */
static int64_t second_from(const struct dt_cron *c, int64_t minute_s, int second)
{
    int found = bit_from(c->seconds, second);
    return found < 0 ? -1 : minute_s + found;
}

static int64_t minute_from(const struct dt_cron *c, int64_t hour_s, int minute, int second)
{
    int64_t found_s = -1;
    if (c->minutes >> minute & 1)
        found_s = second_from(c, hour_s + minute * INT64_C(60), second);
    if (found_s < 0 && (minute = bit_from(c->minutes, minute + 1)) >= 0)
        found_s = second_from(c, hour_s + minute * INT64_C(60), 0);
    return found_s;
}

/* The first matching second of a day from one on; -1: none. */
static int64_t time_from(const struct dt_cron *c, int64_t from_s)
{
    int hour = (int)(from_s / 3600);
    int64_t found_s = -1;
    if (c->hours >> hour & 1)
        found_s = minute_from(c, hour * INT64_C(3600), (int)(from_s / 60 % 60), (int)(from_s % 60));
    if (found_s < 0 && (hour = bit_from(c->hours, hour + 1)) >= 0)
        found_s = minute_from(c, hour * INT64_C(3600), 0, 0);
    return found_s;
}

/* ---- local times ---- */

/* The first match in a month from a time on, in seconds since 1970; DT_NEVER: none. */
static int64_t match_in_month(const struct dt_cron *c, const struct month *m, int day, int64_t from_s)
{
    if (!(c->months >> m->month & 1))
        return DT_NEVER;
    for (; day <= m->length; day++, from_s = 0) {
        int64_t found_s = day_matches(c, m, day) ? time_from(c, from_s) : -1;
        if (found_s >= 0)
            return (m->first + day - 1) * DAY_S + found_s;
    }
    return DT_NEVER;
}

int64_t dt_cron_next_local_s(const struct dt_cron *cron, int64_t local_s)
{
    int64_t from_s = local_s + 1;
    int64_t days = from_s / DAY_S - (from_s % DAY_S < 0);
    struct dt_civil date = dt_civil_of_days(days);
    struct month m = month_of(date.year, date.month);
    int64_t found_s = match_in_month(cron, &m, date.day, from_s - days * DAY_S);
    for (int i = 0; i < MONTHS && found_s == DT_NEVER; i++) {
        m = m.month < 12 ? month_of(m.year, m.month + 1) : month_of(m.year + 1, 1);
        found_s = match_in_month(cron, &m, 1, 0);
    }
    dt_assert(found_s > local_s || found_s == DT_NEVER);
    return found_s;
}

/* ---- instants ---- */

/* Later local times never have earlier instants: those that clocks jump over share one, the jump, which fires once. A
 * local time that comes twice has the instant of its first passage: if after_s lies in the second passage, that instant
 * is over, and the next local time is taken. */
static int64_t next_by_clock_s(const struct dt_cron *cron, const dt_zone *zone, int64_t after_s)
{
    int64_t local_s = dt_zone_local_s(zone, after_s);
    int64_t at_s;
    do {
        local_s = dt_cron_next_local_s(cron, local_s);
        if (local_s == DT_NEVER)
            return DT_NEVER;
        at_s = dt_zone_instant_s(zone, local_s);
    } while (at_s <= after_s);
    return at_s;
}

/* A local time that clocks jump over does not come; one that comes twice fires twice. */
static int64_t next_by_elapsed_s(const struct dt_cron *cron, const dt_zone *zone, int64_t after_s)
{
    struct dt_zone_span span = dt_zone_span_at(zone, after_s + 1);
    int64_t from_s = after_s + 1;
    for (;;) {
        int64_t local_s = dt_cron_next_local_s(cron, from_s + span.offset_s - 1);
        if (local_s == DT_NEVER || local_s - span.offset_s < span.until_s)
            return local_s == DT_NEVER ? DT_NEVER : local_s - span.offset_s;
        from_s = span.until_s;
        span = dt_zone_span_at(zone, from_s);
    }
}

int64_t dt_cron_next_ms(const struct dt_cron *cron, const dt_zone *zone, int64_t after_ms)
{
    int64_t after_s = after_ms / 1000 - (after_ms % 1000 < 0);
    int64_t at_s =
        cron->follows_elapsed ? next_by_elapsed_s(cron, zone, after_s) : next_by_clock_s(cron, zone, after_s);
    return at_s == DT_NEVER ? DT_NEVER : at_s * 1000;
}
