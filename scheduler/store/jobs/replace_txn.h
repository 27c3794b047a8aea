/*
 * Replacing the job of a key inside a transaction of the caller; for store/ only. The way is that of dt_store_replace.
 */
#ifndef DT_STORE_REPLACE_TXN_H
#define DT_STORE_REPLACE_TXN_H

#include "store/store_internal.h"

/* The body that the key's job is to take, and the job as it is then. */
struct dt_replacing {
    const struct dt_new_job *body;
    struct dt_arena *arena;
    struct dt_job job; /* out; as dt_store_replace says */
};
/*
 * Replaces in the open transaction, which began at now_ms; the key and the job stay locked until its end. The statuses are
 * those of dt_store_replace. With NOT_FOUND the caller may insert the row with `replace` set, in the same transaction; a
 * row that is SAME or CONFLICT then has met a job that came about meanwhile: roll back and begin again. No number of jobs
 * in any state changes.
 */
DT_MUST_CHECK dt_status dt_replace_in_txn(dt_store *store, dt_db *db, int64_t now_ms, struct dt_replacing *replacing,
                                          struct dt_error *err);

#endif
