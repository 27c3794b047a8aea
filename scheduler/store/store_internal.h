/*
 * For files with SQL only: connections, transactions and how they are repeated, rows of one type.
 *
 * A transaction that may be repeated is a function of its work, passed to dt_store_commit_work (topic/counts.h). A
 * leader's transaction under its fence is never repeated (dispatch/fence.h). Two kinds have loops of their own:
 * inserts, which may have to find out whether a COMMIT happened, and applying results, which locks more on its second
 * try (job/change/jobs_insert.c, job/results/results_deferred.c).
 */
#pragma once

#include "job/job.h"
#include "mysql/db.h"
#include "store.h"

/* Runs the first statement of a transaction or read on a connection that is made if needed. If a connection broke
 * while idle, it is replaced once, and `first` is called again. *db is the connection, whatever status is returned. */
typedef dt_status dt_first_fn(dt_store *store, dt_db *db, void *arg, struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_first(dt_store *store, dt_db **db, dt_first_fn *first, void *arg,
                                       struct dt_error *err);

/* Connects if needed, and begins a transaction. *now_ms (may be NULL): the server's time in it, which is also given
 * to the reference clock. If a connection broke while idle, it is replaced. */
DT_MUST_CHECK dt_status dt_store_begin(dt_store *store, dt_db **db, int64_t *now_ms, struct dt_error *err);
/* Returns the server's time without a round trip; never later than the server's clock. False: the last sample is too
 * old. */
DT_MUST_CHECK bool dt_store_knows_now(const dt_store *store, int64_t *now_ms);
/* Gives a sample to the reference clock: the server's time, asked for at asked_us (monotonic). */
void dt_store_heard_now(dt_store *store, int64_t now_ms, int64_t asked_us);
/* Commits if status is OK, else rolls back. db may be NULL, if begin failed. Returns the status, or that of the
 * commit. */
DT_MUST_CHECK dt_status dt_store_commit(dt_db *db, dt_status status, struct dt_error *err);

/* Runs one statement without a result, as a transaction of its own. changed: see dt_db_run. */
DT_MUST_CHECK dt_status dt_store_run(dt_store *store, const char *sql, struct dt_params params, uint64_t *changed,
                                     struct dt_error *err);
/* Runs a query on a connection that is made if needed. */
DT_MUST_CHECK dt_status dt_store_query(dt_store *store, dt_db **db, const char *sql, struct dt_params params,
                                       struct dt_error *err);
/* Runs a query and reads its only number, 0 if there is none. If the connection breaks, repeats it once. */
DT_MUST_CHECK dt_status dt_store_number(dt_store *store, const char *sql, struct dt_params params, int64_t *n,
                                        struct dt_error *err);
/* Returns whether to repeat a read once on a new connection: a read on a broken connection held no locks. */
static inline bool dt_store_read_again(unsigned *tries, dt_status status)
{
    return status == DT_UNAVAILABLE && (*tries)++ == 0;
}

/* The work of a transaction, between its beginning and its COMMIT. now_ms: the server's time in it. */
typedef dt_status dt_work_fn(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err);

/* Rows of one type, and how to read one. */
struct dt_rows {
    size_t row_bytes;
    dt_status (*read)(const dt_db *db, struct dt_arena *arena, void *row, void *arg);
    void *arg;              /* argument of `read` */
    struct dt_page_end end; /* all zero: not a page, all rows are read */
    void *v;                /* out: one array in the arena; NULL unless OK */
    size_t n;               /* out; 0 unless OK */
    bool more;              /* out: the page has ended, and the result may have more rows */
    void *to;               /* a pointer that dt_store_read also sets to v; NULL: none */
    size_t *to_n;           /* and where it stores n */
};
/* All rows of a query, for dt_store_read, into *array and *length. */
#define DT_ROWS(array, length, reader)                                                                                 \
    (&(struct dt_rows){.row_bytes = sizeof(**(array)), .read = (reader), .to = (array), .to_n = (length)})
/* Reads the rows of the open result (of dt_db_query, or of a stream for a page), and ends it. */
DT_MUST_CHECK dt_status dt_store_read_rows(dt_db *db, struct dt_arena *arena, struct dt_rows *rows,
                                           struct dt_error *err);

/* Runs a query and reads its rows; for a page, as a stream. If the connection breaks, repeats it once on a new one. */
DT_MUST_CHECK dt_status dt_store_read(dt_store *store, const char *sql, struct dt_params params, struct dt_arena *arena,
                                      struct dt_rows *rows, struct dt_error *err);

/* Returns a copy of the column's text, absent if NULL. If memory runs out, sets *ok to false. */
static inline struct dt_str dt_store_text(const dt_db *db, unsigned column, struct dt_arena *arena, bool *ok)
{
    struct dt_str text = dt_db_bytes(db, column);
    struct dt_str copy = dt_arena_copy(arena, text);
    *ok &= !text.p || copy.p;
    return copy;
}

/* Returns the actor; absent: none. Valid until the next dt_store_act_as. */
struct dt_str dt_store_actor(const dt_store *store);
const struct dt_config *dt_store_config(const dt_store *store);
/* Returns when a job that finishes now leaves `jobs`: after the time for its state, or at the end of its retention
 * if that is earlier. */
static inline int64_t dt_leave_at_ms(const struct dt_config *config, enum dt_job_state state, int64_t now_ms,
                                     int64_t purge_at_ms)
{
    int64_t leave_ms = now_ms + (state == DT_DEAD ? config->history_dead_after : config->history_after);
    return leave_ms < purge_at_ms ? leave_ms : purge_at_ms;
}
/* Returns memory of the store, aligned for any type, valid until the next dt_store_scratch. NULL: out of memory. */
void *dt_store_scratch(dt_store *store, size_t n);

/* The tries of a transaction. Zero at first. */
struct dt_again {
    unsigned tries;
    int64_t first_us; /* when the first BUSY was returned */
};
/* Returns whether to repeat a transaction that ended with this status, after a pause. Only BUSY is repeated, a
 * bounded number of times: after a lock timeout, once. */
bool dt_store_again(struct dt_again *again, dt_status status);
