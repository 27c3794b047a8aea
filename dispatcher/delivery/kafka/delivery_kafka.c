/*
 * Owns:            the delivery by Kafka as a row of the table, and a batch: the messages of the head of the in-flight
 *                  list and one ledger record with exactly that head, in one transaction; and the memory of a refusal.
 * Refuses to know: how claims come about, and what becomes of them after the commit.
 *
 * Invariants:
 *   - A batch is committed as it was begun, or not at all. After anything that is not a clean commit nothing is sent
 *     again from memory: the ledger decides at the next takeover (ledger_judge.c).
 *   - Nothing is kept from an earlier leadership but a refusal: the exact list that this process had sent when Kafka
 *     refused it for good. It is heard in a takeover's settling alone, after the ledger, and compared there entry for
 *     entry. It is forgotten once it was heard, and also when Kafka refuses a step of the takeover itself, because then
 *     the refusal may have been about us and not about a message. A refusal that is forgotten costs one more.
 */
#include "delivery_kafka.h"

#include <stdlib.h>
#include <string.h>

#include "base/hooks/fail_point.h"
#include "base/hooks/guard.h"
#include "base/log.h"
#include "ledger_record.h"
#include "message.h"

enum { MET_TOGETHER = 256 }; /* topics; what is beyond is met in the batch that first has it */

/* ---- a refusal ---- */

static void forget_refusal(dt_delivery *delivery)
{
    dt_kafka_forget_refusal(dt_kafka_delivery_of(delivery));
}

/* Kafka refused the batch that was just sent: remembers its list for the next takeover. */
static void remember_refusal(struct dt_kafka_delivery *d, const struct dt_inflight *list, const char *why)
{
    struct dt_kafka_refusal refusal = dt_producer_refusal(d->producer);
    dt_metric_add(d->refusals, 1);
    dt_kafka_forget_refusal(d);
    d->refused.list.n = 0;
    if (dt_inflight_append(&d->refused.list, list) != DT_OK)
        return; /* Kafka will refuse it again */
    snprintf(d->refused.why, sizeof(d->refused.why), "%s", why);
    if (refusal.topic[0])
        dt_writable_topics_refused(d->writable_topics, dt_str(refusal.topic), refusal.whole_topic, why);
    DT_LOG_PER_TOPIC(WARN, "shard", "Kafka refuses a message of a batch for good", dt_str(refusal.topic),
                     DT_I("shard", d->env.shard), DT_I("batch", list->n), DT_S("reason", why));
}

/* ---- a batch ---- */

static dt_status make_messages(struct dt_kafka_delivery *d, const struct dt_delivery_batch *batch)
{
    struct dt_kafka_sending *s = &d->sending;
    size_t n = batch->fence->send_n;
    int64_t now_ms = dt_refclock_latest_ms(d->env.ref);
    s->messages = dt_arena_alloc(batch->arena, (n ? n : 1) * sizeof(*s->messages));
    if (!s->messages)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_outgoing *job = &batch->jobs[i];
        if (!job->topic.p) { /* a manual edit deleted its row: there is nothing to send, and nobody to tell */
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
    return DT_OK;
}

/* Begins one transaction: the messages of the head of the list, and one ledger record with exactly that head. ahead:
 * only if the producer need not wait for anything. */
static void begin_sending(struct dt_kafka_delivery *d, const struct dt_delivery_batch *batch, bool ahead)
{
    struct dt_kafka_sending *s = &d->sending;
    struct dt_strbuf record;
    *s = (struct dt_kafka_sending){.start_us = dt_kafka_delivery_mono_us(d), .offset = -1};
    dt_strbuf_init(&record);
    dt_ledger_format_batch(&record, d->kafka->uuid, batch->fence, batch->claims, batch->fence->send_n);
    s->status = record.failed ? DT_NOMEM : make_messages(d, batch);
    if (s->status == DT_OK && ahead && !dt_producer_ready(d->producer, s->messages, s->n)) {
        dt_strbuf_clear(&record);
        return;
    }
    s->begun = true;
    if (s->status == DT_OK)
        s->status = dt_producer_begin(d->producer, s->messages, s->n, DT_LEDGER_BATCH, dt_strbuf_str(&record), &s->err);
    dt_strbuf_clear(&record);
}

static void clear(dt_delivery *delivery)
{
    dt_kafka_delivery_of(delivery)->sending = (struct dt_kafka_sending){0};
}

static void begin(dt_delivery *delivery, const struct dt_delivery_batch *batch)
{
    begin_sending(dt_kafka_delivery_of(delivery), batch, false);
}

/*
 * While MySQL writes the claim, Kafka gets its messages. Nobody sees them before their transaction is committed, and
 * that is asked for only when the claim is. Whatever else ends the leader transaction ends the leadership and the
 * producer.
 */
static void begin_ahead(dt_delivery *delivery, const struct dt_delivery_batch *batch)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    begin_sending(d, batch, true);
    if (DT_UNGUARDED(CLAIM_FIRST) && d->sending.begun && d->sending.status == DT_OK) {
        int64_t offset;
        d->sending.status = dt_producer_commit(d->producer, &offset, &d->sending.err);
    }
}

static bool begun(const dt_delivery *delivery)
{
    return ((const struct dt_kafka_delivery *)delivery)->sending.begun;
}

static dt_status begin_status(const dt_delivery *delivery, struct dt_error *err)
{
    const struct dt_kafka_sending *s = &((const struct dt_kafka_delivery *)delivery)->sending;
    if (!s->begun || s->status == DT_OK)
        return DT_OK;
    *err = s->err;
    return s->status;
}

/* Kafka took messages of a topic that was in doubt: true, and what was held of it may come back. */
static bool note_sent(struct dt_kafka_delivery *d)
{
    const struct dt_kafka_message *messages = d->sending.messages;
    bool reopened = false;
    for (size_t i = 0; dt_writable_topics_doubts(d->writable_topics) && i < d->sending.n; i++)
        if (i == 0 || !dt_str_eq(messages[i].topic, messages[i - 1].topic))
            reopened |= dt_writable_topics_sent(d->writable_topics, messages[i].topic);
    return reopened;
}

static dt_status commit(dt_delivery *delivery, struct dt_error *err)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    struct dt_kafka_sending *s = &d->sending;
    dt_status status = s->status;
    DT_FAIL_POINT_STATUS("produce.claimed", status, &s->err);
    if (status == DT_OK)
        status = dt_producer_commit(d->producer, &s->offset, &s->err);
    DT_FAIL_POINT_STATUS("settle.before", status, &s->err);
    if (status != DT_OK)
        *err = s->err;
    return status;
}

static dt_status finish(dt_delivery *delivery, dt_status status, const struct dt_fence *fence,
                        const struct dt_inflight *inflight, struct dt_delivered *out, struct dt_error *err)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    int64_t offset = d->sending.offset;
    if (DT_UNGUARDED(DOUBT) && status == DT_DOUBT) { /* taken for done */
        status = DT_OK;
        offset = fence->ledger_offset;
    }
    if (status == DT_REFUSED)
        remember_refusal(d, &(struct dt_inflight){.v = inflight->v, .n = fence->send_n}, err->text);
    if (status == DT_OK && offset < fence->ledger_offset)
        status = dt_fail(err, DT_DOUBT, "the ledger record's offset %lld is below %lld", (long long)offset,
                         (long long)fence->ledger_offset);
    if (status != DT_OK)
        return status;
    int64_t now_us = dt_kafka_delivery_mono_us(d);
    dt_ledger_strangers_count(&d->strangers, offset, now_us);
    dt_metric_observe(d->send_seconds, (double)(now_us - d->sending.start_us) / 1e6);
    *out = (struct dt_delivered){.settle_offset = offset + 1, .reopened = note_sent(d)};
    return DT_OK;
}

/* ---- topics, and what is told ---- */

static enum dt_writable writable(dt_delivery *delivery, struct dt_str topic, int64_t owner, int64_t bytes)
{
    return dt_writable_topics_ask(dt_kafka_delivery_of(delivery)->writable_topics, topic, owner, bytes);
}

/* When hundreds of topics get their first job at one instant, each batch would have to ask for its own few. A single
 * topic costs as much in its batch. */
static void meet_found(struct dt_kafka_delivery *d)
{
    struct dt_str found[MET_TOGETHER];
    size_t n = dt_writable_topics_found(d->writable_topics, found, MET_TOGETHER);
    if (d->producer && n > 1)
        dt_producer_meet(d->producer, found, n);
}

static bool resolve(dt_delivery *delivery)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    bool news = dt_writable_topics_resolve(d->writable_topics);
    if (news)
        meet_found(d);
    return news;
}

static bool finding_out(const dt_delivery *delivery)
{
    return dt_writable_topics_waits(((const struct dt_kafka_delivery *)delivery)->writable_topics);
}

static const char *trouble(dt_delivery *delivery)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    dt_metric_set(d->unwritable, (double)dt_writable_topics_unwritable(d->writable_topics));
    return dt_writable_topics_trouble(d->writable_topics);
}

static void notice(const dt_delivery *delivery, char *text, size_t size)
{
    const struct dt_kafka_delivery *d = (const struct dt_kafka_delivery *)delivery;
    dt_ledger_strangers_text(&d->strangers, dt_kafka_delivery_mono_us(d), text, size);
}

/* ---- from one leadership to the next ---- */

static bool worth_closing(const dt_delivery *delivery)
{
    return ((const struct dt_kafka_delivery *)delivery)->producer;
}

static void close_producer(dt_delivery *delivery)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    dt_producer_free(d->producer);
    d->producer = NULL;
}

static void forget(dt_delivery *delivery)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    dt_ledger_strangers_begin(&d->strangers);
    dt_ledger_upkeep_forget(&d->upkeep);
    close_producer(delivery);
}

static void settled(dt_delivery *delivery, const struct dt_delivery_findings *findings)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    dt_kafka_forget_refusal(d);
    dt_ledger_strangers_settled(&d->strangers, findings->next_offset - 1, dt_kafka_delivery_mono_us(d));
}

/* ---- life ---- */

static void make_meters(struct dt_kafka_delivery *d)
{
    char label[32];
    snprintf(label, sizeof(label), "shard=\"%u\"", d->env.shard);
    d->send_seconds = dt_histogram("duetime_kafka_transaction_seconds",
                                   "One Kafka transaction, from its beginning (ahead of the claim, as a rule).", "");
    d->refusals =
        dt_counter("duetime_kafka_refusals_total", "Batches with a message that Kafka refused for good.", label);
    d->unwritable = dt_gauge("duetime_topics_unwritable",
                             "Kafka topics that due jobs wait for because they cannot be written.", label);
    d->upkeep.trims = dt_counter("duetime_ledger_trims_total", "Times that old ledger records were deleted.", label);
    d->strangers.meter = dt_counter("duetime_ledger_strangers_total",
                                    "Records in the ledger that no dispatcher wrote: they are passed by.", label);
    d->strangers.shard = d->env.shard;
}

static void free_all(dt_delivery *delivery)
{
    struct dt_kafka_delivery *d = dt_kafka_delivery_of(delivery);
    close_producer(delivery);
    dt_json_free(d->json);
    dt_writable_topics_free(d->writable_topics);
    dt_ledger_upkeep_forget(&d->upkeep);
    dt_inflight_clear(&d->refused.list);
    free(d);
}

static dt_status new_kafka(const struct dt_delivery_env *env, dt_delivery **out)
{
    struct dt_kafka_delivery *d = calloc(1, sizeof(*d));
    if (!d)
        return DT_NOMEM;
    *d = (struct dt_kafka_delivery){.base.kind = &dt_delivery_kafka, .env = *env, .kafka = env->servers->kafka};
    make_meters(d);
    dt_status status = dt_writable_topics_new(d->kafka->admin, env->clock, env->told, env->arg, &d->writable_topics);
    if (status == DT_OK)
        status = dt_json_new(&d->json);
    if (status != DT_OK) {
        free_all(&d->base);
        return status;
    }
    *out = &d->base;
    return DT_OK;
}

const struct dt_delivery_kind dt_delivery_kafka = {
    .name = "kafka",
    .server = DT_OUTAGE_KAFKA,
    .new = new_kafka,
    .free = free_all,
    .forget = forget,
    .fence = dt_kafka_fence,
    .read = dt_kafka_read,
    .settled = settled,
    .forget_refusal = forget_refusal,
    .start = dt_kafka_start,
    .clear = clear,
    .begin_ahead = begin_ahead,
    .begin = begin,
    .begun = begun,
    .begin_status = begin_status,
    .commit = commit,
    .finish = finish,
    .writable = writable,
    .resolve = resolve,
    .finding_out = finding_out,
    .tend = dt_kafka_tend,
    .trouble = trouble,
    .notice = notice,
    .worth_closing = worth_closing,
    .close = close_producer,
};
