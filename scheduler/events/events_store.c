/* Events: see events.h. */

#include "base/assert.h"
#include "base/text/json_write.h"
#include "events.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

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
        dt_params_add(p, DT_PARAMS(DT_P_INT(v[i].at_ms), DT_P_STR(v[i].actor), DT_P_STR(v[i].action),
                                   DT_P_STR_OR_NULL(v[i].topic), DT_P_INT_OR_NULL(v[i].job_id),
                                   DT_P_STR_OR_NULL(v[i].subject), DT_P_INT_OR_NULL(v[i].operation_id),
                                   DT_P_STR_OR_NULL(v[i].before), DT_P_STR_OR_NULL(v[i].after)));
    }
    dt_status status =
        n == 1 ? dt_db_run(db, dt_sql_insert_event, (struct dt_params){params, COLUMNS}, NULL, err)
               : dt_db_run_many(db, dt_sql_insert_event, (struct dt_param_rows){params, COLUMNS, n}, NULL, err);
    free(params);
    return status;
}

void dt_event_diff_begin(struct dt_event_diff *d)
{
    *d = (struct dt_event_diff){0};
    dt_json_begin_object(&d->before, NULL);
    dt_json_begin_object(&d->after, NULL);
}

/* Begins a member in both JSON objects (before, after); the caller adds its two values. */
static void begin_member_in_both(struct dt_event_diff *d, const char *name)
{
    dt_assert((d->before.n == 1) == (d->after.n == 1) || d->before.failed || d->after.failed);
    dt_json_name(&d->before, name);
    dt_json_name(&d->after, name);
}

void dt_event_diff_text(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is)
{
    if (dt_str_eq(was, is) && !was.p == !is.p)
        return;
    begin_member_in_both(d, name);
    dt_json_put_string(&d->before, NULL, was);
    dt_json_put_string(&d->after, NULL, is);
}

void dt_event_diff_hidden(struct dt_event_diff *d, const char *name, struct dt_str was, struct dt_str is)
{
    if (dt_str_eq(was, is) && !was.p == !is.p)
        return;
    begin_member_in_both(d, name);
    dt_json_put_word(&d->before, NULL, was.p ? "***" : NULL);
    dt_json_put_word(&d->after, NULL, is.p ? "***" : NULL);
}

void dt_event_diff_time(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms)
{
    if (was_ms == is_ms)
        return;
    begin_member_in_both(d, name);
    dt_json_put_time(&d->before, NULL, was_ms);
    dt_json_put_time(&d->after, NULL, is_ms);
}

void dt_event_diff_duration(struct dt_event_diff *d, const char *name, int64_t was_ms, int64_t is_ms)
{
    if (was_ms == is_ms)
        return;
    begin_member_in_both(d, name);
    dt_json_put_duration_or_null(&d->before, NULL, was_ms > 0, was_ms);
    dt_json_put_duration_or_null(&d->after, NULL, is_ms > 0, is_ms);
}

void dt_event_diff_number(struct dt_event_diff *d, const char *name, int64_t was, int64_t is)
{
    if (was == is)
        return;
    begin_member_in_both(d, name);
    dt_json_put_int(&d->before, NULL, was);
    dt_json_put_int(&d->after, NULL, is);
}

void dt_event_diff_bool(struct dt_event_diff *d, const char *name, bool was, bool is)
{
    if (was == is)
        return;
    begin_member_in_both(d, name);
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

dt_status dt_event_of_job(dt_db *db, const struct dt_job_event *event, const struct dt_job *before,
                          const struct dt_job *after, struct dt_error *err)
{
    struct dt_job_event e = *event;
    struct dt_event_diff d;
    e.topic = after->topic;
    e.job_id = after->id;
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "state", dt_str(dt_job_state_name(before->state)), dt_str(dt_job_state_name(after->state)));
    dt_event_diff_time(&d, "run_at", before->run_at_ms, after->run_at_ms);
    dt_event_diff_time(&d, "next_at", before->next_at_ms, after->next_at_ms);
    dt_event_diff_number(&d, "failures", before->failures, after->failures);
    dt_event_diff_bool(&d, "no_retries", before->no_retries, after->no_retries);
    dt_event_diff_text(&d, "retry", before->retry, after->retry);
    dt_event_diff_duration(&d, "ack_timeout", before->ack_timeout_ms, after->ack_timeout_ms);
    dt_event_diff_text(&d, "partition_key", before->partition_key, after->partition_key);
    dt_event_diff_text(&d, "callback_url", before->callback_url, after->callback_url);
    dt_event_diff_text(&d, "content_type", before->content_type, after->content_type);
    /* Payloads may be large, and headers may have any text, so the event only has whether they changed, and their
     * size. */
    dt_event_diff_hidden(&d, "headers", before->headers, after->headers);
    if (!dt_str_eq(before->payload, after->payload)) {
        dt_event_diff_hidden(&d, "payload", before->payload, after->payload);
        dt_event_diff_number(&d, "payload_bytes", (int64_t)before->payload.n, (int64_t)after->payload.n);
    }
    dt_event_diff_number(&d, "version", before->version, after->version);
    return dt_event_diff_write(&d, db, &e, err);
}

static struct dt_str delivery_name_of(const struct dt_topic *topic)
{
    return topic->delivery == DT_DELIVERY_UNSET ? DT_STR_NONE : dt_str(dt_delivery_id_name(topic->delivery));
}

dt_status dt_event_of_topic(dt_db *db, const struct dt_job_event *event, const struct dt_topic *before,
                            const struct dt_topic *after, struct dt_error *err)
{
    static const struct dt_topic none = {.retention_ms = -1};
    const struct dt_topic *a = before ? before : &none;
    const struct dt_topic *b = after ? after : &none;
    struct dt_job_event e = *event;
    struct dt_event_diff d;
    e.topic = after ? after->name : before->name;
    dt_event_diff_begin(&d);
    dt_event_diff_text(&d, "name", a->name, b->name);
    dt_event_diff_text(&d, "delivery", delivery_name_of(a), delivery_name_of(b));
    dt_event_diff_text(&d, "kafka_topic", a->kafka_topic, b->kafka_topic);
    dt_event_diff_text(&d, "retry", a->retry, b->retry);
    dt_event_diff_duration(&d, "ack_timeout", a->ack_timeout_ms, b->ack_timeout_ms);
    dt_event_diff_duration(&d, "retention", a->retention_ms, b->retention_ms);
    dt_event_diff_number(&d, "max_in_flight", a->max_in_flight, b->max_in_flight);
    dt_event_diff_text(&d, "rate_limit", a->rate_limit, b->rate_limit);
    dt_event_diff_bool(&d, "paused", a->paused, b->paused);
    dt_event_diff_text(&d, "callback_url", a->callback.places.url, b->callback.places.url);
    dt_event_diff_text(&d, "callback_hosts", a->callback.places.hosts, b->callback.places.hosts);
    dt_event_diff_duration(&d, "callback_timeout", a->callback.timeout_ms, b->callback.timeout_ms);
    dt_event_diff_hidden(&d, "callback_headers", a->callback.headers, b->callback.headers);
    dt_event_diff_hidden(&d, "callback_secret", a->callback.secret, b->callback.secret);
    return dt_event_diff_write(&d, db, &e, err);
}

/* ---- partitions: one for each day, named by its number since 1970; `later` has all days after them. A day's
 * partition is made before the day begins, so that nothing is ever copied, and is dropped as a whole ---- */

#define DAY_MS     INT64_C(86400000)
#define DAYS_AHEAD 2
#define DAYS_MAX   4000

/* The first partition also has all events from before its day. They are dropped with it. */
dt_status dt_store_events_tend(dt_store *store, int64_t now_ms, int64_t keep_ms, struct dt_error *err)
{
    int64_t days[DAYS_MAX];
    size_t n = 0;
    char sql[300];
    dt_db *db;
    dt_status status = dt_store_query(store, &db, dt_sql_select_event_days, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    while (n < DAYS_MAX && dt_db_next(db))
        days[n++] = dt_db_i64(db, 0);
    status = dt_db_end(db, err);
    const int64_t last = n ? days[n - 1] : now_ms / DAY_MS - 1;
    /* Splits days off the partition `later`. Splitting is cheap, because these days have no events yet. */
    for (int64_t day = last + 1; day <= now_ms / DAY_MS + DAYS_AHEAD && status == DT_OK; day++) {
        snprintf(sql, sizeof(sql),
                 "ALTER TABLE job_events REORGANIZE PARTITION later INTO (PARTITION d%lld VALUES LESS THAN (%lld),"
                 " PARTITION later VALUES LESS THAN MAXVALUE)",
                 (long long)day, (long long)DAY_MS * (day + 1));
        status = dt_db_script(db, dt_str(sql), err);
    }
    for (size_t i = 0; i < n && status == DT_OK && (days[i] + 1) * DAY_MS <= now_ms - keep_ms; i++) {
        snprintf(sql, sizeof(sql), "ALTER TABLE job_events DROP PARTITION d%lld", (long long)days[i]);
        status = dt_db_script(db, dt_str(sql), err);
    }
    return status;
}

static dt_status read_event(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    bool ok = true;
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

dt_status dt_store_events(dt_store *store, const struct dt_event_filter *filter, struct dt_arena *arena,
                          struct dt_event_list *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_event, .end = filter->end};
    const struct dt_param below = DT_P_INT(filter->below_id ? filter->below_id : INT64_MAX);
    const struct dt_param from = DT_P_INT(filter->from_ms);
    const struct dt_param to = DT_P_INT(filter->to_ms);
    const struct dt_param limit = DT_P_INT(filter->end.rows);
    dt_status status;
    *out = (struct dt_event_list){0};
    if (filter->job_id)
        status = dt_store_read(store, dt_sql_select_events_of_job,
                               DT_PARAMS(DT_P_INT(filter->job_id), below, from, to, limit), arena, &rows, err);
    else if (filter->topic.p)
        status = dt_store_read(store, dt_sql_select_events_of_topic,
                               DT_PARAMS(DT_P_STR(filter->topic), below, from, to, limit), arena, &rows, err);
    else if (filter->actor.p)
        status = dt_store_read(store, dt_sql_select_events_of_actor,
                               DT_PARAMS(DT_P_STR(filter->actor), below, from, to, limit), arena, &rows, err);
    else
        status = dt_store_read(store, dt_sql_select_events, DT_PARAMS(below, from, to, limit), arena, &rows, err);
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
