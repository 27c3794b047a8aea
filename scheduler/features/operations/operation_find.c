/* Finding the jobs of an operation. A step reads a window, which has a bounded number of rows. Jobs that are not dead
 * are found in the order of ids, on days on which the topic has jobs, or in the order of keys if the filter has a
 * prefix of keys. Dead jobs are found in the order of time, first in `jobs`, then in history. If a job is archived
 * meanwhile, it is found twice and stored once. */

#include "base/text/json_write.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "mysql/walk.h"
#include "operation_parts.h"

/*
 * The home days on which a topic may have jobs. A walk over `jobs` in the order of ids reads only these days, so its
 * cost depends on the number of their rows, not on the size of the table. The same holds for a prefix of topics, unless
 * the counters of these topics have ROWS_MOST rows or more: then all days are read.
 *
 * The counters know the piece of a day (home day modulo DT_COUNT_PIECES). The numbers of all states are summed, because
 * a manual edit may change the state of a job without the counters, but does not add a job.
 */

/* Most rows of counters that are read: enough for ten topics, with up to 32 pieces and 32 writers each. */
#define ROWS_MOST 10240

/* The number of a topic's jobs in a piece of `jobs` (home day modulo 32), in all states. */
struct sum {
    char topic[DT_TOPIC_MAX + 1];
    int64_t piece, jobs;
};

static void add_piece_of_sum(const struct sum *sum, struct dt_operation_days *out)
{
    if (sum->jobs != 0)
        out->pieces |= UINT32_C(1) << (sum->piece % DT_COUNT_PIECES);
}

static dt_status read_days(dt_db *db, const struct dt_operation_row *row, struct dt_operation_days *out,
                           struct dt_error *err)
{
    const struct dt_operation *op = &row->shown;
    struct sum sum = {.jobs = 0};
    size_t n = 0;
    *out = (struct dt_operation_days){.all = !op->topic_from.n};
    if (out->all)
        return DT_OK;
    dt_status status =
        dt_db_query(db, dt_sql_select_topic_pieces,
                    DT_PARAMS(DT_P_STR(op->topic_from), DT_P_STR(op->topic_to), DT_P_INT(ROWS_MOST)), err);
    if (status != DT_OK)
        return status;
    for (; dt_db_next(db); n++) {
        const struct dt_str topic = dt_db_bytes(db, 0);
        if (!dt_str_is(topic, sum.topic) || sum.piece != dt_db_i64(db, 1)) {
            add_piece_of_sum(&sum, out);
            sum = (struct sum){.piece = dt_db_i64(db, 1)};
            memcpy(sum.topic, topic.p, topic.n < DT_TOPIC_MAX ? topic.n : DT_TOPIC_MAX);
        }
        sum.jobs += dt_db_i64(db, 2);
    }
    add_piece_of_sum(&sum, out);
    out->all = n == ROWS_MOST;
    return dt_db_end(db, err);
}

/* Returns the first home day, from `day` on, that may have jobs of the topic; -1: there is none. */
static int64_t first_day_from(const struct dt_operation_days *days, int64_t day)
{
    if (!days->pieces)
        return -1;
    while (!(days->pieces >> (day % DT_COUNT_PIECES) & 1))
        day++;
    return day;
}

/* Moves *after_id to just before the next home day that has a row and may have jobs of the topic. *end_id: the last id
 * of that day and of the days that follow it without a gap; -1: there is no such day. */
static dt_status move_to_next_day(dt_db *db, const struct dt_operation_days *days, int64_t *after_id, int64_t *end_id,
                                  struct dt_error *err)
{
    *end_id = INT64_MAX;
    for (bool there = days->all; !there;) {
        int64_t id = INT64_MAX;
        bool found;
        dt_status status = dt_walk_ids(db, dt_sql_find_window_by_id, *after_id, 1, &id, &found, err);
        if (status != DT_OK)
            return status;
        const int64_t day = found ? first_day_from(days, dt_job_home_day(id)) : -1;
        int64_t end = day + 1; /* exclusive end of the days without a gap */
        *end_id = -1;
        if (day < 0)
            return DT_OK;
        while (end < day + DT_COUNT_PIECES && first_day_from(days, end) == end)
            end++;
        *end_id = (end << DT_SEQUENCE_BITS) - 1;
        there = day == dt_job_home_day(id);
        *after_id = there ? id - 1 : (day << DT_SEQUENCE_BITS) - 1;
    }
    return DT_OK;
}

/* ---- the statements that find jobs ---- */

enum { FILTER_PARAMS = 15, MATCH_PARAMS = FILTER_PARAMS + 7 };

static struct dt_param *filter_params(const struct dt_operation_row *row, struct dt_param *p)
{
    const struct dt_operation *op = &row->shown;
    return dt_params_add(
        p, DT_PARAMS(DT_P_INT(dt_operation_acts_on(op->kind) + 1), DT_P_STR(op->topic_from), DT_P_STR(op->topic_to),
                     DT_P_STR_OR_NULL(row->key_prefix), DT_P_INT(row->key_prefix.n), DT_P_STR_OR_NULL(row->key_prefix),
                     DT_P_INT(row->run_from_ms), DT_P_INT(row->run_to_ms), DT_P_INT(row->created_from_ms),
                     DT_P_INT(row->created_to_ms), DT_P_STR_OR_NULL(row->error_code), DT_P_STR_OR_NULL(row->error_code),
                     DT_P_INT(row->failed.given), DT_P_INT(row->failed.from_ms), DT_P_INT(row->failed.to_ms)));
}

dt_status dt_operation_read_found(const dt_db *db, struct dt_arena *, void *row, void *)
{
    struct dt_operation_found *found = row;
    *found = (struct dt_operation_found){dt_db_i64(db, 0), dt_db_i64(db, 1)};
    return DT_OK;
}

static dt_status read_matches(dt_db *db, const char *sql, struct dt_params params, struct dt_arena *arena,
                              struct dt_operation_finds *out, struct dt_error *err)
{
    struct dt_rows rows = {.row_bytes = sizeof(*out->v), .read = dt_operation_read_found};
    dt_status status = dt_db_query(db, sql, params, err);
    DT_THEN(status, dt_store_read_rows(db, arena, &rows, err));
    *out = (struct dt_operation_finds){rows.v, rows.n};
    return status;
}

/* ---- in the order of ids ---- */

#define RANGES_AT_ONCE 64 /* most ranges of days in one step; all together have at most DT_OPERATION_WINDOW rows */

struct range {
    int64_t after_id, end_id, rows;
};

/* Finds the jobs of the next range of days, or of its first part. *left: number of rows that the step may still
 * read. */
static dt_status find_jobs_on_days(dt_db *db, struct dt_operation_row *row, const struct dt_operation_days *days,
                                   int64_t *left, struct dt_arena *arena, struct dt_operation_finds *out,
                                   struct dt_error *err)
{
    struct range range = {.after_id = row->after_id};
    dt_status status = move_to_next_day(db, days, &range.after_id, &range.end_id, err);
    if (status == DT_OK && range.end_id >= 0) {
        int64_t rows_and_last[2] = {0};
        bool found;
        status = dt_db_read_numbers(db, dt_sql_find_rows_by_id,
                                    DT_PARAMS(DT_P_INT(range.after_id), DT_P_INT(range.end_id), DT_P_INT(*left)),
                                    &found, rows_and_last, 2, err);
        range.rows = rows_and_last[0];
        /* the range has more rows than may be read, so this step ends at the last row that may be read */
        if (range.rows == *left)
            range.end_id = rows_and_last[1];
    }
    if (status == DT_OK && range.rows > 0) {
        struct dt_param params[MATCH_PARAMS];
        struct dt_param *p = filter_params(row, params);
        *p++ = DT_P_INT(range.after_id);
        *p++ = DT_P_INT(range.end_id);
        status = read_matches(db, dt_sql_match_jobs, (struct dt_params){params, (size_t)(p - params)}, arena, out, err);
    }
    *left -= range.rows;
    const bool over = range.end_id < 0 || range.end_id == INT64_MAX;
    row->after_id = over ? 0 : range.end_id;
    if (status == DT_OK && over)
        row->walk = DT_WALK_OVER;
    return status;
}

static dt_status find_jobs_by_id(dt_db *db, struct dt_operation_row *row, struct dt_arena *arena,
                                 struct dt_operation_finds *out, struct dt_error *err)
{
    struct dt_operation_days days;
    int64_t left = DT_OPERATION_WINDOW;
    *out = (struct dt_operation_finds){0};
    dt_status status = read_days(db, row, &days, err);
    for (int i = 0; i < RANGES_AT_ONCE && left > 0 && row->walk != DT_WALK_OVER && status == DT_OK; i++) {
        struct dt_operation_finds some = {0};
        status = find_jobs_on_days(db, row, &days, &left, arena, &some, err);
        if (status != DT_OK || some.n == 0)
            continue;
        struct dt_operation_found *v = dt_arena_alloc(arena, (out->n + some.n) * sizeof(*v));
        if (!v)
            return dt_fail(err, DT_NOMEM, "out of memory");
        if (out->n)
            memcpy(v, out->v, out->n * sizeof(*v));
        memcpy(v + out->n, some.v, some.n * sizeof(*v));
        *out = (struct dt_operation_finds){v, out->n + some.n};
    }
    return status;
}

/* ---- in the order in which jobs leave, or died ---- */

/* The indexes in which dead jobs are found. In `jobs`, the due index has them among all finished jobs, in the order in
 * which these will be archived. In history, an index has only the dead jobs. So the cost depends on the number of dead
 * and recently finished jobs, not on the size of the tables. */
static const struct table {
    const char *window, *match;
} tables[] = {
    [DT_WALK_JOBS] = {dt_sql_find_finished_window, dt_sql_match_finished_jobs},
    [DT_WALK_HISTORY] = {dt_sql_find_dead_window, dt_sql_match_dead_jobs},
};

static dt_status find_jobs_by_time(dt_db *db, struct dt_operation_row *row, struct dt_arena *arena,
                                   struct dt_operation_finds *out, struct dt_error *err)
{
    const bool bound = row->walk == DT_WALK_HISTORY && row->failed.given;
    /* Position after which the walk continues. In history, the walk begins with the first job that died within the
     * requested time. */
    struct dt_walk_place after = {bound && row->failed.from_ms > INT64_MIN ? row->failed.from_ms - 1 : INT64_MIN,
                                  INT64_MAX};
    if (row->after_key.p) {
        /* The cursor is a text. A program of an older version, which walks by id, ignores it and starts again. */
        char text[64];
        char *rest;
        snprintf(text, sizeof(text), "%.*s", (int)row->after_key.n, row->after_key.p);
        after.at_ms = strtoll(text, &rest, 10);
        after.id = strtoll(rest, NULL, 10);
    }
    /* at first the end of the walk, then that of the window */
    struct dt_walk_place end = {bound ? row->failed.to_ms : INT64_MAX, INT64_MAX};
    struct dt_param params[MATCH_PARAMS];
    bool cut;
    dt_status status = dt_walk_times(db, tables[row->walk].window, after, DT_OPERATION_WINDOW, &end, &cut, err);
    if (status != DT_OK)
        return status;
    const struct dt_param *p = dt_params_add(filter_params(row, params), DT_PARAMS(DT_P_PLACE(after), DT_P_PLACE(end)));
    status =
        read_matches(db, tables[row->walk].match, (struct dt_params){params, (size_t)(p - params)}, arena, out, err);
    if (status != DT_OK)
        return status;
    /* In history, the walk ends with the last job that died within the requested time. */
    const bool last = !cut || (bound && end.at_ms >= row->failed.to_ms);
    row->after_key = DT_STR_NONE;
    if (last)
        row->walk = row->walk == DT_WALK_JOBS ? DT_WALK_HISTORY : DT_WALK_OVER;
    else
        row->after_key = dt_arena_printf(arena, "%lld %lld", (long long)end.at_ms, (long long)end.id);
    return last || row->after_key.p ? DT_OK : dt_fail(err, DT_NOMEM, "out of memory");
}

/* ---- in the order of keys ---- */

static dt_status find_jobs_by_key(dt_db *db, struct dt_operation_row *row, struct dt_arena *arena,
                                  struct dt_operation_finds *out, struct dt_error *err)
{
    struct dt_param params[MATCH_PARAMS];
    struct dt_str end_key = DT_STR_NONE; /* last key of the window; absent: the window ends with the range of keys */
    struct dt_strbuf end = {0};
    dt_key_range_add_end(&end, row->key_prefix);
    const struct dt_walk_keys keys = {
        .topic = row->shown.topic_from, .first = row->key_prefix, .after = row->after_key, .end = dt_strbuf_str(&end)};
    dt_status status = end.failed ? dt_fail(err, DT_NOMEM, "out of memory")
                                  : dt_walk_by_key(db, &keys, DT_OPERATION_WINDOW, arena, &end_key, err);
    struct dt_param *p = dt_walk_key_params(&keys, filter_params(row, params));
    *p++ = DT_P_STR_OR_NULL(end_key);
    *p++ = DT_P_STR_OR_NULL(end_key);
    DT_THEN(status, read_matches(db, dt_sql_match_keyed_jobs, (struct dt_params){params, (size_t)(p - params)}, arena,
                                 out, err));
    dt_strbuf_clear(&end);
    if (status != DT_OK)
        return status;
    row->after_key = end_key;
    if (!end_key.p)
        row->walk = DT_WALK_OVER;
    return DT_OK;
}

dt_status dt_operation_find(dt_db *db, struct dt_operation_row *row, struct dt_arena *arena,
                            struct dt_operation_finds *out, struct dt_error *err)
{
    if (row->shown.kind == DT_OPERATION_REDRIVE)
        return find_jobs_by_time(db, row, arena, out, err);
    return row->walk == DT_WALK_KEYS ? find_jobs_by_key(db, row, arena, out, err)
                                     : find_jobs_by_id(db, row, arena, out, err);
}

/* ---- jobs that a caller lists ---- */

struct listing {
    dt_db *db;
    const struct dt_topic_bound *bound;
    struct dt_operation_finds *out; /* memory for twice as many jobs as the caller lists */
};

static dt_status add_listed_job_within_bound(void *arg)
{
    const struct listing *l = arg;
    if (dt_topic_within(l->bound, dt_db_bytes(l->db, 2)))
        l->out->v[l->out->n++] = (struct dt_operation_found){dt_db_i64(l->db, 0), dt_db_i64(l->db, 1)};
    return DT_OK;
}

dt_status dt_operation_find_listed(dt_db *db, struct dt_operation_row *row, const struct dt_operation_ask *ask,
                                   struct dt_arena *arena, struct dt_operation_finds *out, struct dt_error *err)
{
    struct dt_param params[MATCH_PARAMS];
    const struct dt_params head = {params, (size_t)(filter_params(row, params) - params)};
    const struct dt_ids ids = DT_IDS(ask->filter.ids, ask->filter.n_ids);
    struct listing l = {db, ask->bound, out};
    *out = (struct dt_operation_finds){dt_arena_alloc(arena, (2 * ids.n + 1) * sizeof(*out->v)), 0};
    if (!out->v)
        return dt_fail(err, DT_NOMEM, "out of memory");
    row->walk = DT_WALK_OVER;
    dt_status status = dt_id_in_read(db, &dt_sql_match_listed_jobs, head, ids, add_listed_job_within_bound, &l, err);
    if (status == DT_OK && row->shown.kind == DT_OPERATION_REDRIVE)
        status = dt_id_in_read(db, &dt_sql_match_listed_archived_jobs, head, ids, add_listed_job_within_bound, &l, err);
    return status;
}

/* ---- storing the jobs that were found ---- */

/* Appends to the sample, which is a JSON text: "[…]". */
dt_status dt_operation_add_to_sample(struct dt_operation_row *row, const struct dt_operation_finds *found,
                                     struct dt_arena *arena, struct dt_error *err)
{
    int64_t there = row->shown.matched;
    struct dt_strbuf text = {0};
    if (there >= DT_OPERATION_SAMPLE || found->n == 0)
        return DT_OK;
    dt_strbuf_add(&text, row->shown.sample.p, row->shown.sample.n - 1);
    for (size_t i = 0; i < found->n && there < DT_OPERATION_SAMPLE; i++, there++)
        dt_json_put_id(&text, NULL, found->v[i].id);
    dt_json_end_array(&text);
    row->shown.sample = dt_arena_copy(arena, dt_strbuf_str(&text));
    bool failed = text.failed || !row->shown.sample.p;
    dt_strbuf_clear(&text);
    return failed ? dt_fail(err, DT_NOMEM, "out of memory") : DT_OK;
}

dt_status dt_operation_note(dt_db *db, struct dt_operation_row *row, const struct dt_operation_finds *found,
                            struct dt_arena *arena, struct dt_error *err)
{
    uint64_t noted = 0;
    struct dt_param *params = dt_arena_alloc(arena, (found->n * 3 + 1) * sizeof(*params));
    dt_status status =
        params ? dt_operation_add_to_sample(row, found, arena, err) : dt_fail(err, DT_NOMEM, "out of memory");
    if (status != DT_OK || found->n == 0)
        return status;
    for (size_t i = 0; i < found->n; i++) {
        params[3 * i] = DT_P_INT(row->shown.id);
        params[3 * i + 1] = DT_P_INT(found->v[i].run_at_ms);
        params[3 * i + 2] = DT_P_INT(found->v[i].id);
    }
    status = dt_db_run_many(db, dt_sql_insert_operation_job, (struct dt_param_rows){params, 3, found->n}, &noted, err);
    row->shown.matched += (int64_t)noted;
    return status;
}
