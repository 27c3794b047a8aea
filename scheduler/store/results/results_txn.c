/*
 * The transactions in which results are applied: begin, work, count and commit, and the repetition of all of it with
 * more locking when another transaction was in the way.
 *
 * Refuses to know what a result changes: store_results.c reads, judges and writes.
 */
#include "base/hooks/fail_point.h"
#include "store/results/store_results.h"
#include "store/store_internal.h"

struct work {
    dt_results_work_fn *fn;
    void *arg;
};

static dt_status try_to(dt_store *store, const struct dt_shard_map *map, enum dt_locking locking,
                        const struct work *work, struct dt_error *err)
{
    struct dt_arena arena;
    struct dt_counts counts;
    struct dt_results_txn txn = {
        .config = dt_store_config(store), .map = map, .locking = locking, .counts = &counts, .arena = &arena};
    dt_arena_init(&arena);
    dt_counts_init(&counts);
    dt_status status = dt_store_begin(store, &txn.db, &txn.now_ms, err);
    if (status == DT_OK)
        status = work->fn(work->arg, &txn, err);
    DT_FAIL_POINT_STATUS("results.commit", status, err);
    status = dt_counts_commit(txn.db, &counts, status, err);
    dt_arena_clear(&arena);
    return status;
}

/* First without locks; whoever came between (BUSY) finds the second try holding them from the start; and who had to
 * wait for a lock until the server gave up passes by. */
dt_status dt_results_commit(dt_store *store, const struct dt_shard_map *map, enum dt_locking locking,
                            dt_results_work_fn *work, void *arg, struct dt_error *err)
{
    const int64_t wait_us = dt_store_config(store)->mysql_lock_timeout * 900;
    const struct work w = {work, arg};
    struct dt_again again = {0};
    for (;;) {
        int64_t begun_us = dt_clock_mono_us(dt_clock_system());
        dt_status status = try_to(store, map, locking, &w, err);
        bool waited = dt_clock_mono_us(dt_clock_system()) - begun_us >= wait_us;
        if (status == DT_BUSY && waited && locking != DT_LOCK_PASSING_BY)
            locking = DT_LOCK_PASSING_BY;
        else if (dt_store_again(&again, status))
            locking = locking == DT_LOCK_NONE ? DT_LOCK_WAITING : locking;
        else
            return status;
    }
}

struct request {
    struct dt_apply *results;
    size_t n;
};

static dt_status apply_request(void *arg, const struct dt_results_txn *txn, struct dt_error *err)
{
    const struct request *r = arg;
    return dt_results_apply_within(txn, r->results, r->n, err);
}

dt_status dt_store_apply(dt_store *store, const struct dt_shard_map *map, struct dt_apply *results, size_t n,
                         struct dt_error *err)
{
    struct request request = {results, n};
    return n ? dt_results_commit(store, map, DT_LOCK_NONE, apply_request, &request, err) : DT_OK;
}
