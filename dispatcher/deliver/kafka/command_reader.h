/*
 * Carries out the messages of <installation>.commands, in one thread per process, which reads its share of the
 * partitions.
 *
 *   positions of our partitions (MySQL) ─▶ poll ─▶ carry out (MySQL, one transaction) ─▶ tell the index
 *                                          ▲                                                  │
 *                                          └──────────────────────────────────────────────────┘
 *
 * Killed at any point: nothing is done twice, because the offsets are stored in MySQL in the transaction of the
 * effects. Answers are stored there as well, and a sender of the outbox sends them.
 */
#pragma once

#include "features/intents/commands.h"
#include "intake.h"
#include "kafka.h"

typedef struct dt_command_reader dt_command_reader;

/* Shared parts; they must outlive the reader. Callbacks run on its thread. */
struct dt_command_reader_env {
    struct dt_intake_env intake;
    const struct dt_kafka_env *kafka;
    /* This process's rank among the dispatchers that share the partitions; false: not known yet. */
    bool (*place)(void *arg, unsigned *rank, unsigned *members);
    void (*outbox)(void *arg, unsigned shard); /* the shard's outbox has messages; another process may lead it */
    void (*topics_changed)(void *arg);
};

DT_MUST_CHECK dt_status dt_command_reader_start(const struct dt_command_reader_env *env, dt_command_reader **out,
                                                struct dt_error *err);
void dt_command_reader_stop(dt_command_reader *reader); /* joins, frees; NULL is accepted */
