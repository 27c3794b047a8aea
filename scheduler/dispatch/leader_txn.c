/*
 * The leader transaction: settle what was sent, decide acknowledgement timeouts, claim what is due. It takes a
 * handful of statements whatever the number of jobs (by id: one for every 960):
 *
 *   lock the shard row ─▶ extend old deadlines ─▶ lock and judge the hinted jobs ─▶ lock the gates of limited topics
 *                      ─▶ time out ─▶ archive ─▶ claim ─▶ offer
 *                      ─▶ write the row ─▶ count, and commit
 *
 * Owns:            the order of these steps, the shard's row, and the COMMIT.
 * Refuses to know: what is done with a job; leader_parts.h names the file of each step.
 *
 * Invariants:
 *   - If a remainder of the list is unsent, nothing is claimed or timed out. If the list is frozen, nothing is claimed
 *     into it, and jobs in it are skipped. So a list is replaced, shortened at its head or kept, never extended.
 *   - An attempt enters the list in the transaction that writes it into its job's row, so an attempt that is not in a
 *     list cannot come.
 *   - A job with an earlier attempt in another shard's list (its slot has moved) waits.
 *   - Locks are taken in one order: the own shard row, job rows by id, gates. Rows that others hold locked are
 *     skipped, not waited for; what is locked already is written without a wait.
 */
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "deadlines.h"
#include "leader_parts.h"
#include "store/store_internal.h"

/* The batch was sent: it leaves the list, with the time for its results counted from now if it took long. */
static dt_status settle(struct dt_open_txn *t)
{
    const struct dt_leader_sent *sent = &t->io->sent;
    struct dt_leader_settled *settled = &t->io->settled;
    if (sent->list->n == 0 || sent->frozen)
        return DT_OK;
    t->shrink = dt_inflight_sent(sent->list->n, t->fence->send_n);
    settled->n = t->shrink.leave;
    settled->remainder = sent->list->n - settled->n;
    dt_assert_cmp(settled->n, >, 0); /* a list that is not empty has a head to be sent */
    if (!sent->extend_deadlines)
        return DT_OK;
    const struct dt_inflight batch = {.v = sent->list->v, .n = settled->n};
    settled->moved.v = dt_arena_alloc(t->io->arena, (batch.n ? batch.n : 1) * sizeof(*settled->moved.v));
    if (!settled->moved.v)
        return DT_NOMEM;
    return dt_deadlines_extend(t->db, &batch, t->row.now_ms, &settled->moved, t->err);
}

static dt_status report_seen(struct dt_open_txn *t)
{
    struct dt_leader_seen *seen = &t->io->seen;
    seen->v = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*seen->v));
    seen->unknown = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*seen->unknown));
    if (!seen->v || !seen->unknown)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (c->fate == DT_FATE_LEFT) {
            seen->locked |= !c->busy && (!c->found || !t->io->chosen.more);
            if (c->unknown)
                seen->unknown[seen->n_unknown++] = c->id;
            continue;
        }
        struct dt_seen *s = &seen->v[seen->n++];
        *s = (struct dt_seen){
            .id = c->id, .hint_ms = c->hint_ms, .elsewhere = c->fate == DT_FATE_ELSEWHERE, .at_limit = c->at_limit};
        if (c->fate == DT_FATE_CLAIM)
            s->next_ms = t->row.now_ms + c->ack_timeout_ms;
        else if (c->fate == DT_FATE_MOVED || c->fate == DT_FATE_ELSEWHERE || c->fate == DT_FATE_HELD)
            s->next_ms = c->next_ms;
        if (c->fate != DT_FATE_HELD)
            continue;
        s->hold = c->topic;
        s->host = c->host;
        s->timeout = c->state == DT_DISPATCHED;
        seen->held++;
    }
    return DT_OK;
}

static dt_status write_row(struct dt_open_txn *t, struct dt_fence *next)
{
    const struct dt_leader_sent *sent = &t->io->sent;
    const struct dt_leader_settled *settled = &t->io->settled;
    struct dt_fence_values values = {.inflight = {.v = t->claims, .n = t->n_claims},
                                     .send_n = t->n_claims,
                                     .ledger_offset = settled->n ? sent->offset : t->fence->ledger_offset,
                                     .batch_no = t->fence->batch_no + (t->n_claims > 0)};
    dt_assert(t->n_claims == 0 || !sent->frozen);
    dt_assert(t->n_claims == 0 || !settled->remainder || DT_UNGUARDED(REST));
    if (sent->frozen) {
        values.inflight = *sent->list;
        values.send_n = t->fence->send_n;
    } else if (settled->remainder) {
        values.inflight = (struct dt_inflight){.v = sent->list->v + settled->n, .n = settled->remainder};
        values.send_n = t->shrink.send_n;
        values.batch_no = t->fence->batch_no;
    }
    return dt_fence_write(t->db, next, &values, t->err);
}

static dt_status work(struct dt_open_txn *t, struct dt_fence *next, bool *changed)
{
    struct dt_leader_txn *io = t->io;
    io->now_ms = t->row.now_ms;
    io->stale_map = t->row.generation != io->due.map->generation;
    dt_status status = settle(t);
    if (status == DT_OK && !io->stale_map && DT_GUARD(REST, !io->settled.remainder)) {
        status = dt_candidates_read(t);
        if (status == DT_OK && t->n)
            status = dt_hands_look(t);
        if (status == DT_OK && t->n)
            status = dt_candidates_judge(t);
        if (status == DT_OK && t->n)
            status = dt_timeouts_leave_deferred(t);
        if (status == DT_OK && t->n)
            status = dt_claims_choose(t);
    }
    if (status == DT_OK)
        status = dt_timeouts_write(t);
    if (status == DT_OK)
        status = dt_claims_write(t);
    if (status == DT_OK)
        status = dt_offers_write(t);
    if (status == DT_OK)
        status = dt_limits_write(t);
    if (status == DT_OK)
        status = report_seen(t);
    *changed = io->settled.n > 0 || io->timed_out.n > 0 || t->n_emptied > 0 || t->n_claims > 0 || t->n_hands > 0 ||
               io->offered.n > 0;
    if (status == DT_OK && *changed)
        status = write_row(t, next);
    return status;
}

static void reset_outputs(struct dt_leader_txn *io)
{
    *io = (struct dt_leader_txn){
        .sent = io->sent, .due = io->due, .gate = io->gate, .listener = io->listener, .arena = io->arena};
}

dt_status dt_leader_txn_commit(dt_store *store, struct dt_fence *fence, struct dt_leader_txn *txn, struct dt_error *err)
{
    struct dt_open_txn t = {.config = dt_store_config(store), .fence = fence, .io = txn, .err = err};
    struct dt_fence next = *fence;
    const size_t in_flight = txn->sent.list->n;
    bool changed = false;
    dt_assert_cmp(in_flight, ==, fence->inflight); /* what the row has is neither forgotten nor extended */
    reset_outputs(txn);
    dt_counts_init(&t.counts);
    dt_status status = dt_fence_begin(store, fence, &t.db, &t.row, err);
    if (DT_UNGUARDED(FENCE_IN_LEADER_TXN) && status == DT_DEPOSED)
        status = DT_OK;
    if (status == DT_OK) { /* the in-flight list is written by one statement */
        const size_t fit = dt_db_packet_max(t.db) / DT_CLAIM_BYTES;
        txn->due.max_jobs = fit < txn->due.max_jobs ? fit : txn->due.max_jobs;
        status = work(&t, &next, &changed);
    }
    dt_inflight_clear(&t.foreign);
    dt_inflight_clear(&t.frozen);
    if (in_flight)
        DT_FAIL_POINT_STATUS("settle.commit", status, err);
    if (t.n_claims + t.n_hands)
        DT_FAIL_POINT_STATUS("claim.commit", status, err);
    if (status == DT_OK && !changed)
        dt_db_rollback(t.db);
    else
        status = dt_counts_commit(t.db, &t.counts, status, err);
    dt_counts_clear(&t.counts);
    if (t.n_claims + t.n_hands)
        DT_FAIL_POINT_STATUS("claim.committed", status, err);
    if (in_flight)
        DT_FAIL_POINT_STATUS("settle.committed", status, err);
    if (status != DT_OK) {
        if (!DT_UNGUARDED(CALL_CONFIRMED))
            reset_outputs(txn);
        return status;
    }
    dt_assert(next.epoch == fence->epoch && next.token == fence->token);
    dt_assert_cmp(next.version, ==, fence->version + changed);
    *fence = next;
    return DT_OK;
}
