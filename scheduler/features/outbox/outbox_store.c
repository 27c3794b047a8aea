/* The outbox in MySQL: reading the messages, and writing their outcomes. */
#include "outbox_store.h"

#include "base/text/json_write.h"
#include "job/change/jobs_row.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/owners.h"

#define ERROR_BYTES 160 /* most bytes of an error; in any encoding, so many fit into the column */

enum { PAGE = 1024 }; /* rows of a page: the LIMIT of the statement select_due_messages */

static dt_status read_sender(const dt_db *db, struct dt_arena *, void *row, void *arg)
{
    struct dt_senders *senders = arg;
    *(struct dt_sender *)row = (struct dt_sender){dt_db_i64(db, 0), dt_db_i64(db, 1)};
    senders->now_ms = dt_db_i64(db, 2);
    return DT_OK;
}

static struct dt_param kind_param(enum dt_message_kind kind)
{
    static const char *const kinds[DT_MESSAGE_KINDS_END] = {"", "dead", "answers", "alert"};
    return DT_P_STR(dt_str(kinds[kind]));
}

dt_status dt_store_senders(dt_store *store, enum dt_message_kind kind, struct dt_arena *arena, struct dt_senders *out,
                           struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = read_sender, .arg = out};
    *out = (struct dt_senders){0};
    dt_status status = dt_store_read(store, dt_sql_select_senders, DT_PARAMS(kind_param(kind)), arena, &rows, err);
    out->v = rows.v;
    out->n = rows.n;
    return status;
}

static dt_status read_message(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    const struct dt_message_page *page = arg;
    struct dt_message_row *m = row;
    const struct dt_str topic = dt_db_bytes(db, 4);
    bool ok = true;
    *m = (struct dt_message_row){.id = dt_db_i64(db, 0),
                                 .sender = page->sender,
                                 .next_ms = dt_db_i64(db, 1),
                                 .tries = (int)dt_db_i64(db, 2),
                                 .made_ms = dt_db_i64(db, 3),
                                 .owner = dt_db_i64(db, 5),
                                 .kafka_topic = dt_store_text(db, 6, arena, &ok),
                                 .topic = topic.n ? dt_store_text(db, 4, arena, &ok) : DT_STR_NONE,
                                 .target = (enum dt_message_target)dt_db_i64(db, 8),
                                 .setting = dt_store_text(db, 14, arena, &ok),
                                 .alert = dt_db_i64(db, 7),
                                 .type = dt_db_i64(db, 9),
                                 .alert_kind = dt_db_i64(db, 10),
                                 .value = dt_db_i64(db, 11),
                                 .bound = dt_db_i64(db, 12),
                                 .began_ms = dt_db_i64(db, 13),
                                 .barred_ms = dt_db_i64(db, 15)};
    if (m->owner <= 0 && page->kind == DT_MESSAGE_ALERT)
        m->owner = topic.n ? dt_owner_by_name(topic) : 0;
    else if (m->owner <= 0 && page->kind == DT_MESSAGE_ANSWERS) /* answers of a deleted topic all have one owner */
        m->owner = dt_owner_by_name(dt_db_is_null(db, 5) ? DT_STR_NONE : topic);
    return ok ? DT_OK : DT_NOMEM;
}

dt_status dt_store_messages(dt_store *store, struct dt_message_page *page, struct dt_arena *arena, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*page->v), .read = read_message, .arg = page};
    dt_status status = dt_store_read(store, dt_sql_select_due_messages,
                                     DT_PARAMS(DT_P_INT(page->now_ms), kind_param(page->kind), DT_P_INT(page->sender),
                                               DT_P_INT(page->next_ms), DT_P_INT(page->next_ms), DT_P_INT(page->id),
                                               DT_P_INT(page->kafka)),
                                     arena, &rows, err);
    page->v = rows.v;
    page->n = rows.n;
    page->more = rows.n == PAGE;
    if (rows.n) {
        page->next_ms = page->v[rows.n - 1].next_ms;
        page->id = page->v[rows.n - 1].id;
    }
    return status;
}

struct reading {
    dt_db *db;
    struct dt_arena *arena;
    struct dt_notices *out;
};

static dt_status read_notice(void *arg)
{
    const struct reading *r = arg;
    struct dt_notice *notice = &r->out->v[r->out->n++];
    *notice = (struct dt_notice){
        .id = dt_db_i64(r->db, 0), .attempt = dt_db_i64(r->db, 1), .made_at_ms = dt_db_i64(r->db, 2)};
    return dt_row_full(r->db, 3, r->arena, &notice->job);
}

dt_status dt_store_notices(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                           struct dt_notices *out, struct dt_error *err)
{
    struct reading r = {.arena = arena, .out = out};
    *out = (struct dt_notices){.v = dt_arena_alloc(arena, (n + 1) * sizeof(*out->v))};
    dt_status status = out->v ? dt_store_db(store, &r.db, err) : dt_fail(err, DT_NOMEM, "out of memory");
    return n && status == DT_OK
               ? dt_id_in_read(r.db, &dt_sql_select_notices, DT_NO_PARAMS, DT_IDS(ids, n), read_notice, &r, err)
               : status;
}

dt_status dt_store_put_off_messages(dt_store *store, const struct dt_message_try *v, size_t n, struct dt_error *err)
{
    struct dt_strbuf list = {0};
    uint64_t changed = 0;
    if (n == 0)
        return DT_OK;
    dt_json_begin_array(&list, NULL);
    for (size_t i = 0; i < n; i++) {
        dt_json_begin_array(&list, NULL);
        dt_json_put_int(&list, NULL, v[i].id);
        dt_json_put_int(&list, NULL, v[i].tries);
        dt_json_put_int(&list, NULL, v[i].after_ms);
        dt_json_put_int(&list, NULL, v[i].counts);
        if (v[i].why.p)
            dt_json_put_cut(&list, NULL, v[i].why, ERROR_BYTES);
        else
            dt_json_put_null(&list, NULL);
        dt_json_end_array(&list);
    }
    dt_json_end_array(&list);
    dt_status status = dt_store_run(store, dt_sql_put_off_messages, DT_PARAMS(DT_P_BUF(&list)), &changed, err);
    dt_strbuf_clear(&list);
    return status == DT_OK && changed != n ? dt_fail(err, DT_VERSION, "another process sends some of the messages")
                                           : status;
}

dt_status dt_store_delete_messages(dt_store *store, const int64_t *ids, size_t n, struct dt_error *err)
{
    dt_db *db;
    uint64_t removed;
    dt_status status = n ? dt_store_db(store, &db, err) : DT_OK;
    return n && status == DT_OK ? dt_id_list_delete(db, dt_sql_delete_messages, DT_IDS(ids, n), &removed, err) : status;
}
