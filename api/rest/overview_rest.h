/* The answers of /v1/overview, /v1/series, /v1/dead-letters and /v1/forecast. They are cached (kept.h), so that the
 * load on MySQL is bounded, however many callers there are. */
#pragma once

#include "api.h"
#include "features/figures/figures.h"
#include "kept.h"
#include "request/request.h"

typedef struct dt_overview dt_overview;

/* Creates the caches. Borrows api; uses its other parts only when a request arrives. */
dt_status dt_overview_new(struct dt_api *api, dt_overview **out);
void dt_overview_free(dt_overview *overview); /* accepts NULL */

/* How old a cached answer may be. QUICK: a second. SLOW, for an answer that takes long to make: SLOW_SHARE times the
 * time that it took to make. NOT: the answer is not cached. */
enum dt_keep { DT_KEEP_QUICK, DT_KEEP_SLOW, DT_KEEP_NOT };
struct dt_kept_ask {
    enum dt_keep keep;
    size_t room;       /* bytes reserved for the rows that are read, and for the answer */
    struct dt_str key; /* all that the answer depends on, except its topics; absent: memory ran out */
    struct dt_str topic;
    const struct dt_topic_bound *bound; /* topics that the answer is about; NULL: all topics */
    dt_make_answer *make;               /* its argument is struct dt_making */
};
struct dt_making {
    struct dt_request *req;
    dt_store *store;
    bool no_room; /* set by `make` if the budget refuses memory for the answer */
};
/* Answers 200 with the cached answer, or with one that `make` makes. Called on a worker. Always returns DT_REPLY. */
enum dt_next dt_answer_kept(struct dt_request *req, dt_store *store, const struct dt_kept_ask *ask);

/* Metrics of series. The first values are those of enum dt_tallied, which the overview shows as rates. */
enum dt_series_metric { DT_SERIES_P50 = DT_TALLIES, DT_SERIES_P99, DT_SERIES_OVERDUE, DT_SERIES_METRICS };
extern const char *const dt_series_names[DT_SERIES_METRICS];
