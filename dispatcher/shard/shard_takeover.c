/*
 * Taking a shard over: at the start of a leadership, and after any doubt. The order of the steps is the protocol's:
 *
 *   1  MySQL, on a fresh connection: epoch + 1, a new token, the owner. The in-flight list is read under the same lock.
 *   2  A new producer: init_transactions fences the old one and completes its transaction, under both transactional
 *      ids.
 *   3  Is the row still ours? (Safety does not need this: it ends fights early.)
 *   4  The ledger still reaches to ledger_offset. A barrier goes into it, known by its token, and the ledger is read
 *      from ledger_offset up to that barrier, with the record before, which must be one of ours.
 *   5  One leader's transaction: what the ledger has is settled; then the hint is heard; or the shard is halted.
 *
 * Invariants:
 *   - Nothing is kept from before but the hint of a refusal: the exact list that this process had sent when Kafka
 *     refused it for good. The hint is heard in step 5 alone, after the ledger, and compared entry for entry. It is
 *     forgotten once it was heard, and also when Kafka refuses a step of the takeover itself, because then the refusal
 *     may have been about us and not about a message. A hint that is lost costs one more refusal.
 *   - Only step 5 halts, under the row's lock and with the row still ours: a deposed process halts nobody.
 */
#include <stdlib.h>

#include "base/hooks/fail_point.h"
#include "base/hooks/guard.h"
#include "base/log.h"
#include "delivery/kafka/ledger_record.h"
#include "shard_parts.h"

#define BARRIER_WAIT_US INT64_C(15000000)
#define TELL_AGAIN_US   INT64_C(60000000)
#define OUT_OF_RANGE    "ledger offset %lld is out of range: the ledger was trimmed or recreated"
#define NOT_OURS_BEFORE "ledger offset %lld: the record that was settled last is not there: the ledger was recreated"

/* ---- the hint ---- */

static void forget_refusal(dt_shard_loop *l)
{
    l->refused.list.n = 0;
}

static bool copy_claims(struct dt_claims *to, const struct dt_claim *from, size_t n)
{
    if (n > to->cap) {
        struct dt_claim *v = realloc(to->v, n * sizeof(*v));
        if (!v)
            return false;
        to->v = v;
        to->cap = n;
    }
    memcpy(to->v, from, n * sizeof(*from));
    to->n = n;
    return true;
}

void dt_shard_remember_refusal(dt_shard_loop *l, const struct dt_error *err)
{
    struct dt_kafka_refusal refusal = dt_producer_refusal(l->producer);
    dt_metric_add(l->meters.refusals, 1);
    forget_refusal(l);
    if (!copy_claims(&l->refused.list, l->flight.list.v, l->lease.send_n))
        return; /* Kafka will refuse it again */
    snprintf(l->refused.why, sizeof(l->refused.why), "%s", err->text);
    if (refusal.topic[0])
        dt_topic_gate_refused(l->gate, dt_str(refusal.topic), refusal.whole_topic, err->text);
    DT_LOG(WARN, "shard", "Kafka refuses a message of a batch for good", DT_I("shard", l->shard),
           DT_I("batch", l->lease.send_n), DT_S("reason", err->text));
}

/* ---- step 4 ---- */

/* A ledger that takes no barrier may be what refused the batch, too: then the hint is about no message. */
static dt_status send_barrier(dt_shard_loop *l, int64_t *offset, struct dt_error *err)
{
    struct dt_strbuf value;
    dt_strbuf_init(&value);
    dt_ledger_format_barrier(&value, l->env->kafka->uuid, &l->lease);
    dt_status status =
        value.failed ? DT_NOMEM
                     : dt_producer_send(l->producer, NULL, 0, DT_LEDGER_BARRIER, dt_strbuf_str(&value), offset, err);
    dt_strbuf_clear(&value);
    if (status != DT_OK)
        forget_refusal(l);
    return status;
}

/*
 * A ledger that was recreated is told by an offset that it does not have. A young one has it soon again: by the barrier
 * of a takeover that came to nothing, so its end is looked at before there is one; by the batch of a leader that did
 * not notice, or that died before it could, so it is read from its beginning. No leader has deleted that
 * (shard_trim.c).
 */
static bool is_young(const dt_shard_loop *l)
{
    return l->lease.ledger_offset > 0 && l->lease.ledger_offset < DT_LEDGER_YOUNG && !DT_UNGUARDED(LEDGER_END);
}

static dt_status read_from(dt_shard_loop *l, int64_t from, struct dt_ledger_view *view, int64_t *next,
                           struct dt_error *err)
{
    return dt_ledger_read(l->env->kafka, l->shard, from, l->env->clock, dt_shard_mono_us(l) + BARRIER_WAIT_US,
                          &l->abort, dt_ledger_view_record, view, next, err);
}

/* Where an operator has chosen the offset, anything may stand before it; so it may at a shard's beginning. */
static bool knows_what_is_before(const dt_shard_loop *l)
{
    return l->lease.ledger_offset > 0 && l->lease.trim_offset >= 0;
}

/*
 * The record before the row's offset is one of ours, unless it was deleted with all before it. An old ledger that was
 * recreated does not reach so far by what leaders write, because their takeovers halt. Strangers may have filled it:
 * then their record stands there, or a marker, which is no record.
 */
static dt_status read_from_before(dt_shard_loop *l, int64_t from, struct dt_ledger_view *view, int64_t *next,
                                  struct dt_error *err)
{
    dt_status status = DT_INVALID;
    bool knows = knows_what_is_before(l);
    if (is_young(l))
        status = read_from(l, 0, view, next, err);
    if (status == DT_INVALID && knows) { /* not young; or somebody deleted its beginning by hand */
        dt_ledger_view_again(view);
        status = read_from(l, from - 1, view, next, err);
    }
    if (status == DT_OK && knows && !DT_GUARD(LEDGER_ANCHOR, view->anchored) && view->barrier) {
        view->barrier = false;
        snprintf(view->problem, sizeof(view->problem), NOT_OURS_BEFORE, (long long)from - 1);
    }
    if (status != DT_INVALID)
        return status;
    dt_ledger_view_again(view);
    return read_from(l, from, view, next, err);
}

/* An operator may have chosen the end of the ledger (dt_clear_halt, -1): our barrier is where it ends now. */
static dt_status read_ledger(dt_shard_loop *l, int64_t barrier_at, struct dt_ledger_view *view, struct dt_error *err)
{
    int64_t next;
    int64_t from = l->lease.ledger_offset < 0 ? barrier_at : l->lease.ledger_offset;
    view->settled_below = from;
    dt_status status = read_from_before(l, from, view, &next, err);
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

/* ---- strangers ---- */

void dt_shard_tell_strangers(dt_shard_loop *l, int64_t n, int64_t offset)
{
    struct dt_strangers *s = &l->strangers;
    int64_t now_us = dt_shard_mono_us(l);
    dt_metric_add(l->meters.strangers, n);
    s->n += n;
    s->met_us = now_us;
    if (s->told_us && now_us - s->told_us < TELL_AGAIN_US)
        return;
    DT_LOG(ERROR, "shard", "the ledger has records that no dispatcher wrote: somebody may write there who should not",
           DT_I("shard", l->shard), DT_I("records", s->n - s->told), DT_I("offset", offset));
    s->told_us = now_us;
    s->told = s->n;
}

/*
 * Of a leadership's n-th batch after its barrier: in between the partition has n - 1 records of ours and at most n
 * markers, one a transaction. What is more is not ours.
 */
void dt_shard_count_offsets(dt_shard_loop *l, int64_t offset)
{
    struct dt_strangers *s = &l->strangers;
    s->batches++;
    int64_t n = offset - (s->barrier_at + 2 * s->batches);
    if (n <= s->counted)
        return;
    dt_shard_tell_strangers(l, n - s->counted, offset);
    s->counted = n;
}

/* ---- step 5 ---- */

static dt_status halt(dt_shard_loop *l, const char *why, struct dt_error *err)
{
    const struct dt_findings findings = {.inflight = &l->flight.list, .halt = why};
    struct dt_settled done;
    char reason[sizeof(err->text)];
    snprintf(reason, sizeof(reason), "%s", why);
    dt_status status = dt_store_takeover_settle(l->store, &l->lease, &findings, &done, err);
    return status == DT_OK ? dt_fail(err, DT_HALTED, "%s", reason) : status;
}

static void tell_undeliverable(dt_shard_loop *l, const struct dt_settled *done)
{
    if (done->ended)
        dt_shard_tell_moved(l, l->flight.list.v[0].id, done);
    dt_metric_add(l->meters.undeliverable, 1);
    DT_LOG(ERROR, "shard", "undeliverable: Kafka refuses this message for good", DT_I("shard", l->shard),
           DT_I("job", l->flight.list.v[0].id), DT_I("attempt", l->flight.list.v[0].attempt),
           DT_S("reason", l->refused.why));
}

/* The hint stays until this transaction is known to be committed. */
static dt_status settle(dt_shard_loop *l, const struct dt_ledger_view *view, struct dt_error *err)
{
    const struct dt_findings findings = {.inflight = &l->flight.list,
                                         .in_ledger = !DT_UNGUARDED(LEDGER_READ) && view->batches > 0,
                                         .next_offset = view->next_offset,
                                         .refused = l->refused.list,
                                         .refusal = l->refused.why,
                                         .map = &l->map};
    struct dt_settled done;
    dt_status status = dt_store_takeover_settle(l->store, &l->lease, &findings, &done, err);
    if (status != DT_OK)
        return status;
    if (done.shrink.undeliverable)
        tell_undeliverable(l, &done);
    forget_refusal(l);
    l->strangers.barrier_at = view->next_offset - 1;
    if (view->strangers)
        dt_shard_tell_strangers(l, (int64_t)view->strangers, view->stranger_at);
    dt_claims_drop(&l->flight.list, done.shrink.leave);
    DT_LOG(INFO, "shard", "took over", DT_I("shard", l->shard), DT_I("epoch", l->lease.epoch),
           DT_I("settled", done.shrink.leave), DT_I("in_flight", l->flight.list.n), DT_I("send_n", l->lease.send_n),
           DT_I("offset", l->lease.ledger_offset));
    if (done.outbox)
        l->env->outbox(l->env->arg, l->shard);
    return DT_OK;
}

static dt_status judge_ledger(dt_shard_loop *l, int64_t barrier_at, struct dt_error *err)
{
    struct dt_ledger_view view;
    dt_status status = dt_ledger_view_init(&view, l->env->kafka->uuid, &l->lease, &l->flight.list);
    if (status != DT_OK)
        return status;
    status = read_ledger(l, barrier_at, &view, err);
    DT_FAIL_POINT_STATUS("takeover.ledger", status, err);
    if (status == DT_OK)
        status = view.problem[0] ? halt(l, view.problem, err) : settle(l, &view, err);
    DT_FAIL_POINT_STATUS("takeover.settled", status, err);
    dt_ledger_view_clear(&view);
    return status;
}

/* A ledger that forgets by itself would be believed when it says nothing. */
static dt_status check_ledger_settings(dt_shard_loop *l, struct dt_error *err)
{
    dt_status status = dt_kafka_admin_check_ledger(l->env->admin, l->shard, err);
    return status == DT_REFUSED ? halt(l, err->text, err) : status;
}

static dt_status check_ledger_end(dt_shard_loop *l, struct dt_error *err)
{
    char why[sizeof(err->text)];
    int64_t next;
    int64_t from = l->lease.ledger_offset;
    if (!is_young(l))
        return DT_OK;
    dt_status status = dt_ledger_read(l->env->kafka, l->shard, from, l->env->clock,
                                      dt_shard_mono_us(l) + BARRIER_WAIT_US, &l->abort, NULL, NULL, &next, err);
    snprintf(why, sizeof(why), OUT_OF_RANGE, (long long)from);
    return status == DT_INVALID ? halt(l, why, err) : status;
}

/* A shard that nobody has led yet: the number of shards has grown. Its first leader makes its partition. */
static dt_status make_partition(dt_shard_loop *l, struct dt_error *err)
{
    if (l->lease.ledger_offset != 0 || l->lease.inflight)
        return DT_OK;
    dt_status status = dt_kafka_admin_grow_ledger(l->env->admin, l->shard, err);
    return status == DT_REFUSED ? DT_OK : status; /* its settings: check_ledger_settings tells */
}

/* ---- the whole ---- */

static void forget_leadership(dt_shard_loop *l)
{
    l->flight.list.n = 0;
    l->flight.sent = false;
    l->flight.claimed_us = l->flight.shortest_ack_ms = 0;
    l->strangers.batches = l->strangers.counted = 0;
    dt_shard_trim_forget(l);
    dt_shard_drop_producer(l);
}

dt_status dt_shard_take_over(dt_shard_loop *l, struct dt_error *err)
{
    struct dt_installation inst;
    int64_t barrier_at = -1;
    dt_metric_add(l->meters.takeovers, 1);
    forget_leadership(l);
    dt_shard_read_map(l);
    dt_status status = dt_store_takeover(l->store, l->shard, (int64_t)l->env->random(l->env->arg), l->env->owner,
                                         dt_index_home(l->index, l->shard), &l->lease, &l->flight.list, err);
    DT_FAIL_POINT_STATUS("takeover.epoch", status, err);
    if (status == DT_OK)
        status = make_partition(l, err);
    if (status == DT_OK)
        status = dt_producer_new(l->env->kafka, l->shard, &l->abort, &l->producer, err);
    DT_FAIL_POINT_STATUS("takeover.producer", status, err);
    if (status == DT_OK)
        status = dt_store_lease_check(l->store, &l->lease, &inst, err);
    DT_FAIL_POINT_STATUS("takeover.checked", status, err);
    if (status == DT_OK)
        status = check_ledger_settings(l, err);
    if (status == DT_OK)
        status = check_ledger_end(l, err);
    if (status == DT_OK)
        status = send_barrier(l, &barrier_at, err);
    DT_FAIL_POINT_STATUS("takeover.barrier", status, err);
    if (status == DT_OK)
        status = judge_ledger(l, barrier_at, err);
    if (status == DT_REFUSED)
        forget_refusal(l);
    return status;
}
