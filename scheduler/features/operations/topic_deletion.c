/* Implements the part of operations.h that deletes topics. A deletion locks the row of the installation, as all changes
 * of topics do. */

#include "events/events.h"
#include "mysql/statements.h"
#include "mysql/walk.h"
#include "operation_parts.h"
#include "topic/topics.h"

#define REMEMBERED_MS INT64_C(86400000)
#define REVIVED_MOST  100

struct deleting {
    struct dt_str name;
    struct dt_arena *arena;
    struct dt_topic_deletion *out;
    struct dt_str actor;
};

static dt_status lock_topic(dt_db *db, struct dt_str name, struct dt_error *err)
{
    bool there = false;
    dt_status status = dt_db_read_number(db, dt_sql_lock_topics, DT_NO_PARAMS, NULL, NULL, err);
    DT_THEN(status, dt_db_read_number(db, dt_sql_find_topic, DT_PARAMS(DT_P_STR(name)), &there, NULL, err));
    return status == DT_OK && !there ? dt_fail(err, DT_NOT_FOUND, "no such topic") : status;
}

static dt_status delete_topic_row(dt_db *db, struct dt_str topic, int64_t now_ms, struct dt_error *err)
{
    const struct dt_param name = DT_P_STR(topic);
    dt_status status = dt_db_run(db, dt_sql_delete_topic, DT_PARAMS(name), NULL, err);
    DT_THEN(status, dt_db_run(db, dt_sql_remember_deleted_topic, DT_PARAMS(name, DT_P_INT(now_ms)), NULL, err));
    DT_THEN(status,
            dt_db_run(db, dt_sql_forget_deleted_topics, DT_PARAMS(DT_P_INT(now_ms - REMEMBERED_MS)), NULL, err));
    return status == DT_OK ? dt_topics_raise_version(db, err) : status;
}

/* Deletes the gate, then locks the topic. The lock of the gate must be taken before the lock of the installation. */
static dt_status lock_gate_and_topic(dt_db *db, struct dt_str name, struct dt_error *err)
{
    dt_status status = dt_db_run(db, dt_sql_delete_gate, DT_PARAMS(DT_P_STR(name)), NULL, err);
    return status == DT_OK ? lock_topic(db, name, err) : status;
}

static dt_status count_live_jobs(dt_db *db, struct dt_str name, int64_t *scheduled, int64_t *dispatched,
                                 struct dt_error *err)
{
    int64_t counts[2] = {0};
    bool any;
    dt_status status = dt_db_read_numbers(db, dt_sql_count_live_jobs, DT_PARAMS(DT_P_STR(name)), &any, counts, 2, err);
    *scheduled = counts[0];
    *dispatched = counts[1];
    return status;
}

/* Finds a schedule that creates jobs in a topic. *schedule is absent if there is none. */
static dt_status find_schedule(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_str *schedule,
                               struct dt_error *err)
{
    return dt_db_read_text(db, dt_sql_find_schedule_of_topic, DT_PARAMS(DT_P_STR(name)), arena, schedule, err);
}

static dt_status delete_topic_if_unused(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct deleting *d = arg;
    struct dt_topic_deletion *out = d->out;
    int64_t dispatched = 0;
    *out = (struct dt_topic_deletion){0};
    dt_status status = lock_gate_and_topic(db, d->name, err);
    DT_THEN(status, find_schedule(db, d->name, d->arena, &out->schedule, err));
    DT_THEN(status, count_live_jobs(db, d->name, &out->jobs, &dispatched, err));
    out->jobs += dispatched;
    out->keeper = out->schedule.p ? DT_TOPIC_HAS_SCHEDULE : out->jobs > 0 ? DT_TOPIC_HAS_JOBS : DT_TOPIC_GOES;
    /* The topic is kept, so its gate must be kept, too: this status rolls the transaction back. */
    if (status == DT_OK && out->keeper)
        return dt_fail(err, DT_EXISTS, "the topic is in use");
    DT_THEN(status, delete_topic_row(db, d->name, now_ms, err));
    if (status != DT_OK || !d->actor.p)
        return status;
    const struct dt_topic gone = {.name = d->name, .retention_ms = -1};
    const struct dt_job_event event = {.at_ms = now_ms, .actor = d->actor, .action = DT_STR_LIT("topic_delete")};
    return dt_event_of_topic(db, &event, &gone, NULL, err);
}

dt_status dt_store_topic_delete(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                struct dt_topic_deletion *out, struct dt_error *err)
{
    struct deleting d = {name, arena, out, dt_store_actor(store)};
    dt_status status = dt_store_commit_work(store, NULL, delete_topic_if_unused, &d, err);
    return status == DT_EXISTS && out->keeper ? DT_OK : status;
}

struct marking {
    struct deleting deleting;
    struct dt_operation_ask ask;
    int64_t lease_ms;
};

/* Creates the operation, and marks the topic as being deleted by it. */
static dt_status mark_topic_being_deleted(dt_db *db, const struct marking *m, int64_t now_ms, int64_t *id,
                                          struct dt_error *err)
{
    const struct deleting *d = &m->deleting;
    struct dt_operation_row row = dt_operation_row_of(&m->ask, now_ms, d->arena);
    row.look_at_ms = now_ms + m->lease_ms;
    row.shown.actor = d->actor;
    dt_status status =
        m->ask.request.p ? dt_operation_enter(db, &m->ask, &row, err) : dt_fail(err, DT_NOMEM, "out of memory");
    *id = row.shown.id;
    DT_THEN(status, dt_operation_event(db, &row.shown, d->actor, now_ms, "operation_start", err));
    DT_THEN(status,
            dt_db_run(db, dt_sql_mark_topic, DT_PARAMS(DT_P_INT(*id), DT_P_INT(now_ms), DT_P_STR(d->name)), NULL, err));
    return status == DT_OK ? dt_topics_raise_version(db, err) : status;
}

static dt_status begin_topic_deletion(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct marking *m = arg;
    const struct deleting *d = &m->deleting;
    int64_t id = 0;
    *d->out = (struct dt_topic_deletion){0};
    dt_status status = lock_topic(db, d->name, err);
    DT_THEN(status, find_schedule(db, d->name, d->arena, &d->out->schedule, err));
    if (status == DT_OK && d->out->schedule.p) {
        d->out->keeper = DT_TOPIC_HAS_SCHEDULE;
        return DT_OK;
    }
    DT_THEN(status, dt_db_read_number(db, dt_sql_find_deletion, DT_PARAMS(DT_P_STR(d->name)), NULL, &id, err));
    if (status == DT_OK && id == 0)
        status = mark_topic_being_deleted(db, m, now_ms, &id, err);
    return status == DT_OK ? dt_operation_show(db, id, d->arena, &d->out->operation, err) : status;
}

dt_status dt_store_topic_delete_with_jobs(dt_store *store, const struct dt_operation_ask *ask, int64_t lease_ms,
                                          struct dt_arena *arena, struct dt_topic_deletion *out, struct dt_error *err)
{
    const struct dt_str name = ask->filter.topic;
    struct marking m = {{name, arena, out, dt_store_actor(store)}, *ask, lease_ms};
    m.ask.kind = DT_OPERATION_DELETE_TOPIC;
    m.ask.request = dt_arena_printf(arena, "{\"topic\":\"%.*s\"}", (int)name.n, name.p);
    return dt_store_commit_work(store, NULL, begin_topic_deletion, &m, err);
}

dt_status dt_operation_keep_topic(dt_db *db, int64_t id, int64_t now_ms, struct dt_error *err)
{
    char name[DT_TOPIC_MAX + 1];
    uint64_t changed = 0;
    dt_status status = dt_db_query(db, dt_sql_find_deleted_topic, DT_PARAMS(DT_P_INT(id)), err);
    if (status != DT_OK)
        return status;
    const struct dt_str text = dt_db_next(db) ? dt_db_bytes(db, 0) : DT_STR_NONE; /* absent: the operation does not
                                                                                   * delete a topic */
    snprintf(name, sizeof(name), "%.*s", (int)text.n, text.p ? text.p : "");
    status = dt_db_end(db, err);
    if (status != DT_OK || !*name)
        return status;
    status = lock_topic(db, dt_str(name), err);
    if (status == DT_NOT_FOUND)
        return DT_OK;
    DT_THEN(status, dt_db_run(db, dt_sql_unmark_topic,
                              DT_PARAMS(DT_P_INT(now_ms), DT_P_STR(dt_str(name)), DT_P_INT(id)), &changed, err));
    return status == DT_OK && changed ? dt_topics_raise_version(db, err) : status;
}

static dt_status read_deleted_name(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_str *name = row;
    *name = dt_arena_copy(arena, dt_db_bytes(db, 0));
    return name->p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_topics_revive(dt_store *store, struct dt_arena *arena, size_t *n, struct dt_error *err)
{
    struct dt_rows names = {.row_bytes = sizeof(struct dt_str), .read = read_deleted_name};
    *n = 0;
    dt_status status =
        dt_store_read(store, dt_sql_find_wanted_topics, DT_PARAMS(DT_P_INT(REVIVED_MOST)), arena, &names, err);
    for (size_t i = 0; status == DT_OK && i < names.n; i++, ++*n)
        status = dt_store_topic_ensure(store, ((const struct dt_str *)names.v)[i], NULL, err);
    return status;
}

/*
 * ---- the pieces of an operation that deletes a topic ----
 *
 *     walk over `jobs` ─▶ no job is unfinished: delete the topic
 *       ▲    cancels scheduled jobs,       └─▶ some are dispatched: check again in a second
 *       └──  ends the retries of others ◀───── some are scheduled
 *
 * Found jobs are not stored. Instead, a further walk changes jobs that were added meanwhile (by an API with an old
 * snapshot, or by a redrive), and skips jobs that were changed before. The counters of the topic say whether it has
 * unfinished jobs.
 */

#define LOOK_MS 1000 /* pause between two checks of dispatched jobs */

/* Ends some unfinished jobs of the next window. Moves the cursor to the last of these jobs, or to the end of the window
 * if the window has no others. */
static dt_status end_some_jobs(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                               struct dt_operation_piece *piece, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_operation_found), .read = dt_operation_read_found};
    int64_t end_id = INT64_MAX;
    bool cut;
    dt_status status =
        dt_walk_ids(txn->db, dt_sql_find_window_by_id, row->after_id, DT_OPERATION_WINDOW, &end_id, &cut, err);
    DT_THEN(status, dt_db_query(txn->db, dt_sql_match_live_jobs,
                                DT_PARAMS(DT_P_STR(row->shown.topic_from), DT_P_INT(row->after_id), DT_P_INT(end_id),
                                          DT_P_INT(DT_OPERATION_PIECE)),
                                err));
    DT_THEN(status, dt_store_read_rows(txn->db, txn->arena, &rows, err));
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
    DT_THEN(status, dt_operation_change_found(txn, row, &found, piece, err));
    row->shown.matched += piece->changed;
    return status;
}

dt_status dt_operation_delete_topic(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                    struct dt_operation_piece *piece, struct dt_error *err)
{
    int64_t scheduled = 0;
    int64_t dispatched = 0;
    if (row->walk == DT_WALK_JOBS)
        return end_some_jobs(txn, row, piece, err);
    dt_status status = count_live_jobs(txn->db, row->shown.topic_from, &scheduled, &dispatched, err);
    if (status != DT_OK)
        return status;
    if (scheduled <= 0 && dispatched <= 0) {
        const struct dt_str name = row->shown.topic_from;
        struct dt_str schedule = DT_STR_NONE;
        status = find_schedule(txn->db, name, txn->arena, &schedule, err);
        if (status == DT_OK && schedule.p)
            return dt_fail(err, DT_INVALID, "the schedule %.*s creates jobs in the topic", (int)schedule.n, schedule.p);
        DT_THEN(status, lock_gate_and_topic(txn->db, name, err));
        DT_THEN(status, delete_topic_row(txn->db, name, txn->now_ms, err));
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
