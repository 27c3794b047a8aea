/*
 * The near part of a forecast: band 1 of the due index, which has the exact times of scheduled jobs, and of the
 * deadlines of dispatched ones; only a job's row tells these apart.
 *
 *     few enough to look up    each row is: exact
 *     more                     entries are counted by step, and a sample of rows is looked up: of a step in which some
 *                              of the sample is dispatched, the scheduled part is an estimate
 *     too many to count        the optimizer estimates each step, or each of ESTIMATES stretches of steps
 *
 * A sample, or a share of all, says nothing about a small topic. If a forecast is of some topics alone, the rows of the
 * first DT_FORECAST_BOUND entries are looked up, and later ones are estimated, unless all jobs of the topic were found.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "dispatch/scan.h"
#include "forecast_parts.h"
#include "job/job_id.h"
#include "mysql/statements.h"

#define SLOTS     1024
#define ESTIMATES 240
#define ROOM      (2 * DT_FORECAST_LOOKED_UP) /* of a sample, which may be larger than was expected */
#define MEASURED  50000                       /* entries that the optimizer's estimate is compared with */

/* An entry of the sample. */
struct seen {
    int64_t id, due_ms;
};

struct sample {
    struct seen *v; /* by id */
    struct dt_topic_of *of;
    size_t n;
    int slots; /* that it is of */
};

static size_t step_of(const struct dt_forecasting *f, int64_t ms)
{
    return (size_t)((ms - f->ask->from_ms) / f->ask->step_ms);
}

static int by_id(const void *a, const void *b)
{
    const struct seen *x = a;
    const struct seen *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* ---- the sample ---- */

static dt_status read_sample(struct dt_forecasting *f, struct sample *s)
{
    const struct dt_forecast_ask *ask = f->ask;
    s->v = dt_arena_alloc(f->arena, ROOM * sizeof(*s->v));
    if (!s->v)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    dt_status status = dt_db_query_index(
        f->db, dt_sql_select_due_sample,
        DT_PARAMS(DT_P_INT(ask->from_ms), DT_P_INT(dt_forecast_end_ms(ask)), DT_P_INT(s->slots), DT_P_INT(ROOM)),
        f->err);
    if (status != DT_OK)
        return status;
    for (s->n = 0; s->n < ROOM && dt_db_next(f->db); s->n++)
        s->v[s->n] = (struct seen){dt_db_i64(f->db, 0), dt_db_i64(f->db, 1)};
    if (s->n == ROOM)
        f->out->topics_counted = false;
    status = dt_db_end(f->db, f->err);
    if (status != DT_OK)
        return status;
    int64_t *ids = dt_arena_alloc(f->arena, (s->n + 1) * sizeof(*ids));
    s->of = dt_arena_alloc(f->arena, (s->n + 1) * sizeof(*s->of));
    if (!ids || !s->of)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    qsort(s->v, s->n, sizeof(*s->v), by_id);
    for (size_t i = 0; i < s->n; i++)
        ids[i] = s->v[i].id;
    return dt_store_topics_of(f->store, ids, s->n, f->arena, s->of, f->err);
}

static bool is_scheduled(const struct dt_topic_of *of)
{
    return of->topic.p && !of->dispatched;
}

/* ---- totals of steps ---- */

/* Of a step: entries, and how many of them the sample has, scheduled or not. */
struct total {
    int64_t entries, seen, scheduled;
};

static dt_status count_steps(struct dt_forecasting *f, struct total *totals)
{
    const struct dt_forecast_ask *ask = f->ask;
    dt_status status = dt_db_query_index(f->db, dt_sql_count_due_by_step,
                                         DT_PARAMS(DT_P_INT(ask->from_ms), DT_P_INT(ask->step_ms), DT_P_INT(1),
                                                   DT_P_INT(ask->from_ms), DT_P_INT(dt_forecast_end_ms(ask))),
                                         f->err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(f->db)) {
        size_t step = (size_t)dt_db_i64(f->db, 0);
        if (step < ask->steps)
            totals[step].entries = dt_db_i64(f->db, 1);
    }
    return dt_db_end(f->db, f->err);
}

/* A step that the sample has nothing of is taken as it is. */
static int64_t scheduled_of(const struct total *total)
{
    return total->seen == 0 ? total->entries
                            : (int64_t)((double)total->entries * (double)total->scheduled / (double)total->seen + 0.5);
}

static dt_status count(struct dt_forecasting *f, struct sample *s)
{
    const size_t steps = f->ask->steps;
    struct total *totals = dt_arena_alloc(f->arena, steps * sizeof(*totals));
    if (!totals)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    memset(totals, 0, steps * sizeof(*totals));
    dt_status status = count_steps(f, totals);
    if (status == DT_OK)
        status = read_sample(f, s);
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < s->n; i++) {
        struct total *total = &totals[step_of(f, s->v[i].due_ms)];
        total->seen++;
        total->scheduled += is_scheduled(&s->of[i]);
    }
    for (size_t step = 0; step < steps; step++) {
        dt_forecast_add(f, step, scheduled_of(&totals[step]));
        if (totals[step].scheduled != totals[step].seen)
            dt_forecast_estimated_from(f, f->ask->from_ms + (int64_t)step * f->ask->step_ms);
    }
    /* The parts, of which there are no others yet, count what the sample has: they are raised to what all entries
     * have. */
    dt_assert_cmp(f->out->n_parts, ==, 0);
    for (size_t i = 0; i < s->n; i++)
        if (is_scheduled(&s->of[i]))
            dt_forecast_add_part(f, step_of(f, s->v[i].due_ms), s->of[i].topic, 1);
    dt_forecast_merge(f->out);
    for (size_t i = 0; i < f->out->n_parts; i++) {
        struct dt_forecast_part *part = &f->out->parts[i];
        const struct total *total = &totals[part->step];
        part->due = (int64_t)((double)part->due * (double)scheduled_of(total) / (double)total->scheduled + 0.5);
    }
    f->out->topics_counted = false;
    return DT_OK;
}

/* ---- estimates ---- */

static dt_status estimate_stretch(struct dt_forecasting *f, size_t first, size_t last, int64_t reached_ms,
                                  double factor)
{
    int64_t rows;
    int64_t from_ms = f->ask->from_ms + (int64_t)first * f->ask->step_ms;
    int64_t to_ms = f->ask->from_ms + (int64_t)last * f->ask->step_ms;
    int64_t *totals = dt_arena_alloc(f->arena, (last - first) * sizeof(*totals));
    if (!totals)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    dt_status status = dt_forecast_estimate(f, 1, from_ms > reached_ms ? from_ms : reached_ms, to_ms, &rows);
    for (size_t step = first; status == DT_OK && step < last; step++) {
        totals[step - first] = (int64_t)((double)rows * factor / (double)(last - first));
        dt_forecast_add(f, step, totals[step - first]);
    }
    return status == DT_OK ? dt_forecast_share(f, from_ms, first, last, totals) : status;
}

/* Estimates what is due from reached_ms on. The optimizer doubles what it expects of large ranges; so it is asked how
 * many entries it expects in the beginning of the stretch, as far as their number is known. */
static dt_status estimate(struct dt_forecasting *f, int64_t reached_ms)
{
    const int64_t from_ms = f->ask->from_ms;
    const size_t steps = f->ask->steps;
    const size_t each = (steps + ESTIMATES - 1) / ESTIMATES;
    double factor = 1; /* entries for each that it expects */
    const int64_t end_ms = dt_forecast_end_ms(f->ask);
    int64_t rows = 0;
    int64_t nth_ms;
    dt_status status = dt_store_due_nth(f->store, from_ms, end_ms, MEASURED, &nth_ms, f->err);
    if (status == DT_OK && nth_ms < end_ms)
        status = dt_forecast_estimate(f, 1, from_ms, nth_ms, &rows);
    if (status == DT_OK && rows > MEASURED)
        factor = (double)MEASURED / (double)rows;
    dt_forecast_estimated_from(f, reached_ms);
    for (size_t first = step_of(f, reached_ms); first < steps && status == DT_OK; first += each)
        status = estimate_stretch(f, first, first + each < steps ? first + each : steps, reached_ms, factor);
    return status;
}

/* ---- some topics alone ---- */

static dt_status count_bound(struct dt_forecasting *f)
{
    const struct dt_param topic = DT_P_STR(f->ask->topic);
    const int64_t end_ms = dt_forecast_end_ms(f->ask);
    int64_t reached_ms; /* all entries that are due before are looked up */
    int64_t others = 0;
    dt_status status = dt_store_due_nth(f->store, f->ask->from_ms, end_ms, DT_FORECAST_BOUND, &reached_ms, f->err);
    if (status == DT_OK)
        status = dt_forecast_count(f, 1, f->ask->from_ms, reached_ms);
    /* Has the topic further scheduled jobs? */
    if (status == DT_OK && f->ask->topic.p) {
        for (size_t step = 0; step < f->ask->steps; step++)
            others -= f->out->due[step];
        status = dt_db_query(f->db, dt_sql_select_topic_counts, DT_PARAMS(topic, topic), f->err);
        while (status == DT_OK && dt_db_next(f->db))
            others += dt_db_i64(f->db, 0) == 0 ? dt_db_i64(f->db, 1) : 0;
        f->found_all = status == DT_OK && others <= 0;
        if (status == DT_OK)
            status = dt_db_end(f->db, f->err);
    }
    return status != DT_OK || reached_ms == end_ms || f->found_all ? status : estimate(f, reached_ms);
}

dt_status dt_forecast_near(struct dt_forecasting *f)
{
    int64_t rows;
    int64_t end_ms = dt_forecast_end_ms(f->ask);
    if (dt_forecast_is_bound(f->ask))
        return count_bound(f);
    dt_status status = dt_forecast_estimate(f, 1, f->ask->from_ms, end_ms, &rows);
    if (status != DT_OK)
        return status;
    if (rows <= DT_FORECAST_LOOKED_UP)
        return dt_forecast_count(f, 1, f->ask->from_ms, end_ms);
    if (rows > DT_FORECAST_COUNTED)
        return estimate(f, f->ask->from_ms);
    rows = rows < ROOM ? ROOM : rows;
    struct sample s = {.slots = (int)(SLOTS * (int64_t)DT_FORECAST_LOOKED_UP / rows) + 1};
    return count(f, &s);
}
