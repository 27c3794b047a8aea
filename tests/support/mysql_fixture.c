#include "support/mysql_fixture.h"

#include <unistd.h>

#include "support/wait.h"

#define SQL_MAX 4000

void mysql_fixture_ok(dt_status status, const struct dt_error *err, const char *file, int line)
{
    if (status) {
        print_error("%s:%d: %s: %s\n", file, line, dt_status_name(status), err ? err->text : "");
        _fail(file, line);
    }
}

static void name_database(struct mysql_fixture *fx, const char *name)
{
    free(fx->config.mysql_database);
    fx->config.mysql_database = strdup(name);
    assert_non_null(fx->config.mysql_database);
}

void mysql_fixture_make(struct mysql_fixture *fx, const char *prefix)
{
    static unsigned made;
    struct dt_error err = {0};
    memset(fx, 0, sizeof *fx);
    if (!getenv("DUETIME_MYSQL_SOCKET") && !getenv("DUETIME_MYSQL_PORT"))
        fail_msg("DUETIME_MYSQL_SOCKET or DUETIME_MYSQL_PORT must name a server for tests (see tests/run)");
    OK(dt_config_load(&fx->config, NULL, &err));
    /* A test meets a limit only if it asks for it, not because it or the server was delayed. */
    fx->config.mysql_connect_timeout = fx->config.mysql_io_timeout = 60000;
    fx->config.mysql_idle_transaction_timeout = 600000;
    snprintf(fx->database, sizeof fx->database, "dt_%.20s_%ld_%u", prefix, (long)getpid(), ++made);
    name_database(fx, "information_schema");
    MYSQL_FIXTURE_OK(dt_db_library_init(), NULL);
    OK(dt_db_open(&fx->config, &fx->db, &err));
    mysql_fixture_run(fx, "CREATE DATABASE %s CHARACTER SET utf8mb4", fx->database);
    mysql_fixture_run(fx, "USE %s", fx->database);
    name_database(fx, fx->database);
}

void mysql_fixture_migrate(struct mysql_fixture *fx)
{
    struct dt_error err = {0};
    dt_store *store = mysql_fixture_store(fx);
    OK(dt_store_migrate(store, NULL, &err));
    dt_store_free(store);
}

void mysql_fixture_drop(struct mysql_fixture *fx)
{
    if (!fx->db)
        return;
    mysql_fixture_run(fx, "DROP DATABASE IF EXISTS %s", fx->database);
    dt_db_free(fx->db);
    dt_config_clear(&fx->config);
    fx->db = NULL;
}

/* A test may have slept past the server's limits: its hands reconnect. */
static void wake(struct mysql_fixture *fx)
{
    struct dt_error err = {0};
    if (!dt_db_alive(fx->db) || dt_db_ping(fx->db, NULL))
        OK(dt_db_reconnect(fx->db, &err));
}

static size_t format(char sql[SQL_MAX], const char *fmt, va_list args) DT_PRINTF(2, 0);
static size_t format(char sql[SQL_MAX], const char *fmt, va_list args)
{
    int n = vsnprintf(sql, SQL_MAX, fmt, args);
    assert_in_range(n, 1, SQL_MAX - 1);
    return (size_t)n;
}

void mysql_fixture_run(struct mysql_fixture *fx, const char *fmt, ...)
{
    char sql[SQL_MAX];
    struct dt_error err = {0};
    va_list args;
    va_start(args, fmt);
    size_t n = format(sql, fmt, args);
    va_end(args);
    wake(fx);
    OK(dt_db_script(fx->db, (struct dt_str){sql, n}, &err));
}

static const char *query_text(struct mysql_fixture *fx, const char *sql, char *buf, size_t cap)
{
    struct dt_error err = {0};
    wake(fx);
    OK(dt_db_query_text(fx->db, dt_str(sql), &err));
    buf[0] = '\0';
    if (dt_db_next(fx->db) && !dt_db_is_null(fx->db, 0)) {
        struct dt_str cell = dt_db_bytes(fx->db, 0);
        assert_true(cell.n < cap);
        memcpy(buf, cell.p, cell.n);
        buf[cell.n] = '\0';
    }
    OK(dt_db_end(fx->db, &err));
    return buf;
}

int64_t mysql_fixture_number(struct mysql_fixture *fx, const char *fmt, ...)
{
    char sql[SQL_MAX], cell[400];
    va_list args;
    va_start(args, fmt);
    format(sql, fmt, args);
    va_end(args);
    return strtoll(query_text(fx, sql, cell, sizeof cell), NULL, 10);
}

const char *mysql_fixture_text(struct mysql_fixture *fx, char *buf, size_t cap, const char *fmt, ...)
{
    char sql[SQL_MAX];
    va_list args;
    va_start(args, fmt);
    format(sql, fmt, args);
    va_end(args);
    return query_text(fx, sql, buf, cap);
}

static int64_t sessions_left(struct mysql_fixture *fx, int64_t newest)
{
    int64_t id = 0;
    char sql[40];
    while ((id = mysql_fixture_number(fx,
                                      "SELECT MIN(id) FROM information_schema.processlist WHERE db = DATABASE() AND "
                                      "id <> CONNECTION_ID() AND id > %lld AND id <= %lld",
                                      (long long)id, (long long)newest)) != 0) {
        snprintf(sql, sizeof sql, "KILL %lld", (long long)id);
        (void)!dt_db_script(fx->db, dt_str(sql), NULL); /* it may be gone by itself */
    }
    return mysql_fixture_number(fx,
                                "SELECT COUNT(*) FROM information_schema.processlist WHERE id <= %lld AND "
                                "id <> CONNECTION_ID() AND (db = DATABASE() OR command = 'Busy')",
                                (long long)newest);
}

/* What is told to end takes a moment to give its locks back, and a session that is busy just then is listed without its
 * schema: so they are looked for until none is left. */
void mysql_fixture_kill_sessions(struct mysql_fixture *fx)
{
    const int64_t newest = mysql_fixture_number(fx, "SELECT MAX(id) FROM information_schema.processlist");
    AWAIT(sessions_left(fx, newest) == 0);
}

/* The server gathers these figures anew only where nobody has read them for 100 ms: suites that ask at the same time
 * must not keep step. */
void mysql_fixture_await_statement(struct mysql_fixture *fx, const char *like)
{
    AWAIT_OR(mysql_fixture_number(fx,
                                  "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND "
                                  "info LIKE '%s' AND id <> CONNECTION_ID()",
                                  like) > 0,
             print_error("%s\n", like));
}

int64_t mysql_fixture_lock_waits(struct mysql_fixture *fx)
{
    static useconds_t pause_us = 130000;
    usleep(pause_us += 20000);
    pause_us %= 250000;
    return mysql_fixture_number(fx, "SELECT COUNT(*) FROM information_schema.innodb_trx t "
                                    "JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id "
                                    "WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE() "
                                    "AND p.info NOT LIKE '%%next_id%%'");
}

void mysql_fixture_await_lock_waits(struct mysql_fixture *fx, int64_t n)
{
    AWAIT(mysql_fixture_lock_waits(fx) >= n);
}
