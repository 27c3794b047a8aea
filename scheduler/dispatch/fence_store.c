/*
 * The fence that a leadership holds, and taking a shard over. This file locks, compares and writes the shard's row of
 * `shards`.
 *
 * Invariants:
 * - A fence has the values that this leadership wrote last. Every transaction of a leader except dt_store_step_down
 *   locks the row first, compares epoch, token and version with the fence, and compares them again in the statement
 *   that writes. The epoch excludes other leaders; token and version detect a MySQL that was restored to an earlier
 *   state.
 * - A takeover writes epoch + 1 before the ledger is read.
 * - A batch leaves the in-flight list only if the ledger has the batch, or if it is a single attempt that Kafka
 *   refused.
 */

#include "base/guard.h"
#include "job/archive/archive.h"
#include "leader_parts.h"
#include "mysql/id_in.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

/* Checks that the row has the values that this leadership wrote last. Columns 0 to 3 are epoch, token, version,
 * halted. */
static dt_status check_shard_row(const dt_db *db, const struct dt_fence *fence, struct dt_error *err)
{
    if (!DT_GUARD(EPOCH, dt_db_i64(db, 0) == fence->epoch) || !DT_GUARD(TOKEN, dt_db_i64(db, 1) == fence->token) ||
        !DT_GUARD(VERSION, dt_db_i64(db, 2) == fence->version))
        return dt_fail(err, DT_DEPOSED,
                       "shard %u: the row says epoch %lld version %lld, this leadership wrote %lld %lld", fence->shard,
                       (long long)dt_db_i64(db, 0), (long long)dt_db_i64(db, 2), (long long)fence->epoch,
                       (long long)fence->version);
    return dt_db_is_null(db, 3) ? DT_OK : dt_fail(err, DT_HALTED, "shard %u is halted", fence->shard);
}

struct locking {
    const struct dt_fence *fence;
    struct dt_fence_row *row;
};

static dt_status begin_with_fence_lock(dt_store *store, dt_db *db, void *arg, struct dt_error *err)
{
    const struct locking *l = arg;
    const unsigned shard = l->fence->shard;
    int64_t asked_us = dt_clock_mono_us(dt_clock_system());
    dt_status status = dt_db_begin_soon(db, err);
    if (status != DT_OK)
        return status;
    status = dt_db_query(db, dt_sql_lock_fence, DT_PARAMS(DT_P_INT(shard)), err);
    if (status == DT_OK && !dt_db_next(db))
        status = dt_fail(err, DT_NOT_FOUND, "shard %u has no row", shard);
    else if (status == DT_OK) {
        *l->row = (struct dt_fence_row){dt_db_i64(db, 4), dt_db_i64(db, 5), dt_db_i64(db, 6)};
        status = check_shard_row(db, l->fence, err);
    }
    /* The row that was read decides the status, so an error of the connection after that is ignored. */
    const bool unread = status == DT_OK || status == DT_NOT_FOUND;
    dt_status end = dt_db_end(db, unread ? err : NULL);
    if (l->row->now_ms)
        dt_store_heard_now(store, l->row->now_ms, asked_us);
    return end != DT_OK && unread ? end : status;
}

dt_status dt_fence_begin(dt_store *store, const struct dt_fence *fence, dt_db **db, struct dt_fence_row *row,
                         struct dt_error *err)
{
    struct locking l = {fence, row};
    *row = (struct dt_fence_row){0};
    return dt_store_first(store, db, begin_with_fence_lock, &l, err);
}

dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_fence_values *values, struct dt_error *err)
{
    struct dt_strbuf list = {0};
    uint64_t changed = 0;
    dt_assert_cmp(values->send_n, <=, values->inflight.n);
    dt_assert(values->send_n > 0 || values->inflight.n == 0);
    dt_assert_cmp(values->batch_no - fence->batch_no, <=, 1);
    dt_inflight_format(values->inflight.v, values->inflight.n, &list);
    dt_status status = dt_db_run(db, dt_sql_write_fence,
                                 DT_PARAMS(DT_P_BUF(&list), DT_P_INT(values->send_n), DT_P_INT(values->ledger_offset),
                                           DT_P_INT(values->batch_no), DT_P_INT(fence->shard), DT_P_INT(fence->epoch),
                                           DT_P_INT(fence->token), DT_P_INT(fence->version)),
                                 &changed, err);
    dt_strbuf_clear(&list);
    if (status == DT_OK && changed != 1)
        status = dt_fail(err, DT_DEPOSED, "shard %u: another leader wrote the locked row", fence->shard);
    if (status != DT_OK)
        return status;
    fence->version++;
    fence->ledger_offset = values->ledger_offset;
    fence->batch_no = values->batch_no;
    fence->inflight = values->inflight.n;
    fence->send_n = values->send_n;
    return DT_OK;
}

dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence, struct dt_installation *inst,
                               struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_query(store, &db, dt_sql_check_fence, DT_PARAMS(DT_P_INT(fence->shard)), err);
    if (status != DT_OK)
        return status;
    if (!dt_db_next(db))
        status = dt_fail(err, DT_DEPOSED, "shard %u has no row", fence->shard);
    else
        status = check_shard_row(db, fence, err);
    if (status == DT_OK) {
        inst->generation = dt_db_i64(db, 4);
        inst->topics_version = dt_db_i64(db, 5);
        inst->shards = (unsigned)dt_db_i64(db, 6);
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return end != DT_OK ? end : status;
}

dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    dt_db *db;
    struct dt_fence_row row;
    dt_status status = dt_fence_begin(store, fence, &db, &row, err);
    DT_THEN(status, dt_db_run(db, dt_sql_write_trim_offset,
                              DT_PARAMS(DT_P_INT(row.now_ms), DT_P_INT(fence->shard), DT_P_INT(fence->epoch),
                                        DT_P_INT(fence->token), DT_P_INT(fence->version)),
                              NULL, err));
    status = dt_store_commit(db, status, err);
    if (status != DT_OK)
        return status;
    fence->version++;
    fence->trim_offset = fence->ledger_offset;
    fence->trim_at_ms = row.now_ms;
    return DT_OK;
}

dt_status dt_store_step_down(dt_store *store, const struct dt_fence *fence, struct dt_error *err)
{
    return dt_store_run(store, dt_sql_remove_owner,
                        DT_PARAMS(DT_P_INT(fence->shard), DT_P_INT(fence->epoch), DT_P_INT(fence->token)), NULL, err);
}

dt_status dt_deadlines_extend(dt_db *db, const struct dt_inflight *sent, int64_t now_ms, struct dt_seen_list *moved,
                              struct dt_error *err)
{
    const int64_t near_end_ms = dt_near_end_ms(now_ms);
    struct dt_strbuf list = {0};
    struct dt_strbuf ids = {0};
    if (DT_UNGUARDED(DEADLINE_RENEWED) || sent->n == 0)
        return DT_OK;
    dt_status status = dt_inflight_format_by_id(sent->v, sent->n, &list);
    DT_THEN(status, dt_db_query(db, dt_sql_lock_sent, DT_PARAMS(DT_P_BUF(&list)), err));
    while (status == DT_OK && dt_db_next(db)) {
        struct dt_seen seen = {
            .id = dt_db_i64(db, 0), .hint_ms = dt_db_i64(db, 1), .next_ms = now_ms + dt_db_i64(db, 2)};
        dt_id_list_add(&ids, seen.id);
        if (moved && seen.next_ms > seen.hint_ms)
            moved->v[moved->n++] = seen;
    }
    dt_id_list_end(&ids);
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    DT_THEN(status, end);
    DT_THEN(status, dt_db_run(db, dt_sql_extend_sent,
                              DT_PARAMS(DT_P_BUF(&ids), DT_P_INT(near_end_ms), DT_P_INT(now_ms), DT_P_INT(near_end_ms),
                                        DT_P_INT(now_ms)),
                              NULL, err));
    dt_strbuf_clear(&list);
    dt_strbuf_clear(&ids);
    return status;
}

/* ---- takeover, step 1 ---- */

/* Locks and reads the shard's row. MALFORMED: its in-flight list cannot be parsed. */
static dt_status read_shard_row(dt_db *db, struct dt_fence *fence, const char *index_at, struct dt_inflight *inflight,
                                struct dt_error *err)
{
    dt_status status = dt_db_query(db, dt_sql_lock_for_takeover, DT_PARAMS(DT_P_INT(fence->shard)), err);
    if (status == DT_OK && !dt_db_next(db))
        status = dt_fail(err, DT_NOT_FOUND, "shard %u has no row", fence->shard);
    else if (status == DT_OK) {
        const struct dt_str halted = dt_db_bytes(db, 8);
        const int64_t send_n = dt_db_i64(db, 5);
        fence->epoch = dt_db_i64(db, 0) + 1;
        fence->version = dt_db_i64(db, 1) + 1;
        fence->ledger_offset = dt_db_i64(db, 2);
        fence->batch_no = dt_db_i64(db, 3);
        fence->trim_offset = dt_db_is_null(db, 6) ? -1 : dt_db_i64(db, 6);
        fence->trim_at_ms = dt_db_i64(db, 7);
        /* If the shard's set was at another endpoint before, the set at this endpoint lacks entries, whatever its
         * marker says. */
        fence->index_epoch = dt_str_is(dt_db_bytes(db, 9), index_at) ? dt_db_i64(db, 10) : fence->epoch;
        status = halted.p ? dt_fail(err, DT_HALTED, "%.*s", (int)halted.n, halted.p)
                          : dt_inflight_parse(dt_db_bytes(db, 4), inflight);
        if (status == DT_OK) {
            /* A manual edit may have written any number: send_n must be between 1 and the length of the list. */
            const size_t n = fence->inflight = inflight->n;
            fence->send_n = send_n < 1 || (uint64_t)send_n > n ? n : (size_t)send_n;
        }
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return status == DT_OK ? end : status;
}

/* Halts the shard. Must be called after its row was locked, and only if this leadership or no leader has the shard. */
static dt_status halt_shard(dt_db *db, unsigned shard, const char *reason, struct dt_error *err)
{
    return dt_db_run(db, dt_sql_halt_shard, DT_PARAMS(DT_P_STR(dt_str(reason)), DT_P_INT(shard)), NULL, err);
}

dt_status dt_store_takeover(dt_store *store, const struct dt_leadership *who, struct dt_fence *fence,
                            struct dt_inflight *inflight, struct dt_error *err)
{
    dt_db *db;
    *fence = (struct dt_fence){.shard = who->shard, .token = who->token};
    dt_status status = dt_store_db(store, &db, err);
    /* Uses a new connection: if the server still executes a statement of the old connection, that statement ends first,
     * or loses its lock on the row. */
    DT_THEN(status, dt_db_reconnect(db, err));
    DT_THEN(status, dt_db_begin(db, err));
    if (status != DT_OK)
        return status;
    status = read_shard_row(db, fence, who->index_at, inflight, err);
    if (status == DT_MALFORMED) {
        /* A manual edit broke the in-flight list. The shard's attempts in flight are unknown, so nothing may be
         * claimed. */
        static const char reason[] = "the in-flight list cannot be read";
        status = dt_store_commit(db, halt_shard(db, who->shard, reason, err), err);
        return status == DT_OK ? dt_fail(err, DT_HALTED, "%s", reason) : status;
    }
    DT_THEN(status, dt_db_run(db, dt_sql_write_leadership,
                              DT_PARAMS(DT_P_INT(fence->epoch), DT_P_INT(fence->token), DT_P_INT(fence->version),
                                        DT_P_STR(dt_str(who->owner)), DT_P_STR(dt_str(who->index_at)),
                                        DT_P_INT(fence->index_epoch), DT_P_INT(fence->shard)),
                              NULL, err));
    return dt_store_commit(db, status, err);
}

/* ---- takeover, step 5 ---- */

struct settling {
    dt_db *db;
    const struct dt_config *config;
    const struct dt_findings *found;
    struct dt_fence_row row;
    struct dt_settled *done;
    struct dt_counts counts;
    struct dt_arena topics; /* memory for the names of topics in `counts` */
    struct dt_error *err;
};

/* Ends an attempt that Kafka refused in a batch of one, like a failure that a consumer reports. If a manual edit or a
 * forged result has ended the job, the job's state is kept, but the attempt is still recorded as undeliverable: a
 * client whose cancel was refused as "too late" because of this attempt must be able to read its outcome. */
static dt_status end_undeliverable_attempt(struct settling *s)
{
    const struct dt_findings *f = s->found;
    const int64_t now_ms = s->row.now_ms;
    const struct dt_results_txn txn = {.db = s->db,
                                       .config = s->config,
                                       .map = f->map,
                                       .now_ms = now_ms,
                                       .locking = DT_LOCK_WAITING,
                                       .counts = &s->counts,
                                       .arena = &s->topics};
    struct dt_apply apply = {.result = {.job_id = f->inflight->v[0].id,
                                        .attempt = f->inflight->v[0].attempt,
                                        .status = DT_RESULT_UNDELIVERABLE,
                                        .retry_after_ms = -1,
                                        .error_code = DT_STR_LIT("undeliverable"),
                                        .error_message = dt_str(f->refusal)}};
    dt_status status = dt_results_apply_within(&txn, &apply, 1, s->err);
    s->done->ended = status == DT_OK && apply.outcome == DT_OUTCOME_APPLIED;
    char ids[32];
    snprintf(ids, sizeof(ids), "[%lld]", (long long)apply.result.job_id);
    if (status == DT_OK && !s->done->ended)
        status = dt_edited_end(s->db, s->config, dt_str(ids), &s->counts, &s->topics, s->err);
    if (status == DT_OK && !s->done->ended)
        status = dt_db_run(s->db, dt_sql_record_undeliverable,
                           DT_PARAMS(DT_P_INT(now_ms), DT_P_STR(dt_str(f->refusal)), DT_P_INT(now_ms),
                                     DT_P_INT(apply.result.job_id), DT_P_INT(apply.result.attempt)),
                           NULL, s->err);
    s->done->next_ms = apply.next_at_ms;
    memcpy(s->done->was_ms, apply.was_ms, sizeof(s->done->was_ms));
    s->done->outbox = apply.outbox;
    return status;
}

dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence, const struct dt_findings *findings,
                                   struct dt_settled *done, struct dt_error *err)
{
    struct dt_fence next = *fence;
    struct settling s = {.config = dt_store_config(store), .found = findings, .done = done, .err = err};
    *done = (struct dt_settled){0};
    dt_counts_init(&s.counts);
    dt_status status = dt_fence_begin(store, fence, &s.db, &s.row, err);
    if (DT_UNGUARDED(FENCE_IN_TAKEOVER) && status == DT_DEPOSED)
        status = DT_OK;
    if (status == DT_OK && findings->halt)
        status = halt_shard(s.db, fence->shard, findings->halt, err);
    else if (status == DT_OK) {
        const struct dt_inflight *list = findings->inflight;
        dt_assert_cmp(list->n, ==, next.inflight); /* the row still has the list that dt_store_takeover has read */
        const struct dt_shrink shrink = dt_inflight_taken_over(list, next.send_n, findings->sent, &findings->refused);
        const struct dt_inflight sent = {.v = list->v, .n = shrink.leave};
        dt_assert_cmp(shrink.leave + shrink.send_n, <=, list->n);
        dt_assert(shrink.leave == 0 || findings->sent || (shrink.undeliverable && shrink.leave == 1));
        const struct dt_fence_values values = {.inflight = {.v = list->v + shrink.leave, .n = list->n - shrink.leave},
                                               .send_n = shrink.send_n,
                                               .ledger_offset = findings->next_offset,
                                               .batch_no = next.batch_no};
        status = shrink.undeliverable ? end_undeliverable_attempt(&s)
                                      : dt_deadlines_extend(s.db, &sent, s.row.now_ms, NULL, err);
        done->shrink = shrink;
        DT_THEN(status, dt_fence_write(s.db, &next, &values, err));
    }
    status = dt_counts_commit(s.db, &s.counts, status, err);
    dt_arena_clear(&s.topics);
    if (status == DT_OK) {
        dt_assert(next.epoch == fence->epoch && next.token == fence->token);
        dt_assert_cmp(next.version, ==, fence->version + !findings->halt);
        *fence = next;
    }
    return status;
}
