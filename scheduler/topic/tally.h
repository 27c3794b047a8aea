/*
 * The tally: how often what happened in transactions that this process committed, by topic, since somebody last took
 * it. It stands in memory and is told to the whole process, as metrics are; figures.h writes it to MySQL.
 *
 * A transaction's events are added once, behind its COMMIT (jobs/counts.h): what was rolled back never happened. The
 * tally names at most DT_TALLY_TOPICS topics; what happens in others meanwhile is counted for all topics together only.
 * Every function is thread-safe and waits for nothing but a mutex that is held for microseconds.
 */
#ifndef DT_FIGURES_TALLY_H
#define DT_FIGURES_TALLY_H

#include "job/job.h"

#define DT_TALLY_TOPICS 100

/* DISPATCHED: attempts claimed. FAILED: attempts that ended badly, whether or not another follows. The others: jobs. */
enum dt_tallied {
    DT_TALLY_CREATED,
    DT_TALLY_DISPATCHED,
    DT_TALLY_SUCCEEDED,
    DT_TALLY_FAILED,
    DT_TALLY_DEAD,
    DT_TALLY_CANCELLED,
    DT_TALLIES
};

struct dt_tally_row {
    char topic[DT_TOPIC_MAX + 1];
    size_t topic_n;
    int64_t n[DT_TALLIES];
};
struct dt_tally {
    int64_t all[DT_TALLIES]; /* of all topics, named or not */
    struct dt_tally_row rows[DT_TALLY_TOPICS];
    size_t n;
};

/* Adds the events of one topic. */
void dt_tally_add(struct dt_str topic, const int64_t n[DT_TALLIES]);
/* Gives what was added since the last call. False: nothing was, and *out is empty. */
bool dt_tally_take(struct dt_tally *out);

#endif
