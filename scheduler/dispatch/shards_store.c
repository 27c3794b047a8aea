/*
 * The number of shards, its change at runtime, and what leaders report.
 *
 * The installation's row has the number of shards and its generation; the number alone determines which slot belongs to
 * which shard (job/shard.h). A change is one short transaction: it writes rows for new shards, the number, and the
 * generation. It locks no shard's row, so neither leaders nor the change wait for each other.
 *
 * Why no lock is needed: each leader transaction reads the generation and claims nothing if the leader's map is older.
 * A transaction that was open during the change may still commit claims by the old map, and that does no harm. A claim
 * is decided by the job's row (state, attempt, time, under its lock), so two shards never claim the same attempt. The
 * job's row also names the shard that claimed it; a cancel, a timeout and the next claim read that shard's in-flight
 * list (leader.c, jobs_store.c). So the map only decides which leader tries.
 *
 * A shard that the map no longer has is led until its in-flight list is empty. dt_store_shard_range reads the lists, so
 * that even the last claim is found. Then the shard's leader steps down; if the leader died before, another process
 * takes the shard over and steps down (dispatcher/election/shard_map.c). The shard's row is never deleted: if the
 * number rises again, epochs, ledger offsets and the ledger's partition continue.
 */

#include "base/assert.h"
#include "base/guard.h"
#include "events/events.h"
#include "mysql/db.h"
#include "mysql/statements.h"
#include "shards.h"
#include "store/store_internal.h"
#include "topic/counts.h"

struct setting {
    unsigned shards;
    struct dt_installation *inst;
    struct dt_str actor;
};

static dt_status set_shard_count(void *arg, dt_db *db, int64_t now_ms, struct dt_error *err)
{
    const struct setting *s = arg;
    const unsigned shards = s->shards;
    struct dt_installation *inst = s->inst;
    struct dt_param added[DT_SHARDS_MAX];
    int64_t row[2] = {0};
    int64_t halted;
    int64_t last;
    bool found;
    dt_assert(shards >= 1 && shards <= DT_SHARDS_MAX);
    *inst = (struct dt_installation){0};
    dt_status status = dt_db_read_numbers(db, dt_sql_lock_shards_number, DT_NO_PARAMS, &found, row, 2, err);
    inst->shards = (unsigned)row[0];
    inst->generation = row[1];
    if (status == DT_OK && !found)
        return dt_fail(err, DT_SCHEMA, "the installation row is missing");
    if (status != DT_OK || inst->shards == shards)
        return status;
    /* If a shard is halted, it is not known what it has sent, so no other shard may dispatch jobs of its slots. */
    status = dt_db_read_number(db, dt_sql_find_halted_shard, DT_NO_PARAMS, &found, &halted, err);
    if (status == DT_OK && found)
        status = dt_fail(err, DT_HALTED, "shard %lld is halted", (long long)halted);
    DT_THEN(status, dt_db_read_number(db, dt_sql_find_last_shard, DT_NO_PARAMS, &found, &last, err));
    const unsigned rows = status == DT_OK && found ? (unsigned)last + 1 : 0; /* the numbers of shards have no gaps */
    for (unsigned i = rows; i < shards; i++)
        added[i - rows] = DT_P_INT(i);
    if (status == DT_OK && rows < shards)
        status = dt_db_run_many(db, dt_sql_add_shard, (struct dt_param_rows){added, 1, shards - rows}, NULL, err);
    DT_THEN(status, dt_db_run(db, dt_sql_set_shards_number, DT_PARAMS(DT_P_INT(shards)), NULL, err));
    if (status == DT_OK && s->actor.p) {
        struct dt_job_event event = {.at_ms = now_ms, .actor = s->actor, .action = DT_STR_LIT("shards")};
        struct dt_event_diff d;
        dt_event_diff_begin(&d);
        dt_event_diff_number(&d, "count", inst->shards, shards);
        status = dt_event_diff_write(&d, db, &event, err);
    }
    inst->shards = shards;
    inst->generation++;
    return status;
}

dt_status dt_store_set_shards(dt_store *store, unsigned shards, struct dt_installation *inst, struct dt_error *err)
{
    struct setting setting = {shards, inst, dt_store_actor(store)};
    if (shards < 1 || shards > DT_SHARDS_MAX)
        return dt_fail(err, DT_INVALID, "the number of shards must be 1 to %d", DT_SHARDS_MAX);
    *inst = (struct dt_installation){0};
    return dt_store_commit_work(store, NULL, set_shard_count, &setting, err);
}

dt_status dt_store_shard_range(dt_store *store, const struct dt_installation *inst, struct dt_shard_range *out,
                               struct dt_error *err)
{
    dt_db *db;
    *out = (struct dt_shard_range){.led = inst->shards, .rows = inst->shards};
    dt_status status = dt_store_query(store, &db, dt_sql_select_shards_from, DT_PARAMS(DT_P_INT(inst->shards)), err);
    if (status != DT_OK)
        return status;
    while (dt_db_next(db)) {
        unsigned shard = (unsigned)dt_db_i64(db, 0);
        bool in_flight = dt_db_i64(db, 1) != 0;
        out->rows = shard + 1;
        if (in_flight && DT_UNGUARDED(LED_UNTIL_EMPTY))
            continue;
        if (in_flight)
            out->led = out->rows;
        if (shard < DT_SHARDS_MAX && !dt_db_is_null(db, 2))
            out->standing[shard] = dt_db_i64(db, 3);
    }
    return dt_db_end(db, err);
}

static dt_status read_shard(const dt_db *db, struct dt_arena *arena, void *row, void *dispatchers)
{
    bool ok = true;
    *(struct dt_shard_info *)row = (struct dt_shard_info){
        .shard = (unsigned)dt_db_i64(db, 0),
        .epoch = dt_db_i64(db, 1),
        .owner = dt_store_text(db, 2, arena, &ok),
        .halted = dt_store_text(db, 3, arena, &ok),
        .inflight = dt_db_i64(db, 4),
        .seen_at_ms = dt_db_i64(db, 5),
        .waiting = dt_store_text(db, 6, arena, &ok),
        .detail = dt_store_text(db, 7, arena, &ok),
        .overdue = dt_db_i64(db, 8),
        .oldest_due_at_ms = dt_db_i64(db, 9),
        .drift_missing = dt_db_i64(db, 10),
        .drift_extra = dt_db_i64(db, 11),
        .drift_wrong = dt_db_i64(db, 12),
        .generation = dt_db_i64(db, 13),
        .callbacks = dt_store_text(db, 14, arena, &ok),
        .held = dt_db_i64(db, 20),
    };
    *(struct dt_dispatchers *)dispatchers = (struct dt_dispatchers){
        .now_ms = dt_db_i64(db, 15),
        .n = (unsigned)dt_db_i64(db, 16),
        .seen_ms_ago = dt_db_i64(db, 17),
        .waits_kafka = dt_db_i64(db, 18) != 0,
        .waits_redis = dt_db_i64(db, 19) != 0,
    };
    return ok ? DT_OK : DT_NOMEM;
}

dt_status dt_store_shards(dt_store *store, struct dt_arena *arena, struct dt_shard_info **out, size_t *n,
                          struct dt_dispatchers *dispatchers, struct dt_error *err)
{
    const struct dt_param fresh = DT_P_INT(DT_PROCESS_FRESH_MS);
    dt_db *db;
    *out = NULL;
    *n = 0;
    *dispatchers = (struct dt_dispatchers){0};
    dt_status status = dt_store_query(store, &db, dt_sql_select_shards, DT_PARAMS(fresh, fresh), err);
    if (status != DT_OK)
        return status;
    struct dt_rows shards = {.row_bytes = sizeof(**out), .read = read_shard, .arg = dispatchers};
    status = dt_store_read_rows(db, arena, &shards, err);
    *out = shards.v;
    *n = shards.n;
    return status;
}

dt_status dt_store_put_stats(dt_store *store, const struct dt_shard_stats *stats, size_t n, struct dt_error *err)
{
    dt_db *db;
    enum { COLUMNS = 13 };
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK || n == 0)
        return status;
    struct dt_param *params = calloc(n * COLUMNS, sizeof(*params));
    if (!params)
        return DT_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dt_shard_stats *s = &stats[i];
        struct dt_param *p = &params[i * COLUMNS];
        dt_params_add(p, DT_PARAMS(DT_P_INT(s->shard), DT_P_INT(s->epoch), DT_P_STR_OR_NULL(dt_str(s->waiting)),
                                   DT_P_STR_OR_NULL(dt_str(s->detail)), DT_P_INT(s->overdue),
                                   DT_P_INT_OR_NULL(s->oldest_due_at_ms), DT_P_INT(s->drift_missing),
                                   DT_P_INT(s->drift_extra), DT_P_INT(s->drift_wrong), DT_P_INT(s->generation),
                                   DT_P_STR_OR_NULL(dt_str(s->callbacks)), DT_P_INT(s->drains), DT_P_INT(s->held)));
    }
    status = dt_db_run_many(db, dt_sql_put_shard_stats, (struct dt_param_rows){params, COLUMNS, n}, NULL, err);
    free(params);
    return status;
}
