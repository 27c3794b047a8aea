/*
 * Pages of jobs: by id, by key (if a key or a prefix of keys is given), or by time.
 *
 * A page reads a bounded number of rows, whatever the filter and the size of the table. It reads *windows*: ranges of
 * the primary key (of `jobs` and `history`, or of `job_keys`) or of the due index with a known number of rows, each
 * larger than the one before, until the page is full, SCAN_ROWS rows were read, or the table ends:
 *
 *     after ──window──▶ end ──window──▶ end … ▶ full (rows or bytes): the cursor is the last job of the page
 *                                            ▶ SCAN_ROWS read: the cursor is the end of the last window
 *                                            ▶ end of the table: no cursor
 *
 * Finished jobs are in `jobs` or in `history`. Each statement reads both tables in one snapshot and merges the rows, so
 * that a job that is being archived is found once. A list of live jobs does not read history.
 *
 * Invariants: by id and by key, rows ascend, each at most once; a cursor never goes back; nothing is locked. Statements
 * name their indexes, because the optimizer was seen to choose others.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "job/change/jobs_row.h"
#include "job/job.h"
#include "list.h"
#include "mysql/statements.h"
#include "mysql/walk.h"

/* Kinds of windows, by the index in which the window is a range. */
enum range { RANGE_IDS, RANGE_KEYS, RANGE_BEHIND_DUE, RANGE_BETWEEN_DUE, RANGE_ARCHIVED, RANGE_DEAD };
#define RANGES (RANGE_DEAD + 1)

/* A window: a range of an index. If end_id is INT64_MAX, or end_key is absent, the window ends with the index. */
struct window {
    enum range range;
    int64_t rows, end_id, end_due_ms;
    struct dt_str end_key;
    bool cut; /* the range has rows after the window's last row */
};

/* statements on history have no parameters for due times */
enum { LIST_FILTER_PARAMS = 24, LIST_ARCHIVED_PARAMS = 21 };

struct page {
    dt_db *db;
    const struct dt_list_filter *filter;
    struct dt_param where[LIST_FILTER_PARAMS];
    struct dt_strbuf topics;  /* regular expression that the topics must match */
    struct dt_strbuf key_end; /* hexadecimal: upper bound of the keys */
    struct dt_arena *arena;
    struct dt_job *jobs;
    struct dt_list_place *places; /* for a list by time: the cursor after each job */
    size_t n, part;               /* n: rows of the page so far; part: rows that the next statement requests */
    size_t bytes, largest;        /* bytes: sum of the sizes of the rows; largest: size of the largest row */
    int64_t after_id;             /* cursor of a list by id: rows up to this id were read */
    struct dt_str after_key;
    struct dt_list_place place;
    int64_t looked_at;
    bool more;
    struct dt_error *err;
};

/* ---- the filter: each condition can be switched off, so that the statements do not depend on it ---- */

/* Makes a regular expression like "^(a|b\.c)" of the prefixes, without prefixes that no topic can begin with. */
static void format_topics(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    bool first = true;
    for (size_t i = 0; i < f->n_prefixes; i++) {
        const struct dt_str prefix = f->prefixes[i];
        if (!dt_topic_prefix_valid(prefix))
            continue;
        dt_strbuf_adds(&p->topics, first ? "^(" : "|");
        for (size_t k = 0; k < prefix.n; k++) {
            if (prefix.p[k] == '.')
                dt_strbuf_addc(&p->topics, '\\');
            dt_strbuf_addc(&p->topics, prefix.p[k]);
        }
        first = false;
    }
    dt_strbuf_adds(&p->topics, first ? "^$" : ")");
}

static struct dt_param *add_times(struct dt_param *at, struct dt_list_times times)
{
    return dt_params_add(at, DT_PARAMS(DT_P_INT(times.given), DT_P_INT(times.from_ms), DT_P_INT(times.to_ms)));
}

static struct dt_param *add_text_params(struct dt_param *at, struct dt_str text, unsigned times)
{
    while (times-- > 0)
        *at++ = DT_P_STR_OR_NULL(text);
    return at;
}

/* Sets p->where, and the texts that p->where borrows. */
static dt_status set_filter(struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    if (f->bound)
        format_topics(p);
    /* The exclusive end of the range of keys: above all keys with the prefix, or just above the single key. */
    for (size_t i = 0; i < f->key.n; i++)
        dt_strbuf_addf(&p->key_end, "%02X", (unsigned char)f->key.p[i]);
    if (f->key.p)
        dt_strbuf_adds(&p->key_end, "00");
    else
        dt_key_range_add_end(&p->key_end, f->key_prefix);
    if (p->topics.failed || p->key_end.failed)
        return dt_fail(p->err, DT_NOMEM, "out of memory");
    struct dt_param *at = add_text_params(p->where, f->topic, 2);
    at = dt_params_add(at, DT_PARAMS(DT_P_INT(f->state + 1), DT_P_INT(f->state + 1),
                                     DT_P_INT(f->has_run_from ? f->run_from_ms : INT64_MIN),
                                     DT_P_INT(f->has_run_to ? f->run_to_ms : INT64_MAX)));
    at = add_text_params(at, dt_strbuf_str(&p->topics), 2);
    *at++ = DT_P_INT(f->created.given ? f->created.from_ms : INT64_MIN);
    *at++ = DT_P_INT(f->created.given ? f->created.to_ms : INT64_MAX);
    at = add_text_params(at, f->error_code, 2);
    at = add_text_params(at, f->error_text, 3);
    at = add_times(at, f->failed);
    at = add_times(at, f->finished);
    dt_assert_cmp(at - p->where, ==, LIST_ARCHIVED_PARAMS);
    at = add_times(at, f->due);
    dt_assert_cmp(at - p->where, ==, LIST_FILTER_PARAMS);
    return DT_OK;
}

/*
 * ---- windows of a list by time, which walks the due index ----
 *
 *     due       near jobs and offered jobs (exact times) ──▶ far jobs (by day, and by id within a day)
 *     finished  jobs that leave late ──▶ jobs that leave soon ──▶ history, by id
 *     dead      jobs that leave late ──▶ history, by time of death ──▶ jobs that leave soon
 *
 * ("leave": `jobs`, for history.) Each part of `jobs` is a range of one band of the index, or of two bands, whose rows
 * are merged in order. A window of two bands has at most a window's rows of each: it ends where the first of the two
 * does.
 *
 * One value of the index may have one job or a million (a day of the far band). So two kinds of windows alternate:
 * BEHIND reads the remaining rows with one value, by id; BETWEEN reads from the next value to a value that is some rows
 * further, where the next BEHIND begins. Dead jobs stay in the table for longer than others, so jobs that leave late
 * are mostly dead.
 *
 * place.due_ms: the last value that was reached, or the last job's time of death. place.id: the last id that was read
 * with that value; -1: all of them were read.
 */

#define DAY_MS        86400000
#define DONE          (-1)
#define FIRST_MS      (INT64_MIN + 1)
#define BAND_OFFERED  (-1)
#define BAND_FAR      0
#define BAND_NEAR     1
#define BAND_FINISHED 2

enum part { BEGINS, NEAR, FAR, LEAVE_LATE, LEAVE_SOON, ARCHIVED, OVER, ARCHIVED_DEAD };

static const enum part next_part[] = {
    [NEAR] = FAR, [FAR] = OVER, [LEAVE_LATE] = LEAVE_SOON, [LEAVE_SOON] = ARCHIVED, [ARCHIVED] = OVER};

/* The bands of each part of the list. A part with only one band has it twice. */
static const int64_t bands_of[][2] = {[NEAR] = {BAND_NEAR, BAND_OFFERED},
                                      [FAR] = {BAND_FAR, BAND_FAR},
                                      [LEAVE_LATE] = {BAND_FINISHED, BAND_FINISHED},
                                      [LEAVE_SOON] = {BAND_FINISHED, BAND_FINISHED}};

/* Returns the first value of the due index (due_key) in this part of the list. */
static int64_t part_begin_ms(const struct page *p, enum part part)
{
    const struct dt_list_filter *f = p->filter;
    switch (part) {
    case NEAR:
        return dt_later(f->due.from_ms, 0);
    case FAR:
        return dt_later(f->due.from_ms, 0) - dt_later(f->due.from_ms, 0) % DAY_MS;
    case LEAVE_LATE:
        return p->place.split_ms;
    case ARCHIVED_DEAD:
        return f->failed.given ? dt_later(f->failed.from_ms, FIRST_MS) : FIRST_MS;
    default:
        return 0;
    }
}

/* Returns the exclusive end of a part of the list, as a due_key. Jobs that are due at the epoch or before it have
 * due_key 1. */
static int64_t part_end_ms(const struct page *p, enum part part)
{
    const struct dt_list_filter *f = p->filter;
    switch (part) {
    case NEAR:
    case FAR:
        return dt_later(f->due.to_ms, 2);
    case LEAVE_SOON:
        return p->place.split_ms;
    default:
        return INT64_MAX;
    }
}

static void begin_list_part(struct page *p, enum part part)
{
    p->place.part = (int)part;
    p->place.due_ms = part_begin_ms(p, part) - 1;
    p->place.id = part == ARCHIVED ? 0 : part == ARCHIVED_DEAD ? INT64_MAX : DONE;
}

/* Ends the window where the first of its bands has had w->rows rows. w->cut: at least one band has more rows. */
static dt_status find_due_window(struct page *p, struct window *w)
{
    const int64_t *bands = bands_of[p->place.part];
    const bool between = p->place.id == DONE;
    const struct dt_param after = DT_P_INT(p->place.due_ms);
    const struct dt_param rows = DT_P_INT(w->rows - 1);
    dt_status status = DT_OK;
    w->cut = false;
    w->range = between ? RANGE_BETWEEN_DUE : RANGE_BEHIND_DUE;
    w->end_due_ms = between ? part_end_ms(p, (enum part)p->place.part) : 0;
    for (int i = 0; status == DT_OK && i < (bands[1] != bands[0] ? 2 : 1); i++) {
        const struct dt_param band = DT_P_INT(bands[i]);
        int64_t end_id = w->end_id;
        bool cut = false;
        /* the search in the second band begins with the end found in the first band, and can only lower it */
        if (between)
            status = dt_db_read_numbers(p->db, dt_sql_find_window_between_due,
                                        DT_PARAMS(band, after, DT_P_INT(w->end_due_ms), rows), &cut, &w->end_due_ms, 1,
                                        p->err);
        else
            status = dt_db_read_numbers(p->db, dt_sql_find_window_behind_due,
                                        DT_PARAMS(band, after, DT_P_INT(p->place.id), rows), &cut, &end_id, 1, p->err);
        w->end_id = end_id < w->end_id ? end_id : w->end_id;
        w->cut |= cut;
    }
    return status;
}

/* Finds a window (range of rows) of the dead jobs in history, up to those that died at failed.to_ms. */
static dt_status find_dead_window(struct page *p, struct window *w)
{
    const struct dt_list_times *failed = &p->filter->failed;
    const int64_t end_ms = failed->given ? failed->to_ms : INT64_MAX;
    const struct dt_walk_place after = {p->place.due_ms, p->place.id};
    struct dt_walk_place end = {end_ms, w->end_id};
    w->range = RANGE_DEAD;
    dt_status status = dt_walk_times(p->db, dt_sql_find_dead_window, after, w->rows, &end, &w->cut, p->err);
    w->cut = w->cut && end.at_ms < end_ms;
    w->end_due_ms = w->cut ? end.at_ms : end_ms;
    w->end_id = w->cut ? end.id : w->end_id;
    return status;
}

/* Finds the next window (range of rows) of a list by time. */
static dt_status find_time_window(struct page *p, struct window *w)
{
    if (p->place.part == BEGINS)
        begin_list_part(p, p->filter->due.given ? NEAR : LEAVE_LATE);
    w->end_id = INT64_MAX;
    if (p->place.part == ARCHIVED_DEAD)
        return find_dead_window(p, w);
    if (p->place.part != ARCHIVED)
        return find_due_window(p, w);
    w->range = RANGE_ARCHIVED;
    return dt_walk_ids(p->db, dt_sql_find_archived_window_by_id, p->place.id, w->rows, &w->end_id, &w->cut, p->err);
}

/* Adds the parameters for the range of a window in a list by time; returns the number of parameters. */
static size_t add_time_params(const struct page *p, const struct window *w, struct dt_param *params)
{
    size_t n = 0;
    if (w->range == RANGE_DEAD) {
        const struct dt_walk_place after = {p->place.due_ms, p->place.id};
        const struct dt_walk_place end = {w->end_due_ms, w->end_id};
        return (size_t)(dt_params_add(params, DT_PARAMS(DT_P_PLACE(after), DT_P_PLACE(end))) - params);
    }
    for (size_t i = 0; i < 2 && w->range != RANGE_ARCHIVED; i++)
        params[n++] = DT_P_INT(bands_of[p->place.part][i]);
    if (w->range != RANGE_ARCHIVED)
        params[n++] = DT_P_INT(p->place.due_ms);
    if (w->range != RANGE_BETWEEN_DUE)
        params[n++] = DT_P_INT(p->place.id);
    params[n++] = DT_P_INT(w->range == RANGE_BETWEEN_DUE ? w->end_due_ms : w->end_id);
    return n;
}

/* Moves the cursor of a list by time to the end of a window that was read completely. Returns false at the end of the
 * list. */
static bool move_past_time_window(struct page *p, const struct window *w)
{
    /* If dead jobs are listed, those in history are read before the few in `jobs` that will soon be archived. */
    static const enum part of_dead[] = {
        [LEAVE_LATE] = ARCHIVED_DEAD, [ARCHIVED_DEAD] = LEAVE_SOON, [LEAVE_SOON] = OVER};
    const bool dead = p->filter->state == DT_DEAD && !p->filter->due.given;
    if (w->range == RANGE_DEAD && w->cut)
        p->place = (struct dt_list_place){p->place.part, p->place.split_ms, w->end_due_ms, w->end_id};
    else if (w->range == RANGE_BETWEEN_DUE && w->cut)
        p->place = (struct dt_list_place){p->place.part, p->place.split_ms, w->end_due_ms, 0};
    else if (w->range != RANGE_BETWEEN_DUE && w->cut)
        p->place.id = w->end_id;
    else if (w->range == RANGE_BEHIND_DUE)
        p->place.id = DONE;
    else
        begin_list_part(p, dead ? of_dead[p->place.part] : next_part[p->place.part]);
    return p->place.part != OVER;
}

/* ---- reading a page ---- */

#define SCAN_ROWS    10000 /* after this many rows were read, a page is returned even if it is not full */
#define WINDOW_FIRST 250
#define WINDOW_GROWS 4
/* Rows with payloads are requested in small groups, of these sizes at first: the server sorts each group as a whole,
 * and rows that do not fit into the page are read in vain. */
#define PART_FIRST 4
#define PART_GROWS 4
#define PART_MAX   64

/* The statements, by the kind of range, with payloads or without, with history or without. */
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

enum dt_list_way dt_list_way(const struct dt_list_filter *f)
{
    if (f->key.p || f->key_prefix.p)
        return DT_LIST_BY_KEY;
    const bool died = f->state == DT_DEAD && f->failed.given;
    return !f->id && (f->due.given || f->finished.given || died) ? DT_LIST_BY_TIME : DT_LIST_BY_ID;
}

/* Returns the range of keys that is left to read. */
static struct dt_walk_keys remaining_keys_of(const struct page *p)
{
    const struct dt_list_filter *f = p->filter;
    return (struct dt_walk_keys){.topic = f->topic,
                                 .first = f->key.p ? f->key : f->key_prefix,
                                 .after = p->after_key,
                                 .end = dt_strbuf_str(&p->key_end)};
}

static bool includes_history(const struct page *p, enum range range)
{
    const struct dt_list_filter *f = p->filter;
    bool finished = f->state < 0 || dt_job_state_terminal((enum dt_job_state)f->state);
    return finished && !f->due.given && (range == RANGE_IDS || range == RANGE_KEYS);
}

/* Finds the end of a window with w->rows rows of each table. */
static dt_status find_id_window(struct page *p, struct window *w)
{
    bool cut_past = false;
    w->range = RANGE_IDS;
    w->end_id = INT64_MAX;
    if (p->filter->id) {
        w->end_id = p->filter->id;
        return DT_OK;
    }
    dt_status status = dt_walk_ids(p->db, dt_sql_find_window_by_id, p->after_id, w->rows, &w->end_id, &w->cut, p->err);
    if (status == DT_OK && includes_history(p, RANGE_IDS))
        status =
            dt_walk_ids(p->db, dt_sql_find_archived_window_by_id, p->after_id, w->rows, &w->end_id, &cut_past, p->err);
    w->cut |= cut_past;
    return status;
}

#define PART_PARAMS (DT_WALK_KEY_PARAMS + 2 + LIST_FILTER_PARAMS + 1)

/* Adds the parameters for one of the two tables: the window's range, the filter, the limit. */
static size_t add_part_params(const struct page *p, const struct window *w, size_t limit, size_t filters,
                              struct dt_param *params)
{
    size_t n = 2;
    if (w->range == RANGE_KEYS) {
        const struct dt_walk_keys keys = remaining_keys_of(p);
        struct dt_param *end = dt_walk_key_params(&keys, params);
        end[0] = DT_P_STR_OR_NULL(w->end_key);
        end[1] = DT_P_STR(keys.end);
        n = DT_WALK_KEY_PARAMS + 2;
    } else if (w->range == RANGE_IDS) {
        params[0] = DT_P_INT(p->after_id);
        params[1] = DT_P_INT(w->end_id);
    } else {
        n = add_time_params(p, w, params);
    }
    memcpy(params + n, p->where, filters * sizeof(*params));
    n += filters;
    params[n++] = DT_P_INT(limit);
    dt_assert_cmp(n, <=, PART_PARAMS);
    return n;
}

/* Returns true if the page is full: a row as large as the largest so far would not fit. */
static bool is_page_full(const struct page *p)
{
    size_t max = p->filter->bytes;
    return p->n == p->filter->limit || (max && p->n > 0 && p->bytes + p->largest > max);
}

/* Adds the current row to the page. *overflow: the row does not fit; the next page reads it again. */
static dt_status read_listed_job(struct page *p, bool *overflow)
{
    struct dt_job *job = &p->jobs[p->n];
    const bool payload = p->filter->payload;
    const size_t max = p->filter->bytes;
    dt_status status = payload ? dt_row_full(p->db, 0, p->arena, job) : dt_row_head(p->db, 0, p->arena, job);
    if (status != DT_OK)
        return dt_fail(p->err, status, "job %lld cannot be read", (long long)job->id);
    if (p->places) { /* the column after those of the job has the value of the due index */
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

/* Reads the next rows of the window. *overflow: the window has more rows than the page has room for. */
static dt_status read_part(struct page *p, const struct window *w, bool *overflow)
{
    struct dt_param params[2 * PART_PARAMS + 1];
    const bool finished = w->range == RANGE_ARCHIVED || w->range == RANGE_DEAD;
    const bool both = includes_history(p, w->range);
    /* Requests one row more than fits into the page if no row is larger than the largest so far. */
    const size_t room = p->filter->limit - p->n;
    size_t rows = p->filter->payload && p->filter->bytes ? p->part : room;
    const size_t fit = p->largest ? (p->filter->bytes - p->bytes) / p->largest : rows;
    if (p->filter->bytes && rows > fit)
        rows = fit > 0 ? fit : 1;
    rows = rows < room ? rows : room;
    const size_t end = p->n + rows;
    dt_assert_cmp(end, <=, p->filter->limit);
    *overflow = false;
    size_t n = add_part_params(p, w, rows + 1, finished ? LIST_ARCHIVED_PARAMS : LIST_FILTER_PARAMS, params);
    if (both) {
        n += add_part_params(p, w, rows + 1, LIST_ARCHIVED_PARAMS, params + n);
        params[n++] = DT_P_INT(rows + 1);
    }
    dt_status status =
        dt_db_query_stream(p->db, rows_sql[w->range][p->filter->payload][both], (struct dt_params){params, n}, p->err);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && !*overflow && dt_db_next(p->db)) {
        *overflow = p->n == end;
        if (!*overflow)
            status = read_listed_job(p, overflow);
    }
    dt_status ended = dt_db_end(p->db, status != DT_OK ? NULL : p->err);
    p->part = PART_GROWS * p->part < PART_MAX ? PART_GROWS * p->part : PART_MAX;
    return status != DT_OK ? status : ended;
}

/* Reads one window. *done: the page is complete. If rows did not fit, the cursor is the last job of this page, so the
 * next page finds them. */
static dt_status read_window(struct page *p, int64_t rows, bool *done)
{
    const enum dt_list_way way = dt_list_way(p->filter);
    struct window w = {.rows = rows};
    bool overflow = true; /* the window has a further job that belongs on the page */
    dt_status status;
    if (way == DT_LIST_BY_KEY) {
        const struct dt_walk_keys keys = remaining_keys_of(p);
        w.range = RANGE_KEYS;
        status = dt_walk_by_key(p->db, &keys, w.rows, p->arena, &w.end_key, p->err);
        w.cut = w.end_key.p != NULL;
    } else {
        status = way == DT_LIST_BY_TIME ? find_time_window(p, &w) : find_id_window(p, &w);
    }
    for (bool again = true; status == DT_OK && again;) {
        status = read_part(p, &w, &overflow);
        if (status == DT_OK && overflow && p->n) {
            const size_t last = p->n - 1;
            p->after_id = p->jobs[last].id;
            p->after_key = p->jobs[last].key;
            p->place = p->places ? p->places[last] : p->place;
        }
        again = overflow && !is_page_full(p) && w.range != RANGE_BETWEEN_DUE;
    }
    if (status != DT_OK)
        return status;
    /* A window of the remaining rows with one due_key may have no rows. So it counts towards SCAN_ROWS only if it was
     * full. */
    if (!overflow && (w.range != RANGE_BEHIND_DUE || w.cut))
        p->looked_at += w.rows;
    p->more = overflow || (way == DT_LIST_BY_TIME ? move_past_time_window(p, &w) : w.cut);
    if (!overflow && w.cut && way != DT_LIST_BY_TIME) {
        p->after_id = w.end_id;
        p->after_key = w.end_key;
    }
    *done = !p->more || p->looked_at >= SCAN_ROWS || is_page_full(p);
    return DT_OK;
}

static dt_status read_list(struct page *p)
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
    dt_status status = set_filter(p);
    int64_t window = f->limit > WINDOW_FIRST ? f->limit : WINDOW_FIRST;
    for (bool done = false; status == DT_OK && !done;) {
        status = read_window(p, window, &done);
        window *= WINDOW_GROWS;
        if (window > SCAN_ROWS - p->looked_at)
            window = SCAN_ROWS - p->looked_at;
    }
    return status;
}

dt_status dt_store_list(dt_store *store, const struct dt_list_filter *filter, struct dt_arena *arena,
                        struct dt_job_list *out, struct dt_error *err)
{
    struct page p = {.filter = filter, .arena = arena, .err = err};
    dt_status status = DT_OK;
    *out = (struct dt_job_list){0};
    if (dt_list_way(filter) == DT_LIST_BY_KEY && !filter->topic.p)
        return dt_fail(err, DT_INVALID, "a filter by key needs a topic");
    for (int tries = 0; tries < 2; tries++) { /* no lock is held, so after a broken connection the page is read once
                                               * more */
        status = dt_store_db(store, &p.db, err);
        if (status != DT_OK)
            break;
        status = read_list(&p);
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

/* The exclusive end of a range of keys, as hexadecimal digits. */

static void add_hex(struct dt_strbuf *out, unsigned char byte, unsigned times)
{
    while (times-- > 0)
        dt_strbuf_addf(out, "%02X", byte);
}

/* Examples: "ab" -> "ac", "a\xff" -> "b". If there is no such text, appends a text that is higher than any key. */
void dt_key_range_add_end(struct dt_strbuf *out, struct dt_str prefix)
{
    size_t n = prefix.n;
    while (n > 0 && (unsigned char)prefix.p[n - 1] == 0xFF)
        n--;
    for (size_t i = 0; i + 1 < n; i++)
        add_hex(out, (unsigned char)prefix.p[i], 1);
    if (n > 0)
        add_hex(out, (unsigned char)(prefix.p[n - 1] + 1), 1);
    else
        add_hex(out, 0xFF, DT_KEY_MAX + 1);
}
