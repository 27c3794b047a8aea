/* A forecast as JSON: see forecast_json.h. */
#include "forecast_json.h"

#include "base/assert.h"
#include "base/json.h"
#include "job/job_encode.h"

#define STEP_BYTES ((size_t)80)
#define PART_BYTES ((size_t)DT_TOPIC_MAX + 60)

void dt_forecast_add_json(struct dt_strbuf *out, const struct dt_forecast_ask *ask, const struct dt_forecast *forecast)
{
    size_t at = 0; /* the parts of a step stand together, in the order of the steps */
    dt_strbuf_adds(out, "{\"from\":");
    dt_json_add_time(out, ask->from_ms);
    dt_strbuf_adds(out, ",\"to\":");
    dt_json_add_time(out, ask->from_ms + (int64_t)ask->steps * ask->step_ms);
    dt_strbuf_adds(out, ",\"step\":");
    dt_json_add_duration(out, ask->step_ms);
    dt_strbuf_adds(out, ",\"counted_until\":");
    dt_json_add_time(out, forecast->counted_until_ms);
    dt_strbuf_addf(out, ",\"topics_counted\":%s,\"steps\":[", forecast->topics_counted ? "true" : "false");
    for (size_t step = 0; step < ask->steps; step++) {
        dt_strbuf_adds(out, step ? ",{\"from\":" : "{\"from\":");
        dt_json_add_time(out, ask->from_ms + (int64_t)step * ask->step_ms);
        dt_strbuf_addf(out, ",\"due\":%lld,\"topics\":[", (long long)forecast->due[step]);
        for (bool first = true; at < forecast->n_parts && forecast->parts[at].step == step; at++, first = false) {
            dt_strbuf_adds(out, first ? "{\"topic\":" : ",{\"topic\":");
            dt_json_add_string(out, forecast->parts[at].topic);
            dt_strbuf_addf(out, ",\"due\":%lld}", (long long)forecast->parts[at].due);
        }
        dt_strbuf_adds(out, "]}");
    }
    dt_strbuf_adds(out, "]}");
}

void dt_spikes_add_json(struct dt_strbuf *out, const struct dt_forecast_ask *ask, const struct dt_forecast *forecast,
                        struct dt_drains drains)
{
    dt_assert_cmp(drains.per_second, >, 0);
    int64_t a_step = drains.per_second * ask->step_ms / 1000;
    int64_t waiting = 0;
    bool first = true;
    dt_strbuf_adds(out, "{\"spikes\":[");
    for (size_t step = 0; step < ask->steps; step++) {
        waiting += forecast->due[step];
        if (forecast->due[step] > a_step) {
            dt_strbuf_adds(out, first ? "{\"from\":" : ",{\"from\":");
            dt_json_add_time(out, ask->from_ms + (int64_t)step * ask->step_ms);
            dt_strbuf_addf(out, ",\"due\":%lld,\"drains\":%lld,\"takes\":", (long long)forecast->due[step],
                           (long long)a_step);
            dt_json_add_duration(out, (int64_t)((double)waiting * 1000 / (double)drains.per_second));
            dt_strbuf_addc(out, '}');
            first = false;
        }
        waiting = waiting > a_step ? waiting - a_step : 0;
    }
    dt_strbuf_addf(out, "],\"measured\":%s}", drains.measured ? "true" : "false");
}

size_t dt_forecast_json_room(const struct dt_forecast_ask *ask, const struct dt_forecast *forecast)
{
    return (ask->steps + 4) * STEP_BYTES + forecast->n_parts * PART_BYTES;
}
