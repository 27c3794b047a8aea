/* Rows of `command_answers`: what is to be sent to Kafka about messages of the commands topic, until it has been sent.
 * Written in the transaction that carries the messages out; for store/ only. */
#ifndef DT_STORE_COMMAND_ANSWERS_H
#define DT_STORE_COMMAND_ANSWERS_H

#include "store/db/db.h"
#include "store/intents/commands.h"

/* Stores the answers in the open transaction, which began at now_ms: a row for each pair of topics and each million
 * bytes, a statement for each million bytes. partition: of one of the messages. */
DT_MUST_CHECK dt_status dt_command_answers_insert(dt_db *db, struct dt_arena *arena, int32_t partition, int64_t now_ms,
                                                  const struct dt_command_answers *answers, struct dt_error *err);

#endif
