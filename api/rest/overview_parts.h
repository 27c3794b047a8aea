/* The inside of the overview: what was read, for whoever writes it as JSON. Shared by the files of this folder
 * alone. */
#ifndef DT_API_OVERVIEW_PARTS_H
#define DT_API_OVERVIEW_PARTS_H

#include "health.h"
#include "kept.h"
#include "overview.h"
#include "request/topic_cache.h"
#include "store/processes.h"
#include "topic/counts.h"

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
