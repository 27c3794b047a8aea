/*
 * Fires of schedules that have no job yet, at their nominal times. Each schedule's are reckoned one by one up to its
 * part of DT_FORECAST_FIRES; the others are taken to come at the same distances.
 */
#include "store/forecast/forecast_parts.h"
#include "store/schedules/schedule_row.h"
#include "store/sql/statements.h"

struct fires {
    struct dt_str topic;
    int64_t first_ms, last_ms;
    size_t n;
};

static void add_fires(struct dt_forecasting *f, int64_t at_ms, struct dt_str topic, int64_t n)
{
    size_t step = (size_t)((at_ms - f->ask->from_ms) / f->ask->step_ms);
    dt_forecast_add(f, step, n);
    dt_forecast_add_part(f, step, topic, n);
}

/* The fires behind those that were reckoned. */
static void go_on_evenly(struct dt_forecasting *f, const struct fires *fires)
{
    const struct dt_forecast_ask *ask = f->ask;
    double each_ms = (double)(fires->last_ms - fires->first_ms) / (double)(fires->n > 1 ? fires->n - 1 : 1);
    if (each_ms < 1)
        return;
    int64_t told = 0;
    dt_forecast_estimated_from(f, fires->last_ms);
    for (int64_t at_ms = fires->last_ms + 1; at_ms < dt_forecast_end_ms(ask);) {
        int64_t next_ms = at_ms + ask->step_ms - (at_ms - ask->from_ms) % ask->step_ms;
        int64_t by_then = (int64_t)((double)(next_ms - fires->last_ms) / each_ms);
        add_fires(f, at_ms, fires->topic, by_then - told);
        told = by_then;
        at_ms = next_ms;
    }
}

static void add_schedule(struct dt_forecasting *f, const struct dt_schedule *s, const struct dt_recurrence *r,
                         size_t most)
{
    int64_t at_ms = s->next_fire_ms;
    int64_t end_ms = dt_forecast_end_ms(f->ask);
    struct fires fires = {.topic = s->job.topic};
    if (at_ms < f->ask->from_ms)
        at_ms = dt_recurrence_next_ms(r, f->ask->from_ms - 1);
    for (fires.first_ms = at_ms; at_ms < end_ms && fires.n < most; fires.n++) {
        add_fires(f, at_ms, s->job.topic, 1);
        fires.last_ms = at_ms;
        at_ms = dt_recurrence_next_ms(r, at_ms);
    }
    if (fires.n > 0 && at_ms < end_ms)
        go_on_evenly(f, &fires);
}

static dt_status add_schedules(struct dt_forecasting *f, const struct dt_schedule *v, size_t n)
{
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
        add_schedule(f, &v[i], &r, DT_FORECAST_FIRES / n);
        dt_zone_free(zone);
    }
    return DT_OK;
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
