/* What is to be told of messages that were carried out, inside their transaction; for store/ only. */
#ifndef DT_STORE_COMMAND_REPLY_H
#define DT_STORE_COMMAND_REPLY_H

#include "store/db/db.h"
#include "store/intents/command_decode.h"
#include "store/intents/commands.h"

/* A message that is done or refused. */
struct dt_command_told {
    const struct dt_command_message *message;
    const struct dt_command *command;
};
/* The open transaction, and the answers up to now. All zero but for what is marked in. */
struct dt_command_replies {
    dt_store *store;            /* in */
    dt_db *db;                  /* in */
    struct dt_arena *arena;     /* in: of the answers */
    dt_json *json;              /* in: to check stored payloads with */
    const char *rejected;       /* in: the topic of what is refused */
    struct dt_str installation; /* in */
    int64_t now_ms;             /* in */
    struct dt_command_answers answers;
    size_t room;
};
/* Says why nobody can be answered in a topic of this name; NULL: it is fine. */
const char *dt_command_reply_check(struct dt_str topic, struct dt_str installation);
/* Adds what is to be told: to the topic of what is refused, and to where the message says. */
DT_MUST_CHECK dt_status dt_command_tell(struct dt_command_replies *replies, const struct dt_command_told *told,
                                        struct dt_error *err);

#endif
