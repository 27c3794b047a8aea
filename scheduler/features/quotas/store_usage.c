/* See quotas.h: what tokens were used for, and how many jobs are pending in which topics. */
#include <stdlib.h>

#include "mysql/statements.h"
#include "quotas.h"
#include "store/store_internal.h"

static int64_t day_of(int64_t now_ms)
{
    return now_ms - now_ms % DT_DAY_MS;
}

dt_status dt_store_usage_add(dt_store *store, const struct dt_usage *rows, size_t n, int64_t now_ms,
                             struct dt_error *err)
{
    enum { COLUMNS = 7 };
    dt_db *db = NULL;
    struct dt_param *params = calloc(n ? n : 1, COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    dt_status status = params ? dt_store_db(store, &db, err) : dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; params && i < n; i++) {
        const struct dt_usage *u = &rows[i];
        *p++ = DT_P_INT(day_of(now_ms));
        *p++ = DT_P_STR(u->token);
        *p++ = DT_P_INT(u->requests);
        *p++ = DT_P_INT(u->requests_refused);
        *p++ = DT_P_INT(u->jobs);
        *p++ = DT_P_INT(u->jobs_refused);
        *p++ = DT_P_INT(u->payload_bytes);
    }
    if (status == DT_OK && n > 0)
        status = dt_db_run_many(db, dt_sql_add_usage, (struct dt_param_rows){params, COLUMNS, n}, NULL, err);
    free(params);
    return status;
}

dt_status dt_store_usage_expire(dt_store *store, int64_t now_ms, struct dt_error *err)
{
    const int64_t before_ms = day_of(now_ms) - DT_USAGE_KEPT_DAYS * DT_DAY_MS;
    return dt_store_run(store, dt_sql_delete_old_usage, DT_PARAMS(DT_P_INT(before_ms)), NULL, err);
}

static dt_status read_usage(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_usage *u = row;
    (void)arg;
    *u = (struct dt_usage){dt_arena_copy(arena, dt_db_bytes(db, 0)),
                           dt_db_i64(db, 1),
                           dt_db_i64(db, 2),
                           dt_db_i64(db, 3),
                           dt_db_i64(db, 4),
                           dt_db_i64(db, 5)};
    return u->token.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_usage(dt_store *store, int64_t from_ms, struct dt_arena *arena, struct dt_usage **out, size_t *n,
                         struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(**out), .read = read_usage};
    dt_status status = dt_store_read(store, dt_sql_select_usage, DT_PARAMS(DT_P_INT(from_ms)), arena, &rows, err);
    *out = rows.v;
    *n = rows.n;
    return status;
}

static dt_status read_pending(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_topic_pending *p = row;
    (void)arg;
    *p = (struct dt_topic_pending){dt_arena_copy(arena, dt_db_bytes(db, 0)), dt_db_i64(db, 1)};
    return p->topic.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_pending(dt_store *store, struct dt_arena *arena, struct dt_topic_pending **out, size_t *n,
                           struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(**out), .read = read_pending};
    dt_status status = dt_store_read(store, dt_sql_select_pending_of_topics, DT_NO_PARAMS, arena, &rows, err);
    *out = rows.v;
    *n = rows.n;
    return status;
}
