/*
 * Trimming the ledger. Its records are needed from ledger_offset on, and from the ledger_offset of every earlier copy
 * of MySQL that may be put back. So only what lies below trim_offset goes, and only after the row has held that value
 * for [ledger] trim_after, a day by default: whatever copy of the last day is put back finds its part of the ledger
 * whole. An older copy finds its offset out of range, and the shard halts.
 *
 * The last record below trim_offset stays as well: whoever reads from there on must find it, or the ledger was
 * recreated (ledger_record.c).
 *
 * Kafka is asked on another thread, once in trim_after. A leader's transaction then writes down the next trim_offset.
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
#include "base/hooks/guard.h"
#include "base/log.h"
#include "base/outage.h"
#include "shard_parts.h"

#define AGAIN_US INT64_C(60000000) /* after a failure */
static const char not_trimmed[] = "the ledger was not trimmed";

#define BUSY_US INT64_C(1000000) /* while another shard's ledger is trimmed */

void dt_shard_trim_forget(dt_shard_loop *l)
{
    dt_ledger_trim_free(l->trim);
    l->trim = NULL;
    l->trimmed_below = 0;
}

/* A shard that has sent nothing since has nothing to write down. */
static dt_status move_on(dt_shard_loop *l, struct dt_error *err)
{
    return l->lease.trim_offset < l->lease.ledger_offset ? dt_store_trimmed(l->store, &l->lease, err) : DT_OK;
}

static dt_status finish(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_error why = {0};
    dt_status status;
    if (!dt_ledger_trim_done(l->trim, &status, &why))
        return DT_OK;
    dt_ledger_trim_free(l->trim);
    l->trim = NULL;
    if (status == DT_OK) {
        dt_outage_over(&l->trim_outage);
        DT_LOG(INFO, "shard", "ledger trimmed", DT_I("shard", l->shard), DT_I("below", l->lease.trim_offset - 1));
        dt_metric_add(l->meters.trims, 1);
        l->trimmed_below = l->lease.trim_offset;
        return move_on(l, err);
    }
    l->trim_again_us = dt_shard_mono_us(l) + AGAIN_US;
    dt_outage_failed(&l->trim_outage, DT_OUTAGE_KAFKA, "shard", not_trimmed, status, &why);
    return DT_OK;
}

static bool held_long_enough(const dt_shard_loop *l)
{
    return dt_refclock_earliest_ms(l->env->ref) - l->lease.trim_at_ms >= l->env->config->ledger_trim_after;
}

static bool nothing_to_delete(const dt_shard_loop *l)
{
    bool young = l->lease.trim_offset < DT_LEDGER_YOUNG && !DT_UNGUARDED(TRIM_YOUNG);
    return young || l->lease.trim_offset <= l->trimmed_below;
}

dt_status dt_shard_trim(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_error why = {0};
    struct dt_installation inst;
    if (l->trim)
        return finish(l, err);
    if (l->lease.trim_offset < 0) /* the row begins to hold it */
        return dt_store_trimmed(l->store, &l->lease, err);
    if (!held_long_enough(l) || dt_shard_mono_us(l) < l->trim_again_us)
        return DT_OK;
    if (nothing_to_delete(l))
        return move_on(l, err);
    dt_status status = dt_store_lease_check(l->store, &l->lease, &inst, err); /* it says so now, too */
    if (status != DT_OK)
        return status;
    status = dt_ledger_trim_start(l->env->kafka, l->shard, l->lease.trim_offset - 1, &l->trim, &why);
    if (status != DT_OK)
        l->trim_again_us = dt_shard_mono_us(l) + (status == DT_FULL ? BUSY_US : AGAIN_US);
    if (status != DT_OK && status != DT_FULL)
        dt_outage_failed(&l->trim_outage, DT_OUTAGE_KAFKA, "shard", not_trimmed, status, &why);
    return DT_OK;
}
