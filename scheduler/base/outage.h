/*
 * What is told of a server that does not do what it is asked: what changes, not each attempt. There is one outage for
 * each server and process, whatever number of threads meet it:
 *
 *   warn   … "results wait" outage=mysql begins=true status=UNAVAILABLE reason=…     when it begins
 *   warn   … "results wait" outage=mysql begins=false tries=512 seconds=60 …         once a minute, by whoever fails
 * then info   … "outage ended" outage=mysql tries=601 seconds=71                        when it ends
 *
 * It lasts as long as some part of the process fails: each thread that asks the server has a dt_outage_part, says of
 * each attempt that failed dt_outage_failed, and of the first one that did not dt_outage_over. A part that asks only
 * when it is asked itself may never get to say that; so whoever looks regularly (the health of an API, the main loop of
 * a dispatcher) calls dt_outage_look, which ends what nobody has met for DT_OUTAGE_QUIET_US. An outage that begins
 * again within DT_OUTAGE_PAUSE_US of the end that was told is told of when those are over, if it still lasts then.
 *
 * What no further attempt mends (an error that is marked `alarm`, a status of the class permanent or fatal) is told at
 * ERROR, once an outage, at once. Such an outage ends only when nobody has met it for DT_OUTAGE_QUIET_US: what a server
 * forbids is asked now and then, between much that it does.
 *
 * Each single attempt is a line at DEBUG. Thread-safe; a part belongs to one thread at a time. Metrics: duetime_outage
 * {of} is 1 while one lasts, duetime_outage_alarm{of} while it is one for an operator;
 * duetime_outage_failures_total{of} counts attempts.
 */
#ifndef DT_BASE_OUTAGE_H
#define DT_BASE_OUTAGE_H

#include <stdint.h>

#include "base/status.h"

#define DT_OUTAGE_MINUTE_US INT64_C(60000000)
#define DT_OUTAGE_QUIET_US  INT64_C(15000000)
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
};

/* An attempt failed. What stands still because of it is `what` ("results wait"). err: why; NULL or empty = the status's
 * own text. */
void dt_outage_failed(struct dt_outage_part *part, enum dt_outage_of of, const char *component, const char *what,
                      dt_status status, const struct dt_error *err);
/* An attempt succeeded; costs nothing when the one before it did, too. */
void dt_outage_over(struct dt_outage_part *part);
void dt_outage_look(void);

/* The same with the time told, for tests. */
void dt_outage_failed_at(int64_t now_us, struct dt_outage_part *part, enum dt_outage_of of, const char *component,
                         const char *what, dt_status status, const struct dt_error *err);
void dt_outage_over_at(int64_t now_us, struct dt_outage_part *part);
void dt_outage_look_at(int64_t now_us);
/* Forgets all outages, untold. */
void dt_outage_forget(void);

#endif
