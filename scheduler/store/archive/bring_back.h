/* The way back from `history` into `jobs`, for a dead job that is redriven. Inside the caller's transaction; for store/
 * only. */
#ifndef DT_STORE_BRING_BACK_H
#define DT_STORE_BRING_BACK_H

#include "store/db/db.h"
#include "store/store.h"

/* Puts a dead job that is in history into `jobs` again, with its attempts: still dead, and locked. BUSY: it left
 * history meanwhile. */
DT_MUST_CHECK dt_status dt_archive_bring_back(dt_db *db, const struct dt_job *job, int64_t now_ms,
                                              struct dt_error *err);

#endif
