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

#include "process.h"

typedef struct dt_command_reader dt_command_reader;

dt_status dt_command_reader_start(const struct dt_process_env *env, dt_command_reader **out, struct dt_error *err);
void dt_command_reader_stop(dt_command_reader *reader); /* joins, frees; NULL is accepted */
