/*
 * Sends answers to commands to Kafka, and forgets them when they have left: at least once. Topics that are missing are
 * made, at the pace and in the fair order that topics of jobs are. One thread's.
 */
#ifndef DT_DISPATCHER_COMMAND_SENDER_H
#define DT_DISPATCHER_COMMAND_SENDER_H

#include "base/mailbox.h"
#include "base/metrics.h"
#include "kafka/kafka.h"
#include "store/intents/commands.h"

struct dt_command_sender {
    const struct dt_kafka_env *kafka;
    dt_notice_producer *notices;
    const _Atomic bool *stop;
    dt_mailbox *mailbox; /* its owner's; ANSWERS is signalled when there may be news of a topic */
    dt_store *store;
    struct dt_arena arena;
    dt_kafka_asker *asker;
    dt_metric *sent, *dropped;
};

/* Fills in what it makes itself; the caller has set the rest. */
DT_MUST_CHECK dt_status dt_command_sender_init(struct dt_command_sender *sender);
/* Accepts one that was not made. */
void dt_command_sender_clear(struct dt_command_sender *sender);
/* OK: all have left, but for those that Kafka refuses for good, and are forgotten. UNAVAILABLE: some may have left. */
DT_MUST_CHECK dt_status dt_command_sender_send(struct dt_command_sender *sender,
                                               const struct dt_command_answers *answers, struct dt_error *err);

#endif
