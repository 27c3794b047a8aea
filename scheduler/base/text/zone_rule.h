/*
 * The rule in the footer of a zone's file: a POSIX TZ string with the extensions of RFC 8536
 * ("CET-1CEST,M3.5.0,M10.5.0/3", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"). Pure. For zone.c only.
 */
#ifndef DT_BASE_ZONE_RULE_H
#define DT_BASE_ZONE_RULE_H

#include "zone.h"

/* A day of each year, and a second of it (may lie in another day). */
struct dt_zone_day {
    enum { DT_ZONE_DAY_JULIAN, DT_ZONE_DAY_NUMBER, DT_ZONE_DAY_MONTH } kind; /* Jn, n, Mm.w.d */
    int n, month, week, weekday;
    int64_t second;
};

struct dt_zone_rule {
    bool given;                /* false: the footer is empty */
    bool summer;               /* there is a summer time */
    int64_t offset_s;          /* of standard time, east of UTC */
    int64_t summer_s;          /* of summer time */
    struct dt_zone_day starts; /* summer time does, by standard time */
    struct dt_zone_day ends;   /* by summer time */
};

/* INVALID leaves *out undefined. */
DT_MUST_CHECK dt_status dt_zone_rule_parse(struct dt_str text, struct dt_zone_rule *out);
/* The stretch that the rule gives for the instant; the rule is given. */
struct dt_zone_span dt_zone_rule_span(const struct dt_zone_rule *rule, int64_t at_s);

#endif
