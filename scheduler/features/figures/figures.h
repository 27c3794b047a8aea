/*
 * Figures: the events in all processes of an installation together (jobs created, dispatched, …), over time.
 *
 *   COMMIT ─▶ tally ─▶ a chore, at the end of each step, if anything happened ─▶ figures, figures_lateness
 *                                                                                             │ sums over writers
 *                                                                     a request ◀─────────────┘
 *
 * There are rows for steps of five seconds, kept for two hours, and rows for steps of five minutes, kept for two weeks.
 * A process adds its figures to both kinds of rows at the same time, so that no row has to be condensed later. The
 * number of rows does not depend on the number of jobs: for each step, a process has rows of at most DT_TALLY_TOPICS
 * topics. Figures are not an audit: if a process ends, or its write fails, the figures of a step are lost.
 */
#pragma once

#include "base/metrics.h"
#include "features/features.h"
#include "job/job.h"
#include "store/store.h"
#include "topic/counts.h"

#define DT_FINE_MS        INT64_C(5000)
#define DT_COARSE_MS      INT64_C(300000)
#define DT_FINE_KEPT_MS   INT64_C(7200000)
#define DT_COARSE_KEPT_MS INT64_C(1209600000)

/* ---- writing ---- */

/* For the table in features/features.c: adds the chore that writes the tally of this process. Returns NOMEM if memory
 * runs out. */
dt_status dt_figures_start(const struct dt_features_env *env, void **out, struct dt_error *err);
/* Removes the chore. The figures of the current step are not written. */
void dt_figures_stop(void *figures);

struct dt_lateness {
    int64_t slot; /* number of the slot: time in ms divided by the slot's width */
    int64_t up_to_us;
    int64_t attempts;
};
/* The figures of one process in one step. */
struct dt_figures_step {
    int64_t at_ms, writer; /* at_ms: any time within the step; writer: number of the process */
    const struct dt_tally *tally;
    int64_t overdue;
    const struct dt_lateness *lateness;
    size_t n_lateness;
};
/* Adds the figures of a step to two rows: that of the step of five seconds, and that of the step of five minutes. */
dt_status dt_store_figures_add(dt_store *store, const struct dt_figures_step *step, struct dt_error *err);
/* Deletes at most `limit` expired rows of each table. *more: there may be further expired rows. */
dt_status dt_store_figures_expire(dt_store *store, int64_t now_ms, size_t limit, bool *more, struct dt_error *err);

/* ---- reading; all outputs are in the arena ---- */

struct dt_figures_range {
    int64_t step_ms;        /* length of the steps to read: DT_FINE_MS or DT_COARSE_MS */
    int64_t from_ms, to_ms; /* to_ms is exclusive */
    int64_t slot_ms;        /* width of a slot of the output; a multiple of step_ms */
    struct dt_str topic;    /* empty = the sum of all topics */
};
struct dt_figures_row {
    int64_t slot; /* number of the slot: time in ms divided by slot_ms; 0 in dt_store_figures_of_topics */
    struct dt_str topic;
    int64_t n[DT_TALLIES];
    int64_t overdue;
};
/* Reads the slots that have figures, in order of time. */
dt_status dt_store_figures(dt_store *store, const struct dt_figures_range *range, struct dt_arena *arena,
                           struct dt_figures_row **out, size_t *n, struct dt_error *err);
/* Reads the sums of the period for each topic. The row with the empty topic has the sum of all topics. */
dt_status dt_store_figures_of_topics(dt_store *store, const struct dt_figures_range *range, struct dt_arena *arena,
                                     struct dt_figures_row **out, size_t *n, struct dt_error *err);
/* Reads the buckets of lateness, sorted by slot and upper bound. */
dt_status dt_store_lateness(dt_store *store, const struct dt_figures_range *range, struct dt_arena *arena,
                            struct dt_lateness **out, size_t *n, struct dt_error *err);
/* Returns a quantile (part: 0 to 1) of the lateness in ms, interpolated within its bucket. Negative: no attempts were
 * counted. All buckets must belong to one slot. */
double dt_lateness_ms(const struct dt_lateness *buckets, size_t n, double part);

/* ---- numbers of jobs ---- */

struct dt_topic_load {
    struct dt_str topic;
    int64_t jobs[DT_JOB_STATES];
};
/* Reads the numbers of jobs of all topics, in any order. A topic may have two rows: one for live jobs, one for archived
 * jobs. */
dt_status dt_store_topic_loads(dt_store *store, struct dt_arena *arena, struct dt_topic_load **out, size_t *n,
                               struct dt_error *err);
struct dt_topic_overdue {
    struct dt_str topic;
    int64_t jobs, since_ms; /* jobs: number of jobs; since_ms: when the oldest of them fell due, 0 = unknown */
    int64_t job;            /* id of the oldest job */
    bool paused;            /* the topic is paused, so its jobs are held rather than overdue */
};
/* Reads which topics have jobs that are due and not dispatched, in any order. Reads at most `limit` due jobs and
 * `limit` offered jobs. Due jobs of paused topics do not count towards `limit`, but at most DT_LATE_SLICES times
 * `limit` due jobs are read (dispatch/scan.h). */
dt_status dt_store_topics_overdue(dt_store *store, int64_t now_ms, size_t limit, struct dt_arena *arena,
                                  struct dt_topic_overdue **out, size_t *n, struct dt_error *err);

/* The backlog gauges, duetime_backlog_jobs: the number of jobs of each topic that are due and not dispatched. MySQL is
 * read only while a job is overdue, so an idle installation sends no statements. For one thread. */

#define DT_BACKLOG_TOPICS 100 /* most gauges; a topic keeps its gauge until the process ends */

struct dt_backlog_row {
    char topic[DT_TOPIC_MAX + 1];
    size_t topic_n;
    dt_metric *jobs;
};
/* The gauges and their memory. All zero at first. The owner must clear the arena. */
struct dt_backlog {
    struct dt_arena arena;
    size_t n;
    bool shown; /* at least one gauge is not 0 */
    struct dt_backlog_row rows[DT_BACKLOG_TOPICS];
};

/* Counts the due jobs, up to a limit, and sets the gauges. overdue: number of overdue jobs of the process; if it is 0,
 * no statement is sent. After a failure the gauges keep their values. */
dt_status dt_backlog_tell(struct dt_backlog *backlog, dt_store *store, int64_t now_ms, int64_t overdue);
