/*
 * Intents: requests that do not arrive by HTTP, but as a row of job_inbox or as a message from Kafka. Each creates,
 * replaces, cancels, changes or runs one job, and has the same outcome as an HTTP request: it uses the same decoder
 * (job/job_json.h) and the same functions on jobs, and its problems have the same texts.
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
    struct dt_str topic, key; /* key absent: job_id names the job; for a create without key: the job gets no key */
    int64_t job_id;           /* id of the job; 0 = `key` names the job */
    struct dt_insert insert;  /* for a create or replace; retry absent and ack_timeout_ms 0 = the topic's values */
    struct dt_patch patch;    /* for a change: the members to change */
    bool keep_attempt;        /* for a cancel: the current attempt continues, and only further attempts are cancelled */
    bool patient; /* the intent may wait until the attempt that prevents its change has left the in-flight list */
    /* Several intents may share this flag. If one of them has to wait, it sets the flag, and all later ones wait, too.
     * NULL: the intent shares no flag. */
    bool *stopped;

    /* Out, as all members below. The decoder may set REFUSED. */
    enum dt_intent_outcome outcome;
    bool unsettled;            /* with WAITS: the intent waits until an attempt has left the in-flight list */
    struct dt_problem problem; /* with REFUSED: the reason */
    struct dt_faults faults;
    struct dt_job job; /* except for a create: the job after the change, or the unchanged job if the change was
                        * refused */
};

/* Refuses the intent. The problem has the type of the status, and the faults of the intent. */
static inline void dt_intent_refuse_faults(struct dt_intent *x, dt_status status)
{
    x->outcome = DT_INTENT_REFUSED;
    x->problem = (struct dt_problem){.type = dt_problem_of_status(status), .faults = &x->faults};
    if (status == DT_INVALID)
        x->problem.detail = DT_STR_LIT("see errors for each invalid member");
}

#define DT_INTENT_TOPICS 64
/* Topics that intents name and that do not exist yet. Lives longer than a transaction. All zero at first. */
struct dt_intent_topics {
    struct dt_wanted_topic {
        char name[DT_TOPIC_MAX + 1];
        char reason[DT_TOPIC_REFUSAL_MAX]; /* if the topic was refused: the reason */
    } wanted[DT_INTENT_TOPICS], refused[DT_INTENT_TOPICS];
    size_t n_wanted, n_refused;
    int64_t refused_us; /* mono: when `refused` was last emptied */
};
/* Creates the topics that intents of the last transaction named. If a topic is refused, intents for it are refused for
 * a few seconds. */
dt_status dt_intent_topics_make(struct dt_intent_topics *topics, dt_store *store, int64_t now_us, struct dt_error *err);

/*
 * Decodes intents that an application wrote. Pure.
 *
 *   - A message of <installation>.commands: its value is an object with `action`, the job or topic (`topic`, `key`,
 *     `id`), and the members of the REST body of that action.
 *   - A row of job_inbox: its columns are converted to a REST body, which is then decoded like one, so that both always
 *     have the same meaning.
 */

/* Actions of a command. Those on one job come first, in the order of enum dt_intent_action. */
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
    /* In: where to store the decoded intent. Every action sets its job or topic, outcome, problem and faults; actions
     * on a job set all members. */
    struct dt_intent *intent;
    struct dt_result result; /* for a report; job_id 0 = the key of the intent names the job */
    enum dt_outcome outcome; /* for a report: the outcome, which the caller sets after applying it */
};

/* The value of a message, absent = null; and its timestamp, from which delays count, 0 = it has none. Borrowed. */
struct dt_command_text {
    struct dt_str value;
    int64_t timestamp_ms;
};

#define DT_INBOX_OPTIONS_MAX ((size_t)65536)

/* The columns of a row of job_inbox. A NULL text is absent. A text that is too long is cut. */
struct dt_inbox_row {
    int64_t id;
    int64_t action; /* number in the ENUM job_inbox.action, from 1; 0: an invalid word */
    struct dt_str topic, key;
    bool has_job_id, has_run_at, has_delay;
    int64_t job_id, run_at_ms, delay_ms;
    struct dt_str payload, options;
    size_t payload_bytes, options_bytes; /* sizes in the table, before texts were cut */
    int64_t created_at_ms;
};

/* The inputs of a decoder. Decoded texts are in the arena. The payload of a message stays in the message; the payload
 * of a row is in the arena or in the row. */
struct dt_intent_decoder {
    const struct dt_job_rules *rules;
    dt_json *json;
    struct dt_arena *arena;
    int64_t now_ms; /* MySQL's clock */
};
/* Decodes a message. If the message cannot be carried out, out->intent has the outcome REFUSED and the problem. Returns
 * NOMEM if memory runs out. */
dt_status dt_command_message_decode(const struct dt_intent_decoder *with, const struct dt_command_text *text,
                                    struct dt_command *out);
