#include "support/job_rows.h"

#include "support/suite.h"

void job_row(int64_t id, const char *fmt, ...)
{
    char changes[2000];
    long long now_ms = mysql_now_ms(), run_ms = now_ms + 3600000;
    run_sql("INSERT INTO jobs (id, topic, run_at, next_at, near, retry, ack_timeout_ms, created_at, updated_at, maker, "
            "digest, payload) VALUES (%lld, 'orders', %lld, %lld, TRUE, '15s 3m', 60000, %lld, %lld, 1, REPEAT('d', "
            "16), '{\"n\":1}')",
            (long long)id, run_ms, run_ms, now_ms, now_ms);
    if (!fmt)
        return;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(changes, sizeof changes, fmt, args);
    va_end(args);
    assert_in_range(n, 1, sizeof changes - 1);
    run_sql("UPDATE jobs SET %s WHERE id = %lld", changes, (long long)id);
}

void job_row_dispatched(int64_t id, int64_t attempt, unsigned shard)
{
    job_row(id,
            "state = 'dispatched', attempt = %lld, attempt_status = 'dispatched', claim_shard = %u, due_at = "
            "created_at - 1000, dispatched_at = created_at - 1000, next_at = created_at + 59000",
            (long long)attempt, shard);
}

#define COPIED                                                                                                         \
    "topic, state, run_at, near, attempt, failures, attempt_status, due_at, dispatched_at, finished_at, claim_shard, " \
    "no_retries, retry, ack_timeout_ms, version, created_at, updated_at, purge_at, leave_at, maker, digest, "          \
    "partition_key, content_type, payload_binary, error_at, error_code, error_message, headers, payload"

void job_rows_multiply(int64_t n, int64_t apart_ms)
{
    long long end = sql_number("SELECT id FROM jobs") + n;
    for (long long have = 1; have < n; have *= 2)
        run_sql("INSERT INTO jobs (id, job_key, next_at, " COPIED
                ") SELECT id + %lld, CONCAT(job_key, 'x', %lld), next_at + %lld, " COPIED
                " FROM jobs WHERE id + %lld < %lld",
                have, have, have * (long long)apart_ms, have, end);
}

#define ARCHIVED                                                                                                       \
    "topic, job_key, state, run_at, attempt, failures, attempt_status, due_at, dispatched_at, finished_at, "           \
    "claim_shard, no_retries, retry, ack_timeout_ms, version, created_at, updated_at, maker, digest, payload_binary, " \
    "error_at, error_code, error_message, payload"

void job_rows_archive(const char *fmt, ...)
{
    char where[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(where, sizeof where, fmt, args);
    va_end(args);
    run_sql("INSERT INTO history (id, part, purge_at, " ARCHIVED
            ") SELECT id, 0, COALESCE(purge_at, 9000000000000), " ARCHIVED " FROM jobs WHERE %s",
            where);
    run_sql("DELETE FROM jobs WHERE %s", where);
    run_sql("INSERT IGNORE INTO history_days SELECT DISTINCT id DIV 1099511627776, 0 FROM history");
}

void job_row_assert(int64_t id, const char *expression, const char *expected, const char *file, int line)
{
    char cell[2000];
    sql_text(cell, sizeof cell, "SELECT %s FROM jobs WHERE id = %lld", expression, (long long)id);
    if (strcmp(cell, expected) == 0)
        return;
    print_error("%s:%d: %s of job %lld: \"%s\", expected \"%s\"\n", file, line, expression, (long long)id, cell,
                expected);
    _fail(file, line);
}

int64_t mysql_now_ms(void)
{
    return sql_number("SELECT " SQL_NOW);
}
