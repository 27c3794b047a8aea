/*
 * The partitions of job_events, a day each, named by their number since 1970; what lies later than all of them is in
 * `later`. A day is cut off before it comes, so that nothing is ever copied, and dropped as a whole.
 */
#include <stdio.h>

#include "store/events/events.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

#define DAY_MS     INT64_C(86400000)
#define DAYS_AHEAD 2
#define DAYS_MAX   4000

/* Cuts the day from what lies later; a day without events costs nothing. */
static dt_status add_day(dt_db *db, int64_t day, struct dt_error *err)
{
    char sql[300];
    int n = snprintf(sql, sizeof(sql),
                     "ALTER TABLE job_events REORGANIZE PARTITION later INTO (PARTITION d%lld VALUES LESS THAN (%lld),"
                     " PARTITION later VALUES LESS THAN MAXVALUE)",
                     (long long)day, (long long)DAY_MS * (day + 1));
    return dt_db_script(db, (struct dt_str){sql, (size_t)n}, err);
}

static dt_status drop_day(dt_db *db, int64_t day, struct dt_error *err)
{
    char sql[100];
    int n = snprintf(sql, sizeof(sql), "ALTER TABLE job_events DROP PARTITION d%lld", (long long)day);
    return dt_db_script(db, (struct dt_str){sql, (size_t)n}, err);
}

struct days {
    int64_t v[DAYS_MAX];
    size_t n;
};

static dt_status read_days(dt_db *db, struct days *days, struct dt_error *err)
{
    days->n = 0;
    dt_status status = dt_db_query(db, dt_sql_select_event_days, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    while (days->n < DAYS_MAX && dt_db_next(db))
        days->v[days->n++] = dt_db_i64(db, 0);
    return dt_db_end(db, err);
}

/* Events that are older than the first day that is cut off lie in its partition, and go with it. */
dt_status dt_store_events_tend(dt_store *store, int64_t now_ms, int64_t keep_ms, struct dt_error *err)
{
    struct days days;
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = read_days(db, &days, err);
    if (status != DT_OK)
        return status;
    int64_t last = days.n ? days.v[days.n - 1] : now_ms / DAY_MS - 1;
    for (int64_t day = last + 1; day <= now_ms / DAY_MS + DAYS_AHEAD && status == DT_OK; day++)
        status = add_day(db, day, err);
    for (size_t i = 0; i < days.n && status == DT_OK && (days.v[i] + 1) * DAY_MS <= now_ms - keep_ms; i++)
        status = drop_day(db, days.v[i], err);
    return status;
}
