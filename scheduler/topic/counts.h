/*
 * How many jobs of a topic are in which state: what one transaction changes about it, written with its COMMIT.
 *
 * job_counts has a row for each topic, piece of `jobs` and writer; the number of jobs is their sum. A row is touched by
 * one statement, the last of its transaction and sent together with the COMMIT: nobody holds one longer than a commit
 * takes, and who holds one waits for nothing else. Writers are chosen by connection, so that few ever meet.
 *
 * A piece is the jobs of every thirty-second home day (job.h). So the jobs of a piece lie in a few ranges of the
 * primary key, and can be counted and compared with the counters of the piece in one snapshot (counts.c) that
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
#include "store/store.h"
#include "store/store_internal.h"

/*
 * The tally: how often what happened in transactions that this process committed, by topic, since somebody last took
 * it. It stands in memory and is told to the whole process, as metrics are; figures.h writes it to MySQL.
 *
 * A transaction's events are added once, behind its COMMIT (jobs/counts.h): what was rolled back never happened. The
 * tally names at most DT_TALLY_TOPICS topics; what happens in others meanwhile is counted for all topics together only.
 * Every function is thread-safe and waits for nothing but a mutex that is held for microseconds.
 */

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

/*
 * The audit of counters: recounts `jobs`, piece by piece, and corrects what manual edits have changed.
 *
 * A transaction that reads stays open between the steps of a piece: they get the same store, which nothing else uses
 * meanwhile.
 */

typedef struct dt_audit dt_audit;
struct dt_audited {
    unsigned piece;
    bool done;         /* the piece was recounted; the next step begins the next one */
    int64_t rows;      /* that it has */
    int64_t corrected; /* of them, or of what was counted and is not there: how many the counters had wrong */
};

DT_MUST_CHECK dt_status dt_audit_new(dt_audit **out);
/* Accepts NULL. No piece is open. */
void dt_audit_free(dt_audit *audit);
/* Counts at most about `limit` rows. A failure forgets the piece: the next step begins it anew. BUSY: another process
 * recounted it at the same time. */
DT_MUST_CHECK dt_status dt_audit_step(dt_audit *audit, dt_store *store, size_t limit, struct dt_audited *out,
                                      struct dt_error *err);
/* Ends the open transaction, if there is one: the piece begins again with the next step. */
void dt_audit_end(dt_audit *audit);

#endif
