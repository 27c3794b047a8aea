/*
 * The sender: a leader's second thread, which opens the delivery, reads the ledger and commits. Only this thread waits
 * for Kafka.
 *
 *            ┌────────────── any failure: closed; the next opening needs a new epoch ─────────────────┐
 *            ▼                                                                                        │
 *   CLOSED ─open─▶ OPENING (fence, ledger) ─▶ settled by the loop ─▶ OPEN ─send─▶ SENDING ─▶ OPEN ────┘
 *
 * Owns: the thread, and the request that it runs. Knows neither when to open (shard_takeover.c), nor when to send and
 * what follows (below).
 *
 * Invariants:
 *   - One request at a time. While it runs, the loop calls only those functions of the delivery that answer from
 *     memory.
 *   - A request has its own fence, list and arena, because the loop changes its fence with each transaction and reuses
 *     its arena.
 */

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/log.h"
#include "shard_parts.h"

enum { REQUEST = 1 }; /* signal to the thread's mailbox */

static void run_sender(void *arg)
{
    struct dt_sender *s = arg;
    while (!dt_thread_stopping(&s->thread)) {
        dt_mailbox_wait(s->mailbox, INT64_MAX);
        if (!atomic_load(&s->busy))
            continue;
        if (s->state != DT_SENDER_CLOSED)
            dt_assert_shard(s->fence.shard);
        /* Keeps s->err, because the loop may still read why the delivery was closed. */
        if (s->state == DT_SENDER_CLOSED) {
            dt_delivery_close(s->delivery);
        } else if (s->state == DT_SENDER_OPENING) {
            s->err = (struct dt_error){0};
            dt_delivery_forget(s->delivery);
            s->status = dt_delivery_fence(s->delivery, &s->fence, &s->err);
            DT_FAIL_POINT_STATUS("takeover.producer", s->status, &s->err);
            if (s->status == DT_OK)
                s->status = dt_delivery_read(s->delivery, &s->fence, &s->list, &s->found, &s->err);
        } else {
            const struct dt_delivery_batch batch = {
                .fence = &s->fence, .claims = s->list.v, .jobs = s->jobs, .arena = &s->arena};
            dt_assert_cmp(s->state, ==, DT_SENDER_SENDING);
            s->err = (struct dt_error){0};
            if (!dt_delivery_begun(s->delivery))
                dt_delivery_begin(s->delivery, &batch, false);
            s->status = dt_delivery_commit(s->delivery, &s->err);
        }
        atomic_store(&s->busy, false);
        s->done(s->arg);
    }
}

dt_status dt_sender_request(struct dt_sender *s, enum dt_sender_state state, const struct dt_fence *fence,
                            const struct dt_inflight *list)
{
    dt_assert(!s->busy);
    dt_assert_cmp(s->state, ==, state == DT_SENDER_OPENING ? DT_SENDER_CLOSED : DT_SENDER_OPEN);
    dt_assert(fence->inflight == list->n || DT_UNGUARDED(REST));
    s->list.n = 0;
    dt_status status = dt_inflight_append(&s->list, list);
    if (status != DT_OK)
        return status;
    s->fence = *fence;
    s->state = state;
    atomic_store(&s->busy, true);
    dt_mailbox_signal(s->mailbox, REQUEST);
    return DT_OK;
}

void dt_sender_close(struct dt_sender *s)
{
    dt_assert(!s->busy);
    s->state = DT_SENDER_CLOSED;
    atomic_store(&s->busy, true);
    dt_mailbox_signal(s->mailbox, REQUEST);
}

dt_status dt_sender_start(struct dt_sender *s, dt_delivery *delivery, void (*done)(void *arg), void *arg)
{
    s->delivery = delivery;
    s->done = done;
    s->arg = arg;
    dt_status status = dt_mailbox_new(&s->mailbox);
    return status == DT_OK ? dt_thread_start(&s->thread, "delivery", run_sender, s, NULL) : status;
}

void dt_sender_stop(struct dt_sender *s)
{
    if (!s->mailbox)
        return;
    dt_thread_stop(&s->thread, s->mailbox);
    dt_mailbox_free(s->mailbox);
    s->mailbox = NULL;
    dt_inflight_clear(&s->list);
    dt_arena_clear(&s->arena);
}

/*
 * ---- the batch: a transaction in MySQL (settle, time out, claim), then a transaction of the delivery (messages and
 * their ledger record) ----
 *
 * Invariants:
 *   - A claim is never undone. flight.list is the in-flight list in the shard's row. Its first fence.send_n entries are
 *     sent exactly as they are, and flight.sent becomes true only after a clean commit.
 *   - After any outcome except a clean commit nothing is sent again from memory: the caller takes over, and the ledger
 *     decides.
 *   - If the delivery gets messages before their claim is committed, it commits the messages after the claim, or never.
 *   - If a part of the list was not sent, it is sent before anything is claimed. Its messages are read from the rows
 *     again, in whatever state the rows are.
 */

/* Longest time between two reads of MySQL's clock; an idle leader must wake on time by it. */
#define CLOCK_US INT64_C(10000000)

dt_status dt_shard_check_fence(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_installation inst = {0};
    dt_status status = dt_store_fence_check(l->store, &l->fence, &inst, err);
    l->checked.fence_us = dt_shard_mono_us(l);
    if (status == DT_OK && l->checked.fence_us - l->checked.clock_us >= CLOCK_US) {
        l->checked.clock_us = l->checked.fence_us;
        status = dt_store_ping(l->store, err);
    }
    if (status == DT_OK && inst.generation != l->trust.map.generation)
        l->env->stale_map(l->env->arg);
    if (status == DT_OK && !l->index && inst.topics_version != dt_topic_snapshot_version(l->snapshot))
        dt_mailbox_signal(l->mailbox, DT_LOOP_AGAIN);
    return status;
}

/* ---- sending ---- */

/* Requests to send the head of the in-flight list; its claim is committed in MySQL. jobs: the messages of the head, in
 * l->arena. */
static dt_status send_list_head(dt_shard_loop *l, const struct dt_outgoing *jobs, struct dt_error *err)
{
    struct dt_sender *s = &l->sender;
    const struct dt_arena unused = s->arena;
    dt_assert(!s->busy); /* during a request, the sender's thread reads s->arena */
    s->arena = l->arena;
    l->arena = unused;
    s->jobs = jobs;
    s->requested_us = dt_shard_mono_us(l);
    dt_status status = dt_sender_request(s, DT_SENDER_SENDING, &l->fence, &l->flight.list);
    return status == DT_OK ? DT_OK : dt_fail(err, status, "out of memory");
}

/* Called while MySQL writes the claim: passes the messages to the delivery, which commits them only after the claim. */
static void begin_send_before_claim(void *arg, const struct dt_fence *next, const struct dt_outgoing *jobs,
                                    const struct dt_claim *claims, size_t)
{
    dt_shard_loop *l = arg;
    const struct dt_delivery_batch batch = {.fence = next, .claims = claims, .jobs = jobs, .arena = &l->arena};
    dt_delivery_begin(l->delivery, &batch, true);
}

dt_status dt_shard_send_remainder(dt_shard_loop *l, struct dt_error *err)
{
    const struct dt_inflight head = {.v = l->flight.list.v, .n = l->fence.send_n};
    struct dt_outgoing *batch;
    if (head.n == 0)
        return DT_OK;
    dt_arena_reset(&l->arena);
    dt_delivery_clear(l->delivery);
    dt_status status = dt_store_read_outgoing(l->store, &head, &l->arena, &batch, err);
    return status == DT_OK ? send_list_head(l, batch, err) : status;
}

/* ---- the leader transaction ---- */

static struct dt_leader_txn leader_txn_of(dt_shard_loop *l, int64_t now_us)
{
    const struct dt_config *config = l->env->config;
    const struct dt_flight *flight = &l->flight;
    /* If the send was late, settling renews the deadlines: the attempts' time to report began with the claim. */
    bool late = now_us - flight->claimed_us > dt_ack_may_lose_ms(flight->shortest_ack_ms) * 1000;
    return (struct dt_leader_txn){.sent = {.list = &flight->list,
                                           .frozen = l->sender.state != DT_SENDER_OPEN,
                                           .park = dt_shard_sender_stalled(l),
                                           .offset = flight->settle_offset,
                                           .extend_deadlines = late},
                                  .due = {.hints = l->fair.hints,
                                          .n_hints = l->fair.n_hints,
                                          .max_jobs = (size_t)config->dispatch_batch_jobs,
                                          .max_bytes = (size_t)config->dispatch_batch_bytes,
                                          .max_topics = (size_t)config->dispatch_batch_topics,
                                          .turns = &l->turns,
                                          .map = &l->trust.map,
                                          .topics = l->snapshot,
                                          .read_up_to = l->env->read_up_to(l->env->arg)},
                                  .gate = {.writable = dt_shard_writable,
                                           .arg = l,
                                           .take = dt_hands_claims_take,
                                           .hands = l->claims,
                                           .allowed = dt_shard_limit_allowed,
                                           .limits = l},
                                  .listener = {.claiming = begin_send_before_claim, .arg = l},
                                  .arena = &l->arena};
}

static dt_status commit_leader_txn(dt_shard_loop *l, struct dt_leader_txn *txn, struct dt_error *err)
{
    struct dt_inflight *list = &l->flight.list;
    struct dt_error ahead = {0};
    int64_t start_us = dt_shard_mono_us(l);
    bool open = l->sender.state == DT_SENDER_OPEN;
    dt_assert(!open || !list->n || l->flight.sent); /* only a batch that was sent can be settled */
    dt_assert(list->n == l->fence.inflight || DT_UNGUARDED(REST));
    dt_arena_reset(&l->arena);
    if (open)
        dt_delivery_clear(l->delivery);
    dt_hands_claims_begin(l->claims);
    *txn = leader_txn_of(l, start_us);
    dt_status status = dt_leader_txn_commit(l->store, &l->fence, txn, err);
    if (status == DT_OK || DT_UNGUARDED(CALL_CONFIRMED))
        dt_hands_claims_committed(l->claims, &txn->hands.claimed, l->snapshot);
    if (status != DT_OK) {
        dt_hands_claims_failed(l->claims);
        /* The delivery may have failed to begin the batch. That does not end the leader transaction, but may be the
         * reason why the transaction took so long. */
        dt_status begun = open ? dt_delivery_begin_status(l->delivery, &ahead) : DT_OK;
        if (begun != DT_OK)
            DT_LOG(WARN, "shard", "the delivery failed before the claim", DT_I("shard", l->shard),
                   DT_S("status", dt_status_name(begun)), DT_S("reason", ahead.text));
        return status;
    }
    dt_metric_observe(l->meters.leader_txn_seconds, (double)(dt_shard_mono_us(l) - start_us) / 1e6);
    dt_metric_add(l->meters.timed_out, (int64_t)txn->timed_out.n);
    dt_metric_add(l->meters.lost, (int64_t)txn->hands.lost);
    if (txn->hands.full)
        l->full_us = start_us;
    l->checked.fence_us = start_us;
    dt_assert(open || !txn->batch.n);
    if (!open)
        return DT_OK;
    if (txn->batch.n) {
        l->flight.claimed_us = start_us;
        l->flight.shortest_ack_ms = txn->chosen.shortest_ack_ms;
    }
    /* Makes flight.list equal to the list in the row: removes settled entries, adds claimed entries. */
    l->flight.sent = false;
    dt_inflight_drop(list, txn->settled.n);
    status = dt_inflight_reserve(list, list->n + txn->batch.n);
    for (size_t i = 0; status == DT_OK && i < txn->batch.n; i++)
        list->v[list->n++] = txn->batch.jobs[i].claim;
    return status;
}

dt_status dt_shard_batch(dt_shard_loop *l, struct dt_leader_txn *txn, struct dt_error *err)
{
    dt_status status = commit_leader_txn(l, txn, err);
    if (status != DT_OK)
        return status;
    dt_shard_limits_note(l, txn);
    DT_FAIL_POINT("index.before_told");
    dt_shard_tell_offers(l, txn);
    /* Updates the index while the delivery takes the messages. The jobs are claimed whether or not their messages are
     * sent. */
    dt_shard_tell_index(l, txn);
    if (txn->batch.n)
        status = send_list_head(l, txn->batch.jobs, err);
    if (txn->timed_out.outbox)
        l->env->outbox(l->env->arg, l->shard);
    if (txn->judged.unread) {
        l->due.unread_ms = dt_later(l->due.unread_ms, txn->judged.unread_ms);
        l->env->want_read(l->env->arg, l->shard, l->due.unread_ms);
    }
    if (txn->judged.orphan.p) {
        const struct dt_str topic = txn->judged.orphan;
        bool news = !dt_str_is(topic, l->orphan.topic);
        snprintf(l->orphan.topic, sizeof(l->orphan.topic), "%.*s", (int)topic.n, topic.p);
        l->orphan.met_us = dt_shard_mono_us(l);
        if (news)
            DT_LOG(ERROR, "shard", "due jobs wait: their topic has no row in `topics`", DT_I("shard", l->shard),
                   DT_S("topic", l->orphan.topic));
    }
    if (status == DT_OK && txn->settled.remainder)
        status = dt_shard_send_remainder(l, err);
    return status;
}

dt_status dt_shard_settle(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_leader_txn txn;
    dt_status status;
    l->fair.n_hints = 0;
    if (!l->flight.list.n || !l->flight.sent || l->sender.state != DT_SENDER_OPEN)
        return DT_OK;
    status = commit_leader_txn(l, &txn, err);
    if (status == DT_OK)
        dt_shard_tell_index(l, &txn);
    return status;
}
