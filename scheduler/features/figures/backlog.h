/*
 * Backlog: how many jobs of each topic are due and not dispatched, as gauges (duetime_backlog_jobs). MySQL is asked
 * only while something is due, so that an installation at rest pays nothing. One thread's.
 */
#ifndef DT_FIGURES_BACKLOG_H
#define DT_FIGURES_BACKLOG_H

#include "base/metrics.h"
#include "job/job.h"
#include "store/store.h"

#define DT_BACKLOG_TOPICS 100 /* those that came first have a gauge each, as long as the process lives */

struct dt_backlog_row {
    char topic[DT_TOPIC_MAX + 1];
    size_t topic_n;
    dt_metric *jobs;
};
/* All zero to begin with; its owner clears the arena. */
struct dt_backlog {
    struct dt_arena arena;
    size_t n;
    bool shown; /* some gauge is not 0 */
    struct dt_backlog_row rows[DT_BACKLOG_TOPICS];
};

/* Counts what is due, up to a bound, and sets the gauges; with nothing overdue it asks nothing. Statuses as of
 * store/store.h; the gauges stay as they are on failure. */
DT_MUST_CHECK dt_status dt_backlog_tell(struct dt_backlog *backlog, dt_store *store, int64_t now_ms, int64_t overdue);

#endif
