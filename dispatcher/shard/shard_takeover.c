/*
 * Taking a shard over: at the start of a leadership, and after any doubt. The order of the steps is the protocol's:
 *
 *   1  MySQL, on a fresh connection: epoch + 1, a new token, the owner. The in-flight list is read under the same lock.
 *   2  The delivery is fenced: no earlier leader of the shard can send or commit anything from now on.
 *   3  Is the row still ours? (Safety does not need this: it ends fights early.)
 *   4  The delivery reads what was sent, and judges it against the in-flight list.
 *   5  One leader transaction: what was sent is settled; then a remembered refusal is heard; or the shard is halted.
 *
 * Invariants:
 *   - Nothing is kept from before but the refusal that the delivery remembers.
 *   - Only step 5 halts, under the row's lock and with the row still ours: a deposed process halts nobody.
 */
#include <stdlib.h>

#include "base/hooks/fail_point.h"
#include "base/log.h"
#include "shard_parts.h"

static dt_status halt(dt_shard_loop *l, const char *why, struct dt_error *err)
{
    const struct dt_findings findings = {.inflight = &l->flight.list, .halt = why};
    struct dt_settled done;
    dt_status status = dt_store_takeover_settle(l->store, &l->fence, &findings, &done, err);
    return status == DT_OK ? dt_fail(err, DT_HALTED, "%s", why) : status;
}

static void tell_undeliverable(dt_shard_loop *l, const struct dt_settled *done, const char *reason)
{
    if (done->ended)
        dt_shard_tell_moved(l, l->flight.list.v[0].id, done);
    dt_metric_add(l->meters.undeliverable, 1);
    DT_LOG(ERROR, "shard", "undeliverable: this message is refused for good", DT_I("shard", l->shard),
           DT_I("job", l->flight.list.v[0].id), DT_I("attempt", l->flight.list.v[0].attempt), DT_S("reason", reason));
}

/* The refusal is remembered until this transaction is known to be committed. */
static dt_status settle(dt_shard_loop *l, const struct dt_delivery_findings *found, struct dt_error *err)
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
    if (done.shrink.undeliverable)
        tell_undeliverable(l, &done, found->refusal);
    dt_delivery_settled(l->delivery, found);
    dt_shard_drop_settled(l, done.shrink.leave);
    DT_LOG(INFO, "shard", "took over", DT_I("shard", l->shard), DT_I("epoch", l->fence.epoch),
           DT_I("settled", done.shrink.leave), DT_I("in_flight", l->flight.list.n), DT_I("send_n", l->fence.send_n),
           DT_I("offset", l->fence.ledger_offset));
    if (done.outbox)
        l->env->outbox(l->env->arg, l->shard);
    return DT_OK;
}

static dt_status judge(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_delivery_findings found;
    dt_status status = dt_delivery_read(l->delivery, &l->fence, &l->flight.list, &found, err);
    if (status == DT_OK)
        status = found.halt[0] ? halt(l, found.halt, err) : settle(l, &found, err);
    DT_FAIL_POINT_STATUS("takeover.settled", status, err);
    return status;
}

static void forget_leadership(dt_shard_loop *l)
{
    dt_shard_forget_flight(l);
    dt_delivery_forget(l->delivery);
    dt_topic_snapshot_forget(l->snapshot);
}

dt_status dt_shard_take_over(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_installation inst;
    dt_metric_add(l->meters.takeovers, 1);
    forget_leadership(l);
    dt_shard_read_map(l);
    const struct dt_leadership who = {.shard = l->shard,
                                      .token = (int64_t)l->env->random(l->env->arg),
                                      .owner = l->env->owner,
                                      .index_at = dt_index_home(l->index, l->shard)};
    dt_status status = dt_store_takeover(l->store, &who, &l->fence, &l->flight.list, err);
    DT_FAIL_POINT_STATUS("takeover.epoch", status, err);
    if (status == DT_OK)
        status = dt_delivery_fence(l->delivery, &l->fence, err);
    DT_FAIL_POINT_STATUS("takeover.producer", status, err);
    if (status == DT_OK)
        status = dt_store_fence_check(l->store, &l->fence, &inst, err);
    DT_FAIL_POINT_STATUS("takeover.checked", status, err);
    if (status == DT_OK)
        status = judge(l, err);
    if (status == DT_REFUSED)
        dt_delivery_forget_refusal(l->delivery);
    return status;
}
