/*
 * Notices that wait to leave for Kafka. They are written with the state change (store_results.c) and deleted once they
 * were sent; a job with a notice that waits is not purged.
 */
#include "store/results/outbox.h"

#include "store/db/db.h"
#include "store/db/id_list.h"
#include "store/jobs/store_row.h"
#include "store/sql/statements.h"

dt_status dt_store_outbox(dt_store *store, const struct dt_outbox_page *page, struct dt_arena *arena,
                          struct dt_notices *out, struct dt_error *err)
{
    dt_db *db;
    const size_t limit = page->limit;
    *out = (struct dt_notices){.v = dt_arena_alloc(arena, (limit ? limit : 1) * sizeof(*out->v))};
    dt_status status = out->v ? dt_store_db(store, &db, err) : DT_NOMEM;
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_select_notices,
                             DT_PARAMS(DT_P_INT(page->shard), DT_P_INT(page->after_id), DT_P_INT(limit)), err);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && out->n < limit && dt_db_next(db)) {
        struct dt_notice *notice = &out->v[out->n];
        *notice = (struct dt_notice){
            .outbox_id = dt_db_i64(db, 0), .attempt = dt_db_i64(db, 1), .made_at_ms = dt_db_i64(db, 2)};
        status = dt_row_full(db, 3, arena, &notice->job);
        out->n += status == DT_OK;
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return status == DT_OK ? end : status;
}

dt_status dt_store_outbox_waits(dt_store *store, bool *waits, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_db_read_number(db, dt_sql_find_notice, DT_NO_PARAMS, waits, NULL, err) : status;
}

dt_status dt_store_outbox_sent(dt_store *store, const int64_t *outbox_ids, size_t n, struct dt_error *err)
{
    dt_db *db;
    uint64_t removed;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_id_list_delete(db, dt_sql_delete_notices, DT_IDS(outbox_ids, n), &removed, err)
                           : status;
}
