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

#include "store/db/id_in.h"
#include "store/db/id_list.h"
#include "store/dispatch/leader_parts.h"
#include "store/dispatch/outgoing.h"
#include "store/dispatch/topic_snapshot.h"
#include "store/sql/statements.h"

static int by_id(const void *a, const void *b)
{
    const struct dt_candidate *x = a;
    const struct dt_candidate *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

struct dt_candidate *dt_candidates_find(struct dt_open_txn *t, int64_t id)
{
    struct dt_candidate key = {.id = id};
    return bsearch(&key, t->v, t->n, sizeof(*t->v), by_id);
}

const int64_t *dt_candidates_ids(const struct dt_open_txn *t, bool (*wanted)(const struct dt_candidate *c), size_t *n)
{
    int64_t *ids = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*ids));
    *n = 0;
    for (size_t i = 0; ids && i < t->n; i++)
        if (wanted(&t->v[i]))
            ids[(*n)++] = t->v[i].id;
    return ids;
}

static dt_status candidates_from_hints(struct dt_open_txn *t)
{
    const struct dt_leader_due *due = &t->io->due;
    t->n = due->n_hints;
    t->v = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*t->v));
    t->claims = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*t->claims));
    t->hands = dt_arena_alloc(t->io->arena, (t->n ? t->n : 1) * sizeof(*t->hands));
    if (!t->v || !t->claims || !t->hands)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        t->v[i] = (struct dt_candidate){.id = due->hints[i].id, .hint_ms = due->hints[i].due_ms, .fate = DT_FATE_LEFT};
    qsort(t->v, t->n, sizeof(*t->v), by_id);
    return DT_OK;
}

/* ---- locking ---- */

static bool any(const struct dt_candidate *c)
{
    (void)c;
    return true;
}

/* One copy for as long as the same one comes. */
static struct dt_str topic_of_row(struct dt_open_txn *t)
{
    struct dt_str topic = dt_db_bytes(t->db, 7);
    if (!t->topic.p || !dt_str_eq(t->topic, topic))
        t->topic = dt_arena_copy(t->io->arena, topic);
    return t->topic;
}

/* The columns of dt_sql_lock_hinted. */
static dt_status take_row(void *arg)
{
    struct dt_open_txn *t = arg;
    struct dt_candidate *c = dt_candidates_find(t, dt_db_i64(t->db, 0));
    if (!c)
        return dt_fail(t->err, DT_INTERNAL, "a job that was not asked for");
    c->found = true;
    c->state = (enum dt_job_state)(dt_db_i64(t->db, 1) - 1);
    c->attempt = dt_db_i64(t->db, 2);
    c->next_ms = dt_db_i64(t->db, 3);
    c->hint_ms = c->hint_ms ? c->hint_ms : c->next_ms;
    c->claim_shard = (int)dt_db_i64(t->db, 4);
    c->ack_timeout_ms = dt_db_i64(t->db, 5);
    c->bytes = dt_db_i64(t->db, 6);
    c->topic = topic_of_row(t);
    c->callback_url = dt_arena_copy(t->io->arena, dt_db_bytes(t->db, 11));
    if (!c->topic.p || (!c->callback_url.p && !dt_db_is_null(t->db, 11)))
        return DT_NOMEM;
    return dt_outgoing_small(t->db, 8, t->io->arena, &c->message);
}

static dt_status lock_candidates(struct dt_open_txn *t)
{
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, any, &n);
    if (!ids)
        return DT_NOMEM;
    return dt_id_in_read(t->db, &dt_sql_lock_hinted, DT_PARAMS(DT_P_INT(t->fence->shard)), DT_IDS(ids, n), take_row, t,
                         t->err);
}

/* ---- what was not locked ---- */

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

/* Hints without a locked row: gone, or locked by somebody? */
static dt_status tell_gone_from_locked(struct dt_open_txn *t)
{
    size_t n;
    const int64_t *ids = dt_candidates_ids(t, not_found, &n);
    if (!ids)
        return DT_NOMEM;
    for (size_t i = 0; i < t->n; i++)
        if (!t->v[i].found)
            t->v[i].fate = DT_FATE_GONE;
    return dt_id_in_read(t->db, &dt_sql_find_jobs, DT_NO_PARAMS, DT_IDS(ids, n), is_there, t, t->err);
}

/* ---- what other shards have in flight ---- */

static bool claimed_elsewhere(const struct dt_open_txn *t, const struct dt_candidate *c)
{
    return c->found && c->attempt > 0 && c->claim_shard >= 0 && c->claim_shard != (int)t->fence->shard;
}

/* The shards, as a JSON list, that claimed the latest attempt of a candidate whose slot has moved here since. */
static void foreign_shards(const struct dt_open_txn *t, struct dt_strbuf *out)
{
    bool listed[DT_SHARDS_MAX] = {false};
    for (size_t i = 0; i < t->n; i++) {
        unsigned shard = claimed_elsewhere(t, &t->v[i]) ? (unsigned)t->v[i].claim_shard : DT_SHARDS_MAX;
        if (shard < DT_SHARDS_MAX && !listed[shard])
            dt_id_list_add(out, shard);
        if (shard < DT_SHARDS_MAX)
            listed[shard] = true;
    }
    dt_id_list_end(out);
}

/*
 * Read after the jobs' rows were locked, as committed now: the claiming shard's list is authoritative for the latest
 * attempt of a job. An attempt enters a list only together with its job's row, so what is not there cannot come while
 * the row is locked.
 */
static dt_status read_foreign_lists(struct dt_open_txn *t)
{
    struct dt_inflight list = {0};
    struct dt_strbuf shards;
    dt_strbuf_init(&shards);
    foreign_shards(t, &shards);
    bool some = shards.n > 2;
    dt_status status = shards.failed ? DT_NOMEM : DT_OK;
    if (status == DT_OK && some)
        status = dt_db_query(t->db, dt_sql_select_lists_of_shards, DT_PARAMS(DT_P_STR(dt_strbuf_str(&shards))), t->err);
    while (status == DT_OK && some && dt_db_next(t->db)) {
        status = dt_inflight_parse(dt_db_bytes(t->db, 0), &list);
        t->foreign_unknown |= status == DT_MALFORMED;
        if (status == DT_OK)
            status = dt_inflight_append(&t->foreign, &list);
        else if (status == DT_MALFORMED)
            status = DT_OK;
    }
    dt_status end = some ? dt_db_end(t->db, status == DT_OK ? t->err : NULL) : DT_OK;
    dt_inflight_sort_by_id(&t->foreign);
    dt_inflight_clear(&list);
    dt_strbuf_clear(&shards);
    return status == DT_OK ? end : status;
}

bool dt_candidate_in_flight_elsewhere(const struct dt_open_txn *t, const struct dt_candidate *c)
{
    return claimed_elsewhere(t, c) && (t->foreign_unknown || dt_inflight_has(&t->foreign, c->id));
}

/* ---- all of it ---- */

dt_status dt_candidates_read(struct dt_open_txn *t)
{
    dt_status status = candidates_from_hints(t);
    if (status != DT_OK || t->n == 0)
        return status;
    status = t->io->sent.frozen ? dt_inflight_append(&t->frozen, t->io->sent.list) : DT_OK;
    dt_inflight_sort_by_id(&t->frozen);
    if (status == DT_OK)
        status = dt_topic_snapshot_refresh(t->io->due.topics, t->db, t->row.topics_version, t->err);
    if (status == DT_OK)
        status = lock_candidates(t);
    if (status == DT_OK)
        status = tell_gone_from_locked(t);
    return status == DT_OK ? read_foreign_lists(t) : status;
}
