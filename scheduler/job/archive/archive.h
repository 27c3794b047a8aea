/* The archive of finished jobs: moving jobs from `jobs` to `history`, the partitions of history, freeing keys, and
 * housekeeping. The housekeeper of a dispatcher calls these functions. Each call is one short transaction over a
 * bounded number of rows, which may be repeated or interrupted at any point. now_ms is MySQL's clock. */
#pragma once

#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"
#include "topic/counts.h"

/* ---- partitions (archive_days.c) ---- */

/* The numbers of the partitions of history that exist, ascending, without the default partition (`rest` in SQL). Copied
 * by assignment; all zero = not read yet. */
#define DT_PARTITIONS_MAX 2048
struct dt_partitions {
    bool read;
    size_t n;
    int32_t v[DT_PARTITIONS_MAX];
};
bool dt_partitions_have(const struct dt_partitions *parts, int32_t part); /* true for 0, the default partition */
/* Returns the number of the partition for a job that is archived now: YYYYMMDD of purge_at, but YYYYMM if purge_at is
 * more than 400 days ahead, and 0, the default partition, if it is more than ten years ahead. */
int32_t dt_partition_of(int64_t purge_at_ms, int64_t now_ms);

#define DT_WANTED_MAX 64
struct dt_wanted {
    int32_t v[DT_WANTED_MAX];
    size_t n;
};

/* Reads which partitions exist, from the information schema only. */
dt_status dt_store_partitions_read(dt_store *store, struct dt_partitions *out, struct dt_error *err);
struct dt_tended {
    unsigned dropped;
    bool more; /* more partitions are still to be dropped */
};
/* Makes the wanted partitions that are missing, drops some whose day or month is over (counting their jobs in
 * removed_jobs), and returns the partitions that exist afterwards. BUSY: another process changes partitions, or readers
 * block the change; some partitions may have been made or dropped. Runs DDL, which commits and invalidates prepared
 * statements. */
dt_status dt_store_partitions_tend(dt_store *store, int64_t now_ms, const struct dt_wanted *wanted,
                                   struct dt_partitions *partitions, struct dt_tended *done, struct dt_error *err);
/* Lists the partitions for jobs that finish within the next `days` days, according to the retentions of topics. */
dt_status dt_store_partitions_ahead(dt_store *store, int64_t now_ms, unsigned days, struct dt_wanted *wanted,
                                    struct dt_error *err);

/* ---- archiving (archive_store.c) ---- */

/* The state of an archiver. All zero at first. */
struct dt_archiver {
    struct dt_partitions partitions;
    bool make_do;               /* if a job's partition is missing, the job goes to the default partition */
    int64_t after_ms, after_id; /* cursor in `jobs` */
    int64_t default_id;         /* cursor in the default partition */
    unsigned singly;            /* number of jobs that are still to be archived one by one, to find the job that made
                                 * their batch fail */
};
struct dt_archived {
    size_t moved, removed;
    bool more;
    struct dt_wanted wanted; /* partitions that jobs of the batch need and that do not exist; if there are any, nothing
                              * was moved */
};
/* Archives finished jobs whose leave_at has passed. If purge_at has passed too, removes the job instead. */
dt_status dt_store_archive(dt_store *store, struct dt_archiver *archiver, int64_t now_ms, size_t limit,
                           struct dt_archived *out, struct dt_error *err);
/* Frees the keys that finished jobs have kept for the time of history.keys; *done: number of freed keys. */
dt_status dt_store_free_keys(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err);
/* Reads some rows of the default partition. Moves a row if its partition exists now, and removes it if its retention is
 * over. *done: number of moved and removed rows. After the last row, the next call begins with the first
 * row. */
dt_status dt_store_sort_default(dt_store *store, struct dt_archiver *archiver, int64_t now_ms, size_t limit,
                                size_t *done, struct dt_error *err);

/*
 * ---- searching one job in history; for the store only ----
 *
 * If a statement names partitions, the server reads only these. So a search reads from history_days which partitions
 * may have the job, a few at a time, and passes them to the statement as parameters:
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
    struct dt_param params[DT_ARCHIVE_PARAMS]; /* the id of the job, and the partitions to search next, for the
                                                * statement */
    size_t n;                                  /* number of partitions in params */
    int64_t after;                             /* partitions up to this number were searched */
    bool with_default, again;                  /* with_default: the default partition was searched; again: this is
                                                * the second search */
};

struct dt_archive_search dt_archive_search_of(int64_t id);
/* Reads the next partitions into the parameters. NOT_FOUND: no partitions are left. */
dt_status dt_archive_search_next(dt_db *db, struct dt_archive_search *search, struct dt_error *err);
/* Must be called after the query, with its status. Returns whether to search further partitions. */
bool dt_archive_search_more(struct dt_archive_search *search, dt_status status);

/* Moves a dead job with its attempts from history back to `jobs`, inside the caller's transaction. In `jobs` the job is
 * still dead, and its row is locked. BUSY: the job is not in history any more. */
dt_status dt_archive_bring_back(dt_db *db, const struct dt_job *job, int64_t now_ms, struct dt_error *err);

/* ---- housekeeping; *done: number of rows that were found; 0: nothing is left to do now ---- */

/* Housekeeping. Sets `near` in rows of the far band that fall due soon. If a manual edit ended a job or its attempt,
 * sets the columns that the edit did not (status of the attempt, times of archiving), and corrects the counters. *done:
 * number of far rows or of edited rows, whichever is larger. */
dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err);
/* Removes notices of dead letters older than before_ms. No process sends them if the installation has no Kafka any
 * more. */
dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done,
                                   struct dt_error *err);

/* Inside the caller's transaction, counts and completes jobs that a manual edit ended, as dt_store_promote does. ids:
 * their ids as a JSON list. The names of topics in `counts` are in the arena. */
dt_status dt_edited_end(dt_db *db, const struct dt_config *config, struct dt_str ids, struct dt_counts *counts,
                        struct dt_arena *arena, struct dt_error *err);
