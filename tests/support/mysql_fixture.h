/*
 * The MySQL database of a test, on the server that the environment names (DUETIME_MYSQL_SOCKET, _PORT, _USER,
 * _PASSWORD), so that test programs can run side by side. A program has one at a time. Everything here fails the running
 * cmocka test when it cannot do its work.
 *
 *     mysql_fixture_make("insert");            // an empty database "dt_insert_<pid>_<n>"
 *     mysql_fixture_migrate();                 // with our tables
 *     dt_store *store = mysql_fixture_store(); // dt_store_free it
 *     mysql_fixture_drop();
 */
#pragma once

#include "mysql/db.h"
#include "store/store.h"

extern struct mysql_fixture {
    struct dt_config config; /* names the database; change limits before anything connects */
    char database[64];
    dt_db *db; /* the test's own hands: not the store's connection */
} mysql_fixture;

void mysql_fixture_make(const char *prefix);
void mysql_fixture_migrate(void);
void mysql_fixture_drop(void);
dt_store *mysql_fixture_store(void);

/* What suites of one store begin and end with: the database, with our tables (shards: their number, 0 = the default),
 * and a store on it. Between tests: all rows of jobs and topics gone, shards as new, the arena empty. */
void mysql_fixture_open(const char *prefix, unsigned shards, dt_store **store);
void mysql_fixture_empty(struct dt_arena *arena);
/* All 32 pieces of the audit of counters: how many jobs it found miscounted. */
int64_t mysql_fixture_audit(void);
void mysql_fixture_close(dt_store *store, struct dt_arena *arena);

/* Ends all sessions but the test's own, as a server does that is started anew. */
void mysql_fixture_kill_sessions(void);

/* Returns when `n` transactions of this database at once wait for a lock; fails the test if they do not. */
void mysql_fixture_await_lock_waits(int64_t n);
/* Returns when another session of this database executes a statement LIKE that. */
void mysql_fixture_await_statement(const char *like);
/* How many transactions of this database wait for a lock, except those that reserve ids, which may wait at any time. */
int64_t mysql_fixture_lock_waits(void);

/* SQL by hand, as an operator would type it. */
void run_sql(const char *fmt, ...) DT_PRINTF(1, 2);
/* The first column of the first row; 0 when there is none or it is NULL. */
int64_t sql_number(const char *fmt, ...) DT_PRINTF(1, 2);
#define assert_sql_number(expected, ...) assert_int_equal(sql_number(__VA_ARGS__), expected)
/* The same as text into buf, empty when there is none or it is NULL. */
const char *sql_text(char *buf, size_t cap, const char *fmt, ...) DT_PRINTF(3, 4);

/* Fails the test with err's text unless status is DT_OK; OK means the `err` that is in scope. */
#define MYSQL_FIXTURE_OK(status, err) mysql_fixture_ok((status), (err), __FILE__, __LINE__)
#define OK(status)                    MYSQL_FIXTURE_OK(status, &err)
void mysql_fixture_ok(dt_status status, const struct dt_error *err, const char *file, int line);
