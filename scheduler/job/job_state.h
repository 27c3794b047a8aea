/*
 * The states of a job, and the only code that decides a state: one table, state x event -> state.
 *
 *  scheduled --claim--> dispatched --succeed--> succeeded
 *      ^  ^                 |  |---fail, time out: attempts left---> scheduled
 *      |  '---snooze--------'  |---fail, time out: exhausted; give up---> dead
 *      '-----redrive------ dead         (no_retries: cancelled instead of scheduled or dead)
 *  scheduled --cancel--> cancelled; scheduled --succeed (late)--> succeeded; scheduled --change--> scheduled
 */
#pragma once

#include "delivery.h"
#include "job.h"

enum dt_event {
    DT_EVENT_CLAIM,
    DT_EVENT_SUCCEED,
    DT_EVENT_RETRY, /* an attempt ended without success, and another one follows */
    DT_EVENT_BURY,  /* an attempt ended without success, and no other follows */
    DT_EVENT_SNOOZE,
    DT_EVENT_EXTEND,
    DT_EVENT_CANCEL,
    DT_EVENT_NO_RETRIES,       /* further attempts of a dispatched job are cancelled */
    DT_EVENT_FINISH_CANCELLED, /* an attempt of a no_retries job ended without success */
    DT_EVENT_CHANGE,
    DT_EVENT_REDRIVE,
    DT_EVENTS
};

#define DT_STATE_ILLEGAL (-1)
/* Returns the state after the event, or DT_STATE_ILLEGAL. */
int dt_job_state_after(enum dt_job_state state, enum dt_event event);

/* Returns the sum of a job's attempt, failures or version and `more`, at most DT_NUMBER_MAX, as in SQL. A manual edit
 * may set such a number (the CHECK numbers_can_rise); a number beyond the column's range would fail the statement for
 * all jobs of the batch. */
#define DT_NUMBER_MAX INT64_C(1999999999)
int64_t dt_job_number_after(int64_t number, int64_t more);

/* Returns true if an attempt's time for a result is over. deadline_ms: next_at of a dispatched job. */
bool dt_job_deadline_passed(int64_t deadline_ms, int64_t now_ms);

/* ---- results ---- */
enum dt_result_status {
    DT_RESULT_SUCCEEDED,
    DT_RESULT_FAILED,
    DT_RESULT_SNOOZED,
    DT_RESULT_GAVE_UP,
    DT_RESULT_EXTENDED,
    DT_RESULT_TIMED_OUT,     /* set by a leader, never reported */
    DT_RESULT_UNDELIVERABLE, /* set by a leader, never reported */
    DT_RESULT_LOST /* set by a leader, never reported: the attempt's process died; not a failure, and the next attempt
                    * is due at once */
};
/* The outcome of a result. BUSY: another session has the job's row locked; nothing was done, and the caller may try
 * again. */
enum dt_outcome { DT_OUTCOME_APPLIED, DT_OUTCOME_DUPLICATE, DT_OUTCOME_STALE, DT_OUTCOME_UNKNOWN_JOB, DT_OUTCOME_BUSY };

struct dt_result {
    int64_t job_id, attempt;
    enum dt_result_status status;
    int64_t retry_after_ms; /* -1 = absent */
    struct dt_str error_code, error_message;
};

/* The effect of a result on a job, computed from the row as it was read. */
struct dt_decision {
    enum dt_outcome outcome; /* the members below are valid if it is APPLIED */
    enum dt_job_state state;
    enum dt_attempt_status attempt_status;
    int64_t next_at_ms; /* 0 in terminal states */
    int64_t failures;
    bool failed;      /* the result's error becomes the job's last error */
    bool finished;    /* the attempt ended (finished_at = now) */
    bool dead_letter; /* a dead letter is to be written into the outbox */
};
/* Decides what a result does to a job. now_ms: MySQL's clock. Reads state, attempt, attempt_status, failures, retry,
 * ack_timeout, next_at and no_retries of the job. */
struct dt_decision dt_job_decide(const struct dt_job *job, const struct dt_result *result, int64_t now_ms);

/* Returns true if an attempt with this status already has the reported result. For an earlier attempt, which is not in
 * the job's row any more, dt_job_decide returns STALE. If the stored attempt then has the reported result, the caller
 * reports DUPLICATE instead. */
bool dt_result_repeats(enum dt_attempt_status recorded, enum dt_result_status reported);

/*
 * What a job waits for, in one word:
 *
 *   scheduled, next_at is in the future   time
 *   scheduled, due, its topic is paused   paused
 *   scheduled, due, its topic is full     limit (no room within max_in_flight or rate_limit, or nearly none)
 *   scheduled, due, no leader             leader (no owner, silent for 15 s, or halted); kafka if the job is sent to
 *                                         Kafka, and dispatchers wait for Kafka before they elect a leader
 *   scheduled, due, its topic is popped   pop (after the leader has offered the job, which takes milliseconds)
 *   scheduled, due, no place for callback limit (callbacks.max_in_flight, per_host or max_bytes of the dispatcher that
 *                                         leads its shard; no place at all if callbacks are not enabled)
 *   scheduled, due, its leader waits      kafka, redis: the word that the leader reports; kafka not for a callback
 *   scheduled, due, none of the above     leader (it has not claimed the job yet: milliseconds, or a backlog)
 *   dispatched, still to be sent          kafka (the leader waits for Kafka and has the job in its list)
 *   dispatched                            ack
 *   finished                              null
 *
 * Pure: the caller collects the facts.
 */

/* Facts about a job's topic and its shard; a fact that is not known is zero. */
struct dt_wait_facts {
    int64_t now_ms;            /* MySQL's clock */
    bool paused, full;         /* the topic is paused; the topic is at its limits */
    enum dt_dealing dealing;   /* how leaders deal with the topic's jobs */
    bool led;                  /* the shard has a leader that reports and is not halted */
    bool no_place;             /* the leader cannot send another callback, because a limit of callbacks is reached */
    struct dt_str leader_says; /* what the shard's leader waits for, or what dispatchers wait for before they elect a
                                * leader; absent: nothing */
    bool unsent;               /* the job was dispatched, but not sent yet */
};
/* Returns true if the job is scheduled and its time has come. */
bool dt_job_is_due(const struct dt_job *job, int64_t now_ms);
/* Returns the word of the table above as static text. NULL: the job is finished. */
const char *dt_job_waits_for(const struct dt_job *job, const struct dt_wait_facts *facts);
