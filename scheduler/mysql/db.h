/*
 * One connection to MySQL or MariaDB. All statements are prepared, except those of dt_db_commit_with and of index
 * queries, which contain only numbers and hexadecimal bytes. Only db_mysql*.c include mysql.h. A dt_db belongs to one
 * thread at a time. For store/ only.
 *
 * Statements are cached by the address of their text, so the text must live as long as the connection. Parameters are
 * borrowed for the call. If the connection fails, calls return UNAVAILABLE until dt_db_reconnect. A dt_db does not
 * reconnect by itself, because a leader must notice the failure. Transactions are READ COMMITTED; outside of them
 * autocommit is on. With mysql.hosts, if a server becomes read-only, its connections die within a second of use.
 * Sessions have short limits in the server (config [mysql]) and time_zone '+00:00'. With installation.test_clock, NOW()
 * is the time of the test clock, and SYSDATE() the server's.
 *
 * Statuses of calls that talk to the server: UNAVAILABLE (connection lost or refused; the transaction is rolled back),
 * BUSY (1213, 1205, 3572: the caller rolls back and may repeat the whole transaction), EXISTS (1062; in DDL 1060, a
 * column, and 1061, an index), NOT_FOUND (1091, 3940: a constraint that a DDL drops), INVALID (bad data: CHECK, too
 * long), SCHEMA (unknown table or column), else CORRUPT or INTERNAL; dt_db_commit also UNKNOWN (the connection broke
 * during the COMMIT).
 */
#pragma once

#include "base/config.h"
#include "base/status.h"
#include "base/text/strbuf.h"

typedef struct dt_db dt_db;

struct dt_param {
    enum { DT_PARAM_NULL, DT_PARAM_INT, DT_PARAM_BYTES, DT_PARAM_FAILED } type;
    int64_t i;
    struct dt_str s;
};
#define DT_P_INT(v) ((struct dt_param){.type = DT_PARAM_INT, .i = (int64_t)(v)})
#define DT_P_STR(v) ((struct dt_param){.type = DT_PARAM_BYTES, .s = (v)})
#define DT_P_NULL   ((struct dt_param){.type = DT_PARAM_NULL})
/* DT_P_STR_OR_NULL is NULL if the text is absent, DT_P_INT_OR_NULL if the number is 0. */
#define DT_P_STR_OR_NULL(v) ((v).p ? DT_P_STR(v) : DT_P_NULL)
#define DT_P_INT_OR_NULL(v) ((v) ? DT_P_INT(v) : DT_P_NULL)
/* The text of a buffer (struct dt_strbuf *). If the buffer has failed, the statement returns NOMEM and is not sent. */
#define DT_P_BUF(b) ((b)->failed ? (struct dt_param){.type = DT_PARAM_FAILED} : DT_P_STR(dt_strbuf_str(b)))
/* The parameters of a statement, in the order of its placeholders. */
struct dt_params {
    const struct dt_param *v;
    size_t n;
};
/* The parameters of a statement for n rows, each with `columns` parameters, one row after another. */
struct dt_param_rows {
    const struct dt_param *v;
    size_t columns, n;
};
#define DT_PARAMS(...)                                                                                                 \
    ((struct dt_params){(const struct dt_param[]){__VA_ARGS__},                                                        \
                        sizeof((const struct dt_param[]){__VA_ARGS__}) / sizeof(struct dt_param)})
#define DT_NO_PARAMS ((struct dt_params){NULL, 0})
/* Appends parameters to an array that has room for them. Returns the array's new end. */
static inline struct dt_param *dt_params_add(struct dt_param *end, struct dt_params more)
{
    memcpy(end, more.v, more.n * sizeof(*end));
    return end + more.n;
}

enum dt_server { DT_SERVER_MARIADB, DT_SERVER_MYSQL };

/* Initializes the client library: once per process, before other threads exist. */
dt_status dt_db_library_init(void);
/* Frees the client library's memory of the calling thread. Each thread calls it before it ends. */
void dt_db_thread_end(void);

/* Makes a handle and connects it. The configuration must outlive the handle. *out is NULL unless OK. */
dt_status dt_db_open(const struct dt_config *config, dt_db **out, struct dt_error *err);
/* Makes a handle without a connection; dt_db_reconnect connects it. Returns NOMEM if memory runs out. */
dt_status dt_db_new(const struct dt_config *config, dt_db **out);
/* Accepts NULL. */
void dt_db_free(dt_db *db);
/* Closes the connection, if one is open, and makes a new one. */
dt_status dt_db_reconnect(dt_db *db, struct dt_error *err);
/* Interrupts a call that waits for the server, and closes the connection permanently: calls then return UNAVAILABLE.
 * May be called from any thread. Used when the process ends. */
void dt_db_cut(dt_db *db);
bool dt_db_alive(const dt_db *db); /* whether the handle is connected and the connection has not failed */
/* Returns the monotonic time of the last call that used the connection. */
int64_t dt_db_used_us(const dt_db *db);
dt_status dt_db_ping(dt_db *db, struct dt_error *err);
enum dt_server dt_db_server(const dt_db *db);
/* Returns the limit, in bytes, of all parameters of a statement (in dt_db_run_many: of one row). If a statement is
 * larger, it is not sent, and the call returns UNAVAILABLE with an alarm. If db is NULL, returns the limit of this
 * process's latest connection. */
size_t dt_db_packet_max(const dt_db *db);

dt_status dt_db_begin(dt_db *db, struct dt_error *err);
/* Begins a transaction and reads the server's time in ms, in one round trip. */
dt_status dt_db_begin_at(dt_db *db, int64_t *now_ms, struct dt_error *err);
/* Begins a transaction. If the previous call was a transaction of the same kind, this takes no round trip: the session
 * keeps autocommit off until a statement runs outside of a transaction. */
dt_status dt_db_begin_soon(dt_db *db, struct dt_error *err);
/* Begins a read-only transaction that sees the data that were committed when it began. */
dt_status dt_db_begin_snapshot(dt_db *db, struct dt_error *err);
dt_status dt_db_commit(dt_db *db, struct dt_error *err);
/* Runs one more statement (as dt_db_run_many) and commits, in one round trip if the statement fits in a packet. So rows
 * that the statement locks are locked only until the commit, even if this process dies. If the statement fails, its
 * status is returned, nothing was committed, and the caller rolls back. UNKNOWN: the connection broke, so the commit
 * may have happened. After BUSY, dt_db_number changes. */
dt_status dt_db_commit_with(dt_db *db, const char *sql, struct dt_param_rows rows, struct dt_error *err);
/* Returns the number of the connection, which no other connection of the server has. After dt_db_commit_with returned
 * BUSY, the number is another one, which is probably but not certainly unique. */
uint64_t dt_db_number(const dt_db *db);
/* Returns whether there is no open transaction, and no result that needs dt_db_end. */
bool dt_db_idle(const dt_db *db);
void dt_db_rollback(dt_db *db); /* does nothing without a transaction; if it fails, the connection is lost */

/* Runs a statement without a result set. *affected: the number of changed rows; a row that matched but kept its values
 * does not count. affected may be NULL. */
dt_status dt_db_run(dt_db *db, const char *sql, struct dt_params params, uint64_t *affected, struct dt_error *err);
/* Runs one INSERT for many rows: `sql` is "INSERT … VALUES (?,…,?)" with one group of placeholders, and possibly " ON
 * DUPLICATE KEY UPDATE …" after it. On MariaDB it is one array-bound execution; otherwise multi-row statements are
 * built from the text. A column is INT or BYTES in all of its rows (NULLs allowed). BYTES are stored as they are, in
 * binary and ASCII columns: no character set is converted. */
dt_status dt_db_run_many(dt_db *db, const char *sql, struct dt_param_rows rows, uint64_t *affected,
                         struct dt_error *err);
/* Runs text that cannot be prepared (DDL, CALL), and discards result sets. For migrations only. */
dt_status dt_db_script(dt_db *db, struct dt_str sql, struct dt_error *err);

/* Runs a query. After OK, call dt_db_next until it returns false, then dt_db_end (always, also after an error; a second
 * call does nothing). Other statements must wait for dt_db_end. Column values are valid until the next dt_db_next or
 * dt_db_end. */
dt_status dt_db_query(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/* Runs a query whose rows may be large: dt_db_next reads one row from the server, and only this row is in memory. The
 * caller may call dt_db_end before the last row. If more than a few rows remain, dt_db_end then closes the connection
 * instead of reading them, and the next call of the store makes a new connection. Only outside of transactions. */
dt_status dt_db_query_stream(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/* Runs a query whose columns are numbers and all belong to one index. It is sent as text: if another session has used
 * the table, a prepared statement of MariaDB 10.11 also reads each row from the table (10,000 entries: 30,000 pages
 * instead of 30). Every ? in `sql` is a parameter. Rows are returned as the server finds them. If the caller pauses
 * between rows, the server waits for mysql.io_timeout or mysql.idle_transaction_timeout, whichever is shorter. The
 * query may also be a CALL of a procedure that ends with one query. */
dt_status dt_db_query_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/* Sends a query as dt_db_query_index does, without waiting. The first dt_db_next waits for the server, and dt_db_end
 * returns the failure of the statement. */
dt_status dt_db_ask_index(dt_db *db, const char *sql, struct dt_params params, struct dt_error *err);
/* Runs a query without parameters and does not cache it, so its text need not outlive the query. For tests and for an
 * operator's query. */
dt_status dt_db_query_text(dt_db *db, struct dt_str text, struct dt_error *err);
bool dt_db_owes(const dt_db *db);   /* whether an answer was not read completely */
size_t dt_db_rows(const dt_db *db); /* number of rows of the open result of dt_db_query */
/* Fetches the next row. Returns false after the last row, or if fetching fails; then dt_db_end returns OK or the
 * failure. */
bool dt_db_next(dt_db *db);
bool dt_db_is_null(const dt_db *db, unsigned column);
int64_t dt_db_i64(const dt_db *db, unsigned column);         /* 0 if NULL; ENUM columns must be selected as col+0 */
struct dt_str dt_db_bytes(const dt_db *db, unsigned column); /* absent if NULL */
/* Ends the query. Returns OK, or the failure of fetching. */
dt_status dt_db_end(dt_db *db, struct dt_error *err);
/* Runs a query and reads the first column of its first row (walk.c). *found: whether the result has a row. *n: the
 * number; 0 if the column is NULL or no row was found. found and n may be NULL. */
dt_status dt_db_read_number(dt_db *db, const char *sql, struct dt_params params, bool *found, int64_t *n,
                            struct dt_error *err);
/* Runs a query and reads the first n columns of its first row as numbers (walk.c). If no row is found, *found is false
 * and the numbers in v are unchanged. found may be NULL. */
dt_status dt_db_read_numbers(dt_db *db, const char *sql, struct dt_params params, bool *found, int64_t *v, unsigned n,
                             struct dt_error *err);
/* Runs a query and copies the first column of its first row, a text, into the arena. *out is absent if no row is found,
 * or if the column is NULL. */
dt_status dt_db_read_text(dt_db *db, const char *sql, struct dt_params params, struct dt_arena *arena,
                          struct dt_str *out, struct dt_error *err);

#define DT_SQL_NOW_MS "CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS SIGNED)"
