/*
 * Log lines about a server that does not do what it is asked. The beginning and the end of an outage are told, not each
 * attempt. A process has one outage for each server, whatever number of threads meet it:
 *
 *   warn   … "results wait" outage=mysql begins=true status=UNAVAILABLE reason=…     when it begins
 *   warn   … "results wait" outage=mysql begins=false tries=512 seconds=60 …         once a minute while it lasts
 *   info   … "outage ended" outage=mysql tries=601 seconds=71                        when it ends
 *
 * An outage lasts as long as some part of the process fails. Each thread that asks the server has a dt_outage_part. It
 * calls dt_outage_failed for each attempt that failed, and dt_outage_over for each that did not. A part that asks
 * rarely may never get to call dt_outage_over. So somebody who runs regularly (the health of an API, a loop of a
 * dispatcher) calls dt_outage_look, which ends an outage that no part has met for DT_OUTAGE_QUIET_US, or for
 * DT_OUTAGE_WELL_US if the part that met it last has succeeded since. The success of another part says little: it may
 * ask for something that the server does all the time. An outage that begins again within
 * DT_OUTAGE_PAUSE_US of its end is told only if it lasts longer than that.
 *
 * A failure that no further attempt repairs (an error that is marked `alarm`, a status of the class permanent or fatal)
 * is told at ERROR, at once, and once an outage. Such an outage ends only when nobody has met it for
 * DT_OUTAGE_QUIET_US, because a server that forbids one request serves many others meanwhile.
 *
 * Each single attempt is a line at DEBUG. Thread-safe; a part belongs to one thread at a time. Metrics: duetime_outage
 * {of} is 1 while one lasts, duetime_outage_alarm{of} while it is one for an operator;
 * duetime_outage_failures_total{of} counts attempts.
 */
#ifndef DT_BASE_OUTAGE_H
#define DT_BASE_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

#define DT_OUTAGE_MINUTE_US INT64_C(60000000)
#define DT_OUTAGE_QUIET_US  INT64_C(15000000)
#define DT_OUTAGE_WELL_US   INT64_C(2000000)
#define DT_OUTAGE_PAUSE_US  INT64_C(10000000)

enum dt_outage_of {
    DT_OUTAGE_NONE,
    DT_OUTAGE_MYSQL,
    DT_OUTAGE_REDIS,
    DT_OUTAGE_KAFKA,
    DT_OUTAGE_ZOOKEEPER,
    DT_OUTAGES
};

/* All zero to begin with: nothing failed yet. It holds nothing, and needs no end. */
struct dt_outage_part {
    enum dt_outage_of of; /* what its latest attempt failed on; NONE = it did not */
    uint32_t generation;  /* of that outage */
    int64_t tries;        /* of that outage, with that attempt */
};

/* An attempt failed. what: the effect of it, for people ("results wait"). err: the reason; NULL or empty = the status's
 * own text. */
void dt_outage_failed(struct dt_outage_part *part, enum dt_outage_of of, const char *component, const char *what,
                      dt_status status, const struct dt_error *err);
/* An attempt succeeded; costs nothing when the one before it did, too. */
void dt_outage_over(struct dt_outage_part *part);
/* Says whether an outage lasts. */
bool dt_outage_lasts(enum dt_outage_of of);
/* Ends outages that have been quiet for long enough. Any thread, every second or two. now_us: of dt_clock_system. */
void dt_outage_look(int64_t now_us);

/* For tests: as the first two above, at a given time of the monotonic clock. */
void dt_outage_failed_at(int64_t now_us, struct dt_outage_part *part, enum dt_outage_of of, const char *component,
                         const char *what, dt_status status, const struct dt_error *err);
void dt_outage_over_at(int64_t now_us, struct dt_outage_part *part);
/* For tests: forgets all outages, and tells nothing. */
void dt_outage_forget(void);

#endif
