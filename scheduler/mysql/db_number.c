/* Queries of one row of numbers, or of one text, on db.h alone. */
#include "db.h"

dt_status dt_db_read_numbers(dt_db *db, const char *sql, struct dt_params params, bool *found, int64_t *v, unsigned n,
                             struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, err);
    *found = status == DT_OK && dt_db_next(db);
    for (unsigned i = 0; *found && i < n; i++)
        v[i] = dt_db_i64(db, i);
    return status == DT_OK ? dt_db_end(db, err) : status;
}

dt_status dt_db_read_number(dt_db *db, const char *sql, struct dt_params params, bool *found, int64_t *n,
                            struct dt_error *err)
{
    bool row;
    int64_t number = 0;
    dt_status status = dt_db_read_numbers(db, sql, params, &row, &number, n ? 1 : 0, err);
    if (found)
        *found = row;
    if (n)
        *n = number;
    return status;
}

dt_status dt_db_read_text(dt_db *db, const char *sql, struct dt_params params, struct dt_arena *arena,
                          struct dt_str *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, err);
    const struct dt_str text = status == DT_OK && dt_db_next(db) ? dt_db_bytes(db, 0) : DT_STR_NONE;
    const bool there = text.p;
    *out = there ? dt_arena_copy(arena, text) : DT_STR_NONE;
    if (status == DT_OK)
        status = dt_db_end(db, err);
    return status == DT_OK && there && !out->p ? dt_fail(err, DT_NOMEM, "out of memory") : status;
}
