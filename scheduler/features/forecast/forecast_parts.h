/* A forecast under construction: sums by step, and by step and topic. Only for this folder. */
#pragma once

#include "forecast.h"
#include "mysql/db.h"
#include "topic/counts.h"

#define DT_FORECAST_DAY_MS INT64_C(86400000)

/* The topics of a piece of the counters (topic/counts.h), each with its part of the piece's jobs. */
struct dt_forecast_share {
    struct dt_str topic;
    int64_t scheduled;
    double sum; /* sum of the parts that were added for this topic */
};
struct dt_forecast_shares {
    bool read;
    struct dt_forecast_share *v; /* the largest requested topics, at most as many as a step shows */
    size_t n;
    int64_t asked, all; /* scheduled jobs of the requested topics; of all topics */
    double sum;         /* sum of the parts that were added for requested topics */
};

struct dt_forecasting {
    dt_store *store;
    dt_db *db;
    const struct dt_forecast_ask *ask;
    struct dt_forecast *out;
    struct dt_arena *arena;
    struct dt_str last_topic; /* in the arena */
    struct dt_forecast_shares shares[DT_COUNT_PIECES];
    size_t cap;     /* capacity of out->parts, which is allocated while it grows */
    bool failed;    /* memory ran out */
    bool found_all; /* every scheduled job of the requested topic was counted */
    struct dt_error *err;
};

static inline int64_t dt_forecast_end_ms(const struct dt_forecast_ask *ask)
{
    return ask->from_ms + (int64_t)ask->steps * ask->step_ms;
}

/* Returns the largest number of topics that a step shows. */
static inline size_t dt_forecast_topics(const struct dt_forecast_ask *ask)
{
    size_t room = DT_FORECAST_PARTS / ask->steps;
    return room < DT_FORECAST_TOPICS ? room : DT_FORECAST_TOPICS;
}

static inline bool dt_forecast_is_bound(const struct dt_forecast_ask *ask)
{
    return ask->topic.p || ask->bound;
}

/* Adds jobs of any topic to a step. If only some topics are requested, adds nothing, because then only jobs of known
 * topics count. */
void dt_forecast_add(struct dt_forecasting *f, size_t step, int64_t due);
/* Adds jobs of a topic to its part of a step, if the topic is requested. If only some topics are requested, adds
 * them to the step, too. */
void dt_forecast_add_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due);
/* Adds jobs only to the part of a requested topic. */
void dt_forecast_show_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due);
bool dt_forecast_has_topic(const struct dt_forecast_ask *ask, struct dt_str topic);
/* Records that jobs due at this time or later are estimated, not counted. */
void dt_forecast_estimated_from(struct dt_forecasting *f, int64_t ms);

/* Estimates how many entries a band has in [from_ms, to_ms). */
DT_MUST_CHECK dt_status dt_forecast_estimate(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms,
                                             int64_t *rows);
/* Counts the scheduled jobs of a band with due_key in [from_ms, to_ms), by step and topic, and adds them. */
DT_MUST_CHECK dt_status dt_forecast_count(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms);
/* Adds the parts of topics in steps [first, last), in proportion to the counters of a home day. totals: the jobs of
 * each step, from `first` on. */
DT_MUST_CHECK dt_status dt_forecast_share(struct dt_forecasting *f, int64_t day_ms, size_t first, size_t last,
                                          const int64_t *totals);

/* Merges the parts and copies the largest of each step into the arena. Returns NOMEM if any allocation has failed. */
DT_MUST_CHECK dt_status dt_forecast_finish(struct dt_forecasting *f);
DT_MUST_CHECK dt_status dt_forecast_near(struct dt_forecasting *f);
