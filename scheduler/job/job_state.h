/*
 * The only judge of a job's state: one table, state x event -> state.
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
    DT_EVENT_RETRY, /* an attempt ended without success, another follows */
    DT_EVENT_BURY,  /* an attempt ended without success, none follows */
    DT_EVENT_SNOOZE,
    DT_EVENT_EXTEND,
    DT_EVENT_CANCEL,
    DT_EVENT_NO_RETRIES,       /* cancel further attempts of a dispatched job */
    DT_EVENT_FINISH_CANCELLED, /* an attempt of a no_retries job ended without success */
    DT_EVENT_CHANGE,
    DT_EVENT_REDRIVE,
    DT_EVENTS
};

#define DT_STATE_ILLEGAL (-1)
/* Returns the state after the event, or DT_STATE_ILLEGAL. */
int dt_job_state_after(enum dt_job_state state, enum dt_event event);

/*
 * Adds `more` to a job's attempt, failures or version. The result is at most DT_NUMBER_MAX, as in SQL: a manual edit
 * may set such a number (the CHECK numbers_can_rise), and a number beyond its range would fail the statement for all
 * jobs of the batch.
 */
#define DT_NUMBER_MAX INT64_C(1999999999)
int64_t dt_job_number_after(int64_t number, int64_t more);

/* True if an attempt's time for a result is over. deadline_ms: next_at of a dispatched job. */
bool dt_job_deadline_passed(int64_t deadline_ms, int64_t now_ms);

/* ---- results ---- */
enum dt_result_status {
    DT_RESULT_SUCCEEDED,
    DT_RESULT_FAILED,
    DT_RESULT_SNOOZED,
    DT_RESULT_GAVE_UP,
    DT_RESULT_EXTENDED,
    DT_RESULT_TIMED_OUT,     /* decided by the leader, never reported */
    DT_RESULT_UNDELIVERABLE, /* like TIMED_OUT */
    DT_RESULT_LOST /* like TIMED_OUT: its process died; counts as no failure, and the next attempt is due at once */
};
/* BUSY: another session holds the job's row. Nothing was done; the caller may try again. */
enum dt_outcome { DT_OUTCOME_APPLIED, DT_OUTCOME_DUPLICATE, DT_OUTCOME_STALE, DT_OUTCOME_UNKNOWN_JOB, DT_OUTCOME_BUSY };

struct dt_result {
    int64_t job_id, attempt;
    enum dt_result_status status;
    int64_t retry_after_ms; /* -1 = absent */
    struct dt_str error_code, error_message;
};

/* The effect of a result on a job, computed from the row as it was read. */
struct dt_decision {
    enum dt_outcome outcome; /* the rest is valid if APPLIED */
    enum dt_job_state state;
    enum dt_attempt_status attempt_status;
    int64_t next_at_ms; /* 0 in terminal states */
    int64_t failures;
    bool failed;      /* the error becomes the job's last error */
    bool finished;    /* the attempt ended (finished_at = now) */
    bool dead_letter; /* a dead letter is written to the outbox */
};
/* now_ms: MySQL's clock. Uses job: state, attempt, attempt_status, failures, retry, ack_timeout, next_at, no_retries.
 */
struct dt_decision dt_job_decide(const struct dt_job *job, const struct dt_result *result, int64_t now_ms);

/*
 * Returns true if an attempt with this status already has the reported result. For earlier attempts, which are not in
 * the job's row any more: dt_job_decide returns STALE for them, and the archived attempt turns that into DUPLICATE.
 */
bool dt_result_repeats(enum dt_attempt_status recorded, enum dt_result_status reported);

/*
 * What a job waits for, in one word:
 *
 *   scheduled, next_at ahead              time
 *   scheduled, due, its topic paused      paused
 *   scheduled, due, its topic is full     limit (no room within max_in_flight or rate_limit, or nearly none)
 *   scheduled, due, no leader             leader (no owner, silent for 15 s, or halted); kafka if dispatchers wait for
 *                                         it before they elect a leader, and the job is sent to Kafka
 *   scheduled, due, its topic is popped   pop (once the leader has offered it, after milliseconds)
 *   scheduled, due, no place for callback limit (callbacks.max_in_flight, per_host or max_bytes of the dispatcher that
 *                                         leads its shard; no place at all if callbacks are not enabled)
 *   scheduled, due, its leader waits      kafka, redis: what the leader reports; kafka not if the job is a callback
 *   scheduled, due, none of these         leader (it has not claimed the job yet: milliseconds, or a backlog)
 *   dispatched, still to be sent          kafka (the leader waits for Kafka and has the job in its list)
 *   dispatched                            ack
 *   finished                              null
 *
 * Pure: the caller collects the facts.
 */

/* Facts about a job's topic and its shard; zero if unknown. */
struct dt_wait_facts {
    int64_t now_ms;            /* MySQL's clock */
    bool paused, full;         /* state of the topic; full: at its limits */
    enum dt_dealing dealing;   /* how leaders deal with the topic's jobs */
    bool led;                  /* the shard has a leader that reports and is not halted */
    bool no_place;             /* the leader has no place for a callback */
    struct dt_str leader_says; /* what the leader waits for, or dispatchers before they elect one; absent: nothing */
    bool unsent;               /* the job was dispatched, but not sent yet */
};
/* True if the job is scheduled and its time has come. */
bool dt_job_is_due(const struct dt_job *job, int64_t now_ms);
/* Returns the word: static text, or NULL if the job is finished. */
const char *dt_job_waits_for(const struct dt_job *job, const struct dt_wait_facts *facts);
