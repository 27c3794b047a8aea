/* A query of one number, on db.h alone. */
#include "store/db/db.h"

dt_status dt_db_read_number(dt_db *db, const char *sql, struct dt_params params, bool *found, int64_t *n,
                            struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, err);
    const bool row = status == DT_OK && dt_db_next(db);
    if (found)
        *found = row;
    if (n)
        *n = row ? dt_db_i64(db, 0) : 0;
    return status == DT_OK ? dt_db_end(db, err) : status;
}
