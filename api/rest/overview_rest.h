/*
 * How the installation is, for people who look: the answers of /v1/overview, /v1/series and
 * /v1/dead-letters. Whatever MySQL is asked for them is bounded, and kept: for a second, what has to be counted for
 * longer.
 */
#ifndef DT_API_OVERVIEW_REST_H
#define DT_API_OVERVIEW_REST_H

#include "api.h"
#include "features/figures/figures.h"
#include "health.h"
#include "job/results/dead.h"
#include "kept.h"
#include "request/topic_cache.h"
#include "store/processes.h"
#include "store/store.h"
#include "topic/counts.h"

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

/* The inside of the overview: what was read, for whoever writes it as JSON. Shared by the files of this folder
 * alone. */

#define DT_OVERVIEW_TOPICS    100
#define DT_OVERVIEW_COUNTED   10000 /* due jobs that are looked at */
#define DT_OVERVIEW_WINDOW_MS INT64_C(10000)

/* A topic in the overview. */
struct dt_topic_line {
    struct dt_str topic;
    int64_t jobs[DT_JOB_STATES];
    int64_t n[DT_TALLIES];
    int64_t overdue, since_ms;
    int64_t held, held_since_ms; /* due, of a paused topic: not overdue */
};

/* Everything lies in `arena`, or in the snapshots. */
struct dt_overview_view {
    struct dt_arena arena;
    struct dt_view *view;
    struct dt_shards_view *shards;
    struct dt_health_state health;
    int64_t now_ms;
    int64_t window_ms;
    struct dt_topic_line all;    /* of the window and of now, together */
    struct dt_topic_line *lines; /* the most important first */
    size_t n_lines;
    bool more_due;     /* not all that is due was looked at */
    int64_t next_hour; /* jobs that come due in it; -1 = not known */
    bool next_is_more; /* it is an estimate */
    struct dt_lateness *lateness;
    size_t n_lateness;
    struct dt_live_process *processes;
    size_t n_processes;
};

/* Writes it as JSON. */
void dt_overview_add_json(const struct dt_api *api, const struct dt_overview_view *view, struct dt_strbuf *out);

/* Reads a series, and appends it as JSON. */
DT_MUST_CHECK dt_status dt_series_make(dt_store *store, const struct dt_series_ask *ask, struct dt_strbuf *out,
                                       struct dt_error *err);

/* The numbers of n, divided by seconds. */
void dt_rates_put(struct dt_strbuf *out, const char *name, const int64_t n[DT_TALLIES], double seconds);

/* Appends dead letters by topic and error. */
void dt_dead_add_json(struct dt_strbuf *out, const struct dt_dead_groups *groups);

#endif
