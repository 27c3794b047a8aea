/*
 * The inside of the store, which its files share and nobody else includes: connections, transactions and how they are
 * repeated, rows of one type.
 *
 * A transaction that may be repeated is a function of its work, given to dt_store_commit_work (topic/counts.h).
 * What a leader does under its fence is never repeated
 * (dispatch/fence_txn.h); inserting, which may have to find out what became of a COMMIT,
 * and applying results, which lock more the second time, have loops of their own (job/change/store_insert.c,
 * job/results/results_txn.c).
 */
#ifndef DT_STORE_STORE_INTERNAL_H
#define DT_STORE_STORE_INTERNAL_H

#include "job/job.h"
#include "mysql/db.h"
#include "store.h"

/*
 * Asks the first thing on a connection that is made when needed. `first` may be called twice: a connection that broke
 * while it was idle is replaced unnoticed, once. *db is the connection, whatever is returned.
 */
typedef dt_status dt_first_fn(dt_store *store, dt_db *db, void *arg, struct dt_error *err);
DT_MUST_CHECK dt_status dt_store_first(dt_store *store, dt_db **db, dt_first_fn *first, void *arg,
                                       struct dt_error *err);

/*
 * Connects when needed and opens a transaction; *now_ms (may be NULL) is the server's time in it, which also feeds the
 * reference clock. A connection that broke while it was idle is replaced unnoticed.
 */
DT_MUST_CHECK dt_status dt_store_begin(dt_store *store, dt_db **db, int64_t *now_ms, struct dt_error *err);
/* Tells the server's time without a transaction, and without asking the server. False: its time was not asked for
 * lately. *now_ms is never later than the server's time, as that at the beginning of a transaction is. */
DT_MUST_CHECK bool dt_store_knows_now(const dt_store *store, int64_t *now_ms);
/* Feeds the reference clock: the server told its time, in answer to what was asked at asked_us (mono). */
void dt_store_heard_now(dt_store *store, int64_t now_ms, int64_t asked_us);
/* Commits when status is OK, rolls back otherwise; db may be NULL (begin failed). Returns the status, or that of the
 * commit. */
DT_MUST_CHECK dt_status dt_store_commit(dt_db *db, dt_status status, struct dt_error *err);

/* Runs one statement that returns no rows, as a transaction of its own. changed: see dt_db_run. */
DT_MUST_CHECK dt_status dt_store_run(dt_store *store, const char *sql, struct dt_params params, uint64_t *changed,
                                     struct dt_error *err);
/* Says whether a read is tried once more, on a new connection: one that met a broken connection held nothing. */
static inline bool dt_store_read_again(unsigned *tries, dt_status status)
{
    return status == DT_UNAVAILABLE && (*tries)++ == 0;
}

/* The work of one transaction, between its beginning and its COMMIT. now_ms: the server's time in it. */
typedef dt_status dt_work_fn(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err);

/* Rows of one type, and how each is read. */
struct dt_rows {
    size_t row_bytes;
    dt_status (*read)(const dt_db *db, struct dt_arena *arena, void *row, void *arg);
    void *arg;              /* goes to `read` */
    struct dt_page_end end; /* all zero: it is no page, every row is read */
    void *v;                /* out: one array in the arena; NULL unless OK */
    size_t n;               /* out; 0 unless OK */
    bool more;              /* out: the page has ended, and the result perhaps had not */
};
/* Reads the rows of the open result, and ends the result: one of dt_db_query, or a stream where they are a page. */
DT_MUST_CHECK dt_status dt_store_read_rows(dt_db *db, struct dt_arena *arena, struct dt_rows *rows,
                                           struct dt_error *err);

/* Asks, and reads the rows, those of a page as they come from the server; once more on a new connection where the old
 * one broke. */
DT_MUST_CHECK dt_status dt_store_read(dt_store *store, const char *sql, struct dt_params params, struct dt_arena *arena,
                                      struct dt_rows *rows, struct dt_error *err);

/* A copy of the column's text, absent where it is NULL. *ok becomes false when memory is out. */
static inline struct dt_str dt_store_text(const dt_db *db, unsigned column, struct dt_arena *arena, bool *ok)
{
    struct dt_str text = dt_db_bytes(db, column);
    struct dt_str copy = dt_arena_copy(arena, text);
    *ok &= !text.p || copy.p;
    return copy;
}

/* For whom the store acts; absent: nobody. Valid until the next dt_store_act_as. */
struct dt_str dt_store_actor(const dt_store *store);
/* The configuration that dt_store_new was given. */
const struct dt_config *dt_store_config(const dt_store *store);
/* The time when a job that finishes now leaves `jobs`: after the grace of its state, or with its retention if that ends
 * before. */
static inline int64_t dt_leave_at_ms(const struct dt_config *config, enum dt_job_state state, int64_t now_ms,
                                     int64_t purge_at_ms)
{
    int64_t leave_ms = now_ms + (state == DT_DEAD ? config->history_dead_after : config->history_after);
    return leave_ms < purge_at_ms ? leave_ms : purge_at_ms;
}
/* Gives memory for one call, aligned for any type, kept by the store: valid until the next dt_store_scratch. NULL:
 * memory is out. */
void *dt_store_scratch(dt_store *store, size_t n);

/* The tries of one transaction; zero at first. */
struct dt_again {
    unsigned tries;
    int64_t first_us; /* when it ended so for the first time */
};
/* Says whether to repeat a transaction that ended so, and pauses before it does: BUSY only, a bounded number of times;
 * a lock that was waited for in vain once is waited for once more. */
bool dt_store_again(struct dt_again *again, dt_status status);

#endif
