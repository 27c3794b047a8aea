/*
 * The archive of finished jobs: moving them from `jobs` to `history`, its partitions, keys that become free,
 * housekeeping. The housekeeper of a dispatcher calls these functions. Each step is one short transaction over a
 * bounded number of rows; it may be repeated or interrupted at any point. now_ms is MySQL's clock.
 */
#pragma once

#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"
#include "topic/counts.h"

/* ---- partitions (archive_days.c) ---- */

/* The partitions that exist, ascending, without the default partition (`rest` in SQL). A value; all zero = not read
 * yet. */
#define DT_PARTITIONS_MAX 2048
struct dt_partitions {
    bool read;
    size_t n;
    int32_t v[DT_PARTITIONS_MAX];
};
bool dt_partitions_have(const struct dt_partitions *parts, int32_t part); /* 0, the default partition, always exists */
/* Returns the partition for a job that is archived now: YYYYMMDD of its purge_at. If that is more than 400 days
 * ahead, YYYYMM; if it is more than ten years ahead, 0, the default partition. */
int32_t dt_partition_of(int64_t purge_at_ms, int64_t now_ms);

#define DT_WANTED_MAX 64
struct dt_wanted {
    int32_t v[DT_WANTED_MAX];
    size_t n;
};

/* Reads which partitions exist, without reading their rows. */
DT_MUST_CHECK dt_status dt_store_partitions_read(dt_store *store, struct dt_partitions *out, struct dt_error *err);
struct dt_tended {
    unsigned dropped;
    bool more; /* more are still to be dropped */
};
/*
 * Makes the wanted partitions that are missing, drops some whose time is over (counting their jobs in removed_jobs),
 * and returns those that exist afterwards. BUSY: another process does it, or readers block it; a part may be done. It
 * runs DDL, which commits and invalidates prepared statements.
 */
DT_MUST_CHECK dt_status dt_store_partitions_tend(dt_store *store, int64_t now_ms, const struct dt_wanted *wanted,
                                                 struct dt_partitions *partitions, struct dt_tended *done,
                                                 struct dt_error *err);
/* Lists the partitions for jobs that finish on one of the next `days` days, by their topics' retentions. */
DT_MUST_CHECK dt_status dt_store_partitions_ahead(dt_store *store, int64_t now_ms, unsigned days,
                                                  struct dt_wanted *wanted, struct dt_error *err);

/* ---- archiving (archive_store.c) ---- */

/* The state of an archiver. All zero at first. */
struct dt_archiver {
    struct dt_partitions partitions;
    bool make_do;               /* jobs whose partition is missing go to the default partition */
    int64_t after_ms, after_id; /* the cursor in `jobs` */
    int64_t default_id;         /* the cursor in the default partition */
    unsigned singly;            /* number of jobs to archive one by one, after their batch failed, to find the job at
                                 * fault */
};
struct dt_archived {
    size_t moved, removed;
    bool more;
    struct dt_wanted wanted; /* partitions that are missing; if there are any, nothing was moved */
};
/* Archives finished jobs whose leave_at has come, or removes them if purge_at has come too. */
DT_MUST_CHECK dt_status dt_store_archive(dt_store *store, struct dt_archiver *archiver, int64_t now_ms, size_t limit,
                                         struct dt_archived *out, struct dt_error *err);
/* Frees keys whose jobs have had them long enough; *done: how many. */
DT_MUST_CHECK dt_status dt_store_free_keys(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                           struct dt_error *err);
/* Reads some rows of the default partition. Moves those whose partition exists now, and removes those whose
 * retention is over. *done: how many; at the end the cursor starts over. */
DT_MUST_CHECK dt_status dt_store_sort_default(dt_store *store, struct dt_archiver *archiver, int64_t now_ms,
                                              size_t limit, size_t *done, struct dt_error *err);

/*
 * ---- searching one job in history; for the store only ----
 *
 * If a statement names its partitions, the server reads no others. So they are read first (history_days), a few at a
 * time, and passed as parameters:
 *
 *     struct dt_archive_search search = dt_archive_search_of(id);
 *     do {
 *         status = dt_archive_search_next(db, &search, err);
 *         if (!status)
 *             status = look(db, "… WHERE id = ? AND part IN (?,?,?,?,?,?,?,?)", search.params, DT_ARCHIVE_PARAMS, …);
 *     } while (dt_archive_search_more(&search, status));
 *
 * NOT_FOUND: history has no such job.
 */

#define DT_ARCHIVE_PARTITIONS 8
#define DT_ARCHIVE_PARAMS     (1 + DT_ARCHIVE_PARTITIONS)

struct dt_archive_search {
    struct dt_param params[DT_ARCHIVE_PARAMS]; /* the id and its next partitions */
    size_t n;                                  /* how many partitions are set */
    int64_t after;                             /* partitions up to this one were searched */
    bool with_default, again;                  /* the default partition was searched; this is the second search */
};

struct dt_archive_search dt_archive_search_of(int64_t id);
/* Reads the next partitions into the parameters. NOT_FOUND: there are no more. */
DT_MUST_CHECK dt_status dt_archive_search_next(dt_db *db, struct dt_archive_search *search, struct dt_error *err);
/* Called after a query that ended with `status`. Returns whether there is more to search. */
bool dt_archive_search_more(struct dt_archive_search *search, dt_status status);

/* Moves a dead job from history back to `jobs`, with its attempts, inside the caller's transaction. There it is
 * still dead, and locked. BUSY: the job has left history in between. */
DT_MUST_CHECK dt_status dt_archive_bring_back(dt_db *db, const struct dt_job *job, int64_t now_ms,
                                              struct dt_error *err);

/* ---- housekeeping; *done: the number of rows that were found; 0: nothing is left to do now ---- */

/* Sets `near` in far rows that fall due soon. If a manual edit ended a job, sets the status of its attempt and its
 * times of archiving, and updates the counters. *done: the larger of the two numbers of rows. */
DT_MUST_CHECK dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done,
                                         struct dt_error *err);
/* Removes notices older than before_ms: dead letters of an installation that no longer has a Kafka. */
DT_MUST_CHECK dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done,
                                                 struct dt_error *err);

/* Does the part of dt_store_promote for manual edits, in the caller's transaction. ids: a JSON list of jobs. The
 * names of topics in counts are in the arena. */
DT_MUST_CHECK dt_status dt_edited_end(dt_db *db, const struct dt_config *config, struct dt_str ids,
                                      struct dt_counts *counts, struct dt_arena *arena, struct dt_error *err);
