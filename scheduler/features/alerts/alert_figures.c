/*
 * What alerts are about: the installation's small tables, watched in the server; topics and their counters; the index
 * of what is due, a slice at a time.
 */
#include <stdio.h>

#include "alerts.h"
#include "base/assert.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/owners.h"

#define SLICE_ROWS 10000

/* ---- the installation ---- */

static dt_status ask_watch(dt_store *store, dt_db *db, void *arg, struct dt_error *err)
{
    (void)store;
    return dt_db_query_index(db, dt_sql_watch_alerts, *(const struct dt_params *)arg, err);
}

dt_status dt_store_watch_alerts(dt_store *store, int64_t process, const struct dt_alert_watched *was, int64_t wait_ms,
                                struct dt_alert_watched *out, struct dt_error *err)
{
    char known[DT_ALERT_INSTALLATION_KINDS * 21 + 1] = ""; /* as the procedure writes its figures */
    size_t n = 0;
    for (int i = 0; was && i < DT_ALERT_INSTALLATION_KINDS; i++)
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%lld", i ? "," : "", (long long)was->figures[i]);
    dt_assert_cmp(n, <, sizeof(known));
    const struct dt_params params = DT_PARAMS(DT_P_INT(process), DT_P_INT(was ? was->topics_version : 0),
                                              DT_P_STR(((struct dt_str){known, n})), DT_P_INT(wait_ms));
    dt_db *db;
    *out = (struct dt_alert_watched){0};
    dt_status status = dt_store_first(store, &db, ask_watch, (void *)(uintptr_t)&params, err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(db)) {
        out->ours = dt_db_i64(db, 0) != 0;
        out->now_ms = dt_db_i64(db, 1);
        out->topics_version = dt_db_i64(db, 2);
        for (unsigned i = 0; i < DT_ALERT_INSTALLATION_KINDS; i++)
            out->figures[i] = dt_db_i64(db, 3 + i);
        out->from_dead = dt_db_i64(db, 3 + DT_ALERT_INSTALLATION_KINDS) != 0;
    }
    return dt_db_end(db, err);
}

/* ---- topics ---- */

static dt_status copy_texts(const dt_db *db, struct dt_arena *arena, struct dt_str *first, struct dt_str *second)
{
    *first = dt_arena_copy(arena, dt_db_bytes(db, 0));
    if (second)
        *second = dt_arena_copy(arena, dt_db_bytes(db, 1));
    bool failed = !first->p || (second && !second->p && !dt_db_is_null(db, 1));
    return failed ? DT_NOMEM : DT_OK;
}

static dt_status read_topic(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_alert_topic *t = row;
    (void)arg;
    t->owner = dt_db_i64(db, 2) > 0 ? dt_db_i64(db, 2) : dt_owner_by_name(dt_db_bytes(db, 0));
    return copy_texts(db, arena, &t->name, &t->alerts);
}

dt_status dt_store_alert_topics(dt_store *store, bool all, struct dt_arena *arena, struct dt_alert_topics *out,
                                struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_topic};
    dt_status status = dt_store_read(store, all ? dt_sql_select_all_alert_topics : dt_sql_select_alert_topics,
                                     DT_NO_PARAMS, arena, &rows, err);
    *out = (struct dt_alert_topics){rows.v, rows.n};
    return status;
}

static dt_status read_count(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_alert_count *c = row;
    (void)arg;
    *c = (struct dt_alert_count){
        .scheduled = dt_db_i64(db, 1), .dispatched = dt_db_i64(db, 2), .dead = dt_db_i64(db, 3)};
    return copy_texts(db, arena, &c->topic, NULL);
}

dt_status dt_store_alert_counts(dt_store *store, struct dt_str names, struct dt_arena *arena,
                                struct dt_alert_counts *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_count};
    dt_status status =
        dt_store_read(store, dt_sql_count_alert_jobs, DT_PARAMS(DT_P_STR(names), DT_P_STR(names)), arena, &rows, err);
    *out = (struct dt_alert_counts){rows.v, rows.n};
    return status;
}

/* ---- the walk ---- */

static dt_status walk_slice(dt_db *db, struct dt_alert_walk *walk, struct dt_error *err)
{
    const struct dt_param now = DT_P_INT(walk->now_ms);
    const struct dt_param from = DT_P_INT(walk->from_key);
    const struct dt_param id = DT_P_INT(walk->behind_id);
    const struct dt_param to = DT_P_INT(walk->to_key);
    const struct dt_param rows = DT_P_INT(SLICE_ROWS - 1);
    int64_t last_key = walk->to_key;
    int64_t last_id = INT64_MAX;
    dt_status status = dt_db_query_index(db, dt_sql_find_alert_slice,
                                         DT_PARAMS(from, from, id, to, rows, from, from, id, to, rows), err);
    if (status != DT_OK)
        return status;
    walk->over = !dt_db_next(db);
    if (!walk->over) {
        last_key = dt_db_i64(db, 0);
        last_id = dt_db_i64(db, 1);
    }
    status = dt_db_end(db, err);
    if (status == DT_OK)
        status = dt_db_query(
            db, dt_sql_walk_alert_jobs,
            DT_PARAMS(now, now, from, from, id, DT_P_INT(last_key), DT_P_INT(last_key), DT_P_INT(last_id)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const struct dt_alert_walked w = {dt_db_bytes(db, 0), dt_db_i64(db, 1), dt_db_i64(db, 2), dt_db_i64(db, 3)};
        walk->found(walk->arg, &w);
    }
    walk->from_key = last_key;
    walk->behind_id = last_id;
    return dt_db_end(db, err);
}

/* A transaction that only reads, everything as it was committed at its beginning. Ends with dt_db_rollback. */
static dt_status begin_snapshot(dt_store *store, dt_db *db, void *arg, struct dt_error *err)
{
    (void)store;
    (void)arg;
    return dt_db_begin_snapshot(db, err);
}

dt_status dt_store_alert_walk(dt_store *store, struct dt_alert_walk *walk, const dt_clock *clock, int64_t until_us,
                              struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_first(store, &db, begin_snapshot, NULL, err);
    if (status != DT_OK)
        return status;
    do
        status = walk_slice(db, walk, err);
    while (status == DT_OK && !walk->over && dt_clock_mono_us(clock) < until_us);
    dt_db_rollback(db);
    return status;
}
