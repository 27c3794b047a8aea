/* Views and procedures on rows that hold the extremes of every column of numbers that its type and CHECKs allow. */

#include "support/rigs/sql_rig.h"

STORE_SUITE("extremes", 7)

#define SHOWN      4000000000000 /* a row of history whose purge_at is lower is shown by nobody */
#define NAME_MAX   64
#define NAMES_MAX  64
#define N(a)       (sizeof(a) / sizeof *(a))
#define BASE_TABLE "TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE'"

static const char *const extremes[] = {"-9223372036854775808",
                                       "-2147483648",
                                       "-1",
                                       "0",
                                       "1",
                                       "127",
                                       "32767",
                                       "1999999998",
                                       "2147483647",
                                       "4294967296000",
                                       "253402300799999",
                                       "253402300800000",
                                       "9223372036854775807"};

struct names {
    char v[NAMES_MAX][NAME_MAX];
    size_t n;
};

static struct names tables, views;

/* The names that the database itself has, so that what is added later is met by itself. */
static void read_names(struct names *names, const char *sql)
{
    static char text[NAMES_MAX * NAME_MAX];
    int length;
    run_sql("SET SESSION group_concat_max_len = 65536");
    sql_text(text, sizeof text, "%s", sql);
    names->n = 0;
    for (const char *p = text; names->n < NAMES_MAX && sscanf(p, "%63s%n", names->v[names->n], &length) == 1;
         names->n++)
        p += length;
    assert_in_range(names->n, 1, NAMES_MAX - 1);
}

static void open_and_read(void)
{
    open_store();
    read_names(&tables, "SELECT GROUP_CONCAT(TABLE_NAME SEPARATOR ' ') FROM information_schema.TABLES WHERE " BASE_TABLE
                        " AND TABLE_NAME <> 'schema_migrations'");
    read_names(
        &views,
        "SELECT GROUP_CONCAT(TABLE_NAME SEPARATOR ' ') FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE()");
}

/* A row of words and ones, with all texts that may be NULL. */
static void put_a_row(size_t i)
{
    static char rows[NAMES_MAX][2000];
    const char *table = tables.v[i];
    if (!rows[i][0])
        sql_text(rows[i], sizeof rows[i],
                 "SELECT CONCAT('INSERT INTO %s (', GROUP_CONCAT(COLUMN_NAME), ') VALUES (', GROUP_CONCAT(CASE WHEN "
                 "COLUMN_NAME = 'topic' THEN '''orders''' WHEN DATA_TYPE LIKE '%%int' THEN '1' WHEN DATA_TYPE = 'enum' "
                 "THEN '1' ELSE '''x''' END), ')') FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND "
                 "TABLE_NAME = '%s' AND EXTRA NOT LIKE '%%GENERATED' AND EXTRA <> 'auto_increment' AND NOT (TABLE_NAME "
                 "= 'job_inbox' AND COLUMN_NAME LIKE 'error%%') AND ((IS_NULLABLE = 'NO' AND COLUMN_DEFAULT IS NULL) "
                 "OR (IS_NULLABLE = 'YES' AND DATA_TYPE NOT LIKE '%%int'))",
                 table, table);
    run_sql("%s", rows[i]);
    run_sql("UPDATE job_inbox SET error = 'x'"); /* an INSERT with an error is refused */
}

static bool is_kept(const char *table)
{
    return strcmp(table, "installation") == 0 || strcmp(table, "shards") == 0 || strcmp(table, "id_sequence") == 0;
}

/* Jobs in all ways to wait, by hand; a row in every other table. */
static void fill_every_table(void)
{
    for (size_t i = 0; i < tables.n; i++)
        if (!is_kept(tables.v[i]))
            run_sql("DELETE FROM %s", tables.v[i]);
    run_sql("UPDATE installation SET shards = 7;UPDATE shards SET inflight = '[[7,1,9223372036854775807]]', owner = "
            "'x', owner_since = 1, version = 0, halted = 'x', send_n = 0;INSERT INTO topics (name, rate_limit, "
            "max_in_flight, delivery, created_at, updated_at) VALUES ('orders', NULL, NULL, 'kafka', 1, 1), ('rated', "
            "'1/s', NULL, 'kafka', 1, 1), ('called', NULL, NULL, 'http', 1, 1), ('limited', NULL, 1, 'pull', 1, 1), "
            "('held', NULL, NULL, 'pull', 1, 1); UPDATE topics SET paused = TRUE WHERE name = 'held'; UPDATE topics "
            "SET kafka_topic = 'x' WHERE name = 'orders';INSERT INTO topic_gates (topic, next_ns) VALUES ('rated', "
            "9223372036854775807);INSERT INTO job_counts (topic, piece, writer, dispatched) VALUES ('limited', 0, 0, "
            "1), ('limited', 0, 1, 1), ('orders', 0, CONNECTION_ID() MOD 32, 1);INSERT INTO removed_jobs VALUES "
            "('orders', 1);INSERT INTO messages (kind, sender, made_at, kafka_topic, answers) VALUES ('answers', 1, 1, "
            "'x', '[]');INSERT INTO shard_stats (shard, seen_at, epoch, callbacks) SELECT shard, 9000000000000, 1, "
            "'full' FROM shards;INSERT INTO processes (id, kind, name, started_at, seen_at, leads, waits) VALUES (1, "
            "'dispatcher', 'x', 1, 9000000000000, '0,1,2,3,4,5,6', 'kafka')");
    job_row_dispatched(7, 1, 0);
    job_row(8, "job_key = 'k', attempt = 2, due_at = 5, dispatched_at = 6");
    job_row(9, "state = 'dead', next_at = NULL, attempt = 1, purge_at = 9000000000000, error_at = 5");
    job_row(10, "state = 'dead', next_at = NULL, attempt = 2, purge_at = 9000000000000, error_at = 5");
    job_rows_archive("id = 10");
    job_row(11, "topic = 'rated', next_at = 1");
    job_row(12, "topic = 'called', next_at = 1");
    job_row(13, "topic = 'limited', next_at = 1");
    job_row(14, "topic = 'held', next_at = 1");
    job_row(15, "next_at = 1");
    run_sql("INSERT INTO attempts (job_id, attempt, status) VALUES (8, 1, 'failed');INSERT INTO history_attempts "
            "(job_id, attempt, part, purge_at, status) VALUES (10, 1, 0, 9000000000000, 'failed');INSERT INTO "
            "history_counts (topic, state, part, jobs) VALUES ('orders', 'dead', 0, 2);INSERT INTO job_keys VALUES "
            "('orders', 'k', 99), ('orders', 'l', 98);INSERT INTO key_ends (free_at, job_id, topic, job_key) VALUES "
            "(1, 99, 'orders', 'k');INSERT INTO count_audits (piece, version, audited_at, jobs, corrected) WITH "
            "RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 31) SELECT i, 1, 1, 1, 1 FROM n");
    for (size_t i = 0; i < tables.n; i++)
        if (!sql_number("SELECT COUNT(*) FROM %s", tables.v[i]))
            put_a_row(i);
}

/* ---- extremes ---- */

/* "table column table column …": every column of numbers, of all tables. */
static const char *number_columns(void)
{
    static char columns[32768];
    sql_text(
        columns, sizeof columns,
        "SELECT GROUP_CONCAT(TABLE_NAME, ' ', COLUMN_NAME ORDER BY TABLE_NAME, COLUMN_NAME SEPARATOR ' ') FROM "
        "information_schema.COLUMNS c JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME) "
        "WHERE " BASE_TABLE
        " AND TABLE_NAME <> 'schema_migrations' AND c.DATA_TYPE LIKE '%%int' AND c.EXTRA NOT LIKE '%%GENERATED%%'");
    assert_in_range(strlen(columns), 1000, 30000);
    return columns;
}

static bool names_a_row(const char *column)
{
    return strcmp(column, "id") == 0 || strcmp(column, "job_id") == 0 || strcmp(column, "shard") == 0 ||
           strcmp(column, "piece") == 0 || strcmp(column, "writer") == 0;
}

/* What would have no view show the row. */
static bool hides(const char *table, const char *column, const char *value)
{
    return strncmp(table, "history", 7) == 0 && strcmp(column, "purge_at") == 0 && strtoll(value, NULL, 10) < SHOWN;
}

static bool is_refusal(const char *text)
{
    return strcasestr(text, "constraint") || strstr(text, "Out of range") || strstr(text, "Duplicate") ||
           strstr(text, "no partition");
}

/* Every column of numbers gets an extreme, the same or by turns; what a CHECK or a type refuses stays as it is. */
static void write_extremes(const char *columns, size_t first, size_t step)
{
    char table[64], column[64], sql[300];
    int length;
    for (size_t n = 0; sscanf(columns, "%63s %63s%n", table, column, &length) == 2; n++, columns += length) {
        const char *value = extremes[(first + step * n) % N(extremes)];
        if (names_a_row(column) || hides(table, column, value))
            continue;
        snprintf(sql, sizeof sql, "UPDATE %s SET %s = %s", table, column, value);
        if (by_hand(sql) != DT_OK && !is_refusal(err.text))
            fail_msg("%s: %s", sql, err.text);
    }
}

/* Strictly: a view that could not show a row as it is would fail here. */
static void read_every_view(const char *value)
{
    for (size_t i = 0; i < views.n; i++) {
        char sql[200];
        snprintf(sql, sizeof sql,
                 "DROP TEMPORARY TABLE IF EXISTS seen; CREATE TEMPORARY TABLE seen AS SELECT * FROM %s", views.v[i]);
        if (by_hand(sql) != DT_OK)
            fail_msg("%s: %s: %s", value, views.v[i], err.text);
    }
    run_sql("DROP TEMPORARY TABLE seen");
}

/* What the view shows with the table as it is, and with the table empty. */
static bool bears_on(const char *table, const char *view)
{
    run_sql("DROP TEMPORARY TABLE IF EXISTS full_view, poor_view; CREATE TEMPORARY TABLE full_view AS SELECT * FROM "
            "%s; BEGIN; DELETE FROM %s; CREATE TEMPORARY TABLE poor_view AS SELECT * FROM %s; ROLLBACK",
            view, table, view);
    return sql_number("SELECT EXISTS (SELECT 1 FROM (SELECT * FROM full_view EXCEPT SELECT * FROM poor_view) d)");
}

/* Otherwise extremes of the table would be met by nobody. */
TEST(every_table_that_a_view_reads_has_rows_that_it_shows)
{
    size_t pairs = 0;
    fill_every_table();
    run_sql("SET timestamp = 1800000000");
    for (size_t t = 0; t < tables.n; t++)
        for (size_t v = 0; v < views.n; v++) {
            if (!sql_number("SELECT COUNT(*) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE() AND "
                            "TABLE_NAME = '%s' AND INSTR(VIEW_DEFINITION, CONCAT('`', DATABASE(), '`.`%s`')) > 0",
                            views.v[v], tables.v[t]))
                continue;
            pairs++;
            if (!bears_on(tables.v[t], views.v[v]))
                fail_msg("%s shows nothing of the rows of %s that the test has put there", views.v[v], tables.v[t]);
        }
    run_sql("SET timestamp = DEFAULT");
    assert_in_range(pairs, 20, 1000);
}

TEST(every_view_shows_every_row_whatever_its_numbers_are)
{
    const char *columns = number_columns();
    fill_every_table();
    for (size_t step = 0; step < 2; step++)
        for (size_t i = 0; i < N(extremes); i++) {
            write_extremes(columns, i, step);
            read_every_view(step ? "by turns" : extremes[i]);
        }
}

/* ---- procedures ---- */

/* A job's id stands for %d, an extreme for %s. What is marked as sent is not cancelled: those with even ids. */
static const char *const calls_of_a_job[] = {"CALL dt_reschedule(%d, '9999-12-31')", "CALL dt_redrive(%d)",
                                             "CALL dt_mark_sent(%d DIV 2 * 2, 3)", "CALL dt_cancel(%d)"};
static const char *const calls[] = {"CALL dt_explain(8); CALL dt_explain(10); CALL dt_explain(11)",
                                    "CALL dt_redrive_all('orders', NULL, '9999-12-31 23:59:59.999')",
                                    "CALL dt_cancel_all('*', '1000-01-01', NULL)",
                                    "CALL dt_begin_operation('reschedule', '*', NULL, NULL, %s)",
                                    "CALL dt_shift_all('*', NULL, NULL, %s)",
                                    "CALL dt_clear_halt(0, 'drop', NULL)",
                                    "CALL dt_renew_member(FALSE, 0, 4000)",
                                    "CALL dt_wait(1, 0, 'x', 0, 0, -1, -1, -1, 7, 0, -1)",
                                    "CALL dt_watch_alerts(1)"};

static bool is_called(const char *name)
{
    char text[NAME_MAX + 10];
    bool found = false;
    snprintf(text, sizeof text, "CALL %s(", name);
    for (size_t i = 0; i < N(calls_of_a_job); i++)
        found = found || strncmp(calls_of_a_job[i], text, strlen(text)) == 0;
    for (size_t i = 0; i < N(calls); i++)
        found = found || strncmp(calls[i], text, strlen(text)) == 0;
    return found;
}

static void call(const char *sql, const char *value)
{
    if (by_hand(sql) != DT_OK)
        fail_msg("%s: %s: %s", value, sql, err.text);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void call_every_procedure(const char *value)
{
    char sql[200];
    for (size_t i = 0; i < N(calls_of_a_job); i++)
        for (int id = 7; id <= 14; id++) {
            snprintf(sql, sizeof sql, calls_of_a_job[i], id);
            call(sql, value);
        }
    for (size_t i = 0; i < N(calls); i++) {
        snprintf(sql, sizeof sql, calls[i], value);
        call(sql, value);
    }
}
#pragma GCC diagnostic pop

TEST(every_procedure_answers_whatever_the_numbers_of_the_rows_are)
{
    const char *columns = number_columns();
    struct names procedures;
    read_names(&procedures, "SELECT GROUP_CONCAT(ROUTINE_NAME SEPARATOR ' ') FROM information_schema.ROUTINES WHERE "
                            "ROUTINE_SCHEMA = DATABASE()");
    for (size_t i = 0; i < procedures.n; i++)
        if (!is_called(procedures.v[i]))
            fail_msg("%s is called by none of the calls", procedures.v[i]);
    for (size_t step = 0; step < 2; step++)
        for (size_t i = 0; i < N(extremes); i++) {
            fill_every_table();
            write_extremes(columns, i, step);
            call_every_procedure(extremes[i]);
        }
}

SUITE(open_and_read, close_store)
