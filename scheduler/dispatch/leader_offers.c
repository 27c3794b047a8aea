/*
 * The offers that a leader makes to pops, in a leader transaction.
 *
 * Owns:            `offered` of struct dt_leader_txn, and the rows that say that a job is offered.
 * Refuses to know: who pops (pop.h).
 *
 * Invariants: the row of pop_queue and the mark in the job's row are one commit; an offer that is there already stays,
 * so a job may be offered again whenever it is met.
 */
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"

static bool is_offered(const struct dt_candidate *c)
{
    return c->fate == DT_FATE_OFFER;
}

dt_status dt_offers_write(struct dt_open_txn *t)
{
    enum { COLUMNS = 3 };
    struct dt_leader_offered *offered = &t->io->offered;
    size_t n;
    uint64_t changed;
    const int64_t *ids = dt_candidates_ids(t, is_offered, &n);
    if (!ids)
        return DT_NOMEM;
    if (n == 0)
        return DT_OK;
    struct dt_param *params = dt_arena_alloc(t->io->arena, n * COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    offered->n = n;
    offered->topics = dt_arena_alloc(t->io->arena, n * sizeof(*offered->topics));
    if (!params || !offered->topics)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        size_t place = 0;
        if (!is_offered(c))
            continue;
        *p++ = DT_P_STR(c->topic);
        *p++ = DT_P_INT(c->next_ms);
        *p++ = DT_P_INT(c->id);
        while (place < offered->n_topics && !dt_str_eq(offered->topics[place], c->topic))
            place++;
        if (place == offered->n_topics)
            offered->topics[offered->n_topics++] = c->topic;
    }
    dt_assert_cmp(p - params, ==, n * COLUMNS);
    dt_status status =
        dt_db_run_many(t->db, dt_sql_insert_offers, (struct dt_param_rows){params, COLUMNS, n}, NULL, t->err);
    return status == DT_OK ? dt_id_in_run(t->db, &dt_sql_mark_offered, DT_NO_PARAMS, DT_IDS(ids, n), &changed, t->err)
                           : status;
}
