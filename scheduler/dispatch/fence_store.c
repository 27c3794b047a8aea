/*
 * The fence that a leadership holds: locking its row, comparing it, writing it.
 *
 * Owns:            the answer to "is the row still ours", and the columns of `shards` that a leader writes while it
 *                  leads.
 * Refuses to know: how a fence comes about (store_takeover.c), Kafka, and jobs.
 *
 * Invariants: a fence is what this leadership wrote last. Every transaction of a leader but the last, which only lets
 * go (dt_store_step_down), locks the row first and compares epoch, token and version with it, and once more in the
 * statement that writes: the epoch fences other leaders, token and version notice a MySQL that went back to an earlier
 * state.
 */
#include <stdio.h>

#include "base/assert.h"
#include "base/guard.h"
#include "leader_parts.h"
#include "fence.h"
#include "job/archive/archive.h"
#include "job/results/results.h"
#include "mysql/statements.h"
#include "store/store_internal.h"
#include "topic/counts.h"

/* Says whether the row is as this leadership wrote it last. Its first columns are epoch, token, version, halted. */
static dt_status judge_row(const dt_db *db, const struct dt_fence *fence, struct dt_error *err)
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

static dt_status begin_with_lock(dt_store *store, dt_db *db, void *arg, struct dt_error *err)
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
        status = judge_row(db, l->fence, err);
    }
    /* Whether the row could be read to its end counts unless it was read and said no. */
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
    return dt_store_first(store, db, begin_with_lock, &l, err);
}

dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_fence_values *values, struct dt_error *err)
{
    struct dt_strbuf list;
    uint64_t changed = 0;
    dt_assert_cmp(values->send_n, <=, values->inflight.n);
    dt_assert(values->send_n > 0 || values->inflight.n == 0);
    dt_assert_cmp(values->batch_no - fence->batch_no, <=, 1);
    dt_strbuf_init(&list);
    dt_inflight_format(values->inflight.v, values->inflight.n, &list);
    dt_status status = list.failed ? DT_NOMEM : DT_OK;
    if (status == DT_OK)
        status =
            dt_db_run(db, dt_sql_write_fence,
                      DT_PARAMS(DT_P_STR(dt_strbuf_str(&list)), DT_P_INT(values->send_n),
                                DT_P_INT(values->ledger_offset), DT_P_INT(values->batch_no), DT_P_INT(fence->shard),
                                DT_P_INT(fence->epoch), DT_P_INT(fence->token), DT_P_INT(fence->version)),
                      &changed, err);
    dt_strbuf_clear(&list);
    if (status == DT_OK && changed != 1)
        status = dt_fail(err, DT_DEPOSED, "shard %u: the locked row is not ours", fence->shard);
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
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, dt_sql_check_fence, DT_PARAMS(DT_P_INT(fence->shard)), err);
    if (status != DT_OK)
        return status;
    if (!dt_db_next(db))
        status = dt_fail(err, DT_DEPOSED, "shard %u has no row", fence->shard);
    else
        status = judge_row(db, fence, err);
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
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_write_trim_offset,
                           DT_PARAMS(DT_P_INT(row.now_ms), DT_P_INT(fence->shard), DT_P_INT(fence->epoch),
                                     DT_P_INT(fence->token), DT_P_INT(fence->version)),
                           NULL, err);
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
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK)
        return status;
    return dt_db_run(db, dt_sql_remove_owner,
                     DT_PARAMS(DT_P_INT(fence->shard), DT_P_INT(fence->epoch), DT_P_INT(fence->token)), NULL, err);
}

/*
 * Taking a shard over: the row of the shard, at the beginning and at the end of a takeover.
 *
 * Owns:            a new leadership's epoch and token; what becomes of the list that it finds; halting.
 * Refuses to know: the delivery: what its record said comes in as numbers.
 *
 * Invariants: an epoch is one more than the row had, and is written before the ledger is asked; a batch leaves the list
 * only if the ledger has it, or if the delivery refused it alone.
 */

/* ---- step 1 ---- */

/* MALFORMED: the list cannot be read. */
static dt_status read_row(dt_db *db, struct dt_fence *fence, const char *index_at, struct dt_inflight *inflight,
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
        /* A set that was on another endpoint lacks what came meanwhile, whatever marker it carries. */
        fence->index_epoch = dt_str_is(dt_db_bytes(db, 9), index_at) ? dt_db_i64(db, 10) : fence->epoch;
        status = halted.p ? dt_fail(err, DT_HALTED, "%.*s", (int)halted.n, halted.p)
                          : dt_inflight_parse(dt_db_bytes(db, 4), inflight);
        if (status == DT_OK) {
            /* Whatever the row says, send_n is between 1 and the length of the list. */
            const size_t n = fence->inflight = inflight->n;
            fence->send_n = send_n < 1 || (uint64_t)send_n > n ? n : (size_t)send_n;
        }
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return status == DT_OK ? end : status;
}

/* The row is locked, and ours or nobody's. */
static dt_status halt(dt_db *db, unsigned shard, const char *reason, struct dt_error *err)
{
    return dt_db_run(db, dt_sql_halt_shard, DT_PARAMS(DT_P_STR(dt_str(reason)), DT_P_INT(shard)), NULL, err);
}

dt_status dt_store_takeover(dt_store *store, const struct dt_leadership *who, struct dt_fence *fence,
                            struct dt_inflight *inflight, struct dt_error *err)
{
    dt_db *db;
    *fence = (struct dt_fence){.shard = who->shard, .token = who->token};
    dt_status status = dt_store_db(store, &db, err);
    /* A fresh connection: whatever an old one still had under way is over, or will lose against the row lock. */
    if (status == DT_OK)
        status = dt_db_reconnect(db, err);
    if (status == DT_OK)
        status = dt_db_begin(db, err);
    if (status != DT_OK)
        return status;
    status = read_row(db, fence, who->index_at, inflight, err);
    if (status == DT_MALFORMED) {
        /* A manual edit broke the list: what is in flight is not known, so nothing may be claimed. */
        static const char reason[] = "the in-flight list cannot be read";
        status = dt_store_commit(db, halt(db, who->shard, reason, err), err);
        return status == DT_OK ? dt_fail(err, DT_HALTED, "%s", reason) : status;
    }
    if (status == DT_OK)
        status = dt_db_run(db, dt_sql_write_leadership,
                           DT_PARAMS(DT_P_INT(fence->epoch), DT_P_INT(fence->token), DT_P_INT(fence->version),
                                     DT_P_STR(dt_str(who->owner)), DT_P_STR(dt_str(who->index_at)),
                                     DT_P_INT(fence->index_epoch), DT_P_INT(fence->shard)),
                           NULL, err);
    return dt_store_commit(db, status, err);
}

/* ---- step 5 ---- */

/* Step 5 under way. */
struct settling {
    dt_db *db;
    const struct dt_config *config;
    const struct dt_findings *found;
    struct dt_fence *next; /* as the row will say */
    struct dt_fence_row row;
    struct dt_settled *done;
    struct dt_counts counts;
    struct dt_arena topics; /* that counts names */
    struct dt_error *err;
};

/*
 * Ends an attempt that Kafka refused alone: by the same judge as a failure that a consumer reports. Who was answered
 * "too late" with this attempt must find out what became of it, also when a manual edit or a forged result has ended it
 * meanwhile: then the state stays theirs.
 */
static dt_status end_undeliverable(struct settling *s)
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

static dt_status settle(struct settling *s)
{
    const struct dt_findings *f = s->found;
    dt_assert_cmp(f->inflight->n, ==, s->next->inflight); /* as the row has it since step 1 */
    const struct dt_shrink shrink = dt_inflight_taken_over(f->inflight, s->next->send_n, f->sent, &f->refused);
    const struct dt_inflight sent = {.v = f->inflight->v, .n = shrink.leave};
    dt_assert_cmp(shrink.leave + shrink.send_n, <=, f->inflight->n);
    dt_assert(shrink.leave == 0 || f->sent || (shrink.undeliverable && shrink.leave == 1));
    const struct dt_fence_values values = {
        .inflight = {.v = f->inflight->v + shrink.leave, .n = f->inflight->n - shrink.leave},
        .send_n = shrink.send_n,
        .ledger_offset = f->next_offset,
        .batch_no = s->next->batch_no};
    dt_status status =
        shrink.undeliverable ? end_undeliverable(s) : dt_deadlines_extend(s->db, &sent, s->row.now_ms, NULL, s->err);
    s->done->shrink = shrink;
    return status == DT_OK ? dt_fence_write(s->db, s->next, &values, s->err) : status;
}

dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence, const struct dt_findings *findings,
                                   struct dt_settled *done, struct dt_error *err)
{
    struct dt_fence next = *fence;
    struct settling s = {.config = dt_store_config(store), .found = findings, .next = &next, .done = done, .err = err};
    *done = (struct dt_settled){0};
    dt_counts_init(&s.counts);
    dt_arena_init(&s.topics);
    dt_status status = dt_fence_begin(store, fence, &s.db, &s.row, err);
    if (DT_UNGUARDED(FENCE_IN_TAKEOVER) && status == DT_DEPOSED)
        status = DT_OK;
    if (status == DT_OK && findings->halt)
        status = halt(s.db, fence->shard, findings->halt, err);
    else if (status == DT_OK)
        status = settle(&s);
    status = dt_counts_commit(s.db, &s.counts, status, err);
    dt_arena_clear(&s.topics);
    if (status == DT_OK) {
        dt_assert(next.epoch == fence->epoch && next.token == fence->token);
        dt_assert_cmp(next.version, ==, fence->version + !findings->halt);
        *fence = next;
    }
    return status;
}
