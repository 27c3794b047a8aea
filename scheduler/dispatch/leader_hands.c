/*
 * Attempts in the hands of a process, in a leader transaction: those of a process that is gone end as lost, and what is
 * claimed for a callback gets its row of `hands`.
 *
 * Owns:            `lost` of the hands of struct dt_leader_txn; the rows of `hands` that a leader writes.
 * Refuses to know: what a process does with an attempt, and what comes after one that was lost: it goes the way of
 *                  every other result (results/), and of every other due job.
 *
 * Invariants: rows of `hands` are read after the rows of their jobs were locked, and written under these locks; an
 * attempt is claimed while none of its job is in anybody's hands, so a job has one row at most, of its latest attempt;
 * a result that waits for its job's row comes before the loss.
 */
#include "base/assert.h"
#include "base/guard.h"
#include "job/job_state.h"
#include "job/results/results.h"
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "topic/topics.h"

/* ---- what is in hands ---- */

/* The latest attempt is in no list: it was popped, or it went into somebody's hands. */
static bool may_be_in_hands(const struct dt_candidate *c)
{
    return c->found && c->attempt > 0 && c->claim_shard < 0;
}

static dt_status take_hand(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (!c)
        return dt_fail(t->err, DT_INTERNAL, "a job that was not asked for");
    c->lost = DT_GUARD(CALL_OWNER_GONE, dt_db_i64(t->db, 2) == 0);
    c->in_hands = !c->lost;
    return DT_OK;
}

/* ---- what is lost ---- */

static bool is_lost(const struct dt_candidate *c)
{
    return c->lost;
}

static dt_status leave_to_result(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (c) {
        c->lost = false;
        c->in_hands = true;
    }
    return DT_OK;
}

static dt_status end_lost(struct dt_open_txn *t)
{
    const struct dt_results_txn txn = dt_open_txn_results(t);
    uint64_t deleted = 0;
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, is_lost, &n);
    if (!ids)
        return DT_NOMEM;
    if (n == 0)
        return DT_OK;
    struct dt_apply *results = dt_arena_alloc(t->io->arena, n * sizeof(*results));
    if (!results)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_candidate *c = dt_candidates_find(t, ids[i]);
        dt_assert(c && c->lost && !c->in_hands);
        results[i] = (struct dt_apply){
            .result = {.job_id = c->id, .attempt = c->attempt, .status = DT_RESULT_LOST, .retry_after_ms = -1}};
    }
    dt_status status = dt_results_apply_within(&txn, results, n, t->err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        struct dt_candidate *c = dt_candidates_find(t, ids[i]);
        if (results[i].outcome != DT_OUTCOME_APPLIED)
            continue;
        /* From here on the candidate is what its row says by now. */
        c->state = results[i].next_at_ms ? DT_SCHEDULED : DT_CANCELLED;
        c->next_ms = results[i].next_at_ms;
        t->io->hands.lost++;
    }
    t->n_emptied = n;
    if (status == DT_OK)
        status = dt_id_list_delete(t->db, dt_sql_delete_hands, DT_IDS(ids, n), &deleted, t->err);
    return status;
}

dt_status dt_hands_look(struct dt_open_txn *t)
{
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, may_be_in_hands, &n);
    if (!ids)
        return DT_NOMEM;
    if (n == 0)
        return DT_OK;
    dt_status status = dt_id_in_read(t->db, &dt_sql_find_in_hands, DT_NO_PARAMS, DT_IDS(ids, n), take_hand, t, t->err);
    ids = dt_candidates_ids(t, is_lost, &n);
    if (status == DT_OK && !ids)
        status = DT_NOMEM;
    if (status == DT_OK && n)
        status = dt_id_in_read(t->db, &dt_sql_find_deferred, DT_NO_PARAMS, DT_IDS(ids, n), leave_to_result, t, t->err);
    return status == DT_OK ? end_lost(t) : status;
}

/* ---- what is claimed ---- */

enum dt_hand_place dt_hands_take(struct dt_open_txn *t, const struct dt_candidate *c)
{
    const struct dt_leader_gate *gate = &t->io->gate;
    const struct dt_topic_callback *topic = dt_topic_snapshot_callback(t->io->due.topics, c->topic);
    struct dt_hand_wanted wanted = {.job_id = c->id,
                                    .attempt = dt_job_number_after(c->attempt, 1),
                                    .bytes = (size_t)c->bytes,
                                    .topic = c->topic,
                                    .topic_owner = dt_topic_snapshot_owner(t->io->due.topics, c->topic),
                                    .url = c->callback_url};
    wanted.own_url = wanted.url.p;
    if (!wanted.own_url && topic)
        wanted.url = topic->places.url;
    return gate->take && topic ? gate->take(gate->hands, &wanted, &t->owner) : DT_HAND_FULL;
}

dt_status dt_hands_write(struct dt_open_txn *t)
{
    enum { COLUMNS = 4 };
    if (t->n_hands == 0)
        return DT_OK;
    struct dt_param *params = dt_arena_alloc(t->io->arena, t->n_hands * COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    if (!params)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n_hands; i++) {
        *p++ = DT_P_INT(t->hands[i].id);
        *p++ = DT_P_INT(t->hands[i].attempt);
        *p++ = DT_P_INT(t->fence->shard);
        *p++ = DT_P_INT(t->owner);
    }
    return dt_db_run_many(t->db, dt_sql_insert_hands, (struct dt_param_rows){params, COLUMNS, t->n_hands}, NULL,
                          t->err);
}
