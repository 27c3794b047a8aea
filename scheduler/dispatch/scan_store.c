/* Bounded, ordered reads of the due index: see scan.h. */
#include "base/assert.h"
#include "base/http/callback_rules.h"
#include "job/job.h"
#include "scan.h"

#include "mysql/db.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* A callback that gets the rows of a scan one by one, and returns false to end the scan. */
struct visitor {
    bool (*visit)(void *arg, int64_t id, int64_t due_ms);
    void *arg;
    size_t seen;
    bool enough;
};

static dt_status visit_rows(dt_db *db, struct visitor *v, struct dt_error *err)
{
    while (!v->enough && dt_db_next(db)) {
        v->enough = !v->visit(v->arg, dt_db_i64(db, 0), dt_db_i64(db, 1));
        v->seen++;
    }
    return dt_db_end(db, err);
}

/* Reads the rows that are due in the cursor's millisecond in one statement, and later rows in another. */
static dt_status scan_near_rows(dt_store *store, const struct dt_due_window *w, struct visitor *v, struct dt_error *err)
{
    dt_db *db;
    const bool within = w->after_id && w->after_ms >= w->from_ms;
    int64_t from_ms = w->from_ms;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK && within && w->after_ms < w->to_ms) {
        status = dt_db_query_index(db, dt_sql_select_due_behind,
                                   DT_PARAMS(DT_P_INT(w->after_ms), DT_P_INT(w->after_id), DT_P_INT(w->limit)), err);
        DT_THEN(status, visit_rows(db, v, err));
    }
    if (within)
        from_ms = w->after_ms + 1;
    else if (w->after_ms > from_ms)
        from_ms = w->after_ms;
    if (status != DT_OK || v->enough || v->seen == w->limit || from_ms >= w->to_ms)
        return status;
    status = dt_db_query_index(db, dt_sql_select_due_between,
                               DT_PARAMS(DT_P_INT(from_ms), DT_P_INT(w->to_ms), DT_P_INT(w->limit - v->seen)), err);
    return status == DT_OK ? visit_rows(db, v, err) : status;
}

struct page {
    struct dt_due *out;
    size_t *n;
};

static bool add_to_page(void *arg, int64_t id, int64_t due_ms)
{
    struct page *page = arg;
    page->out[(*page->n)++] = (struct dt_due){id, due_ms};
    return true;
}

dt_status dt_store_scan_due(dt_store *store, const struct dt_due_window *window, struct dt_due *out, size_t *n,
                            struct dt_error *err)
{
    struct page page = {out, n};
    struct visitor visitor = {.visit = add_to_page, .arg = &page};
    *n = 0;
    return scan_near_rows(store, window, &visitor, err);
}

dt_status dt_store_visit_late(dt_store *store, int64_t to_ms, size_t limit,
                              void (*visit)(void *arg, const struct dt_late *late), void *arg, struct dt_error *err)
{
    dt_db *db;
    int64_t found = 0;
    struct dt_late last = {0};
    size_t n = limit;
    size_t n_free = 0; /* number of rows that are not held */
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, dt_db_read_number(db, dt_sql_is_anything_late, DT_PARAMS(DT_P_INT(to_ms)), NULL, &found, err));
    const bool paused = found > 1;
    for (int i = 0; found && i < DT_LATE_SLICES && status == DT_OK && n == limit && n_free < limit; i++) {
        status = paused ? dt_db_query_index(db, dt_sql_select_late_slice,
                                            DT_PARAMS(DT_P_INT(last.next_ms), DT_P_INT(last.id), DT_P_INT(last.next_ms),
                                                      DT_P_INT(to_ms), DT_P_INT(limit)),
                                            err)
                        : dt_db_query_index(db, dt_sql_select_due_between,
                                            DT_PARAMS(DT_P_INT(0), DT_P_INT(to_ms), DT_P_INT(limit)), err);
        if (status != DT_OK)
            return status;
        for (n = 0; dt_db_next(db); n++) {
            struct dt_late late = {dt_db_i64(db, 0), dt_db_i64(db, 1), paused && dt_db_i64(db, 2)};
            n_free += !late.held;
            if (late.next_ms > last.next_ms || (late.next_ms == last.next_ms && late.id > last.id))
                last = late;
            visit(arg, &late);
        }
        status = dt_db_end(db, err);
    }
    return status;
}

dt_status dt_store_ask_due(dt_store *store, int64_t from_ms, int64_t to_ms, size_t limit, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status != DT_OK ? status
                           : dt_db_ask_index(db, dt_sql_select_due_between,
                                             DT_PARAMS(DT_P_INT(from_ms), DT_P_INT(to_ms), DT_P_INT(limit)), err);
}

dt_status dt_store_take_due(dt_store *store, size_t page, bool last, struct dt_due *out, size_t *n,
                            struct dt_error *err)
{
    dt_db *db = dt_store_asked(store);
    *n = 0;
    if (!db)
        return dt_fail(err, DT_UNAVAILABLE, "no answer is outstanding");
    for (; *n < page && dt_db_next(db); ++*n)
        out[*n] = (struct dt_due){dt_db_i64(db, 0), dt_db_i64(db, 1)};
    return *n < page || last ? dt_db_end(db, err) : DT_OK;
}

static bool add_if_of_shard(void *arg, int64_t id, int64_t due_ms)
{
    struct dt_shard_scan *s = arg;
    dt_assert_cmp(s->n, <, s->limit);
    s->after_id = id;
    s->after_ms = due_ms;
    if (dt_shard_of(s->map, id) == s->shard)
        s->out[s->n++] = (struct dt_due){id, due_ms};
    return s->n < s->limit;
}

/* Reads up to s->scan rows from the cursor on, and collects rows of the shard until there are s->limit of these.
 * *looked: number of rows that were read. */
static dt_status scan_shard(dt_store *store, struct dt_shard_scan *s, int64_t from_ms, int64_t to_ms, size_t *looked,
                            struct dt_error *err)
{
    struct visitor visitor = {.visit = add_if_of_shard, .arg = s};
    const struct dt_due_window window = {.from_ms = from_ms,
                                         .to_ms = to_ms < INT64_MAX ? to_ms + 1 : to_ms,
                                         .after_ms = s->after_ms,
                                         .after_id = s->after_id,
                                         .limit = s->scan};
    s->n = 0;
    dt_status status = scan_near_rows(store, &window, &visitor, err);
    *looked = visitor.seen;
    return status;
}

dt_status dt_store_scan_shard(dt_store *store, struct dt_shard_scan *scan, struct dt_error *err)
{
    size_t looked;
    dt_status status = scan_shard(store, scan, scan->after_ms, scan->now_ms, &looked, err);
    scan->end = looked < scan->scan && scan->n < scan->limit;
    return status;
}

/* Limit of the first read. Small, because usually one of the first rows is of the shard, and MySQL reads and sends as
 * many rows as are requested. */
#define FEW ((size_t)32)

dt_status dt_store_next_due(dt_store *store, const struct dt_shard_scan *scan, int64_t *next_ms, struct dt_error *err)
{
    *next_ms = 0;
    for (size_t some = FEW;; some *= FEW) {
        struct dt_due first = {0, 0};
        size_t looked;
        struct dt_shard_scan s = {.map = scan->map,
                                  .shard = scan->shard,
                                  .scan = some < scan->scan ? some : scan->scan,
                                  .limit = 1,
                                  .out = &first};
        dt_status status = scan_shard(store, &s, scan->now_ms + 1, INT64_MAX, &looked, err);
        if (status != DT_OK || s.n || looked < s.scan || s.scan == scan->scan) {
            *next_ms = status == DT_OK && s.n ? first.next_ms : 0;
            return status;
        }
    }
}

dt_status dt_store_due_nth(dt_store *store, int64_t from_ms, int64_t to_ms, size_t n, int64_t *due_ms,
                           struct dt_error *err)
{
    dt_db *db;
    *due_ms = to_ms;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, dt_db_query_index(db, dt_sql_select_nth_due,
                                      DT_PARAMS(DT_P_INT(from_ms), DT_P_INT(to_ms), DT_P_INT(n)), err));
    if (status != DT_OK)
        return status;
    if (dt_db_next(db))
        *due_ms = dt_db_i64(db, 0);
    return dt_db_end(db, err);
}

dt_status dt_store_count_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t *counts, struct dt_error *err)
{
    dt_db *db;
    memset(counts, 0, DT_SLOTS * sizeof(*counts));
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status,
            dt_db_query_index(db, dt_sql_count_due_by_slot, DT_PARAMS(DT_P_INT(from_ms), DT_P_INT(to_ms)), err));
    if (status != DT_OK)
        return status;
    while (dt_db_next(db))
        counts[dt_db_i64(db, 0) & (DT_SLOTS - 1)] = dt_db_i64(db, 1);
    return dt_db_end(db, err);
}

dt_status dt_store_truth(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena, struct dt_truths *out,
                         struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf list = {0};
    *out = (struct dt_truths){.v = dt_arena_alloc(arena, (n ? n : 1) * sizeof(*out->v))};
    for (size_t i = 0; i < n; i++)
        dt_id_list_add(&list, ids[i]);
    dt_id_list_end(&list);
    dt_status status =
        out->v ? dt_store_query(store, &db, dt_sql_select_truth, DT_PARAMS(DT_P_BUF(&list)), err) : DT_NOMEM;
    dt_strbuf_clear(&list);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && out->n < n && dt_db_next(db)) {
        struct dt_truth *truth = &out->v[out->n++];
        *truth = (struct dt_truth){.id = dt_db_i64(db, 0),
                                   .next_ms = dt_db_i64(db, 1),
                                   .state = (enum dt_job_state)(dt_db_i64(db, 2) - 1),
                                   .topic = dt_arena_copy(arena, dt_db_bytes(db, 3)),
                                   .topic_paused = dt_db_i64(db, 4) != 0,
                                   .updated_at_ms = dt_db_i64(db, 5),
                                   .generation = dt_db_i64(db, 6),
                                   .host = dt_callback_host_of(dt_db_bytes(db, 7))};
        status = truth->topic.p ? DT_OK : DT_NOMEM;
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return status == DT_OK ? end : status;
}

struct topics_of {
    dt_db *db;
    struct dt_arena *arena;
    const int64_t *ids;
    size_t n;
    struct dt_topic_of *out;
    struct dt_str last;
};

/* Consecutive jobs of a topic share a copy of its name. */
static dt_status read_topic_of_job(void *arg)
{
    struct topics_of *t = arg;
    int64_t id = dt_db_i64(t->db, 0);
    struct dt_str topic = dt_db_bytes(t->db, 2);
    const int64_t *at = bsearch(&id, t->ids, t->n, sizeof(*t->ids), dt_by_job_id);
    if (!at)
        return DT_OK;
    if (!t->last.p || !dt_str_eq(t->last, topic))
        t->last = dt_arena_copy(t->arena, topic);
    bool dispatched = (enum dt_job_state)(dt_db_i64(t->db, 1) - 1) == DT_DISPATCHED;
    t->out[at - t->ids] = (struct dt_topic_of){t->last, dispatched, dt_callback_host_of(dt_db_bytes(t->db, 3))};
    return t->last.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_topics_of(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                             struct dt_topic_of *out, struct dt_error *err)
{
    struct topics_of t = {.arena = arena, .ids = ids, .n = n, .out = out};
    memset(out, 0, n * sizeof(*out));
    dt_status status = dt_store_db(store, &t.db, err);
    return status != DT_OK ? status
                           : dt_id_in_read(t.db, &dt_sql_select_queues_of_jobs, DT_NO_PARAMS, DT_IDS(ids, n),
                                           read_topic_of_job, &t, err);
}
