/* Time zones of the system's tzdata (RFC 8536, TZif from version 2 on): the table of changes in a zone's file, and the
 * rule in the file's footer for later times. A zone is decoded once and never changes, so any number of threads may use
 * it. The C library is not used: it has one zone for the whole process (tzset), and does not report when a zone
 * changes. */
#pragma once

#include "strbuf.h"

typedef struct dt_zone dt_zone;

/* A span of time with one offset from UTC: from_s inclusive, until_s exclusive, in seconds since 1970; INT64_MIN and
 * INT64_MAX: no bound. Two consecutive spans may have the same offset. */
struct dt_zone_span {
    int64_t from_s, until_s;
    int64_t offset_s; /* offset east of UTC */
};

/* Decodes the bytes of a zone's file. Returns INVALID if the file is not TZif of version 2 or later, or counts leap
 * seconds; NOMEM if memory runs out. *out is NULL unless OK; it is freed by dt_zone_free. */
dt_status dt_zone_decode(struct dt_str bytes, dt_zone **out, struct dt_error *err);
/* Drops a reference; the zone is freed with its last reference. Accepts NULL. Any thread may call it. */
void dt_zone_free(dt_zone *zone);
/* Returns a hash of the file's bytes; 0 for NULL. */
int64_t dt_zone_stamp(const dt_zone *zone);

/* Returns the span that contains the instant. If zone is NULL, the zone is UTC. */
struct dt_zone_span dt_zone_span_at(const dt_zone *zone, int64_t at_s);
/* Returns the local time at the instant, as seconds since 1970 by the local clock. */
int64_t dt_zone_local_s(const dt_zone *zone, int64_t at_s);
/* Returns the instant at which clocks show a local time. If clocks show it twice, returns the first instant; if they
 * skip it, returns the instant of the skip. */
int64_t dt_zone_instant_s(const dt_zone *zone, int64_t local_s);

/* ---- the rule in the footer: a POSIX TZ string with the extensions of RFC 8536 ("CET-1CEST,M3.5.0,M10.5.0/3",
 * "<-02>2<-01>,M3.5.0/-1,M10.5.0/0"). Declared for tests. ---- */

/* A day of each year, and seconds from the beginning of this day. The seconds may be negative or more than a day. */
struct dt_zone_day {
    /* How the footer names the day: Jn (without 29 February), n (with it), or Mm.w.d (a weekday). */
    enum { DT_ZONE_DAY_JULIAN, DT_ZONE_DAY_NUMBER, DT_ZONE_DAY_MONTH } kind;
    int n, month, week, weekday;
    int64_t second;
};

struct dt_zone_rule {
    bool given;                /* false: the footer is empty, and the other members have no meaning */
    bool summer;               /* the rule has a summer time */
    int64_t offset_s;          /* offset of standard time east of UTC */
    int64_t summer_s;          /* offset of summer time east of UTC */
    struct dt_zone_day starts; /* beginning of summer time, on the clock of standard time */
    struct dt_zone_day ends;   /* end of summer time, on the clock of summer time */
};

/* Reads a rule. If the text is wrong, returns INVALID, and *out is undefined. */
dt_status dt_zone_rule_parse(struct dt_str text, struct dt_zone_rule *out);
/* Returns the span of the rule that contains the instant. rule->given must be true. */
struct dt_zone_span dt_zone_rule_span(const struct dt_zone_rule *rule, int64_t at_s);

/* ---- the files: a zone's file is read when the zone is first needed. It is read again if its device, inode, time of
 * change or size differs, for example after an update of tzdata. Thread-safe. ---- */

#define DT_ZONE_NAME_MAX 64
#define DT_ZONE_DIR      "/usr/share/zoneinfo"

typedef struct dt_zone_files dt_zone_files;

/* Makes an empty list of zones. dir is the folder of the files; it is borrowed and must outlive the list; NULL:
 * DT_ZONE_DIR. Returns NOMEM if memory runs out. */
dt_status dt_zone_files_new(const char *dir, dt_zone_files **out);
/* Accepts NULL. Zones that are still referenced are not freed. */
void dt_zone_files_free(dt_zone_files *files);
/* Returns a reference to the zone, decoded from its present file; the caller drops the reference with dt_zone_free. For
 * "UTC", *out is NULL with OK. INVALID: no zone has this name, or the file of this name is not a zone ("localtime",
 * "posix/…"). UNAVAILABLE: the file cannot be read now. NOMEM: memory ran out. *out is NULL unless OK. */
dt_status dt_zone_files_get(dt_zone_files *files, struct dt_str name, dt_zone **out, struct dt_error *err);
