/*
 * The archive of finished jobs: moving them from `jobs` to `history`, its partitions, and keys that become free. For
 * the dispatcher that keeps house. Each step is one short transaction over a bounded number of rows; it may be repeated
 * or cut off at any point. now_ms is MySQL's clock.
 */
#ifndef DT_JOB_ARCHIVE_H
#define DT_JOB_ARCHIVE_H

#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"
#include "topic/counts.h"

/* ---- partitions (archive_days.c) ---- */

/* The partitions that there are, ascending, without the default partition (`rest` in SQL). A value; all zero = not read
 * yet. */
#define DT_PARTITIONS_MAX 2048
struct dt_partitions {
    bool read;
    size_t n;
    int32_t v[DT_PARTITIONS_MAX];
};
bool dt_partitions_have(const struct dt_partitions *parts, int32_t part); /* 0, the default partition, always */
/* Where a job belongs that is archived now: YYYYMMDD of its purge_at, or YYYYMM if that is more than 400 days ahead,
 * or 0 (the default partition) if it is more than ten years ahead. */
int32_t dt_partition_of(int64_t purge_at_ms, int64_t now_ms);

/* Partitions that jobs need. */
#define DT_WANTED_MAX 64
struct dt_wanted {
    int32_t v[DT_WANTED_MAX];
    size_t n;
};

/* Reads which there are, without looking at their rows. */
DT_MUST_CHECK dt_status dt_store_partitions_read(dt_store *store, struct dt_partitions *out, struct dt_error *err);
struct dt_tended {
    unsigned dropped;
    bool more; /* others are to be dropped still */
};
/*
 * Makes those of `wanted` that are missing, drops some whose time is over (counting what they hold in removed_jobs) and
 * tells which there are then. BUSY: another process is at it, or readers are in the way; what was done is done. DDL: it
 * commits, and ends what prepared statements knew.
 */
DT_MUST_CHECK dt_status dt_store_partitions_tend(dt_store *store, int64_t now_ms, const struct dt_wanted *wanted,
                                                 struct dt_partitions *partitions, struct dt_tended *done,
                                                 struct dt_error *err);
/* Lists the partitions that jobs which finish on one of the next `days` days will need, by their topics' retentions. */
DT_MUST_CHECK dt_status dt_store_partitions_ahead(dt_store *store, int64_t now_ms, unsigned days,
                                                  struct dt_wanted *wanted, struct dt_error *err);

/* ---- archiving (archive_store.c) ---- */

/* The memory of an archiver. All zero at first. */
struct dt_archiver {
    struct dt_partitions partitions;
    bool make_do;               /* jobs whose partition is missing go to the default partition */
    int64_t after_ms, after_id; /* the cursor in `jobs` */
    int64_t default_id;         /* and in the default partition */
    unsigned singly;            /* so many go one at a time, after one of a batch could not: it alone stays */
};
struct dt_archived {
    size_t moved, removed;
    bool more;
    struct dt_wanted wanted; /* partitions that were missing: then nothing was moved */
};
/* Archives finished jobs whose leave_at has come, or removes them if purge_at has come, too. */
DT_MUST_CHECK dt_status dt_store_archive(dt_store *store, struct dt_archiver *archiver, int64_t now_ms, size_t limit,
                                         struct dt_archived *out, struct dt_error *err);
/* Frees keys whose time is over; *done: how many. */
DT_MUST_CHECK dt_status dt_store_free_keys(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                           struct dt_error *err);
/* Looks at some rows of the default partition: those that have a partition now move there, those whose retention is
 * over are removed. *done: how many did; the cursor goes round. */
DT_MUST_CHECK dt_status dt_store_sort_default(dt_store *store, struct dt_archiver *archiver, int64_t now_ms,
                                              size_t limit, size_t *done, struct dt_error *err);

/*
 * Where one job of history is. A statement that names its partitions has nothing to do with the others, so they are
 * read first (history_days), a few at a time, and given as parameters:
 *
 *     struct dt_archive_search search = dt_archive_search_of(id);
 *     do {
 *         status = dt_archive_search_next(db, &search, err);
 *         if (!status)
 *             status = look(db, "… WHERE id = ? AND part IN (?,?,?,?,?,?,?,?)", search.params, DT_ARCHIVE_PARAMS, …);
 *     } while (dt_archive_search_more(&search, status));
 *
 * NOT_FOUND: nowhere. And its way back into `jobs`, if it is redriven. For store/ only.
 */

#define DT_ARCHIVE_PARTITIONS 8
#define DT_ARCHIVE_PARAMS     (1 + DT_ARCHIVE_PARTITIONS)

struct dt_archive_search {
    struct dt_param params[DT_ARCHIVE_PARAMS]; /* the id and its next partitions */
    size_t n;                                  /* so many of them */
    int64_t after;                             /* those up to here were looked into */
    bool with_default, again;                  /* the default partition was among them; it is the second search */
};

/* Begins a search. */
struct dt_archive_search dt_archive_search_of(int64_t id);
/* Reads the next partitions into the parameters. NOT_FOUND: there are no more. */
DT_MUST_CHECK dt_status dt_archive_search_next(dt_db *db, struct dt_archive_search *search, struct dt_error *err);
/* After the look that ended with `status`: is there more to look into? */
bool dt_archive_search_more(struct dt_archive_search *search, dt_status status);

/* Puts a dead job that is in history into `jobs` again, with its attempts, inside the caller's transaction: still dead,
 * and locked. BUSY: it left history meanwhile. */
DT_MUST_CHECK dt_status dt_archive_bring_back(dt_db *db, const struct dt_job *job, int64_t now_ms,
                                              struct dt_error *err);

/*
 * Housekeeping in bounded steps, for the dispatcher that keeps house: rows of `jobs` whose day has come are indexed by
 * their exact time, jobs that a manual edit ended are counted, notices that no process sends are removed. A step reads
 * at most `limit` rows. *done: the number of rows that it found; 0: nothing is left to do now.
 */

/* Sets `near` in far rows whose day has come (now_ms: MySQL's clock). Ends what a manual edit ended: its row gets the
 * status of the attempt and the times at which it leaves, and is counted in its new state. *done: the larger of both
 * numbers. */
DT_MUST_CHECK dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                         struct dt_error *err);
/* Removes notices that were made before before_ms: dead letters of an installation whose Kafka was taken away. */
DT_MUST_CHECK dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done,
                                                 struct dt_error *err);

/* ---- inside a transaction; for store/ only ---- */

/* Ends those of the jobs (a JSON list of ids) that a manual edit ended and that are not counted yet: see
 * dt_store_promote. The arena has the topics that counts names. */
DT_MUST_CHECK dt_status dt_edited_end(dt_db *db, const struct dt_config *config, struct dt_str ids,
                                      struct dt_counts *counts, struct dt_arena *arena, struct dt_error *err);

#endif
