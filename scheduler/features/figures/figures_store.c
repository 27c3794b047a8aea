/* Implements figures.h: the statements that write and read figures. */

#include "base/assert.h"
#include "dispatch/scan.h"
#include "figures.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

static const int64_t steps_ms[] = {DT_FINE_MS, DT_COARSE_MS};
#define STEPS (sizeof(steps_ms) / sizeof(steps_ms[0]))

/* ---- writing ---- */

static int64_t floor_ms(int64_t at_ms, int64_t step_ms)
{
    return at_ms - at_ms % step_ms;
}

static struct dt_param *add_figures_row(struct dt_param *p, const struct dt_figures_step *step, int64_t step_ms,
                                        struct dt_str topic, const int64_t n[DT_TALLIES])
{
    p = dt_params_add(p, DT_PARAMS(DT_P_INT(step_ms), DT_P_INT(floor_ms(step->at_ms, step_ms)), DT_P_INT(step->writer),
                                   DT_P_STR(topic)));
    for (int i = 0; i < DT_TALLIES; i++)
        *p++ = DT_P_INT(n[i]);
    *p++ = DT_P_INT(topic.n ? 0 : step->overdue);
    return p;
}

static dt_status add_figures(dt_db *db, const struct dt_figures_step *step, struct dt_error *err)
{
    enum { COLUMNS = 5 + DT_TALLIES };
    const struct dt_tally *tally = step->tally;
    const size_t rows = STEPS * (tally->n + 1);
    struct dt_param *params = calloc(rows, COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    if (!params)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t s = 0; s < STEPS; s++) {
        p = add_figures_row(p, step, steps_ms[s], DT_STR_LIT(""), tally->all);
        for (size_t i = 0; i < tally->n; i++)
            p = add_figures_row(p, step, steps_ms[s], (struct dt_str){tally->rows[i].topic, tally->rows[i].topic_n},
                                tally->rows[i].n);
    }
    dt_assert_cmp(p - params, ==, rows * COLUMNS);
    dt_status status = dt_db_run_many(db, dt_sql_add_figures, (struct dt_param_rows){params, COLUMNS, rows}, NULL, err);
    free(params);
    return status;
}

dt_status dt_store_figures_add(dt_store *store, const struct dt_figures_step *step, struct dt_error *err)
{
    enum { COLUMNS = 5, BUCKETS = 64 };
    struct dt_param params[COLUMNS * BUCKETS * STEPS];
    struct dt_param *p = params;
    const size_t n = step->n_lateness < BUCKETS ? step->n_lateness : BUCKETS;
    dt_db *db = NULL;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, add_figures(db, step, err));
    for (size_t s = 0; s < STEPS; s++)
        for (size_t i = 0; i < n; i++) {
            p = dt_params_add(p, DT_PARAMS(DT_P_INT(steps_ms[s]), DT_P_INT(floor_ms(step->at_ms, steps_ms[s])),
                                           DT_P_INT(step->writer), DT_P_INT(step->lateness[i].up_to_us),
                                           DT_P_INT(step->lateness[i].attempts)));
        }
    if (status == DT_OK && n)
        status = dt_db_run_many(db, dt_sql_add_lateness, (struct dt_param_rows){params, COLUMNS, n * STEPS}, NULL, err);
    return status;
}

static dt_status delete_old_figures(dt_db *db, const char *sql, int64_t now_ms, size_t limit, bool *more,
                                    struct dt_error *err)
{
    static const int64_t kept_ms[STEPS] = {DT_FINE_KEPT_MS, DT_COARSE_KEPT_MS};
    dt_status status = DT_OK;
    for (size_t s = 0; status == DT_OK && s < STEPS; s++) {
        uint64_t gone = 0;
        status = dt_db_run(db, sql, DT_PARAMS(DT_P_INT(steps_ms[s]), DT_P_INT(now_ms - kept_ms[s]), DT_P_INT(limit)),
                           &gone, err);
        *more |= gone == limit;
    }
    return status;
}

dt_status dt_store_figures_expire(dt_store *store, int64_t now_ms, size_t limit, bool *more, struct dt_error *err)
{
    dt_db *db = NULL;
    *more = false;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, delete_old_figures(db, dt_sql_delete_old_figures, now_ms, limit, more, err));
    return status == DT_OK ? delete_old_figures(db, dt_sql_delete_old_lateness, now_ms, limit, more, err) : status;
}

/* ---- reading ---- */

static dt_status read_figures_row(const dt_db *db, struct dt_arena *, void *row, void *)
{
    struct dt_figures_row *r = row;
    *r = (struct dt_figures_row){.slot = dt_db_i64(db, 0), .overdue = dt_db_i64(db, 1 + DT_TALLIES)};
    for (unsigned i = 0; i < DT_TALLIES; i++)
        r->n[i] = dt_db_i64(db, 1 + i);
    return DT_OK;
}

dt_status dt_store_figures(dt_store *store, const struct dt_figures_range *range, struct dt_arena *arena,
                           struct dt_figures_row **out, size_t *n, struct dt_error *err)
{
    struct dt_str topic = range->topic.p ? range->topic : DT_STR_LIT("");
    return dt_store_read(store, dt_sql_select_figures,
                         DT_PARAMS(DT_P_INT(range->slot_ms), DT_P_INT(range->step_ms), DT_P_STR(topic),
                                   DT_P_INT(range->from_ms), DT_P_INT(range->to_ms)),
                         arena, DT_ROWS(out, n, read_figures_row), err);
}

static dt_status read_overdue_topic(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_figures_row *r = row;
    *r = (struct dt_figures_row){.topic = dt_arena_copy(arena, dt_db_bytes(db, 0))};
    for (unsigned i = 0; i < DT_TALLIES; i++)
        r->n[i] = dt_db_i64(db, 1 + i);
    return r->topic.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_figures_of_topics(dt_store *store, const struct dt_figures_range *range, struct dt_arena *arena,
                                     struct dt_figures_row **out, size_t *n, struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_figures_of_topics,
                         DT_PARAMS(DT_P_INT(range->step_ms), DT_P_INT(range->from_ms), DT_P_INT(range->to_ms)), arena,
                         DT_ROWS(out, n, read_overdue_topic), err);
}

static dt_status read_bucket(const dt_db *db, struct dt_arena *, void *row, void *)
{
    *(struct dt_lateness *)row = (struct dt_lateness){dt_db_i64(db, 0), dt_db_i64(db, 1), dt_db_i64(db, 2)};
    return DT_OK;
}

dt_status dt_store_lateness(dt_store *store, const struct dt_figures_range *range, struct dt_arena *arena,
                            struct dt_lateness **out, size_t *n, struct dt_error *err)
{
    return dt_store_read(
        store, dt_sql_select_lateness,
        DT_PARAMS(DT_P_INT(range->slot_ms), DT_P_INT(range->step_ms), DT_P_INT(range->from_ms), DT_P_INT(range->to_ms)),
        arena, DT_ROWS(out, n, read_bucket), err);
}

/* A bucket begins where the previous one ends. Because empty buckets are not stored, a bucket may in fact begin later
 * than computed here. */
double dt_lateness_ms(const struct dt_lateness *buckets, size_t n, double part)
{
    double all = 0;
    double below = 0;
    for (size_t i = 0; i < n; i++)
        all += (double)buckets[i].attempts;
    if (all <= 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        double here = (double)buckets[i].attempts;
        if (below + here >= part * all || i + 1 == n) {
            double begins_us = i ? (double)buckets[i - 1].up_to_us : 0;
            double rest = here > 0 ? (part * all - below) / here : 1;
            return (begins_us + rest * ((double)buckets[i].up_to_us - begins_us)) / 1000;
        }
        below += here;
    }
    return -1;
}

/* ---- numbers of jobs ---- */

static dt_status read_load(const dt_db *db, struct dt_arena *arena, void *row, void *)
{
    struct dt_topic_load *load = row;
    *load = (struct dt_topic_load){.topic = dt_arena_copy(arena, dt_db_bytes(db, 0))};
    for (unsigned i = 0; i < DT_JOB_STATES; i++)
        load->jobs[i] = dt_db_i64(db, 1 + i); /* the columns have the order of enum dt_job_state */
    return load->topic.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_topic_loads(dt_store *store, struct dt_arena *arena, struct dt_topic_load **out, size_t *n,
                               struct dt_error *err)
{
    return dt_store_read(store, dt_sql_select_counts_of_topics, DT_NO_PARAMS, arena, DT_ROWS(out, n, read_load), err);
}

/* State of a read of due jobs in slices. */
struct due_slices {
    int64_t last_key, last_id;
    size_t n, n_free; /* n: number of rows in the last slice; n_free: number of rows in all slices whose topic is not
                       * paused */
};

static dt_status read_overdue(const dt_db *db, struct dt_arena *arena, void *row, void *arg)
{
    struct dt_topic_overdue *o = row;
    struct due_slices *slices = arg;
    int64_t key = dt_db_i64(db, 7);
    int64_t id = dt_db_i64(db, 8);
    *o = (struct dt_topic_overdue){.topic = dt_arena_copy(arena, dt_db_bytes(db, 0)),
                                   .jobs = dt_db_i64(db, 1),
                                   .since_ms = dt_db_i64(db, 2),
                                   .job = dt_db_i64(db, 3),
                                   .paused = dt_db_i64(db, 4) != 0};
    slices->n += (size_t)dt_db_i64(db, 5);
    slices->n_free += (size_t)(dt_db_i64(db, 5) - (o->paused ? dt_db_i64(db, 6) : 0));
    if (key > slices->last_key || (key == slices->last_key && id > slices->last_id)) {
        slices->last_key = key;
        slices->last_id = id;
    }
    return o->topic.p ? DT_OK : DT_NOMEM;
}

static int overdue_by_topic(const void *a, const void *b)
{
    return dt_str_order(((const struct dt_topic_overdue *)a)->topic, ((const struct dt_topic_overdue *)b)->topic);
}

/* Merges the rows of each topic. Drops topics without jobs that are due and not dispatched. */
static size_t merge_topics(struct dt_topic_overdue *v, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(v, n, sizeof(*v), overdue_by_topic);
    for (size_t i = 0; i < n; i++) {
        struct dt_topic_overdue *last = kept ? &v[kept - 1] : NULL;
        if (!v[i].jobs)
            continue;
        if (!last || overdue_by_topic(last, &v[i])) {
            v[kept++] = v[i];
            continue;
        }
        last->jobs += v[i].jobs;
        if (v[i].since_ms < last->since_ms) /* since_ms 0 means "earlier than any known time" */
            last->job = v[i].job;
        last->since_ms = dt_older(last->since_ms, v[i].since_ms);
    }
    return kept;
}

dt_status dt_store_topics_overdue(dt_store *store, int64_t now_ms, size_t limit, struct dt_arena *arena,
                                  struct dt_topic_overdue **out, size_t *n, struct dt_error *err)
{
    struct due_slices slices = {.n = limit};
    struct dt_topic_overdue *all = NULL;
    size_t n_all = 0;
    dt_status status = DT_OK;
    *out = NULL;
    *n = 0;
    for (int i = 0; i < DT_LATE_SLICES && status == DT_OK && slices.n == limit && slices.n_free < limit; i++) {
        struct dt_rows rows = {.row_bytes = sizeof(*all), .read = read_overdue, .arg = &slices};
        const struct due_slices after = slices;
        slices.n = 0;
        status = dt_store_read(store, dt_sql_select_overdue_of_topics,
                               DT_PARAMS(DT_P_INT(after.last_key), DT_P_INT(after.last_id), DT_P_INT(after.last_key),
                                         DT_P_INT(now_ms), DT_P_INT(limit), DT_P_INT(i ? 0 : limit)),
                               arena, &rows, err);
        if (status != DT_OK)
            return status;
        struct dt_topic_overdue *more = dt_arena_alloc(arena, (n_all + rows.n + 1) * sizeof(*more));
        if (!more)
            return DT_NOMEM;
        if (n_all)
            memcpy(more, all, n_all * sizeof(*more));
        if (rows.n)
            memcpy(more + n_all, rows.v, rows.n * sizeof(*more));
        all = more;
        n_all += rows.n;
    }
    *out = all;
    *n = merge_topics(all, n_all);
    return DT_OK;
}

/* ---- the gauges of backlog: see figures.h ---- */

#define COUNTED 10000 /* most due jobs of topics that are not paused, and most offered jobs, that are counted */

/* Returns the gauge of a topic. If the topic has none, adds one. Returns NULL if there are DT_BACKLOG_TOPICS gauges
 * already. */
static struct dt_backlog_row *find_or_add_topic_gauge(struct dt_backlog *b, struct dt_str topic)
{
    char label[DT_TOPIC_MAX + 16];
    for (size_t i = 0; i < b->n; i++)
        if (b->rows[i].topic_n == topic.n && memcmp(b->rows[i].topic, topic.p, topic.n) == 0)
            return &b->rows[i];
    if (b->n == DT_BACKLOG_TOPICS || dt_topic_check(topic, DT_STR_NONE))
        return NULL;
    struct dt_backlog_row *row = &b->rows[b->n++];
    memcpy(row->topic, topic.p, topic.n);
    row->topic_n = topic.n;
    snprintf(label, sizeof(label), "topic=\"%s\"", row->topic);
    row->jobs =
        dt_gauge("duetime_backlog_jobs",
                 "Due jobs of the topic that are not dispatched, in the whole installation, up to 30,000; 0 while "
                 "the topic is paused.",
                 label);
    return row;
}

dt_status dt_backlog_tell(struct dt_backlog *b, dt_store *store, int64_t now_ms, int64_t overdue)
{
    struct dt_topic_overdue *topics = NULL;
    size_t n = 0;
    if (!overdue && !b->shown)
        return DT_OK;
    dt_arena_reset(&b->arena);
    dt_status status = overdue ? dt_store_topics_overdue(store, now_ms, COUNTED, &b->arena, &topics, &n, NULL) : DT_OK;
    if (status != DT_OK)
        return status;
    for (size_t i = 0; i < b->n; i++)
        dt_metric_set(b->rows[i].jobs, 0);
    for (size_t i = 0; i < n; i++) {
        struct dt_backlog_row *row = topics[i].paused ? NULL : find_or_add_topic_gauge(b, topics[i].topic);
        if (row)
            dt_metric_set(row->jobs, (double)topics[i].jobs);
    }
    b->shown = n > 0;
    return DT_OK;
}
