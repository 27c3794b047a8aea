/*
 * Time zones, as the system's tzdata has them (RFC 8536, TZif from version 2 on): the table of changes in a zone's
 * file, and behind its end the rule of the file's footer. A zone is decoded once and never changes, so that any number
 * of threads may use it. Pure; zone_files.h reads the files.
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

#endif
