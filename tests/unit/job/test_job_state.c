/* The state table, pair by pair, and the judgement of results: first one test a rule, then every combination of state,
 * recorded attempt, reported status, attempt number and budget against rules that are written a second time here. */
#include "support/suite.h"

#include "job/job_state.h"

/* ---- the table ---- */

TEST(every_pair_of_state_and_event_matches_the_diagram)
{
    static const struct {
        enum dt_job_state from;
        enum dt_event event;
        enum dt_job_state to;
    } legal[] = {
        {DT_SCHEDULED, DT_EVENT_CLAIM, DT_DISPATCHED},
        {DT_SCHEDULED, DT_EVENT_SUCCEED, DT_SUCCEEDED},
        {DT_SCHEDULED, DT_EVENT_CANCEL, DT_CANCELLED},
        {DT_SCHEDULED, DT_EVENT_CHANGE, DT_SCHEDULED},
        {DT_DISPATCHED, DT_EVENT_SUCCEED, DT_SUCCEEDED},
        {DT_DISPATCHED, DT_EVENT_RETRY, DT_SCHEDULED},
        {DT_DISPATCHED, DT_EVENT_BURY, DT_DEAD},
        {DT_DISPATCHED, DT_EVENT_SNOOZE, DT_SCHEDULED},
        {DT_DISPATCHED, DT_EVENT_EXTEND, DT_DISPATCHED},
        {DT_DISPATCHED, DT_EVENT_NO_RETRIES, DT_DISPATCHED},
        {DT_DISPATCHED, DT_EVENT_FINISH_CANCELLED, DT_CANCELLED},
        {DT_DEAD, DT_EVENT_REDRIVE, DT_SCHEDULED},
    };
    unsigned met = 0;
    for (int from = 0; from < DT_JOB_STATES; from++)
        for (int event = 0; event < DT_EVENTS; event++) {
            int want = DT_STATE_ILLEGAL;
            for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++)
                if ((int)legal[i].from == from && (int)legal[i].event == event) {
                    want = (int)legal[i].to;
                    met++;
                }
            if (dt_job_state_after((enum dt_job_state)from, (enum dt_event)event) != want)
                fail_msg("state %d, event %d", from, event);
        }
    assert_int_equal(met, sizeof legal / sizeof legal[0]);
}

TEST(an_unknown_state_or_event_is_illegal)
{
    assert_int_equal(dt_job_state_after((enum dt_job_state)DT_JOB_STATES, DT_EVENT_CLAIM), DT_STATE_ILLEGAL);
    assert_int_equal(dt_job_state_after((enum dt_job_state) - 1, DT_EVENT_CLAIM), DT_STATE_ILLEGAL);
    assert_int_equal(dt_job_state_after(DT_SCHEDULED, DT_EVENTS), DT_STATE_ILLEGAL);
    assert_int_equal(dt_job_state_after(DT_SCHEDULED, (enum dt_event) - 1), DT_STATE_ILLEGAL);
}

TEST(a_deadline_has_passed_once_it_is_not_later_than_now)
{
    assert_true(dt_job_deadline_passed(99, 100));
    assert_true(dt_job_deadline_passed(100, 100));
    assert_false(dt_job_deadline_passed(101, 100));
}

/* ---- results, rule by rule ---- */

#define NOW INT64_C(1800000000000)

/* Attempt 2 is out, one failure before it, three delays. */
static struct dt_job dispatched_job(void)
{
    return (struct dt_job){
        .id = 9,
        .state = DT_DISPATCHED,
        .next_at_ms = NOW + 1000,
        .attempt = 2,
        .failures = 1,
        .attempt_status = DT_ATTEMPT_DISPATCHED,
        .retry = DT_STR_LIT("15s 3m 10m"),
        .ack_timeout_ms = 60000,
    };
}

static struct dt_result result_of(enum dt_result_status status)
{
    return (struct dt_result){.job_id = 9, .attempt = 2, .status = status, .retry_after_ms = -1};
}

TEST(a_failure_waits_for_the_delay_of_its_number)
{
    static const int64_t delays[] = {15000, 180000, 600000};
    struct dt_result result = result_of(DT_RESULT_FAILED);
    for (int failures = 0; failures < 3; failures++) {
        struct dt_job job = dispatched_job();
        struct dt_decision d;
        job.failures = failures;
        d = dt_job_decide(&job, &result, NOW);
        assert_members(d, (outcome, DT_OUTCOME_APPLIED), (state, DT_SCHEDULED), (attempt_status, DT_ATTEMPT_FAILED),
                       (next_at_ms, NOW + delays[failures]), (failures, failures + 1));
        assert_true(d.failed && d.finished);
        assert_false(d.dead_letter);
    }
}

TEST(retry_after_of_a_failure_replaces_the_delay_but_not_the_budget)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_FAILED);
    result.retry_after_ms = 7;
    assert_int_equal(dt_job_decide(&job, &result, NOW).next_at_ms, NOW + 7);
    result.retry_after_ms = 0;
    assert_int_equal(dt_job_decide(&job, &result, NOW).next_at_ms, NOW);
    job.failures = 3;
    assert_int_equal(dt_job_decide(&job, &result, NOW).state, DT_DEAD);
}

TEST(an_unreadable_retry_schedule_counts_as_the_default_one)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_FAILED);
    job.retry = DT_STR_LIT("soon, please");
    assert_int_equal(dt_job_decide(&job, &result, NOW).next_at_ms, NOW + 180000);
    job.failures = 9;
    assert_int_equal(dt_job_decide(&job, &result, NOW).state, DT_DEAD);
}

TEST(counters_saturate_at_their_maximum)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_FAILED);
    assert_int_equal(dt_job_number_after(0, 0), 0);
    assert_int_equal(dt_job_number_after(7, 2), 9);
    assert_int_equal(dt_job_number_after(DT_NUMBER_MAX - 2, 1), DT_NUMBER_MAX - 1);
    assert_int_equal(dt_job_number_after(DT_NUMBER_MAX - 1, 1), DT_NUMBER_MAX);
    assert_int_equal(dt_job_number_after(DT_NUMBER_MAX, 1), DT_NUMBER_MAX);
    assert_int_equal(dt_job_number_after(DT_NUMBER_MAX, 0), DT_NUMBER_MAX);
    job.failures = DT_NUMBER_MAX;
    assert_int_equal(dt_job_decide(&job, &result, NOW).failures, DT_NUMBER_MAX);
}

TEST(a_snooze_waits_and_is_no_failure)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_SNOOZED);
    job.failures = 3; /* even with nothing left */
    result.retry_after_ms = 5000;
    struct dt_decision d = dt_job_decide(&job, &result, NOW);
    assert_members(d, (outcome, DT_OUTCOME_APPLIED), (state, DT_SCHEDULED), (attempt_status, DT_ATTEMPT_SNOOZED),
                   (next_at_ms, NOW + 5000), (failures, 3), (finished, true), (failed, false));
}

TEST(an_extension_restarts_the_deadline)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_EXTENDED);
    struct dt_decision d = dt_job_decide(&job, &result, NOW);
    assert_members(d, (outcome, DT_OUTCOME_APPLIED), (state, DT_DISPATCHED), (attempt_status, DT_ATTEMPT_DISPATCHED),
                   (next_at_ms, NOW + 60000), (failures, 1));
    assert_false(d.finished || d.failed || d.dead_letter);
    result.retry_after_ms = 5000;
    assert_int_equal(dt_job_decide(&job, &result, NOW).next_at_ms, NOW + 5000);
    result.retry_after_ms = 0;
    assert_int_equal(dt_job_decide(&job, &result, NOW).next_at_ms, NOW);
}

TEST(a_timeout_counts_as_a_failure_at_its_deadline)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_TIMED_OUT);
    job.next_at_ms = NOW;
    struct dt_decision d = dt_job_decide(&job, &result, NOW);
    assert_members(d, (outcome, DT_OUTCOME_APPLIED), (state, DT_SCHEDULED), (attempt_status, DT_ATTEMPT_TIMED_OUT),
                   (next_at_ms, NOW + 180000));
    assert_true(d.failed && d.finished);
    job.next_at_ms = NOW + 1; /* extended meanwhile */
    assert_int_equal(dt_job_decide(&job, &result, NOW).outcome, DT_OUTCOME_STALE);
}

TEST(a_deadline_stays_valid_after_a_manual_edit_of_the_ack_timeout)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_EXTENDED);
    job.ack_timeout_ms = INT64_MAX;
    struct dt_decision d = dt_job_decide(&job, &result, NOW);
    assert_int_equal(d.outcome, DT_OUTCOME_APPLIED);
    assert_true(d.next_at_ms > NOW);
}

TEST(a_job_that_was_never_dispatched_accepts_no_result)
{
    struct dt_job job = dispatched_job();
    struct dt_result result = result_of(DT_RESULT_SUCCEEDED);
    job.state = DT_SCHEDULED;
    job.attempt = 0;
    job.attempt_status = DT_ATTEMPT_NONE;
    for (result.attempt = -1; result.attempt <= 1; result.attempt++)
        assert_int_equal(dt_job_decide(&job, &result, NOW).outcome, DT_OUTCOME_STALE);
}

TEST(a_result_of_an_earlier_attempt_is_a_repeat_only_if_it_was_recorded)
{
    assert_true(dt_result_repeats(DT_ATTEMPT_FAILED, DT_RESULT_FAILED));
    assert_true(dt_result_repeats(DT_ATTEMPT_SNOOZED, DT_RESULT_SNOOZED));
    assert_false(dt_result_repeats(DT_ATTEMPT_TIMED_OUT, DT_RESULT_FAILED));
    assert_false(dt_result_repeats(DT_ATTEMPT_FAILED, DT_RESULT_SUCCEEDED));
    assert_false(dt_result_repeats(DT_ATTEMPT_NONE, DT_RESULT_SUCCEEDED));
    assert_false(dt_result_repeats(DT_ATTEMPT_DISPATCHED, DT_RESULT_EXTENDED));
}

/* ---- every combination ---- */

struct combination {
    int state, recorded, reported, shift; /* shift: attempt reported less latest attempt */
    int failures, no_retries, retry_after, due;
};

static bool same_word(int recorded, int reported)
{
    switch (reported) {
    case DT_RESULT_SUCCEEDED:
        return recorded == DT_ATTEMPT_SUCCEEDED;
    case DT_RESULT_FAILED:
        return recorded == DT_ATTEMPT_FAILED;
    case DT_RESULT_SNOOZED:
        return recorded == DT_ATTEMPT_SNOOZED;
    case DT_RESULT_GAVE_UP:
        return recorded == DT_ATTEMPT_GAVE_UP;
    case DT_RESULT_TIMED_OUT:
        return recorded == DT_ATTEMPT_TIMED_OUT;
    case DT_RESULT_UNDELIVERABLE:
        return recorded == DT_ATTEMPT_UNDELIVERABLE;
    case DT_RESULT_LOST:
        return recorded == DT_ATTEMPT_LOST;
    default:
        return false;
    }
}

static bool should_apply(const struct combination *c)
{
    if (c->shift != 0 || c->state >= DT_SUCCEEDED)
        return false;
    if (c->state == DT_SCHEDULED)
        return c->reported == DT_RESULT_SUCCEEDED && c->recorded != DT_ATTEMPT_UNDELIVERABLE;
    return !(c->reported == DT_RESULT_SNOOZED && c->retry_after < 0) &&
           !(c->reported == DT_RESULT_TIMED_OUT && !c->due);
}

static int state_wanted(const struct combination *c)
{
    bool budget = c->failures < 2; /* two delays */
    if (c->reported == DT_RESULT_SUCCEEDED)
        return DT_SUCCEEDED;
    if (c->reported == DT_RESULT_EXTENDED)
        return DT_DISPATCHED;
    if (c->no_retries)
        return DT_CANCELLED;
    if (c->reported == DT_RESULT_SNOOZED)
        return DT_SCHEDULED;
    if (c->reported == DT_RESULT_LOST)
        return DT_SCHEDULED;
    return c->reported == DT_RESULT_GAVE_UP || !budget ? DT_DEAD : DT_SCHEDULED;
}

static void judge(const struct combination *c)
{
    struct dt_job job = {
        .id = 1,
        .state = (enum dt_job_state)c->state,
        .next_at_ms = c->state >= DT_SUCCEEDED ? 0 : NOW + !c->due,
        .attempt = 3,
        .failures = c->failures,
        .attempt_status = (enum dt_attempt_status)c->recorded,
        .no_retries = c->no_retries,
        .retry = DT_STR_LIT("15s 3m"),
        .ack_timeout_ms = 60000,
    };
    struct dt_result result = {1,           3 + c->shift, (enum dt_result_status)c->reported, c->retry_after,
                               DT_STR_NONE, DT_STR_NONE};
    struct dt_decision d = dt_job_decide(&job, &result, NOW);
    bool failure = c->reported != DT_RESULT_SUCCEEDED && c->reported != DT_RESULT_SNOOZED &&
                   c->reported != DT_RESULT_EXTENDED && c->reported != DT_RESULT_LOST;
    if (!should_apply(c)) {
        assert_int_equal(d.outcome, c->shift == 0 && same_word(c->recorded, c->reported) ? DT_OUTCOME_DUPLICATE
                                                                                         : DT_OUTCOME_STALE);
        return;
    }
    assert_members(d, (outcome, DT_OUTCOME_APPLIED), (state, state_wanted(c)));
    assert_int_equal(d.next_at_ms == 0, d.state >= DT_SUCCEEDED);
    assert_true(d.next_at_ms == 0 || d.next_at_ms >= NOW);
    assert_members(d, (failures, c->failures + failure), (failed, failure),
                   (finished, c->reported != DT_RESULT_EXTENDED), (dead_letter, d.state == DT_DEAD));
    assert_true(c->reported == DT_RESULT_EXTENDED ? d.attempt_status == DT_ATTEMPT_DISPATCHED
                                                  : same_word((int)d.attempt_status, c->reported));
}

TEST(every_combination_follows_the_rules)
{
    struct combination c;
    int judged = 0;
    for (c.state = 0; c.state < DT_JOB_STATES; c.state++)
        for (c.recorded = 0; c.recorded < DT_ATTEMPT_STATUSES; c.recorded++)
            for (c.reported = 0; c.reported <= DT_RESULT_LOST; c.reported++)
                for (c.shift = -1; c.shift <= 1; c.shift++)
                    for (c.failures = 0; c.failures <= 3; c.failures++)
                        for (c.no_retries = 0; c.no_retries <= 1; c.no_retries++)
                            for (c.retry_after = -1; c.retry_after <= 1; c.retry_after++)
                                for (c.due = 0; c.due <= 1; c.due++, judged++)
                                    judge(&c);
    assert_int_equal(judged, 5 * 9 * 8 * 3 * 4 * 2 * 3 * 2);
}
