/* A piece of an operation: locks the next jobs in the order of their ids, decides for each job, and writes all of them
 * with one statement. Dead jobs in history are restored one by one, as by the redrive of a single job; so the pieces of
 * redrives are small. */

#include "base/assert.h"
#include "base/clock.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "base/text/timetext.h"
#include "events/events.h"
#include "job/archive/archive.h"
#include "job/change/jobs_txn.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "operation_parts.h"
#include "topic/limits.h"

#define REDRIVE_JOBS  128
#define RATE_PIECE_NS INT64_C(200000000) /* a piece has as many jobs as the operation's rate allows in this time */

/* A job of the piece. The jobs are sorted by id. */
struct target {
    int64_t id, at_ms; /* at_ms: new time of the job */
    enum dt_job_state state;
    bool there, refused; /* there: the job was found in `jobs`; refused: it cannot be changed */
    struct dt_str topic;
    int64_t next_at_ms, attempt;
};

struct work {
    const struct dt_operation_txn *txn;
    struct dt_operation_row *row;
    struct dt_operation_piece *piece;
    struct target *v;
    size_t n;
    int64_t *ids; /* ids of some of the piece's jobs; memory for n ids */
    size_t n_ids;
    int64_t changed;
    struct dt_error *err;
};

/* ---- the next jobs ---- */

/* Reads the next found jobs. A reschedule divides its spread by the number of all found jobs, including those that will
 * be refused. */
static dt_status read_next_jobs(struct work *w, size_t most)
{
    struct dt_operation_row *row = w->row;
    const struct dt_param limit = DT_P_INT(most);
    dt_db *db = w->txn->db;
    dt_status status =
        dt_db_query(db, dt_sql_select_operation_jobs,
                    DT_PARAMS(DT_P_INT(row->shown.id), DT_P_INT(row->after_at_ms), DT_P_INT(row->after_id), limit,
                              DT_P_INT(row->shown.id), DT_P_INT(row->after_at_ms), limit, limit),
                    w->err);
    if (status != DT_OK)
        return status;
    while (w->n < most && dt_db_next(db)) {
        const int64_t i = row->shown.changed + row->shown.refused + (int64_t)w->n;
        const int64_t n = row->shown.matched > i ? row->shown.matched : i + 1;
        /* at_ms + spread_ms * i / n, without an overflow of the product. Floating-point numbers would sometimes give a
         * millisecond less. */
        const int64_t at_ms = row->at_ms + row->spread_ms / n * i + row->spread_ms % n * i / n;
        w->v[w->n++] = (struct target){.id = dt_db_i64(db, 1), .at_ms = at_ms};
        if (DT_UNGUARDED(OPERATION_CURSOR))
            continue;
        row->after_at_ms = dt_db_i64(db, 0);
        row->after_id = dt_db_i64(db, 1);
    }
    qsort(w->v, w->n, sizeof(*w->v), dt_by_job_id);
    return dt_db_end(db, w->err);
}

/* ---- the rows of the jobs ---- */

static struct target *find_target(const struct work *w, int64_t id)
{
    const struct target key = {.id = id};
    return w->n ? bsearch(&key, w->v, w->n, sizeof(*w->v), dt_by_job_id) : NULL;
}

static bool cancels_jobs(enum dt_operation_kind kind)
{
    return kind == DT_OPERATION_CANCEL || kind == DT_OPERATION_DELETE_TOPIC;
}

static dt_status read_target_row(void *arg)
{
    struct work *w = arg;
    dt_db *db = w->txn->db;
    const enum dt_operation_kind kind = w->row->shown.kind;
    struct target *t = find_target(w, dt_db_i64(db, 0));
    if (!t)
        return DT_OK;
    t->there = true;
    t->topic = dt_arena_copy(w->txn->arena, dt_db_bytes(db, 2));
    t->next_at_ms = dt_db_i64(db, 3);
    t->attempt = dt_db_i64(db, 4);
    t->state = (enum dt_job_state)(dt_db_i64(db, 1) - 1);
    /* If the operation deletes the topic, a dispatched attempt ends as usual, but no further attempt follows. */
    const bool last = kind == DT_OPERATION_DELETE_TOPIC && t->state == DT_DISPATCHED;
    t->refused = !DT_GUARD(OPERATION_STATE, last || t->state == dt_operation_acts_on(kind));
    return t->topic.p ? DT_OK : dt_fail(w->err, DT_NOMEM, "out of memory");
}

static void list_targets(struct work *w, bool (*wanted)(const struct target *t))
{
    w->n_ids = 0;
    for (size_t i = 0; i < w->n; i++)
        if (wanted(&w->v[i]))
            w->ids[w->n_ids++] = w->v[i].id;
}

static bool accept_every_target(const struct target *)
{
    return true;
}

static bool may_be_in_flight(const struct target *t)
{
    return t->there && !t->refused && t->attempt > 0;
}

static bool is_accepted(const struct target *t)
{
    return t->there && !t->refused;
}

static dt_status refuse_target(void *arg)
{
    struct work *w = arg;
    struct target *t = find_target(w, dt_db_i64(w->txn->db, 0));
    if (t)
        t->refused = !DT_UNGUARDED(OPERATION_IN_FLIGHT);
    return DT_OK;
}

/* Refuses the jobs that have an attempt in flight, if the operation is a cancel: a cancel promises that the job is not
 * sent, and an attempt in flight is sent in any case. */
static dt_status refuse_targets_in_flight(struct work *w)
{
    dt_db *db = w->txn->db;
    list_targets(w, may_be_in_flight);
    const struct dt_ids ids = DT_IDS(w->ids, w->n_ids);
    if (w->row->shown.kind != DT_OPERATION_CANCEL || ids.n == 0)
        return DT_OK;
    dt_status status = dt_id_in_read(db, &dt_sql_find_listed_in_flight, DT_NO_PARAMS, ids, refuse_target, w, w->err);
    DT_THEN(status, dt_id_in_read(db, &dt_sql_find_listed_hands, DT_NO_PARAMS, ids, refuse_target, w, w->err));
    return status;
}

static dt_status lock_targets(struct work *w)
{
    const struct dt_operation_txn *txn = w->txn;
    /* ids of the piece's jobs, as JSON, to count first those jobs that a manual edit ended */
    struct dt_strbuf edited = {0};
    list_targets(w, accept_every_target);
    for (size_t i = 0; i < w->n_ids; i++)
        dt_id_list_add(&edited, w->ids[i]);
    dt_id_list_end(&edited);
    dt_status status = edited.failed ? dt_fail(w->err, DT_NOMEM, "out of memory")
                                     : dt_edited_end(txn->db, dt_store_config(txn->store), dt_strbuf_str(&edited),
                                                     txn->counts, txn->arena, w->err);
    dt_strbuf_clear(&edited);
    DT_THEN(status, dt_id_in_read(txn->db, &dt_sql_lock_operation_jobs, DT_NO_PARAMS, DT_IDS(w->ids, w->n_ids),
                                  read_target_row, w, w->err));
    return status == DT_OK ? refuse_targets_in_flight(w) : status;
}

/* ---- writing the changes ---- */

static void set_target_times(struct work *w)
{
    const struct dt_operation_row *row = w->row;
    const enum dt_operation_kind kind = row->shown.kind;
    const int64_t now_ms = w->txn->now_ms;
    const int64_t last_ms = now_ms + dt_store_config(w->txn->store)->limits_max_delay;
    for (size_t i = 0; i < w->n; i++) {
        struct target *t = &w->v[i];
        if (kind == DT_OPERATION_RUN_NOW || kind == DT_OPERATION_REDRIVE)
            t->at_ms = now_ms;
        else if (!row->at_one_time) {
            /* A manual edit, or dt_shift_all, may have set any numbers. If the sum overflows, at_ms becomes the
             * smallest or largest number. */
            if (__builtin_add_overflow(t->next_at_ms, row->shift_ms, &t->at_ms))
                t->at_ms = row->shift_ms < 0 ? INT64_MIN : INT64_MAX;
            /* Refuses a job that would be due later than limits.max_delay allows. */
            t->refused = t->refused || (row->shift_ms > 0 && t->at_ms > last_ms);
        }
        t->at_ms = cancels_jobs(kind) ? 0 : dt_earlier(dt_later(t->at_ms, now_ms), DT_TIME_MAX_MS);
    }
}

static dt_status write_listed_jobs(struct work *w, const struct dt_id_in *sql, struct dt_params head)
{
    uint64_t affected = 0;
    dt_status status = dt_id_in_run(w->txn->db, sql, head, DT_IDS(w->ids, w->n_ids), &affected, w->err);
    if (status == DT_OK && affected != w->n_ids)
        status = dt_fail(w->err, DT_INTERNAL, "jobs of operation %lld changed although they were locked",
                         (long long)w->row->shown.id);
    return status;
}

static dt_status write_each_target(struct work *w)
{
    const struct dt_param now = DT_P_INT(w->txn->now_ms);
    struct dt_strbuf rows = {0};
    dt_json_begin_array(&rows, NULL);
    for (size_t i = 0; i < w->n; i++)
        if (is_accepted(&w->v[i]))
            DT_JSON_PUT_ROW(&rows, w->v[i].id, w->v[i].at_ms);
    dt_json_end_array(&rows);
    dt_status status =
        dt_db_run(w->txn->db, dt_sql_move_jobs_each,
                  DT_PARAMS(DT_P_BUF(&rows), DT_P_INT(dt_near_end_ms(w->txn->now_ms)), now), NULL, w->err);
    dt_strbuf_clear(&rows);
    return status;
}

static bool is_dispatched(const struct target *t)
{
    return is_accepted(t) && t->state == DT_DISPATCHED;
}

static bool is_scheduled(const struct target *t)
{
    return is_accepted(t) && t->state == DT_SCHEDULED;
}

static dt_status write_targets(struct work *w)
{
    const struct dt_operation_row *row = w->row;
    const int64_t near_end_ms = dt_near_end_ms(w->txn->now_ms);
    const struct dt_param now = DT_P_INT(w->txn->now_ms);
    list_targets(w, is_accepted);
    if (w->n_ids == 0)
        return DT_OK;
    if (cancels_jobs(row->shown.kind)) {
        const struct dt_param kept = DT_P_INT(DT_RETENTION_DEFAULT_MS);
        const struct dt_param stays = DT_P_INT(dt_store_config(w->txn->store)->history_after);
        list_targets(w, is_dispatched);
        dt_status status = w->n_ids ? write_listed_jobs(w, &dt_sql_cancel_retries_of_jobs, DT_PARAMS(now)) : DT_OK;
        list_targets(w, is_scheduled);
        if (status != DT_OK || w->n_ids == 0)
            return status;
        return write_listed_jobs(w, &dt_sql_cancel_jobs, DT_PARAMS(now, now, kept, now, kept, stays, now));
    }
    if (row->shown.kind == DT_OPERATION_REDRIVE)
        return write_listed_jobs(w, &dt_sql_redrive_jobs, DT_PARAMS(now, now));
    if (row->shown.kind == DT_OPERATION_RESCHEDULE && (!row->at_one_time || row->spread_ms))
        return write_each_target(w);
    int64_t at_ms = find_target(w, w->ids[0])->at_ms;
    return write_listed_jobs(w, &dt_sql_move_jobs,
                             DT_PARAMS(DT_P_INT(at_ms), DT_P_INT(at_ms), DT_P_INT(at_ms < near_end_ms), now));
}

static void record_job_move(struct work *w, const struct target *t)
{
    struct dt_operation_piece *piece = w->piece;
    dt_assert_cmp(piece->n_moves, <, w->n); /* a job is changed only once */
    piece->moves[piece->n_moves++] = (struct dt_job_move){t->id, t->at_ms, t->next_at_ms};
    w->changed++;
}

/* ---- events of the jobs ---- */

static const char *const actions[] = {[DT_OPERATION_CANCEL] = "cancel",
                                      [DT_OPERATION_RESCHEDULE] = "change",
                                      [DT_OPERATION_REDRIVE] = "redrive",
                                      [DT_OPERATION_RUN_NOW] = "run_now",
                                      [DT_OPERATION_DELETE_TOPIC] = "cancel"};

static struct dt_str event_state_json(struct work *w, enum dt_job_state state, int64_t next_at_ms)
{
    char text[25];
    if (!next_at_ms)
        return dt_arena_printf(w->txn->arena, "{\"state\":\"%s\",\"next_at\":null}", dt_job_state_name(state));
    dt_time_format(next_at_ms, text);
    return dt_arena_printf(w->txn->arena, "{\"state\":\"%s\",\"next_at\":\"%s\"}", dt_job_state_name(state), text);
}

static struct dt_job_event event_of_target(struct work *w, const struct target *t)
{
    enum dt_operation_kind kind = w->row->shown.kind;
    bool stays = cancels_jobs(kind) && t->state == DT_DISPATCHED;
    enum dt_job_state after = cancels_jobs(kind) ? DT_CANCELLED : DT_SCHEDULED;
    struct dt_str before_text = event_state_json(w, dt_operation_acts_on(kind), t->next_at_ms);
    return (struct dt_job_event){.at_ms = w->txn->now_ms,
                                 .actor = w->row->shown.actor,
                                 .action = dt_str(actions[kind]),
                                 .topic = t->topic,
                                 .job_id = t->id,
                                 .operation_id = w->row->shown.id,
                                 .before = stays ? DT_STR_LIT("{\"no_retries\":false}") : before_text,
                                 .after = stays ? DT_STR_LIT("{\"no_retries\":true}")
                                                : event_state_json(w, after, t->at_ms)};
}

/* Redrives those dead jobs of the piece that were not in `jobs`. A job that is not dead any more, or that was removed,
 * is refused. */
static dt_status redrive_archived(struct work *w)
{
    const struct dt_operation_txn *txn = w->txn;
    const struct dt_change_txn change = {
        .store = txn->store, .db = txn->db, .now_ms = txn->now_ms, .counts = txn->counts, .arena = txn->arena};
    dt_status status = DT_OK;
    for (size_t i = 0; i < w->n && status == DT_OK && w->row->shown.kind == DT_OPERATION_REDRIVE; i++) {
        struct target *t = &w->v[i];
        struct dt_job_change one = {.how = DT_CHANGE_REDRIVE, .id = t->id};
        if (t->there)
            continue;
        status = dt_change_in_txn(&change, &one, w->err);
        if (status == DT_OK) {
            t->topic = one.job.topic;
            record_job_move(w, t);
            if (w->row->shown.actor.p) {
                const struct dt_job_event event = event_of_target(w, t);
                status = dt_events_write(txn->db, &event, 1, w->err);
            }
        } else if (status == DT_NOT_FOUND || status == DT_NOT_DEAD || one.locked)
            status = DT_OK;
    }
    return status;
}

static dt_status allocate_piece(struct work *w, size_t most)
{
    struct dt_arena *arena = w->txn->arena;
    w->v = dt_arena_alloc(arena, most * sizeof(*w->v));
    w->ids = dt_arena_alloc(arena, most * sizeof(*w->ids));
    w->piece->moves = dt_arena_alloc(arena, most * sizeof(*w->piece->moves));
    return w->v && w->ids && w->piece->moves ? DT_OK : dt_fail(w->err, DT_NOMEM, "out of memory");
}

static dt_status change_next_jobs(struct work *w)
{
    const enum dt_operation_kind kind = w->row->shown.kind;
    dt_status status = lock_targets(w);
    if (status != DT_OK)
        return status;
    set_target_times(w);
    status = write_targets(w);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < w->n; i++) {
        const struct target *t = &w->v[i];
        if (!is_accepted(t))
            continue;
        if (t->state == DT_DISPATCHED) { /* its attempt continues, so the index entry stays */
            w->changed++;
            continue;
        }
        if (cancels_jobs(kind))
            dt_counts_move(w->txn->counts, t->topic, t->id, DT_SCHEDULED, DT_CANCELLED);
        else if (kind == DT_OPERATION_REDRIVE)
            dt_counts_move(w->txn->counts, t->topic, t->id, DT_DEAD, DT_SCHEDULED);
        record_job_move(w, t);
    }
    if (w->row->shown.actor.p) { /* one statement writes all events of the piece */
        struct dt_job_event *events = dt_arena_alloc(w->txn->arena, (w->n + 1) * sizeof(*events));
        size_t n = 0;
        if (!events)
            return dt_fail(w->err, DT_NOMEM, "out of memory");
        for (size_t i = 0; i < w->n; i++)
            if (is_accepted(&w->v[i]))
                events[n++] = event_of_target(w, &w->v[i]);
        status = dt_events_write(w->txn->db, events, n, w->err);
    }
    return status == DT_OK ? redrive_archived(w) : status;
}

dt_status dt_operation_change(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                              struct dt_operation_piece *piece, struct dt_error *err)
{
    struct work w = {.txn = txn, .row = row, .piece = piece, .err = err};
    int64_t interval_ns = 0; /* nanoseconds between two jobs, by the rate; 0 = no rate */
    size_t most = row->shown.kind == DT_OPERATION_REDRIVE ? REDRIVE_JOBS : DT_OPERATION_PIECE;
    if (row->shown.rate.p && dt_rate_parse(row->shown.rate, &interval_ns)) {
        const int64_t allowed = RATE_PIECE_NS / interval_ns;
        most = allowed < 1 ? 1 : allowed < (int64_t)most ? (size_t)allowed : most;
    }
    dt_status status = allocate_piece(&w, most);
    DT_THEN(status, read_next_jobs(&w, most));
    if (status == DT_OK && w.n)
        status = change_next_jobs(&w);
    if (status != DT_OK)
        return status;
    dt_assert_cmp(w.changed, <=, w.n);
    piece->changed = w.changed;
    piece->refused = (int64_t)w.n - w.changed;
    piece->wait_ms = interval_ns * (int64_t)w.n / 1000000;
    row->shown.changed += piece->changed;
    row->shown.refused += piece->refused;
    if (row->shown.changed + row->shown.refused >= row->shown.matched || w.n == 0)
        row->shown.state = DT_OPERATION_DONE;
    return DT_OK;
}

dt_status dt_operation_change_found(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                    const struct dt_operation_finds *found, struct dt_operation_piece *piece,
                                    struct dt_error *err)
{
    struct work w = {.txn = txn, .row = row, .piece = piece, .err = err};
    dt_status status = allocate_piece(&w, found->n + 1);
    for (size_t i = 0; i < found->n && status == DT_OK; i++)
        w.v[w.n++] = (struct target){.id = found->v[i].id};
    if (status == DT_OK && w.n)
        status = change_next_jobs(&w);
    if (status != DT_OK)
        return status;
    piece->changed = w.changed;
    row->shown.changed += w.changed;
    return DT_OK;
}
