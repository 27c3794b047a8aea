/*
 * The batch: one transaction in MySQL (settle, time out, claim), one transaction in Kafka (the messages and their
 * ledger record).
 *
 * Invariants:
 *   - A claim is never undone. flight.list is the list that the row holds. Its first lease.send_n entries are sent
 *     exactly as they stand, and flight.sent becomes true only after a clean commit.
 *   - After anything that is not a clean commit nothing is sent again from memory: the caller takes over, the ledger
 *     decides.
 *   - What goes to Kafka while its claim is not yet committed is committed after it, or never.
 *   - While a remainder of the list is not sent, it goes first. Its messages are read anew, whatever their rows say by
 *     now.
 */
#include <stdlib.h>

#include "base/hooks/fail_point.h"
#include "base/hooks/guard.h"
#include "base/log.h"
#include "delivery/kafka/ledger_record.h"
#include "delivery/kafka/message.h"
#include "shard_parts.h"

/* ---- sending ---- */

static dt_status make_messages(dt_shard_loop *l, const struct dt_outgoing *batch, size_t n,
                               struct dt_kafka_message **out, size_t *n_out)
{
    int64_t now_ms = dt_refclock_latest_ms(l->env->ref);
    *out = dt_arena_alloc(&l->arena, (n ? n : 1) * sizeof(**out));
    *n_out = 0;
    if (!*out)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!batch[i].topic.p) { /* its row was deleted by hand: there is nothing to send, and nobody to tell */
            DT_LOG(ERROR, "shard", "an attempt in flight has no job any more", DT_I("shard", l->shard),
                   DT_I("job", batch[i].claim.id), DT_I("attempt", batch[i].claim.attempt));
            continue;
        }
        dt_status status =
            dt_message_of_job(&batch[i], l->env->kafka->installation, now_ms, l->json, &l->arena, &(*out)[*n_out]);
        if (status != DT_OK)
            return status;
        (*n_out)++;
    }
    return DT_OK;
}

static void observe_sent(dt_shard_loop *l)
{
    int64_t now_ms = dt_refclock_latest_ms(l->env->ref);
    for (size_t i = 0; i < l->lease.send_n; i++)
        dt_metric_observe(l->meters.lateness, (double)(now_ms - l->flight.list.v[i].due_ms) / 1000);
    dt_metric_add(l->meters.dispatched, (int64_t)l->lease.send_n);
    dt_metric_observe(l->meters.batch, (double)l->lease.send_n);
}

/* Kafka took something of a topic that was in doubt: what was held of it may come back. */
static void tell_gate(dt_shard_loop *l, const struct dt_kafka_message *messages, size_t n)
{
    for (size_t i = 0; dt_topic_gate_doubts(l->gate) && i < n; i++)
        if (i == 0 || !dt_str_eq(messages[i].topic, messages[i - 1].topic))
            l->topics_changed |= dt_topic_gate_sent(l->gate, messages[i].topic);
}

/* One transaction: the messages of the head of the list, and one ledger record with exactly that head. */
static dt_status begin_sending(dt_shard_loop *l, const struct dt_lease *lease, const struct dt_claim *list,
                               const struct dt_outgoing *batch, bool at_once, struct dt_sending *s)
{
    struct dt_strbuf record;
    *s = (struct dt_sending){.start_us = dt_shard_mono_us(l)};
    dt_strbuf_init(&record);
    dt_ledger_format_batch(&record, l->env->kafka->uuid, lease, list, lease->send_n);
    s->status = record.failed ? DT_NOMEM : make_messages(l, batch, lease->send_n, &s->messages, &s->n);
    if (s->status == DT_OK && at_once && !dt_producer_ready(l->producer, s->messages, s->n)) {
        dt_strbuf_clear(&record);
        return DT_OK;
    }
    s->begun = true;
    if (s->status == DT_OK)
        s->status = dt_producer_begin(l->producer, s->messages, s->n, DT_LEDGER_BATCH, dt_strbuf_str(&record), &s->err);
    dt_strbuf_clear(&record);
    return s->status;
}

/* The list is in flight by now. */
static dt_status commit_sending(dt_shard_loop *l, struct dt_sending *s, struct dt_error *err)
{
    int64_t offset = -1;
    dt_status status = s->status;
    DT_FAIL_POINT_STATUS("produce.claimed", status, &s->err);
    if (status == DT_OK)
        status = dt_producer_commit(l->producer, &offset, &s->err);
    DT_FAIL_POINT_STATUS("settle.before", status, &s->err);
    if (DT_UNGUARDED(DOUBT) && status == DT_DOUBT) { /* taken for done */
        status = DT_OK;
        offset = l->lease.ledger_offset;
    }
    if (status != DT_OK && err)
        *err = s->err;
    if (status == DT_REFUSED)
        dt_shard_remember_refusal(l, err);
    if (status == DT_OK && offset < l->lease.ledger_offset)
        status = dt_fail(err, DT_DOUBT, "the ledger record's offset %lld is below %lld", (long long)offset,
                         (long long)l->lease.ledger_offset);
    if (status != DT_OK)
        return status;
    l->flight.sent = true;
    l->flight.sent_us = dt_shard_mono_us(l);
    l->flight.settle_offset = offset + 1;
    dt_shard_count_offsets(l, offset);
    dt_metric_observe(l->meters.send_seconds, (double)(l->flight.sent_us - s->start_us) / 1e6);
    observe_sent(l);
    tell_gate(l, s->messages, s->n);
    return DT_OK;
}

static dt_status send_head(dt_shard_loop *l, const struct dt_outgoing *batch, struct dt_error *err)
{
    struct dt_sending s;
    (void)begin_sending(l, &l->lease, l->flight.list.v, batch, false, &s);
    return commit_sending(l, &s, err);
}

/*
 * While MySQL writes the claim, Kafka gets its messages: nobody sees them before their transaction is committed, and
 * that is asked for only when the claim is. Whatever ends the turn otherwise ends the leadership and the producer.
 */
static void send_ahead(void *arg, const struct dt_lease *next, const struct dt_outgoing *batch,
                       const struct dt_claim *claims, size_t n)
{
    dt_shard_loop *l = arg;
    (void)n;
    (void)begin_sending(l, next, claims, batch, true, &l->ahead);
    if (DT_UNGUARDED(CLAIM_FIRST) && l->ahead.begun && l->ahead.status == DT_OK) {
        int64_t offset;
        l->ahead.status = dt_producer_commit(l->producer, &offset, &l->ahead.err);
    }
}

void dt_shard_drop_producer(dt_shard_loop *l)
{
    dt_producer_free(l->producer);
    l->producer = NULL;
}

dt_status dt_shard_send_rest(dt_shard_loop *l, struct dt_error *err)
{
    const struct dt_claims head = {.v = l->flight.list.v, .n = l->lease.send_n};
    struct dt_outgoing *batch;
    if (head.n == 0)
        return DT_OK;
    dt_arena_reset(&l->arena);
    dt_status status = dt_store_read_outgoing(l->store, &head, &l->arena, &batch, err);
    return status == DT_OK ? send_head(l, batch, err) : status;
}

/* ---- a turn ---- */

/* flight.list is again what the row holds: what was settled is gone, or what was claimed is there. */
static dt_status keep_flight(dt_shard_loop *l, const struct dt_turn *turn)
{
    struct dt_claims *list = &l->flight.list;
    l->flight.sent = false;
    dt_claims_drop(list, turn->settled);
    if (turn->n_batch > list->cap) {
        struct dt_claim *v = realloc(list->v, turn->n_batch * sizeof(*v));
        if (!v)
            return DT_NOMEM;
        list->v = v;
        list->cap = turn->n_batch;
    }
    for (size_t i = 0; i < turn->n_batch; i++)
        list->v[list->n++] = turn->batch[i].claim;
    return DT_OK;
}

/* The time that consumers have for their results began with the claim. */
static bool ate_their_time(const struct dt_flight *flight, int64_t now_us)
{
    return now_us - flight->claimed_us > dt_ack_may_lose_ms(flight->shortest_ack_ms) * 1000;
}

static struct dt_turn turn_of(dt_shard_loop *l, int64_t now_us)
{
    return (struct dt_turn){.settle = &l->flight.list,
                            .settle_offset = l->flight.settle_offset,
                            .extend_deadlines = ate_their_time(&l->flight, now_us),
                            .hints = l->hints,
                            .n_hints = l->n_hints,
                            .max_jobs = (size_t)l->env->config->dispatch_batch_jobs,
                            .max_bytes = (size_t)l->env->config->dispatch_batch_bytes,
                            .map = &l->map,
                            .topics = l->book,
                            .read_up_to_ms = l->env->read_up_to(l->env->arg),
                            .writable = dt_topic_gate_ask,
                            .arg = l->gate,
                            .claiming = send_ahead,
                            .claiming_arg = l,
                            .arena = &l->arena};
}

/* Its own failure is not what ended the turn, and may be why it took so long. */
static void tell_of_ahead(const dt_shard_loop *l)
{
    if (l->ahead.begun && l->ahead.status != DT_OK)
        DT_LOG(WARN, "shard", "Kafka had failed before the claim did", DT_I("shard", l->shard),
               DT_S("status", dt_status_name(l->ahead.status)), DT_S("reason", l->ahead.err.text));
}

static dt_status turn_in_store(dt_shard_loop *l, struct dt_turn *turn, struct dt_error *err)
{
    int64_t start_us = dt_shard_mono_us(l);
    if (l->flight.list.n && !l->flight.sent)
        return dt_fail(err, DT_INTERNAL, "a batch that was not sent cannot be settled");
    dt_arena_reset(&l->arena);
    l->ahead = (struct dt_sending){0};
    *turn = turn_of(l, start_us);
    dt_status status = dt_store_turn(l->store, &l->lease, turn, err);
    if (status != DT_OK) {
        tell_of_ahead(l);
        return status;
    }
    dt_metric_observe(l->meters.turn_seconds, (double)(dt_shard_mono_us(l) - start_us) / 1e6);
    dt_metric_add(l->meters.timed_out, (int64_t)turn->timed_out);
    l->checked_us = start_us;
    if (turn->n_batch) {
        l->flight.claimed_us = start_us;
        l->flight.shortest_ack_ms = turn->shortest_ack_ms;
    }
    return keep_flight(l, turn);
}

static void note_orphan(dt_shard_loop *l, struct dt_str topic)
{
    bool news = !dt_str_is(topic, l->orphan);
    snprintf(l->orphan, sizeof(l->orphan), "%.*s", (int)topic.n, topic.p);
    l->orphan_us = dt_shard_mono_us(l);
    if (news)
        DT_LOG(ERROR, "shard", "due jobs wait: their topic has no row in `topics`", DT_I("shard", l->shard),
               DT_S("topic", l->orphan));
}

dt_status dt_shard_turn(dt_shard_loop *l, struct dt_turn *turn, struct dt_error *err)
{
    dt_status status = turn_in_store(l, turn, err);
    if (status != DT_OK)
        return status;
    DT_FAIL_POINT("index.before_told");
    dt_shard_tell_index(l, turn); /* while Kafka takes the messages; whether they are sent or not, they stay claimed */
    if (turn->n_batch)
        status = l->ahead.begun ? commit_sending(l, &l->ahead, err) : send_head(l, turn->batch, err);
    if (turn->outbox)
        l->env->outbox(l->env->arg, l->shard);
    if (turn->unread)
        l->env->want_read(l->env->arg, l->shard, turn->unread_ms);
    if (turn->orphan.p)
        note_orphan(l, turn->orphan);
    if (status == DT_OK && turn->rest)
        status = dt_shard_send_rest(l, err);
    return status;
}

dt_status dt_shard_settle(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_turn turn;
    dt_status status;
    l->n_hints = 0;
    if (!l->flight.list.n || !l->flight.sent)
        return DT_OK;
    status = turn_in_store(l, &turn, err);
    if (status == DT_OK)
        dt_shard_tell_index(l, &turn);
    return status;
}
