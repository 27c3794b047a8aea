/*
 * Forecast: how many jobs fall due in each step of a period, by topic. It covers scheduled jobs, and fires of schedules
 * that have no job yet.
 *
 * The work is bounded, whatever the size of the tables. The due index has near jobs by time: if there are at most
 * DT_FORECAST_COUNTED entries, they are counted, otherwise estimated. The index has far jobs by day: the jobs of a day
 * are counted or estimated in the same way, and spread evenly over the day's steps. The index has no topics. So if
 * there are at most DT_FORECAST_LOOKED_UP near jobs, their rows are read, otherwise the rows of a sample. The topics of
 * far jobs, and of near jobs that were estimated, are estimated from the counters of their day. If only some topics are
 * requested, up to DT_FORECAST_BOUND rows, of near and far jobs, are read and counted.
 */
#pragma once

#include "base/text/zone.h"
#include "job/job.h"
#include "store/store.h"

#define DT_FORECAST_STEPS     10000
#define DT_FORECAST_TOPICS    20     /* most topics of a step, the largest ones */
#define DT_FORECAST_PARTS     40000  /* most parts (topics of a step) of all steps together */
#define DT_FORECAST_COUNTED   200000 /* most index entries that are counted one by one */
#define DT_FORECAST_LOOKED_UP 10000  /* most rows of jobs that are read */
#define DT_FORECAST_BOUND     100000 /* most rows of jobs that are read if only some topics are requested */
#define DT_FORECAST_SCHEDULES 10000
#define DT_FORECAST_FIRES     200000 /* most fires that are computed one by one */

struct dt_forecast_ask {
    int64_t from_ms, step_ms; /* > 0 */
    size_t steps;             /* 1 to DT_FORECAST_STEPS */
    struct dt_str topic;      /* only this topic; absent = any */
    const struct dt_topic_bound *bound;
    dt_zone_files *zones; /* time zones, to compute the fires of schedules */
};

/* The number of jobs of a topic in a step. */
struct dt_forecast_part {
    size_t step;
    int64_t due;
    struct dt_str topic; /* in the arena */
};

struct dt_forecast {
    int64_t *due;                   /* number of jobs in each step; in the arena */
    struct dt_forecast_part *parts; /* numbers by topic, sorted by step; each step has its largest topics; in the
                                     * arena */
    size_t n_parts;
    int64_t counted_until_ms; /* numbers of jobs due before this time were counted, not estimated, and not spread over a
                               * day */
    bool topics_counted;      /* the numbers by topic were counted, too, not estimated */
};

/* Makes the forecast. Reads without a transaction and locks nothing: a job that changes during the call may count at
 * its old time or at its new one. */
dt_status dt_store_forecast(dt_store *store, const struct dt_forecast_ask *ask, struct dt_arena *arena,
                            struct dt_forecast *out, struct dt_error *err);

/* Returns how many jobs a second the installation dispatches under load. Leaders measure this while more jobs are due
 * than they can claim at once. 0 = it was never measured. */
dt_status dt_store_drains(dt_store *store, int64_t *per_second, struct dt_error *err);
