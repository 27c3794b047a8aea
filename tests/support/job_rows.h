/* Rows of `jobs` as a test wants them, by plain SQL, so that what reads and changes them is tested against something
 * that it did not write itself. */
#pragma once

#include "support/mysql_fixture.h"

/* A job of the topic "orders", scheduled an hour ahead, retry "15s 3m", one minute to report, payload {"n":1}; then,
 * when fmt is not NULL, changed by "UPDATE jobs SET <fmt> WHERE id = …". */
void job_row(int64_t id, const char *fmt, ...) DT_PRINTF(2, 3);
/* The same as attempt `attempt` of shard `shard`, dispatched one second ago and waiting for its result. */
void job_row_dispatched(int64_t id, int64_t attempt, unsigned shard);
/* Copies the one job that is there until there are `n`: ids follow upon its id, keys differ, and next_at is `apart_ms`
 * later from one to the next. */
void job_rows_multiply(int64_t n, int64_t apart_ms);

/* Moves the jobs with "WHERE <fmt>" to history, in its default partition; those without purge_at stay there for long. */
void job_rows_archive(const char *fmt, ...) DT_PRINTF(1, 2);

/* Fails the test unless "SELECT <expression> FROM jobs WHERE id = …" reads so (NULL = empty). */
#define assert_job(id, expression, expected) job_row_assert((id), (expression), (expected), __FILE__, __LINE__)
void job_row_assert(int64_t id, const char *expression, const char *expected, const char *file, int line);

/* MySQL's time in SQL and in C. */
#define SQL_NOW "(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(3)) DIV 1000)"
int64_t mysql_now_ms(void);
