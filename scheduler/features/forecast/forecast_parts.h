/*
 * A forecast that is being made: sums by step, and by step and topic. For forecast/ only.
 */
#ifndef DT_FORECAST_FORECAST_PARTS_H
#define DT_FORECAST_FORECAST_PARTS_H

#include "forecast.h"
#include "mysql/db.h"
#include "topic/counts.h"

#define DT_FORECAST_DAY_MS INT64_C(86400000)

/* How the jobs of a piece (jobs/counts.h) are shared out among topics. */
struct dt_forecast_share {
    struct dt_str topic;
    int64_t scheduled;
    double sum; /* of the parts that were added */
};
struct dt_forecast_shares {
    bool read;
    struct dt_forecast_share *v; /* the largest of the topics that the forecast has, as many as a step shows */
    size_t n;
    int64_t asked, all; /* scheduled jobs of all topics that the forecast has, and of all topics */
    double sum;         /* of the parts that were added of the topics that it has */
};

struct dt_forecasting {
    dt_store *store;
    dt_db *db;
    const struct dt_forecast_ask *ask;
    struct dt_forecast *out;
    struct dt_arena *arena;
    struct dt_str last_topic; /* in the arena */
    struct dt_forecast_shares shares[DT_COUNT_PIECES];
    size_t cap;     /* of out->parts while it grows, which is allocated then */
    bool failed;    /* out of memory */
    bool found_all; /* every scheduled job of the requested topic was counted */
    struct dt_error *err;
};

static inline int64_t dt_forecast_end_ms(const struct dt_forecast_ask *ask)
{
    return ask->from_ms + (int64_t)ask->steps * ask->step_ms;
}

/* The number of topics that are shown of each step. */
static inline size_t dt_forecast_topics(const struct dt_forecast_ask *ask)
{
    size_t room = DT_FORECAST_PARTS / ask->steps;
    return room < DT_FORECAST_TOPICS ? room : DT_FORECAST_TOPICS;
}

/* Says whether the forecast is of some topics alone. */
static inline bool dt_forecast_is_bound(const struct dt_forecast_ask *ask)
{
    return ask->topic.p || ask->bound;
}

/* Adds jobs that are due in a step, whatever their topic. Of a forecast of some topics only parts count. */
void dt_forecast_add(struct dt_forecasting *f, size_t step, int64_t due);
/* Adds jobs of a topic that are due in a step to its part, if the forecast has the topic; to the step itself, too, if
 * the forecast is of some topics alone. */
void dt_forecast_add_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due);
/* Adds to a topic's part alone; the topic is one that the forecast has. */
void dt_forecast_show_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due);
bool dt_forecast_has_topic(const struct dt_forecast_ask *ask, struct dt_str topic);
/* Notes that jobs due from a time on are estimated, not counted. */
void dt_forecast_estimated_from(struct dt_forecasting *f, int64_t ms);

DT_MUST_CHECK dt_status dt_forecast_far(struct dt_forecasting *f);
DT_MUST_CHECK dt_status dt_forecast_fires(struct dt_forecasting *f);

/* Estimates how many entries a band has in [from_ms, to_ms). */
DT_MUST_CHECK dt_status dt_forecast_estimate(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms,
                                             int64_t *rows);
/* Counts the scheduled jobs of a band with due_key in [from_ms, to_ms), by step and topic, and adds them. */
DT_MUST_CHECK dt_status dt_forecast_count(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms);
/* Adds parts of what is due in steps [first, last): as the counters of a home day share it out. totals: by step, from
 * the first on. */
DT_MUST_CHECK dt_status dt_forecast_share(struct dt_forecasting *f, int64_t day_ms, size_t first, size_t last,
                                          const int64_t *totals);

#endif
