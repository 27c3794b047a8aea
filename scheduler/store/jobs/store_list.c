/*
 * Pages of jobs: by id, or by key where a prefix of keys is asked for.
 *
 * A page costs a bounded number of rows, whatever the filter and the table: it looks at *windows*, ranges of the
 * primary key (of `jobs` and `history`, or of `job_keys`) that hold a known number of rows, each larger than the one
 * before, until the page is full, SCAN_ROWS rows were looked at, or the table ends:
 *
 *     after ──window──▶ end ──window──▶ end … ▶ full (rows or bytes): the cursor is the last job given
 *                                            ▶ bound: the cursor is the end of the last window
 *                                            ▶ table's end: no cursor
 *
 * Finished jobs stand in `jobs` or in `history`: each statement reads both at one time, merged, so that a job that
 * moves is there once; history is left out where only live jobs are asked for. Its partitions have no index but their
 * primary key: each gives its next ids in order.
 *
 * Invariants: rows ascend by id (or key), each at most once; a cursor never goes back; nothing is locked. Indexes are
 * named, because the optimizer was seen to choose others. Refuses to know tokens: topic prefixes come as texts.
 */
#include "store/jobs/key_range.h"
#include "store/jobs/store_row.h"
#include "store/sql/statements.h"
#include "store/store_internal.h"

#define SCAN_ROWS    10000 /* looked at before an unfilled page is given back */
#define WINDOW_FIRST 250
#define WINDOW_GROWS 4
/* Rows with payloads are asked for in parts: the server sorts a part as a whole, and what is beyond the page's bytes
 * was asked for in vain. */
#define PART_FIRST 4
#define PART_GROWS 4
#define PART_MAX   64

/* [by key][with payloads][history, too] */
static const char *const rows_sql[2][2][2] = {
    {{dt_sql_list_live_by_id, dt_sql_list_all_by_id},
     {dt_sql_list_live_payloads_by_id, dt_sql_list_all_payloads_by_id}},
    {{dt_sql_list_live_by_key, dt_sql_list_all_by_key},
     {dt_sql_list_live_payloads_by_key, dt_sql_list_all_payloads_by_key}},
};

#define FILTER_PARAMS 8
#define KEY_PARAMS    5

/* A page being filled. */
struct page {
    dt_db *db;
    const struct dt_list_filter *filter;
    struct dt_param where[FILTER_PARAMS];
    struct dt_strbuf topics;  /* regular expression of the prefixes */
    struct dt_strbuf key_end; /* hexadecimal: upper bound of key_prefix */
    struct dt_arena *arena;
    struct dt_job *jobs;
    size_t n, part;        /* rows to ask for */
    size_t bytes, largest; /* of the rows */
    int64_t after_id;      /* the cursor: everything up to it was looked at */
    struct dt_str after_key;
    int64_t looked_at;
    bool more;
    struct dt_error *err;
};

static dt_status no_memory(struct page *p)
{
    return dt_fail(p->err, DT_NOMEM, "out of memory");
}

/* ---- filters ---- */

static bool is_topic_text(struct dt_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && !memchr("._-", c, 3))
            return false;
    }
    return s.n > 0;
}

static void add_literal(struct dt_strbuf *out, struct dt_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '.')
            dt_strbuf_addc(out, '\\');
        dt_strbuf_addc(out, s.p[i]);
    }
}

/* "^(a|b\.c)"; a prefix that no topic can start with matches nothing and is left out. */
static void format_topics(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    bool first = true;
    for (size_t i = 0; i < f->n_prefixes; i++) {
        if (!is_topic_text(f->prefixes[i]))
            continue;
        dt_strbuf_adds(&p->topics, first ? "^(" : "|");
        add_literal(&p->topics, f->prefixes[i]);
        first = false;
    }
    dt_strbuf_adds(&p->topics, first ? "^$" : ")");
}

static dt_status set_filter(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    if (f->bound)
        format_topics(p);
    dt_key_range_add_end(&p->key_end, f->key_prefix);
    if (p->topics.failed || p->key_end.failed)
        return no_memory(p);
    p->where[0] = p->where[1] = DT_P_STR_OR_NULL(f->topic);
    p->where[2] = p->where[3] = DT_P_INT(f->state + 1);
    p->where[4] = DT_P_INT(f->has_run_from ? f->run_from_ms : INT64_MIN);
    p->where[5] = DT_P_INT(f->has_run_to ? f->run_to_ms : INT64_MAX);
    p->where[6] = p->where[7] = DT_P_STR_OR_NULL(dt_strbuf_str(&p->topics));
    return DT_OK;
}

/* ---- windows ---- */

/* A window of ids or keys; no end (absent, INT64_MAX): to the end of the table. */
struct window {
    int64_t rows, end_id;
    struct dt_str end_key;
};

/*
 * Keys from the prefix, or from the cursor, on; the cursor's own key is left out. The upper bound is the lowest text
 * above all keys that begin with the prefix. It may be no valid UTF-8, so it travels in hexadecimal digits.
 */
static void key_params(const struct page *p, struct dt_param out[KEY_PARAMS])
{
    bool from_start = p->after_key.p == NULL;
    out[0] = DT_P_STR(p->filter->topic);
    out[1] = DT_P_STR(from_start ? p->filter->key_prefix : p->after_key);
    out[2] = DT_P_STR(dt_strbuf_str(&p->key_end));
    out[3] = DT_P_INT(from_start);
    out[4] = DT_P_STR(from_start ? DT_STR_LIT("") : p->after_key);
}

static bool by_key(const struct page *p)
{
    return p->filter->key_prefix.p != NULL;
}

static bool with_history(const struct page *p)
{
    return p->filter->state < 0 || dt_job_state_terminal((enum dt_job_state)p->filter->state);
}

/* Finds where that many keys from the cursor on end. */
static dt_status find_key_window(struct page *p, struct window *w, bool *last)
{
    struct dt_param params[KEY_PARAMS + 1];
    key_params(p, params);
    params[KEY_PARAMS] = DT_P_INT(w->rows - 1);
    dt_status status =
        dt_db_query(p->db, dt_sql_find_window_by_key, (struct dt_params){params, KEY_PARAMS + 1}, p->err);
    if (status != DT_OK)
        return status;
    *last = !dt_db_next(p->db);
    w->end_key = *last ? DT_STR_NONE : dt_arena_copy(p->arena, dt_db_bytes(p->db, 0));
    bool failed = !*last && !w->end_key.p;
    status = dt_db_end(p->db, p->err);
    return status == DT_OK && failed ? no_memory(p) : status;
}

/* Brings the window's end nearer where that many rows of one table end; *last: it ends before. */
static dt_status find_id_window(struct page *p, const char *sql, struct window *w, bool *last)
{
    dt_status status = dt_db_query(p->db, sql, DT_PARAMS(DT_P_INT(p->after_id), DT_P_INT(w->rows - 1)), p->err);
    if (status != DT_OK)
        return status;
    *last = !dt_db_next(p->db);
    if (!*last && dt_db_i64(p->db, 0) < w->end_id)
        w->end_id = dt_db_i64(p->db, 0);
    return dt_db_end(p->db, p->err);
}

/* Finds where the window of that many rows (of each table) ends; *last: the tables end before. */
static dt_status find_window(struct page *p, struct window *w, bool *last)
{
    bool past_last = true;
    w->end_id = INT64_MAX;
    if (by_key(p))
        return find_key_window(p, w, last);
    dt_status status = find_id_window(p, dt_sql_find_window_by_id, w, last);
    if (status == DT_OK && with_history(p))
        status = find_id_window(p, dt_sql_find_archived_window_by_id, w, &past_last);
    *last &= past_last;
    return status;
}

#define PART_PARAMS (KEY_PARAMS + 2 + FILTER_PARAMS + 1)

/* Fills in the parameters of one table: range, filter, limit. */
static size_t part_params(const struct page *p, const struct window *w, size_t limit, struct dt_param *params)
{
    size_t n = 0;
    if (by_key(p)) {
        key_params(p, params);
        n = KEY_PARAMS;
        params[n++] = DT_P_STR_OR_NULL(w->end_key);
        params[n++] = DT_P_STR(dt_strbuf_str(&p->key_end));
    } else {
        params[n++] = DT_P_INT(p->after_id);
        params[n++] = DT_P_INT(w->end_id);
    }
    memcpy(params + n, p->where, sizeof(p->where));
    n += FILTER_PARAMS;
    params[n++] = DT_P_INT(limit);
    return n;
}

static dt_status query_window(struct page *p, const struct window *w, size_t limit)
{
    struct dt_param params[2 * PART_PARAMS + 1];
    size_t n = part_params(p, w, limit, params);
    if (with_history(p)) {
        n += part_params(p, w, limit, params + n);
        params[n++] = DT_P_INT(limit);
    }
    return dt_db_query_stream(p->db, rows_sql[by_key(p)][p->filter->payload][with_history(p)],
                              (struct dt_params){params, n}, p->err);
}

static dt_status read_row(struct page *p, struct dt_job *job)
{
    dt_status status = p->filter->payload ? dt_row_full(p->db, 0, p->arena, job) : dt_row_head(p->db, 0, p->arena, job);
    return status != DT_OK ? dt_fail(p->err, status, "job %lld cannot be read", (long long)job->id) : DT_OK;
}

/* Says whether another row may be taken: one as large as the largest must fit. */
static bool full(const struct page *p)
{
    size_t max = p->filter->bytes;
    return p->n == p->filter->limit || (max && p->n > 0 && p->bytes + p->largest > max);
}

/* How many rows to ask for: as many as fit if none is larger than those seen. */
static size_t part_rows(const struct page *p)
{
    size_t room = p->filter->limit - p->n;
    size_t part = p->filter->payload && p->filter->bytes ? p->part : room;
    size_t fit = p->largest ? (p->filter->bytes - p->bytes) / p->largest : part;
    if (p->filter->bytes && part > fit)
        part = fit > 0 ? fit : 1;
    return part < room ? part : room;
}

/* True: the row is the page's. Otherwise it is one too many, and will be read again. */
static bool take_row(struct page *p)
{
    size_t bytes = sizeof(*p->jobs) + dt_job_bytes(&p->jobs[p->n]);
    size_t max = p->filter->bytes;
    if (max && p->n > 0 && p->bytes + bytes > max) {
        p->largest = bytes;
        return false;
    }
    p->bytes += bytes;
    p->largest = bytes > p->largest ? bytes : p->largest;
    p->n++;
    return true;
}

/* The next part of the window; *overflow: there is one more row, at least. */
static dt_status read_part(struct page *p, const struct window *w, bool *overflow)
{
    size_t rows = part_rows(p);
    size_t end = p->n + rows;
    *overflow = false;
    dt_status status = query_window(p, w, rows + 1);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && !*overflow && dt_db_next(p->db)) {
        *overflow = p->n == end;
        if (!*overflow) {
            status = read_row(p, &p->jobs[p->n]);
            *overflow = status == DT_OK && !take_row(p);
        }
    }
    dt_status ended = dt_db_end(p->db, status != DT_OK ? NULL : p->err);
    p->part = PART_GROWS * p->part < PART_MAX ? PART_GROWS * p->part : PART_MAX;
    return status != DT_OK ? status : ended;
}

static void go_on_after_last_job(struct page *p)
{
    if (p->n == 0)
        return;
    p->after_id = p->jobs[p->n - 1].id;
    p->after_key = p->jobs[p->n - 1].key;
}

/* Jobs of the window, as long as the page has room; *overflow: there is one more. */
static dt_status read_window(struct page *p, const struct window *w, bool *overflow)
{
    dt_status status;
    do {
        status = read_part(p, w, overflow);
        if (status == DT_OK && *overflow)
            go_on_after_last_job(p);
    } while (status == DT_OK && *overflow && !full(p));
    return status;
}

/* One window; *done: the page is complete. */
static dt_status take_window(struct page *p, int64_t rows, bool *done)
{
    struct window w = {.rows = rows};
    bool last = false, overflow = false;
    dt_status status = find_window(p, &w, &last);
    if (status == DT_OK)
        status = read_window(p, &w, &overflow);
    if (status != DT_OK)
        return status;
    p->looked_at += rows;
    p->more = overflow || !last;
    *done = overflow || last || p->looked_at >= SCAN_ROWS || full(p);
    if (!overflow && !last) {
        p->after_id = w.end_id;
        p->after_key = w.end_key;
    }
    return DT_OK;
}

static dt_status fill(struct page *p)
{
    int64_t rows = p->filter->limit > WINDOW_FIRST ? p->filter->limit : WINDOW_FIRST;
    bool done = false;
    dt_status status = set_filter(p);
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
    p->n = 0;
    p->part = PART_FIRST;
    p->bytes = p->largest = 0;
    p->looked_at = 0;
    p->more = false;
    p->after_id = p->filter->after_id;
    p->after_key = p->filter->after_key;
    dt_strbuf_reset(&p->topics);
    dt_strbuf_reset(&p->key_end);
    p->jobs = dt_arena_alloc(p->arena, (p->filter->limit + 1) * sizeof(*p->jobs));
    if (!p->jobs)
        return no_memory(p);
    return dt_store_db(store, &p->db, p->err);
}

dt_status dt_store_list(dt_store *store, const struct dt_list_filter *filter, struct dt_arena *arena,
                        struct dt_job_list *out, struct dt_error *err)
{
    struct page p = {.filter = filter, .arena = arena, .err = err};
    dt_status status = DT_OK;
    *out = (struct dt_job_list){0};
    if (filter->key_prefix.p && !filter->topic.p)
        return dt_fail(err, DT_INVALID, "a prefix of keys needs a topic");
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
        *out =
            (struct dt_job_list){.v = p.jobs, .n = p.n, .more = p.more, .last_id = p.after_id, .last_key = p.after_key};
    dt_strbuf_clear(&p.topics);
    dt_strbuf_clear(&p.key_end);
    return status;
}
