/*
 * The far part of a forecast: band 0 of the due index, which has days. A day's jobs are spread evenly over it. Their
 * topics are those of the counters of the jobs that were made for such a day (jobs/counts.h). If a forecast is of some
 * topics alone, and there are no more than DT_FORECAST_BOUND jobs, each row is looked up: exact.
 */
#include "forecast_parts.h"
#include "mysql/statements.h"

#define ESTIMATED_DAYS  400 /* one by one … */
#define ESTIMATED_LATER 100 /* … and so many stretches of days behind them */

struct days {
    int64_t first_ms; /* the first one's beginning */
    size_t n;
    int64_t *jobs;
};

static dt_status count_days(struct dt_forecasting *f, struct days *days)
{
    int64_t end_ms = days->first_ms + (int64_t)days->n * DT_FORECAST_DAY_MS;
    dt_status status = dt_db_query_index(f->db, dt_sql_count_due_by_step,
                                         DT_PARAMS(DT_P_INT(days->first_ms), DT_P_INT(DT_FORECAST_DAY_MS), DT_P_INT(0),
                                                   DT_P_INT(days->first_ms), DT_P_INT(end_ms)),
                                         f->err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(f->db)) {
        size_t day = (size_t)dt_db_i64(f->db, 0);
        if (day < days->n)
            days->jobs[day] = dt_db_i64(f->db, 1);
    }
    return dt_db_end(f->db, f->err);
}

/* Days [first, end), each alike. */
static dt_status estimate_alike(struct dt_forecasting *f, struct days *days, size_t first, size_t end)
{
    int64_t from_ms = days->first_ms + (int64_t)first * DT_FORECAST_DAY_MS;
    int64_t to_ms = days->first_ms + (int64_t)end * DT_FORECAST_DAY_MS;
    int64_t rows;
    dt_status status = dt_forecast_estimate(f, 0, from_ms, to_ms, &rows);
    for (size_t i = first; i < end; i++)
        days->jobs[i] = rows / (int64_t)(end - first);
    return status;
}

/* The part of a day's jobs that is due before a time, if they are spread evenly. */
static int64_t before(int64_t jobs, int64_t day_ms, int64_t ms)
{
    int64_t since_ms = ms <= day_ms ? 0 : ms - day_ms < DT_FORECAST_DAY_MS ? ms - day_ms : DT_FORECAST_DAY_MS;
    return (int64_t)((double)jobs * (double)since_ms / (double)DT_FORECAST_DAY_MS + 0.5);
}

static dt_status spread_day(struct dt_forecasting *f, int64_t day_ms, int64_t jobs)
{
    const struct dt_forecast_ask *ask = f->ask;
    int64_t from_ms = day_ms > ask->from_ms ? day_ms : ask->from_ms;
    size_t first = (size_t)((from_ms - ask->from_ms) / ask->step_ms);
    size_t last = (size_t)((day_ms + DT_FORECAST_DAY_MS - 1 - ask->from_ms) / ask->step_ms) + 1;
    last = last < ask->steps ? last : ask->steps;
    int64_t *totals = dt_arena_alloc(f->arena, (last - first + 1) * sizeof(*totals));
    if (!totals)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    for (size_t step = first; step < last; step++) {
        int64_t at_ms = ask->from_ms + (int64_t)step * ask->step_ms;
        totals[step - first] = before(jobs, day_ms, at_ms + ask->step_ms) - before(jobs, day_ms, at_ms);
        dt_forecast_add(f, step, totals[step - first]);
    }
    if (ask->from_ms > day_ms || ask->step_ms < DT_FORECAST_DAY_MS || ask->from_ms % DT_FORECAST_DAY_MS)
        dt_forecast_estimated_from(f, day_ms);
    return dt_forecast_share(f, day_ms, first, last, totals);
}

dt_status dt_forecast_far(struct dt_forecasting *f)
{
    struct days days = {.first_ms = f->ask->from_ms - f->ask->from_ms % DT_FORECAST_DAY_MS};
    int64_t rows;
    int64_t end_ms = dt_forecast_end_ms(f->ask);
    days.n = (size_t)((end_ms - 1 - days.first_ms) / DT_FORECAST_DAY_MS) + 1;
    days.jobs = dt_arena_alloc(f->arena, days.n * sizeof(*days.jobs));
    if (!days.jobs)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    memset(days.jobs, 0, days.n * sizeof(*days.jobs));
    dt_status status = dt_forecast_estimate(f, 0, days.first_ms, end_ms, &rows);
    if (status != DT_OK || (f->found_all && rows > DT_FORECAST_BOUND))
        return status;
    if (dt_forecast_is_bound(f->ask) && rows <= DT_FORECAST_BOUND)
        return dt_forecast_count(f, 0, days.first_ms, end_ms);
    if (rows > 0 && rows <= DT_FORECAST_COUNTED)
        status = count_days(f, &days);
    if (rows > DT_FORECAST_COUNTED) {
        const size_t single = days.n < ESTIMATED_DAYS ? days.n : ESTIMATED_DAYS;
        const size_t each = (days.n - single + ESTIMATED_LATER - 1) / ESTIMATED_LATER;
        for (size_t i = 0; i < single && status == DT_OK; i++)
            status = estimate_alike(f, &days, i, i + 1);
        for (size_t i = single; i < days.n && status == DT_OK; i += each)
            status = estimate_alike(f, &days, i, i + each < days.n ? i + each : days.n);
        dt_forecast_estimated_from(f, f->ask->from_ms);
    }
    for (size_t i = 0; i < days.n && status == DT_OK; i++)
        if (days.jobs[i] > 0)
            status = spread_day(f, days.first_ms + (int64_t)i * DT_FORECAST_DAY_MS, days.jobs[i]);
    return status;
}
