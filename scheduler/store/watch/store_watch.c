/*
 * The wait of a dispatcher without an index: see watch.h. The look that ends it comes with the same answer.
 */
#include "store/watch/watch.h"

#include "store/db/db.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

/* The first column of a row, as dt_watch has it. */
enum { DUE, ROW, PRESENT };

dt_status dt_store_watch(dt_store *store, const struct dt_watch *w, struct dt_watched *out, struct dt_error *err)
{
    dt_db *db;
    out->n_due = out->n_rows = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query_index(db, dt_sql_watch_due,
                                   DT_PARAMS(DT_P_INT(w->due_from_ms), DT_P_INT(w->look_from_ms),
                                             DT_P_STR(dt_str(w->owner)), DT_P_INT(w->generation),
                                             DT_P_INT(w->topics_version), DT_P_INT(w->leads), DT_P_INT(w->wait_ms)),
                                   err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db))
        switch (dt_db_i64(db, 0)) {
        case DUE:
            if (out->n_due < DT_WATCH_DUE)
                out->due[out->n_due++] = (struct dt_due){.id = dt_db_i64(db, 2), .next_ms = dt_db_i64(db, 1)};
            break;
        case ROW:
            if (out->n_rows < DT_SHARDS_MAX)
                out->rows[out->n_rows++] = (struct dt_watched_row){(unsigned)dt_db_i64(db, 1), dt_db_i64(db, 2),
                                                                   dt_db_i64(db, 3), dt_db_i64(db, 4)};
            break;
        default:
            out->generation = dt_db_i64(db, 1);
            out->topics_version = dt_db_i64(db, 2);
            out->leads = dt_db_i64(db, 3);
            out->now_ms = dt_db_i64(db, 4);
        }
    return dt_db_end(db, err);
}
