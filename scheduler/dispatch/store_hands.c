/*
 * Owns:            the rows of hand_owners, and what is given away of `hands`.
 * Refuses to know: when a process lets go of its number.
 */
#include "base/assert.h"
#include "hands.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* ---- owners ---- */

dt_status dt_store_hands_own(dt_store *store, int64_t owner, const char *name, int64_t timeout_ms, struct dt_error *err)
{
    dt_assert_cmp(owner, >, 0);
    dt_status status = dt_store_run(store, dt_sql_forget_hand_owners, DT_NO_PARAMS, NULL, err);
    if (status != DT_OK)
        return status;
    return dt_store_run(store, dt_sql_own_hands,
                        DT_PARAMS(DT_P_INT(owner), DT_P_STR(dt_str(name)), DT_P_INT(timeout_ms)), NULL, err);
}

/* Of a renewal whose answer is lost nobody knows whether it counts. */
dt_status dt_store_hands_renew(dt_store *store, int64_t owner, struct dt_renewals *renewals, bool *there,
                               struct dt_error *err)
{
    uint64_t changed = 0;
    dt_assert_cmp(renewals->confirmed, <=, renewals->asked);
    dt_status status = dt_store_run(
        store, dt_sql_renew_hands, DT_PARAMS(DT_P_INT(owner), DT_P_INT(renewals->confirmed), DT_P_INT(renewals->asked)),
        &changed, err);
    renewals->asked++;
    *there = status == DT_OK && changed == 1;
    renewals->confirmed += *there;
    return status;
}

dt_status dt_store_hands_disown(dt_store *store, int64_t owner, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_disown_hands, DT_PARAMS(DT_P_INT(owner)), NULL, err);
}

/* ---- lost attempts ---- */

dt_status dt_store_hands_lost(dt_store *store, struct dt_lost *lost, struct dt_error *err)
{
    dt_db *db;
    lost->n = 0;
    lost->owners = false;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_select_lost, DT_PARAMS(DT_P_INT(lost->after), DT_P_INT(lost->limit)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        const int64_t id = dt_db_i64(db, 0);
        lost->owners |= id < 0;
        if (id >= 0 && lost->n < lost->limit)
            lost->v[lost->n++] = lost->after = id;
    }
    status = dt_db_end(db, err);
    return status == DT_OK && lost->n ? dt_db_run(db, dt_sql_delete_hands_of_no_job, DT_NO_PARAMS, NULL, err) : status;
}

dt_status dt_store_hands_give_away(dt_store *store, int64_t owner, const int64_t *ids, size_t n, struct dt_error *err)
{
    dt_db *db;
    uint64_t changed = 0;
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK || n == 0)
        return status;
    return dt_id_in_run(db, &dt_sql_give_hands_away, DT_PARAMS(DT_P_INT(owner)), DT_IDS(ids, n), &changed, err);
}

/* ---- the hands of a shard ---- */

struct of_shard {
    int64_t owner;
    unsigned shard;
    struct dt_arena *arena;
    struct dt_hand **hands;
    size_t *n;
};

static dt_status look_under_lock(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct of_shard *of = arg;
    (void)now_ms;
    /* The lock waits for a leader transaction that is under way. */
    dt_status status =
        dt_db_read_number(db, dt_sql_lock_shard_of_hands, DT_PARAMS(DT_P_INT(of->shard)), NULL, NULL, err);
    if (status == DT_OK)
        status =
            dt_db_query(db, dt_sql_select_hands_of_shard, DT_PARAMS(DT_P_INT(of->owner), DT_P_INT(of->shard)), err);
    if (status != DT_OK)
        return status;
    const size_t room = dt_db_rows(db);
    *of->hands = dt_arena_alloc(of->arena, (room ? room : 1) * sizeof(**of->hands));
    *of->n = 0;
    while (*of->hands && *of->n < room && dt_db_next(db))
        (*of->hands)[(*of->n)++] = (struct dt_hand){dt_db_i64(db, 0), dt_db_i64(db, 1)};
    dt_status ended = dt_db_end(db, *of->hands ? err : NULL);
    return *of->hands ? ended : DT_NOMEM;
}

dt_status dt_store_hands_of_shard(dt_store *store, int64_t owner, unsigned shard, struct dt_arena *arena,
                                  struct dt_hand **hands, size_t *n, struct dt_error *err)
{
    struct of_shard of = {owner, shard, arena, hands, n};
    return dt_store_commit_work(store, NULL, look_under_lock, &of, err);
}
