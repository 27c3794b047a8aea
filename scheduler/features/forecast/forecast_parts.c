/* Implements forecast_parts.h: the sums of a forecast, and its near jobs. */

#include "forecast_parts.h"
#include "base/assert.h"
#include "dispatch/scan.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* Parts (step, topic, number of jobs) are added in any order. At the end they are merged, and only the largest parts of
 * each step are kept. */
/* ---- adding to the sums ---- */

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
    /* Consecutive jobs often have the same topic, so they share one copy of its name. */
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

/* ---- queries for near and far jobs ---- */

dt_status dt_forecast_estimate(struct dt_forecasting *f, int band, int64_t from_ms, int64_t to_ms, int64_t *rows)
{
    /* Index of the column `rows` in the answer to EXPLAIN. */
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

static dt_status read_topic_share(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_forecast_share *share = row;
    *share =
        (struct dt_forecast_share){.topic = dt_arena_copy(arena, dt_db_bytes(db, 0)), .scheduled = dt_db_i64(db, 1)};
    return share->topic.p ? DT_OK : DT_NOMEM;
}

static int compare_by_share(const void *a, const void *b)
{
    const struct dt_forecast_share *x = a;
    const struct dt_forecast_share *y = b;
    return DT_ORDER(y->scheduled, x->scheduled);
}

/* Returns how the jobs of a piece (home day modulo 32) are divided among the topics. Reads this from MySQL once for a
 * forecast. */
static dt_status read_topic_shares(struct dt_forecasting *f, unsigned piece, struct dt_forecast_shares **out)
{
    dt_assert_cmp(piece, <, DT_COUNT_PIECES);
    struct dt_forecast_shares *shares = &f->shares[piece];
    struct dt_rows rows = {.row_bytes = sizeof(struct dt_forecast_share), .read = read_topic_share};
    *out = shares;
    if (shares->read)
        return DT_OK;
    dt_status status = dt_db_query(f->db, dt_sql_select_counters, DT_PARAMS(DT_P_INT(piece)), f->err);
    DT_THEN(status, dt_store_read_rows(f->db, f->arena, &rows, f->err));
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
    qsort(v, shares->n, sizeof(*v), compare_by_share);
    if (shares->n > dt_forecast_topics(f->ask))
        shares->n = dt_forecast_topics(f->ask);
    return DT_OK;
}

/* Adds a number with a fraction to *sum, and returns by how many whole jobs the sum has grown. So fractions count in a
 * later call. If only some topics are requested, the sum is rounded up, so that a topic with jobs shows at least one
 * job. */
static int64_t add_with_carry(const struct dt_forecasting *f, double *sum, double part)
{
    double more = dt_forecast_is_bound(f->ask) ? 0.999999 : 0.5;
    int64_t told = (int64_t)(*sum + more);
    *sum += part;
    return (int64_t)(*sum + more) - told;
}

dt_status dt_forecast_share(struct dt_forecasting *f, int64_t day_ms, size_t first, size_t last, const int64_t *totals)
{
    struct dt_forecast_shares *shares;
    dt_status status = read_topic_shares(f, dt_count_piece(dt_job_id(day_ms, 0)), &shares);
    if (status != DT_OK || shares->all == 0)
        return status;
    f->out->topics_counted = false;
    for (size_t step = first; step < last; step++) {
        const double each = (double)totals[step - first] / (double)shares->all;
        if (dt_forecast_is_bound(f->ask))
            f->out->due[step] += add_with_carry(f, &shares->sum, each * (double)shares->asked);
        for (size_t i = 0; i < shares->n; i++)
            dt_forecast_show_part(f, step, shares->v[i].topic,
                                  add_with_carry(f, &shares->v[i].sum, each * (double)shares->v[i].scheduled));
    }
    return DT_OK;
}

/* ---- sorting and merging parts ---- */

static int compare_by_step_and_topic(const void *a, const void *b)
{
    const struct dt_forecast_part *x = a;
    const struct dt_forecast_part *y = b;
    return x->step != y->step ? DT_ORDER(x->step, y->step) : dt_str_order(x->topic, y->topic);
}

static int compare_by_step_and_size(const void *a, const void *b)
{
    const struct dt_forecast_part *x = a;
    const struct dt_forecast_part *y = b;
    if (x->step != y->step)
        return DT_ORDER(x->step, y->step);
    return x->due != y->due ? DT_ORDER(y->due, x->due) : dt_str_order(x->topic, y->topic);
}

/* Sorts the parts (numbers of jobs by step and topic), and merges those of the same step and topic. */
static void merge_parts(struct dt_forecast *out)
{
    size_t n = 0;
    struct dt_forecast_part *v = out->parts;
    if (!v)
        return;
    qsort(v, out->n_parts, sizeof(*v), compare_by_step_and_topic);
    for (size_t i = 0; i < out->n_parts; i++) {
        if (n > 0 && compare_by_step_and_topic(&v[n - 1], &v[i]) == 0)
            v[n - 1].due += v[i].due;
        else
            v[n++] = v[i];
    }
    out->n_parts = n;
}

/*
 * ---- near jobs: band 1 of the due index, by exact time ----
 *
 * The band has entries of scheduled jobs, and deadlines of dispatched jobs. Only the row of a job shows which of both
 * its entry is.
 *
 *     few enough to look up    each row is read: the numbers are exact
 *     more                     entries are counted by step, and a sample of rows is read; if the sample of a step
 *                              has dispatched jobs, the number of scheduled jobs is an estimate
 *     too many to count        the optimizer estimates each step, or each of ESTIMATES ranges of steps
 *
 * A sample says nothing about a small topic. So if only some topics are requested, the rows of the first
 * DT_FORECAST_BOUND entries are read. Later entries are estimated, unless all scheduled jobs of the topic were found
 * already.
 */

#define SLOTS     1024
#define ESTIMATES 240
#define ROOM      (2 * DT_FORECAST_LOOKED_UP) /* most rows of a sample, which may be larger than expected */
#define MEASURED  50000 /* entries of the range whose real number is compared with the optimizer's estimate */

struct seen {
    int64_t id, due_ms;
};

struct sample {
    struct seen *v; /* jobs of the sample, sorted by id */
    struct dt_topic_of *of;
    size_t n;
    int slots; /* the sample has the jobs in the first slots (classes of ids, job/shard.h), this many of them */
};

static size_t step_index_of(const struct dt_forecasting *f, int64_t ms)
{
    return (size_t)((ms - f->ask->from_ms) / f->ask->step_ms);
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
    qsort(s->v, s->n, sizeof(*s->v), dt_by_job_id);
    for (size_t i = 0; i < s->n; i++)
        ids[i] = s->v[i].id;
    return dt_store_topics_of(f->store, ids, s->n, f->arena, s->of, f->err);
}

static bool is_scheduled(const struct dt_topic_of *of)
{
    return of->topic.p && !of->dispatched;
}

/* ---- totals of steps ---- */

/* The numbers of a step. entries: in the index; seen: entries in the sample; scheduled: jobs of the sample that are
 * scheduled. */
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

/* Returns the estimated number of scheduled jobs in a step. If no entry of the step is in the sample, counts every
 * entry as scheduled. */
static int64_t estimate_scheduled(const struct total *total)
{
    return total->seen == 0 ? total->entries
                            : (int64_t)((double)total->entries * (double)total->scheduled / (double)total->seen + 0.5);
}

static dt_status count_near_jobs(struct dt_forecasting *f, struct sample *s)
{
    const size_t steps = f->ask->steps;
    struct total *totals = dt_arena_alloc(f->arena, steps * sizeof(*totals));
    if (!totals)
        return dt_fail(f->err, DT_NOMEM, "out of memory");
    memset(totals, 0, steps * sizeof(*totals));
    dt_status status = count_steps(f, totals);
    DT_THEN(status, read_sample(f, s));
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < s->n; i++) {
        struct total *total = &totals[step_index_of(f, s->v[i].due_ms)];
        total->seen++;
        total->scheduled += is_scheduled(&s->of[i]);
    }
    for (size_t step = 0; step < steps; step++) {
        dt_forecast_add(f, step, estimate_scheduled(&totals[step]));
        if (totals[step].scheduled != totals[step].seen)
            dt_forecast_estimated_from(f, f->ask->from_ms + (int64_t)step * f->ask->step_ms);
    }
    /* Counts the jobs of the sample by topic, then scales these parts from the sample to all entries of the step. */
    dt_assert_cmp(f->out->n_parts, ==, 0);
    for (size_t i = 0; i < s->n; i++)
        if (is_scheduled(&s->of[i]))
            dt_forecast_add_part(f, step_index_of(f, s->v[i].due_ms), s->of[i].topic, 1);
    merge_parts(f->out);
    for (size_t i = 0; i < f->out->n_parts; i++) {
        struct dt_forecast_part *part = &f->out->parts[i];
        const struct total *total = &totals[part->step];
        part->due = (int64_t)((double)part->due * (double)estimate_scheduled(total) / (double)total->scheduled + 0.5);
    }
    f->out->topics_counted = false;
    return DT_OK;
}

/* ---- estimates by the optimizer ---- */

static dt_status estimate_steps(struct dt_forecasting *f, size_t first, size_t last, int64_t reached_ms, double factor)
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

/* Estimates the jobs that are due at reached_ms or later. For a large range the optimizer estimates about twice the
 * real number. So the estimate for a first range, whose number of entries is known, gives a factor. */
static dt_status estimate_near_jobs(struct dt_forecasting *f, int64_t reached_ms)
{
    const int64_t from_ms = f->ask->from_ms;
    const size_t steps = f->ask->steps;
    const size_t each = (steps + ESTIMATES - 1) / ESTIMATES;
    double factor = 1; /* real number of entries divided by the optimizer's estimate */
    const int64_t end_ms = dt_forecast_end_ms(f->ask);
    int64_t rows = 0;
    int64_t nth_ms;
    dt_status status = dt_store_due_nth(f->store, from_ms, end_ms, MEASURED, &nth_ms, f->err);
    if (status == DT_OK && nth_ms < end_ms)
        status = dt_forecast_estimate(f, 1, from_ms, nth_ms, &rows);
    if (status == DT_OK && rows > MEASURED)
        factor = (double)MEASURED / (double)rows;
    dt_forecast_estimated_from(f, reached_ms);
    for (size_t first = step_index_of(f, reached_ms); first < steps && status == DT_OK; first += each)
        status = estimate_steps(f, first, first + each < steps ? first + each : steps, reached_ms, factor);
    return status;
}

/* ---- if only some topics are requested ---- */

static dt_status count_up_to_bound(struct dt_forecasting *f)
{
    const struct dt_param topic = DT_P_STR(f->ask->topic);
    const int64_t end_ms = dt_forecast_end_ms(f->ask);
    int64_t reached_ms; /* the rows of all entries due before this time were read */
    int64_t others = 0;
    dt_status status = dt_store_due_nth(f->store, f->ask->from_ms, end_ms, DT_FORECAST_BOUND, &reached_ms, f->err);
    DT_THEN(status, dt_forecast_count(f, 1, f->ask->from_ms, reached_ms));
    /* Finds out whether the topic has scheduled jobs that were not found yet. */
    if (status == DT_OK && f->ask->topic.p) {
        for (size_t step = 0; step < f->ask->steps; step++)
            others -= f->out->due[step];
        status = dt_db_query(f->db, dt_sql_select_topic_counts, DT_PARAMS(topic, topic), f->err);
        while (status == DT_OK && dt_db_next(f->db))
            others += dt_db_i64(f->db, 0) == 0 ? dt_db_i64(f->db, 1) : 0;
        f->found_all = status == DT_OK && others <= 0;
        DT_THEN(status, dt_db_end(f->db, f->err));
    }
    return status != DT_OK || reached_ms == end_ms || f->found_all ? status : estimate_near_jobs(f, reached_ms);
}

dt_status dt_forecast_finish(struct dt_forecasting *f)
{
    struct dt_forecast_part *v = f->out->parts;
    if (v) {
        size_t n = 0;
        size_t of_step = 0;
        merge_parts(f->out);
        qsort(v, f->out->n_parts, sizeof(*v), compare_by_step_and_size);
        for (size_t i = 0; i < f->out->n_parts; i++) { /* keeps, for each step, the topics with the most jobs */
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

dt_status dt_forecast_near(struct dt_forecasting *f)
{
    int64_t rows;
    int64_t end_ms = dt_forecast_end_ms(f->ask);
    if (dt_forecast_is_bound(f->ask))
        return count_up_to_bound(f);
    dt_status status = dt_forecast_estimate(f, 1, f->ask->from_ms, end_ms, &rows);
    if (status != DT_OK)
        return status;
    if (rows <= DT_FORECAST_LOOKED_UP)
        return dt_forecast_count(f, 1, f->ask->from_ms, end_ms);
    if (rows > DT_FORECAST_COUNTED)
        return estimate_near_jobs(f, f->ask->from_ms);
    rows = rows < ROOM ? ROOM : rows;
    struct sample s = {.slots = (int)(SLOTS * (int64_t)DT_FORECAST_LOOKED_UP / rows) + 1};
    return count_near_jobs(f, &s);
}
