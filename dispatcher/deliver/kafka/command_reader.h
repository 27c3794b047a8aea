/*
 * Carries out the messages of <installation>.commands, in one thread per process. Each process reads its share of the
 * partitions.
 *
 *   positions of our partitions (MySQL) ─▶ poll ─▶ carry out (MySQL, one transaction) ─▶ tell the index
 *                                          ▲                                                  │
 *                                          └──────────────────────────────────────────────────┘
 *
 * If the process is killed, nothing is carried out twice, because one transaction in MySQL stores the offsets with the
 * effects. The transaction also stores the answers, and a sender of the outbox sends them.
 */
#pragma once

#include "features/intents/commands.h"
#include "intake.h"
#include "kafka.h"

typedef struct dt_command_reader dt_command_reader;

/* What a process provides to its reader; it must outlive the reader. Callbacks run on the reader's thread. */
struct dt_command_reader_env {
    struct dt_intake_env intake;
    const struct dt_kafka_env *kafka;
    /* Returns this process's rank among the dispatchers that share the partitions. False: the rank is not known yet. */
    bool (*place)(void *arg, unsigned *rank, unsigned *members);
    /* Called when messages were added to the shard's outbox; another process may lead the shard. */
    void (*outbox)(void *arg, unsigned shard);
    void (*topics_changed)(void *arg);
};

dt_status dt_command_reader_start(const struct dt_command_reader_env *env, dt_command_reader **out,
                                  struct dt_error *err);
void dt_command_reader_stop(dt_command_reader *reader); /* joins, frees; NULL is accepted */
