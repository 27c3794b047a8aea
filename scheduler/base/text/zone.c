/*
 * See zone.h. The first part of this file reads the rule of a footer, the second part reads a zone's file:
 *
 *     "TZif" version 15 zeros | 6 counts | data of version 1
 *     "TZif" version 15 zeros | 6 counts | times | types of times | types | designations | leap seconds | 2 x flags
 *     \n TZ string \n
 *
 * The data of version 1 have times of 32 bits; version 2 repeats them with 64 bits, and only these are read. A zone
 * holds the instants at which the offset from UTC changes, and the offset after each instant.
 */
#include "zone.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "timetext.h"

#define DAY_S        INT64_C(86400)
#define HOURS_MAX    167 /* largest hour in a rule's time of day, by RFC 8536; an offset has at most 24 hours */
#define YEARS_LOOKED 3
#define CHANGES      (2 * YEARS_LOOKED)

struct cursor {
    const char *p, *end;
};

static bool skip_expected(struct cursor *c, char want)
{
    if (c->p == c->end || *c->p != want)
        return false;
    c->p++;
    return true;
}

/* Skips a designation: at least three letters, or any text in <>. */
static bool skip_name(struct cursor *c)
{
    const char *from = c->p;
    if (skip_expected(c, '<')) {
        while (c->p < c->end && *c->p != '>')
            c->p++;
        return skip_expected(c, '>');
    }
    while (c->p < c->end && ((*c->p >= 'a' && *c->p <= 'z') || (*c->p >= 'A' && *c->p <= 'Z')))
        c->p++;
    return c->p - from >= 3;
}

static bool read_zone_number(struct cursor *c, int max, int *out)
{
    int v = 0;
    if (c->p == c->end || *c->p < '0' || *c->p > '9')
        return false;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && v <= max; c->p++)
        v = v * 10 + (*c->p - '0');
    *out = v;
    return v <= max;
}

/* Reads "[+-]hh[:mm[:ss]]" as seconds. */
static bool read_time_of_day(struct cursor *c, int hours_max, int64_t *out)
{
    int64_t sign = skip_expected(c, '-') ? -1 : 1;
    int hour;
    int minute = 0;
    int second = 0;
    if (sign > 0)
        (void)skip_expected(c, '+');
    if (!read_zone_number(c, hours_max, &hour))
        return false;
    if (skip_expected(c, ':') && !read_zone_number(c, 59, &minute))
        return false;
    if (skip_expected(c, ':') && !read_zone_number(c, 59, &second))
        return false;
    *out = sign * (hour * INT64_C(3600) + minute * INT64_C(60) + second);
    return true;
}

/* Reads ",date[/time]"; a date is Mm.w.d, Jn or n. */
static bool read_rule_change(struct cursor *c, struct dt_zone_day *day)
{
    bool good = skip_expected(c, ',');
    day->second = 2 * INT64_C(3600);
    if (good && skip_expected(c, 'M')) {
        day->kind = DT_ZONE_DAY_MONTH;
        good = read_zone_number(c, 12, &day->month) && day->month >= 1 && skip_expected(c, '.') &&
               read_zone_number(c, 5, &day->week) && day->week >= 1 && skip_expected(c, '.') &&
               read_zone_number(c, 6, &day->weekday);
    } else if (good) {
        const bool julian = skip_expected(c, 'J');
        day->kind = julian ? DT_ZONE_DAY_JULIAN : DT_ZONE_DAY_NUMBER;
        good = read_zone_number(c, 365, &day->n) && (!julian || day->n >= 1);
    }
    return good && (!skip_expected(c, '/') || read_time_of_day(c, HOURS_MAX, &day->second));
}

dt_status dt_zone_rule_parse(struct dt_str text, struct dt_zone_rule *out)
{
    struct cursor c = {text.p, text.p + text.n};
    int64_t west_s;
    *out = (struct dt_zone_rule){0};
    if (text.n == 0)
        return DT_OK;
    out->given = true;
    if (!skip_name(&c) || !read_time_of_day(&c, 24, &west_s))
        return DT_INVALID;
    out->offset_s = -west_s;
    if (c.p == c.end)
        return DT_OK;
    out->summer = true;
    out->summer_s = out->offset_s + 3600;
    if (!skip_name(&c))
        return DT_INVALID;
    if (c.p < c.end && *c.p != ',') {
        if (!read_time_of_day(&c, 24, &west_s))
            return DT_INVALID;
        out->summer_s = -west_s;
    }
    return read_rule_change(&c, &out->starts) && read_rule_change(&c, &out->ends) && c.p == c.end ? DT_OK : DT_INVALID;
}

static int64_t day_in_year(const struct dt_zone_day *day, int year)
{
    int64_t first = dt_civil_days(year, 1, 1);
    switch (day->kind) {
    case DT_ZONE_DAY_JULIAN: /* Jn does not count 29 February: J60 is always 1 March */
        return first + day->n - 1 + (day->n >= 60 && dt_civil_leap_year(year));
    case DT_ZONE_DAY_NUMBER:
        return first + day->n;
    case DT_ZONE_DAY_MONTH:
        break;
    }
    /* Mm.w.d: weekday d in week w of the month. Week 5 is the last such weekday. */
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
    /* Lists the changes of three years: the year of the instant, the previous year and the next year. */
    int year = dt_civil_of_days(at_s / DAY_S - (at_s % DAY_S < 0)).year - 1;
    for (int i = 0; i < CHANGES; i += 2, year++) {
        v[i] = (struct change){day_in_year(&rule->starts, year) * DAY_S + rule->starts.second - rule->offset_s,
                               rule->summer_s};
        v[i + 1] = (struct change){day_in_year(&rule->ends, year) * DAY_S + rule->ends.second - rule->summer_s,
                                   rule->offset_s};
    }
    /* Sorts by time. Changes at the same instant stay in their order. */
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

/* ---- a zone's file in tzdata ---- */

#define HEADER_BYTES ((size_t)44)
#define TYPE_BYTES   ((size_t)6)
#define CHANGES_MAX  ((size_t)100000)
#define OFFSET_MAX_S 93600 /* 26 h, by RFC 8536 */

struct dt_zone {
    _Atomic unsigned holds;
    int64_t stamp;
    struct dt_zone_rule rule; /* rule for times after the last change */
    int64_t first_offset_s;   /* offset before the first change */
    size_t n;
    struct change changes[];
};

struct counts {
    size_t utc_flags, standard_flags, leaps, times, types, letters;
};

static uint64_t big_endian(const char *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

/* Reads a header, and removes it from *bytes. */
static bool read_tzif_header(struct dt_str *bytes, struct counts *out)
{
    const char *p = bytes->p;
    if (bytes->n < HEADER_BYTES || memcmp(p, "TZif", 4) != 0 || p[4] < '2')
        return false;
    size_t *const counts[] = {&out->utc_flags, &out->standard_flags, &out->leaps,
                              &out->times,     &out->types,          &out->letters};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        *counts[i] = (size_t)big_endian(p + 20 + 4 * i, 4);
    bytes->p += HEADER_BYTES;
    bytes->n -= HEADER_BYTES;
    return out->times <= CHANGES_MAX && out->types >= 1 && out->types <= 256;
}

static size_t data_bytes(const struct counts *c, size_t time_bytes)
{
    return c->times * (time_bytes + 1) + c->types * TYPE_BYTES + c->letters + c->leaps * (time_bytes + 4) +
           c->standard_flags + c->utc_flags;
}

/* Reads the offset of a type of local time. Returns false if the type does not exist, or its offset is invalid. */
static bool type_offset(const struct counts *c, const char *types, size_t type, int64_t *out)
{
    if (type >= c->types)
        return false;
    *out = (int32_t)(uint32_t)big_endian(types + type * TYPE_BYTES, 4);
    return *out > -OFFSET_MAX_S && *out < OFFSET_MAX_S;
}

/* Adds the changes of the offset. Skips changes that affect only the designation. */
static bool read_changes(const struct counts *c, const char *data, dt_zone *zone)
{
    const char *kinds = data + c->times * 8;
    const char *types = kinds + c->times;
    int64_t last_s = INT64_MIN;
    int64_t offset_s;
    if (!type_offset(c, types, 0, &zone->first_offset_s))
        return false;
    int64_t was_s = zone->first_offset_s;
    for (size_t i = 0; i < c->times; i++) {
        int64_t at_s = (int64_t)big_endian(data + i * 8, 8);
        if (at_s <= last_s || !type_offset(c, types, (unsigned char)kinds[i], &offset_s))
            return false;
        last_s = at_s;
        if (offset_s != was_s)
            zone->changes[zone->n++] = (struct change){at_s, offset_s};
        was_s = offset_s;
    }
    return true;
}

dt_status dt_zone_decode(struct dt_str bytes, dt_zone **out, struct dt_error *err)
{
    struct counts counts;
    struct dt_str rest = bytes;
    *out = NULL;
    bool good = read_tzif_header(&rest, &counts) && data_bytes(&counts, 4) <= rest.n;
    if (good) {
        const size_t n = data_bytes(&counts, 4);
        rest = (struct dt_str){rest.p + n, rest.n - n};
        good = read_tzif_header(&rest, &counts) && data_bytes(&counts, 8) <= rest.n && !counts.leaps;
    }
    if (!good)
        return dt_fail(err, DT_INVALID, "not a time zone file of version 2 or later without leap seconds");
    dt_zone *zone = calloc(1, sizeof(*zone) + counts.times * sizeof(zone->changes[0]));
    if (!zone)
        return dt_fail(err, DT_NOMEM, "out of memory");
    zone->holds = 1;
    zone->stamp = dt_str_hash(bytes);
    const char *footer = rest.p + data_bytes(&counts, 8);
    const size_t n = rest.n - data_bytes(&counts, 8);
    const char *end = n >= 2 && footer[0] == '\n' ? memchr(footer + 1, '\n', n - 1) : NULL;
    if (!read_changes(&counts, rest.p, zone) || !end ||
        dt_zone_rule_parse((struct dt_str){footer + 1, (size_t)(end - footer - 1)}, &zone->rule) != DT_OK) {
        dt_zone_free(zone);
        return dt_fail(err, DT_INVALID, "the time zone file contradicts itself");
    }
    *out = zone;
    return DT_OK;
}

void dt_zone_free(dt_zone *zone)
{
    if (!zone)
        return;
    const unsigned holds = atomic_fetch_sub(&zone->holds, 1);
    dt_assert_cmp(holds, >, 0);
    if (holds == 1)
        free(zone);
}

int64_t dt_zone_stamp(const dt_zone *zone)
{
    return zone ? zone->stamp : 0;
}

struct dt_zone_span dt_zone_span_at(const dt_zone *zone, int64_t at_s)
{
    struct dt_zone_span span = {INT64_MIN, INT64_MAX, 0};
    if (!zone)
        return span;
    size_t n = 0; /* number of changes that are not after the instant */
    for (size_t high = zone->n; n < high;) {
        size_t middle = n + (high - n) / 2;
        if (zone->changes[middle].at_s <= at_s)
            n = middle + 1;
        else
            high = middle;
    }
    int64_t from_s = n ? zone->changes[n - 1].at_s : INT64_MIN;
    if (n == zone->n && zone->rule.given) {
        span = dt_zone_rule_span(&zone->rule, at_s);
        span.from_s = span.from_s > from_s ? span.from_s : from_s;
        return span;
    }
    span.from_s = from_s;
    span.until_s = n < zone->n ? zone->changes[n].at_s : INT64_MAX;
    span.offset_s = n ? zone->changes[n - 1].offset_s : zone->first_offset_s;
    return span;
}

int64_t dt_zone_local_s(const dt_zone *zone, int64_t at_s)
{
    return at_s + dt_zone_span_at(zone, at_s).offset_s;
}

/* Searches the spans in order for the first that does not end before the local time, starting with the earliest span
 * that can contain the local time if the offset is as large as possible. If clocks skip the local time, the span that
 * is found begins after the local time, at the instant of the skip. */
int64_t dt_zone_instant_s(const dt_zone *zone, int64_t local_s)
{
    struct dt_zone_span span = dt_zone_span_at(zone, local_s - OFFSET_MAX_S);
    while (local_s - span.offset_s >= span.until_s)
        span = dt_zone_span_at(zone, span.until_s);
    int64_t at_s = local_s - span.offset_s;
    return at_s < span.from_s ? span.from_s : at_s;
}

/* ---- the zones in use: a short list by name, under one lock ---- */

#define FILE_MAX       ((off_t)1 << 20)
#define PATH_MAX_BYTES 512

struct entry {
    struct entry *next;
    char name[DT_ZONE_NAME_MAX + 1];
    struct stat seen; /* identity of the file that was read */
    dt_zone *zone;
};

struct dt_zone_files {
    const char *dir;
    pthread_mutex_t lock;
    struct entry *entries;
};

dt_status dt_zone_files_new(const char *dir, dt_zone_files **out)
{
    dt_zone_files *files = calloc(1, sizeof(*files));
    *out = files;
    if (!files)
        return DT_NOMEM;
    files->dir = dir ? dir : DT_ZONE_DIR;
    pthread_mutex_init(&files->lock, NULL);
    return DT_OK;
}

void dt_zone_files_free(dt_zone_files *files)
{
    if (!files)
        return;
    for (struct entry *e = files->entries, *next; e; e = next) {
        next = e->next;
        dt_zone_free(e->zone);
        free(e);
    }
    pthread_mutex_destroy(&files->lock);
    free(files);
}

static dt_status fail_unknown_zone(struct dt_str name, struct dt_error *err)
{
    return dt_fail(err, DT_INVALID, "the system's tzdata has no time zone '%.*s'",
                   (int)(name.n < DT_ZONE_NAME_MAX ? name.n : DT_ZONE_NAME_MAX), name.p);
}

static dt_status fail_unreadable(const char *path, struct dt_error *err)
{
    return dt_fail(err, DT_UNAVAILABLE, "%s cannot be read: error %d", path, errno);
}

/* Reads and decodes a file. *seen: the identity of the file. */
static dt_status read_zone_file(const char *path, struct stat *seen, dt_zone **out, struct dt_error *err)
{
    struct dt_error why = {0};
    dt_status status = DT_OK;
    char *bytes = NULL;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_unreadable(path, err);
    if (fstat(fd, seen) != 0)
        status = fail_unreadable(path, err);
    else if (!S_ISREG(seen->st_mode) || seen->st_size > FILE_MAX)
        status = dt_fail(err, DT_INVALID, "%s is not a time zone file", path);
    else if (!(bytes = malloc((size_t)seen->st_size + 1)))
        status = dt_fail(err, DT_NOMEM, "out of memory");
    while (status == DT_OK && n < (size_t)seen->st_size) {
        ssize_t got = read(fd, bytes + n, (size_t)seen->st_size - n);
        if (got <= 0)
            status = fail_unreadable(path, err);
        else
            n += (size_t)got;
    }
    if (status == DT_OK && (status = dt_zone_decode((struct dt_str){bytes, n}, out, &why)) != DT_OK)
        status = dt_fail(err, status, "%s: %s", path, why.text);
    free(bytes);
    close(fd);
    return status;
}

/* Returns a zone of the list; reads its file again if the file was replaced. Called under the lock. */
static dt_status get_zone(dt_zone_files *files, struct dt_str name, dt_zone **out, struct dt_error *err)
{
    char path[PATH_MAX_BYTES];
    struct stat now;
    struct entry made = {0};
    dt_status status = DT_OK;
    int n = snprintf(path, sizeof(path), "%s/%.*s", files->dir, (int)name.n, name.p);
    if (n < 0 || (size_t)n >= sizeof(path) || (stat(path, &now) != 0 && (errno == ENOENT || errno == ENOTDIR)))
        return fail_unknown_zone(name, err);
    struct entry *e = files->entries;
    while (e && !dt_str_is(name, e->name))
        e = e->next;
    const struct stat *was = e ? &e->seen : NULL;
    if (!was || was->st_dev != now.st_dev || was->st_ino != now.st_ino || was->st_size != now.st_size ||
        was->st_mtim.tv_sec != now.st_mtim.tv_sec || was->st_mtim.tv_nsec != now.st_mtim.tv_nsec)
        status = read_zone_file(path, &made.seen, &made.zone, err);
    else
        made = *e;
    if (status != DT_OK)
        return status;
    if (!e) {
        if (!(e = malloc(sizeof(*e)))) {
            dt_zone_free(made.zone);
            return dt_fail(err, DT_NOMEM, "out of memory");
        }
        *e = (struct entry){.next = files->entries};
        memcpy(e->name, name.p, name.n);
        files->entries = e;
    }
    if (e->zone != made.zone)
        dt_zone_free(e->zone);
    e->zone = made.zone;
    e->seen = made.seen;
    *out = e->zone;
    if (e->zone)
        dt_assert_cmp(atomic_fetch_add(&e->zone->holds, 1), >, 0);
    return DT_OK;
}

dt_status dt_zone_files_get(dt_zone_files *files, struct dt_str name, dt_zone **out, struct dt_error *err)
{
    *out = NULL;
    if (dt_str_is(name, "UTC"))
        return DT_OK;
    /* A name has no dots, so that its path cannot leave the folder. */
    bool sane = name.n > 0 && name.n <= DT_ZONE_NAME_MAX && name.p[0] != '/' && name.p[name.n - 1] != '/';
    for (size_t i = 0; i < name.n && sane; i++)
        sane = isalnum((unsigned char)name.p[i]) || (name.p[i] && strchr("_+-/", name.p[i]));
    if (!sane)
        return fail_unknown_zone(name, err);
    /* These files of tzdata are not zones: the host's setting, the rule for POSIX zones, the zone of a host without
     * a setting, and copies of all zones with and without leap seconds. */
    if (dt_str_is(name, "localtime") || dt_str_is(name, "posixrules") || dt_str_is(name, "Factory") ||
        dt_str_begins(name, DT_STR_LIT("posix/")) || dt_str_begins(name, DT_STR_LIT("right/")))
        return dt_fail(err, DT_INVALID,
                       "'%.*s' is a file of the system's tzdata but not a time zone: use a name such as Europe/Berlin",
                       (int)name.n, name.p);
    pthread_mutex_lock(&files->lock);
    dt_status status = get_zone(files, name, out, err);
    pthread_mutex_unlock(&files->lock);
    return status;
}
