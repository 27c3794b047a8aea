/*
 * Intents: requests that do not arrive by HTTP, but as a row of job_inbox or as a message. Each creates, replaces,
 * cancels, changes or runs one job, and has the same outcome as an HTTP request: the same decoder (job/job_json.h) and
 * the same functions on jobs are used, and problems have the same words.
 *
 *   decoded (inbox_store.c) ─▶ carried out in a transaction (intents_txn.h) ─▶ done | refused, with a problem | waits
 *
 * Intents for one job are carried out in their order. If an intent waits, only later intents for its job wait, too.
 */
#pragma once

#include "job/change/jobs.h"
#include "job/job.h"
#include "job/job_json.h"
#include "job/job_state.h"
#include "job/problem.h"
#include "store/store.h"
#include "topic/topics.h"

/* Values in the order of the ENUM job_inbox.action. */
enum dt_intent_action {
    DT_INTENT_CREATE,
    DT_INTENT_REPLACE,
    DT_INTENT_CANCEL,
    DT_INTENT_CHANGE,
    DT_INTENT_RUN_NOW,
    DT_INTENT_ACTIONS
};

enum dt_intent_outcome { DT_INTENT_DONE, DT_INTENT_REFUSED, DT_INTENT_WAITS };

struct dt_intent {
    enum dt_intent_action action;
    struct dt_str topic, key; /* key absent: job_id names the job; in a create: the new job has no key */
    int64_t job_id;           /* 0 = `key` names the job */
    struct dt_insert insert;  /* for a create: retry absent and ack_timeout_ms 0 = the topic's values */
    struct dt_patch patch;    /* for a change */
    bool keep_attempt;        /* for a cancel: the current attempt continues */
    bool patient;             /* the intent may wait until the batch of an earlier attempt is settled */
    /* Shared by intents that must be carried out in order: set when one waits, and then all later ones wait. NULL: the
     * intent has no such group. */
    bool *stopped;

    /* Out; REFUSED may come from decoding. */
    enum dt_intent_outcome outcome;
    bool unsettled;            /* with WAITS: the intent waits for a batch to be settled */
    struct dt_problem problem; /* with REFUSED: the reason */
    struct dt_faults faults;
    struct dt_job job; /* except for a create: the job after the change, or the unchanged job if the intent was
                        * refused */
};

/* Refuses the intent with the problem of a status and the faults of its body. */
static inline void dt_intent_refuse_faults(struct dt_intent *x, dt_status status)
{
    x->outcome = DT_INTENT_REFUSED;
    x->problem = (struct dt_problem){.type = dt_problem_of_status(status), .faults = &x->faults};
    if (status == DT_INVALID)
        x->problem.detail = DT_STR_LIT("see errors for each invalid member");
}

#define DT_INTENT_TOPICS 64
/* Topics that intents name and that do not exist yet; kept from one transaction to the next. All zero at first. */
struct dt_intent_topics {
    struct dt_wanted_topic {
        char name[DT_TOPIC_MAX + 1];
        char reason[DT_TOPIC_REFUSAL_MAX]; /* reason of a refusal */
    } wanted[DT_INTENT_TOPICS], refused[DT_INTENT_TOPICS];
    size_t n_wanted, n_refused;
    int64_t refused_us; /* mono: time at which the first of these topics was refused */
};
/* Makes the topics that intents of the last transaction named. If a topic may not be made, intents for it are refused
 * for a few seconds. */
DT_MUST_CHECK dt_status dt_intent_topics_make(struct dt_intent_topics *topics, dt_store *store, int64_t now_us,
                                              struct dt_error *err);

/*
 * Decodes intents that an application wrote. Pure.
 *
 *   - A message of <installation>.commands: its value is an object with `action`, the job or topic (`topic`, `key`,
 *     `id`), and the members of the REST body of that action.
 *   - A row of job_inbox: its columns are converted to a REST body, which is then decoded like one, so that both always
 *     have the same meaning.
 */

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
    /* In: where to store the decoded intent. Every action sets its job or topic, outcome, problem and faults; an action
     * on one job sets all members. */
    struct dt_intent *intent;
    struct dt_result result; /* for a report; job_id 0 = `key` names the job */
    enum dt_outcome outcome; /* for a report: set by the caller after it was applied */
};

/* The value of a message (absent = null), and its time, from which delays count; 0 = it has none. Borrowed. */
struct dt_command_text {
    struct dt_str value;
    int64_t timestamp_ms;
};

#define DT_INBOX_OPTIONS_MAX ((size_t)65536)

/* The columns of a row. A NULL text is absent; a text that is too long is cut. */
struct dt_inbox_row {
    int64_t id;
    int64_t action; /* index in the ENUM, from 1; 0: not a valid word */
    struct dt_str topic, key;
    bool has_job_id, has_run_at, has_delay;
    int64_t job_id, run_at_ms, delay_ms;
    struct dt_str payload, options;
    size_t payload_bytes, options_bytes; /* full sizes in the table */
    int64_t created_at_ms;
};

/* Inputs of decoding. Decoded texts are in the arena. Payloads of messages stay in the message; payloads of rows are in
 * the arena or in the row. */
struct dt_intent_decoder {
    const struct dt_job_rules *rules;
    dt_json *json;
    struct dt_arena *arena;
    int64_t now_ms; /* the server's time */
};
/* Decodes a message. If it cannot be carried out, out->intent has the outcome REFUSED and its problem. Returns NOMEM if
 * memory runs out. */
DT_MUST_CHECK dt_status dt_command_message_decode(const struct dt_intent_decoder *decoder,
                                                  const struct dt_command_text *text, struct dt_command *out);
