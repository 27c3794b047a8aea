/* See server_settings.h. */
#include "store/server_settings.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

dt_status dt_store_server_settings(dt_store *store, struct dt_server_settings *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_server_settings){0};
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_select_server_settings, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(db))
        *out = (struct dt_server_settings){dt_db_i64(db, 0), dt_db_i64(db, 1) != 0, dt_db_i64(db, 2), dt_db_i64(db, 3)};
    return dt_db_end(db, err);
}
