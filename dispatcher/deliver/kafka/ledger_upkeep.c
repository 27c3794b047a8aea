/*
 * The ledger's upkeep while a shard is led: trimming it. Its records are needed from ledger_offset on, and from the
 * ledger_offset of every earlier copy of MySQL that may be put back. So only what lies below trim_offset goes, and only
 * after the row has held that value for [ledger] trim_after, a day by default: whatever copy of the last day is put
 * back finds its part of the ledger whole. An older copy finds its offset out of range, and the shard halts.
 *
 * The last record below trim_offset stays as well: whoever reads from there on must find it, or the ledger was
 * recreated (ledger_record.c).
 *
 * Kafka is asked on another thread, once in trim_after. A leader transaction then writes down the next trim_offset.
 * A process that is killed in between leaves the same records to the next leader, which deletes them again: that
 * changes nothing.
 *
 * A request may be carried out long after it was sent, on a ledger that was made anew meanwhile (the topic deleted and
 * created), and no look at the ledger beforehand changes that. There, a record below the row's offset is all that tells
 * of a batch that went into the new ledger: the leader that sent it takes over, or is dead by then. So a request never
 * covers what a takeover may have to read once more: nothing below DT_LEDGER_YOUNG. Then, whenever the request arrives:
 *
 *   - The row's offset is young. Its trim_offset is not above that, so no request was ever made, and the takeover finds
 *     the new ledger whole. (If the row began anew, after dt_clear_halt, a request of before is about an offset that
 *     the ledger does not have, and Kafka refuses it. If the ledger has grown that far, the request deletes what is
 *     settled. If it reaches beyond the row's offset, it deletes that, too, and the next takeover halts.)
 *   - The row's offset is not young. The new ledger does not reach it. As long as it does not reach trim_offset, Kafka
 *     refuses the request. After that the ledger's end is below the row's offset all the same, which halts the shard.
 *     Where strangers have filled it so far, the request leaves what stands right before the row's offset, and that is
 *     no record of ours.
 *
 * Invariants:
 *   - A step returns at once; dispatching never waits for the trimming.
 *   - A young ledger keeps its beginning.
 */
#include "base/assert.h"
#include "base/guard.h"
#include "base/log.h"
#include "delivery_kafka.h"

#define AGAIN_US INT64_C(60000000) /* after a failure */
#define BUSY_US  INT64_C(1000000)  /* while another shard's ledger is trimmed */

static const char not_trimmed[] = "the ledger was not trimmed";

void dt_ledger_upkeep_forget(struct dt_ledger_upkeep *upkeep)
{
    dt_ledger_trim_free(upkeep->trim);
    upkeep->trim = NULL;
    upkeep->trimmed_below = 0;
}

/* A shard that has sent nothing since has nothing to write down. */
static dt_status move_on(dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    return fence->trim_offset < fence->ledger_offset ? dt_store_trimmed(store, fence, err) : DT_OK;
}

static dt_status finish(dt_delivery *d, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    struct dt_ledger_upkeep *upkeep = &d->upkeep;
    struct dt_error why = {0};
    dt_status status;
    if (!dt_ledger_trim_done(upkeep->trim, &status, &why))
        return DT_OK;
    dt_ledger_trim_free(upkeep->trim);
    upkeep->trim = NULL;
    if (status == DT_OK) {
        dt_outage_over(&upkeep->outage);
        DT_LOG(INFO, "shard", "ledger trimmed", DT_I("shard", d->env.shard), DT_I("below", fence->trim_offset - 1));
        dt_metric_add(upkeep->trims, 1);
        upkeep->trimmed_below = fence->trim_offset;
        return move_on(store, fence, err);
    }
    upkeep->again_us = dt_clock_mono_us(d->env.clock) + AGAIN_US;
    dt_outage_failed(&upkeep->outage, DT_OUTAGE_KAFKA, "shard", not_trimmed, status, &why);
    return DT_OK;
}

dt_status dt_delivery_tend(dt_delivery *d, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    struct dt_ledger_upkeep *upkeep = &d->upkeep;
    int64_t now_us = dt_clock_mono_us(d->env.clock);
    struct dt_error why = {0};
    struct dt_installation inst;
    if (!d->kafka)
        return DT_OK;
    if (upkeep->trim)
        return finish(d, store, fence, err);
    if (fence->trim_offset < 0) /* the row begins to hold it */
        return dt_store_trimmed(store, fence, err);
    bool held = dt_refclock_earliest_ms(d->env.ref) - fence->trim_at_ms >= d->env.config->ledger_trim_after;
    if (!held || now_us < upkeep->again_us)
        return DT_OK;
    bool young = fence->trim_offset < DT_LEDGER_YOUNG && !DT_UNGUARDED(TRIM_YOUNG);
    if (young || fence->trim_offset <= upkeep->trimmed_below)
        return move_on(store, fence, err);
    dt_status status = dt_store_fence_check(store, fence, &inst, err); /* it says so now, too */
    if (status != DT_OK)
        return status;
    status = dt_ledger_trim_start(d->kafka, d->env.shard, fence->trim_offset - 1, &upkeep->trim, &why);
    if (status != DT_OK)
        upkeep->again_us = dt_clock_mono_us(d->env.clock) + (status == DT_FULL ? BUSY_US : AGAIN_US);
    if (status != DT_OK && status != DT_FULL)
        dt_outage_failed(&upkeep->outage, DT_OUTAGE_KAFKA, "shard", not_trimmed, status, &why);
    dt_assert((status == DT_OK) == !!upkeep->trim);
    return DT_OK;
}

/* A row that holds no trim_offset begins to hold one before the ledger is relied on. */
dt_status dt_delivery_start(dt_delivery *d, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    return fence->trim_offset < 0 ? dt_delivery_tend(d, store, fence, err) : DT_OK;
}
