/* Results, as consumers write them to the results topic and post them. First byte: over REST, or from Kafka. */
#include "base/text/timetext.h"
#include "fuzz.h"
#include "job/results/results.h"

static dt_json *json;

static void check_text(struct dt_str s, size_t most)
{
    MUST(s.n <= most);
    MUST(!s.p || dt_utf8_valid(s));
}

/* Whatever was reported, a decision on it is one of the table's. */
static void check_decision(const struct dt_result *r, unsigned char state)
{
    struct dt_job job = {.id = r->job_id,
                         .attempt = r->attempt,
                         .state = state % DT_JOB_STATES,
                         .attempt_status = DT_ATTEMPT_DISPATCHED,
                         .retry = dt_str(DT_RETRY_DEFAULT),
                         .ack_timeout_ms = DT_ACK_TIMEOUT_DEFAULT_MS,
                         .failures = state % 11,
                         .no_retries = state & 64};
    struct dt_decision d = dt_job_decide(&job, r, INT64_C(1800000000000));
    if (d.outcome != DT_OUTCOME_APPLIED)
        return;
    MUST(!dt_job_state_terminal(job.state));
    MUST(dt_job_state_terminal(d.state) == (d.next_at_ms == 0));
    MUST(d.failures == job.failures + d.failed);
}

static void check_id(struct dt_str text)
{
    int64_t id = 0;
    char written[32];
    if (!dt_job_id_parse(text, &id))
        return;
    MUST(id > 0);
    snprintf(written, sizeof written, "%lld", (long long)id);
    MUST(dt_str_is(text, written));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {(const char *)data, n};
    unsigned char flags = input_byte(&in);
    struct dt_json_limits limits = {.depth = 16};
    struct dt_result result;
    struct dt_arena arena = {0};
    struct dt_faults faults = {.arena = &arena};
    if (!json)
        MUST(dt_json_new(&json) == DT_OK);
    struct dt_str text = exact_copy(input_rest(&in));
    check_id(text);
    if (dt_json_parse(json, text, &limits, NULL) == DT_OK) {
        result = (struct dt_result){.job_id = flags & 128 ? 7316522 : -1};
        dt_status status = dt_result_decode(json, dt_json_root(json), NULL, &faults, &result);
        MUST(status == DT_OK || status == DT_INVALID);
        MUST((status == DT_INVALID) == (faults.n > 0));
        for (size_t i = 0; i < faults.n && i < DT_FAULTS_MAX; i++)
            MUST(faults.v[i].reason.n > 0 && (faults.v[i].pointer.n == 0 || faults.v[i].pointer.p[0] == '/'));
        if (status == DT_OK) {
            MUST(result.job_id > 0 && result.attempt > 0);
            MUST(result.status <= DT_RESULT_EXTENDED); /* what only leaders decide cannot be reported */
            MUST(result.retry_after_ms >= -1 && result.retry_after_ms <= DT_DURATION_MAX_MS);
            MUST(result.status != DT_RESULT_SNOOZED || result.retry_after_ms >= 0);
            check_text(result.error_code, DT_ERROR_CODE_MAX);
            check_text(result.error_message, DT_ERROR_MESSAGE_MAX);
            check_decision(&result, flags);
        }
        dt_arena_clear(&arena);
    }
    free_copy(text);
    return 0;
}
