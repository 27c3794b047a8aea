/*
 * The table of states and the judgement of results. Pure: the caller reads the row, and writes what is decided only
 * where the row is still as it was read.
 *
 * Invariants: a state that C decides comes out of the table; statements that write a state repeat its condition; a
 * result changes a job only as a result of its latest attempt, and only while that attempt is out (or, for a success,
 * while the job waits for its next attempt); the number of failures never falls here; a terminal state has no next_at.
 */
#include "job_state.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/guard.h"
#include "job.h"

#define NO DT_STATE_ILLEGAL

/* clang-format off */
static const signed char after[DT_JOB_STATES][DT_EVENTS] = {
    [DT_SCHEDULED] = {
        [DT_EVENT_CLAIM] = DT_DISPATCHED,  [DT_EVENT_SUCCEED] = DT_SUCCEEDED, [DT_EVENT_RETRY] = NO,
        [DT_EVENT_BURY] = NO,              [DT_EVENT_SNOOZE] = NO,            [DT_EVENT_EXTEND] = NO,
        [DT_EVENT_CANCEL] = DT_CANCELLED,  [DT_EVENT_NO_RETRIES] = NO,        [DT_EVENT_FINISH_CANCELLED] = NO,
        [DT_EVENT_CHANGE] = DT_SCHEDULED,  [DT_EVENT_REDRIVE] = NO,
    },
    [DT_DISPATCHED] = {
        [DT_EVENT_CLAIM] = NO,             [DT_EVENT_SUCCEED] = DT_SUCCEEDED, [DT_EVENT_RETRY] = DT_SCHEDULED,
        [DT_EVENT_BURY] = DT_DEAD,         [DT_EVENT_SNOOZE] = DT_SCHEDULED,  [DT_EVENT_EXTEND] = DT_DISPATCHED,
        [DT_EVENT_CANCEL] = NO,            [DT_EVENT_NO_RETRIES] = DT_DISPATCHED,
        [DT_EVENT_FINISH_CANCELLED] = DT_CANCELLED,
        [DT_EVENT_CHANGE] = NO,            [DT_EVENT_REDRIVE] = NO,
    },
    [DT_SUCCEEDED] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
    [DT_DEAD] = {
        [DT_EVENT_CLAIM] = NO,             [DT_EVENT_SUCCEED] = NO,           [DT_EVENT_RETRY] = NO,
        [DT_EVENT_BURY] = NO,              [DT_EVENT_SNOOZE] = NO,            [DT_EVENT_EXTEND] = NO,
        [DT_EVENT_CANCEL] = NO,            [DT_EVENT_NO_RETRIES] = NO,        [DT_EVENT_FINISH_CANCELLED] = NO,
        [DT_EVENT_CHANGE] = NO,            [DT_EVENT_REDRIVE] = DT_SCHEDULED,
    },
    [DT_CANCELLED] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO},
};
/* clang-format on */

_Static_assert(DT_EVENTS == 11, "every row of the table names every event");

int dt_job_state_after(enum dt_job_state state, enum dt_event event)
{
    if ((unsigned)state >= DT_JOB_STATES || (unsigned)event >= DT_EVENTS)
        return DT_STATE_ILLEGAL;
    return after[state][event];
}

int64_t dt_job_number_after(int64_t number, int64_t more)
{
    return number < DT_NUMBER_MAX - more ? number + more : DT_NUMBER_MAX;
}

bool dt_job_deadline_passed(int64_t deadline_ms, int64_t now_ms)
{
    return DT_GUARD(DEADLINE, deadline_ms <= now_ms);
}

/* ---- results ---- */

/* The status of an attempt after the result. */
static enum dt_attempt_status attempt_after(enum dt_result_status status)
{
    switch (status) {
    case DT_RESULT_SUCCEEDED:
        return DT_ATTEMPT_SUCCEEDED;
    case DT_RESULT_FAILED:
        return DT_ATTEMPT_FAILED;
    case DT_RESULT_SNOOZED:
        return DT_ATTEMPT_SNOOZED;
    case DT_RESULT_GAVE_UP:
        return DT_ATTEMPT_GAVE_UP;
    case DT_RESULT_EXTENDED:
        return DT_ATTEMPT_DISPATCHED;
    case DT_RESULT_TIMED_OUT:
        return DT_ATTEMPT_TIMED_OUT;
    case DT_RESULT_UNDELIVERABLE:
        return DT_ATTEMPT_UNDELIVERABLE;
    case DT_RESULT_LOST:
        return DT_ATTEMPT_LOST;
    }
    return DT_ATTEMPT_NONE;
}

bool dt_result_repeats(enum dt_attempt_status recorded, enum dt_result_status reported)
{
    return reported != DT_RESULT_EXTENDED && recorded != DT_ATTEMPT_NONE && recorded == attempt_after(reported);
}

/* May this result change this job at all? */
static bool applies(const struct dt_job *job, const struct dt_result *result, int64_t now_ms)
{
    if (!DT_GUARD(RESULT_ATTEMPT, result->attempt == job->attempt) || job->attempt < 1)
        return false;
    /* An undeliverable attempt reached nobody: a success that is reported for it is a mistake. */
    if (job->state == DT_SCHEDULED)
        return result->status == DT_RESULT_SUCCEEDED && job->attempt_status != DT_ATTEMPT_UNDELIVERABLE;
    if (job->state != DT_DISPATCHED)
        return false;
    if (result->status == DT_RESULT_TIMED_OUT)
        return dt_job_deadline_passed(job->next_at_ms, now_ms); /* an extension may have moved it meanwhile */
    return result->status != DT_RESULT_SNOOZED || result->retry_after_ms >= 0;
}

/*
 * The event that a result is for this job, and the delay to the job's next attention where there is one. A schedule
 * that nobody can read (a manual edit gone wrong) counts as the default one: a retry too many can be cancelled, a dead
 * job has been given up.
 */
static enum dt_event event_of(const struct dt_job *job, const struct dt_result *result, int64_t *delay_ms)
{
    int64_t delays_ms[DT_RETRY_MAX];
    unsigned n;
    *delay_ms = 0;
    if (result->status == DT_RESULT_SUCCEEDED)
        return DT_EVENT_SUCCEED;
    if (result->status == DT_RESULT_EXTENDED) {
        /* Columns may hold anything after a manual edit: no time may overflow. */
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
        return DT_EVENT_BURY; /* the budget is spent */
    *delay_ms = result->retry_after_ms >= 0 ? result->retry_after_ms : delays_ms[job->failures];
    return DT_EVENT_RETRY;
}

struct dt_decision dt_job_decide(const struct dt_job *job, const struct dt_result *result, int64_t now_ms)
{
    struct dt_decision d = {.outcome = DT_OUTCOME_STALE};
    int64_t delay_ms;
    if (!applies(job, result, now_ms)) {
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
    d.attempt_status = attempt_after(result->status);
    d.next_at_ms = dt_job_state_terminal(d.state) ? 0 : now_ms + delay_ms;
    d.failed = result->status != DT_RESULT_SUCCEEDED && result->status != DT_RESULT_SNOOZED &&
               result->status != DT_RESULT_EXTENDED && result->status != DT_RESULT_LOST;
    d.failures = dt_job_number_after(job->failures, d.failed);
    d.finished = event != DT_EVENT_EXTEND;
    d.dead_letter = event == DT_EVENT_BURY;
    dt_assert(d.dead_letter == (d.state == DT_DEAD));
    return d;
}

/* The word for what a job waits for: see job_state.h. */

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
    if (!called && dt_str_is(facts->leader_says, "kafka")) /* what Kafka does matters to jobs that go there */
        return "kafka";
    return dt_str_is(facts->leader_says, "redis") ? "redis" : "leader";
}
