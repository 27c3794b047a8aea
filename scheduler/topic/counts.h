/*
 * How many jobs of a topic are in which state: what one transaction changes about it, written with its COMMIT.
 *
 * job_counts has a row for each topic, piece of `jobs` and writer; the number of jobs is their sum. A row is touched by
 * one statement, the last of its transaction and sent together with the COMMIT: nobody holds one longer than a commit
 * takes, and who holds one waits for nothing else. Writers are chosen by connection, so that few ever meet.
 *
 * A piece is the jobs of every thirty-second home day (job.h). So the jobs of a piece lie in a few ranges of the
 * primary key, and can be counted and compared with the counters of the piece in one snapshot (counts_audit.c) that
 * need not last as long as counting the table; a batch that spreads over years still touches 32 rows a topic at most.
 *
 *     struct dt_counts counts;
 *     dt_counts_init(&counts);                       // for each try of the transaction
 *     dt_counts_move(&counts, topic, id, was, is);   // what has really changed, after it has
 *     status = dt_counts_commit(db, &counts, status, err);   // in place of dt_store_commit
 */
#ifndef DT_TOPIC_COUNTS_H
#define DT_TOPIC_COUNTS_H

#include "job/job.h"
#include "mysql/db.h"
#include "store/store_internal.h"
#include "tally.h"

#define DT_COUNT_PIECES  32 /* the files in sql/procedures/ have both numbers, too */
#define DT_COUNT_WRITERS 32
#define DT_COUNT_FEW     32

static inline unsigned dt_count_piece(int64_t id)
{
    return (unsigned)dt_job_home_day(id) % DT_COUNT_PIECES;
}

/* The change of a topic's numbers in a piece. Places of `n`: one a state, then these. */
enum { DT_COUNT_CREATED = DT_JOB_STATES, DT_COUNT_NUMBERS };
struct dt_count {
    struct dt_str topic; /* the caller's, until it is written */
    unsigned piece;
    int64_t n[DT_COUNT_NUMBERS];  /* by state, then CREATED */
    int64_t happened[DT_TALLIES]; /* for the tally, which is not written with them */
};

struct dt_counts {
    struct dt_count few[DT_COUNT_FEW], *v; /* v: few, or allocated */
    size_t n, cap;
    size_t last[DT_COUNT_PIECES]; /* 1 + where the piece was written last; 0 = nowhere */
    bool failed;                  /* out of memory: told when it is written */
};

/* Begins without changes. */
void dt_counts_init(struct dt_counts *counts);
/* Gives the memory back; dt_counts_commit has done so already. */
void dt_counts_clear(struct dt_counts *counts);

/* Adds n to one number of a topic. The topic's text is borrowed until the counts are written or cleared, here and
 * below. A failed allocation is told by dt_counts_commit. */
void dt_counts_add(struct dt_counts *counts, struct dt_str topic, unsigned piece, int number, int64_t n);
/* Counts a job that was made; one that went from a state to another. (One that came into `jobs` again, or left it:
 * dt_counts_add with 1 or -1.) */
void dt_counts_make(struct dt_counts *counts, struct dt_str topic, int64_t id);
void dt_counts_move(struct dt_counts *counts, struct dt_str topic, int64_t id, enum dt_job_state was,
                    enum dt_job_state is);
/* Notes attempts that ended badly: for the tally alone. */
void dt_counts_fail(struct dt_counts *counts, struct dt_str topic, int64_t id, int64_t n);

/* Sorts the changes by (topic, piece), each once, without those in which nothing happened. */
void dt_counts_merge(struct dt_counts *counts);

/* Writes the counts and commits when status is OK (nothing changed: only commits); rolls back otherwise, and when that
 * fails. Returns status, or the failure of the commit. What was committed is added to the process's tally. Clears the
 * counts in any case. db may be NULL (begin failed). */
DT_MUST_CHECK dt_status dt_counts_commit(dt_db *db, struct dt_counts *counts, dt_status status, struct dt_error *err);

/* Begins, does the work, and commits if that was OK; else rolls back. counts (may be NULL): made empty, filled by the
 * work, written with the COMMIT. Returns the status of the first step that failed. */
DT_MUST_CHECK dt_status dt_store_commit_once(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                                             struct dt_error *err);
/* Repeats dt_store_commit_once while it is BUSY, as dt_store_again says: the work sets all of its outputs each time. */
DT_MUST_CHECK dt_status dt_store_commit_work(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                                             struct dt_error *err);

#endif
