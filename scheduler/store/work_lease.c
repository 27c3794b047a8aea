/* See work_lease.h. */
#include "work_lease.h"

#include <sys/random.h>

#include "mysql/statements.h"
#include "store_internal.h"

static dt_status take(dt_store *store, struct dt_work_lease *lease, struct dt_error *err)
{
    const int64_t asked_us = dt_clock_mono_us(dt_clock_system());
    const struct dt_param work = DT_P_STR(dt_str(lease->work));
    const struct dt_param holder = DT_P_INT(lease->holder);
    int64_t ours = 0;
    dt_db *db;
    lease->renewed_us = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_take_work_lease, DT_PARAMS(work, holder, DT_P_INT(lease->ms)), NULL, err);
    if (status == DT_OK)
        status = dt_db_read_number(db, dt_sql_select_work_lease, DT_PARAMS(work, holder), NULL, &ours, err);
    if (status == DT_OK && !ours)
        return dt_fail(err, DT_BUSY, "another process is at it");
    if (status == DT_OK)
        lease->renewed_us = asked_us;
    return status;
}

dt_status dt_work_lease_take(dt_store *store, struct dt_work_lease *lease, struct dt_error *err)
{
    if (getrandom(&lease->holder, sizeof(lease->holder), 0) != (ssize_t)sizeof(lease->holder))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    lease->holder &= INT64_MAX;
    const dt_status status = take(store, lease, err);
    if (status != DT_OK) /* it may be ours all the same */
        dt_work_lease_release(store, lease);
    return status;
}

dt_status dt_work_lease_keep(dt_store *store, struct dt_work_lease *lease, struct dt_error *err)
{
    const int64_t age_us = dt_clock_mono_us(dt_clock_system()) - lease->renewed_us;
    return age_us < lease->ms * 1000 / 3 ? DT_OK : take(store, lease, err);
}

void dt_work_lease_release(dt_store *store, struct dt_work_lease *lease)
{
    const struct dt_params row = DT_PARAMS(DT_P_STR(dt_str(lease->work)), DT_P_INT(lease->holder));
    /* Twice: the connection may have broken before. */
    if (lease->holder && dt_store_run(store, dt_sql_release_work_lease, row, NULL, NULL) != DT_OK)
        (void)!dt_store_run(store, dt_sql_release_work_lease, row, NULL, NULL);
    lease->holder = 0;
}
