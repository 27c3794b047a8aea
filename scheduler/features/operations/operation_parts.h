/* What the files of operations share: the rows of operations and their events (operations_row.c), finding the jobs
 * (operation_find.c), changing them (operation_change.c), deleting a topic with its jobs (topic_deletion.c). All
 * functions run inside the transaction of one step. Only for this folder. */
#pragma once

#include "job/list/list.h"
#include "operations.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* How the jobs are found. The numbers are those of the ENUM operations.walk. */
enum dt_operation_walk { DT_WALK_JOBS = 1, DT_WALK_KEYS, DT_WALK_HISTORY, DT_WALK_OVER };

#ifndef DT_OPERATION_WINDOW
#define DT_OPERATION_WINDOW 10000 /* most rows that one step reads while it finds jobs */
#define DT_OPERATION_PIECE  1024  /* most rows that are locked at once: half of a leader's batch */
#endif

/* A row of `operations`. Texts are in the arena of the reader. */
struct dt_operation_row {
    struct dt_operation shown;
    int64_t owner; /* owner of the operation; only set to insert the row */
    struct dt_str key_prefix, error_code, after_key;
    int64_t run_from_ms, run_to_ms, created_from_ms, created_to_ms; /* created_to_ms is inclusive */
    struct dt_list_times failed;
    bool at_one_time; /* the job gets the time at_ms; if false, its time is moved by shift_ms */
    int64_t at_ms, shift_ms, spread_ms;
    enum dt_operation_walk walk;
    int64_t after_id, after_at_ms, look_at_ms;
};

/* Returns the state of the jobs that an operation of this kind changes. */
static inline enum dt_job_state dt_operation_acts_on(enum dt_operation_kind kind)
{
    return kind == DT_OPERATION_REDRIVE ? DT_DEAD : DT_SCHEDULED;
}

/* Returns the row of a new operation, without an id. If memory ran out, shown.topic_to is absent. */
struct dt_operation_row dt_operation_row_of(const struct dt_operation_ask *ask, int64_t now_ms, struct dt_arena *arena);
/* Reads the current row of an open query. Returns NOMEM if memory runs out. */
dt_status dt_operation_row_read(const dt_db *db, struct dt_arena *arena, void *out, void *arg);
dt_status dt_operation_row_write(dt_db *db, const struct dt_operation_row *row, struct dt_error *err);
/* Reads an operation as the API shows it, inside a transaction. NOT_FOUND: there is no such operation. */
dt_status dt_operation_show(dt_db *db, int64_t id, struct dt_arena *arena, struct dt_operation *out,
                            struct dt_error *err);
/* Determines the owner of a new operation, and inserts the row, under the lock of all changes of topics. FULL: the
 * owner has too many running operations. */
dt_status dt_operation_enter(dt_db *db, const struct dt_operation_ask *ask, struct dt_operation_row *row,
                             struct dt_error *err);

/* Writes the event that an operation was started or stopped. Does nothing if there is no actor. */
dt_status dt_operation_event(dt_db *db, const struct dt_operation *op, struct dt_str actor, int64_t now_ms,
                             const char *action, struct dt_error *err);

/* ---- finding (operation_find.c) ---- */

struct dt_operation_found {
    int64_t run_at_ms, id;
};
struct dt_operation_finds {
    struct dt_operation_found *v; /* in the arena */
    size_t n;
};
/* Finds the jobs of the next window, and moves the cursor in the row to the end of the window. */
dt_status dt_operation_find(dt_db *db, struct dt_operation_row *row, struct dt_arena *arena,
                            struct dt_operation_finds *out, struct dt_error *err);
/* The home days on which `jobs` may have rows of an operation's topics, according to the counters. */
struct dt_operation_days {
    bool all;        /* every day may have rows */
    uint32_t pieces; /* bit k: the days whose number modulo 32 is k may have rows */
};
/* Finds the jobs that the caller lists by id and that match the filter, all in one step. */
dt_status dt_operation_find_listed(dt_db *db, struct dt_operation_row *row, const struct dt_operation_ask *ask,
                                   struct dt_arena *arena, struct dt_operation_finds *out, struct dt_error *err);
/* Stores found jobs, each once. Adds their number to row->shown.matched, and the first of them to the sample. */
dt_status dt_operation_note(dt_db *db, struct dt_operation_row *row, const struct dt_operation_finds *found,
                            struct dt_arena *arena, struct dt_error *err);

/* Adds jobs to the sample, which has at most the first ten. row->shown.matched must not include these jobs yet. */
dt_status dt_operation_add_to_sample(struct dt_operation_row *row, const struct dt_operation_finds *found,
                                     struct dt_arena *arena, struct dt_error *err);
/* Reads a found job from the current row of an open query: its run_at and its id. */
dt_status dt_operation_read_found(const dt_db *db, struct dt_arena *arena, void *row, void *arg);

/* ---- changing (operation_change.c) ---- */

struct dt_operation_txn {
    dt_store *store;
    dt_db *db;
    int64_t now_ms;
    struct dt_arena *arena;
    struct dt_counts *counts;
};
/* Changes the next piece of the found jobs, and moves the cursor in the row. After the last job the state becomes
 * `done`. */
dt_status dt_operation_change(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                              struct dt_operation_piece *piece, struct dt_error *err);

/* Changes the given jobs as one piece of the operation, without reading or deleting rows of the table of found jobs. */
dt_status dt_operation_change_found(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                    const struct dt_operation_finds *found, struct dt_operation_piece *piece,
                                    struct dt_error *err);

/* ---- deleting a topic (topic_deletion.c) ---- */

/* Cancels a piece of the topic's jobs. If all jobs have ended, deletes the topic, and the state becomes `done`.
 * INVALID: a schedule creates jobs in the topic. */
dt_status dt_operation_delete_topic(const struct dt_operation_txn *txn, struct dt_operation_row *row,
                                    struct dt_operation_piece *piece, struct dt_error *err);
/* Removes the mark of the topic that the operation was to delete, after it was stopped or has failed. Does nothing for
 * other kinds. */
dt_status dt_operation_keep_topic(dt_db *db, int64_t id, int64_t now_ms, struct dt_error *err);
