/*
 * Housekeeping of offers, in bounded steps. A walk has two halves:
 *
 *   offers   of each topic in order: one whose job does not wait for a pop by it any more is taken away
 *   jobs     offered rows in order of time: one whose offer is not there (somebody emptied the table), or whose topic
 *            is not popped from any more (its delivery was changed), is met by scans again, which deal with it anew
 *
 * Invariants: what is read is not locked, so each repair states again what it rests on, or does no harm where that has
 * changed: an offer too few is made anew in the next walk, one too many is taken away by a pop.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/json_write.h"
#include "job/delivery.h"
#include "job/job.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "pop.h"
#include "store/store_internal.h"

struct tidying {
    dt_db *db;
    struct dt_offers_walk *walk;
    int64_t now_ms;
    size_t limit, seen; /* rows */
    struct dt_strbuf stale;
    int64_t *ids; /* of jobs to be met again; room for `limit` */
    size_t n_stale, n_ids;
    struct dt_error *err;
};

static dt_status tidy_offers(struct tidying *t)
{
    struct dt_offers_walk *walk = t->walk;
    const struct dt_str topic = {walk->topic, walk->topic_n};
    dt_status status = dt_db_query(t->db, dt_sql_select_offers,
                                   DT_PARAMS(DT_P_STR(topic), DT_P_INT(walk->due_ms), DT_P_INT(walk->due_ms),
                                             DT_P_INT(walk->id), DT_P_INT(t->limit)),
                                   t->err);
    if (status != DT_OK)
        return status;
    dt_strbuf_reset(&t->stale);
    dt_json_begin_array(&t->stale, NULL);
    for (; t->seen < t->limit && dt_db_next(t->db); t->seen++) {
        walk->due_ms = dt_db_i64(t->db, 0);
        walk->id = dt_db_i64(t->db, 1);
        if (dt_db_i64(t->db, 2))
            continue;
        DT_JSON_PUT_ROW(&t->stale, walk->due_ms, walk->id);
        t->n_stale++;
    }
    dt_json_end_array(&t->stale);
    status = dt_db_end(t->db, t->err);
    if (status == DT_OK && t->n_stale)
        status = t->stale.failed
                     ? DT_NOMEM
                     : dt_db_run(t->db, dt_sql_delete_offers,
                                 DT_PARAMS(DT_P_STR(dt_strbuf_str(&t->stale)), DT_P_STR(topic)), NULL, t->err);
    if (status != DT_OK || t->seen == t->limit)
        return status;
    /* The walk continues with the next topic, or with the jobs. */
    status = dt_db_query(t->db, dt_sql_select_next_offering, DT_PARAMS(DT_P_STR(topic)), t->err);
    if (status != DT_OK)
        return status;
    const struct dt_str next = dt_db_next(t->db) ? dt_db_bytes(t->db, 0) : DT_STR_NONE;
    *walk = (struct dt_offers_walk){.of_jobs = !next.p || next.n > sizeof(walk->topic)};
    if (!walk->of_jobs) {
        memcpy(walk->topic, next.p, next.n);
        walk->topic_n = next.n;
    }
    return dt_db_end(t->db, t->err);
}

static dt_status tidy_jobs(struct tidying *t)
{
    struct dt_offers_walk *walk = t->walk;
    uint64_t changed;
    dt_status status = dt_db_query(
        t->db, dt_sql_select_offered,
        DT_PARAMS(DT_P_INT(walk->due_ms), DT_P_INT(walk->due_ms), DT_P_INT(walk->id), DT_P_INT(t->limit)), t->err);
    if (status != DT_OK)
        return status;
    for (; t->seen < t->limit && dt_db_next(t->db); t->seen++) {
        walk->id = dt_db_i64(t->db, 0);
        walk->due_ms = dt_db_i64(t->db, 1);
        bool popped = dt_delivery_dealing((enum dt_delivery_id)dt_db_i64(t->db, 3)) == DT_DEALING_OFFERS;
        if (!popped || !dt_db_i64(t->db, 4))
            t->ids[t->n_ids++] = walk->id;
    }
    status = dt_db_end(t->db, t->err);
    if (status == DT_OK && t->n_ids) {
        qsort(t->ids, t->n_ids, sizeof(*t->ids), dt_by_job_id);
        status = dt_id_in_run(t->db, &dt_sql_mark_not_offered, DT_PARAMS(DT_P_INT(dt_near_end_ms(t->now_ms))),
                              DT_IDS(t->ids, t->n_ids), &changed, t->err);
    }
    if (status == DT_OK && t->seen < t->limit)
        *walk = (struct dt_offers_walk){0};
    return status;
}

dt_status dt_store_tidy_offers(dt_store *store, struct dt_offers_walk *walk, int64_t now_ms, size_t limit,
                               size_t *repaired, bool *more, struct dt_error *err)
{
    struct tidying t = {.walk = walk, .now_ms = now_ms, .limit = limit, .err = err};
    *repaired = 0;
    *more = false;
    t.ids = dt_store_scratch(store, limit * sizeof(*t.ids));
    if (!t.ids)
        return dt_fail(err, DT_NOMEM, "out of memory");
    dt_strbuf_init(&t.stale);
    dt_status status = dt_store_db(store, &t.db, err);
    if (status == DT_OK)
        status = walk->of_jobs ? tidy_jobs(&t) : tidy_offers(&t);
    dt_strbuf_clear(&t.stale);
    if (status != DT_OK)
        return status;
    *repaired = t.n_stale + t.n_ids;
    *more = walk->of_jobs || walk->topic_n > 0;
    return DT_OK;
}
