/* support/mysql_fixture.h and support/mysql_wire.h on the simulator's engine: one database, which each test finds
 * empty. */
#include "support/mysql_fixture.h"

#include "support/suite.h"

#include "simulator/mysql.h"
#include "support/mysql_wire.h"

#define SQL_MAX 8000

_Atomic enum wire_loss wire_loss, wire_execution_loss;
_Atomic int wire_statements;

void mysql_fixture_ok(dt_status status, const struct dt_error *err, const char *file, int line)
{
    if (status) {
        print_error("%s:%d: %s: %s\n", file, line, dt_status_name(status), err ? err->text : "");
        _fail(file, line);
    }
}

void mysql_fixture_make(const char *prefix)
{
    struct dt_error err = {0};
    memset(&mysql_fixture, 0, sizeof mysql_fixture);
    MYSQL_FIXTURE_OK(dt_config_load(&mysql_fixture.config, NULL, &err), &err);
    snprintf(mysql_fixture.database, sizeof mysql_fixture.database, "%s", prefix);
    mysql_begin();
    MYSQL_FIXTURE_OK(dt_db_open(&mysql_fixture.config, &mysql_fixture.db, &err), &err);
}

void mysql_fixture_migrate(void)
{
    mysql_install((unsigned)mysql_fixture.config.shards_count);
    run_sql("UPDATE shards SET ledger_offset = 0");
}

void mysql_fixture_drop(void)
{
    dt_db_free(mysql_fixture.db);
    dt_config_clear(&mysql_fixture.config);
    mysql_fixture.db = NULL;
}

void mysql_fixture_kill_sessions(void)
{
    mysql_restart(now_us);
}

/* Only tests with their own threads call this, and they are left out here. */
void mysql_fixture_await_statement(const char *like)
{
    fail_msg("no session is at %s", like);
}

void mysql_fixture_await_lock_waits(int64_t n)
{
    fail_msg("%lld transactions do not wait", (long long)n);
}

/* ---- SQL by hand ---- */

/* The engine knows no REPEAT: its value. */
static void write_repeats(char *sql, size_t cap)
{
    static const char call[] = "REPEAT('";
    for (char *at; (at = strstr(sql, call)) != NULL;) {
        char rest[SQL_MAX], c = at[sizeof call - 1];
        char *end;
        size_t n = strtoul(at + sizeof call - 1 + 3, &end, 10);
        snprintf(rest, sizeof rest, "%s", end + 1);
        if ((size_t)(at - sql) + n + strlen(rest) + 3 > cap)
            broken("REPEAT does not fit");
        at[0] = '\'';
        memset(at + 1, c, n);
        snprintf(at + 1 + n, cap - (size_t)(at + 1 + n - sql), "'%s", rest);
    }
}

/* Nor any other time than that of a statement of the product: its value. */
static void write_times(char *sql, size_t cap)
{
    static const char now[] = "(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(3)) DIV 1000)";
    for (char *at; (at = strstr(sql, now)) != NULL;) {
        char rest[SQL_MAX];
        snprintf(rest, sizeof rest, "%s", at + sizeof now - 1);
        snprintf(at, cap - (size_t)(at - sql), "%lld%s", (long long)mysql_now_ms(), rest);
    }
}

/* The engine keeps what it compiled by the text's address: each text gets one for ever. */
static const char *keep_text(const char *text, size_t n)
{
    char sql[4 * SQL_MAX];
    snprintf(sql, sizeof sql, "%.*s", (int)n, text);
    write_repeats(sql, sizeof sql);
    write_times(sql, sizeof sql);
    char *kept = sql_keep(strlen(sql) + 1);
    return strcpy(kept, sql);
}

static void wake(void)
{
    struct dt_error err = {0};
    if (!dt_db_alive(mysql_fixture.db) || dt_db_ping(mysql_fixture.db, NULL))
        MYSQL_FIXTURE_OK(dt_db_reconnect(mysql_fixture.db, &err), &err);
}

/* The end of a tuple or string that begins at p. */
static const char *behind_tuple(const char *p)
{
    bool quoted = false;
    for (int depth = 0; *p; p++) {
        if (*p == '\'')
            quoted = !quoted;
        depth += quoted ? 0 : (*p == '(') - (*p == ')');
        if (!quoted && depth == 0)
            return p + 1;
    }
    return p;
}

static void run_statement(const char *text, size_t n);

/* The engine inserts a row a statement, with its columns named. */
static bool run_rows(const char *sql)
{
    static const char keys[] = "INSERT INTO job_keys VALUES ";
    char head[400], one[SQL_MAX];
    bool unnamed = strncmp(sql, keys, sizeof keys - 1) == 0;
    const char *values = strstr(sql, " VALUES ("), *tuple = values ? values + 8 : NULL;
    if (strncmp(sql, "INSERT INTO", 11) != 0 || !values)
        return false;
    const char *tail = tuple;
    do
        for (tail = behind_tuple(tail); *tail == ' '; tail++)
            ;
    while (*tail == ',' && *(tail += strspn(tail, ", ")));
    if (!unnamed && behind_tuple(tuple) + strspn(behind_tuple(tuple), " ") == tail)
        return false;
    snprintf(head, sizeof head, "%.*s%s VALUES ", (int)(values - sql), sql, unnamed ? " (topic, job_key, job_id)" : "");
    while (tuple < tail) {
        const char *end = behind_tuple(tuple);
        int n = snprintf(one, sizeof one, "%s%.*s %s", head, (int)(end - tuple), tuple, tail);
        run_statement(one, (size_t)n);
        tuple = end + strspn(end, ", ");
    }
    return true;
}

static void run_one(const char *text, size_t n)
{
    for (; n && (*text == ' ' || *text == '\n'); n--)
        text++;
    if (n && !run_rows(keep_text(text, n)))
        run_statement(text, n);
}

static void run_statement(const char *text, size_t n)
{
    struct dt_error err = {0};
    const char *sql = keep_text(text, n);
    if (strcmp(sql, "START TRANSACTION") == 0)
        MYSQL_FIXTURE_OK(dt_db_begin(mysql_fixture.db, &err), &err);
    else if (strcmp(sql, "ROLLBACK") == 0)
        dt_db_rollback(mysql_fixture.db);
    else if (strcmp(sql, "COMMIT") == 0)
        MYSQL_FIXTURE_OK(dt_db_commit(mysql_fixture.db, &err), &err);
    else if (strncmp(sql, "SELECT", 6) == 0) {
        MYSQL_FIXTURE_OK(dt_db_query(mysql_fixture.db, sql, DT_NO_PARAMS, &err), &err);
        MYSQL_FIXTURE_OK(dt_db_end(mysql_fixture.db, &err), &err);
    } else
        MYSQL_FIXTURE_OK(dt_db_run(mysql_fixture.db, sql, DT_NO_PARAMS, NULL, &err), &err);
}

static void format(char sql[SQL_MAX], const char *fmt, va_list args) DT_PRINTF(2, 0);
static void format(char sql[SQL_MAX], const char *fmt, va_list args)
{
    int n = vsnprintf(sql, SQL_MAX, fmt, args);
    assert_in_range(n, 1, SQL_MAX - 1);
}

void run_sql(const char *fmt, ...)
{
    char sql[SQL_MAX];
    va_list args;
    va_start(args, fmt);
    format(sql, fmt, args);
    va_end(args);
    wake();
    for (char *at = sql, *end; *at; at = *end ? end + 1 : end) {
        end = strchr(at, ';');
        end = end ? end : at + strlen(at);
        run_one(at, (size_t)(end - at));
    }
}

int64_t sql_number(const char *fmt, ...)
{
    char sql[SQL_MAX];
    struct dt_error err = {0};
    va_list args;
    va_start(args, fmt);
    format(sql, fmt, args);
    va_end(args);
    wake();
    MYSQL_FIXTURE_OK(dt_db_query(mysql_fixture.db, keep_text(sql, strlen(sql)), DT_NO_PARAMS, &err), &err);
    int64_t number =
        dt_db_next(mysql_fixture.db) && !dt_db_is_null(mysql_fixture.db, 0) ? dt_db_i64(mysql_fixture.db, 0) : 0;
    MYSQL_FIXTURE_OK(dt_db_end(mysql_fixture.db, &err), &err);
    return number;
}

static size_t write_cell(const struct val *v, char *buf, size_t cap)
{
    int n = v->t == V_STR    ? snprintf(buf, cap, "%.*s", (int)v->n, v->p)
            : v->t == V_ENUM ? snprintf(buf, cap, "%s", v->words[v->i])
                             : snprintf(buf, cap, "%lld", (long long)v->i);
    assert_in_range(n, 0, cap - 1);
    return (size_t)n;
}

/* SELECT CONCAT_WS('x', a, b) FROM …: the engine selects a and b, which are put together here. The separator; 0: none.
 */
static char take_separator(char *sql)
{
    static const char head[] = "SELECT CONCAT_WS('";
    if (strncmp(sql, head, sizeof head - 1) != 0)
        return 0;
    char separator = sql[sizeof head - 1], *open = strchr(sql, '('), *first = sql + sizeof head - 1 + 4;
    char *close = (char *)(uintptr_t)behind_tuple(open) - 1;
    *close = ' ';
    memmove(sql + 7, first, strlen(first) + 1);
    return separator;
}

const char *sql_text(char *buf, size_t cap, const char *fmt, ...)
{
    char sql[SQL_MAX];
    struct dt_error err = {0};
    size_t n = 0;
    va_list args;
    va_start(args, fmt);
    format(sql, fmt, args);
    va_end(args);
    char separator = take_separator(sql);
    wake();
    MYSQL_FIXTURE_OK(dt_db_query(mysql_fixture.db, keep_text(sql, strlen(sql)), DT_NO_PARAMS, &err), &err);
    buf[0] = '\0';
    if (dt_db_next(mysql_fixture.db)) {
        for (unsigned i = 0; i < (separator ? mysql_columns(mysql_fixture.db) : 1); i++) {
            if (dt_db_is_null(mysql_fixture.db, i))
                continue;
            if (n)
                buf[n++] = separator;
            n += write_cell(mysql_cell(mysql_fixture.db, i), buf + n, cap - n);
        }
    }
    MYSQL_FIXTURE_OK(dt_db_end(mysql_fixture.db, &err), &err);
    return buf;
}

/* ---- the wire ---- */

void wire_heal(void)
{
    wire_loss = wire_execution_loss = LOSE_NOTHING;
}
/* Sessions here end with their connection: no COMMIT can be held. */
bool wire_holds(void)
{
    return false;
}
void wire_commit_held(void) {}
void wire_drop_held(void) {}

__typeof__(dt_db_commit) __real_dt_db_commit;
__typeof__(dt_db_commit) __wrap_dt_db_commit;
dt_status __wrap_dt_db_commit(dt_db *db, struct dt_error *err)
{
    enum wire_loss how = atomic_exchange(&wire_loss, LOSE_NOTHING);
    if (how == LOSE_NOTHING)
        return __real_dt_db_commit(db, err);
    if (how == LOSE_AFTER)
        assert_int_equal(__real_dt_db_commit(db, err), DT_OK);
    mysql_restart(now_us); /* all sessions end */
    return how == LOSE_AFTER ? dt_fail(err, DT_UNKNOWN, "lost during COMMIT") : __real_dt_db_commit(db, err);
}
