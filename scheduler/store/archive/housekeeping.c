/*
 * Housekeeping in bounded steps: what comes near is indexed exactly, what manual edits finished is tidied. Each step is
 * one short transaction over at most `limit` rows and can be repeated or cut off at any point. What leaves `jobs` is
 * archiver.c's.
 */
#include "store/archive/housekeeping.h"

#include "store/archive/housekeeping_shared.h"
#include "store/db/db.h"
#include "store/db/id_list.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

dt_status dt_select_ids(dt_db *db, const char *sql, struct dt_params params, struct dt_found_ids *ids,
                        struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, err);
    if (status != DT_OK)
        return status;
    for (ids->n = 0; dt_db_next(db); ids->n++)
        dt_id_list_add(&ids->list, dt_db_i64(db, 0));
    dt_id_list_end(&ids->list);
    status = dt_db_end(db, err);
    return status == DT_OK && ids->list.failed ? DT_NOMEM : status;
}

dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_found_ids ids = {.n = 0};
    int64_t end_ms = dt_near_end_ms(now_ms);
    uint64_t changed = 0;
    dt_strbuf_init(&ids.list);
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_select_ids(db, dt_sql_select_coming_near, DT_PARAMS(DT_P_INT(end_ms), DT_P_INT(limit)), &ids, err);
    if (status == DT_OK && ids.n)
        status = dt_db_run(db, dt_sql_promote_jobs, DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids.list)), DT_P_INT(end_ms)),
                           &changed, err);
    *done = ids.n;
    dt_strbuf_clear(&ids.list);
    return status;
}

dt_status dt_store_give_up_notices(dt_store *store, int64_t before_ms, size_t limit, size_t *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_found_ids ids = {.n = 0};
    dt_strbuf_init(&ids.list);
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status =
            dt_select_ids(db, dt_sql_select_old_notices, DT_PARAMS(DT_P_INT(before_ms), DT_P_INT(limit)), &ids, err);
    if (status == DT_OK && ids.n)
        status = dt_db_run(db, dt_sql_delete_notices, DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids.list))), NULL, err);
    *done = ids.n;
    dt_strbuf_clear(&ids.list);
    return status;
}

dt_status dt_tidy_list(dt_store *store, dt_db *db, struct dt_str ids, uint64_t *changed, struct dt_error *err)
{
    const struct dt_config *config = dt_store_config(store);
    return dt_db_run(db, dt_sql_tidy_jobs,
                     DT_PARAMS(DT_P_STR(ids), DT_P_INT(config->history_dead_after), DT_P_INT(config->history_after)),
                     changed, err);
}

dt_status dt_store_tidy(dt_store *store, const int64_t *ids, size_t n, size_t *done, struct dt_error *err)
{
    dt_db *db;
    uint64_t changed = 0;
    struct dt_strbuf list;
    *done = 0;
    if (n == 0)
        return DT_OK;
    dt_strbuf_init(&list);
    for (size_t i = 0; i < n; i++)
        dt_id_list_add(&list, ids[i]);
    dt_id_list_end(&list);
    dt_status status = list.failed ? DT_NOMEM : dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_tidy_list(store, db, dt_strbuf_str(&list), &changed, err);
    *done = (size_t)changed;
    dt_strbuf_clear(&list);
    return status;
}
