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
#ifndef DT_JOB_ARCHIVE_SEARCH_H
#define DT_JOB_ARCHIVE_SEARCH_H

#include "job/job.h"
#include "mysql/db.h"
#include "store/store.h"

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

#endif
