/*
 * Pages of jobs: by id, by key where a key or a prefix of keys is asked for, or by time (list_times.c).
 *
 * A page costs a bounded number of rows, whatever the filter and the table: it looks at *windows*, ranges of the
 * primary key (of `jobs` and `history`, or of `job_keys`) or of the due index that hold a known number of rows, each
 * larger than the one before, until the page is full, SCAN_ROWS rows were looked at, or the table ends:
 *
 *     after ──window──▶ end ──window──▶ end … ▶ full (rows or bytes): the cursor is the last job given
 *                                            ▶ bound: the cursor is the end of the last window
 *                                            ▶ table's end: no cursor
 *
 * Finished jobs stand in `jobs` or in `history`: each statement reads both at one time, merged, so that a job that
 * moves is there once; history is left out where only live jobs are asked for. Its partitions give their next ids in
 * order, by their primary key.
 *
 * Invariants: by id and by key, rows ascend, each at most once; a cursor never goes back; nothing is locked. Indexes
 * are named, because the optimizer was seen to choose others. Refuses to know tokens: topic prefixes come as texts.
 */
#include "base/assert.h"
#include "job/change/jobs_row.h"
#include "list.h"
#include "list_page.h"
#include "mysql/statements.h"
#include "mysql/walk.h"

#define SCAN_ROWS    10000 /* looked at before an unfilled page is given back */
#define WINDOW_FIRST 250
#define WINDOW_GROWS 4
/* Rows with payloads are asked for in parts: the server sorts a part as a whole, and what is beyond the page's bytes
 * was asked for in vain. */
#define PART_FIRST 4
#define PART_GROWS 4
#define PART_MAX   64

/* [range][with payloads][history, too] */
static const char *const rows_sql[RANGES][2][2] = {
    [RANGE_IDS] = {{dt_sql_list_live_by_id, dt_sql_list_all_by_id},
                   {dt_sql_list_live_payloads_by_id, dt_sql_list_all_payloads_by_id}},
    [RANGE_KEYS] = {{dt_sql_list_live_by_key, dt_sql_list_all_by_key},
                    {dt_sql_list_live_payloads_by_key, dt_sql_list_all_payloads_by_key}},
    [RANGE_BEHIND_DUE] = {{dt_sql_list_behind_by_due}, {dt_sql_list_payloads_behind_by_due}},
    [RANGE_BETWEEN_DUE] = {{dt_sql_list_between_by_due}, {dt_sql_list_payloads_between_by_due}},
    [RANGE_ARCHIVED] = {{dt_sql_list_archived_by_id}, {dt_sql_list_payloads_archived_by_id}},
    [RANGE_DEAD] = {{dt_sql_list_archived_dead}, {dt_sql_list_payloads_archived_dead}},
};

/* ---- windows ---- */

enum dt_list_way dt_list_way(const struct dt_list_filter *f)
{
    if (f->key.p || f->key_prefix.p)
        return DT_LIST_BY_KEY;
    const bool died = f->state == DT_DEAD && f->failed.given;
    return !f->id && (f->due.given || f->finished.given || died) ? DT_LIST_BY_TIME : DT_LIST_BY_ID;
}

/* Keys from the prefix, the key, or the cursor, on. */
static struct dt_walk_keys keys_of(const struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    return (struct dt_walk_keys){.topic = f->topic,
                                 .first = f->key.p ? f->key : f->key_prefix,
                                 .after = p->after_key,
                                 .end = dt_strbuf_str(&p->key_end)};
}

static bool with_history(const struct page *p, enum range range)
{
    const struct dt_list_filter *f = p->filter;
    bool finished = f->state < 0 || dt_job_state_terminal((enum dt_job_state)f->state);
    return finished && !f->due.given && (range == RANGE_IDS || range == RANGE_KEYS);
}

/* Finds where the window of that many rows (of each table) ends. */
static dt_status find_ids(struct page *p, struct window *w)
{
    bool cut_past = false;
    w->range = RANGE_IDS;
    w->end_id = INT64_MAX;
    if (p->filter->id) {
        w->end_id = p->filter->id;
        return DT_OK;
    }
    dt_status status = dt_walk_ids(p->db, dt_sql_find_window_by_id, p->after_id, w->rows, &w->end_id, &w->cut, p->err);
    if (status == DT_OK && with_history(p, RANGE_IDS))
        status =
            dt_walk_ids(p->db, dt_sql_find_archived_window_by_id, p->after_id, w->rows, &w->end_id, &cut_past, p->err);
    w->cut |= cut_past;
    return status;
}

static dt_status find_keys(struct page *p, struct window *w)
{
    const struct dt_walk_keys keys = keys_of(p);
    w->range = RANGE_KEYS;
    dt_status status = dt_walk_by_key(p->db, &keys, w->rows, p->arena, &w->end_key, p->err);
    w->cut = w->end_key.p != NULL;
    return status;
}

#define PART_PARAMS (DT_WALK_KEY_PARAMS + 2 + LIST_FILTER_PARAMS + 1)

/* Adds the parameters of one table: range of the window, filter, limit. */
static size_t part_params(const struct page *p, const struct window *w, size_t limit, size_t filters,
                          struct dt_param *params)
{
    size_t n = 2;
    if (w->range == RANGE_KEYS) {
        const struct dt_walk_keys keys = keys_of(p);
        struct dt_param *end = dt_walk_key_params(&keys, params);
        end[0] = DT_P_STR_OR_NULL(w->end_key);
        end[1] = DT_P_STR(keys.end);
        n = DT_WALK_KEY_PARAMS + 2;
    } else if (w->range == RANGE_IDS) {
        params[0] = DT_P_INT(p->after_id);
        params[1] = DT_P_INT(w->end_id);
    } else {
        n = dt_list_times_params(p, w, params);
    }
    memcpy(params + n, p->where, filters * sizeof(*params));
    n += filters;
    params[n++] = DT_P_INT(limit);
    dt_assert_cmp(n, <=, PART_PARAMS);
    return n;
}

/* Says whether another row may be taken: one as large as the largest must fit. */
static bool full(const struct page *p)
{
    size_t max = p->filter->bytes;
    return p->n == p->filter->limit || (max && p->n > 0 && p->bytes + p->largest > max);
}

/* Reads the row as the page's next one; *overflow: it is one too many, and will be read again. */
static dt_status take_row(struct page *p, bool *overflow)
{
    struct dt_job *job = &p->jobs[p->n];
    const bool payload = p->filter->payload;
    const size_t max = p->filter->bytes;
    dt_status status = payload ? dt_row_full(p->db, 0, p->arena, job) : dt_row_head(p->db, 0, p->arena, job);
    if (status != DT_OK)
        return dt_fail(p->err, status, "job %lld cannot be read", (long long)job->id);
    if (p->places) { /* the value of the due index stands behind the columns of the job */
        p->places[p->n] = p->place;
        p->places[p->n].due_ms = dt_db_i64(p->db, DT_ROW_HEAD_COLUMNS + (payload ? 1 : 0));
        p->places[p->n].id = job->id;
    }
    const size_t bytes = sizeof(*job) + dt_job_bytes(job);
    *overflow = max && p->n > 0 && p->bytes + bytes > max;
    p->largest = *overflow || bytes > p->largest ? bytes : p->largest;
    if (!*overflow) {
        p->bytes += bytes;
        p->n++;
    }
    return DT_OK;
}

/* The next part of the window; *overflow: there is one more row, at least. */
static dt_status read_part(struct page *p, const struct window *w, bool *overflow)
{
    struct dt_param params[2 * PART_PARAMS + 1];
    const bool finished = w->range == RANGE_ARCHIVED || w->range == RANGE_DEAD;
    const bool both = with_history(p, w->range);
    /* Asks for as many rows as fit if none is larger than the largest so far, and for one more. */
    const size_t room = p->filter->limit - p->n;
    size_t rows = p->filter->payload && p->filter->bytes ? p->part : room;
    const size_t fit = p->largest ? (p->filter->bytes - p->bytes) / p->largest : rows;
    if (p->filter->bytes && rows > fit)
        rows = fit > 0 ? fit : 1;
    rows = rows < room ? rows : room;
    const size_t end = p->n + rows;
    dt_assert_cmp(end, <=, p->filter->limit);
    *overflow = false;
    size_t n = part_params(p, w, rows + 1, finished ? LIST_ARCHIVED_PARAMS : LIST_FILTER_PARAMS, params);
    if (both) {
        n += part_params(p, w, rows + 1, LIST_ARCHIVED_PARAMS, params + n);
        params[n++] = DT_P_INT(rows + 1);
    }
    dt_status status =
        dt_db_query_stream(p->db, rows_sql[w->range][p->filter->payload][both], (struct dt_params){params, n}, p->err);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && !*overflow && dt_db_next(p->db)) {
        *overflow = p->n == end;
        if (!*overflow)
            status = take_row(p, overflow);
    }
    dt_status ended = dt_db_end(p->db, status != DT_OK ? NULL : p->err);
    p->part = PART_GROWS * p->part < PART_MAX ? PART_GROWS * p->part : PART_MAX;
    return status != DT_OK ? status : ended;
}

/* One window; *done: the page is complete. What is between two values of the due index is found again after the last
 * job. */
static dt_status take_window(struct page *p, int64_t rows, bool *done)
{
    const enum dt_list_way way = dt_list_way(p->filter);
    struct window w = {.rows = rows};
    bool overflow = true; /* there is another job than the page has taken of the window */
    dt_status status = way == DT_LIST_BY_KEY    ? find_keys(p, &w)
                       : way == DT_LIST_BY_TIME ? dt_list_find_times(p, &w)
                                                : find_ids(p, &w);
    for (bool again = true; status == DT_OK && again;) {
        status = read_part(p, &w, &overflow);
        if (status == DT_OK && overflow && p->n) {
            const size_t last = p->n - 1;
            p->after_id = p->jobs[last].id;
            p->after_key = p->jobs[last].key;
            p->place = p->places ? p->places[last] : p->place;
        }
        again = overflow && !full(p) && w.range != RANGE_BETWEEN_DUE;
    }
    if (status != DT_OK)
        return status;
    /* What is left after a value of the due index may be nothing, and is followed by a window that counts. */
    if (!overflow && (w.range != RANGE_BEHIND_DUE || w.cut))
        p->looked_at += w.rows;
    p->more = overflow || (way == DT_LIST_BY_TIME ? dt_list_pass_times(p, &w) : w.cut);
    if (!overflow && w.cut && way != DT_LIST_BY_TIME) {
        p->after_id = w.end_id;
        p->after_key = w.end_key;
    }
    *done = !p->more || p->looked_at >= SCAN_ROWS || full(p);
    return DT_OK;
}

static dt_status fill(struct page *p)
{
    int64_t rows = p->filter->limit > WINDOW_FIRST ? p->filter->limit : WINDOW_FIRST;
    bool done = false;
    dt_status status = dt_list_set_filter(p);
    while (status == DT_OK && !done) {
        status = take_window(p, rows, &done);
        rows *= WINDOW_GROWS;
        if (rows > SCAN_ROWS - p->looked_at)
            rows = SCAN_ROWS - p->looked_at;
    }
    return status;
}

static dt_status start(struct page *p, dt_store *store)
{
    const struct dt_list_filter *f = p->filter;
    const bool by_time = dt_list_way(f) == DT_LIST_BY_TIME;
    const size_t rows = f->limit + 1;
    p->n = 0;
    p->part = PART_FIRST;
    p->bytes = p->largest = 0;
    p->looked_at = 0;
    p->more = false;
    p->after_id = f->id > f->after_id ? f->id - 1 : f->after_id;
    p->after_key = f->after_key;
    p->place = f->after;
    dt_strbuf_reset(&p->topics);
    dt_strbuf_reset(&p->key_end);
    p->jobs = dt_arena_alloc(p->arena, rows * sizeof(*p->jobs));
    p->places = by_time ? dt_arena_alloc(p->arena, rows * sizeof(*p->places)) : NULL;
    if (!p->jobs || (by_time && !p->places))
        return dt_fail(p->err, DT_NOMEM, "out of memory");
    return dt_store_db(store, &p->db, p->err);
}

dt_status dt_store_list(dt_store *store, const struct dt_list_filter *filter, struct dt_arena *arena,
                        struct dt_job_list *out, struct dt_error *err)
{
    struct page p = {.filter = filter, .arena = arena, .err = err};
    dt_status status = DT_OK;
    *out = (struct dt_job_list){0};
    if (dt_list_way(filter) == DT_LIST_BY_KEY && !filter->topic.p)
        return dt_fail(err, DT_INVALID, "keys need a topic");
    dt_strbuf_init(&p.topics);
    dt_strbuf_init(&p.key_end);
    for (int tries = 0; tries < 2; tries++) { /* nothing is held: a broken connection is tried anew, once */
        status = start(&p, store);
        if (status != DT_OK)
            break;
        status = fill(&p);
        if (status != DT_UNAVAILABLE)
            break;
    }
    if (status == DT_OK)
        *out = (struct dt_job_list){.v = p.jobs,
                                    .n = p.n,
                                    .more = p.more,
                                    .last_id = p.after_id,
                                    .last_key = p.after_key,
                                    .last_place = p.place,
                                    .places = p.places};
    dt_strbuf_clear(&p.topics);
    dt_strbuf_clear(&p.key_end);
    return status;
}
