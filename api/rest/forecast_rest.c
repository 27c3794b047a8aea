/* GET /v1/forecast: how many jobs become due; GET /v1/forecast/spikes: the steps in which more jobs become due than the
 * installation can dispatch. MySQL's work for an answer is bounded (features/forecast/forecast.h). */
#include "answer.h"
#include "base/assert.h"
#include "base/text/timetext.h"
#include "features/forecast/forecast.h"
#include "handlers.h"
#include "job/job.h"
#include "overview_rest.h"

#define SECOND_MS    INT64_C(1000)
#define HOUR_MS      INT64_C(3600000)
#define DAYS_MAX_MS  (INT64_C(3660) * 86400000)
#define STEP_DEFAULT INT64_C(60000)
#define ASSUMED      1000 /* jobs per second that are dispatched, assumed until a dispatcher has measured the rate */
#define ROOM         ((size_t)8 << 20) /* bytes reserved for the rows that are read */
#define KEPT_STEPS   240
#define STEP_BYTES   ((size_t)80) /* maximal size of one step in the answer */
#define PART_BYTES   ((size_t)DT_TOPIC_MAX + 60)

struct question {
    struct dt_forecast_ask ask;
    bool spikes; /* answer only with the spikes */
};

/* ---- the answer ---- */

/* Appends {"from":…,"to":…,"step":…,"steps":[{"from":…,"due":…,"topics":[…]},…],…}. */
static void add_forecast(struct dt_strbuf *out, const struct dt_forecast_ask *ask, const struct dt_forecast *forecast)
{
    size_t at = 0; /* index in `parts`, which are in the order of the steps */
    dt_json_begin_object(out, NULL);
    dt_json_put_time(out, "from", ask->from_ms);
    dt_json_put_time(out, "to", ask->from_ms + (int64_t)ask->steps * ask->step_ms);
    dt_json_put_duration(out, "step", ask->step_ms);
    dt_json_put_time(out, "counted_until", forecast->counted_until_ms);
    dt_json_put_bool(out, "topics_counted", forecast->topics_counted);
    dt_json_begin_array(out, "steps");
    for (size_t step = 0; step < ask->steps; step++) {
        dt_json_begin_object(out, NULL);
        dt_json_put_time(out, "from", ask->from_ms + (int64_t)step * ask->step_ms);
        dt_json_put_int(out, "due", forecast->due[step]);
        dt_json_begin_array(out, "topics");
        for (; at < forecast->n_parts && forecast->parts[at].step == step; at++) {
            dt_json_begin_object(out, NULL);
            dt_json_put_string(out, "topic", forecast->parts[at].topic);
            dt_json_put_int(out, "due", forecast->parts[at].due);
            dt_json_end_object(out);
        }
        dt_json_end_array(out);
        dt_json_end_object(out);
    }
    dt_json_end_array(out);
    dt_json_end_object(out);
}

/* Appends {"spikes":[{"from":…,"due":…,"drains":…,"takes":…},…],"measured":…}: the steps in which more jobs become due
 * than the dispatchers can dispatch in one step. takes: time to dispatch the step's jobs and the jobs left over from
 * earlier steps. */
static void add_spikes(struct dt_strbuf *out, const struct dt_forecast_ask *ask, const struct dt_forecast *forecast,
                       int64_t measured_per_second)
{
    const int64_t per_second = measured_per_second > 0 ? measured_per_second : ASSUMED;
    int64_t a_step = per_second * ask->step_ms / 1000;
    int64_t waiting = 0;
    dt_json_begin_object(out, NULL);
    dt_json_begin_array(out, "spikes");
    for (size_t step = 0; step < ask->steps; step++) {
        waiting += forecast->due[step];
        if (forecast->due[step] > a_step) {
            dt_json_begin_object(out, NULL);
            dt_json_put_time(out, "from", ask->from_ms + (int64_t)step * ask->step_ms);
            dt_json_put_int(out, "due", forecast->due[step]);
            dt_json_put_int(out, "drains", a_step);
            dt_json_put_duration(out, "takes", (int64_t)((double)waiting * 1000 / (double)per_second));
            dt_json_end_object(out);
        }
        waiting = waiting > a_step ? waiting - a_step : 0;
    }
    dt_json_end_array(out);
    dt_json_put_bool(out, "measured", measured_per_second > 0);
    dt_json_end_object(out);
}

/* ---- on a worker ---- */

static dt_status make_forecast(void *arg, struct dt_strbuf *out, struct dt_error *err)
{
    struct dt_making *m = arg;
    const struct question *q = m->req->state;
    struct dt_arena arena = {0};
    struct dt_forecast found;
    int64_t per_second = 0;
    dt_status status = dt_store_forecast(m->store, &q->ask, &arena, &found, err);
    if (status == DT_OK && q->spikes)
        status = dt_store_drains(m->store, &per_second, err);
    if (status == DT_OK) {
        size_t most = (q->ask.steps + 4) * STEP_BYTES + found.n_parts * PART_BYTES;
        m->no_room = !dt_hold_more(&m->req->hold, 2 * most);
        status = m->no_room ? dt_fail(err, DT_FULL, "no memory for the answer") : DT_OK;
    }
    if (status == DT_OK && q->spikes)
        add_spikes(out, &q->ask, &found, per_second);
    else if (status == DT_OK)
        add_forecast(out, &q->ask, &found);
    dt_arena_clear(&arena);
    return status;
}

static enum dt_next answer_forecast(struct dt_request *req, dt_store *store)
{
    const struct question *q = req->state;
    const struct dt_forecast_ask *asked = &q->ask;
    dt_assert(asked->steps > 0 && asked->steps <= DT_FORECAST_STEPS);
    /* Forecasts of few steps are requested often, so their answers are cached. */
    return dt_answer_kept(req, store,
                          &(struct dt_kept_ask){.keep = asked->steps > KEPT_STEPS ? DT_KEEP_NOT : DT_KEEP_SLOW,
                                                .room = ROOM,
                                                .key = dt_arena_printf(&req->arena, "forecast %d %lld %lld %zu",
                                                                       q->spikes, (long long)asked->from_ms,
                                                                       (long long)asked->step_ms, asked->steps),
                                                .topic = asked->topic,
                                                .bound = asked->bound,
                                                .make = make_forecast});
}

/* ---- the question ---- */

enum dt_next dt_handle_forecast(struct dt_request *req)
{
    static const char no_time[] = "must be an RFC 3339 time with an offset, such as 2026-11-21T10:30:00Z (a + is sent "
                                  "as %2B), and not before 1970";
    struct question *q = dt_answer_state(req, sizeof(*q));
    if (!q || !dt_answer_clock(req))
        return DT_REPLY;
    *q = (struct question){{.zones = req->api->zones, .bound = dt_wall_bound(req)}, req->route->arg};
    struct dt_faults faults = {.arena = &req->arena};
    q->ask.topic = dt_answer_topic(req, &faults);
    /* By default the range begins with the current minute; if steps are shorter than a minute, with the current
     * step. */
    struct dt_str step = dt_request_query(req, "step");
    int64_t now_ms = dt_refclock_earliest_ms(req->api->ref);
    int64_t to_ms = 0;
    q->ask.step_ms = STEP_DEFAULT;
    if (step.p && (dt_duration_parse(step, &q->ask.step_ms) != DT_OK || q->ask.step_ms < SECOND_MS ||
                   q->ask.step_ms > DAYS_MAX_MS)) {
        q->ask.step_ms = STEP_DEFAULT;
        dt_faults_add_query(&faults, DT_STR_LIT("step"), "must be a duration from PT1S, such as PT1M");
    }
    if (!dt_answer_time(req, "from", 0, no_time, &q->ask.from_ms, &faults))
        q->ask.from_ms = now_ms - now_ms % (q->ask.step_ms < STEP_DEFAULT ? q->ask.step_ms : STEP_DEFAULT);
    if (!dt_answer_time(req, "to", 0, no_time, &to_ms, &faults))
        to_ms = q->ask.from_ms + (q->ask.step_ms > HOUR_MS ? q->ask.step_ms : HOUR_MS);
    if (to_ms <= q->ask.from_ms || to_ms - q->ask.from_ms > DAYS_MAX_MS)
        dt_faults_add_query(&faults, DT_STR_LIT("to"), "must be after from, by ten years at most");
    else if ((to_ms - q->ask.from_ms - 1) / q->ask.step_ms >= DT_FORECAST_STEPS)
        dt_faults_add_query(&faults, DT_STR_LIT("step"), "makes more than 10000 steps");
    else
        q->ask.steps = (size_t)((to_ms - q->ask.from_ms - 1) / q->ask.step_ms) + 1;
    return dt_answer_submit(req, &faults, answer_forecast);
}
