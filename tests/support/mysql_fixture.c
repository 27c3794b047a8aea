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

static void name_database(const char *name)
{
    free(mysql_fixture.config.mysql_database);
    mysql_fixture.config.mysql_database = strdup(name);
    assert_non_null(mysql_fixture.config.mysql_database);
}

void mysql_fixture_make(const char *prefix)
{
    static unsigned made;
    struct dt_error err = {0};
    memset(&mysql_fixture, 0, sizeof mysql_fixture);
    if (!getenv("DUETIME_MYSQL_SOCKET") && !getenv("DUETIME_MYSQL_PORT"))
        fail_msg("DUETIME_MYSQL_SOCKET or DUETIME_MYSQL_PORT must name a server for tests (see tests/run)");
    OK(dt_config_load(&mysql_fixture.config, NULL, &err));
    /* A test meets a limit only if it asks for it, not because it or the server was delayed. */
    mysql_fixture.config.mysql_connect_timeout = mysql_fixture.config.mysql_io_timeout = 60000;
    mysql_fixture.config.mysql_idle_transaction_timeout = 600000;
    snprintf(mysql_fixture.database, sizeof mysql_fixture.database, "dt_%.20s_%ld_%u", prefix, (long)getpid(), ++made);
    name_database("information_schema");
    MYSQL_FIXTURE_OK(dt_db_library_init(), NULL);
    OK(dt_db_open(&mysql_fixture.config, &mysql_fixture.db, &err));
    run_sql("CREATE DATABASE %s CHARACTER SET utf8mb4", mysql_fixture.database);
    run_sql("USE %s", mysql_fixture.database);
    name_database(mysql_fixture.database);
}

void mysql_fixture_migrate(void)
{
    struct dt_error err = {0};
    dt_store *store = mysql_fixture_store();
    OK(dt_store_migrate(store, NULL, &err));
    dt_store_free(store);
}

void mysql_fixture_drop(void)
{
    if (!mysql_fixture.db)
        return;
    run_sql("DROP DATABASE IF EXISTS %s", mysql_fixture.database);
    dt_db_free(mysql_fixture.db);
    dt_config_clear(&mysql_fixture.config);
    mysql_fixture.db = NULL;
}

/* A test may have slept past the server's limits: its hands reconnect. */
static void wake(void)
{
    struct dt_error err = {0};
    if (!dt_db_alive(mysql_fixture.db) || dt_db_ping(mysql_fixture.db, NULL))
        OK(dt_db_reconnect(mysql_fixture.db, &err));
}

static size_t format(char sql[SQL_MAX], const char *fmt, va_list args) DT_PRINTF(2, 0);
static size_t format(char sql[SQL_MAX], const char *fmt, va_list args)
{
    int n = vsnprintf(sql, SQL_MAX, fmt, args);
    assert_in_range(n, 1, SQL_MAX - 1);
    return (size_t)n;
}

void run_sql(const char *fmt, ...)
{
    char sql[SQL_MAX];
    struct dt_error err = {0};
    va_list args;
    va_start(args, fmt);
    size_t n = format(sql, fmt, args);
    va_end(args);
    wake();
    OK(dt_db_script(mysql_fixture.db, (struct dt_str){sql, n}, &err));
}

static const char *query_text(const char *sql, char *buf, size_t cap)
{
    struct dt_error err = {0};
    wake();
    OK(dt_db_query_text(mysql_fixture.db, dt_str(sql), &err));
    buf[0] = '\0';
    if (dt_db_next(mysql_fixture.db) && !dt_db_is_null(mysql_fixture.db, 0)) {
        struct dt_str cell = dt_db_bytes(mysql_fixture.db, 0);
        assert_true(cell.n < cap);
        memcpy(buf, cell.p, cell.n);
        buf[cell.n] = '\0';
    }
    OK(dt_db_end(mysql_fixture.db, &err));
    return buf;
}

int64_t sql_number(const char *fmt, ...)
{
    char sql[SQL_MAX], cell[400];
    va_list args;
    va_start(args, fmt);
    format(sql, fmt, args);
    va_end(args);
    return strtoll(query_text(sql, cell, sizeof cell), NULL, 10);
}

const char *sql_text(char *buf, size_t cap, const char *fmt, ...)
{
    char sql[SQL_MAX];
    va_list args;
    va_start(args, fmt);
    format(sql, fmt, args);
    va_end(args);
    return query_text(sql, buf, cap);
}

static int64_t sessions_left(int64_t newest)
{
    int64_t id = 0;
    char sql[40];
    while ((id = sql_number("SELECT MIN(id) FROM information_schema.processlist WHERE db = DATABASE() AND id <> "
                            "CONNECTION_ID() AND id > %lld AND id <= %lld",
                            (long long)id, (long long)newest)) != 0) {
        snprintf(sql, sizeof sql, "KILL %lld", (long long)id);
        (void)!dt_db_script(mysql_fixture.db, dt_str(sql), NULL); /* it may be gone by itself */
    }
    return sql_number("SELECT COUNT(*) FROM information_schema.processlist WHERE id <= %lld AND id <> CONNECTION_ID() "
                      "AND (db = DATABASE() OR command = 'Busy')",
                      (long long)newest);
}

/* What is told to end takes a moment to give its locks back, and a session that is busy just then is listed without its
 * schema: so they are looked for until none is left. */
void mysql_fixture_kill_sessions(void)
{
    const int64_t newest = sql_number("SELECT MAX(id) FROM information_schema.processlist");
    AWAIT(sessions_left(newest) == 0);
}

/* The server gathers these figures anew only where nobody has read them for 100 ms: suites that ask at the same time
 * must not keep step. */
void mysql_fixture_await_statement(const char *like)
{
    AWAIT_OR(sql_number("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE '%s' "
                        "AND id <> CONNECTION_ID()",
                        like) > 0,
             print_error("%s\n", like));
}

int64_t mysql_fixture_lock_waits(void)
{
    static useconds_t pause_us = 130000;
    usleep(pause_us += 20000);
    pause_us %= 250000;
    return sql_number("SELECT COUNT(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON "
                      "p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE() AND p.info "
                      "NOT LIKE '%%next_id%%'");
}

void mysql_fixture_await_lock_waits(int64_t n)
{
    AWAIT(mysql_fixture_lock_waits() >= n);
}
