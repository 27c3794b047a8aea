/*
 * The only code that knows how a row of `jobs` becomes a struct dt_job. For the store only.
 *
 * Each function below reads a group of columns. A statement selects a group in the order of job/job.h
 * (job/change/job_rows.sql), at any position of its list. The caller passes the index of the group's first column.
 */
#pragma once

#include "job/job.h"
#include "mysql/db.h"

enum { DT_ROW_HEAD_COLUMNS = 0 DT_JOB_COLUMNS(DT_COLUMN_ONE, DT_COLUMN_ONE, DT_COLUMN_ONE) };
/* The columns that dt_job_decide reads (id, state, next_at, attempt, attempt_status, failures, no_retries, retry,
 * ack_timeout), and those that the removal of the index entry needs (due_at, dispatched_at). */
#define DT_ROW_JUDGED_COLUMNS 11

/* Read a group of columns of the open query's current row into *job, from column `first` on; all other members are
 * zero. Texts are copied into the arena. In terminal states next_at_ms is 0, even if a manual edit left another value
 * in the column. NOMEM: memory ran out. CORRUPT: the state is not valid. */
dt_status dt_row_head(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job);
dt_status dt_row_full(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job);
dt_status dt_row_judged(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job);

/* Read an ENUM column that was selected as col+0. CORRUPT: the state is not valid. An attempt status of 'none' or NULL
 * is returned as NONE. */
dt_status dt_row_state(const dt_db *db, unsigned column, enum dt_job_state *out);
enum dt_attempt_status dt_row_attempt_status(const dt_db *db, unsigned column);

/* Returns the parameter that writes a member of CONTENT or EXTRA; used with DT_JOB_COLUMNS. */
#define DT_COLUMN_PARAM_TEXT(value) DT_P_STR_OR_NULL(value)
#define DT_COLUMN_PARAM_FLAG(value) DT_P_INT(value)
