/* Bodies of POST /v1/jobs:cancel and its like (first byte: which verb). A body is refused with faults that point
 * somewhere, or taken; what is taken is about jobs of a topic or listed ones, keeps its limits, and is shown as
 * JSON. */
#include "fuzz.h"
#include "rest/operations_rest.h"
#include "topic/limits.h"

#define NOW_MS INT64_C(1900000000000)

static dt_json *json, *other;
static const struct dt_job_rules rules = {.max_delay_ms = INT64_C(3650) * DT_DAY_MS,
                                          .payload_max = 2000,
                                          .headers_max = 300,
                                          .json_depth = 16,
                                          .installation = {"duetime", 7}};

static void check_taken(const struct dt_operation_body *body)
{
    const struct dt_operation_ask *ask = &body->ask;
    const struct dt_json_limits limits = {.depth = 40};
    struct dt_operation op = {
        .id = 7, .kind = ask->kind, .request = ask->request, .rate = ask->rate, .sample = DT_STR_LIT("[]")};
    struct dt_strbuf text = {0};
    int64_t interval_ns;
    MUST(ask->filter.topic.p || ask->filter.n_ids);
    MUST(ask->shift_ms >= -rules.max_delay_ms && ask->shift_ms <= rules.max_delay_ms);
    MUST(ask->at_ms <= NOW_MS + rules.max_delay_ms && !(ask->delays && ask->at_ms < 0));
    MUST(ask->spread_ms >= 0 && !(ask->shifts && ask->spread_ms));
    MUST(!ask->rate.p || dt_rate_parse(ask->rate, &interval_ns));
    MUST(body->wait_ms >= 0 && body->wait_ms <= DT_OPERATION_WAIT_MAX_MS);
    const struct dt_operation_filter *f = &ask->filter;
    MUST(f->n_ids <= DT_OPERATION_IDS_MAX);
    for (size_t i = 1; i < f->n_ids; i++)
        MUST(f->ids[i - 1] < f->ids[i]);
    dt_operation_add(&text, &op);
    MUST(dt_json_parse(other, dt_strbuf_str(&text), &limits, NULL) == DT_OK);
    dt_strbuf_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {(const char *)data, n};
    enum dt_operation_kind kind = (enum dt_operation_kind)(input_byte(&in) & 3);
    const struct dt_json_limits limits = dt_job_json_limits(rules.json_depth);
    struct dt_arena arena = {0};
    if (!json)
        MUST(dt_json_new(&json) == DT_OK && dt_json_new(&other) == DT_OK);
    struct dt_str text = exact_copy(input_rest(&in));
    if (dt_json_parse(json, text, &limits, NULL) == DT_OK) {
        struct dt_faults faults = {.arena = &arena};
        struct dt_operation_body body;
        dt_status status = dt_operation_decode(json, &rules, kind, NOW_MS, &faults, &body);
        MUST(status == DT_OK || status == DT_INVALID);
        MUST((status == DT_OK) == (faults.n == 0));
        if (status == DT_OK)
            check_taken(&body);
    }
    dt_arena_clear(&arena);
    free_copy(text);
    return 0;
}
