/* Cron expressions and rules of zones: whatever is taken comes, comes later each time, and comes when it says. */
#include "base/text/zone.h"
#include "features/schedules/cron.h"
#include "fuzz.h"

static void check_cron(struct dt_str text, int64_t from_s)
{
    struct dt_error err = {0};
    struct dt_cron cron;
    if (dt_cron_parse(text, &cron, &err) != DT_OK) {
        MUST(err.status == DT_INVALID && err.text[0]);
        return;
    }
    for (int i = 0; i < 3; i++) {
        int64_t at_s = dt_cron_next_local_s(&cron, from_s);
        MUST(at_s != DT_NEVER && at_s > from_s);
        MUST(dt_cron_next_local_s(&cron, at_s - 1) == at_s);
        MUST(dt_cron_next_ms(&cron, NULL, from_s * 1000) == at_s * 1000);
        from_s = at_s;
    }
}

static void check_rule(struct dt_str text, int64_t at_s)
{
    struct dt_zone_rule rule;
    if (dt_zone_rule_parse(text, &rule) != DT_OK || !rule.given)
        return;
    struct dt_zone_span span = dt_zone_rule_span(&rule, at_s);
    MUST(span.from_s <= at_s && at_s < span.until_s);
    MUST(span.offset_s >= -93600 && span.offset_s <= 93600);
}

static void check_zone(struct dt_str bytes, int64_t at_s)
{
    dt_zone *zone;
    if (dt_zone_decode(bytes, &zone, NULL) != DT_OK)
        return;
    struct dt_zone_span span = dt_zone_span_at(zone, at_s);
    MUST(span.from_s <= at_s && at_s < span.until_s);
    dt_zone_free(zone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {(const char *)data, n};
    int64_t at_s = 0;
    for (int i = 0; i < 3; i++)
        at_s = at_s << 8 | input_byte(&in);
    at_s <<= 10;
    struct dt_str text = exact_copy(input_rest(&in));
    check_cron(text, at_s);
    check_rule(text, at_s);
    check_zone(text, at_s);
    free_copy(text);
    return 0;
}
