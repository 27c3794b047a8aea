/* Alerts that stand: their beginning, reminders and end, each one transaction with its messages. */
#include "alerts.h"
#include "base/text/json_write.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* ---- reading ---- */

static dt_status read_alert(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_alert *a = row;
    struct dt_str topic = dt_db_bytes(db, 1);
    (void)arg;
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

/* ---- silence ---- */

struct silencing {
    const struct dt_alert_silence *ask;
    struct dt_arena *arena;
    struct dt_alert *out;
};

static dt_status silence(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct silencing *s = arg;
    const struct dt_alert_silence *ask = s->ask;
    struct dt_rows rows = {.row_bytes = sizeof(*s->out), .read = read_alert};
    (void)now_ms;
    dt_status status = dt_db_query(db, dt_sql_select_alert, DT_PARAMS(DT_P_INT(ask->id)), err);
    if (status == DT_OK)
        status = dt_store_read_rows(db, s->arena, &rows, err);
    if (status != DT_OK)
        return status;
    const struct dt_alert *found = rows.v;
    if (rows.n == 0 || (ask->bound && !(found->topic.p && dt_topic_within(ask->bound, found->topic))))
        return dt_fail(err, DT_NOT_FOUND, "no alert %lld stands", (long long)ask->id);
    *s->out = *found;
    s->out->silenced_until_ms = ask->until_ms;
    return dt_db_run(db, dt_sql_silence_alert, DT_PARAMS(DT_P_INT(ask->until_ms), DT_P_INT(ask->id)), NULL, err);
}

dt_status dt_store_alert_silence(dt_store *store, const struct dt_alert_silence *ask, struct dt_arena *arena,
                                 struct dt_alert *out, struct dt_error *err)
{
    struct silencing silencing = {ask, arena, out};
    return dt_store_commit_work(store, NULL, silence, &silencing, err);
}

/* ---- changes ---- */

static dt_status query_number(dt_db *db, const char *sql, struct dt_params params, int64_t *out, struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, err);
    if (status != DT_OK)
        return status;
    *out = dt_db_next(db) ? dt_db_i64(db, 0) : 0;
    return dt_db_end(db, err);
}

/* Says whether the outbox has room for webhooks, or for messages for Kafka. Messages for Kafka wait
 * while no dispatcher lives, and must not keep webhooks out. If it is full, owners with few such messages get some. */
static dt_status find_room(dt_db *db, bool kafka, struct dt_str topic, bool *room, struct dt_error *err)
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

/* One message a target. Where there are too many already, none is made: what stands shows in the table. */
static dt_status add_messages(dt_db *db, const struct dt_alert_change *change, int64_t now_ms, struct dt_error *err)
{
    enum { COLUMNS = 9, TARGETS = 3 };
    const struct dt_alert *a = &change->alert;
    struct dt_param params[TARGETS * COLUMNS];
    const struct dt_str topic = a->topic.p ? a->topic : DT_STR_LIT("");
    size_t n = 0;
    bool room[] = {false, false}; /* [1]: for Kafka */
    dt_status status = DT_OK;
    if (change->targets & ~(unsigned)DT_ALERT_TO_KAFKA)
        status = find_room(db, false, topic, &room[0], err);
    if (status == DT_OK && change->targets & DT_ALERT_TO_KAFKA)
        status = find_room(db, true, topic, &room[1], err);
    for (unsigned i = 0; i < TARGETS; i++)
        if (change->targets & (1u << i) && room[(1u << i) == DT_ALERT_TO_KAFKA]) {
            const struct dt_param row[COLUMNS] = {DT_P_INT(a->id),    DT_P_INT(change->event),  DT_P_INT(i + 1),
                                                  DT_P_STR(topic),    DT_P_INT(a->kind),        DT_P_INT(a->value),
                                                  DT_P_INT(a->limit), DT_P_INT(a->began_at_ms), DT_P_INT(now_ms)};
            memcpy(&params[n++ * COLUMNS], row, sizeof(row));
        }
    if (status != DT_OK || n == 0)
        return status;
    return dt_db_run_many(db, dt_sql_insert_alert_message, (struct dt_param_rows){params, COLUMNS, n}, NULL, err);
}

static dt_status begin(dt_db *db, struct dt_alert_change *change, int64_t now_ms, struct dt_error *err)
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

static dt_status tell(dt_db *db, const struct dt_alert_change *change, int64_t now_ms, struct dt_error *err)
{
    const struct dt_alert *a = &change->alert;
    uint64_t changed = 0;
    dt_status status = dt_db_run(db, dt_sql_tell_alert,
                                 DT_PARAMS(DT_P_INT(a->value), DT_P_INT(a->limit), DT_P_INT(now_ms), DT_P_INT(a->id),
                                           DT_P_INT_OR_NULL(a->told_at_ms)),
                                 &changed, err);
    return status == DT_OK && !changed ? dt_fail(err, DT_VERSION, "the alert is another") : status;
}

static dt_status change_alert(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct dt_alert_change change = *(const struct dt_alert_change *)arg;
    int64_t judges = 0;
    dt_status status = query_number(db, dt_sql_lock_alert_judge, DT_PARAMS(DT_P_INT(change.judge)), &judges, err);
    if (status == DT_OK && !judges)
        status = dt_fail(err, DT_DEPOSED, "the lease of this process on alerts has ended");
    if (status == DT_OK && change.event == DT_ALERT_ENDED) {
        uint64_t changed = 0;
        status = dt_db_run(db, dt_sql_delete_alert, DT_PARAMS(DT_P_INT(change.alert.id)), &changed, err);
        if (status == DT_OK && !changed)
            status = dt_fail(err, DT_VERSION, "the alert has ended");
    } else if (status == DT_OK)
        status = change.alert.id ? tell(db, &change, now_ms, err) : begin(db, &change, now_ms, err);
    return status == DT_OK ? add_messages(db, &change, now_ms, err) : status;
}

dt_status dt_store_alert_change(dt_store *store, const struct dt_alert_change *change, struct dt_error *err)
{
    return dt_store_commit_work(store, NULL, change_alert, (void *)(uintptr_t)change, err);
}

dt_status dt_store_alert_values(dt_store *store, const struct dt_alert *alerts, size_t n, struct dt_error *err)
{
    struct dt_strbuf text;
    dt_db *db;
    if (n == 0)
        return DT_OK;
    dt_strbuf_init(&text);
    dt_json_begin_array(&text, NULL);
    for (size_t i = 0; i < n; i++)
        DT_JSON_PUT_ROW(&text, alerts[i].id, alerts[i].value, alerts[i].limit);
    dt_json_end_array(&text);
    dt_status status = text.failed ? dt_fail(err, DT_NOMEM, "out of memory") : dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_set_alert_values, DT_PARAMS(DT_P_STR(dt_strbuf_str(&text))), NULL, err);
    dt_strbuf_clear(&text);
    return status;
}
