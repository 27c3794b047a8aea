/* Implements operations.h: the transactions on operations, and which operation gets the next step. */

#include "base/fail_point.h"
#include "mysql/statements.h"
#include "operation_parts.h"

#define CLEAN_ROWS 5000
#define KEEP_MS    (30 * INT64_C(86400000)) /* time for which a finished operation is kept */

struct making {
    const struct dt_operation_ask *ask;
    struct dt_str actor;
    int64_t lease_ms;
    struct dt_arena *arena;
    struct dt_operation *out;
};

static dt_status create_operation_in_txn(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct making *m = arg;
    struct dt_operation_row row = dt_operation_row_of(m->ask, now_ms, m->arena);
    row.look_at_ms = now_ms + m->lease_ms;
    row.shown.actor = m->actor;
    if (!row.shown.topic_to.p)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_operation_enter(db, m->ask, &row, err);
    DT_THEN(status, dt_operation_event(db, &row.shown, m->actor, now_ms, "operation_start", err));
    if (status == DT_OK && m->ask->filter.n_ids) {
        struct dt_operation_finds found;
        status = dt_operation_find_listed(db, &row, m->ask, m->arena, &found, err);
        DT_THEN(status, dt_operation_note(db, &row, &found, m->arena, err));
        DT_THEN(status, dt_operation_row_write(db, &row, err));
    }
    return status == DT_OK ? dt_operation_show(db, row.shown.id, m->arena, m->out, err) : status;
}

dt_status dt_store_operation_make(dt_store *store, const struct dt_operation_ask *ask, int64_t lease_ms,
                                  struct dt_arena *arena, struct dt_operation *out, struct dt_error *err)
{
    struct making m = {.ask = ask, .actor = dt_store_actor(store), .lease_ms = lease_ms, .arena = arena, .out = out};
    return dt_store_commit_work(store, NULL, create_operation_in_txn, &m, err);
}

static dt_status read_operation_row(const dt_db *db, struct dt_arena *arena, void *out, void *arg)
{
    struct dt_operation *op = out;
    struct dt_operation_row row;
    dt_status status = dt_operation_row_read(db, arena, &row, arg);
    *op = row.shown;
    return status;
}

dt_status dt_store_operation_get(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                                 struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out), .read = read_operation_row};
    dt_status status = dt_store_read(store, dt_sql_select_operation, DT_PARAMS(DT_P_INT(id)), arena, &rows, err);
    if (status == DT_OK && rows.n == 0)
        return dt_fail(err, DT_NOT_FOUND, "no operation %lld", (long long)id);
    if (status == DT_OK)
        *out = *(const struct dt_operation *)rows.v;
    return status;
}

dt_status dt_store_operation_list(dt_store *store, int64_t below_id, struct dt_page_end end, struct dt_arena *arena,
                                  struct dt_operation_list *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_operation_row, .end = end};
    dt_status status = dt_store_read(store, dt_sql_select_operations, DT_PARAMS(DT_P_INT(below_id), DT_P_INT(end.rows)),
                                     arena, &rows, err);
    *out = (struct dt_operation_list){rows.v, rows.n, rows.more};
    return status;
}

struct ending {
    int64_t id;
    struct dt_str actor; /* actor who stops the operation */
    struct dt_str why;   /* reason why the operation failed; absent = the operation is stopped */
    struct dt_arena *arena;
    struct dt_operation *out; /* out, if the operation is stopped: the operation after the change */
};

static dt_status end_operation(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct ending *e = arg;
    const struct dt_param now = DT_P_INT(now_ms);
    const struct dt_param id = DT_P_INT(e->id);
    uint64_t ended = 0;
    dt_status status = e->why.p
                           ? dt_db_run(db, dt_sql_fail_operation, DT_PARAMS(DT_P_STR(e->why), now, now, id), NULL, err)
                           : dt_db_run(db, dt_sql_stop_operation, DT_PARAMS(now, now, id), &ended, err);
    const struct dt_operation op = {.id = e->id};
    if (status == DT_OK && ended)
        status = dt_operation_event(db, &op, e->actor, now_ms, "operation_stop", err);
    DT_THEN(status, dt_operation_keep_topic(db, e->id, now_ms, err));
    return status == DT_OK && e->out ? dt_operation_show(db, e->id, e->arena, e->out, err) : status;
}

dt_status dt_store_operation_stop(dt_store *store, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                                  struct dt_error *err)
{
    struct ending e = {.id = id, .actor = dt_store_actor(store), .arena = arena, .out = out};
    return dt_store_commit_work(store, NULL, end_operation, &e, err);
}

dt_status dt_store_operation_fail(dt_store *store, int64_t id, struct dt_str why, struct dt_error *err)
{
    return dt_store_commit_work(store, NULL, end_operation, &(struct ending){.id = id, .why = why}, err);
}

struct handing {
    int64_t id, wait_ms;
};

static dt_status hand_over_operation(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct handing *h = arg;
    return dt_db_run(db, dt_sql_hand_over_operation, DT_PARAMS(DT_P_INT(now_ms + h->wait_ms), DT_P_INT(h->id)), NULL,
                     err);
}

dt_status dt_store_operation_hand_over(dt_store *store, int64_t id, int64_t wait_ms, struct dt_error *err)
{
    return dt_store_commit_work(store, NULL, hand_over_operation, &(struct handing){id, dt_later(wait_ms, 0)}, err);
}

struct step {
    dt_store *store;
    struct dt_operation_piece *piece;
    int64_t wanted; /* id of the operation; 0 = any that is due */
    struct dt_arena *arena;
    struct dt_counts counts;
};

static dt_status run_next_piece(struct step *s, dt_db *db, int64_t now_ms, struct dt_operation_row *row,
                                struct dt_error *err)
{
    const struct dt_operation_txn txn = {s->store, db, now_ms, s->arena, &s->counts};
    struct dt_operation_piece *piece = s->piece;
    dt_status status;
    if (row->shown.kind == DT_OPERATION_DELETE_TOPIC)
        status = dt_operation_delete_topic(&txn, row, piece, err);
    else if (row->walk == DT_WALK_OVER)
        status = dt_operation_change(&txn, row, piece, err);
    else {
        struct dt_operation_finds found;
        status = dt_operation_find(db, row, s->arena, &found, err);
        DT_THEN(status, dt_operation_note(db, row, &found, s->arena, err));
        row->after_at_ms = 0;
    }
    if (status != DT_OK)
        return status;
    row->look_at_ms = now_ms + (piece->wait_ms > piece->lease_ms ? piece->wait_ms : piece->lease_ms);
    if (row->shown.state == DT_OPERATION_DONE) {
        row->shown.finished_at_ms = now_ms;
        row->look_at_ms = now_ms;
    }
    return DT_OK;
}

static dt_status run_operation_step(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct step *s = arg;
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_operation_row), .read = dt_operation_row_read};
    bool gone = false;
    *s->piece = (struct dt_operation_piece){.owner = s->piece->owner, .lease_ms = s->piece->lease_ms};
    dt_status status = s->wanted ? dt_db_query(db, dt_sql_lock_operation, DT_PARAMS(DT_P_INT(s->wanted)), err)
                                 : dt_db_query(db, dt_sql_lock_due_operation,
                                               DT_PARAMS(DT_P_INT(s->piece->owner), DT_P_INT(now_ms)), err);
    DT_THEN(status, dt_store_read_rows(db, s->arena, &rows, err));
    if (status != DT_OK || rows.n == 0)
        return status;
    struct dt_operation_row row = *(const struct dt_operation_row *)rows.v;
    s->piece->id = row.shown.id;
    if (row.shown.state == DT_OPERATION_RUNNING)
        status = run_next_piece(s, db, now_ms, &row, err);
    else if (!s->wanted) { /* deletes found jobs of a finished operation; at the end, its row */
        const struct dt_param id = DT_P_INT(row.shown.id);
        const int64_t end_ms = row.shown.finished_at_ms + KEEP_MS;
        uint64_t removed = 0;
        gone = row.look_at_ms >= end_ms;
        status = gone ? dt_db_run(db, dt_sql_delete_operation, DT_PARAMS(id), NULL, err)
                      : dt_db_run(db, dt_sql_delete_operation_jobs, DT_PARAMS(id, DT_P_INT(CLEAN_ROWS)), &removed, err);
        row.look_at_ms = removed == CLEAN_ROWS ? now_ms : end_ms;
    }
    s->piece->shown = row.shown;
    if (status == DT_OK && !gone)
        status = dt_operation_row_write(db, &row, err);
    if (s->piece->changed)
        DT_FAIL_POINT_STATUS("operation.written", status, err);
    return status;
}

dt_status dt_store_operation_step(dt_store *store, struct dt_operation_piece *piece, struct dt_arena *arena,
                                  struct dt_error *err)
{
    struct step s = {.store = store, .piece = piece, .wanted = piece->id, .arena = arena};
    dt_status status = dt_store_commit_work(store, &s.counts, run_operation_step, &s, err);
    if (status != DT_OK)
        piece->n_moves = 0;
    return status;
}

static dt_status read_owner_turn(const dt_db *db, struct dt_arena *, void *row, void *)
{
    *(struct dt_operation_turn *)row =
        (struct dt_operation_turn){dt_db_i64(db, 0), dt_db_is_null(db, 1) ? INT64_MAX : dt_db_i64(db, 1)};
    return DT_OK;
}

dt_status dt_store_operation_turns(dt_store *store, struct dt_arena *arena, struct dt_operation_turn **out, size_t *n,
                                   struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_operation_turns, DT_NO_PARAMS, arena, DT_ROWS(out, n, read_owner_turn),
                         err);
}

dt_status dt_store_operation_preview(dt_store *store, struct dt_operation_preview *p, struct dt_arena *arena,
                                     struct dt_error *err)
{
    dt_db *db;
    struct dt_operation_finds found = {0};
    dt_status status = dt_store_begin(store, &db, p->started_ms ? NULL : &p->started_ms, err);
    if (status != DT_OK)
        return status;
    struct dt_operation_row row = dt_operation_row_of(p->ask, p->started_ms, arena);
    row.walk = p->walk ? (enum dt_operation_walk)p->walk : row.walk;
    row.after_id = p->after_id;
    row.after_key = p->after_key;
    if (!row.shown.topic_to.p)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    else if (p->ask->filter.n_ids)
        status = dt_operation_find_listed(db, &row, p->ask, arena, &found, err);
    else
        status = dt_operation_find(db, &row, arena, &found, err);
    dt_db_rollback(db);
    for (size_t i = 0; status == DT_OK && i < found.n; i++, p->matched++)
        if (p->matched < DT_OPERATION_SAMPLE)
            p->ids[p->matched] = found.v[i].id;
    p->walk = (int)row.walk;
    p->after_id = row.after_id;
    p->after_key = row.after_key;
    p->over = row.walk == DT_WALK_OVER;
    return status;
}
