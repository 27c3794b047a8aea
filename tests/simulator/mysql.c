/*
 * db.h on the engine of sql.h: connections, sessions, transactions, and what goes wrong with them.
 *
 * A connection is the client's half, a session the server's. A session outlives its connection for a while: what was
 * under way when the connection broke may still happen, and its locks are held until the server notices.
 */
#include "simulator/mysql.h"
#include "events/events.h"
#include "features/clock/clock.h"
#include "job/archive/archive.h"
#include "topic/counts.h"

#include "simulator/faults.h"
#include "simulator/intake/intake.h"
#include "simulator/oracles.h"
#include "simulator/processes.h"

#define SESSIONS_MAX 4096

struct dt_db {
    const struct dt_config *config;
    struct session *session;
    bool alive;
    struct result result;
    size_t at; /* 1-based row of the result */
    bool owes; /* the result is of dt_db_ask_index */
    int64_t used_us;
};

int64_t mysql_restored_us;

static struct session *sessions[SESSIONS_MAX];
static unsigned sessions_n;
static int64_t down_until_us;
static struct copy *kept;
static int64_t kept_us;
static struct {
    struct proc *proc;
    int64_t until_us;
} cut;

/* ---- sessions ---- */

static struct session *session_new(struct proc *proc)
{
    if (sessions_n == SESSIONS_MAX)
        broken("too many sessions");
    struct session *s = world_alloc(sizeof *s);
    s->open = true;
    s->number = sessions_n;
    s->proc = proc;
    sessions[sessions_n++] = s;
    return s;
}

/* The server ends it: rolls back, lets locks go. */
static void session_end(struct session *s)
{
    if (!s->open)
        return;
    s->open = false;
    if (s->in_transaction)
        TRACE("mysql: session %u rolled back", s->number);
    session_end_transaction(s, false);
    if (s->waits_for && s->waiter)
        fiber_wake(s->waiter);
}

static void end_later(void *arg)
{
    session_end(arg);
}

static void commit_later(void *arg)
{
    struct session *s = arg;
    if (!s->open)
        return;
    TRACE("mysql: session %u committed late", s->number);
    session_end_transaction(s, true);
    oracles_committed(false);
    session_end(s);
}

void session_wake_waiters(struct row *row);
void session_wake_waiters(struct row *row)
{
    for (unsigned i = 0; i < sessions_n; i++)
        if (sessions[i]->waits_for == row && sessions[i]->waiter)
            fiber_wake(sessions[i]->waiter);
}

static bool deadlock(const struct session *s, const struct row *row)
{
    for (unsigned i = 0; row && row->owner && i < sessions_n; i++) {
        if (row->owner == s)
            return true;
        row = row->owner->waits_for;
    }
    return false;
}

dt_status session_wait(struct session *s, struct row *row, struct dt_error *err)
{
    if (deadlock(s, row)) {
        TRACE("mysql: deadlock");
        session_end_transaction(s, false);
        return dt_fail(err, DT_BUSY, "1213 deadlock");
    }
    TRACE("mysql: waits for a row of %s that session %u holds", row->table->def->name, row->owner->number);
    s->waits_for = row;
    s->waiter = fiber_self();
    bool woken = fiber_block(now_us + LOCK_TIMEOUT_US);
    s->waits_for = NULL;
    s->waiter = NULL;
    if (!s->open)
        return dt_fail(err, DT_UNAVAILABLE, "2013 lost connection");
    if (!woken) {
        TRACE("mysql: lock wait timeout");
        return dt_fail(err, DT_BUSY, "1205 lock wait timeout");
    }
    return DT_OK;
}

/* A session that stopped inside a transaction is ended by the server. */
static void idle_check(void *arg)
{
    struct session *s = arg;
    if (!s->open || !s->in_transaction || s->waits_for)
        return;
    if (now_us - s->used_us >= IDLE_TRANSACTION_US) {
        TRACE("mysql: session %u was idle in a transaction for too long", s->number);
        session_end(s);
    } else
        at(s->used_us + IDLE_TRANSACTION_US, idle_check, s);
}

/* ---- the connection ---- */

static dt_status lost(dt_db *db, const char *why, struct dt_error *err)
{
    db->alive = false;
    TRACE("mysql: connection lost (%s)", why);
    return dt_fail(err, DT_UNAVAILABLE, "%s", why);
}

/* The connection broke; the server notices now, or a little later. */
static void abandon(dt_db *db)
{
    struct session *s = db->session;
    if (!s || !s->open || s->commit_later)
        return;
    if (s->in_transaction && one_in(2))
        at(now_us + rnd_in(1 * MS, 1500 * MS), end_later, s);
    else
        session_end(s);
}

static bool replies_cut(void)
{
    return cut.proc && cut.proc == proc_self() && now_us < cut.until_us;
}

/* Before the server does what is asked. */
static dt_status ask(dt_db *db, const char *what, struct dt_error *err)
{
    if (!db->alive)
        return dt_fail(err, DT_UNAVAILABLE, "not connected");
    op(what);
    if (!db->session->open || now_us < down_until_us)
        return lost(db, "2013 the server is gone", err);
    db->session->used_us = now_us;
    return DT_OK;
}

/* After it: does the answer arrive? */
static dt_status answer(dt_db *db, dt_status status, struct dt_error *err)
{
    if (db->session->open && !replies_cut()) {
        db->used_us = now_us;
        return status;
    }
    if (db->session->open)
        fiber_sleep(IO_TIMEOUT_US);
    abandon(db);
    return lost(db, "2013 no answer", err);
}

STUB(dt_status, dt_db_library_init, (void), DT_OK)
void dt_db_thread_end(void) {}

dt_status dt_db_new(const struct dt_config *config, dt_db **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return DT_NOMEM;
    (*out)->config = config;
    return DT_OK;
}

dt_status dt_db_open(const struct dt_config *config, dt_db **out, struct dt_error *err)
{
    dt_status status = dt_db_new(config, out);
    return status == DT_OK ? dt_db_reconnect(*out, err) : status;
}

/* Nobody waits in the server here. */
STUB(void, dt_db_cut, (dt_db * db), )

void dt_db_free(dt_db *db)
{
    if (!db)
        return;
    if (db->session)
        session_end(db->session);
    free(db);
}

dt_status dt_db_reconnect(dt_db *db, struct dt_error *err)
{
    if (db->session && db->session->open && !db->session->commit_later)
        session_end(db->session);
    db->alive = false;
    op("connect");
    if (now_us < down_until_us || replies_cut()) {
        fiber_sleep(rnd_in(1 * MS, 50 * MS));
        return dt_fail(err, DT_UNAVAILABLE, "2002 cannot connect");
    }
    db->session = session_new(proc_self());
    db->alive = true;
    db->used_us = now_us;
    return DT_OK;
}

bool dt_db_alive(const dt_db *db)
{
    return db->alive;
}
int64_t dt_db_used_us(const dt_db *db)
{
    return db->used_us;
}
STUB(enum dt_server, dt_db_server, (const dt_db *db), DT_SERVER_MARIADB)
STUB(size_t, dt_db_packet_max, (const dt_db *db), 16777216)

dt_status dt_db_ping(dt_db *db, struct dt_error *err)
{
    dt_status status = ask(db, "ping", err);
    return status == DT_OK ? answer(db, DT_OK, err) : status;
}

/* ---- transactions ---- */

dt_status dt_db_begin_at(dt_db *db, int64_t *now_ms, struct dt_error *err)
{
    dt_status status = ask(db, "begin", err);
    if (status != DT_OK)
        return status;
    if (db->session->in_transaction)
        broken("a transaction begins inside another");
    db->session->in_transaction = true;
    at(now_us + IDLE_TRANSACTION_US, idle_check, db->session);
    *now_ms = mysql_now_ms();
    return answer(db, DT_OK, err);
}

dt_status dt_db_begin(dt_db *db, struct dt_error *err)
{
    int64_t ignored;
    return dt_db_begin_at(db, &ignored, err);
}

dt_status dt_db_begin_soon(dt_db *db, struct dt_error *err)
{
    return dt_db_begin(db, err);
}

dt_status dt_db_begin_snapshot(dt_db *, struct dt_error *)
{
    broken("snapshots are not simulated");
}

/* Few, so that writers of counters meet. */
uint64_t dt_db_number(const dt_db *db)
{
    return db->session->number % 2;
}

static void restore_now(void *)
{
    mysql_restore();
}

static void lead_twice(void *)
{
    for (unsigned i = 0; i < table_named("shards")->n; i++)
        zookeeper_two_leaders(i, rnd_in(50 * MS, 2 * SEC));
}

/* On purpose: the epoch that is being written is lost while its takeover goes on, and another one writes it again. */
static void go_back_in_takeover(void)
{
    history_lost = true;
    mysql_copy();
    int64_t when_us = now_us + rnd_in(500, 60 * MS);
    at(when_us, restore_now, NULL);
    at(when_us + rnd_in(0, 3 * MS), lead_twice, NULL);
}

static bool changed_jobs(const struct session *s)
{
    for (size_t i = 0; i < s->n_locked; i++)
        if (s->locked[i]->current != s->locked[i]->committed && strcmp(s->locked[i]->table->def->name, "jobs") == 0)
            return true;
    return false;
}

static void dispatcher_may_die(struct proc *self, bool jobs)
{
    const struct fiber_notes *notes = fiber_notes();
    if ((notes->loop && jobs && fault(F_AFTER_CLAIM, 4)) || (notes->moves && fault(F_INBOX, 6)) ||
        (notes->commands && fault(F_COMMANDS, 6)) || (notes->operates && fault(F_OPERATION, 6)))
        process_crash(self);
}

/* What may happen around a COMMIT to the process that asks for it. */
static void die_around_commit(bool jobs)
{
    struct proc *self = proc_self();
    if (!self)
        return;
    if (process_is_dispatcher(self))
        dispatcher_may_die(self, jobs);
    else if (!process_is_api(self))
        return;
    else if (jobs && fault(F_API_BEFORE_COMMIT, 16))
        process_crash(self);
    else if (jobs && fiber_notes()->pops && fault(F_POPS, 6)) {
        /* An API with a pop that is claimed, or about to be. */
        if (one_in(2))
            process_crash(self);
        self->paused_until_us = now_us + rnd_in(200 * MS, 5 * SEC);
        TRACE("stopped until %.3f", (double)(self->paused_until_us - 100 * SEC) / 1000);
        fiber_sleep(1);
    }
}

/* The reply of the COMMIT is lost; it was done, was not, or is done later. */
static dt_status commit_unknown(dt_db *db, struct dt_error *err)
{
    struct session *s = db->session;
    switch (rnd_in(0, 2)) {
    case 0:
        session_end_transaction(s, true);
        oracles_committed(false);
        session_end(s);
        break;
    case 1:
        session_end(s);
        break;
    default:
        s->commit_later = true;
        at(now_us + rnd_in(1 * MS, 3 * SEC), commit_later, s);
    }
    db->alive = false;
    if (one_in(2))
        fiber_sleep(rnd_in(1 * MS, IO_TIMEOUT_US));
    TRACE("mysql: COMMIT without an answer");
    return dt_fail(err, DT_UNKNOWN, "2013 lost connection during COMMIT");
}

/* MySQL stands still with the COMMIT in it: it is done late, and told late, or the client gives up waiting. */
static dt_status commit_stopped(dt_db *db, struct dt_error *err)
{
    struct session *s = db->session;
    int64_t takes_us = rnd_in(50 * MS, 4 * SEC);
    s->commit_later = true;
    at(now_us + takes_us, commit_later, s);
    fiber_sleep(takes_us < IO_TIMEOUT_US ? takes_us + 100 : IO_TIMEOUT_US);
    db->alive = false;
    return dt_fail(err, DT_UNKNOWN, "2013 lost connection during COMMIT");
}

dt_status dt_db_commit(dt_db *db, struct dt_error *err)
{
    dt_status status = ask(db, "commit", err);
    if (status != DT_OK) {
        abandon(db);
        return status == DT_UNAVAILABLE && err ? dt_fail(err, DT_UNKNOWN, "lost during COMMIT") : DT_UNKNOWN;
    }
    bool jobs = changed_jobs(db->session);
    die_around_commit(jobs);
    if (fiber_notes()->takeover && !fiber_notes()->ledger_read && workload_map_rests() && fault(F_RESTORE, 6))
        go_back_in_takeover();
    if (fault(F_COMMIT_CUT, 10))
        return commit_unknown(db, err);
    if (fault(F_MYSQL_STOP, 12))
        return commit_stopped(db, err);
    session_end_transaction(db->session, true);
    TRACE("mysql: session %u committed", db->session->number);
    oracles_committed(false);
    die_around_commit(jobs);
    if (jobs && proc_self() && process_is_api(proc_self()) && fault(F_API_AFTER_COMMIT, 16))
        process_crash(proc_self());
    if (fiber_notes()->loop) /* settled, or claimed anew */
        fiber_notes()->just_sent = false;
    if (fiber_notes()->ledger_read) /* step 5 is done */
        fiber_notes()->takeover = fiber_notes()->ledger_read = false;
    fiber_sleep(one_in(8) ? rnd_in(300, 5 * MS)
                          : rnd_in(20, 300)); /* the answer's way: others see what was committed */
    status = answer(db, DT_OK, err);
    return status == DT_UNAVAILABLE ? (err ? dt_fail(err, DT_UNKNOWN, "lost during COMMIT") : DT_UNKNOWN) : status;
}

void dt_db_rollback(dt_db *db)
{
    if (!db->session || !db->session->in_transaction || !db->alive)
        return;
    if (ask(db, "rollback", NULL) == DT_OK)
        session_end_transaction(db->session, false);
}

/* ---- statements ---- */

static void note_statement(const struct stmt *st)
{
    if (st->kind != S_SELECT || !st->select.lock || !st->select.sources[0].table)
        return;
    /* Whose transaction this is, of those that take in what callers ask for. */
    const char *const table = st->select.sources[0].table->name;
    struct fiber_notes *notes = fiber_notes();
    notes->moves = notes->moves || strcmp(table, "job_inbox") == 0;
    notes->commands = notes->commands || strcmp(table, "command_offsets") == 0;
    notes->operates = notes->operates || strcmp(table, "operations") == 0;
    if (strcmp(st->select.sources[0].table->name, "shards") == 0) {
        fiber_notes()->loop = true;
        for (unsigned i = 0; i < st->select.n_items; i++) /* a takeover reads the list, a leader transaction knows it */
            if (strcmp(st->select.items[i]->name, "inflight") == 0)
                *fiber_notes() = (struct fiber_notes){.loop = true, .takeover = true};
    }
}

/* Whoever leads, or halts, a shard holds its row: the token in it is the one that this leadership wrote. */
static void judge_fence(const struct session *s, const struct stmt *st)
{
    if (st->kind != S_UPDATE || strcmp(st->table->name, "shards") != 0 || !proc_self() || !fiber_notes()->loop)
        return;
    int token = sql_column(st->table, "token"), shard = sql_column(st->table, "shard");
    for (size_t i = 0; i < s->n_locked; i++) {
        const struct row *row = s->locked[i];
        if (row->table->def != st->table || !row->current || !row->committed || row->current == row->committed)
            continue;
        int64_t was = row->committed[token].i, is = row->current[token].i;
        if (is != was)
            fiber_notes()->token = is; /* it takes over */
        else if (was != fiber_notes()->token)
            violated("fence", "%s wrote into the row of shard %lld, which another leadership holds", proc_self()->name,
                     (long long)row->current[shard].i);
    }
}

/* The leader stops in the middle of its transaction, perhaps for ever as far as the server is concerned. */
static void may_stop_inside(const struct session *s)
{
    struct proc *self = proc_self();
    if (!self || !process_is_dispatcher(self) || !s->in_transaction || !s->n_locked || !fault(F_MYSQL_STOP, 20))
        return;
    self->paused_until_us = now_us + rnd_in(IDLE_TRANSACTION_US / 2, 3 * IDLE_TRANSACTION_US);
    zookeeper_noticed_silence(self);
    fiber_sleep(1);
}

/* What only looks and finds nothing, and what is done for the record, fills traces. */
static bool worth_telling(const struct stmt *st, dt_status status, const struct result *result, uint64_t changed)
{
    static const char *const dull[] = {"SELECT CRC32", "SELECT id FROM jobs", "SELECT id, due_key", "SELECT name, uuid",
                                       "SELECT CAST"};
    for (size_t i = 0; i < sizeof dull / sizeof dull[0]; i++)
        if (strncmp(st->text, dull[i], strlen(dull[i])) == 0)
            return false;
    return status != DT_OK || (st->kind == S_SELECT ? result->n > 0 : changed > 0);
}

static void trace_statement(const struct stmt *st, struct dt_params params, dt_status status,
                            const struct result *result, uint64_t affected)
{
    char values[220] = "";
    size_t at_char = 0;
    for (size_t i = 0; i < params.n && at_char < sizeof values - 40; i++) {
        if (params.v[i].type == DT_PARAM_INT)
            at_char += (size_t)snprintf(values + at_char, sizeof values - at_char, " %lld", (long long)params.v[i].i);
        else if (params.v[i].type == DT_PARAM_BYTES)
            at_char += (size_t)snprintf(values + at_char, sizeof values - at_char, " %.*s",
                                        (int)(params.v[i].s.n < 60 ? params.v[i].s.n : 60), params.v[i].s.p);
        else
            at_char += (size_t)snprintf(values + at_char, sizeof values - at_char, " NULL");
        if (at_char > sizeof values)
            at_char = sizeof values;
    }
    trace("mysql: %.60s… <-%s -> %s, %llu", st->text, values, dt_status_name(status),
          (unsigned long long)(st->kind == S_SELECT ? result->n : affected));
}

static dt_status execute(dt_db *db, const char *sql, struct dt_params params, uint64_t *affected, struct dt_error *err)
{
    const struct stmt *st = sql_compile(sql);
    uint64_t changed = 0;
    note_statement(st);
    dt_status status = ask(db, sql, err);
    if (status != DT_OK)
        return status;
    struct session *s = db->session;
    db->result = (struct result){0};
    db->at = 0;
    status = sql_run(s, st, params, &db->result, &changed, err);
    if (tracing && (tracing_all || worth_telling(st, status, &db->result, changed)))
        trace_statement(st, params, status, &db->result, changed);
    if (status == DT_OK)
        judge_fence(s, st);
    if (!s->in_transaction && s->open)
        session_end_transaction(s, status == DT_OK);
    if (!s->open)
        return lost(db, "2013 the server is gone", err);
    s->used_us = now_us;
    may_stop_inside(s);
    if (affected)
        *affected = changed;
    return answer(db, status, err);
}

dt_status dt_db_run(dt_db *db, const char *sql, struct dt_params params, uint64_t *affected, struct dt_error *err)
{
    return execute(db, sql, params, affected, err);
}

/* One execution for all rows; they are written one after the other. */
dt_status dt_db_run_many(dt_db *db, const char *sql, struct dt_param_rows rows, uint64_t *affected,
                         struct dt_error *err)
{
    const struct stmt *st = sql_compile(sql);
    uint64_t sum = 0;
    dt_status status = ask(db, sql, err);
    for (size_t i = 0; i < rows.n && status == DT_OK; i++) {
        uint64_t changed = 0;
        status =
            sql_run(db->session, st, (struct dt_params){rows.v + i * rows.columns, rows.columns}, NULL, &changed, err);
        sum += changed;
    }
    if (!db->alive)
        return status;
    if (tracing_all || strncmp(sql, "INSERT INTO shard_stats", 23) != 0)
        TRACE("mysql: %.60s… %zu rows -> %s", sql, rows.n, dt_status_name(status));
    if (!db->session->in_transaction && db->session->open)
        session_end_transaction(db->session, status == DT_OK);
    if (affected)
        *affected = sum;
    return answer(db, status, err);
}

dt_status dt_db_script(dt_db *, struct dt_str sql, struct dt_error *)
{
    broken("scripts are not simulated: %.*s", (int)sql.n, sql.p);
}

dt_status dt_db_query_text(dt_db *db, struct dt_str text, struct dt_error *err)
{
    return dt_db_script(db, text, err);
}

dt_status dt_db_query(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    return execute(db, sql, params, NULL, err);
}

dt_status dt_db_query_stream(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    return dt_db_query(db, sql, params, err);
}

/* ---- procedure dt_wait, which is not SQL that the engine knows ---- */

/* Its parameters, as watch_store.c has them. */
enum { PROCESS, WAIT_MS, OWNER, DUE_FROM, LOOK_FROM, GENERATION, TOPICS_VERSION, LEADS, INTAKE };

static int64_t leads_of(struct dt_str owner)
{
    const struct table *shards = table_named("shards");
    int64_t sum = 0;
    for (size_t i = 0; i < shards->n; i++)
        if (shards->rows[i]->committed && dt_str_eq(cell_text(shards->rows[i], "owner"), owner))
            sum += (cell_int(shards->rows[i], "shard") + 7) * 1000003 ^ cell_int(shards->rows[i], "epoch") * 31 ^
                   (cell_int(shards->rows[i], "token") & 0xffffff) ^
                   (cell_null(shards->rows[i], "halted") ? 1 << 30 : 0);
    return sum;
}

static bool is_due(const struct row *job, int64_t from_ms)
{
    return job->committed && cell_int(job, "due_band") == 1 && cell_int(job, "due_key") >= from_ms &&
           cell_int(job, "due_key") <= mysql_now_ms();
}

static bool something_due(int64_t from_ms)
{
    const struct table *jobs = table_named("jobs");
    for (size_t i = 0; i < jobs->n; i++)
        if (is_due(jobs->rows[i], from_ms))
            return true;
    return false;
}

static void add_watched(struct result *result, const int64_t cells[static 5])
{
    if ((result->n + 1) * 5 > result->cap) {
        struct val *more = world_alloc((result->cap * 2 + 50) * sizeof *more);
        if (result->n)
            memcpy(more, result->cells, result->n * 5 * sizeof *more);
        result->cells = more;
        result->cap = result->cap * 2 + 50;
    }
    for (size_t i = 0; i < 5; i++)
        result->cells[result->n * 5 + i] = (struct val){.t = V_INT, .i = cells[i]};
    result->n++;
}

static int by_due(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
    const int64_t p = cell_int(x, "due_key"), q = cell_int(y, "due_key");
    return p != q ? (p > q) - (p < q)
                  : (cell_int(x, "id") > cell_int(y, "id")) - (cell_int(x, "id") < cell_int(y, "id"));
}

static void tell_watched(struct result *result, const struct row *installation, const struct dt_param *v)
{
    const struct table *jobs = table_named("jobs"), *shards = table_named("shards");
    struct row **due = world_alloc((jobs->n + 1) * sizeof(struct row *));
    size_t n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        if (is_due(jobs->rows[i], v[LOOK_FROM].i))
            due[n++] = jobs->rows[i];
    qsort(due, n, sizeof *due, by_due);
    for (size_t i = 0; i < n; i++)
        add_watched(result, (int64_t[]){0, cell_int(due[i], "due_key"), cell_int(due[i], "id"), 0, 0});
    for (size_t i = 0; i < shards->n; i++)
        if (shards->rows[i]->committed && dt_str_eq(cell_text(shards->rows[i], "owner"), v[OWNER].s))
            add_watched(result, (int64_t[]){1, cell_int(shards->rows[i], "shard"), cell_int(shards->rows[i], "epoch"),
                                            cell_int(shards->rows[i], "token"), cell_int(shards->rows[i], "version")});
    add_watched(result, (int64_t[]){2, cell_int(installation, "generation"), cell_int(installation, "topics_version"),
                                    leads_of(v[OWNER].s), mysql_now_ms()});
}

static bool is_news(const struct row *installation, const struct dt_param *v)
{
    return cell_int(installation, "generation") != v[GENERATION].i ||
           cell_int(installation, "topics_version") != v[TOPICS_VERSION].i || leads_of(v[OWNER].s) != v[LEADS].i ||
           something_due(v[DUE_FROM].i);
}

/* Where nothing ever comes it sleeps at one go. Dispatchers look at times of their own, instead of in turns. */
static dt_status wait_for_news(dt_db *db, struct dt_params params, struct dt_error *err)
{
    const struct dt_param *v = params.v;
    const bool due = v[OWNER].type != DT_PARAM_NULL;
    int64_t bits = 0;
    dt_status status = ask(db, "wait", err);
    if (status == DT_OK && intake_without_watch())
        return answer(db, dt_fail(err, DT_FORBIDDEN, "1370 execute command denied"), err);
    if (status != DT_OK)
        return status;
    const int64_t end_us = now_us + v[WAIT_MS].i * MS;
    int64_t look_us = now_us + rnd_in(0, 200 * MS);
    while (now_us < end_us && db->session->open && !bits &&
           !(due && is_news(table_named("installation")->rows[0], v))) {
        if (due)
            fiber_sleep(40 * MS);
        else
            fiber_sleep(intake_is_used() && v[INTAKE].i ? look_us - now_us : end_us - now_us);
        if (now_us < look_us)
            continue;
        const int64_t asked = v[INTAKE].i;
        bits = (asked & 1 && intake_rows_open() ? 1 : 0) | (asked & 2 && intake_operation_due() ? 2 : 0);
        look_us = now_us + rnd_in(20 * MS, 400 * MS);
    }
    if (!db->session->open)
        return lost(db, "2013 the server is gone", err);
    db->result = (struct result){.columns = 5};
    if (due)
        tell_watched(&db->result, table_named("installation")->rows[0], v);
    add_watched(&db->result, (int64_t[]){3, bits, 0, 0, 0});
    db->at = 0;
    return answer(db, DT_OK, err);
}

dt_status dt_db_query_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    if (strncmp(sql, "CALL dt_wait", 12) == 0)
        return wait_for_news(db, params, err);
    return dt_db_query(db, sql, params, err);
}

/* Answered at once, and taken later: as old as what a server has read by then. */
dt_status dt_db_ask_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, err);
    db->owes = status == DT_OK;
    return status;
}

bool dt_db_idle(const dt_db *db)
{
    return !db->alive || (!db->owes && !db->session->in_transaction);
}

bool dt_db_owes(const dt_db *db)
{
    return db->owes;
}

/* ---- results ---- */

size_t dt_db_rows(const dt_db *db)
{
    return db->result.n;
}
bool dt_db_next(dt_db *db)
{
    return db->at < db->result.n && ++db->at;
}

static const struct val *result_cell(const dt_db *db, unsigned column)
{
    if (!db->at || column >= db->result.columns)
        broken("column %u of %u is read", column, db->result.columns);
    return &db->result.cells[(db->at - 1) * db->result.columns + column];
}

const struct val *mysql_cell(const dt_db *db, unsigned column)
{
    return result_cell(db, column);
}

unsigned mysql_columns(const dt_db *db)
{
    return db->result.columns;
}

bool dt_db_is_null(const dt_db *db, unsigned column)
{
    return result_cell(db, column)->t == V_NULL;
}

int64_t dt_db_i64(const dt_db *db, unsigned column)
{
    const struct val *v = result_cell(db, column);
    if (v->t == V_STR)
        broken("column %u is a text and read as a number", column);
    return v->t == V_NULL ? 0 : v->i;
}

struct dt_str dt_db_bytes(const dt_db *db, unsigned column)
{
    const struct val *v = result_cell(db, column);
    if (v->t == V_NULL)
        return DT_STR_NONE;
    if (v->t != V_STR)
        broken("column %u is a number and read as bytes", column);
    return (struct dt_str){v->p ? v->p : "", v->n};
}

dt_status dt_db_end(dt_db *db, struct dt_error *)
{
    db->result.n = 0;
    db->at = 0;
    db->owes = false;
    return DT_OK;
}

/* ---- for the nemesis ---- */

void mysql_restart(int64_t until_us)
{
    for (unsigned i = 0; i < sessions_n; i++)
        session_end(sessions[i]);
    down_until_us = until_us;
}

void mysql_copy(void)
{
    kept = tables_copy();
    kept_us = now_us;
    TRACE("mysql: a copy is kept");
}

bool mysql_has_copy(void)
{
    return kept != NULL;
}

/* Behind a proxy that connects anew by itself nobody notices who was not in a transaction. */
static void change_servers_unnoticed(void)
{
    for (unsigned i = 0; i < sessions_n; i++)
        if (sessions[i]->in_transaction || sessions[i]->waits_for)
            session_end(sessions[i]);
}

void mysql_restore(void)
{
    if (broker_lost_young_ledger() || broker_filled_ledger()) /* see lose_history */
        return;
    if (one_in(2))
        change_servers_unnoticed();
    else
        mysql_restart(now_us + rnd_in(0, 500 * MS));
    tables_restore(kept);
    mysql_restored_us = now_us;
    oracles_committed(true);
    TRACE("mysql: restored from the copy of %.3f", (double)(kept_us - 100 * SEC) / 1000);
}

void mysql_cut_replies(struct proc *proc, int64_t until_us)
{
    cut.proc = proc;
    cut.until_us = until_us;
}

void mysql_process_died(struct proc *proc)
{
    for (unsigned i = 0; i < sessions_n; i++)
        if (sessions[i]->proc == proc && sessions[i]->open && !sessions[i]->commit_later)
            at(now_us + (one_in(4) ? rnd_in(1 * MS, 2 * SEC) : rnd_in(0, 2 * MS)), end_later, sessions[i]);
}

/* The state that a row counts for: what a manual edit ended counts as before until the product has counted it. */
static int64_t counted_state(const struct table_def *def, const struct val *cells)
{
    bool ended = cells[sql_column(def, "due_band")].i == 2 && cells[sql_column(def, "due_key")].i == 0;
    if (ended && cells[sql_column(def, "attempt_status")].i == 1)
        return 2;
    return ended && cells[sql_column(def, "leave_at")].i == 0 ? 1 : cells[sql_column(def, "state")].i;
}

/* A hand that counts what it changes and the product does not, so that counters can be compared to the last job. */
static void count_by_hand(struct session *s)
{
    static const char count[] =
        "INSERT INTO job_counts (topic, piece, writer, scheduled, dispatched, succeeded, dead, cancelled)"
        " VALUES (?, ?, 31, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE scheduled = scheduled + VALUES(scheduled),"
        " dispatched = dispatched + VALUES(dispatched), succeeded = succeeded + VALUES(succeeded),"
        " dead = dead + VALUES(dead), cancelled = cancelled + VALUES(cancelled)";
    const size_t locked = s->n_locked;
    for (size_t i = 0; i < locked; i++) {
        const struct row *row = s->locked[i];
        const struct table_def *def = row->table->def;
        if (strcmp(def->name, "jobs") != 0 || !row->current || !row->committed || row->current == row->committed)
            continue;
        const int topic = sql_column(def, "topic");
        int64_t n[DT_JOB_STATES] = {0}, id = row->current[0].i;
        n[counted_state(def, row->committed) - 1]--;
        n[counted_state(def, row->current) - 1]++;
        const struct dt_str name = {row->current[topic].p, row->current[topic].n};
        if (sql_run(s, sql_compile(count),
                    DT_PARAMS(DT_P_STR(name), DT_P_INT((id >> 40) % 32), DT_P_INT(n[0]), DT_P_INT(n[1]), DT_P_INT(n[2]),
                              DT_P_INT(n[3]), DT_P_INT(n[4])),
                    NULL, NULL, NULL) != DT_OK)
            broken("an edit is not counted");
    }
}

dt_status mysql_by_hand(const char *sql, struct dt_params params)
{
    struct session *s = session_new(NULL);
    uint64_t affected = 0;
    struct dt_error err = {0};
    s->in_transaction = true;
    dt_status status = sql_run(s, sql_compile(sql), params, NULL, &affected, &err);
    if (status == DT_OK)
        count_by_hand(s);
    session_end_transaction(s, status == DT_OK);
    oracles_committed(true);
    s->open = false;
    TRACE("by hand: %.100s -> %s, %llu", sql, dt_status_name(status), (unsigned long long)affected);
    return status;
}

static const char hold_sql[] = "SELECT id FROM jobs WHERE id = ? FOR UPDATE SKIP LOCKED";

void mysql_hold_row(int64_t job_id, int64_t us)
{
    struct session *s = session_new(NULL);
    struct result result = {0};
    struct dt_error err = {0};
    s->in_transaction = true;
    if (sql_run(s, sql_compile(hold_sql), DT_PARAMS(DT_P_INT(job_id)), &result, NULL, &err) == DT_OK)
        TRACE("by hand: job %lld is locked", (long long)job_id);
    at(now_us + us, end_later, s);
}

void mysql_begin(void)
{
    tables_begin();
    sessions_n = 0;
    down_until_us = 0;
    kept = NULL;
    mysql_restored_us = 0;
    cut.proc = NULL;
}

static void install(const char *sql, struct dt_params params)
{
    if (mysql_by_hand(sql, params) != DT_OK)
        broken("the installation cannot be made: %s", sql);
}

void mysql_install(unsigned shards)
{
    install("INSERT INTO installation (one, name, uuid, shards, created_at) VALUES (1, 'sim', "
            "'00000000-0000-4000-8000-000000000001', ?, 1)",
            DT_PARAMS(DT_P_INT(shards)));
    install("INSERT INTO id_sequence (one, next_id) VALUES (1, 1)", DT_NO_PARAMS);
    for (unsigned i = 0; i < shards; i++)
        install("INSERT INTO shards (shard, inflight, ledger_offset) VALUES (?, '[]', ?)",
                DT_PARAMS(DT_P_INT(i), DT_P_INT(ledger_age)));
}

/* The schema is the migrations' by construction. */
struct dt_store;
__typeof__(dt_store_check_test_clock) __wrap_dt_store_check_test_clock;
STUB(dt_status, __wrap_dt_store_check_test_clock, (struct dt_store * store, struct dt_error *err), DT_OK)

__typeof__(dt_store_check_schema) __wrap_dt_store_check_schema;
STUB(dt_status, __wrap_dt_store_check_schema, (struct dt_store * store, struct dt_error *err), DT_OK)

/* Partitions: none, but made as they are wanted, sometimes after a while. Rows know theirs by its number alone. */
/* Partitions are nothing that a world can see. */
__typeof__(dt_store_events_tend) __wrap_dt_store_events_tend;
STUB(dt_status, __wrap_dt_store_events_tend,
     (struct dt_store * store, int64_t now_ms, int64_t keep_ms, struct dt_error *err), DT_OK)

__typeof__(dt_store_partitions_read) __wrap_dt_store_partitions_read;
dt_status __wrap_dt_store_partitions_read(struct dt_store *, struct dt_partitions *out, struct dt_error *)
{
    *out = (struct dt_partitions){.read = true};
    return DT_OK;
}

__typeof__(dt_store_partitions_tend) __wrap_dt_store_partitions_tend;
dt_status __wrap_dt_store_partitions_tend(struct dt_store *, int64_t, const struct dt_wanted *wanted,
                                          struct dt_partitions *partitions, struct dt_tended *done,
                                          struct dt_error *err)
{
    *done = (struct dt_tended){0};
    *partitions = (struct dt_partitions){.read = true};
    if (faults_on() && one_in(4))
        return dt_fail(err, DT_BUSY, "a reader is in the way");
    for (; partitions->n < wanted->n; partitions->n++)
        partitions->v[partitions->n] = wanted->v[partitions->n];
    return DT_OK;
}

__typeof__(dt_store_partitions_ahead) __wrap_dt_store_partitions_ahead;
dt_status __wrap_dt_store_partitions_ahead(struct dt_store *, int64_t, unsigned, struct dt_wanted *wanted,
                                           struct dt_error *)
{
    wanted->n = 0;
    return DT_OK;
}

/* No snapshots, and no audit: what is counted must be right by itself. */
__typeof__(dt_audit_step) __wrap_dt_audit_step;
dt_status __wrap_dt_audit_step(dt_audit *, dt_store *, size_t, struct dt_audited *out, struct dt_error *)
{
    *out = (struct dt_audited){.done = true};
    return DT_OK;
}
