/*
 * Attempts in the hands of processes: the leases of owners, lost attempts, and the outcomes of callbacks.
 *
 * Outcomes are recorded in batches. One transaction removes attempts from the hands that they were claimed for, and
 * applies their results:
 *
 *     read the owners of the attempts             SELECT, not in the first try
 *     apply the results of attempts still owned   dt_results_apply_within, answers included
 *     write answers that no result carried        UPDATE, if any: of attempts that stay dispatched or were edited
 *     delete the rows of `hands`                  DELETE
 *
 * Invariants: no result is applied for an attempt that has left the owner's hands. The first try assumes that the
 * caller still owns every attempt; later tries read the owners without locks. If a leader ends an attempt as lost
 * before the DELETE, the DELETE finds fewer rows, and the transaction is rolled back and tried again. Rows of jobs are
 * written before rows of `hands`, in the same order as by leaders.
 */

#include "base/assert.h"
#include "base/guard.h"
#include "base/text/json_write.h"
#include "hands.h"
#include "job/results/results.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

dt_status dt_store_hands_own(dt_store *store, int64_t owner, const char *name, int64_t timeout_ms, struct dt_error *err)
{
    dt_assert_cmp(owner, >, 0);
    dt_status status = dt_store_run(store, dt_sql_forget_hand_owners, DT_NO_PARAMS, NULL, err);
    if (status != DT_OK)
        return status;
    return dt_store_run(store, dt_sql_own_hands,
                        DT_PARAMS(DT_P_INT(owner), DT_P_STR(dt_str(name)), DT_P_INT(timeout_ms)), NULL, err);
}

/* Counts each renewal in `asked`, but in `confirmed` only if an answer confirms it: if the answer was lost, the renewal
 * may have succeeded. */
dt_status dt_store_hands_renew(dt_store *store, int64_t owner, struct dt_renewals *renewals, bool *there,
                               struct dt_error *err)
{
    uint64_t changed = 0;
    dt_assert_cmp(renewals->confirmed, <=, renewals->asked);
    dt_status status = dt_store_run(
        store, dt_sql_renew_hands, DT_PARAMS(DT_P_INT(owner), DT_P_INT(renewals->confirmed), DT_P_INT(renewals->asked)),
        &changed, err);
    renewals->asked++;
    *there = status == DT_OK && changed == 1;
    renewals->confirmed += *there;
    return status;
}

dt_status dt_store_hands_disown(dt_store *store, int64_t owner, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_disown_hands, DT_PARAMS(DT_P_INT(owner)), NULL, err);
}

dt_status dt_store_hands_lost(dt_store *store, struct dt_lost *lost, struct dt_error *err)
{
    dt_db *db;
    lost->n = 0;
    lost->owners = false;
    dt_status status =
        dt_store_query(store, &db, dt_sql_select_lost, DT_PARAMS(DT_P_INT(lost->after), DT_P_INT(lost->limit)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const int64_t id = dt_db_i64(db, 0);
        lost->owners |= id < 0;
        if (id >= 0 && lost->n < lost->limit)
            lost->v[lost->n++] = lost->after = id;
    }
    status = dt_db_end(db, err);
    return status == DT_OK && lost->n ? dt_db_run(db, dt_sql_delete_hands_of_no_job, DT_NO_PARAMS, NULL, err) : status;
}

dt_status dt_store_hands_give_away(dt_store *store, int64_t owner, const int64_t *ids, size_t n, struct dt_error *err)
{
    dt_db *db;
    uint64_t changed = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK || n == 0)
        return status;
    return dt_id_in_run(db, &dt_sql_give_hands_away, DT_PARAMS(DT_P_INT(owner)), DT_IDS(ids, n), &changed, err);
}

struct of_shard {
    int64_t owner;
    unsigned shard;
    struct dt_arena *arena;
    struct dt_hand **hands;
    size_t *n;
};

static dt_status read_hands_of_shard(void *arg, dt_db *db, int64_t, struct dt_error *err)
{
    const struct of_shard *of = arg;
    /* Waits for the lock of the shard's row, so that a leader transaction that may be open has ended. */
    dt_status status =
        dt_db_read_number(db, dt_sql_lock_shard_of_hands, DT_PARAMS(DT_P_INT(of->shard)), NULL, NULL, err);
    DT_THEN(status,
            dt_db_query(db, dt_sql_select_hands_of_shard, DT_PARAMS(DT_P_INT(of->owner), DT_P_INT(of->shard)), err));
    if (status != DT_OK)
        return status;
    const size_t room = dt_db_rows(db);
    *of->hands = dt_arena_alloc(of->arena, (room ? room : 1) * sizeof(**of->hands));
    *of->n = 0;
    while (*of->hands && *of->n < room && dt_db_next(db))
        (*of->hands)[(*of->n)++] = (struct dt_hand){dt_db_i64(db, 0), dt_db_i64(db, 1)};
    dt_status ended = dt_db_end(db, *of->hands ? err : NULL);
    return *of->hands ? ended : DT_NOMEM;
}

dt_status dt_store_hands_of_shard(dt_store *store, int64_t owner, unsigned shard, struct dt_arena *arena,
                                  struct dt_hand **hands, size_t *n, struct dt_error *err)
{
    struct of_shard of = {owner, shard, arena, hands, n};
    return dt_store_commit_work(store, NULL, read_hands_of_shard, &of, err);
}

struct recording {
    struct dt_hand_answer *answers; /* sorted by job */
    size_t n;
    const struct dt_results_txn *txn; /* transaction of the current try */
    struct dt_strbuf text;
    struct dt_error *err;
};

static int answers_by_job(const void *a, const void *b)
{
    const struct dt_hand_answer *x = a;
    const struct dt_hand_answer *y = b;
    return DT_ORDER(x->apply.result.job_id, y->apply.result.job_id);
}

static dt_status mark_held_answer(void *arg)
{
    struct recording *r = arg;
    dt_db *db = r->txn->db;
    const struct dt_hand_answer key = {.apply.result.job_id = dt_db_i64(db, 0)};
    struct dt_hand_answer *answer = bsearch(&key, r->answers, r->n, sizeof(*r->answers), answers_by_job);
    if (answer)
        answer->held = DT_GUARD(CALL_OUTCOME,
                                answer->apply.result.attempt == dt_db_i64(db, 1) && answer->owner == dt_db_i64(db, 2));
    return DT_OK;
}

static bool has_held_result(const struct dt_hand_answer *answer)
{
    return answer->held && !answer->taken;
}

static dt_status apply_results(struct recording *r)
{
    struct dt_apply *results = dt_arena_alloc(r->txn->arena, r->n * sizeof(*results));
    size_t n = 0;
    size_t k = 0;
    if (!results)
        return DT_NOMEM;
    for (size_t i = 0; i < r->n; i++) {
        r->answers[i].apply.answer = &r->answers[i].answer;
        if (has_held_result(&r->answers[i]))
            results[n++] = r->answers[i].apply;
    }
    dt_status status = dt_results_apply_within(r->txn, results, n, r->err);
    for (size_t i = 0; status == DT_OK && i < r->n; i++)
        if (has_held_result(&r->answers[i]))
            r->answers[i].apply = results[k++];
    dt_assert(status != DT_OK || k == n);
    return status;
}

static bool is_attempt_finished(const struct dt_hand_answer *answer)
{
    return answer->held && answer->apply.outcome != DT_OUTCOME_BUSY;
}

/* Stores HTTP answers that have no result, or whose result changed nothing, in the rows of their jobs. Writes nothing
 * in a try that skips locked rows, because it may not have locked these rows. */
static dt_status write_held_answers(struct recording *r)
{
    size_t n = 0;
    if (r->txn->locking == DT_LOCK_PASSING_BY)
        return DT_OK;
    dt_strbuf_reset(&r->text);
    dt_json_begin_array(&r->text, NULL);
    for (size_t i = 0; i < r->n; i++) {
        const struct dt_hand_answer *answer = &r->answers[i];
        if (!is_attempt_finished(answer) || answer->apply.outcome == DT_OUTCOME_APPLIED)
            continue;
        dt_json_begin_array(&r->text, NULL);
        dt_json_put_int(&r->text, NULL, answer->apply.result.job_id);
        dt_json_put_int(&r->text, NULL, answer->apply.result.attempt);
        dt_answer_put(&r->text, &answer->answer);
        dt_json_end_array(&r->text);
        n++;
    }
    dt_json_end_array(&r->text);
    if (n == 0)
        return DT_OK;
    return dt_db_run(r->txn->db, dt_sql_write_answers, DT_PARAMS(DT_P_BUF(&r->text)), NULL, r->err);
}

static dt_status delete_answered_attempts(struct recording *r)
{
    uint64_t deleted = 0;
    size_t n = 0;
    dt_strbuf_reset(&r->text);
    dt_json_begin_array(&r->text, NULL);
    for (size_t i = 0; i < r->n; i++) {
        const struct dt_hand_answer *answer = &r->answers[i];
        if (!is_attempt_finished(answer))
            continue;
        DT_JSON_PUT_ROW(&r->text, answer->apply.result.job_id, answer->apply.result.attempt, answer->owner);
        n++;
    }
    dt_json_end_array(&r->text);
    if (n == 0)
        return DT_OK;
    dt_status status =
        dt_db_run(r->txn->db, dt_sql_delete_answered_hands, DT_PARAMS(DT_P_BUF(&r->text)), &deleted, r->err);
    if (status == DT_OK && deleted != n)
        status = dt_fail(r->err, DT_BUSY, "%llu of %zu callback attempts were still recorded as in flight",
                         (unsigned long long)deleted, n);
    return status;
}

static dt_status record_answers(void *arg, const struct dt_results_txn *txn, struct dt_error *err)
{
    struct recording *r = arg;
    const bool first_try = txn->locking == DT_LOCK_NONE;
    int64_t *ids = dt_arena_alloc(txn->arena, r->n * sizeof(*ids));
    dt_status status = ids ? DT_OK : DT_NOMEM;
    r->txn = txn;
    r->err = err;
    for (size_t i = 0; ids && i < r->n; i++) {
        r->answers[i].held = first_try;
        r->answers[i].apply.outcome = DT_OUTCOME_STALE;
        r->answers[i].apply.outbox = false;
        ids[i] = r->answers[i].apply.result.job_id;
    }
    /* Other processes rarely remove attempts from this owner's hands, and the DELETE detects it if they do. So the
     * first try does not read the owners. */
    if (status == DT_OK && !first_try)
        status =
            dt_id_in_read(txn->db, &dt_sql_select_hands, DT_NO_PARAMS, DT_IDS(ids, r->n), mark_held_answer, r, err);
    DT_THEN(status, apply_results(r));
    DT_THEN(status, write_held_answers(r));
    return status == DT_OK ? delete_answered_attempts(r) : status;
}

dt_status dt_store_hands_record(dt_store *store, const struct dt_shard_map *map, struct dt_hand_answer *answers,
                                size_t n, struct dt_error *err)
{
    struct recording r = {.answers = answers, .n = n};
    if (n == 0)
        return DT_OK;
    qsort(answers, n, sizeof(*answers), answers_by_job);
    dt_status status = dt_results_commit(store, map, DT_LOCK_NONE, record_answers, &r, err);
    dt_strbuf_clear(&r.text);
    return status;
}
