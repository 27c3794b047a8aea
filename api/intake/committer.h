/*
 * Group commit of new jobs. Units are queued: a POST of one job is a unit with one row; a batch has units of up to
 * DT_UNIT_ROWS rows. Each committer thread has a MySQL connection; it takes all queued units (at most 3,000 rows and
 * DT_COMMIT_BYTES; units are not split) and inserts them in one transaction. A unit is answered after the durable
 * commit. After the answers, the entries of near jobs are posted to the index writer.
 *
 * The committer gives each row its id, creates topics if topics.auto_create is set, and copies retry and ack_timeout of
 * the topic into rows that lack them.
 */
#pragma once

#include "index_writer.h"
#include "job/change/jobs.h"
#include "request/quotas.h"
#include "request/session.h"
#include "request/topic_cache.h"
#include "store/store.h"

/*
 * The commit window decides when a commit of the queued rows begins. Pure: the time is passed in; the caller locks.
 *
 * A commit costs the server as much as about thirty rows, so a small commit waits for more rows if that saves time:
 *
 *   - While one commit runs: until it ends, enough rows are queued, or it turns out to be slow.
 *   - While two commits run: until one ends, many rows are queued, or the disk turns out to hang.
 *   - After a commit: for half as long as the commit took, or until as many rows are queued as clients were seen. This
 *     includes clients that were just answered and may send the next row.
 *   - Otherwise a row does not wait.
 */
#define DT_COMMIT_WINDOW_ROWS 32  /* queued rows that are enough for a commit */
#define DT_COMMIT_WINDOW_MANY 500 /* queued rows that are enough for a third commit at the same time */
/* if a commit takes longer, a second one begins; also the longest time that a commit waits for more rows */
#define DT_COMMIT_WINDOW_SLOW_US INT64_C(2000)
#define DT_COMMIT_WINDOW_HUNG_US INT64_C(10000) /* if both running commits take longer, a third one begins */
#define DT_COMMIT_WINDOW_NEVER   INT64_MAX

struct dt_commit_window { /* all zeros: idle */
    unsigned busy;        /* number of commits that are running */
    int64_t begun_us;     /* when the latest commit began */
    size_t expected;      /* rows that clients of the last commit may send, plus rows queued at its end */
    int64_t until_us;     /* until when a commit waits for the expected rows */
};

/* Returns when to commit `queued` rows (monotonic time); 0: at once; DT_COMMIT_WINDOW_NEVER: no rows are queued. */
int64_t dt_commit_window_begin_at(const struct dt_commit_window *window, size_t queued);
/* Notes that a commit begins. */
void dt_commit_window_begun(struct dt_commit_window *window, int64_t now_us);
/* Notes that a commit of `rows` rows, which began at begun_us, has ended while `queued` rows wait. */
void dt_commit_window_ended(struct dt_commit_window *window, size_t rows, int64_t begun_us, size_t queued,
                            int64_t now_us);

#define DT_UNIT_ROWS    250 /* maximal rows of a unit; api.commit_jobs may allow fewer: dt_committer_unit_rows */
#define DT_COMMIT_BYTES ((size_t)16 << 20) /* a larger unit is committed alone */

/* A new job, and its outcome. */
struct dt_create {
    /* Input: row.job without its id; if retry is absent or ack_timeout_ms is 0, the topic's value is used. Borrowed
     * until done. Output: row.job.id, retry and ack_timeout_ms (final; retry lives until dt_unit_clear), row.outcome,
     * row.existing_id. Outcome NO_TOPIC: the topic does not exist, and topics.auto_create is off. REFUSED: `reason`
     * says why (422), for example that the topic's name clashes with another topic in Kafka. */
    struct dt_insert row;
    const char *reason;               /* output, if REFUSED; lives as long as the topic cache */
    struct dt_callback_misfit misfit; /* output, if REFUSED: why the job does not fit its topic; reason NULL: it fits */
};

/* Rows that are committed together. The submitter creates and frees the unit; the committer owns it from submit until
 * its `done` is called. */
struct dt_unit {
    struct dt_create *rows;
    size_t n;            /* number of rows: 1 to dt_committer_unit_rows() */
    bool of_batch;       /* the rows are elements of a batch; batches are served less while single jobs arrive */
    int64_t deadline_us; /* monotonic: if its commit begins later, the unit is answered UNAVAILABLE; 0: none */
    /* The caller that owns the jobs; decides which topics may be created. Must live until `done` is called. */
    const struct dt_caller *caller;
    /* Called exactly once: on a committer thread, or inside dt_committer_submit if the unit is refused. From this call
     * on, the submitter owns the unit again. Must not block; may resume the request, submit it to workers, or submit
     * another unit. */
    void (*done)(struct dt_unit *unit);
    void *arg;

    /* Outputs. */
    /* OK: every row has its outcome, and CREATED rows are durable. UNAVAILABLE, BUSY, FULL, SHUTDOWN: nothing was
     * inserted (503 unavailable, with Retry-After). UNKNOWN: the jobs may exist (503 outcome-unknown, with row.job.id).
     * Other statuses: 500. */
    dt_status status;
    int64_t created_ms;   /* created_at and updated_at of the CREATED rows */
    struct dt_view *view; /* snapshot of topics that the commit used; NULL: none */

    /* Number of rows at the end of `rows` that were refused, because they are over a quota of the caller's token. */
    size_t n_over;
    struct dt_over over; /* quota that refused the last n_over rows; set if n_over is not 0 */

    /* Members below: used by the committer. */
    struct dt_unit *prev, *next;
    size_t bytes;
};

/* Returns true if the row is over a quota. */
static inline bool dt_unit_is_over(const struct dt_unit *unit, const struct dt_create *row)
{
    return unit->n_over > 0 && row >= unit->rows + (unit->n - unit->n_over);
}

typedef struct dt_committer dt_committer;

/* Starts one thread; more threads start when they are needed. All arguments are borrowed, and must outlive the
 * committer. Unless OK, *out is NULL. */
dt_status dt_committer_start(const struct dt_session_env *env, dt_topic_cache *topics, dt_index_writer *index,
                             dt_committer **out, struct dt_error *err);
/* Answers queued units whose deadline has passed, with UNAVAILABLE. Any thread. */
void dt_committer_expire(dt_committer *committer, int64_t now_us);
/* Refuses new units, commits the queued ones, and ends the threads. */
void dt_committer_stop(dt_committer *committer);
/* Frees the committer, after dt_committer_stop. Accepts NULL. */
void dt_committer_free(dt_committer *committer);

/* Returns the maximal number of rows of a unit. */
size_t dt_committer_unit_rows(const dt_committer *committer);
/* Queues the unit, or refuses it; in both cases calls unit->done once. Any thread; does not block. */
void dt_committer_submit(dt_committer *committer, struct dt_unit *unit);
/* Releases the unit's snapshot. Called after done, when the answers of all rows are written. */
void dt_unit_clear(struct dt_unit *unit);
