/*
 * See archive_search.h. A row of the default partition moves to its own at some time, which may be one that was not
 * known when the search began; so where the default partition was among them and nothing was found, the search is done
 * once more. All other rows stay where they are until they are driven back or their partition is dropped.
 */
#include "archive_search.h"

#include "base/assert.h"
#include "job/job.h"
#include "mysql/statements.h"

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

dt_status dt_archive_bring_back(dt_db *db, const struct dt_job *job, int64_t now_ms, struct dt_error *err)
{
    static const char *const steps[] = {dt_sql_bring_back_job, dt_sql_bring_back_attempts, dt_sql_delete_archived_job,
                                        dt_sql_delete_archived_attempts};
    const struct dt_param id = DT_P_INT(job->id);
    struct dt_archive_search search = dt_archive_search_of(job->id);
    int64_t part = 0;
    int64_t key_until_ms = 0;
    bool found = false;
    dt_status status;
    dt_assert(job->state == DT_DEAD);
    do { /* finds the row, without a lock on it yet */
        status = dt_archive_search_next(db, &search, err);
        if (status == DT_OK)
            status = dt_db_read_number(db, dt_sql_select_archived_part,
                                       (struct dt_params){search.params, DT_ARCHIVE_PARAMS}, &found, &part, err);
        if (status == DT_OK && !found)
            status = DT_NOT_FOUND;
    } while (dt_archive_search_more(&search, status));
    if (status == DT_OK)
        status = dt_db_read_number(db, dt_sql_lock_archived_job, DT_PARAMS(id, DT_P_INT(part), DT_P_INT(now_ms)),
                                   &found, &key_until_ms, err);
    if (status == DT_NOT_FOUND || (status == DT_OK && !found)) /* driven back, or sorted into its partition */
        return dt_fail(err, DT_BUSY, "job %lld left history meanwhile", (long long)job->id);
    for (size_t i = 0; status == DT_OK && i < sizeof(steps) / sizeof(*steps); i++)
        status = dt_db_run(db, steps[i], DT_PARAMS(id, DT_P_INT(part)), NULL, err);
    /* A live job has its key again, unless another job took it meanwhile. */
    if (status == DT_OK && job->key.p)
        status = dt_db_run(db, dt_sql_delete_key_end, DT_PARAMS(DT_P_INT(key_until_ms), id), NULL, err);
    if (status == DT_OK && job->key.p)
        status =
            dt_db_run(db, dt_sql_bring_back_key, DT_PARAMS(DT_P_STR(job->topic), DT_P_STR(job->key), id), NULL, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_count_archived_out, DT_PARAMS(DT_P_STR(job->topic), DT_P_INT(part)), NULL, err);
    return status;
}
