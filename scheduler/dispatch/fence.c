/*
 * The fence that a leadership holds: locking its row, comparing it, writing it.
 *
 * Owns:            the answer to "is the row still ours", and the columns of `shards` that a leader writes while it
 *                  leads.
 * Refuses to know: how a fence comes about (store_takeover.c), Kafka, and jobs.
 *
 * Invariants: a fence is what this leadership wrote last. Every transaction of a leader but the last, which only lets
 * go (dt_store_step_down), locks the row first and compares epoch, token and version with it, and once more in the
 * statement that writes: the epoch fences other leaders, token and version notice a MySQL that went back to an earlier
 * state.
 */
#include "fence.h"

#include "base/assert.h"
#include "base/guard.h"
#include "fence_txn.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* Says whether the row is as this leadership wrote it last. Its first columns are epoch, token, version, halted. */
static dt_status judge_row(const dt_db *db, const struct dt_fence *fence, struct dt_error *err)
{
    if (!DT_GUARD(EPOCH, dt_db_i64(db, 0) == fence->epoch) || !DT_GUARD(TOKEN, dt_db_i64(db, 1) == fence->token) ||
        !DT_GUARD(VERSION, dt_db_i64(db, 2) == fence->version))
        return dt_fail(err, DT_DEPOSED,
                       "shard %u: the row says epoch %lld version %lld, this leadership wrote %lld %lld", fence->shard,
                       (long long)dt_db_i64(db, 0), (long long)dt_db_i64(db, 2), (long long)fence->epoch,
                       (long long)fence->version);
    return dt_db_is_null(db, 3) ? DT_OK : dt_fail(err, DT_HALTED, "shard %u is halted", fence->shard);
}

struct locking {
    const struct dt_fence *fence;
    struct dt_fence_row *row;
};

static dt_status begin_with_lock(dt_store *store, dt_db *db, void *arg, struct dt_error *err)
{
    const struct locking *l = arg;
    const unsigned shard = l->fence->shard;
    int64_t asked_us = dt_clock_mono_us(dt_clock_system());
    dt_status status = dt_db_begin_soon(db, err);
    if (status != DT_OK)
        return status;
    status = dt_db_query(db, dt_sql_lock_fence, DT_PARAMS(DT_P_INT(shard)), err);
    if (status == DT_OK && !dt_db_next(db))
        status = dt_fail(err, DT_NOT_FOUND, "shard %u has no row", shard);
    else if (status == DT_OK) {
        *l->row = (struct dt_fence_row){dt_db_i64(db, 4), dt_db_i64(db, 5), dt_db_i64(db, 6)};
        status = judge_row(db, l->fence, err);
    }
    /* Whether the row could be read to its end counts unless it was read and said no. */
    const bool unread = status == DT_OK || status == DT_NOT_FOUND;
    dt_status end = dt_db_end(db, unread ? err : NULL);
    if (l->row->now_ms)
        dt_store_heard_now(store, l->row->now_ms, asked_us);
    return end != DT_OK && unread ? end : status;
}

dt_status dt_fence_begin(dt_store *store, const struct dt_fence *fence, dt_db **db, struct dt_fence_row *row,
                         struct dt_error *err)
{
    struct locking l = {fence, row};
    *row = (struct dt_fence_row){0};
    return dt_store_first(store, db, begin_with_lock, &l, err);
}

dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_fence_values *values, struct dt_error *err)
{
    struct dt_strbuf list;
    uint64_t changed = 0;
    dt_assert_cmp(values->send_n, <=, values->inflight.n);
    dt_assert(values->send_n > 0 || values->inflight.n == 0);
    dt_assert_cmp(values->batch_no - fence->batch_no, <=, 1);
    dt_strbuf_init(&list);
    dt_inflight_format(values->inflight.v, values->inflight.n, &list);
    dt_status status = list.failed ? DT_NOMEM : DT_OK;
    if (status == DT_OK)
        status =
            dt_db_run(db, dt_sql_write_fence,
                      DT_PARAMS(DT_P_STR(dt_strbuf_str(&list)), DT_P_INT(values->send_n),
                                DT_P_INT(values->ledger_offset), DT_P_INT(values->batch_no), DT_P_INT(fence->shard),
                                DT_P_INT(fence->epoch), DT_P_INT(fence->token), DT_P_INT(fence->version)),
                      &changed, err);
    dt_strbuf_clear(&list);
    if (status == DT_OK && changed != 1)
        status = dt_fail(err, DT_DEPOSED, "shard %u: the locked row is not ours", fence->shard);
    if (status != DT_OK)
        return status;
    fence->version++;
    fence->ledger_offset = values->ledger_offset;
    fence->batch_no = values->batch_no;
    fence->inflight = values->inflight.n;
    fence->send_n = values->send_n;
    return DT_OK;
}

dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence, struct dt_installation *inst,
                               struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_check_fence, DT_PARAMS(DT_P_INT(fence->shard)), err);
    if (status != DT_OK)
        return status;
    if (!dt_db_next(db))
        status = dt_fail(err, DT_DEPOSED, "shard %u has no row", fence->shard);
    else
        status = judge_row(db, fence, err);
    if (status == DT_OK) {
        inst->generation = dt_db_i64(db, 4);
        inst->topics_version = dt_db_i64(db, 5);
        inst->shards = (unsigned)dt_db_i64(db, 6);
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return end != DT_OK ? end : status;
}

dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    dt_db *db;
    struct dt_fence_row row;
    dt_status status = dt_fence_begin(store, fence, &db, &row, err);
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_write_trim_offset,
                           DT_PARAMS(DT_P_INT(row.now_ms), DT_P_INT(fence->shard), DT_P_INT(fence->epoch),
                                     DT_P_INT(fence->token), DT_P_INT(fence->version)),
                           NULL, err);
    status = dt_store_commit(db, status, err);
    if (status != DT_OK)
        return status;
    fence->version++;
    fence->trim_offset = fence->ledger_offset;
    fence->trim_at_ms = row.now_ms;
    return DT_OK;
}

dt_status dt_store_step_down(dt_store *store, const struct dt_fence *fence, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK)
        return status;
    return dt_db_run(db, dt_sql_remove_owner,
                     DT_PARAMS(DT_P_INT(fence->shard), DT_P_INT(fence->epoch), DT_P_INT(fence->token)), NULL, err);
}
