/* Changes of topics queue behind the row of the installation, this one, too. See topic_deletion.h. */
#include "store/operations/topic_deletion.h"

#include "store/sql/statements.h"
#include "store/store_internal.h"

#define REMEMBERED_MS INT64_C(86400000)
#define REVIVED_MOST  100

struct deleting {
    struct dt_str name;
    struct dt_arena *arena;
    struct dt_topic_deletion *out;
};

static dt_status lock_topic(dt_db *db, struct dt_str name, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_lock_topics, DT_NO_PARAMS, err);
    if (status == DT_OK)
        status = dt_db_end(db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_find_topic, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    bool there = dt_db_next(db);
    status = dt_db_end(db, err);
    return status == DT_OK && !there ? dt_fail(err, DT_NOT_FOUND, "no such topic") : status;
}

static dt_status count_live(dt_db *db, struct dt_str name, int64_t *n, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_count_live_jobs, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    *n = dt_db_next(db) ? dt_db_i64(db, 0) : 0;
    return dt_db_end(db, err);
}

static dt_status find_schedule(dt_db *db, const struct deleting *d, struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_find_schedule_of_topic, DT_PARAMS(DT_P_STR(d->name)), err);
    if (status != DT_OK)
        return status;
    bool there = dt_db_next(db);
    d->out->schedule = there ? dt_arena_copy(d->arena, dt_db_bytes(db, 0)) : DT_STR_NONE;
    status = dt_db_end(db, err);
    return status == DT_OK && there && !d->out->schedule.p ? dt_fail(err, DT_NOMEM, "out of memory") : status;
}

static dt_status find_keeper(dt_db *db, const struct deleting *d, struct dt_error *err)
{
    struct dt_topic_deletion *out = d->out;
    dt_status status = find_schedule(db, d, err);
    if (status == DT_OK)
        status = count_live(db, d->name, &out->jobs, err);
    out->keeper = out->schedule.p ? DT_TOPIC_HAS_SCHEDULE : out->jobs > 0 ? DT_TOPIC_HAS_JOBS : DT_TOPIC_GOES;
    return status;
}

static dt_status delete_topic(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct deleting *d = arg;
    const struct dt_param name = DT_P_STR(d->name);
    *d->out = (struct dt_topic_deletion){0};
    dt_status status = dt_db_run(db, dt_sql_delete_gate, DT_PARAMS(name), NULL, err); /* before any other lock */
    if (status == DT_OK)
        status = lock_topic(db, d->name, err);
    if (status == DT_OK)
        status = find_keeper(db, d, err);
    if (status != DT_OK || d->out->keeper)
        return status;
    status = dt_db_run(db, dt_sql_delete_topic, DT_PARAMS(name), NULL, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_remember_deleted_topic, DT_PARAMS(name, DT_P_INT(now_ms)), NULL, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_forget_deleted_topics, DT_PARAMS(DT_P_INT(now_ms - REMEMBERED_MS)), NULL, err);
    return status == DT_OK ? dt_db_run(db, dt_sql_raise_topics_version, DT_NO_PARAMS, NULL, err) : status;
}

/* A gate that was deleted before the topic was found to stay must stay as well: that is rolled back. */
static dt_status delete_or_leave(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct deleting *d = arg;
    dt_status status = delete_topic(arg, db, now_ms, err);
    return status == DT_OK && d->out->keeper ? dt_fail(err, DT_EXISTS, "the topic is in use") : status;
}

dt_status dt_store_topic_delete(dt_store *store, struct dt_str name, struct dt_arena *arena,
                                struct dt_topic_deletion *out, struct dt_error *err)
{
    struct deleting d = {name, arena, out};
    dt_status status = dt_store_commit_work(store, NULL, delete_or_leave, &d, err);
    return status == DT_EXISTS && out->keeper ? DT_OK : status;
}

/* ---- those that got a job all the same ---- */

static dt_status read_name(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_str *name = row;
    (void)arg;
    *name = dt_arena_copy(arena, dt_db_bytes(db, 0));
    return name->p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_topics_revive(dt_store *store, struct dt_arena *arena, size_t *n, struct dt_error *err)
{
    struct dt_rows names = {.row_bytes = sizeof(struct dt_str), .read = read_name};
    dt_db *db;
    *n = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_find_wanted_topics, DT_PARAMS(DT_P_INT(REVIVED_MOST)), err);
    if (status == DT_OK)
        status = dt_store_read_rows(db, arena, &names, err);
    for (size_t i = 0; status == DT_OK && i < names.n; i++, ++*n)
        status = dt_store_topic_ensure(store, ((const struct dt_str *)names.v)[i], NULL, err);
    return status;
}
