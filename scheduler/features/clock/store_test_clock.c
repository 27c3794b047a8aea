/* The row of the test clock, read and changed; how it is advanced is clock_walk.c's. See test_clock.h. */
#include "test_clock.h"

#include "base/clock.h"
#include "clock_parts.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* ---- reading ---- */

static dt_status read_clock(dt_db *db, struct dt_test_clock *out, struct dt_error *err)
{
    struct dt_test_clock clock = {.asked_us = dt_clock_mono_us(dt_clock_system())};
    dt_status status = dt_db_query_index(db, dt_sql_select_test_clock, DT_NO_PARAMS, err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(db)) {
        clock.time = (struct dt_test_time){.ahead_ms = dt_db_i64(db, 0), .frozen_ms = dt_db_i64(db, 1)};
        clock.version = dt_db_i64(db, 2);
        clock.real_ms = dt_db_i64(db, 3);
        clock.heard_us = dt_clock_mono_us(dt_clock_system());
    }
    status = dt_db_end(db, err);
    if (status == DT_OK)
        *out = clock;
    return status;
}

dt_status dt_store_test_clock(dt_store *store, struct dt_test_clock *out, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? read_clock(db, out, err) : status;
}

dt_status dt_store_check_test_clock(dt_store *store, struct dt_error *err)
{
    const bool wanted = dt_store_config(store)->installation_test_clock;
    int64_t clocks = 0;
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_read_number(db, dt_sql_count_test_clocks, DT_NO_PARAMS, NULL, &clocks, err);
    if (status != DT_OK || wanted == (clocks > 0))
        return status;
    return dt_fail(err, DT_INVALID,
                   wanted
                       ? "[installation] test_clock is true, but the installation was made without: its jobs have "
                         "real time, and only a database in which nothing was made yet can get a test clock"
                       : "[installation] test_clock is false, but the installation was made with true: its jobs have "
                         "a time of their own");
}

/* ---- changing ---- */

dt_status dt_clock_lock(dt_store *store, struct dt_work_lease *lease, dt_db **db, struct dt_test_clock *clock,
                        struct dt_error *err)
{
    *lease = DT_CLOCK_LEASE;
    dt_status status = dt_work_lease_take(store, lease, err);
    if (status == DT_BUSY)
        return dt_fail(err, DT_BUSY, "another request is changing the clock");
    if (status == DT_OK)
        status = dt_store_db(store, db, err);
    if (status == DT_OK)
        status = read_clock(*db, clock, err);
    return status == DT_OK && clock->version == 0 ? dt_fail(err, DT_UNSUPPORTED, "the installation has no test clock")
                                                  : status;
}

dt_status dt_clock_change(dt_db *db, const char *sql, struct dt_params params, struct dt_test_clock *clock,
                          struct dt_error *err)
{
    struct dt_test_clock now = *clock;
    uint64_t changed = 0;
    dt_status status = dt_db_begin(db, err);
    if (status == DT_OK)
        status = dt_db_run(db, sql, params, &changed, err);
    if (status == DT_OK && changed != 1)
        status = dt_fail(err, DT_BUSY, "somebody else has changed the clock");
    if (status == DT_OK)
        status = read_clock(db, &now, err);
    status = dt_store_commit(db, status, err);
    if (status == DT_OK)
        *clock = now;
    return status;
}

dt_status dt_store_test_clock_freeze(dt_store *store, struct dt_test_clock *out, struct dt_error *err)
{
    struct dt_work_lease lease;
    dt_db *db;
    dt_status status = dt_clock_lock(store, &lease, &db, out, err);
    if (status == DT_OK && !out->time.frozen_ms)
        status = dt_clock_change(db, dt_sql_freeze_test_clock, DT_PARAMS(DT_P_INT(out->version)), out, err);
    dt_work_lease_release(store, &lease);
    return status;
}

dt_status dt_store_test_clock_release(dt_store *store, struct dt_test_clock *out, struct dt_error *err)
{
    struct dt_work_lease lease;
    dt_db *db;
    dt_status status = dt_clock_lock(store, &lease, &db, out, err);
    if (status == DT_OK && out->time.frozen_ms)
        status = dt_clock_change(db, dt_sql_release_test_clock,
                                 DT_PARAMS(DT_P_INT(out->time.frozen_ms), DT_P_INT(out->version)), out, err);
    dt_work_lease_release(store, &lease);
    return status;
}
