/*
 * Counters of jobs by topic and state, counters of events (the tally), and the audit of the counters of jobs.
 *
 * job_counts has a row for each topic, piece of `jobs` and writer; a topic's number of jobs is the sum of its rows. A
 * transaction changes these rows in its last statement, which is sent together with the COMMIT. So a row is locked only
 * during a commit, by a transaction that waits for no other lock. Each connection has a fixed writer number, so that
 * few connections use the same row.
 *
 * A piece has the jobs of every thirty-second home day (job.h). So the jobs of a piece are a few ranges of the primary
 * key: the audit can count them in one snapshot, and compare them with the counters of the piece, without counting the
 * whole table. A batch whose jobs are spread over years still touches at most 32 rows of a topic.
 *
 *     struct dt_counts counts;
 *     dt_counts_init(&counts);                       // for each try of the transaction
 *     dt_counts_move(&counts, topic, id, was, is);   // after each change
 *     status = dt_counts_commit(db, &counts, status, err);   // instead of dt_store_commit
 */
#pragma once

#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"
#include "store/store_internal.h"

/*
 * ---- the tally: events by topic in the transactions that this process committed since dt_tally_take ----
 *
 * The process has one tally, in memory, like its metrics; features/figures/figures.h writes it to MySQL. A
 * transaction's events are added once, after its COMMIT. The tally has rows for at most DT_TALLY_TOPICS topics; events
 * of further topics are counted only in `all`. Every function is thread-safe, and waits only for a mutex that is held
 * for microseconds.
 */

#define DT_TALLY_TOPICS 100

/* DISPATCHED counts attempts that were claimed, FAILED counts attempts that failed, whether or not a retry follows. All
 * other values count jobs. */
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
    int64_t all[DT_TALLIES]; /* sums of all topics, including those without a row */
    struct dt_tally_row rows[DT_TALLY_TOPICS];
    size_t n;
};

void dt_tally_add(struct dt_str topic, const int64_t n[DT_TALLIES]);
/* Moves the events since the last call from the tally to *out. Returns false if there were no events; *out is then
 * empty. */
bool dt_tally_take(struct dt_tally *out);

#define DT_COUNT_PIECES  32 /* files in sql/procedures/ repeat this number and DT_COUNT_WRITERS */
#define DT_COUNT_WRITERS 32
#define DT_COUNT_FEW     32

static inline unsigned dt_count_piece(int64_t id)
{
    return (unsigned)dt_job_home_day(id) % DT_COUNT_PIECES;
}

/* The changes of a topic's counters for one piece of `jobs` (home day modulo 32). `n` is indexed by state, then
 * DT_COUNT_CREATED. */
enum { DT_COUNT_CREATED = DT_JOB_STATES, DT_COUNT_NUMBERS };
struct dt_count {
    struct dt_str topic; /* borrowed until the counts are written */
    unsigned piece;
    int64_t n[DT_COUNT_NUMBERS];  /* change of the number of jobs in each state, then of jobs created */
    int64_t happened[DT_TALLIES]; /* events for the tally, which are not written to job_counts */
};

struct dt_counts {
    struct dt_count few[DT_COUNT_FEW], *v; /* v: points to `few`, or to allocated memory */
    size_t n, cap;
    size_t last[DT_COUNT_PIECES]; /* 1 + the index in `v` of the last entry of each piece; 0 = none */
    bool failed;                  /* memory ran out; dt_counts_commit reports it */
};

void dt_counts_init(struct dt_counts *counts);
/* Frees the memory. Not needed after dt_counts_commit. */
void dt_counts_clear(struct dt_counts *counts);

/* Adds n to one counter of a topic. In all functions below, too, the topic's text is borrowed until the counts are
 * written or cleared. If an allocation fails, dt_counts_commit reports it. */
void dt_counts_add(struct dt_counts *counts, struct dt_str topic, unsigned piece, int number, int64_t n);
/* Count a job that was made, or whose state changed. For a job that enters or leaves `jobs`, call dt_counts_add with 1
 * or -1. */
void dt_counts_make(struct dt_counts *counts, struct dt_str topic, int64_t id);
void dt_counts_move(struct dt_counts *counts, struct dt_str topic, int64_t id, enum dt_job_state was,
                    enum dt_job_state is);
/* Counts n failed attempts in the tally; the counters of jobs do not change. */
void dt_counts_fail(struct dt_counts *counts, struct dt_str topic, int64_t id, int64_t n);

/* Sorts the changes by (topic, piece), merges changes of the same topic and piece, and drops changes of zero. */
void dt_counts_merge(struct dt_counts *counts);

/* If `status` is OK, writes the counts and commits; if there are no changes, only commits. If `status` is a failure, or
 * writing fails, rolls back. Returns `status`, or the failure of the commit. After a commit, adds the events to the
 * tally. Always clears the counts. If the transaction did not begin, db may be NULL. */
dt_status dt_counts_commit(dt_db *db, struct dt_counts *counts, dt_status status, struct dt_error *err);

/* Begins a transaction, runs `work`, and commits. If the work fails, rolls back. counts (may be NULL) is reset, filled
 * by the work, and written with the COMMIT. Returns the first failure. */
dt_status dt_store_commit_once(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err);
/* Repeats dt_store_commit_once while it returns BUSY, at most as often as dt_store_again allows. So `work` must set all
 * of its outputs each time it runs. */
dt_status dt_store_commit_work(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err);

/*
 * ---- the audit: recounts `jobs`, piece by piece, and corrects the counters after manual edits ----
 *
 * Between the steps of a piece a read transaction stays open. So all steps must use the same store, and no other code
 * may use it meanwhile.
 */

typedef struct dt_audit dt_audit;
struct dt_audited {
    unsigned piece;
    bool done;         /* the piece was recounted; the next step begins the next piece */
    int64_t rows;      /* number of rows of `jobs` in the piece */
    int64_t corrected; /* jobs that the counters did not have, had in a wrong state, or had after their deletion */
};

dt_status dt_audit_new(dt_audit **out);
/* Frees the audit, which must not be in the middle of a piece: dt_audit_end ends the piece. Accepts NULL. */
void dt_audit_free(dt_audit *audit);
/* The next step of the audit: counts about `limit` rows. After a failure the next step begins the piece again. BUSY:
 * another process recounted the piece at the same time. */
dt_status dt_audit_step(dt_audit *audit, dt_store *store, size_t limit, struct dt_audited *out, struct dt_error *err);
/* Ends the open transaction, if any. The next step recounts the current piece of `jobs` from its beginning. */
void dt_audit_end(dt_audit *audit);
