/*
 * One connection to MySQL or MariaDB. Only prepared statements are sent (but for what dt_db_commit_with and the index
 * queries write out: numbers and hexadecimal bytes). Only db_mysql*.c include mysql.h. A dt_db belongs to one thread at
 * a time. For store/ only.
 *
 * Statements are cached by the address of their text: give string literals (or other text that lives as long as the
 * connection). Parameters are borrowed for the call. A connection that failed is dead: every later call answers
 * UNAVAILABLE until dt_db_reconnect; nothing reconnects by itself, because a leadership must notice. Transactions are
 * READ COMMITTED; autocommit is on outside of them. With mysql.hosts, a connection whose server has become read-only is
 * dead within a second of use. Sessions carry short limits of the server (config [mysql]) and
 * time_zone '+00:00'. With installation.test_clock each statement has the time of the test clock in NOW(), and the
 * server's in SYSDATE().
 *
 * Statuses of every call that talks to the server: UNAVAILABLE (connection lost or refused; the transaction is rolled
 * back), BUSY (1213, 1205, 3572: the caller rolls back and may repeat the whole transaction), EXISTS (1062; in DDL
 * 1060, a column, and 1061, an index), NOT_FOUND (1091, 3940: a constraint that a DDL drops), INVALID (bad data: CHECK,
 * too long), SCHEMA (unknown table or column), CORRUPT/INTERNAL otherwise; dt_db_commit also UNKNOWN (the connection
 * broke while the COMMIT was under way).
 */
#ifndef DT_MYSQL_DB_H
#define DT_MYSQL_DB_H

#include "base/config.h"
#include "base/status.h"
#include "base/text/strbuf.h"

typedef struct dt_db dt_db;

struct dt_param {
    enum { DT_PARAM_NULL, DT_PARAM_INT, DT_PARAM_BYTES } type;
    int64_t i;
    struct dt_str s;
};
#define DT_P_INT(v) ((struct dt_param){.type = DT_PARAM_INT, .i = (int64_t)(v)})
#define DT_P_STR(v) ((struct dt_param){.type = DT_PARAM_BYTES, .s = (v)})
#define DT_P_NULL   ((struct dt_param){.type = DT_PARAM_NULL})
/* NULL when the slice is absent (.p NULL), when the number is 0. */
#define DT_P_STR_OR_NULL(v) ((v).p ? DT_P_STR(v) : DT_P_NULL)
#define DT_P_INT_OR_NULL(v) ((v) ? DT_P_INT(v) : DT_P_NULL)
/* The parameters of one statement, in the order of its placeholders; borrowed for the call. */
struct dt_params {
    const struct dt_param *v;
    size_t n;
};
/* The parameters of a statement for many rows: row-major, n rows of so many columns; borrowed for the call. */
struct dt_param_rows {
    const struct dt_param *v;
    size_t columns, n;
};
#define DT_PARAMS(...)                                                                                                 \
    ((struct dt_params){(const struct dt_param[]){__VA_ARGS__},                                                        \
                        sizeof((const struct dt_param[]){__VA_ARGS__}) / sizeof(struct dt_param)})
#define DT_NO_PARAMS ((struct dt_params){NULL, 0})

enum dt_server { DT_SERVER_MARIADB, DT_SERVER_MYSQL };

/* Prepares the client library; once a process, before there are threads. */
DT_MUST_CHECK dt_status dt_db_library_init(void);
/* Gives back what the client library keeps for the calling thread; at its end. */
void dt_db_thread_end(void);

/* Makes a handle and connects it. The configuration is borrowed and outlives it. *out is NULL unless OK. */
DT_MUST_CHECK dt_status dt_db_open(const struct dt_config *config, dt_db **out, struct dt_error *err);
/* Makes a handle that is not connected yet; dt_db_reconnect connects it. NOMEM. */
DT_MUST_CHECK dt_status dt_db_new(const struct dt_config *config, dt_db **out);
/* Accepts NULL. */
void dt_db_free(dt_db *db);
/* Ends the connection, if there is one, and makes another. */
DT_MUST_CHECK dt_status dt_db_reconnect(dt_db *db, struct dt_error *err);
/* Ends what is under way, which may wait in the server, and the connection for good: calls answer UNAVAILABLE from here
 * on. Any thread; for the end of the one that waits. */
void dt_db_cut(dt_db *db);
bool dt_db_alive(const dt_db *db); /* connected and never failed since */
/* The monotonic time of the last call that talked to the server. */
int64_t dt_db_used_us(const dt_db *db);
DT_MUST_CHECK dt_status dt_db_ping(dt_db *db, struct dt_error *err);
enum dt_server dt_db_server(const dt_db *db);
/* Bytes of all parameters of a statement (of one row in dt_db_run_many): one with more is not sent, and is UNAVAILABLE
 * with an alarm. NULL: as the latest connection of this process found it. */
size_t dt_db_packet_max(const dt_db *db);

DT_MUST_CHECK dt_status dt_db_begin(dt_db *db, struct dt_error *err);
/* Begins a transaction and reads the server's time in ms, in one round trip. */
DT_MUST_CHECK dt_status dt_db_begin_at(dt_db *db, int64_t *now_ms, struct dt_error *err);
/* Begins a transaction, mostly without a round trip, for transactions that come one after the other: the session keeps
 * what it does for a commit from here on, until something is done outside a transaction. */
DT_MUST_CHECK dt_status dt_db_begin_soon(dt_db *db, struct dt_error *err);
/* Begins a transaction that only reads, everything as it was committed at its beginning. */
DT_MUST_CHECK dt_status dt_db_begin_snapshot(dt_db *db, struct dt_error *err);
DT_MUST_CHECK dt_status dt_db_commit(dt_db *db, struct dt_error *err);
/*
 * Runs one statement more (as dt_db_run_many does) and commits, in one round trip where it fits: rows that the
 * statement locks are locked for no longer than the commit takes, whatever becomes of this process. A status of the
 * statement: nothing was committed, roll back; UNKNOWN as of dt_db_commit. After BUSY dt_db_number is another one.
 */
DT_MUST_CHECK dt_status dt_db_commit_with(dt_db *db, const char *sql, struct dt_param_rows rows, struct dt_error *err);
/* A number of the connection. No other one to this server has it, but for those that BUSY moved. */
uint64_t dt_db_number(const dt_db *db);
/* Whether there is neither a transaction nor a result that dt_db_end is owed for. */
bool dt_db_idle(const dt_db *db);
void dt_db_rollback(dt_db *db); /* no-op without a transaction; a failure leaves the connection dead */

/* Runs a statement without a result set. *affected (may be NULL): rows that changed; rows that were found and stayed as
 * they were are not counted. */
DT_MUST_CHECK dt_status dt_db_run(dt_db *db, const char *sql, struct dt_params params, uint64_t *affected,
                                  struct dt_error *err);
/*
 * Runs one INSERT for many rows: `sql` is "INSERT … VALUES (?,…,?)" with one group of placeholders, possibly followed
 * by " ON DUPLICATE KEY UPDATE …". MariaDB: one array-bound execution; otherwise
 * multi-row statements built from the same text. A column is INT or BYTES in all of its rows (NULLs allowed). BYTES are
 * stored as they are, in binary and ASCII columns: no character set is converted.
 */
DT_MUST_CHECK dt_status dt_db_run_many(dt_db *db, const char *sql, struct dt_param_rows rows, uint64_t *affected,
                                       struct dt_error *err);
/* Runs text that cannot be prepared (DDL, CALL); for migrations only. Result sets are discarded. */
DT_MUST_CHECK dt_status dt_db_script(dt_db *db, struct dt_str sql, struct dt_error *err);

/*
 * Asks a query: after OK call dt_db_next until it answers false, then dt_db_end (always, also after an error: it is
 * idempotent). Other statements may run only after dt_db_end. Column values are valid until the next
 * dt_db_next/dt_db_end.
 */
DT_MUST_CHECK dt_status dt_db_query(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/*
 * Asks a query for rows that may be large: each is read from the server when dt_db_next asks for it, and none but that
 * one is in memory. Whoever has enough simply ends: a remainder of more than a few rows is not read, the connection is
 * cut instead, and made anew by the next call of the store. Outside of transactions only.
 */
DT_MUST_CHECK dt_status dt_db_query_stream(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/*
 * Asks a query that an index answers without the rows, and whose columns are numbers. It goes by text: run again after
 * any other session has used the table, a prepared statement of MariaDB 10.11 reads each row from the table as well
 * (10,000 entries: 30,000 pages instead of 30). Every ? in `sql` is a parameter. Rows come as they are found: who waits
 * for something else between them makes the server wait, which it does for mysql.io_timeout, or
 * mysql.idle_transaction_timeout if that is shorter, and no longer. A CALL of a procedure that ends with one query may
 * be asked so as well.
 */
DT_MUST_CHECK dt_status dt_db_query_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/* Asks as dt_db_query_index does, without waiting: the server works meanwhile, and the first dt_db_next waits for it.
 * dt_db_end then returns the failure of the statement. */
DT_MUST_CHECK dt_status dt_db_ask_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/* Asks a query whose text lives shortly (tests, an operator's question): prepared for this one time, no parameters. */
DT_MUST_CHECK dt_status dt_db_query_text(dt_db *db, struct dt_str text, struct dt_error *err);
bool dt_db_owes(const dt_db *db);   /* something was asked, and its answer not read to its end */
size_t dt_db_rows(const dt_db *db); /* of the open result set of dt_db_query */
/* Fetches the next row. False: there is none, or fetching failed; dt_db_end says which. */
bool dt_db_next(dt_db *db);
bool dt_db_is_null(const dt_db *db, unsigned column);
int64_t dt_db_i64(const dt_db *db, unsigned column);         /* 0 for NULL; ENUM columns must be selected as col+0 */
struct dt_str dt_db_bytes(const dt_db *db, unsigned column); /* absent for NULL */
/* Ends the query. OK, or the failure of fetching. */
DT_MUST_CHECK dt_status dt_db_end(dt_db *db, struct dt_error *err);
/* Asks a query and reads the first column of its first row (walk.c). *found: there is a row; *n: 0 without a row,
 * and for NULL. Both may be NULL. */
DT_MUST_CHECK dt_status dt_db_read_number(dt_db *db, const char *sql, struct dt_params params, bool *found, int64_t *n,
                                          struct dt_error *err);
/* Likewise the first n columns. Without a row, the numbers stay as they are. */
DT_MUST_CHECK dt_status dt_db_read_numbers(dt_db *db, const char *sql, struct dt_params params, bool *found, int64_t *v,
                                           unsigned n, struct dt_error *err);
/* Likewise a text, into the arena; absent without a row, and for NULL. */
DT_MUST_CHECK dt_status dt_db_read_text(dt_db *db, const char *sql, struct dt_params params, struct dt_arena *arena,
                                        struct dt_str *out, struct dt_error *err);

/* SQL for "now" by the server's clock in ms. */
#define DT_SQL_NOW_MS "CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)"

#endif
