/*
 * The delivery's part in a takeover. The order of its steps is the protocol's:
 *
 *   fence   A new producer pair: init_transactions fences the old one and completes its transaction, under both
 *           transactional ids.
 *   read    Checks the ledger's settings and that a young ledger still reaches to ledger_offset. Writes a barrier into
 *           it, known by its token. Reads the ledger from ledger_offset up to that barrier, and the record right before
 *           ledger_offset, which must be one of ours. Whatever cannot be explained is a reason to halt.
 *
 * Refuses to know: what the leader does with the findings. Halting and settling are leader transactions
 * (shard/shard_takeover.c).
 */
#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "delivery_kafka.h"
#include "ledger_record.h"

#define BARRIER_WAIT_US INT64_C(15000000)
#define OUT_OF_RANGE    "ledger offset %lld is out of range: the ledger was trimmed or recreated"
#define NOT_OURS_BEFORE "ledger offset %lld: the record that was settled last is not there: the ledger was recreated"

/* ---- fence ---- */

dt_status dt_delivery_fence(dt_delivery *d, const struct dt_fence *fence, struct dt_error *err)
{
    dt_status status = DT_OK;
    dt_assert(!d->producer); /* dt_delivery_forget closed it */
    dt_assert_cmp(fence->shard, ==, d->env.shard);
    /* Only the ledger shows whether the attempts in flight were sent. Only an operator can bring Kafka back. */
    if (!d->kafka && fence->inflight) {
        status = dt_fail(err, DT_UNAVAILABLE,
                         "shard %u has %zu attempts in flight, and without Kafka (kafka.brokers is empty) nobody can "
                         "tell whether they were sent",
                         fence->shard, fence->inflight);
        if (err)
            err->alarm = true;
    }
    if (!d->kafka)
        return status;
    /* A shard that was never led is there because the number of shards has grown. Its first leader makes its partition.
     * If that is REFUSED for the ledger's settings, dt_delivery_read halts the shard for them. */
    if (fence->ledger_offset == 0 && !fence->inflight)
        status = dt_kafka_admin_ledger(d->kafka->admin, d->env.shard, DT_LEDGER_GROW, err);
    if (status == DT_OK || status == DT_REFUSED)
        status = dt_producer_new(d->kafka, d->env.shard, d->env.abort, &d->producer, err);
    return status;
}

/* ---- reading the ledger ---- */

/*
 * A ledger that was deleted and made anew is recognised by the row's offset, which it does not have. If that offset is
 * small, the new ledger has it soon again:
 *   - by the barrier of a takeover that came to nothing. So the ledger's end is looked at before our barrier is
 *   written.
 *   - by the batch of a leader that did not notice, or died before it could. So the ledger is read from its beginning,
 *     which no leader has trimmed (ledger_upkeep.c).
 */
static bool is_young(const struct dt_fence *fence)
{
    return fence->ledger_offset > 0 && fence->ledger_offset < DT_LEDGER_YOUNG && !DT_UNGUARDED(LEDGER_END);
}

/* view: NULL if only the ledger's range is looked at. */
static dt_status read_from(dt_delivery *d, int64_t from, struct dt_ledger_view *view, int64_t *next,
                           struct dt_error *err)
{
    struct dt_ledger_reading reading = {.from = from,
                                        .clock = d->env.clock,
                                        .deadline_us = dt_clock_mono_us(d->env.clock) + BARRIER_WAIT_US,
                                        .stop = d->env.abort,
                                        .fn = view ? dt_ledger_view_record : NULL,
                                        .arg = view};
    dt_status status = dt_ledger_read(d->kafka, d->env.shard, &reading, err);
    *next = reading.next;
    return status;
}

/*
 * The record before the row's offset is one of ours, unless it was deleted with all before it. An old ledger that was
 * recreated does not reach so far by what leaders write, because their takeovers halt. Strangers may have filled it:
 * then their record stands there, or a marker, which is no record.
 */
static dt_status read_from_before(dt_delivery *d, int64_t from, struct dt_ledger_view *view, int64_t *next,
                                  struct dt_error *err)
{
    dt_status status = DT_INVALID;
    /* Where an operator has chosen the offset, anything may stand before it; so it may at a shard's beginning. */
    bool knows = view->fence->ledger_offset > 0 && view->fence->trim_offset >= 0;
    if (is_young(view->fence))
        status = read_from(d, 0, view, next, err);
    if (status == DT_INVALID && knows) { /* not young; or somebody deleted its beginning */
        dt_ledger_view_again(view);
        status = read_from(d, from - 1, view, next, err);
    }
    if (status == DT_OK && knows && !DT_GUARD(LEDGER_ANCHOR, view->anchored) && view->barrier) {
        view->barrier = false;
        snprintf(view->problem, sizeof(view->problem), NOT_OURS_BEFORE, (long long)from - 1);
    }
    if (status != DT_INVALID)
        return status;
    dt_ledger_view_again(view);
    return read_from(d, from, view, next, err);
}

/* An operator may have chosen the end of the ledger (dt_clear_halt, -1): our barrier is where it ends now. */
static dt_status read_ledger(dt_delivery *d, int64_t barrier_at, struct dt_ledger_view *view, struct dt_error *err)
{
    int64_t next;
    int64_t from = view->fence->ledger_offset < 0 ? barrier_at : view->fence->ledger_offset;
    view->settled_below = from;
    dt_status status = read_from_before(d, from, view, &next, err);
    if (status == DT_OK && view->status != DT_OK)
        return dt_fail(err, view->status, "a record of the ledger was not read");
    if (DT_FAIL_FORCED("takeover.barrier_unseen"))
        view->barrier = false;
    if (DT_UNGUARDED(LEDGER_RANGE) && status == DT_INVALID) { /* taken for an empty ledger */
        view->barrier = true;
        view->next_offset = barrier_at + 1;
        return DT_OK;
    }
    if (DT_UNGUARDED(BARRIER) && status == DT_OK && !view->barrier && !view->problem[0]) {
        view->barrier = true;
        view->next_offset = next;
    }
    if (status == DT_INVALID) {
        snprintf(view->problem, sizeof(view->problem), OUT_OF_RANGE, (long long)from);
        return DT_OK;
    }
    if (status == DT_OK && !view->barrier && !view->problem[0])
        return dt_fail(err, DT_UNAVAILABLE, "the barrier did not come by");
    return status;
}

/* ---- the steps of read ---- */

/* A ledger that takes no barrier may be what refused the batch, too: then the remembered refusal is about no
 * message. */
static dt_status send_barrier(dt_delivery *d, const struct dt_fence *fence, int64_t *offset, struct dt_error *err)
{
    struct dt_strbuf value;
    dt_strbuf_init(&value);
    dt_ledger_format_barrier(&value, d->kafka->uuid, fence);
    dt_status status =
        value.failed ? DT_NOMEM
                     : dt_producer_send(d->producer, NULL, 0, DT_LEDGER_BARRIER, dt_strbuf_str(&value), offset, err);
    dt_strbuf_clear(&value);
    if (status != DT_OK)
        dt_delivery_forget_refusal(d);
    return status;
}

static dt_status judge(dt_delivery *d, const struct dt_fence *fence, const struct dt_inflight *inflight,
                       int64_t barrier_at, struct dt_delivery_findings *findings, struct dt_error *err)
{
    struct dt_ledger_view view;
    dt_status status = dt_ledger_view_init(&view, d->kafka->uuid, fence, inflight);
    if (status != DT_OK)
        return status;
    status = read_ledger(d, barrier_at, &view, err);
    DT_FAIL_POINT_STATUS("takeover.ledger", status, err);
    if (status == DT_OK) {
        dt_assert(view.barrier || view.problem[0]); /* it was read up to our barrier, or the shard halts */
        findings->sent = !DT_UNGUARDED(LEDGER_READ) && view.batches > 0;
        findings->next_offset = view.next_offset;
        d->strangers.found = (int64_t)view.strangers;
        d->strangers.found_at = view.stranger_at;
        snprintf(findings->halt, sizeof(findings->halt), "%s", view.problem);
    }
    dt_ledger_view_clear(&view);
    return status;
}

dt_status dt_delivery_read(dt_delivery *d, const struct dt_fence *fence, const struct dt_inflight *inflight,
                           struct dt_delivery_findings *findings, struct dt_error *err)
{
    int64_t barrier_at = -1;
    int64_t next;
    *findings = (struct dt_delivery_findings){.next_offset = fence->ledger_offset};
    dt_assert_cmp(fence->inflight, ==, inflight->n);
    if (!d->kafka) /* the list is empty, or the fence had failed */
        return DT_OK;
    *findings = (struct dt_delivery_findings){.refused = d->refused.list, .refusal = d->refused.why};
    /* A ledger that forgets by itself would be believed when it says nothing. */
    dt_status status = dt_kafka_admin_ledger(d->kafka->admin, d->env.shard, DT_LEDGER_CHECK, err);
    if (status == DT_REFUSED) {
        snprintf(findings->halt, sizeof(findings->halt), "%s", err->text);
        return DT_OK;
    }
    if (status == DT_OK && is_young(fence)) {
        status = read_from(d, fence->ledger_offset, NULL, &next, err);
        if (status == DT_INVALID) {
            snprintf(findings->halt, sizeof(findings->halt), OUT_OF_RANGE, (long long)fence->ledger_offset);
            return DT_OK;
        }
    }
    if (status != DT_OK)
        return status;
    status = send_barrier(d, fence, &barrier_at, err);
    DT_FAIL_POINT_STATUS("takeover.barrier", status, err);
    return status == DT_OK ? judge(d, fence, inflight, barrier_at, findings, err) : status;
}
