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
#include "base/hooks/fail_point.h"
#include "base/hooks/guard.h"
#include "delivery_kafka.h"
#include "ledger_record.h"

#define BARRIER_WAIT_US INT64_C(15000000)
#define OUT_OF_RANGE    "ledger offset %lld is out of range: the ledger was trimmed or recreated"
#define NOT_OURS_BEFORE "ledger offset %lld: the record that was settled last is not there: the ledger was recreated"

/* ---- fence ---- */

/* A shard that nobody has led yet is there because the number of shards has grown. Its first leader makes its
 * partition. */
static dt_status make_partition(struct dt_kafka_delivery *d, const struct dt_fence *fence, struct dt_error *err)
{
    if (fence->ledger_offset != 0 || fence->inflight)
        return DT_OK;
    dt_status status = dt_kafka_admin_grow_ledger(d->kafka->admin, d->env.shard, err);
    return status == DT_REFUSED ? DT_OK : status; /* its settings: check_settings tells */
}

dt_status dt_kafka_fence(dt_delivery *delivery, const struct dt_fence *fence, struct dt_error *err)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    dt_status status = make_partition(d, fence, err);
    if (status == DT_OK)
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

static dt_status read_with(struct dt_kafka_delivery *d, int64_t from, dt_ledger_fn *fn, void *arg, int64_t *next,
                           struct dt_error *err)
{
    struct dt_ledger_reading reading = {.from = from,
                                        .clock = d->env.clock,
                                        .deadline_us = dt_kafka_delivery_mono_us(d) + BARRIER_WAIT_US,
                                        .stop = d->env.abort,
                                        .fn = fn,
                                        .arg = arg};
    dt_status status = dt_ledger_read(d->kafka, d->env.shard, &reading, err);
    *next = reading.next;
    return status;
}

static dt_status read_from(struct dt_kafka_delivery *d, int64_t from, struct dt_ledger_view *view, int64_t *next,
                           struct dt_error *err)
{
    return read_with(d, from, dt_ledger_view_record, view, next, err);
}

/* Where an operator has chosen the offset, anything may stand before it; so it may at a shard's beginning. */
static bool knows_what_is_before(const struct dt_fence *fence)
{
    return fence->ledger_offset > 0 && fence->trim_offset >= 0;
}

/*
 * The record before the row's offset is one of ours, unless it was deleted with all before it. An old ledger that was
 * recreated does not reach so far by what leaders write, because their takeovers halt. Strangers may have filled it:
 * then their record stands there, or a marker, which is no record.
 */
static dt_status read_from_before(struct dt_kafka_delivery *d, int64_t from, struct dt_ledger_view *view, int64_t *next,
                                  struct dt_error *err)
{
    dt_status status = DT_INVALID;
    bool knows = knows_what_is_before(view->fence);
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
static dt_status read_ledger(struct dt_kafka_delivery *d, int64_t barrier_at, struct dt_ledger_view *view,
                             struct dt_error *err)
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

static void find_halt(struct dt_delivery_findings *findings, const char *why)
{
    snprintf(findings->halt, sizeof(findings->halt), "%s", why);
}

/* A ledger that forgets by itself would be believed when it says nothing. */
static dt_status check_settings(struct dt_kafka_delivery *d, struct dt_delivery_findings *findings,
                                struct dt_error *err)
{
    dt_status status = dt_kafka_admin_check_ledger(d->kafka->admin, d->env.shard, err);
    if (status != DT_REFUSED)
        return status;
    find_halt(findings, err->text);
    return DT_OK;
}

static dt_status check_end(struct dt_kafka_delivery *d, const struct dt_fence *fence,
                           struct dt_delivery_findings *findings, struct dt_error *err)
{
    int64_t next;
    if (!is_young(fence))
        return DT_OK;
    dt_status status = read_with(d, fence->ledger_offset, NULL, NULL, &next, err);
    if (status != DT_INVALID)
        return status;
    snprintf(findings->halt, sizeof(findings->halt), OUT_OF_RANGE, (long long)fence->ledger_offset);
    return DT_OK;
}

/* A ledger that takes no barrier may be what refused the batch, too: then the remembered refusal is about no
 * message. */
static dt_status send_barrier(struct dt_kafka_delivery *d, const struct dt_fence *fence, int64_t *offset,
                              struct dt_error *err)
{
    struct dt_strbuf value;
    dt_strbuf_init(&value);
    dt_ledger_format_barrier(&value, d->kafka->uuid, fence);
    dt_status status =
        value.failed ? DT_NOMEM
                     : dt_producer_send(d->producer, NULL, 0, DT_LEDGER_BARRIER, dt_strbuf_str(&value), offset, err);
    dt_strbuf_clear(&value);
    if (status != DT_OK)
        dt_kafka_forget_refusal(d);
    return status;
}

static void find(struct dt_kafka_delivery *d, const struct dt_ledger_view *view, struct dt_delivery_findings *findings)
{
    findings->sent = !DT_UNGUARDED(LEDGER_READ) && view->batches > 0;
    findings->next_offset = view->next_offset;
    dt_ledger_strangers_read(&d->strangers, (int64_t)view->strangers, view->stranger_at);
    find_halt(findings, view->problem);
}

static dt_status judge(struct dt_kafka_delivery *d, const struct dt_fence *fence, const struct dt_inflight *inflight,
                       int64_t barrier_at, struct dt_delivery_findings *findings, struct dt_error *err)
{
    struct dt_ledger_view view;
    dt_status status = dt_ledger_view_init(&view, d->kafka->uuid, fence, inflight);
    if (status != DT_OK)
        return status;
    status = read_ledger(d, barrier_at, &view, err);
    DT_FAIL_POINT_STATUS("takeover.ledger", status, err);
    if (status == DT_OK)
        find(d, &view, findings);
    dt_ledger_view_clear(&view);
    return status;
}

dt_status dt_kafka_read(dt_delivery *delivery, const struct dt_fence *fence, const struct dt_inflight *inflight,
                        struct dt_delivery_findings *findings, struct dt_error *err)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    int64_t barrier_at = -1;
    *findings = (struct dt_delivery_findings){.refused = d->refused.list, .refusal = d->refused.why};
    dt_status status = check_settings(d, findings, err);
    if (status == DT_OK && !findings->halt[0])
        status = check_end(d, fence, findings, err);
    if (status != DT_OK || findings->halt[0])
        return status;
    status = send_barrier(d, fence, &barrier_at, err);
    DT_FAIL_POINT_STATUS("takeover.barrier", status, err);
    return status == DT_OK ? judge(d, fence, inflight, barrier_at, findings, err) : status;
}
