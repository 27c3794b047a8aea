/*
 * Sends notices (dead letters) from the outbox table to Kafka: at least once, with an id that lets a reader drop
 * repeats. One thread a process, for the shards that it leads.
 */
#ifndef DT_DISPATCHER_OUTBOX_H
#define DT_DISPATCHER_OUTBOX_H

#include "base/clock.h"
#include "base/config.h"
#include "kafka/kafka.h"

typedef struct dt_outbox dt_outbox;

/* Shared parts; must outlive the outbox. Callbacks run on its thread. */
struct dt_outbox_env {
    const struct dt_config *config;
    const struct dt_kafka_env *kafka;
    const dt_clock *clock;
    dt_notice_producer *notices;
    void *arg;
    bool (*sends)(void *arg, unsigned shard); /* whether this process sends the shard's notices */
    unsigned (*shards)(void *arg);            /* shards below it may have notices */
};

DT_MUST_CHECK dt_status dt_outbox_start(const struct dt_outbox_env *env, dt_outbox **out, struct dt_error *err);
/* The shard's outbox has something. Any thread, never blocks. */
void dt_outbox_post(dt_outbox *outbox, unsigned shard);
void dt_outbox_stop(dt_outbox *outbox); /* joins, frees; NULL is accepted */

#endif
