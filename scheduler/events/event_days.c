/*
 * The partitions of job_events, a day each, named by their number since 1970; what lies later than all of them is in
 * `later`. A day is cut off before it comes, so that nothing is ever copied, and dropped as a whole.
 */
#include <stdio.h>

#include "events.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

#define DAY_MS     INT64_C(86400000)
#define DAYS_AHEAD 2
#define DAYS_MAX   4000

/* Events that are older than the first day that is cut off lie in its partition, and go with it. */
dt_status dt_store_events_tend(dt_store *store, int64_t now_ms, int64_t keep_ms, struct dt_error *err)
{
    int64_t days[DAYS_MAX];
    size_t n = 0;
    char sql[300];
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_select_event_days, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    while (n < DAYS_MAX && dt_db_next(db))
        days[n++] = dt_db_i64(db, 0);
    status = dt_db_end(db, err);
    const int64_t last = n ? days[n - 1] : now_ms / DAY_MS - 1;
    /* Cuts days from what lies later; one without events costs nothing. */
    for (int64_t day = last + 1; day <= now_ms / DAY_MS + DAYS_AHEAD && status == DT_OK; day++) {
        snprintf(sql, sizeof(sql),
                 "ALTER TABLE job_events REORGANIZE PARTITION later INTO (PARTITION d%lld VALUES LESS THAN (%lld),"
                 " PARTITION later VALUES LESS THAN MAXVALUE)",
                 (long long)day, (long long)DAY_MS * (day + 1));
        status = dt_db_script(db, dt_str(sql), err);
    }
    for (size_t i = 0; i < n && status == DT_OK && (days[i] + 1) * DAY_MS <= now_ms - keep_ms; i++) {
        snprintf(sql, sizeof(sql), "ALTER TABLE job_events DROP PARTITION d%lld", (long long)days[i]);
        status = dt_db_script(db, dt_str(sql), err);
    }
    return status;
}
