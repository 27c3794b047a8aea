/*
 * The inside of the delivery by Kafka, shared by the files of this folder that make it up:
 *
 *   delivery_kafka.c    the row of the table; a batch: its messages and its ledger record in one transaction
 *   ledger_judge.c      a takeover: the barrier, and what the ledger says that was sent
 *   ledger_upkeep.c     deleting old records of the ledger
 *   ledger_strangers.c  records in the ledger that no dispatcher wrote
 *   writable_topics.c   which topics can be written
 *
 * Everything belongs to the shard loop's thread.
 */
#ifndef DT_DISPATCHER_DELIVERY_KAFKA_H
#define DT_DISPATCHER_DELIVERY_KAFKA_H

#include "base/json.h"
#include "base/metrics.h"
#include "base/outage.h"
#include "delivery/delivery_kind.h"
#include "kafka_ledger.h"
#include "kafka_producer.h"
#include "ledger_strangers.h"
#include "writable_topics.h"

/*
 * A ledger of fewer offsets than this may be another one than the row knows, because one that was made anew has the
 * row's offset soon again. So a takeover reads a young ledger from its beginning, and no leader deletes anything below
 * this offset.
 */
#define DT_LEDGER_YOUNG 1000

/* Written by delivery_kafka.c: a transaction on its way from its beginning to its commit. */
struct dt_kafka_sending {
    bool begun;       /* or tried to: status says how that went */
    dt_status status; /* with err */
    struct dt_error err;
    struct dt_kafka_message *messages; /* in the batch's arena */
    size_t n;
    int64_t start_us; /* mono */
    int64_t offset;   /* of its ledger record, once it is committed */
};

/* Written by delivery_kafka.c: the remembered refusal, all that is kept from one leadership to the next. */
struct dt_kafka_refused {
    struct dt_inflight list; /* exactly what was sent when Kafka refused; n = 0: nothing is remembered */
    char why[320];
};

/* Written by ledger_upkeep.c, but for the metric. */
struct dt_ledger_upkeep {
    dt_ledger_trim *trim;  /* under way; NULL: none */
    int64_t again_us;      /* mono: no request before this, after a failure */
    int64_t trimmed_below; /* this leadership has seen Kafka delete all records below this offset */
    struct dt_outage_part outage;
    dt_metric *trims;
};

struct dt_kafka_delivery {
    struct dt_delivery base; /* first */
    struct dt_delivery_env env;
    const struct dt_kafka_env *kafka;
    dt_writable_topics *writable_topics;
    dt_json *json;         /* scratch */
    dt_producer *producer; /* NULL: the delivery is closed */
    struct dt_kafka_sending sending;
    struct dt_kafka_refused refused;
    struct dt_ledger_strangers strangers;
    struct dt_ledger_upkeep upkeep;
    dt_metric *send_seconds, *refusals, *unwritable;
};

static inline struct dt_kafka_delivery *dt_kafka_delivery_of(dt_delivery *delivery)
{
    return (struct dt_kafka_delivery *)delivery;
}

static inline int64_t dt_kafka_delivery_mono_us(const struct dt_kafka_delivery *d)
{
    return dt_clock_mono_us(d->env.clock);
}

/* Forgets the remembered refusal, which answers for no other list than the one that was refused. */
static inline void dt_kafka_forget_refusal(struct dt_kafka_delivery *d)
{
    d->refused.list.n = 0;
}

/* ---- ledger_judge.c: members of dt_delivery_kafka ---- */
DT_MUST_CHECK dt_status dt_kafka_fence(dt_delivery *delivery, const struct dt_fence *fence, struct dt_error *err);
DT_MUST_CHECK dt_status dt_kafka_read(dt_delivery *delivery, const struct dt_fence *fence,
                                      const struct dt_inflight *inflight, struct dt_delivery_findings *findings,
                                      struct dt_error *err);

/* ---- ledger_upkeep.c ---- */
/* Forgets the request that is under way; Kafka may still carry it out. */
void dt_ledger_upkeep_forget(struct dt_ledger_upkeep *upkeep);
/* Members of dt_delivery_kafka. */
DT_MUST_CHECK dt_status dt_kafka_start(dt_delivery *delivery, dt_store *store, struct dt_fence *fence,
                                       struct dt_error *err);
DT_MUST_CHECK dt_status dt_kafka_tend(dt_delivery *delivery, dt_store *store, struct dt_fence *fence,
                                      struct dt_error *err);

#endif
