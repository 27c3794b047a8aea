/*
 * A process's business with Kafka beside its deliveries: topics, dead letters, commands, results, and how far results
 * are read.
 *
 *   new ─▶ reach, until it is OK ─▶ start ─▶ outbox, read_up_to, want_read ─▶ stop
 *
 * Without Kafka (kafka.brokers is empty) nothing connects or waits: dead letters are not sent, commands are not
 * offered, and the process that takes a report applies it. Results that were stored while there was
 * a Kafka are still applied.
 */
#ifndef DT_DISPATCHER_KAFKA_PARTS_H
#define DT_DISPATCHER_KAFKA_PARTS_H

#include "command_reader.h"
#include "features/alerts/alerts_chores.h"
#include "outbox.h"
#include "results.h"

typedef struct dt_kafka_parts dt_kafka_parts;

/* Copied; what the members point at outlives the parts. `kafka` and `sent` of the outbox and `notices` of results are
 * filled in by start. The runtime of the outbox serves commands as well. */
struct dt_kafka_parts_env {
    struct dt_kafka_env *kafka; /* reach gives it its admin; all else is filled in before reach */
    struct dt_outbox_env outbox;
    struct dt_results_env results;
    struct dt_results_watermark_env reads;
    void (*topics_changed)(void *arg); /* by a command; arg is that of results, and so is all else that commands need */
};

DT_MUST_CHECK dt_status dt_kafka_parts_new(const struct dt_kafka_parts_env *env, dt_kafka_parts **out);
/* Connects, and creates the installation's own topics. If Kafka does not answer, returns OK, and the results thread
 * creates them later. */
DT_MUST_CHECK dt_status dt_kafka_parts_reach(dt_kafka_parts *parts, struct dt_error *err);
/* Starts threads and chores. After a failure the parts can only be stopped. */
DT_MUST_CHECK dt_status dt_kafka_parts_start(dt_kafka_parts *parts, struct dt_error *err);
/* Any thread: there are dead letters that this process sends. */
void dt_kafka_parts_outbox(dt_kafka_parts *parts);
/* Any thread: as dt_results_watermark_up_to and dt_results_watermark_want. Without Kafka every report is read. */
struct dt_read_up_to dt_kafka_parts_read_up_to(const dt_kafka_parts *parts);
void dt_kafka_parts_want_read(dt_kafka_parts *parts, unsigned shard, int64_t deadline_ms);
/* Sends messages about alerts by a producer of their own: a batch of dead letters that Kafka does not answer delays
 * none. arg: the parts, which have Kafka. A dt_alerts_publish_fn. */
dt_status dt_kafka_parts_publish(void *arg, const struct dt_alert_text *texts, size_t n, bool *sent,
                                 struct dt_error *err);
/* Joins, frees. The admin must not be in use. NULL is accepted. */
void dt_kafka_parts_stop(dt_kafka_parts *parts);

#endif
