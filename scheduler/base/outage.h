/*
 * Log lines about a server that fails. The beginning and the end of an outage are logged, not each attempt. A process
 * has one outage per server, however many threads notice the failure:
 *
 *   warn   … "results wait" outage=mysql begins=true status=UNAVAILABLE reason=…     when it begins
 *   warn   … "results wait" outage=mysql begins=false tries=512 seconds=60 …         once a minute while it lasts
 *   info   … "outage ended" outage=mysql tries=601 seconds=71                        when it ends
 *
 * Each thread that asks a server has a dt_outage_part. It calls dt_outage_failed after each attempt that failed, and
 * dt_outage_over after each attempt that succeeded. An outage lasts while some part fails. A part that asks rarely may
 * not call dt_outage_over for long. So a regular caller (the health check of an API, a loop of a dispatcher) calls
 * dt_outage_look, which ends an outage if no part has failed for DT_OUTAGE_QUIET_US, or for DT_OUTAGE_WELL_US if the
 * part that failed last has succeeded since. Successes of other parts count little, because they may use requests that
 * always succeed. If an outage begins again within DT_OUTAGE_PAUSE_US of its end, it is logged only if it still lasts
 * when this time has passed.
 *
 * A failure that no further attempt repairs (err->alarm, or a status of the class permanent or fatal) is logged at
 * ERROR, at once, and once per outage. Such an outage ends only after DT_OUTAGE_QUIET_US without a failure, because a
 * server that forbids one request serves many others meanwhile.
 *
 * Each attempt is a line at DEBUG. Thread-safe; a part belongs to one thread at a time. Metrics: duetime_outage{of} is
 * 1 while an outage lasts, duetime_outage_alarm{of} while an operator must act; duetime_outage_failures_total{of}
 * counts attempts.
 */
#pragma once

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

/* The latest attempt of a thread that sends requests to servers. Initialize with zeros. Needs no cleanup. */
struct dt_outage_part {
    enum dt_outage_of of; /* server of the latest attempt, if this attempt failed; else NONE */
    uint32_t generation;  /* generation of the outage of this server */
    int64_t tries;        /* failed attempts in this outage */
};

/* Reports that an attempt failed. what: the effect, for operators ("results wait"). err: the reason; if it is NULL or
 * empty, the text of the status is logged. */
void dt_outage_failed(struct dt_outage_part *part, enum dt_outage_of of, const char *component, const char *what,
                      dt_status status, const struct dt_error *err);
/* Reports that an attempt succeeded. Cheap if the previous attempt succeeded, too. */
void dt_outage_over(struct dt_outage_part *part);
bool dt_outage_lasts(enum dt_outage_of of);
/* Ends outages that have had no failure for long enough. Call it every second or two, from any thread. now_us:
 * monotonic. */
void dt_outage_look(int64_t now_us);

/* For tests: dt_outage_failed and dt_outage_over, at a given monotonic time. */
void dt_outage_failed_at(int64_t now_us, struct dt_outage_part *part, enum dt_outage_of of, const char *component,
                         const char *what, dt_status status, const struct dt_error *err);
void dt_outage_over_at(int64_t now_us, struct dt_outage_part *part);
/* For tests: resets all outages, without logging. */
void dt_outage_forget(void);
