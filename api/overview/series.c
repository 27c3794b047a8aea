/*
 * A series as JSON: slots of equal length in which something happened, read in order, become lists without gaps. What
 * fills the gaps depends on the metric: nothing happened there, and nothing was late.
 */
#include "base/assert.h"
#include "job/job_encode.h"
#include "overview/overview_parts.h"

const char *const dt_series_names[DT_SERIES_METRICS] = {"created",   "dispatched",   "succeeded",    "failed", "dead",
                                                        "cancelled", "lateness_p50", "lateness_p99", "overdue"};

struct series {
    const struct dt_series_ask *ask;
    int64_t first; /* slot */
    size_t slots;
    struct dt_figures_row *rows;
    size_t n_rows;
    struct dt_lateness *buckets;
    size_t n_buckets;
};

static void add_events(struct dt_strbuf *out, const struct series *s, int metric)
{
    double seconds = (double)s->ask->range.slot_ms / 1000;
    size_t row = 0;
    for (size_t i = 0; i < s->slots; i++) {
        bool there = row < s->n_rows && s->rows[row].slot == s->first + (int64_t)i;
        if (i)
            dt_strbuf_addc(out, ',');
        if (!there)
            dt_strbuf_addc(out, '0');
        else if (metric == DT_SERIES_OVERDUE)
            dt_strbuf_add_i64(out, s->rows[row].overdue);
        else
            dt_strbuf_addf(out, "%.6g", (double)s->rows[row].n[metric] / seconds);
        row += there;
    }
}

static void add_lateness(struct dt_strbuf *out, const struct series *s, double part)
{
    size_t at = 0;
    for (size_t i = 0; i < s->slots; i++) {
        size_t end = at;
        while (end < s->n_buckets && s->buckets[end].slot == s->first + (int64_t)i)
            end++;
        if (i)
            dt_strbuf_addc(out, ',');
        if (end > at)
            dt_strbuf_addf(out, "%.4g", dt_lateness_ms(s->buckets + at, end - at, part));
        else
            dt_strbuf_adds(out, "null");
        at = end;
    }
}

static void add_series(struct dt_strbuf *out, const struct series *s)
{
    const struct dt_figures_range *range = &s->ask->range;
    bool any = false;
    dt_strbuf_adds(out, "{\"from\":");
    dt_json_add_time(out, range->from_ms);
    dt_strbuf_adds(out, ",\"to\":");
    dt_json_add_time(out, range->to_ms);
    dt_strbuf_addf(out, ",\"step_ms\":%lld,\"topic\":", (long long)range->slot_ms);
    dt_json_add_string_or_null(out, range->topic.n ? range->topic : DT_STR_NONE);
    dt_strbuf_adds(out, ",\"metrics\":{");
    for (int metric = 0; metric < DT_SERIES_METRICS; metric++) {
        if (!(s->ask->metrics & (1u << metric)))
            continue;
        dt_strbuf_addf(out, "%s\"%s\":[", any ? "," : "", dt_series_names[metric]);
        any = true;
        if (metric == DT_SERIES_P50)
            add_lateness(out, s, 0.5);
        else if (metric == DT_SERIES_P99)
            add_lateness(out, s, 0.99);
        else
            add_events(out, s, metric);
        dt_strbuf_addc(out, ']');
    }
    dt_strbuf_adds(out, "}}");
}

dt_status dt_series_make(dt_store *store, const struct dt_series_ask *ask, struct dt_strbuf *out, struct dt_error *err)
{
    const struct dt_figures_range *range = &ask->range;
    dt_assert(range->slot_ms > 0 && range->slot_ms % range->step_ms == 0); /* whole slots, and at least one */
    dt_assert(range->from_ms < range->to_ms && (range->to_ms - range->from_ms) % range->slot_ms == 0);
    struct series s = {.ask = ask,
                       .first = range->from_ms / range->slot_ms,
                       .slots = (size_t)((range->to_ms - range->from_ms) / range->slot_ms)};
    struct dt_arena arena;
    dt_arena_init(&arena);
    dt_status status = dt_store_figures(store, range, &arena, &s.rows, &s.n_rows, err);
    if (status == DT_OK && ask->metrics & ((1u << DT_SERIES_P50) | (1u << DT_SERIES_P99)))
        status = dt_store_lateness(store, range, &arena, &s.buckets, &s.n_buckets, err);
    if (status == DT_OK)
        add_series(out, &s);
    dt_arena_clear(&arena);
    return status;
}
