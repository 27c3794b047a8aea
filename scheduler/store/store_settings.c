/* See server_settings.h. */
#include "server_settings.h"

#include <stdint.h>

#include "mysql/statements.h"
#include "store_internal.h"

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
        *out = (struct dt_server_settings){dt_db_i64(db, 0), dt_db_i64(db, 1) != 0, dt_db_i64(db, 2), dt_db_i64(db, 3),
                                           dt_db_i64(db, 4)};
    return dt_db_end(db, err);
}

static dt_status take_ending(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_ending_numbers *ending = row;
    (void)arg;
    ending->table = dt_arena_copy(arena, dt_db_bytes(db, 0));
    ending->next = dt_arena_copy(arena, dt_db_bytes(db, 1));
    return ending->table.p && ending->next.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_ending_numbers(dt_store *store, struct dt_arena *arena, struct dt_ending_numbers **v, size_t *n,
                                  struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_ending_numbers), .read = take_ending};
    dt_status status = dt_store_read(store, dt_sql_select_ending_numbers, DT_NO_PARAMS, arena, &rows, err);
    *v = rows.v;
    *n = rows.n;
    return status;
}

/* ---- replicas ---- */

static dt_status take_settings(dt_db *db, const char *statement, struct dt_semi_sync *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, statement, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const struct dt_str name = dt_db_bytes(db, 0);
        const struct dt_str value = dt_db_bytes(db, 1);
        if (name.n > 0 && name.p[name.n - 1] == 's') { /* …_status */
            out->waits = dt_str_is(value, "ON");
        } else if (value.n > 0 && value.p[0] >= '0' && value.p[0] <= '9') {
            int64_t n = 0; /* INT64_MAX if the number is larger */
            for (size_t i = 0; i < value.n && value.p[i] >= '0' && value.p[i] <= '9'; i++)
                n = n > (INT64_MAX - 9) / 10 ? INT64_MAX : n * 10 + (value.p[i] - '0');
            out->alone_ms = n;
        } else {
            out->before_seen = dt_str_is(value, "AFTER_SYNC");
        }
    }
    return dt_db_end(db, err);
}

dt_status dt_store_semi_sync(dt_store *store, struct dt_semi_sync *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_semi_sync){0};
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = take_settings(db, dt_sql_select_semi_sync_settings, out, err);
    return status == DT_OK ? take_settings(db, dt_sql_select_semi_sync_status, out, err) : status;
}
