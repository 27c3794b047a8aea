/*
 * The commit window: when to begin a commit with the rows that are queued. Pure: the time is passed in; the caller
 * locks.
 *
 * A commit costs the server as much as some thirty rows, so a small one waits for company, and no longer than pays:
 *
 *   - While another commit is under way: until it ends, enough rows are there, or it turns out to be slow.
 *   - While two are under way: likewise, but only a large commit is worth filling the time in which those wait for the
 *     disk.
 *   - After one: for half as long as it took, or until as many rows are there as clients were seen. Clients that have
 *     just been answered and may come again are counted in.
 *   - A row that finds none of this waits for nobody.
 */
#ifndef DT_API_COMMITTER_H
#define DT_API_COMMITTER_H

#include <stddef.h>
#include <stdint.h>

#include "index_writer.h"
#include "job/change/jobs.h"
#include "request/quotas.h"
#include "request/session.h"
#include "request/topic_cache.h"
#include "store/store.h"

#define DT_COMMIT_WINDOW_ROWS 32  /* enough for a commit of their own */
#define DT_COMMIT_WINDOW_MANY 500 /* … beside two others */
#define DT_COMMIT_WINDOW_SLOW_US                                                                                       \
    INT64_C(2000) /* a commit that takes longer is overlapped; nor is there any longer wait … */
#define DT_COMMIT_WINDOW_HUNG_US INT64_C(10000) /* … but for one beside two others */
#define DT_COMMIT_WINDOW_NEVER   INT64_MAX

struct dt_commit_window { /* zero = idle */
    unsigned busy;        /* commits under way */
    int64_t begun_us;     /* of the latest */
    size_t expected;      /* rows that clients seen at the end of the last one may bring … */
    int64_t until_us;     /* … by then */
};

/* The monotonic time to begin at with `queued` rows: 0 = at once, DT_COMMIT_WINDOW_NEVER = no rows are queued. */
int64_t dt_commit_window_begin_at(const struct dt_commit_window *window, size_t queued);
/* Notes that a commit begins. */
void dt_commit_window_begun(struct dt_commit_window *window, int64_t now_us);
/* Notes that a commit of `rows` rows, begun at begun_us, has ended while `queued` rows wait. */
void dt_commit_window_ended(struct dt_commit_window *window, size_t rows, int64_t begun_us, size_t queued,
                            int64_t now_us);

/*
 * Group commit of new jobs. Units (one POST = one row; a batch = up to DT_UNIT_ROWS rows a unit) queue up; each
 * committer thread, with a MySQL connection of its own, takes all that has gathered (at most 3,000 rows and
 * DT_COMMIT_BYTES, units are never split) and inserts it in one transaction. A unit is answered after the durable
 * commit. Then the due entries go to the index writer, off the answer's path.
 *
 * The committer gives each row its id, makes topics on demand (topics.auto_create), and copies retry and ack_timeout of
 * the topic where the row leaves them out.
 */

#define DT_UNIT_ROWS    250 /* at most in one unit (and never more than a commit has: ask dt_committer_unit_rows) */
#define DT_COMMIT_BYTES ((size_t)16 << 20) /* a larger unit goes alone */

/* A new job, and what became of it. */
struct dt_create {
    /*
     * In: row.job but its id: topic, key, run_at_ms (final), partition_key, headers, content_type, payload,
     * payload_binary, digest; retry absent and ack_timeout_ms 0 = the topic's. Borrowed until done.
     * Out: row.job.id, retry and ack_timeout_ms (final; retry lives until dt_unit_clear), row.outcome, row.existing_id.
     * Outcome NO_TOPIC: unknown topic, and topics.auto_create is off. REFUSED: `reason` says why (422), e.g. the
     * topic's name clashes with another's in Kafka.
     */
    struct dt_insert row;
    const char *reason;               /* out, for REFUSED: lives as long as the topic cache */
    struct dt_callback_misfit misfit; /* out, for REFUSED: does not fit the topic, unless misfit.reason is NULL */
};

/* Rows that are committed together. The submitter makes and frees it; it is the committer's from submit until done. */
struct dt_unit {
    struct dt_create *rows;
    size_t n;            /* 1 to dt_committer_unit_rows() */
    bool of_batch;       /* its rows are elements of a batch: while single jobs come, these have less of MySQL */
    int64_t deadline_us; /* monotonic: not begun by then -> UNAVAILABLE; 0 = none */
    /* Whose jobs these are: what topics they may make. Lives until done. */
    const struct dt_caller *caller;
    /*
     * Called exactly once: on a committer thread, or on the submitting thread, inside dt_committer_submit, when the
     * unit is refused. Must not block; may resume the request, hand it to workers, or submit another unit. The unit is
     * the submitter's again from here.
     */
    void (*done)(struct dt_unit *unit);
    void *arg;

    /* Out. */
    /*
     * OK: every row has its outcome, CREATED is durable. UNAVAILABLE, BUSY, FULL, SHUTDOWN: nothing happened (503
     * unavailable, Retry-After). UNKNOWN: any CREATED may exist: 503 outcome-unknown with row.job.id. Others: 500.
     */
    dt_status status;
    int64_t created_ms;   /* created_at and updated_at of the CREATED rows */
    struct dt_view *view; /* the topics as this commit saw them; NULL when it never got that far */

    /* The rows at the end that are over a quota of the caller's token: refused, and nothing was done with them. */
    size_t n_over;
    struct dt_over over; /* why, unless n_over is 0 */

    /* The committer's own. */
    struct dt_unit *prev, *next;
    size_t bytes;
};

/* Says whether the row is over a quota. */
static inline bool dt_unit_is_over(const struct dt_unit *unit, const struct dt_create *row)
{
    return unit->n_over > 0 && row >= unit->rows + (unit->n - unit->n_over);
}

typedef struct dt_committer dt_committer;

/* Starts a thread; others start when they are of use. All arguments are borrowed and outlive the committer. *out is
 * NULL unless OK. */
DT_MUST_CHECK dt_status dt_committer_start(const struct dt_session_env *env, dt_topic_cache *topics,
                                           dt_index_writer *index, dt_committer **out, struct dt_error *err);
/* Gives back units whose time is up and that are not begun: UNAVAILABLE. Any thread. */
void dt_committer_expire(dt_committer *committer, int64_t now_us);
/* Takes no more units, commits what is queued, ends the threads. */
void dt_committer_stop(dt_committer *committer);
/* After dt_committer_stop. Accepts NULL. */
void dt_committer_free(dt_committer *committer);

/* The most rows that a unit may have. */
size_t dt_committer_unit_rows(const dt_committer *committer);
/* Queues the unit, or refuses it; either ends in one call of done. Any thread; does not block. */
void dt_committer_submit(dt_committer *committer, struct dt_unit *unit);
/* Gives back what the unit holds (its snapshot) after done, when the answers of its rows have been written. */
void dt_unit_clear(struct dt_unit *unit);

#endif
