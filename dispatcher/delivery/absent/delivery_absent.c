/*
 * Owns:            the delivery by Kafka in an installation that has none (kafka.brokers is empty).
 * Refuses to know: librdkafka. Nothing is connected, and nothing is ever sent.
 *
 * Invariants:
 *   - No topic can be written, so no job is claimed for this delivery. Its due jobs wait, and an operator is told.
 *   - Only the ledger shows whether the attempts in flight were sent, and it cannot be read here. So a list that is not
 *     empty is frozen until Kafka is back.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/metrics.h"
#include "delivery/delivery_kind.h"

#define WAITED_US INT64_C(15000000) /* jobs wait for Kafka when a topic was asked for so lately */
#define ALARM_US  INT64_C(1000000)  /* pause between two reports of it */

struct absent {
    struct dt_delivery base; /* first */
    struct dt_delivery_env env;
    int64_t asked_us;    /* mono: when a topic with due jobs was last asked for; 0 = never */
    int64_t told_us;     /* mono: when the outage was last told */
    struct dt_error why; /* jobs wait */
    dt_metric *unwritable;
    struct dt_outage_part outage;
};

static struct absent *absent_of(dt_delivery *delivery)
{
    return (struct absent *)delivery;
}

/* An error that only an operator can end. */
static dt_status fail_for_good(struct dt_error *err, dt_status status)
{
    if (err)
        err->alarm = true;
    return status;
}

/* ---- takeover ---- */

static dt_status fence(dt_delivery *delivery, const struct dt_fence *fence, struct dt_error *err)
{
    (void)delivery;
    if (fence->inflight)
        return fail_for_good(err, dt_fail(err, DT_UNAVAILABLE,
                                          "shard %u has %zu attempts in flight, and without Kafka (kafka.brokers is "
                                          "empty) nobody can tell whether they were sent",
                                          fence->shard, fence->inflight));
    return DT_OK;
}

static dt_status read_nothing(dt_delivery *delivery, const struct dt_fence *fence, const struct dt_inflight *inflight,
                              struct dt_delivery_findings *findings, struct dt_error *err)
{
    (void)delivery;
    (void)inflight;
    (void)err;
    *findings = (struct dt_delivery_findings){.next_offset = fence->ledger_offset};
    return DT_OK;
}

static void settled(dt_delivery *delivery, const struct dt_delivery_findings *findings)
{
    (void)delivery;
    (void)findings;
}

static void do_nothing(dt_delivery *delivery)
{
    (void)delivery;
}

static dt_status upkeep(dt_delivery *delivery, dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    (void)delivery;
    (void)store;
    (void)fence;
    (void)err;
    return DT_OK;
}

/* ---- a batch: there is none ---- */

static void begin_nothing(dt_delivery *delivery, const struct dt_delivery_batch *batch)
{
    (void)delivery;
    (void)batch;
}

static bool never(const dt_delivery *delivery)
{
    (void)delivery;
    return false;
}

static dt_status begin_status(const dt_delivery *delivery, struct dt_error *err)
{
    (void)delivery;
    (void)err;
    return DT_OK;
}

static dt_status commit(dt_delivery *delivery, struct dt_error *err)
{
    (void)delivery;
    return fail_for_good(err, dt_fail(err, DT_UNAVAILABLE, "a batch was claimed for Kafka, and there is no Kafka"));
}

static dt_status finish(dt_delivery *delivery, dt_status status, const struct dt_fence *fence,
                        const struct dt_inflight *inflight, struct dt_delivered *out, struct dt_error *err)
{
    (void)delivery;
    (void)fence;
    (void)inflight;
    (void)out;
    (void)err;
    return status;
}

/* ---- topics ---- */

static enum dt_writable writable(dt_delivery *delivery, struct dt_str topic, int64_t owner, int64_t bytes)
{
    (void)owner;
    struct absent *a = absent_of(delivery);
    (void)bytes;
    a->asked_us = dt_clock_mono_us(a->env.clock);
    dt_fail(&a->why, DT_UNAVAILABLE, "Kafka topic %.*s has due jobs, and there is no Kafka (kafka.brokers is empty)",
            (int)topic.n, topic.p);
    return DT_WRITABLE_NO;
}

static bool resolve_nothing(dt_delivery *delivery)
{
    (void)delivery;
    return false;
}

static void tell(struct absent *a, bool waits, int64_t now_us)
{
    dt_metric_set(a->unwritable, waits);
    if (!waits) {
        dt_outage_over(&a->outage);
    } else if (now_us - a->told_us >= ALARM_US) {
        a->told_us = now_us;
        a->why.alarm = true;
        dt_outage_failed(&a->outage, DT_OUTAGE_KAFKA, "shard", "jobs wait for a Kafka that is not configured",
                         DT_UNAVAILABLE, &a->why);
    }
}

static const char *trouble(dt_delivery *delivery)
{
    struct absent *a = absent_of(delivery);
    int64_t now_us = dt_clock_mono_us(a->env.clock);
    bool waits = a->asked_us && now_us - a->asked_us < WAITED_US;
    tell(a, waits, now_us);
    return waits ? a->why.text : "";
}

static void notice(const dt_delivery *delivery, char *text, size_t size)
{
    (void)delivery;
    if (size)
        text[0] = '\0';
}

/* ---- life ---- */

static void free_absent(dt_delivery *delivery)
{
    free(delivery);
}

static dt_status new_absent(const struct dt_delivery_env *env, dt_delivery **out)
{
    char label[32];
    struct absent *a = calloc(1, sizeof(*a));
    if (!a)
        return DT_NOMEM;
    snprintf(label, sizeof(label), "shard=\"%u\"", env->shard);
    *a = (struct absent){.base.kind = &dt_delivery_absent, .env = *env};
    a->unwritable = dt_gauge("duetime_topics_unwritable",
                             "Kafka topics that due jobs wait for because they cannot be written.", label);
    *out = &a->base;
    return DT_OK;
}

const struct dt_delivery_kind dt_delivery_absent = {
    .name = "kafka",
    .server = DT_OUTAGE_KAFKA,
    .new = new_absent,
    .free = free_absent,
    .forget = do_nothing,
    .fence = fence,
    .read = read_nothing,
    .settled = settled,
    .forget_refusal = do_nothing,
    .start = upkeep,
    .clear = do_nothing,
    .begin_ahead = begin_nothing,
    .begin = begin_nothing,
    .begun = never,
    .begin_status = begin_status,
    .commit = commit,
    .finish = finish,
    .writable = writable,
    .resolve = resolve_nothing,
    .finding_out = never,
    .tend = upkeep,
    .trouble = trouble,
    .notice = notice,
    .worth_closing = never,
    .close = do_nothing,
};
