/*
 * The leader transaction: settles the batch that was sent, times attempts out, claims due jobs. The number of
 * statements is a handful and does not depend on the number of jobs, except that a statement by id has at most 960 ids:
 *
 *   lock the shard row ─▶ extend old deadlines ─▶ lock and judge the hinted jobs ─▶ lock the gates of limited topics
 *                      ─▶ time out ─▶ archive ─▶ claim ─▶ offer
 *                      ─▶ write the row ─▶ count, and commit
 *
 * This file has the order of these steps, the fate of each hinted job, timeouts, the shard's row and the COMMIT.
 *
 * Invariants:
 *   - If a part of the in-flight list is not sent yet, nothing is claimed or timed out. If the list is frozen, nothing
 *     is claimed into it, and its jobs are skipped. So a list is replaced, shortened at its head or kept, but never
 *     extended.
 *   - An attempt enters the list in the transaction that writes the attempt into its job's row. So an attempt that is
 *     not in a list cannot enter one later.
 *   - A job waits if an earlier attempt is in another shard's list (its slot has moved), or in the hands of a process.
 *   - An attempt does not time out before the results watermark has passed its deadline
 *     (dispatcher/deliver/kafka/kafka_parts.h).
 *   - A deadline never becomes earlier. It becomes later only in a row that is still dispatched with the same attempt.
 *   - Locks are taken in one order: the own shard row, job rows by id, gates. Rows that another session has locked are
 *     skipped, so that a forgotten open session cannot block the shard. Rows that this transaction has locked are
 *     written without a wait.
 */
#include "base/fail_point.h"
#include "base/guard.h"
#include "job/job_state.h"
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* ---- deciding the fate of each candidate ---- */

/* Decides whether the message of the candidate can be sent to its topic now. */
static dt_status judge_writable(struct dt_open_txn *t, struct dt_candidate *c, const struct dt_topic_entry *topic)
{
    const struct dt_leader_gate *gate = &t->io->gate;
    const enum dt_dealing dealing = dt_delivery_dealing(topic->delivery);
    enum dt_writable writable = dealing == DT_DEALING_HANDS ? DT_WRITABLE_YES : DT_WRITABLE_NO;
    if (topic->paused && !DT_UNGUARDED(PAUSE))
        writable = DT_WRITABLE_NO;
    else if (dealing == DT_DEALING_LISTS)
        writable = gate->writable(gate->arg, topic->kafka_name, topic->owner, c->bytes);
    /* Copies the name of a Kafka topic, because the snapshot may be read again before the batch is sent. Consecutive
     * jobs of a topic share one copy. */
    if (!t->kafka_topic.p || !dt_str_eq(t->kafka_topic, topic->kafka_name))
        t->kafka_topic = dt_arena_copy(t->io->arena, topic->kafka_name);
    c->kafka_topic = t->kafka_topic;
    if (!c->kafka_topic.p)
        return DT_NOMEM;
    c->owner = topic->owner;
    c->limited = topic->limited;
    c->alone = writable == DT_WRITABLE_ALONE;
    c->by_hands = dealing == DT_DEALING_HANDS;
    c->unknown = writable == DT_WRITABLE_UNKNOWN;
    c->busy = t->io->sent.frozen && !c->by_hands && writable != DT_WRITABLE_NO;
    t->io->judged.frozen |= c->busy;
    if (writable != DT_WRITABLE_UNKNOWN && !c->busy)
        c->fate = writable == DT_WRITABLE_NO ? DT_FATE_HELD : DT_FATE_CLAIM;
    return DT_OK;
}

/* Postpones a candidate until it is known whether its attempt was sent, or what was reported about it. If `park`, Kafka
 * has not answered for long, and the candidate's index entry is held, so that it does not block other entries. */
static void postpone_until_reported(struct dt_open_txn *t, struct dt_candidate *c, bool park)
{
    struct dt_leader_judged *judged = &t->io->judged;
    judged->unread++;
    if (judged->unread_ms < c->next_ms)
        judged->unread_ms = c->next_ms;
    c->fate = park ? DT_FATE_HELD : DT_FATE_LEFT;
}

static dt_status judge_due_job(struct dt_open_txn *t, struct dt_candidate *c)
{
    c->fate = DT_FATE_LEFT;
    if (!DT_UNGUARDED(LIST_ELSEWHERE) && dt_candidate_in_flight_elsewhere(t, c))
        return DT_OK;
    if (!DT_UNGUARDED(LIST_FROZEN) && dt_inflight_has(&t->frozen, c->id)) {
        postpone_until_reported(t, c, t->io->sent.park);
        c->busy = true;
        return DT_OK;
    }
    if (c->in_hands && !DT_UNGUARDED(CALL_IN_HANDS))
        return DT_OK;
    if (c->state == DT_DISPATCHED) {
        /* A report that arrived before the deadline counts, even if it is read later. So the attempt times out only
         * after all reports that arrived before its deadline were applied (the results watermark). */
        const struct dt_read_up_to *up_to = &t->io->due.read_up_to;
        const bool by_kafka = c->claim_shard >= 0;
        if (DT_GUARD(UNREAD, c->next_ms <= (by_kafka ? up_to->kafka_ms : up_to->other_ms)))
            c->fate = DT_FATE_TIMEOUT;
        else
            postpone_until_reported(t, c, by_kafka && c->next_ms <= up_to->other_ms);
        return DT_OK;
    }
    const int claimed = dt_job_state_after(c->state, DT_EVENT_CLAIM);
    if (claimed == DT_STATE_ILLEGAL)
        return DT_OK;
    c->claimed = (enum dt_job_state)claimed;
    const struct dt_topic_entry *topic = dt_topic_snapshot_find(t->io->due.topics, c->topic);
    if (topic && dt_delivery_dealing(topic->delivery) == DT_DEALING_OFFERS && (!topic->paused || DT_UNGUARDED(PAUSE))) {
        c->fate = DT_FATE_OFFER;
        return DT_OK;
    }
    if (topic)
        return judge_writable(t, c, topic);
    /* The snapshot does not have the topic. If the topic is newer than the snapshot, the next leader transaction has it
     * in its snapshot. If a manual edit deleted the topic's row, the job has no destination, and its index entry is
     * held until the row exists again. */
    struct dt_str *orphan = &t->io->judged.orphan;
    if (orphan->p && dt_str_eq(*orphan, c->topic)) {
        c->fate = DT_FATE_HELD;
        return DT_OK;
    }
    dt_status status = dt_db_query(t->db, dt_sql_find_topic, DT_PARAMS(DT_P_STR(c->topic)), t->err);
    if (status == DT_OK && !dt_db_next(t->db)) {
        *orphan = c->topic;
        c->fate = DT_FATE_HELD;
    }
    dt_status end = dt_db_end(t->db, status == DT_OK ? t->err : NULL);
    return status == DT_OK ? end : status;
}

static dt_status judge_candidate(struct dt_open_txn *t, struct dt_candidate *c)
{
    if (!c->found)
        return DT_OK;
    const bool due =
        c->state == DT_DISPATCHED ? dt_job_deadline_passed(c->next_ms, t->row.now_ms) : c->next_ms <= t->row.now_ms;
    if (dt_job_state_terminal(c->state))
        c->fate = DT_FATE_GONE;
    else if (dt_shard_of(t->io->due.map, c->id) != t->fence->shard)
        c->fate = DT_FATE_ELSEWHERE;
    else if (!due)
        c->fate = DT_FATE_MOVED;
    else
        return judge_due_job(t, c);
    return DT_OK;
}

/* ---- timeouts ---- */

static bool times_out(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_TIMEOUT;
}

/* Does not time out attempts that have a result in deferred_results (their fate becomes LEFT): the result was reported,
 * and is applied as soon as the job's row is no longer locked. */
static dt_status skip_deferred_timeouts(struct dt_open_txn *t)
{
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, times_out, &n);
    if (!ids)
        return DT_NOMEM;
    return dt_id_in_read(t->db, &dt_sql_find_deferred, DT_NO_PARAMS, DT_IDS(ids, n), dt_candidate_leave, t, t->err);
}

/* Ends the attempts that timed out, in the way that a reported failure ends an attempt. Afterwards the fate of their
 * candidates is MOVED or GONE, or LEFT if the result was not applied. */
static dt_status write_timeouts(struct dt_open_txn *t)
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

/* ---- the transaction ---- */

/* Removes the sent batch from the in-flight list. If sending took long, restarts the acknowledgement timeouts of its
 * attempts. */
static dt_status settle_sent_batch(struct dt_open_txn *t)
{
    const struct dt_leader_sent *sent = &t->io->sent;
    struct dt_leader_settled *settled = &t->io->settled;
    if (sent->list->n == 0 || sent->frozen)
        return DT_OK;
    t->shrink = dt_inflight_sent(sent->list->n, t->fence->send_n);
    settled->n = t->shrink.leave;
    settled->remainder = sent->list->n - settled->n;
    dt_assert_cmp(settled->n, >, 0); /* a list that is not empty has a batch that was sent */
    if (!sent->extend_deadlines)
        return DT_OK;
    const struct dt_inflight batch = {.v = sent->list->v, .n = settled->n};
    settled->moved.v = dt_arena_alloc(t->io->arena, (batch.n ? batch.n : 1) * sizeof(*settled->moved.v));
    if (!settled->moved.v)
        return DT_NOMEM;
    return dt_deadlines_extend(t->db, &batch, t->row.now_ms, &settled->moved, t->err);
}

static dt_status report_seen_candidates(struct dt_open_txn *t)
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

static dt_status write_shard_row(struct dt_open_txn *t, struct dt_fence *next)
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

static dt_status run_txn_steps(struct dt_open_txn *t, struct dt_fence *next, bool *changed)
{
    struct dt_leader_txn *io = t->io;
    io->now_ms = t->row.now_ms;
    io->stale_map = t->row.generation != io->due.map->generation;
    dt_status status = settle_sent_batch(t);
    if (status == DT_OK && !io->stale_map && DT_GUARD(REST, !io->settled.remainder)) {
        status = dt_candidates_read(t);
        if (status == DT_OK && t->n)
            status = dt_hands_look(t);
        for (size_t i = 0; status == DT_OK && i < t->n; i++)
            status = judge_candidate(t, &t->v[i]);
        if (status == DT_OK && t->n)
            status = skip_deferred_timeouts(t);
        if (status == DT_OK && t->n)
            status = dt_claims_choose(t);
    }
    DT_THEN(status, write_timeouts(t));
    DT_THEN(status, dt_claims_write(t));
    DT_THEN(status, dt_offers_write(t));
    DT_THEN(status, dt_limits_write(t));
    DT_THEN(status, report_seen_candidates(t));
    *changed = io->settled.n > 0 || io->timed_out.n > 0 || t->n_emptied > 0 || t->n_claims > 0 || t->n_hands > 0 ||
               io->offered.n > 0;
    if (status == DT_OK && *changed)
        status = write_shard_row(t, next);
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
    dt_assert_cmp(in_flight, ==, fence->inflight); /* the caller's list must be as long as that of the row */
    reset_outputs(txn);
    dt_counts_init(&t.counts);
    dt_status status = dt_fence_begin(store, fence, &t.db, &t.row, err);
    if (DT_UNGUARDED(FENCE_IN_LEADER_TXN) && status == DT_DEPOSED)
        status = DT_OK;
    /* Limits the batch, because one statement writes the whole in-flight list, and must fit into a packet. */
    if (status == DT_OK) {
        const size_t fit = dt_db_packet_max(t.db) / DT_CLAIM_BYTES;
        txn->due.max_jobs = fit < txn->due.max_jobs ? fit : txn->due.max_jobs;
        status = run_txn_steps(&t, &next, &changed);
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
