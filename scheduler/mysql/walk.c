/* Reads that use only db.h: one row of numbers, one text, and the bounded walk (walk.h). */
#include "walk.h"

#include "mysql/statements.h"

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
    DT_THEN(status, dt_db_end(db, err));
    return status == DT_OK && there && !out->p ? dt_fail(err, DT_NOMEM, "out of memory") : status;
}

dt_status dt_walk_ids(dt_db *db, const char *sql, int64_t after_id, int64_t rows, int64_t *end_id, bool *cut,
                      struct dt_error *err)
{
    int64_t id;
    dt_status status = dt_db_read_number(db, sql, DT_PARAMS(DT_P_INT(after_id), DT_P_INT(rows - 1)), cut, &id, err);
    if (*cut && id < *end_id)
        *end_id = id;
    return status;
}

dt_status dt_walk_times(dt_db *db, const char *sql, struct dt_walk_place after, int64_t rows, struct dt_walk_place *end,
                        bool *cut, struct dt_error *err)
{
    int64_t place[2];
    dt_status status =
        dt_db_read_numbers(db, sql, DT_PARAMS(DT_P_PLACE(after), DT_P_INT(rows - 1)), cut, place, 2, err);
    if (*cut)
        *end = (struct dt_walk_place){place[0], place[1]};
    return status;
}

/* Sets the bounds of a window: it begins after the last key of the previous window, or with the first key. */
struct dt_param *dt_walk_key_params(const struct dt_walk_keys *keys, struct dt_param *p)
{
    return dt_params_add(p, DT_PARAMS(DT_P_STR(keys->topic), DT_P_STR(keys->after.p ? keys->after : keys->first),
                                      DT_P_STR(keys->end), DT_P_INT(!keys->after.p),
                                      DT_P_STR(keys->after.p ? keys->after : DT_STR_LIT(""))));
}

dt_status dt_walk_by_key(dt_db *db, const struct dt_walk_keys *keys, int64_t rows, struct dt_arena *arena,
                         struct dt_str *end_key, struct dt_error *err)
{
    struct dt_param params[DT_WALK_KEY_PARAMS + 1];
    *dt_walk_key_params(keys, params) = DT_P_INT(rows - 1);
    return dt_db_read_text(db, dt_sql_find_window_by_key, (struct dt_params){params, DT_WALK_KEY_PARAMS + 1}, arena,
                           end_key, err);
}
