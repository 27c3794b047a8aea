/*
 * The table of states, and the effect of results. Pure: the caller reads the row, and writes the decision only if the
 * row has not changed since.
 *
 * Invariants: every state that the C code decides comes from the table; statements that write a state check its
 * condition again. A result changes a job only if it is for the latest attempt, and only while that attempt is
 * dispatched; a success also while the job waits for its next attempt. The number of failures never falls here. A
 * terminal state has no next_at.
 */
#include "job_state.h"

#include "base/assert.h"
#include "base/guard.h"

/* 1 + the state that follows the event; 0 = the event is illegal. */
static const signed char after[DT_JOB_STATES][DT_EVENTS] = {
    [DT_SCHEDULED] = {[DT_EVENT_CLAIM] = 1 + DT_DISPATCHED,
                      [DT_EVENT_SUCCEED] = 1 + DT_SUCCEEDED,
                      [DT_EVENT_CANCEL] = 1 + DT_CANCELLED,
                      [DT_EVENT_CHANGE] = 1 + DT_SCHEDULED},
    [DT_DISPATCHED] = {[DT_EVENT_SUCCEED] = 1 + DT_SUCCEEDED,
                       [DT_EVENT_RETRY] = 1 + DT_SCHEDULED,
                       [DT_EVENT_BURY] = 1 + DT_DEAD,
                       [DT_EVENT_SNOOZE] = 1 + DT_SCHEDULED,
                       [DT_EVENT_EXTEND] = 1 + DT_DISPATCHED,
                       [DT_EVENT_NO_RETRIES] = 1 + DT_DISPATCHED,
                       [DT_EVENT_FINISH_CANCELLED] = 1 + DT_CANCELLED},
    [DT_DEAD] = {[DT_EVENT_REDRIVE] = 1 + DT_SCHEDULED},
};

int dt_job_state_after(enum dt_job_state state, enum dt_event event)
{
    if ((unsigned)state >= DT_JOB_STATES || (unsigned)event >= DT_EVENTS)
        return DT_STATE_ILLEGAL;
    return after[state][event] - 1;
}

int64_t dt_job_number_after(int64_t number, int64_t more)
{
    return number < DT_NUMBER_MAX - more ? number + more : DT_NUMBER_MAX;
}

bool dt_job_deadline_passed(int64_t deadline_ms, int64_t now_ms)
{
    return DT_GUARD(DEADLINE, deadline_ms <= now_ms);
}

/* The status of the attempt, by the result that ended it. */
static const enum dt_attempt_status attempt_after[] = {
    [DT_RESULT_SUCCEEDED] = DT_ATTEMPT_SUCCEEDED, [DT_RESULT_FAILED] = DT_ATTEMPT_FAILED,
    [DT_RESULT_SNOOZED] = DT_ATTEMPT_SNOOZED,     [DT_RESULT_GAVE_UP] = DT_ATTEMPT_GAVE_UP,
    [DT_RESULT_EXTENDED] = DT_ATTEMPT_DISPATCHED, [DT_RESULT_TIMED_OUT] = DT_ATTEMPT_TIMED_OUT,
    [DT_RESULT_LOST] = DT_ATTEMPT_LOST,           [DT_RESULT_UNDELIVERABLE] = DT_ATTEMPT_UNDELIVERABLE,
};

bool dt_result_repeats(enum dt_attempt_status recorded, enum dt_result_status reported)
{
    return reported != DT_RESULT_EXTENDED && recorded != DT_ATTEMPT_NONE && recorded == attempt_after[reported];
}

/* Returns true if this result may change this job. */
static bool result_applies(const struct dt_job *job, const struct dt_result *result, int64_t now_ms)
{
    if (!DT_GUARD(RESULT_ATTEMPT, result->attempt == job->attempt) || job->attempt < 1)
        return false;
    /* An undeliverable attempt reached no consumer, so a reported success must be a mistake. */
    if (job->state == DT_SCHEDULED)
        return result->status == DT_RESULT_SUCCEEDED && job->attempt_status != DT_ATTEMPT_UNDELIVERABLE;
    if (job->state != DT_DISPATCHED)
        return false;
    if (result->status == DT_RESULT_TIMED_OUT)
        return dt_job_deadline_passed(job->next_at_ms, now_ms); /* the deadline may have been extended meanwhile */
    return result->status != DT_RESULT_SNOOZED || result->retry_after_ms >= 0;
}

/* Returns which event the result is for this job. *delay_ms: delay until the job's next_at, if the event has one. If a
 * manual edit broke the retry schedule, the default schedule is used: a superfluous retry can be cancelled, but a job
 * that became dead by mistake would be lost. */
static enum dt_event event_of(const struct dt_job *job, const struct dt_result *result, int64_t *delay_ms)
{
    int64_t delays_ms[DT_RETRY_MAX];
    unsigned n;
    *delay_ms = 0;
    if (result->status == DT_RESULT_SUCCEEDED)
        return DT_EVENT_SUCCEED;
    if (result->status == DT_RESULT_EXTENDED) {
        /* A manual edit may set any number in the column, and the sum of times must not overflow. */
        const int64_t own_ms = dt_earlier(job->ack_timeout_ms, DT_DURATION_MAX_MS);
        *delay_ms = result->retry_after_ms >= 0 ? result->retry_after_ms : own_ms;
        return DT_EVENT_EXTEND;
    }
    if (job->no_retries)
        return DT_EVENT_FINISH_CANCELLED;
    if (result->status == DT_RESULT_SNOOZED) {
        *delay_ms = result->retry_after_ms;
        return DT_EVENT_SNOOZE;
    }
    if (result->status == DT_RESULT_LOST)
        return DT_EVENT_RETRY;
    if (result->status == DT_RESULT_GAVE_UP)
        return DT_EVENT_BURY;
    const bool readable = dt_retry_parse(job->retry, delays_ms, &n) == DT_OK ||
                          dt_retry_parse(DT_STR_LIT(DT_RETRY_DEFAULT), delays_ms, &n) == DT_OK;
    if (!readable || job->failures < 0 || job->failures >= (int64_t)n)
        return DT_EVENT_BURY; /* the retry schedule has no attempt left */
    /* Both delays have a limit: DT_DURATION_MAX_MS for a schedule, limits.max_delay for a header Retry-After. */
    *delay_ms = result->retry_after_ms >= 0 ? result->retry_after_ms : delays_ms[job->failures];
    return DT_EVENT_RETRY;
}

struct dt_decision dt_job_decide(const struct dt_job *job, const struct dt_result *result, int64_t now_ms)
{
    struct dt_decision d = {.outcome = DT_OUTCOME_STALE};
    int64_t delay_ms;
    if (!result_applies(job, result, now_ms)) {
        if (result->attempt == job->attempt && dt_result_repeats(job->attempt_status, result->status))
            d.outcome = DT_OUTCOME_DUPLICATE;
        return d;
    }
    const enum dt_event event = event_of(job, result, &delay_ms);
    const int state = dt_job_state_after(job->state, event);
    if (state == DT_STATE_ILLEGAL)
        return d;
    d.outcome = DT_OUTCOME_APPLIED;
    d.state = (enum dt_job_state)state;
    d.attempt_status = attempt_after[result->status];
    d.next_at_ms = dt_job_state_terminal(d.state) ? 0 : now_ms + delay_ms;
    d.failed = result->status != DT_RESULT_SUCCEEDED && result->status != DT_RESULT_SNOOZED &&
               result->status != DT_RESULT_EXTENDED && result->status != DT_RESULT_LOST;
    d.failures = dt_job_number_after(job->failures, d.failed);
    d.finished = event != DT_EVENT_EXTEND;
    d.dead_letter = event == DT_EVENT_BURY;
    dt_assert(d.dead_letter == (d.state == DT_DEAD));
    return d;
}

bool dt_job_is_due(const struct dt_job *job, int64_t now_ms)
{
    return job->state == DT_SCHEDULED && job->next_at_ms <= now_ms;
}

const char *dt_job_waits_for(const struct dt_job *job, const struct dt_wait_facts *facts)
{
    const bool called = facts->dealing == DT_DEALING_HANDS;
    if (job->state == DT_DISPATCHED)
        return facts->unsent ? "kafka" : "ack";
    if (job->state != DT_SCHEDULED)
        return NULL;
    if (!dt_job_is_due(job, facts->now_ms))
        return "time";
    if (facts->paused)
        return "paused";
    if (facts->full || (called && facts->no_place))
        return "limit";
    if (facts->dealing == DT_DEALING_OFFERS)
        return facts->led ? "pop" : "leader";
    if (!called && dt_str_is(facts->leader_says, "kafka")) /* `kafka` matters only to jobs that are sent to Kafka */
        return "kafka";
    return dt_str_is(facts->leader_says, "redis") ? "redis" : "leader";
}
