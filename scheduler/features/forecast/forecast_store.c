/*
 * The forecast: near jobs (forecast_parts.c), far jobs, and fires without a job.
 *
 * Fires count at their nominal times. The next fires of each schedule are computed one by one, at most
 * DT_FORECAST_FIRES of all schedules together. Later fires are assumed at even intervals, so their number does not
 * affect the cost.
 */

#include "features/schedules/schedule_row.h"
#include "forecast_parts.h"
#include "mysql/statements.h"

/* The fires of a schedule after those that were computed one by one; they are assumed at even intervals. */
struct evenly {
    struct dt_str topic; /* topic of the schedule's jobs */
    int64_t last_ms;
    double each_ms;
};

struct evens {
    struct evenly *v; /* the schedules with later fires, at most DT_FORECAST_SCHEDULES */
    size_t n;
};

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

/* Computes the number of later fires in each step, for n schedules together. The rate of a schedule is constant from
 * its first step on, so one pass over the steps is enough. The results are whole numbers; a fraction counts in a later
 * step. */
static void sum_later_fires(const struct dt_forecasting *f, const struct evenly *v, size_t n, double *more,
                            int64_t *out)
{
    const struct dt_forecast_ask *ask = f->ask;
    double sum = 0;
    double a_step = 0;
    memset(more, 0, (ask->steps + 1) * sizeof(*more));
    memset(out, 0, ask->steps * sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        size_t step = (size_t)((v[i].last_ms - ask->from_ms) / ask->step_ms);
        int64_t next_ms = ask->from_ms + (int64_t)(step + 1) * ask->step_ms;
        /* A fire at exactly next_ms belongs to the next step, not to this one. */
        double first = (double)(next_ms - 1 - v[i].last_ms) / v[i].each_ms;
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

static int compare_evens_by_topic(const void *a, const void *b)
{
    return dt_str_order(((const struct evenly *)a)->topic, ((const struct evenly *)b)->topic);
}

/* The schedules with the same topic, which are consecutive in the sorted array. */
struct run {
    const struct evenly *v;
    size_t n;
    double rate; /* fires per millisecond */
};

static int compare_by_rate(const void *a, const void *b)
{
    double x = ((const struct run *)a)->rate;
    double y = ((const struct run *)b)->rate;
    return DT_ORDER(y, x);
}

/* Adds the later fires. Since a step shows only the largest topics, the fires of the topics with the highest rates are
 * added to the parts of these topics. The fires of all topics are added to the steps. */
static dt_status add_later_fires(struct dt_forecasting *f, struct evens *evens)
{
    const size_t steps = f->ask->steps;
    struct run *runs = dt_arena_alloc(f->arena, (evens->n + 1) * sizeof(*runs));
    double *more = dt_arena_alloc(f->arena, (steps + 1) * sizeof(*more));
    int64_t *fires = dt_arena_alloc(f->arena, steps * sizeof(*fires));
    size_t n = 0;
    if (!runs || !more || !fires)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    qsort(evens->v, evens->n, sizeof(*evens->v), compare_evens_by_topic);
    for (size_t i = 0; i < evens->n; i++) {
        const struct evenly *e = &evens->v[i];
        dt_forecast_estimated_from(f, e->last_ms);
        if (n == 0 || !dt_str_eq(runs[n - 1].v->topic, e->topic))
            runs[n++] = (struct run){.v = e};
        runs[n - 1].n++;
        runs[n - 1].rate += 1 / e->each_ms;
    }
    qsort(runs, n, sizeof(*runs), compare_by_rate);
    for (size_t i = 0; i < n && i < dt_forecast_topics(f->ask); i++) {
        sum_later_fires(f, runs[i].v, runs[i].n, more, fires);
        for (size_t step = 0; step < steps; step++)
            dt_forecast_show_part(f, step, runs[i].v->topic, fires[step]);
    }
    sum_later_fires(f, evens->v, evens->n, more, fires);
    for (size_t step = 0; step < steps; step++)
        f->out->due[step] += fires[step];
    return DT_OK;
}

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
            continue; /* the row of this schedule has an error, so it makes no jobs */
        if (status != DT_OK)
            return status;
        add_schedule(f, &v[i], &r, DT_FORECAST_FIRES / n, &evens);
        dt_zone_free(zone);
    }
    return evens.n ? add_later_fires(f, &evens) : DT_OK;
}

static dt_status add_fires(struct dt_forecasting *f)
{
    struct dt_arena rows_arena = {0};
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_schedule), .read = dt_schedule_take};
    dt_status status =
        dt_db_query(f->db, dt_sql_select_schedules_ahead,
                    DT_PARAMS(DT_P_INT(dt_forecast_end_ms(f->ask)), DT_P_INT(DT_FORECAST_SCHEDULES)), f->err);
    DT_THEN(status, dt_store_read_rows(f->db, &rows_arena, &rows, f->err));
    DT_THEN(status, add_schedules(f, rows.v, rows.n));
    if (rows.n == DT_FORECAST_SCHEDULES)
        dt_forecast_estimated_from(f, f->ask->from_ms);
    dt_arena_clear(&rows_arena);
    return status;
}

/*
 * ---- far jobs: band 0 of the due index, which has days ----
 *
 * The jobs of a day are spread evenly over the day. Their topics are estimated from the counters of the day's piece
 * (topic/counts.h). If only some topics are requested, and there are at most DT_FORECAST_BOUND far jobs, the row of
 * each job is read, so the numbers are exact.
 */

#define ESTIMATED_DAYS  400 /* number of days that are estimated separately */
#define ESTIMATED_LATER 100 /* number of ranges into which the days after ESTIMATED_DAYS are divided */

struct days {
    int64_t first_ms; /* beginning of the first day */
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

/* Estimates the jobs of days [first, end) together, and gives each day the same number. */
static dt_status estimate_days_together(struct dt_forecasting *f, struct days *days, size_t first, size_t end)
{
    int64_t from_ms = days->first_ms + (int64_t)first * DT_FORECAST_DAY_MS;
    int64_t to_ms = days->first_ms + (int64_t)end * DT_FORECAST_DAY_MS;
    int64_t rows;
    dt_status status = dt_forecast_estimate(f, 0, from_ms, to_ms, &rows);
    for (size_t i = first; i < end; i++)
        days->jobs[i] = rows / (int64_t)(end - first);
    return status;
}

/* Returns how many of a day's jobs are due before a time, if they are spread evenly over the day. */
static int64_t count_jobs_before(int64_t jobs, int64_t day_ms, int64_t ms)
{
    int64_t since_ms = ms <= day_ms ? 0 : ms - day_ms < DT_FORECAST_DAY_MS ? ms - day_ms : DT_FORECAST_DAY_MS;
    return (int64_t)((double)jobs * (double)since_ms / (double)DT_FORECAST_DAY_MS + 0.5);
}

static dt_status spread_day_over_steps(struct dt_forecasting *f, int64_t day_ms, int64_t jobs)
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
        totals[step - first] =
            count_jobs_before(jobs, day_ms, at_ms + ask->step_ms) - count_jobs_before(jobs, day_ms, at_ms);
        dt_forecast_add(f, step, totals[step - first]);
    }
    if (ask->from_ms > day_ms || ask->step_ms < DT_FORECAST_DAY_MS || ask->from_ms % DT_FORECAST_DAY_MS)
        dt_forecast_estimated_from(f, day_ms);
    return dt_forecast_share(f, day_ms, first, last, totals);
}

static dt_status add_far_jobs(struct dt_forecasting *f)
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
            status = estimate_days_together(f, &days, i, i + 1);
        for (size_t i = single; i < days.n && status == DT_OK; i += each)
            status = estimate_days_together(f, &days, i, i + each < days.n ? i + each : days.n);
        dt_forecast_estimated_from(f, f->ask->from_ms);
    }
    for (size_t i = 0; i < days.n && status == DT_OK; i++)
        if (days.jobs[i] > 0)
            status = spread_day_over_steps(f, days.first_ms + (int64_t)i * DT_FORECAST_DAY_MS, days.jobs[i]);
    return status;
}

dt_status dt_store_forecast(dt_store *store, const struct dt_forecast_ask *ask, struct dt_arena *arena,
                            struct dt_forecast *out, struct dt_error *err)
{
    struct dt_forecasting f = {.store = store, .ask = ask, .out = out, .arena = arena, .err = err};
    size_t bytes = ask->steps * sizeof(*out->due);
    *out = (struct dt_forecast){
        .due = dt_arena_alloc(arena, bytes), .counted_until_ms = dt_forecast_end_ms(ask), .topics_counted = true};
    if (!out->due)
        return dt_fail(err, DT_NOMEM, "out of memory");
    memset(out->due, 0, bytes);
    dt_status status = dt_store_db(store, &f.db, err);
    DT_THEN(status, dt_forecast_near(&f));
    DT_THEN(status, add_far_jobs(&f));
    DT_THEN(status, add_fires(&f));
    dt_status finished = dt_forecast_finish(&f);
    return status == DT_OK ? finished : status;
}

dt_status dt_store_drains(dt_store *store, int64_t *per_second, struct dt_error *err)
{
    *per_second = 0;
    return dt_store_number(store, dt_sql_select_drains, DT_NO_PARAMS, per_second, err);
}
