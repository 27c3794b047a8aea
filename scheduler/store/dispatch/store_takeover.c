/*
 * Taking a shard over, and the fence that a leadership holds afterwards.
 *
 * Invariants: a fence is what this leadership wrote last. Every transaction of a leader locks the row first and
 * compares epoch, token and version with it: the epoch fences other leaders, token and version notice a MySQL that went
 * back to an earlier state. Nothing here knows Kafka; what the ledger said comes in as numbers.
 */
#include <stdlib.h>

#include "base/hooks/guard.h"
#include "store/db/id_list.h"
#include "store/dispatch/fence.h"
#include "store/dispatch/store_results.h"
#include "store/jobs/counts.h"
#include "store/jobs/store_row.h"
#include "store/store_internal.h"

static const char lock_row[] = "SELECT s.epoch, s.token, s.version, s.halted, " DT_SQL_NOW_MS ","
                               " (SELECT generation FROM installation), (SELECT topics_version FROM installation)"
                               " FROM shards s WHERE s.shard = ? FOR UPDATE";

/* Does the row that was read say what this leadership wrote last? */
static bool as_written(const dt_db *db, const struct dt_fence *fence)
{
    return DT_GUARD(EPOCH, dt_db_i64(db, 0) == fence->epoch) && DT_GUARD(TOKEN, dt_db_i64(db, 1) == fence->token) &&
           DT_GUARD(VERSION, dt_db_i64(db, 2) == fence->version);
}

static dt_status lock(dt_db *db, const struct dt_fence *fence, struct dt_fence_row *row, struct dt_error *err)
{
    dt_status status = dt_db_query(db, lock_row, DT_PARAMS(DT_P_INT(fence->shard)), err);
    if (status == DT_OK && !dt_db_next(db))
        status = dt_fail(err, DT_NOT_FOUND, "shard %u has no row", fence->shard);
    else if (status == DT_OK) {
        *row = (struct dt_fence_row){dt_db_i64(db, 4), dt_db_i64(db, 5), dt_db_i64(db, 6)};
        if (!as_written(db, fence))
            status = dt_fail(err, DT_DEPOSED,
                             "shard %u: the row says epoch %lld version %lld, this leadership wrote %lld %lld",
                             fence->shard, (long long)dt_db_i64(db, 0), (long long)dt_db_i64(db, 2),
                             (long long)fence->epoch, (long long)fence->version);
        else if (!dt_db_is_null(db, 3))
            status = dt_fail(err, DT_HALTED, "shard %u is halted", fence->shard);
    }
    dt_status end = dt_db_end(db, status == DT_OK || status == DT_NOT_FOUND ? err : NULL);
    return end != DT_OK && (status == DT_OK || status == DT_NOT_FOUND) ? end : status;
}

struct locking {
    const struct dt_fence *fence;
    struct dt_fence_row *row;
};

static dt_status begin_with_lock(dt_store *store, dt_db *db, void *arg, struct dt_error *err)
{
    const struct locking *l = arg;
    int64_t asked_us = dt_clock_mono_us(dt_clock_system());
    dt_status status = dt_db_begin_soon(db, err);
    if (status != DT_OK)
        return status;
    status = lock(db, l->fence, l->row, err);
    if (l->row->now_ms)
        dt_store_heard_now(store, l->row->now_ms, asked_us);
    return status;
}

dt_status dt_fence_begin(dt_store *store, const struct dt_fence *fence, dt_db **db, struct dt_fence_row *row,
                         struct dt_error *err)
{
    struct locking l = {fence, row};
    *row = (struct dt_fence_row){0};
    return dt_store_first(store, db, begin_with_lock, &l, err);
}

static int by_id(const void *a, const void *b)
{
    const struct dt_claim *x = a;
    const struct dt_claim *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

dt_status dt_inflight_format_by_id(const struct dt_claim *claims, size_t n, struct dt_strbuf *out)
{
    struct dt_claim *sorted = malloc((n ? n : 1) * sizeof(*sorted));
    if (!sorted)
        return DT_NOMEM;
    if (n)
        memcpy(sorted, claims, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_id);
    dt_inflight_format(sorted, n, out);
    free(sorted);
    return out->failed ? DT_NOMEM : DT_OK;
}

static const char lock_sent[] = "SELECT j.id, " DT_SQL_NEXT_AT ", " DT_SQL_ACK_MS
                                " FROM JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$[0]', attempt INT PATH '$[1]')) t"
                                " STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id"
                                " WHERE j.state = 'dispatched' AND j.attempt = t.attempt"
                                " ORDER BY t.id FOR UPDATE /*!80001 OF j */ SKIP LOCKED";

/* A row that somebody else holds locked keeps its deadline: a session that was left open must not hold up the shard. */
static dt_status lock_extended(dt_db *db, struct dt_str claims, int64_t now_ms, struct dt_strbuf *ids,
                               struct dt_seen *moved, size_t *n_moved, struct dt_error *err)
{
    dt_status status = dt_db_query(db, lock_sent, DT_PARAMS(DT_P_STR(claims)), err);
    while (status == DT_OK && dt_db_next(db)) {
        struct dt_seen seen = {
            .id = dt_db_i64(db, 0), .hint_ms = dt_db_i64(db, 1), .next_ms = now_ms + dt_db_i64(db, 2)};
        dt_id_list_add(ids, seen.id);
        if (moved && seen.next_ms > seen.hint_ms)
            moved[(*n_moved)++] = seen;
    }
    dt_id_list_end(ids);
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    if (status == DT_OK)
        status = end;
    return status == DT_OK && ids->failed ? DT_NOMEM : status;
}

/* `near` is computed so that it is right whether next_at was assigned before it or not. */
static const char extend_sent[] =
    "UPDATE JSON_TABLE(?, '$[*]' COLUMNS(id BIGINT PATH '$')) t"
    " STRAIGHT_JOIN jobs j FORCE INDEX (PRIMARY) ON j.id = t.id"
    " SET j.near = (j.next_at < ? AND ? + " DT_SQL_ACK_MS " < ?),"
    " j.next_at = " DT_GUARD_SQL(DEADLINE_GREATEST, "GREATEST(j.next_at, ? + " DT_SQL_ACK_MS ")",
                                 "? + " DT_SQL_ACK_MS) " WHERE j.state = 'dispatched'";

dt_status dt_deadlines_extend(dt_db *db, const struct dt_claim *claims, size_t n, int64_t now_ms, struct dt_seen *moved,
                              size_t *n_moved, struct dt_error *err)
{
    struct dt_strbuf list;
    struct dt_strbuf ids;
    dt_strbuf_init(&list);
    dt_strbuf_init(&ids);
    n = DT_UNGUARDED(DEADLINE_RENEWED) ? 0 : n;
    dt_status status = n ? dt_inflight_format_by_id(claims, n, &list) : DT_OK;
    if (status == DT_OK && n)
        status = lock_extended(db, dt_strbuf_str(&list), now_ms, &ids, moved, n_moved, err);
    int64_t near_end_ms = dt_near_end_ms(now_ms);
    if (status == DT_OK && n)
        status = dt_db_run(db, extend_sent,
                           DT_PARAMS(DT_P_STR(dt_strbuf_str(&ids)), DT_P_INT(near_end_ms), DT_P_INT(now_ms),
                                     DT_P_INT(near_end_ms), DT_P_INT(now_ms)),
                           NULL, err);
    dt_strbuf_clear(&list);
    dt_strbuf_clear(&ids);
    return status;
}

/* Compares the row once more, in the statement that writes. */
#define ANY           " AND ? IS NOT NULL"
#define FENCED_BY(is) DT_GUARD_SQL(FENCE_IN_LEADER_TXN, DT_GUARD_SQL(FENCE_IN_TAKEOVER, is, ANY), ANY)
#define FENCED                                                                                                         \
    " WHERE shard = ?" FENCED_BY(DT_GUARD_SQL(EPOCH, " AND epoch = ?", ANY))                                           \
        FENCED_BY(DT_GUARD_SQL(TOKEN, " AND token = ?", ANY))                                                          \
            FENCED_BY(DT_GUARD_SQL(VERSION, " AND version = ?", ANY))
static const char write_row[] =
    "UPDATE shards SET version = version + 1, inflight = ?, send_n = ?, ledger_offset = ?, batch_no = ?" FENCED;

dt_status dt_fence_write(dt_db *db, struct dt_fence *fence, const struct dt_claim *inflight, size_t n, size_t send_n,
                         int64_t ledger_offset, int64_t batch_no, struct dt_error *err)
{
    struct dt_strbuf list;
    uint64_t changed = 0;
    dt_strbuf_init(&list);
    dt_inflight_format(inflight, n, &list);
    dt_status status = list.failed ? DT_NOMEM : DT_OK;
    if (status == DT_OK)
        status = dt_db_run(db, write_row,
                           DT_PARAMS(DT_P_STR(dt_strbuf_str(&list)), DT_P_INT(send_n), DT_P_INT(ledger_offset),
                                     DT_P_INT(batch_no), DT_P_INT(fence->shard), DT_P_INT(fence->epoch),
                                     DT_P_INT(fence->token), DT_P_INT(fence->version)),
                           &changed, err);
    dt_strbuf_clear(&list);
    if (status == DT_OK && changed != 1)
        status = dt_fail(err, DT_DEPOSED, "shard %u: the locked row is not ours", fence->shard);
    if (status != DT_OK)
        return status;
    fence->version++;
    fence->ledger_offset = ledger_offset;
    fence->batch_no = batch_no;
    fence->inflight = n;
    fence->send_n = send_n;
    return DT_OK;
}

/* ---- takeover, step 1 ---- */

static const char read_locked[] = "SELECT epoch, version, ledger_offset, batch_no, inflight, send_n, trim_offset, "
                                  "trim_at, halted, index_at, index_epoch"
                                  " FROM shards WHERE shard = ? FOR UPDATE";

/* Whatever stands in the row: between 1 and the length of the list. */
static size_t sane_send_n(int64_t send_n, size_t inflight)
{
    return send_n < 1 || (uint64_t)send_n > inflight ? inflight : (size_t)send_n;
}

/* A set that was on another endpoint lacks what came meanwhile, whatever marker it carries. */
static int64_t index_epoch(const dt_db *db, const struct dt_fence *fence, const char *index_at)
{
    return dt_str_is(dt_db_bytes(db, 9), index_at) ? dt_db_i64(db, 10) : fence->epoch;
}

static dt_status take_row(dt_db *db, struct dt_fence *fence, const char *index_at, struct dt_inflight *inflight,
                          struct dt_error *err)
{
    struct dt_str halted = dt_db_bytes(db, 8);
    fence->epoch = dt_db_i64(db, 0) + 1;
    fence->version = dt_db_i64(db, 1) + 1;
    fence->ledger_offset = dt_db_i64(db, 2);
    fence->batch_no = dt_db_i64(db, 3);
    fence->trim_offset = dt_db_is_null(db, 6) ? -1 : dt_db_i64(db, 6);
    fence->trim_at_ms = dt_db_i64(db, 7);
    fence->index_epoch = index_epoch(db, fence, index_at);
    if (halted.p)
        return dt_fail(err, DT_HALTED, "%.*s", (int)halted.n, halted.p);
    dt_status status = dt_inflight_parse(dt_db_bytes(db, 4), inflight);
    if (status != DT_OK)
        return status;
    fence->inflight = inflight->n;
    fence->send_n = sane_send_n(dt_db_i64(db, 5), inflight->n);
    return DT_OK;
}

/* MALFORMED: the list cannot be read. */
static dt_status read_row(dt_db *db, struct dt_fence *fence, const char *index_at, struct dt_inflight *inflight,
                          struct dt_error *err)
{
    dt_status status = dt_db_query(db, read_locked, DT_PARAMS(DT_P_INT(fence->shard)), err);
    if (status == DT_OK && !dt_db_next(db))
        status = dt_fail(err, DT_NOT_FOUND, "shard %u has no row", fence->shard);
    else if (status == DT_OK)
        status = take_row(db, fence, index_at, inflight, err);
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return status == DT_OK ? end : status;
}

static const char write_leadership[] =
    "UPDATE shards SET epoch = ?, token = ?, version = ?, owner = ?, index_at = ?, index_epoch = ?,"
    " owner_since = " DT_SQL_NOW_MS " WHERE shard = ?";

static dt_status write_epoch(dt_db *db, const struct dt_fence *fence, const char *owner, const char *index_at,
                             struct dt_error *err)
{
    return dt_db_run(db, write_leadership,
                     DT_PARAMS(DT_P_INT(fence->epoch), DT_P_INT(fence->token), DT_P_INT(fence->version),
                               DT_P_STR(dt_str(owner)), DT_P_STR(dt_str(index_at)), DT_P_INT(fence->index_epoch),
                               DT_P_INT(fence->shard)),
                     NULL, err);
}

static const char write_halt[] = "UPDATE shards SET halted = LEFT(?, 500), version = version + 1 WHERE shard = ?";

/* The row is locked, and ours or nobody's. */
static dt_status halt(dt_db *db, unsigned shard, const char *reason, struct dt_error *err)
{
    return dt_db_run(db, write_halt, DT_PARAMS(DT_P_STR(dt_str(reason)), DT_P_INT(shard)), NULL, err);
}

/* Somebody wrote into it by hand: what is in flight is not known, so nothing may be claimed. */
static dt_status halt_unreadable(dt_db *db, unsigned shard, struct dt_error *err)
{
    static const char reason[] = "the in-flight list cannot be read";
    dt_status status = dt_store_commit(db, halt(db, shard, reason, err), err);
    return status == DT_OK ? dt_fail(err, DT_HALTED, "%s", reason) : status;
}

dt_status dt_store_takeover(dt_store *store, unsigned shard, int64_t token, const char *owner, const char *index_at,
                            struct dt_fence *fence, struct dt_inflight *inflight, struct dt_error *err)
{
    dt_db *db;
    *fence = (struct dt_fence){.shard = shard, .token = token};
    dt_status status = dt_store_db(store, &db, err);
    /* A fresh connection: whatever an old one still had under way is over, or will lose against the row lock. */
    if (status == DT_OK)
        status = dt_db_reconnect(db, err);
    if (status == DT_OK)
        status = dt_db_begin(db, err);
    if (status != DT_OK)
        return status;
    status = read_row(db, fence, index_at, inflight, err);
    if (status == DT_MALFORMED)
        return halt_unreadable(db, shard, err);
    if (status == DT_OK)
        status = write_epoch(db, fence, owner, index_at, err);
    return dt_store_commit(db, status, err);
}

/* ---- step 3, and at rest ---- */

static const char check_row[] = "SELECT s.epoch, s.token, s.version, s.halted, i.generation, i.topics_version, i.shards"
                                " FROM shards s JOIN installation i WHERE s.shard = ?";

dt_status dt_store_fence_check(dt_store *store, const struct dt_fence *fence, struct dt_installation *inst,
                               struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status == DT_OK)
        status = dt_db_query(db, check_row, DT_PARAMS(DT_P_INT(fence->shard)), err);
    if (status != DT_OK)
        return status;
    if (!dt_db_next(db))
        status = dt_fail(err, DT_DEPOSED, "shard %u has no row", fence->shard);
    else if (dt_db_i64(db, 0) != fence->epoch || dt_db_i64(db, 1) != fence->token || dt_db_i64(db, 2) != fence->version)
        status = dt_fail(err, DT_DEPOSED, "shard %u: the row says epoch %lld, this leadership has %lld", fence->shard,
                         (long long)dt_db_i64(db, 0), (long long)fence->epoch);
    else if (!dt_db_is_null(db, 3))
        status = dt_fail(err, DT_HALTED, "shard %u is halted", fence->shard);
    else {
        inst->generation = dt_db_i64(db, 4);
        inst->topics_version = dt_db_i64(db, 5);
        inst->shards = (unsigned)dt_db_i64(db, 6);
    }
    dt_status end = dt_db_end(db, status == DT_OK ? err : NULL);
    return end != DT_OK ? end : status;
}

/* ---- step 5 ---- */

static const char record_undeliverable[] =
    "UPDATE jobs SET attempt_status = 'undeliverable', error_at = ?, error_code = 'undeliverable',"
    " error_message = LEFT(?, 1000), updated_at = ?, version = version + 1 WHERE id = ? AND attempt = ?";

/* What is to be counted with the COMMIT, and the topics that it names. */
struct counted {
    struct dt_counts counts;
    struct dt_arena topics;
};

/*
 * What Kafka refused alone ends here: by the same judge as a failure that a consumer reports. Who was answered "too
 * late" with this attempt must find out what became of it, also when a hand or a forged result has ended it meanwhile:
 * then the state stays theirs.
 */
static dt_status end_undeliverable(dt_db *db, const struct dt_config *config, const struct dt_findings *f,
                                   int64_t now_ms, struct dt_settled *done, struct counted *counted,
                                   struct dt_error *err)
{
    struct dt_apply apply = {.result = {.job_id = f->inflight->v[0].id,
                                        .attempt = f->inflight->v[0].attempt,
                                        .status = DT_RESULT_UNDELIVERABLE,
                                        .retry_after_ms = -1,
                                        .error_code = DT_STR_LIT("undeliverable"),
                                        .error_message = dt_str(f->refusal)}};
    dt_status status =
        dt_results_apply_within(db, config, f->map, now_ms, &apply, 1, &counted->counts, &counted->topics, err);
    done->ended = status == DT_OK && apply.outcome == DT_OUTCOME_APPLIED;
    if (status == DT_OK && !done->ended)
        status = dt_db_run(db, record_undeliverable,
                           DT_PARAMS(DT_P_INT(now_ms), DT_P_STR(dt_str(f->refusal)), DT_P_INT(now_ms),
                                     DT_P_INT(apply.result.job_id), DT_P_INT(apply.result.attempt)),
                           NULL, err);
    done->next_ms = apply.next_at_ms;
    memcpy(done->was_ms, apply.was_ms, sizeof(done->was_ms));
    done->outbox = apply.outbox;
    return status;
}

static dt_status settle(dt_db *db, const struct dt_config *config, const struct dt_fence *fence, struct dt_fence *next,
                        const struct dt_findings *f, int64_t now_ms, struct dt_settled *done, struct counted *counted,
                        struct dt_error *err)
{
    struct dt_shrink shrink = dt_inflight_taken_over(f->inflight, fence->send_n, f->in_ledger, &f->refused);
    dt_status status = shrink.undeliverable
                           ? end_undeliverable(db, config, f, now_ms, done, counted, err)
                           : dt_deadlines_extend(db, f->inflight->v, shrink.leave, now_ms, NULL, NULL, err);
    done->shrink = shrink;
    if (status == DT_OK)
        status = dt_fence_write(db, next, f->inflight->v + shrink.leave, f->inflight->n - shrink.leave, shrink.send_n,
                                f->next_offset, fence->batch_no, err);
    return status;
}

dt_status dt_store_takeover_settle(dt_store *store, struct dt_fence *fence, const struct dt_findings *findings,
                                   struct dt_settled *done, struct dt_error *err)
{
    dt_db *db;
    struct dt_fence_row row;
    struct dt_fence next = *fence;
    struct counted counted;
    *done = (struct dt_settled){0};
    dt_counts_init(&counted.counts);
    dt_arena_init(&counted.topics);
    dt_status status = dt_fence_begin(store, fence, &db, &row, err);
    if (DT_UNGUARDED(FENCE_IN_TAKEOVER) && status == DT_DEPOSED)
        status = DT_OK;
    if (status == DT_OK && findings->halt)
        status = halt(db, fence->shard, findings->halt, err);
    else if (status == DT_OK)
        status = settle(db, dt_store_config(store), fence, &next, findings, row.now_ms, done, &counted, err);
    status = dt_counts_commit(db, &counted.counts, status, err);
    dt_arena_clear(&counted.topics);
    if (status == DT_OK)
        *fence = next;
    return status;
}

/* ---- trimming ---- */

static const char write_trim[] = "UPDATE shards SET version = version + 1, trim_offset = ledger_offset, trim_at = ?"
                                 " WHERE shard = ? AND epoch = ? AND token = ? AND version = ?";

dt_status dt_store_trimmed(dt_store *store, struct dt_fence *fence, struct dt_error *err)
{
    dt_db *db;
    struct dt_fence_row row;
    dt_status status = dt_fence_begin(store, fence, &db, &row, err);
    if (status == DT_OK)
        status = dt_db_run(db, write_trim,
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

/* ---- the end ---- */

static const char write_no_owner[] =
    "UPDATE shards SET owner = NULL, owner_since = NULL WHERE shard = ? AND epoch = ? AND token = ?";

dt_status dt_store_step_down(dt_store *store, const struct dt_fence *fence, struct dt_error *err)
{
    dt_db *db;
    dt_status status = dt_store_db(store, &db, err);
    if (status != DT_OK)
        return status;
    return dt_db_run(db, write_no_owner,
                     DT_PARAMS(DT_P_INT(fence->shard), DT_P_INT(fence->epoch), DT_P_INT(fence->token)), NULL, err);
}
