/* Implements the part of operation_parts.h that reads and writes rows of operations, and writes their events. */

#include "base/text/json_write.h"
#include "events/events.h"
#include "mysql/statements.h"
#include "operation_parts.h"
#include "topic/owners.h"

#define ANY_TOPIC       "\x7F"           /* sorts after all names, because names have no byte above 0x7E */
#define LOOKS_WITHIN_MS INT64_C(3600000) /* look_at of a running operation is at most this far ahead */

static int64_t range_start_of(struct dt_list_times times)
{
    return times.given ? times.from_ms : INT64_MIN;
}

static int64_t range_end_of(struct dt_list_times times)
{
    return times.given ? times.to_ms : INT64_MAX;
}

struct dt_operation_row dt_operation_row_of(const struct dt_operation_ask *ask, int64_t now_ms, struct dt_arena *arena)
{
    const struct dt_operation_filter *f = &ask->filter;
    bool by_key = f->key_prefix.p && ask->kind != DT_OPERATION_REDRIVE;
    struct dt_operation_row row = {
        .shown = {.kind = ask->kind,
                  .request = ask->request,
                  .rate = ask->rate,
                  .sample = DT_STR_LIT("[]"),
                  .started_at_ms = now_ms},
        .key_prefix = f->key_prefix,
        .error_code = f->error_code,
        .run_from_ms = range_start_of(f->run),
        .run_to_ms = range_end_of(f->run),
        .created_from_ms = range_start_of(f->created),
        .created_to_ms = dt_earlier(range_end_of(f->created) - 1, now_ms),
        .failed = f->failed,
        .at_one_time = !ask->shifts,
        .at_ms = ask->delays ? now_ms + ask->at_ms : dt_later(ask->at_ms, now_ms),
        .shift_ms = ask->shift_ms,
        .spread_ms = ask->spread_ms,
        .walk = by_key ? DT_WALK_KEYS : DT_WALK_JOBS,
    };
    /* The topic "a" becomes the range from "a" to "a"; the prefix "a*" the range from "a" to "a" and DEL; an absent
     * topic the range from "" to DEL. */
    struct dt_operation *op = &row.shown;
    const bool prefix = f->topic.n > 0 && f->topic.p[f->topic.n - 1] == '*';
    op->topic_from = f->topic.p ? (struct dt_str){f->topic.p, f->topic.n - prefix} : DT_STR_LIT("");
    op->topic_to = op->topic_from;
    if (prefix)
        op->topic_to = dt_arena_printf(arena, "%.*s" ANY_TOPIC, (int)op->topic_from.n, op->topic_from.p);
    else if (!f->topic.p)
        op->topic_to = DT_STR_LIT(ANY_TOPIC);
    return row;
}

/* Reads a number of jobs. Numbers are bounded, so that sums cannot overflow after a manual edit. */
static int64_t read_job_count(const dt_db *db, unsigned column)
{
    return dt_earlier(dt_later(dt_db_i64(db, column), 0), INT64_MAX / 4);
}

dt_status dt_operation_row_read(const dt_db *db, struct dt_arena *arena, void *out, void *)
{
    struct dt_operation_row *row = out;
    struct dt_operation *op = &row->shown;
    const struct {
        unsigned column;
        struct dt_str *text;
    } texts[] = {{3, &op->request},      {4, &op->topic_from}, {5, &op->topic_to},    {6, &row->key_prefix},
                 {11, &row->error_code}, {15, &op->rate},      {18, &row->after_key}, {23, &op->sample},
                 {24, &op->error},       {28, &op->actor}};
    memset(row, 0, sizeof(*row));
    op->id = dt_db_i64(db, 0);
    op->kind = (enum dt_operation_kind)(dt_db_i64(db, 1) - 1);
    op->state = (enum dt_operation_state)(dt_db_i64(db, 2) - 1);
    row->run_from_ms = dt_db_i64(db, 7);
    row->run_to_ms = dt_db_i64(db, 8);
    row->created_from_ms = dt_db_i64(db, 9);
    row->created_to_ms = dt_earlier(dt_db_i64(db, 10), dt_db_i64(db, 26)); /* not after the operation's start */
    row->at_one_time = !dt_db_is_null(db, 12);
    row->at_ms = dt_db_i64(db, 12);
    row->shift_ms = dt_db_i64(db, 13);
    row->spread_ms = dt_db_i64(db, 14);
    row->walk = (enum dt_operation_walk)dt_db_i64(db, 16);
    row->after_id = dt_db_i64(db, 17);
    row->after_at_ms = dt_db_i64(db, 19);
    op->matched = read_job_count(db, 20);
    op->changed = read_job_count(db, 21);
    op->refused = read_job_count(db, 22);
    row->look_at_ms = dt_db_i64(db, 25);
    op->started_at_ms = dt_db_i64(db, 26);
    op->finished_at_ms = dt_db_i64(db, 27);
    row->failed = (struct dt_list_times){!dt_db_is_null(db, 29), dt_db_i64(db, 29), dt_db_i64(db, 30)};
    op->found = row->walk == DT_WALK_OVER;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        *texts[i].text = dt_arena_copy(arena, dt_db_bytes(db, texts[i].column));
        if (!texts[i].text->p && !dt_db_is_null(db, texts[i].column))
            return DT_NOMEM;
    }
    /* A manual edit may have set a walk that does not fit the kind of the operation. */
    if (row->walk == DT_WALK_KEYS && op->kind == DT_OPERATION_REDRIVE)
        row->walk = DT_WALK_JOBS;
    if (op->sample.n < 2)
        op->sample = DT_STR_LIT("[]");
    return DT_OK;
}

dt_status dt_operation_show(dt_db *db, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                            struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_operation_row), .read = dt_operation_row_read};
    dt_status status = dt_db_query(db, dt_sql_select_operation, DT_PARAMS(DT_P_INT(id)), err);
    DT_THEN(status, dt_store_read_rows(db, arena, &rows, err));
    if (status == DT_OK && rows.n == 0)
        return dt_fail(err, DT_NOT_FOUND, "no operation %lld", (long long)id);
    if (status == DT_OK)
        *out = ((const struct dt_operation_row *)rows.v)->shown;
    return status;
}

static dt_status decide_operation_owner(dt_db *db, const struct dt_operation_ask *ask, struct dt_operation_row *row,
                                        struct dt_error *err)
{
    const struct dt_str topic = row->shown.topic_from;
    int64_t owner = ask->tenant;
    dt_status status = DT_OK;
    if (dt_str_eq(topic, row->shown.topic_to)) {
        status = dt_db_read_number(db, dt_sql_select_owner, DT_PARAMS(DT_P_STR(topic)), NULL, &owner, err);
        owner = owner ? owner : dt_owner_by_name(topic);
    }
    row->owner = ask->tenant ? owner : -owner;
    return status;
}

/* All creators of operations take the lock of changes of topics before they count the running ones. So the limit is
 * exact. */
dt_status dt_operation_enter(dt_db *db, const struct dt_operation_ask *ask, struct dt_operation_row *row,
                             struct dt_error *err)
{
    const struct dt_operation *op = &row->shown;
    int64_t running = 0;
    dt_status status = dt_db_read_number(db, dt_sql_lock_topics, DT_NO_PARAMS, NULL, NULL, err);
    DT_THEN(status, decide_operation_owner(db, ask, row, err));
    DT_THEN(status,
            dt_db_read_number(db, dt_sql_count_running_operations,
                              DT_PARAMS(DT_P_INT(row->owner), DT_P_INT(row->shown.started_at_ms + LOOKS_WITHIN_MS)),
                              NULL, &running, err));
    if (status == DT_OK && running >= DT_OPERATIONS_RUNNING)
        return dt_fail(err, DT_FULL, "the limit of running operations is reached");
    DT_THEN(
        status,
        dt_db_run(db, dt_sql_insert_operation,
                  DT_PARAMS(DT_P_INT(op->kind + 1), DT_P_STR(op->request), DT_P_STR(op->topic_from),
                            DT_P_STR(op->topic_to), DT_P_STR_OR_NULL(row->key_prefix), DT_P_INT(row->run_from_ms),
                            DT_P_INT(row->run_to_ms), DT_P_INT(row->created_from_ms), DT_P_INT(row->created_to_ms),
                            DT_P_STR_OR_NULL(row->error_code), row->at_one_time ? DT_P_INT(row->at_ms) : DT_P_NULL,
                            DT_P_INT(row->shift_ms), DT_P_INT(row->spread_ms), DT_P_STR_OR_NULL(op->rate),
                            DT_P_INT(row->walk), DT_P_INT(row->look_at_ms), DT_P_INT(op->started_at_ms),
                            DT_P_STR_OR_NULL(op->actor), row->failed.given ? DT_P_INT(row->failed.from_ms) : DT_P_NULL,
                            row->failed.given ? DT_P_INT(row->failed.to_ms) : DT_P_NULL, DT_P_INT(row->owner)),
                  NULL, err));
    DT_THEN(status, dt_db_read_number(db, dt_sql_select_last_operation, DT_NO_PARAMS, NULL, &row->shown.id, err));
    return status;
}

dt_status dt_operation_row_write(dt_db *db, const struct dt_operation_row *row, struct dt_error *err)
{
    const struct dt_operation *op = &row->shown;
    return dt_db_run(db, dt_sql_write_operation,
                     DT_PARAMS(DT_P_INT(op->state + 1), DT_P_INT(row->walk), DT_P_INT(row->after_id),
                               DT_P_STR_OR_NULL(row->after_key), DT_P_INT(row->after_at_ms), DT_P_INT(op->matched),
                               DT_P_INT(op->changed), DT_P_INT(op->refused), DT_P_STR(op->sample),
                               DT_P_INT_OR_NULL(row->look_at_ms), DT_P_INT_OR_NULL(op->finished_at_ms),
                               DT_P_INT(op->id)),
                     NULL, err);
}

static const char *const kinds[] = {[DT_OPERATION_CANCEL] = "cancel",
                                    [DT_OPERATION_RESCHEDULE] = "reschedule",
                                    [DT_OPERATION_REDRIVE] = "redrive",
                                    [DT_OPERATION_RUN_NOW] = "run_now",
                                    [DT_OPERATION_DELETE_TOPIC] = "delete_topic"};

dt_status dt_operation_event(dt_db *db, const struct dt_operation *op, struct dt_str actor, int64_t now_ms,
                             const char *action, struct dt_error *err)
{
    char number[24];
    struct dt_strbuf asked = {0};
    int n = snprintf(number, sizeof(number), "%lld", (long long)op->id);
    struct dt_job_event event = {
        .at_ms = now_ms, .actor = actor, .action = dt_str(action), .subject = {number, (size_t)n}};
    if (!actor.p)
        return DT_OK;
    if (op->request.p) {
        dt_json_begin_object(&asked, NULL);
        dt_json_put_word(&asked, "kind", kinds[op->kind]);
        dt_json_put_raw(&asked, "filter", op->request);
        dt_json_end_object(&asked);
        event.after = dt_strbuf_str(&asked);
        event.topic = dt_str_eq(op->topic_from, op->topic_to) && op->topic_from.n ? op->topic_from : DT_STR_NONE;
    }
    dt_status status = asked.failed ? dt_fail(err, DT_NOMEM, "out of memory") : dt_events_write(db, &event, 1, err);
    dt_strbuf_clear(&asked);
    return status;
}
