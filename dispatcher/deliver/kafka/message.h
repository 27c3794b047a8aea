/*
 * The message that a consumer gets from Kafka: CloudEvents in binary mode. The payload is the caller's bytes;
 * everything about the job is in the headers. Pure.
 *
 * The key of the message, and of the dead letter of the same job, is the caller's partition_key. If the caller gave
 * none, the message has no key: compaction, joins and order depend on keys, so duetime chooses none.
 */
#pragma once

#include "base/text/json.h"
#include "dispatch/leader.h"
#include "features/outbox/outbox_store.h"
#include "kafka.h"

/* Builds the message of an attempt. All that *message points at is in the arena, or borrowed from `from`. json is
 * scratch for the caller's headers. */
dt_status dt_message_of_job(const struct dt_outgoing *from, const char *installation, int64_t now_ms, dt_json *json,
                            struct dt_arena *arena, struct dt_kafka_message *message);
/* Builds the dead letter of a notice: the job as JSON, to <installation>.dead, with ce_id = <job>/<attempt>/dead. If
 * the payload as base64 text exceeds Kafka's default limit, the dead letter has no payload; MySQL has it as long as the
 * job is kept. */
dt_status dt_message_of_notice(const struct dt_notice *notice, const char *installation, struct dt_arena *arena,
                               struct dt_kafka_message *message);
