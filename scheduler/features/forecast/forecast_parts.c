/*
 * Sums by step and topic while a forecast is made: collected in any order, then those of one (step, topic) are merged,
 * and the largest of each step are kept. With the questions that several parts of the forecast ask.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "forecast_parts.h"
#include "job/job_id.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* ---- adding ---- */

void dt_forecast_add(struct dt_forecasting *f, size_t step, int64_t due)
{
    if (step < f->ask->steps && !dt_forecast_is_bound(f->ask))
        f->out->due[step] += due;
}

bool dt_forecast_has_topic(const struct dt_forecast_ask *ask, struct dt_str topic)
{
    return ask->topic.p ? dt_str_eq(ask->topic, topic) : dt_topic_within(ask->bound, topic);
}

void dt_forecast_show_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due)
{
    if (step >= f->ask->steps || due <= 0)
        return;
    dt_assert_cmp(f->out->n_parts, <=, f->cap);
    if (f->out->n_parts == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 1024;
        struct dt_forecast_part *parts = realloc(f->out->parts, cap * sizeof(*parts));
        if (!parts) {
            f->failed = true;
            return;
        }
        f->out->parts = parts;
        f->cap = cap;
    }
    /* Many of one topic come one after the other: they share one copy of its name. */
    if (!f->last_topic.p || !dt_str_eq(f->last_topic, topic))
        f->last_topic = dt_arena_copy(f->arena, topic);
    if (f->last_topic.p)
        f->out->parts[f->out->n_parts++] = (struct dt_forecast_part){step, due, f->last_topic};
    else
        f->failed = true;
}

void dt_forecast_add_part(struct dt_forecasting *f, size_t step, struct dt_str topic, int64_t due)
{
    if (step >= f->ask->steps || due <= 0 || !dt_forecast_has_topic(f->ask, topic))
        return;
    dt_forecast_show_part(f, step, topic, due);
    if (dt_forecast_is_bound(f->ask))
        f->out->due[step] += due;
}

void dt_forecast_estimated_from(struct dt_forecasting *f, int64_t ms)
{
    if (ms < f->out->counted_until_ms)
        f->out->counted_until_ms = ms > f->ask->from_ms ? ms : f->ask->from_ms;
}

/* ---- questions that several ask ---- */

dt_status dt_forecast_estimate(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms, int64_t *rows)
{
    /* The column of EXPLAIN that tells how many rows are expected. */
    const unsigned column = dt_db_server(f->db) == DT_SERVER_MARIADB ? 8 : 9;
    *rows = 0;
    if (from_ms >= to_ms)
        return DT_OK;
    dt_status status = dt_db_query_index(f->db, dt_sql_estimate_due,
                                         DT_PARAMS(DT_P_INT(band), DT_P_INT(from_ms), DT_P_INT(to_ms)), f->err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(f->db))
        *rows = dt_db_i64(f->db, column);
    return dt_db_end(f->db, f->err);
}

dt_status dt_forecast_count(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms)
{
    const struct dt_forecast_ask *ask = f->ask;
    dt_status status = dt_db_query(f->db, dt_sql_count_due_by_topic,
                                   DT_PARAMS(DT_P_INT(ask->from_ms), DT_P_INT(ask->step_ms), DT_P_INT(band),
                                             DT_P_INT(from_ms), DT_P_INT(to_ms), DT_P_INT(ask->from_ms)),
                                   f->err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(f->db)) {
        dt_forecast_add(f, (size_t)dt_db_i64(f->db, 0), dt_db_i64(f->db, 2));
        dt_forecast_add_part(f, (size_t)dt_db_i64(f->db, 0), dt_db_bytes(f->db, 1), dt_db_i64(f->db, 2));
    }
    return dt_db_end(f->db, f->err);
}

/* ---- shares of topics ---- */

static dt_status read_share(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_forecast_share *share = row;
    (void)arg;
    *share =
        (struct dt_forecast_share){.topic = dt_arena_copy(arena, dt_db_bytes(db, 0)), .scheduled = dt_db_i64(db, 1)};
    return share->topic.p ? DT_OK : DT_NOMEM;
}

static int by_share(const void *a, const void *b)
{
    const struct dt_forecast_share *x = a;
    const struct dt_forecast_share *y = b;
    return (x->scheduled < y->scheduled) - (x->scheduled > y->scheduled);
}

/* The shares of a piece, which are read once a forecast: the largest of the topics that it has. */
static dt_status read_shares(struct dt_forecasting *f, unsigned piece, struct dt_forecast_shares **out)
{
    dt_assert_cmp(piece, <, DT_COUNT_PIECES);
    struct dt_forecast_shares *shares = &f->shares[piece];
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_forecast_share), .read = read_share};
    *out = shares;
    if (shares->read)
        return DT_OK;
    dt_status status = dt_db_query(f->db, dt_sql_select_counters, DT_PARAMS(DT_P_INT(piece)), f->err);
    if (status == DT_OK)
        status = dt_store_read_rows(f->db, f->arena, &rows, f->err);
    if (status != DT_OK)
        return status;
    struct dt_forecast_share *v = rows.v;
    shares->read = true;
    shares->v = v;
    for (size_t i = 0; i < rows.n; i++) {
        if (v[i].scheduled <= 0)
            continue;
        shares->all += v[i].scheduled;
        if (!dt_forecast_has_topic(f->ask, v[i].topic))
            continue;
        shares->asked += v[i].scheduled;
        v[shares->n++] = v[i];
    }
    qsort(v, shares->n, sizeof(*v), by_share);
    if (shares->n > dt_forecast_topics(f->ask))
        shares->n = dt_forecast_topics(f->ask);
    return DT_OK;
}

/* What is added to *sum in whole jobs: no part of one is lost between steps. A forecast of some topics alone rounds up:
 * of a topic that has jobs it has one at least. */
static int64_t add_up(const struct dt_forecasting *f, double *sum, double part)
{
    double more = dt_forecast_is_bound(f->ask) ? 0.999999 : 0.5;
    int64_t told = (int64_t)(*sum + more);
    *sum += part;
    return (int64_t)(*sum + more) - told;
}

dt_status dt_forecast_share(struct dt_forecasting *f, int64_t day_ms, size_t first, size_t last, const int64_t *totals)
{
    struct dt_forecast_shares *shares;
    dt_status status = read_shares(f, dt_count_piece(dt_job_id(day_ms, 0)), &shares);
    if (status != DT_OK || shares->all == 0)
        return status;
    f->out->topics_counted = false;
    for (size_t step = first; step < last; step++) {
        const double each = (double)totals[step - first] / (double)shares->all;
        if (dt_forecast_is_bound(f->ask))
            f->out->due[step] += add_up(f, &shares->sum, each * (double)shares->asked);
        for (size_t i = 0; i < shares->n; i++)
            dt_forecast_show_part(f, step, shares->v[i].topic,
                                  add_up(f, &shares->v[i].sum, each * (double)shares->v[i].scheduled));
    }
    return DT_OK;
}

/* ---- parts in order ---- */

static int by_step_and_topic(const void *a, const void *b)
{
    const struct dt_forecast_part *x = a;
    const struct dt_forecast_part *y = b;
    return x->step != y->step ? (x->step < y->step ? -1 : 1) : dt_str_order(x->topic, y->topic);
}

static int by_step_and_size(const void *a, const void *b)
{
    const struct dt_forecast_part *x = a;
    const struct dt_forecast_part *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->due != y->due ? (x->due > y->due ? -1 : 1) : dt_str_order(x->topic, y->topic);
}

void dt_forecast_merge(struct dt_forecast *out)
{
    size_t n = 0;
    struct dt_forecast_part *v = out->parts;
    if (!v)
        return;
    qsort(v, out->n_parts, sizeof(*v), by_step_and_topic);
    for (size_t i = 0; i < out->n_parts; i++) {
        if (n > 0 && by_step_and_topic(&v[n - 1], &v[i]) == 0)
            v[n - 1].due += v[i].due;
        else
            v[n++] = v[i];
    }
    out->n_parts = n;
}

dt_status dt_forecast_finish(struct dt_forecasting *f)
{
    struct dt_forecast_part *v = f->out->parts;
    if (v) {
        size_t n = 0;
        size_t of_step = 0;
        dt_forecast_merge(f->out);
        qsort(v, f->out->n_parts, sizeof(*v), by_step_and_size);
        for (size_t i = 0; i < f->out->n_parts; i++) { /* keeps the largest of each step */
            of_step = i > 0 && v[i].step == v[i - 1].step ? of_step + 1 : 0;
            if (of_step < dt_forecast_topics(f->ask))
                v[n++] = v[i];
        }
        f->out->n_parts = n;
        f->out->parts = dt_arena_alloc(f->arena, n * sizeof(*v));
        if (f->out->parts)
            memcpy(f->out->parts, v, n * sizeof(*v));
        f->failed = f->failed || !f->out->parts;
    }
    free(v);
    return f->failed ? dt_fail(f->err, DT_NOMEM, "out of memory") : DT_OK;
}
