/*
 * One way to run a transaction: begin, work, count, commit, and the repetition of all of it when another transaction
 * was in the way.
 */
#include "store_internal.h"
#include "topic/counts.h"

dt_status dt_store_commit_once(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err)
{
    dt_db *db;
    int64_t now_ms;
    if (counts)
        dt_counts_init(counts);
    dt_status status = dt_store_begin(store, &db, &now_ms, err);
    if (status == DT_OK)
        status = work(arg, db, now_ms, err);
    return counts ? dt_counts_commit(db, counts, status, err) : dt_store_commit(db, status, err);
}

dt_status dt_store_commit_work(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err)
{
    struct dt_again again = {0};
    dt_status status;
    do {
        status = dt_store_commit_once(store, counts, work, arg, err);
    } while (dt_store_again(&again, status));
    return status;
}
