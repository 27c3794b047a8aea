/*
 * TZif: a header, data with times of 32 bits that version 2 repeats with 64, and the footer. Only the second data
 * count.
 *
 *     "TZif" version 15 zeros | 6 counts | data of version 1
 *     "TZif" version 15 zeros | 6 counts | times | types of times | types | designations | leap seconds | 2 x flags
 *     \n TZ string \n
 *
 * What is kept: the instants at which the offset from UTC changes, and the offset from each on.
 */
#include "zone.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"
#include "zone_rule.h"

#define HEADER_BYTES ((size_t)44)
#define TYPE_BYTES   ((size_t)6)
#define CHANGES_MAX  ((size_t)100000)
#define OFFSET_MAX_S 93600 /* 26 h, as RFC 8536 has it */

struct change {
    int64_t at_s, offset_s;
};

struct dt_zone {
    _Atomic unsigned holds;
    int64_t stamp;
    struct dt_zone_rule rule; /* for times from the last change on */
    int64_t first_offset_s;   /* before the first change */
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

/* Reads a header, and cuts it off. */
static bool take_header(struct dt_str *bytes, struct counts *out)
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

/* The offset of a type; false: there is no such type, or its offset is none. */
static bool type_offset(const struct counts *c, const char *types, size_t type, int64_t *out)
{
    if (type >= c->types)
        return false;
    *out = (int32_t)(uint32_t)big_endian(types + type * TYPE_BYTES, 4);
    return *out > -OFFSET_MAX_S && *out < OFFSET_MAX_S;
}

/* Adds the changes of the offset; times that change the designation alone are left out. */
static bool take_changes(const struct counts *c, const char *data, dt_zone *zone)
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
    /* The data of version 1 are passed over; those of version 2 and the footer follow. */
    bool good = take_header(&rest, &counts) && data_bytes(&counts, 4) <= rest.n;
    if (good) {
        const size_t n = data_bytes(&counts, 4);
        rest = (struct dt_str){rest.p + n, rest.n - n};
        good = take_header(&rest, &counts) && data_bytes(&counts, 8) <= rest.n && !counts.leaps;
    }
    if (!good)
        return dt_fail(err, DT_INVALID, "no time zone file of version 2 or later without leap seconds");
    dt_zone *zone = calloc(1, sizeof(*zone) + counts.times * sizeof(zone->changes[0]));
    if (!zone)
        return dt_fail(err, DT_NOMEM, "out of memory");
    zone->holds = 1;
    zone->stamp = dt_str_hash(bytes);
    const char *footer = rest.p + data_bytes(&counts, 8);
    const size_t n = rest.n - data_bytes(&counts, 8);
    const char *end = n >= 2 && footer[0] == '\n' ? memchr(footer + 1, '\n', n - 1) : NULL;
    if (!take_changes(&counts, rest.p, zone) || !end ||
        dt_zone_rule_parse((struct dt_str){footer + 1, (size_t)(end - footer - 1)}, &zone->rule) != DT_OK) {
        dt_zone_free(zone);
        return dt_fail(err, DT_INVALID, "the time zone file contradicts itself");
    }
    *out = zone;
    return DT_OK;
}

dt_zone *dt_zone_hold(dt_zone *zone)
{
    if (zone) {
        const unsigned holds = atomic_fetch_add(&zone->holds, 1);
        dt_assert_cmp(holds, >, 0);
    }
    return zone;
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
    size_t n = 0; /* changes up to the instant */
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

/*
 * Looks through the stretches in order, from the earliest that can have the local time in it (with the greatest offset
 * there is), for the first that does not end before it. Where clocks jump over the local time, that stretch begins
 * after it: then the instant is the jump.
 */
int64_t dt_zone_instant_s(const dt_zone *zone, int64_t local_s)
{
    struct dt_zone_span span = dt_zone_span_at(zone, local_s - OFFSET_MAX_S);
    while (local_s - span.offset_s >= span.until_s)
        span = dt_zone_span_at(zone, span.until_s);
    int64_t at_s = local_s - span.offset_s;
    return at_s < span.from_s ? span.from_s : at_s;
}
