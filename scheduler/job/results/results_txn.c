/*
 * The transactions in which results are applied: begin, work, count and commit, and the repetition of all of it with
 * more locking when another transaction was in the way.
 *
 * Refuses to know what a result changes: store_results.c reads, judges and writes.
 */
#include "base/fail_point.h"
#include "results.h"
#include "store/store_internal.h"
#include "store_results.h"

/* The work, and the transaction of its latest try. */
struct trying {
    struct dt_results_txn txn;
    dt_results_work_fn *work;
    void *arg;
};

static dt_status do_work(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct trying *t = arg;
    t->txn.db = db;
    t->txn.now_ms = now_ms;
    dt_status status = t->work(t->arg, &t->txn, err);
    DT_FAIL_POINT_STATUS("results.commit", status, err);
    return status;
}

/* First without locks; if another transaction came between (BUSY), the second try holds them from the start; and one
 * that had to wait for a lock until the server gave up passes by. */
dt_status dt_results_commit(dt_store *store, const struct dt_shard_map *map, enum dt_locking locking,
                            dt_results_work_fn *work, void *arg, struct dt_error *err)
{
    const struct dt_config *config = dt_store_config(store);
    const int64_t wait_us = config->mysql_lock_timeout * 900;
    struct dt_arena arena;
    struct dt_counts counts;
    struct trying t = {.txn = {.config = config, .map = map, .locking = locking, .counts = &counts, .arena = &arena},
                       .work = work,
                       .arg = arg};
    struct dt_again again = {0};
    for (;;) {
        const int64_t begun_us = dt_clock_mono_us(dt_clock_system());
        dt_arena_init(&arena);
        dt_status status = dt_store_commit_once(store, &counts, do_work, &t, err);
        dt_arena_clear(&arena);
        bool waited = dt_clock_mono_us(dt_clock_system()) - begun_us >= wait_us;
        if (status == DT_BUSY && waited && t.txn.locking != DT_LOCK_PASSING_BY)
            t.txn.locking = DT_LOCK_PASSING_BY;
        else if (!dt_store_again(&again, status))
            return status;
        else if (t.txn.locking == DT_LOCK_NONE)
            t.txn.locking = DT_LOCK_WAITING;
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
