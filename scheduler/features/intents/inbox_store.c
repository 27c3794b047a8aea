/*
 * The transactions on the inbox (inbox.h).
 *
 * Order: the committed rows of a key are carried out in the order of their ids. The mover first locks rows
 * (`lock_inbox`), then lists the committed rows (`select_inbox_names`). If a listed row is not among the locked ones,
 * another session has locked it, and later rows of its key wait. The list may also have rows that were committed after
 * lock_inbox.
 */
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "inbox.h"
#include "intents.h"
#include "intents_txn.h"
#include "job/job_json.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"

/*
 * Converts the columns of a row into a body: {"run_at":…,"payload":…,<the members of options>}. Topic and key are
 * passed separately, as from the path of a request.
 *
 * An application wrote the texts of the payload and of the options. They must not change other parts of the body. So
 * the options are parsed separately first. A payload that is not exactly one JSON value is detected after the body was
 * parsed: the payload of the body then differs from the column.
 */

struct row_reading {
    const struct dt_intent_decoder *with;
    const struct dt_inbox_row *row;
    struct dt_intent *out;
    struct dt_str payload; /* the payload without surrounding white space */
    bool has_content_type;
    struct dt_strbuf body;
    struct dt_job_rules rules; /* limits from the configuration; delays count from the INSERT of the row */
};

static dt_status refuse_column_text(struct row_reading *r, const char *what, const struct dt_error *why)
{
    struct dt_str detail = dt_arena_printf(r->with->arena, "%s: %s", what, why->text);
    r->out->outcome = DT_INTENT_REFUSED;
    r->out->problem = (struct dt_problem){.type = dt_problem_of_status(why->status), .detail = detail};
    return detail.p ? DT_OK : DT_NOMEM;
}

static bool is_row_refused(const struct row_reading *r)
{
    return r->out->outcome == DT_INTENT_REFUSED;
}

static void add_row_fault(struct row_reading *r, const char *pointer, const char *reason)
{
    dt_faults_add(&r->out->faults, pointer, reason);
}

static dt_status parse_column_text(struct row_reading *r, struct dt_str text, const char *what)
{
    struct dt_json_limits limits = {.depth = r->with->rules->json_depth};
    struct dt_error why = {0};
    dt_status status = dt_json_parse(r->with->json, text, &limits, &why);
    return status == DT_OK || status == DT_NOMEM ? status : refuse_column_text(r, what, &why);
}

static dt_status read_options(struct row_reading *r)
{
    /* Reads only the names of members; the decoder of the body reads their values. */
    static const struct dt_json_field fields[] = {
        DT_FIELD_BY("content_type", NULL), DT_FIELD_BY("retry", NULL),         DT_FIELD_BY("ack_timeout", NULL),
        DT_FIELD_BY("headers", NULL),      DT_FIELD_BY("partition_key", NULL), DT_FIELD_BY("callback_url", NULL),
    };
    static const struct dt_json_table table = DT_TABLE(fields, .unknown = DT_REASON_UNKNOWN);
    struct dt_json_reader options = {.json = r->with->json, .faults = &r->out->faults, .parent = "/options"};
    const struct dt_inbox_row *row = r->row;
    if (!row->options.p)
        return DT_OK;
    if (row->options_bytes > DT_INBOX_OPTIONS_MAX) {
        dt_faults_addf(&r->out->faults, "/options", "has %zu bytes, %zu are allowed", row->options_bytes,
                       DT_INBOX_OPTIONS_MAX);
        dt_intent_refuse_faults(r->out, DT_TOO_LARGE);
        return DT_OK;
    }
    dt_status status = parse_column_text(r, row->options, "options");
    if (status != DT_OK || is_row_refused(r))
        return status;
    dt_json_read(&options, &table, dt_json_root(r->with->json));
    r->has_content_type = dt_json_given(&options, 0);
    return DT_OK;
}

/* ---- a row as a body ---- */

static struct dt_str trim_space(struct dt_str s)
{
    while (s.n > 0 && memchr(" \t\r\n", s.p[0], 4)) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && memchr(" \t\r\n", s.p[s.n - 1], 4))
        s.n--;
    return s;
}

static void make_body_from_columns(struct row_reading *r)
{
    const struct dt_inbox_row *row = r->row;
    dt_json_begin_object(&r->body, NULL);
    if (row->has_run_at)
        dt_json_put_time(&r->body, "run_at", row->run_at_ms > 0 ? row->run_at_ms : 1);
    if (row->has_delay)
        dt_json_put_int(&r->body, "delay", row->delay_ms);
    if (row->payload.p && r->has_content_type) {
        dt_json_put_base64(&r->body, "payload_base64", row->payload);
    } else if (row->payload.p) {
        r->payload = trim_space(row->payload);
        dt_json_put_raw(&r->body, "payload", r->payload);
    }
    if (row->options.p) { /* the options are an object, so its members are between its braces */
        const struct dt_str object = trim_space(row->options);
        dt_assert_cmp(object.n, >=, 2);
        const struct dt_str members = trim_space((struct dt_str){object.p + 1, object.n - 2});
        if (members.n)
            dt_json_put_raw(&r->body, NULL, members);
    }
    dt_json_end_object(&r->body);
}

/* Parses the body. Refuses the payload if the body cannot be parsed, or if the payload of the body is not exactly that
 * of the row: a text that is not one JSON value could add other members. */
static dt_status parse_body(struct row_reading *r)
{
    struct dt_json_limits limits = dt_job_json_limits(r->with->rules->json_depth);
    struct dt_error why = {0};
    struct dt_str text = dt_arena_copy(r->with->arena, dt_strbuf_str(&r->body));
    if (r->body.failed || !text.p)
        return DT_NOMEM;
    dt_status status = dt_json_parse(r->with->json, text, &limits, &why);
    if (status == DT_NOMEM || (status == DT_OK && !r->payload.p))
        return status;
    if (status == DT_OK) {
        const struct dt_json_node *node = dt_json_member(r->with->json, dt_json_root(r->with->json), "payload");
        if (node && node->raw.n == r->payload.n)
            return DT_OK;
        why = (struct dt_error){.status = DT_MALFORMED, .text = "is more than one JSON value"};
    } else if (r->payload.p) { /* parses the payload alone, so that the fault has the offset in the payload */
        status = parse_column_text(r, r->payload, "payload");
        if (status != DT_OK || is_row_refused(r))
            return status;
    }
    return refuse_column_text(r, "payload", &why);
}

/* ---- decoding the actions ---- */

static dt_status read_row_body(struct row_reading *r)
{
    const size_t most = r->with->rules->payload_max;
    const int64_t now_ms = r->with->now_ms;
    if (r->row->payload_bytes > most) {
        dt_faults_addf(&r->out->faults, "/payload", "has %zu bytes, %zu are allowed", r->row->payload_bytes, most);
        dt_intent_refuse_faults(r->out, DT_TOO_LARGE);
        return DT_OK;
    }
    dt_status status = read_options(r);
    if (status == DT_OK && !is_row_refused(r) && r->out->faults.n > 0)
        dt_intent_refuse_faults(r->out, DT_INVALID);
    if (status == DT_OK && r->out->faults.failed) /* memory ran out while a fault was added */
        status = DT_NOMEM;
    if (status != DT_OK || is_row_refused(r))
        return status;
    make_body_from_columns(r);
    status = parse_body(r);
    if (status != DT_OK || is_row_refused(r))
        return status;
    const bool changes = r->out->action == DT_INTENT_CHANGE;
    const struct dt_job_path path = {.topic = r->row->topic, .key = r->row->key};
    struct dt_patch *patch = &r->out->patch;
    struct dt_new_job *job = &r->out->insert.job;
    status = changes ? dt_patch_decode(r->with->json, &r->rules, now_ms, &r->out->faults, patch)
                     : dt_job_decode(r->with->json, &r->rules, &path, now_ms, &r->out->faults, job);
    if (status == DT_NOMEM)
        return status;
    if (status != DT_OK) {
        dt_intent_refuse_faults(r->out, status);
        return DT_OK;
    }
    if (changes && !patch->has_run_at)
        return DT_OK;
    if (changes && patch->run_at_is_delay)
        patch->run_at_ms += r->row->created_at_ms;
    patch->run_at_is_delay = false;
    /* Delays count from the time of the session that wrote the row. If its clock was ahead of the server's, the job
     * must still not be due later than limits.max_delay allows for other requests. */
    if ((changes ? patch->run_at_ms : job->run_at_ms) > now_ms + r->with->rules->max_delay_ms) {
        add_row_fault(r, r->row->has_run_at ? "/run_at" : "/delay_ms", "is further ahead than limits.max_delay allows");
        dt_intent_refuse_faults(r->out, DT_INVALID);
    }
    return DT_OK;
}

static dt_status read_intent_row(struct row_reading *r)
{
    const struct dt_inbox_row *row = r->row;
    if (row->action < 1 || row->action > DT_INTENT_ACTIONS) {
        add_row_fault(r, "/action", "must be one of create, replace, cancel, change, run_now");
        dt_intent_refuse_faults(r->out, DT_INVALID);
        return DT_OK;
    }
    enum dt_intent_action action = r->out->action = (enum dt_intent_action)(row->action - 1);
    const bool creates = action == DT_INTENT_CREATE || action == DT_INTENT_REPLACE;
    const char *reason = row->topic.p ? dt_topic_check(row->topic, r->with->rules->installation) : NULL;
    if (reason)
        add_row_fault(r, "/topic", reason);
    reason = row->key.p ? dt_key_check(row->key) : NULL;
    if (reason)
        add_row_fault(r, "/job_key", reason);
    if (creates ? row->has_job_id : row->has_job_id && row->key.p)
        add_row_fault(r, "/job_id", creates ? "cannot be set" : "contradicts job_key: give one of the two");
    if (row->has_job_id && row->job_id < 1)
        add_row_fault(r, "/job_id", "must be the id of a job");
    if (!creates && row->key.p && !row->topic.p)
        add_row_fault(r, "/topic", "is required with job_key");
    if (!creates && !row->key.p && !row->has_job_id)
        add_row_fault(r, "/job_key", "is required, or job_id for a job without a key");
    if (row->has_run_at && row->run_at_ms > DT_TIME_MAX_MS)
        add_row_fault(r, "/run_at", "must be a time in ms before the year 10000");
    if (row->created_at_ms < 0 || row->created_at_ms > r->with->now_ms + r->with->rules->max_delay_ms)
        add_row_fault(r, "/created_at", "must be a time in ms, no further ahead than limits.max_delay allows");
    if (action == DT_INTENT_REPLACE && !row->key.p)
        add_row_fault(r, "/job_key", "is required");
    if (action != DT_INTENT_CANCEL && action != DT_INTENT_RUN_NOW)
        return read_row_body(r);
    /* Refuses columns that the action does not use, so that no column is ignored silently. */
    static const char *const why = "is not allowed in this action";
    if (row->has_run_at)
        add_row_fault(r, "/run_at", why);
    if (row->has_delay)
        add_row_fault(r, "/delay_ms", why);
    if (row->payload.p)
        add_row_fault(r, "/payload", why);
    if (row->options.p)
        add_row_fault(r, "/options", why);
    if (r->out->faults.n > 0)
        dt_intent_refuse_faults(r->out, DT_INVALID);
    return DT_OK;
}

#define BYTES_AT_ONCE ((size_t)16 << 20) /* most bytes of rows in one transaction, unless the first row is larger */
#define NAMES_AT_ONCE (DT_INBOX_AT_ONCE + 1000)
#define ERROR_BYTES   ((size_t)1500) /* most bytes of the text in job_inbox.error */
/* Longest time for which a row waits until an attempt has left the in-flight list. A request over HTTP waits as
 * long. */
#define PATIENCE_US INT64_C(200000)

struct moving {
    struct dt_inbox_mover *mover;
    struct dt_inbox_moved *out;
    bool singly;
    struct dt_inbox_row *rows; /* the locked rows, ascending */
    size_t n;
    struct dt_intents_txn txn;
    struct dt_counts counts;
    dt_db *db;
    struct dt_error *err;
};

/* ---- moving rows ---- */

dt_status dt_store_look_at_inbox(struct dt_inbox_mover *m, bool *some, struct dt_error *err)
{
    size_t bytes = 0;
    size_t n = 0;
    bool full = false;
    dt_db *db;
    *some = false;
    dt_status status = dt_store_query(m->store, &db, dt_sql_look_at_inbox,
                                      DT_PARAMS(DT_P_INT(m->after), DT_P_INT(DT_INBOX_AT_ONCE)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        bytes += (size_t)dt_db_i64(db, 1);
        full = full || (n > 0 && bytes > BYTES_AT_ONCE);
        if (!full) /* this row fits into one transaction with the rows before it */
            m->last = dt_db_i64(db, 0);
        n++;
    }
    *some = n > 0;
    if (n == 0)
        m->after = 0; /* no further rows: the next search begins with the first row */
    return dt_db_end(db, err);
}

static struct dt_inbox_patience *find_row_patience(struct dt_inbox_mover *m, int64_t id)
{
    for (size_t i = 0; i < m->n_patience; i++)
        if (m->patience[i].id == id)
            return &m->patience[i];
    return NULL;
}

static dt_status read_inbox_row(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    bool ok = true;
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

static dt_status lock_inbox_rows(struct moving *t)
{
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_inbox_row), .read = read_inbox_row};
    const struct dt_inbox_mover *m = t->mover;
    dt_status status = dt_db_query(t->db, dt_sql_lock_inbox,
                                   DT_PARAMS(DT_P_INT(m->rules.payload_max + 1), DT_P_INT(DT_INBOX_OPTIONS_MAX + 1),
                                             DT_P_INT(m->after), DT_P_INT(m->last), DT_P_INT(DT_INBOX_AT_ONCE)),
                                   t->err);
    DT_THEN(status, dt_store_read_rows(t->db, &t->mover->arena, &rows, t->err));
    t->rows = rows.v;
    t->n = rows.n;
    return status;
}

/* If another session has a row locked, later rows of its key must wait. Earlier rows are carried out: otherwise two
 * movers that have locked alternating rows would wait for each other. If the list of committed rows is not complete,
 * the rows after its end are left for the next call. */
static dt_status postpone_later_rows(struct moving *t)
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
        struct dt_inbox_row *row = &t->rows[i];
        struct dt_intent *out = &t->txn.v[i];
        if (test_clock) /* the writing session had real time, so delays count from now_ms */
            row->created_at_ms = now_ms;
        /* Decodes a row. If it cannot be carried out, *out is REFUSED and has the problem. */
        *out = (struct dt_intent){.topic = row->topic,
                                  .key = row->key,
                                  .job_id = row->has_job_id ? row->job_id : 0,
                                  .faults = {.arena = reader.arena}};
        struct row_reading r = {.with = &reader, .row = row, .out = out, .rules = *reader.rules};
        r.rules.delays_from_ms = dt_later(row->created_at_ms, 1);
        status = read_intent_row(&r);
        dt_strbuf_clear(&r.body);
        if (out->faults.failed)
            status = DT_NOMEM;
        const struct dt_inbox_patience *p = find_row_patience(m, row->id);
        out->patient = !p || dt_clock_mono_us(m->clock) < p->since_us + PATIENCE_US;
    }
    return status == DT_OK ? status : dt_fail(t->err, status, "%s", dt_status_text(status));
}

static dt_status write_errors(struct moving *t, int64_t now_ms)
{
    struct dt_strbuf list = {0};
    struct dt_strbuf text = {0};
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
        status = dt_db_run(t->db, dt_sql_set_inbox_errors, DT_PARAMS(DT_P_BUF(&list), DT_P_INT(now_ms)), NULL, t->err);
    dt_strbuf_clear(&list);
    dt_strbuf_clear(&text);
    return status;
}

static dt_status delete_done_rows(struct moving *t)
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
               ? dt_fail(t->err, DT_INTERNAL, "locked rows of job_inbox were deleted by another session")
               : status;
}

static dt_status move_locked_rows(struct moving *t, int64_t now_ms)
{
    struct dt_inbox_mover *m = t->mover;
    dt_arena_reset(&m->arena);
    *t->out = (struct dt_inbox_moved){0};
    dt_status status = lock_inbox_rows(t);
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
    DT_THEN(status, postpone_later_rows(t));
    DT_THEN(status, decode_rows(t, now_ms));
    DT_THEN(status, dt_intents_in_txn(&t->txn, t->err));
    DT_FAIL_POINT_STATUS("inbox.carried_out", status, t->err);
    DT_THEN(status, delete_done_rows(t));
    DT_THEN(status, write_errors(t, now_ms));
    dt_assert(status != DT_OK || t->out->done + t->out->refused + t->out->waiting == t->n);
    DT_FAIL_POINT_STATUS("inbox.written", status, t->err);
    return status;
}

static dt_status try_move_rows(struct moving *t)
{
    int64_t now_ms;
    dt_counts_init(&t->counts);
    dt_status status = dt_store_begin(t->mover->store, &t->db, &now_ms, t->err);
    DT_THEN(status, move_locked_rows(t, now_ms));
    status = dt_counts_commit(t->db, &t->counts, status, t->err);
    DT_FAIL_POINT_STATUS("inbox.committed", status, t->err);
    return status;
}

dt_status dt_store_move_inbox(struct dt_inbox_mover *m, struct dt_inbox_moved *out, struct dt_error *err)
{
    struct moving t = {.mover = m, .out = out, .err = err};
    struct dt_again again = {0};
    dt_status status;
    do {
        status = dt_id_block_reserve(&m->ids, m->store, DT_INBOX_AT_ONCE, err);
        DT_THEN(status, dt_intents_ended(try_move_rows(&t), &m->ids, &t.singly));
    } while (dt_store_again(&again, status));
    if (status != DT_OK) {
        *out = (struct dt_inbox_moved){0};
        return status;
    }
    if (t.n > 0) {
        out->moves = t.txn.moves;
        out->n_moves = t.txn.n_moves;
        /* Stores which rows wait until attempts have left the in-flight list, and since when; at most DT_INBOX_PATIENCE
         * rows, those with the lowest ids. */
        struct dt_inbox_patience kept[DT_INBOX_PATIENCE];
        size_t n = 0;
        for (size_t i = 0; i < t.n && n < DT_INBOX_PATIENCE; i++) {
            const struct dt_intent *x = &t.txn.v[i];
            if (x->outcome != DT_INTENT_WAITS || !x->unsettled)
                continue;
            const struct dt_inbox_patience *p = find_row_patience(m, t.rows[i].id);
            kept[n++] = p ? *p : (struct dt_inbox_patience){t.rows[i].id, dt_clock_mono_us(m->clock)};
        }
        memcpy(m->patience, kept, n * sizeof(*kept));
        m->n_patience = n;
    }
    /* If no row of the search could be carried out, the next search begins after these rows, so that later rows are
     * found, too. */
    m->after = t.n == 0 || out->waiting == t.n ? m->last : 0;
    out->again = m->topics.n_wanted > 0;
    return dt_intent_topics_make(&m->topics, m->store, dt_clock_mono_us(m->clock), err);
}

/* ---- old errors ---- */

dt_status dt_store_purge_inbox(dt_store *store, int64_t before_ms, uint64_t *purged, struct dt_error *err)
{
    *purged = 0;
    return dt_store_run(store, dt_sql_delete_old_inbox_errors, DT_PARAMS(DT_P_INT(before_ms)), purged, err);
}

dt_status dt_store_count_inbox_errors(dt_store *store, int64_t *n, struct dt_error *err)
{
    *n = 0;
    return dt_store_number(store, dt_sql_count_inbox_errors, DT_NO_PARAMS, n, err);
}
