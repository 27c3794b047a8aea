/* See processes.h. A process that cannot reach Redis reports here that entries are missing, because the leaders may
 * reach Redis and would not notice. */

#include "mysql/statements.h"
#include "processes.h"
#include "store_internal.h"

#define OLD_MS 3600000

dt_status dt_store_beat(dt_store *store, const struct dt_process *p, struct dt_error *err)
{
    dt_db *db;
    uint64_t changed = 0;
    const char *waits = p->waits && p->waits[0] ? p->waits : NULL;
    const char *down = p->index_down && p->index_down[0] ? p->index_down : NULL;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, dt_db_run(db, dt_sql_put_process,
                              DT_PARAMS(DT_P_INT(p->id), DT_P_STR(dt_str(p->dispatcher ? "dispatcher" : "api")),
                                        DT_P_STR(dt_str(p->name)), DT_P_STR(DT_STR_LIT(DUETIME_VERSION)),
                                        DT_P_STR_OR_NULL(dt_str(down)), DT_P_INT(p->index_losses),
                                        DT_P_STR_OR_NULL(dt_str(p->leads)), DT_P_STR_OR_NULL(dt_str(waits)),
                                        DT_P_STR_OR_NULL(dt_str(p->elected_by))),
                              &changed, err));
    if (status == DT_OK && changed == 1) /* the row is new: the process has just started */
        status = dt_db_run(db, dt_sql_delete_old_processes, DT_PARAMS(DT_P_INT(OLD_MS)), NULL, err);
    return status;
}

dt_status dt_store_index_debts(dt_store *store, struct dt_index_debts *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_index_debts){0};
    dt_status status =
        dt_store_query(store, &db, dt_sql_select_index_debts, DT_PARAMS(DT_P_INT(DT_PROCESS_FRESH_MS)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const uint64_t losses = (uint64_t)dt_db_i64(db, 1);
        const struct dt_str down = dt_db_bytes(db, 2);
        const size_t n = strlen(out->down);
        if (down.n && n + down.n + 2 <= sizeof(out->down))
            snprintf(out->down + n, sizeof(out->down) - n, "%s%.*s", n ? "," : "", (int)down.n, down.p);
        else if (down.n) /* the list does not fit into `down` */
            strcpy(out->down, "*");
        /* Adds up hashes (splitmix64) of each process's id and losses. The sum changes if the losses of any process
         * change. */
        uint64_t z = (uint64_t)dt_db_i64(db, 0) + losses * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        out->losses += losses ? z ^ (z >> 31) : 0;
    }
    return dt_db_end(db, err);
}

static dt_status read_live_process(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_live_process *p = row;
    bool ok = true;
    *p = (struct dt_live_process){.id = dt_db_i64(db, 0),
                                  .dispatcher = dt_str_is(dt_db_bytes(db, 1), "dispatcher"),
                                  .name = dt_store_text(db, 2, arena, &ok),
                                  .version = dt_store_text(db, 3, arena, &ok),
                                  .started_at_ms = dt_db_i64(db, 4),
                                  .seen_ms_ago = dt_db_i64(db, 5),
                                  .leads = dt_store_text(db, 6, arena, &ok),
                                  .waits = dt_store_text(db, 7, arena, &ok),
                                  .index_down = dt_store_text(db, 8, arena, &ok)};
    return ok ? DT_OK : DT_NOMEM;
}

dt_status dt_store_processes(dt_store *store, struct dt_arena *arena, struct dt_live_process **out, size_t *n,
                             struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_processes, DT_PARAMS(DT_P_INT(DT_PROCESS_FRESH_MS)), arena,
                         DT_ROWS(out, n, read_live_process), err);
}

dt_status dt_store_can_insert(dt_store *store, unsigned table, struct dt_error *err)
{
    static const char *const nothing[DT_INSERT_TABLES] = {
        dt_sql_try_insert_job,
        dt_sql_try_insert_key,
        dt_sql_try_insert_counts,
    };
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    for (unsigned i = 0; status == DT_OK && i < DT_INSERT_TABLES; i++)
        if (table == i || table == DT_INSERT_TABLES)
            status = dt_db_run(db, nothing[i], DT_NO_PARAMS, NULL, err);
    return status;
}
