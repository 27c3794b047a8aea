/* The inside of operations, which their files share and nobody else includes. */
#ifndef DT_STORE_OPERATION_PARTS_H
#define DT_STORE_OPERATION_PARTS_H

#include "store/jobs/counts.h"
#include "store/operations/operations.h"
#include "store/store_internal.h"

/* operations.walk, as its ENUM counts. */
enum dt_operation_walk { DT_WALK_JOBS = 1, DT_WALK_KEYS, DT_WALK_HISTORY, DT_WALK_OVER };

#define DT_OPERATION_WINDOW 10000 /* rows that one step looks at while it finds jobs */
#define DT_TIME_MAX_MS      INT64_C(253402300799999)

/* A row of `operations`; texts are in the arena of whoever read it. */
struct dt_operation_row {
    struct dt_operation shown;
    struct dt_str key_prefix, error_code, after_key;
    int64_t run_from_ms, run_to_ms, created_from_ms, created_to_ms; /* created_to_ms inclusive */
    bool at_one_time;                                               /* at_ms holds, not shift_ms */
    int64_t at_ms, shift_ms, spread_ms;
    enum dt_operation_walk walk;
    int64_t after_id, after_at_ms, look_at_ms;
};

/* The state of jobs that the kind can act on. */
static inline enum dt_job_state dt_operation_acts_on(enum dt_operation_kind kind)
{
    return kind == DT_OPERATION_REDRIVE ? DT_DEAD : DT_SCHEDULED;
}

/* The row that a new operation has, but for its id. shown.topic_to absent: memory is out. */
struct dt_operation_row dt_operation_row_of(const struct dt_operation_ask *ask, int64_t now_ms, struct dt_arena *arena);
/* Reads the current row of an open query. NOMEM. */
DT_MUST_CHECK dt_status dt_operation_row_read(const dt_db *db, struct dt_arena *arena, void *row, void *arg);
/* Writes how far the operation is. */
DT_MUST_CHECK dt_status dt_operation_row_write(dt_db *db, const struct dt_operation_row *row, struct dt_error *err);

/* ---- finding (operation_find.c) ---- */

struct dt_operation_found {
    int64_t run_at_ms, id;
};
struct dt_operation_finds {
    struct dt_operation_found *v; /* in the arena */
    size_t n;
};
/* Finds the jobs of the next window, and moves the row's cursor behind it. */
DT_MUST_CHECK dt_status dt_operation_find(dt_db *db, struct dt_operation_row *row, struct dt_arena *arena,
                                          struct dt_operation_finds *out, struct dt_error *err);
/* Finds those of the listed jobs that match: all there is to find. */
DT_MUST_CHECK dt_status dt_operation_find_listed(dt_db *db, struct dt_operation_row *row,
                                                 const struct dt_operation_ask *ask, struct dt_arena *arena,
                                                 struct dt_operation_finds *out, struct dt_error *err);
/* Notes jobs that were found, each once; the row counts them, and has its sample. */
DT_MUST_CHECK dt_status dt_operation_note(dt_db *db, struct dt_operation_row *row,
                                          const struct dt_operation_finds *found, struct dt_arena *arena,
                                          struct dt_error *err);

/* ---- changing (operation_change.c) ---- */

/* The open transaction that changes a piece. */
struct dt_operation_txn {
    dt_store *store;
    dt_db *db;
    int64_t now_ms;
    struct dt_arena *arena;
    struct dt_counts *counts;
};
/* Changes the next piece of the jobs that were found, and moves the row's cursor; the operation is done where there are no
 * more. */
DT_MUST_CHECK dt_status dt_operation_change(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                            struct dt_operation_piece *piece, struct dt_error *err);

#endif
