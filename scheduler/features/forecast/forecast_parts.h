/* A forecast that is being made: sums by step, and by step and topic. Only for this folder. */
#pragma once

#include "forecast.h"
#include "mysql/db.h"
#include "topic/counts.h"

#define DT_FORECAST_DAY_MS INT64_C(86400000)

/* A topic's part of the scheduled jobs in a piece of the counters (home day modulo 32, topic/counts.h). */
struct dt_forecast_share {
    struct dt_str topic;
    int64_t scheduled;
    double sum; /* sum of the estimates for this topic, with fractions */
};
struct dt_forecast_shares {
    bool read;
    struct dt_forecast_share *v; /* the requested topics with the most jobs, at most dt_forecast_topics of them */
    size_t n;
    int64_t asked, all; /* number of scheduled jobs of the requested topics; of all topics */
    double sum;         /* sum of the estimates for all requested topics, with fractions */
};

struct dt_forecasting {
    dt_store *store;
    dt_db *db;
    const struct dt_forecast_ask *ask;
    struct dt_forecast *out;
    struct dt_arena *arena;
    /* topic of the part (number of jobs of a topic in a step) that was added last; in the arena */
    struct dt_str last_topic;
    struct dt_forecast_shares shares[DT_COUNT_PIECES];
    size_t cap;     /* capacity of out->parts, which is on the heap until dt_forecast_finish */
    bool failed;    /* an allocation failed; dt_forecast_finish reports it */
    bool found_all; /* every scheduled job of the requested topic was counted */
    struct dt_error *err;
};

static inline int64_t dt_forecast_end_ms(const struct dt_forecast_ask *ask)
{
    return ask->from_ms + (int64_t)ask->steps * ask->step_ms;
}

/* Returns how many topics a step shows at most. */
static inline size_t dt_forecast_topics(const struct dt_forecast_ask *ask)
{
    size_t room = DT_FORECAST_PARTS / ask->steps;
    return room < DT_FORECAST_TOPICS ? room : DT_FORECAST_TOPICS;
}

static inline bool dt_forecast_is_bound(const struct dt_forecast_ask *ask)
{
    return ask->topic.p || ask->bound;
}

/* Adds a number of jobs to a step. Does nothing if only some topics are requested: then dt_forecast_add_part adds to
 * the step. */
void dt_forecast_add(struct dt_forecasting *f, size_t step, int64_t due);
/* Adds a number of jobs to the topic's part of a step, if the topic is requested. If only some topics are requested,
 * adds the number to the step's sum, too. */
void dt_forecast_add_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due);
/* Adds a number of jobs to the topic's part of a step, but not to the step's sum. The topic must be requested. */
void dt_forecast_show_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due);
bool dt_forecast_has_topic(const struct dt_forecast_ask *ask, struct dt_str topic);
/* Records that the numbers of jobs due at this time or later are estimates. */
void dt_forecast_estimated_from(struct dt_forecasting *f, int64_t ms);

/* Estimates how many entries a band of the due index has in [from_ms, to_ms). */
dt_status dt_forecast_estimate(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms, int64_t *rows);
/* Counts the scheduled jobs of a band with due_key in [from_ms, to_ms), and adds them to the sums of their steps, and
 * to the parts of their topics. */
dt_status dt_forecast_count(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms);
/* Distributes the jobs of steps [first, last) over topics, in proportion to the counters of a home day. totals: number
 * of jobs in each step, from `first` on. */
dt_status dt_forecast_share(struct dt_forecasting *f, int64_t day_ms, size_t first, size_t last, const int64_t *totals);

/* Merges the parts (numbers of jobs by step and topic), and copies the largest parts of each step into the arena.
 * Returns NOMEM if any allocation failed. */
dt_status dt_forecast_finish(struct dt_forecasting *f);
dt_status dt_forecast_near(struct dt_forecasting *f);
