/* Alerts in MySQL. The beginning, the reminders and the end of an alert are each written in one transaction together
 * with the messages. The figures come from small tables of the installation, the counters of topics, and slices of the
 * due index. */

#include "alerts.h"
#include "base/text/json_write.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"
#include "topic/owners.h"

static dt_status read_alert(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_alert *a = row;
    struct dt_str topic = dt_db_bytes(db, 1);
    *a = (struct dt_alert){.id = dt_db_i64(db, 0),
                           .topic = topic.n ? dt_arena_copy(arena, topic) : DT_STR_NONE,
                           .kind = (enum dt_alert_kind)dt_db_i64(db, 2),
                           .value = dt_db_i64(db, 3),
                           .limit = dt_db_i64(db, 4),
                           .began_at_ms = dt_db_i64(db, 5),
                           .told_at_ms = dt_db_i64(db, 6),
                           .silenced_until_ms = dt_db_i64(db, 7)};
    return topic.n && !a->topic.p ? DT_NOMEM : DT_OK;
}

dt_status dt_store_alerts(dt_store *store, int64_t after_id, unsigned limit, struct dt_arena *arena,
                          struct dt_alert_list *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_alert};
    dt_status status =
        dt_store_read(store, dt_sql_select_alerts, DT_PARAMS(DT_P_INT(after_id), DT_P_INT(limit)), arena, &rows, err);
    *out = (struct dt_alert_list){rows.v, rows.n};
    return status;
}

struct silencing {
    const struct dt_alert_silence *ask;
    struct dt_arena *arena;
    struct dt_alert *out;
};

static dt_status silence_in_txn(void *arg, dt_db *db, int64_t, struct dt_error *err)
{
    const struct silencing *s = arg;
    const struct dt_alert_silence *ask = s->ask;
    struct dt_rows rows = {.row_bytes = sizeof(*s->out), .read = read_alert};
    dt_status status = dt_db_query(db, dt_sql_select_alert, DT_PARAMS(DT_P_INT(ask->id)), err);
    DT_THEN(status, dt_store_read_rows(db, s->arena, &rows, err));
    if (status != DT_OK)
        return status;
    const struct dt_alert *found = rows.v;
    if (rows.n == 0 || (ask->bound && !(found->topic.p && dt_topic_within(ask->bound, found->topic))))
        return dt_fail(err, DT_NOT_FOUND, "no active alert %lld", (long long)ask->id);
    *s->out = *found;
    s->out->silenced_until_ms = ask->until_ms;
    return dt_db_run(db, dt_sql_silence_alert, DT_PARAMS(DT_P_INT(ask->until_ms), DT_P_INT(ask->id)), NULL, err);
}

dt_status dt_store_alert_silence(dt_store *store, const struct dt_alert_silence *ask, struct dt_arena *arena,
                                 struct dt_alert *out, struct dt_error *err)
{
    struct silencing silencing = {ask, arena, out};
    return dt_store_commit_work(store, NULL, silence_in_txn, &silencing, err);
}

static dt_status query_number(dt_db *db, const char *sql, struct dt_params params, int64_t *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, err);
    if (status != DT_OK)
        return status;
    *out = dt_db_next(db) ? dt_db_i64(db, 0) : 0;
    return dt_db_end(db, err);
}

/* *room: whether the outbox has room for another webhook (or, with `kafka`, for another message to Kafka). Webhooks and
 * messages to Kafka are counted separately, because messages to Kafka wait while no dispatcher is live, and must not
 * block webhooks. If the outbox is full, an owner with few such messages still gets room. */
static dt_status find_outbox_room(dt_db *db, bool kafka, struct dt_str topic, bool *room, struct dt_error *err)
{
    int64_t all = 0;
    int64_t own = 0;
    dt_status status = query_number(db, dt_sql_count_alert_messages,
                                    DT_PARAMS(DT_P_INT(kafka), DT_P_INT(DT_ALERT_MESSAGES_MAX)), &all, err);
    if (status == DT_OK && all >= DT_ALERT_MESSAGES_MAX)
        status =
            query_number(db, dt_sql_count_alert_messages_of_owner,
                         DT_PARAMS(DT_P_INT(kafka), DT_P_STR(topic), DT_P_INT(DT_ALERT_MESSAGES_OF_OWNER)), &own, err);
    *room = all < DT_ALERT_MESSAGES_MAX || own < DT_ALERT_MESSAGES_OF_OWNER;
    return status;
}

static dt_status begin_alert(dt_db *db, struct dt_alert_change *change, int64_t now_ms, struct dt_error *err)
{
    struct dt_alert *a = &change->alert;
    a->began_at_ms = now_ms;
    dt_status status =
        dt_db_run(db, dt_sql_insert_alert,
                  DT_PARAMS(DT_P_STR(a->topic.p ? a->topic : DT_STR_LIT("")), DT_P_INT(a->kind), DT_P_INT(a->value),
                            DT_P_INT(a->limit), DT_P_INT(now_ms), change->targets ? DT_P_INT(now_ms) : DT_P_NULL),
                  NULL, err);
    return status == DT_OK ? query_number(db, dt_sql_select_last_alert, DT_NO_PARAMS, &a->id, err) : status;
}

static dt_status record_reminder(dt_db *db, const struct dt_alert_change *change, int64_t now_ms, struct dt_error *err)
{
    const struct dt_alert *a = &change->alert;
    uint64_t changed = 0;
    dt_status status = dt_db_run(db, dt_sql_tell_alert,
                                 DT_PARAMS(DT_P_INT(a->value), DT_P_INT(a->limit), DT_P_INT(now_ms), DT_P_INT(a->id),
                                           DT_P_INT_OR_NULL(a->told_at_ms)),
                                 &changed, err);
    return status == DT_OK && !changed ? dt_fail(err, DT_VERSION, "the alert has changed") : status;
}

static dt_status change_alert(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct dt_alert_change change = *(const struct dt_alert_change *)arg;
    int64_t judges = 0;
    dt_status status = query_number(db, dt_sql_lock_alert_judge, DT_PARAMS(DT_P_INT(change.judge)), &judges, err);
    if (status == DT_OK && !judges)
        status = dt_fail(err, DT_DEPOSED, "this process's lease for evaluating alerts has ended");
    if (status == DT_OK && change.event == DT_ALERT_ENDED) {
        uint64_t changed = 0;
        status = dt_db_run(db, dt_sql_delete_alert, DT_PARAMS(DT_P_INT(change.alert.id)), &changed, err);
        if (status == DT_OK && !changed)
            status = dt_fail(err, DT_VERSION, "the alert has ended");
    } else if (status == DT_OK)
        status = change.alert.id ? record_reminder(db, &change, now_ms, err) : begin_alert(db, &change, now_ms, err);
    if (status != DT_OK)
        return status;
    /* Writes one message for each target. A message for which the outbox has no room is not written; the alert's row is
     * written in any case. */
    enum { COLUMNS = 9, TARGETS = 3 };
    const struct dt_alert *a = &change.alert;
    struct dt_param params[TARGETS * COLUMNS];
    const struct dt_str topic = a->topic.p ? a->topic : DT_STR_LIT("");
    size_t n = 0;
    bool room[] = {false, false}; /* whether there is room for a webhook, and for a message to Kafka */
    if (change.targets & ~(unsigned)DT_ALERT_TO_KAFKA)
        status = find_outbox_room(db, false, topic, &room[0], err);
    if (status == DT_OK && change.targets & DT_ALERT_TO_KAFKA)
        status = find_outbox_room(db, true, topic, &room[1], err);
    for (unsigned i = 0; i < TARGETS; i++)
        if (change.targets & (1u << i) && room[(1u << i) == DT_ALERT_TO_KAFKA]) {
            const struct dt_param row[COLUMNS] = {DT_P_INT(a->id),    DT_P_INT(change.event),   DT_P_INT(i + 1),
                                                  DT_P_STR(topic),    DT_P_INT(a->kind),        DT_P_INT(a->value),
                                                  DT_P_INT(a->limit), DT_P_INT(a->began_at_ms), DT_P_INT(now_ms)};
            memcpy(&params[n++ * COLUMNS], row, sizeof(row));
        }
    if (status != DT_OK || n == 0)
        return status;
    return dt_db_run_many(db, dt_sql_insert_alert_message, (struct dt_param_rows){params, COLUMNS, n}, NULL, err);
}

dt_status dt_store_alert_change(dt_store *store, const struct dt_alert_change *change, struct dt_error *err)
{
    return dt_store_commit_work(store, NULL, change_alert, (void *)(uintptr_t)change, err);
}

dt_status dt_store_alert_values(dt_store *store, const struct dt_alert *alerts, size_t n, struct dt_error *err)
{
    struct dt_strbuf text = {0};
    if (n == 0)
        return DT_OK;
    dt_json_begin_array(&text, NULL);
    for (size_t i = 0; i < n; i++)
        DT_JSON_PUT_ROW(&text, alerts[i].id, alerts[i].value, alerts[i].limit);
    dt_json_end_array(&text);
    dt_status status = dt_store_run(store, dt_sql_set_alert_values, DT_PARAMS(DT_P_BUF(&text)), NULL, err);
    dt_strbuf_clear(&text);
    return status;
}

dt_status dt_store_free_alert_messages(dt_store *store, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_free_alert_messages, DT_NO_PARAMS, NULL, err);
}

/* ---- figures: from small tables of the installation, topics and their counters, and slices of the due index ---- */

#define SLICE_ROWS 10000

static dt_status query_watched_alerts(dt_store *, dt_db *db, void *arg, struct dt_error *err)
{
    return dt_db_query_index(db, dt_sql_watch_alerts, DT_PARAMS(DT_P_INT(*(const int64_t *)arg)), err);
}

dt_status dt_store_watch_alerts(dt_store *store, int64_t process, struct dt_alert_watched *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_alert_watched){0};
    dt_status status = dt_store_first(store, &db, query_watched_alerts, &process, err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(db)) {
        out->ours = dt_db_i64(db, 0) != 0;
        out->now_ms = dt_db_i64(db, 1);
        out->topics_version = dt_db_i64(db, 2);
        for (unsigned i = 0; i < DT_ALERT_INSTALLATION_KINDS; i++)
            out->figures[i] = dt_db_i64(db, 3 + i);
        out->from_dead = dt_db_i64(db, 3 + DT_ALERT_INSTALLATION_KINDS) != 0;
        out->lease_ms = dt_db_i64(db, 4 + DT_ALERT_INSTALLATION_KINDS);
    }
    return dt_db_end(db, err);
}

static dt_status copy_texts(const dt_db *db, struct dt_arena *arena, struct dt_str *first, struct dt_str *second)
{
    *first = dt_arena_copy(arena, dt_db_bytes(db, 0));
    if (second)
        *second = dt_arena_copy(arena, dt_db_bytes(db, 1));
    bool failed = !first->p || (second && !second->p && !dt_db_is_null(db, 1));
    return failed ? DT_NOMEM : DT_OK;
}

static dt_status read_alert_topic(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_alert_topic *t = row;
    t->owner = dt_db_i64(db, 2) > 0 ? dt_db_i64(db, 2) : dt_owner_by_name(dt_db_bytes(db, 0));
    return copy_texts(db, arena, &t->name, &t->alerts);
}

dt_status dt_store_alert_topics(dt_store *store, bool all, struct dt_arena *arena, struct dt_alert_topics *out,
                                struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_alert_topic};
    dt_status status = dt_store_read(store, all ? dt_sql_select_all_alert_topics : dt_sql_select_alert_topics,
                                     DT_NO_PARAMS, arena, &rows, err);
    *out = (struct dt_alert_topics){rows.v, rows.n};
    return status;
}

static dt_status read_count(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_alert_count *c = row;
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
    DT_THEN(status,
            dt_db_query(db, dt_sql_walk_alert_jobs,
                        DT_PARAMS(now, now, from, from, id, DT_P_INT(last_key), DT_P_INT(last_key), DT_P_INT(last_id)),
                        err));
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

/* Begins a transaction whose statements read one snapshot. dt_db_rollback ends it. */
static dt_status begin_snapshot(dt_store *, dt_db *db, void *, struct dt_error *err)
{
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
