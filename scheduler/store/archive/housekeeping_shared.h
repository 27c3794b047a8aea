/* Steps that housekeeping.c and archiver.c share: finding ids, and tidying jobs that a manual edit finished. They run
 * in the caller's connection; for store/ only. */
#ifndef DT_STORE_HOUSEKEEPING_SHARED_H
#define DT_STORE_HOUSEKEEPING_SHARED_H

#include "store/db/db.h"
#include "store/store.h"

struct dt_found_ids {
    struct dt_strbuf list; /* the JSON list of them */
    size_t n;
};
/* Runs a query for ids. The caller initialises and clears ids->list. */
DT_MUST_CHECK dt_status dt_select_ids(dt_db *db, const char *sql, struct dt_params params, struct dt_found_ids *ids,
                                      struct dt_error *err);
/* Tidies the jobs of the list that a manual edit finished: next_at is cleared, purge_at and leave_at are set. */
DT_MUST_CHECK dt_status dt_tidy_list(dt_store *store, dt_db *db, struct dt_str ids, uint64_t *changed,
                                     struct dt_error *err);

#endif
