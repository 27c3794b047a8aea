/*
 * Makes the answers to messages of the commands topic, in the transaction that carries them out: the message itself for
 * the topic of refused ones, the REST body for the topic that the message asks to be answered in. For store/ only.
 */
#ifndef DT_STORE_COMMAND_REPLY_H
#define DT_STORE_COMMAND_REPLY_H

#include "store/db/db.h"
#include "store/intents/command_decode.h"
#include "store/intents/commands.h"

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
    struct dt_str topic; /* the one that was asked for last; absent: none was … */
    bool paused;         /* … and it is */
    enum dt_dealing dealing;
};
/* Returns why a topic of this name may not be a command's reply_to, NULL if it may. `allowed`: the topics that may be
 * although they do not end with ".replies". */
const char *dt_command_reply_check(struct dt_str topic, struct dt_str installation, const char *allowed);
/* Adds the answers that a message gets which is done or refused: in the topic of refused ones if it is refused, and where it asks to be
 * answered. */
DT_MUST_CHECK dt_status dt_command_tell(struct dt_command_replies *replies, const struct dt_command_message *message,
                                        const struct dt_command *command, struct dt_error *err);

#endif
