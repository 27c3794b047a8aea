/*
 * The delivery by Kafka. This file has three parts: takeovers, trimming the ledger, batches.
 *
 * The steps of a takeover, in the order of the protocol:
 *
 *   fence   A new producer pair: init_transactions fences the old one and completes its transaction, under both
 *           transactional ids.
 *   read    Checks the ledger's settings, and that a young ledger still reaches to ledger_offset. Writes a barrier,
 *           which its token identifies. Reads the ledger from ledger_offset up to that barrier, and the record right
 *           before ledger_offset, which must be one of ours. Anything that cannot be explained is a reason to halt.
 *
 * Refuses to know: what the leader does with the findings. Halting and settling are leader transactions
 * (shard/shard_takeover.c).
 */
#include "delivery_kafka.h"

#include "base/assert.h"
#include "base/fail_point.h"
#include "base/guard.h"
#include "base/log.h"
#include "ledger_record.h"
#include "message.h"

#define BARRIER_WAIT_US INT64_C(15000000)
#define OUT_OF_RANGE    "ledger offset %lld is out of range: the ledger was trimmed or recreated"
#define NOT_OURS_BEFORE "ledger offset %lld: the record that was settled last is not there: the ledger was recreated"

/* ---- fence ---- */

dt_status dt_delivery_fence(dt_delivery *d, const struct dt_fence *fence, struct dt_error *err)
{
    dt_status status = DT_OK;
    dt_assert(!d->producer); /* dt_delivery_forget must be called first; it closes the producer */
    dt_assert_cmp(fence->shard, ==, d->env.shard);
    /* Without Kafka it is unknown whether the attempts in flight were sent, because only the ledger shows it. Only an
     * operator can bring Kafka back. */
    if (!d->kafka && fence->inflight) {
        status = dt_fail(err, DT_UNAVAILABLE,
                         "shard %u has %zu attempts in flight, and without Kafka (kafka.brokers is empty) it is "
                         "unknown whether they were sent",
                         fence->shard, fence->inflight);
        if (err)
            err->alarm = true;
    }
    if (!d->kafka)
        return status;
    /* A shard that was never led is new: its first leader creates the shard's partition of the ledger. If Kafka returns
     * REFUSED because the ledger has wrong settings, dt_delivery_read halts the shard. */
    if (fence->ledger_offset == 0 && !fence->inflight)
        status = dt_kafka_admin_ledger(d->kafka->admin, d->env.shard, DT_LEDGER_GROW, err);
    if (status == DT_OK || status == DT_REFUSED)
        status = dt_producer_new(d->kafka, d->env.shard, d->env.abort, &d->producer, err);
    return status;
}

/* ---- reading the ledger ---- */

/*
 * Returns whether a new ledger would soon reach the ledger_offset of the shard's row. If the ledger was deleted and
 * created again, the new ledger usually ends below that offset, and the takeover notices this. But if the offset is
 * small, two kinds of records can make the new ledger reach it:
 *   - the barrier of a takeover that failed. So the takeover reads the ledger's end before it writes its barrier.
 *   - the batch of a leader that did not notice the new ledger, or died before it could. So the takeover reads a young
 *     ledger from its beginning, which no leader has trimmed.
 */
static bool is_ledger_young(const struct dt_fence *fence)
{
    return fence->ledger_offset > 0 && fence->ledger_offset < DT_LEDGER_YOUNG && !DT_UNGUARDED(LEDGER_END);
}

/* Reads the ledger from an offset on. If view is NULL, only checks whether the ledger has the offset. */
static dt_status read_ledger_from(dt_delivery *d, int64_t from, struct dt_ledger_view *view, int64_t *next,
                                  struct dt_error *err)
{
    struct dt_ledger_reading reading = {.from = from,
                                        .clock = d->env.env->clock,
                                        .deadline_us = dt_clock_mono_us(d->env.env->clock) + BARRIER_WAIT_US,
                                        .stop = d->env.abort,
                                        .fn = view ? dt_ledger_view_record : NULL,
                                        .arg = view};
    dt_status status = dt_ledger_read(d->kafka, d->env.shard, &reading, err);
    *next = reading.next;
    return status;
}

/* Reads the ledger from the record before the row's ledger_offset on. That record must be ours, unless Kafka deleted it
 * with all earlier records. If the ledger was created again, no leader has written up to ledger_offset, because
 * takeovers halt. If other clients have written up to it, the record before it is not ours. */
static dt_status read_ledger_from_record_before(dt_delivery *d, int64_t from, struct dt_ledger_view *view,
                                                int64_t *next, struct dt_error *err)
{
    dt_status status = DT_INVALID;
    /* If an operator set ledger_offset, or if the shard is new, the record before ledger_offset need not be ours. */
    bool knows = view->fence->ledger_offset > 0 && view->fence->trim_offset >= 0;
    if (is_ledger_young(view->fence))
        status = read_ledger_from(d, 0, view, next, err);
    if (status == DT_INVALID && knows) { /* the ledger is not young, or Kafka deleted its beginning */
        dt_ledger_view_again(view);
        status = read_ledger_from(d, from - 1, view, next, err);
    }
    if (status == DT_OK && knows && !DT_GUARD(LEDGER_ANCHOR, view->anchored) && view->barrier) {
        view->barrier = false;
        snprintf(view->problem, sizeof(view->problem), NOT_OURS_BEFORE, (long long)from - 1);
    }
    if (status != DT_INVALID)
        return status;
    dt_ledger_view_again(view);
    return read_ledger_from(d, from, view, next, err);
}

/* Reads the ledger up to our barrier. If an operator chose to continue at the end of the ledger (dt_clear_halt, -1),
 * reads only our barrier. */
static dt_status read_ledger(dt_delivery *d, int64_t barrier_at, struct dt_ledger_view *view, struct dt_error *err)
{
    int64_t next;
    int64_t from = view->fence->ledger_offset < 0 ? barrier_at : view->fence->ledger_offset;
    view->settled_below = from;
    dt_status status = read_ledger_from_record_before(d, from, view, &next, err);
    if (status == DT_OK && view->status != DT_OK)
        return dt_fail(err, view->status, "a ledger record could not be read");
    if (DT_FAIL_FORCED("takeover.barrier_unseen"))
        view->barrier = false;
    if (DT_UNGUARDED(LEDGER_RANGE) && status == DT_INVALID) { /* continues as if the ledger was empty */
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
        return dt_fail(err, DT_UNAVAILABLE,
                       "the ledger record that this takeover wrote (its barrier) was not read in time");
    return status;
}

/* ---- the steps of read ---- */

/* Writes the barrier. If Kafka refuses the barrier, it may have refused the last batch for the same reason, and not
 * because of a message. So the remembered refusal is dropped. */
static dt_status send_barrier(dt_delivery *d, const struct dt_fence *fence, int64_t *offset, struct dt_error *err)
{
    struct dt_strbuf value = {0};
    dt_ledger_format_barrier(&value, d->kafka->uuid, fence);
    dt_status status =
        value.failed ? DT_NOMEM
                     : dt_producer_send(d->producer, NULL, 0, DT_LEDGER_BARRIER, dt_strbuf_str(&value), offset, err);
    dt_strbuf_clear(&value);
    if (status != DT_OK)
        dt_delivery_forget_refusal(d);
    return status;
}

static dt_status check_ledger_view(dt_delivery *d, const struct dt_fence *fence, const struct dt_inflight *inflight,
                                   int64_t barrier_at, struct dt_delivery_findings *findings, struct dt_error *err)
{
    struct dt_ledger_view view;
    dt_status status = dt_ledger_view_init(&view, d->kafka->uuid, fence, inflight);
    if (status != DT_OK)
        return status;
    status = read_ledger(d, barrier_at, &view, err);
    DT_FAIL_POINT_STATUS("takeover.ledger", status, err);
    if (status == DT_OK) {
        dt_assert(view.barrier || view.problem[0]); /* reading ended at our barrier, or at a contradiction */
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
    if (!d->kafka) /* without Kafka, dt_delivery_fence fails unless the in-flight list is empty, so it is empty here */
        return DT_OK;
    *findings = (struct dt_delivery_findings){.refused = d->refused.list, .refusal = d->refused.why};
    /* If the ledger's settings let Kafka delete records by age or size, a takeover could not notice that records are
     * missing. */
    dt_status status = dt_kafka_admin_ledger(d->kafka->admin, d->env.shard, DT_LEDGER_CHECK, err);
    if (status == DT_REFUSED) {
        snprintf(findings->halt, sizeof(findings->halt), "%s", err->text);
        return DT_OK;
    }
    if (status == DT_OK && is_ledger_young(fence)) {
        status = read_ledger_from(d, fence->ledger_offset, NULL, &next, err);
        if (status == DT_INVALID) {
            snprintf(findings->halt, sizeof(findings->halt), OUT_OF_RANGE, (long long)fence->ledger_offset);
            return DT_OK;
        }
    }
    if (status != DT_OK)
        return status;
    status = send_barrier(d, fence, &barrier_at, err);
    DT_FAIL_POINT_STATUS("takeover.barrier", status, err);
    return status == DT_OK ? check_ledger_view(d, fence, inflight, barrier_at, findings, err) : status;
}

/*
 * ---- trimming the ledger, while a shard is led ----
 *
 * A takeover needs the records from ledger_offset on. If MySQL is restored from an older copy, the takeover needs them
 * from the copy's ledger_offset on. So only records below trim_offset are deleted, and only after the shard's row has
 * had this trim_offset for [ledger] trim_after, a day by default: a copy of the last day still finds all records that
 * it needs. If an older copy is restored, its ledger_offset is out of range, and the shard halts.
 *
 * The last record below trim_offset is kept: if a reader does not find it, the ledger was created again
 * (ledger_record.c).
 *
 * Once in trim_after, another thread sends the request to Kafka. When Kafka has answered, a leader transaction stores
 * the next trim_offset. If the process is killed in between, the next leader deletes the same records again, which
 * changes nothing.
 *
 * Kafka may carry out a request long after it was sent, even on a new ledger that was created after the old ledger was
 * deleted. No check before the request can prevent that. But a takeover must still notice that the ledger is new. If a
 * leader has written a batch to the new ledger, and has then taken over or died, only a record below ledger_offset
 * shows this. So a request never deletes records below DT_LEDGER_YOUNG, because a takeover may read these. There are
 * two cases:
 *
 *   - If ledger_offset is below DT_LEDGER_YOUNG, trim_offset is not above it. So no request was ever sent, and the
 *     takeover finds the new ledger whole. (After dt_clear_halt, ledger_offset may be small again. Then an earlier
 *     request names an offset that the ledger does not have, and Kafka refuses it. If the ledger has grown up to the
 *     request's offset, the request deletes settled records. If the request's offset is above ledger_offset, the
 *     request deletes unsettled records too, and the next takeover halts.)
 *   - If ledger_offset is not below DT_LEDGER_YOUNG, the new ledger does not reach ledger_offset. While the new ledger
 *     does not reach trim_offset either, Kafka refuses the request. Later, its end is still below ledger_offset, which
 *     halts the shard. If other clients have filled it up to ledger_offset, the request leaves the record right before
 *     ledger_offset, and the takeover sees that this record is not ours.
 *
 * Invariants:
 *   - A step returns at once; dispatching never waits for the trimming.
 *   - Records below DT_LEDGER_YOUNG are never deleted.
 */

#define AGAIN_US INT64_C(60000000) /* pause after a failed request */
#define BUSY_US  INT64_C(1000000)  /* pause if another shard's ledger is being trimmed */

static const char not_trimmed[] = "the ledger was not trimmed";

void dt_ledger_upkeep_forget(struct dt_ledger_upkeep *upkeep)
{
    dt_ledger_trim_free(upkeep->trim);
    upkeep->trim = NULL;
    upkeep->trimmed_below = 0;
}

/* Stores the next trim_offset, unless the shard has sent nothing since the current one was stored. */
static dt_status store_next_trim_offset(dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    return fence->trim_offset < fence->ledger_offset ? dt_store_trimmed(store, fence, err) : DT_OK;
}

static dt_status finish_trim(dt_delivery *d, dt_store *store, struct dt_fence *fence, struct dt_error *err)
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
        return store_next_trim_offset(store, fence, err);
    }
    upkeep->again_us = dt_clock_mono_us(d->env.env->clock) + AGAIN_US;
    dt_outage_failed(&upkeep->outage, DT_OUTAGE_KAFKA, "shard", not_trimmed, status, &why);
    return DT_OK;
}

dt_status dt_delivery_tend(dt_delivery *d, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    struct dt_ledger_upkeep *upkeep = &d->upkeep;
    int64_t now_us = dt_clock_mono_us(d->env.env->clock);
    struct dt_error why = {0};
    struct dt_installation inst;
    if (!d->kafka)
        return DT_OK;
    if (upkeep->trim)
        return finish_trim(d, store, fence, err);
    if (fence->trim_offset < 0) /* the row has no trim_offset yet */
        return dt_store_trimmed(store, fence, err);
    bool held = dt_refclock_earliest_ms(d->env.env->ref) - fence->trim_at_ms >= d->env.env->config->ledger_trim_after;
    if (!held || now_us < upkeep->again_us)
        return DT_OK;
    bool young = fence->trim_offset < DT_LEDGER_YOUNG && !DT_UNGUARDED(TRIM_YOUNG);
    if (young || fence->trim_offset <= upkeep->trimmed_below)
        return store_next_trim_offset(store, fence, err);
    dt_status status = dt_store_fence_check(store, fence, &inst, err); /* this process must still lead the shard */
    if (status != DT_OK)
        return status;
    status = dt_ledger_trim_start(d->kafka, d->env.shard, fence->trim_offset - 1, &upkeep->trim, &why);
    if (status != DT_OK)
        upkeep->again_us = dt_clock_mono_us(d->env.env->clock) + (status == DT_FULL ? BUSY_US : AGAIN_US);
    if (status != DT_OK && status != DT_FULL)
        dt_outage_failed(&upkeep->outage, DT_OUTAGE_KAFKA, "shard", not_trimmed, status, &why);
    dt_assert((status == DT_OK) == !!upkeep->trim);
    return DT_OK;
}

/* Begins a leadership: if the row has no trim_offset, stores one before the ledger is used. */
dt_status dt_delivery_start(dt_delivery *d, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    return fence->trim_offset < 0 ? dt_delivery_tend(d, store, fence, err) : DT_OK;
}

/*
 * ---- a batch: the messages of the head of the in-flight list, and one ledger record with exactly that head ----
 *
 * Refuses to know: how claims are made, and what follows the commit.
 *
 * Invariants:
 *   - A batch is committed as it was begun, or not at all. After any outcome except a clean commit nothing is sent
 *     again from memory: the ledger decides at the next takeover.
 *   - Only a refusal is kept from an earlier leadership: the exact list that this process had sent when Kafka refused a
 *     message of it permanently. Only the settling of a takeover uses this refusal: after the ledger was read, it
 *     compares the refused list entry by entry, and drops the refusal. The refusal is also dropped if Kafka refuses a
 *     step of the takeover, because then it may have been about this client and not about a message. If a refusal was
 *     dropped too early, Kafka refuses the message once more.
 *   - Without Kafka no topic can be written, so no job is claimed for this delivery and no batch is begun. Due jobs of
 *     its topics wait, and an operator is notified. An in-flight list that is not empty is frozen until Kafka is
 *     configured again (dt_delivery_fence).
 */

enum { MET_TOGETHER = 256 }; /* most topics in one lookup; each further topic is looked up by its first batch */

#define STRANGERS_AGAIN_US  INT64_C(60000000)
#define STRANGERS_LATELY_US INT64_C(3600000000)
/* Time for which the jobs of a topic count as waiting after a leader asked for the topic. */
#define WAITED_US INT64_C(15000000)
#define ALARM_US  INT64_C(1000000) /* pause between two log lines about jobs that wait for Kafka */

/* ---- a refusal ---- */

void dt_delivery_forget_refusal(dt_delivery *d)
{
    d->refused.list.n = 0;
}

/* Remembers the list of the batch that Kafka has just refused, for the next takeover. */
static void remember_refusal(dt_delivery *d, const struct dt_inflight *list, const char *why)
{
    struct dt_kafka_refusal refusal = dt_producer_refusal(d->producer);
    dt_metric_add(d->refusals, 1);
    d->refused.list.n = 0;
    if (dt_inflight_append(&d->refused.list, list) != DT_OK)
        return; /* without memory for the list, the refusal is not remembered, and Kafka refuses the batch again */
    snprintf(d->refused.why, sizeof(d->refused.why), "%s", why);
    if (refusal.topic[0])
        dt_writable_topics_refused(d->writable_topics, dt_str(refusal.topic), refusal.whole_topic, why);
    DT_LOG_PER_TOPIC(WARN, "shard", "Kafka permanently refuses a message of a batch", dt_str(refusal.topic),
                     DT_I("shard", d->env.shard), DT_I("batch", list->n), DT_S("reason", why));
}

/* ---- a batch ---- */

static dt_status make_messages(dt_delivery *d, const struct dt_delivery_batch *batch)
{
    struct dt_kafka_sending *s = &d->sending;
    size_t n = batch->fence->send_n;
    int64_t now_ms = dt_refclock_latest_ms(d->env.env->ref);
    s->messages = dt_arena_alloc(batch->arena, (n ? n : 1) * sizeof(*s->messages));
    if (!s->messages)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_outgoing *job = &batch->jobs[i];
        if (!job->topic.p) { /* an operator deleted the job's row by hand, so no message is sent */
            DT_LOG(ERROR, "shard", "an attempt in flight has no job any more", DT_I("shard", d->env.shard),
                   DT_I("job", job->claim.id), DT_I("attempt", job->claim.attempt));
            continue;
        }
        dt_status status =
            dt_message_of_job(job, d->kafka->installation, now_ms, d->json, batch->arena, &s->messages[s->n]);
        if (status != DT_OK)
            return status;
        s->n++;
    }
    dt_assert_cmp(s->n, <=, n);
    return DT_OK;
}

void dt_delivery_clear(dt_delivery *d)
{
    d->sending = (struct dt_kafka_sending){0};
}

/*
 * One transaction: the messages of the head of the list, and one ledger record with exactly that head.
 *
 * If `ahead` is true, Kafka gets the messages while MySQL writes the claim. Consumers see the messages only after
 * Kafka's transaction is committed, and that commit is requested only after MySQL has committed the claim. If the
 * leader transaction fails, the leadership and the producer end.
 */
void dt_delivery_begin(dt_delivery *d, const struct dt_delivery_batch *batch, bool ahead)
{
    struct dt_kafka_sending *s = &d->sending;
    struct dt_strbuf record = {0};
    dt_assert(d->producer); /* Kafka is configured, and dt_delivery_fence created the producer for this leadership */
    dt_assert(!s->begun);
    dt_assert_cmp(batch->fence->send_n, <=, batch->fence->inflight);
    *s = (struct dt_kafka_sending){.start_us = dt_clock_mono_us(d->env.env->clock), .offset = -1};
    dt_ledger_format_batch(&record, d->kafka->uuid, batch->fence, batch->claims, batch->fence->send_n);
    s->status = record.failed ? DT_NOMEM : make_messages(d, batch);
    s->begun = !ahead || s->status != DT_OK || dt_producer_ready(d->producer, s->messages, s->n);
    if (s->begun && s->status == DT_OK)
        s->status = dt_producer_begin(d->producer, s->messages, s->n, DT_LEDGER_BATCH, dt_strbuf_str(&record), &s->err);
    dt_strbuf_clear(&record);
    if (DT_UNGUARDED(CLAIM_FIRST) && ahead && s->begun && s->status == DT_OK) {
        int64_t offset;
        s->status = dt_producer_commit(d->producer, &offset, &s->err);
    }
}

bool dt_delivery_begun(const dt_delivery *d)
{
    return d->sending.begun;
}

dt_status dt_delivery_begin_status(const dt_delivery *d, struct dt_error *err)
{
    if (!d->sending.begun || d->sending.status == DT_OK)
        return DT_OK;
    *err = d->sending.err;
    return d->sending.status;
}

dt_status dt_delivery_commit(dt_delivery *d, struct dt_error *err)
{
    struct dt_kafka_sending *s = &d->sending;
    dt_status status = s->status;
    dt_assert(s->begun);
    dt_assert_cmp(s->offset, ==, -1); /* no batch is committed twice */
    DT_FAIL_POINT_STATUS("produce.claimed", status, &s->err);
    DT_THEN(status, dt_producer_commit(d->producer, &s->offset, &s->err));
    DT_FAIL_POINT_STATUS("settle.before", status, &s->err);
    if (status != DT_OK)
        *err = s->err;
    return status;
}

static void log_foreign_records(dt_delivery *d, int64_t n, int64_t offset)
{
    struct dt_ledger_strangers *s = &d->strangers;
    int64_t now_us = dt_clock_mono_us(d->env.env->clock);
    dt_metric_add(s->meter, n);
    s->n += n;
    s->met_us = now_us;
    if (s->told_us && now_us - s->told_us < STRANGERS_AGAIN_US)
        return;
    DT_LOG(ERROR, "shard", "the ledger has records that no dispatcher wrote: a client may write there that should not",
           DT_I("shard", d->env.shard), DT_I("records", s->n - s->told), DT_I("offset", offset));
    s->told_us = now_us;
    s->told = s->n;
}

dt_status dt_delivery_finish(dt_delivery *d, dt_status status, const struct dt_fence *fence,
                             const struct dt_inflight *inflight, struct dt_delivered *out, struct dt_error *err)
{
    const struct dt_kafka_sending *s = &d->sending;
    int64_t offset = s->offset;
    dt_assert(s->begun);
    dt_assert_cmp(fence->send_n, <=, inflight->n);
    if (DT_UNGUARDED(DOUBT) && status == DT_DOUBT) { /* continues as if Kafka had committed */
        status = DT_OK;
        offset = fence->ledger_offset;
    }
    if (status == DT_REFUSED)
        remember_refusal(d, &(struct dt_inflight){.v = inflight->v, .n = fence->send_n}, err->text);
    if (status == DT_OK && offset < fence->ledger_offset)
        status = dt_fail(err, DT_DOUBT, "the ledger record's offset %lld is below the one before, %lld",
                         (long long)offset, (long long)fence->ledger_offset);
    if (status != DT_OK)
        return status;
    /* After the n-th batch of a leadership, the partition has, after our barrier, n - 1 records of ours and at most n
     * transaction markers. If the offset of the n-th record is larger than that, other clients have written records. */
    d->strangers.batches++;
    int64_t strangers = offset - (d->strangers.barrier_at + 2 * d->strangers.batches);
    if (strangers > d->strangers.counted) {
        log_foreign_records(d, strangers - d->strangers.counted, offset);
        d->strangers.counted = strangers;
    }
    dt_metric_observe(d->send_seconds, (double)(dt_clock_mono_us(d->env.env->clock) - s->start_us) / 1e6);
    *out = (struct dt_delivered){.settle_offset = offset + 1};
    /* If a topic was being tried with one message, and Kafka accepted the message, parked jobs of the topic may be
     * sent. */
    for (size_t i = 0; dt_writable_topics_doubts(d->writable_topics) && i < s->n; i++)
        if (i == 0 || !dt_str_eq(s->messages[i].topic, s->messages[i - 1].topic))
            out->reopened |= dt_writable_topics_sent(d->writable_topics, s->messages[i].topic);
    return DT_OK;
}

/* ---- topics, and what is reported ---- */

enum dt_writable dt_delivery_writable(dt_delivery *d, struct dt_str topic, int64_t owner, int64_t bytes)
{
    if (d->kafka)
        return dt_writable_topics_ask(d->writable_topics, topic, owner, bytes);
    d->missed.asked_us = dt_clock_mono_us(d->env.env->clock);
    (void)dt_fail(&d->missed.why, DT_UNAVAILABLE,
                  "Kafka topic %.*s has due jobs, and there is no Kafka (kafka.brokers is empty)", (int)topic.n,
                  topic.p);
    return DT_WRITABLE_NO;
}

bool dt_delivery_resolve(dt_delivery *d)
{
    struct dt_str found[MET_TOGETHER];
    if (!d->kafka || !dt_writable_topics_resolve(d->writable_topics))
        return false;
    /* If hundreds of topics get their first job at once, one lookup of all these topics is faster than a lookup by each
     * batch. If only one topic was found, its first batch looks it up. */
    size_t n = dt_writable_topics_found(d->writable_topics, found, MET_TOGETHER);
    if (d->producer && n > 1)
        dt_producer_meet(d->producer, found, n);
    return true;
}

bool dt_delivery_finding_out(const dt_delivery *d)
{
    return d->kafka && dt_writable_topics_waits(d->writable_topics);
}

const char *dt_delivery_trouble(dt_delivery *d)
{
    struct dt_kafka_missed *missed = &d->missed;
    if (d->kafka) {
        dt_metric_set(d->unwritable, (double)dt_writable_topics_unwritable(d->writable_topics));
        return dt_writable_topics_trouble(d->writable_topics);
    }
    int64_t now_us = dt_clock_mono_us(d->env.env->clock);
    bool waits = missed->asked_us && now_us - missed->asked_us < WAITED_US;
    dt_metric_set(d->unwritable, waits);
    if (!waits) {
        dt_outage_over(&missed->outage);
    } else if (now_us - missed->told_us >= ALARM_US) {
        missed->told_us = now_us;
        missed->why.alarm = true;
        dt_outage_failed(&missed->outage, DT_OUTAGE_KAFKA, "shard", "jobs wait for a Kafka that is not configured",
                         DT_UNAVAILABLE, &missed->why);
    }
    return waits ? missed->why.text : "";
}

void dt_delivery_notice(const dt_delivery *d, char *text, size_t size)
{
    const struct dt_ledger_strangers *s = &d->strangers;
    text[0] = '\0';
    if (s->met_us && dt_clock_mono_us(d->env.env->clock) - s->met_us < STRANGERS_LATELY_US)
        snprintf(text, size, "%lld ledger records that no dispatcher wrote: a client may write there that should not",
                 (long long)s->n);
}

/* ---- from one leadership to the next ---- */

bool dt_delivery_worth_closing(const dt_delivery *d)
{
    return d->producer;
}

void dt_delivery_close(dt_delivery *d)
{
    dt_producer_free(d->producer);
    d->producer = NULL;
}

void dt_delivery_forget(dt_delivery *d)
{
    d->strangers.batches = d->strangers.counted = 0;
    dt_ledger_upkeep_forget(&d->upkeep);
    dt_delivery_close(d);
}

void dt_delivery_settled(dt_delivery *d, const struct dt_delivery_findings *findings)
{
    dt_delivery_forget_refusal(d);
    d->strangers.barrier_at = findings->next_offset - 1;
    if (d->strangers.found)
        log_foreign_records(d, d->strangers.found, d->strangers.found_at);
}

void dt_delivery_free(dt_delivery *d)
{
    if (!d)
        return;
    dt_delivery_close(d);
    dt_json_free(d->json);
    dt_writable_topics_free(d->writable_topics);
    dt_ledger_upkeep_forget(&d->upkeep);
    dt_inflight_clear(&d->refused.list);
    free(d);
}

dt_status dt_delivery_new(const struct dt_delivery_env *env, dt_delivery **out)
{
    char label[32];
    dt_delivery *d = calloc(1, sizeof(*d));
    *out = d;
    if (!d)
        return DT_NOMEM;
    *d = (struct dt_delivery){.env = *env, .kafka = dt_config_has_kafka(env->env->config) ? env->env->kafka : NULL};
    snprintf(label, sizeof(label), "shard=\"%u\"", env->shard);
    d->unwritable = dt_gauge("duetime_topics_unwritable",
                             "Kafka topics that cannot be written while due jobs wait for them.", label);
    if (!d->kafka)
        return DT_OK;
    d->send_seconds = dt_histogram("duetime_kafka_transaction_seconds",
                                   "Duration of one Kafka transaction; it usually begins before the claim.", "");
    d->refusals =
        dt_counter("duetime_kafka_refusals_total", "Batches with a message that Kafka refused permanently.", label);
    d->upkeep.trims = dt_counter("duetime_ledger_trims_total", "Times that old ledger records were deleted.", label);
    d->strangers.meter = dt_counter("duetime_ledger_strangers_total",
                                    "Ledger records that no dispatcher wrote; they are skipped.", label);
    dt_status status =
        dt_writable_topics_new(d->kafka->admin, env->env->clock, env->told, env->arg, &d->writable_topics);
    DT_THEN(status, dt_json_new(&d->json));
    if (status != DT_OK) {
        dt_delivery_free(d);
        *out = NULL;
    }
    return status;
}
