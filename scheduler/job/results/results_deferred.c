/*
 * The transactions in which results are applied, and deferred results: results from Kafka whose job's row another
 * session keeps locked. Deferred results are stored in the transaction that applies the other results, so that the
 * reader of the results topic can commit its offsets and keeps nothing in memory.
 *
 * Invariants: a job's results are applied in the order in which they were read. So if a job has deferred results, its
 * later results are deferred, too. A deferred result is deleted in the transaction that applies it.
 */

#include "base/assert.h"
#include "base/fail_point.h"
#include "job/job.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "results.h"
#include "store/store_internal.h"

/* The caller's function, and the transaction of the current try, which the function is called with. */
struct trying {
    struct dt_results_txn txn;
    dt_results_work_fn *work;
    void *arg;
};

static dt_status run_results_work(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    struct trying *t = arg;
    t->txn.db = db;
    t->txn.now_ms = now_ms;
    dt_status status = t->work(t->arg, &t->txn, err);
    DT_FAIL_POINT_STATUS("results.commit", status, err);
    return status;
}

/* The first try may read without locks. If another transaction changes a row meanwhile (BUSY), the second try locks the
 * rows that it reads. If a try waits for a lock until the server's timeout, the next try skips locked rows. */
dt_status dt_results_commit(dt_store *store, const struct dt_shard_map *map, enum dt_locking locking,
                            dt_results_work_fn *work, void *arg, struct dt_error *err)
{
    const struct dt_config *config = dt_store_config(store);
    const int64_t wait_us = config->mysql_lock_timeout * 900;
    struct dt_arena arena = {0};
    struct dt_counts counts;
    struct trying t = {.txn = {.config = config, .map = map, .locking = locking, .counts = &counts, .arena = &arena},
                       .work = work,
                       .arg = arg};
    struct dt_again again = {0};
    for (;;) {
        const int64_t begun_us = dt_clock_mono_us(dt_clock_system());
        dt_status status = dt_store_commit_once(store, &counts, run_results_work, &t, err);
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

/* ---- deferring ---- */

struct deferring {
    struct dt_apply *results;
    size_t n;
    bool some_wait;
    const struct dt_results_txn *txn; /* transaction of the current try */
    struct dt_error *err;
    /* Only dt_store_apply_deferred sets the members below. */
    int64_t after_id;
    size_t limit;
    struct dt_arena *out_arena;
    int64_t *ids; /* ids of the deferred results */
};

struct behind {
    dt_db *db;
    int64_t *jobs; /* ascending, each once */
    bool *waits;   /* for each job, whether it has deferred results */
    size_t n;
};

static bool *find_deferred_flag(const struct behind *b, int64_t job_id)
{
    const int64_t *at = b->n ? bsearch(&job_id, b->jobs, b->n, sizeof(*b->jobs), dt_by_job_id) : NULL;
    return at ? &b->waits[at - b->jobs] : NULL;
}

static dt_status mark_deferred_job(void *arg)
{
    const struct behind *b = arg;
    bool *waits = find_deferred_flag(b, dt_db_i64(b->db, 0));
    if (waits)
        *waits = true;
    return DT_OK;
}

static bool waits_for_deferred_result(const struct behind *b, const struct dt_apply *a)
{
    const bool *waits = find_deferred_flag(b, a->result.job_id);
    return waits && *waits;
}

/* Finds which jobs of the given results have a deferred result with an id up to last_id. */
static dt_status find_deferred_jobs(struct deferring *d, int64_t last_id, struct behind *b)
{
    *b = (struct behind){.db = d->txn->db,
                         .jobs = dt_arena_alloc(d->txn->arena, d->n * sizeof(*b->jobs)),
                         .waits = dt_arena_alloc(d->txn->arena, d->n * sizeof(*b->waits))};
    if (!b->jobs || !b->waits)
        return DT_NOMEM;
    for (size_t i = 0; i < d->n; i++)
        b->jobs[i] = d->results[i].result.job_id;
    qsort(b->jobs, d->n, sizeof(*b->jobs), dt_by_job_id);
    for (size_t i = 0; i < d->n; i++)
        if (i == 0 || b->jobs[i] != b->jobs[b->n - 1])
            b->jobs[b->n++] = b->jobs[i];
    memset(b->waits, 0, b->n * sizeof(*b->waits));
    return dt_id_in_read(b->db, &dt_sql_find_waiting_results, DT_PARAMS(DT_P_INT(last_id)), DT_IDS(b->jobs, b->n),
                         mark_deferred_job, b, d->err);
}

/* Applies the results of jobs that have no deferred result up to last_id. The other results are BUSY. */
static dt_status apply_without_deferred(struct deferring *d, int64_t last_id)
{
    struct behind behind;
    struct dt_apply *free_ones = dt_arena_alloc(d->txn->arena, d->n * sizeof(*free_ones));
    size_t n = 0;
    size_t k = 0;
    dt_status status = free_ones ? find_deferred_jobs(d, last_id, &behind) : DT_NOMEM;
    for (size_t i = 0; status == DT_OK && i < d->n; i++) {
        d->results[i].outcome = DT_OUTCOME_BUSY;
        if (!waits_for_deferred_result(&behind, &d->results[i]))
            free_ones[n++] = d->results[i];
    }
    DT_THEN(status, dt_results_apply_within(d->txn, free_ones, n, d->err));
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < d->n; i++)
        if (!waits_for_deferred_result(&behind, &d->results[i]))
            d->results[i] = free_ones[k++];
    dt_assert_cmp(k, ==, n);
    return DT_OK;
}

static struct dt_str cut_text(struct dt_str s, size_t max)
{
    return s.n > max ? (struct dt_str){s.p, max} : s;
}

static dt_status apply_or_defer(void *arg, const struct dt_results_txn *txn, struct dt_error *err)
{
    enum { COLUMNS = 7 };
    struct deferring *d = arg;
    d->txn = txn;
    d->err = err;
    dt_status status =
        d->some_wait ? apply_without_deferred(d, INT64_MAX) : dt_results_apply_within(txn, d->results, d->n, err);
    if (status != DT_OK)
        return status;
    struct dt_param *params = dt_arena_alloc(txn->arena, (d->n * COLUMNS + 1) * sizeof(*params));
    struct dt_param *p = params;
    if (!params)
        return DT_NOMEM;
    for (size_t i = 0; i < d->n; i++) {
        const struct dt_result *r = &d->results[i].result;
        if (d->results[i].outcome != DT_OUTCOME_BUSY)
            continue;
        p = dt_params_add(
            p, DT_PARAMS(DT_P_INT(r->job_id), DT_P_INT(r->attempt), DT_P_INT((int64_t)r->status + 1),
                         DT_P_INT(r->retry_after_ms), DT_P_STR_OR_NULL(cut_text(r->error_code, DT_ERROR_CODE_MAX)),
                         DT_P_STR_OR_NULL(cut_text(r->error_message, DT_ERROR_MESSAGE_MAX)), DT_P_INT(txn->now_ms)));
    }
    const size_t rows = (size_t)(p - params) / COLUMNS;
    return rows ? dt_db_run_many(txn->db, dt_sql_insert_deferred, (struct dt_param_rows){params, COLUMNS, rows}, NULL,
                                 err)
                : DT_OK;
}

dt_status dt_store_apply_or_defer(dt_store *store, const struct dt_shard_map *map, struct dt_apply *results, size_t n,
                                  bool some_wait, struct dt_error *err)
{
    struct deferring d = {.results = results, .n = n, .some_wait = some_wait};
    enum dt_locking locking = some_wait ? DT_LOCK_PASSING_BY : DT_LOCK_NONE;
    return n ? dt_results_commit(store, map, locking, apply_or_defer, &d, err) : DT_OK;
}

static dt_status read_deferred_page(struct deferring *d, dt_db *db)
{
    bool ok = true;
    d->n = 0;
    d->results = dt_arena_alloc(d->out_arena, d->limit * sizeof(*d->results));
    d->ids = dt_arena_alloc(d->out_arena, d->limit * sizeof(*d->ids));
    if (!d->results || !d->ids)
        return DT_NOMEM;
    dt_status status =
        dt_db_query(db, dt_sql_select_deferred, DT_PARAMS(DT_P_INT(d->after_id), DT_P_INT(d->limit)), d->err);
    if (status != DT_OK)
        return status;
    for (; ok && d->n < d->limit && dt_db_next(db); d->n++) {
        d->ids[d->n] = dt_db_i64(db, 0);
        d->results[d->n] = (struct dt_apply){.result = {.job_id = dt_db_i64(db, 1),
                                                        .attempt = dt_db_i64(db, 2),
                                                        .status = (enum dt_result_status)(dt_db_i64(db, 3) - 1),
                                                        .retry_after_ms = dt_db_i64(db, 4),
                                                        .error_code = dt_store_text(db, 5, d->out_arena, &ok),
                                                        .error_message = dt_store_text(db, 6, d->out_arena, &ok)}};
    }
    dt_status ended = dt_db_end(db, ok ? d->err : NULL);
    return ok ? ended : DT_NOMEM;
}

static dt_status apply_deferred_page(void *arg, const struct dt_results_txn *txn, struct dt_error *err)
{
    struct deferring *d = arg;
    struct dt_strbuf applied = {0};
    d->txn = txn;
    d->err = err;
    dt_status status = read_deferred_page(d, txn->db);
    if (status == DT_OK && d->n)
        status = apply_without_deferred(d, d->after_id);
    if (status != DT_OK || d->n == 0)
        return status;
    for (size_t i = 0; i < d->n; i++)
        if (d->results[i].outcome != DT_OUTCOME_BUSY)
            dt_id_list_add(&applied, d->ids[i]);
    const bool any = applied.n > 0 || applied.failed;
    dt_id_list_end(&applied);
    if (any)
        status = dt_db_run(txn->db, dt_sql_delete_deferred, DT_PARAMS(DT_P_BUF(&applied)), NULL, err);
    dt_strbuf_clear(&applied);
    return status;
}

dt_status dt_store_apply_deferred(dt_store *store, const struct dt_shard_map *map, struct dt_arena *arena,
                                  struct dt_deferred_page *page, struct dt_error *err)
{
    struct deferring d = {.after_id = page->after_id, .limit = page->limit, .out_arena = arena};
    int64_t any = 0;
    dt_status status = dt_store_number(store, dt_sql_is_any_deferred, DT_PARAMS(DT_P_INT(d.after_id)), &any, err);
    if (status == DT_OK && any)
        status = dt_results_commit(store, map, DT_LOCK_PASSING_BY, apply_deferred_page, &d, err);
    page->v = status == DT_OK ? d.results : NULL;
    page->n = status == DT_OK ? d.n : 0;
    if (page->n)
        page->after_id = d.ids[d.n - 1];
    return status;
}
