/* Events, read page by page: see events.h. */
#include "events.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

static dt_status read_event(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    bool ok = true;
    (void)arg;
    *(struct dt_job_event *)row = (struct dt_job_event){.id = dt_db_i64(db, 0),
                                                        .at_ms = dt_db_i64(db, 1),
                                                        .actor = dt_store_text(db, 2, arena, &ok),
                                                        .action = dt_store_text(db, 3, arena, &ok),
                                                        .topic = dt_store_text(db, 4, arena, &ok),
                                                        .job_id = dt_db_i64(db, 5),
                                                        .subject = dt_store_text(db, 6, arena, &ok),
                                                        .operation_id = dt_db_i64(db, 7),
                                                        .before = dt_store_text(db, 8, arena, &ok),
                                                        .after = dt_store_text(db, 9, arena, &ok)};
    return ok ? DT_OK : DT_NOMEM;
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
    for (size_t i = 0; i < rows.n; i++) {
        const struct dt_job_event *e = &v[i];
        if (filter->bound && (!e->topic.p || !dt_topic_within(filter->bound, e->topic)))
            continue;
        if ((!filter->topic.p || dt_str_eq(filter->topic, e->topic)) &&
            (!filter->actor.p || dt_str_eq(filter->actor, e->actor)))
            v[out->n++] = *e;
    }
    return DT_OK;
}
