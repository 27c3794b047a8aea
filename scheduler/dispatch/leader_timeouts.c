/*
 * Attempts whose time for a result is over, in a leader transaction.
 *
 * Owns:            `timed_out` of struct dt_leader_txn.
 * Refuses to know: what a timeout makes of a job: it goes the way of every other result (results.h).
 */
#include "job/results/results.h"
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"

static bool times_out(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_TIMEOUT;
}

static dt_status leave_to_result(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (c)
        c->fate = DT_FATE_LEFT;
    return DT_OK;
}

/* Their results were read, and wait for a row that somebody kept locked: whoever reads applies them soon. */
dt_status dt_timeouts_leave_deferred(struct dt_open_txn *t)
{
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, times_out, &n);
    if (!ids)
        return DT_NOMEM;
    return dt_id_in_read(t->db, &dt_sql_find_deferred, DT_NO_PARAMS, DT_IDS(ids, n), leave_to_result, t, t->err);
}

dt_status dt_timeouts_write(struct dt_open_txn *t)
{
    if (t->n_timeouts == 0)
        return DT_OK;
    struct dt_apply *results = dt_arena_alloc(t->io->arena, t->n_timeouts * sizeof(*results));
    struct dt_candidate **of = dt_arena_alloc(t->io->arena, t->n_timeouts * sizeof(*of));
    const struct dt_results_txn txn = dt_open_txn_results(t);
    size_t n = 0;
    if (!results || !of)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (times_out(&t->v[i])) {
            dt_assert_cmp(n, <, t->n_timeouts);
            of[n] = &t->v[i];
            results[n++] = (struct dt_apply){.result = {.job_id = t->v[i].id,
                                                        .attempt = t->v[i].attempt,
                                                        .status = DT_RESULT_TIMED_OUT,
                                                        .retry_after_ms = -1,
                                                        .error_code = dt_str("ack_timeout"),
                                                        .error_message = dt_str("no result was reported in time")}};
        }
    dt_status status = dt_results_apply_within(&txn, results, n, t->err);
    for (size_t i = 0; status == DT_OK && i < n; i++) {
        const bool applied = results[i].outcome == DT_OUTCOME_APPLIED;
        of[i]->fate = !applied ? DT_FATE_LEFT : results[i].next_at_ms ? DT_FATE_MOVED : DT_FATE_GONE;
        of[i]->next_ms = results[i].next_at_ms;
        t->io->timed_out.n += applied;
        t->io->timed_out.outbox |= results[i].outbox;
    }
    return status;
}
