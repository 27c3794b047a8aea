/* Internals of the delivery by Kafka, for delivery_kafka.c, and for tests that set its state. */
#pragma once

#include "base/metrics.h"
#include "base/outage.h"
#include "base/text/json.h"
#include "deliver/delivery.h"
#include "kafka.h"
#include "writable_topics.h"

/* If a shard's ledger_offset is below this, the ledger is called young: if it was deleted and created again, the new
 * ledger soon reaches ledger_offset. So a takeover reads a young ledger from its beginning, and no leader deletes
 * records below this offset. */
#define DT_LEDGER_YOUNG 1000

struct dt_kafka_sending {
    bool begun;       /* a batch was begun, or failed to begin; `status` has the outcome */
    dt_status status; /* outcome of beginning the batch; err has the reason */
    struct dt_error err;
    struct dt_kafka_message *messages; /* messages of the batch, in its arena */
    size_t n;
    int64_t start_us; /* mono: when the batch was begun */
    int64_t offset;   /* offset of the batch's ledger record, after the commit */
};

/* A remembered refusal: the only state that is kept between leaderships. */
struct dt_kafka_refused {
    struct dt_inflight list; /* exactly the list that was sent when Kafka refused; n = 0: no refusal */
    char why[320];
};

/* Records in the shard's ledger that no dispatcher wrote. They are counted, and logged at most once a minute; they do
 * not change what is sent. */
struct dt_ledger_strangers {
    dt_metric *meter;        /* counts records of other clients */
    int64_t n, told;         /* n: foreign records since this process leads the shard; told: n as last logged */
    int64_t met_us, told_us; /* mono: when a foreign record was last found, and when one was last logged; 0: never */
    int64_t barrier_at;      /* offset of this leadership's barrier */
    int64_t batches;         /* number of batches since the barrier was written */
    int64_t counted; /* number of foreign records since the barrier, as computed from the offsets of our batches */
    int64_t found, found_at; /* in the last read of the ledger: number of foreign records; offset of the first */
};

/* The state of an installation without Kafka, whose due jobs wait for Kafka. */
struct dt_kafka_missed {
    int64_t asked_us;    /* mono: when a leader last asked for a topic with due jobs; 0: never */
    int64_t told_us;     /* mono: when the outage was last logged */
    struct dt_error why; /* why due jobs wait for Kafka */
    struct dt_outage_part outage;
};

struct dt_ledger_upkeep {
    dt_ledger_trim *trim;  /* the running request to delete records; NULL: no request runs */
    int64_t again_us;      /* mono: earliest time of the next request, after a failure */
    int64_t trimmed_below; /* offset below which Kafka deleted all records in this leadership */
    struct dt_outage_part outage;
    dt_metric *trims;
};

struct dt_delivery {
    struct dt_delivery_env env;
    const struct dt_kafka_env *kafka; /* NULL: there is no Kafka, and only `unwritable` and `missed` below are used */
    dt_writable_topics *writable_topics;
    dt_json *json;         /* scratch */
    dt_producer *producer; /* NULL: the delivery is closed */
    struct dt_kafka_sending sending;
    struct dt_kafka_refused refused;
    struct dt_ledger_strangers strangers;
    struct dt_ledger_upkeep upkeep;
    dt_metric *send_seconds, *refusals;
    dt_metric *unwritable;
    struct dt_kafka_missed missed; /* used only without Kafka (`kafka` is NULL) */
};

/* ---- delivery_kafka.c ---- */
/* Abandons the running request to delete records; Kafka may still carry out the request. */
void dt_ledger_upkeep_forget(struct dt_ledger_upkeep *upkeep);
