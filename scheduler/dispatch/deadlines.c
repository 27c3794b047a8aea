/*
 * Deadlines of attempts that were sent: put off once their sending has eaten a part of their time.
 *
 * Invariants: a deadline never becomes earlier; only what the row still calls dispatched, with that attempt, is
 * touched; rows are locked in order of ids, and one that another session holds locked keeps its deadline: a session
 * that was left open must not hold up the shard.
 */
#include "deadlines.h"

#include "base/guard.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"

dt_status dt_deadlines_extend(dt_db *db, const struct dt_inflight *sent, int64_t now_ms, struct dt_seen_list *moved,
                              struct dt_error *err)
{
    const int64_t near_end_ms = dt_near_end_ms(now_ms);
    struct dt_strbuf list;
    struct dt_strbuf ids;
    if (DT_UNGUARDED(DEADLINE_RENEWED) || sent->n == 0)
        return DT_OK;
    dt_strbuf_init(&list);
    dt_strbuf_init(&ids);
    dt_status status = dt_inflight_format_by_id(sent->v, sent->n, &list);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_lock_sent, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list))), err);
    while (status == DT_OK && dt_db_next(db)) {
        struct dt_seen seen = {
            .id = dt_db_i64(db, 0), .hint_ms = dt_db_i64(db, 1), .next_ms = now_ms + dt_db_i64(db, 2)};
        dt_id_list_add(&ids, seen.id);
        if (moved && seen.next_ms > seen.hint_ms)
            moved->v[moved->n++] = seen;
    }
    dt_id_list_end(&ids);
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    if (status == DT_OK)
        status = end;
    if (status == DT_OK && ids.failed)
        status = DT_NOMEM;
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_extend_sent,
                           DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids)), DT_P_INT(near_end_ms), DT_P_INT(now_ms),
                                     DT_P_INT(near_end_ms), DT_P_INT(now_ms)),
                           NULL, err);
    dt_strbuf_clear(&list);
    dt_strbuf_clear(&ids);
    return status;
}
