/* Events as rows, and what differs as JSON: see event_txn.h. */
#include "event_txn.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/text/json_write.h"
#include "mysql/statements.h"

#define COLUMNS 9

dt_status dt_events_write(dt_db *db, const struct dt_job_event *v, size_t n, struct dt_error *err)
{
    if (n == 0)
        return DT_OK;
    struct dt_param *params = calloc(n * COLUMNS, sizeof(*params));
    if (!params)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        struct dt_param *p = params + i * COLUMNS;
        p[0] = DT_P_INT(v[i].at_ms);
        p[1] = DT_P_STR(v[i].actor);
        p[2] = DT_P_STR(v[i].action);
        p[3] = DT_P_STR_OR_NULL(v[i].topic);
        p[4] = DT_P_INT_OR_NULL(v[i].job_id);
        p[5] = DT_P_STR_OR_NULL(v[i].subject);
        p[6] = DT_P_INT_OR_NULL(v[i].operation_id);
        p[7] = DT_P_STR_OR_NULL(v[i].before);
        p[8] = DT_P_STR_OR_NULL(v[i].after);
    }
    dt_status status =
        n == 1 ? dt_db_run(db, dt_sql_insert_event, (struct dt_params){params, COLUMNS}, NULL, err)
               : dt_db_run_many(db, dt_sql_insert_event, (struct dt_param_rows){params, COLUMNS, n}, NULL, err);
    free(params);
    return status;
}

/* ---- what differs ---- */

void dt_event_diff_begin(struct dt_event_diff *d)
{
    dt_strbuf_init(&d->before);
    dt_strbuf_init(&d->after);
    dt_json_begin_object(&d->before, NULL);
    dt_json_begin_object(&d->after, NULL);
}

/* Begins a member in both; the caller adds its values. */
static void put_names(struct dt_event_diff *d, const char *name)
{
    dt_assert((d->before.n == 1) == (d->after.n == 1) || d->before.failed || d->after.failed);
    dt_json_name(&d->before, name);
    dt_json_name(&d->after, name);
}

void dt_event_diff_text(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is)
{
    if (dt_str_eq(was, is) && !was.p == !is.p)
        return;
    put_names(d, name);
    dt_json_put_string(&d->before, NULL, was);
    dt_json_put_string(&d->after, NULL, is);
}

void dt_event_diff_hidden(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is)
{
    if (dt_str_eq(was, is) && !was.p == !is.p)
        return;
    put_names(d, name);
    dt_json_put_word(&d->before, NULL, was.p ? "***" : NULL);
    dt_json_put_word(&d->after, NULL, is.p ? "***" : NULL);
}

void dt_event_diff_time(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms)
{
    if (was_ms == is_ms)
        return;
    put_names(d, name);
    dt_json_put_time(&d->before, NULL, was_ms);
    dt_json_put_time(&d->after, NULL, is_ms);
}

void dt_event_diff_duration(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms)
{
    if (was_ms == is_ms)
        return;
    put_names(d, name);
    dt_json_put_duration_or_null(&d->before, NULL, was_ms > 0, was_ms);
    dt_json_put_duration_or_null(&d->after, NULL, is_ms > 0, is_ms);
}

void dt_event_diff_number(struct dt_event_diff *d, const char *name, int64_t was, int64_t is)
{
    if (was == is)
        return;
    put_names(d, name);
    dt_json_put_int(&d->before, NULL, was);
    dt_json_put_int(&d->after, NULL, is);
}

void dt_event_diff_bool(struct dt_event_diff *d, const char *name, bool was, bool is)
{
    if (was == is)
        return;
    put_names(d, name);
    dt_json_put_bool(&d->before, NULL, was);
    dt_json_put_bool(&d->after, NULL, is);
}

dt_status dt_event_diff_write(struct dt_event_diff *d, dt_db *db, struct dt_job_event *event, struct dt_error *err)
{
    const bool differs = d->after.n > 1;
    dt_status status = DT_OK;
    dt_json_end_object(&d->before);
    dt_json_end_object(&d->after);
    if (d->before.failed || d->after.failed) {
        status = dt_fail(err, DT_NOMEM, "out of memory");
    } else if (differs) {
        event->before = dt_strbuf_str(&d->before);
        event->after = dt_strbuf_str(&d->after);
        status = dt_events_write(db, event, 1, err);
    }
    dt_strbuf_clear(&d->before);
    dt_strbuf_clear(&d->after);
    return status;
}
