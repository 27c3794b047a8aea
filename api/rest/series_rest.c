/* GET /v1/series: lists of figures in steps of equal length. An answer begins and ends with whole steps, so that all
 * callers within one step get the same answer. A step in which nothing happened has the value 0; if the metric is a
 * lateness, null. */

#include "answer.h"
#include "base/assert.h"
#include "base/text/timetext.h"
#include "handlers.h"
#include "overview_rest.h"

#define STEPS_MAX     2000
#define STEPS_DEFAULT 720
#define HOUR_MS       INT64_C(3600000)
#define BEHIND_MS     1000 /* figures of a step may be written this long after the step ends, at most */
#define ANSWER_BYTES  ((size_t)512 << 10)
#define BY_DEFAULT                                                                                                     \
    (1u << DT_TALLY_CREATED | 1u << DT_TALLY_DISPATCHED | 1u << DT_TALLY_SUCCEEDED | 1u << DT_TALLY_FAILED |           \
     1u << DT_TALLY_DEAD)
#define OF_ALL_TOPICS (1u << DT_SERIES_P50 | 1u << DT_SERIES_P99 | 1u << DT_SERIES_OVERDUE)

struct series_ask {
    unsigned metrics; /* requested metrics: bits of enum dt_series_metric */
    struct dt_figures_range range;
};

struct series {
    const struct series_ask *ask;
    int64_t first; /* number of the first slot: its time divided by slot_ms */
    size_t slots;
    struct dt_figures_row *rows;
    size_t n_rows;
    struct dt_lateness *buckets;
    size_t n_buckets;
};

static void put_event_series(struct dt_strbuf *out, const struct series *s, int metric)
{
    double seconds = (double)s->ask->range.slot_ms / 1000;
    size_t row = 0;
    for (size_t i = 0; i < s->slots; i++) {
        bool there = row < s->n_rows && s->rows[row].slot == s->first + (int64_t)i;
        if (!there || metric == DT_SERIES_OVERDUE)
            dt_json_put_int(out, NULL, there ? s->rows[row].overdue : 0);
        else
            dt_json_put_double(out, NULL, 6, (double)s->rows[row].n[metric] / seconds);
        row += there;
    }
}

static void put_lateness_series(struct dt_strbuf *out, const struct series *s, double part)
{
    size_t at = 0;
    for (size_t i = 0; i < s->slots; i++) {
        size_t end = at;
        while (end < s->n_buckets && s->buckets[end].slot == s->first + (int64_t)i)
            end++;
        if (end > at)
            dt_json_put_double(out, NULL, 4, dt_lateness_ms(s->buckets + at, end - at, part));
        else
            dt_json_put_null(out, NULL);
        at = end;
    }
}

static void add_series(struct dt_strbuf *out, const struct series *s)
{
    const struct dt_figures_range *range = &s->ask->range;
    dt_json_begin_object(out, NULL);
    dt_json_put_time(out, "from", range->from_ms);
    dt_json_put_time(out, "to", range->to_ms);
    dt_json_put_int(out, "step_ms", range->slot_ms);
    dt_json_put_filled(out, "topic", range->topic);
    dt_json_begin_object(out, "metrics");
    for (int metric = 0; metric < DT_SERIES_METRICS; metric++) {
        if (!(s->ask->metrics & (1u << metric)))
            continue;
        dt_json_begin_array(out, dt_series_names[metric]);
        if (metric == DT_SERIES_P50)
            put_lateness_series(out, s, 0.5);
        else if (metric == DT_SERIES_P99)
            put_lateness_series(out, s, 0.99);
        else
            put_event_series(out, s, metric);
        dt_json_end_array(out);
    }
    dt_json_end_object(out);
    dt_json_end_object(out);
}

static dt_status make_series(void *arg, struct dt_strbuf *out, struct dt_error *err)
{
    const struct dt_making *making = arg;
    const struct series_ask *ask = making->req->state;
    const struct dt_figures_range *range = &ask->range;
    dt_assert(range->slot_ms > 0 && range->slot_ms % range->step_ms == 0); /* a slot is one or more stored steps */
    dt_assert(range->from_ms < range->to_ms && (range->to_ms - range->from_ms) % range->slot_ms == 0);
    struct series s = {.ask = ask,
                       .first = range->from_ms / range->slot_ms,
                       .slots = (size_t)((range->to_ms - range->from_ms) / range->slot_ms)};
    struct dt_arena arena = {0};
    dt_status status = dt_store_figures(making->store, range, &arena, &s.rows, &s.n_rows, err);
    if (status == DT_OK && ask->metrics & ((1u << DT_SERIES_P50) | (1u << DT_SERIES_P99)))
        status = dt_store_lateness(making->store, range, &arena, &s.buckets, &s.n_buckets, err);
    if (status == DT_OK)
        add_series(out, &s);
    dt_arena_clear(&arena);
    return status;
}

static enum dt_next answer_series(struct dt_request *req, dt_store *store)
{
    const struct series_ask *ask = req->state;
    const struct dt_figures_range *range = &ask->range;
    const struct dt_str key =
        dt_arena_printf(&req->arena, "series %x %lld %lld %lld %lld", ask->metrics, (long long)range->step_ms,
                        (long long)range->from_ms, (long long)range->to_ms, (long long)range->slot_ms);
    return dt_answer_kept(
        req, store,
        &(struct dt_kept_ask){.room = ANSWER_BYTES, .key = key, .topic = range->topic, .make = make_series});
}

/* ---- decoding, on an HTTP thread ---- */

static void decode_metrics(const struct dt_request *req, struct dt_faults *faults, struct series_ask *ask)
{
    struct dt_str list = dt_request_query(req, "metric");
    bool given = list.p;
    while (list.n) {
        struct dt_str name = dt_str_next_element(&list);
        unsigned metric = 0;
        while (metric < DT_SERIES_METRICS && !dt_str_is(name, dt_series_names[metric]))
            metric++;
        if (metric == DT_SERIES_METRICS) {
            dt_faults_add_query(faults, DT_STR_LIT("metric"),
                                "must be among created, dispatched, succeeded, failed, dead, cancelled, lateness_p50, "
                                "lateness_p99 and overdue, separated by commas");
            return;
        }
        ask->metrics |= 1u << metric;
    }
    if (!given)
        ask->metrics = BY_DEFAULT;
    else if (!ask->metrics)
        dt_faults_add_query(faults, DT_STR_LIT("metric"), "must name a metric");
    if (ask->range.topic.p && ask->metrics & OF_ALL_TOPICS)
        dt_faults_add_query(faults, DT_STR_LIT("metric"), "lateness and overdue exist only for all topics together");
}

static int64_t round_up(int64_t ms, int64_t unit_ms)
{
    return (ms + unit_ms - 1) / unit_ms * unit_ms;
}

static void decode_range(struct dt_request *req, struct dt_faults *faults, struct dt_figures_range *range)
{
    static const char no_time[] = "must be an RFC 3339 time with an offset";
    int64_t now_ms = dt_refclock_earliest_ms(req->api->ref) - BEHIND_MS;
    struct dt_str step = dt_request_query(req, "step");
    bool given = dt_request_query(req, "to").p;
    int64_t asked_ms = 0; /* length of a step that the request asks for; 0: none given */
    if (step.p && (dt_duration_parse(step, &asked_ms) != DT_OK || asked_ms < 1))
        dt_faults_add_query(faults, DT_STR_LIT("step"), "must be a duration above zero");
    range->to_ms = now_ms;
    (void)dt_answer_time(req, "to", 0, no_time, &range->to_ms, faults);
    range->from_ms = dt_later(range->to_ms - HOUR_MS, 0);
    (void)dt_answer_time(req, "from", 0, no_time, &range->from_ms, faults);
    if (range->from_ms >= range->to_ms) {
        dt_faults_add_query(faults, DT_STR_LIT("from"), "must be before to");
        return;
    }
    bool fine = now_ms - range->from_ms <= DT_FINE_KEPT_MS && (!asked_ms || asked_ms % DT_COARSE_MS);
    range->step_ms = fine ? DT_FINE_MS : DT_COARSE_MS;
    /* A slot is a multiple of the stored step. It is so long that the range has at most STEPS_MAX slots, including the
     * incomplete first and last slot. */
    int64_t length_ms = range->to_ms - range->from_ms;
    int64_t wanted_ms = asked_ms ? asked_ms : (length_ms + STEPS_DEFAULT - 1) / STEPS_DEFAULT;
    int64_t least_ms = (length_ms + STEPS_MAX - 3) / (STEPS_MAX - 2);
    range->slot_ms = round_up(dt_later(wanted_ms, least_ms), range->step_ms);
    range->from_ms -= range->from_ms % range->slot_ms;
    range->to_ms = given ? round_up(range->to_ms, range->slot_ms) : range->to_ms - range->to_ms % range->slot_ms;
    if (range->to_ms <= range->from_ms)
        range->to_ms = range->from_ms + range->slot_ms;
}

enum dt_next dt_handle_series(struct dt_request *req)
{
    struct series_ask *ask = dt_answer_state(req, sizeof(*ask));
    struct dt_faults faults = {.arena = &req->arena};
    if (!ask)
        return DT_REPLY;
    *ask = (struct series_ask){.range.topic = dt_request_query(req, "topic")};
    if (!dt_wall_pass(req))
        return DT_REPLY;
    if (ask->range.topic.p && !ask->range.topic.n)
        dt_faults_add_query(&faults, DT_STR_LIT("topic"), "must name a topic");
    decode_metrics(req, &faults, ask);
    decode_range(req, &faults, &ask->range);
    return dt_answer_submit(req, &faults, answer_series);
}
