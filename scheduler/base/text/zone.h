/*
 * Time zones, as the system's tzdata has them (RFC 8536, TZif from version 2 on): the table of changes in a zone's
 * file, and behind its end the rule of the file's footer. A zone is decoded once and never changes, so that any number
 * of threads may use it. Pure; zone.h reads the files.
 *
 * The C library is not asked: its zone is one for the whole process (tzset), and it cannot tell when a zone changes.
 */
#ifndef DT_BASE_ZONE_H
#define DT_BASE_ZONE_H

#include <stdint.h>

#include "strbuf.h"

typedef struct dt_zone dt_zone;

/* A stretch of time with one offset from UTC: from_s inclusive, until_s exclusive, in seconds since 1970. Two that
 * follow each other may have the same offset. INT64_MIN and INT64_MAX: without a bound. */
struct dt_zone_span {
    int64_t from_s, until_s;
    int64_t offset_s; /* east of UTC */
};

/* Decodes the bytes of a file, which may go afterwards. INVALID: they are no TZif of version 2 or later, or one that
 * counts leap seconds; NOMEM. *out is NULL unless OK; freed by dt_zone_free. */
DT_MUST_CHECK dt_status dt_zone_decode(struct dt_str bytes, dt_zone **out, struct dt_error *err);
/* Adds a hold on the zone, which is returned. Accepts NULL. Any thread. */
dt_zone *dt_zone_hold(dt_zone *zone);
/* Gives up one hold; the last one frees. Accepts NULL. Any thread. */
void dt_zone_free(dt_zone *zone);
/* A number that two zones of different bytes hardly share; of NULL 0. */
int64_t dt_zone_stamp(const dt_zone *zone);

/* The stretch that has the instant in it. A zone of NULL is UTC. */
struct dt_zone_span dt_zone_span_at(const dt_zone *zone, int64_t at_s);
/* The local time at the instant, as the seconds that a clock of UTC would need to show the same. */
int64_t dt_zone_local_s(const dt_zone *zone, int64_t at_s);
/* The instant at which clocks show a local time: the first one where it comes twice, and where clocks jump over it the
 * instant of the jump. */
int64_t dt_zone_instant_s(const dt_zone *zone, int64_t local_s);

/*
 * The rule in the footer of a zone's file: a POSIX TZ string with the extensions of RFC 8536
 * ("CET-1CEST,M3.5.0,M10.5.0/3", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"). Pure. For zone.c only.
 */

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

/*
 * The system's time zone files, read when a zone is first asked for, and again when its file has become another one (by
 * device, inode, time of change and size: a new tzdata). Every function is thread-safe.
 */

#define DT_ZONE_NAME_MAX 64
#define DT_ZONE_DIR      "/usr/share/zoneinfo"

typedef struct dt_zone_files dt_zone_files;

/* Zones from the files below dir, which is borrowed and outlives it; NULL: DT_ZONE_DIR. NOMEM. Freed by
 * dt_zone_files_free. */
DT_MUST_CHECK dt_status dt_zone_files_new(const char *dir, dt_zone_files **out);
/* Accepts NULL. Zones that somebody holds stay. */
void dt_zone_files_free(dt_zone_files *files);
/*
 * Gives the zone as its file is now; the caller holds it until dt_zone_free. "UTC" needs no file: *out is NULL with OK.
 * INVALID: there is no such zone, or the file of this name is none ("localtime", "posix/…"); err says which.
 * UNAVAILABLE: it cannot be read now. NOMEM. *out is NULL unless OK.
 */
DT_MUST_CHECK dt_status dt_zone_files_get(dt_zone_files *files, struct dt_str name, dt_zone **out,
                                          struct dt_error *err);

#endif
