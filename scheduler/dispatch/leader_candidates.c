/*
 * The hinted jobs of a leader transaction: locked, read, and looked up where else they may stand.
 *
 * Owns:            what is known of each candidate before it is judged.
 * Refuses to know: what becomes of it.
 *
 * Invariants: rows are locked in order of ids; a row that another session holds locked is passed by; the list of
 * another shard is read after the rows were locked, as committed then, and an attempt that is not in it cannot come
 * into it.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "outgoing.h"
#include "topic_snapshot.h"

static int by_id(const void *a, const void *b)
{
    const struct dt_candidate *x = a;
    const struct dt_candidate *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

struct dt_candidate *dt_candidates_find(struct dt_open_txn *t, int64_t id)
{
    struct dt_candidate key = {.id = id};
    dt_assert(!t->by_due);
    return bsearch(&key, t->v, t->n, sizeof(*t->v), by_id);
}

const int64_t *dt_candidates_ids(const struct dt_open_txn *t, bool (*wanted)(const struct dt_candidate *c), size_t *n)
{
    int64_t *ids = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*ids));
    *n = 0;
    for (size_t i = 0; ids && i < t->n; i++)
        if (!wanted || wanted(&t->v[i]))
            ids[(*n)++] = t->v[i].id;
    return ids;
}

/* The columns of dt_sql_lock_hinted. */
static dt_status take_row(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    const struct dt_str topic = dt_db_bytes(t->db, 7);
    if (!c)
        return dt_fail(t->err, DT_INTERNAL, "a job that was not asked for");
    if (!t->topic.p || !dt_str_eq(t->topic, topic)) /* one copy for as long as the same one comes */
        t->topic = dt_arena_copy(t->io->arena, topic);
    c->found = true;
    c->state = (enum dt_job_state)(dt_db_i64(t->db, 1) - 1);
    c->attempt = dt_db_i64(t->db, 2);
    c->next_ms = dt_db_i64(t->db, 3);
    c->hint_ms = c->hint_ms ? c->hint_ms : c->next_ms;
    c->claim_shard = (int)dt_db_i64(t->db, 4);
    c->ack_timeout_ms = dt_db_i64(t->db, 5);
    c->bytes = dt_db_i64(t->db, 6);
    c->topic = t->topic;
    c->callback_url = dt_arena_copy(t->io->arena, dt_db_bytes(t->db, 11));
    if (!c->topic.p || (!c->callback_url.p && !dt_db_is_null(t->db, 11)))
        return DT_NOMEM;
    return dt_outgoing_small(t->db, 8, t->io->arena, &c->message);
}

static bool not_found(const struct dt_candidate *c)
{
    return !c->found;
}

static dt_status is_there(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (c)
        c->fate = DT_FATE_LEFT;
    return DT_OK;
}

static bool claimed_elsewhere(const struct dt_open_txn *t, const struct dt_candidate *c)
{
    return c->found && c->attempt > 0 && c->claim_shard >= 0 && c->claim_shard != (int)t->fence->shard;
}

/*
 * Read after the jobs' rows were locked, as committed now: the claiming shard's list is authoritative for the latest
 * attempt of a job. An attempt enters a list only together with its job's row, so what is not there cannot come while
 * the row is locked.
 */
static dt_status read_foreign_lists(struct dt_open_txn *t)
{
    bool listed[DT_SHARDS_MAX] = {false};
    struct dt_inflight list = {0};
    struct dt_strbuf shards;
    dt_strbuf_init(&shards);
    for (size_t i = 0; i < t->n; i++) {
        const struct dt_candidate *c = &t->v[i];
        if (!claimed_elsewhere(t, c) || c->claim_shard >= DT_SHARDS_MAX || listed[c->claim_shard])
            continue;
        dt_id_list_add(&shards, c->claim_shard);
        listed[c->claim_shard] = true;
    }
    if (shards.n == 0 && !shards.failed)
        return DT_OK;
    dt_id_list_end(&shards);
    dt_status status = shards.failed ? DT_NOMEM
                                     : dt_db_query(t->db, dt_sql_select_lists_of_shards,
                                                   DT_PARAMS(DT_P_STR(dt_strbuf_str(&shards))), t->err);
    while (status == DT_OK && dt_db_next(t->db)) {
        status = dt_inflight_parse(dt_db_bytes(t->db, 0), &list);
        t->foreign_unknown |= status == DT_MALFORMED;
        if (status == DT_OK)
            status = dt_inflight_append(&t->foreign, &list);
        else if (status == DT_MALFORMED)
            status = DT_OK;
    }
    dt_status end = dt_db_end(t->db, status == DT_OK ? t->err : NULL);
    dt_inflight_sort_by_id(&t->foreign);
    dt_inflight_clear(&list);
    dt_strbuf_clear(&shards);
    return status == DT_OK ? end : status;
}

bool dt_candidate_in_flight_elsewhere(const struct dt_open_txn *t, const struct dt_candidate *c)
{
    return claimed_elsewhere(t, c) && (t->foreign_unknown || dt_inflight_has(&t->foreign, c->id));
}

dt_status dt_candidates_read(struct dt_open_txn *t)
{
    const struct dt_leader_due *due = &t->io->due;
    struct dt_arena *arena = t->io->arena;
    size_t n = due->n_hints;
    if (n == 0)
        return DT_OK;
    t->n = n;
    t->v = dt_arena_alloc(arena, n * sizeof(*t->v));
    t->claims = dt_arena_alloc(arena, n * sizeof(*t->claims));
    t->hands = dt_arena_alloc(arena, n * sizeof(*t->hands));
    if (!t->v || !t->claims || !t->hands)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++)
        t->v[i] = (struct dt_candidate){.id = due->hints[i].id, .hint_ms = due->hints[i].due_ms, .fate = DT_FATE_LEFT};
    qsort(t->v, n, sizeof(*t->v), by_id);
    dt_status status = t->io->sent.frozen ? dt_inflight_append(&t->frozen, t->io->sent.list) : DT_OK;
    dt_inflight_sort_by_id(&t->frozen);
    if (status == DT_OK)
        status = dt_topic_snapshot_refresh(due->topics, t->db, t->row.topics_version, t->err);
    const int64_t *ids = dt_candidates_ids(t, NULL, &n);
    if (status == DT_OK)
        status = !ids ? DT_NOMEM
                      : dt_id_in_read(t->db, &dt_sql_lock_hinted, DT_PARAMS(DT_P_INT(t->fence->shard)), DT_IDS(ids, n),
                                      take_row, t, t->err);
    if (status != DT_OK)
        return status;
    /* Hints without a locked row: gone, or locked by another session? */
    ids = dt_candidates_ids(t, not_found, &n);
    if (!ids)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (!t->v[i].found)
            t->v[i].fate = DT_FATE_GONE;
    status = dt_id_in_read(t->db, &dt_sql_find_jobs, DT_NO_PARAMS, DT_IDS(ids, n), is_there, t, t->err);
    return status == DT_OK ? read_foreign_lists(t) : status;
}
