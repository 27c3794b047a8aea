/* Messages about alerts: which are due, who sends one, what became of it. */
#include "base/json_write.h"
#include "job/owner.h"
#include "store/alerts/alerts.h"
#include "store/db/id_list.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

#define ERROR_BYTES 160 /* in any text they fit into the column */

static dt_status read_message(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_alert_message *m = row;
    struct dt_str topic = dt_db_bytes(db, 4);
    (void)arg;
    *m = (struct dt_alert_message){.id = dt_db_i64(db, 0),
                                   .event = (enum dt_alert_event)dt_db_i64(db, 2),
                                   .target = (enum dt_alert_target)(1u << (dt_db_i64(db, 3) - 1)),
                                   .made_at_ms = dt_db_i64(db, 9),
                                   .next_at_ms = dt_db_i64(db, 10),
                                   .tries = (int)dt_db_i64(db, 11),
                                   .setting = dt_arena_copy(arena, dt_db_bytes(db, 12)),
                                   .owner = dt_db_i64(db, 13)};
    if (topic.n && m->owner <= 0)
        m->owner = dt_owner_by_name(topic);
    m->alert = (struct dt_alert){.id = dt_db_i64(db, 1),
                                 .topic = topic.n ? dt_arena_copy(arena, topic) : DT_STR_NONE,
                                 .kind = (enum dt_alert_kind)dt_db_i64(db, 5),
                                 .value = dt_db_i64(db, 6),
                                 .limit = dt_db_i64(db, 7),
                                 .began_at_ms = dt_db_i64(db, 8)};
    return (topic.n && !m->alert.topic.p) || (!m->setting.p && !dt_db_is_null(db, 12)) ? DT_NOMEM : DT_OK;
}

dt_status dt_store_alert_messages(dt_store *store, bool kafka, struct dt_arena *arena, struct dt_alert_messages *out,
                                  struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_message};
    unsigned tries = 0;
    dt_db *db;
    dt_status status;
    *out = (struct dt_alert_messages){0};
    do {
        status = dt_store_db(store, &db, err);
        if (status == DT_OK)
            status = dt_db_query(db, dt_sql_select_alert_messages, DT_PARAMS(DT_P_INT(kafka)), err);
        if (status == DT_OK)
            status = dt_store_read_rows(db, arena, &rows, err);
        if (status == DT_OK)
            status = dt_db_query(db, dt_sql_find_next_alert_message, DT_PARAMS(DT_P_INT(kafka)), err);
        if (status != DT_OK)
            continue;
        if (dt_db_next(db)) {
            out->now_ms = dt_db_i64(db, 0);
            out->next_ms = dt_db_i64(db, 1);
        }
        status = dt_db_end(db, err);
    } while (dt_store_read_again(&tries, status));
    out->v = rows.v;
    out->n = status == DT_OK ? rows.n : 0;
    return status;
}

dt_status dt_store_alert_take(dt_store *store, const struct dt_alert_message *const *v, size_t n, int64_t lease_ms,
                              struct dt_error *err)
{
    struct dt_strbuf rows;
    uint64_t changed = 0;
    if (n == 0)
        return DT_OK;
    dt_strbuf_init(&rows);
    dt_json_begin_array(&rows, NULL);
    for (size_t i = 0; i < n; i++)
        DT_JSON_PUT_ROW(&rows, v[i]->id, v[i]->tries);
    dt_json_end_array(&rows);
    dt_status status = rows.failed
                           ? dt_fail(err, DT_NOMEM, "out of memory")
                           : dt_store_run(store, dt_sql_take_alert_messages,
                                          DT_PARAMS(DT_P_STR(dt_strbuf_str(&rows)), DT_P_INT(lease_ms)), &changed, err);
    dt_strbuf_clear(&rows);
    return status == DT_OK && changed != n ? dt_fail(err, DT_VERSION, "another process sends some of the messages")
                                           : status;
}

dt_status dt_store_alerts_free(dt_store *store, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_free_alert_messages, DT_NO_PARAMS, NULL, err);
}

dt_status dt_store_alert_sent(dt_store *store, const int64_t *ids, size_t n, struct dt_error *err)
{
    dt_db *db;
    uint64_t removed;
    dt_status status = n ? dt_store_db(store, &db, err) : DT_OK;
    return n && status == DT_OK ? dt_id_list_delete(db, dt_sql_delete_alert_messages, DT_IDS(ids, n), &removed, err)
                                : status;
}

dt_status dt_store_alert_failed(dt_store *store, const struct dt_alert_failure *v, size_t n, struct dt_error *err)
{
    struct dt_strbuf rows;
    if (n == 0)
        return DT_OK;
    dt_strbuf_init(&rows);
    dt_json_begin_array(&rows, NULL);
    for (size_t i = 0; i < n; i++) {
        dt_json_begin_array(&rows, NULL);
        dt_json_put_int(&rows, NULL, v[i].id);
        dt_json_put_int(&rows, NULL, v[i].after_ms);
        dt_json_put_cut(&rows, NULL, v[i].why, ERROR_BYTES);
        dt_json_end_array(&rows);
    }
    dt_json_end_array(&rows);
    dt_status status = rows.failed ? dt_fail(err, DT_NOMEM, "out of memory")
                                   : dt_store_run(store, dt_sql_fail_alert_messages,
                                                  DT_PARAMS(DT_P_STR(dt_strbuf_str(&rows))), NULL, err);
    dt_strbuf_clear(&rows);
    return status;
}
