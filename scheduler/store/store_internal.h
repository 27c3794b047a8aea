/*
 * For files with SQL only: connections, transactions and how they are repeated, and reading rows into arrays.
 *
 * To be repeatable, a transaction is a function (dt_work_fn) that is passed to dt_store_commit_work (topic/counts.h). A
 * leader's transaction under its fence is never repeated (dispatch/fence.h). Two transactions have loops of their own:
 * inserts, which may have to find out whether a COMMIT happened, and applying results, which locks more rows on its
 * second try (job/change/jobs_insert.c, job/results/results_deferred.c).
 */
#pragma once

#include "job/job.h"
#include "mysql/db.h"
#include "store.h"

/* Calls `first`, which runs the first statement of a transaction or read, on a connection that is made if needed. If
 * the connection broke while idle, it is replaced once, and `first` is called again. *db is the connection, whatever
 * status is returned. */
typedef dt_status dt_first_fn(dt_store *store, dt_db *db, void *arg, struct dt_error *err);
dt_status dt_store_first(dt_store *store, dt_db **db, dt_first_fn *first, void *arg, struct dt_error *err);

/* Connects if needed, and begins a transaction. *now_ms (may be NULL): the server's time in the transaction, which is
 * also added to the reference clock. If the connection broke while idle, it is replaced. */
dt_status dt_store_begin(dt_store *store, dt_db **db, int64_t *now_ms, struct dt_error *err);
/* Returns the server's time without a round trip, as a lower bound. Returns false if the last sample is too old. */
DT_MUST_CHECK bool dt_store_knows_now(const dt_store *store, int64_t *now_ms);
/* Adds a sample to the reference clock: the server's time now_ms, requested at asked_us (monotonic). */
void dt_store_heard_now(dt_store *store, int64_t now_ms, int64_t asked_us);
/* Commits if status is OK, else rolls back. db may be NULL if begin failed. Returns status, or the status of the
 * commit. */
dt_status dt_store_commit(dt_db *db, dt_status status, struct dt_error *err);

/* Runs one statement without a result, as a transaction of its own. *changed: number of rows that it has changed. */
dt_status dt_store_run(dt_store *store, const char *sql, struct dt_params params, uint64_t *changed,
                       struct dt_error *err);
/* Runs a query on a connection that is made if needed. */
dt_status dt_store_query(dt_store *store, dt_db **db, const char *sql, struct dt_params params, struct dt_error *err);
/* Runs a query and reads its only number; 0 if it returns no row. If the connection breaks, repeats the query once. */
dt_status dt_store_number(dt_store *store, const char *sql, struct dt_params params, int64_t *n, struct dt_error *err);
/* Returns whether to repeat a read once on a new connection. That is safe, because a read outside of a transaction
 * holds no locks. */
static inline bool dt_store_read_again(unsigned *tries, dt_status status)
{
    return status == DT_UNAVAILABLE && (*tries)++ == 0;
}

/* Does the work of a transaction between its beginning and its COMMIT. now_ms: the server's time in the transaction. */
typedef dt_status dt_work_fn(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err);

/* An array of rows of one type, and the function that reads a row. */
struct dt_rows {
    size_t row_bytes;
    dt_status (*read)(const dt_db *db, struct dt_arena *arena, void *row, void *arg);
    void *arg;              /* argument of `read` */
    struct dt_page_end end; /* end of the page; all zero: all rows are read */
    void *v;                /* out: the array, in the arena; NULL unless OK */
    size_t n;               /* out: number of rows; 0 unless OK */
    bool more;              /* out: the page has ended, and further rows may follow */
    void *to;               /* a pointer that dt_store_read sets to v, too; NULL: none */
    size_t *to_n;           /* place to which dt_store_read copies n, too; used if `to` is set */
};
/* The rows argument of dt_store_read that reads all rows of a query into *array and *length. */
#define DT_ROWS(array, length, reader)                                                                                 \
    (&(struct dt_rows){.row_bytes = sizeof(**(array)), .read = (reader), .to = (array), .to_n = (length)})
/* Reads the rows of the open result (of dt_db_query; for a page, of dt_db_query_stream), and ends the result. */
dt_status dt_store_read_rows(dt_db *db, struct dt_arena *arena, struct dt_rows *rows, struct dt_error *err);

/* Runs a query and reads its rows; for a page, as a stream. If the connection breaks, repeats the query once on a new
 * connection. */
dt_status dt_store_read(dt_store *store, const char *sql, struct dt_params params, struct dt_arena *arena,
                        struct dt_rows *rows, struct dt_error *err);

/* Returns a copy of the column's text in the arena; absent if the column is NULL. If memory runs out, sets *ok to
 * false. */
static inline struct dt_str dt_store_text(const dt_db *db, unsigned column, struct dt_arena *arena, bool *ok)
{
    struct dt_str text = dt_db_bytes(db, column);
    struct dt_str copy = dt_arena_copy(arena, text);
    *ok &= !text.p || copy.p;
    return copy;
}

/* Returns the name of the actor; absent if none is set. Valid until the next dt_store_act_as. */
struct dt_str dt_store_actor(const dt_store *store);
const struct dt_config *dt_store_config(const dt_store *store);
/* Returns when a job that finishes now is moved out of `jobs`: after the time for its state, or at the end of its
 * retention if that is earlier. */
static inline int64_t dt_leave_at_ms(const struct dt_config *config, enum dt_job_state state, int64_t now_ms,
                                     int64_t purge_at_ms)
{
    int64_t leave_ms = now_ms + (state == DT_DEAD ? config->history_dead_after : config->history_after);
    return leave_ms < purge_at_ms ? leave_ms : purge_at_ms;
}
/* Returns n bytes of memory of the store, aligned for any type. Valid until the next dt_store_scratch. NULL: out of
 * memory. */
void *dt_store_scratch(dt_store *store, size_t n);

/* Counts the tries of a transaction. Initialize with zeros. */
struct dt_again {
    unsigned tries;
    int64_t first_us; /* monotonic time when the first BUSY was returned */
};
/* Returns whether to repeat a transaction that returned this status, after sleeping if so. Only BUSY is repeated, a
 * bounded number of times; after a lock timeout, once. */
bool dt_store_again(struct dt_again *again, dt_status status);
