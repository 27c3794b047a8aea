/*
 * See store_past.h. What lies in `rest` moves to its partition at some time, which may be one that was not known when
 * the look began; so where `rest` was among them and nothing was found, all of it is done once more. All other rows
 * stay where they are until they are driven back or their partition is dropped.
 */
#include "store/archive/store_past.h"

#include "job/job.h"
#include "store/sql/statements.h"

#define BEFORE_ALL (-1)

struct dt_past dt_past_of(int64_t id)
{
    return (struct dt_past){.params = {DT_P_INT(id)}, .after = BEFORE_ALL};
}

dt_status dt_past_next(dt_db *db, struct dt_past *past, struct dt_error *err)
{
    const int64_t id = past->params[0].i;
    dt_status status =
        dt_db_query(db, dt_sql_select_archive_partitions,
                    DT_PARAMS(DT_P_INT(dt_job_home_day(id)), DT_P_INT(past->after), DT_P_INT(DT_PAST_PARTS)), err);
    if (status != DT_OK)
        return status;
    for (past->n = 0; past->n < DT_PAST_PARTS && dt_db_next(db); past->n++) {
        past->after = dt_db_i64(db, 0);
        past->rest |= past->after == 0;
        past->params[1 + past->n] = DT_P_INT(past->after);
    }
    for (size_t i = past->n; i < DT_PAST_PARTS; i++)
        past->params[1 + i] = DT_P_INT(past->after);
    status = dt_db_end(db, err);
    return status || past->n ? status : dt_fail(err, DT_NOT_FOUND, "history has no job %lld", (long long)id);
}

bool dt_past_more(struct dt_past *past, dt_status status)
{
    if (status != DT_NOT_FOUND)
        return false;
    if (past->n == DT_PAST_PARTS)
        return true;
    bool more = past->rest && !past->again;
    past->again = true;
    past->after = BEFORE_ALL;
    return more;
}
