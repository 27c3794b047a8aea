/* The functions that the files of operations share: the row of an operation and its events (operations_row.c), finding
 * its jobs (operation_find.c), changing them (operation_change.c), deleting a topic with its jobs (topic_deletion.c).
 * All of them run inside the transaction of one step. Only for this folder. */
#pragma once

#include "job/list/list.h"
#include "operations.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* Numbers are those of the ENUM operations.walk. */
enum dt_operation_walk { DT_WALK_JOBS = 1, DT_WALK_KEYS, DT_WALK_HISTORY, DT_WALK_OVER };

#ifndef DT_OPERATION_WINDOW
#define DT_OPERATION_WINDOW 10000 /* most rows that one step reads while it finds jobs */
#define DT_OPERATION_PIECE  1024  /* most rows that are locked at once: half of a leader's batch */
#endif

/* A row of `operations`; texts are in the reader's arena. */
struct dt_operation_row {
    struct dt_operation shown;
    int64_t owner; /* set for a new operation only */
    struct dt_str key_prefix, error_code, after_key;
    int64_t run_from_ms, run_to_ms, created_from_ms, created_to_ms; /* created_to_ms is inclusive */
    struct dt_list_times failed;
    bool at_one_time; /* at_ms is used instead of shift_ms */
    int64_t at_ms, shift_ms, spread_ms;
    enum dt_operation_walk walk;
    int64_t after_id, after_at_ms, look_at_ms;
};

/* Returns the state of the jobs that an operation of this kind changes. */
static inline enum dt_job_state dt_operation_acts_on(enum dt_operation_kind kind)
{
    return kind == DT_OPERATION_REDRIVE ? DT_DEAD : DT_SCHEDULED;
}

/* Returns the row of a new operation, without its id. If memory runs out, shown.topic_to is absent. */
struct dt_operation_row dt_operation_row_of(const struct dt_operation_ask *ask, int64_t now_ms, struct dt_arena *arena);
/* Reads the current row of an open query. Returns NOMEM if memory runs out. */
DT_MUST_CHECK dt_status dt_operation_row_read(const dt_db *db, struct dt_arena *arena, void *row, void *arg);
DT_MUST_CHECK dt_status dt_operation_row_write(dt_db *db, const struct dt_operation_row *row, struct dt_error *err);
/* Reads an operation as callers see it, inside a transaction. NOT_FOUND: there is no such operation. */
DT_MUST_CHECK dt_status dt_operation_show(dt_db *db, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                                          struct dt_error *err);
/* Determines the owner of a new operation and inserts it, under the lock of all changes of topics. FULL: the owner has
 * too many running operations. */
DT_MUST_CHECK dt_status dt_operation_enter(dt_db *db, const struct dt_operation_ask *ask, struct dt_operation_row *row,
                                           struct dt_error *err);

/* Writes the event that an operation was started or stopped, if it has an actor. */
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
/* Finds the jobs of the next window, and moves the row's cursor to the window's end. */
DT_MUST_CHECK dt_status dt_operation_find(dt_db *db, struct dt_operation_row *row, struct dt_arena *arena,
                                          struct dt_operation_finds *out, struct dt_error *err);
/* Home days on which `jobs` may have rows of an operation's topic, by the counters (operation_find.c). */
struct dt_operation_days {
    bool all;        /* every day may have such rows */
    uint32_t pieces; /* bit k: days whose number modulo 32 is k */
};
/* Finds the listed jobs that match, all in one step. */
DT_MUST_CHECK dt_status dt_operation_find_listed(dt_db *db, struct dt_operation_row *row,
                                                 const struct dt_operation_ask *ask, struct dt_arena *arena,
                                                 struct dt_operation_finds *out, struct dt_error *err);
/* Stores found jobs, each once. Adds them to row->shown.matched and to the sample. */
DT_MUST_CHECK dt_status dt_operation_note(dt_db *db, struct dt_operation_row *row,
                                          const struct dt_operation_finds *found, struct dt_arena *arena,
                                          struct dt_error *err);

/* Adds jobs to the sample, which has the first ten. Must be called before row->shown.matched counts these jobs. */
DT_MUST_CHECK dt_status dt_operation_add_to_sample(struct dt_operation_row *row, const struct dt_operation_finds *found,
                                                   struct dt_arena *arena, struct dt_error *err);
/* Reads the two columns of an open query: the time at which a job runs, and its id. */
DT_MUST_CHECK dt_status dt_operation_read_found(const dt_db *db, struct dt_arena *arena, void *row, void *arg);

/* ---- changing (operation_change.c) ---- */

struct dt_operation_txn {
    dt_store *store;
    dt_db *db;
    int64_t now_ms;
    struct dt_arena *arena;
    struct dt_counts *counts;
};
/* Changes the next piece of the found jobs, and moves the row's cursor. After the last job the operation is done. */
DT_MUST_CHECK dt_status dt_operation_change(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                            struct dt_operation_piece *piece, struct dt_error *err);

/* Changes the given jobs as the operation's kind says, without the table of found jobs. */
DT_MUST_CHECK dt_status dt_operation_change_found(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                                  const struct dt_operation_finds *found,
                                                  struct dt_operation_piece *piece, struct dt_error *err);

/* ---- deleting a topic (topic_deletion.c) ---- */

/* Cancels jobs of the topic. If all jobs have ended, deletes the topic; then the operation is done. INVALID: a schedule
 * creates jobs in the topic. */
DT_MUST_CHECK dt_status dt_operation_delete_topic(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                                  struct dt_operation_piece *piece, struct dt_error *err);
/* Removes the mark of a deletion that was stopped or failed. Does nothing for operations of other kinds. */
DT_MUST_CHECK dt_status dt_operation_keep_topic(dt_db *db, int64_t id, int64_t now_ms, struct dt_error *err);
