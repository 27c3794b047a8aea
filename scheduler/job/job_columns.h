/*
 * The columns of a job, in one table. From it come the members of struct dt_job, struct dt_new_job, struct dt_patch and
 * struct dt_outgoing, and what the store does with each of them: insert it, read it, change it, compare it. Statements
 * that name the columns stand in job/change/job_rows.sql, in the order of the table
 * (tests/unit/job/test_job_columns.c).
 * The payload, which may be large, comes behind all of them and is not in the table.
 *
 * Whoever uses the table gives three macros of (kind, member, column), one a group:
 *
 *   ROW        what the store itself writes, or what a caller gives in a way of its own
 *   CONTENT    what a caller gives with the payload, and changes with it
 *   EXTRA      what a caller gives by itself, and changes by itself; most jobs have none of it
 *
 * Kinds: INT int64_t; FLAG bool; TEXT struct dt_str, absent for NULL; SHARD int, the column holds -1 for none; STATE
 * and STATUS the ENUMs jobs.state and jobs.attempt_status. Times are in ms since 1970, 0 = none.
 */

#ifndef DT_JOB_JOB_COLUMNS_H
#define DT_JOB_JOB_COLUMNS_H

#define DT_JOB_COLUMNS(ROW, CONTENT, EXTRA)                                                                            \
    ROW(INT, id, id)                                                                                                   \
    ROW(TEXT, topic, topic)                                                                                            \
    ROW(TEXT, key, job_key)                                                                                            \
    ROW(STATE, state, state)                                                                                           \
    ROW(INT, run_at_ms, run_at)                                                                                        \
    ROW(INT, next_at_ms, next_at) /* 0 in terminal states */                                                           \
    ROW(INT, attempt, attempt)                                                                                         \
    ROW(INT, failures, failures)                                                                                       \
    ROW(STATUS, attempt_status, attempt_status)                                                                        \
    ROW(INT, due_at_ms, due_at)               /* next_at that the latest attempt was claimed at */                     \
    ROW(INT, dispatched_at_ms, dispatched_at) /* when the latest attempt was claimed */                                \
    ROW(INT, finished_at_ms, finished_at)     /* when the latest attempt, or the job, ended */                         \
    ROW(SHARD, claim_shard, claim_shard)      /* the shard that claimed the latest attempt */                          \
    ROW(FLAG, no_retries, no_retries)         /* further attempts are cancelled */                                     \
    ROW(TEXT, retry, retry)                   /* canonical text, see retry.h; empty = no retries */                    \
    ROW(INT, ack_timeout_ms, ack_timeout_ms)                                                                           \
    EXTRA(TEXT, partition_key, partition_key)                                                                          \
    EXTRA(TEXT, headers, headers)           /* JSON object text */                                                     \
    EXTRA(TEXT, callback_url, callback_url) /* absent = the topic's, at the time of an attempt */                      \
    CONTENT(TEXT, content_type, content_type)                                                                          \
    CONTENT(FLAG, payload_binary, payload_binary) /* made with payload_base64 */                                       \
    ROW(TEXT, error_code, error_code)             /* of the last failure, as the next two */                           \
    ROW(TEXT, error_message, error_message)                                                                            \
    ROW(INT, error_at_ms, error_at)                                                                                    \
    ROW(INT, created_at_ms, created_at)                                                                                \
    ROW(INT, updated_at_ms, updated_at)                                                                                \
    ROW(INT, version, version)

/* For the groups that a use is not about. */
#define DT_COLUMN_NONE(kind, member, column)

/* A member of a struct. */
#define DT_COLUMN_MEMBER(kind, member, column) DT_COLUMN_TYPE_##kind member;
#define DT_COLUMN_TYPE_INT                     int64_t
#define DT_COLUMN_TYPE_FLAG                    bool
#define DT_COLUMN_TYPE_TEXT                    struct dt_str
#define DT_COLUMN_TYPE_SHARD                   int
#define DT_COLUMN_TYPE_STATE                   enum dt_job_state
#define DT_COLUMN_TYPE_STATUS                  enum dt_attempt_status

/* How many there are: enum { N = 0 DT_JOB_COLUMNS(…DT_COLUMN_ONE…) }. */
#define DT_COLUMN_ONE(kind, member, column) +1 /* NOLINT(bugprone-macro-parentheses): a term of a sum */

#endif
