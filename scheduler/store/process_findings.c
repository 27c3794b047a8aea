/* See process_findings.h. */
#include "store/process_findings.h"

#include "store/sql/statements.h"
#include "store/store_internal.h"

#define OLD_MS 3600000

struct putting {
    int64_t process;
    const struct dt_process_finding *v;
    size_t n;
};

static dt_status put_one(dt_db *db, int64_t process, const struct dt_process_finding *f, int64_t now_ms,
                         struct dt_error *err)
{
    return dt_db_run(
        db, dt_sql_put_process_finding,
        DT_PARAMS(DT_P_INT(process), DT_P_STR(f->finding), DT_P_STR(f->subject), DT_P_STR(f->detail), DT_P_INT(now_ms)),
        NULL, err);
}

static dt_status put_all(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct putting *p = arg;
    dt_status status = dt_db_run(db, dt_sql_delete_process_findings, DT_PARAMS(DT_P_INT(p->process)), NULL, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_delete_old_process_findings, DT_PARAMS(DT_P_INT(now_ms - OLD_MS)), NULL, err);
    for (size_t i = 0; i < p->n && status == DT_OK; i++)
        status = put_one(db, p->process, &p->v[i], now_ms, err);
    return status;
}

dt_status dt_store_put_findings(dt_store *store, int64_t process, const struct dt_process_finding *v, size_t n,
                                struct dt_error *err)
{
    struct putting putting = {process, v, n};
    return dt_store_commit_work(store, NULL, put_all, &putting, err);
}

static dt_status read_finding(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_process_finding *f = row;
    (void)arg;
    *f = (struct dt_process_finding){.finding = dt_arena_copy(arena, dt_db_bytes(db, 0)),
                                     .subject = dt_arena_copy(arena, dt_db_bytes(db, 1)),
                                     .detail = dt_arena_copy(arena, dt_db_bytes(db, 2)),
                                     .process = dt_arena_copy(arena, dt_db_bytes(db, 3)),
                                     .found_at_ms = dt_db_i64(db, 4)};
    return f->finding.p && f->subject.p && f->detail.p && f->process.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_findings(dt_store *store, struct dt_arena *arena, struct dt_process_finding **out, size_t *n,
                            struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(**out), .read = read_finding};
    dt_status status =
        dt_store_read(store, dt_sql_select_process_findings,
                      DT_PARAMS(DT_P_INT(DT_PROCESS_FRESH_MS), DT_P_INT(DT_PROCESS_FINDINGS_MAX)), arena, &rows, err);
    *out = rows.v;
    *n = rows.n;
    return status;
}
