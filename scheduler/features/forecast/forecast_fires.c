/*
 * Fires of schedules that have no job yet, at their nominal times. Each schedule's are reckoned one by one up to its
 * part of DT_FORECAST_FIRES; the others are taken to come at the same distances, and cost no more for being many.
 */
#include <stdlib.h>

#include "features/schedules/schedule_row.h"
#include "forecast_parts.h"
#include "mysql/statements.h"

/* What is behind the fires of a schedule that were reckoned. */
struct evenly {
    struct dt_str topic; /* of the row */
    int64_t last_ms;
    double each_ms;
};

struct evens {
    struct evenly *v; /* DT_FORECAST_SCHEDULES of them at most */
    size_t n;
};

/* ---- one by one ---- */

static void add_schedule(struct dt_forecasting *f, const struct dt_schedule *s, const struct dt_recurrence *r,
                         size_t most, struct evens *evens)
{
    const struct dt_forecast_ask *ask = f->ask;
    const int64_t end_ms = dt_forecast_end_ms(ask);
    int64_t at_ms = s->next_fire_ms;
    if (at_ms < ask->from_ms)
        at_ms = dt_recurrence_next_ms(r, ask->from_ms - 1);
    const int64_t first_ms = at_ms;
    int64_t last_ms = at_ms;
    size_t n = 0;
    for (; at_ms < end_ms && n < most; n++) {
        const size_t step = (size_t)((at_ms - ask->from_ms) / ask->step_ms);
        dt_forecast_add(f, step, 1);
        dt_forecast_add_part(f, step, s->job.topic, 1);
        last_ms = at_ms;
        at_ms = dt_recurrence_next_ms(r, at_ms);
    }
    double each_ms = (double)(last_ms - first_ms) / (double)(n > 1 ? n - 1 : 1);
    if (n > 0 && at_ms < end_ms && each_ms >= 1 && dt_forecast_has_topic(ask, s->job.topic))
        evens->v[evens->n++] = (struct evenly){s->job.topic, last_ms, each_ms};
}

/* ---- at even distances ---- */

/*
 * Fires of schedules [first, end) as numbers by step: each has, from a step on, a number of fires a step, so that all
 * of them together cost one pass over the steps. The numbers that are told are whole, and none is lost between steps.
 */
static void sum_evens(const struct dt_forecasting *f, const struct evenly *v, size_t n, double *more, int64_t *out)
{
    const struct dt_forecast_ask *ask = f->ask;
    double sum = 0;
    double a_step = 0;
    memset(more, 0, (ask->steps + 1) * sizeof(*more));
    memset(out, 0, ask->steps * sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        size_t step = (size_t)((v[i].last_ms - ask->from_ms) / ask->step_ms);
        int64_t next_ms = ask->from_ms + (int64_t)(step + 1) * ask->step_ms;
        double first = (double)(next_ms - 1 - v[i].last_ms) / v[i].each_ms; /* a fire at next_ms is the next step's */
        more[step] += first;
        more[step + 1] += (double)ask->step_ms / v[i].each_ms - first;
    }
    for (size_t step = 0; step < ask->steps; step++) {
        a_step += more[step];
        int64_t told = (int64_t)sum;
        sum += a_step > 0 ? a_step : 0;
        out[step] = (int64_t)sum - told;
    }
}

static int by_topic(const void *a, const void *b)
{
    return dt_str_order(((const struct evenly *)a)->topic, ((const struct evenly *)b)->topic);
}

/* Schedules of one topic, next to each other. */
struct run {
    const struct evenly *v;
    size_t n;
    double rate; /* fires a millisecond */
};

static int by_rate(const void *a, const void *b)
{
    double x = ((const struct run *)a)->rate;
    double y = ((const struct run *)b)->rate;
    return (x < y) - (x > y);
}

/* What is told of a step is the topics with the most; so many are summed apart, and all of them together. */
static dt_status go_on_evenly(struct dt_forecasting *f, struct evens *evens)
{
    const size_t steps = f->ask->steps;
    struct run *runs = dt_arena_alloc(f->arena, (evens->n + 1) * sizeof(*runs));
    double *more = dt_arena_alloc(f->arena, (steps + 1) * sizeof(*more));
    int64_t *fires = dt_arena_alloc(f->arena, steps * sizeof(*fires));
    size_t n = 0;
    if (!runs || !more || !fires)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    qsort(evens->v, evens->n, sizeof(*evens->v), by_topic);
    for (size_t i = 0; i < evens->n; i++) {
        const struct evenly *e = &evens->v[i];
        dt_forecast_estimated_from(f, e->last_ms);
        if (n == 0 || !dt_str_eq(runs[n - 1].v->topic, e->topic))
            runs[n++] = (struct run){.v = e};
        runs[n - 1].n++;
        runs[n - 1].rate += 1 / e->each_ms;
    }
    qsort(runs, n, sizeof(*runs), by_rate);
    for (size_t i = 0; i < n && i < dt_forecast_topics(f->ask); i++) {
        sum_evens(f, runs[i].v, runs[i].n, more, fires);
        for (size_t step = 0; step < steps; step++)
            dt_forecast_show_part(f, step, runs[i].v->topic, fires[step]);
    }
    sum_evens(f, evens->v, evens->n, more, fires);
    for (size_t step = 0; step < steps; step++)
        f->out->due[step] += fires[step];
    return DT_OK;
}

/* ---- all ---- */

static dt_status add_schedules(struct dt_forecasting *f, const struct dt_schedule *v, size_t n)
{
    struct evens evens = {.v = dt_arena_alloc(f->arena, (n + 1) * sizeof(*evens.v))};
    if (!evens.v)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        struct dt_recurrence r;
        dt_zone *zone;
        if (v[i].paused || !v[i].next_fire_ms)
            continue;
        dt_status status = dt_schedule_recurrence(&v[i], f->ask->zones, &r, &zone, f->err);
        if (status == DT_INVALID)
            continue; /* its row says why it has no jobs */
        if (status != DT_OK)
            return status;
        add_schedule(f, &v[i], &r, DT_FORECAST_FIRES / n, &evens);
        dt_zone_free(zone);
    }
    return evens.n ? go_on_evenly(f, &evens) : DT_OK;
}

dt_status dt_forecast_fires(struct dt_forecasting *f)
{
    struct dt_arena rows_arena;
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_schedule), .read = dt_schedule_take};
    dt_arena_init(&rows_arena);
    dt_status status =
        dt_db_query(f->db, dt_sql_select_schedules_ahead,
                    DT_PARAMS(DT_P_INT(dt_forecast_end_ms(f->ask)), DT_P_INT(DT_FORECAST_SCHEDULES)), f->err);
    if (status == DT_OK)
        status = dt_store_read_rows(f->db, &rows_arena, &rows, f->err);
    if (status == DT_OK)
        status = add_schedules(f, rows.v, rows.n);
    if (rows.n == DT_FORECAST_SCHEDULES)
        dt_forecast_estimated_from(f, f->ask->from_ms);
    dt_arena_clear(&rows_arena);
    return status;
}
