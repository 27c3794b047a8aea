/* A job of history comes back to `jobs`, inside the transaction that goes on with it: see bring_back.h. */
#include "store/archive/bring_back.h"

#include "store/archive/archive_search.h"
#include "store/sql/statements.h"

struct bringing {
    dt_db *db;
    const struct dt_job *job;
    int64_t now_ms;
    struct dt_error *err;
};

/* The place of a row in history. */
struct place {
    int64_t part, key_until_ms; /* 0: without a key */
};

static dt_status left_meanwhile(const struct bringing *c)
{
    return dt_fail(c->err, DT_BUSY, "job %lld left history meanwhile", (long long)c->job->id);
}

static dt_status find_among(struct bringing *c, const struct dt_archive_search *search, struct place *place)
{
    dt_status status =
        dt_db_query(c->db, dt_sql_select_archived_part, (struct dt_params){search->params, DT_ARCHIVE_PARAMS}, c->err);
    if (status != DT_OK)
        return status;
    bool found = dt_db_next(c->db);
    if (found)
        place->part = dt_db_i64(c->db, 0);
    status = dt_db_end(c->db, c->err);
    return status || found ? status : DT_NOT_FOUND;
}

/* Finds the row, without a lock on it yet. */
static dt_status find_archived(struct bringing *c, struct place *place)
{
    struct dt_archive_search search = dt_archive_search_of(c->job->id);
    dt_status status;
    do {
        status = dt_archive_search_next(c->db, &search, c->err);
        if (status == DT_OK)
            status = find_among(c, &search, place);
    } while (dt_archive_search_more(&search, status));
    return status == DT_NOT_FOUND ? left_meanwhile(c) : status;
}

/* BUSY: driven back by somebody else, or sorted into its partition. */
static dt_status lock_archived(struct bringing *c, struct place *place)
{
    dt_status status = find_archived(c, place);
    if (status == DT_OK)
        status = dt_db_query(c->db, dt_sql_lock_archived_job,
                             DT_PARAMS(DT_P_INT(c->job->id), DT_P_INT(place->part), DT_P_INT(c->now_ms)), c->err);
    if (status != DT_OK)
        return status;
    if (dt_db_next(c->db))
        place->key_until_ms = dt_db_i64(c->db, 0);
    else
        status = left_meanwhile(c);
    dt_status ended = dt_db_end(c->db, status != DT_OK ? NULL : c->err);
    return status != DT_OK ? status : ended;
}

/* A live job has its key again, unless another job took it meanwhile. */
static dt_status take_key_back(struct bringing *c, const struct place *place)
{
    if (!c->job->key.p)
        return DT_OK;
    dt_status status = dt_db_run(c->db, dt_sql_delete_key_end,
                                 DT_PARAMS(DT_P_INT(place->key_until_ms), DT_P_INT(c->job->id)), NULL, c->err);
    if (status == DT_OK)
        status =
            dt_db_run(c->db, dt_sql_bring_back_key,
                      DT_PARAMS(DT_P_STR(c->job->topic), DT_P_STR(c->job->key), DT_P_INT(c->job->id)), NULL, c->err);
    return status;
}

static dt_status bring_back(struct bringing *c)
{
    struct place place = {0};
    dt_status status = lock_archived(c, &place);
    const struct dt_param at[] = {DT_P_INT(c->job->id), DT_P_INT(place.part)};
    static const char *const steps[] = {dt_sql_bring_back_job, dt_sql_bring_back_attempts, dt_sql_delete_archived_job,
                                        dt_sql_delete_archived_attempts};
    for (size_t i = 0; status == DT_OK && i < sizeof(steps) / sizeof(*steps); i++)
        status = dt_db_run(c->db, steps[i], (struct dt_params){at, 2}, NULL, c->err);
    if (status == DT_OK)
        status = take_key_back(c, &place);
    if (status == DT_OK)
        status = dt_db_run(c->db, dt_sql_count_archived_out, DT_PARAMS(DT_P_STR(c->job->topic), DT_P_INT(place.part)),
                           NULL, c->err);
    return status;
}

dt_status dt_archive_bring_back(dt_db *db, const struct dt_job *job, int64_t now_ms, struct dt_error *err)
{
    return bring_back(&(struct bringing){db, job, now_ms, err});
}
