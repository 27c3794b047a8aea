/* Reading topics and counting their jobs; and what leaders say about their shards. */
#include <stdlib.h>

#include "job/change/jobs_txn.h"
#include "mysql/statements.h"
#include "owners.h"
#include "store/processes.h"
#include "store/store_internal.h"
#include "topics.h"

#define OVERDUE_ROWS 20000

static dt_status read_topic(const dt_db *db, struct dt_arena *arena, struct dt_topic *out)
{
    bool ok = true;
    *out = (struct dt_topic){
        .name = dt_store_text(db, 0, arena, &ok),
        .kafka_topic = dt_store_text(db, 1, arena, &ok),
        .retry = dt_store_text(db, 2, arena, &ok),
        .ack_timeout_ms = dt_db_i64(db, 3),
        .retention_ms = dt_db_is_null(db, 4) ? -1 : dt_db_i64(db, 4),
        .paused = dt_db_i64(db, 5) != 0,
        .created_at_ms = dt_db_i64(db, 6),
        .updated_at_ms = dt_db_i64(db, 7),
        .version = dt_db_i64(db, 8),
        .delivery = (enum dt_delivery_id)dt_db_i64(db, 9),
        .callback = {.places = {.url = dt_store_text(db, 10, arena, &ok), .hosts = dt_store_text(db, 11, arena, &ok)},
                     .headers = dt_store_text(db, 12, arena, &ok),
                     .secret = dt_store_text(db, 13, arena, &ok),
                     .timeout_ms = dt_db_i64(db, 14)},
        .max_in_flight = dt_db_i64(db, 15),
        .rate_limit = dt_store_text(db, 16, arena, &ok),
        .deletion = dt_db_i64(db, 17),
        .alerts = dt_store_text(db, 18, arena, &ok),
        .owner = dt_db_i64(db, 19) > 0 ? dt_db_i64(db, 19) : dt_owner_by_name(dt_db_bytes(db, 0)),
    };
    return ok && out->name.p ? DT_OK : DT_NOMEM;
}

static dt_status fetch_failed(dt_db *db, dt_status status, struct dt_error *err)
{
    dt_status ended = dt_db_end(db, err);
    return status != DT_OK ? dt_fail(err, status, "%s", dt_status_text(status)) : ended;
}

dt_status dt_topic_read(dt_db *db, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                        struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_select_topic, DT_PARAMS(DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    status = dt_db_next(db) ? read_topic(db, arena, out) : DT_NOT_FOUND;
    return fetch_failed(db, status, err);
}

dt_status dt_store_topic_get(dt_store *store, struct dt_str name, struct dt_arena *arena, struct dt_topic *out,
                             struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_topic_read(db, name, arena, out, err) : status;
}

/* ---- pages of topics ---- */

#define RANGES_MAX 100 /* prefixes that one page looks at */

static int compare_names(const void *a, const void *b)
{
    const struct dt_str *x = a;
    const struct dt_str *y = b;
    int order = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

struct dt_str dt_topic_above_prefix(struct dt_arena *arena, struct dt_str prefix)
{
    char *p = dt_arena_alloc(arena, prefix.n + 2);
    if (!p)
        return DT_STR_NONE;
    if (prefix.n)
        memcpy(p, prefix.p, prefix.n);
    p[prefix.n] = 0x7F;
    p[prefix.n + 1] = '\0';
    return (struct dt_str){p, prefix.n + 1};
}

/* A page being filled. */
struct topic_page {
    dt_db *db;
    struct dt_arena *arena;
    struct dt_topic *topics;
    size_t n, limit;
    struct dt_error *err;
};

static dt_status read_page(struct topic_page *p, const char *sql, struct dt_params params)
{
    dt_status status = dt_db_query(p->db, sql, params, p->err);
    if (status != DT_OK)
        return status;
    while (status == DT_OK && dt_db_next(p->db))
        status = read_topic(p->db, p->arena, &p->topics[p->n++]);
    return fetch_failed(p->db, status, p->err);
}

/* The topics of the prefixes in order; one that another one has in it is left out, so that ranges do not meet. */
static dt_status read_prefixes(struct topic_page *p, const struct dt_topic_filter *f, struct dt_topic_list *out)
{
    struct dt_str *prefixes = dt_arena_alloc(p->arena, (f->n_prefixes + 1) * sizeof(*prefixes));
    size_t n = 0;
    size_t looks = 0;
    dt_status status = prefixes ? DT_OK : DT_NOMEM;
    if (prefixes && f->n_prefixes) {
        memcpy(prefixes, f->prefixes, f->n_prefixes * sizeof(*prefixes));
        qsort(prefixes, f->n_prefixes, sizeof(*prefixes), compare_names);
    }
    for (size_t i = 0; status == DT_OK && i < f->n_prefixes; i++)
        if (prefixes[i].n > 0 && (n == 0 || !dt_str_begins(prefixes[i], prefixes[n - 1])))
            prefixes[n++] = prefixes[i];
    for (size_t i = 0; status == DT_OK && i < n && p->n < p->limit; i++) {
        const struct dt_str below = dt_topic_above_prefix(p->arena, prefixes[i]);
        if (!below.p)
            return DT_NOMEM;
        if (compare_names(&f->after, &below) >= 0)
            continue;
        if (looks++ == RANGES_MAX) {
            out->more = true;
            return DT_OK;
        }
        status =
            read_page(p, dt_sql_select_topics_between,
                      DT_PARAMS(DT_P_STR(f->after), DT_P_STR(prefixes[i]), DT_P_STR(below), DT_P_INT(p->limit - p->n)));
        out->last = below;
    }
    return status;
}

dt_status dt_store_topic_list(dt_store *store, const struct dt_topic_filter *filter, struct dt_arena *arena,
                              struct dt_topic_list *out, struct dt_error *err)
{
    struct topic_page p = {.arena = arena, .limit = filter->limit, .err = err};
    struct dt_topic_filter f = *filter;
    *out = (struct dt_topic_list){0};
    f.after = f.after.p ? f.after : DT_STR_LIT("");
    p.topics = dt_arena_alloc(arena, (p.limit + 1) * sizeof(*p.topics));
    if (!p.topics)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_status status = dt_store_db(store, &p.db, err);
    if (status == DT_OK)
        status = f.bound ? read_prefixes(&p, &f, out)
                         : read_page(&p, dt_sql_select_topics, DT_PARAMS(DT_P_STR(f.after), DT_P_INT(p.limit)));
    if (status != DT_OK) {
        *out = (struct dt_topic_list){0};
        return status;
    }
    if (p.n == p.limit) {
        out->more = true;
        out->last = p.topics[p.n - 1].name;
    }
    out->v = p.topics;
    out->n = p.n;
    return DT_OK;
}

/* ---- looking ---- */

dt_status dt_store_topic_counts(dt_store *store, struct dt_str name, struct dt_topic_counts *out, struct dt_error *err)
{
    dt_db *db;
    memset(out, 0, sizeof(*out));
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_select_topic_counts, DT_PARAMS(DT_P_STR(name), DT_P_STR(name)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) { /* a row has one state's number, or, without a state, those of all */
        int64_t state = dt_db_i64(db, 0) - 1;
        if (state >= 0 && state < DT_JOB_STATES)
            out->by_state[state] += dt_db_i64(db, 1);
        for (unsigned s = 0; state < 0 && s < DT_JOB_STATES; s++)
            out->by_state[s] += dt_db_i64(db, s + 1);
    }
    for (int s = 0; s < DT_JOB_STATES; s++) /* rows of manual edits count once the audit has found them */
        out->by_state[s] = out->by_state[s] > 0 ? out->by_state[s] : 0;
    status = dt_db_end(db, err);
    if (status == DT_OK)
        status = dt_db_read_number(db, dt_sql_select_overdue, DT_PARAMS(DT_P_STR(name), DT_P_INT(OVERDUE_ROWS)), NULL,
                                   &out->oldest_overdue_ms, err);
    return status;
}
