/*
 * How the installation is, for people who look: the answers of /v1/overview, /v1/series and
 * /v1/dead-letters. Whatever MySQL is asked for them is bounded, and kept: for a second, what has to be counted for
 * longer.
 */
#ifndef DT_API_OVERVIEW_H
#define DT_API_OVERVIEW_H

#include "api.h"
#include "features/figures/figures.h"
#include "job/results/dead.h"
#include "kept.h"
#include "store/store.h"

typedef struct dt_overview dt_overview;

/* api is borrowed; its other parts are used when somebody asks. */
DT_MUST_CHECK dt_status dt_overview_new(struct dt_api *api, dt_overview **out);
void dt_overview_free(dt_overview *overview); /* accepts NULL */

/* Appends the overview as JSON. Statuses as of store/store.h. Any thread that has a store. */
DT_MUST_CHECK dt_status dt_overview_answer(dt_overview *overview, dt_store *store, struct dt_strbuf *out,
                                           struct dt_error *err);

/* A question for a series. */
struct dt_series_ask {
    unsigned metrics; /* bits of enum dt_series_metric */
    struct dt_figures_range range;
};
enum dt_series_metric { /* the first ones are those of enum dt_tallied */
                        DT_SERIES_P50 = DT_TALLIES,
                        DT_SERIES_P99,
                        DT_SERIES_OVERDUE,
                        DT_SERIES_METRICS
};
extern const char *const dt_series_names[DT_SERIES_METRICS];
/* Appends the series as JSON. */
DT_MUST_CHECK dt_status dt_series_answer(dt_overview *overview, dt_store *store, const struct dt_series_ask *ask,
                                         struct dt_strbuf *out, struct dt_error *err);

/* Appends an answer that may take long to make, under a key that says all that decides what it is. It is at most twenty
 * times as old as it took. */
DT_MUST_CHECK dt_status dt_slow_answer(dt_overview *overview, const struct dt_strbuf *key, dt_make_answer *make,
                                       void *arg, struct dt_strbuf *out, struct dt_error *err);
/* Adds to a key which topics the answer is about. */
void dt_overview_add_topics(struct dt_strbuf *key, struct dt_str topic, const struct dt_topic_bound *bound);
/* Appends dead letters by topic and error as JSON, at most twenty times as old as they took. The ask's now_ms is
 * filled in. */
DT_MUST_CHECK dt_status dt_dead_answer(dt_overview *overview, dt_store *store, struct dt_dead_ask *ask,
                                       struct dt_strbuf *out, struct dt_error *err);

#endif
