/*
 * Taking a shard over, in two steps:
 *
 *   row     In MySQL, on a fresh connection: writes epoch + 1 and a new token, and reads the row's in-flight list. Then
 *           the loop leads: it sends callbacks and makes offers. The list is frozen.
 *   ledger  On the sender's thread: opens the delivery, which fences earlier leaders, and reads what was sent. Then one
 *           leader transaction settles what was sent and applies a remembered refusal, or halts the shard.
 *
 * Invariants:
 *   - Nothing is kept from an earlier leadership except the refusal that the delivery remembers.
 *   - If it is unknown what was sent, the row gets a new epoch before the delivery is opened again. So a ledger is
 *     never read under the epoch of a batch that it may hold.
 *   - Until the ledger is read, the list, send_n, batch_no and ledger_offset keep their values, however many epochs
 *     follow.
 *   - Only the settling transaction halts a shard, with the row locked and still ours. So a deposed process halts none.
 */

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "features/doctor/process_findings.h"
#include "shard_parts.h"

#define PAUSE_FIRST_US INT64_C(20000)
#define PAUSE_MAX_US   INT64_C(2000000)
#define PAUSE_ALARM_US INT64_C(10000000) /* longest pause if only an operator can fix the cause */

int64_t dt_shard_backoff_us(const dt_shard_loop *l, unsigned failures, bool alarm)
{
    int64_t most_us = PAUSE_FIRST_US << (failures < 8 ? failures : 8);
    most_us = alarm ? PAUSE_ALARM_US : dt_earlier(most_us, PAUSE_MAX_US);
    return most_us / 2 + (int64_t)(l->env->random() % (uint64_t)(most_us / 2 + 1));
}

/* Settles what the ledger shows, in one leader transaction. The delivery remembers its refusal until this transaction
 * is known to be committed. */
static dt_status settle_takeover(dt_shard_loop *l, const struct dt_delivery_findings *found, struct dt_error *err)
{
    const struct dt_findings findings = {.inflight = &l->flight.list,
                                         .sent = found->sent,
                                         .next_offset = found->next_offset,
                                         .refused = found->refused,
                                         .refusal = found->refusal,
                                         .map = &l->trust.map};
    struct dt_settled done;
    dt_status status = dt_store_takeover_settle(l->store, &l->fence, &findings, &done, err);
    if (status != DT_OK)
        return status;
    if (done.shrink.undeliverable) {
        const struct dt_claim *claim = &l->flight.list.v[0];
        if (done.ended)
            dt_shard_tell_moved(l, claim->id, &done);
        dt_metric_add(l->meters.undeliverable, 1);
        DT_LOG(ERROR, "shard", "undeliverable: this message is permanently refused", DT_I("shard", l->shard),
               DT_I("job", claim->id), DT_I("attempt", claim->attempt), DT_S("reason", found->refusal));
    }
    dt_delivery_settled(l->delivery, found);
    dt_assert_cmp(done.shrink.leave, <=, l->flight.list.n);
    dt_inflight_drop(&l->flight.list, done.shrink.leave);
    dt_assert_cmp(l->flight.list.n, ==, l->fence.inflight);
    DT_LOG(INFO, "shard", "took over", DT_I("shard", l->shard), DT_I("epoch", l->fence.epoch),
           DT_I("settled", done.shrink.leave), DT_I("in_flight", l->flight.list.n), DT_I("send_n", l->fence.send_n),
           DT_I("offset", l->fence.ledger_offset));
    if (done.outbox)
        l->env->outbox(l->env->arg, l->shard);
    return DT_OK;
}

dt_status dt_shard_begin_epoch(dt_shard_loop *l, struct dt_error *err)
{
    dt_metric_add(l->meters.takeovers, 1);
    l->flight.list.n = 0;
    l->flight.sent = false;
    l->flight.claimed_us = l->flight.shortest_ack_ms = 0;
    dt_topic_snapshot_forget(l->snapshot);
    dt_shard_read_map(l);
    const struct dt_leadership who = {.shard = l->shard,
                                      .token = (int64_t)l->env->random(),
                                      .owner = l->env->owner,
                                      .index_at = dt_index_home(l->index, l->shard)};
    dt_status status = dt_store_takeover(l->store, &who, &l->fence, &l->flight.list, err);
    DT_FAIL_POINT_STATUS("takeover.epoch", status, err);
    if (status == DT_OK) {
        dt_assert_cmp(l->flight.list.n, ==, l->fence.inflight);
        dt_assert_cmp(l->fence.send_n, <=, l->fence.inflight);
    }
    return status;
}

/* ---- deaths ---- */

/* Waits while this shard must have no leader because processes keep dying at its assertions. Otherwise the shard would
 * end one dispatcher after the other, with the leaderships of their other shards. If MySQL does not answer, returns at
 * once, because the takeover then fails as well. */
void dt_shard_wait_after_deaths(dt_shard_loop *l)
{
    struct dt_error err = {0};
    struct dt_deaths deaths;
    bool logged = false;
    dt_assert_shard(l->shard);
    while (!l->orders.stop && !l->orders.release && dt_store_deaths(l->store, l->shard, &deaths, &err) == DT_OK &&
           deaths.wait_ms > 0) {
        if (!logged)
            DT_LOG(ERROR, "shard", "no takeover for now: processes died at an assertion of this shard",
                   DT_I("shard", l->shard), DT_S("where", deaths.where), DT_I("ms", deaths.wait_ms));
        logged = true;
        dt_mailbox_pause(l->mailbox, dt_shard_mono_us(l) + deaths.wait_ms * 1000, STOP | RELEASE);
    }
    const bool broken = l->shard == 0 && DT_FAIL_FORCED("lead.broken"); /* an assertion fails in a test */
    dt_assert(!broken);
}

/* ---- the sender ---- */

/* Records that the delivery failed. The leadership continues without the delivery. */
static void handle_sender_failure(dt_shard_loop *l, dt_status status, const struct dt_error *why)
{
    struct dt_sender *s = &l->sender;
    int64_t now_us = dt_shard_mono_us(l);
    int64_t pause_us = dt_shard_backoff_us(l, s->failures, why->alarm);
    if (status == DT_REFUSED && s->state == DT_SENDER_SENDING)
        pause_us = 0; /* no pause, because the next opening settles the refused message */
    else if (status == DT_REFUSED)
        dt_delivery_forget_refusal(l->delivery);
    dt_sender_close(s);
    s->failures++;
    s->wanted_us = s->wanted_us ? s->wanted_us : now_us;
    s->retry_us = now_us + pause_us;
    dt_outage_failed(&s->outage, DT_OUTAGE_KAFKA, "shard", "the delivery by Kafka failed: it is opened again", status,
                     why);
}

static dt_status finish_sender_opening(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_sender *s = &l->sender;
    struct dt_installation inst;
    if (s->status != DT_OK) {
        handle_sender_failure(l, s->status, &s->err);
        return DT_OK;
    }
    dt_status status = dt_store_fence_check(l->store, &l->fence, &inst, err);
    DT_FAIL_POINT_STATUS("takeover.checked", status, err);
    if (status == DT_OK && s->found.halt[0]) {
        const struct dt_findings findings = {.inflight = &l->flight.list, .halt = s->found.halt};
        struct dt_settled done;
        status = dt_store_takeover_settle(l->store, &l->fence, &findings, &done, err);
        if (status == DT_OK)
            status = dt_fail(err, DT_HALTED, "%s", s->found.halt);
    } else if (status == DT_OK) {
        status = settle_takeover(l, &s->found, err);
    }
    DT_FAIL_POINT_STATUS("takeover.settled", status, err);
    DT_THEN(status, dt_delivery_start(l->delivery, l->store, &l->fence, err));
    if (status != DT_OK)
        return status;
    dt_outage_over(&s->outage);
    s->state = DT_SENDER_OPEN;
    if (s->wanted_us)
        dt_shard_topics_changed(l); /* parked jobs may be sent now */
    s->wanted_us = 0;
    dt_shard_due_from_start(l);
    l->pace.next_us = l->pace.began_us = 0;
    l->pace.took_all = false;
    return dt_shard_send_remainder(l, err);
}

static dt_status finish_sending(dt_shard_loop *l)
{
    struct dt_sender *s = &l->sender;
    struct dt_delivered done;
    dt_status status = dt_delivery_finish(l->delivery, s->status, &l->fence, &l->flight.list, &done, &s->err);
    if (status != DT_OK) {
        handle_sender_failure(l, status, &s->err);
        return DT_OK;
    }
    if (dt_shard_sender_stalled(l))
        dt_shard_topics_changed(l);
    s->state = DT_SENDER_OPEN;
    s->failures = 0;
    dt_assert(!l->flight.sent);
    dt_assert_cmp(l->fence.send_n, <=, l->flight.list.n);
    l->flight.sent = true;
    l->flight.sent_us = dt_shard_mono_us(l);
    l->flight.settle_offset = done.settle_offset;
    int64_t now_ms = dt_refclock_latest_ms(l->env->ref);
    for (size_t i = 0; i < l->fence.send_n; i++)
        dt_metric_observe(l->meters.lateness, (double)(now_ms - l->flight.list.v[i].due_ms) / 1000);
    dt_metric_add(l->meters.dispatched, (int64_t)l->fence.send_n);
    dt_metric_observe(l->meters.batch, (double)l->fence.send_n);
    if (done.reopened)
        dt_shard_topics_changed(l);
    return DT_OK;
}

dt_status dt_shard_tend_sender(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_sender *s = &l->sender;
    if (s->busy)
        return DT_OK;
    if (s->abandoned) { /* the delivery must be closed before it is opened again; that needs a request of its own */
        s->abandoned = false;
        dt_sender_close(s);
        return DT_OK;
    }
    if (s->state == DT_SENDER_OPENING)
        return finish_sender_opening(l, err);
    if (s->state == DT_SENDER_SENDING)
        return finish_sending(l);
    if (s->state == DT_SENDER_OPEN || s->idle || dt_shard_mono_us(l) < s->retry_us)
        return DT_OK;
    s->wanted_us = s->wanted_us ? s->wanted_us : dt_shard_mono_us(l);
    if (s->epoch == l->fence.epoch) { /* the delivery was already opened once in this epoch */
        const struct dt_marker was = dt_shard_marker(l);
        dt_status status = dt_shard_begin_epoch(l, err);
        if (status != DT_OK)
            return status;
        dt_shard_trust_renew(l, &was);
    }
    s->epoch = l->fence.epoch;
    s->requested_us = dt_shard_mono_us(l);
    return dt_sender_request(s, DT_SENDER_OPENING, &l->fence, &l->flight.list);
}

void dt_shard_abandon_sender(dt_shard_loop *l)
{
    struct dt_sender *s = &l->sender;
    s->abandoned = s->busy;
    if (!s->abandoned)
        dt_sender_close(s); /* closes the delivery now, because the next takeover may be much later */
}
