/*
 * The pieces of an operation that deletes a topic:
 *
 *     walk over `jobs` ─▶ none lives: the topic goes
 *       ▲    cancels what is scheduled,    └─▶ some are dispatched: look again in a second
 *       └──  ends the retries of the rest ◀──── some are scheduled
 *
 * Nothing is noted beforehand: a walk that begins anew changes what came meanwhile (of an API that had not heard yet,
 * by a redrive), and passes by what it has changed. The counters of the topic say whether jobs live.
 */
#include "mysql/statements.h"
#include "mysql/walk.h"
#include "operation_parts.h"

#define LOOK_MS 1000 /* between two looks at what is dispatched still */

/* Ends some of the jobs that live. The cursor moves to the last job that was found, or, if all were, to the end of the
 * window. */
static dt_status end_some(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                          struct dt_operation_piece *piece, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_operation_found), .read = dt_operation_read_found};
    int64_t end_id = INT64_MAX;
    bool cut;
    dt_status status =
        dt_walk_ids(txn->db, dt_sql_find_window_by_id, row->after_id, DT_OPERATION_WINDOW, &end_id, &cut, err);
    if (status == DT_OK)
        status = dt_db_query(txn->db, dt_sql_match_live_jobs,
                             DT_PARAMS(DT_P_STR(row->shown.topic_from), DT_P_INT(row->after_id), DT_P_INT(end_id),
                                       DT_P_INT(DT_OPERATION_PIECE)),
                             err);
    if (status == DT_OK)
        status = dt_store_read_rows(txn->db, txn->arena, &rows, err);
    if (status != DT_OK)
        return status;
    const struct dt_operation_finds found = {rows.v, rows.n};
    if (found.n == DT_OPERATION_PIECE)
        row->after_id = found.v[found.n - 1].id;
    else
        row->after_id = end_id;
    if (found.n < DT_OPERATION_PIECE && !cut)
        row->walk = DT_WALK_OVER;
    status = dt_operation_add_to_sample(row, &found, txn->arena, err);
    if (status == DT_OK)
        status = dt_operation_change_found(txn, row, &found, piece, err);
    row->shown.matched += piece->changed;
    return status;
}

dt_status dt_operation_delete_topic(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                    struct dt_operation_piece *piece, struct dt_error *err)
{
    int64_t scheduled = 0;
    int64_t dispatched = 0;
    if (row->walk == DT_WALK_JOBS)
        return end_some(txn, row, piece, err);
    dt_status status = dt_topic_count_live(txn->db, row->shown.topic_from, &scheduled, &dispatched, err);
    if (status != DT_OK)
        return status;
    if (scheduled <= 0 && dispatched <= 0) {
        const struct dt_str name = row->shown.topic_from;
        struct dt_str schedule = DT_STR_NONE;
        status = dt_topic_find_schedule(txn->db, name, txn->arena, &schedule, err);
        if (status == DT_OK && schedule.p)
            return dt_fail(err, DT_INVALID, "the schedule %.*s makes jobs of the topic", (int)schedule.n, schedule.p);
        if (status == DT_OK)
            status = dt_topic_remove(txn->db, name, txn->now_ms, err);
        if (status != DT_OK && status != DT_NOT_FOUND)
            return status;
        row->shown.state = DT_OPERATION_DONE;
        return DT_OK;
    }
    piece->wait_ms = LOOK_MS;
    if (scheduled > 0) {
        row->walk = DT_WALK_JOBS;
        row->after_id = 0;
    }
    return DT_OK;
}
