/*
 * The inside of the delivery by Kafka, for delivery_kafka.c, and for tests that set its state.
 */
#pragma once

#include "base/metrics.h"
#include "base/outage.h"
#include "base/text/json.h"
#include "deliver/delivery.h"
#include "kafka.h"
#include "writable_topics.h"

/*
 * If a ledger has fewer offsets than this, it may have been created again, because the new one soon reaches the row's
 * offset. So a takeover reads a young ledger from its beginning, and no leader deletes records below this offset.
 */
#define DT_LEDGER_YOUNG 1000

struct dt_kafka_sending {
    bool begun;       /* or tried to begin: status has the outcome */
    dt_status status; /* with err */
    struct dt_error err;
    struct dt_kafka_message *messages; /* in the batch's arena */
    size_t n;
    int64_t start_us; /* mono */
    int64_t offset;   /* of its ledger record, after the commit */
};

/* The remembered refusal: the only state that is kept between leaderships. */
struct dt_kafka_refused {
    struct dt_inflight list; /* exactly what was sent when Kafka refused; n = 0: none */
    char why[320];
};

/* Records in the shard's ledger that no dispatcher wrote. They are counted, and logged at most once a minute; they do
 * not affect what is sent. */
struct dt_ledger_strangers {
    dt_metric *meter;        /* counts the records */
    int64_t n, told;         /* since the process began to lead the shard; of these, logged */
    int64_t met_us, told_us; /* mono; 0 = never */
    int64_t barrier_at;      /* offset of this leadership's barrier */
    int64_t batches;         /* batches since the barrier */
    int64_t counted;         /* records counted from the offsets of these batches */
    int64_t found, found_at; /* in the last read of the ledger: the number, and the offset of the first */
};

/* An installation without Kafka: due jobs wait for it. */
struct dt_kafka_missed {
    int64_t asked_us;    /* mono: when a topic with due jobs was last asked for; 0 = never */
    int64_t told_us;     /* mono: when the outage was last logged */
    struct dt_error why; /* why jobs wait */
    struct dt_outage_part outage;
};

struct dt_ledger_upkeep {
    dt_ledger_trim *trim;  /* the running request; NULL: none */
    int64_t again_us;      /* mono: no request before this, after a failure */
    int64_t trimmed_below; /* in this leadership Kafka deleted all records below this offset */
    struct dt_outage_part outage;
    dt_metric *trims;
};

struct dt_delivery {
    struct dt_delivery_env env;
    const struct dt_kafka_env *kafka; /* NULL: the installation has no Kafka, and all members below are unused … */
    dt_writable_topics *writable_topics;
    dt_json *json;         /* scratch */
    dt_producer *producer; /* NULL: the delivery is closed */
    struct dt_kafka_sending sending;
    struct dt_kafka_refused refused;
    struct dt_ledger_strangers strangers;
    struct dt_ledger_upkeep upkeep;
    dt_metric *send_seconds, *refusals;
    dt_metric *unwritable;         /* … except this metric, */
    struct dt_kafka_missed missed; /* … and this, used in its place */
};

/* ---- delivery_kafka.c ---- */
/* Abandons the running request; Kafka may still carry it out. */
void dt_ledger_upkeep_forget(struct dt_ledger_upkeep *upkeep);
