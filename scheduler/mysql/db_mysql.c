/*
 * db.h on the libmysqlclient API. db_mysql_connect.c makes connections; only these two files include mysql.h. Builds
 * with MariaDB Connector/C and with Oracle's libmysqlclient; array binding, which only Connector/C has, is in
 * #ifdef DT_ARRAY_BINDING. Owns the connection, its session settings and the statement cache.
 *
 * States of a handle:
 *
 *     closed --reconnect--> idle --begin--> transaction --commit, rollback--> idle
 *       ^                    |                |    '--1213, 1205--> spoilt --rollback--> idle
 *       '--------------------+--connection lost (dead: closed in all but memory)
 *
 * In `spoilt`, the server may have rolled back already, so that a further statement would be a transaction of its own.
 * Only the rollback is allowed.
 */
#include "db.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include <errmsg.h>
#include <mysql.h>

#include "base/assert.h"
#include "base/clock.h"
#include "db_mysql.h"

#ifdef MARIADB_PACKAGE_VERSION
#define DT_ARRAY_BINDING 1
typedef my_bool sql_bool;
#define socket_of(mysql) mysql_get_socket(mysql)
#else
typedef bool sql_bool;
#define socket_of(mysql) ((mysql)->net.fd)
#endif

#define CACHE_BUCKETS    256u
#define FIRST_CELL_BYTES 64u
#define MULTI_ROWS_MAX   1024u      /* most rows of one multi-row statement */
#define PLACEHOLDERS_MAX 65535u     /* most placeholders of a statement in the protocol */
#define PACKET_LEAST     65536      /* max_allowed_packet must be larger, so that one job's statements fit */
#define PACKET_SLACK     8192u      /* bytes of a packet reserved for everything except parameters */
#define PARAM_BYTES      12u        /* most bytes that a packet needs for a parameter, in addition to its value */
#define CHUNK_BYTES      (8u << 20) /* most bytes of one statement: the library keeps a buffer of the largest */
#define KEPT_CELL_BYTES  65536u     /* a cell's buffer with more bytes is freed with the result */
#define LOOK_US          INT64_C(1000000)
#define REST_ROWS        4 /* rows of a stream that are read at its end; if more remain, the connection is closed */

struct column {
    bool is_int;
    int64_t i;
    char *p;
    size_t cap;
    unsigned long n;
    sql_bool null, error;
    char digits[24]; /* text of an integer column that the caller reads as bytes */
};

/* A prepared statement. If rows > 0, its text has `rows` groups of placeholders instead of one. */
struct statement {
    struct statement *next;
    const char *sql;
    size_t rows;
    bool once;  /* not in the cache: freed by dt_db_end */
    bool asked; /* the statement was sent as text, and its answer was not read yet */
    MYSQL_STMT *stmt;
    MYSQL_RES *text;    /* result of a query that was sent as text, used instead of stmt; its columns are numbers */
    unsigned n_columns; /* number of columns of the result set */
    struct column *columns;
    MYSQL_BIND *binds;
};

/* packet_max of the latest connection of the process. */
static _Atomic size_t latest_packet_max = SIZE_MAX;

enum txn { TXN_NONE, TXN_OPEN, TXN_SPOILT };

struct dt_db {
    const struct dt_config *config;
    MYSQL *mysql; /* NULL: closed */
    bool dead;
    enum txn txn;
    bool keeps;       /* the session has autocommit off */
    uint64_t shifted; /* added to the server's number of the connection (see dt_db_number) */
    enum dt_server server;
    size_t packet_max;
    int64_t used_us;
    int64_t looked_us; /* time of the last check that this server is writable (monotonic); for several servers */
    struct statement *cache[CACHE_BUCKETS];
    struct statement *open; /* the statement between dt_db_query and dt_db_end, else NULL */
    bool streaming;         /* the server has not sent all rows of the open statement yet */
    dt_status fetch_status;
    struct dt_error fetch_error;
    MYSQL_BIND *binds; /* bindings of the parameters of one call */
    size_t n_binds;
    char *scratch; /* memory for the lengths of parameters and the arrays of dt_db_run_many */
    size_t scratch_cap;
    pthread_mutex_t cut_lock;
    int wire; /* the connection's socket, or -1; protected by cut_lock */
    bool cut; /* dt_db_cut was called; protected by cut_lock */
};

dt_status dt_db_library_init(void)
{
    return mysql_library_init(0, NULL, NULL) ? DT_NOMEM : DT_OK;
}

void dt_db_thread_end(void)
{
    mysql_thread_end();
}

/* ---- errors ---- */

static void mark_connection_dead(dt_db *db)
{
    db->dead = true;
    db->txn = TXN_NONE;
}

static dt_status fail_call(dt_db *db, unsigned number, const char *text, const char *what, struct dt_error *err)
{
    dt_status status = dt_db_error_status(number);
    if (dt_db_error_loses_connection(number))
        mark_connection_dead(db);
    else if (status == DT_BUSY && db->txn == TXN_OPEN)
        db->txn = TXN_SPOILT;
    (void)dt_fail(err, status, "MySQL %u: %s (%.80s)", number, text, what);
    if (err)
        err->alarm = dt_db_error_needs_an_operator(number);
    return status;
}

static dt_status fail_connection(dt_db *db, const char *what, struct dt_error *err)
{
    return fail_call(db, mysql_errno(db->mysql), mysql_error(db->mysql), what, err);
}

static dt_status fail_statement(dt_db *db, MYSQL_STMT *stmt, const char *what, struct dt_error *err)
{
    return fail_call(db, mysql_stmt_errno(stmt), mysql_stmt_error(stmt), what, err);
}

static dt_status set_autocommit_off(dt_db *db, bool keeps, struct dt_error *err);
static dt_status run_text_query(dt_db *db, struct dt_str sql, struct dt_error *err);

static dt_status check_connected(dt_db *db, struct dt_error *err)
{
    bool read_only = false;
    if (!db->mysql || db->dead)
        return dt_fail(err, DT_UNAVAILABLE, "not connected to MySQL");
    if (db->txn == TXN_SPOILT)
        return dt_fail(err, DT_BUSY, "the transaction was rolled back by a deadlock or lock timeout");
    dt_assert(!db->open);
    db->used_us = dt_clock_mono_us(dt_clock_system());
    /* With several servers, checks once a second between transactions whether this server is still writable. A server
     * that became a replica still serves reads, but its data may be old. */
    if (!dt_mysql_may_move(db->config) || db->txn != TXN_NONE || db->used_us - db->looked_us <= LOOK_US)
        return DT_OK;
    if (dt_mysql_read_only(db->mysql, &read_only))
        return fail_connection(db, "read_only", err);
    db->looked_us = db->used_us;
    db->dead = read_only;
    return read_only ? dt_fail(err, DT_UNAVAILABLE, "the MySQL server has become read-only") : DT_OK;
}

/* Sets NOW() to the time of the test clock. Adds half a millisecond, because the servers truncate the decimal places.
 * If the table does not exist yet (before its migration) or has no row, NOW() remains the server's time. */
static dt_status apply_test_clock(dt_db *db, struct dt_error *err)
{
    /* This query is separate: as a part of the SET, it would lock the row until the transaction ends. */
    static const char sql[] =
        "SELECT COALESCE(MAX(COALESCE(frozen_at, CAST(UNIX_TIMESTAMP(SYSDATE(3))*1000 AS SIGNED) + "
        "ahead_ms) / 1000 + 0.0005), 0) INTO @dt_test_clock FROM test_clock; "
        "SET timestamp = @dt_test_clock";
    if (!db->config->installation_test_clock)
        return DT_OK;
    dt_status status = run_text_query(db, dt_str(sql), err);
    return status == DT_SCHEMA ? DT_OK : status;
}

/* Makes the connection ready for a statement. Outside of a transaction, each statement commits by itself. */
static dt_status prepare_connection(dt_db *db, struct dt_error *err)
{
    dt_status status = check_connected(db, err);
    if (status == DT_OK && db->keeps && db->txn == TXN_NONE)
        status = set_autocommit_off(db, false, err);
    return status == DT_OK ? apply_test_clock(db, err) : status;
}

/* ---- connection ---- */

static void free_statement(struct statement *s)
{
    for (unsigned i = 0; i < s->n_columns && s->columns; i++)
        free(s->columns[i].p);
    free(s->columns);
    free(s->binds);
    if (s->stmt)
        mysql_stmt_close(s->stmt);
    mysql_free_result(s->text);
    free(s);
}

/* Stores the socket for dt_db_cut. Returns false if dt_db_cut was called. */
static bool store_socket(dt_db *db, int wire)
{
    pthread_mutex_lock(&db->cut_lock);
    bool whole = !db->cut;
    db->wire = wire;
    pthread_mutex_unlock(&db->cut_lock);
    return whole;
}

void dt_db_cut(dt_db *db)
{
    pthread_mutex_lock(&db->cut_lock);
    db->cut = true;
    if (db->wire >= 0)
        shutdown(db->wire, SHUT_RDWR);
    pthread_mutex_unlock(&db->cut_lock);
}

static void close_connection(dt_db *db)
{
    if (db->open && db->open->once)
        free_statement(db->open);
    for (unsigned i = 0; i < CACHE_BUCKETS; i++) {
        while (db->cache[i]) {
            struct statement *s = db->cache[i];
            db->cache[i] = s->next;
            free_statement(s);
        }
    }
    store_socket(db, -1);
    if (db->mysql)
        mysql_close(db->mysql);
    db->mysql = NULL;
    db->open = NULL;
    db->streaming = false;
    db->txn = TXN_NONE;
    db->keeps = false;
    db->dead = false;
}

static dt_status run_text_query(dt_db *db, struct dt_str sql, struct dt_error *err)
{
    if (mysql_real_query(db->mysql, sql.p, (unsigned long)sql.n))
        return fail_connection(db, sql.p, err);
    for (;;) {
        MYSQL_RES *result = mysql_store_result(db->mysql);
        if (result)
            mysql_free_result(result);
        else if (mysql_field_count(db->mysql))
            return fail_connection(db, sql.p, err);
        int more = mysql_next_result(db->mysql);
        if (more > 0)
            return fail_connection(db, sql.p, err);
        if (more < 0)
            return DT_OK;
    }
}

/* Reads the only number in the result of a query sent as text. */
static dt_status read_text_number(dt_db *db, int64_t *out, const char *what, struct dt_error *err)
{
    MYSQL_RES *result = mysql_store_result(db->mysql);
    if (!result)
        return fail_connection(db, what, err);
    MYSQL_ROW row = mysql_fetch_row(result);
    bool found = row && row[0];
    if (found)
        *out = strtoll(row[0], NULL, 10);
    mysql_free_result(result);
    return found ? DT_OK : dt_fail(err, DT_CORRUPT, "MySQL returned no number (%s)", what);
}

static dt_status set_session(dt_db *db, struct dt_error *err)
{
    const struct dt_config *config = db->config;
    char sql[400];
    int64_t packet = 0;
    /* Bounds how long the server keeps a transaction open, with its locks, after this process stopped: between two
     * statements, while it sends a statement, or while it does not read an answer. MySQL has no limit for the time
     * between two statements. */
    int64_t net = dt_earlier(config->mysql_io_timeout, config->mysql_idle_transaction_timeout);
    const char *idle = db->server == DT_SERVER_MARIADB ? "idle_transaction_timeout" : "wait_timeout";
    snprintf(sql, sizeof(sql),
             "SET time_zone='+00:00', sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit=1, "
             "innodb_lock_wait_timeout=%u, net_read_timeout=%u, net_write_timeout=%u, %s=%u",
             dt_seconds_up(config->mysql_lock_timeout), dt_seconds_up(net), dt_seconds_up(net), idle,
             dt_seconds_up(config->mysql_idle_transaction_timeout));
    dt_status status = run_text_query(db, dt_str(sql), err);
    DT_THEN(status, run_text_query(db, DT_STR_LIT("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"), err));
    if (status != DT_OK)
        return status;
    static const char ask[] = "SELECT @@max_allowed_packet";
    if (mysql_real_query(db->mysql, ask, sizeof(ask) - 1))
        return fail_connection(db, ask, err);
    status = read_text_number(db, &packet, ask, err);
    if (status == DT_OK && packet < PACKET_LEAST) {
        status = dt_fail(err, DT_UNAVAILABLE, "max_allowed_packet of MySQL is %lld, at least %d is needed",
                         (long long)packet, PACKET_LEAST);
        if (err)
            err->alarm = true;
    }
    if (status == DT_OK)
        atomic_store(&latest_packet_max, db->packet_max = (size_t)packet - PACKET_SLACK);
    return status;
}

dt_status dt_db_reconnect(dt_db *db, struct dt_error *err)
{
    close_connection(db);
    dt_status status = dt_mysql_connect(db->config, &db->mysql, err);
    if (status != DT_OK)
        return status;
    const char *version = mysql_get_server_info(db->mysql);
    db->server = version && strstr(version, "MariaDB") ? DT_SERVER_MARIADB : DT_SERVER_MYSQL;
    db->used_us = db->looked_us = dt_clock_mono_us(dt_clock_system());
    status = store_socket(db, socket_of(db->mysql))
                 ? set_session(db, err)
                 : dt_fail(err, DT_UNAVAILABLE, "this process has closed the connection");
    if (status != DT_OK)
        close_connection(db);
    return status;
}

dt_status dt_db_new(const struct dt_config *config, dt_db **out)
{
    *out = NULL;
    dt_db *db = calloc(1, sizeof(*db));
    if (!db)
        return DT_NOMEM;
    db->config = config;
    db->wire = -1;
    pthread_mutex_init(&db->cut_lock, NULL);
    *out = db;
    return DT_OK;
}

dt_status dt_db_open(const struct dt_config *config, dt_db **out, struct dt_error *err)
{
    dt_status status = dt_db_new(config, out);
    if (status != DT_OK)
        return dt_fail(err, DT_NOMEM, "out of memory");
    status = dt_db_reconnect(*out, err);
    if (status != DT_OK) {
        dt_db_free(*out);
        *out = NULL;
    }
    return status;
}

void dt_db_free(dt_db *db)
{
    if (!db)
        return;
    close_connection(db);
    pthread_mutex_destroy(&db->cut_lock);
    free(db->binds);
    free(db->scratch);
    free(db);
}

bool dt_db_alive(const dt_db *db)
{
    return db->mysql && !db->dead;
}
enum dt_server dt_db_server(const dt_db *db)
{
    return db->server;
}
bool dt_db_idle(const dt_db *db)
{
    return db->txn == TXN_NONE && !db->open;
}
size_t dt_db_packet_max(const dt_db *db)
{
    return db ? db->packet_max : atomic_load(&latest_packet_max);
}
int64_t dt_db_used_us(const dt_db *db)
{
    return db->used_us;
}

dt_status dt_db_ping(dt_db *db, struct dt_error *err)
{
    dt_status status = check_connected(db, err);
    if (status == DT_OK && mysql_ping(db->mysql))
        status = fail_connection(db, "ping", err);
    return status;
}

/* ---- transactions ---- */

static dt_status check_may_begin(dt_db *db, struct dt_error *err)
{
    dt_status status = check_connected(db, err);
    dt_assert(status != DT_OK || db->txn == TXN_NONE);
    return DT_THEN(status, apply_test_clock(db, err));
}

dt_status dt_db_begin(dt_db *db, struct dt_error *err)
{
    dt_status status = check_may_begin(db, err);
    DT_THEN(status, run_text_query(db, DT_STR_LIT("START TRANSACTION"), err));
    if (status == DT_OK)
        db->txn = TXN_OPEN;
    return status;
}

static dt_status set_autocommit_off(dt_db *db, bool keeps, struct dt_error *err)
{
    const char *sql = keeps ? "SET autocommit=0" : "SET autocommit=1";
    dt_assert(db->txn == TXN_NONE); /* inside a transaction, autocommit=1 would commit */
    dt_status status = run_text_query(db, dt_str(sql), err);
    if (status == DT_OK)
        db->keeps = keeps;
    return status;
}

dt_status dt_db_begin_soon(dt_db *db, struct dt_error *err)
{
    dt_status status = check_may_begin(db, err);
    if (status == DT_OK && !db->keeps)
        status = set_autocommit_off(db, true, err);
    if (status == DT_OK)
        db->txn = TXN_OPEN;
    return status;
}

dt_status dt_db_begin_snapshot(dt_db *db, struct dt_error *err)
{
    static const char sql[] =
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT";
    dt_status status = check_may_begin(db, err);
    DT_THEN(status, run_text_query(db, dt_str(sql), err));
    if (status == DT_OK)
        db->txn = TXN_OPEN;
    return status;
}

dt_status dt_db_begin_at(dt_db *db, int64_t *now_ms, struct dt_error *err)
{
    static const char sql[] = "START TRANSACTION; SELECT " DT_SQL_NOW_MS;
    dt_status status = check_may_begin(db, err);
    if (status != DT_OK)
        return status;
    if (mysql_real_query(db->mysql, sql, sizeof(sql) - 1))
        return fail_connection(db, sql, err);
    db->txn = TXN_OPEN; /* START TRANSACTION has succeeded */
    status = mysql_next_result(db->mysql) ? fail_connection(db, sql, err) : read_text_number(db, now_ms, sql, err);
    if (status != DT_OK)
        dt_db_rollback(db);
    return status;
}

/* Closes the connection after a COMMIT without an answer. Whether the COMMIT happened must be read on a new
 * connection. */
static dt_status fail_in_doubt(dt_db *db, struct dt_error *err)
{
    db->dead = true;
    if (err)
        err->status = DT_UNKNOWN;
    return DT_UNKNOWN;
}

dt_status dt_db_commit(dt_db *db, struct dt_error *err)
{
    dt_status status = check_connected(db, err);
    if (status != DT_OK)
        return status;
    dt_assert(db->txn == TXN_OPEN);
    status = run_text_query(db, DT_STR_LIT("COMMIT"), err);
    if (status == DT_BUSY)
        return status;
    db->txn = TXN_NONE;
    return status != DT_OK ? fail_in_doubt(db, err) : DT_OK;
}

void dt_db_rollback(dt_db *db)
{
    if (db->open)
        (void)!dt_db_end(db, NULL);
    if (db->txn == TXN_NONE || !db->mysql || db->dead) {
        db->txn = TXN_NONE;
        return;
    }
    db->txn = TXN_NONE;
    if (run_text_query(db, DT_STR_LIT("ROLLBACK"), NULL) != DT_OK)
        db->dead = true;
}

/* ---- statements ---- */

static bool is_int_field(const MYSQL_FIELD *field)
{
    switch (field->type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
    case MYSQL_TYPE_YEAR:
        return true;
    default:
        return false;
    }
}

static void bind_column(struct column *c, MYSQL_BIND *bind)
{
    memset(bind, 0, sizeof(*bind));
    bind->is_null = &c->null;
    bind->error = &c->error;
    bind->length = &c->n;
    bind->buffer_type = c->is_int ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_STRING;
    bind->buffer = c->is_int ? (void *)&c->i : (void *)c->p;
    bind->buffer_length = c->is_int ? sizeof(c->i) : (unsigned long)c->cap;
}

/* Allocates the buffers for the result set, once per statement. */
static dt_status make_columns(dt_db *db, struct statement *s, struct dt_error *err)
{
    MYSQL_RES *meta = mysql_stmt_result_metadata(s->stmt);
    if (!meta)
        return mysql_stmt_errno(s->stmt) ? fail_statement(db, s->stmt, s->sql, err) : DT_OK;
    unsigned n = mysql_num_fields(meta);
    dt_status status = DT_OK;
    s->columns = calloc(n, sizeof(*s->columns));
    s->binds = calloc(n, sizeof(*s->binds));
    if (!s->columns || !s->binds) {
        status = dt_fail(err, DT_NOMEM, "out of memory");
        goto out;
    }
    s->n_columns = n;
    for (unsigned i = 0; i < n && status == DT_OK; i++) {
        struct column *c = &s->columns[i];
        c->is_int = is_int_field(mysql_fetch_field_direct(meta, i));
        c->cap = FIRST_CELL_BYTES;
        c->p = c->is_int ? NULL : malloc(c->cap);
        if (!c->is_int && !c->p)
            status = dt_fail(err, DT_NOMEM, "out of memory");
        else
            bind_column(c, &s->binds[i]);
    }
out:
    mysql_free_result(meta);
    return status;
}

static dt_status prepare_statement(dt_db *db, const char *sql, size_t rows, struct dt_str text, struct statement **out,
                                   struct dt_error *err)
{
    struct statement *s = calloc(1, sizeof(*s));
    if (!s)
        return dt_fail(err, DT_NOMEM, "out of memory");
    s->sql = sql;
    s->rows = rows;
    dt_status status = DT_OK;
    s->stmt = mysql_stmt_init(db->mysql);
    if (!s->stmt)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    else if (mysql_stmt_prepare(s->stmt, text.p, (unsigned long)text.n))
        status = fail_statement(db, s->stmt, sql, err);
    DT_THEN(status, make_columns(db, s, err));
    if (status == DT_OK)
        *out = s;
    else
        free_statement(s);
    return status;
}

static struct statement **cache_bucket(dt_db *db, const char *sql, size_t rows)
{
    uint64_t h = ((uint64_t)(uintptr_t)sql + rows * 977) * UINT64_C(0x9E3779B97F4A7C15);
    return &db->cache[h >> 56];
}

static struct statement *find_cached(dt_db *db, const char *sql, size_t rows)
{
    struct statement *s = *cache_bucket(db, sql, rows);
    while (s && (s->sql != sql || s->rows != rows))
        s = s->next;
    return s;
}

static void add_to_cache(dt_db *db, struct statement *s)
{
    struct statement **bucket = cache_bucket(db, s->sql, s->rows);
    s->next = *bucket;
    *bucket = s;
}

static dt_status find_or_prepare(dt_db *db, const char *sql, struct statement **out, struct dt_error *err)
{
    *out = find_cached(db, sql, 0);
    if (*out)
        return DT_OK;
    dt_status status = prepare_statement(db, sql, 0, dt_str(sql), out, err);
    if (status == DT_OK)
        add_to_cache(db, *out);
    return status;
}

static bool reserve_binds(dt_db *db, size_t n)
{
    if (n <= db->n_binds)
        return true;
    MYSQL_BIND *grown = realloc(db->binds, n * sizeof(*grown));
    if (!grown)
        return false;
    db->binds = grown;
    db->n_binds = n;
    return true;
}

/* Binds a parameter, which must remain valid until the statement has run. */
static void bind_param(const struct dt_param *p, MYSQL_BIND *bind)
{
    memset(bind, 0, sizeof(*bind));
    switch (p->type) {
    case DT_PARAM_FAILED:
    case DT_PARAM_NULL:
        bind->buffer_type = MYSQL_TYPE_NULL;
        return;
    case DT_PARAM_INT:
        bind->buffer_type = MYSQL_TYPE_LONGLONG;
        bind->buffer = (void *)(uintptr_t)&p->i;
        bind->buffer_length = sizeof(p->i);
        return;
    case DT_PARAM_BYTES:
        bind->buffer_type = MYSQL_TYPE_STRING;
        bind->buffer = (void *)(uintptr_t)(p->s.p ? p->s.p : "");
        bind->buffer_length = (unsigned long)p->s.n;
        return;
    }
}

static dt_status execute_statement(dt_db *db, struct statement *s, struct dt_params params, struct dt_error *err)
{
    size_t bytes = 0;
    dt_assert(!db->open && db->txn != TXN_SPOILT);
    dt_assert_cmp(params.n, ==, mysql_stmt_param_count(s->stmt));
    if (!reserve_binds(db, params.n))
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < params.n; i++) {
        if (params.v[i].type == DT_PARAM_FAILED)
            return dt_fail(err, DT_NOMEM, "out of memory");
        bind_param(&params.v[i], &db->binds[i]);
        bytes += PARAM_BYTES + (params.v[i].type == DT_PARAM_BYTES ? params.v[i].s.n : 0);
    }
    /* If the statement is too large for the server, it is not sent, because the server would close the connection. */
    if (bytes > db->packet_max) {
        (void)dt_fail(err, DT_UNAVAILABLE,
                      "MySQL accepts statements of %zu bytes (max_allowed_packet), not of %zu (%.80s)", db->packet_max,
                      bytes, s->sql);
        if (err)
            err->alarm = true;
        return DT_UNAVAILABLE;
    }
    if ((params.n && mysql_stmt_bind_param(s->stmt, db->binds)) || mysql_stmt_execute(s->stmt))
        return fail_statement(db, s->stmt, s->sql, err);
    return DT_OK;
}

/* Makes the connection ready, and finds or prepares the statement. */
static dt_status find_ready_statement(dt_db *db, const char *sql, struct statement **out, struct dt_error *err)
{
    dt_status status = prepare_connection(db, err);
    return status == DT_OK ? find_or_prepare(db, sql, out, err) : status;
}

dt_status dt_db_run(dt_db *db, const char *sql, struct dt_params params, uint64_t *affected, struct dt_error *err)
{
    struct statement *s;
    dt_status status = find_ready_statement(db, sql, &s, err);
    DT_THEN(status, execute_statement(db, s, params, err));
    if (status == DT_OK && affected)
        *affected = (uint64_t)mysql_stmt_affected_rows(s->stmt);
    if (status == DT_OK && s->n_columns)
        mysql_stmt_free_result(s->stmt);
    return status;
}

dt_status dt_db_script(dt_db *db, struct dt_str sql, struct dt_error *err)
{
    dt_status status = prepare_connection(db, err);
    return status != DT_OK ? status : run_text_query(db, sql, err);
}

/* ---- statements for many rows ---- */

/* Returns how many rows from `first` on fit into `max` bytes; at least one. */
static size_t rows_that_fit(const struct dt_param_rows *rows, size_t first, size_t max)
{
    size_t bytes = 0;
    size_t n = 0;
    for (; first + n < rows->n; n++) {
        for (size_t c = 0; c < rows->columns; c++)
            bytes += PARAM_BYTES + rows->v[(first + n) * rows->columns + c].s.n;
        if (bytes > max && n > 0)
            break;
    }
    return n;
}

#ifdef DT_ARRAY_BINDING
static void bind_array(const struct dt_param *params, size_t columns, size_t rows, char *room, MYSQL_BIND *bind)
{
    /* `room` holds three arrays: values of eight bytes, lengths of eight bytes, and indicators of one byte. */
    int64_t *ints = (int64_t *)(void *)room;
    const char **texts = (const char **)(void *)room;
    unsigned long *lengths = (unsigned long *)(void *)(room + rows * 8);
    char *indicators = room + rows * 16;
    bool is_int = false, has_nulls = false;
    for (size_t r = 0; r < rows; r++) {
        const struct dt_param *p = &params[r * columns];
        has_nulls |= p->type == DT_PARAM_NULL;
        indicators[r] = p->type == DT_PARAM_NULL ? STMT_INDICATOR_NULL : STMT_INDICATOR_NONE;
        is_int |= p->type == DT_PARAM_INT;
        if (p->type == DT_PARAM_INT) {
            ints[r] = p->i;
        } else {
            texts[r] = p->type == DT_PARAM_BYTES && p->s.p ? p->s.p : "";
            lengths[r] = p->type == DT_PARAM_BYTES ? (unsigned long)p->s.n : 0;
        }
    }
    memset(bind, 0, sizeof(*bind));
    /* Texts are bound as bytes, because the server would decode text character by character. */
    bind->buffer_type = is_int ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_BLOB;
    bind->buffer = room;
    bind->length = is_int ? NULL : lengths;
    bind->u.indicator = has_nulls ? indicators : NULL;
}

static dt_status run_array_bound(dt_db *db, struct statement *s, struct dt_param_rows rows, struct dt_error *err)
{
    const size_t a_column = (rows.n * 17 + 15) / 16 * 16;
    const size_t bytes = a_column * rows.columns;
    unsigned n = (unsigned)rows.n;
    dt_assert_cmp(rows.columns, ==, mysql_stmt_param_count(s->stmt));
    if (bytes > db->scratch_cap) {
        free(db->scratch);
        db->scratch = malloc(bytes);
        db->scratch_cap = db->scratch ? bytes : 0;
    }
    if (!db->scratch || !reserve_binds(db, rows.columns))
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t c = 0; c < rows.columns; c++)
        bind_array(rows.v + c, rows.columns, rows.n, db->scratch + c * a_column, &db->binds[c]);
    mysql_stmt_attr_set(s->stmt, STMT_ATTR_ARRAY_SIZE, &n);
    dt_status status = DT_OK;
    if (mysql_stmt_bind_param(s->stmt, db->binds) || mysql_stmt_execute(s->stmt))
        status = fail_statement(db, s->stmt, s->sql, err);
    n = 0;
    mysql_stmt_attr_set(s->stmt, STMT_ATTR_ARRAY_SIZE, &n);
    return status;
}
#endif

/* Returns the group of placeholders after VALUES. */
static struct dt_str find_group(const char *sql)
{
    const char *values = strstr(sql, "VALUES");
    const char *group = values ? strchr(values, '(') : NULL;
    dt_assert(group);
    size_t n = 0;
    int depth = 0;
    do {
        dt_assert(group[n]);
        depth += (group[n] == '(') - (group[n] == ')');
        n++;
    } while (depth > 0);
    return (struct dt_str){group, n};
}

static dt_status find_or_prepare_rows(dt_db *db, const char *sql, size_t rows, struct statement **out,
                                      struct dt_error *err)
{
    if (rows == 1)
        return find_or_prepare(db, sql, out, err);
    *out = find_cached(db, sql, rows);
    if (*out)
        return DT_OK;
    const struct dt_str group = find_group(sql);
    const char *end = group.p + group.n;
    struct dt_strbuf text = {0};
    dt_strbuf_add(&text, sql, (size_t)(end - sql));
    for (size_t i = 1; i < rows; i++) {
        dt_strbuf_addc(&text, ',');
        dt_strbuf_add(&text, group.p, group.n);
    }
    dt_strbuf_adds(&text, end);
    dt_status status = text.failed ? dt_fail(err, DT_NOMEM, "out of memory")
                                   : prepare_statement(db, sql, rows, dt_strbuf_str(&text), out, err);
    dt_strbuf_clear(&text);
    if (status == DT_OK)
        add_to_cache(db, *out);
    return status;
}

dt_status dt_db_run_many(dt_db *db, const char *sql, struct dt_param_rows rows, uint64_t *affected,
                         struct dt_error *err)
{
    dt_status status = prepare_connection(db, err);
    uint64_t changed = 0;
    for (size_t first = 0; first < rows.n && status == DT_OK;) {
        const struct dt_param *from = rows.v + first * rows.columns;
        size_t n = rows_that_fit(&rows, first, db->packet_max < CHUNK_BYTES ? db->packet_max : CHUNK_BYTES);
        struct statement *s;
        dt_assert_cmp(n, >, 0);
#ifdef DT_ARRAY_BINDING
        if (db->server == DT_SERVER_MARIADB && n > 1) {
            status = find_or_prepare(db, sql, &s, err);
            DT_THEN(status, run_array_bound(db, s, (struct dt_param_rows){from, rows.columns, n}, err));
        } else
#endif
        {
            /* The number of groups is a power of two, so that few different statements are prepared. Their text must
             * fit into a packet, too. */
            const size_t fit = n;
            n = MULTI_ROWS_MAX;
            while (n > 1 &&
                   (n > fit || n * rows.columns > PLACEHOLDERS_MAX || n * (2 * rows.columns + 2) > db->packet_max))
                n /= 2;
            status = find_or_prepare_rows(db, sql, n, &s, err);
            DT_THEN(status, execute_statement(db, s, (struct dt_params){from, rows.columns * n}, err));
        }
        if (status == DT_OK)
            changed += (uint64_t)mysql_stmt_affected_rows(s->stmt);
        first += n;
    }
    if (status == DT_OK && affected)
        *affected = changed;
    return status;
}

/* ---- a statement with the COMMIT ---- */

static void add_sql_value(struct dt_strbuf *out, const struct dt_param *p)
{
    static const char digits[] = "0123456789ABCDEF";
    out->failed |= p->type == DT_PARAM_FAILED;
    if (p->type == DT_PARAM_NULL) {
        dt_strbuf_adds(out, "NULL");
    } else if (p->type == DT_PARAM_INT) {
        dt_strbuf_add_i64(out, p->i);
    } else {
        dt_strbuf_adds(out, "X'");
        for (size_t i = 0; i < p->s.n; i++) {
            dt_strbuf_addc(out, digits[(unsigned char)p->s.p[i] >> 4]);
            dt_strbuf_addc(out, digits[(unsigned char)p->s.p[i] & 15]);
        }
        dt_strbuf_addc(out, '\'');
    }
}

/* Runs the statement and the COMMIT in one packet. If the server reports an error of the statement, nothing was
 * committed, because the server stops at the first error. After an error of the connection or the client library, the
 * commit may have happened. */
static dt_status run_and_commit(dt_db *db, struct dt_str text, struct dt_error *err)
{
    dt_status status = DT_OK;
    bool server_told = false;
    if (mysql_real_query(db->mysql, text.p, (unsigned long)text.n)) {
        status = fail_connection(db, text.p, err);
        unsigned number = mysql_errno(db->mysql);
        server_told = !db->dead && number && (number < 2000 || number >= 3000);
    } else if (mysql_next_result(db->mysql)) {
        status = fail_connection(db, "COMMIT", err);
    }
    if (status == DT_BUSY || (status != DT_OK && server_told && status != DT_UNAVAILABLE))
        return status;
    db->txn = TXN_NONE;
    return status != DT_OK ? fail_in_doubt(db, err) : DT_OK;
}

dt_status dt_db_commit_with(dt_db *db, const char *sql, struct dt_param_rows rows, struct dt_error *err)
{
    struct dt_strbuf text = {0};
    dt_status status = check_connected(db, err);
    if (status != DT_OK)
        return status;
    dt_assert(db->txn == TXN_OPEN);
    const size_t half = db->packet_max / 2; /* in the text, each byte becomes two hexadecimal digits */
    if (rows_that_fit(&rows, 0, half < CHUNK_BYTES ? half : CHUNK_BYTES) < rows.n ||
        rows.n * rows.columns > PLACEHOLDERS_MAX) {
        status = dt_db_run_many(db, sql, rows, NULL, err);
        return status != DT_OK ? status : dt_db_commit(db, err);
    }
    const struct dt_str group = find_group(sql);
    dt_strbuf_add(&text, sql, (size_t)(group.p - sql));
    for (size_t r = 0; r < rows.n; r++) {
        for (size_t c = 0; c < rows.columns; c++) {
            dt_strbuf_adds(&text, c ? "," : r ? ",(" : "(");
            add_sql_value(&text, &rows.v[r * rows.columns + c]);
        }
        dt_strbuf_addc(&text, ')');
    }
    dt_strbuf_adds(&text, group.p + group.n);
    dt_strbuf_adds(&text, ";COMMIT");
    status = text.failed ? dt_fail(err, DT_NOMEM, "out of memory") : run_and_commit(db, dt_strbuf_str(&text), err);
    dt_strbuf_clear(&text);
    db->shifted += status == DT_BUSY ? 7 : 0;
    return status;
}

uint64_t dt_db_number(const dt_db *db)
{
    return (uint64_t)mysql_thread_id(db->mysql) + db->shifted;
}

/* ---- queries ---- */

static dt_status open_result(dt_db *db, struct statement *s, struct dt_params params, bool stream, struct dt_error *err)
{
    dt_status status = execute_statement(db, s, params, err);
    if (status != DT_OK)
        return status;
    if (s->n_columns == 0)
        return dt_fail(err, DT_INTERNAL, "a query returned no result set (%.80s)", s->sql);
    if (mysql_stmt_bind_result(s->stmt, s->binds)) {
        status = fail_statement(db, s->stmt, s->sql, err);
        mysql_stmt_free_result(s->stmt);
        return status;
    }
    /* Reading a row may fail: after sending the first packets, the server may wait for the lock of a row, and give up.
     * After such an error MariaDB's library expects further rows of the statement, and would wait for them before the
     * next execution. So the statement is freed, and prepared again when needed. If memory ran out, the library has
     * left rows unread without noticing, so the connection is closed. */
    if (!stream && mysql_stmt_store_result(s->stmt)) {
        status = fail_statement(db, s->stmt, s->sql, err);
        if (mysql_stmt_errno(s->stmt) == CR_OUT_OF_MEMORY)
            mark_connection_dead(db);
        if (!s->once) {
            struct statement **at = cache_bucket(db, s->sql, s->rows);
            while (*at != s)
                at = &(*at)->next;
            *at = s->next;
            free_statement(s);
        }
        return status;
    }
    db->open = s;
    db->streaming = stream;
    db->fetch_status = DT_OK;
    return DT_OK;
}

dt_status dt_db_query(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    struct statement *s;
    dt_status status = find_ready_statement(db, sql, &s, err);
    return status != DT_OK ? status : open_result(db, s, params, false, err);
}

dt_status dt_db_query_stream(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    struct statement *s;
    dt_status status = prepare_connection(db, err);
    dt_assert(status != DT_OK || db->txn == TXN_NONE);
    DT_THEN(status, find_or_prepare(db, sql, &s, err));
    return status != DT_OK ? status : open_result(db, s, params, true, err);
}

/* Waits for the answer of dt_db_ask_index, if it was not read yet. */
static dt_status receive_answer(dt_db *db, struct statement *s, struct dt_error *err)
{
    if (!s->asked)
        return DT_OK;
    s->asked = false;
    if (mysql_read_query_result(db->mysql) || !(s->text = mysql_use_result(db->mysql)))
        return fail_connection(db, s->sql, err);
    s->n_columns = mysql_num_fields(s->text);
    s->columns = calloc(s->n_columns ? s->n_columns : 1, sizeof(*s->columns));
    if (!s->columns)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (unsigned i = 0; i < s->n_columns; i++)
        s->columns[i].is_int = true;
    return DT_OK;
}

dt_status dt_db_ask_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    struct dt_strbuf text = {0};
    size_t used = 0;
    dt_status status = prepare_connection(db, err);
    if (status != DT_OK)
        return status;
    struct statement *s = calloc(1, sizeof(*s));
    for (const char *p = sql; *p; p++) {
        if (*p != '?')
            dt_strbuf_addc(&text, *p);
        else if (used++ < params.n)
            add_sql_value(&text, &params.v[used - 1]);
    }
    dt_assert_cmp(used, ==, params.n);
    if (text.failed || !s)
        status = dt_fail(err, DT_NOMEM, "out of memory");
    else if (mysql_send_query(db->mysql, text.p, (unsigned long)text.n))
        status = fail_connection(db, sql, err);
    dt_strbuf_clear(&text);
    if (status != DT_OK) {
        free(s);
        return status;
    }
    dt_assert(!db->open);
    s->sql = sql;
    s->once = s->asked = true;
    db->open = s;
    db->fetch_status = DT_OK;
    return DT_OK;
}

dt_status dt_db_query_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err)
{
    dt_status status = dt_db_ask_index(db, sql, params, err);
    if (status != DT_OK)
        return status;
    status = receive_answer(db, db->open, err);
    if (status == DT_OK)
        return DT_OK;
    db->fetch_status = status;
    return dt_db_end(db, NULL); /* reads the rest of the answer, so that the next statement can be sent */
}

dt_status dt_db_query_text(dt_db *db, struct dt_str text, struct dt_error *err)
{
    struct statement *s;
    dt_status status = prepare_connection(db, err);
    DT_THEN(status, prepare_statement(db, "query text", 0, text, &s, err));
    if (status != DT_OK)
        return status;
    s->once = true;
    status = open_result(db, s, DT_NO_PARAMS, false, err);
    if (status != DT_OK)
        free_statement(s);
    return status;
}

/* Fetches the cells that did not fit into their buffers again, into larger buffers. */
static dt_status fetch_long_cells(dt_db *db, struct statement *s)
{
    for (unsigned i = 0; i < s->n_columns; i++) {
        struct column *c = &s->columns[i];
        if (c->is_int || c->null || c->n <= c->cap)
            continue;
        size_t cap = c->cap;
        while (cap < c->n)
            cap *= 2;
        char *grown = realloc(c->p, cap);
        if (!grown)
            return dt_fail(&db->fetch_error, DT_NOMEM, "out of memory");
        c->p = grown;
        c->cap = cap;
        bind_column(c, &s->binds[i]);
        if (mysql_stmt_fetch_column(s->stmt, &s->binds[i], i, 0))
            return fail_statement(db, s->stmt, s->sql, &db->fetch_error);
    }
    if (mysql_stmt_bind_result(s->stmt, s->binds))
        return fail_statement(db, s->stmt, s->sql, &db->fetch_error);
    return DT_OK;
}

bool dt_db_owes(const dt_db *db)
{
    return db->open && (db->open->asked || db->open->text);
}

size_t dt_db_rows(const dt_db *db)
{
    return db->open && db->open->stmt ? (size_t)mysql_stmt_num_rows(db->open->stmt) : 0;
}

/* Parses a BIGINT, twice as fast as strtoll, which matters for a page of the due index. */
static int64_t parse_bigint(const char *text)
{
    bool negative = *text == '-';
    uint64_t sum = 0;
    for (text += negative; *text >= '0' && *text <= '9'; text++)
        sum = 10 * sum + (uint64_t)(*text - '0');
    return (int64_t)(negative ? 0 - sum : sum);
}

bool dt_db_next(dt_db *db)
{
    struct statement *s = db->open;
    if (!s || db->fetch_status)
        return false;
    db->fetch_status = receive_answer(db, s, &db->fetch_error);
    if (db->fetch_status)
        return false;
    if (s->text) { /* a query sent as text: reads the next row from the socket */
        MYSQL_ROW row = mysql_fetch_row(s->text);
        if (!row && mysql_errno(db->mysql))
            db->fetch_status = fail_connection(db, s->sql, &db->fetch_error);
        for (unsigned i = 0; row && i < s->n_columns; i++) {
            s->columns[i].null = row[i] == NULL;
            s->columns[i].i = row[i] ? parse_bigint(row[i]) : 0;
        }
        return row != NULL;
    }
    switch (mysql_stmt_fetch(s->stmt)) {
    case 0:
        return true;
    case MYSQL_NO_DATA:
        db->streaming = false;
        return false;
    case MYSQL_DATA_TRUNCATED:
        db->fetch_status = fetch_long_cells(db, s);
        return db->fetch_status == DT_OK;
    default:
        db->fetch_status = fail_statement(db, s->stmt, s->sql, &db->fetch_error);
        return false;
    }
}

static struct column *column_of(const dt_db *db, unsigned column)
{
    return db->open && column < db->open->n_columns ? &db->open->columns[column] : NULL;
}

bool dt_db_is_null(const dt_db *db, unsigned column)
{
    const struct column *c = column_of(db, column);
    return !c || c->null;
}

int64_t dt_db_i64(const dt_db *db, unsigned column)
{
    const struct column *c = column_of(db, column);
    if (!c || c->null)
        return 0;
    if (c->is_int)
        return c->i;
    char digits[32];
    size_t n = c->n < sizeof(digits) - 1 ? c->n : sizeof(digits) - 1;
    memcpy(digits, c->p, n);
    digits[n] = '\0';
    return strtoll(digits, NULL, 10);
}

struct dt_str dt_db_bytes(const dt_db *db, unsigned column)
{
    struct column *c = column_of(db, column);
    if (!c || c->null)
        return DT_STR_NONE;
    if (!c->is_int)
        return (struct dt_str){c->p, c->n};
    int n = snprintf(c->digits, sizeof(c->digits), "%lld", (long long)c->i);
    return (struct dt_str){c->digits, (size_t)n};
}

static void free_result(dt_db *db, struct statement *s)
{
    if (db->streaming) {
        int row = 0;
        for (int i = 0; i < REST_ROWS && (row == 0 || row == MYSQL_DATA_TRUNCATED); i++)
            row = mysql_stmt_fetch(s->stmt);
        db->streaming = false;
        /* Freeing the result would read the remaining rows, which may be a gigabyte. So the socket is shut down first,
         * and the connection counts as lost. */
        if (row != MYSQL_NO_DATA) {
            shutdown(socket_of(db->mysql), SHUT_RDWR);
            db->dead = true;
        }
    }
    mysql_stmt_free_result(s->stmt);
    for (unsigned i = 0; i < s->n_columns; i++) {
        struct column *c = &s->columns[i];
        char *p = !c->is_int && c->cap > KEPT_CELL_BYTES ? realloc(c->p, FIRST_CELL_BYTES) : NULL;
        if (!p)
            continue;
        c->p = p;
        c->cap = FIRST_CELL_BYTES;
        bind_column(c, &s->binds[i]);
    }
}

dt_status dt_db_end(dt_db *db, struct dt_error *err)
{
    struct statement *s = db->open;
    if (!s)
        return DT_OK;
    if (!db->fetch_status)
        db->fetch_status = receive_answer(db, s, &db->fetch_error);
    db->open = NULL;
    if (s->stmt)
        free_result(db, s);
    dt_assert(!db->streaming);
    if (s->text) {
        mysql_free_result(s->text);
        s->text = NULL;
        /* Reads the status that follows the rows of a CALL. */
        while (!db->dead && mysql_more_results(db->mysql)) {
            if (mysql_next_result(db->mysql) > 0)
                db->fetch_status = fail_connection(db, s->sql, &db->fetch_error);
            mysql_free_result(mysql_store_result(db->mysql));
        }
    }
    if (s->once)
        free_statement(s);
    if (db->fetch_status && err)
        *err = db->fetch_error;
    return db->fetch_status;
}
