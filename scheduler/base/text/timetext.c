/* See timetext.h. Years begin in March, so that the leap day is the last day of its year: before month m of such a year
 * (March: 0) there are (153 m + 2) / 5 days. Sums are whole milliseconds; a fraction is rounded up once, at the end of
 * its number. */
#include "timetext.h"

#define CYCLE_DAYS 146097 /* days in 400 years */
#define EPOCH_DAYS 719468 /* days from 0000-03-01 to 1970-01-01 */

bool dt_civil_leap_year(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int dt_civil_days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && dt_civil_leap_year(year) ? 29 : days[month - 1];
}

int64_t dt_civil_days(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t m = month > 2 ? month - 3 : month + 9;
    int64_t cycle = (y >= 0 ? y : y - 399) / 400;
    int64_t in_cycle = y - cycle * 400;
    return cycle * CYCLE_DAYS + in_cycle * 365 + in_cycle / 4 - in_cycle / 100 + (153 * m + 2) / 5 + day - 1 -
           EPOCH_DAYS;
}

struct dt_civil dt_civil_of_days(int64_t days)
{
    int64_t d = days + EPOCH_DAYS;
    int64_t cycle = (d >= 0 ? d : d - (CYCLE_DAYS - 1)) / CYCLE_DAYS;
    int64_t in_cycle = d - cycle * CYCLE_DAYS;
    int64_t y = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    int64_t in_year = in_cycle - (365 * y + y / 4 - y / 100);
    int64_t m = (5 * in_year + 2) / 153;
    return (struct dt_civil){
        .year = (int)(y + cycle * 400 + (m >= 10)),
        .month = (int)(m < 10 ? m + 3 : m - 9),
        .day = (int)(in_year - (153 * m + 2) / 5 + 1),
    };
}

int dt_civil_weekday(int64_t days)
{
    int64_t weekday = (days + 4) % 7; /* 1970-01-01 was a Thursday */
    return (int)(weekday < 0 ? weekday + 7 : weekday);
}

/* ---- durations and times ---- */

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)
#define WEEK_MS   (7 * DAY_MS)

/* Digits of a fraction that are kept. Further digits only decide whether to round up. */
#define FRACTION_DIGITS 18
#define FRACTION_ONE    INT64_C(1000000000000000000)

/* ---- numbers ---- */

struct cursor {
    const char *p, *end;
};

struct number {
    int64_t whole;
    int64_t fraction; /* the fraction in units of 1 / FRACTION_ONE, rounded up */
    bool has_fraction;
};

static bool is_at_digit(const struct cursor *c)
{
    return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}

static bool skip_expected(struct cursor *c, char want)
{
    if (c->p == c->end || *c->p != want)
        return false;
    c->p++;
    return true;
}

/* Reads the digits after the dot; at least one is required. */
static bool read_fraction(struct cursor *c, int64_t *out)
{
    int64_t v = 0;
    int kept = 0;
    bool rest = false;
    if (!is_at_digit(c))
        return false;
    for (; is_at_digit(c); c->p++) {
        if (kept == FRACTION_DIGITS) {
            rest |= *c->p != '0';
            continue;
        }
        v = v * 10 + (*c->p - '0');
        kept++;
    }
    for (; kept < FRACTION_DIGITS; kept++)
        v *= 10;
    *out = v + rest;
    return true;
}

/* Reads at least one digit, and an optional fraction. Returns false if there is no digit, or if the number exceeds the
 * longest duration. */
static bool read_decimal(struct cursor *c, struct number *n)
{
    *n = (struct number){0};
    if (!is_at_digit(c))
        return false;
    for (; is_at_digit(c); c->p++) {
        n->whole = n->whole * 10 + (*c->p - '0');
        if (n->whole > DT_DURATION_MAX_MS)
            return false;
    }
    n->has_fraction = skip_expected(c, '.') || skip_expected(c, ',');
    return !n->has_fraction || read_fraction(c, &n->fraction);
}

/* Returns fraction * unit, rounded up to a millisecond. */
static int64_t fraction_ms(int64_t fraction, int64_t unit_ms)
{
    return (int64_t)(((__int128)fraction * unit_ms + FRACTION_ONE - 1) / FRACTION_ONE);
}

/* Adds n units to *sum. Returns false if the sum exceeds the longest duration. */
static bool add_units(int64_t *sum, const struct number *n, int64_t unit_ms)
{
    if (n->whole > DT_DURATION_MAX_MS / unit_ms)
        return false;
    *sum += n->whole * unit_ms + fraction_ms(n->fraction, unit_ms);
    return *sum <= DT_DURATION_MAX_MS;
}

/* ---- durations ---- */

/* The parts of an ISO 8601 duration in their order. Hours, minutes and seconds follow a "T". */
static const struct part {
    char letter;
    bool after_t;
    int64_t unit_ms;
} parts[] = {
    {'W', false, WEEK_MS}, {'D', false, DAY_MS}, {'H', true, HOUR_MS}, {'M', true, MINUTE_MS}, {'S', true, SECOND_MS},
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

/* The units of short forms; all but the last have one letter. */
static const struct {
    int64_t unit_ms;
    const char *word;
} units[] = {{DAY_MS, "d"}, {HOUR_MS, "h"}, {MINUTE_MS, "m"}, {SECOND_MS, "s"}, {1, "ms"}};

#define MILLISECOND (sizeof(units) / sizeof(units[0]) - 1)

static bool parse_iso_duration(struct cursor c, int64_t *out_ms)
{
    int64_t sum = 0;
    size_t from = 0; /* index of the first part that may still follow */
    bool after_t = false, part_after_t = false, any = false;
    struct number n = {0};
    while (c.p < c.end) {
        if (!after_t && skip_expected(&c, 'T')) {
            after_t = true;
            continue;
        }
        if (n.has_fraction || !read_decimal(&c, &n) || c.p == c.end)
            return false;
        while (from < PARTS && (parts[from].letter != *c.p || parts[from].after_t != after_t))
            from++;
        c.p++;
        if (from == PARTS || !add_units(&sum, &n, parts[from++].unit_ms))
            return false;
        any = true;
        part_after_t = after_t;
    }
    if (!any || after_t != part_after_t)
        return false;
    *out_ms = sum;
    return true;
}

/* ---- numbers with an exponent ---- */

#define EXPONENT_MAX 1000000 /* with a larger exponent, a number is zero, too large, or rounded up to 1 */

/* Reads digits whose decimal point is at `place`, and rounds up. Returns false if the number is too large. */
static bool sum_digits(struct cursor digits, int64_t place, int64_t *out)
{
    int64_t v = 0;
    bool rest = false;
    for (; digits.p < digits.end; digits.p++) {
        if (*digits.p == '.')
            continue;
        if (place-- > 0)
            v = v * 10 + (*digits.p - '0');
        else
            rest |= *digits.p != '0';
        if (v > DT_DURATION_MAX_MS)
            return false;
    }
    for (; place > 0 && v > 0; place--) {
        v *= 10;
        if (v > DT_DURATION_MAX_MS)
            return false;
    }
    *out = v + rest;
    return *out <= DT_DURATION_MAX_MS;
}

dt_status dt_number_parse_ms(struct dt_str number, int exponent, int64_t *out_ms)
{
    struct cursor c = {number.p, number.p + number.n};
    const bool negative = skip_expected(&c, '-');
    struct cursor digits = c; /* the digits, which may contain a point */
    int64_t ms;
    while (is_at_digit(&c))
        c.p++;
    int64_t place = c.p - digits.p;
    if (place == 0)
        return DT_INVALID;
    if (skip_expected(&c, '.')) {
        if (!is_at_digit(&c))
            return DT_INVALID;
        while (is_at_digit(&c))
            c.p++;
    }
    digits.end = c.p;
    if (skip_expected(&c, 'e') || skip_expected(&c, 'E')) {
        const int sign = skip_expected(&c, '-') ? -1 : 1;
        int own = 0;
        if (sign > 0)
            (void)skip_expected(&c, '+');
        if (!is_at_digit(&c))
            return DT_INVALID;
        for (; is_at_digit(&c); c.p++)
            own = own < EXPONENT_MAX ? own * 10 + (*c.p - '0') : own;
        place += sign * own;
    }
    if (c.p != c.end || !sum_digits(digits, place + exponent, &ms) || (negative && ms > 0))
        return DT_INVALID;
    *out_ms = ms;
    return DT_OK;
}

dt_status dt_duration_parse(struct dt_str text, int64_t *out_ms)
{
    struct cursor c = {text.p, text.p + text.n};
    struct number n;
    int64_t sum = 0;
    size_t unit = MILLISECOND;
    if (text.n == 0)
        return DT_INVALID;
    if (skip_expected(&c, 'P'))
        return parse_iso_duration(c, out_ms) ? DT_OK : DT_INVALID;
    if (memchr(text.p, 'e', text.n) || memchr(text.p, 'E', text.n))
        return dt_number_parse_ms(text, 0, out_ms);
    if (memchr(text.p, ',', text.n) || !read_decimal(&c, &n))
        return DT_INVALID;
    if (c.p < c.end) {
        for (unit = 0; unit < MILLISECOND && units[unit].word[0] != *c.p; unit++)
            ;
        if (unit == MILLISECOND || n.has_fraction || ++c.p != c.end)
            return DT_INVALID;
    }
    if (!add_units(&sum, &n, units[unit].unit_ms))
        return DT_INVALID;
    *out_ms = sum;
    return DT_OK;
}

static void add_duration_part(struct dt_strbuf *out, int64_t n, char letter)
{
    if (n == 0)
        return;
    dt_strbuf_add_i64(out, n);
    dt_strbuf_addc(out, letter);
}

void dt_duration_add_iso(struct dt_strbuf *out, int64_t ms)
{
    if (ms <= 0) {
        dt_strbuf_adds(out, "PT0S");
        return;
    }
    dt_strbuf_addc(out, 'P');
    add_duration_part(out, ms / DAY_MS, 'D');
    ms %= DAY_MS;
    if (ms == 0)
        return;
    dt_strbuf_addc(out, 'T');
    add_duration_part(out, ms / HOUR_MS, 'H');
    add_duration_part(out, ms % HOUR_MS / MINUTE_MS, 'M');
    ms %= MINUTE_MS;
    if (ms == 0)
        return;
    dt_strbuf_add_i64(out, ms / SECOND_MS);
    int64_t fraction = ms % SECOND_MS; /* milliseconds as up to three digits, without trailing zeros */
    if (fraction)
        dt_strbuf_addc(out, '.');
    for (int64_t place = 100; fraction; place /= 10) {
        dt_strbuf_addc(out, (char)('0' + fraction / place));
        fraction %= place;
    }
    dt_strbuf_addc(out, 'S');
}

void dt_duration_add_short(struct dt_strbuf *out, int64_t ms)
{
    size_t i = 0;
    if (ms <= 0) {
        dt_strbuf_adds(out, "0s");
        return;
    }
    while (ms % units[i].unit_ms)
        i++;
    dt_strbuf_add_i64(out, ms / units[i].unit_ms);
    dt_strbuf_adds(out, units[i].word);
}

/* ---- times ---- */

static bool read_digits(struct cursor *c, int n, int *out)
{
    int v = 0;
    for (; n > 0; n--) {
        if (!is_at_digit(c))
            return false;
        v = v * 10 + (*c->p++ - '0');
    }
    *out = v;
    return true;
}

dt_status dt_time_parse(struct dt_str text, int64_t *out_ms)
{
    struct cursor c = {text.p, text.p + text.n};
    struct dt_civil t = {0};
    int64_t fraction = 0;
    int sign = 0; /* sign of the offset; hours and minutes follow */
    int hours = 0;
    int minutes = 0;
    if (text.n == 0 || !read_digits(&c, 4, &t.year) || !skip_expected(&c, '-') || !read_digits(&c, 2, &t.month) ||
        !skip_expected(&c, '-') || !read_digits(&c, 2, &t.day) || t.month < 1 || t.month > 12 || t.day < 1 ||
        t.day > dt_civil_days_in_month(t.year, t.month))
        return DT_INVALID;
    if (!(skip_expected(&c, 'T') || skip_expected(&c, 't')) || !read_digits(&c, 2, &t.hour) ||
        !skip_expected(&c, ':') || !read_digits(&c, 2, &t.minute) || !skip_expected(&c, ':') ||
        !read_digits(&c, 2, &t.second) || t.hour > 23 || t.minute > 59 || t.second > 60)
        return DT_INVALID;
    if (skip_expected(&c, '.') && !read_fraction(&c, &fraction))
        return DT_INVALID;
    if (!skip_expected(&c, 'Z') && !skip_expected(&c, 'z')) {
        sign = skip_expected(&c, '-') ? -1 : skip_expected(&c, '+') ? 1 : 0;
        if (!sign || !read_digits(&c, 2, &hours) || !skip_expected(&c, ':') || !read_digits(&c, 2, &minutes) ||
            hours > 23 || minutes > 59)
            return DT_INVALID;
    }
    if (c.p != c.end)
        return DT_INVALID;
    int64_t seconds = dt_civil_days(t.year, t.month, t.day) * 86400 + t.hour * 3600 + t.minute * 60 + t.second -
                      sign * INT64_C(60) * (hours * 60 + minutes);
    if (t.second == 60 && seconds % 86400 != 0)
        return DT_INVALID;
    *out_ms = seconds * SECOND_MS + fraction_ms(fraction, SECOND_MS);
    return DT_OK;
}

static void put_digits(char *at, int n, int v)
{
    while (n > 0) {
        at[--n] = (char)('0' + v % 10);
        v /= 10;
    }
}

void dt_time_format(int64_t ms, char buf[25])
{
    const int64_t first_ms = dt_civil_days(0, 1, 1) * DAY_MS;
    const int64_t last_ms = dt_civil_days(10000, 1, 1) * DAY_MS - 1;
    int64_t days;
    int in_day_ms;
    struct dt_civil t;
    ms = ms < first_ms ? first_ms : ms > last_ms ? last_ms : ms;
    days = ms / DAY_MS - (ms % DAY_MS < 0);
    in_day_ms = (int)(ms - days * DAY_MS);
    t = dt_civil_of_days(days);
    memcpy(buf, "0000-00-00T00:00:00.000Z", 25);
    put_digits(buf, 4, t.year);
    put_digits(buf + 5, 2, t.month);
    put_digits(buf + 8, 2, t.day);
    put_digits(buf + 11, 2, in_day_ms / 3600000);
    put_digits(buf + 14, 2, in_day_ms / 60000 % 60);
    put_digits(buf + 17, 2, in_day_ms / 1000 % 60);
    put_digits(buf + 20, 3, in_day_ms % 1000);
}
