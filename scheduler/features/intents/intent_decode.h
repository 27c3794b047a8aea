/*
 * What was written for us, as what it asks for. Pure.
 *
 *   a message of <installation>.commands   its value is an object with `action`, which job or topic it is for (`topic`,
 *                                          `key`, `id`), and beside them the members of the REST body of that action
 *   a row of job_inbox                     its columns are put into the form of a REST body, which is then decoded as
 *                                          one, so that the two cannot part
 */
#ifndef DT_INTENTS_INTENT_DECODE_H
#define DT_INTENTS_INTENT_DECODE_H

#include "intents.h"
#include "job/job_json.h"
#include "job/job_state.h"

/* The actions on one job come first, in the order of dt_intent_action. */
enum dt_command_action {
    DT_COMMAND_CREATE,
    DT_COMMAND_REPLACE,
    DT_COMMAND_CANCEL,
    DT_COMMAND_CHANGE,
    DT_COMMAND_RUN_NOW,
    DT_COMMAND_PAUSE,
    DT_COMMAND_RESUME,
    DT_COMMAND_REPORT,
    DT_COMMAND_ACTIONS
};

struct dt_command {
    enum dt_command_action action;
    /* In: where the decoded intent goes. Every action sets its job or topic, outcome, problem and faults; an action on
     * one job sets all of it. */
    struct dt_intent *intent;
    struct dt_result result; /* of a report; job_id 0 = the job is named by its key */
    enum dt_outcome outcome; /* of a report that was applied; set by whoever did so */
};

/* The message: its value (absent = null), and its time, from which delays count; 0 = it has none. Borrowed. */
struct dt_command_text {
    struct dt_str value;
    int64_t timestamp_ms;
};

#define DT_INBOX_OPTIONS_MAX ((size_t)65536)

/* The columns; texts are absent where they are NULL, and cut where they are too long. */
struct dt_inbox_row {
    int64_t id;
    int64_t action; /* of the ENUM, from 1 on; 0: none of its words */
    struct dt_str topic, key;
    bool has_job_id, has_run_at, has_delay;
    int64_t job_id, run_at_ms, delay_ms;
    struct dt_str payload, options;
    size_t payload_bytes, options_bytes; /* as they stand in the table */
    int64_t created_at_ms;
};

/* The means of decoding. Texts that come out are in the arena, payloads in the message, or all in the arena or the
 * row. */
struct dt_intent_decoder {
    const struct dt_job_rules *rules;
    dt_json *json;
    struct dt_arena *arena;
    int64_t now_ms; /* the server's time */
};
/* Decodes a message. The outcome of out->intent is REFUSED, with its problem, when it cannot be carried out. NOMEM. */
DT_MUST_CHECK dt_status dt_command_message_decode(const struct dt_intent_decoder *decoder,
                                                  const struct dt_command_text *text, struct dt_command *out);
/* Decodes a row. *out is REFUSED, with its problem, when it cannot be carried out. NOMEM. */
DT_MUST_CHECK dt_status dt_inbox_decode(const struct dt_intent_decoder *decoder, const struct dt_inbox_row *row,
                                        struct dt_intent *out);

#endif
