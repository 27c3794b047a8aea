/*
 * The attempts of one job, in pages: those that a later attempt followed, and the row's own, wherever the job is.
 */
#include "base/assert.h"
#include "job/archive/archive_search.h"
#include "jobs.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "store_row.h"

/* A page of attempts being filled. */
struct attempt_page {
    struct dt_arena *arena;
    int64_t after;
    size_t limit, n;
    struct dt_attempt *list; /* limit of them */
    bool more;
    struct dt_error *err;
};

static bool copy_attempt(const dt_db *db, struct dt_arena *arena, struct dt_attempt *a)
{
    struct dt_str code = dt_db_bytes(db, 5);
    struct dt_str message = dt_db_bytes(db, 6);
    *a = (struct dt_attempt){.attempt = dt_db_i64(db, 0),
                             .status = dt_row_attempt_status(db, 1),
                             .due_at_ms = dt_db_i64(db, 2),
                             .dispatched_at_ms = dt_db_i64(db, 3),
                             .finished_at_ms = dt_db_i64(db, 4),
                             .error_code = dt_arena_copy(arena, code),
                             .error_message = dt_arena_copy(arena, message),
                             .http_status = dt_db_i64(db, 7),
                             .duration_ms = dt_db_is_null(db, 8) ? -1 : dt_db_i64(db, 8)};
    if (a->status == DT_ATTEMPT_NONE) /* a manual edit */
        a->status = DT_ATTEMPT_DISPATCHED;
    return (!code.p || a->error_code.p) && (!message.p || a->error_message.p);
}

/* Fills the page with the rows of the job: params begin with its id. */
static dt_status read_attempts(struct attempt_page *p, dt_db *db, const char *sql, struct dt_params params)
{
    size_t rows = 0;
    p->n = 0;
    p->more = false;
    dt_status status = dt_db_query(db, sql, params, p->err);
    if (status != DT_OK)
        return status;
    for (; status == DT_OK && dt_db_next(db); rows++) {
        /* The row's own attempt is among the others, also if it was on an earlier page. */
        int64_t attempt = dt_db_i64(db, 0);
        if (attempt < 1 || attempt <= p->after)
            continue;
        p->more = p->n == p->limit;
        if (!p->more && !copy_attempt(db, p->arena, &p->list[p->n++]))
            status = dt_fail(p->err, DT_NOMEM, "out of memory");
    }
    dt_assert_cmp(p->n, <=, p->limit);
    dt_status ended = dt_db_end(db, status != DT_OK ? NULL : p->err);
    if (status == DT_OK)
        status = ended;
    if (status == DT_OK && rows == 0)
        return dt_fail(p->err, DT_NOT_FOUND, "no job %lld", (long long)params.v[0].i);
    return status;
}

/* One row more tells that there are more; another one may be the row's own of an earlier page. */
#define ROWS(p) DT_P_INT((p)->limit + 2)

static dt_status read_live_attempts(struct attempt_page *p, dt_db *db, int64_t id)
{
    return read_attempts(p, db, dt_sql_select_attempts,
                         DT_PARAMS(DT_P_INT(id), DT_P_INT(p->after), ROWS(p), DT_P_INT(id), ROWS(p)));
}

static dt_status read_archived_attempts(struct attempt_page *p, dt_db *db, int64_t id)
{
    struct dt_param params[2 * DT_ARCHIVE_PARAMS + 3];
    struct dt_archive_search search = dt_archive_search_of(id);
    dt_status status;
    do {
        status = dt_archive_search_next(db, &search, p->err);
        memcpy(params, search.params, sizeof(search.params));
        params[DT_ARCHIVE_PARAMS] = DT_P_INT(p->after);
        params[DT_ARCHIVE_PARAMS + 1] = ROWS(p);
        memcpy(params + DT_ARCHIVE_PARAMS + 2, search.params, sizeof(search.params));
        params[2 * DT_ARCHIVE_PARAMS + 2] = ROWS(p);
        if (status == DT_OK)
            status = read_attempts(p, db, dt_sql_select_archived_attempts,
                                   (struct dt_params){params, 2 * DT_ARCHIVE_PARAMS + 3});
    } while (dt_archive_search_more(&search, status));
    return status;
}

dt_status dt_store_attempts(dt_store *store, const struct dt_attempt_filter *filter, struct dt_arena *arena,
                            struct dt_attempt_list *out, struct dt_error *err)
{
    struct attempt_page p = {.arena = arena, .after = filter->after, .limit = filter->limit, .err = err};
    dt_db *db;
    dt_status status;
    unsigned tries = 0;
    *out = (struct dt_attempt_list){0};
    p.list = dt_arena_alloc(arena, (p.limit + 1) * sizeof(*p.list));
    if (!p.list)
        return dt_fail(err, DT_NOMEM, "out of memory");
    do {
        status = dt_store_db(store, &db, err);
        if (status != DT_OK)
            return status;
        status = read_live_attempts(&p, db, filter->job_id);
        if (status == DT_NOT_FOUND)
            status = read_archived_attempts(&p, db, filter->job_id);
        if (status == DT_NOT_FOUND) /* driven back meanwhile */
            status = read_live_attempts(&p, db, filter->job_id);
    } while (dt_store_read_again(&tries, status));
    if (status != DT_OK)
        return status;
    *out = (struct dt_attempt_list){.v = p.list, .n = p.n, .more = p.more};
    return DT_OK;
}
