/*
 * The transactions on the inbox: see inbox.h.
 *
 * Order. Of the rows of a key that are committed when they are looked at the lowest goes first. Rows are locked first
 * (`lock_inbox`), and then those that are committed are listed once more (`select_inbox_names`): one that is listed
 * and was not locked is another session's, and whatever comes behind it for its key waits. A row that was committed
 * between the two shows there, too; one that shows in neither was not committed when the rows were looked at.
 */
#include "inbox.h"

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "intent_decode.h"
#include "intents_txn.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"

#define BYTES_AT_ONCE ((size_t)16 << 20) /* of rows in one transaction, but one goes always */
#define NAMES_AT_ONCE (DT_INBOX_AT_ONCE + 1000)
#define ERROR_BYTES   ((size_t)1500)  /* of a text that goes into job_inbox.error */
#define PATIENCE_US   INT64_C(200000) /* for the batch of an earlier attempt to be settled, as a request has it */

/* One transaction. */
struct moving {
    struct dt_inbox_mover *mover;
    struct dt_inbox_moved *out;
    bool singly;
    struct dt_inbox_row *rows; /* locked, ascending */
    size_t n;
    struct dt_intents_txn txn;
    struct dt_counts counts;
    dt_db *db;
    struct dt_error *err;
};

/* ---- looking ---- */

dt_status dt_store_look_at_inbox(struct dt_inbox_mover *m, bool *some, struct dt_error *err)
{
    size_t bytes = 0;
    size_t n = 0;
    bool full = false;
    dt_db *db;
    *some = false;
    dt_status status = dt_store_db(m->store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_look_at_inbox, DT_PARAMS(DT_P_INT(m->after), DT_P_INT(DT_INBOX_AT_ONCE)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        bytes += (size_t)dt_db_i64(db, 1);
        full = full || (n > 0 && bytes > BYTES_AT_ONCE);
        if (!full) /* the last one that goes into one transaction with those before it */
            m->last = dt_db_i64(db, 0);
        n++;
    }
    *some = n > 0;
    if (n == 0)
        m->after = 0; /* the end: from the first one on again */
    return dt_db_end(db, err);
}

/* ---- patience ---- */

static struct dt_inbox_patience *find_patience(struct dt_inbox_mover *m, int64_t id)
{
    for (size_t i = 0; i < m->n_patience; i++)
        if (m->patience[i].id == id)
            return &m->patience[i];
    return NULL;
}

/* ---- reading ---- */

static dt_status take_row(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    bool ok = true;
    (void)arg;
    *(struct dt_inbox_row *)row = (struct dt_inbox_row){.id = dt_db_i64(db, 0),
                                                        .action = dt_db_i64(db, 1),
                                                        .topic = dt_store_text(db, 2, arena, &ok),
                                                        .key = dt_store_text(db, 3, arena, &ok),
                                                        .has_job_id = !dt_db_is_null(db, 4),
                                                        .job_id = dt_db_i64(db, 4),
                                                        .has_run_at = !dt_db_is_null(db, 5),
                                                        .run_at_ms = dt_db_i64(db, 5),
                                                        .has_delay = !dt_db_is_null(db, 6),
                                                        .delay_ms = dt_db_i64(db, 6),
                                                        .payload = dt_store_text(db, 7, arena, &ok),
                                                        .payload_bytes = (size_t)dt_db_i64(db, 8),
                                                        .options = dt_store_text(db, 9, arena, &ok),
                                                        .options_bytes = (size_t)dt_db_i64(db, 10),
                                                        .created_at_ms = dt_db_i64(db, 11)};
    return ok ? DT_OK : DT_NOMEM;
}

static dt_status lock_rows(struct moving *t)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_inbox_row), .read = take_row};
    const struct dt_inbox_mover *m = t->mover;
    dt_status status = dt_db_query(t->db, dt_sql_lock_inbox,
                                   DT_PARAMS(DT_P_INT(m->rules.payload_max + 1), DT_P_INT(DT_INBOX_OPTIONS_MAX + 1),
                                             DT_P_INT(m->after), DT_P_INT(m->last), DT_P_INT(DT_INBOX_AT_ONCE)),
                                   t->err);
    if (status == DT_OK)
        status = dt_store_read_rows(t->db, &t->mover->arena, &rows, t->err);
    t->rows = rows.v;
    t->n = rows.n;
    return status;
}

/* Has the rows of a key wait that come behind one that is not ours; those before it go: two movers whose rows
 * alternate would else wait for each other. Where there are more rows than are looked at here, ours behind the last of
 * them are left for the next time. */
static dt_status pass_others(struct moving *t)
{
    size_t ours = 0;
    size_t names = 0;
    int64_t last = 0;
    dt_assert_cmp(t->n, >, 0);
    dt_status status = dt_db_query(t->db, dt_sql_select_inbox_names,
                                   DT_PARAMS(DT_P_INT(t->rows[t->n - 1].id), DT_P_INT(NAMES_AT_ONCE)), t->err);
    if (status != DT_OK)
        return status;
    for (; names < NAMES_AT_ONCE && dt_db_next(t->db); names++) {
        last = dt_db_i64(t->db, 0);
        while (ours < t->n && t->rows[ours].id < last)
            ours++;
        if (ours == t->n || t->rows[ours].id != last)
            dt_intents_stand_behind(&t->txn, ours, dt_db_bytes(t->db, 1), dt_db_bytes(t->db, 2), dt_db_i64(t->db, 3));
    }
    while (names == NAMES_AT_ONCE && t->n > 0 && t->rows[t->n - 1].id > last)
        t->n--;
    t->txn.n = t->n;
    return dt_db_end(t->db, t->err);
}

static dt_status decode_rows(struct moving *t, int64_t now_ms)
{
    struct dt_inbox_mover *m = t->mover;
    const struct dt_intent_decoder reader = {.rules = &m->rules, .json = m->json, .arena = &m->arena, .now_ms = now_ms};
    const bool test_clock = dt_store_config(m->store)->installation_test_clock;
    dt_status status = DT_OK;
    for (size_t i = 0; i < t->n && status == DT_OK; i++) {
        if (test_clock) /* the session that wrote the row had the server's time */
            t->rows[i].created_at_ms = now_ms;
        status = dt_inbox_decode(&reader, &t->rows[i], &t->txn.v[i]);
        const struct dt_inbox_patience *p = find_patience(m, t->rows[i].id);
        t->txn.v[i].patient = !p || dt_clock_mono_us(m->clock) < p->since_us + PATIENCE_US;
    }
    return status == DT_OK ? status : dt_fail(t->err, status, "%s", dt_status_text(status));
}

/* ---- writing ---- */

static dt_status write_errors(struct moving *t, int64_t now_ms)
{
    struct dt_strbuf list;
    struct dt_strbuf text;
    dt_strbuf_init(&list);
    dt_strbuf_init(&text);
    dt_json_begin_array(&list, NULL);
    for (size_t i = 0; i < t->n; i++) {
        if (t->txn.v[i].outcome != DT_INTENT_REFUSED)
            continue;
        dt_strbuf_reset(&text);
        dt_problem_add_text(&text, &t->txn.v[i].problem);
        text.n = text.n < ERROR_BYTES ? text.n : ERROR_BYTES;
        dt_json_begin_array(&list, NULL);
        dt_json_put_int(&list, NULL, t->rows[i].id);
        dt_json_put_string(&list, NULL, dt_strbuf_str(&text));
        dt_json_end_array(&list);
        t->out->refused++;
    }
    dt_json_end_array(&list);
    dt_status status = list.failed || text.failed ? dt_fail(t->err, DT_NOMEM, "out of memory") : DT_OK;
    if (status == DT_OK && t->out->refused)
        status = dt_db_run(t->db, dt_sql_set_inbox_errors, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list)), DT_P_INT(now_ms)),
                           NULL, t->err);
    dt_strbuf_clear(&list);
    dt_strbuf_clear(&text);
    return status;
}

static dt_status remove_done(struct moving *t)
{
    int64_t *ids = dt_arena_alloc(&t->mover->arena, (t->n + 1) * sizeof(*ids));
    uint64_t removed = 0;
    size_t n = 0;
    if (!ids)
        return dt_fail(t->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < t->n; i++) {
        if (t->txn.v[i].outcome == DT_INTENT_DONE)
            ids[n++] = t->rows[i].id;
        t->out->waiting += t->txn.v[i].outcome == DT_INTENT_WAITS;
    }
    t->out->done = n;
    dt_status status = dt_id_list_delete(t->db, dt_sql_delete_inbox, DT_IDS(ids, n), &removed, t->err);
    return status == DT_OK && !DT_GUARD(INBOX_LOCK, removed == n)
               ? dt_fail(t->err, DT_INTERNAL, "rows of the inbox left under their lock")
               : status;
}

/* ---- the transaction ---- */

static dt_status move(struct moving *t, int64_t now_ms)
{
    struct dt_inbox_mover *m = t->mover;
    dt_arena_reset(&m->arena);
    *t->out = (struct dt_inbox_moved){0};
    dt_status status = lock_rows(t);
    DT_FAIL_POINT_STATUS("inbox.locked", status, t->err);
    if (status != DT_OK || t->n == 0)
        return status;
    t->txn = (struct dt_intents_txn){.store = m->store,
                                     .db = t->db,
                                     .now_ms = now_ms,
                                     .counts = &t->counts,
                                     .arena = &m->arena,
                                     .ids = &m->ids,
                                     .topics = &m->topics,
                                     .singly = t->singly,
                                     .v = dt_arena_alloc(&m->arena, (t->n + 1) * sizeof(struct dt_intent)),
                                     .n = t->n};
    status = t->txn.v ? dt_intents_init(&t->txn, NAMES_AT_ONCE, t->err) : dt_fail(t->err, DT_NOMEM, "out of memory");
    if (status == DT_OK)
        status = pass_others(t);
    if (status == DT_OK)
        status = decode_rows(t, now_ms);
    if (status == DT_OK)
        status = dt_intents_in_txn(&t->txn, t->err);
    DT_FAIL_POINT_STATUS("inbox.carried_out", status, t->err);
    if (status == DT_OK)
        status = remove_done(t);
    if (status == DT_OK)
        status = write_errors(t, now_ms);
    dt_assert(status != DT_OK || t->out->done + t->out->refused + t->out->waiting == t->n);
    DT_FAIL_POINT_STATUS("inbox.written", status, t->err);
    return status;
}

static dt_status move_once(struct moving *t)
{
    int64_t now_ms;
    dt_counts_init(&t->counts);
    dt_status status = dt_store_begin(t->mover->store, &t->db, &now_ms, t->err);
    if (status == DT_OK)
        status = move(t, now_ms);
    status = dt_counts_commit(t->db, &t->counts, status, t->err);
    DT_FAIL_POINT_STATUS("inbox.committed", status, t->err);
    return status;
}

static dt_status commit_move(struct moving *t)
{
    struct dt_again again = {0};
    dt_status status;
    do {
        status = dt_id_block_reserve(&t->mover->ids, t->mover->store, DT_INBOX_AT_ONCE, t->err);
        if (status == DT_OK)
            status = dt_intents_ended(move_once(t), &t->mover->ids, &t->singly);
    } while (dt_store_again(&again, status));
    return status;
}

dt_status dt_store_move_inbox(struct dt_inbox_mover *m, struct dt_inbox_moved *out, struct dt_error *err)
{
    struct moving t = {.mover = m, .out = out, .err = err};
    dt_status status = commit_move(&t);
    if (status != DT_OK) {
        *out = (struct dt_inbox_moved){0};
        return status;
    }
    if (t.n > 0) {
        out->moves = t.txn.moves;
        out->n_moves = t.txn.n_moves;
        /* Remembers what waits for batches to be settled, and since when; beyond its room, what waits longest is
         * forgotten. */
        struct dt_inbox_patience kept[DT_INBOX_PATIENCE];
        size_t n = 0;
        for (size_t i = 0; i < t.n && n < DT_INBOX_PATIENCE; i++) {
            const struct dt_intent *x = &t.txn.v[i];
            if (x->outcome != DT_INTENT_WAITS || !x->unsettled)
                continue;
            const struct dt_inbox_patience *p = find_patience(m, t.rows[i].id);
            kept[n++] = p ? *p : (struct dt_inbox_patience){t.rows[i].id, dt_clock_mono_us(m->clock)};
        }
        memcpy(m->patience, kept, n * sizeof(*kept));
        m->n_patience = n;
    }
    /* Rows that could not be locked must not keep later rows from being seen. */
    m->after = t.n == 0 || out->waiting == t.n ? m->last : 0;
    out->again = m->topics.n_wanted > 0;
    return dt_intent_topics_make(&m->topics, m->store, dt_clock_mono_us(m->clock), err);
}

/* ---- errors ---- */

dt_status dt_store_purge_inbox(dt_store *store, int64_t before_ms, uint64_t *purged, struct dt_error *err)
{
    *purged = 0;
    return dt_store_run(store, dt_sql_delete_old_inbox_errors, DT_PARAMS(DT_P_INT(before_ms)), purged, err);
}

dt_status dt_store_count_inbox_errors(dt_store *store, int64_t *n, struct dt_error *err)
{
    dt_db *db;
    *n = 0;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_db_read_number(db, dt_sql_count_inbox_errors, DT_NO_PARAMS, NULL, n, err) : status;
}
