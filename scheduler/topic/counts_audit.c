/*
 * The audit of job_counts: recounts `jobs` a piece at a time (counts.h), and repairs the counters where manual edits,
 * or faults, have changed rows behind them.
 *
 *     snapshot       the counters of the piece, then its rows in slices: all as committed at one moment
 *     difference     rows − counters. No transaction of ours changes it: each changes both alike
 *     correction     added to the counters in a transaction of its own, however much they have changed meanwhile
 *
 * Invariants: nothing is locked while rows are counted; a difference is added once: of two audits of a piece whose
 * snapshots overlap only one raises the version that both have read; a piece is left alone whenever anything went
 * wrong.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "counts.h"
#include "counts_audit.h"
#include "mysql/statements.h"
#include "store/store_internal.h"

struct dt_audit {
    dt_db *db; /* while a piece is counted: the snapshot is a transaction that stays open from step to step */
    unsigned piece;
    int64_t version, next_id, rows, corrected, found;
    struct dt_counts difference;
    struct dt_arena topics;
    struct dt_str topic; /* the latest copy */
};

dt_status dt_audit_new(dt_audit **out)
{
    dt_audit *a = *out = calloc(1, sizeof(*a));
    if (!a)
        return DT_NOMEM;
    dt_counts_init(&a->difference);
    dt_arena_init(&a->topics);
    return DT_OK;
}

void dt_audit_free(dt_audit *a)
{
    if (!a)
        return;
    dt_counts_clear(&a->difference);
    dt_arena_clear(&a->topics);
    free(a);
}

/* ---- in the snapshot ---- */

static dt_status topic_of_row(dt_audit *a, unsigned column, struct dt_error *err)
{
    struct dt_str topic = dt_db_bytes(a->db, column);
    if (!a->topic.p || !dt_str_eq(a->topic, topic))
        a->topic = dt_arena_copy(&a->topics, topic);
    return a->topic.p ? DT_OK : dt_fail(err, DT_NOMEM, "out of memory");
}

/* Opens the snapshot and subtracts the counters of the piece. */
static dt_status begin_piece(dt_audit *a, dt_store *store, struct dt_error *err)
{
    a->next_id = 0;
    a->rows = 0;
    dt_assert_cmp(a->difference.n, ==, 0);
    dt_status status = dt_store_db(store, &a->db, err);
    if (status == DT_OK)
        status = dt_db_begin_snapshot(a->db, err);
    if (status == DT_OK)
        status = dt_db_query(a->db, dt_sql_select_audit, DT_PARAMS(DT_P_INT(a->piece)), err);
    if (status != DT_OK)
        return status;
    bool found = dt_db_next(a->db);
    a->version = found ? dt_db_i64(a->db, 0) : 0;
    a->corrected = found ? dt_db_i64(a->db, 1) : 0;
    status = dt_db_end(a->db, err);
    if (status == DT_OK)
        status = dt_db_query(a->db, dt_sql_select_counters, DT_PARAMS(DT_P_INT(a->piece)), err);
    while (status == DT_OK && dt_db_next(a->db)) {
        status = topic_of_row(a, 0, err);
        for (int s = 0; status == DT_OK && s < DT_JOB_STATES; s++)
            dt_counts_add(&a->difference, a->topic, a->piece, s, -dt_db_i64(a->db, (unsigned)s + 1));
    }
    dt_status ended = dt_db_end(a->db, status != DT_OK ? NULL : err);
    return status != DT_OK ? status : ended;
}

/* Moves next_id to the first row of the piece from it on; *there is false if all of them are counted. */
static dt_status find_day(dt_audit *a, bool *there, struct dt_error *err)
{
    for (*there = true; *there;) {
        int64_t id;
        dt_status status =
            dt_db_read_number(a->db, dt_sql_find_next_row, DT_PARAMS(DT_P_INT(a->next_id)), there, &id, err);
        if (*there)
            a->next_id = id;
        unsigned ahead = (a->piece + DT_COUNT_PIECES - dt_count_piece(a->next_id)) % DT_COUNT_PIECES;
        if (status != DT_OK || !*there || ahead == 0)
            return status;
        int64_t day = (int64_t)dt_job_home_day(a->next_id) + ahead;
        if (day > INT64_MAX >> DT_SEQUENCE_BITS)
            *there = false;
        else
            a->next_id = day << DT_SEQUENCE_BITS;
    }
    return DT_OK;
}

static dt_status add_slice(dt_audit *a, size_t limit, size_t *rows, struct dt_error *err)
{
    const int64_t last = a->next_id | ((INT64_C(1) << DT_SEQUENCE_BITS) - 1);
    dt_status status =
        dt_db_query(a->db, dt_sql_count_rows, DT_PARAMS(DT_P_INT(a->next_id), DT_P_INT(last), DT_P_INT(limit)), err);
    int64_t highest = a->next_id;
    for (*rows = 0; status == DT_OK && dt_db_next(a->db);) {
        int64_t state = dt_db_i64(a->db, 1) - 1;
        int64_t n = dt_db_i64(a->db, 2);
        int64_t id = dt_db_i64(a->db, 3);
        status = topic_of_row(a, 0, err);
        if (status == DT_OK && state >= 0 && state < DT_JOB_STATES)
            dt_counts_add(&a->difference, a->topic, a->piece, (int)state, n);
        highest = id > highest ? id : highest;
        *rows += (size_t)n;
    }
    dt_status ended = dt_db_end(a->db, status != DT_OK ? NULL : err);
    a->rows += (int64_t)*rows;
    const int64_t counted = *rows < limit ? last : highest;
    a->next_id = counted < INT64_MAX ? counted + 1 : -1; /* -1: behind the last day that there can be */
    return status != DT_OK ? status : ended;
}

/* ---- correcting ---- */

static int64_t wrong(const struct dt_count *c, int64_t *net)
{
    int64_t more = 0;
    int64_t fewer = 0;
    for (int s = 0; s < DT_JOB_STATES; s++)
        *(c->n[s] > 0 ? &more : &fewer) += c->n[s];
    *net = more + fewer;
    return more > -fewer ? more : -fewer;
}

static dt_status commit_correction(dt_audit *a, struct dt_error *err)
{
    enum { COLUMNS = 5 + DT_JOB_STATES };
    const struct dt_counts *d = &a->difference;
    struct dt_param *params = calloc(d->n, COLUMNS * sizeof(*params));
    struct dt_param *p = params;
    if (!params)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < d->n; i++) {
        int64_t net;
        int64_t corrected = wrong(&d->v[i], &net);
        *p++ = DT_P_STR(d->v[i].topic);
        *p++ = DT_P_INT(a->piece);
        *p++ = DT_P_INT(dt_db_number(a->db) % DT_COUNT_WRITERS);
        for (int s = 0; s < DT_JOB_STATES; s++)
            *p++ = DT_P_INT(d->v[i].n[s]);
        *p++ = DT_P_INT(net);
        *p++ = DT_P_INT(corrected);
    }
    dt_assert_cmp(p - params, ==, d->n * COLUMNS);
    dt_status status =
        dt_db_commit_with(a->db, dt_sql_correct_counts, (struct dt_param_rows){params, COLUMNS, d->n}, err);
    free(params);
    return status;
}

static dt_status correct(dt_audit *a, struct dt_audited *out, struct dt_error *err)
{
    int64_t now_ms = 0;
    int64_t net;
    uint64_t changed = 0;
    dt_counts_merge(&a->difference);
    if (a->difference.failed)
        return dt_fail(err, DT_NOMEM, "out of memory");
    for (size_t i = 0; i < a->difference.n; i++)
        out->corrected += wrong(&a->difference.v[i], &net);
    a->corrected += out->corrected;
    a->found = out->corrected;
    dt_status status = dt_db_begin_at(a->db, &now_ms, err);
    if (status != DT_OK)
        return status;
    status = dt_db_run(a->db, a->version ? dt_sql_raise_audit : dt_sql_insert_audit,
                       DT_PARAMS(DT_P_INT(now_ms), DT_P_INT(a->rows), DT_P_INT(a->corrected), DT_P_INT(a->found),
                                 DT_P_INT(a->piece), DT_P_INT(a->version)),
                       &changed, err);
    if (status == DT_EXISTS || (status == DT_OK && changed != 1))
        status = dt_fail(err, DT_BUSY, "piece %u was audited by another one", a->piece);
    if (status == DT_OK)
        status = a->difference.n ? commit_correction(a, err) : dt_db_commit(a->db, err);
    return status;
}

/* ---- a step ---- */

void dt_audit_end(dt_audit *a)
{
    if (a->db)
        dt_db_rollback(a->db);
    a->db = NULL;
    a->topic = DT_STR_NONE;
    dt_counts_clear(&a->difference);
    dt_arena_reset(&a->topics);
}

dt_status dt_audit_step(dt_audit *a, dt_store *store, size_t limit, struct dt_audited *out, struct dt_error *err)
{
    bool there = true;
    size_t counted = 0;
    size_t rows;
    dt_assert_cmp(a->piece, <, DT_COUNT_PIECES);
    dt_status status = a->db ? DT_OK : begin_piece(a, store, err);
    *out = (struct dt_audited){.piece = a->piece};
    while (status == DT_OK && there && counted < limit) {
        status = find_day(a, &there, err);
        if (status != DT_OK || !there)
            break;
        status = add_slice(a, limit - counted, &rows, err);
        counted += rows;
        there = a->next_id >= 0;
    }
    const bool done = status == DT_OK && !there;
    if (status == DT_OK && done) {
        dt_db_rollback(a->db);
        status = correct(a, out, err);
    }
    if (status != DT_OK)
        *out = (struct dt_audited){.piece = a->piece};
    else if (done)
        *out = (struct dt_audited){a->piece, true, a->rows, out->corrected};
    if (status != DT_OK || done)
        dt_audit_end(a);
    if (done)
        a->piece = (a->piece + 1) % DT_COUNT_PIECES;
    return status;
}
