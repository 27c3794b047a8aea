/*
 * Sends answers to commands to Kafka, on a thread and with a producer of its own: the reader of commands waits for
 * neither Kafka nor a topic.
 *
 *   list rows ─▶ pass over those whose Kafka topic is not there yet ─▶ choose, owners in equal parts ─▶ read, send ─▶
 *   remove
 *
 * Each answer is sent at least once. Another thread makes missing topics meanwhile, as it does for jobs. An answer is
 * dropped if Kafka refuses it, if its topic cannot be written for an hour, or if too many of its owner wait.
 */
#ifndef DT_DISPATCHER_COMMAND_SENDER_H
#define DT_DISPATCHER_COMMAND_SENDER_H

#include "intake.h"
#include "kafka/kafka.h"
#include "store/intents/commands.h"

typedef struct dt_command_sender dt_command_sender;

DT_MUST_CHECK dt_status dt_command_sender_start(const struct dt_intake_env *intake, const struct dt_kafka_env *kafka,
                                                dt_command_sender **out, struct dt_error *err);
/* The sender sends answers to messages of these partitions from now on. Any thread. NOMEM: of those before. */
DT_MUST_CHECK dt_status dt_command_sender_serve(dt_command_sender *sender, const struct dt_command_place *places,
                                                size_t n);
/* There are new answers. Any thread, never blocks. */
void dt_command_sender_wake(dt_command_sender *sender);
void dt_command_sender_stop(dt_command_sender *sender); /* joins, frees; accepts NULL */

#endif
