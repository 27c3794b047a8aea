/*
 * See archive_search.h. A row of the default partition moves to its own at some time, which may be one that was not
 * known when the search began; so where the default partition was among them and nothing was found, the search is done
 * once more. All other rows stay where they are until they are driven back or their partition is dropped.
 */
#include "store/archive/archive_search.h"

#include "job/job.h"
#include "store/sql/statements.h"

#define BEFORE_ALL (-1)

struct dt_archive_search dt_archive_search_of(int64_t id)
{
    return (struct dt_archive_search){.params = {DT_P_INT(id)}, .after = BEFORE_ALL};
}

dt_status dt_archive_search_next(dt_db *db, struct dt_archive_search *search, struct dt_error *err)
{
    const int64_t id = search->params[0].i;
    dt_status status = dt_db_query(
        db, dt_sql_select_archive_partitions,
        DT_PARAMS(DT_P_INT(dt_job_home_day(id)), DT_P_INT(search->after), DT_P_INT(DT_ARCHIVE_PARTITIONS)), err);
    if (status != DT_OK)
        return status;
    for (search->n = 0; search->n < DT_ARCHIVE_PARTITIONS && dt_db_next(db); search->n++) {
        search->after = dt_db_i64(db, 0);
        search->with_default |= search->after == 0;
        search->params[1 + search->n] = DT_P_INT(search->after);
    }
    for (size_t i = search->n; i < DT_ARCHIVE_PARTITIONS; i++)
        search->params[1 + i] = DT_P_INT(search->after);
    status = dt_db_end(db, err);
    return status || search->n ? status : dt_fail(err, DT_NOT_FOUND, "history has no job %lld", (long long)id);
}

bool dt_archive_search_more(struct dt_archive_search *search, dt_status status)
{
    if (status != DT_NOT_FOUND)
        return false;
    if (search->n == DT_ARCHIVE_PARTITIONS)
        return true;
    bool more = search->with_default && !search->again;
    search->again = true;
    search->after = BEFORE_ALL;
    return more;
}
