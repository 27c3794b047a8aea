/*
 * Cron expressions and steps of elapsed time (cron.h).
 *
 * The next fire of a compiled expression is found in two steps. The first step finds the next local time that matches,
 * without regard to time zones. The second step maps the local time to an instant. If the expression follows elapsed
 * time (cron.h), periods in which the zone's offset from UTC is constant are searched one after the other.
 */
#include "cron.h"

#include "base/assert.h"
#include "base/text/timetext.h"

#define DAY_S    INT64_C(86400)
#define MONTHS   (400 * 12) /* the calendar repeats after this number of months */
#define SATURDAY 6

/* ---- the days of a month ---- */

struct month {
    int year, month, length;
    int64_t first;     /* number of the first day of the month, in days since 1970 */
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

/* Returns the day from MON to FRI that is nearest to the given day and in the same month. */
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
    /* For an expression nW, the day that matches is at most two days from day n. */
    for (int n = day > 2 ? day - 2 : 1; n <= day + 2 && n <= m->length && !by_day; n++)
        by_day = c->near_days >> n & 1 && nearest_weekday(m, n) == day;
    const int weekday = weekday_of(m, day);
    const unsigned nth = c->nth[weekday];
    const bool by_weekday =
        (c->weekdays >> weekday & 1) || (nth >> ((day + 6) / 7) & 1) || ((nth & 1) && day + 7 > m->length);
    return c->all_days || c->all_weekdays ? by_day && by_weekday : by_day || by_weekday;
}

/* ---- times of a day ---- */

/* Returns the lowest bit that is set and not below `from`; -1: there is none. */
static int first_bit_from(uint64_t bits, int from)
{
    bits = from < 64 ? bits >> from << from : 0;
    return bits ? __builtin_ctzll(bits) : -1;
}

/* Returns the first matching second of a minute that is not before `second`; -1: there is none. */
static int64_t first_second_from(const struct dt_cron *c, int64_t minute_s, int second)
{
    int found = first_bit_from(c->seconds, second);
    return found < 0 ? -1 : minute_s + found;
}

static int64_t first_minute_from(const struct dt_cron *c, int64_t hour_s, int minute, int second)
{
    int64_t found_s = -1;
    if (c->minutes >> minute & 1)
        found_s = first_second_from(c, hour_s + minute * INT64_C(60), second);
    if (found_s < 0 && (minute = first_bit_from(c->minutes, minute + 1)) >= 0)
        found_s = first_second_from(c, hour_s + minute * INT64_C(60), 0);
    return found_s;
}

/* Returns the first matching second of a day that is not before from_s; -1: there is none. */
static int64_t first_time_from(const struct dt_cron *c, int64_t from_s)
{
    int hour = (int)(from_s / 3600);
    int64_t found_s = -1;
    if (c->hours >> hour & 1)
        found_s = first_minute_from(c, hour * INT64_C(3600), (int)(from_s / 60 % 60), (int)(from_s % 60));
    if (found_s < 0 && (hour = first_bit_from(c->hours, hour + 1)) >= 0)
        found_s = first_minute_from(c, hour * INT64_C(3600), 0, 0);
    return found_s;
}

/* ---- local times ---- */

/* Returns the first match in a month that is not before from_s on the day `day`, in seconds since 1970; DT_NEVER: there
 * is none. */
static int64_t first_match_in_month(const struct dt_cron *c, const struct month *m, int day, int64_t from_s)
{
    if (!(c->months >> m->month & 1))
        return DT_NEVER;
    for (; day <= m->length; day++, from_s = 0) {
        int64_t found_s = day_matches(c, m, day) ? first_time_from(c, from_s) : -1;
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
    int64_t found_s = first_match_in_month(cron, &m, date.day, from_s - days * DAY_S);
    for (int i = 0; i < MONTHS && found_s == DT_NEVER; i++) {
        m = m.month < 12 ? month_of(m.year, m.month + 1) : month_of(m.year + 1, 1);
        found_s = first_match_in_month(cron, &m, 1, 0);
    }
    dt_assert(found_s > local_s || found_s == DT_NEVER);
    return found_s;
}

/* ---- from local times to instants ---- */

/* The next fire of an expression with fixed hours. All local times in a gap are mapped to the end of the gap, so they
 * fire once. A local time that occurs twice is mapped to its first occurrence. If after_s is after that occurrence, the
 * search continues with the next local time. The loop ends because a later local time never has an earlier instant. */
static int64_t next_fire_by_clock_s(const struct dt_cron *cron, const dt_zone *zone, int64_t after_s)
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

/* The next fire of an expression that follows elapsed time. A local time in a gap does not fire. A local time that
 * occurs twice fires twice. */
static int64_t next_fire_by_elapsed_s(const struct dt_cron *cron, const dt_zone *zone, int64_t after_s)
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
        cron->follows_elapsed ? next_fire_by_elapsed_s(cron, zone, after_s) : next_fire_by_clock_s(cron, zone, after_s);
    return at_s == DT_NEVER ? DT_NEVER : at_s * 1000;
}

/* ---- parsing: a field is split into items, an item into its base and its step ---- */

enum field { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                          "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

static const struct spec {
    const char *name;
    int min, max; /* lowest and highest value; weekday 7 is read as 0 */
    int end;      /* last value of the item "a/n", which has no end of its own */
    const char *const *names;
    int n_names;
} specs[FIELDS] = {
    [SECOND] = {"second", 0, 59, 59, NULL, 0},       [MINUTE] = {"minute", 0, 59, 59, NULL, 0},
    [HOUR] = {"hour", 0, 23, 23, NULL, 0},           [DAY] = {"day of month", 1, 31, 31, NULL, 0},
    [MONTH] = {"month", 1, 12, 12, month_names, 12}, [WEEKDAY] = {"day of week", 0, 7, 6, weekday_names, 7},
};

static const struct {
    const char *name, *means;
} macros[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
};
#define MACROS (sizeof(macros) / sizeof(macros[0]))

struct parser {
    enum field field;
    struct dt_cron *cron;
    struct dt_error *err;
};

static dt_status fail_field(const struct parser *p, struct dt_str item, const char *why)
{
    return dt_fail(p->err, DT_INVALID, "the field %s: '%.*s' %s", specs[p->field].name,
                   (int)(item.n < 40 ? item.n : 40), item.p, why);
}

/* Sets *head to the text before the separator, and removes both from *rest. If there is no separator, *head is the
 * whole text. Returns whether there was one. */
static bool take_text_before(struct dt_str *rest, char separator, struct dt_str *head)
{
    const char *at = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    *head = *rest;
    if (!at)
        return false;
    head->n = (size_t)(at - rest->p);
    *rest = (struct dt_str){at + 1, rest->n - head->n - 1};
    return true;
}

static bool read_field_number(struct dt_str text, int *out)
{
    int v = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || v > 999)
            return false;
        v = v * 10 + (text.p[i] - '0');
    }
    *out = v;
    return text.n > 0;
}

/* Reads one value of the field, which may be a number or a name. */
static bool read_value(const struct parser *p, struct dt_str text, int *out)
{
    const struct spec *spec = &specs[p->field];
    for (int i = 0; i < spec->n_names; i++)
        if (dt_str_is_caseless(text, spec->names[i])) {
            *out = spec->min + i;
            return true;
        }
    return read_field_number(text, out) && *out >= spec->min && *out <= spec->max;
}

static void set_value(const struct parser *p, int value)
{
    struct dt_cron *c = p->cron;
    switch (p->field) {
    case SECOND:
        c->seconds |= UINT64_C(1) << value;
        break;
    case MINUTE:
        c->minutes |= UINT64_C(1) << value;
        break;
    case HOUR:
        c->hours |= UINT32_C(1) << value;
        break;
    case DAY:
        c->days |= UINT32_C(1) << value;
        break;
    case MONTH:
        c->months |= UINT32_C(1) << value;
        break;
    case WEEKDAY:
        c->weekdays |= UINT32_C(1) << value % 7;
        break;
    case FIELDS:
        break;
    }
}

struct range {
    int from, to, step;
};

/* Parses an item without the step after its "/". A range of weekdays may wrap around the end of the week. */
static dt_status read_range_before_step(const struct parser *p, struct dt_str base, bool stepped, struct range *r)
{
    const struct spec *spec = &specs[p->field];
    const bool of_days = p->field == DAY || p->field == WEEKDAY;
    struct dt_str to = base;
    struct dt_str from;
    if (dt_str_is(base, "*") || (of_days && dt_str_is(base, "?"))) {
        *r = (struct range){spec->min, spec->end, r->step};
        return DT_OK;
    }
    if (take_text_before(&to, '-', &from)) {
        if (!read_value(p, from, &r->from) || !read_value(p, to, &r->to))
            return fail_field(p, base, "is not a range of values of this field");
        if (r->to < r->from && p->field == WEEKDAY)
            r->to += 7;
        return r->to < r->from ? fail_field(p, base, "is a range that ends before it begins") : DT_OK;
    }
    if (!read_value(p, base, &r->from))
        return fail_field(p, base, "is not a value of this field");
    if (p->field == WEEKDAY)
        r->from %= 7;
    r->to = stepped ? spec->end : r->from;
    return DT_OK;
}

static dt_status read_range_item(const struct parser *p, struct dt_str item)
{
    const struct spec *spec = &specs[p->field];
    struct range r = {.step = 1};
    struct dt_str step = item;
    struct dt_str base;
    bool stepped = take_text_before(&step, '/', &base);
    if (stepped && (!read_field_number(step, &r.step) || r.step < 1 || r.step > spec->end - spec->min + 1))
        return fail_field(p, item, "has a step that is not a number from 1 to the size of the field");
    dt_status status = read_range_before_step(p, base, stepped, &r);
    for (int v = r.from; status == DT_OK && v <= r.to; v += r.step)
        set_value(p, v);
    return status;
}

static bool ends_with_letter(struct dt_str item, char letter, struct dt_str *head)
{
    *head = (struct dt_str){item.p, item.n ? item.n - 1 : 0};
    return item.n > 1 && (item.p[item.n - 1] | 0x20) == letter;
}

/* Reads the items L, LW and 15W. *taken: the item is one of them. */
static dt_status read_day_special(const struct parser *p, struct dt_str item, bool *taken)
{
    struct dt_str head;
    int day;
    *taken = true;
    if (dt_str_is_caseless(item, "l")) {
        p->cron->last_day = true;
    } else if (dt_str_is_caseless(item, "lw")) {
        p->cron->last_weekday = true;
    } else if (ends_with_letter(item, 'w', &head)) {
        if (!read_value(p, head, &day))
            return fail_field(p, item, "needs a day of the month before its W");
        p->cron->near_days |= UINT32_C(1) << day;
    } else {
        *taken = false;
    }
    return DT_OK;
}

/* Reads items such as 5L and 1#2. *taken: the item is one of them. */
static dt_status read_weekday_special(const struct parser *p, struct dt_str item, bool *taken)
{
    struct dt_str nth = item;
    struct dt_str head;
    int weekday;
    int n = 0;
    bool numbered = take_text_before(&nth, '#', &head);
    *taken = numbered || ends_with_letter(item, 'l', &head);
    if (dt_str_is_caseless(item, "l"))
        return fail_field(p, item, "needs a weekday before its L, such as 5L");
    if (!*taken)
        return DT_OK;
    if (!read_value(p, head, &weekday))
        return fail_field(p, item, "needs a weekday");
    if (numbered && (!read_field_number(nth, &n) || n < 1 || n > 5))
        return fail_field(p, item, "needs a number from 1 to 5 after its #");
    p->cron->nth[weekday % 7] |= (uint8_t)(1u << n);
    return DT_OK;
}

static dt_status read_item(const struct parser *p, struct dt_str item)
{
    dt_status status = DT_OK;
    bool taken = false;
    if (item.n == 0)
        return fail_field(p, item, "is an empty element of a list");
    if (p->field == DAY)
        status = read_day_special(p, item, &taken);
    if (p->field == WEEKDAY)
        status = read_weekday_special(p, item, &taken);
    return status || taken ? status : read_range_item(p, item);
}

static dt_status read_field(const struct parser *p, struct dt_str text)
{
    dt_status status = DT_OK;
    struct dt_str item;
    bool more = true;
    if (p->field == HOUR)
        p->cron->follows_elapsed = memchr(text.p, '*', text.n) || memchr(text.p, '/', text.n);
    if (p->field == DAY)
        p->cron->all_days = text.p[0] == '*' || text.p[0] == '?';
    if (p->field == WEEKDAY)
        p->cron->all_weekdays = text.p[0] == '*' || text.p[0] == '?';
    while (more && status == DT_OK) {
        more = take_text_before(&text, ',', &item);
        status = read_item(p, item);
    }
    return status;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static dt_status read_fields(struct dt_str text, struct dt_cron *out, struct dt_error *err)
{
    struct dt_str words[FIELDS];
    struct parser p = {.cron = out, .err = err};
    size_t n = 0;
    dt_status status = DT_OK;
    while (text.n) {
        size_t i = 0;
        while (i < text.n && is_space(text.p[i]) == is_space(text.p[0]))
            i++;
        if (!is_space(text.p[0]) && n++ < FIELDS)
            words[n - 1] = (struct dt_str){text.p, i};
        text = (struct dt_str){text.p + i, text.n - i};
    }
    if (n != FIELDS && n != FIELDS - 1)
        return dt_fail(err, DT_INVALID, "has %zu fields: five are needed, or six with seconds first", n);
    if (n == FIELDS - 1)
        out->seconds = 1;
    for (size_t i = 0; i < n && status == DT_OK; i++) {
        p.field = (enum field)(i + FIELDS - n);
        status = read_field(&p, words[i]);
    }
    return status;
}

dt_status dt_cron_parse(struct dt_str text, struct dt_cron *out, struct dt_error *err)
{
    *out = (struct dt_cron){0};
    if (text.n > DT_CRON_MAX)
        return dt_fail(err, DT_INVALID, "is longer than %d bytes", DT_CRON_MAX);
    text = dt_str_trimmed(text);
    if (text.n && text.p[0] == '@') {
        size_t i = 0;
        while (i < MACROS && !dt_str_is_caseless(text, macros[i].name))
            i++;
        if (i == MACROS)
            return dt_fail(err, DT_INVALID,
                           "@yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly are supported");
        text = dt_str(macros[i].means);
    }
    dt_status status = read_fields(text, out, err);
    if (status == DT_OK && dt_cron_next_local_s(out, 0) == DT_NEVER)
        status = dt_fail(err, DT_INVALID, "never fires: no month has such a day");
    return status;
}

/* ---- fires of a schedule; steps of elapsed time are computed, not enumerated ---- */

#define SPAN_MS     INT64_C(3600000) /* the newest fires are first searched in a period of this length */
#define SPAN_FACTOR 8

int64_t dt_recurrence_next_ms(const struct dt_recurrence *r, int64_t after_ms)
{
    int64_t at_ms = r->anchor_ms;
    if (after_ms < r->starts_at_ms)
        after_ms = r->starts_at_ms - 1;
    if (!r->every_ms)
        at_ms = dt_cron_next_ms(&r->cron, r->zone, after_ms);
    else if (after_ms >= r->anchor_ms)
        at_ms += ((after_ms - r->anchor_ms) / r->every_ms + 1) * r->every_ms;
    return at_ms < r->ends_at_ms ? at_ms : DT_NEVER;
}

static void reverse_times(int64_t *v, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        int64_t other = v[i];
        v[i] = v[n - 1 - i];
        v[n - 1 - i] = other;
    }
}

size_t dt_recurrence_newest(const struct dt_recurrence *r, int64_t after_ms, int64_t until_ms, int64_t *fires,
                            size_t max)
{
    int64_t span_ms = SPAN_MS;
    int64_t from_ms;
    size_t n;
    if (max == 0)
        return 0;
    do { /* the array `fires` is a ring that keeps the newest fires */
        from_ms = until_ms - span_ms > after_ms ? until_ms - span_ms : after_ms;
        n = 0;
        for (int64_t at_ms = dt_recurrence_next_ms(r, from_ms); at_ms <= until_ms && at_ms != DT_NEVER;
             at_ms = dt_recurrence_next_ms(r, at_ms))
            fires[n++ % max] = at_ms;
        span_ms *= SPAN_FACTOR;
    } while (n < max && from_ms > after_ms);
    if (n <= max)
        return n;
    /* Three reversals rotate the ring, so that its oldest fire is first. */
    reverse_times(fires, n % max);
    reverse_times(fires + n % max, max - n % max);
    reverse_times(fires, max);
    return max;
}

int64_t dt_recurrence_jitter_ms(struct dt_str name, int64_t fire_ms, int64_t jitter_ms)
{
    uint64_t mixed = dt_str_hash(name) ^ (uint64_t)fire_ms * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
    return jitter_ms > 0 ? (int64_t)((mixed >> 11) % (uint64_t)(jitter_ms + 1)) : 0;
}
