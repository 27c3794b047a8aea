/*
 * The one place that knows how a row of `jobs` becomes a struct dt_job. For store/ only.
 *
 * A statement selects the columns of a function below, in the order of job/job_columns.h (store/sql/job_rows.sql), at any
 * place in its list, and reads each row with that function, giving the index of the first of them.
 */
#ifndef DT_STORE_STORE_ROW_H
#define DT_STORE_STORE_ROW_H

#include "job/job.h"
#include "store/db/db.h"

/* next_at of jobs j as everything here knows it: at least 1 where it is set, because zero, or less, is a legal way to
 * write "now" in a manual edit, and 0 is what the absence of a time is here. The due index has the same (due_key). */
#define DT_SQL_NEXT_AT "GREATEST(j.next_at, 1)"

enum { DT_ROW_HEAD_COLUMNS = 0 DT_JOB_COLUMNS(DT_COLUMN_ONE, DT_COLUMN_ONE, DT_COLUMN_ONE) };
/* The whole row: the columns of job/job_columns.h, and the payload behind them. */
#define DT_ROW_FULL                                                                                                    \
    "j.id,j.topic,j.job_key,j.state+0,j.run_at," DT_SQL_NEXT_AT ",j.attempt,j.failures,j.attempt_status+0,j.due_at,"   \
    "j.dispatched_at,j.finished_at,j.claim_shard,j.no_retries,j.retry,j.ack_timeout_ms,j.partition_key,j.headers,"     \
    "j.content_type,j.payload_binary,j.error_code,j.error_message,j.error_at,j.created_at,j.updated_at,j.version,"     \
    "j.payload"
/*
 * Of history's many partitions only those can have a job that jobs of its home day have gone to (history_days). Where
 * many ids are asked for, a join finds them: (id, part) of each, a look. It costs the server about 2 ms to have all
 * partitions at hand, whatever is asked; for one id see store_past.h. `id`: an expression of what comes before.
 */
#define DT_SQL_HOME_DAY(id) id " DIV 1099511627776"
#define DT_PAST_JOIN(id, history)                                                                                      \
    "STRAIGHT_JOIN history_days d FORCE INDEX (PRIMARY) ON d.home_day = " DT_SQL_HOME_DAY(id) " STRAIGHT_"             \
                                                                                              "JOIN " history
/* What dt_job_decide looks at: id, state, next_at, attempt, attempt_status, failures, no_retries, retry, ack_timeout;
 * and what the index is to forget: due_at, dispatched_at. */
#define DT_ROW_JUDGED_OF(next_at)                                                                                      \
    "j.id,j.state+0," next_at ",j.attempt,j.attempt_status+0,j.failures,j.no_retries,j.retry,j.ack_timeout_ms,"        \
    "j.due_at,j.dispatched_at"
#define DT_ROW_JUDGED         DT_ROW_JUDGED_OF(DT_SQL_NEXT_AT)
#define DT_ROW_JUDGED_PAST    DT_ROW_JUDGED_OF("0")
#define DT_ROW_JUDGED_COLUMNS 11

/*
 * The current row of an open query into *job, all other members zero; slices are copied into the arena. next_at_ms is
 * 0 in terminal states, whatever a manual edit left in the column. NOMEM; CORRUPT: a state that is none.
 */
DT_MUST_CHECK dt_status dt_row_head(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job);
DT_MUST_CHECK dt_status dt_row_full(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job);
DT_MUST_CHECK dt_status dt_row_judged(const dt_db *db, unsigned first, struct dt_arena *arena, struct dt_job *job);

/* The value of an ENUM column selected as col+0; attempt statuses: 'none' and NULL are NONE. */
DT_MUST_CHECK dt_status dt_row_state(const dt_db *db, unsigned column, enum dt_job_state *out);
enum dt_attempt_status dt_row_attempt_status(const dt_db *db, unsigned column);

/* The parameter that writes a member of CONTENT or EXTRA, for DT_JOB_COLUMNS. */
#define DT_COLUMN_PARAM_TEXT(value) DT_P_STR_OR_NULL(value)
#define DT_COLUMN_PARAM_FLAG(value) DT_P_INT(value)

#endif
