/* The set-up of the suites of results: a database, jobs that were dispatched, results of each kind. Everything is static: a suite
 * includes this once. */
#pragma once

#include <time.h>

#include "support/suite.h"

#include "job/archive/archive.h"
#include "job/results/results.h"
#include "support/job_rows.h"

#define S(text) DT_STR_LIT(text)

static dt_store *store;
static struct dt_error err;
static struct dt_shard_map map;
static struct dt_arena waiting_texts; /* of results that were stored */

static inline void open_store(void)
{
    mysql_fixture_open("results", 0, &store);
    dt_shard_map_init(&map, 1, 4);
}

static inline void close_store(void)
{
    mysql_fixture_close(store, &waiting_texts);
}

static inline void empty_tables(void)
{
    run_sql("DELETE FROM jobs; DELETE FROM attempts; DELETE FROM topics; DELETE FROM messages; DELETE FROM "
            "deferred_results");
}

static inline struct dt_apply result(int64_t id, int64_t attempt, enum dt_result_status status)
{
    struct dt_apply a = {.result = {.job_id = id, .attempt = attempt, .status = status, .retry_after_ms = -1}};
    if (status == DT_RESULT_SNOOZED)
        a.result.retry_after_ms = 5000;
    return a;
}

static inline struct dt_apply failure(int64_t id, int64_t attempt, struct dt_str code, struct dt_str message)
{
    struct dt_apply a = result(id, attempt, DT_RESULT_FAILED);
    a.result.error_code = code;
    a.result.error_message = message;
    return a;
}

#define assert_outcome(a, expected) assert_int_equal((a).outcome, DT_OUTCOME_##expected)

/* Jobs 1, 2, … n, alike. */
static inline void dispatched_up_to(int64_t n, int64_t attempt)
{
    job_row_dispatched(1, attempt, 0);
    job_rows_multiply(n, 0);
}

/* The caller's part is left out: what is to be counted goes nowhere. */
static inline dt_status apply_within(dt_db *db, int64_t now_ms, struct dt_apply *a)
{
    struct dt_arena arena = {0};
    struct dt_counts counts;
    dt_counts_init(&counts);
    const struct dt_results_txn txn = {.db = db,
                                       .config = &mysql_fixture.config,
                                       .map = &map,
                                       .now_ms = now_ms,
                                       .locking = DT_LOCK_WAITING,
                                       .counts = &counts,
                                       .arena = &arena};
    dt_status status = dt_results_apply_within(&txn, a, 1, &err);
    dt_counts_clear(&counts);
    dt_arena_clear(&arena);
    return status;
}

static inline int64_t stored(void)
{
    return sql_number("SELECT COUNT(*) FROM deferred_results");
}
