/* Events, read page by page: see events.h. */
#include "store/events/events.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

static dt_status read_event(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_job_event *e = row;
    struct dt_str *const texts[] = {&e->actor, &e->action, &e->topic, &e->subject, &e->before, &e->after};
    static const unsigned columns[] = {2, 3, 4, 6, 8, 9};
    (void)arg;
    *e = (struct dt_job_event){.id = dt_db_i64(db, 0),
                               .at_ms = dt_db_i64(db, 1),
                               .job_id = dt_db_i64(db, 5),
                               .operation_id = dt_db_i64(db, 7)};
    for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
        *texts[i] = dt_arena_copy(arena, dt_db_bytes(db, columns[i]));
        if (!texts[i]->p && !dt_db_is_null(db, columns[i]))
            return DT_NOMEM;
    }
    return DT_OK;
}

static dt_status read_page(dt_store *store, const struct dt_event_filter *f, struct dt_arena *arena,
                           struct dt_rows *rows, struct dt_error *err)
{
    const struct dt_param below = DT_P_INT(f->below_id ? f->below_id : INT64_MAX);
    const struct dt_param from = DT_P_INT(f->from_ms);
    const struct dt_param to = DT_P_INT(f->to_ms);
    const struct dt_param limit = DT_P_INT(f->end.rows);
    if (f->job_id)
        return dt_store_read(store, dt_sql_select_events_of_job, DT_PARAMS(DT_P_INT(f->job_id), below, from, to, limit),
                             arena, rows, err);
    if (f->topic.p)
        return dt_store_read(store, dt_sql_select_events_of_topic,
                             DT_PARAMS(DT_P_STR(f->topic), below, from, to, limit), arena, rows, err);
    if (f->actor.p)
        return dt_store_read(store, dt_sql_select_events_of_actor,
                             DT_PARAMS(DT_P_STR(f->actor), below, from, to, limit), arena, rows, err);
    return dt_store_read(store, dt_sql_select_events, DT_PARAMS(below, from, to, limit), arena, rows, err);
}

static bool matches(const struct dt_event_filter *f, const struct dt_job_event *e)
{
    if (f->bound && (!e->topic.p || !dt_topic_within(f->bound, e->topic)))
        return false;
    return (!f->topic.p || dt_str_eq(f->topic, e->topic)) && (!f->actor.p || dt_str_eq(f->actor, e->actor));
}

dt_status dt_store_events(dt_store *store, const struct dt_event_filter *filter, struct dt_arena *arena,
                          struct dt_event_list *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_event, .end = filter->end};
    *out = (struct dt_event_list){0};
    dt_status status = read_page(store, filter, arena, &rows, err);
    if (status != DT_OK || rows.n == 0)
        return status;
    struct dt_job_event *v = rows.v;
    *out = (struct dt_event_list){.v = v, .more = rows.more, .last_id = v[rows.n - 1].id};
    for (size_t i = 0; i < rows.n; i++)
        if (matches(filter, &v[i]))
            v[out->n++] = v[i];
    return DT_OK;
}
