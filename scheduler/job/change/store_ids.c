/* Blocks of numbers for ids of jobs: none is given out twice, also by a server that was restored. */
#include "jobs.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

#define NUMBERS_A_MS INT64_C(16)

struct block {
    int64_t n, first;
};

static dt_status take_block(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct block *block = arg;
    int64_t *first = &block->first;
    dt_status status = dt_db_read_number(db, dt_sql_lock_next_id, DT_NO_PARAMS, NULL, first, err);
    if (status != DT_OK)
        return status;
    if (*first < 1 || *first > INT64_MAX - block->n)
        return dt_fail(err, DT_SCHEMA, "the row of id_sequence is missing, or has no numbers left");
    if (*first < now_ms * NUMBERS_A_MS)
        *first = now_ms * NUMBERS_A_MS;
    return dt_db_run(db, dt_sql_set_next_id, DT_PARAMS(DT_P_INT(*first + block->n)), NULL, err);
}

dt_status dt_store_reserve_ids(dt_store *store, int64_t n, int64_t *first, struct dt_error *err)
{
    struct block block = {.n = n};
    if (n < 1)
        return dt_fail(err, DT_INVALID, "a block of %lld ids", (long long)n);
    dt_status status = dt_store_commit_work(store, NULL, take_block, &block, err);
    *first = block.first;
    /* A block whose COMMIT is in doubt is not used: numbers may be lost, never given twice. */
    return status == DT_UNKNOWN ? dt_fail(err, DT_UNAVAILABLE, "connection lost while taking ids") : status;
}
