/*
 * The judge of the candidates of a leader transaction.
 *
 * Owns:            the fate of a locked row, and `judged` of struct dt_leader_txn.
 * Refuses to know: how many fit into a batch (leader_choose.c), and how anything is written.
 *
 * Invariants: a finished job is gone, another shard's is handed on, one that is not due has moved, in this order; a job
 * with an earlier attempt in another shard's list, or in anybody's hands, waits; nothing times out before the results
 * watermark has reached its deadline (results.h).
 */
#include "base/guard.h"
#include "job/job_state.h"
#include "leader_parts.h"
#include "mysql/statements.h"
#include "topic_snapshot.h"

/* May the topic take the candidate's message now? */
static dt_status judge_writable(struct dt_open_txn *t, struct dt_candidate *c, const struct dt_topic_entry *topic)
{
    const struct dt_leader_gate *gate = &t->io->gate;
    const enum dt_dealing dealing = dt_delivery_dealing(topic->delivery);
    enum dt_writable writable = dealing == DT_DEALING_HANDS ? DT_WRITABLE_YES : DT_WRITABLE_NO;
    if (topic->paused && !DT_UNGUARDED(PAUSE))
        writable = DT_WRITABLE_NO;
    else if (dealing == DT_DEALING_LISTS)
        writable = gate->writable(gate->arg, topic->kafka_name, topic->owner, c->bytes);
    /* One copy for as long as the same one comes: the snapshot may be read again before the batch is sent. */
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

/* park: Kafka has not answered for so long that the job is parked, not left in front. */
static void wait_for_reports(struct dt_open_txn *t, struct dt_candidate *c, bool park)
{
    struct dt_leader_judged *judged = &t->io->judged;
    judged->unread++;
    if (judged->unread_ms < c->next_ms)
        judged->unread_ms = c->next_ms;
    c->fate = park ? DT_FATE_HELD : DT_FATE_LEFT;
}

/* A report that came before the deadline counts, even if it is read later: until the reports up to the deadline have
 * been applied (the results watermark), the attempt is left. */
static void judge_timeout(struct dt_open_txn *t, struct dt_candidate *c)
{
    const struct dt_read_up_to *up_to = &t->io->due.read_up_to;
    bool by_kafka = c->claim_shard >= 0;
    if (DT_GUARD(UNREAD, c->next_ms <= (by_kafka ? up_to->kafka_ms : up_to->other_ms)))
        c->fate = DT_FATE_TIMEOUT;
    else
        wait_for_reports(t, c, by_kafka && c->next_ms <= up_to->other_ms);
}

static dt_status judge_due(struct dt_open_txn *t, struct dt_candidate *c)
{
    c->fate = DT_FATE_LEFT;
    if (!DT_UNGUARDED(LIST_ELSEWHERE) && dt_candidate_in_flight_elsewhere(t, c))
        return DT_OK;
    if (!DT_UNGUARDED(LIST_FROZEN) && dt_inflight_has(&t->frozen, c->id)) {
        wait_for_reports(t, c, t->io->sent.park);
        c->busy = true;
        return DT_OK;
    }
    if (c->in_hands && !DT_UNGUARDED(CALL_IN_HANDS))
        return DT_OK;
    if (c->state == DT_DISPATCHED) {
        judge_timeout(t, c);
        return DT_OK;
    }
    const int claimed = dt_job_state_after(c->state, DT_EVENT_CLAIM);
    if (claimed == DT_STATE_ILLEGAL)
        return DT_OK;
    c->claimed = (enum dt_job_state)claimed;
    const struct dt_topic_entry *topic = dt_topic_snapshot_find(t->io->due.topics, c->topic);
    /* Clients claim the jobs of such a topic, when they ask for some. */
    if (topic && dt_delivery_dealing(topic->delivery) == DT_DEALING_OFFERS && (!topic->paused || DT_UNGUARDED(PAUSE))) {
        c->fate = DT_FATE_OFFER;
        return DT_OK;
    }
    if (topic)
        return judge_writable(t, c, topic);
    /* Either its topic was made after this transaction read the snapshot (the next leader transaction knows it), or a
     * manual edit deleted the topic's row: then the job has no destination, and waits in its held set until the row is
     * back. */
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

static dt_status judge(struct dt_open_txn *t, struct dt_candidate *c)
{
    if (!c->found)
        return DT_OK;
    /* It is the job's time: its deadline if it waits for a result, else the time that it was given. */
    const bool due =
        c->state == DT_DISPATCHED ? dt_job_deadline_passed(c->next_ms, t->row.now_ms) : c->next_ms <= t->row.now_ms;
    if (dt_job_state_terminal(c->state))
        c->fate = DT_FATE_GONE;
    else if (dt_shard_of(t->io->due.map, c->id) != t->fence->shard)
        c->fate = DT_FATE_ELSEWHERE;
    else if (!due)
        c->fate = DT_FATE_MOVED;
    else
        return judge_due(t, c);
    return DT_OK;
}

dt_status dt_candidates_judge(struct dt_open_txn *t)
{
    dt_status status = DT_OK;
    for (size_t i = 0; status == DT_OK && i < t->n; i++)
        status = judge(t, &t->v[i]);
    return status;
}
