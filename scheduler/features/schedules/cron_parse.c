/*
 * The grammar of cron expressions: see cron.h. A field is taken apart into items, an item into its base and its step;
 * what only day fields have is looked for first.
 */
#include "cron.h"

enum field { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                          "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

static const struct spec {
    const char *name;
    int min, max; /* of a value; a Sunday that is 7 is 0 */
    int end;      /* of "from a to the end" */
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

static dt_status wrong(const struct parser *p, struct dt_str item, const char *why)
{
    return dt_fail(p->err, DT_INVALID, "the field %s: '%.*s' %s", specs[p->field].name,
                   (int)(item.n < 40 ? item.n : 40), item.p, why);
}

/* Cuts off what stands before the separator, or all; true: the separator was there. */
static bool cut(struct dt_str *rest, char separator, struct dt_str *head)
{
    const char *at = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    *head = *rest;
    if (!at)
        return false;
    head->n = (size_t)(at - rest->p);
    *rest = (struct dt_str){at + 1, rest->n - head->n - 1};
    return true;
}

static bool read_number(struct dt_str text, int *out)
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

/* A value of the field, by number or by name. */
static bool read_value(const struct parser *p, struct dt_str text, int *out)
{
    const struct spec *spec = &specs[p->field];
    for (int i = 0; i < spec->n_names; i++)
        if (dt_str_is_caseless(text, spec->names[i])) {
            *out = spec->min + i;
            return true;
        }
    return read_number(text, out) && *out >= spec->min && *out <= spec->max;
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

/* The base of an item, without its step; a range of weekdays goes on in the next week. */
static dt_status read_base(const struct parser *p, struct dt_str base, bool stepped, struct range *r)
{
    const struct spec *spec = &specs[p->field];
    const bool of_days = p->field == DAY || p->field == WEEKDAY;
    struct dt_str to = base;
    struct dt_str from;
    if (dt_str_is(base, "*") || (of_days && dt_str_is(base, "?"))) {
        *r = (struct range){spec->min, spec->end, r->step};
        return DT_OK;
    }
    if (cut(&to, '-', &from)) {
        if (!read_value(p, from, &r->from) || !read_value(p, to, &r->to))
            return wrong(p, base, "is no range of values of this field");
        if (r->to < r->from && p->field == WEEKDAY)
            r->to += 7;
        return r->to < r->from ? wrong(p, base, "is a range that ends before it begins") : DT_OK;
    }
    if (!read_value(p, base, &r->from))
        return wrong(p, base, "is no value of this field");
    if (p->field == WEEKDAY)
        r->from %= 7;
    r->to = stepped ? spec->end : r->from;
    return DT_OK;
}

static dt_status read_plain(const struct parser *p, struct dt_str item)
{
    const struct spec *spec = &specs[p->field];
    struct range r = {.step = 1};
    struct dt_str step = item;
    struct dt_str base;
    bool stepped = cut(&step, '/', &base);
    if (stepped && (!read_number(step, &r.step) || r.step < 1 || r.step > spec->end - spec->min + 1))
        return wrong(p, item, "has a step that is no number from 1 to the size of the field");
    dt_status status = read_base(p, base, stepped, &r);
    for (int v = r.from; status == DT_OK && v <= r.to; v += r.step)
        set_value(p, v);
    return status;
}

static bool ends_with(struct dt_str item, char letter, struct dt_str *head)
{
    *head = (struct dt_str){item.p, item.n ? item.n - 1 : 0};
    return item.n > 1 && (item.p[item.n - 1] | 0x20) == letter;
}

/* L, LW, 15W. *taken: it was one of them. */
static dt_status read_day_special(const struct parser *p, struct dt_str item, bool *taken)
{
    struct dt_str head;
    int day;
    *taken = true;
    if (dt_str_is_caseless(item, "l")) {
        p->cron->last_day = true;
    } else if (dt_str_is_caseless(item, "lw")) {
        p->cron->last_weekday = true;
    } else if (ends_with(item, 'w', &head)) {
        if (!read_value(p, head, &day))
            return wrong(p, item, "names no day of a month before its W");
        p->cron->near_days |= UINT32_C(1) << day;
    } else {
        *taken = false;
    }
    return DT_OK;
}

/* 5L, 1#2. */
static dt_status read_weekday_special(const struct parser *p, struct dt_str item, bool *taken)
{
    struct dt_str nth = item;
    struct dt_str head;
    int weekday;
    int n = 0;
    bool numbered = cut(&nth, '#', &head);
    *taken = numbered || ends_with(item, 'l', &head);
    if (dt_str_is_caseless(item, "l"))
        return wrong(p, item, "is the last of which weekday? Say 5L, or SAT");
    if (!*taken)
        return DT_OK;
    if (!read_value(p, head, &weekday))
        return wrong(p, item, "names no weekday");
    if (numbered && (!read_number(nth, &n) || n < 1 || n > 5))
        return wrong(p, item, "needs a number from 1 to 5 behind its #");
    p->cron->nth[weekday % 7] |= (uint8_t)(1u << n);
    return DT_OK;
}

static dt_status read_item(const struct parser *p, struct dt_str item)
{
    dt_status status = DT_OK;
    bool taken = false;
    if (item.n == 0)
        return wrong(p, item, "is an empty place in a list");
    if (p->field == DAY)
        status = read_day_special(p, item, &taken);
    if (p->field == WEEKDAY)
        status = read_weekday_special(p, item, &taken);
    return status || taken ? status : read_plain(p, item);
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
        more = cut(&text, ',', &item);
        status = read_item(p, item);
    }
    return status;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes the text apart at its spaces. */
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
                           "@yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly are known");
        text = dt_str(macros[i].means);
    }
    dt_status status = read_fields(text, out, err);
    if (status == DT_OK && dt_cron_next_local_s(out, 0) == DT_NEVER)
        status = dt_fail(err, DT_INVALID, "never comes: no month has such a day");
    return status;
}
