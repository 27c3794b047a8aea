/* See counts.h. Owns the statement that writes counters; refuses to know why anything changed. */
#include "counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "mysql/statements.h"

_Static_assert(DT_SCHEDULED == 0 && DT_CANCELLED == 4, "columns stand in the order of states");

void dt_counts_init(struct dt_counts *counts)
{
    counts->v = counts->few;
    counts->n = 0;
    counts->cap = DT_COUNT_FEW;
    counts->failed = false;
    memset(counts->last, 0, sizeof(counts->last));
}

void dt_counts_clear(struct dt_counts *counts)
{
    if (counts->v != counts->few)
        free(counts->v);
    dt_counts_init(counts);
}

/* ---- gathering ---- */

static int compare(const void *a, const void *b)
{
    const struct dt_count *x = a;
    const struct dt_count *y = b;
    size_t n = x->topic.n < y->topic.n ? x->topic.n : y->topic.n;
    int order = n && x->topic.p != y->topic.p ? memcmp(x->topic.p, y->topic.p, n) : 0;
    if (order == 0)
        order = (x->topic.n > y->topic.n) - (x->topic.n < y->topic.n);
    return order ? order : (x->piece > y->piece) - (x->piece < y->piece);
}

void dt_counts_merge(struct dt_counts *counts)
{
    struct dt_count *v = counts->v;
    size_t kept = 0;
    if (counts->n > 1)
        qsort(v, counts->n, sizeof(*v), compare);
    for (size_t i = 0; i < counts->n;) {
        struct dt_count sum = v[i++];
        bool changed = false;
        for (; i < counts->n && compare(&sum, &v[i]) == 0; i++) {
            for (int k = 0; k < DT_COUNT_NUMBERS; k++)
                sum.n[k] += v[i].n[k];
            for (int k = 0; k < DT_TALLIES; k++)
                sum.happened[k] += v[i].happened[k];
        }
        for (int k = 0; k < DT_COUNT_NUMBERS; k++)
            changed |= sum.n[k] != 0;
        for (int k = 0; k < DT_TALLIES; k++)
            changed |= sum.happened[k] != 0;
        if (changed)
            v[kept++] = sum;
    }
    counts->n = kept;
    memset(counts->last, 0, sizeof(counts->last));
}

static struct dt_count *count_of(struct dt_counts *counts, struct dt_str topic, unsigned piece)
{
    dt_assert_cmp(piece, <, DT_COUNT_PIECES);
    const size_t last = counts->last[piece];
    dt_assert_cmp(last, <=, counts->n);
    if (last && dt_str_eq(counts->v[last - 1].topic, topic))
        return &counts->v[last - 1];
    if (counts->n == counts->cap) {
        /* Merging first: what many rows say is said of few topics. */
        dt_counts_merge(counts);
        struct dt_count *more = counts->n < counts->cap / 2 ? NULL : malloc(2 * counts->cap * sizeof(*more));
        if (more) {
            memcpy(more, counts->v, counts->n * sizeof(*more));
            if (counts->v != counts->few)
                free(counts->v);
            counts->v = more;
            counts->cap *= 2;
        }
    }
    if (counts->n == counts->cap) {
        counts->failed = true;
        return NULL;
    }
    counts->v[counts->n] = (struct dt_count){.topic = topic, .piece = piece};
    counts->last[piece] = ++counts->n;
    return &counts->v[counts->n - 1];
}

void dt_counts_add(struct dt_counts *counts, struct dt_str topic, unsigned piece, int number, int64_t n)
{
    struct dt_count *c = count_of(counts, topic, piece);
    if (c)
        c->n[number] += n;
}

void dt_counts_make(struct dt_counts *counts, struct dt_str topic, int64_t id)
{
    struct dt_count *c = count_of(counts, topic, dt_count_piece(id));
    if (!c)
        return;
    c->n[DT_COUNT_CREATED]++;
    c->n[DT_SCHEDULED]++;
    c->happened[DT_TALLY_CREATED]++;
}

/* The event that bringing a job into a state is; DT_TALLIES: none. */
static const enum dt_tallied event_of[] = {[DT_SCHEDULED] = DT_TALLIES,
                                           [DT_DISPATCHED] = DT_TALLY_DISPATCHED,
                                           [DT_SUCCEEDED] = DT_TALLY_SUCCEEDED,
                                           [DT_DEAD] = DT_TALLY_DEAD,
                                           [DT_CANCELLED] = DT_TALLY_CANCELLED};

void dt_counts_move(struct dt_counts *counts, struct dt_str topic, int64_t id, enum dt_job_state was,
                    enum dt_job_state is)
{
    dt_assert_cmp(was, <, DT_JOB_STATES);
    dt_assert_cmp(is, <, DT_JOB_STATES);
    struct dt_count *c = was == is ? NULL : count_of(counts, topic, dt_count_piece(id));
    if (!c)
        return;
    c->n[was]--;
    c->n[is]++;
    if (event_of[is] != DT_TALLIES)
        c->happened[event_of[is]]++;
}

void dt_counts_fail(struct dt_counts *counts, struct dt_str topic, int64_t id, int64_t n)
{
    struct dt_count *c = n ? count_of(counts, topic, dt_count_piece(id)) : NULL;
    if (c)
        c->happened[DT_TALLY_FAILED] += n;
}

/* ---- writing ---- */

static dt_status commit_with(dt_db *db, const struct dt_counts *counts, struct dt_error *err)
{
    enum { COLUMNS = 3 + DT_COUNT_NUMBERS };
    struct dt_param few[COLUMNS * 4];
    struct dt_param *params = few;
    struct dt_param *p;
    const int64_t writer = dt_db_number(db) % DT_COUNT_WRITERS;
    if (counts->n > 4)
        params = malloc(counts->n * COLUMNS * sizeof(*params));
    if (!params)
        return dt_fail(err, DT_NOMEM, "out of memory");
    p = params;
    for (size_t i = 0; i < counts->n; i++) {
        const struct dt_count *c = &counts->v[i];
        *p++ = DT_P_STR(c->topic);
        *p++ = DT_P_INT(c->piece);
        *p++ = DT_P_INT(writer);
        for (int k = 0; k < DT_COUNT_NUMBERS; k++)
            *p++ = DT_P_INT(c->n[k]);
    }
    dt_assert_cmp(p - params, ==, counts->n * COLUMNS);
    dt_status status =
        dt_db_commit_with(db, dt_sql_add_counts, (struct dt_param_rows){params, COLUMNS, counts->n}, err);
    if (params != few)
        free(params);
    return status;
}

dt_status dt_counts_commit(dt_db *db, struct dt_counts *counts, dt_status status, struct dt_error *err)
{
    if (db && status == DT_OK) {
        dt_counts_merge(counts);
        status = counts->failed ? dt_fail(err, DT_NOMEM, "out of memory")
                 : counts->n    ? commit_with(db, counts, err)
                                : dt_db_commit(db, err);
    }
    for (size_t i = 0; db && status == DT_OK && i < counts->n; i++)
        dt_tally_add(counts->v[i].topic, counts->v[i].happened);
    if (db && status != DT_OK)
        dt_db_rollback(db);
    dt_counts_clear(counts);
    return status;
}

dt_status dt_store_commit_once(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err)
{
    dt_db *db;
    int64_t now_ms;
    if (counts)
        dt_counts_init(counts);
    dt_status status = dt_store_begin(store, &db, &now_ms, err);
    if (status == DT_OK)
        status = work(arg, db, now_ms, err);
    return counts ? dt_counts_commit(db, counts, status, err) : dt_store_commit(db, status, err);
}

dt_status dt_store_commit_work(dt_store *store, struct dt_counts *counts, dt_work_fn *work, void *arg,
                               struct dt_error *err)
{
    struct dt_again again = {0};
    dt_status status;
    do {
        status = dt_store_commit_once(store, counts, work, arg, err);
    } while (dt_store_again(&again, status));
    return status;
}
