/* See leases.h. Invariants of elections: `ended` never becomes false again. A lease counts only while its member has
 * not ended, so one statement ends a member and all its leases; the rows of the leases are deleted later. Among live
 * members, only the member itself deletes its leases. */
#include <sys/random.h>

#include "leases.h"
#include "mysql/statements.h"
#include "processes.h"
#include "store_internal.h"

static dt_status run_for_shards(dt_store *store, const struct dt_id_in *sql, int64_t id, const int64_t *shards,
                                size_t n, struct dt_error *err)
{
    dt_db *db;
    uint64_t changed;
    dt_status status = dt_store_db(store, &db, err);
    return status == DT_OK ? dt_id_in_run(db, sql, DT_PARAMS(DT_P_INT(id)), DT_IDS(shards, n), &changed, err) : status;
}

dt_status dt_store_election_join(dt_store *store, int64_t id, const char *name, int64_t timeout_ms,
                                 struct dt_error *err)
{
    dt_status status = dt_store_run(store, dt_sql_forget_ended_members, DT_NO_PARAMS, NULL, err);
    if (status != DT_OK)
        return status;
    return dt_store_run(store, dt_sql_join_election,
                        DT_PARAMS(DT_P_INT(id), DT_P_STR(dt_str(name)), DT_P_INT(timeout_ms)), NULL, err);
}

dt_status dt_store_election_renew(dt_store *store, int64_t id, bool leaving, bool *there, struct dt_error *err)
{
    uint64_t changed = 0;
    dt_status status =
        dt_store_run(store, dt_sql_renew_member, DT_PARAMS(DT_P_INT(leaving), DT_P_INT(id)), &changed, err);
    *there = changed == 1;
    return status;
}

dt_status dt_store_election_leave(dt_store *store, int64_t id, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_end_member, DT_PARAMS(DT_P_INT(id)), NULL, err);
}

dt_status dt_store_election_end(dt_store *store, int64_t id, int64_t renewals, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_end_silent_member, DT_PARAMS(DT_P_INT(id), DT_P_INT(renewals)), NULL, err);
}

dt_status dt_store_election_free(dt_store *store, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_free_leases, DT_NO_PARAMS, NULL, err);
}

dt_status dt_store_election_take(dt_store *store, int64_t id, const int64_t *shards, size_t n, struct dt_error *err)
{
    return run_for_shards(store, &dt_sql_take_leases, id, shards, n, err);
}

dt_status dt_store_election_release(dt_store *store, int64_t id, const int64_t *shards, size_t n, struct dt_error *err)
{
    return run_for_shards(store, &dt_sql_release_leases, id, shards, n, err);
}

/* Reads the rows of the election; the rows of a member are consecutive. Skips members beyond DT_ELECTION_MEMBERS. */
static dt_status read_election(dt_db *db, struct dt_election *out, struct dt_error *err)
{
    while (dt_db_next(db)) {
        const int64_t id = dt_db_i64(db, 0);
        const int64_t shard = dt_db_i64(db, 5);
        bool listed = out->n && out->members[out->n - 1].id == id;
        if (!listed && out->n < DT_ELECTION_MEMBERS) {
            out->members[out->n++] = (struct dt_election_member){.id = id,
                                                                 .renewals = dt_db_i64(db, 1),
                                                                 .age_ms = dt_db_i64(db, 2),
                                                                 .timeout_ms = dt_db_i64(db, 3),
                                                                 .leaving = dt_db_i64(db, 4) != 0};
            listed = true;
        }
        if (listed && !dt_db_is_null(db, 5) && shard >= 0 && shard < DT_SHARDS_MAX)
            out->holder[shard] = id;
        out->elsewhere = dt_db_i64(db, 6) > 0;
    }
    return dt_db_end(db, err);
}

dt_status dt_store_election_look(dt_store *store, struct dt_election *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_election){0};
    dt_status status =
        dt_store_query(store, &db, dt_sql_select_election, DT_PARAMS(DT_P_INT(DT_PROCESS_FRESH_MS)), err);
    return status == DT_OK ? read_election(db, out, err) : status;
}

dt_status dt_store_election_renew_and_look(dt_store *store, int64_t id, bool leaving, bool *there,
                                           struct dt_election *out, struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_election){0};
    *there = false;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, dt_db_query_index(db, dt_sql_renew_and_look,
                                      DT_PARAMS(DT_P_INT(leaving), DT_P_INT(id), DT_P_INT(DT_PROCESS_FRESH_MS)), err));
    DT_THEN(status, read_election(db, out, err));
    for (size_t i = 0; status == DT_OK && i < out->n; i++)
        *there |= out->members[i].id == id;
    return status;
}

static dt_status take_or_renew_lease(dt_store *store, struct dt_work_lease *lease, struct dt_error *err)
{
    const int64_t asked_us = dt_clock_mono_us(dt_clock_system());
    const struct dt_param work = DT_P_STR(dt_str(lease->work));
    const struct dt_param holder = DT_P_INT(lease->holder);
    int64_t ours = 0;
    dt_db *db;
    lease->renewed_us = 0;
    dt_status status = dt_store_db(store, &db, err);
    DT_THEN(status, dt_db_run(db, dt_sql_take_work_lease, DT_PARAMS(work, holder, DT_P_INT(lease->ms)), NULL, err));
    DT_THEN(status, dt_db_read_number(db, dt_sql_select_work_lease, DT_PARAMS(work, holder), NULL, &ours, err));
    if (status == DT_OK && !ours)
        return dt_fail(err, DT_BUSY, "another process holds the lease");
    if (status == DT_OK)
        lease->renewed_us = asked_us;
    return status;
}

dt_status dt_work_lease_take(dt_store *store, struct dt_work_lease *lease, struct dt_error *err)
{
    if (getrandom(&lease->holder, sizeof(lease->holder), 0) != (ssize_t)sizeof(lease->holder))
        return dt_fail(err, DT_SYSTEM, "no random numbers from the system");
    lease->holder &= INT64_MAX;
    const dt_status status = take_or_renew_lease(store, lease, err);
    if (status != DT_OK) /* the statement may have succeeded all the same */
        dt_work_lease_release(store, lease);
    return status;
}

dt_status dt_work_lease_keep(dt_store *store, struct dt_work_lease *lease, struct dt_error *err)
{
    const int64_t age_us = dt_clock_mono_us(dt_clock_system()) - lease->renewed_us;
    return age_us < lease->ms * 1000 / 3 ? DT_OK : take_or_renew_lease(store, lease, err);
}

void dt_work_lease_release(dt_store *store, struct dt_work_lease *lease)
{
    const struct dt_params row = DT_PARAMS(DT_P_STR(dt_str(lease->work)), DT_P_INT(lease->holder));
    /* If the first try fails because the connection has broken, the second try connects again. */
    if (lease->holder && dt_store_run(store, dt_sql_release_work_lease, row, NULL, NULL) != DT_OK)
        (void)!dt_store_run(store, dt_sql_release_work_lease, row, NULL, NULL);
    lease->holder = 0;
}
