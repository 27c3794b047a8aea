/* The wait in MySQL: see watch.h. The answer contains what ended the wait. */
#include "mysql/db.h"
#include "mysql/statements.h"
#include "watch.h"

/* Kinds of rows in the answer of the procedure dt_wait, which writes the same numbers into its first column. */
enum { DUE, ROW, PRESENT, FOUND };

dt_status dt_store_watch(dt_store *store, const struct dt_watch *w, struct dt_watched *out, struct dt_error *err)
{
    dt_db *db;
    out->n_due = out->n_rows = 0;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status,
            dt_db_query_index(db, dt_sql_wait,
                              DT_PARAMS(DT_P_INT(w->process), DT_P_INT(w->wait_ms),
                                        w->owner ? DT_P_STR(dt_str(w->owner)) : DT_P_NULL, DT_P_INT(w->due_from_ms),
                                        DT_P_INT(w->look_from_ms), DT_P_INT(w->generation), DT_P_INT(w->topics_version),
                                        DT_P_INT(w->leads), DT_P_INT(w->intake), DT_P_INT(w->intake_at_ms),
                                        w->clock ? DT_P_INT(w->clock_version) : DT_P_NULL),
                              err));
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
        case PRESENT:
            out->generation = dt_db_i64(db, 1);
            out->topics_version = dt_db_i64(db, 2);
            out->leads = dt_db_i64(db, 3);
            out->now_ms = dt_db_i64(db, 4);
            break;
        case FOUND:
            out->intake = (unsigned)dt_db_i64(db, 1);
            out->intake_at_ms = dt_db_i64(db, 2);
            out->clock_version = dt_db_i64(db, 3);
            break;
        default: /* only a later version of dt_wait returns this kind */
            break;
        }
    return dt_db_end(db, err);
}
