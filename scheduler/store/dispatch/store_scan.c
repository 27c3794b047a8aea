/*
 * Bounded, ordered readings of the due index for reconciler and degraded leaders. They lock nothing and cover the
 * index: cost depends on the window, never on the table. What they find are hints; a claim decides.
 */
#include "store/dispatch/scan.h"

#include <stdlib.h>

#include "store/db/db.h"
#include "store/db/id_in.h"
#include "store/db/id_list.h"
#include "store/sql/statements.h"

/* Up to limit rows; answers false when it wants no more. */
typedef bool visit_due(void *arg, int64_t id, int64_t due_ms);

static dt_status visit_rows(dt_db *db, visit_due *visit, void *arg, size_t *seen, bool *enough, struct dt_error *err)
{
    while (!*enough && dt_db_next(db)) {
        *enough = !visit(arg, dt_db_i64(db, 0), dt_db_i64(db, 1));
        ++*seen;
    }
    return dt_db_end(db, err);
}

/* Near rows of [from_ms, to_ms), but of after_ms only those behind after_id (0 = all of it): what is left of that
 * millisecond in one statement, and what is later in another. */
static dt_status scan_near(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t after_ms, int64_t after_id,
                           size_t limit, visit_due *visit, void *arg, struct dt_error *err)
{
    dt_db *db;
    size_t seen = 0;
    bool enough = false, within = after_id && after_ms >= from_ms;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK && within && after_ms < to_ms) {
        status = dt_db_query_index(db, dt_sql_select_due_behind,
                                   DT_PARAMS(DT_P_INT(after_ms), DT_P_INT(after_id), DT_P_INT(limit)), err);
        if (status == DT_OK)
            status = visit_rows(db, visit, arg, &seen, &enough, err);
    }
    if (within)
        from_ms = after_ms + 1;
    else if (after_ms > from_ms)
        from_ms = after_ms;
    if (status != DT_OK || enough || seen == limit || from_ms >= to_ms)
        return status;
    status = dt_db_query_index(db, dt_sql_select_due_between,
                               DT_PARAMS(DT_P_INT(from_ms), DT_P_INT(to_ms), DT_P_INT(limit - seen)), err);
    return status == DT_OK ? visit_rows(db, visit, arg, &seen, &enough, err) : status;
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

dt_status dt_store_scan_due(dt_store *store, int64_t from_ms, int64_t to_ms, int64_t after_ms, int64_t after_id,
                            size_t limit, struct dt_due *out, size_t *n, struct dt_error *err)
{
    struct page page = {out, n};
    *n = 0;
    return scan_near(store, from_ms, to_ms, after_ms, after_id, limit, add_to_page, &page, err);
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
        return dt_fail(err, DT_UNAVAILABLE, "no answer is owed");
    for (; *n < page && dt_db_next(db); ++*n)
        out[*n] = (struct dt_due){dt_db_i64(db, 0), dt_db_i64(db, 1)};
    return *n < page || last ? dt_db_end(db, err) : DT_OK;
}

/* Looks at up to `scan` rows from (last_ms, last_id) on, and takes those of the shard until it has enough. */
struct shard_scan {
    const struct dt_shard_map *map;
    unsigned shard;
    int64_t last_ms, last_id;
    size_t looked, limit, n;
    struct dt_due *out;
};

static bool take_if_ours(void *arg, int64_t id, int64_t due_ms)
{
    struct shard_scan *s = arg;
    s->looked++;
    s->last_id = id;
    s->last_ms = due_ms;
    if (dt_shard_of(s->map, id) == s->shard)
        s->out[s->n++] = (struct dt_due){id, due_ms};
    return s->n < s->limit;
}

static dt_status scan_shard(dt_store *store, struct shard_scan *s, int64_t from_ms, int64_t to_ms, size_t scan,
                            struct dt_error *err)
{
    return scan_near(store, from_ms, to_ms < INT64_MAX ? to_ms + 1 : to_ms, s->last_ms, s->last_id, scan, take_if_ours,
                     s, err);
}

dt_status dt_store_scan_shard(dt_store *store, const struct dt_shard_map *map, unsigned shard, int64_t now_ms,
                              int64_t after_ms, int64_t after_id, size_t scan, size_t limit, struct dt_due *out,
                              size_t *n, bool *end, int64_t *last_ms, int64_t *last_id, struct dt_error *err)
{
    struct shard_scan s = {
        .map = map, .shard = shard, .last_ms = after_ms, .last_id = after_id, .limit = limit, .out = out};
    dt_status status = scan_shard(store, &s, after_ms, now_ms, scan, err);
    *n = s.n;
    *end = s.looked < scan && s.n < limit;
    *last_ms = s.last_ms;
    *last_id = s.last_id;
    return status;
}

/* Of a few rows one is the shard's as a rule; MySQL reads, and sends, all that are asked for. */
#define FEW ((size_t)32)

dt_status dt_store_next_due(dt_store *store, const struct dt_shard_map *map, unsigned shard, int64_t now_ms,
                            size_t scan, int64_t *next_ms, struct dt_error *err)
{
    size_t some = FEW;
    dt_status status;

    *next_ms = 0;
    for (;; some *= FEW) {
        struct dt_due first = {0, 0};
        struct shard_scan s = {.map = map, .shard = shard, .limit = 1, .out = &first};

        if (some > scan)
            some = scan;
        status = scan_shard(store, &s, now_ms + 1, INT64_MAX, some, err);
        if (status != DT_OK || s.n || s.looked < some || some == scan) {
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
    if (status == DT_OK)
        status = dt_db_query_index(db, dt_sql_select_nth_due,
                                   DT_PARAMS(DT_P_INT(from_ms), DT_P_INT(to_ms), DT_P_INT(n)), err);
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
    if (status == DT_OK)
        status = dt_db_query_index(db, dt_sql_count_due_by_slot, DT_PARAMS(DT_P_INT(from_ms), DT_P_INT(to_ms)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db))
        counts[dt_db_i64(db, 0) & (DT_SLOTS - 1)] = dt_db_i64(db, 1);
    return dt_db_end(db, err);
}

static dt_status read_truth(dt_db *db, struct dt_arena *arena, struct dt_truth *out)
{
    *out = (struct dt_truth){.id = dt_db_i64(db, 0),
                             .next_ms = dt_db_i64(db, 1),
                             .state = (enum dt_job_state)(dt_db_i64(db, 2) - 1),
                             .topic = dt_arena_copy(arena, dt_db_bytes(db, 3)),
                             .topic_paused = dt_db_i64(db, 4) != 0,
                             .updated_at_ms = dt_db_i64(db, 5),
                             .generation = dt_db_i64(db, 6)};
    return out->topic.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_truth(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena, struct dt_truth **out,
                         size_t *n_out, struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf list;
    dt_strbuf_init(&list);
    *n_out = 0;
    *out = dt_arena_alloc(arena, (n ? n : 1) * sizeof(**out));
    for (size_t i = 0; i < n; i++)
        dt_id_list_add(&list, ids[i]);
    dt_id_list_end(&list);
    dt_status status = *out && !list.failed ? DT_OK : DT_NOMEM;
    if (status == DT_OK)
        status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_select_truth, DT_PARAMS(DT_P_STR(dt_strbuf_str(&list))), err);
    dt_strbuf_clear(&list);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && *n_out < n && dt_db_next(db))
        status = read_truth(db, arena, &(*out)[(*n_out)++]);
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return status == DT_OK ? end : status;
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

struct topics_of {
    dt_db *db;
    struct dt_arena *arena;
    const int64_t *ids;
    size_t n;
    struct dt_topic_of *out;
    struct dt_str last;
};

/* Many of one topic come one after the other: they share one copy of its name. */
static dt_status read_topic(void *arg)
{
    struct topics_of *t = arg;
    int64_t id = dt_db_i64(t->db, 0);
    struct dt_str topic = dt_db_bytes(t->db, 2);
    const int64_t *at = bsearch(&id, t->ids, t->n, sizeof(*t->ids), by_number);
    if (!at)
        return DT_OK;
    if (!t->last.p || !dt_str_eq(t->last, topic))
        t->last = dt_arena_copy(t->arena, topic);
    bool dispatched = (enum dt_job_state)(dt_db_i64(t->db, 1) - 1) == DT_DISPATCHED;
    t->out[at - t->ids] = (struct dt_topic_of){t->last, dispatched};
    return t->last.p ? DT_OK : DT_NOMEM;
}

dt_status dt_store_topics_of(dt_store *store, const int64_t *ids, size_t n, struct dt_arena *arena,
                             struct dt_topic_of *out, struct dt_error *err)
{
    struct topics_of t = {.arena = arena, .ids = ids, .n = n, .out = out};
    memset(out, 0, n * sizeof(*out));
    dt_status status = dt_store_db(store, &t.db, err);
    return status != DT_OK
               ? status
               : dt_id_in_read(t.db, &dt_sql_select_queues_of_jobs, DT_NO_PARAMS, ids, n, read_topic, &t, err);
}
