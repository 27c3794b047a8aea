/*
 * How many jobs come due in each step of a stretch of time, by topic: those that are scheduled, and the fires of
 * schedules that have no job yet.
 *
 * The work is bounded, whatever the tables hold. What is near stands in the due index by its time: up to
 * DT_FORECAST_COUNTED entries are counted, more are estimated. What is far stands there by its day: days are counted
 * likewise, and spread evenly over their steps. The index has no topics: up to DT_FORECAST_LOOKED_UP jobs are looked
 * up, of more a sample is; topics of what is far, or too much for that, are those of the counters of the day. If some
 * topics alone are asked for, up to DT_FORECAST_BOUND jobs are looked up, near and far, and theirs are counted.
 */
#ifndef DT_FORECAST_FORECAST_H
#define DT_FORECAST_FORECAST_H

#include "base/text/zone_files.h"
#include "job/job.h"
#include "store/store.h"

#define DT_FORECAST_STEPS     10000
#define DT_FORECAST_TOPICS    20     /* shown of a step at most, the largest … */
#define DT_FORECAST_PARTS     40000  /* … and of all steps */
#define DT_FORECAST_COUNTED   200000 /* entries of the index */
#define DT_FORECAST_LOOKED_UP 10000  /* rows */
#define DT_FORECAST_BOUND     100000 /* rows, if some topics alone are asked for */
#define DT_FORECAST_SCHEDULES 10000
#define DT_FORECAST_FIRES     200000 /* that are reckoned one by one */

struct dt_forecast_ask {
    int64_t from_ms, step_ms; /* > 0 */
    size_t steps;             /* 1 to DT_FORECAST_STEPS */
    struct dt_str topic;      /* absent = any */
    const struct dt_topic_bound *bound;
    dt_zone_files *zones; /* for the fires of schedules */
};

/* The jobs of one topic in one step. */
struct dt_forecast_part {
    size_t step;
    int64_t due;
    struct dt_str topic; /* in the arena */
};

struct dt_forecast {
    int64_t *due;                   /* by step, in the arena */
    struct dt_forecast_part *parts; /* by step, of each the largest topics, in the arena */
    size_t n_parts;
    int64_t counted_until_ms; /* what is due before it was counted, and not estimated or spread over its day */
    bool topics_counted;      /* so was what each topic has */
};

/* Makes the forecast. Reads outside of a transaction, and locks nothing: what changes meanwhile is seen before or
 * after. */
DT_MUST_CHECK dt_status dt_store_forecast(dt_store *store, const struct dt_forecast_ask *ask, struct dt_arena *arena,
                                          struct dt_forecast *out, struct dt_error *err);

/* Tells how many jobs a second the installation drains, as its leaders measured it when more was due than they could
 * claim at once; 0 = that was never so. */
DT_MUST_CHECK dt_status dt_store_drains(dt_store *store, int64_t *per_second, struct dt_error *err);

#endif
