/*
 * A MySQL database of a test's own, on the server that the environment names (DUETIME_MYSQL_SOCKET, _PORT, _USER,
 * _PASSWORD), so that tests can run side by side. Everything here fails the running cmocka test when it cannot do its
 * work.
 *
 *     struct mysql_fixture fx;
 *     mysql_fixture_make(&fx, "insert");          // an empty database "dt_insert_<pid>_<n>"
 *     mysql_fixture_migrate(&fx);                 // with our tables
 *     dt_store *store = mysql_fixture_store(&fx); // dt_store_free it
 *     mysql_fixture_drop(&fx);
 */
#pragma once

#include "mysql/db.h"
#include "store/store.h"

struct mysql_fixture {
    struct dt_config config; /* names the database; change limits before anything connects */
    char database[64];
    dt_db *db; /* the test's own hands: not the store's connection */
};

void mysql_fixture_make(struct mysql_fixture *fx, const char *prefix);
void mysql_fixture_migrate(struct mysql_fixture *fx);
void mysql_fixture_drop(struct mysql_fixture *fx);
dt_store *mysql_fixture_store(struct mysql_fixture *fx);

/* What suites of one store begin and end with: the database, with our tables (shards: their number, 0 = the default),
 * and a store on it. Between tests: all rows of jobs and topics gone, shards as new, the arena empty. */
void mysql_fixture_open(struct mysql_fixture *fx, const char *prefix, unsigned shards, dt_store **store);
void mysql_fixture_empty(struct mysql_fixture *fx, struct dt_arena *arena);
/* All 32 pieces of the audit of counters: how many jobs it found miscounted. */
int64_t mysql_fixture_audit(struct mysql_fixture *fx);
void mysql_fixture_close(struct mysql_fixture *fx, dt_store *store, struct dt_arena *arena);

/* Ends all sessions but the test's own, as a server does that is started anew. */
void mysql_fixture_kill_sessions(struct mysql_fixture *fx);

/* Returns when `n` transactions of this database at once wait for a lock; fails the test if they do not. */
void mysql_fixture_await_lock_waits(struct mysql_fixture *fx, int64_t n);
/* Returns when another session of this database executes a statement LIKE that. */
void mysql_fixture_await_statement(struct mysql_fixture *fx, const char *like);
/* How many transactions of this database wait for a lock, except those that reserve ids, which may wait at any time. */
int64_t mysql_fixture_lock_waits(struct mysql_fixture *fx);

/* SQL by hand, as an operator would type it. */
void mysql_fixture_run(struct mysql_fixture *fx, const char *fmt, ...) DT_PRINTF(2, 3);
/* The first column of the first row; 0 when there is none or it is NULL. */
int64_t mysql_fixture_number(struct mysql_fixture *fx, const char *fmt, ...) DT_PRINTF(2, 3);
/* The same as text into buf, empty when there is none or it is NULL. */
const char *mysql_fixture_text(struct mysql_fixture *fx, char *buf, size_t cap, const char *fmt, ...) DT_PRINTF(4, 5);

/* Fails the test with err's text unless status is DT_OK; OK means the `err` that is in scope. */
#define MYSQL_FIXTURE_OK(status, err) mysql_fixture_ok((status), (err), __FILE__, __LINE__)
#define OK(status)                    MYSQL_FIXTURE_OK(status, &err)
void mysql_fixture_ok(dt_status status, const struct dt_error *err, const char *file, int line);
