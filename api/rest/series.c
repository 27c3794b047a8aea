/*
 * A series as JSON: slots of equal length in which something happened, read in order, become lists without gaps. What
 * fills the gaps depends on the metric: nothing happened there, and nothing was late.
 */
#include "base/assert.h"
#include "base/text/json_write.h"
#include "overview_parts.h"

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

static void put_events(struct dt_strbuf *out, const struct series *s, int metric)
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

static void put_lateness(struct dt_strbuf *out, const struct series *s, double part)
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
            put_lateness(out, s, 0.5);
        else if (metric == DT_SERIES_P99)
            put_lateness(out, s, 0.99);
        else
            put_events(out, s, metric);
        dt_json_end_array(out);
    }
    dt_json_end_object(out);
    dt_json_end_object(out);
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
