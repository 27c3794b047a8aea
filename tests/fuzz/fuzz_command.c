/* Messages of the commands topic. The first byte says where the message's time lies. A message is refused with a problem that
 * names what is wrong, or becomes what REST would have made of it: a job with a key, a change of a job that is named, a topic,
 * a report. */
#include "features/intents/intents.h"
#include "fuzz.h"

#define NOW_MS INT64_C(1800000000000)

static dt_json *json;

static int64_t time_of(unsigned char flags)
{
    static const int64_t times[] = {0, NOW_MS, NOW_MS - 86400000, 1, NOW_MS + 86400000, INT64_C(1) << 62};
    return times[flags % (sizeof(times) / sizeof(*times))];
}

static void check_refused(const struct dt_intent *x)
{
    struct dt_strbuf text = {0};
    dt_problem_add(&text, &x->problem, DT_STR_NONE);
    int status = dt_problem_http_status(x->problem.type);
    MUST(status == 400 || status == 413 || status == 422);
    MUST(x->problem.detail.p || (x->problem.faults && x->problem.faults->n > 0));
    MUST(dt_json_parse(json, dt_strbuf_str(&text), &(struct dt_json_limits){.depth = 8}, NULL) == DT_OK);
    dt_strbuf_clear(&text);
}

static void check_name(const struct dt_intent *x)
{
    MUST(!x->topic.p || !dt_topic_check(x->topic, DT_STR_LIT("duetime")));
    MUST(!x->key.p || (!dt_key_check(x->key) && x->topic.p && !x->job_id));
    MUST(x->key.p || x->job_id > 0);
}

static void check_due(int64_t due_ms, const struct dt_job_rules *rules)
{
    MUST(due_ms <= NOW_MS + rules->max_delay_ms);
}

static void check_taken(const struct dt_command *command, const struct dt_job_rules *rules)
{
    const struct dt_intent *x = command->intent;
    const struct dt_new_job *job = &x->insert.job;
    switch (command->action) {
    case DT_COMMAND_CREATE:
    case DT_COMMAND_REPLACE:
        MUST(!x->job_id && dt_str_eq(job->topic, x->topic) && dt_str_eq(job->key, x->key) && job->key.p);
        MUST(job->payload.p && job->payload.n <= rules->payload_max);
        check_due(job->run_at_ms, rules);
        check_name(x);
        break;
    case DT_COMMAND_CHANGE:
        MUST(!x->patch.run_at_is_delay);
        if (x->patch.has_run_at)
            check_due(x->patch.run_at_ms, rules);
        check_name(x);
        break;
    case DT_COMMAND_CANCEL:
    case DT_COMMAND_RUN_NOW:
        check_name(x);
        break;
    case DT_COMMAND_REPORT:
        MUST(command->result.attempt > 0 && command->result.job_id == x->job_id);
        check_name(x);
        break;
    case DT_COMMAND_PAUSE:
    case DT_COMMAND_RESUME:
        MUST(x->topic.p && !x->key.p && !x->job_id);
        break;
    case DT_COMMAND_ACTIONS:
        MUST(false);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct dt_job_rules rules = {.max_delay_ms = INT64_C(315360000000),
                                       .payload_max = 1000,
                                       .headers_max = 200,
                                       .json_depth = 16,
                                       .callbacks = true,
                                       .installation = DT_STR_LIT("duetime")};
    struct input in = {(const char *)data, n};
    struct dt_arena arena = {0};
    struct dt_intent intent;
    struct dt_command command = {.intent = &intent};
    if (!json)
        MUST(dt_json_new(&json) == DT_OK);
    const struct dt_intent_decoder with = {.rules = &rules, .json = json, .arena = &arena, .now_ms = NOW_MS};
    int64_t time_ms = time_of(input_byte(&in));
    struct dt_str text = exact_copy(input_rest(&in));
    MUST(dt_command_message_decode(&with, &(struct dt_command_text){text, time_ms}, &command) == DT_OK);
    if (intent.outcome == DT_INTENT_REFUSED)
        check_refused(&intent);
    else
        check_taken(&command, &rules);
    free_copy(text);
    dt_arena_clear(&arena);
    return 0;
}
