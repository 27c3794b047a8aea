/*
 * Sends notices (dead letters) from the outbox table to Kafka: at least once, with an id that lets a reader drop
 * repeats. A chore, for the shards that this process leads.
 */
#ifndef DT_DISPATCHER_OUTBOX_H
#define DT_DISPATCHER_OUTBOX_H

#include "base/chores.h"
#include "kafka/kafka.h"

typedef struct dt_outbox dt_outbox;

/* Shared parts; must outlive the outbox. Callbacks run in its ticks. */
struct dt_outbox_env {
    dt_chores *chores;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_notice_producer *notices;
    void *arg;
    bool (*sends)(void *arg, unsigned shard); /* whether this process sends the shard's notices */
    unsigned (*shards)(void *arg);            /* shards below it may have notices */
};

DT_MUST_CHECK dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out);
/* The shard's outbox has something. Any thread, never blocks. */
void dt_outbox_post(dt_outbox *outbox, unsigned shard);
void dt_outbox_stop(dt_outbox *outbox); /* accepts NULL */

#endif
