/*
 * Housekeeping in bounded steps: what comes near is indexed exactly, what was finished by hand is tidied, what has been
 * kept long enough is deleted. Each step is one short transaction over at most `limit` rows and can be repeated or cut
 * off at any point.
 */
#include <stdlib.h>

#include "store/db.h"
#include "store/id_list.h"
#include "store/store_dispatch.h"

/* Whoever made a job and lost the answer of its COMMIT reads it back by id: so long it stays, whatever its retention.
 */
#define YOUNG_MS 30000
/* A subquery, not a join: a join would lock the topic's row. */
#define RETENTION "COALESCE((SELECT p.retention_ms FROM topics p WHERE p.name = j.topic), 2592000000)"

/* Runs a query for ids; the ids as a JSON list, and their number. */
static dt_status select_ids(dt_db *db, const char *sql, const struct dt_param *params, size_t n_params,
                            struct dt_strbuf *ids, size_t *n, struct dt_error *err)
{
    dt_status status = dt_db_query(db, sql, params, n_params, err);
    if (status != DT_OK)
        return status;
    for (*n = 0; dt_db_next(db); (*n)++)
        dt_id_list_add(ids, dt_db_i64(db, 0));
    dt_id_list_end(ids);
    status = dt_db_end(db, err);
    return status == DT_OK && ids->failed ? DT_NOMEM : status;
}

dt_status dt_store_promote(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_strbuf ids;
    int64_t end_ms = dt_near_end_ms(now_ms);
    uint64_t changed = 0;
    dt_strbuf_init(&ids);
    *done = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = select_ids(
            db, "SELECT id FROM jobs FORCE INDEX (due) WHERE due_band = 0 AND due_key < ? ORDER BY due_key, id LIMIT ?",
            DT_PARAMS(DT_P_INT(end_ms), DT_P_INT(limit)), &ids, done, err);
    if (status == DT_OK && *done)
        status = dt_db_run(db,
                           "UPDATE JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t STRAIGHT_JOIN jobs j FORCE "
                           "INDEX (PRIMARY) ON j.id = t.id"
                           " SET j.near = 1 WHERE j.near = 0 AND j.next_at < ?",
                           DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids)), DT_P_INT(end_ms)), &changed, err);
    dt_strbuf_clear(&ids);
    return status;
}

static dt_status tidy_list(dt_db *db, struct dt_str ids, uint64_t *changed, struct dt_error *err)
{
    return dt_db_run(
        db,
        "UPDATE JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id "
        "= t.id"
        " SET j.purge_at = " DT_SQL_NOW_MS " + " RETENTION
        ", j.finished_at = COALESCE(NULLIF(j.finished_at, 0), " DT_SQL_NOW_MS "),"
        " j.next_at = NULL"
        " WHERE j.state IN ('succeeded','dead','cancelled') AND (j.next_at IS NOT NULL OR j.purge_at IS NULL)",
        DT_PARAMS(DT_P_STR(ids)), changed, err);
}

dt_status dt_store_tidy(dt_store *store, const int64_t *ids, size_t n, size_t *done, struct dt_error *err)
{
    dt_db *db;
    uint64_t changed = 0;
    struct dt_strbuf list;
    *done = 0;
    if (n == 0)
        return DT_OK;
    dt_strbuf_init(&list);
    for (size_t i = 0; i < n; i++)
        dt_id_list_add(&list, ids[i]);
    dt_id_list_end(&list);
    dt_status status = list.failed ? DT_NOMEM : dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = tidy_list(db, dt_strbuf_str(&list), &changed, err);
    *done = (size_t)changed;
    dt_strbuf_clear(&list);
    return status;
}

/* Rows that were finished by hand with next_at set to NULL as well: nobody said when they may go. */
static dt_status tidy_unpurgeable(dt_db *db, size_t limit, struct dt_error *err)
{
    size_t n = 0;
    struct dt_strbuf ids;
    dt_strbuf_init(&ids);
    dt_status status =
        select_ids(db, "SELECT id FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key IS NULL LIMIT ?",
                   DT_PARAMS(DT_P_INT(limit)), &ids, &n, err);
    if (status == DT_OK && n)
        status = tidy_list(db, dt_strbuf_str(&ids), NULL, err);
    dt_strbuf_clear(&ids);
    return status;
}

/* ---- purge ---- */

struct removal {
    int64_t id;
    struct dt_str topic;
    bool keyed, retried;
};

struct purge {
    dt_db *db;
    struct dt_error *err;
    struct dt_arena arena;
    struct removal *v;
    size_t n;
    struct dt_strbuf ids;
};

/* Locks those that are still finished and due to go; ids that are absent afterwards are left alone. */
static dt_status lock_removals(struct purge *p, struct dt_str candidates, size_t n, int64_t now_ms)
{
    p->v = dt_arena_alloc(&p->arena, n * sizeof *p->v);
    if (!p->v)
        return DT_NOMEM;
    dt_status status =
        dt_db_query(p->db,
                    "SELECT j.id, j.topic, j.job_key IS NOT NULL, j.attempt > 1"
                    " FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t STRAIGHT_JOIN jobs j "
                    "FORCE INDEX (PRIMARY) ON j.id = t.id"
                    " WHERE j.next_at IS NULL AND j.purge_at <= ? AND j.created_at <= ?"
                    " AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.job_id = j.id)"
                    " ORDER BY t.id FOR UPDATE /*!80001 OF j */ SKIP LOCKED",
                    DT_PARAMS(DT_P_STR(candidates), DT_P_INT(now_ms), DT_P_INT(now_ms - YOUNG_MS)), p->err);
    while (status == DT_OK && p->n < n && dt_db_next(p->db)) {
        struct removal r = {dt_db_i64(p->db, 0), dt_arena_copy(&p->arena, dt_db_bytes(p->db, 1)),
                            dt_db_i64(p->db, 2) != 0, dt_db_i64(p->db, 3) != 0};
        p->v[p->n++] = r;
        status = r.topic.p ? DT_OK : DT_NOMEM;
    }
    dt_status end = dt_db_end(p->db, status == DT_OK ? p->err : NULL);
    return status == DT_OK ? end : status;
}

static int compare_ids(const void *a, const void *b)
{
    const struct dt_claim *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static dt_status drop_in_flight(struct purge *p, struct dt_claims *list)
{
    dt_status status = dt_claims_parse(dt_db_bytes(p->db, 0), list);
    if (status != DT_OK || list->n == 0)
        return status;
    qsort(list->v, list->n, sizeof *list->v, compare_ids);
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct dt_claim key = {.id = p->v[i].id};
        if (!bsearch(&key, list->v, list->n, sizeof *list->v, compare_ids))
            p->v[kept++] = p->v[i];
    }
    p->n = kept;
    return DT_OK;
}

/* A job that was finished while its attempt is still in flight is needed for sending: it stays until that is settled.
 * Read after the rows were locked, as committed now. */
static dt_status spare_in_flight(struct purge *p)
{
    struct dt_claims list = {0};
    dt_status status =
        dt_db_query(p->db, "SELECT inflight FROM shards WHERE LENGTH(inflight) > 2", DT_NO_PARAMS, p->err);
    while (status == DT_OK && dt_db_next(p->db))
        status = drop_in_flight(p, &list);
    dt_status end = dt_db_end(p->db, status == DT_OK ? p->err : NULL);
    dt_claims_clear(&list);
    return status == DT_OK ? end : status;
}

static int by_topic(const void *a, const void *b)
{
    const struct removal *x = a, *y = b;
    int order = memcmp(x->topic.p, y->topic.p, x->topic.n < y->topic.n ? x->topic.n : y->topic.n);
    return order ? order : (x->topic.n > y->topic.n) - (x->topic.n < y->topic.n);
}

static dt_status count_removals(struct purge *p)
{
    qsort(p->v, p->n, sizeof *p->v, by_topic);
    struct dt_param *params = dt_arena_alloc(&p->arena, 2 * p->n * sizeof *params);
    size_t rows = 0;
    if (!params)
        return DT_NOMEM;
    for (size_t i = 0; i < p->n; i++) {
        if (rows && dt_str_eq(params[2 * (rows - 1)].s, p->v[i].topic)) {
            params[2 * (rows - 1) + 1].i++;
            continue;
        }
        params[2 * rows] = DT_P_STR(p->v[i].topic);
        params[2 * rows + 1] = DT_P_INT(1);
        rows++;
    }
    return dt_db_run_many(p->db,
                          "INSERT INTO removed_jobs (topic, removed) VALUES (?, ?)"
                          " ON DUPLICATE KEY UPDATE removed = removed + VALUES(removed)",
                          params, 2, rows, NULL, p->err);
}

static dt_status delete_rows(struct purge *p)
{
    bool keyed = false, retried = false;
    for (size_t i = 0; i < p->n; i++) {
        dt_id_list_add(&p->ids, p->v[i].id);
        keyed |= p->v[i].keyed;
        retried |= p->v[i].retried;
    }
    dt_id_list_end(&p->ids);
    if (p->ids.failed)
        return DT_NOMEM;
    struct dt_param ids = DT_P_STR(dt_strbuf_str(&p->ids));
    dt_status status = DT_OK;
    if (retried)
        status = dt_db_run(p->db,
                           "DELETE a FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t"
                           " STRAIGHT_JOIN attempts a FORCE INDEX (PRIMARY) ON a.job_id = t.id",
                           &ids, 1, NULL, p->err);
    if (status == DT_OK && keyed)
        status = dt_db_run(p->db,
                           "DELETE k FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t"
                           " STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id"
                           " STRAIGHT_JOIN job_keys k FORCE INDEX (PRIMARY) ON k.topic = j.topic AND k.job_key = "
                           "j.job_key AND k.job_id = j.id",
                           &ids, 1, NULL, p->err);
    if (status == DT_OK)
        status = dt_db_run(p->db,
                           "DELETE j FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t STRAIGHT_JOIN jobs j "
                           "FORCE INDEX (PRIMARY) ON j.id = t.id",
                           &ids, 1, NULL, p->err);
    return status;
}

static dt_status remove_batch(struct purge *p, struct dt_str candidates, size_t n, int64_t now_ms)
{
    dt_status status = dt_db_begin(p->db, p->err);
    if (status != DT_OK)
        return status;
    status = lock_removals(p, candidates, n, now_ms);
    if (status == DT_OK && p->n)
        status = spare_in_flight(p);
    if (status == DT_OK && p->n)
        status = delete_rows(p);
    if (status == DT_OK && p->n)
        status = count_removals(p);
    if (status == DT_OK && p->n)
        return dt_db_commit(p->db, p->err);
    dt_db_rollback(p->db);
    return status;
}

dt_status dt_store_purge(dt_store *store, int64_t now_ms, size_t limit, size_t *done, struct dt_error *err)
{
    struct purge p = {.err = err};
    struct dt_strbuf candidates;
    size_t n = 0;
    *done = 0;
    dt_arena_init(&p.arena);
    dt_strbuf_init(&p.ids);
    dt_strbuf_init(&candidates);
    dt_status status = dt_store_db(store, &p.db, err);
    if (status == DT_OK)
        status = tidy_unpurgeable(p.db, limit, err);
    if (status == DT_OK)
        status = select_ids(p.db,
                            "SELECT id FROM jobs FORCE INDEX (due) WHERE due_band = 2 AND due_key <= ?"
                            " ORDER BY due_key, id LIMIT ?",
                            DT_PARAMS(DT_P_INT(now_ms), DT_P_INT(limit)), &candidates, &n, err);
    if (status == DT_OK && n)
        status = remove_batch(&p, dt_strbuf_str(&candidates), n, now_ms);
    if (status == DT_OK)
        *done = p.n;
    dt_strbuf_clear(&candidates);
    dt_strbuf_clear(&p.ids);
    dt_arena_clear(&p.arena);
    return status;
}

/* ---- what leaders say about their shards ---- */

dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n, struct dt_error *err)
{
    dt_db *db;
    enum { COLUMNS = 10 };
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK || n == 0)
        return status;
    struct dt_param *params = calloc(n * COLUMNS, sizeof *params);
    if (!params)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_shard_stats *s = &stats[i];
        struct dt_param *p = &params[i * COLUMNS];
        p[0] = DT_P_INT(s->shard);
        p[1] = DT_P_INT(s->epoch);
        p[2] = DT_P_STR_OR_NULL(dt_str(s->waiting));
        p[3] = DT_P_STR_OR_NULL(dt_str(s->detail));
        p[4] = DT_P_INT(s->overdue);
        p[5] = DT_P_INT_OR_NULL(s->oldest_due_at_ms);
        p[6] = DT_P_INT(s->drift_missing);
        p[7] = DT_P_INT(s->drift_extra);
        p[8] = DT_P_INT(s->drift_wrong);
        p[9] = DT_P_INT(s->generation);
    }
    status = dt_db_run_many(
        db,
        "INSERT INTO shard_stats (seen_at, shard, epoch, waiting, detail, overdue, oldest_due_at, drift_missing,"
        " drift_extra, drift_wrong, generation)"
        " VALUES (" DT_SQL_NOW_MS ", ?, ?, ?, LEFT(?, 500), ?, ?, ?, ?, ?, ?)"
        " ON DUPLICATE KEY UPDATE seen_at = VALUES(seen_at), epoch = VALUES(epoch), waiting = VALUES(waiting),"
        " detail = VALUES(detail), overdue = VALUES(overdue), oldest_due_at = VALUES(oldest_due_at),"
        " drift_missing = VALUES(drift_missing), drift_extra = VALUES(drift_extra),"
        " drift_wrong = VALUES(drift_wrong), generation = VALUES(generation)",
        params, COLUMNS, n, NULL, err);
    free(params);
    return status;
}
