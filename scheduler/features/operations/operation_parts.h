/*
 * The inside of operations (operations.h), shared by the files of this folder and nobody else: the row of an operation
 * and its events (operations_store.c), finding its jobs (operation_find.c), changing them (operation_change.c), deleting a topic with its
 * jobs (topic_deletion.c). All of it runs inside the transaction of one step.
 */
#ifndef DT_OPERATIONS_OPERATION_PARTS_H
#define DT_OPERATIONS_OPERATION_PARTS_H

#include "job/list/list.h"
#include "operations.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* operations.walk, as its ENUM counts. */
enum dt_operation_walk { DT_WALK_JOBS = 1, DT_WALK_KEYS, DT_WALK_HISTORY, DT_WALK_OVER };

#ifndef DT_OPERATION_WINDOW
#define DT_OPERATION_WINDOW 10000 /* rows that one step looks at while it finds jobs */
#define DT_OPERATION_PIECE  1024  /* rows that are locked at once: half of what a leader dispatches at once */
#endif

/* A row of `operations`; texts are in the arena of whoever read it. */
struct dt_operation_row {
    struct dt_operation shown;
    int64_t owner; /* of a new one */
    struct dt_str key_prefix, error_code, after_key;
    int64_t run_from_ms, run_to_ms, created_from_ms, created_to_ms; /* created_to_ms inclusive */
    struct dt_list_times failed;
    bool at_one_time; /* at_ms holds, not shift_ms */
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
/* Reads an operation as it is shown, inside a transaction. NOT_FOUND. */
DT_MUST_CHECK dt_status dt_operation_show(dt_db *db, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                                          struct dt_error *err);
/* Decides whose a new operation is, and inserts it, with the lock of all changes of topics. FULL: too many of its owner
 * run. */
DT_MUST_CHECK dt_status dt_operation_enter(dt_db *db, const struct dt_operation_ask *ask, struct dt_operation_row *row,
                                           struct dt_error *err);

/* Writes the event that an operation was asked for, or stopped (without a request), if there is somebody to name. */
DT_MUST_CHECK dt_status dt_operation_event(dt_db *db, const struct dt_operation *op, struct dt_str actor,
                                           int64_t now_ms, const char *action, struct dt_error *err);

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
/* Home days on which `jobs` may have rows of an operation's topic, by what is counted (operation_find.c). */
struct dt_operation_days {
    bool all;        /* it may be any day */
    uint32_t pieces; /* bits, by the home day modulo 32 */
};
/* Finds those of the listed jobs that match: all there is to find. */
DT_MUST_CHECK dt_status dt_operation_find_listed(dt_db *db, struct dt_operation_row *row,
                                                 const struct dt_operation_ask *ask, struct dt_arena *arena,
                                                 struct dt_operation_finds *out, struct dt_error *err);
/* Notes jobs that were found, each once; the row counts them, and has its sample. */
DT_MUST_CHECK dt_status dt_operation_note(dt_db *db, struct dt_operation_row *row,
                                          const struct dt_operation_finds *found, struct dt_arena *arena,
                                          struct dt_error *err);

/* Adds jobs to the sample: the first ten of all. row->shown.matched does not count them yet. */
DT_MUST_CHECK dt_status dt_operation_add_to_sample(struct dt_operation_row *row, const struct dt_operation_finds *found,
                                                   struct dt_arena *arena, struct dt_error *err);
/* Reads the two columns of an open query: when a job runs, and its id. */
DT_MUST_CHECK dt_status dt_operation_read_found(const dt_db *db, struct dt_arena *arena, void *row, void *arg);

/* ---- changing (operation_change.c) ---- */

/* The open transaction that changes a piece. */
struct dt_operation_txn {
    dt_store *store;
    dt_db *db;
    int64_t now_ms;
    struct dt_arena *arena;
    struct dt_counts *counts;
};
/* Changes the next piece of the jobs that were found, and moves the row's cursor; the operation is done where there are
 * no more. */
DT_MUST_CHECK dt_status dt_operation_change(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                            struct dt_operation_piece *piece, struct dt_error *err);

/* Changes these jobs, as the operation's kind says, with nothing noted. */
DT_MUST_CHECK dt_status dt_operation_change_found(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                                  const struct dt_operation_finds *found,
                                                  struct dt_operation_piece *piece, struct dt_error *err);

/* ---- deleting a topic (topic_deletion.c) ---- */

/* Ends jobs of the topic that is to go, or looks whether they have ended; the operation is done with the topic.
 * INVALID: a schedule makes jobs of it. */
DT_MUST_CHECK dt_status dt_operation_delete_topic(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                                  struct dt_operation_piece *piece, struct dt_error *err);
/* Takes the mark off the topic of an operation that was to delete it, and does not; of others nothing. */
DT_MUST_CHECK dt_status dt_operation_keep_topic(dt_db *db, int64_t id, int64_t now_ms, struct dt_error *err);

#endif
