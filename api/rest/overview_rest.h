/* The answers of /v1/overview, /v1/series, /v1/dead-letters and /v1/forecast. They are cached (kept.h), so that the
 * load on MySQL is bounded, however many callers there are. */
#pragma once

#include "api.h"
#include "features/figures/figures.h"
#include "kept.h"

typedef struct dt_overview dt_overview;

/* Creates the caches. Borrows api; uses its other parts only when a request arrives. */
dt_status dt_overview_new(struct dt_api *api, dt_overview **out);
void dt_overview_free(dt_overview *overview); /* accepts NULL */

/* Appends the answer for the key; `make` made it at most a second ago. The key must contain everything that the answer
 * depends on. */
dt_status dt_quick_answer(dt_overview *overview, struct dt_str key, dt_make_answer *make, void *arg,
                          struct dt_strbuf *out, struct dt_error *err);
/* Appends an answer that takes long to make. It may be a second old, as in dt_quick_answer, or as old as SLOW_SHARE
 * times the time that it took to make. */
dt_status dt_slow_answer(dt_overview *overview, const struct dt_strbuf *key, dt_make_answer *make, void *arg,
                         struct dt_strbuf *out, struct dt_error *err);
/* Adds to a key the topics that the answer is about. */
void dt_overview_add_topics(struct dt_strbuf *key, struct dt_str topic, const struct dt_topic_bound *bound);

/* Metrics of series. The first values are those of enum dt_tallied, which the overview shows as rates. */
enum dt_series_metric { DT_SERIES_P50 = DT_TALLIES, DT_SERIES_P99, DT_SERIES_OVERDUE, DT_SERIES_METRICS };
extern const char *const dt_series_names[DT_SERIES_METRICS];
