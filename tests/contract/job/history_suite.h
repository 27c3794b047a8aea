/* The set-up of the archive's suites: a database and finished jobs to archive. Everything is static: a suite includes
 * this once. */
#pragma once

#include "job/archive/archive.h"
#include "job/job.h"
#include "job/shard.h"
#include "support/store_suite.h"

#define DAY    INT64_C(86400000)
#define MINUTE INT64_C(60000)
#define IDS    (INT64_C(690) << 40)

static struct dt_shard_map map;
static struct dt_job job;
static struct dt_archiver archiver;
static struct dt_archived archived;
static int64_t now;

static inline void open_store(void)
{
    mysql_fixture_open("history", 4, &store);
    dt_shard_map_init(&map, 1, 4);
}

static inline void begin(void)
{
    empty_tables();
    mysql_fixture.config.history_after = 10 * MINUTE;
    mysql_fixture.config.history_dead_after = DAY;
    mysql_fixture.config.history_keys = 36525 * DAY;
    archiver = (struct dt_archiver){0};
    now = mysql_now_ms();
}

/* A job that was finished `ago` ms ago, made a minute earlier, after two attempts; its key is "k<n>". */
static inline int64_t finished(int n, const char *state, int64_t ago)
{
    int64_t id = IDS + n, at = now - ago;
    job_row(id,
            "job_key = 'k%d', state = '%s', next_at = NULL, attempt = 2, failures = 1, attempt_status = 'failed', "
            "claim_shard = 1, created_at = %lld, updated_at = %lld, finished_at = %lld, purge_at = %lld, leave_at = "
            "%lld, error_code = 'boom', error_at = 7",
            n, state, (long long)(at - MINUTE), (long long)at, (long long)at, (long long)(at + 30 * DAY),
            (long long)(at + 10 * MINUTE));
    run_sql("INSERT INTO job_keys VALUES ('orders', 'k%d', %lld) ON DUPLICATE KEY UPDATE job_id = job_id", n,
            (long long)id);
    run_sql("INSERT INTO attempts (job_id, attempt, status, due_at, error_code) VALUES (%lld, 1, 'failed', 5, 'first')",
            (long long)id);
    return id;
}

static inline int64_t rows(const char *table)
{
    return sql_number("SELECT COUNT(*) FROM %s", table);
}

static struct dt_tended tended;

static inline dt_status tend(int64_t at_ms, const int32_t *v, size_t n)
{
    struct dt_wanted wanted = {.n = n};
    for (size_t i = 0; i < n; i++)
        wanted.v[i] = v[i];
    return dt_store_partitions_tend(store, at_ms, &wanted, &archiver.partitions, &tended, &err);
}

/* As the housekeeper does it: what is missing is made, and the same again. */
static inline void archive_due(void)
{
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    if (archived.wanted.n == 0)
        return;
    OK(tend(now, archived.wanted.v, archived.wanted.n));
    OK(dt_store_archive(store, &archiver, now, 1000, &archived, &err));
    assert_int_equal(archived.wanted.n, 0);
}

static inline int64_t archive_job(int n, const char *state)
{
    int64_t id = finished(n, state, 20 * MINUTE);
    archive_due();
    assert_int_equal(archived.moved, 1);
    return id;
}

/* One row a job, and what is counted is there. */
static inline void assert_whole(void)
{
    assert_sql_number(0, "SELECT COUNT(*) FROM jobs j JOIN history h ON h.id = j.id");
    assert_sql_number(0, "SELECT COUNT(*) FROM history_counts c WHERE c.jobs <> (SELECT COUNT(*) FROM history h WHERE "
                         "h.topic = c.topic AND h.state = c.state AND h.part = c.part)");
    assert_sql_number(0, "SELECT COUNT(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM history_counts c WHERE "
                         "h.topic = c.topic AND h.state = c.state AND h.part = c.part)");
    assert_sql_number(0, "SELECT COUNT(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM history_days d WHERE "
                         "d.home_day = h.id DIV 1099511627776 AND d.part = h.part)");
}

static inline int64_t session_status(const char *show)
{
    dt_db *db;
    OK(dt_store_db(store, &db, &err));
    OK(dt_db_query(db, show, DT_NO_PARAMS, &err));
    assert_true(dt_db_next(db));
    struct dt_str text = dt_db_bytes(db, 1);
    int64_t n = strtoll(text.p, NULL, 10);
    OK(dt_db_end(db, &err));
    return n;
}

/* `n` more rows like the first one, with keys and attempts of their own. */
static inline void multiply(int64_t first, int n)
{
    job_rows_multiply(n, 0);
    run_sql("INSERT INTO job_keys SELECT topic, job_key, id FROM jobs WHERE id > %lld", (long long)first);
    run_sql("INSERT INTO attempts (job_id, attempt, status) SELECT id, 1, 'failed' FROM jobs WHERE id > %lld",
            (long long)first);
}
